"""The tangent of each value: its directional derivative along the tangents of the inputs."""

from __future__ import annotations

from collections.abc import Sequence

from graphad.errors import InvalidValue
from graphad.graph import Graph, Op, Value
from graphad.ops import GradOpDef
from graphad.passes.backward.find_op_path import OpPath
from graphad.types import joined_shape

TANGENT = "@TANGENT"
Found = dict[Value, Value]  # values an operator writes -> their tangents


class Tangents:
    """The results of ``jvp``: the tangent of each value that has one, in every graph; a value without one does not move.

    ``path`` are the operators that were gone through, ``seeds`` the tangents that were given.
    """

    def __init__(self, path: OpPath) -> None:
        self.path = path
        self.tangent: dict[Value, Value] = {}
        self.seeds: dict[Value, Value] = {}
        self._names: dict[tuple[Graph, str], str] = {}

    def start(self, value: Value, seed: Value) -> None:
        """Say how an input moves by itself."""
        self.tangent[value] = self.seeds[value] = seed

    def moves(self, values: tuple[Value, ...]) -> bool:
        """Whether one of the values has a tangent."""
        return any(value in self.tangent for value in values)

    def new(self, value: Value) -> Value:
        """A value of the type of another one, to be its tangent; whoever writes it says so with ``keep``."""
        graph = value.graph
        made = graph.add_version(self._name(value), value.shape, value.dtype)
        made.kind = value.kind
        return made

    def part(self, value: Value) -> Value:
        """A value to be a part of a tangent that is a sum."""
        graph = value.graph
        return graph.add_version(graph.values.numbered(value.name + TANGENT, "{}@RENAME@{}"), value.shape, value.dtype)

    def given(self, value: Value) -> Value:
        """A tangent of an input of a nested graph; the caller puts it among the graph's inputs."""
        made = self.tangent[value] = self.new(value)
        made.given = True
        return made

    def keep(self, value: Value, tangent: Value) -> None:
        """Say what the tangent of a value is; one that also moves by itself gets the sum."""
        seed, writer = self.seeds.get(value), tangent.writer or value.writer
        assert writer is not None
        self.tangent[value] = tangent if seed is None else self.total(value, [tangent, seed], writer.next)

    def total(self, value: Value, parts: Sequence[Value], before: Op | None) -> Value:
        """The tangent of a value as a sum."""
        if len(parts) == 1:
            return parts[0]
        made = self.new(value)
        value.graph.add_op("sum", {"X": parts}, {"Out": [made]}, before=before, forward=value.writer)
        return made

    def of(self, value: Value, before: Op | None) -> Value:
        """The tangent of a value; of one that does not move, zeros that are made before an operator (None: at the end)."""
        found = self.tangent.get(value)
        return self._zeros(value, before) if found is None else found

    def _zeros(self, value: Value, before: Op | None) -> Value:
        graph, made, writer = value.graph, self.new(value), value.writer
        if writer is not None and writer.type == "undefined":
            graph.add_op("undefined", {}, {"Out": [made]}, writer.attrs, before=before, forward=writer)
        else:
            graph.add_op("fill_zeros_like", {"X": [value]}, {"Out": [made]}, before=before, forward=writer)
        return made

    def _name(self, value: Value) -> str:
        key = value.graph, value.name
        if key not in self._names:
            self._names[key] = value.graph.values.fresh(value.name + TANGENT)
        return self._names[key]


def grad_row(op: Op) -> GradOpDef:
    """The definition of an operator's gradient; every operator on a path has one."""
    row = None if op.row is None else op.row.grad
    assert row is not None
    return row


def check_start(value: Value, start: Value) -> None:
    """ValueError unless a tangent is of the type of the input that moves along it."""
    if start.dtype != value.dtype:
        raise InvalidValue(f"input {value.name!r} is {value.dtype}, its tangent {start.name!r} is {start.dtype}")
    if value.shape is not None and start.shape is not None and joined_shape(value.shape, start.shape) is None:
        raise InvalidValue(f"input {value.name!r} has shape {list(value.shape)}, its tangent {start.name!r} has {list(start.shape)}")
