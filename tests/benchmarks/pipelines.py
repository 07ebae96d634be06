"""The default pipelines, and each pass in them, against no passes at all, on the training steps and on networks from files.

    python -m tests.benchmarks.pipelines [--models FILE.onnx ...] [WORD ...]

Processor time of ``Executor(passes=...)`` as a ratio to that of ``Executor()``: the median of pairs that run in turns, and the middle half
of them. Passes that leave a program as it is are counted, not measured. Words choose steps by a part of their names.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import graphad as ga
from graphad.interop import onnx
from graphad.rewriting.passes import PIPELINES
from tests.benchmarks.fusion import LIMIT, ratios
from tests.benchmarks.training_steps import WORKLOADS

PASSES = (*PIPELINES, *dict.fromkeys(name for text in PIPELINES.values() for name in text.split(", ")))
Run = Callable[[], Any]


class Case:
    """A program, what it is fed and what is fetched."""

    def __init__(self, name: str, program: ga.Program, feeds: dict[str, Any], fetch: list[str]) -> None:
        self.name, self.program, self.feeds, self.fetch = name, program, feeds, fetch

    def changed(self, passes: str) -> bool:
        """Whether the passes do anything, with what outlives a run kept, as executors do."""
        kept = [name for name, var in self.program.global_block().vars.items() if var.persistable]
        return bool(ga.Pipeline.parse(passes).run(ga.lower(self.program, [*self.fetch, *kept])))

    def runner(self, scope: ga.Scope, passes: str | None) -> Run:
        """A run, in a scope of its own: updated parameters of one must not be the other's."""
        executor, own = ga.Executor(passes=passes), ga.Scope()
        for name, value in scope.arrays.items():
            own.set(name, value)
        for _ in range(4):
            executor.run(self.program, self.feeds, self.fetch, own)
        return lambda: executor.run(self.program, self.feeds, self.fetch, own)


def steps(words: Sequence[str]) -> Iterator[tuple[Case, ga.Scope]]:
    """The training steps."""
    for make in WORKLOADS:
        if words and not any(word in make.__name__ for word in words):
            continue
        work, scope = make(), ga.Scope()
        ga.Executor().run(work.startup, scope=scope)
        yield Case(work.name, work.main, work.feeds, [work.loss.name]), scope


def networks(paths: Sequence[Path]) -> Iterator[tuple[Case, ga.Scope]]:
    """Networks from ONNX files, on random images of 64 by 64 where the file says no size."""
    rng = np.random.default_rng(0)
    for path in paths:
        loaded = onnx.load(path)
        block = loaded.program.global_block()
        shapes = {name: [n if n >= 0 else 64 if i else 1 for i, n in enumerate(block.var(name).shape or ())] for name in loaded.feed_names}
        feeds = {name: rng.uniform(0, 1, shape).astype(block.var(name).dtype) for name, shape in shapes.items()}
        yield Case(path.stem, loaded.program, feeds, list(loaded.fetch_names)), loaded.scope()


def rows(cases: Iterator[tuple[Case, ga.Scope]], pairs: int = 9, turns: int = 3) -> Iterator[list[str]]:
    """Rows of figures, the heads first; both are compiled anew ``turns`` times."""
    yield ["program", "passes", "ratio", "middle half", ""]
    for case, scope in cases:
        left = [passes for passes in PASSES if not case.changed(passes)]
        yield [case.name, f"{len(left)} of {len(PASSES)} leave it as it is", "", "", ""]
        for passes in PASSES:
            if passes in left:
                continue
            found: list[float] = []
            for _ in range(turns):
                found += ratios(case.runner(scope, passes), case.runner(scope, None), pairs, 0.02)
            low, middle, high = statistics.quantiles(found, n=4)
            lost = "slower" if low > LIMIT else "" if middle <= LIMIT else "?"
            yield [case.name, passes, f"{middle:.3f}", f"{low:.3f} to {high:.3f}", lost]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="measure these steps alone")
    parser.add_argument("--models", nargs="*", type=Path, default=[])
    options = parser.parse_args()
    cases = networks(options.models) if options.models else steps(options.words)
    head, *body = rows(cases)
    table = Table(title="times as long as without passes")
    for column in head:
        table.add_column(column, justify="right")
    for row in body:
        table.add_row(*row)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
