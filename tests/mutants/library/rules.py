"""Mistakes in the rules of simplify about arithmetic, functions and activations."""

from __future__ import annotations

from typing import Any

from tests.mutants.corpus import Mutant
from tests.mutants.patching import Patch
from tests.mutants.witness import Witness

RULES = "graphad.passes.cleanup.rules"


def rule(name: str, where: str, old: str, new: str, text: str, what: str = "simplify", **options: Any) -> Mutant:
    """A mistake in a rule."""
    return Mutant(f"simplify-{name}", "rules", Patch(f"{RULES}.{where}", old, new), Witness(text, what, **options))


def fast(name: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    """A mistake in a rule that may round."""
    return rule(name, where, old, new, text, "simplify{fast=true}", tolerance=1e-5, **options)


_ARITHMETIC = (
    rule(
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
    rule(
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
    rule(
        "takes-power-zero-for-zero",
        "arithmetic:pow_zero",
        "value=1.0",
        "value=0.0",
        """
        x: float64[2]
        pow(X=x) -> (Out=y) {factor=0.0}
        """,
    ),
    rule(
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
    rule(
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
    fast(
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
    fast(
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
    fast(
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
    fast(
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
    rule(
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
    rule(
        "clips-apart",
        "functions:clip_of_clip",
        "is_float(x) & overlap",
        "is_float(x)",
        """
        x: float64[2]
        clip(X=x) -> (Out=a) {min=0.0, max=1.0}
        clip(X=a) -> (Out=y) {min=2.0, max=3.0}
        """,
    ),
    rule(
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
    rule(
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
    rule(
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
    rule(
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
    rule(
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
    fast(
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
    fast(
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
    fast(
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
    rule(
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
    fast(
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
    rule(
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
    rule(
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


def _promised(name: str, text: str, **options: Any) -> Mutant:
    """A rule that rounds, or forgets what is not finite, promised to be exact."""
    function = name.replace("-", "_")
    value = f"[(f, exact or f.__name__ == {function!r}, example) for f, exact, example in it]"
    witness = Witness(text, "simplify", tolerance=0.0, **options)
    return Mutant(f"simplify-promises-{name}", "rules", Patch(f"{RULES}.arithmetic:library._written", value=value), witness)


_PROMISED = (
    _promised(
        "multiply-by-zero",
        """
        x: float64[2]
        fill_constant() -> (Out=c) {shape=[2], value=0.0, dtype="float64"}
        elementwise_mul(X=x, Y=c) -> (Out=y)
        """,
        feeds={"x": ["inf", 1.0]},
    ),
    _promised(
        "subtract-itself",
        """
        x: float64[2]
        elementwise_sub(X=x, Y=x) -> (Out=y)
        """,
        feeds={"x": ["nan", 1.0]},
    ),
    _promised(
        "divide-by-itself",
        """
        x: float64[2]
        elementwise_div(X=x, Y=x) -> (Out=y)
        """,
        feeds={"x": [0.0, 1.0]},
    ),
)

MUTANTS = (*_ARITHMETIC, *_FUNCTIONS, *_PROMISED)
