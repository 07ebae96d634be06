"""Programs compared up to renaming: which operators differ."""

from __future__ import annotations

from graphad import Program
from graphad.difference import compare

ROWS = "var x: float32[3] var y: float32[3] var z: float32[3] scale(X=x) -> (Out=y) {{scale={}}} tanh(X=y) -> (Out=z)"


def program(scale: float) -> Program:
    return Program.parse(f"program {{ block 0 {{ {ROWS.format(scale)} }} }}")


def test_an_operator_with_another_attribute_is_another_operator() -> None:
    found = compare(program(2.0), program(3.0))
    assert [[op.attrs["scale"] for op in ops if op.type == "scale"] for ops in (found.removed, found.added)] == [[2.0], [3.0]]
    assert {op.type for op in (*found.removed, *found.added)} == {"scale"}
    assert not compare(program(2.0), program(2.0)).added
