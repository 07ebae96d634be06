"""Bisection of a pipeline: a binary search for the single rewrite that changes what a program computes."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from graphad.errors import InvalidType, InvalidValue
from graphad.ir import Graph, schedule
from graphad.ir.provenance import Origin
from graphad.program import Program
from graphad.rewriting import Pass, Step, observing
from graphad.settings import changed_settings
from graphad.testing.cases import Case, random_case
from graphad.testing.equivalence import Observed, observe, observed_difference
from graphad.testing.trial import Subject, quietly
from graphad.viewing import Page, record


@dataclass(frozen=True)
class Culprit:
    """The first rewrite after which the results differ.

    Attributes:
        number: which rewrite it is, counted from 1.
        total: how many the pipeline makes.
        pass_text: the pass that makes it.
        origin: its rule, and the operators it saw; None if the pass does not say.
        difference: what then differs.
        page: the address of the page that shows it, ``page.html#pass=2&step=1``; empty where none was requested or could be written.
    """

    number: int
    total: int
    pass_text: str
    origin: Origin | None
    difference: str
    page: str = ""

    def __str__(self) -> str:
        lines = [f"rewrite {self.number} of {self.total}, by pass {self.pass_text}"]
        if self.origin is not None:
            lines.append(f"  rule {self.origin.rule}")
            for ancestor in self.origin.ancestors:
                lines.append(f"  of {ancestor.text}" + (f", written at {ancestor.source}" if ancestor.source else ""))
        return "\n".join([*lines, f"  {self.difference}", *([f"  the rewrite: {self.page}"] if self.page else [])])


@dataclass
class _Run:
    """A run of the pipeline with so many rewrites: how many were made, the pass that made the last one, and what is wrong."""

    made: int
    last: Pass | None
    origin: Origin | None
    wrong: str


def bisect(
    case: Case | Program, what: Pass | str, prepare: str = "", tolerance: float | None = None, page: str | os.PathLike[str] | None = None
) -> Culprit | None:
    """Find the rewrite that makes a program compute something else, or that makes the pipeline fail; None if none does.

    Args:
        case: the program, and arrays to run it on; random ones if it is a program alone.
        what: a pipeline, or its text.
        prepare: the text of a pipeline that runs before it.
        tolerance: by how much values may differ, relatively; None: as the passes say.
        page: the file to write a page to that shows the passes, open at the rewrite (``ga.view``); where the pipeline fails, up to there.

    Raises:
        GraphadError: the program does not run.
        ValueError: there is no folder for the page.
        TypeError: it is no program, or there is no pipeline.

    >>> from graphad.program import Program
    >>> program = Program.parse("program { block 0 { var y: float32[1] fill_constant() -> (Out=y) {shape=[1], value=2.0} } }")
    >>> print(bisect(program, "find-op-path{targets=[y]}"))
    None
    """
    if isinstance(case, Program):
        case = random_case(case)
    if not isinstance(case, Case) or not isinstance(what, Pass | str):
        raise InvalidType(f"bisect takes a Program or a Case, then a Pass or its text, not {case!r:.80} and {what!r:.80}")
    if page is not None and not Path(page).parent.is_dir():
        raise InvalidValue(f"there is no folder {str(Path(page).parent)!r} to write the page {Path(page).name!r} to")
    subject = Subject(what, prepare, tolerance)
    targets = case.targets
    expected = observe(subject.before(case, subject.prepared(case)), case, targets)
    with changed_settings(reproducers=""):
        full_run = _run(subject, case, targets, expected, None)
        if not full_run.wrong:
            return None
        # Later rewrites may make it right again: what is found is one place where it turns wrong, as in a bisection of a history.
        right, wrong, failure = 0, max(full_run.made, 1), full_run
        # Invariant: the results are right after ``right`` rewrites and wrong after ``wrong`` of them.
        while wrong - right > 1:
            middle = (right + wrong) // 2
            attempt = _run(subject, case, targets, expected, middle)
            right, wrong, failure = (right, middle, attempt) if attempt.wrong else (middle, wrong, failure)
        failure = _run(subject, case, targets, expected, wrong)
    name = str(failure.last if failure.last is not None else subject.passes(case))
    address = "" if page is None else _page(case, subject, Path(page), wrong)
    return Culprit(wrong, max(full_run.made, 1), name, failure.origin, failure.wrong or full_run.wrong, address)


def _page(case: Case, subject: Subject, path: Path, number: int) -> str:
    """Write the page; return where it shows the rewrite."""
    graph = subject.prepared(case)
    page = Page("", path)
    with quietly(), suppress(Exception):  # where the pipeline fails, the page goes as far as that
        page = record(graph, subject.passes(case), path, title=str(subject), rewrite=number)
    return f"{path}{page.hash}" if path.exists() else ""


def _run(subject: Subject, case: Case, targets: list[str], expected: Observed, limit: int | None) -> _Run:
    graph = subject.prepared(case)
    journal = graph.journal
    start = journal.rewrites
    journal.limit = None if limit is None else start + limit
    makers: list[tuple[int, Pass]] = []

    def watch(pass_: Pass, changed: Graph, step: Step) -> None:
        # The last pass that made a rewrite is the one that made the last rewrite.
        if not pass_.combines and changed.journal is journal and journal.rewrites > (makers[-1][0] if makers else start):
            makers.append((journal.rewrites, pass_))

    try:
        with observing(watch):
            subject.passes(case).run(graph)
        results = observe(schedule(graph), case, list(expected.values))
        wrong = observed_difference(expected, results, subject.allowed(case))
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    return _Run(journal.rewrites - start, makers[-1][1] if makers else None, journal.origin, wrong)
