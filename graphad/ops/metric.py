"""Metrics of predictions: how often they are right."""

from __future__ import annotations

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import operator
from graphad.ops.inference import matched
from graphad.types import Array, TensorType


def _accuracy_type(Out: TensorType, Indices: TensorType, Label: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    if len(Indices.shape) != 2 or len(Label.shape) not in (1, 2) or not all(map(matched, Label.shape, (Indices.shape[0], 1))):
        raise ShapeError(f"Indices is {Indices} but Label is {Label}: [N, k] and [N, 1] are expected")
    return TensorType((), Out.dtype), TensorType((), "int32"), TensorType((), "int32")


@operator("Out Indices Label -> Accuracy Correct Total", infer=_accuracy_type, grad={})
def accuracy(Out: Array, Indices: Array, Label: Array) -> tuple[Array, Array, Array]:
    """The part of the rows whose Label ``[N, 1]`` is among Indices ``[N, k]``, the number of these rows, and N."""
    hits = int((Indices == Label.reshape(-1, 1)).any(axis=1).sum())
    share = hits / len(Indices) if len(Indices) else 0.0
    return np.asarray(share, Out.dtype), np.asarray(hits, np.int32), np.asarray(len(Indices), np.int32)
