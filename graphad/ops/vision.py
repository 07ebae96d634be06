"""Images: resizing, sampling at the points of a grid, elements moved between channels and space."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import product
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.attributes import applied, attributes
from graphad.ops.casting import as_mask, cast
from graphad.ops.conv import channel_axis
from graphad.ops.definition import OpDef, operator
from graphad.ops.elementwise import abs_, clip, elementwise_mul, floor, round_
from graphad.ops.indexing import put_along_axis, take_along_axis
from graphad.ops.inference import matched, same_dtypes, same_float
from graphad.ops.like import fill_zeros_like, reshape_like, sum_like
from graphad.ops.normalization import affine, check_vectors
from graphad.ops.pooling import along_axes
from graphad.ops.reduction import reduce_sum
from graphad.ops.registry import REGISTRY
from graphad.ops.shapes import expand_v2, reshape
from graphad.ops.slicing import slice_
from graphad.ops.windows import channels_first, check_images, divided_extent, from_front, laid_out, times_extent, to_front
from graphad.types import FLOATS, Array, Shape, Tensor, TensorType, element_count, joined_extent

# -- channels, space and columns -------------------------------------------------------------------
# Operators that move elements between channels, space and columns of windows, and affine maps of channels.


def _shuffled(X: TensorType, *, upscale_factor: int = 1, data_format: str = "NCHW") -> TensorType:
    check_images(data_format, X=X)
    n, c, h, w = channels_first(X.shape, data_format)
    channels = divided_extent(X, c, upscale_factor**2, "number of channels")
    return TensorType(laid_out((n, channels, times_extent(h, upscale_factor), times_extent(w, upscale_factor)), data_format), X.dtype)


def _shuffle_grad(dOut: Tensor, *, upscale_factor: int, data_format: str) -> Tensor:
    return pixel_unshuffle(dOut, downscale_factor=upscale_factor, data_format=data_format)


@operator("X -> Out", infer=_shuffled, grad={"X": _shuffle_grad}, linear="X", rows="X", narrow="follows", flops=0)
def pixel_shuffle(X: Array, *, upscale_factor: int = 1, data_format: str = "NCHW") -> Array:
    """``[N, C r^2, H, W]`` as ``[N, C, H r, W r]``: each group of r^2 channels becomes a square of r by r elements (Shi et al. 2016)."""
    x, r = to_front(X, data_format), upscale_factor
    n, c, h, w = x.shape
    # [n, c, i, j, h, w] -> [n, c, h, i, w, j]: the row i and the column j within a square come right after those of the
    # element.
    squares = x.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return from_front(squares.reshape(n, c // r**2, h * r, w * r), data_format)


def _unshuffled(X: TensorType, *, downscale_factor: int = 1, data_format: str = "NCHW") -> TensorType:
    check_images(data_format, X=X)
    n, c, h, w = channels_first(X.shape, data_format)
    h, w = (divided_extent(X, e, downscale_factor, "extent") for e in (h, w))
    return TensorType(laid_out((n, times_extent(c, downscale_factor**2), h, w), data_format), X.dtype)


def _unshuffle_grad(dOut: Tensor, *, downscale_factor: int, data_format: str) -> Tensor:
    return pixel_shuffle(dOut, upscale_factor=downscale_factor, data_format=data_format)


@operator("X -> Out", infer=_unshuffled, grad={"X": _unshuffle_grad}, linear="X", flops=0)
def pixel_unshuffle(X: Array, *, downscale_factor: int = 1, data_format: str = "NCHW") -> Array:
    """``[N, C, H r, W r]`` as ``[N, C r^2, H, W]``: what ``pixel_shuffle`` undoes."""
    x, r = to_front(X, data_format), downscale_factor
    n, c, h, w = x.shape
    channels = x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return from_front(channels.reshape(n, c * r**2, h // r, w // r), data_format)


def _channels_shuffled(X: TensorType, *, group: int = 1) -> TensorType:
    check_images("NCHW", X=X)
    if X.shape[1] == -1:
        raise ShapeError(f"X is {X}: the number of channels must be known")
    divided_extent(X, X.shape[1], group, "number of channels")
    return X


@operator(
    "X -> Out",
    infer=_channels_shuffled,
    # Channels are a grid of [group, c / group], transposed. What undoes it is the same with c / group groups.
    grad={"X": lambda dOut, *, group: shuffle_channel(dOut, group=max(dOut.shape[1] // group, 1))},
    linear="X",
    rows="X",
    flops=0,
)
def shuffle_channel(X: Array, *, group: int = 1) -> Array:
    """The channels in ``group`` groups, taken from each group in turn (Zhang et al. 2017)."""
    n, c, h, w = X.shape
    return X.reshape(n, group, c // group, h, w).swapaxes(1, 2).reshape(X.shape)


# -- affine maps ---------------------------------------------------------------------------------


def _channels_mapped(X: TensorType, Scale: TensorType, Bias: TensorType, *, data_layout: str = "AnyLayout") -> TensorType:
    if len(X.shape) < 2:
        raise ShapeError(f"X is {X}; axes of samples and channels are expected")
    check_vectors(X, X.shape[channel_axis(data_layout)], Scale=Scale, Bias=Bias)
    return X


def _place(X: Tensor, data_layout: str) -> int:
    return channel_axis(data_layout) % len(X.shape)


@operator(
    "X Scale Bias -> Out",
    infer=_channels_mapped,
    grad={
        "X": lambda X, Scale, dOut, *, data_layout: elementwise_mul(dOut, Scale, axis=_place(X, data_layout)),
        "Scale": lambda X, Scale, dOut, *, data_layout: sum_like(dOut * X, Scale, axis=_place(X, data_layout)),
        "Bias": lambda X, Bias, dOut, *, data_layout: sum_like(dOut, Bias, axis=_place(X, data_layout)),
    },
    shapes="Bias X:X X:Bias Scale:Scale",
    rows="X",
)
def affine_channel(X: Array, Scale: Array, Bias: Array, *, data_layout: str = "AnyLayout") -> Array:
    """Every channel times its Scale, plus its Bias."""
    return np.asarray(affine(X, Scale, Bias, _place(X, data_layout)))


# -- resize ----------------------------------------------------------------------------------------
# Resizing by interpolation. Every method is a product with one matrix ``[new, old]`` for each spatial axis.
#
# ``resample`` resizes to the extents of another tensor, ``resample_spread`` is its transpose: the gradients of any order of all
# the operators named ``..._interp`` and ``..._interp_v2`` are made of these two.

METHODS = {"linear": 3, "bilinear": 4, "nearest": 4, "bicubic": 4, "trilinear": 5}
# Keys' parameter a, -0.75 as in OpenCV, torch and Paddle.
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

    def matrix(self, old: int, new: int, scale: float, dtype: np.dtype[np.generic]) -> Array:
        """``[new, old]``."""
        index, weights = self.picked(old, new, scale)
        matrix = np.zeros((new, old), dtype)
        for at, weight in zip(index, weights, strict=True):
            # Neighbors beyond an edge count for the element at the edge. ``add.at`` adds their weights, where an
            # assignment would keep one of them.
            np.add.at(matrix, (np.arange(new), np.clip(at, 0, old - 1)), weight.astype(dtype))
        return matrix

    def picked(self, old: int, new: int, scale: float) -> tuple[list[Array], list[Array]]:
        """The elements of the old axis that each of the new one is made of, and their weights."""
        if self.interp_method == "nearest":
            return [_nearest(old, new, scale, self.align_corners)[0]], [np.ones(new)]
        if self.interp_method == "bicubic":
            return _cubic(_positions(old, new, scale, 0.0, self.align_corners) if self.align_corners else self._centered(old, new, scale))
        is_centered = self.align_mode == 0 and not self.align_corners
        # Paddle's align_mode 0 has the centers of pixels at halves, 1 their corners at whole numbers; with align_corners the ends of both
        # axes coincide.
        at = np.maximum(self._centered(old, new, scale), 0.0) if is_centered else _positions(old, new, scale, 0.0, self.align_corners)
        low = np.minimum(np.floor(at), old - 1)
        return [low.astype(np.intp), low.astype(np.intp) + 1], [1.0 - (at - low), at - low]

    def _centered(self, old: int, new: int, scale: float) -> Array:
        return np.asarray(_positions(old, new, scale, 0.5, self.align_corners) - 0.5)


def _positions(old: int, new: int, scale: float, shift: float, align_corners: bool) -> Array:
    """The positions in the old axis of ``k + shift`` of the new one; nothing is rounded before it is divided."""
    k = np.arange(new) + shift
    if new <= 1:
        return k * 0.0
    # Corners aligned: the first and last places of both axes coincide. Otherwise places are intervals of width old / new.
    if align_corners:
        return k * (old - 1) / (new - 1)
    return k / scale if scale > 0 else k * old / new


@lru_cache(maxsize=256)
def _nearest(old: int, new: int, scale: float, align_corners: bool) -> tuple[Array, int]:
    """The element of the old axis that each of the new one is; how often each follows itself, 0 if that differs."""
    at = np.floor(_positions(old, new, scale, 0.0, align_corners) + (0.5 if align_corners else 0.0)).astype(np.intp)
    index = np.clip(at, 0, old - 1)
    index.setflags(write=False)
    times = max(new // max(old, 1), 1)
    return index, times if old * times == new and (index == np.arange(new) // times).all() else 0


def _cubic(at: Array) -> tuple[list[Array], list[Array]]:
    """Keys' cubic convolution (1981) over four neighbors."""
    base = np.floor(at)
    t = at - base

    first = base.astype(np.intp)
    # Four neighbors, at the distances 1 + t, t, 1 - t and 2 - t.
    return [first - 1, first, first + 1, first + 2], [_far(t + 1), _near(t), _near(1 - t), _far(2 - t)]


