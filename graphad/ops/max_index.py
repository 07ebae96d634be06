"""Maximum poolings that also say where in its channel each maximum is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from graphad.ops.attributes import attributes
from graphad.ops.definition import Array, OpDef, Tensor, operator
from graphad.ops.inference import same_number
from graphad.ops.pooling import Pooling, first_largest, largest, numbered, taken
from graphad.ops.symbol import REGISTRY
from graphad.ops.windows import check_images
from graphad.types import TensorType


@dataclass(eq=False, repr=False)
class MaxPooling:
    """The attributes of a maximum pooling with an index."""

    ksize: list[int]
    strides: list[int] = field(default_factory=lambda: [1, 1])
    paddings: list[int] = field(default_factory=lambda: [0, 0])
    global_pooling: bool = False
    adaptive: bool = False
    ceil_mode: bool = False

    @property
    def shared(self) -> dict[str, Any]:
        """The attributes of the pooling without an index."""
        return {"pooling_type": "max", **vars(self)}


@dataclass(eq=False, repr=False)
class MaxPooling3d(MaxPooling):
    """The same over depth, height and width."""

    strides: list[int] = field(default_factory=lambda: [1, 1, 1])
    paddings: list[int] = field(default_factory=lambda: [0, 0, 0])


def _row(name: str, pool: str, spec: type[MaxPooling], rank: int) -> OpDef:
    def infer(X: TensorType, **attrs: Any) -> tuple[TensorType, TensorType]:
        check_images("NCHW", rank, X=X)
        shape = (*same_number(X).shape[:2], *Pooling(**spec(**attrs).shared).counts(X.shape))
        return TensorType(shape, X.dtype), TensorType(shape, "int32")

    @attributes(spec)
    def rule(X: Tensor, dOut: Tensor, **attrs: Any) -> Tensor:
        return REGISTRY[f"{pool}_scatter_max"](X, dOut, **spec(**attrs).shared)

    @attributes(spec)
    def kernel(X: Array, **attrs: Any) -> tuple[Array, Array]:
        """The largest element of every window of ``[N, C, ...]``, and its number among the elements of its channel."""
        pooling = Pooling(**spec(**attrs).shared)
        found = pooling.axes(X.shape)
        if found is None or not prod(X.shape):
            index = first_largest(X, pooling)
            return taken(X, index), index.astype(np.int32)
        out = largest(X, found)
        return out, numbered(X, out, found).astype(np.int32)

    rules: dict[str, Callable[..., Tensor]] = {"X": rule}
    return operator("X -> Out Mask", name=name, infer=infer, grad=rules, rows="X")(kernel)


max_pool2d_with_index = _row("max_pool2d_with_index", "pool2d", MaxPooling, 4)
max_pool3d_with_index = _row("max_pool3d_with_index", "pool3d", MaxPooling3d, 5)
