"""More calls as the documentation of Fluid 1.8 has them: each layer by itself, with its parameters by keyword or in their order."""

from collections.abc import Callable
from typing import Any

import numpy as np

from graphad import layers as L
from tests.documented_call import IDS, IMAGE, LABEL, A, Array, Call, K, M, N, P, Q, V
from tests.documented_fluid import constant, convolved, one_hot, pooled, sigmoid

VOLUME = np.random.default_rng(1).normal(size=(2, 2, 3, 4, 4))
SQUARE = A[0][:, :3].copy()


def named(layer: str, reference: Callable[..., Any], *arrays: Array, slope: bool = True) -> Call:
    """A layer of one tensor and a name."""
    return Call(f"{layer}(x, name='y')", lambda x: getattr(L, layer)(x, name="y"), reference, arrays, slope)


def erf(x: Array) -> Array:
    """The error function by its power series, for arguments around zero."""
    term, total = x, x
    for n in range(1, 60):
        term = -term * x * x / n
        total = total + term / (2 * n + 1)
    return np.asarray(2 / np.sqrt(np.pi) * total)


def pooled3(x: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2, 2), (2, 3, 4))[:, :, ::1, ::2, ::2]
    return np.asarray(windows.mean((5, 6, 7)))


def gru(x: Array, h: Array) -> list[Array]:
    """A step with all weights 0.5 and no bias, the gates in the order update, reset, candidate."""
    share = 0.5 * h.sum(1, keepdims=True)
    u, r = sigmoid(x[:, :2] + share), sigmoid(x[:, 2:4] + share)
    reset = r * h
    c = np.tanh(x[:, 4:] + 0.5 * reset.sum(1, keepdims=True))
    return [u * c + (1 - u) * h, reset, np.concatenate([u, r, c], 1)]


def lstm(x: Array, h: Array, c: Array) -> list[Array]:
    gate = 0.5 * (x.sum(1, keepdims=True) + h.sum(1, keepdims=True))
    cell = sigmoid(gate + 1.0) * c + sigmoid(gate) * np.tanh(gate)
    return [sigmoid(gate) * np.tanh(cell), cell]


def dice(x: Array, y: Array) -> Array:
    truth = one_hot(y[:, 0], 4)
    return np.asarray((1 - 2 * (x * truth).sum(1) / (x.sum(1) + truth.sum(1) + 1e-5)).mean())


