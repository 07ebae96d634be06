"""The record of a run of passes: one step a pass, and the report of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphad.showing import Table


@dataclass(frozen=True)
class Step:
    """Statistics of one run of a pass: seconds, operators and values before and after, and the rewrites that it counted."""

    name: str
    text: str
    changed: bool
    seconds: float
    ops: tuple[int, int]
    values: tuple[int, int]
    rewrites: int = 0


@dataclass(frozen=True, eq=False)
class Report:
    """The report of a pipeline on a graph. It is true, and equals True, if the graph changed.

    Attributes:
        changed: whether the graph changed.
        steps: the runs of single passes in their order, those inside ``fixpoint`` and ``nested`` included; also by iteration.
        seconds: how long all of it took, verification included.
        ops, values: the numbers of operators and values of the graph before and after.

    >>> import graphad as ga
    >>> text = "program { block 0 { var x: float32[2] var y: float32[2] relu(X=x) -> (Out=y) relu(X=x) -> (Out=z) } }"
    >>> report = ga.Pipeline.parse("cse, dead-code").run(ga.lower(ga.Program.parse(text), ["y"]))
    >>> report
    <Report: changed by 1 of 2 passes, 1 rewrite, 2 -> 1 operators>
    >>> [(step.name, step.changed) for step in report]
    [('cse', False), ('dead-code', True)]
    """

    changed: bool
    steps: tuple[Step, ...]
    seconds: float
    ops: tuple[int, int]
    values: tuple[int, int]

    @property
    def passes(self) -> tuple[str, ...]:
        """The texts of the passes that ran."""
        return tuple(step.text for step in self.steps)

    @property
    def rewrites(self) -> int:
        """The rewrites that the passes counted."""
        return sum(step.rewrites for step in self.steps)

    def table(self) -> Table:
        """A row a pass, and one for all."""
        rows = [_row(s.text, s.changed, s.seconds, s.ops, s.values, s.rewrites) for s in self.steps]
        total = _row("all", self.changed, self.seconds, self.ops, self.values, self.rewrites)
        return Table(("pass", "changed", "ms", "operators", "values", "rewrites"), (*rows, total), digits=3)

    def __bool__(self) -> bool:
        return self.changed

    def __eq__(self, other: object) -> bool:
        if isinstance(other, bool):
            return self.changed is other
        # No two reports are equal: they have the times of different runs.
        return self is other if isinstance(other, Report) else NotImplemented

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, number: int) -> Step:
        return self.steps[number]

    def csv(self) -> str:
        """The table as comma-separated values with all digits."""
        return self.table().csv()

    def pandas(self) -> Any:
        """The table as a DataFrame, where pandas is installed."""
        return self.table().pandas()

    def __repr__(self) -> str:
        count = sum(step.changed for step in self.steps)
        summary = f"changed by {count} of" if self.changed else "nothing changed by"
        rewrites = f"{self.rewrites} rewrite{'' if self.rewrites == 1 else 's'}, " if self.changed else ""
        passes = f"{len(self.steps)} pass{'' if len(self.steps) == 1 else 'es'}"
        return f"<Report: {summary} {passes}, {rewrites}{arrow(self.ops)} operators>"

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def __rich__(self) -> Any:
        return self.table()


def _row(
    text: str, changed: bool, seconds: float, ops: tuple[int, int], values: tuple[int, int], rewrites: int
) -> tuple[str, bool, float, str, str, int]:
    return text, changed, seconds * 1e3, arrow(ops), arrow(values), rewrites


def arrow(counts: tuple[int, int]) -> str:
    """A number before and after; one where it stayed."""
    return f"{counts[0]}" if counts[0] == counts[1] else f"{counts[0]} -> {counts[1]}"
