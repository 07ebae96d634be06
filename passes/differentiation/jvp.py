"""Forward mode: for every operator on the path, operators that compute its tangents.

    x ─▶ tanh ─▶ h ─▶ mul ─▶ y        ⇒      x ─▶ tanh ─▶ h ─▶ mul ─▶ y
                 w ──▲                                    │    w ──▲
                                             x@TANGENT ─▶ tanh_grad ─▶ h@TANGENT ─▶ mul ─▶ y@TANGENT
                                                                       w ────────────▲

The tangents come right after their primals, so no residuals are kept for them: loops carry the tangents of what they carry,
branches return the tangents of what they return (R. E. Wengert, "A simple automatic derivative evaluation program", 1964).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphad.errors import InvalidValue
from graphad.graph import Graph, Op, Value
from graphad.graph.regions import is_grad_op, operands
from graphad.passes.backward.expand_grad_ops import ExpandGradOps
from graphad.passes.backward.find_op_path import FindOpPath, OpPath, source_value
from graphad.passes.differentiation.nesting import follow
from graphad.passes.differentiation.tangents import TANGENT, Tangents, check_start
from graphad.rewriting import Pass
from graphad.types import TENSOR


@dataclass(frozen=True)
class Jvp(Pass):
    """Add the tangents of targets: the product of their Jacobian with tangents of inputs.

    The tangent of a target ``y`` is a new target, ``y@TANGENT``. ``graph.analyses[Tangents]`` has it, should that name be taken.

    Args:
        targets: names of the values whose tangents are requested.
        inputs: names of the values that move; empty means every value given from outside that has not stop_gradient, except
            for one of unknown extents that blocks only pass through, which may have no value.
        tangents: for each input the name of its tangent; one that the graph has not becomes an input of it, to be fed. ``""``,
            or no names at all, is a tangent of ones.

    Raises:
        ValueError: numbers or types of inputs and tangents do not fit; an operator on the way has no gradient rule.
    """

    name = "jvp"
    establishes = (Tangents,)
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    tangents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.tangents and len(self.tangents) != len(self.inputs):
            raise InvalidValue(f"{len(self.tangents)} tangents are given for {len(self.inputs)} inputs")

    def apply(self, graph: Graph) -> bool:
        for name in self.inputs:
            graph.given(name)
        path = self._path(graph)
        made = Tangents(path)
        for value, start in list(self._seeds(graph, path)):
            made.start(value, start)
        follow(made, path)
        for target in map(graph.value, self.targets):
            _ask_for(graph, made, target)
        graph.analyses[Tangents] = made
        return bool(self.targets)

    def _path(self, graph: Graph) -> OpPath:
        """The operators on the way from the inputs to the targets, gradients among them expanded."""
        find = FindOpPath(self.targets, self.inputs)
        find.apply(graph)
        if any(is_grad_op(op) for each in graph.tree() for op in each.ops):
            ExpandGradOps().apply(graph)
            find.apply(graph)
        path: OpPath = graph.analyses[OpPath]
        return path

    def _seeds(self, graph: Graph, path: OpPath) -> Iterator[tuple[Value, Value]]:
        values = [source_value(graph, name) for name in self.inputs] or list(path.sources)
        for value, name in zip(values, self.tangents or ("",) * len(values), strict=True):
            start = _named_start(graph, value, name) if name else None
            if value in path.active and (start is not None or self.inputs or is_needed(value) or has_known_extents(value)):
                yield value, _ones(graph, value) if start is None else start


def is_needed(value: Value) -> bool:
    """Whether a value has to be there: an operator outside of all blocks reads it, or one inside cannot do without it.

    What blocks only pass through, or read if it is there, may have no value at all.
    """
    return bool(value.writers) or value.persistable or any(_needs(op, value) for op in value.readers)


def has_known_extents(value: Value) -> bool:
    return value.kind == TENSOR and value.shape is not None and -1 not in value.shape


def _needs(op: Op, value: Value) -> bool:
    if not op.graphs:
        return op.graph.parent is None or op.row is None or not op.row.partial
    places = [i for i, operand in enumerate(operands(op)) if operand is value]
    inner = [graph.inputs[i] for graph in op.graphs.values() for i in places if i < len(graph.inputs)]
    return not places or any(_needs(reader, inside) for inside in inner for reader in inside.readers)


def _named_start(graph: Graph, value: Value, name: str) -> Value:
    declared = graph.block is not None and graph.block.has_var_recursive(name)
    start = graph.given(name) if declared or name in graph.values.by_name else graph.add_input(name, value.shape, value.dtype)
    check_start(value, start)
    return start


def _ones(graph: Graph, value: Value) -> Value:
    first = graph.ops.first if value.writer is None else value.writer.next
    ones = graph.add_value(value.name + TANGENT, value.shape, value.dtype)
    if is_needed(value) or not has_known_extents(value):
        graph.add_op("fill_any_like", {"X": [value]}, {"Out": [ones]}, {"value": 1.0}, before=first, forward=value.writer)
    else:
        attrs = {"shape": list(value.shape or ()), "value": 1.0, "dtype": value.dtype}
        graph.add_op("fill_constant", {}, {"Out": [ones]}, attrs, before=first)
    return ones


def _ask_for(graph: Graph, made: Tangents, target: Value) -> None:
    """Make the tangent of a target, under a name of its own, a target as well."""
    tangent = made.of(target, None)
    if tangent.given or tangent.persistable or tangent in graph.targets or tangent.name != f"{target.name}{TANGENT}":
        named = made.new(target)
        graph.add_op("assign", {"X": [tangent]}, {"Out": [named]}, forward=target.writer)
        tangent = named
    made.tangent[target] = tangent
    graph.targets |= {target: None, tangent: None}