def _near(x: Tensor) -> Tensor:
    """Keys' kernel at distances to 1."""
    return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1.0


def _far(x: Tensor) -> Tensor:
    """Keys' kernel at distances from 1 to 2."""
    return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC


def _near_slope(x: Tensor) -> Tensor:
    return (3 * (CUBIC + 2) * x - 2 * (CUBIC + 3)) * x


def _far_slope(x: Tensor) -> Tensor:
    return (3 * CUBIC * x - 10 * CUBIC) * x + 8 * CUBIC


def _scales(values: Sequence[float], rank: int) -> list[float]:
    """A scale for each spatial axis, 0 where there is none."""
    if len(values) not in (0, 1, rank):
        raise InvalidValue(f"there are {len(values)} scales for {rank} spatial axes")
    return [0.0] * rank if not len(values) else [float(v) for v in values] * (rank if len(values) == 1 else 1)


def _resampled(how: Resampling, x: Array, new: Shape, Scale: Array | None) -> Array:
    """``[N, C, *old]`` resized: each element is one of x, or a sum of products along one axis after the other."""
    if how.interp_method != "nearest":
        return along_axes(_matrices(how, x.shape[2:], new, Scale, x.dtype), x)
    scales = _scales(how.scale if Scale is None else Scale.reshape(-1).tolist(), len(new))
    for axis, extent, scale in reversed(list(zip(range(2, x.ndim), new, scales, strict=True))):  # what is small is taken apart first
        index, times = _nearest(x.shape[axis], extent, scale, how.align_corners)
        x = np.repeat(x, times, axis) if times else np.take(x, index, axis)
    return x


