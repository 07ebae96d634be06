"""Replace one value by another: its uses, the name it is requested by, and whether gradients stop there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphad.graph.nodes import Op, Value
from graphad.program import Variable
from graphad.types import FLOATS

if TYPE_CHECKING:
    from graphad.graph.graph import Graph


def stopped(graph: Graph, old: Value, new: Value) -> Value:
    """The value that can replace ``old``: gradients stop there if they stop at ``old``.

    That is ``new``, unless something reads it already through which gradients flow: then a copy of it.
    """
    if not old.stop_gradient or new.stop_gradient or not _may_have_gradient(old):
        return new
    assert old.var is not None
    if new.given or new.persistable or new.readers or graph.is_observed(new):
        copy = graph.add_version(graph.values.numbered(old.name, "{}@STOP@{}"), old.shape, old.dtype)
        copy.kind = old.kind
        writer = old.writer or new.writer
        role = None if writer is None else writer.role
        graph.add_op("assign", {"X": [new]}, {"Out": [copy]}, before=_after(graph, writer), role=role)
        new = copy
    new.var = Variable.trusted(old.var.block, new.name, new.shape, new.dtype, True, new.kind)
    return new


def _after(graph: Graph, writer: Op | None) -> Op | None:
    """The operator after a writer; the first one if there is no writer."""
    return graph.ops.first if writer is None else writer.next


def _may_have_gradient(value: Value) -> bool:
    return value.dtype is None or value.dtype in FLOATS


def transfer_name(graph: Graph, old: Value, new: Value) -> None:
    """Give ``new`` the name of ``old``; ``old`` becomes a copy of it where that is not possible.

    A value that is given from outside or requested itself keeps its own name, one at which gradients stop would no longer do
    so under the name of one where they flow, and no operator writes a name twice.
    """
    flows = new.stop_gradient and not old.stop_gradient and _may_have_gradient(new)
    if new.given or new.persistable or graph.is_observed(new) or flows or _writes_name(new, old):
        _copy(graph, old, new)
    else:
        _rename(graph, old, new)


def _writes_name(new: Value, old: Value) -> bool:
    """Whether the operator that writes ``new`` writes another value under the name of ``old``."""
    return any(value.name == old.name and value not in (old, new) for writer in new.writers for value in writer.writes())


def _copy(graph: Graph, old: Value, new: Value) -> None:
    writer = old.writers[0]
    spare = graph.add_version(graph.values.numbered(old.name, "{}@OLD@{}"), old.shape, old.dtype)
    spare.kind = old.kind
    graph.add_op("assign", {"X": [new]}, {"Out": [old]}, before=writer.next, role=writer.role)  # a value without a writer would be removed
    for slot, values in list(writer.outputs.items()):
        if old in values:
            graph.set_outputs(writer, slot, [spare if v is old else v for v in values])


def _rename(graph: Graph, old: Value, new: Value) -> None:
    graph.values.discard(new)
    graph.values.exchange(old, new)
    new.name, old.name = old.name, graph.values.numbered(old.name, "{}@OLD@{}")
    graph.values.add(old)
    new.var, old.var = old.var, None
    graph.targets = {new if v is old else v: None for v in graph.targets}
