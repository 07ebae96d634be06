"""Mistakes in the rules of simplify, and in what rewrites by rules."""

from __future__ import annotations

from typing import Any

from tests.mutants.corpus import Mutant
from tests.mutants.patching import Patch
from tests.mutants.witness import Witness

RULES = "graphad.passes.cleanup.rules"


def _rule(name: str, where: str, old: str, new: str, text: str, what: str = "simplify", **options: Any) -> Mutant:
    return Mutant(f"simplify-{name}", "rules", Patch(f"{RULES}.{where}", old, new), Witness(text, what, **options))


def _fast(name: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    return _rule(name, where, old, new, text, "simplify{fast=true}", tolerance=1e-5, **options)


_ARITHMETIC = (
    _rule(
        "subtracts-as-it-adds",
        "arithmetic:subtract_number",
        "bias=-c",
        "bias=c",
        """
        x: float64[2]
        fill_constant() -> (Out=c) {shape=[2], value=3.0, dtype="float64"}
        elementwise_sub(X=x, Y=c) -> (Out=y)
        """,
    ),
    _rule(
        "turns-a-difference-the-wrong-way",
        "arithmetic:negate_difference",
        "ops.elementwise_sub(y, x), is_float(x)",
        "ops.elementwise_sub(x, y), is_float(x)",
        """
        x: float64[2]
        y: float64[2]
        elementwise_sub(X=x, Y=y) -> (Out=d)
        scale(X=d) -> (Out=z) {scale=-1.0}
        """,
    ),
    _rule(
        "takes-power-zero-for-zero",
        "arithmetic:pow_zero",
        "value=1.0",
        "value=0.0",
        """
        x: float64[2]
        pow(X=x) -> (Out=y) {factor=0.0}
        """,
    ),
    _rule(
        "divides-by-any-number-exactly",
        "arithmetic:is_power_of_two",
        "math.frexp(abs(c))[0] == 0.5 and",
        "",
        """
        x: float64[3]
        fill_constant() -> (Out=c) {shape=[3], value=3.0, dtype="float64"}
        elementwise_div(X=x, Y=c) -> (Out=y)
        """,
        feeds={"x": [5.0, 7.0, 0.7]},
        tolerance=0.0,
    ),
    _rule(
        "squares-a-product-of-two",
        "arithmetic:product_of_negated",
        "ops.scale(x, scale=-1.0), ops.scale(y, scale=-1.0)",
        "ops.scale(x, scale=-1.0), y",
        """
        x: float64[2]
        y: float64[2]
        scale(X=x) -> (Out=a) {scale=-1.0}
        elementwise_mul(X=a, Y=y) -> (Out=z)
        """,
    ),
    _fast(
        "loses-the-outer-bias",
        "arithmetic:affine_of_affine",
        "bias=b * c + d",
        "bias=b * c",
        """
        x: float64[2]
        scale(X=x) -> (Out=a) {scale=2.0, bias=0.5}
        scale(X=a) -> (Out=y) {scale=3.0, bias=0.7}
        """,
    ),
    _fast(
        "adds-the-outer-scale-to-integers",
        "arithmetic:affine_of_affine",
        ", is_float(x)",
        "",
        """
        x: int64[2]
        scale(X=x) -> (Out=a) {scale=0.5}
        scale(X=a) -> (Out=y) {scale=2.0}
        """,
        feeds={"x": [1, 3]},
    ),
    _fast(
        "divides-the-wrong-way",
        "factors:multiply_by_reciprocal",
        "ops.elementwise_div(x, y)",
        "ops.elementwise_div(y, x)",
        """
        x: float64[2]
        y: float64[2]
        reciprocal(X=y) -> (Out=r)
        elementwise_mul(X=x, Y=r) -> (Out=z)
        """,
    ),
    _fast(
        "factors-out-the-wrong-factor",
        "factors:common_factor",
        "ops.elementwise_mul(ops.elementwise_add(x, y), z)",
        "ops.elementwise_mul(ops.elementwise_add(x, z), y)",
        """
        x: float64[2]
        y: float64[2]
        z: float64[2]
        elementwise_mul(X=x, Y=z) -> (Out=a)
        elementwise_mul(X=y, Y=z) -> (Out=b)
        elementwise_add(X=a, Y=b) -> (Out=s)
        """,
    ),
    _rule(
        "sums-three-as-twice",
        "factors:sum_of_the_same",
        "scale=2.0",
        "scale=1.0",
        """
        x: float64[2]
        sum(X=[x, x]) -> (Out=y)
        """,
    ),
)

_FUNCTIONS = (
    _rule(
        "clips-apart",
        "functions:clip_of_clip",
        "is_float(x) & compute(overlap, a, b, c, d)",
        "is_float(x)",
        """
        x: float64[2]
        clip(X=x) -> (Out=a) {min=0.0, max=1.0}
        clip(X=a) -> (Out=y) {min=2.0, max=3.0}
        """,
    ),
    _rule(
        "clips-to-the-wider-range",
        "functions:clip_of_clip",
        "max=compute(min, b, d)",
        "max=compute(max, b, d)",
        """
        x: float64[2]
        clip(X=x) -> (Out=a) {min=0.0, max=1.0}
        clip(X=a) -> (Out=y) {min=0.0, max=0.5}
        """,
    ),
    _rule(
        "rectifies-below-zero",
        "functions:relu_of_relu6",
        "compute(float, t) >= 0",
        "compute(float, t) >= -9",
        """
        x: float64[2]
        relu6(X=x) -> (Out=a) {threshold=-1.0}
        relu(X=a) -> (Out=y)
        """,
    ),
    _rule(
        "keeps-negative-bounds",
        "functions:relu_of_clip",
        "min=compute(max, a, 0.0)",
        "min=a",
        """
        x: float64[2]
        clip(X=x) -> (Out=a) {min=-1.0, max=2.0}
        relu(X=a) -> (Out=y)
        """,
        feeds={"x": [-0.5, 1.0]},
    ),
    _rule(
        "takes-cosine-for-odd",
        "functions:cos_of_negated",
        "ops.cos(x)",
        "ops.scale(ops.cos(x), scale=-1.0)",
        """
        x: float64[2]
        scale(X=x) -> (Out=a) {scale=-1.0}
        cos(X=a) -> (Out=y)
        """,
    ),
    _rule(
        "drops-relu-after-absolute",
        "functions:absolute_of_relu",
        "inner = ops.relu(x)\n    return ops.abs(inner), inner",
        "inner = ops.relu(x)\n    return ops.abs(inner), x",
        """
        x: float64[2]
        relu(X=x) -> (Out=a)
        abs(X=a) -> (Out=y)
        """,
        feeds={"x": [-1.0, 1.0]},
    ),
    _fast(
        "doubles-a-logarithm",
        "functions:log_of_sqrt",
        "scale=0.5",
        "scale=2.0",
        """
        x: float64[2]
        sqrt(X=x) -> (Out=a)
        log(X=a) -> (Out=y)
        """,
    ),
    _fast(
        "takes-a-root-for-its-square",
        "functions:sqrt_of_square",
        "ops.abs(x)",
        "x",
        """
        x: float64[2]
        square(X=x) -> (Out=a)
        sqrt(X=a) -> (Out=y)
        """,
        feeds={"x": [-1.0, 2.0]},
    ),
    _fast(
        "divides-exponentials-the-wrong-way",
        "functions:quotient_of_exp",
        "ops.elementwise_sub(x, y)",
        "ops.elementwise_sub(y, x)",
        """
        x: float64[2]
        y: float64[2]
        exp(X=x) -> (Out=a)
        exp(X=y) -> (Out=b)
        elementwise_div(X=a, Y=b) -> (Out=z)
        """,
    ),
    _rule(
        "forgets-beta",
        "activations:swish_written_out",
        "ops.swish(x, beta=b)",
        "ops.swish(x)",
        """
        x: float64[2]
        scale(X=x) -> (Out=a) {scale=3.0}
        sigmoid(X=a) -> (Out=g)
        elementwise_mul(X=x, Y=g) -> (Out=y)
        """,
    ),
    _fast(
        "takes-the-default-axis",
        "activations:log_of_softmax",
        "ops.log_softmax(x, axis=a)",
        "ops.log_softmax(x)",
        """
        x: float64[2, 3]
        softmax(X=x) -> (Out=a) {axis=0}
        log(X=a) -> (Out=y)
        """,
    ),
    _rule(
        "takes-any-dropout-for-none",
        "dropout:DropoutOfNothing.rewrite",
        'op.attrs.get("dropout_prob", 0.5) == 0.0',
        'op.attrs.get("dropout_prob", 0.0) == 0.0',
        """
        x: float64[20]
        dropout(X=x) -> (Out=y, Mask=m) {dropout_implementation="upscale_in_train"}
        """,
        targets=("y",),
    ),
    _rule(
        "scales-dropout-by-what-is-dropped",
        "dropout:DropoutInTest.rewrite",
        '1.0 - float(op.attrs.get("dropout_prob", 0.5))',
        'float(op.attrs.get("dropout_prob", 0.5))',
        """
        x: float64[2]
        dropout(X=x) -> (Out=y, Mask=m) {dropout_prob=0.3, is_test=true}
        """,
        targets=("y",),
    ),
)

_ARRANGEMENT = (
    _rule(
        "drops-a-narrowing-cast",
        "arrangement:cast_of_widened",
        "compute(holds, a, x.dtype)",
        'x.dtype != ""',
        """
        x: float64[2]
        cast(X=x) -> (Out=a) {out_dtype="int32", in_dtype="float64"}
        cast(X=a) -> (Out=y) {out_dtype="float32", in_dtype="int32"}
        """,
        feeds={"x": [1.5, 2.5]},
    ),
    _rule(
        "composes-axes-the-wrong-way",
        "arrangement:transpose2_of_transpose2",
        "compute(composed, a, b)",
        "compute(composed, b, a)",
        """
        x: float64[2, 2, 2]
        transpose2(X=x) -> (Out=a) {axis=[1, 2, 0]}
        transpose2(X=a) -> (Out=y) {axis=[0, 2, 1]}
        """,
    ),
    _rule(
        "takes-any-order-for-none",
        "arrangement:is_in_order",
        "[a % len(axis) for a in axis]",
        "sorted(a % len(axis) for a in axis)",
        """
        x: float64[2, 2]
        transpose2(X=x) -> (Out=y) {axis=[1, 0]}
        """,
    ),
    _rule(
        "adds-up-rolls-once",
        "arrangement:added",
        "[a + b for a, b in",
        "[max(a, b) for a, b in",
        """
        x: float64[4]
        roll(X=x) -> (Out=a) {shifts=[1], axis=[0]}
        roll(X=a) -> (Out=y) {shifts=[1], axis=[0]}
        """,
    ),
    _rule(
        "takes-one-flip-for-two",
        "arrangement:flip_of_flip",
        "axis=a), axis=a), x",
        "axis=a), axis=a), ops.flip(x, axis=a)",
        """
        x: float64[3]
        flip(X=x) -> (Out=a) {axis=[0]}
        flip(X=a) -> (Out=y) {axis=[0]}
        """,
    ),
    _rule(
        "joins-pieces-turned-round",
        "pieces:split_of_concat_of_two",
        "return (parts[0], parts[1]), (x, y)",
        "return (parts[0], parts[1]), (y, x)",
        """
        x: float64[2]
        y: float64[2]
        concat(X=[x, y]) -> (Out=c)
        split(X=c) -> (Out=[a, b]) {num=2}
        """,
    ),
    _rule(
        "turns-the-factor-always",
        "reductions:matmul_of_transposed",
        "trans_x=~s, trans_y=t), compute",
        "trans_x=True, trans_y=t), compute",
        """
        x: float64[2, 2]
        y: float64[2, 2]
        transpose2(X=x) -> (Out=a) {axis=[1, 0]}
        matmul_v2(X=a, Y=y) -> (Out=z) {trans_x=true}
        """,
    ),
    _fast(
        "loses-the-bias-of-a-mean",
        "reductions:mean_of_scaled",
        "ops.scale(ops.mean(x), scale=a, bias=b)",
        "ops.scale(ops.mean(x), scale=a)",
        """
        x: float64[3]
        scale(X=x) -> (Out=a) {scale=2.0, bias=1.0}
        mean(X=a) -> (Out=y)
        """,
    ),
)

_LOGIC = (
    _rule(
        "negates-comparisons-of-floats",
        "logic:not_less",
        "compute(is_whole, x.dtype)",
        'x.dtype != ""',
        """
        x: float64[2]
        y: float64[2]
        less_than(X=x, Y=y) -> (Out=a)
        logical_not(X=a) -> (Out=z)
        """,
        feeds={"x": ["nan", 1.0], "y": [1.0, 2.0]},
    ),
    _rule(
        "takes-nan-for-equal",
        "logic:equal_to_itself",
        "compute(is_whole, x.dtype)",
        'x.dtype != ""',
        """
        x: float64[2]
        equal(X=x, Y=x) -> (Out=z)
        """,
        feeds={"x": ["nan", 1.0]},
    ),
    _rule(
        "compares-strictly",
        "logic:not_greater",
        "ops.less_equal(x, y)",
        "ops.less_than(x, y)",
        """
        x: int64[2]
        y: int64[2]
        greater_than(X=x, Y=y) -> (Out=a)
        logical_not(X=a) -> (Out=z)
        """,
        feeds={"x": [1, 2], "y": [1, 3]},
    ),
    _rule(
        "distributes-not-wrongly",
        "logic:and_of_nots",
        "ops.logical_not(ops.logical_or(x, y))",
        "ops.logical_not(ops.logical_and(x, y))",
        """
        x: bool[4]
        y: bool[4]
        logical_not(X=x) -> (Out=a)
        logical_not(X=y) -> (Out=b)
        logical_and(X=a, Y=b) -> (Out=z)
        """,
        feeds={"x": [True, True, False, False], "y": [True, False, True, False]},
    ),
    _rule(
        "chooses-the-inner-other",
        "logic:choose_again",
        "ops.where(c, x, z)",
        "ops.where(c, y, z)",
        """
        c: bool[2]
        x: float64[2]
        y: float64[2]
        z: float64[2]
        where(Condition=c, X=x, Y=y) -> (Out=a)
        where(Condition=c, X=a, Y=z) -> (Out=b)
        """,
        feeds={"c": [True, False]},
    ),
)

MUTANTS = (*_ARITHMETIC, *_FUNCTIONS, *_ARRANGEMENT, *_LOGIC)
