"""Time of preparing a program for its runs: operators whose attributes are all different, in a loop that is compiled.

while (i < n) { h = scale(h, 1.0001); h = scale(h, 1.0002); ... }
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import graphad as ga
from graphad import layers
from graphad.ops import formulas

OPERATORS = 1_600
ITERATIONS = 30


def program(factor: Callable[[int], float]) -> tuple[ga.Program, ga.Variable]:
    """A loop around many ``scale``, each with a factor of its number."""
    made = ga.Program()
    with ga.program_guard(made):
        x = layers.data("x", [4], append_batch_size=False)
        i, n = layers.zeros([1], "int64"), layers.fill_constant([1], "int64", ITERATIONS)

        def body(i: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
            for k in range(OPERATORS):
                h = layers.scale(h, scale=factor(k))
            return [layers.increment(i, in_place=False), h]

        h: ga.Variable = layers.while_loop(lambda i, h: layers.less_than(i, n), body, [i, x])[1]
    return made, h


def milliseconds(factor: Callable[[int], float], repeat: int) -> float:
    """Processor time that the first run of a program needs above the second one; the least of some."""
    made, h = program(factor)
    feed, best = {"x": np.ones(4, "float32")}, float("inf")
    for _ in range(repeat):
        formulas._formula.cache_clear()
        executor, times = ga.Executor(), [time.process_time()]
        for _ in range(2):
            executor.run(made, feed, [h])
            times.append(time.process_time())
        best = min(best, 2 * times[1] - times[0] - times[2])
    return best * 1e3


def main(repeat: int = 5) -> None:
    """Print it."""
    same, different = milliseconds(lambda k: 1.5, repeat), milliseconds(lambda k: 1.0 + k * 1e-4, repeat)
    print(f"preparing {OPERATORS:,} operators: {same:.0f} ms if they are alike, {different:.0f} ms if their attributes are all different")


if __name__ == "__main__":
    main()
