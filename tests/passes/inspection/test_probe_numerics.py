"""Probes: what they say, in nested graphs too, and that they change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad.passes.inspection import ProbeNumerics
from graphad.testing import check_pass

Array = NDArray[Any]
KINDS = ("NAN", "INF", "MIN", "MAX")


def probed(text: str, **options: Any) -> tuple[ga.Graph, ga.Program]:
    graph = ga.lower(ga.Program.parse(f"program {{ {text} }}"))
    ProbeNumerics(**options).run(graph)
    return graph, ga.schedule(graph)


def facts(program: ga.Program, name: str, **feeds: Any) -> list[float]:
    found = ga.Executor().run(program, feed={n: np.asarray(a) for n, a in feeds.items()}, fetch_list=[f"{name}@PROBE@{k}" for k in KINDS])
    return [float(each) for each in found]


LOG = "block 0 { var x: float64[-1, 2] var y: float64[-1, 2] var z: float64[-1, 2] log(X=x) -> (Out=y) exp(X=y) -> (Out=z) }"


def test_what_they_say() -> None:
    graph, program = probed(LOG)
    x = np.array([[1.0, 0.0], [-1.0, np.e]])
    nan, inf, low, high = facts(program, "y", x=x)
    assert (nan, inf) == (1, 1)
    assert np.isnan(low)
    assert np.isnan(high)
    assert facts(program, "y", x=np.array([[1.0, np.e]])) == [0, 0, 0, 1]
    assert facts(program, "y", x=np.ones((0, 2))) == [0, 0, np.inf, -np.inf]
    assert {v.name for v in graph.targets} == {"z", *(f"{n}@PROBE@{k}" for n in "yz" for k in KINDS)}


def test_the_range_of_nothing_is_empty_also_where_elements_are_declared() -> None:
    """How many targets ``rpn_target_assign`` gives follows from the boxes that are fed."""
    _, program = probed("block 0 { var x: float64[0, 2] var y: float64[0, 2] exp(X=x) -> (Out=y) }")
    assert facts(program, "y", x=np.ones((0, 2))) == [0, 0, np.inf, -np.inf]
    text = """block 0 {
        var anchors: float32[5, 4] var boxes: float32[1, 2, 4] var crowd: int32[1, 2] var image: float32[1, 3]
        var at: int32[2] var scores: int32[3] var y: float32[2, 4] var labels: int32[3, 1] var weights: float32[2, 4]
        rpn_target_assign(Anchor=anchors, GtBoxes=boxes, IsCrowd=crowd, ImInfo=image)
            -> (LocationIndex=at, ScoreIndex=scores, TargetBBox=y, TargetLabel=labels, BBoxInsideWeight=weights)
            {use_random=false, rpn_batch_size_per_im=3}
    }"""
    _, program = probed(text, values=("y",))
    feeds = {"anchors": np.zeros((5, 4), "float32"), "boxes": np.ones((1, 2, 4), "float32"), "crowd": np.zeros((1, 2), "int32")}
    assert facts(program, "y", **feeds, image=-np.ones((1, 3), "float32")) == [0, 0, np.inf, -np.inf]


def test_only_what_is_requested() -> None:
    graph, _ = probed(LOG, values=("y",), inf=False, range=False)
    assert {v.name for v in graph.targets} == {"z", "y@PROBE@NAN"}
    with pytest.raises(ValueError, match="no operator writes a value 'yy' of floating point"):
        probed(LOG, values=("yy",))


def test_a_name_that_is_written_twice() -> None:
    text = "block 0 { var x: float64[2] var y: float64[2] log(X=x) -> (Out=y) square(X=y) -> (Out=y) }"
    _, program = probed(text)
    assert facts(program, "y#0", x=[1.0, 1.0 / np.e]) == [0, 0, -1, 0]
    assert facts(program, "y", x=[1.0, 1.0 / np.e]) == [0, 0, 0, 1]
    graph, _ = probed(text, values=("y#0",), nan=False, inf=False)
    assert {v.name for v in graph.targets} == {"y", "y#0@PROBE@MIN", "y#0@PROBE@MAX"}


LOOP = """block 0 { var h: float64[2] var i: int64[1] var n: int64[1] var more: bool[1] var x: float64[2]
fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"} scale(X=x) -> (Out=h) less_than(X=i, Y=n) -> (Out=more)
while(X=[h, i, n], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)} }
block 1 in 0 { var g: float64[2] scale(X=h) -> (Out=g) {scale=-3.0} scale(X=g) -> (Out=h) {scale=0.5} increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more) }"""


def test_totals_over_the_iterations_of_a_loop() -> None:
    _, program = probed(LOOP)
    x, values = np.array([1.0, np.nan]), np.array([1.0, 2.0])
    assert facts(program, "g", x=values, n=np.array([3])) == [0, 0, -13.5, 9]
    assert facts(program, "g", x=x, n=np.array([3]))[:2] == [3, 0]
    assert facts(program, "g", x=values, n=np.array([0])) == [0, 0, np.inf, -np.inf]


BRANCH = """block 0 { var p: bool[1] var x: float64[2] var y: float64[2]
if_else(Cond=p, X=x) -> (Out=y) {true_block=block(1), false_block=block(2)} }
block 1 in 0 { var t: float64[2] log(X=x) -> (Out=t) exp(X=t) -> (Out=y) } block 2 in 0 { scale(X=x) -> (Out=y) {scale=2.0} }"""


def test_a_branch_that_is_not_taken_says_nothing() -> None:
    _, program = probed(BRANCH)
    x = [-1.0, 1.0]
    assert facts(program, "t", p=[True], x=x)[:2] == [1, 0]
    assert facts(program, "t", p=[False], x=x) == [0, 0, np.inf, -np.inf]


def test_a_loop_in_a_branch() -> None:
    text = """block 0 { var p: bool[1] var h: float64[2] var i: int64[1] var n: int64[1] var more: bool[1]
    conditional_block(Cond=p, Input=[h, i, n, more]) -> (Out=[h, i, more]) {sub_block=block(1)} }
    block 1 in 0 { while(X=[h, i, n], Condition=more) -> (Out=[h, i, more]) {sub_block=block(2)} }
    block 2 in 1 { scale(X=h) -> (Out=h) {scale=2.0} increment(X=i) -> (Out=i) less_than(X=i, Y=n) -> (Out=more) }"""
    _, program = probed(text)
    feeds = {"h": [1.0, 2.0], "i": np.array([0]), "n": np.array([3]), "more": [True]}
    assert facts(program, "h", p=[True], **feeds) == [0, 0, 2, 16]
    assert facts(program, "h", p=[False], **feeds) == [0, 0, np.inf, -np.inf]


def test_gradients_are_watched_as_well() -> None:
    program = ga.Program.parse(
        "program { block 0 { var x: float64[2] var y: float64[2] var loss: float64[] sqrt(X=x) -> (Out=y) mean(X=y) -> (Out=loss) } }"
    )
    block = program.global_block()
    (gradient,) = ga.gradients([block.var("loss")], [block.var("x")])
    graph = ga.lower(program)
    ProbeNumerics().run(graph)
    assert gradient is not None
    assert facts(ga.schedule(graph), gradient.name, x=[0.0, 1.0]) == [0, 1, 0.25, np.inf]


def test_a_second_run_adds_what_is_missing() -> None:
    graph, _ = probed(LOOP, range=False)
    assert not ProbeNumerics(range=False).run(graph)
    assert ProbeNumerics().run(graph)
    assert not ProbeNumerics().run(graph)


def test_on_random_programs() -> None:
    assert check_pass(ProbeNumerics(), examples=30).changed > 10
