"""Values and first derivatives of operators against torch's functions of the same meaning, where torch is installed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from graphad.ops import GRAD, lookup
from graphad.ops.sample import Sample, away_from_zero, uniform
from graphad.types import Array
from tests.ops.check import differentiated, run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch: Any = pytest.importorskip("torch", reason="torch, which gives a second opinion on the operators, is not installed")

F = torch.nn.functional
X, Y, Z = uniform(2, 3), uniform(2, 3, seed=1), uniform(2, 3, seed=2)
SIGNED, POSITIVE, SMALL = away_from_zero(2, 3), uniform(2, 3, low=0.2, high=2.0), uniform(2, 3, low=-0.9, high=0.9)
SQUARE, BATCH = uniform(3, 3) + 2 * np.eye(3), uniform(2, 3, 4)
IMAGE, VOLUME, SIGNAL = uniform(2, 4, 6, 5), uniform(1, 2, 4, 3, 4), uniform(2, 4, 3)
SPREAD = np.random.default_rng(3).permutation(24).reshape(2, 3, 4) / 10.0 - 1.1  # no two are equal, none is near zero
INDEX = np.array([2, 0, 2])
SQUARES = SQUARE @ SQUARE.T


class Opinion(NamedTuple):
    """An operator, inputs and attributes, and torch's function of the inputs."""

    op: str
    inputs: dict[str, Any]
    function: Callable[..., Any]
    attrs: dict[str, Any] = {}  # noqa: RUF012
    slot: str = ""

    @property
    def sample(self) -> Sample:
        """The call of the operator."""
        return Sample(self.inputs, self.attrs)

    @property
    def output(self) -> str:
        """The slot that is compared: the first one if none is named."""
        return self.slot or next(iter(lookup(self.op).outputs))


def unary(op: str, function: Callable[..., Any], x: Array = SIGNED, **attrs: Any) -> Opinion:
    return Opinion(op, {"X": x}, function, attrs)


def binary(op: str, function: Callable[..., Any], x: Array = X, y: Array = Y, **attrs: Any) -> Opinion:
    return Opinion(op, {"X": x, "Y": y}, function, attrs)


