"""Witnesses that the wrong passes about structure are wrong."""

from __future__ import annotations

from graphad.rewriting import Pass
from tests.mutants.corpus import Check, UserPass
from tests.mutants.witness import BACKWARD as DIFFERENTIATED
from tests.mutants.witness import Witness
from tests.mutants.wrong import structure as wrong
from tests.testing import wrong_passes as known

_LOOP = """
h: float64[1]
{declared}
n: int64[1]
fill_constant() -> (Out=i) {{shape=[1], value=0.0, dtype="int64"}}
less_than(X=i, Y=n) -> (Out=more)
while(X=[h, {names}, i, n], Condition=more) -> (Out=[h, {out}i, more]) {{sub_block=block(1)}}
scale(X={last}) -> (Out=y) {{scale=2.0}}
block 1 in 0:
{body}
increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more)
"""


def _loop(body: str, names: str, out: str = "", last: str = "h") -> str:
    declared = "\n".join(f"{name}: float64[1]" for name in names.split(", "))
    return _LOOP.format(body=body, names=names, out=out, last=last, declared=declared)


_IF = """
x: float64[1]
c: bool[1]
y: float64[1]
if_else(Cond=c, X=x) -> (Out=y) {true_block=block(1), false_block=block(2)}
scale(X=y) -> (Out=z) {scale=2.0}
block 1 in 0:
assign(X=x) -> (Out=y)
block 2 in 0:
tanh(X=x) -> (Out=y)
"""
_THREE = (
    "x: float64[2]\ntanh(X=x) -> (Out=a)\nexp(X=x) -> (Out=b)\nsin(X=x) -> (Out=c)\nsum(X=[a, b, c]) -> (Out=s)\nmean(X=s) -> (Out=loss)"
)
_FIRST = "find-op-path{targets=[$loss]}, create-grad-ops, prune-no-grad"


def _trying(family: str, pass_type: type[Pass], text: str, prepare: str = "", **options: object) -> UserPass:
    return UserPass(family, pass_type, Witness(text, pass_type, prepare, **options))  # type: ignore[arg-type]