def _matrices(how: Resampling, old: Shape, new: Shape, Scale: Array | None, dtype: np.dtype[np.generic]) -> list[Array]:
    scales = _scales(how.scale if Scale is None else Scale.reshape(-1).tolist(), len(old))
    return [how.matrix(*item, dtype) for item in zip(old, new, scales, strict=True)]


# -- the two that all gradients are made of ------------------------------------------------------


def _resampled_type(X: TensorType, Like: TensorType, Scale: TensorType | None = None, **attrs: Any) -> TensorType:
    resampling = Resampling(**attrs)
    x, like = channels_first(X.shape, resampling.data_layout), channels_first(Like.shape, resampling.data_layout)
    if len(x) != len(like) or not all(map(matched, x[:2], like[:2])):
        raise ShapeError(f"X is {X} but Like is {Like}: they may differ in their spatial extents only")
    return TensorType(laid_out((*x[:2], *like[2:]), resampling.data_layout), X.dtype)


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
    resampling = Resampling(**attrs)
    x, new = to_front(X, resampling.data_layout), channels_first(Like.shape, resampling.data_layout)[2:]
    return from_front(_resampled(resampling, x, new, Scale), resampling.data_layout)


@operator(
    "X Like Scale? -> Out", infer=_resampled_type, grad={"X": applied("resample", "dOut X Scale", Resampling)}, shapes="X", linear="X"
)
@attributes(Resampling)
def resample_spread(X: Array, Like: Array, Scale: Array | None = None, **attrs: Any) -> Array:
    """The transpose of ``resample``: the gradient of its input, X being that of its output. Only Like's shape, the input's, is read."""
    resampling = Resampling(**attrs)
    x, old = to_front(X, resampling.data_layout), channels_first(Like.shape, resampling.data_layout)[2:]
    matrices = _matrices(resampling, old, x.shape[2:], Scale, X.dtype)
    return from_front(along_axes([m.T for m in matrices], x), resampling.data_layout)


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
        names = ("interp_method", "align_corners", "align_mode", "data_layout")
        return {**{name: getattr(self, name) for name in names}, "scale": list(scale)}

    def extents(self, old: Shape, scales: Sequence[float]) -> Shape:
        """The new spatial extents, by scales or as they are named; -1 where not known."""
        if len(scales):
            # Rounded down, as in Paddle.
            shape = tuple(-1 if e == -1 else int(e * s) for e, s in zip(old, _scales(scales, len(old)), strict=True))
        else:
            # One spatial axis has out_w, two have out_h and out_w.
            shape = (self.out_d, self.out_h, self.out_w)[-len(old) :]
        if any(e == 0 or e < -1 for e in shape):
            raise ShapeError(f"the extents {list(old)} cannot be resized to {list(shape)}: give out_h and out_w, or a scale above 0")
        return shape


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
        interpolation = spec(**{"interp_method": method, **attrs})
        check_images(interpolation.data_layout, rank, X=X)
        if interpolation.interp_method != method or interpolation.align_mode not in (0, 1):
            raise ShapeError(
                f"interp_method={interpolation.interp_method!r}, align_mode={interpolation.align_mode}: {method!r} and 0 or 1 are expected"
            )
        image = channels_first(X.shape, interpolation.data_layout)
        if X.dtype not in FLOATS or 0 in image[2:]:
            raise ShapeError(f"X is {X}: floating-point numbers and spatial extents above 0 are expected")
        if SizeTensor is not None and len(SizeTensor) != rank - 2:
            raise ShapeError(f"SizeTensor has {len(SizeTensor)} tensors; one for each of the {rank - 2} spatial axes is expected")
        for i, size in enumerate(SizeTensor or ()):
            if not matched(element_count(size.shape), 1):
                raise ShapeError(f"SizeTensor[{i}] is {size}; a tensor of one integer is expected")
        # Values of tensors are known only when the program runs.
        at_run_time = SizeTensor is not None or OutSize is not None or Scale is not None
        new = (-1,) * (rank - 2) if at_run_time else interpolation.extents(image[2:], interpolation.scales)
        return TensorType(laid_out((*image[:2], *new), interpolation.data_layout), X.dtype)

    return infer


