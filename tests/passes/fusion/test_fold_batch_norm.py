"""Batch normalizations by running statistics, folded into the weights before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad.execution import Scope
from graphad.passes.fusion import FoldBatchNorm
from graphad.testing import Case, Choices, check_pass

Array = NDArray[Any]
NORM = "batch_norm(X=%s, Scale=s, Bias=b, Mean=mean, Variance=variance) -> "
NORM += "(Y=y, MeanOut=mean, VarianceOut=variance, SavedMean=sm, SavedVariance=sv)"
PARAMETERS = "param s: float64[4] param b: float64[4] var mean: float64[4] persistable var variance: float64[4] persistable "
PARAMETERS += "var sm: float64[4] var sv: float64[4] param extra: float64[4] "
IMAGE = "var x: float64[-1, 3, 6, 6] param w: float64[4, 3, 3, 3] " + "".join(f"var {n}: float64[-1, 4, 4, 4] " for n in "cdyz")
LAST = "var x: float64[-1, 6, 6, 3] param w: float64[4, 3, 3, 3] var c: float64[-1, 4, 4, 4] var y: float64[-1, 4, 4, 4] "
LAST += 'conv2d(Input=x, Filter=w) -> (Output=c) {data_format="NHWC"} ' + NORM % "c"
VOLUME = "var x: float64[-1, 3, 4, 4, 4] param w: float64[4, 3, 2, 2, 2] var c: float64[-1, 4, 3, 3, 3] var y: float64[-1, 4, 3, 3, 3] "
LARGER = "var x: float64[-1, 3, 4, 4] param w: float64[3, 4, 3, 3] var c: float64[-1, 4, 6, 6] var y: float64[-1, 4, 6, 6] "
ROWS = "var x: float64[-1, 3] param w: float64[3, 4] param wt: float64[4, 3] " + "".join(f"var {n}: float64[-1, 4] " for n in "cdyz")
FIXED = " {is_test=true}"
FOLDED = {
    "conv2d": IMAGE + "conv2d(Input=x, Filter=w) -> (Output=c) " + NORM % "c" + FIXED,
    "conv2d with a bias": IMAGE + "conv2d(Input=x, Filter=w, Bias=extra) -> (Output=c) " + NORM % "c" + FIXED,
    "conv2d and a bias": IMAGE + "conv2d(Input=x, Filter=w) -> (Output=c) "
    "elementwise_add(X=c, Y=extra) -> (Out=d) {axis=1} " + NORM % "d" + FIXED,
    "global statistics": IMAGE + "conv2d(Input=x, Filter=w) -> (Output=c) " + NORM % "c" + " {use_global_stats=true, epsilon=0.125}",
    "channels last": LAST + ' {is_test=true, data_layout="NHWC"}',
    "conv3d": VOLUME + "conv3d(Input=x, Filter=w) -> (Output=c) " + NORM % "c" + FIXED,
    "conv2d_transpose": LARGER + "conv2d_transpose(Input=x, Filter=w) -> (Output=c) " + NORM % "c" + FIXED,
    "mul": ROWS + "mul(X=x, Y=w) -> (Out=c) " + NORM % "c" + FIXED,
    "mul and a bias": ROWS + "mul(X=x, Y=w) -> (Out=c) elementwise_add(X=c, Y=extra) -> (Out=d) " + NORM % "d" + FIXED,
    "matmul": ROWS + "matmul(X=x, Y=wt) -> (Out=c) {transpose_Y=true, alpha=0.5} " + NORM % "c" + FIXED,
    "matmul_v2": ROWS + "matmul_v2(X=x, Y=w) -> (Out=c) " + NORM % "c" + FIXED,
}  # fmt: skip
LEFT = {
    "its own statistics": IMAGE + "conv2d(Input=x, Filter=w) -> (Output=c) " + NORM % "c",
    "trained statistics": IMAGE + "conv2d(Input=x, Filter=w) -> (Output=c) " + NORM % "c" + " {is_test=true, trainable_statistics=true}",
    "channels in another place": LAST + FIXED,
    "read twice": IMAGE + "conv2d(Input=x, Filter=w) -> (Output=c) relu(X=c) -> (Out=z) " + NORM % "c" + FIXED,
    "weights that are computed": ROWS + "tanh(X=w) -> (Out=v) mul(X=x, Y=v) -> (Out=c) " + NORM % "c" + FIXED,
    "a bias along another axis": "param e: float64[4] " + IMAGE + "conv2d(Input=x, Filter=w) -> (Output=c) "
    "elementwise_add(X=c, Y=e) -> (Out=d) "
    + NORM % "d" + FIXED,
    "a sum of two branches": IMAGE + "conv2d(Input=x, Filter=w) -> (Output=c) conv2d(Input=x, Filter=w) -> (Output=z) "
    "elementwise_add(X=c, Y=z) -> (Out=d) " + NORM % "d" + FIXED,
    "no product": "var x: float64[-1, 4] var y: float64[-1, 4] " + NORM % "x" + FIXED,
}  # fmt: skip


def program_of(text: str) -> ga.Program:
    return ga.Program.parse(f"program {{ block 0 {{ var v: float64[3, 4] {PARAMETERS} {text} }} }}")


def case_of(text: str, seed: int = 0) -> Case:
    program, rng = program_of(text), np.random.default_rng(seed)
    params = {n: np.asarray(rng.normal(size=v.shape)) for n, v in program.global_block().vars.items() if v.persistable and v.shape}
    params["variance"] = rng.uniform(0.25, 2.0, 4)
    shape = [2 if e == -1 else e for e in program.global_block().var("x").shape or ()]
    return Case(program, "", {"x": rng.normal(size=shape)}, params)


def run(program: ga.Program, case: Case, *fetch: str) -> list[Array]:
    scope = Scope()
    for name, array in case.params.items():
        scope.set(name, array)
    return ga.Executor().run(program, feed=case.feeds, fetch_list=list(fetch), scope=scope)


@pytest.mark.parametrize("which", FOLDED)
def test_it_is_folded(which: str) -> None:
    case = case_of(FOLDED[which])
    graph = ga.lower(case.program, ["y"])
    assert FoldBatchNorm().run(graph)
    assert not FoldBatchNorm().run(graph)
    assert "batch_norm" not in {op.type for op in graph.ops}
    for before, now in zip(
        run(case.program, case, "y", "mean", "variance"), run(ga.schedule(graph), case, "y", "mean", "variance"), strict=True
    ):
        np.testing.assert_allclose(now, before, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("which", LEFT)
def test_it_is_left_alone(which: str) -> None:
    graph = ga.lower(program_of(LEFT[which]))
    text = str(graph)
    assert not FoldBatchNorm().run(graph)
    assert str(graph) == text


def test_saved_statistics_that_are_requested() -> None:
    case = case_of(FOLDED["mul"])
    graph = ga.lower(case.program, ["y", "sm", "sv"])
    assert FoldBatchNorm().run(graph)
    for before, now in zip(run(case.program, case, "sm", "sv"), run(ga.schedule(graph), case, "sm", "sv"), strict=True):
        np.testing.assert_array_equal(now, before)


def test_a_filter_of_one_feature_a_channel() -> None:
    text = "var x: float64[-1, 4, 6, 6] param w: float64[4, 1, 3, 3] var c: float64[-1, 4, 4, 4] var y: float64[-1, 4, 4, 4] "
    case = case_of(text + "depthwise_conv2d(Input=x, Filter=w) -> (Output=c) {groups=4} " + NORM % "c" + FIXED)
    graph = ga.lower(case.program, ["y"])
    assert FoldBatchNorm().run(graph)
    np.testing.assert_allclose(run(ga.schedule(graph), case, "y")[0], run(case.program, case, "y")[0], rtol=1e-12)


def test_everything_that_holds_of_passes() -> None:
    texts = [*FOLDED.values(), *LEFT.values()]
    loss = " var loss: float64[] mean(X=y) -> (Out=loss)"

    def program(choices: Choices) -> Case:
        return _with_loss(case_of(choices.one_of(texts) + loss, choices.below(10)))

    assert check_pass(FoldBatchNorm(), examples=40, programs=program).changed > 10


def _with_loss(case: Case) -> Case:
    return Case(case.program, "loss", case.feeds, case.params)