FLUID_MORE = [
    named("abs", np.abs, A),
    named("acos", np.arccos, Q),
    named("asin", np.arcsin, Q),
    named("atan", np.arctan, A),
    named("ceil", np.ceil, A, slope=False),
    named("cos", np.cos, A),
    Call("erf(x)", lambda x: L.erf(x), erf, (A,)),
    named("exp", np.exp, A),
    named("floor", np.floor, A, slope=False),
    named("log", np.log, P),
    named("log1p", np.log1p, P),
    named("reciprocal", lambda x: 1 / x, P),
    named("round", np.round, A, slope=False),
    named("sigmoid", sigmoid, A),
    Call("sign(x)", lambda x: L.sign(x), np.sign, (A,)),
    named("sin", np.sin, A),
    named("softplus", lambda x: np.log1p(np.exp(x)), A),
    named("softsign", lambda x: x / (1 + abs(x)), A),
    named("square", np.square, A),
    named("tanh_shrink", lambda x: x - np.tanh(x), A),
    Call("gelu(x)", lambda x: L.gelu(x), lambda x: x * (1 + erf(x / 2**0.5)) / 2, (A,)),
    Call("hard_shrink(x, threshold=0.3)", lambda x: L.hard_shrink(x, threshold=0.3), lambda x: np.where(abs(x) > 0.3, x, 0), (A,)),
    Call("hard_swish(x)", lambda x: L.hard_swish(x), lambda x: x * (x + 3).clip(0, 6) / 6, (A,)),
    Call("mish(x)", lambda x: L.mish(x), lambda x: x * np.tanh(np.log1p(np.exp(x))), (A,)),
    Call("selu(x)", lambda x: L.selu(x), lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), (A,)),
    Call("softshrink(x, alpha=0.2)", lambda x: L.softshrink(x, alpha=0.2), lambda x: np.sign(x) * np.maximum(abs(x) - 0.2, 0), (A,)),
    Call("soft_relu(x, threshold=1.0)", lambda x: L.soft_relu(x, threshold=1.0), lambda x: np.log1p(np.exp(x.clip(-1, 1))), (A,)),
    Call("thresholded_relu(x, threshold=0.2)", lambda x: L.thresholded_relu(x, threshold=0.2), lambda x: np.where(x > 0.2, x, 0), (A,)),
    Call("addcmul(x, y, z, 0.5)", lambda x, y, z: L.addcmul(x, y, z, 0.5), lambda x, y, z: x + 0.5 * y * z, (M, N, P)),
    Call(
        "addmm(input=x, x=y, y=z, alpha=2.0, beta=3.0)",
        lambda x, y, z: L.addmm(input=x, x=y, y=z, alpha=2.0, beta=3.0),
        lambda x, y, z: 3 * x + 2 * y @ z,
        (A[0][:, :3] @ A[0], SQUARE, N),
    ),
    Call(
        "affine_channel(x, scale=s, bias=b)",
        lambda x, s, b: L.affine_channel(x, scale=s, bias=b),
        lambda x, s, b: x * s[:, None, None] + b[:, None, None],
        (IMAGE, V, V[::-1].copy()),
    ),
    Call("bmm(x, y)", lambda x, y: L.bmm(x, y), lambda x, y: x @ y, (A, A.transpose(0, 2, 1).copy())),
    Call(
        "bilinear_tensor_product(x, y, size=2)",
        lambda x, y: L.bilinear_tensor_product(x, y, size=2, param_attr=constant(0.5)),
        lambda x, y: 0.5 * (x.sum(1) * y.sum(1))[:, None] * np.ones((1, 2)),
        (M, N),
    ),
    Call("clamp(x, min=-0.5, max=0.5)", lambda x: L.clamp(x, min=-0.5, max=0.5), lambda x: x.clip(-0.5, 0.5), (A,)),
    Call("clamp(x, min=0.1)", lambda x: L.clamp(x, min=0.1), lambda x: np.maximum(x, 0.1), (A,)),
    Call("clip_by_norm(x, max_norm=1.0)", lambda x: L.clip_by_norm(x, max_norm=1.0), lambda x: x / np.linalg.norm(x), (A,)),
    Call(
        "conv3d(x, 2, 2)",
        lambda x: L.conv3d(x, 2, 2, param_attr=constant(0.5)),
        lambda x: np.repeat(np.lib.stride_tricks.sliding_window_view(x, (2, 2, 2), (2, 3, 4)).sum((1, 5, 6, 7))[:, None] * 0.5, 2, 1),
        (VOLUME,),
    ),
    Call(
        "conv3d_transpose(x, 2, filter_size=1)",
        lambda x: L.conv3d_transpose(x, 2, filter_size=1, param_attr=constant(0.5)),
        lambda x: np.repeat(x.sum(1, keepdims=True) * 0.5, 2, 1),
        (VOLUME,),
    ),
    Call(
        "conv2d_transpose(x, 2, output_size=[6, 7])",
        lambda x: L.conv2d_transpose(x, 2, output_size=[6, 7], param_attr=constant(0.5)),
        lambda x: convolved(x, np.full((2, 4, 2, 2), 0.5), padding=1),
        (IMAGE,),
    ),
    Call(
        "conv2d(padding='SAME')",
        lambda x: L.conv2d(x, 2, 3, padding="SAME", param_attr=constant(0.5)),
        lambda x: convolved(x, np.full((2, 4, 3, 3), 0.5), padding=1),
        (IMAGE,),
    ),
    Call(
        "crop_tensor(x, shape=[2, 2], offsets=[0, 1])",
        lambda x: L.crop_tensor(x, shape=[2, 2], offsets=[0, 1]),
        lambda x: x[0:2, 1:3],
        (M,),
    ),
    Call("diag(x)", lambda x: L.diag(x), np.diag, (V,)),
    Call("diag_embed(x)", lambda x: L.diag_embed(x), lambda x: np.stack([np.diag(row) for row in x]), (M,)),
    Call("dice_loss(x, label)", lambda x, y: L.dice_loss(x, y), dice, (Q, LABEL)),
    Call("dist(x, y, 2)", lambda x, y: L.dist(x, y, 2), lambda x, y: np.linalg.norm((x - y).ravel()), (M, N)),
    Call("dist(x, y, p=3)", lambda x, y: L.dist(x, y, p=3), lambda x, y: (abs(x - y) ** 3).sum() ** (1 / 3), (M, N)),
    Call("dot(x, y)", lambda x, y: L.dot(x, y), lambda x, y: (x * y).sum(-1), (M, N)),
    Call("elementwise_equal(x, y)", lambda x, y: L.elementwise_equal(x, y), np.equal, (IDS, IDS[::-1].copy()), False),
    Call("elementwise_floordiv(x, y)", lambda x, y: L.elementwise_floordiv(x, y), np.floor_divide, (IDS + 5, IDS + 1), False),
    Call("elementwise_min(x, y)", lambda x, y: L.elementwise_min(x, y), np.minimum, (A, M)),
    Call("elementwise_mod(x, y)", lambda x, y: L.elementwise_mod(x, y), np.mod, (IDS + 5, IDS + 1), False),
    Call(
        "expand_as(x, target_tensor=y)",
        lambda x, y: L.expand_as(x, target_tensor=y),
        lambda x, y: np.tile(x, (1, 4)),
        (M[:, :1], N),
        fixed=(1,),
    ),
    Call(
        "fill_constant_batch_size_like(x, [-1, 2], 'float64', 1.5)",
        lambda x: L.fill_constant_batch_size_like(x, [-1, 2], "float64", 1.5),
        lambda x: np.full((3, 2), 1.5),
        (M,),
        False,
    ),
    Call("flip(x, dims=[0, 2])", lambda x: L.flip(x, dims=[0, 2]), lambda x: x[::-1, :, ::-1], (A,)),
    Call(
        "fsp_matrix(x, y)",
        lambda x, y: L.fsp_matrix(x, y),
        lambda x, y: np.einsum("nchw,ndhw->ncd", x, y) / 30,
        (IMAGE, IMAGE[:, ::-1].copy()),
    ),
    Call("full([2, 3], 1.5, dtype='float64')", lambda x: L.full([2, 3], 1.5, dtype="float64"), lambda x: np.full((2, 3), 1.5), (V,), False),
    Call("full_like(x, 1.5)", lambda x: L.full_like(x, 1.5), lambda x: np.full_like(x, 1.5), (M,), False),
    Call("arange(1, 7, 2)", lambda x: L.arange(1, 7, 2), lambda x: np.arange(1, 7, 2), (V,), False),
    Call("greater_equal(x, y)", lambda x, y: L.greater_equal(x, y), np.greater_equal, (M, N), False),
    Call("greater_than(x, y)", lambda x, y: L.greater_than(x, y), np.greater, (M, N), False),
    Call("less_equal(x, y)", lambda x, y: L.less_equal(x, y), np.less_equal, (M, N), False),
    Call("not_equal(x, y)", lambda x, y: L.not_equal(x, y), np.not_equal, (IDS, IDS[::-1].copy()), False),
    Call("logical_or(x > 0, y > 0)", lambda x, y: L.logical_or(x > 0, y > 0), lambda x, y: (x > 0) | (y > 0), (M, N), False),
    Call("logical_xor(x > 0, y > 0)", lambda x, y: L.logical_xor(x > 0, y > 0), lambda x, y: (x > 0) ^ (y > 0), (M, N), False),
    Call(
        "gru_unit(x, h, 6)", lambda x, h: L.gru_unit(x, h, 6, param_attr=constant(0.5)), gru, (np.concatenate([M, N], 1)[:, :6], P[:, :2])
    ),
    Call(
        "lstm_unit(x, h, c, forget_bias=1.0)",
        lambda x, h, c: L.lstm_unit(x, h, c, forget_bias=1.0, param_attr=constant(0.5)),
        lstm,
        (M, N[:, :2], P[:, :2]),
    ),
    Call("has_inf(1 / x)", lambda x: L.has_inf(1 / x), lambda x: np.array(True), (np.array([0.0, 1.0]),), False),
    Call("has_nan(x)", lambda x: L.has_nan(x), lambda x: np.array(True), (np.array([np.nan, 1.0]),), False),
    Call("isfinite(x)", lambda x: L.isfinite(x), lambda x: np.array(False), (np.array([np.nan, 1.0]),), False),
    Call("is_empty(x)", lambda x: L.is_empty(x), lambda x: np.array(False), (M,), False),
    Call("rank(x)", lambda x: L.rank(x), lambda x: np.array(3), (A,), False),
    Call(
        "image_resize_short(x, 3, 'NEAREST')",
        lambda x: L.image_resize_short(x[:, :, :3, :3], 6, "NEAREST"),
        lambda x: x[:, :, :3, :3][:, :, [0, 0, 1, 1, 2, 2]][..., [0, 0, 1, 1, 2, 2]],
        (IMAGE,),
        False,
    ),
    Call(
        "interpolate(x, scale=2.0, resample='NEAREST', align_corners=False)",
        lambda x: L.interpolate(x, scale=2.0, resample="NEAREST", align_corners=False),
        lambda x: x.repeat(2, 2).repeat(2, 3),
        (IMAGE,),
    ),
    Call(
        "resize_nearest(x, [10, 12], align_corners=False)",
        lambda x: L.resize_nearest(x, [10, 12], align_corners=False),
        lambda x: x.repeat(2, 2).repeat(2, 3),
        (IMAGE,),
    ),
    Call(
        "resize_bilinear(x, [9, 6])",
        lambda x: L.resize_bilinear(x, [9, 6]),
        lambda x: np.stack([x[:, :, i // 2] if i % 2 == 0 else (x[:, :, i // 2] + x[:, :, i // 2 + 1]) / 2 for i in range(9)], 2),
        (IMAGE,),
    ),
    Call(
        "resize_trilinear(x, [5, 4, 4])",
        lambda x: L.resize_trilinear(x, [5, 4, 4]),
        lambda x: np.stack([x[:, :, i // 2] if i % 2 == 0 else (x[:, :, i // 2] + x[:, :, i // 2 + 1]) / 2 for i in range(5)], 2),
        (VOLUME,),
    ),
    Call(
        "index_sample(x, index)",
        lambda x, i: L.index_sample(x, i),
        lambda x, i: np.take_along_axis(x, i, 1),
        (M, np.array([[0, 1], [2, 3], [1, 1]])),
    ),
    Call("index_select(x, index, dim=1)", lambda x, i: L.index_select(x, i, dim=1), lambda x, i: x[:, i], (M, IDS)),
    Call("kron(x, y)", lambda x, y: L.kron(x, y), np.kron, (M, K)),
    Call(
        "logsumexp(x, dim=1, keepdim=True)",
        lambda x: L.logsumexp(x, dim=1, keepdim=True),
        lambda x: np.log(np.exp(x).sum(1, keepdims=True)),
        (A,),
    ),
    Call(
        "lrn(x, n=3)",
        lambda x: L.lrn(x, n=3),
        lambda x: x / (1 + 1e-4 * sum(np.pad(x * x, ((0, 0), (1, 1), (0, 0), (0, 0)))[:, i : i + 4] for i in range(3))) ** 0.75,
        (IMAGE,),
    ),
    Call(
        "margin_rank_loss(label, x, y)",
        lambda t, x, y: L.margin_rank_loss(t, x, y),
        lambda t, x, y: np.maximum(0, -t * (x - y) + 0.1),
        (np.sign(P - 1)[:, :1], M[:, :1], N[:, :1]),
        fixed=(0,),
    ),
    Call(
        "rank_loss(label, x, y)",
        lambda t, x, y: L.rank_loss(t, x, y),
        lambda t, x, y: np.log1p(np.exp(x - y)) - t * (x - y),
        (Q[:, :1], M[:, :1], N[:, :1]),
        fixed=(0,),
    ),
    Call(
        "bpr_loss(x, label)",
        lambda x, y: L.bpr_loss(x, y),
        lambda x, y: np.stack([-np.log(sigmoid(row[t] - np.delete(row, t))).mean(keepdims=True) for row, (t,) in zip(x, y, strict=True)]),
        (M, LABEL),
    ),
    Call("meshgrid([x, y])", lambda x, y: L.meshgrid([x, y]), lambda x, y: list(np.meshgrid(x, y, indexing="ij")), (V, V[:3].copy())),
    Call(
        "multiplex([x, y], index)",
        lambda x, y, i: L.multiplex([x, y], i),
        lambda x, y, i: np.where(i == 0, x, y),
        (M, N, np.array([[0], [1], [0]], "int32")),
    ),
    Call("softmax(x=x, axis=0), as in Paddle 2", lambda x: L.softmax(x=x, axis=0), lambda x: np.exp(x) / np.exp(x).sum(0), (M,)),  # type: ignore[call-arg]
    Call("one_hot(x, num_classes=4), as in Paddle 2", lambda x: L.one_hot(x, num_classes=4), lambda x: one_hot(x, 4), (IDS,), False),  # type: ignore[call-arg]
    Call("clip(x, minimum, 0.5)", lambda x, y: L.clip(x, y, 0.5), lambda x, y: x.clip(y[0], 0.5), (A, np.array([-0.5])), fixed=(1,)),
    Call("nonzero(x > 0)", lambda x: L.nonzero(x > 0), lambda x: np.argwhere(x > 0), (M,), False),
    Call(
        "pad_constant_like(x, y, 0.5)",
        lambda x, y: L.pad_constant_like(x, y, 0.5),
        lambda x, y: np.pad(y, ((0, 1), (0, 2)), constant_values=0.5),
        (M, N[:2, :2]),
        fixed=(0,),
    ),
    Call("pool3d(x, 2, 'avg', [1, 2, 2])", lambda x: L.pool3d(x, 2, "avg", [1, 2, 2]), pooled3, (VOLUME,)),
    Call("adaptive_pool3d(x, 1, 'avg')", lambda x: L.adaptive_pool3d(x, 1, "avg"), lambda x: x.mean((2, 3, 4), keepdims=True), (VOLUME,)),
    Call("pool2d(x, 2, 'max', [2, 2], 0)", lambda x: L.pool2d(x, 2, "max", [2, 2], 0), lambda x: pooled(x, np.max), (IMAGE,)),
    Call(
        "scatter_nd(index, updates, [5])",
        lambda i, u: L.scatter_nd(i, u, [5]),
        lambda i, u: np.array([0, u[0] + u[1], 0, u[2], 0]),
        (np.array([[1], [1], [3]]), V[:3].copy()),
    ),
    Call(
        "scatter_nd_add(x, index, updates)",
        lambda x, i, u: L.scatter_nd_add(x, i, u),
        lambda x, i, u: x + np.array([0, u[0] + u[1], 0, u[2]]),
        (V, np.array([[1], [1], [3]]), V[:3].copy()),
    ),
    Call("shuffle_channel(x, group=2)", lambda x: L.shuffle_channel(x, group=2), lambda x: x[:, [0, 2, 1, 3]], (IMAGE,)),
    Call("t(x)", lambda x: L.t(x), lambda x: x.T, (M,)),
    Call("trace(x, offset=1, dim1=1, dim2=2)", lambda x: L.trace(x, offset=1, dim1=1, dim2=2), lambda x: np.trace(x, 1, 1, 2), (A,)),
    Call("tril(x, diagonal=-1)", lambda x: L.tril(x, diagonal=-1), lambda x: np.tril(x, -1), (M,)),
    Call("triu(x)", lambda x: L.triu(x), np.triu, (M,)),
    Call(
        "unfold(x, [2, 2])",
        lambda x: L.unfold(x, [2, 2], [1, 1], [0, 0, 0, 0], [1, 1]),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3)).transpose(0, 1, 4, 5, 2, 3).reshape(2, 16, 20),
        (IMAGE,),
    ),
]
