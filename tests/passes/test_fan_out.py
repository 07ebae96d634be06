"""Passes, lowering and scheduling are linear in edges: where one value has three times as many readers, three times as much is done.

Counted are the lines of Python that run, not seconds; ``tests/benchmarks/fan_out.py`` measures those, among 8,000 readers.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import graphad as ga
from graphad.rewriting import PASSES, Pipeline, verification
from tests.benchmarks.fan_out import readers, rows, work
from tests.counting import lines
from tests.shares import one_in

FEW, MANY = 64, 192
ROWS = [row for row in rows([]) if row[1].startswith("readers")]


@pytest.mark.parametrize("row", one_in(2, [pytest.param(row, id=row[0]) for row in ROWS]))
def test_what_is_done_for_a_reader_does_not_depend_on_how_many_there_are(row: tuple[str, str, Callable[[int], ga.Program]]) -> None:
    stage, _, make = row
    with verification(False):
        work(stage, make(MANY))()  # what is kept about definitions and attributes is computed once
        few, many = (lines(work(stage, make(count))) for count in (FEW, MANY))
    assert many <= 3.3 * few, f"{few} lines among {FEW} readers, {many} among {MANY}"


def test_quadratic_work_is_seen() -> None:
    def pairs(count: int) -> Callable[[], object]:
        values = [op for op in ga.lower(readers(count)).ops]
        return lambda: [a is b for a in values for b in values]

    assert lines(pairs(MANY)) > 8 * lines(pairs(FEW))


def test_every_pass_is_measured() -> None:
    stages = {stage for stage, _, _ in rows([])} - {"lower", "verify", "schedule", "clone"}
    measured = {each.name for stage in stages for each in Pipeline.parse(stage).passes}
    known = {name for name, kind in PASSES.items() if kind.__module__.startswith("graphad.")}
    assert not known - measured
