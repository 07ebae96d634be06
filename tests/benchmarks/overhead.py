"""The overhead of a run, and of a small operator, beyond numpy's calls: the aims are under 5 µs and under 1 µs.

    python -m tests.benchmarks.overhead

A chain of ``tanh``, ``+`` and ``*`` on eight numbers, short and long, against the same calls of numpy by hand, with ``out=``, in turns.
A line through both lengths has the cost of an operator as its slope; a run is what is left. The least of many turns, processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import graphad as ga
from graphad import layers as L

SHORT, LONG = 3, 303  # operators
RUN, OPERATOR = 5.0, 1.0  # µs


def chain(length: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A run of so many operators, and the same by hand."""
    main, x = ga.Program(), np.linspace(-1, 1, 8, dtype="float32")
    with ga.program_guard(main, ga.Program()):
        t = given = L.data("x", [8], append_batch_size=False)
        for _ in range(length // 3):
            t = (L.tanh(t) + given) * given
    executor, feed, buffer = ga.Executor(), {"x": x}, np.empty_like(x)

    # Not a loop over functions: what a compiled program is, is straight-line code as well.
    calls = "\n    ".join(f"tanh({'x' if i == 0 else 't'}, t); add(t, x, t); multiply(t, x, t)" for i in range(length // 3))
    names: dict[str, Any] = {"tanh": np.tanh, "add": np.add, "multiply": np.multiply, "x": x, "t": buffer}
    exec(f"def by_hand(x=x, t=t, tanh=tanh, add=add, multiply=multiply):\n    {calls}\n    return t", names)
    by_hand: Callable[[], Any] = names["by_hand"]
    np.testing.assert_array_equal(executor.run(main, feed, [t])[0], by_hand())
    return lambda: executor.run(main, feed, [t]), by_hand


def least(works: list[Callable[[], Any]], turns: int = 60, times: int = 40) -> list[float]:
    """Microseconds of each, in turns."""
    found = [float("inf")] * len(works)
    for _ in range(turns):
        for i, work in enumerate(works):
            start = time.process_time()
            for _ in range(times):
                work()
            found[i] = min(found[i], (time.process_time() - start) / times * 1e6)
    return found


def main() -> None:
    """Print both."""
    works = [work for length in (SHORT, LONG) for work in chain(length)]
    short, short_by_hand, long, long_by_hand = least(works)
    operator = ((long - long_by_hand) - (short - short_by_hand)) / (LONG - SHORT)
    run = short - short_by_hand - operator * SHORT
    call = (long_by_hand - short_by_hand) / (LONG - SHORT)
    print(
        f"besides numpy: {run:.2f} µs a run (of {RUN:g}), {operator:.3f} µs a small operator (of {OPERATOR:g}), whose call takes {call:.3f}"
    )


if __name__ == "__main__":
    main()