def _kernel(method: str, spec: Spec) -> Callable[..., Array]:
    @attributes(spec, interp_method=method)
    def kernel(
        X: Array, OutSize: Array | None = None, SizeTensor: list[Array] | None = None, Scale: Array | None = None, **attrs: Any
    ) -> Array:
        interpolation = spec(**{"interp_method": method, **attrs})
        x = to_front(X, interpolation.data_layout)
        # Paddle's precedence: SizeTensor, OutSize, Scale, then the attributes.
        scales = [] if SizeTensor is not None else interpolation.scales if Scale is None else [float(s) for s in Scale.reshape(-1)]
        if SizeTensor is not None:
            new = tuple(int(t.reshape(-1)[0]) for t in SizeTensor)
        else:
            new = interpolation.extents(x.shape[2:], scales) if OutSize is None else tuple(int(e) for e in OutSize.reshape(-1))
        if len(new) != x.ndim - 2 or min(new) < 1:
            raise InvalidValue(f"X of the shape {list(X.shape)} cannot be resized to the extents {list(new)}")
        options = Resampling(**interpolation.resampling(scales if spec is Interpolation else ()))
        return from_front(_resampled(options, x, new, None), interpolation.data_layout)

    return kernel


def _rule(method: str, spec: Spec) -> Callable[..., Tensor]:
    @attributes(spec, interp_method=method)
    def rule(X: Tensor, SizeTensor: list[Tensor] | None, Scale: Tensor, dOut: Tensor, **attrs: Any) -> Tensor:
        interpolation = spec(**{"interp_method": method, **attrs})
        # The kernel looks at the scale for its positions in the second version only, and so does its transpose.
        is_scaled = spec is Interpolation and SizeTensor is None
        options = interpolation.resampling(interpolation.scales if is_scaled and Scale is None else ())
        return resample_spread(dOut, X, *([Scale] if is_scaled and Scale is not None else []), **options)

    return rule


