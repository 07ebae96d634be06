"""Resizing by interpolation. Every method is a product with one matrix ``[new, old]`` for each spatial axis.

``resample`` resizes to the extents of another tensor, ``resample_spread`` is its transpose: the gradients of any order of all
the operators named ``..._interp`` and ``..._interp_v2`` are made of these two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.attributes import applied, attributes
from graphad.ops.definition import Array, OpDef, Tensor, operator
from graphad.ops.inference import matched
from graphad.ops.pooling import along_axes
from graphad.ops.windows import channels_first, check_images, from_front, laid_out, to_front
from graphad.types import FLOATS, Shape, TensorType, element_count

METHODS = {"linear": 3, "bilinear": 4, "nearest": 4, "bicubic": 4, "trilinear": 5}
CUBIC = -0.75
NO_FLOATS: list[float] = []


@dataclass(eq=False, repr=False)
class Resampling:
    """How positions in the new tensor are found in the old one. A ``scale`` (new to old) replaces the quotient of the extents."""

    interp_method: str = "bilinear"
    align_corners: bool = True
    align_mode: int = 1
    scale: list[float] = field(default_factory=lambda: NO_FLOATS)
    data_layout: str = "NCHW"

    def positions(self, old: int, new: int, scale: float, shift: float) -> Array:
        """Where ``k + shift`` of the new axis is in the old one; nothing is rounded before it is divided."""
        k = np.arange(new) + shift
        if new <= 1:
            return k * 0.0
        if self.align_corners:
            return k * (old - 1) / (new - 1)
        return k / scale if scale > 0 else k * old / new

    def matrix(self, old: int, new: int, scale: float, dtype: np.dtype[Any]) -> Array:
        """``[new, old]``."""
        index, weights = self.picked(old, new, scale)
        matrix = np.zeros((new, old), dtype)
        for at, weight in zip(index, weights, strict=True):
            np.add.at(matrix, (np.arange(new), np.clip(at, 0, old - 1)), weight.astype(dtype))
        return matrix

    def picked(self, old: int, new: int, scale: float) -> tuple[list[Array], list[Array]]:
        """The elements of the old axis that each of the new one is made of, and their weights."""
        if self.interp_method == "nearest":
            at = np.floor(self.positions(old, new, scale, 0.0) + (0.5 if self.align_corners else 0.0)).astype(np.intp)
            return [at], [np.ones(new)]
        if self.interp_method == "bicubic":
            return _cubic(self.positions(old, new, scale, 0.0) if self.align_corners else self._centred(old, new, scale))
        centred = self.align_mode == 0 and not self.align_corners
        at = np.maximum(self._centred(old, new, scale), 0.0) if centred else self.positions(old, new, scale, 0.0)
        low = np.minimum(np.floor(at), old - 1)
        return [low.astype(np.intp), low.astype(np.intp) + 1], [1.0 - (at - low), at - low]

    def _centred(self, old: int, new: int, scale: float) -> Array:
        return np.asarray(self.positions(old, new, scale, 0.5) - 0.5)


def _cubic(at: Array) -> tuple[list[Array], list[Array]]:
    """Keys' cubic convolution (1981) over four neighbors."""
    base = np.floor(at)
    t = at - base

    def near(x: Array) -> Array:
        return np.asarray(((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1)

    def far(x: Array) -> Array:
        return np.asarray(((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC)

    first = base.astype(np.intp)
    return [first - 1, first, first + 1, first + 2], [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _scales(values: Sequence[float], rank: int) -> list[float]:
    """A scale for each spatial axis, 0 where there is none."""
    if len(values) not in (0, 1, rank):
        raise InvalidValue(f"there are {len(values)} scales for {rank} spatial axes")
    return [0.0] * rank if not len(values) else [float(v) for v in values] * (rank if len(values) == 1 else 1)


def _matrices(how: Resampling, old: Shape, new: Shape, Scale: Array | None, dtype: np.dtype[Any]) -> list[Array]:
    scales = _scales(how.scale if Scale is None else Scale.reshape(-1).tolist(), len(old))
    return [how.matrix(*each, dtype) for each in zip(old, new, scales, strict=True)]


# -- the two that all gradients are made of ------------------------------------------------------


def _resampled_type(X: TensorType, Like: TensorType, Scale: TensorType | None = None, **attrs: Any) -> TensorType:
    how = Resampling(**attrs)
    x, like = channels_first(X.shape, how.data_layout), channels_first(Like.shape, how.data_layout)
    if len(x) != len(like) or not all(map(matched, x[:2], like[:2])):
        raise ShapeError(f"X is {X} but Like is {Like}: they may differ in their spatial extents only")
    return TensorType(laid_out((*x[:2], *like[2:]), how.data_layout), X.dtype)


@operator(
    "X Like Scale? -> Out",
    infer=_resampled_type,
    grad={"X": applied("resample_spread", "dOut X Scale", Resampling)},
    shapes="X",
    linear="X",
)
@attributes(Resampling)
def resample(X: Array, Like: Array, Scale: Array | None = None, **attrs: Any) -> Array:
    """X resized to the spatial extents of Like. Only Like's shape is read."""
    how = Resampling(**attrs)
    x, new = to_front(X, how.data_layout), channels_first(Like.shape, how.data_layout)[2:]
    return from_front(along_axes(_matrices(how, x.shape[2:], new, Scale, X.dtype), x), how.data_layout)


@operator(
    "X Like Scale? -> Out", infer=_resampled_type, grad={"X": applied("resample", "dOut X Scale", Resampling)}, shapes="X", linear="X"
)
@attributes(Resampling)
def resample_spread(X: Array, Like: Array, Scale: Array | None = None, **attrs: Any) -> Array:
    """The transpose of ``resample``: what X, resized from the shape of Like, gives back to it. Only Like's shape is read."""
    how = Resampling(**attrs)
    x, old = to_front(X, how.data_layout), channels_first(Like.shape, how.data_layout)[2:]
    matrices = _matrices(how, old, x.shape[2:], Scale, X.dtype)
    return from_front(along_axes([m.T for m in matrices], x), how.data_layout)


# -- the operators -------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Interpolation:
    """The attributes of the second version; the first has one number for ``scale`` and uses it for the new extents only.

    ``interp_method`` is the method that the operator is named after, unless it is said otherwise.
    """

    out_d: int = 0
    out_h: int = 0
    out_w: int = 0
    scale: list[float] = field(default_factory=lambda: NO_FLOATS)
    interp_method: str = "bilinear"
    align_corners: bool = True
    align_mode: int = 1
    data_layout: str = "NCHW"

    @property
    def scales(self) -> list[float]:
        """The scales of the new extents."""
        return [s for s in self.scale if s > 0]

    def resampling(self, scale: Sequence[float]) -> dict[str, Any]:
        """The attributes of ``resample``."""
        kept = ("interp_method", "align_corners", "align_mode", "data_layout")
        return {**{name: getattr(self, name) for name in kept}, "scale": list(scale)}

    def extents(self, old: Shape, scales: Sequence[float]) -> Shape:
        """The new spatial extents, by scales or as they are named; -1 where not known."""
        if len(scales):
            found = tuple(-1 if e == -1 else int(e * s) for e, s in zip(old, _scales(scales, len(old)), strict=True))
        else:
            found = (self.out_d, self.out_h, self.out_w)[-len(old) :]
        if any(e == 0 or e < -1 for e in found):
            raise ShapeError(f"the extents {list(old)} cannot be resized to {list(found)}: give out_h and out_w, or a scale above 0")
        return found


@dataclass(eq=False, repr=False)
class FirstInterpolation(Interpolation):
    """The attributes of the first version."""

    scale: float = 0.0  # type: ignore[assignment]

    @property
    def scales(self) -> list[float]:
        return [self.scale] if self.scale > 0 else []


Spec = type[Interpolation]


def _type(method: str, spec: Spec) -> Callable[..., TensorType]:
    rank = METHODS[method]

    def infer(
        X: TensorType,
        OutSize: TensorType | None = None,
        SizeTensor: list[TensorType] | None = None,
        Scale: TensorType | None = None,
        **attrs: Any,
    ) -> TensorType:
        how = spec(**{"interp_method": method, **attrs})
        check_images(how.data_layout, rank, X=X)
        if how.interp_method != method or how.align_mode not in (0, 1):
            raise ShapeError(f"interp_method={how.interp_method!r}, align_mode={how.align_mode}: {method!r} and 0 or 1 are expected")
        image = channels_first(X.shape, how.data_layout)
        if X.dtype not in FLOATS or 0 in image[2:]:
            raise ShapeError(f"X is {X}: floating-point numbers and spatial extents above 0 are expected")
        if SizeTensor is not None and len(SizeTensor) != rank - 2:
            raise ShapeError(f"SizeTensor has {len(SizeTensor)} tensors; one for each of the {rank - 2} spatial axes is expected")
        for i, size in enumerate(SizeTensor or ()):
            if not matched(element_count(size.shape), 1):
                raise ShapeError(f"SizeTensor[{i}] is {size}; a tensor of one integer is expected")
        at_run_time = SizeTensor is not None or OutSize is not None or Scale is not None
        new = (-1,) * (rank - 2) if at_run_time else how.extents(image[2:], how.scales)
        return TensorType(laid_out((*image[:2], *new), how.data_layout), X.dtype)

    return infer


def _kernel(method: str, spec: Spec) -> Callable[..., Array]:
    @attributes(spec, interp_method=method)
    def kernel(
        X: Array, OutSize: Array | None = None, SizeTensor: list[Array] | None = None, Scale: Array | None = None, **attrs: Any
    ) -> Array:
        how = spec(**{"interp_method": method, **attrs})
        x = to_front(X, how.data_layout)
        scales = [] if SizeTensor is not None else how.scales if Scale is None else [float(s) for s in Scale.reshape(-1)]
        if SizeTensor is not None:
            new = tuple(int(t.reshape(-1)[0]) for t in SizeTensor)
        else:
            new = how.extents(x.shape[2:], scales) if OutSize is None else tuple(int(e) for e in OutSize.reshape(-1))
        if len(new) != x.ndim - 2 or min(new) < 1:
            raise InvalidValue(f"X of the shape {list(X.shape)} cannot be resized to the extents {list(new)}")
        given = Resampling(**how.resampling(scales if spec is Interpolation else ()))
        return from_front(along_axes(_matrices(given, x.shape[2:], new, None, X.dtype), x), how.data_layout)

    return kernel


def _rule(method: str, spec: Spec) -> Callable[..., Tensor]:
    @attributes(spec, interp_method=method)
    def rule(X: Tensor, SizeTensor: list[Tensor] | None, Scale: Tensor, dOut: Tensor, **attrs: Any) -> Tensor:
        how = spec(**{"interp_method": method, **attrs})
        scaled = spec is Interpolation and SizeTensor is None
        given = how.resampling(how.scales if scaled and Scale is None else ())
        return resample_spread(dOut, X, *([Scale] if scaled and Scale is not None else []), **given)

    return rule


def _row(method: str, second: bool) -> OpDef:
    spec = Interpolation if second else FirstInterpolation
    kernel = _kernel(method, spec)
    kernel.__doc__ = f"""X resized by {method} interpolation: to SizeTensor, OutSize, by Scale, by ``scale``, or to ``out_h`` and ``out_w``.

    With ``align_corners`` the corners stay where they are; else ``align_mode`` 0 compares the centres of elements, 1 their edges.
    """
    name = f"{method}_interp{'_v2' if second else ''}"
    signature = "X OutSize? SizeTensor*? Scale? -> Out"
    return operator(
        signature, name=name, infer=_type(method, spec), grad={"X": _rule(method, spec)}, shapes="X SizeTensor", linear="X", rows="X"
    )(kernel)


ROWS = [_row(method, second) for method in METHODS for second in (False, True)]
