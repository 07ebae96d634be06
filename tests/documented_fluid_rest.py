"""Calls of the layers of Fluid 1.8 that are made of several operators: detection, recurrent networks, sampled losses, metrics."""

import itertools
import math
from typing import Any

import numpy as np

from graphad import layers as L
from tests.documented_call import IMAGE, LABEL, A, Array, B, Call, M, N, P, Q
from tests.documented_fluid import constant, last, normed, sigmoid, softmax

BOXES = np.array([[0.1, 0.2, 2.1, 3.2], [1.2, 1.3, 4.0, 2.5], [2.9, 0.5, 5.0, 2.0]])
OTHERS = np.array([[0.5, 0.4, 2.2, 2.0], [2.0, 0.6, 4.5, 3.1]])
CORNERS = np.array([[0.3, 0.2, 3.1, 2.9], [1.2, 1.6, 4.3, 3.4]])
MOVES = np.random.default_rng(6).uniform(-0.9, -0.1, size=(1, 8, 4, 5))
WEIGHTS = np.random.default_rng(7).normal(size=(1, 4, 4, 5))
CODES = np.random.default_rng(2).normal(size=(3, 2, 4)) * 0.3
FRAMES = np.random.default_rng(3).normal(size=(4, 8, 2, 3))
SEQUENCE = np.random.default_rng(4).normal(size=(2, 3, 4))
YOLO = np.random.default_rng(5).normal(size=(1, 14, 2, 3))
SIZES = np.array([[64, 96]], dtype="int32")
CLASSES = np.array([[0, 1, 2, 2], [1, 1, 0, 2]])
TAKEN = np.array([[0, 1, 1, 2], [1, 0, 0, 2]])
SAMPLES = np.array([[1, 2, 3], [0, 0, 1], [3, 1, 2]], dtype="int64")
LENGTHS = np.array([1, 3], dtype="int64")


def overlap(x: Array, y: Array) -> Array:
    low, high = np.maximum(x[:, None, :2], y[None, :, :2]), np.minimum(x[:, None, 2:], y[None, :, 2:])
    both = (high - low).clip(0).prod(2)
    area = [np.prod(each[:, 2:] - each[:, :2], 1) for each in (x, y)]
    return np.asarray(both / (area[0][:, None] + area[1] - both))


def center(x: Array) -> tuple[Array, Array]:
    return x[..., 2:] - x[..., :2], (x[..., 2:] + x[..., :2]) / 2


def encoded(target: Array, prior: Array) -> Array:
    (size, at), (width, middle) = center(target[:, None]), center(prior[None])
    return np.concatenate([(at - middle) / width, np.log(size / width)], 2) / [0.1, 0.1, 0.2, 0.2]


def decoded(codes: Array, prior: Array) -> Array:
    width, middle = center(prior[None])
    at, size = codes[..., :2] * 0.1 * width + middle, np.exp(codes[..., 2:] * 0.2) * width
    return np.concatenate([at - size / 2, at + size / 2], 2)