UNARY = [
    *(unary(op, getattr(torch, op)) for op in ("exp", "expm1", "square", "sin", "cos", "atan", "sinh", "cosh", "tanh", "asinh", "abs")),
    *(unary(op, getattr(torch, op)) for op in ("relu", "erf", "sigmoid", "reciprocal", "sign", "floor", "ceil", "trunc")),
    *(unary(op, getattr(torch, op), POSITIVE) for op in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "lgamma", "digamma")),
    *(unary(op, getattr(torch, op), SMALL) for op in ("tan", "asin", "acos", "atanh")),
    unary("acosh", torch.acosh, POSITIVE + 1.0),
    unary("polygamma", lambda x: torch.polygamma(2, x), POSITIVE, n=2)._replace(inputs={"x": POSITIVE}),
    unary("logsigmoid", F.logsigmoid),
    unary("silu", F.silu),
    unary("mish", F.mish),
    unary("softsign", F.softsign),
    unary("tanh_shrink", F.tanhshrink),
    unary("selu", F.selu),
    unary("relu6", F.relu6, SIGNED * 6.0),
    unary("gelu", F.gelu),
    unary("gelu", lambda x: F.gelu(x, approximate="tanh"), approximate=True),
    unary("elu", lambda x: F.elu(x, 0.7), alpha=0.7),
    unary("celu", lambda x: F.celu(x, 0.7), alpha=0.7),
    unary("leaky_relu", lambda x: F.leaky_relu(x, 0.1), alpha=0.1),
    unary("hard_shrink", lambda x: F.hardshrink(x, 0.5), threshold=0.5),
    unary("softshrink", lambda x: F.softshrink(x, 0.5)),
    unary("softplus", lambda x: F.softplus(x, 2.0, 20.0), beta=2.0, threshold=20.0),
    unary("hard_swish", F.hardswish, SIGNED * 3.0),
    unary("hard_sigmoid", lambda x: F.relu6(x + 3.0) / 6.0, SIGNED * 3.0, slope=1 / 6, offset=0.5),
    unary("clip", lambda x: torch.clamp(x, -0.5, 0.5), min=-0.5, max=0.5),
    unary("pow", lambda x: torch.pow(x, 2.5), POSITIVE, factor=2.5),
]
BINARY = [
    *(
        binary(f"elementwise_{op}", getattr(torch, name), y=away_from_zero(2, 3))
        for op, name in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "div"), ("max", "maximum"), ("min", "minimum"))
    ),
    *(binary(f"elementwise_{op}", getattr(torch, op)) for op in ("fmax", "fmin")),
    binary("elementwise_pow", torch.pow, POSITIVE),
    binary("elementwise_mod", torch.remainder, y=away_from_zero(2, 3)),
    Opinion("atan2", {"X1": X, "X2": Y}, torch.atan2),
    Opinion("lerp", {"X": X, "Y": Y, "Weight": Z}, torch.lerp),
    binary("matmul_v2", lambda x, y: x @ y.transpose(-1, -2), BATCH, BATCH[:1] * 0.5, trans_y=True),
    binary("bmm", torch.bmm, BATCH, uniform(2, 4, 2)),
    binary("kron", torch.kron),
    binary("dot", lambda x, y: (x * y).sum(-1)),
    Opinion("mv", {"X": X, "Vec": uniform(3)}, torch.mv),
    Opinion("addmm", {"Input": X, "X": uniform(2, 4), "Y": uniform(4, 3)}, lambda i, x, y: torch.addmm(i, x, y, beta=0.5), {"Beta": 0.5}),
    Opinion("einsum", {"Operands": [BATCH, uniform(4, 5)]}, lambda a, b: torch.einsum("bij,jk->bki", a, b), {"equation": "bij,jk->bki"}),
]
REDUCTIONS = [
    unary("reduce_sum", lambda x: x.sum((0, 2)), BATCH, dim=[0, 2]),
    unary("reduce_mean", lambda x: x.mean(1, keepdim=True), BATCH, dim=[1], keep_dim=True),
    unary("reduce_prod", lambda x: x.prod(1), SPREAD, dim=[1]),
    unary("reduce_max", lambda x: x.amax(2), SPREAD, dim=[2]),
    unary("reduce_amin", lambda x: x.amin((0, 1)), SPREAD, dim=[0, 1]),
    unary("logsumexp", lambda x: torch.logsumexp(x, (1,)), BATCH, axis=[1]),
    unary("p_norm", lambda x: torch.linalg.vector_norm(x, 3.0, 1), SPREAD, porder=3.0, axis=1),
    unary("frobenius_norm", lambda x: torch.linalg.vector_norm(x, 2, (1, 2)), BATCH, dim=[1, 2]),
    unary("cumsum", lambda x: x.cumsum(1), BATCH, axis=1),
    unary("cumprod", lambda x: x.cumprod(1), SPREAD, dim=1),
    unary("logcumsumexp", lambda x: x.logcumsumexp(1), BATCH, axis=1),
    unary("softmax", lambda x: F.softmax(x, 1), BATCH, axis=1),
    unary("log_softmax", lambda x: F.log_softmax(x, 1), BATCH, axis=1),
    unary("argsort", lambda x: x.sort(1, descending=True).values, SPREAD, axis=1, descending=True),
    unary("top_k_v2", lambda x: x.topk(2, 1).values, SPREAD, k=2, axis=1),
    unary("arg_max", lambda x: x.argmax(1), SPREAD, axis=1),
]
ARRANGED = [
    unary("transpose2", lambda x: x.permute(2, 0, 1), BATCH, axis=[2, 0, 1]),
    unary("flip", lambda x: x.flip(0, 2), BATCH, axis=[0, 2]),
    unary("roll", lambda x: x.roll((1, -1), (0, 2)), BATCH, shifts=[1, -1], axis=[0, 2]),
    unary("tile", lambda x: x.tile(2, 1, 3), BATCH, repeat_times=[2, 1, 3]),
    unary("tril_triu", lambda x: x.tril(1), BATCH, diagonal=1, lower=True),
    unary("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), IMAGE, upscale_factor=2),
    Opinion("trace", {"Input": SQUARE}, torch.trace),
    Opinion("diag_embed", {"Input": X}, torch.diag_embed),
    Opinion("concat", {"X": [X, Y, Z]}, lambda *x: torch.cat(x, 1), {"axis": 1}),
    Opinion("stack", {"X": [X, Y, Z]}, lambda *x: torch.stack(x, 1), {"axis": 1}),
    Opinion("index_select", {"X": X, "Index": INDEX}, lambda x, i: x.index_select(1, i), {"dim": 1}),
    Opinion("lookup_table_v2", {"W": uniform(4, 2), "Ids": INDEX}, lambda w, i: F.embedding(i, w)),
    Opinion("where", {"Condition": X > 0, "X": Y, "Y": Z}, torch.where),
]
MATRICES = [
    Opinion("inverse", {"Input": SQUARE}, torch.linalg.inv),
    Opinion("solve", {"X": SQUARE, "Y": uniform(3, 2)}, torch.linalg.solve),
    Opinion("cholesky", {"X": SQUARES}, lambda x: torch.linalg.cholesky((x + x.T) / 2)),
    Opinion(
        "triangular_solve", {"X": SQUARE, "Y": uniform(3, 2)}, lambda x, y: torch.linalg.solve_triangular(x, y, upper=True), {"upper": True}
    ),
    Opinion("matrix_power", {"X": SQUARE}, lambda x: torch.linalg.matrix_power(x, 3), {"n": 3}),
]
NETWORKS = [
    Opinion(
        "conv2d",
        {"Input": IMAGE, "Filter": uniform(6, 2, 3, 2)},
        lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (1, 2), 2),
        {"strides": [2, 1], "paddings": [1, 2], "dilations": [1, 2], "groups": 2},
    ),
    Opinion(
        "conv3d",
        {"Input": VOLUME, "Filter": uniform(3, 2, 2, 2, 3)},
        lambda x, w: F.conv3d(x, w, None, 1, (0, 1, 1)),
        {"paddings": [0, 1, 1]},
    ),
    Opinion(
        "conv2d_transpose",
        {"Input": IMAGE, "Filter": uniform(4, 3, 3, 2)},
        lambda x, w: F.conv_transpose2d(x, w, None, (2, 1), (1, 0), (1, 0)),
        {"strides": [2, 1], "paddings": [1, 0], "output_padding": [1, 0]},
    ),
    unary("pool2d", lambda x: F.max_pool2d(x, 2, 2), IMAGE, pooling_type="max", ksize=[2, 2], strides=[2, 2]),
    unary(
        "pool2d",
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        IMAGE,
        pooling_type="avg",
        ksize=[3, 3],
        strides=[2, 2],
        paddings=[1, 1],
    ),
    unary("pool2d", lambda x: F.adaptive_avg_pool2d(x, (4, 2)), IMAGE, pooling_type="avg", ksize=[4, 2], adaptive=True),
    unary("pool3d", lambda x: F.max_pool3d(x, 2, 1), VOLUME, pooling_type="max", ksize=[2, 2, 2]),
    Opinion(
        "layer_norm",
        {"X": X, "Scale": uniform(3), "Bias": uniform(3, seed=1)},
        lambda x, s, b: F.layer_norm(x, (3,), s, b),
        {"begin_norm_axis": 1, "epsilon": 1e-5},
    ),
    Opinion(
        "group_norm",
        {"X": IMAGE, "Scale": uniform(4), "Bias": uniform(4, seed=1)},
        lambda x, s, b: F.group_norm(x, 2, s, b),
        {"groups": 2, "epsilon": 1e-5},
    ),
    Opinion("prelu", {"X": IMAGE, "Alpha": uniform(1, 4, 1, 1)}, lambda x, a: F.prelu(x, a.reshape(4)), {"mode": "channel"}),
    Opinion(
        "unfold",
        {"X": IMAGE},
        lambda x: F.unfold(x, (3, 2), 1, 1, 2),
        {"kernel_sizes": [3, 2], "strides": [2, 2], "paddings": [1, 1, 1, 1], "dilations": [1, 1]},
    ),
    Opinion(
        "grid_sampler",
        {"X": IMAGE, "Grid": uniform(2, 3, 3, 2)},
        lambda x, g: F.grid_sample(x, g, align_corners=True),
        {"align_corners": True},
    ),
    Opinion(
        "bilinear_interp_v2",
        {"X": IMAGE},
        lambda x: F.interpolate(x, (4, 9), mode="bilinear", align_corners=True),
        {"out_h": 4, "out_w": 9, "interp_method": "bilinear", "align_corners": True},
    ),
    Opinion(
        "lrn",
        {"X": IMAGE},
        lambda x: F.local_response_norm(x, 3, alpha=3 * 0.1, beta=0.75, k=2.0),
        {"n": 3, "alpha": 0.1, "beta": 0.75, "k": 2.0},
    ),
]
LOSSES = [
    Opinion(
        "softmax_with_cross_entropy",
        {"Logits": X, "Label": np.array([[2], [0]])},
        lambda x, i: F.cross_entropy(x, i.reshape(2), reduction="none").reshape(2, 1),
        slot="Loss",
    ),
    Opinion(
        "sigmoid_cross_entropy_with_logits",
        {"X": X, "Label": POSITIVE / 3},
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
    ),
    Opinion("bce_loss", {"X": POSITIVE / 3, "Label": POSITIVE[::-1] / 3}, lambda x, y: F.binary_cross_entropy(x, y, reduction="none")),
    Opinion(
        "huber_loss",
        {"X": X, "Y": Y},
        lambda x, y: F.huber_loss(y, x, reduction="none", delta=0.5),
        {"delta": 0.5},
        slot="Out",
    ),
    Opinion("kldiv_loss", {"X": X, "Target": POSITIVE}, lambda x, t: F.kl_div(x, t, reduction="none"), {"reduction": "none"}),
    Opinion(
        "nll_loss",
        {"X": X, "Label": np.array([2, 0])},
        F.nll_loss,
        {"reduction": "mean"},
    ),
]
OPINIONS = [*UNARY, *BINARY, *REDUCTIONS, *ARRANGED, *MATRICES, *NETWORKS, *LOSSES]
CASES = pytest.mark.parametrize("opinion", OPINIONS, ids=lambda o: o.op)


