"""Elementwise groups against the same calls one after the other: no group may make a program slower by more than 2 %.

    python -m tests.benchmarks.fusion [--numba] [--fit] [WORD ...]

Each program is compiled twice, with its groups (``graphad.execution.planning.grouped``) and without any; both run in turns on the same
arrays, and the results are equal to the last bit. Processor time: the median of the ratios of the pairs, and the middle half of them.
Words choose programs by a part of their names.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import graphad as ga
from graphad import layers as L
from graphad.execution import compiled, planning
from graphad.execution.nodes import Group, all_nodes
from graphad.types import element_count
from tests.benchmarks.threads import least

Array = NDArray[Any]
LIMIT = 1.02
SHAPES: tuple[tuple[int, ...], ...] = (
    (1 << 8,),
    (1 << 10,),
    (1 << 12,),
    (1 << 14,),
    (1 << 16,),
    (300, 300),
    (1 << 17,),
    (64, 4096),
    (1 << 18,),
    (1000, 1000),
    (1 << 22,),
)
Build = Callable[[list[Any]], list[Any]]


class Case(NamedTuple):
    """A benchmarked program: its function, its number of inputs, and their dtype."""

    build: Build
    inputs: int
    dtype: str = "float32"


def _chain(length: int) -> Build:
    def build(x: list[Any]) -> list[Any]:
        t = x[0]
        for i in range(length):
            t = t * x[1] if i % 2 else t + x[1]
        return [t]

    return build


def _adam(x: list[Any]) -> list[Any]:
    w, g, m, v = x
    m, v = m * 0.9 + g * 0.1, v * 0.999 + L.square(g) * 0.001
    return [w - m / (L.sqrt(v) + 1e-8), m, v]


CASES: dict[str, Case] = {
    "two of a chain": Case(_chain(2), 2),
    "five of a chain": Case(_chain(5), 2),
    "twenty of a chain": Case(_chain(20), 2),
    "five of a chain, float64": Case(_chain(5), 2, "float64"),
    "unrelated sums": Case(lambda x: [x[0] + x[1], x[2] + x[3], x[4] + x[5]], 6),
    "all results fetched": Case(lambda x: [x[0] + x[1], x[0] * x[1], x[0] - x[1], L.elementwise_max(x[0], x[1])], 2),
    "two tanh": Case(lambda x: [L.tanh(L.tanh(x[0]))], 1),
    "swish and its slope": Case(lambda x: [x[0] * L.sigmoid(x[0]), L.sigmoid(x[0]) * (1.0 - L.sigmoid(x[0]))], 1),
    "sqrt and divide": Case(lambda x: [x[0] / (L.sqrt(L.abs(x[1])) + 1.0)], 2),
    "clipped": Case(lambda x: [L.relu(x[0]) * 2.0, L.clip(x[1], -1.0, 1.0)], 2),
    "chosen": Case(lambda x: [L.where(L.greater_than(x[0], x[1]), x[0], x[1] * 2.0)], 2),
    "Adam": Case(_adam, 4),
    "square error": Case(lambda x: [L.mean(L.square(x[0] - x[1]))], 2),
}


def program(case: Case, shape: tuple[int, ...]) -> tuple[ga.Program, dict[str, Array], list[Any]]:
    """A program, what it is fed, and its results."""
    main, rng = ga.Program(), np.random.default_rng(0)
    names = [f"x{i}" for i in range(case.inputs)]
    with ga.program_guard(main, ga.Program()):
        results = case.build([L.data(name, list(shape), dtype=case.dtype, append_batch_size=False) for name in names])
    return main, {name: rng.standard_normal(shape).astype(case.dtype) for name in names}, results


def runner(
    main: ga.Program, feeds: dict[str, Array], results: list[Any], numba: bool, with_groups: bool
) -> tuple[Callable[[], list[Array]], int]:
    """A function that runs a program, compiled anew with or without groups, and how many groups there are."""
    executor, counts = ga.Executor(numba=numba), [0]
    grouped = planning.grouped

    def counted(*args: Any) -> None:
        if with_groups:
            grouped(*args)
            counts[0] += sum(isinstance(node, Group) for node in all_nodes(args[0].body))

    def run() -> list[Array]:
        return executor.run(main, feeds, results)

    with patch.object(compiled, "grouped", counted):
        for _ in range(4):
            run()
    return run, counts[0]


def fitted() -> dict[str, float]:
    """The constants of ``graphad.execution.planning.pays``, measured: nanoseconds of a call, of a part of an array, of a byte."""
    small, large = np.ones(8, "float32"), np.ones(1 << 22, "float32")
    call = statistics.mean(least(lambda f=f: f(small, 1.5, out=small), 200) for f in (np.add, np.multiply, np.maximum))  # type: ignore[misc]
    part = least(lambda: large[slice(1 << 15, 1 << 16)], 200)
    times = []
    # The same sums of the same number of elements, in arrays that stay near and in arrays that are far away.
    for count in (1 << 15, 1 << 22):
        x, y, out = (np.ones(count, "float32") for _ in range(3))
        times.append(least(lambda x=x, y=y, out=out: np.add(x, y, out), 200) / count)  # type: ignore[misc]
    return {"call": call * 1e9, "part": part * 1e9, "byte": (times[1] - times[0]) / (3 * 4) * 1e9}


def ratios(one: Callable[[], Any], other: Callable[[], Any], pairs: int, at_least: float) -> list[float]:
    """How many times as long one takes as the other, in pairs of turns, each of which comes first in half of them."""
    start = time.process_time()
    one()
    times = max(1, int(at_least / max(time.process_time() - start, 1e-6)))

    def seconds(work: Callable[[], Any]) -> float:
        start = time.process_time()
        for _ in range(times):
            work()
        return time.process_time() - start

    found = []
    for i in range(pairs):
        first, second = (seconds(work) for work in ((one, other) if i % 2 else (other, one)))
        found.append(first / second if i % 2 else second / first)
    return found


def rows(words: Sequence[str] = (), numba: bool = False, turns: int = 5, pairs: int = 4, at_least: float = 0.003) -> Iterator[list[str]]:
    """Rows of figures, the heads first: of each program that has groups, by size.

    Both are compiled anew ``turns`` times, since it matters by a fifth which pages of memory an array gets; they are fed the same arrays.
    """
    yield ["program", "elements", "ratio", "middle half", ""]
    for name, case in CASES.items():
        for shape in SHAPES if not words or any(word in name for word in words) else ():
            made, found = program(case, shape), list[float]()
            for turn in range(turns):
                (one, count), (other, _) = (runner(*made, numba, with_groups) for with_groups in ((True, False), (False, True))[turn % 2])
                if turn % 2:
                    one, other, count = other, one, 1
                if not count:
                    break
                for result, expected in zip(one(), other(), strict=True):
                    np.testing.assert_array_equal(result, expected)
                found += ratios(one, other, pairs, at_least)
            if not found:
                continue
            quarters = statistics.quantiles(found, n=4)
            # Lost is what is slower in three pairs of four; the rest is noise.
            lost = "slower" if quarters[0] > LIMIT else "" if quarters[1] <= LIMIT else "?"
            yield [name, f"{element_count(shape):,}", f"{quarters[1]:.3f}", f"{quarters[0]:.3f} to {quarters[2]:.3f}", lost]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="measure these alone")
    parser.add_argument("--numba", action="store_true", help="groups are compiled to loops")
    parser.add_argument("--fit", action="store_true", help="measure the constants of the cost model instead")
    options = parser.parse_args(arguments)
    if options.fit:
        print(", ".join(f"{name} {nanoseconds:.3f} ns" for name, nanoseconds in fitted().items()))
        return
    head, *body = rows(options.words, options.numba)
    table = Table(title="with groups, of the time without" + (", compiled" if options.numba else ""))
    for column in head:
        table.add_column(column, justify="right")
    for row in body:
        table.add_row(*row)
    Console(width=140).print(table)
    slower = sum(row[-1] == "slower" for row in body)
    median = statistics.median(float(row[2]) for row in body) if body else 1.0
    print(f"{len(body)} programs, {slower} slower by more than 2 %; the median of the ratios is {median:.2f}")


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "tests.benchmarks.fusion", *sys.argv[1:]])
    main()
