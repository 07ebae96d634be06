"""``is_lawful``: a case has its arrays, its types hold for the extents of these, and results have the shapes that are declared."""

from __future__ import annotations

import numpy as np
import pytest

from graphad.program import Program
from graphad.testing.calls import Interest
from graphad.testing.cases import Case, RandomChoices
from graphad.testing.lawful import fits_extents, is_lawful, missing
from graphad.testing.sweeps import drawn

RANGE = """program { block 0 {
  var a: int64[1] var b: int64[1] var s: int64[1] var r: int64[3] range(Start=a, End=b, Step=s) -> (Out=r) } }"""
LABELS = """program { block 0 {
  var w: float64[2, 2] var x: int64[-1, 1] var t: float64[2, 1] var m: float64[2, 1] cross_entropy2(X=w, Label=x) -> (Y=t, MatchX=m) } }"""
LAZY = """program {
  block 0 { var c: bool[1] var x: float64[2] var y: float64[2] conditional_block(Cond=c, Input=y) -> (Out=[x, y]) {sub_block=block(1)} }
  block 1 in 0 { scale(X=y) -> (Out=x) sin(X=x) -> (Out=y) } }"""
INSIDE = """program {
  block 0 {
    var c: bool[1] var x: float64[-1, 2] var y: float64[2, 2]
    conditional_block(Cond=c, Input=x) -> (Out=y) {sub_block=block(1)} }
  block 1 in 0 { assign(X=x) -> (Out=y) } }"""


def integers(**numbers: int) -> dict[str, np.ndarray]:
    return {name: np.array([number]) for name, number in numbers.items()}


@pytest.mark.parametrize(("end", "expected"), [(4, True), (5, False), (1, False)])
def test_a_result_that_follows_numbers_is_as_long_as_declared(end: int, expected: bool) -> None:
    assert is_lawful(Case(Program.parse(RANGE), feeds=integers(a=1, b=end, s=1))) is expected


@pytest.mark.parametrize(("rows", "expected"), [(2, True), (1, False)])
def test_extents_that_inference_takes_for_one_are_one(rows: int, expected: bool) -> None:
    case = Case(Program.parse(LABELS), feeds={"w": np.ones((2, 2)), "x": np.ones((rows, 1), "int64")})
    # The operator broadcasts one label.
    assert fits_extents(case) is is_lawful(case) is expected


@pytest.mark.parametrize("is_fed", [True, False])
def test_what_a_block_reads_has_an_array_although_it_does_not_run(is_fed: bool) -> None:
    feeds = {"c": np.array([False]), "x": np.ones(2), **({"y": np.ones(2)} if is_fed else {})}
    case = Case(Program.parse(LAZY), feeds=feeds)
    assert missing(case) == (set() if is_fed else {"y"})
    assert is_lawful(case) is is_fed


@pytest.mark.parametrize(("rows", "expected"), [(2, True), (1, False)])
def test_results_inside_of_blocks_have_the_declared_shapes(rows: int, expected: bool) -> None:
    feeds = {"c": np.array([True]), "x": np.ones((rows, 2)), "y": np.ones((2, 2))}
    assert is_lawful(Case(Program.parse(INSIDE), feeds=feeds)) is expected


def test_what_does_not_run_is_not_lawful() -> None:
    program = Program.parse("program { block 0 { var i: int64[1] var a: float32[1, 3] one_hot_v2(X=i) -> (Out=a) {depth=3} } }")
    assert [is_lawful(Case(program, feeds=integers(i=number))) for number in (2, 7)] == [True, False]


def test_drawn_programs_are_lawful_unless_an_array_is_missing_or_extents_follow_random_numbers() -> None:
    source = drawn(Interest())
    cases = [source(RandomChoices(f"lawful {seed}")) for seed in range(60)]
    complete = [case for case in cases if not missing(case)]
    assert len(complete) >= 55
    assert sum(map(is_lawful, complete)) >= len(complete) - 2