def test_enough_is_compared() -> None:
    assert len({opinion.op for opinion in OPINIONS}) >= 60


@CASES
def test_value_is_torchs(opinion: Opinion) -> None:
    sample = opinion.sample
    (got,) = run(lookup(opinion.op), sample.slots(), sample.attrs)[opinion.output]
    with torch.no_grad():
        expected = opinion.function(*tensors(sample).values()).numpy()
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


@CASES
def test_gradient_is_torchs(opinion: Opinion) -> None:
    sample, definition = opinion.sample, lookup(opinion.op)
    slots = [slot for slot in differentiated(definition, sample) if opinion.output + GRAD in (definition.grads or {})[slot].reads]
    inputs, outputs = sample.slots(), run(definition, sample.slots(), sample.attrs)
    given = tensors(sample)
    wanted = [given[slot, i].requires_grad_() for slot in slots for i in range(len(inputs[slot]))]
    out = opinion.function(*given.values())
    if definition.grad is None or not wanted or not out.requires_grad:
        return
    weight = uniform(*out.shape, seed=9)
    cotangents = {s + GRAD: [weight if s == opinion.output else np.zeros_like(v) for v in values] for s, values in outputs.items()}
    got = definition.grad.run({**inputs, **outputs, **cotangents}, sample.attrs, [slot + GRAD for slot in slots])
    expected = torch.autograd.grad(out, wanted, torch.from_numpy(weight), allow_unused=True, materialize_grads=True)
    for mine, its in zip((array for slot in slots for array in got[slot + GRAD]), expected, strict=True):
        np.testing.assert_allclose(mine, its.numpy(), rtol=1e-8, atol=1e-10)


def tensors(sample: Sample) -> dict[tuple[str, int], Any]:
    """The inputs as torch's tensors, in their order."""
    return {(slot, i): torch.from_numpy(np.array(v)) for slot, values in sample.slots().items() for i, v in enumerate(values)}
