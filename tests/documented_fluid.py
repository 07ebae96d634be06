"""Calls as the documentation of Fluid 1.8 has them, written without a look at graphad's code."""

from collections.abc import Callable
from typing import Any

import numpy as np

import graphad as ga
from graphad import layers as L
from tests.documented_call import IDS, IMAGE, LABEL, LAST, A, Array, B, Call, K, M, N, P, Q, V


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def one_hot(x: Array, depth: int) -> Array:
    return np.eye(depth)[x]


def convolved(x: Array, w: Array, stride: int = 1, padding: int = 0, groups: int = 1) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    parts = zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", p, q) for p, q in parts], 1)


def pooled(x: Array, reduce: Callable[..., Any], size: int = 2, stride: int = 2) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride]
    return np.asarray(reduce(windows, axis=(4, 5)))


def normed(x: Array, axes: tuple[int, ...]) -> Array:
    return np.asarray((x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5))


def first(axis_last: Array) -> Array:
    return axis_last.transpose(0, 3, 1, 2)


def last(axis_first: Array) -> Array:
    return axis_first.transpose(0, 2, 3, 1)


def constant(value: float) -> Any:
    return L.ParamAttr(initializer=ga.initializer.Constant(value))


FLUID = [
    Call("reshape(x, [0, -1])", lambda x: L.reshape(x, [0, -1]), lambda x: x.reshape(2, -1), (A,)),
    Call(
        "reshape(x, shape=[-1, 0, 2], inplace=True)",
        lambda x: L.reshape(x, shape=[-1, 0, 2], inplace=True),
        lambda x: x.reshape(4, 3, 2),
        (A,),
    ),
    Call("reshape(x, [4, 6], act='relu')", lambda x: L.reshape(x, [4, 6], act="relu"), lambda x: np.maximum(x.reshape(4, 6), 0), (A,)),
    Call("transpose(x, [0, 2, 1])", lambda x: L.transpose(x, [0, 2, 1]), lambda x: x.transpose(0, 2, 1), (A,)),
    Call("transpose(x, perm=[2, 0, 1])", lambda x: L.transpose(x, perm=[2, 0, 1]), lambda x: x.transpose(2, 0, 1), (A,)),
    Call("concat([x, y], 1)", lambda x, y: L.concat([x, y], 1), lambda x, y: np.concatenate([x, y], 1), (A, B)),
    Call("concat(input=[x, y], axis=-1)", lambda x, y: L.concat(input=[x, y], axis=-1), lambda x, y: np.concatenate([x, y], -1), (A, B)),
    Call("concat([x, y])", lambda x, y: L.concat([x, y]), lambda x, y: np.concatenate([x, y]), (A, B)),
    Call(
        "reduce_mean(x, dim=1, keep_dim=True)", lambda x: L.reduce_mean(x, dim=1, keep_dim=True), lambda x: x.mean(1, keepdims=True), (A,)
    ),
    Call("reduce_sum(x)", lambda x: L.reduce_sum(x), lambda x: x.sum(), (A,)),
    Call("reduce_sum(x, [0, -1])", lambda x: L.reduce_sum(x, [0, -1]), lambda x: x.sum((0, 2)), (A,)),
    Call("reduce_max(x, 0)", lambda x: L.reduce_max(x, 0), lambda x: x.max(0), (A,)),
    Call("reduce_min(x, dim=[1, 2])", lambda x: L.reduce_min(x, dim=[1, 2]), lambda x: x.min((1, 2)), (A,)),
    Call("reduce_prod(x, dim=-1)", lambda x: L.reduce_prod(x, dim=-1), lambda x: x.prod(-1), (A,)),
    Call("reduce_all(x > 0, dim=0)", lambda x: L.reduce_all(x > 0, dim=0), lambda x: (x > 0).all(0), (M,), False),
    Call("reduce_any(x > 0)", lambda x: L.reduce_any(x > 0), lambda x: (x > 0).any(), (M,), False),
    Call("matmul(x, y, False, True)", lambda x, y: L.matmul(x, y, False, True), lambda x, y: x @ y.T, (M, N)),
    Call(
        "matmul(x, y, transpose_x=True, alpha=2.0)",
        lambda x, y: L.matmul(x, y, transpose_x=True, alpha=2.0),
        lambda x, y: 2 * x.T @ y,
        (M, N),
    ),
    Call("matmul(x, y) of batches", lambda x, y: L.matmul(x, y), lambda x, y: x @ y, (A, K)),
    Call("mul(x, y, x_num_col_dims=2)", lambda x, y: L.mul(x, y, x_num_col_dims=2), lambda x, y: x @ y, (A, K)),
    Call("cast(x, 'int64')", lambda x: L.cast(x, "int64"), lambda x: x.astype("int64"), (A,), False),
    Call("cast(x=x, dtype='float32')", lambda x: L.cast(x=x, dtype="float32"), lambda x: x.astype("float32"), (A,), False),
    Call("split(x, 2, dim=-1)", lambda x: L.split(x, 2, dim=-1), lambda x: np.split(x, 2, -1), (A,)),
    Call("split(x, [1, -1], dim=1)", lambda x: L.split(x, [1, -1], dim=1), lambda x: np.split(x, [1], 1), (A,)),
    Call(
        "split(input=x, num_or_sections=3, dim=1)", lambda x: L.split(input=x, num_or_sections=3, dim=1), lambda x: np.split(x, 3, 1), (A,)
    ),
    Call("clip(x, -0.5, 0.5)", lambda x: L.clip(x, -0.5, 0.5), lambda x: x.clip(-0.5, 0.5), (A,)),
    Call("clip(x=x, min=-1.0, max=1.0)", lambda x: L.clip(x=x, min=-1.0, max=1.0), lambda x: x.clip(-1, 1), (A,)),
    Call("softmax(x, axis=1)", lambda x: L.softmax(x, axis=1), lambda x: softmax(x, 1), (A,)),
    Call("softmax(input=x, use_cudnn=False)", lambda x: L.softmax(input=x, use_cudnn=False), softmax, (A,)),
    Call("softmax(x, -1), as in paddle 2", lambda x: L.softmax(x, -1), softmax, (A,)),
    Call("topk(x, 2)", lambda x: L.topk(x, 2), lambda x: [np.sort(x)[..., ::-1][..., :2], np.argsort(-x)[..., :2]], (A,), False),
    Call("topk(input=x, k=1)[0]", lambda x: L.topk(input=x, k=1)[0], lambda x: x.max(-1, keepdims=True), (A,)),
    Call("argmax(x, axis=-1)", lambda x: L.argmax(x, axis=-1), lambda x: x.argmax(-1), (A,), False),
    Call("argmin(x)", lambda x: L.argmin(x), lambda x: x.argmin(0), (A,), False),
    Call("argsort(x, axis=0)", lambda x: L.argsort(x, axis=0), lambda x: [np.sort(x, 0), np.argsort(x, 0)], (A,), False),
    Call("argsort(x, descending=True)[0]", lambda x: L.argsort(x, descending=True)[0], lambda x: -np.sort(-x), (A,)),
    Call("one_hot(label, 4)", lambda x: L.one_hot(x, 4), lambda x: one_hot(x[:, 0], 4), (LABEL,), False),
    Call("one_hot(input=label, depth=5)", lambda x: L.one_hot(input=x, depth=5), lambda x: one_hot(x[:, 0], 5), (LABEL,), False),
    Call("expand(x, [2, 1])", lambda x: L.expand(x, [2, 1]), lambda x: np.tile(x, (2, 1)), (M,)),
    Call("expand(x, expand_times=[1, 3])", lambda x: L.expand(x, expand_times=[1, 3]), lambda x: np.tile(x, (1, 3)), (M,)),
    Call("unsqueeze(x, [1])", lambda x: L.unsqueeze(x, [1]), lambda x: x[:, None], (M,)),
    Call("unsqueeze(input=x, axes=[0, 3])", lambda x: L.unsqueeze(input=x, axes=[0, 3]), lambda x: x[None, :, :, None], (M,)),
    Call("squeeze(x, [0])", lambda x: L.squeeze(x, [0]), lambda x: x[0], (A[:1],)),
    Call("squeeze(input=x, axes=[])", lambda x: L.squeeze(input=x, axes=[]), lambda x: x[0], (A[:1],)),
    Call("scale(x, 2.0, 1.0)", lambda x: L.scale(x, 2.0, 1.0), lambda x: 2 * x + 1, (A,)),
    Call(
        "scale(x, scale=3.0, bias=1.0, bias_after_scale=False)",
        lambda x: L.scale(x, scale=3.0, bias=1.0, bias_after_scale=False),
        lambda x: 3 * (x + 1),
        (A,),
    ),
    Call("scale(x, 2.0, act='tanh')", lambda x: L.scale(x, 2.0, act="tanh"), lambda x: np.tanh(2 * x), (A,)),
    Call("dropout(x, 0.5, is_test=True)", lambda x: L.dropout(x, 0.5, is_test=True), lambda x: x * 0.5, (A,)),
    Call(
        "dropout(x, dropout_prob=0.3, is_test=True, upscale_in_train)",
        lambda x: L.dropout(x, dropout_prob=0.3, is_test=True, dropout_implementation="upscale_in_train"),
        lambda x: x,
        (A,),
    ),
    Call("elementwise_add(x, y, axis=0)", lambda x, y: L.elementwise_add(x, y, axis=0), lambda x, y: x + y[:, None, None], (A, V[:2])),
    Call("elementwise_mul(x, y, act='relu')", lambda x, y: L.elementwise_mul(x, y, act="relu"), lambda x, y: np.maximum(x * y, 0), (A, B)),
    Call("elementwise_sub(x, y, 1)", lambda x, y: L.elementwise_sub(x, y, 1), lambda x, y: x - y[:, None], (A, V[:3])),
    Call("elementwise_div(x=x, y=y)", lambda x, y: L.elementwise_div(x=x, y=y), lambda x, y: x / y, (M, P)),
    Call("elementwise_max(x, y)", lambda x, y: L.elementwise_max(x, y), np.maximum, (A, B)),
    Call("elementwise_pow(x, y)", lambda x, y: L.elementwise_pow(x, y), lambda x, y: x**y, (P, N)),
    Call("gather(x, index)", lambda x, i: L.gather(x, i), lambda x, i: x[i], (M, IDS)),
    Call("gather(input=x, index=index)", lambda x, i: L.gather(input=x, index=i), lambda x, i: x[i], (A[0], IDS)),
    Call("gather_nd(x, index)", lambda x, i: L.gather_nd(x, i), lambda x, i: x[i[:, 0], i[:, 1]], (M, np.array([[0, 1], [2, 3]]))),
    Call("scatter(x, index, updates)", lambda x, i, u: L.scatter(x, i, u), lambda x, i, u: u[np.argsort(i)], (M, IDS, N)),
    Call(
        "slice(x, axes=[0, 2], starts=[0, 1], ends=[1, -1])",
        lambda x: L.slice(x, axes=[0, 2], starts=[0, 1], ends=[1, -1]),
        lambda x: x[0:1, :, 1:-1],
        (A,),
    ),
    Call(
        "slice(input=x, axes=[1], starts=[-2], ends=[100])",
        lambda x: L.slice(input=x, axes=[1], starts=[-2], ends=[100]),
        lambda x: x[:, -2:],
        (A,),
    ),
    Call(
        "strided_slice(x, axes=[2], starts=[3], ends=[0], strides=[-2])",
        lambda x: L.strided_slice(x, axes=[2], starts=[3], ends=[0], strides=[-2]),
        lambda x: x[:, :, 3:0:-2],
        (A,),
    ),
    Call("stack([x, y], axis=1)", lambda x, y: L.stack([x, y], axis=1), lambda x, y: np.stack([x, y], 1), (A, B)),
    Call("stack(x=[x, y])", lambda x, y: L.stack(x=[x, y]), lambda x, y: np.stack([x, y]), (A, B)),
    Call("unstack(x, axis=1)", lambda x: L.unstack(x, axis=1), lambda x: list(x.transpose(1, 0, 2)), (A,)),
    Call("flatten(x, axis=2)", lambda x: L.flatten(x, axis=2), lambda x: x.reshape(6, 4), (A,)),
    Call(
        "pad(x, [0, 1, 2, 0], 0.5)", lambda x: L.pad(x, [0, 1, 2, 0], 0.5), lambda x: np.pad(x, ((0, 1), (2, 0)), constant_values=0.5), (M,)
    ),
    Call(
        "pad2d(x, [1, 2, 0, 1], mode='reflect')",
        lambda x: L.pad2d(x, [1, 2, 0, 1], mode="reflect"),
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), "reflect"),
        (IMAGE,),
    ),
    Call("cumsum(x, axis=1)", lambda x: L.cumsum(x, axis=1), lambda x: x.cumsum(1), (A,)),
    Call("cumsum(x, axis=0, reverse=True)", lambda x: L.cumsum(x, axis=0, reverse=True), lambda x: x[::-1].cumsum(0)[::-1], (A,)),
    Call("sums([x, y])", lambda x, y: L.sums([x, y]), lambda x, y: x + y, (A, B)),
    Call("sum([x, y])", lambda x, y: L.sum([x, y]), lambda x, y: x + y, (A, B)),
    Call("mean(x)", lambda x: L.mean(x), lambda x: x.mean(), (A,)),
    Call("pow(x, factor=3.0)", lambda x: L.pow(x, factor=3.0), lambda x: x**3, (A,)),
    Call("pow(x, 2.0)", lambda x: L.pow(x, 2.0), lambda x: x**2, (A,)),
    Call("leaky_relu(x, alpha=0.1)", lambda x: L.leaky_relu(x, alpha=0.1), lambda x: np.where(x > 0, x, 0.1 * x), (A,)),
    Call("leaky_relu(x) has alpha 0.02", lambda x: L.leaky_relu(x), lambda x: np.where(x > 0, x, 0.02 * x), (A,)),
    Call("elu(x, 0.5)", lambda x: L.elu(x, 0.5), lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1)), (A,)),
    Call("relu6(x, threshold=1.0)", lambda x: L.relu6(x, threshold=1.0), lambda x: x.clip(0, 1), (A,)),
    Call("swish(x, beta=2.0)", lambda x: L.swish(x, beta=2.0), lambda x: x * sigmoid(2 * x), (A,)),
    Call("hard_sigmoid(x, 0.2, 0.5)", lambda x: L.hard_sigmoid(x, 0.2, 0.5), lambda x: (0.2 * x + 0.5).clip(0, 1), (A,)),
    Call("stanh(x)", lambda x: L.stanh(x), lambda x: 1.7159 * np.tanh(0.67 * x), (A,)),
    Call("brelu(x, 0.0, 1.0)", lambda x: L.brelu(x, 0.0, 1.0), lambda x: x.clip(0, 1), (A,)),
    Call("logsigmoid(x)", lambda x: L.logsigmoid(x), lambda x: np.log(sigmoid(x)), (A,)),
    Call("rsqrt(x)", lambda x: L.rsqrt(x), lambda x: x**-0.5, (P,)),
    Call("sqrt(x, name='root')", lambda x: L.sqrt(x, name="root"), np.sqrt, (P,)),
    Call("log_softmax(x, axis=-1)", lambda x: L.log_softmax(x, axis=-1), lambda x: np.log(softmax(x)), (A,)),
    Call("cross_entropy(p, label)", lambda x, y: L.cross_entropy(x, y), lambda x, y: -np.log(np.take_along_axis(x, y, 1)), (Q, LABEL)),
    Call(
        "cross_entropy(input=p, label=q, soft_label=True)",
        lambda x, y: L.cross_entropy(input=x, label=y, soft_label=True),
        lambda x, y: -(y * np.log(x)).sum(-1, keepdims=True),
        (P, Q),
    ),
    Call(
        "softmax_with_cross_entropy(x, label)",
        lambda x, y: L.softmax_with_cross_entropy(x, y),
        lambda x, y: -np.log(np.take_along_axis(softmax(x), y, 1)),
        (M, LABEL),
    ),
    Call(
        "softmax_with_cross_entropy(return_softmax=True)",
        lambda x, y: L.softmax_with_cross_entropy(logits=x, label=y, return_softmax=True),
        lambda x, y: [-np.log(np.take_along_axis(softmax(x), y, 1)), softmax(x)],
        (M, LABEL),
    ),
    Call(
        "sigmoid_cross_entropy_with_logits(x, label)",
        lambda x, y: L.sigmoid_cross_entropy_with_logits(x, y),
        lambda x, y: -y * np.log(sigmoid(x)) - (1 - y) * np.log(1 - sigmoid(x)),
        (M, Q),
    ),
    Call("square_error_cost(x, y)", lambda x, y: L.square_error_cost(x, y), lambda x, y: (x - y) ** 2, (M, N)),
    Call("square_error_cost(input=x, label=y)", lambda x, y: L.square_error_cost(input=x, label=y), lambda x, y: (x - y) ** 2, (M, N)),
    Call("mse_loss(x, y)", lambda x, y: L.mse_loss(x, y), lambda x, y: ((x - y) ** 2).mean(), (M, N)),
    Call(
        "huber_loss(x, y, 1.0)",
        lambda x, y: L.huber_loss(x, y, 1.0),
        lambda x, y: np.where(abs(y - x) <= 1, (y - x) ** 2 / 2, abs(y - x) - 0.5),
        (M, N),
    ),
    Call(
        "log_loss(input=p, label=q)",
        lambda x, y: L.log_loss(input=x, label=y),
        lambda x, y: -y * np.log(x + 1e-4) - (1 - y) * np.log(1 - x + 1e-4),
        (Q, Q[::-1]),
    ),
    Call(
        "smooth_l1(x, y)",
        lambda x, y: L.smooth_l1(x, y),
        lambda x, y: np.where(abs(x - y) < 1, (x - y) ** 2 / 2, abs(x - y) - 0.5).sum(1, keepdims=True),
        (M, N),
    ),
    Call(
        "kldiv_loss(x, target, reduction='sum')",
        lambda x, y: L.kldiv_loss(x, y, reduction="sum"),
        lambda x, y: (y * (np.log(y) - x)).sum(),
        (M, Q),
    ),
    Call(
        "label_smooth(label, epsilon=0.1, dtype='float64')",
        lambda x: L.label_smooth(label=x, epsilon=0.1, dtype="float64"),
        lambda x: 0.9 * x + 0.1 / 4,
        (M,),
    ),
    Call("l2_normalize(x, axis=1)", lambda x: L.l2_normalize(x, axis=1), lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)), (M,)),
    Call(
        "cos_sim(X=x, Y=y)",
        lambda x, y: L.cos_sim(X=x, Y=y),
        lambda x, y: (x * y).sum(1, keepdims=True) / np.linalg.norm(x, axis=1, keepdims=True) / np.linalg.norm(y, axis=1, keepdims=True),
        (M, N),
    ),
    Call(
        "fc(x, 3, 1, ...)",
        lambda x: L.fc(x, 3, 1, constant(0.5), constant(0.25), "relu"),
        lambda x: np.maximum(x.sum(1, keepdims=True) * np.full((1, 3), 0.5) + 0.25, 0),
        (M,),
    ),
    Call(
        "fc(input=x, size=3, num_flatten_dims=2, bias_attr=False)",
        lambda x: L.fc(input=x, size=3, num_flatten_dims=2, param_attr=constant(0.5), bias_attr=False),
        lambda x: x.sum(2, keepdims=True) * np.full((1, 1, 3), 0.5),
        (A,),
    ),
    Call(
        "embedding(ids, size=[4, 3])",
        lambda x: L.embedding(input=x, size=[4, 3], param_attr=constant(0.5), dtype="float64"),
        lambda x: np.full((3, 3), 0.5),
        (LABEL,),
        False,
    ),
    Call(
        "conv2d(x, 2, 3, groups=None)",
        lambda x: L.conv2d(x, 2, 3, 1, 1, groups=None, param_attr=constant(0.5), bias_attr=False),
        lambda x: convolved(x, np.full((2, 4, 3, 3), 0.5), 1, 1),
        (IMAGE,),
    ),
    Call(
        "conv2d(num_filters=4, filter_size=3, stride=2, groups=2, act='relu')",
        lambda x: L.conv2d(input=x, num_filters=4, filter_size=3, stride=2, groups=2, param_attr=constant(0.5), act="relu"),
        lambda x: np.maximum(convolved(x, np.full((4, 2, 3, 3), 0.5), 2, groups=2), 0),
        (IMAGE,),
    ),
    Call(
        "conv2d(data_format='NHWC')",
        lambda x: L.conv2d(x, 2, 3, param_attr=constant(0.5), data_format="NHWC"),
        lambda x: last(convolved(first(x), np.full((2, 4, 3, 3), 0.5))),
        (LAST,),
    ),
    Call(
        "conv2d_transpose(x, 2, filter_size=1)",
        lambda x: L.conv2d_transpose(x, 2, filter_size=1, param_attr=constant(0.5)),
        lambda x: x.sum(1, keepdims=True) * np.full((1, 2, 1, 1), 0.5),
        (IMAGE,),
    ),
    Call("pool2d(x, 2, 'max', 2)", lambda x: L.pool2d(x, 2, "max", 2), lambda x: pooled(x, np.max), (IMAGE,)),
    Call(
        "pool2d(input=x, pool_size=2, pool_type='avg', pool_stride=2)",
        lambda x: L.pool2d(input=x, pool_size=2, pool_type="avg", pool_stride=2),
        lambda x: pooled(x, np.mean),
        (IMAGE,),
    ),
    Call(
        "pool2d(global_pooling=True, pool_type='avg')",
        lambda x: L.pool2d(x, pool_type="avg", global_pooling=True),
        lambda x: x.mean((2, 3), keepdims=True),
        (IMAGE,),
    ),
    Call(
        "pool2d(data_format='NHWC')",
        lambda x: L.pool2d(x, 2, "avg", 2, data_format="NHWC"),
        lambda x: last(pooled(first(x), np.mean)),
        (LAST,),
    ),
    Call("adaptive_pool2d(x, 1, 'avg')", lambda x: L.adaptive_pool2d(x, 1, "avg"), lambda x: x.mean((2, 3), keepdims=True), (IMAGE,)),
    Call("batch_norm(x)", lambda x: L.batch_norm(x), lambda x: normed(x, (0, 2, 3)), (IMAGE,)),
    Call(
        "batch_norm(input=x, act='relu', data_layout='NHWC')",
        lambda x: L.batch_norm(input=x, act="relu", data_layout="NHWC"),
        lambda x: np.maximum(normed(x, (0, 1, 2)), 0),
        (LAST,),
    ),
    Call("layer_norm(x, begin_norm_axis=2)", lambda x: L.layer_norm(x, begin_norm_axis=2), lambda x: normed(x, (2,)), (A,)),
    Call(
        "layer_norm(input=x, scale=False, shift=False)",
        lambda x: L.layer_norm(input=x, scale=False, shift=False),
        lambda x: normed(x, (1, 2)),
        (A,),
    ),
    Call("instance_norm(x)", lambda x: L.instance_norm(x), lambda x: normed(x, (2, 3)), (IMAGE,)),
    Call(
        "group_norm(x, groups=2)",
        lambda x: L.group_norm(x, groups=2),
        lambda x: normed(x.reshape(2, 2, -1), (2,)).reshape(x.shape),
        (IMAGE,),
    ),
    Call(
        "image_resize(x, out_shape=[8, 10], resample='NEAREST', align_corners=False)",
        lambda x: L.image_resize(x, out_shape=[8, 10], resample="NEAREST", align_corners=False),
        lambda x: x[:, :, :, :5].repeat(2, 2).repeat(2, 3),
        (IMAGE[..., :4, :5],),
    ),
    Call("where(condition)", lambda x: L.where(x > 0), lambda x: np.argwhere(x > 0), (M,), False),
    Call("logical_and(x > 0, y > 0)", lambda x, y: L.logical_and(x > 0, y > 0), lambda x, y: (x > 0) & (y > 0), (M, N), False),
    Call("logical_not(x > 0)", lambda x: L.logical_not(x > 0), lambda x: ~(x > 0), (M,), False),
    Call("less_than(x, y)", lambda x, y: L.less_than(x, y), np.less, (M, N), False),
    Call("equal(x=x, y=y)", lambda x, y: L.equal(x=x, y=y), np.equal, (LABEL, IDS[:, None]), False),
    Call("zeros_like(x)", lambda x: L.zeros_like(x), np.zeros_like, (M,), False),
    Call("ones_like(x)", lambda x: L.ones_like(x), np.ones_like, (M,), False),
    Call("fill_constant([2, 3], 'float64', 1.5) + x", lambda x: L.fill_constant([3, 4], "float64", 1.5) + x, lambda x: x + 1.5, (M,)),
    Call("range(0, 10, 3, 'int64')", lambda x: L.range(0, 10, 3, "int64"), lambda x: np.arange(0, 10, 3), (M,), False),
    Call("linspace(0, 1, 5, 'float64')", lambda x: L.linspace(0, 1, 5, "float64"), lambda x: np.linspace(0, 1, 5), (M,), False),
    Call("eye(3, dtype='float64') @ x", lambda x: L.matmul(L.eye(3, dtype="float64"), x), lambda x: x, (M,)),
    Call("shape(x)", lambda x: L.shape(x), lambda x: np.array(x.shape), (M,), False),
    Call("reverse(x, axis=[0])", lambda x: L.reverse(x, axis=[0]), lambda x: x[::-1], (M,)),
    Call("roll(x, shifts=1, dims=0)", lambda x: L.roll(x, shifts=1, dims=0), lambda x: np.roll(x, 1, 0), (M,)),
    Call("prelu(x, mode='all')", lambda x: L.prelu(x, mode="all", param_attr=constant(0.3)), lambda x: np.where(x > 0, x, 0.3 * x), (M,)),
    Call("maxout(x, groups=2)", lambda x: L.maxout(x, groups=2), lambda x: x.reshape(2, 2, 2, 5, 6).max(2), (IMAGE,)),
    Call(
        "pixel_shuffle(x, 2)",
        lambda x: L.pixel_shuffle(x, 2),
        lambda x: x.reshape(2, 1, 2, 2, 5, 6).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 10, 12),
        (IMAGE,),
    ),
    Call(
        "sequence_mask(lengths, maxlen=4)",
        lambda x: L.sequence_mask(x, maxlen=4),
        lambda x: (np.arange(4) < x[:, None]).astype("int64"),
        (IDS,),
        False,
    ),
    Call("assign(x)", lambda x: L.assign(x), lambda x: x, (M,)),
    Call(
        "accuracy(input=p, label=label)",
        lambda x, y: L.accuracy(input=x, label=y),
        lambda x, y: (x.argmax(1) == y[:, 0]).mean(),
        (Q, LABEL),
        False,
    ),
]
