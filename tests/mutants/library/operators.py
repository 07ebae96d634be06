"""Mistakes in the gradient rules of operators. The witness of each differentiates one operator."""

from __future__ import annotations

from typing import Any

from tests.mutants.corpus import Check, Mutant
from tests.mutants.patching import Patch
from tests.mutants.witness import BACKWARD, Witness

OPS = "graphad.ops"


def _rule(name: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    return Mutant(f"gradient-of-{name}", "gradient-rules", Patch(f"{OPS}.{where}", old, new), Witness(text, BACKWARD, **options))


def _loss(operator: str, declared: str = "x: float64[2, 3]", out: str = "y") -> str:
    """A loss in which the elements of an operator's result count differently."""
    return f"{declared}\n{operator}\nexp(X={out}) -> (Out=e)\nmean(X=e) -> (Out=loss)"


_ELEMENTWISE = (
    _rule(
        "log1p-forgets-the-one",
        "elementwise",
        "lambda X, dOut: dOut / (X + 1.0), ",
        "lambda X, dOut: dOut / X, ",
        _loss("log1p(X=x) -> (Out=y)"),
    ),
    _rule("rsqrt-has-the-wrong-sign", "elementwise", "* -0.5, flops=2,", "* 0.5, flops=2,", _loss("rsqrt(X=x) -> (Out=y)")),
    _rule("log2-forgets-the-base", "elementwise", "dOut / (X * math.log(2.0))", "dOut / X", _loss("log2(X=x) -> (Out=y)")),
    _rule(
        "pow-forgets-the-factor",
        "elementwise:_pow_grad",
        "pow_(X, factor=factor - 1.0)) * factor",
        "pow_(X, factor=factor - 1.0))",
        _loss("pow(X=x) -> (Out=y) {factor=3.0}"),
    ),
    _rule(
        "swish-ignores-beta",
        "activation",
        "dOut * _silu_slope(X, beta)",
        "dOut * _silu_slope(X)",
        _loss("swish(X=x) -> (Out=y) {beta=2.0}"),
    ),
    _rule(
        "gelu-takes-the-wrong-cubic",
        "activation:_gelu_grad",
        "(X * X * (3.0 * cubic) + 1.0)",
        "(X * X * cubic + 1.0)",
        _loss("gelu(X=x) -> (Out=y) {approximate=true}"),
    ),
    _rule(
        "softplus-ignores-beta",
        "activation",
        "dOut * sigmoid(X * beta)",
        "dOut * sigmoid(X)",
        _loss("softplus(X=x) -> (Out=y) {beta=2.0}"),
    ),
    _rule(
        "leaky-relu-is-that-of-relu",
        "activation",
        "where(X >= 0.0, dOut, dOut * alpha)",
        "where(X >= 0.0, dOut, dOut * 0.0)",
        _loss("leaky_relu(X=x) -> (Out=y) {alpha=0.3}"),
        feeds={"x": [[-1.0, 1.0, 2.0], [-2.0, 0.5, 1.5]]},
    ),
    _rule(
        "maximum-forgets-ties",
        "elementwise",
        "as_mask(less_equal(X, Y, axis=axis), dOut), Y, axis)",
        "as_mask(less_than(X, Y, axis=axis), dOut), Y, axis)",
        "x: float64[2]\ny: float64[2]\nelementwise_max(X=x, Y=y) -> (Out=z)\nmean(X=z) -> (Out=loss)",
        feeds={"x": [1.0, 2.0], "y": [1.0, 0.0]},
        free=True,
    ),
    _rule(
        "quotient-forgets-the-axis",
        "elementwise",
        "-elementwise_div(dOut * Out, Y, axis=axis), Y, axis)",
        "-elementwise_div(dOut * Out, Y, axis=axis), Y)",
        _loss("elementwise_div(X=x, Y=d) -> (Out=y) {axis=0}", "x: float64[2, 2]\nd: float64[2]"),
    ),
)

_REDUCTIONS = (
    _rule(
        "sum-ignores-keep-dim",
        "reduction:_sum_grad",
        "X, dim, keep_dim, reduce_all), X)",
        "X, dim, False, reduce_all), X)",
        _loss("reduce_sum(X=x) -> (Out=y) {dim=[0], keep_dim=true}"),
    ),
    _rule(
        "mean-divides-by-the-wrong-count",
        "reduction:_share",
        "cast(size(cotangent), out_dtype=dtype) / cast",
        "1.0 / cast",
        _loss("reduce_mean(X=x) -> (Out=y) {dim=[0]}"),
    ),
    _rule(
        "softmax-takes-the-last-axis",
        "activation:_softmax_grad",
        "reduce_sum(product, dim=[axis], keep_dim=True)",
        "reduce_sum(product, dim=[-1], keep_dim=True)",
        _loss("softmax(X=x) -> (Out=y) {axis=0}"),
    ),
    _rule(
        "logsumexp-forgets-the-maximum",
        "reduction:_log_sum_grad",
        "exp(X - kept(Out, X, axis, keepdim, reduce_all))",
        "exp(X)",
        _loss("logsumexp(X=x) -> (Out=y) {axis=[1]}"),
    ),
    _rule(
        "product-divides",
        "reduction:_prod_grad",
        "before * cumprod(factor, dim=axis, exclusive=True, reverse=True)",
        "cumprod(factor, dim=axis, exclusive=True, reverse=True)",
        _loss("reduce_prod(X=x) -> (Out=y) {dim=[1]}"),
    ),
    _rule(
        "cumsum-runs-the-same-way",
        "scan:_cumsum_grad",
        "reverse=not reverse",
        "reverse=reverse",
        _loss("cumsum(X=x) -> (Out=y)"),
    ),
    _rule(
        "cumsum-includes-the-element",
        "scan:_cumsum_grad",
        "exclusive=exclusive, ",
        "",
        _loss("cumsum(X=x) -> (Out=y) {exclusive=true}"),
    ),
    _rule(
        "layer-norm-forgets-the-mean",
        "normalization:fast_through_moments",
        "out -= summed(d, axes, True) / count",
        "out -= 0.0",
        _loss("layer_norm(X=x) -> (Y=y, Mean=m, Variance=v)"),
    ),
)

_PLACES = (
    _rule(
        "gather-takes-the-first-axis",
        "indexing:_gather_grad",
        "index_add(fill_zeros_like(X), Index, dOut, axis=axis)",
        "index_add(fill_zeros_like(X), Index, dOut)",
        _loss("gather(X=x, Index=i) -> (Out=y) {axis=1}", "x: float64[2, 2]\ni: int64[2]"),
        feeds={"i": [1, 1]},
    ),
    _rule(
        "embedding-trains-its-padding",
        "embedding:_table_grad",
        "embedding_scatter(dOut, Ids, W, padding_idx=padding_idx)",
        "embedding_scatter(dOut, Ids, W)",
        _loss("lookup_table_v2(W=x, Ids=i) -> (Out=y) {padding_idx=1}", "x: float64[3, 2]\ni: int64[2]"),
        feeds={"i": [1, 2]},
    ),
    _rule(
        "transpose-goes-the-same-way",
        "shapes:_transpose_grad",
        "axis=inverse_order(axis)",
        "axis=axis",
        _loss("transpose(X=x) -> (Out=y) {axis=[1, 2, 0]}", "x: float64[2, 2, 2]"),
    ),
    _rule(
        "roll-goes-the-same-way",
        "shapes",
        "[-s for s in shifts]",
        "shifts",
        _loss("roll(X=x) -> (Out=y) {shifts=[1], axis=[1]}"),
    ),
    _rule(
        "pad-takes-the-start",
        "padding:_pad_grad",
        "starts=paddings[::2]",
        "starts=[0 for _ in ends]",
        _loss("pad(X=x) -> (Out=y) {paddings=[0, 1, 1, 0]}"),
    ),
    _rule(
        "concat-takes-the-first-axis",
        "joining",
        "split_like(dOut, X, axis=axis)",
        "split_like(dOut, X)",
        _loss("concat(X=[x, z]) -> (Out=y) {axis=1}", "x: float64[2, 2]\nz: float64[2, 2]"),
    ),
    _rule(
        "matmul-forgets-to-turn",
        "linalg:_matmul_y_grad",
        "factors = (d, x) if turned_y else (x, d)",
        "factors = (x, d)",
        _loss("matmul_v2(X=x, Y=z) -> (Out=y) {trans_y=true}", "x: float64[2, 2]\nz: float64[2, 2]"),
    ),
    _rule(
        "where-takes-the-other-side",
        "selection",
        "where(Condition, fill_zeros_like(dOut), dOut)",
        "where(Condition, dOut, fill_zeros_like(dOut))",
        _loss("where(Condition=c, X=x, Y=z) -> (Out=y)", "c: bool[3]\nx: float64[3]\nz: float64[3]"),
        feeds={"c": [True, True, False]},
    ),
    _rule(
        "convolution-takes-channels-for-columns",
        "conv:bias_grad",
        "axis=channel_axis(data_format)",
        "axis=-1",
        _loss(
            "conv2d(Input=x, Filter=f, Bias=b) -> (Output=y)",
            "x: float64[1, 1, 3, 3]\nf: float64[2, 1, 2, 2]\nb: float64[2]",
        ),
    ),
    _rule(
        "prelu-takes-channels-for-columns",
        "activation:_prelu_alpha_grad",
        "unbroadcast(grad, Alpha, _slope_axis(X.ndim, Alpha.ndim, mode, data_format))",
        "unbroadcast(grad, Alpha)",
        _loss('prelu(X=x, Alpha=a) -> (Out=y) {mode="channel"}', "x: float64[1, 2, 2]\na: float64[2]"),
        feeds={"x": [[[-1.0, 1.0], [-0.5, -0.25]]]},
    ),
)

SIMPLIFIED = Check("simplify")
"""At ties one side of a maximum has to get all: ``simplify`` turns ``max(x, x)`` into x, whose gradient is 1."""

MUTANTS = tuple(
    mutant if "ties" not in mutant.name else Mutant(mutant.name, mutant.family, mutant.patch, mutant.witness, SIMPLIFIED)
    for mutant in (*_ELEMENTWISE, *_REDUCTIONS, *_PLACES)
)