def bilinear(image: Array, y: float, x: float) -> Array:
    """Of each channel the value at a place, from four elements; zeros outside."""
    total = np.zeros(len(image))
    for i, j in itertools.product((math.floor(y), math.floor(y) + 1), (math.floor(x), math.floor(x) + 1)):
        if 0 <= i < image.shape[1] and 0 <= j < image.shape[2]:
            total += image[:, i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


def aligned(x: Array, boxes: Array) -> Array:
    """The values in the middle of the quarters of boxes."""
    return np.array(
        [[[bilinear(x[0], b[1] + (b[3] - b[1]) * p, b[0] + (b[2] - b[0]) * q) for q in (0.25, 0.75)] for p in (0.25, 0.75)] for b in boxes]
    ).transpose(0, 3, 1, 2)


def largest(x: Array, boxes: Array) -> Array:
    corners = np.floor(boxes + 0.5).astype(int)
    return np.stack([x[0, :, b[1] : b[3] + 1, b[0] : b[2] + 1].max((1, 2)) for b in corners])[..., None, None]


def moved(x: Array, offset: Array, mask: Array) -> Array:
    """Two features of weights 0.5 over windows of two by two whose elements are moved."""
    out = np.zeros((1, 2, x.shape[2] - 1, x.shape[3] - 1))
    for i, j, k in itertools.product(range(x.shape[2] - 1), range(x.shape[3] - 1), range(4)):
        y, z = i + k // 2 + offset[0, 2 * k, i, j], j + k % 2 + offset[0, 2 * k + 1, i, j]
        out[0, :, i, j] += 0.5 * mask[0, k, i, j] * bilinear(x[0], y, z).sum()
    return out


def gru_states(x: Array, lengths: Any = None) -> tuple[Array, Array]:
    """A GRU of width 2 over time with all weights 0.5 and no bias."""
    h, every = np.zeros((2, 2)), []
    for t in range(x.shape[1]):
        both = 0.5 * (x[:, t].sum(1, keepdims=True) + h.sum(1, keepdims=True))
        gate = sigmoid(both)
        candidate = np.tanh(0.5 * (x[:, t].sum(1, keepdims=True) + (gate * h).sum(1, keepdims=True)))
        new = gate * h + (1 - gate) * candidate
        every.append(new)
        h = new if lengths is None else np.where((t < lengths)[:, None], new, h)
    return np.stack(every, 1), h


def lstm_states(x: Array) -> tuple[Array, Array, Array]:
    """An LSTM of width 2, steps first, with all weights 0.5 and a forget bias of 0."""
    h, c, every = np.zeros((3, 2)), np.zeros((3, 2)), []
    for step in x:
        gate = 0.5 * (step.sum(1, keepdims=True) + h.sum(1, keepdims=True))
        c = sigmoid(gate) * c + sigmoid(gate) * np.tanh(gate)
        h = sigmoid(gate) * np.tanh(c)
        every.append(h)
    return np.stack(every), h[None], c[None]


def run_gru(x: Any, **options: Any) -> Any:
    return L.rnn(L.GRUCell(2, param_attr=L.ParamAttr(initializer=constant(0.5).initializer), bias_attr=False), x, **options)


def run_lstm(x: Any) -> Any:
    hidden, cell = (L.zeros([1, 3, 2], "float64") for _ in range(2))
    return L.lstm(x, hidden, cell, 2, 2, 1, default_initializer=constant(0.5).initializer)


def hierarchical(x: Array, label: Array) -> Array:
    """All weights 0.5, no bias; four classes: two decisions each."""
    s = 0.5 * x.sum(1)
    turns = [[0, 0], [1, 0], [0, 1], [1, 1]]
    return np.array([[sum(np.log1p(np.exp(v)) - t * v for t in turns[c])] for v, c in zip(s, label[:, 0], strict=True)])


def contrastive(x: Array, label: Array, noise: float) -> Array:
    """All weights 0.5: every class has the same score, so that it does not matter which ones are drawn."""
    score = sigmoid(0.5 * x.sum(1, keepdims=True))
    share = score / (score + 3 * noise)
    return np.asarray(-np.log(share) - 3 * np.log(1 - share))


def npair(x: Array, y: Array) -> Array:
    same = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    share = same / same.sum(1, keepdims=True)
    cost = -(share * np.log(softmax(x @ y.T))).sum(1, keepdims=True)
    return (share * cost).sum(0).mean() + 0.25 * 0.01 * ((x**2).sum(1).mean() + (y**2).sum(1).mean())  # type: ignore[no-any-return]


def iou_counts(x: Array, y: Array) -> list[Array]:
    right = np.array([((x == c) & (y == c)).sum() for c in range(4)])
    wrong = np.array([((x == c) != (y == c)).sum() for c in range(4)])
    there = right + wrong > 0
    return [np.asarray((right[there] / (right + wrong)[there]).mean(dtype="float32")), wrong, right]


def positions(x: Array) -> Array:
    angle = np.arange(3)[:, None] / np.array([1.0, 10000.0])
    return np.asarray(2.0 * x + 0.5 * np.concatenate([np.sin(angle), np.cos(angle)], 1))


def deep(x: Array) -> Array:
    n, c, h, w = x.shape
    out = np.zeros((n, 4 * c, h // 2, w // 2))
    for place in range(4):
        out[:, place * c : (place + 1) * c] = x[:, :, place // 2 :: 2, place % 2 :: 2]
    return out


def shifted(x: Array) -> Array:
    """Two videos of two frames, an eighth of the channels each way."""
    frames = x.reshape(2, 2, 8, 2, 3)
    out = frames.copy()
    out[:, :, :1] = np.concatenate([np.zeros((2, 1, 1, 2, 3)), frames[:, :1, :1]], 1)
    out[:, :, 1:2] = np.concatenate([frames[:, 1:, 1:2], np.zeros((2, 1, 1, 2, 3))], 1)
    return out.reshape(x.shape)


def yolo(x: Array) -> list[Array]:
    """Two anchors, two classes, a threshold that all confidences pass."""
    part = x.reshape(2, 7, 2, 3)
    rows, columns = np.indices((2, 3))
    bx, by = (sigmoid(part[:, 0]) + columns) * 96 / 3, (sigmoid(part[:, 1]) + rows) * 64 / 2
    bw, bh = (np.exp(part[:, 2 + i]) * np.array(a)[:, None, None] * 1.0 for i, a in enumerate(([10, 16], [13, 30])))
    boxes = np.stack([bx - bw / 2, by - bh / 2, bx + bw / 2, by + bh / 2], -1).reshape(1, 12, 4)
    scores = sigmoid(part[:, 4:5]) * sigmoid(part[:, 5:])
    return [boxes, scores.transpose(0, 2, 3, 1).reshape(1, 12, 2)]


def windows(x: Array) -> Array:
    views = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    return views.transpose(0, 2, 3, 1, 4, 5).reshape(-1, 16)


def sampled(x: Array) -> Array:
    scores = np.take_along_axis(x, SAMPLES, 1) - np.log(Q[:, :3]) - 1e20 * np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    return np.asarray(-np.log(softmax(scores)[:, :1]))


def normal_kl(a: Array, b: Array) -> Array:
    return np.asarray(np.log(2.0 / b) + (b**2 + (a - 1.0) ** 2) / 8.0 - 0.5)


def assigned(codes: Array, prior: Array, scores: Array) -> tuple[Array, Array]:
    """Boxes of pixels, one a class, and that of the class after the first that is likeliest."""
    size, corner = prior[:, None, 2:] - prior[:, None, :2] + 1, prior[:, None, :2]
    code = codes.reshape(len(prior), -1, 4)
    middle, extent = code[..., :2] * 0.1 * size + corner + size / 2, np.exp(np.minimum(code[..., 2:] * 0.2, 0.05)) * size
    boxes = np.concatenate([middle - extent / 2, middle + extent / 2 - 1], 2)
    return boxes.reshape(len(prior), -1), boxes[np.arange(len(prior)), scores[:, 1:].argmax(1) + 1]


TRUTH = SAMPLES[:, :1].copy()

FLUID_REST = [
    Call("cross(x, y)", lambda x, y: L.cross(x, y), lambda x, y: np.cross(x, y, axis=1), (A, B)),
    Call("cross(x, y, dim=0)", lambda x, y: L.cross(x, y, dim=0), lambda x, y: np.cross(x, y, axis=0), (M, N)),
    Call("add_position_encoding(x, 2.0, 0.5)", lambda x: L.add_position_encoding(x, 2.0, 0.5), positions, (A,)),
    Call("iou_similarity(x, y)", lambda x, y: L.iou_similarity(x, y), overlap, (BOXES, OTHERS)),
    Call("box_coder(y, [0.1, 0.1, 0.2, 0.2], x)", lambda x, y: L.box_coder(y, [0.1, 0.1, 0.2, 0.2], x), encoded, (BOXES, OTHERS)),
    Call(
        "box_coder(y, [0.1, 0.1, 0.2, 0.2], x, code_type='decode_center_size')",
        lambda x, y: L.box_coder(y, [0.1, 0.1, 0.2, 0.2], x, code_type="decode_center_size"),
        decoded,
        (CODES, OTHERS),
    ),
    Call(
        "box_decoder_and_assign(prior_box, [0.1, 0.1, 0.2, 0.2], target_box, box_score, box_clip=0.05)",
        lambda c, b, s: L.box_decoder_and_assign(b, [0.1, 0.1, 0.2, 0.2], c, s, box_clip=0.05),
        assigned,
        (CODES.reshape(2, 12), OTHERS, CORNERS[:, 1:]),
        fixed=(2,),
    ),
    Call(
        "box_clip(x, im_info)",
        lambda x, info: L.box_clip(x, info),
        lambda x, info: np.minimum(x, [3, 1, 3, 1]),
        (BOXES, np.array([[4.0, 8.0, 2.0]])),
        fixed=(1,),
    ),
    Call("roi_align(x, rois, 2, 2, 1.0, 1)", lambda x, b: L.roi_align(x, b, 2, 2, 1.0, 1), aligned, (IMAGE[:1], CORNERS), fixed=(1,)),
    Call("roi_pool(x, rois, 1, 1)", lambda x, b: L.roi_pool(x, b, 1, 1), largest, (IMAGE[:1], CORNERS), fixed=(1,)),
    Call(
        "deformable_conv(x, offset, mask, 2, 2)",
        lambda x, o, m: L.deformable_conv(x, o, m, 2, 2, param_attr=constant(0.5), bias_attr=False),
        moved,
        (IMAGE[:1, :2], MOVES, WEIGHTS),
    ),
    Call(
        "polygon_box_transform(x)",
        lambda x: L.polygon_box_transform(x),
        lambda x: np.stack([4.0 * np.indices((5, 6))[1 - c % 2] - x[:, c] for c in range(4)], 1),
        (IMAGE,),
    ),
    Call(
        "yolo_box(x, s, [10, 13, 16, 30], 2, 0.0, 32, clip_bbox=False)",
        lambda x, s: L.yolo_box(x, s, [10, 13, 16, 30], 2, 0.0, 32, clip_bbox=False),
        lambda x, s: yolo(x),
        (YOLO, SIZES),
    ),
    Call(
        "prior_box(x, x, [2.0], aspect_ratios=[4.0])",
        lambda x: L.prior_box(x, x, [2.0], aspect_ratios=[4.0])[0],
        lambda x: np.array(
            [
                [
                    [[(c + 0.5 - w) / 6, (r + 0.5 - h) / 5, (c + 0.5 + w) / 6, (r + 0.5 + h) / 5] for w, h in ((1, 1), (2, 0.5))]
                    for c in range(6)
                ]
                for r in range(5)
            ]
        ),
        (IMAGE,),
        slope=False,
    ),
    Call(
        "density_prior_box(x, x, densities=[1], fixed_sizes=[2.0], fixed_ratios=[1.0], steps=[2.0, 2.0])",
        lambda x: L.density_prior_box(x, x, densities=[1], fixed_sizes=[2.0], fixed_ratios=[1.0], steps=[2.0, 2.0])[0],
        lambda x: np.array(
            [
                [[[max(2 * c / 6, 0), max(2 * r / 5, 0), min((2 * c + 2) / 6, 1), min((2 * r + 2) / 5, 1)]] for c in range(6)]
                for r in range(5)
            ]
        ),
        (IMAGE,),
        slope=False,
    ),
    Call(
        "anchor_generator(x, anchor_sizes=[32.0], aspect_ratios=[1.0], stride=[16.0, 16.0])",
        lambda x: L.anchor_generator(x, anchor_sizes=[32.0], aspect_ratios=[1.0], stride=[16.0, 16.0])[0],
        lambda x: np.array([[[[16 * c - 8.0, 16 * r - 8.0, 16 * c + 23.0, 16 * r + 23.0]] for c in range(6)] for r in range(5)]),
        (IMAGE,),
        slope=False,
    ),
    Call("space_to_depth(x, 2)", lambda x: L.space_to_depth(x, 2), deep, (IMAGE[:, :, :4].copy(),)),
    Call(
        "temporal_shift(x, seg_num=2, shift_ratio=0.125)", lambda x: L.temporal_shift(x, seg_num=2, shift_ratio=0.125), shifted, (FRAMES,)
    ),
    Call("im2sequence(x, filter_size=2)", lambda x: L.im2sequence(x, filter_size=2), windows, (IMAGE,)),
    Call(
        "row_conv(x, 1)",
        lambda x: L.row_conv(x, 1, param_attr=constant(0.5)),
        lambda x: 0.5 * (x + np.concatenate([x[:, 1:], 0 * x[:, :1]], 1)),
        (A,),
    ),
    Call(
        "shard_index(x, index_num=4, nshards=2, shard_id=1)",
        lambda x: L.shard_index(x, index_num=4, nshards=2, shard_id=1),
        lambda x: np.where(x >= 2, x - 2, -1),
        (LABEL,),
    ),
    Call(
        "unique_with_counts(x)",
        lambda x: L.unique_with_counts(x),
        lambda x: [np.array([2, 3, 1, 5]), np.array([0, 1, 1, 2, 3, 1]), np.array([1, 3, 1, 1])],
        (np.array([2, 3, 3, 1, 5, 3]),),
    ),
    Call("mean_iou(x, y, 4)", lambda x, y: L.mean_iou(x, y, 4), iou_counts, (TAKEN, CLASSES)),
    Call(
        "npair_loss(x, y, l, l2_reg=0.01)",
        lambda x, y, z: L.npair_loss(x, y, z, l2_reg=0.01),
        lambda x, y, z: npair(x, y),
        (M, N, np.array([[1], [0], [1]])),
    ),
    Call(
        "center_loss(x, l, 4, 0.1, param_attr)",
        lambda x, z: L.center_loss(x, z, 4, 0.1, constant(0.5)),
        lambda x, z: 0.5 * ((x - 0.5) ** 2).sum(1, keepdims=True),
        (M, LABEL),
    ),
    Call(
        "teacher_student_sigmoid_loss(x, l)",
        lambda x, z: L.teacher_student_sigmoid_loss(x, z),
        lambda x, z: (
            np.array([[np.log1p(np.exp(v[0]))] for v in x]) + np.array([[0.0], [-x[1, 0]], [np.log1p(np.exp(x[2, 0])) - 0.3 * x[2, 0]]])
        ),
        (M[:, :1].copy(), np.array([[-2.0], [-1.0], [0.3]])),
        fixed=(1,),
    ),
    Call("hsigmoid(x, l, 4)", lambda x, z: L.hsigmoid(x, z, 4, param_attr=constant(0.5), bias_attr=False), hierarchical, (M, LABEL)),
    Call(
        "nce(x, l, 5, num_neg_samples=3)",
        lambda x, z: L.nce(x, z, 5, num_neg_samples=3, param_attr=constant(0.5), bias_attr=False),
        lambda x, z: contrastive(x, z, 0.2),
        (M, LABEL),
    ),
    Call(
        "nce(x, l, 2, num_neg_samples=3, sampler='custom_dist', custom_dist=[0.5, 0.5])",
        lambda x, z: L.nce(x, z, 2, None, constant(0.5), False, 3, None, "custom_dist", [0.5, 0.5]),
        lambda x, z: contrastive(x, z, 0.5),
        (M, LABEL.clip(0, 1)),
    ),
    Call(
        "sampled_softmax_with_cross_entropy(x, l, 2, use_customized_samples=True, customized_samples=s, customized_probabilities=p)",
        lambda x, z, s, p: L.sampled_softmax_with_cross_entropy(
            x, z, 2, use_customized_samples=True, customized_samples=s, customized_probabilities=p
        ),
        lambda x, z, s, p: sampled(x),
        (M, TRUTH, SAMPLES, Q[:, :3].copy()),
        fixed=(3,),
    ),
    Call(
        "continuous_value_model(x, c)",
        lambda x, c: L.continuous_value_model(x, c, False),
        lambda x, c: x[:, 2:],
        (P, M[:, :2].copy()),
        fixed=(1,),
    ),
    Call(
        "inplace_abn(x, act='leaky_relu', act_alpha=0.1)",
        lambda x: L.inplace_abn(x, act="leaky_relu", act_alpha=0.1),
        lambda x: np.where(normed(x, (0, 2, 3)) > 0, 1, 0.1) * normed(x, (0, 2, 3)),
        (IMAGE,),
    ),
    Call(
        "group_norm(x, 2, data_layout='NHWC')",
        lambda x: L.group_norm(x, 2, data_layout="NHWC"),
        lambda x: last(normed(x.transpose(0, 3, 1, 2).reshape(2, 2, 2, 5, 6), (2, 3, 4)).reshape(2, 4, 5, 6)),
        (last(IMAGE).copy(),),
    ),
    Call("merge_selected_rows(x)", lambda x: L.merge_selected_rows(x), lambda x: x, (M,)),
    Call("get_tensor_from_selected_rows(x)", lambda x: L.get_tensor_from_selected_rows(x), lambda x: x, (M,)),
    Call("rnn(GRUCell(2), x)", lambda x: run_gru(x), gru_states, (SEQUENCE,)),
    Call("rnn(GRUCell(2), x, sequence_length=n)", lambda x, n: run_gru(x, sequence_length=n), gru_states, (SEQUENCE, LENGTHS)),
    Call(
        "rnn(GRUCell(2), x, is_reverse=True)",
        lambda x: run_gru(x, is_reverse=True)[0],
        lambda x: gru_states(x[:, ::-1])[0][:, ::-1],
        (SEQUENCE,),
    ),
    Call(
        "rnn(GRUCell(2), x, time_major=True)",
        lambda x: run_gru(x, time_major=True)[0],
        lambda x: gru_states(x.transpose(1, 0, 2))[0].transpose(1, 0, 2),
        (SEQUENCE.transpose(1, 0, 2).copy(),),
    ),
    Call("lstm(x, h, c, 2, 2, 1)", run_lstm, lstm_states, (SEQUENCE,)),
    Call(
        "Normal(x, y).log_prob(z)",
        lambda x, y, z: L.Normal(x, y).log_prob(z),
        lambda x, y, z: -((z - x) ** 2) / (2 * y**2) - np.log(y * math.sqrt(2 * math.pi)),
        (M, P, N),
    ),
    Call("Normal(x, y).entropy()", lambda x, y: L.Normal(x, y).entropy(), lambda x, y: 0.5 * np.log(2 * math.pi * math.e * y**2), (M, P)),
    Call(
        "Normal(x, y).kl_divergence(Normal(1.0, 2.0))",
        lambda x, y: L.Normal(x, y).kl_divergence(L.Normal(np.array(1.0), np.array(2.0))),
        normal_kl,
        (M, P),
    ),
    Call("Uniform(x, y).entropy()", lambda x, y: L.Uniform(x, y).entropy(), lambda x, y: np.log(y - x), (Q, P + 1)),
    Call(
        "Uniform(x, y).log_prob(z)",
        lambda x, y, z: L.Uniform(x, y).log_prob(z),
        lambda x, y, z: -np.log(y - x),
        (Q, P + 1, Q + 0.3),
        fixed=(2,),
    ),
    Call(
        "Categorical(x).entropy()",
        lambda x: L.Categorical(x).entropy(),
        lambda x: -(softmax(x) * np.log(softmax(x))).sum(-1, keepdims=True),
        (M,),
    ),
    Call(
        "Categorical(x).kl_divergence(Categorical(y))",
        lambda x, y: L.Categorical(x).kl_divergence(L.Categorical(y)),
        lambda x, y: (softmax(x) * np.log(softmax(x) / softmax(y))).sum(-1, keepdims=True),
        (M, N),
    ),
    Call(
        "MultivariateNormalDiag(x, diag(y)).kl_divergence(MultivariateNormalDiag(z, diag(w)))",
        lambda x, y, z, w: L.MultivariateNormalDiag(x, L.diag(y)).kl_divergence(L.MultivariateNormalDiag(z, L.diag(w))),
        lambda x, y, z, w: 0.5 * ((y / w).sum() + ((z - x) ** 2 / w).sum() - 4 + np.log(w).sum() - np.log(y).sum()),
        (M[0], P[0], M[1], P[1]),
    ),
    Call(
        "MultivariateNormalDiag(x, diag(y)).entropy()",
        lambda x, y: L.MultivariateNormalDiag(x, L.diag(y)).entropy(),
        lambda x, y: 0.5 * (4 * (1 + math.log(2 * math.pi)) + np.log(y).sum()),
        (M[0], P[0]),
        fixed=(0,),
    ),
]