_CONTROL = (
    _trying(
        "loops",
        known.DropsCapture,
        _loop("elementwise_mul(X=h, Y=a) -> (Out=t)\nelementwise_add(X=t, Y=b) -> (Out=h)", "a, b"),
        feeds={"n": [2]},
    ),
    _trying("loops", known.HoistsFromLoop, _loop("tanh(X=a) -> (Out=h)", "a"), feeds={"n": [0]}),
    _trying(
        "loops",
        wrong.RunsOnceIfTheLimitIsOne,
        _loop("tanh(X=a) -> (Out=h)", "a")
        .replace("n: int64[1]\n", "")
        .replace("value=0.0", "value=2.0")
        .replace("less_than(X=i", 'fill_constant() -> (Out=n) {shape=[1], value=1.0, dtype="int64"}\nless_than(X=i', 1),
    ),
    _trying(
        "loops",
        wrong.ForgetsUnreadCarries,
        _loop("elementwise_mul(X=h, Y=k) -> (Out=h)\ntanh(X=k) -> (Out=k)", "k", "k, "),
        feeds={"n": [2]},
        targets=("y", "i"),
    ),
    _trying("loops", wrong.HandsOnTheStart, _loop("assign(X=k) -> (Out=h)\ntanh(X=k) -> (Out=k)", "k", "k, "), feeds={"n": [2]}),
    _trying(
        "branches",
        known.TakesWrongBranch,
        _IF.replace("c: bool[1]", 'fill_constant() -> (Out=c) {shape=[1], value=1.0, dtype="bool"}'),
    ),
    _trying("branches", wrong.TakesOneBranchForBoth, _IF, feeds={"c": [False]}),
)
_STATE = (
    _trying("state", known.DropsState, "count: float64[1] persistable\nincrement(X=count) -> (Out=count)", targets=(), runs=2),
    _trying(
        "state",
        wrong.MergesIncrements,
        "count: float64[1] persistable\nincrement(X=count) -> (Out=count)\nincrement(X=count) -> (Out=count)",
    ),
    _trying(
        "state",
        wrong.ForgetsVelocity,
        "param w: float64[2]\nv: float64[2] persistable\nrate: float64[1] persistable\nsquare(X=w) -> (Out=g)\n"
        "momentum(Param=w, Grad=g, Velocity=v, LearningRate=rate) -> (ParamOut=w, VelocityOut=v) {mu=0.9} optimize",
    ),
    _trying(
        "state",
        wrong.SharesRates,
        "param w: float64[2]\nparam b: float64[2]\nfast: float64[1] persistable\nslow: float64[1] persistable\n"
        "sgd(Param=w, Grad=b, LearningRate=fast) -> (ParamOut=w) optimize\n"
        "sgd(Param=b, Grad=b, LearningRate=slow) -> (ParamOut=b) optimize",
    ),
    _trying("state", known.IgnoresAliasing, "x: float64[1]\nincrement(X=x) -> (Out=x)\ntanh(X=x) -> (Out=y)"),
)
_GRADIENTS = (
    UserPass(
        "gradients",
        wrong.SumsFirstAndLast,
        Witness(_THREE, "find-op-path{targets=[$loss]}, create-grad-ops, prune-no-grad, user-sums-first-and-last, create-grad-vars"),
        Check("user-sums-first-and-last, create-grad-vars", _FIRST),
    ),
    _trying(
        "gradients",
        wrong.CountsEqualTermsOnce,
        "x: float64[2]\ntanh(X=x) -> (Out=a)\nsum(X=[a, a]) -> (Out=s)\nmean(X=s) -> (Out=loss)",
        sources=("x",),
    ),
    _trying("gradients", wrong.ForgetsTheSquare, "x: float64[2]\ntanh(X=x) -> (Out=y)\nmean(X=y) -> (Out=loss)", DIFFERENTIATED),
    _trying(
        "gradients",
        wrong.SwapsGradients,
        "x: float64[2]\ny: float64[2]\nelementwise_mul(X=x, Y=y) -> (Out=z)\nmean(X=z) -> (Out=loss)",
        DIFFERENTIATED,
    ),
    _trying(
        "gradients",
        known.ForgetsStopGradient,
        "x: float64[1]\na: float64[1] stop_gradient\nassign(X=x) -> (Out=a)\nelementwise_mul(X=a, Y=x) -> (Out=z)\nmean(X=z) -> (Out=loss)",
        sources=("x",),
    ),
)
_MEMORY = (
    _trying(
        "memory",
        wrong.DrawsAgain,
        "x: float64[20]\ndropout(X=x) -> (Out=y, Mask=m)\nsquare(X=y) -> (Out=z)\nmean(X=z) -> (Out=loss)",
        DIFFERENTIATED,
        targets=("loss",),
    ),
    _trying(
        "memory",
        wrong.ComputesAgainFromTheUpdate,
        "x: float64[1]\nscale(X=x) -> (Out=a) {scale=0.5}\ntanh(X=a) -> (Out=b)\nexp(X=b) -> (Out=a)\nmean(X=a) -> (Out=loss)",
        DIFFERENTIATED,
    ),
    _trying(
        "memory",
        wrong.ReusesViews,
        "x: float64[2]\nscale(X=x) -> (Out=a) {scale=2.0}\nreshape(X=a) -> (Out=b) {shape=[2]}\nexp(X=b) -> (Out=c)\nsin(X=a) -> (Out=d)",
        marks=True,
    ),
)
_RANDOM = (
    _trying(
        "effects and random numbers",
        known.MergesRandom,
        "uniform_random() -> (Out=a) {shape=[2]}\nuniform_random() -> (Out=b) {shape=[2]}\nelementwise_sub(X=a, Y=b) -> (Out=c)",
    ),
    _trying("effects and random numbers", wrong.DrawsInPieces, "uniform_random() -> (Out=a) {shape=[4]}\ntanh(X=a) -> (Out=b)"),
)
_CLAIMS = (
    _trying("claims", known.IsNotIdempotent, "x: float64[1]\ntanh(X=x) -> (Out=y)", twice=True),
    _trying("claims", known.SaysNothingChanged, "x: float64[1]\nassign(X=x) -> (Out=a)\ntanh(X=a) -> (Out=y)"),
    _trying("claims", known.LeavesWrongType, "x: float64[2]\ntanh(X=x) -> (Out=y)"),
)
NONDETERMINISTIC = (
    _trying(
        "nondeterminism",
        known.FollowsHashes,
        "a: float64[1]\nb: float64[1]\nc: float64[1]\nd: float64[1]\ne: float64[1]\nsum(X=[a, b, c, d, e]) -> (Out=y)",
    ),
    _trying(
        "nondeterminism",
        wrong.OrdersByHash,
        "a: float64[1]\nb: float64[1]\nc: float64[1]\nd: float64[1]\nsum(X=[a, b, c, d]) -> (Out=y)",
    ),
)

_DIFFERENTIATED = (  # these mention gradient operators alone, and nothing is said of a backward: programs have to come with gradients
    UserPass(
        "gradients",
        wrong.SlopesUpAtZero,
        Witness("x: float64[1]\nrelu(X=x) -> (Out=y)\nmean(X=y) -> (Out=loss)", wrong.SlopesUpAtZero, DIFFERENTIATED, feeds={"x": [0.0]}),
        Check(wrong.SlopesUpAtZero),
    ),
    UserPass(
        "gradients",
        wrong.ForgetsTheFactorInLoops,
        Witness(
            _loop("square(X=h) -> (Out=t)\nelementwise_mul(X=t, Y=a) -> (Out=h)", "a").replace(
                "scale(X=h)", "mean(X=h) -> (Out=loss)\nscale(X=h)"
            ),
            wrong.ForgetsTheFactorInLoops,
            DIFFERENTIATED,
            feeds={"n": [2]},
        ),
        Check(wrong.ForgetsTheFactorInLoops),
    ),
)
_TESTS = (_trying("loops", wrong.StopsOneEarly, _loop("tanh(X=a) -> (Out=h)", "a").replace("less_than", "less_equal"), feeds={"n": [2]}),)

WRONG = (*_CONTROL, *_TESTS, *_DIFFERENTIATED, *_STATE, *_GRADIENTS, *_MEMORY, *_RANDOM, *_CLAIMS)
