"""Samples of the reductions and of the running sums and products."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Array, Sample, away_from_zero, uniform


def _with(x: Array, **attrs: object) -> Sample:
    return Sample({"X": x}, attrs)


def _over_axes(x: Array) -> list[Sample]:
    """All axes, some axes kept and dropped, negative axes, ``reduce_all``, and a scalar."""
    return [
        _with(x),
        _with(x, dim=[1]),
        _with(x, dim=[0, -1], keep_dim=True),
        _with(x, dim=[0], reduce_all=True, keep_dim=True),
        _with(np.asarray(x[0, 0, 0]), dim=[-1]),
    ]


X = away_from_zero(2, 3, 2)
EMPTY = [_with(uniform(0, 3), dim=[1]), _with(uniform(0, 3), dim=[0])]
TRUTHS = np.array([[True, False], [True, True]])
ZEROS = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, -2.0, 0.5]])
INTS = np.array([[1, 2], [3, 4]])

SAMPLES: dict[str, list[Sample]] = {
    "reduce_sum": [*_over_axes(X), *EMPTY, _with(INTS, dim=[1], in_dtype="int64", out_dtype="float64"), _with(INTS)],
    "reduce_mean": [*_over_axes(X), _with(uniform(0, 3), dim=[1])],
    "mean": [_with(X), _with(uniform())],
    **{op: [*_over_axes(X), _with(INTS), EMPTY[0]] for op in ("reduce_max", "reduce_min", "reduce_amax", "reduce_amin")},
    **{op: [_with(TRUTHS), _with(TRUTHS, dim=[0]), _with(TRUTHS, dim=[1], keep_dim=True)] for op in ("reduce_all", "reduce_any")},
    "reduce_prod": [*_over_axes(X), *EMPTY, _with(ZEROS, dim=[1]), _with(ZEROS, dim=[0], keep_dim=True), _with(ZEROS)],
    "arg_max": [_with(X), _with(X, axis=1, keepdims=True), _with(X, flatten=True), _with(X, axis=0, dtype="int32")],
    "arg_min": [_with(X), _with(X, flatten=True, keepdims=True), _with(uniform())],
    "logsumexp": [_with(X), _with(X, axis=[1]), _with(X, axis=[0, 2], keepdim=True), _with(X, axis=[0], reduce_all=True), _with(uniform())],
    "p_norm": [
        *(_with(X, porder=p, axis=1) for p in (0.0, 1.0, 1.5, 2.0, 3.0, float("inf"), float("-inf"))),
        _with(X, axis=-1, keepdim=True),
        _with(X, porder=2.0, asvector=True),
        _with(X, porder=3.0, asvector=True, keepdim=True),
    ],
    "frobenius_norm": [*_over_axes(X)],
    "squared_l2_norm": [_with(X), _with(uniform()), _with(uniform(0, 2))],
    "cumsum": [
        _with(X),
        _with(X, axis=1, reverse=True),
        _with(X, axis=0, exclusive=True),
        _with(X, axis=1, exclusive=True, reverse=True),
        _with(X, flatten=True, exclusive=True),
        _with(uniform()),
        _with(uniform(0, 2)),
    ],
    "cumprod": [
        _with(X, dim=1),
        _with(X, dim=-1, exclusive=True),
        _with(ZEROS, dim=1, reverse=True),
        _with(ZEROS, dim=0, exclusive=True, reverse=True),
        _with(uniform(0, 2), dim=1),
    ],
    "linear_recurrence": [
        Sample({"A": X, "B": uniform(2, 3, 2)}, {"axis": 1}),
        Sample({"A": ZEROS, "B": uniform(3, 3)}, {"axis": 0, "reverse": True}),
    ],
}
