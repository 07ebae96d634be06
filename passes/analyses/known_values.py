"""Values of one element that are known before the program runs: computed from constants by the operators' own kernels.

i = fill_constant(0); n = fill_constant(3); more = less_than(i, n)      i = [0], n = [3], more = [True]
if_else(more) { y = n } else { y = i } -> y                             y = [3]
while(i, more; n) { i = increment(i); more = less_than(i, n) }          runs 3 times
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from graphad.ir import Graph, Op, Value
from graphad.ir.regions import BYPASS, ENTRY, KEPT, SAVED, SUM, Edge, carried_count, control_definition, is_forward_loop, operands
from graphad.ops import ControlDef
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.types import TENSOR, Array


class Known(NamedTuple):
    """A constant of one element; its content is compared bit by bit."""

    dtype: str
    shape: tuple[int, ...]
    content: bytes

    @property
    def array(self) -> Array:
        """The element in its shape."""
        return np.frombuffer(self.content, self.dtype).reshape(self.shape)


@dataclass(frozen=True)
class Constants(Dataflow[Known | str | None]):
    """The values of one element that are the same in every run and iteration: each is known, or "any". Values that never exist stay at
    bottom.

    Only the branches count that a condition, as far as it is known, lets run: sparse conditional constant propagation (M. N. Wegman and
    F. K. Zadeck, "Constant propagation with conditional branches", TOPLAS 13(2), 1991).
    """

    bottom, top = None, "any"

    def join(self, a: Known | str | None, b: Known | str | None) -> Known | str | None:
        return a if a == b else "any"

    def transfer(self, op: Op, facts: Facts[Known | str | None]) -> Mapping[Value, Known | str | None]:
        singles = [value for value in op.writes() if _is_single(value)]
        if not singles or not is_plain(op):
            return {}
        # ``None`` (bottom): it never runs, as far as is known, so neither does this operator.
        operand_facts = {value: facts[value] for value in op.reads()}
        if "any" in operand_facts.values():
            return {}
        if None in operand_facts.values():
            return dict.fromkeys(op.writes())
        results = computed(op, {value: fact.array for value, fact in operand_facts.items() if isinstance(fact, Known)})
        return {v: _known(results[v]) for v in singles if v in results and _is_of(results[v], v)}

    def follows(self, edge: Edge, facts: Facts[Known | str | None]) -> bool:
        definition = control_definition(edge.op)
        tests = () if definition is None else edge.op.inputs.get(definition.condition, ())
        if len(tests) != 1 or not edge.op.attrs.get("is_scalar_condition", True) or edge.kind in (SUM, KEPT):
            return True
        # An unknown condition opens both ways; one that is bottom keeps them closed until more is known.
        fact = facts[tests[0]]
        if not isinstance(fact, Known):
            return fact is not None
        holds = bool(fact.array.all())
        if is_forward_loop(edge.op):
            return holds == (edge.kind != BYPASS)
        # The first graph is taken where the condition holds, the second one, if there is any, elsewhere.
        inside = edge.target.graph if edge.kind in (ENTRY, SAVED) else edge.source.graph
        return inside in list(edge.op.graphs.values())[0 if holds else 1 :][:1]

    def holds(self, fact: Known | str | None, array: Any, run: dict[Any, Any]) -> bool:
        return fact == "any" or (fact is not None and fact == _known(array))


def _known(array: Array) -> Known:
    return Known(array.dtype.name, array.shape, array.tobytes())


class KnownValues:
    """The known values of a graph and those nested in it; ``note`` adds operators that are newer than the analysis."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._facts: Facts[Known | str | None] | None = None

    @property
    def facts(self) -> Facts[Known | str | None]:
        """The facts: computed when they are first requested, and extended by ``note``."""
        if self._facts is None:
            self._facts = Constants().solve(self.graph)
        return self._facts

    def note(self, ops: Sequence[Op]) -> None:
        """Look at new operators, in order, and at those nested in them."""
        if ops and self._facts is not None:
            Constants().extend(self._facts, ops)

    def array(self, value: Value) -> Array | None:
        """The one element of a value in its shape, None if it is not known."""
        fact = self.facts[value]
        return fact.array if isinstance(fact, Known) else None

    def truth(self, value: Value) -> bool | None:
        """The truth value of a condition, None if it is not known."""
        array = self.array(value)
        return None if array is None or array.dtype != bool else bool(array.reshape(())[()])

    def iterations(self, loop: Op, most: int) -> int | None:
        """The trip count of a loop if it can be computed and is at most ``most``: the condition is evaluated, iteration by iteration."""
        (body,) = loop.graphs.values()
        count, steps = carried_count(loop), _what_decides(body)
        starts = [self.array(value) for value in operands(loop)[:count]]
        env: dict[Value, Array] = {v: array for v, array in zip(body.inputs, starts, strict=False) if array is not None}
        env.update((v, array) for v in body.inputs[count:] if (array := self.array(v)) is not None)
        count_done = 0
        if steps is None:
            return None
        # The loop is run, except for all that does not decide how often: a slice of the body (M. Weiser, "Program slicing", 1981).
        while (condition := env.get(body.inputs[count - 1])) is not None and condition.dtype == bool:
            if not condition.reshape(())[()]:
                return count_done
            if count_done == most:
                return None
            for op in steps:
                env.update(computed(op, env) if all(value in env for value in op.reads()) else {})
            env = _next_iteration(body, env, count)
            count_done += 1
        return None