def _define(method: str, second: bool) -> OpDef:
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


DEFINITIONS = [_define(method, second) for method in METHODS for second in (False, True)]


# -- sampling --------------------------------------------------------------------------------------
# Sampling an image or a volume at the points of a grid (Jaderberg et al. 2015), and the grid of an affine map.
#
# What grid_sampler computes is written in terms of operators, and so are its gradients.


class Step(NamedTuple):
    """A neighbor of every point along one axis: its number, its weight, the slope of the weight, and 1 where it is in the image, else 0."""

    number: Tensor
    weight: Tensor
    slope: Tensor
    inside: Tensor


class Neighbor(NamedTuple):
    """A neighbor of every point: its number in the image, and for each axis its weight and the weight's slope."""

    index: Tensor
    weights: tuple[Tensor, ...]
    slopes: tuple[Tensor, ...]

    @property
    def weight(self) -> Tensor:
        return reduce(mul, reversed(self.weights))

    def slope(self, axis: int) -> Tensor:
        """The derivative of the weight by the point's position along an axis."""
        return reduce(mul, (w for i, w in enumerate(self.weights) if i != axis), self.slopes[axis])


MODES = {"bicubic": 4, "bilinear": 2, "nearest": 1}  # how many neighbors there are along an axis
PADDING_MODES = ("zeros", "border", "reflection")


def _sampled_type(
    X: TensorType, Grid: TensorType, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True
) -> TensorType:
    dtype, rank = same_dtypes(X=same_float(X), Grid=Grid), len(X.shape)
    if rank not in (4, 5) or -1 in X.shape[1:] or 0 in X.shape[2:]:
        raise ShapeError(f"X is {X}: four axes (or five) are expected, with known channels and spatial extents above 0")
    if len(Grid.shape) != rank or not matched(Grid.shape[0], X.shape[0]) or not matched(Grid.shape[-1], rank - 2):
        expected = "points (x, y), [N, H, W, 2]" if rank == 4 else "points (x, y, z), [N, D, H, W, 3]"
        raise ShapeError(f"X is {X} but Grid is {Grid}: {expected}, are expected")
    if mode not in MODES or padding_mode not in PADDING_MODES:
        raise ShapeError(
            f"mode={mode!r}, padding_mode={padding_mode!r}: bilinear, bicubic or nearest, and zeros, border or reflection, are expected"
        )
    return TensorType((joined_extent(X.shape[0], Grid.shape[0]) or 0, X.shape[1], *Grid.shape[1:-1]), dtype)


def _coordinates(Grid: Tensor, image: Shape, align_corners: bool) -> Iterator[tuple[Tensor, float]]:
    """For each axis of the image the coordinate of every point ``[N, 1, points]``, in elements, and its slope."""
    last = len(Grid.shape) - 1
    for axis, extent in enumerate(image):
        place = len(image) - 1 - axis  # x, along the last axis, comes first
        half = (extent - 1) / 2 if align_corners else extent / 2
        part = slice_(Grid, axes=[last], starts=[place], ends=[place + 1])
        # -1 and 1 are the centers of the corner elements, ``(x + 1) (e - 1) / 2``, or their outer edges, ``((x + 1) e -
        # 1) / 2``. In both the middle of the image, x = 0, is at (e - 1) / 2.
        yield reshape(part, shape=[0, 1, -1]) * half + (extent - 1) / 2, half


def _bounded(at: Tensor, extent: int, padding_mode: str, align_corners: bool) -> tuple[Tensor, Tensor]:
    """A coordinate brought into the image, and the slope of that."""
    if padding_mode == "zeros":
        return at, 1.0
    if padding_mode == "border":
        # What is moved to an edge no longer depends on where it was.
        inside = as_mask(at > 0.0, at) * as_mask(at < float(extent - 1), at)
        return clip(at, min=0.0, max=float(extent - 1)), inside
    reflection, direction = _reflected(at, extent, align_corners)
    return clip(reflection, min=0.0, max=float(extent - 1)), direction * _within(reflection, extent)


