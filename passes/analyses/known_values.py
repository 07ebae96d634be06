"""Values of one element that are known before the program runs: computed from constants by the operators' own kernels.

i = fill_constant(0); n = fill_constant(3); more = less_than(i, n)      i = [0], n = [3], more = [True]
while(i, more; n) { i = increment(i); more = less_than(i, n) }          runs 3 times
"""

from __future__ import annotations

from math import prod

import numpy as np

from graphad.ir import Graph, Op, Value
from graphad.ir.regions import carried_count, definition_of, first_captured, operands
from graphad.ops import ControlDef
from graphad.types import TENSOR, Array

_DEEP = 64  # operators one after the other that are followed


class KnownValues:
    """What is known of the values of a graph and those nested in it; ``note`` tells it of nested graphs that were added since."""

    def __init__(self, graph: Graph) -> None:
        self.owners: dict[Graph, Op] = {}
        self.found: dict[Value, Array | None] = {}
        for each in graph.tree():
            for op in each.controls:
                self.owners.update(dict.fromkeys(op.graphs.values(), op))

    def note(self, op: Op) -> None:
        """Remember the graphs of an operator, and those nested in them."""
        for graph in op.graphs.values():
            self.owners[graph] = op
            for inner in graph.controls:
                self.note(inner)

    def array(self, value: Value) -> Array | None:
        """The one element of a value in its shape, None if it is not known."""
        return self._array(value, _DEEP)

    def truth(self, value: Value) -> bool | None:
        """What a condition is, None if it is not known."""
        array = self.array(value)
        return None if array is None or array.dtype != bool else bool(array.reshape(())[()])

    def _array(self, value: Value, deep: int) -> Array | None:
        if value not in self.found:
            if deep == 0 or not _is_single(value):
                return None
            found = self._handed_in(value, deep) if value.given else self._computed(value, deep)
            self.found[value] = found if found is None or _is_of(found, value) else None
        return self.found[value]

    def _handed_in(self, value: Value, deep: int) -> Array | None:
        """What the graph around passes in, unless it changes from run to run."""
        owner = self.owners.get(value.graph)
        if owner is None:
            return None
        i, given = value.graph.inputs.index(value), operands(owner)
        first, last = first_captured(owner), len(owner.inputs.get(definition_of(owner).operands, ()))
        return self._array(given[i], deep - 1) if first <= i < last else None

    def _computed(self, value: Value, deep: int) -> Array | None:
        op = value.writer
        if op is None or not is_plain(op):
            return None
        known: dict[Value, Array] = {}
        for read in op.reads():
            array = self._array(read, deep - 1)
            if array is None:
                return None
            known[read] = array
        return computed(op, known).get(value)

    def iterations(self, loop: Op, most: int) -> int | None:
        """How often a loop runs, if that is known and at most so often: its condition is computed, iteration by iteration."""
        (body,) = loop.graphs.values()
        count, steps = carried_count(loop), _what_decides(body)
        starts = [self.array(value) for value in operands(loop)[:count]]
        env: dict[Value, Array] = {v: array for v, array in zip(body.inputs, starts, strict=False) if array is not None}
        env.update((v, array) for v in body.inputs[count:] if (array := self.array(v)) is not None)
        done = 0
        if steps is None:
            return None
        while (condition := env.get(body.inputs[count - 1])) is not None and condition.dtype == bool:
            if not condition.reshape(())[()]:
                return done
            if done == most:
                return None
            for op in steps:
                env.update(computed(op, env) if all(value in env for value in op.reads()) else {})
            env = _next_iteration(body, env, count)
            done += 1
        return None


def _next_iteration(body: Graph, env: dict[Value, Array], count: int) -> dict[Value, Array]:
    captured = {v: env[v] for v in body.inputs[count:] if v in env}
    carried = {v: env[result] for v, result in zip(body.inputs[:count], body.results, strict=True) if result in env}
    return captured | carried


def _what_decides(body: Graph) -> list[Op] | None:
    """The operators that a loop's condition depends on, in order; None if it cannot be computed."""
    pending, seen = [body.results[-1]], set[Value]()
    found: set[Op] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.given:
            i = body.inputs.index(value)
            pending += body.results[i : i + 1]
        elif value.writer is None or not is_plain(value.writer) or not _is_single(value):
            return None
        else:
            found.add(value.writer)
            pending += value.writer.reads()
    return [op for op in body.ordered_ops() if op in found]


def is_plain(op: Op) -> bool:
    """Whether an operator computes the same whenever and wherever it runs."""
    definition = op.definition
    return not (
        definition is None or isinstance(definition, ControlDef) or definition.random or definition.side_effect or "run_once" in op.attrs
    )


def computed(op: Op, known: dict[Value, Array]) -> dict[Value, Array]:
    """What an operator writes, as far as that is one element; nothing where it fails."""
    definition = op.definition
    assert definition is not None
    try:
        with np.errstate(all="ignore"):
            slots = definition.run({slot: [known[v] for v in values] for slot, values in op.inputs.items()}, op.attrs, tuple(op.outputs))
    except Exception:
        return {}
    pairs = ((v, x) for slot, values in op.outputs.items() for v, x in zip(values, slots[slot], strict=True))
    return {v: np.asarray(x) for v, x in pairs if isinstance(x, np.ndarray | np.generic) and np.size(x) == 1}


def _is_single(value: Value) -> bool:
    return value.kind == TENSOR and value.shape is not None and prod(value.shape) == 1 and not value.persistable


def _is_of(array: Array, value: Value) -> bool:
    return array.dtype.name == value.dtype and array.shape == value.shape