def _next_iteration(body: Graph, env: dict[Value, Array], count: int) -> dict[Value, Array]:
    constants = {v: env[v] for v in body.inputs[count:] if v in env}
    results = {v: env[result] for v, result in zip(body.inputs[:count], body.results, strict=True) if result in env}
    return constants | results


def _what_decides(body: Graph) -> list[Op] | None:
    """The operators that a loop's condition depends on, in order; None if it cannot be computed."""
    stack, values = [body.results[-1]], set[Value]()
    deciding: set[Op] = set()
    while stack:
        value = stack.pop()
        if value in values:
            continue
        values.add(value)
        # What an argument is in the next iteration is what the body yields for it; a captured one (no result) stays.
        if value.given:
            i = body.inputs.index(value)
            stack += body.results[i : i + 1]
        elif value.writer is None or not is_plain(value.writer) or not _is_single(value):
            return None
        else:
            deciding.add(value.writer)
            stack += value.writer.reads()
    return [op for op in body.ordered_ops() if op in deciding]


def is_plain(op: Op) -> bool:
    """Whether an operator computes the same whenever and wherever it runs."""
    definition = op.definition
    return not (
        definition is None or isinstance(definition, ControlDef) or definition.random or definition.side_effect or "run_once" in op.attrs
    )


def computed(op: Op, known: dict[Value, Array]) -> dict[Value, Array]:
    """The results of an operator that are one element; empty where computing them fails."""
    definition = op.definition
    assert definition is not None
    try:
        with np.errstate(all="ignore"):
            slots = definition.run(
                {slot: [known[v] for v in values] for slot, values in op.inputs.items()}, definition.own_attrs(op.attrs), tuple(op.outputs)
            )
    # It fails when the program runs, if it does: an analysis must not.
    except Exception:
        return {}
    pairs = ((v, x) for slot, values in op.outputs.items() for v, x in zip(values, slots[slot], strict=True))
    return {v: np.asarray(x) for v, x in pairs if isinstance(x, np.ndarray | np.generic) and np.size(x) == 1}


def _is_single(value: Value) -> bool:
    return value.kind == TENSOR and value.shape is not None and prod(value.shape) == 1 and not value.persistable


def _is_of(array: Array, value: Value) -> bool:
    return array.dtype.name == value.dtype and array.shape == value.shape
