"""Trip counts of loops, where they are known before the program runs.

i = 0; while (i < 5) { ...; i = i + 2 }              3 times: a counter that grows by a number up to a bound
a = 1; while (a != 8) { ...; a = a * 2 }             3 times: what its condition depends on is computed, iteration by iteration
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np

from graphad.ir import Graph, Op, Value
from graphad.ir.regions import LoopLike
from graphad.ir.residuals import find_forward_op
from graphad.ops.out_kernels import formula_of
from graphad.passes.analyses.known_values import KnownValues
from graphad.rewriting import Analysis
from graphad.rewriting.constants import uniform_number

MOST = 1 << 10  # iterations that are computed one by one
_ENDLESS = -1  # a counter that moves away from its bound
_UNTIL: Mapping[Callable[..., Any], tuple[int, bool]] = {  # comparisons: the sign of steps that end, whether the bound itself is in
    np.less: (1, False),
    np.less_equal: (1, True),
    np.greater: (-1, False),
    np.greater_equal: (-1, True),
}


@dataclass(frozen=True)
class TripCounts(Analysis):
    """The trip counts of the loops of a graph, and of those nested in it; unknown ones are left out.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     i, n = ga.layers.zeros([1], "int64"), ga.layers.fill_constant([1], "int64", 5)
    ...     _ = ga.layers.while_loop(lambda i: ga.layers.less_than(i, n), lambda i: [ga.layers.increment(i)], [i])
    >>> list(TripCounts.of(ga.lower(program)).counts.values())
    [5]
    """

    counts: dict[Op, int]

    @classmethod
    def compute(cls, graph: Graph) -> TripCounts:
        known_values = KnownValues(graph)
        loops = [op for subgraph in graph.tree() for op in subgraph.controls if LoopLike.of(op) is not None]
        return cls({op: count for op in loops if (count := count_trips(op, known_values)) is not None})


def trip_count(op: Op) -> int | None:
    """The iterations of a loop, or of its gradient; None if they are not known before the program runs."""
    graph = op.graph
    while graph.parent is not None:
        graph = graph.parent
    return TripCounts.of(graph).counts.get(op)


def count_trips(op: Op, known: KnownValues, most: int = MOST) -> int | None:
    """The same, by what is known of a graph; iterations are computed one by one up to so many."""
    loop = LoopLike.of(op)
    if loop is not None and loop.is_gradient:
        forward = find_forward_op(op)
        loop = None if forward is None else LoopLike.of(forward)
    if loop is None:
        return None
    # A formula where the condition compares a counter with a bound; else the iterations are run on what is known.
    count = _counted(loop, known)
    if count == _ENDLESS:
        return None
    return known.iterations(loop.op, most) if count is None else count


def _counted(loop: LoopLike, known: KnownValues) -> int | None:
    """The iterations of a loop whose condition compares a counter with a bound that stays; None for any other loop."""
    # ``counter < bound``: the test in the body decides about the next iteration, so it compares the counter after its step.
    test = _origin(loop.goes_on).writer
    if test is None or test.definition is None or len([*test.reads()]) != 2:
        return None
    formula = formula_of(test.definition, [value.dtype or "float32" for value in test.reads()], test.attrs)
    until = _UNTIL.get(formula.calls[0].function) if formula is not None and len(formula.calls) == 1 else None
    counter, bound = map(_origin, test.reads())
    start, limit, step = _start(loop, counter, known), _number(bound, known), _step(counter)
    if until is None or start is None or limit is None or step is None or known.truth(*loop.condition) is not True:
        return None
    # start, start + step, ... against the limit, with the signs turned so that the loop counts up. Beyond 2 ** 50 floats no longer hold
    # every integer that a counter may be, and the quotient below could be wrong by one.
    sign, inclusive = until
    start, limit, step = sign * start, sign * limit, sign * step
    if not all(abs(x) < 2.0**50 and x == int(x) for x in (start, limit, step)):
        return None
    if step <= 0:
        return _ENDLESS if start + step < limit or (inclusive and start + step == limit) else 1
    # The first test is at the start (it holds), and the loop ends when start + n * step reaches the limit.
    steps = (limit - start) / step
    return max(1, floor(steps) + 1 if inclusive else ceil(steps))


def _start(loop: LoopLike, counter: Value, known: KnownValues) -> float | None:
    """The value of a counter before the first iteration, None if the body does not compute it from the one before."""
    (body,) = loop.op.graphs.values()
    writer = counter.writer
    # The value in the body is the one before, plus a step: what it was before the first iteration is what the loop is given for that.
    before = next(map(_origin, writer.reads()), None) if writer is not None else None
    place = next((i for i, result in enumerate(body.results) if _origin(result) is counter), None)
    if before is None or place is None or before not in body.inputs:
        return None
    return _number(loop.carried[place], known) if loop.arguments(loop.name)[loop.carried_at[place]] is before else None


def _origin(value: Value) -> Value:
    """The value whose elements these are: ``while_loop`` assigns what its body returns to what it carries."""
    while value.writer is not None and value.writer.definition is not None and value.writer.definition.in_order:
        value = value.writer.input("X")
    return value


def _step(counter: Value) -> float | None:
    """The step of a counter whose writer adds a number to its one input; None for any other value."""
    writer = counter.writer
    definition = None if writer is None else writer.definition
    if writer is None or definition is None or not definition.offset or len([*writer.reads()]) != 1:
        return None
    # Only if besides the number the operator passes its input on, as ``increment`` does.
    return float(definition.attr(definition.offset, writer.attrs)) if definition.passed_on == {*writer.inputs} else None


def _number(value: Value, known: KnownValues) -> float | None:
    array = known.array(value)
    number = uniform_number(value) if array is None else array.item()
    return None if number is None else float(number)
