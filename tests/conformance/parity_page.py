"""docs/parity.md: graphad's backward of every conformance case beside the one that Paddle's append_backward made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.conformance.loading import Case
from tests.conformance.parity import count, graphads, paddles, reasons
from tests.conformance.parity_reasons import FAULTS, OTHER, REASONS, Reason, Steps
from tests.conformance.test_stored import STORED

PAGE = Path(__file__).resolve().parents[2] / "docs/parity.md"
HEAD = """\
# Operator for operator: Paddle's append_backward

The conformance cases hold what `append_backward` or `gradients` of PaddlePaddle 2.6.2 made of a program. This page compares it with
what graphad makes of the same program: operators in their order, slots, the names in them, attributes, and the blocks inside.

Of {cases} cases, {same} are the same, {differing} differ on purpose, and in {missing} something is missing. In {alike} the operators
are of the same types in the same order. The gradients are right in all of them: the tests compare them with central differences. This
page is made by `make pictures`; a test holds that nothing differs without one of the reasons below.

Taken as the same: `w@GRAD@RENAME@0`, as the specification writes it, and Paddle 2.6's `w@GRAD@RENAME@block0@0`; a dtype that is not
given, and Paddle's -1.

## Why something differs
"""


class Compared(NamedTuple):
    """A case, the two backwards, and the reasons for what differs; None if there are differences without one."""

    case: Case
    theirs: Steps
    ours: Steps
    reasons: list[Reason] | None

    @property
    def verdict(self) -> str:
        """``same``, ``on purpose`` or ``missing``."""
        if self.reasons is None:
            return "missing"
        return "on purpose" if self.reasons or self.case.name in FAULTS else "same"

    @property
    def alike(self) -> bool:
        """Whether the operators of block 0 are of the same types in the same order."""
        return [step.type for step in self.theirs] == [step.type for step in self.ours]

    @property
    def line(self) -> str:
        """The row of the table."""
        words = ", ".join(reason.word for reason in self.reasons or ())
        why = "; ".join(part for part in (words, FAULTS.get(self.case.name)) if part)
        return f"| {self.case.name} | {count(self.theirs)} | {count(self.ours)} | {self.verdict} | {why} |"


def text() -> str:
    """The text of docs/parity.md."""
    rows = [Compared(case, paddles(case), graphads(case), reasons(case)) for case in STORED]
    return "\n".join([_head(rows), *_reasons(), "", *_table(rows), ""])


def _head(rows: list[Compared]) -> str:
    verdicts = [row.verdict for row in rows]
    counts = {name: verdicts.count(word) for name, word in (("same", "same"), ("differing", "on purpose"), ("missing", "missing"))}
    return HEAD.format(cases=len(rows), alike=sum(row.alike for row in rows), **counts)


def _reasons() -> Iterator[str]:
    yield from (f"- **{reason.word}**: {reason.text}" for reason in (*REASONS, *OTHER.values()))


def _table(rows: list[Compared]) -> Iterator[str]:
    yield "## The cases\n\nHow many operators each backward has, those in blocks included, and the reasons.\n"
    yield "| case | Paddle's | graphad's | | why |\n| --- | --- | --- | --- | --- |"
    yield from (row.line for row in rows)