def _reflected(at: Tensor, extent: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """A coordinate reflected at the edge, or at the centers of its elements (``align_corners``); and 1, or -1 where it runs back."""
    # The image and its mirror image repeat with this period, and the coordinate runs back in the second half of one.
    shift, period = (0.0, 2.0 * max(extent - 1, 1)) if align_corners else (0.5, 2.0 * extent)
    distance = abs_(at + shift)
    extra = distance - floor(distance * (1.0 / period)) * period
    back = as_mask(extra > period - extra, at)
    direction = (1.0 - as_mask(at + shift < 0.0, at) * 2.0) * (1.0 - back * 2.0)
    return extra + back * (period - extra * 2.0) - shift, direction


def _steps_along(at: Tensor, slope: Tensor, extent: int, mode: str, padding_mode: str, align_corners: bool) -> Iterator[Step]:
    """The neighbors of every point along an axis: the nearest one, whose weight does not depend on where the point is, or two, or four."""
    if mode == "bicubic":
        yield from _cubic_steps(at, slope, extent, padding_mode, align_corners)
        return
    at, inner_slope = _bounded(at, extent, padding_mode, align_corners)
    if mode == "nearest":
        # The nearest element does not change as the point moves: no slope.
        number = round_(at)
        yield Step(number, 1.0, 0.0, _within(number, extent))
        return
    low = floor(at)
    for number, weight, sign in ((low, 1.0 - (at - low), -1.0), (low + 1.0, at - low, 1.0)):
        yield Step(number, weight, inner_slope * (sign * slope), _within(number, extent))


def _cubic_steps(at: Tensor, slope: Tensor, extent: int, padding_mode: str, align_corners: bool) -> Iterator[Step]:
    """Keys' four neighbors (1981); it is they, not the point, that are brought into the image."""
    low = floor(at)
    t = at - low
    four = (
        (low - 1.0, t + 1.0, 1.0, _far, _far_slope),
        (low, t, 1.0, _near, _near_slope),
        (low + 1.0, 1.0 - t, -1.0, _near, _near_slope),
        (low + 2.0, 2.0 - t, -1.0, _far, _far_slope),
    )
    for place, distance, sign, weight, rise in four:
        number, _ = _bounded(place, extent, padding_mode, align_corners)
        yield Step(number, weight(distance), rise(distance) * (sign * slope), _within(number, extent))


def neighbors(
    points: Sequence[tuple[Tensor, Tensor]], image: Shape, mode: str, padding_mode: str, align_corners: bool
) -> Iterator[Neighbor]:
    """The neighbors of every point in an image.

    Args:
        points: for each axis of the image a coordinate, in elements, ``[N, 1, points]``, and its slope.
    """
    along = [
        list(_steps_along(at, slope, extent, mode, padding_mode, align_corners)) for (at, slope), extent in zip(points, image, strict=True)
    ]
    for reversed_steps in product(*reversed(along)):
        steps = reversed_steps[::-1]
        weights = tuple(step.weight * step.inside for step in steps)
        yield Neighbor(_number([step.number for step in steps], image), weights, tuple(step.slope * step.inside for step in steps))


def _number(places: Sequence[Tensor], image: Shape) -> Tensor:
    """The number of an element in the image; outside, that of an element at the edge."""
    number = None
    for place, extent in zip(places, image, strict=True):
        # Outside of the image the number of any element does, because the weight there is 0.
        inner = clip(place, min=0.0, max=extent - 1.0)
        number = inner if number is None else number * float(extent) + inner
    return cast(number, out_dtype="int64")


def _within(at: Tensor, extent: int) -> Tensor:
    return as_mask(at >= 0.0, at) * as_mask(at <= extent - 1.0, at)


def picked(X: Tensor, index: Tensor) -> Tensor:
    """The elements of every channel ``[N, C, ...]`` at their numbers ``[N, 1, points]``: ``[N, C, points]``."""
    return take_along_axis(reshape(X, shape=[0, 0, -1]), _of_channels(index, X), Axis=2)


def _of_channels(index: Tensor, X: Tensor) -> Tensor:
    return expand_v2(index, shape=[-1, X.shape[1], -1])


def put_back(X: Tensor, values: Tensor, around: Iterable[Neighbor]) -> Tensor:
    """The transpose of sampling X: the values ``[N, C, points]`` given to the neighbors of their points, in the shape of X."""
    total = reshape(fill_zeros_like(X), shape=[0, 0, -1])
    for neighbor in around:
        total = put_along_axis(total, _of_channels(neighbor.index, X), values * neighbor.weight, Axis=2, Reduce="add")
    return reshape_like(total, X)


def moved(X: Tensor, cotangent: Tensor, around: Iterable[Neighbor]) -> list[Tensor]:
    """For each axis the cotangent of the points' coordinates ``[N, 1, points]``, from that of what was sampled."""
    totals: list[Tensor] = []
    for neighbor in around:
        value = reduce_sum(picked(X, neighbor.index) * cotangent, dim=[1], keep_dim=True)
        parts = [value * neighbor.slope(axis) for axis in range(len(neighbor.slopes))]
        totals = [total + part for total, part in zip(totals, parts, strict=True)] if totals else parts
    return totals


def _around(X: Tensor, Grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Iterator[Neighbor]:
    image = X.shape[2:]
    return neighbors(list(_coordinates(Grid, image, align_corners)), image, mode, padding_mode, align_corners)


def _points(dOutput: Tensor) -> Tensor:
    return reshape(dOutput, shape=[0, 0, -1])


def _x_grad(X: Tensor, Grid: Tensor, dOutput: Tensor, *, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    return put_back(X, _points(dOutput), _around(X, Grid, mode, padding_mode, align_corners))


def _grid_grad(X: Tensor, Grid: Tensor, dOutput: Tensor, *, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    if mode == "nearest":
        return fill_zeros_like(Grid)
    along = moved(X, _points(dOutput), _around(X, Grid, mode, padding_mode, align_corners))
    # A point is (x, y): the last axis comes first.
    return reshape_like(REGISTRY["stack"]([reshape(cotangent, shape=[0, -1]) for cotangent in reversed(along)], axis=2), Grid)


@operator("X Grid -> Output", infer=_sampled_type, grad={"X": _x_grad, "Grid": _grid_grad}, shapes="X:X", rows="X Grid", partly_linear="X")
def grid_sampler(X: Array, Grid: Array, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True) -> Array:
    """``[N, C, H, W]`` at the points ``[N, H', W', 2]``, whose x and y go from -1 to 1 across the image.

    A value is interpolated between two elements along each axis, between four with ``mode`` "bicubic" (Keys 1981), or it is, with
    "nearest", that of one (halves round away from zero). Outside of the image there are zeros, or, with ``padding_mode`` "border", the
    nearest elements of its edge, or, with "reflection", its mirror image. Of a volume ``[N, C, D, H, W]`` points are ``(x, y, z)``.
    """
    shape = (len(X), X.shape[1], *Grid.shape[1:-1])
    total = sum(picked(X, neighbor.index) * neighbor.weight for neighbor in _around(X, Grid, mode, padding_mode, align_corners))
    return np.asarray(total).reshape(shape)


# -- grids of affine maps ------------------------------------------------------------------------


def _affine_type(Theta: TensorType, *, output_shape: list[int], align_corners: bool = True) -> TensorType:
    axes = len(output_shape) - 2
    if axes not in (2, 3) or min(output_shape[2:]) < 1:
        raise ShapeError(f"output_shape={output_shape}: [N, C, H, W] or [N, C, D, H, W], with known extents, is expected")
    if len(Theta.shape) != 3 or not all(map(matched, Theta.shape[1:], (axes, axes + 1))):
        raise ShapeError(f"Theta is {Theta}; [N, {axes}, {axes + 1}] is expected")
    return TensorType((Theta.shape[0], *output_shape[2:], axes), same_float(Theta).dtype)


def homogeneous(output_shape: list[int], align_corners: bool, dtype: np.dtype[np.generic]) -> Array:
    """The points of the output as rows (x, y, 1), of a volume (x, y, z, 1)."""
    steps = [_steps(extent, align_corners) for extent in output_shape[2:]]
    places = np.meshgrid(*steps, indexing="ij")[::-1]
    return np.stack([*places, np.ones_like(places[0])], axis=-1).reshape(-1, len(steps) + 1).astype(dtype)


def _steps(extent: int, align_corners: bool) -> Array:
    # Without aligned corners the centers of the first and last elements are half an element from the edges, which are at
    # -1 and 1.
    edge = 1.0 if align_corners else 1.0 - 1.0 / extent
    return np.linspace(-edge, edge, extent) if extent > 1 else np.array([-1.0 if align_corners else 0.0])


def _affine_grad(dOutput: Tensor, *, output_shape: list[int], align_corners: bool) -> Tensor:
    return affine_grid_spread(dOutput, output_shape=output_shape, align_corners=align_corners)


@operator("Theta -> Output", infer=_affine_type, grad={"Theta": _affine_grad}, linear="Theta")
def affine_grid(Theta: Array, *, output_shape: list[int], align_corners: bool = True) -> Array:
    """The images of the points of ``[N, C, H, W]`` under affine maps ``[N, 2, 3]``: ``[N, H, W, 2]``, for ``grid_sampler``.

    Maps ``[N, 3, 4]`` take those of a volume ``[N, C, D, H, W]`` to ``[N, D, H, W, 3]``.
    """
    # [points, 3] @ [N, 3, 2], broadcast over the maps.
    points = homogeneous(output_shape, align_corners, Theta.dtype) @ Theta.swapaxes(1, 2)
    return np.asarray(points).reshape(len(Theta), *output_shape[2:], Theta.shape[1])


def _affine_spread_type(X: TensorType, *, output_shape: list[int], align_corners: bool = True) -> TensorType:
    axes = len(output_shape) - 2
    expected = (X.shape[0], *output_shape[2:], axes) if X.shape else ()
    if len(X.shape) != len(output_shape) or not all(map(matched, X.shape, expected)):
        raise ShapeError(f"X is {X}; a grid with output_shape={output_shape} is expected")
    return TensorType((X.shape[0], axes, axes + 1), X.dtype)


def _affine_spread_grad(dOut: Tensor, *, output_shape: list[int], align_corners: bool) -> Tensor:
    return affine_grid(dOut, output_shape=output_shape, align_corners=align_corners)


@operator("X -> Out", infer=_affine_spread_type, grad={"X": _affine_spread_grad}, linear="X")
def affine_grid_spread(X: Array, *, output_shape: list[int], align_corners: bool = True) -> Array:
    """The transpose of ``affine_grid``."""
    points = homogeneous(output_shape, align_corners, X.dtype)
    return np.asarray(X.reshape(len(X), len(points), len(output_shape) - 2).swapaxes(1, 2) @ points)


# -- boxes -----------------------------------------------------------------------------------------


def _chosen_boxes_type(Boxes: TensorType, Scores: TensorType, **_: object) -> TensorType:
    is_fitting = len(Boxes.shape) == len(Scores.shape) == 3 and matched(Boxes.shape[2], 4) and matched(Boxes.shape[0], Scores.shape[0])
    if not is_fitting or not matched(Boxes.shape[1], Scores.shape[2]) or not {Boxes.dtype, Scores.dtype} <= set(FLOATS):
        raise ShapeError(f"Boxes is {Boxes} and Scores is {Scores}; floats [images, boxes, 4] and [images, classes, boxes] are expected")
    return TensorType((-1, 3), "int64")


@operator("Boxes Scores -> Out", infer=_chosen_boxes_type, grad={}, costly=True)
def non_max_suppression(
    Boxes: Array, Scores: Array, *, most: int, iou_threshold: float = 0.0, score_threshold: float = -math.inf, center: bool = False
) -> Array:
    """The boxes that remain of each image and class, the best first, as rows of image, class and box.

    A box goes where it overlaps a better one of its class by more than ``iou_threshold`` (intersection over union). ``Boxes``
    ``[N, B, 4]`` are two opposite corners each, or centres and extents; ``Scores`` are ``[N, C, B]``; at most ``most`` of a class remain.
    """
    selection = []
    for image, boxes in enumerate(_low_and_high(Boxes, center)):
        for label, scores in enumerate(Scores[image]):
            survivors = _suppressed(boxes, scores, most, iou_threshold, score_threshold)
            selection += [(image, label, place) for place in survivors]
    return np.asarray(selection, "int64").reshape(-1, 3)


def _low_and_high(boxes: Array, center: bool) -> Array:
    """Boxes as their lower corners and their upper corners."""
    a, b = boxes[..., :2], boxes[..., 2:]
    first, second = (a - b / 2, a + b / 2) if center else (a, b)
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)


def _suppressed(boxes: Array, scores: Array, most: int, iou_threshold: float, score_threshold: float) -> list[int]:
    """The places of the boxes of one class that remain: greedily, the best score first."""
    # Stable: of equal scores the earlier box is first.
    order = [int(i) for i in np.argsort(-scores, kind="stable") if scores[i] > score_threshold]
    survivors: list[int] = []
    while order and len(survivors) < most:
        best = order.pop(0)
        survivors.append(best)
        order = [i for i in order if not _overlap(boxes[best], boxes[i]) > iou_threshold]
    return survivors


def _overlap(a: Array, b: Array) -> float:
    inner = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    union = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - inner
    # Boxes without area overlap nothing.
    return float(inner / union) if union > 0 else 0.0
