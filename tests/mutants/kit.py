"""Helpers of the passes of the corpus, all of them graphad's public interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from graphad.ir import Builder, Graph, Op, Value
from graphad.types import TENSOR

Function = Callable[..., Any]


def operators(graph: Graph, *types: str) -> Iterator[Op]:
    """The operators of some types, in a graph and those nested in it."""
    for inner in list(graph.tree()):
        yield from [op for op in inner.ops if op.type in types]


def is_typed(op: Op) -> bool:
    """Whether an operator reads and writes tensors of known types only."""
    return all(value.type is not None and value.kind == TENSOR for value in (*op.reads(), *op.writes()))


def written_as(op: Op, function: Function, rule: str = "") -> bool:
    """Let an operator's only output be computed by a function of its inputs instead; return whether that was done.

    It is not where a type is not known, where the function returns None, or where the result would be of another type.
    """
    graph, outputs = op.graph, list(op.writes())
    if not is_typed(op) or len(outputs) != 1 or not graph.allows(rule or "written-as", op):
        return False
    out = outputs[0]
    build = Builder(graph, out.name, before=op, role=op.role)
    result = function(*(build.symbol(value) for value in op.reads()))
    if result is not None and result.value in build.made and (result.shape, result.dtype) == (out.shape, out.dtype):
        takes_over(op, out, result.value)
        return True
    unused = {writer for value in build.made for writer in value.writers}
    for each in [each for each in graph.ops if each in unused][::-1]:
        graph.remove_op(each)
    return False


def takes_over(op: Op, out: Value, new: Value) -> None:
    """Let the writer of a new value write what an operator wrote, and remove the operator."""
    graph, writer = op.graph, new.writers[0]
    for slot, values in list(writer.outputs.items()):
        graph.set_outputs(writer, slot, [out if value is new else value for value in values])
    for slot in list(op.outputs):
        graph.set_outputs(op, slot, ())
    writer.forward, writer.source = op.forward, op.source
    graph.remove_op(op)


def number(value: Value) -> float | None:
    """The number that a constant is filled with, None if it is no constant."""
    writer = value.writer
    return float(writer.attrs.get("value", 0.0)) if writer is not None and writer.type == "fill_constant" else None


def attribute(op: Op, name: str) -> Any:
    """An attribute as it is given, else its default."""
    assert op.definition is not None
    return op.definition.attr(name, op.attrs)
