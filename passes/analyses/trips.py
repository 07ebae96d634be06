"""How often a loop runs, where a counter says so: ``i = start; while (i < limit) { ...; i = i + step }``."""

from __future__ import annotations

from math import ceil, floor

from graphad.graph import Op, Value
from graphad.graph.regions import carried_count, is_loop, is_loop_gradient, operands
from graphad.graph.residuals import forward_op
from graphad.rewriting.constants import uniform_number

_UP, _DOWN = ("less_than", "less_equal"), ("greater_than", "greater_equal")


def trip_count(op: Op) -> int | None:
    """The iterations of a loop, or of its gradient; None if they are not known before the program runs."""
    if not is_loop(op):
        return None
    loop = forward_op(op) if is_loop_gradient(op) else op
    (body,) = loop.graphs.values()
    test = body.results[-1].writer
    if test is None or test.type not in (*_UP, *_DOWN):
        return None
    counter, limit = test.input("X"), _known(loop, test.input("Y"))
    step = _step(counter)
    if step is None or limit is None or counter not in body.results:
        return None
    place = body.results.index(counter)
    before = counter.writers[0].input("X")
    start = uniform_number(operands(loop)[place])
    if start is None or before not in body.inputs or body.inputs.index(before) != place:
        return None
    return _counted(test.type, float(start), float(limit), step)


def _step(counter: Value) -> float | None:
    """By how much an ``increment`` that writes a value raises it."""
    writer = counter.writer
    if writer is None or writer.type != "increment":
        return None
    return float(writer.attrs.get("step", 1.0))


def _known(loop: Op, value: Value) -> float | int | None:
    """The number that a value in a loop's body is: filled there, or captured from outside."""
    if not value.given:
        return uniform_number(value)
    place = value.graph.inputs.index(value)
    return uniform_number(operands(loop)[place]) if place >= carried_count(loop) else None


def _counted(test: str, start: float, limit: float, step: float) -> int | None:
    if test in _DOWN:
        start, limit, step, test = -start, -limit, -step, _UP[_DOWN.index(test)]
    if step <= 0 or not all(abs(x) < 2.0**50 and x == int(x) for x in (start, limit, step)):
        return 0 if start > limit else None
    steps = (limit - start) / step
    return max(0, floor(steps) + 1 if test == "less_equal" else ceil(steps))
