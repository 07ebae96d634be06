"""Attributes that any operator may carry (where it runs, who made it) change nothing that a pass does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import graphad as ga
from graphad.program import Program
from tests.benchmarks.fan_out import prepared, rows

ROWS = [row for row in rows([]) if ", " in row[0] or row[0] not in ("lower", "schedule", "clone", "verify")]
MARKS = {"op_device": "cpu", "use_mkldnn": False}


def passed(text: str, program: Program) -> str:
    last, graph = prepared(text, program)
    last.run(graph)
    after = ga.schedule(graph)
    for block in after.blocks:
        for op in block.ops:
            for name in MARKS:
                op.attrs.pop(name, None)
    return str(after)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_a_pass_does_the_same_to_operators_with_common_attributes(row: tuple[str, str, Callable[[int], Program]]) -> None:
    text, _, make = row
    marked = make(16)
    for op in (op for block in marked.blocks for op in block.ops):
        op.attrs |= MARKS
    assert passed(text, marked) == passed(text, make(16))
