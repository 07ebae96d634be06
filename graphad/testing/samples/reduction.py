"""Samples of the operators in ``graphad.ops.reduction``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import REDUCE_X, ZEROS, with_
from graphad.types import Array


def _over_axes(x: Array) -> list[Sample]:
    """All axes, some axes kept and dropped, negative axes, ``reduce_all``, and a scalar."""
    return [
        with_(x),
        with_(x, dim=[1]),
        with_(x, dim=[0, -1], keep_dim=True),
        with_(x, dim=[0], reduce_all=True, keep_dim=True),
        with_(np.asarray(x[0, 0, 0]), dim=[-1]),
    ]


EMPTY = [with_(uniform(0, 3), dim=[1]), with_(uniform(0, 3), dim=[0])]
TRUTHS = np.array([[True, False], [True, True]])
INTS = np.array([[1, 2], [3, 4]])

SAMPLES: dict[str, list[Sample]] = {
    "reduce_sum": [*_over_axes(REDUCE_X), *EMPTY, with_(INTS, dim=[1], in_dtype="int64", out_dtype="float64"), with_(INTS)],
    "reduce_mean": [*_over_axes(REDUCE_X), with_(uniform(0, 3), dim=[1])],
    "mean": [with_(REDUCE_X), with_(uniform())],
    **{op: [*_over_axes(REDUCE_X), with_(INTS), EMPTY[0]] for op in ("reduce_amax", "reduce_amin")},
    **{
        op: [*_over_axes(REDUCE_X), with_(INTS), EMPTY[0], with_(uniform(0, 3), dim=[0], allow_empty=True)]
        for op in ("reduce_max", "reduce_min")
    },
    **{op: [with_(TRUTHS), with_(TRUTHS, dim=[0]), with_(TRUTHS, dim=[1], keep_dim=True)] for op in ("reduce_all", "reduce_any")},
    "reduce_prod": [*_over_axes(REDUCE_X), *EMPTY, with_(ZEROS, dim=[1]), with_(ZEROS, dim=[0], keep_dim=True), with_(ZEROS)],
    "arg_max": [
        with_(REDUCE_X),
        with_(REDUCE_X, axis=1, keepdims=True),
        with_(REDUCE_X, flatten=True),
        with_(REDUCE_X, axis=0, dtype="int32"),
    ],
    "arg_min": [with_(REDUCE_X), with_(REDUCE_X, flatten=True, keepdims=True), with_(uniform())],
    "logsumexp": [
        with_(REDUCE_X),
        with_(REDUCE_X, axis=[1]),
        with_(REDUCE_X, axis=[0, 2], keepdim=True),
        with_(REDUCE_X, axis=[0], reduce_all=True),
        with_(uniform()),
    ],
    "p_norm": [
        *(with_(REDUCE_X, porder=p, axis=1) for p in (0.0, 1.0, 1.5, 2.0, 3.0, float("inf"), float("-inf"))),
        with_(REDUCE_X, axis=-1, keepdim=True),
        with_(REDUCE_X, porder=2.0, asvector=True),
        with_(REDUCE_X, porder=3.0, asvector=True, keepdim=True),
    ],
    "frobenius_norm": [*_over_axes(REDUCE_X)],
    "squared_l2_norm": [with_(REDUCE_X), with_(uniform()), with_(uniform(0, 2))],
}
