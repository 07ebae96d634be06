"""Witnesses that the right passes are right."""

from __future__ import annotations

from typing import Any

from graphad.rewriting import Pass
from tests.mutants.corpus import UserPass
from tests.mutants.right import passes as right
from tests.mutants.witness import BACKWARD, Witness

_SIGNS = [-1.0, 0.0, 2.0, -0.0]


def _control(family: str, pass_type: type[Pass], text: str, prepare: str = "", **options: Any) -> UserPass:
    return UserPass(family, pass_type, Witness(text, pass_type, prepare, tolerance=1e-6, **options))


def _loss(text: str, out: str = "y") -> str:
    return f"{text}\nsquare(X={out}) -> (Out=q)\nmean(X=q) -> (Out=loss)"


_LOOP = """
h: float64[2]
w: float64[2]
n: int64[1]
fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
less_than(X=i, Y=n) -> (Out=more)
while(X=[h, w, i, n], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
mean(X=h) -> (Out=loss)
block 1 in 0:
elementwise_mul(X=h, Y=w) -> (Out=t)
tanh(X=t) -> (Out=h)
increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more)
"""
_IF = """
x: float64[2]
c: bool[1]
y: float64[2]
loss: float64[]
if_else(Cond=c, X=x) -> (Out=y) {true_block=block(1), false_block=block(2)}
mean(X=y) -> (Out=loss)
block 1 in 0:
tanh(X=x) -> (Out=y)
block 2 in 0:
exp(X=x) -> (Out=y)
"""
_SHARED = (
    "x: float64[2]\ntanh(X=x) -> (Out=a)\nexp(X=x) -> (Out=b)\nelementwise_mul(X=a, Y=b) -> (Out=c)\nelementwise_add(X=c, Y=a) -> (Out=y)"
)

CONTROLS = (
    _control("kinks", right.RectifiesByMaximum, _loss("x: float64[4]\nrelu(X=x) -> (Out=y)"), feeds={"x": _SIGNS}, sources=("x",)),
    _control(
        "arithmetic",
        right.SubtractsByAdding,
        _loss("x: float64[2]\nz: float64[2]\nelementwise_sub(X=x, Y=z) -> (Out=y)"),
        sources=("x", "z"),
    ),
    _control("arithmetic", right.SquaresByMultiplying, _loss("x: float64[2]\nsquare(X=x) -> (Out=y)"), sources=("x",)),
    _control(
        "arithmetic", right.SwapsFactors, _loss("x: float64[2]\nz: float64[2]\nelementwise_mul(X=x, Y=z) -> (Out=y)"), sources=("x", "z")
    ),
    _control("rounding", right.AddsFromTheRight, _loss("x: float64[2]\nz: float64[2]\nsum(X=[x, z, x]) -> (Out=y)"), sources=("x", "z")),
    _control(
        "rounding", right.SumsAxisByAxis, _loss("x: float64[2, 3]\nreduce_sum(X=x) -> (Out=y) {dim=[0, 1], keep_dim=true}"), sources=("x",)
    ),
    _control("ends of the range", right.MeansBySums, "x: float64[0]\nmean(X=x) -> (Out=loss)"),
    _control("rounding", right.MeansBySums, "x: float64[3]\nmean(X=x) -> (Out=loss)", sources=("x",)),
    _control(
        "ends of the range",
        right.WritesSoftmaxOut,
        _loss("x: float64[2, 2]\nsoftmax(X=x) -> (Out=y) {axis=0}"),
        feeds={"x": [[900.0, 1.0], [900.0, -900.0]]},
        sources=("x",),
    ),
    _control("kinks", right.ClipsByBounds, _loss("x: float64[2]\nsigmoid(X=x) -> (Out=y)"), sources=("x",)),
    _control("copies", right.ComputesForEachReader, _loss(_SHARED), sources=("x",)),
    _control("names", right.RenamesLocals, _loss(_SHARED), sources=("x",)),
    _control("orders", right.RunsLateWhatCanWait, _loss(_SHARED), sources=("x",)),
    _control("loops", right.ReadsThroughCopies, _LOOP, feeds={"n": [3]}, sources=("h", "w")),
    _control("loops", right.NegatesTwice, _LOOP, feeds={"n": [3]}, sources=("h", "w")),
    _control("copies", right.TurnsAndTurnsBack, _loss("x: float64[2, 3]\nexp(X=x) -> (Out=y)"), sources=("x",)),
    _control("kinks", right.CutsAndJoins, _loss("x: float64[4]\nrelu(X=x) -> (Out=y)"), feeds={"x": _SIGNS}, sources=("x",)),
    _control("branches", right.ExchangesBranches, _IF, feeds={"c": [False]}, sources=("x",)),
    _control("branches", right.ExchangesBranches, _IF, feeds={"c": [True]}, sources=("x",)),
    _control("gradients", right.DifferentiatesTanhByHand, _loss(_SHARED), BACKWARD),
    _control("gradients", right.SumsGradientsBackwards, _loss(_SHARED), BACKWARD),
    _control("constants", right.ListsConstants, 'fill_constant() -> (Out=a) {shape=[2], value=0.1, dtype="float64"}\nexp(X=a) -> (Out=y)'),
    _control(
        "ends of the range",
        right.ComparesInTwoSteps,
        "x: float64[3]\nz: float64[3]\nless_equal(X=x, Y=z) -> (Out=y)",
        feeds={"x": ["nan", "inf", 1.0], "z": [1.0, "inf", 2.0]},
    ),
    _control(
        "broadcasting",
        right.ExpandsBeforehand,
        _loss("x: float64[2, 3]\nz: float64[2, 1]\nelementwise_mul(X=x, Y=z) -> (Out=y)"),
        sources=("x", "z"),
    ),
    _control("dtypes", right.WidensForAMoment, "x: float32[3]\ntanh(X=x) -> (Out=y)"),
    _control(
        "kinks",
        right.ChoosesByTheNegation,
        _loss("c: bool[2]\nx: float64[2]\nz: float64[2]\nwhere(Condition=c, X=x, Y=z) -> (Out=y)"),
        sources=("x", "z"),
    ),
)
