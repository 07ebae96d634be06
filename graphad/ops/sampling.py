"""Sampling an image at the points of a grid (Jaderberg et al. 2015), and the grid of an affine map.

What grid_sampler computes is written in terms of operators, and so are its gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.along import put_along_axis, take_along_axis
from graphad.ops.basic import cast, expand_like, fill_zeros_like, reshape_like
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.elementwise import as_mask
from graphad.ops.inference import matched, same_dtypes, same_float
from graphad.ops.reduce import reduce_sum
from graphad.ops.shapes import reshape
from graphad.ops.slicing import slice_
from graphad.ops.symbol import REGISTRY
from graphad.ops.unary import abs_, clip, floor, round_
from graphad.types import TensorType


class Corner(NamedTuple):
    """One of the four neighbors of every point: its number in the image, and its weight along each axis with the weight's slope."""

    index: Any
    across: Any
    down: Any
    slope_across: Any
    slope_down: Any


def _sampled_type(
    X: TensorType, Grid: TensorType, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True
) -> TensorType:
    dtype = same_dtypes(X=same_float(X), Grid=Grid)
    if len(X.shape) != 4 or -1 in X.shape[1:] or 0 in X.shape[2:]:
        raise ShapeError(f"X is {X}: four axes are expected, with known channels and spatial extents above 0")
    if len(Grid.shape) != 4 or not matched(Grid.shape[0], X.shape[0]) or not matched(Grid.shape[3], 2):
        raise ShapeError(f"X is {X} but Grid is {Grid}: points (x, y), [N, H, W, 2], are expected")
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise ShapeError(
            f"mode={mode!r}, padding_mode={padding_mode!r}: bilinear or nearest, and zeros, border or reflection, are expected"
        )
    return TensorType((max(X.shape[0], Grid.shape[0]), X.shape[1], *Grid.shape[1:3]), dtype)


def _coordinate(Grid: Tensor, which: int, extent: int, align_corners: bool, padding_mode: str) -> tuple[Tensor, Tensor]:
    """One coordinate of every point ``[N, 1, points]``, in elements, and its slope, which may be a number."""
    half = (extent - 1) / 2 if align_corners else extent / 2
    part = slice_(Grid, axes=[3], starts=[which], ends=[which + 1])
    at = reshape(part, shape=[0, 1, -1]) * half + (extent - 1) / 2
    if padding_mode == "zeros":
        return at, half
    if padding_mode == "border":
        inside = as_mask(at > 0.0, at) * as_mask(at < float(extent - 1), at) * half
        return clip(at, min=0.0, max=float(extent - 1)), inside
    reflected, direction = _reflected(at, extent, align_corners)
    return clip(reflected, min=0.0, max=float(extent - 1)), direction * _within(reflected, extent) * half


def _reflected(at: Tensor, extent: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """A coordinate reflected at the edge, or at the centers of its elements (``align_corners``); and 1, or -1 where it runs back."""
    shift, period = (0.0, 2.0 * max(extent - 1, 1)) if align_corners else (0.5, 2.0 * extent)
    distance = abs_(at + shift)
    extra = distance - floor(distance * (1.0 / period)) * period
    back = as_mask(extra > period - extra, at)
    direction = (1.0 - as_mask(at + shift < 0.0, at) * 2.0) * (1.0 - back * 2.0)
    return extra + back * (period - extra * 2.0) - shift, direction


def _corners(X: Tensor, Grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Iterator[Corner]:
    """The neighbors of every point: four, or the nearest one, whose weight does not depend on where the point is."""
    height, width = X.shape[2:]
    (x, along_x), (y, along_y) = (_coordinate(Grid, i, extent, align_corners, padding_mode) for i, extent in enumerate((width, height)))
    if mode == "nearest":
        column, row = round_(x), round_(y)
        yield Corner(_number(column, row, width, height), _within(column, width), _within(row, height), 0.0, 0.0)
        return
    west, north = floor(x), floor(y)
    for column, across, slope_x in ((west, 1.0 - (x - west), -1.0), (west + 1.0, x - west, 1.0)):
        for row, down, slope_y in ((north, 1.0 - (y - north), -1.0), (north + 1.0, y - north, 1.0)):
            inside = _within(column, width) * _within(row, height)
            yield Corner(
                _number(column, row, width, height),
                across * inside,
                down * inside,
                inside * slope_x * along_x,
                inside * slope_y * along_y,
            )


def _number(column: Tensor, row: Tensor, width: int, height: int) -> Tensor:
    """The number of an element in the image; outside, that of an element at the edge."""
    number = clip(row, min=0.0, max=height - 1.0) * float(width) + clip(column, min=0.0, max=width - 1.0)
    return cast(number, out_dtype="int64")


def _within(at: Tensor, extent: int) -> Tensor:
    return as_mask(at >= 0.0, at) * as_mask(at <= extent - 1.0, at)


def _picked(X: Tensor, index: Tensor, like: Tensor) -> Tensor:
    """The elements of every channel at their numbers: ``[N, C, points]``."""
    return take_along_axis(reshape(X, shape=[0, 0, -1]), expand_like(index, like), Axis=2)


def _points(dOutput: Tensor) -> Tensor:
    return reshape(dOutput, shape=[0, 0, -1])


def _x_grad(X: Tensor, Grid: Tensor, dOutput: Tensor, *, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    d, total = _points(dOutput), reshape(fill_zeros_like(X), shape=[0, 0, -1])
    for corner in _corners(X, Grid, mode, padding_mode, align_corners):
        total = put_along_axis(total, expand_like(corner.index, d), d * (corner.across * corner.down), Axis=2, Reduce="add")
    return reshape_like(total, X)


def _grid_grad(X: Tensor, Grid: Tensor, dOutput: Tensor, *, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    if mode == "nearest":
        return fill_zeros_like(Grid)
    d = _points(dOutput)
    x, y = None, None
    for corner in _corners(X, Grid, mode, padding_mode, align_corners):
        value = reduce_sum(_picked(X, corner.index, d) * d, dim=[1], keep_dim=True)
        along_x, along_y = value * (corner.slope_across * corner.down), value * (corner.slope_down * corner.across)
        x, y = along_x if x is None else x + along_x, along_y if y is None else y + along_y
    pair = REGISTRY["stack"]([reshape(x, shape=[0, -1]), reshape(y, shape=[0, -1])], axis=2)
    return reshape_like(pair, Grid)


@operator("X Grid -> Output", infer=_sampled_type, grad={"X": _x_grad, "Grid": _grid_grad}, shapes="X:X", rows="X Grid")
def grid_sampler(X: Array, Grid: Array, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True) -> Array:
    """``[N, C, H, W]`` at the points ``[N, H', W', 2]``, whose x and y go from -1 to 1 across the image.

    A value is interpolated between four elements or, with ``mode`` "nearest", that of one (halves round away from zero). Outside of the
    image there are zeros, or, with ``padding_mode`` "border", the nearest elements of its edge, or, with "reflection", its mirror image.
    """
    shape = (len(X), X.shape[1], *Grid.shape[1:3])
    like = np.broadcast_to(np.zeros((), X.dtype), (*shape[:2], shape[2] * shape[3]))
    corners = _corners(X, Grid, mode, padding_mode, align_corners)
    total = sum(_picked(X, corner.index, like) * (corner.across * corner.down) for corner in corners)
    return np.asarray(total).reshape(shape)


# -- grids of affine maps ------------------------------------------------------------------------


def _affine_type(Theta: TensorType, *, output_shape: list[int], align_corners: bool = True) -> TensorType:
    if len(Theta.shape) != 3 or not all(map(matched, Theta.shape[1:], (2, 3))):
        raise ShapeError(f"Theta is {Theta}; [N, 2, 3] is expected")
    if len(output_shape) != 4 or min(output_shape[2:]) < 1:
        raise ShapeError(f"output_shape={output_shape}: [N, C, H, W], with H and W known, is expected")
    return TensorType((Theta.shape[0], *output_shape[2:], 2), same_float(Theta).dtype)


def _homogeneous(output_shape: list[int], align_corners: bool, dtype: np.dtype[Any]) -> Array:
    """The points of the output as rows (x, y, 1)."""
    steps = [_steps(extent, align_corners) for extent in output_shape[2:]]
    y, x = np.meshgrid(*steps, indexing="ij")
    return np.stack([x, y, np.ones_like(x)], axis=-1).reshape(-1, 3).astype(dtype)


def _steps(extent: int, align_corners: bool) -> Array:
    edge = 1.0 if align_corners else 1.0 - 1.0 / extent
    return np.linspace(-edge, edge, extent) if extent > 1 else np.array([-1.0 if align_corners else 0.0])


def _affine_grad(dOutput: Tensor, *, output_shape: list[int], align_corners: bool) -> Tensor:
    return affine_grid_spread(dOutput, output_shape=output_shape, align_corners=align_corners)


@operator("Theta -> Output", infer=_affine_type, grad={"Theta": _affine_grad}, linear="Theta")
def affine_grid(Theta: Array, *, output_shape: list[int], align_corners: bool = True) -> Array:
    """Where the affine maps ``[N, 2, 3]`` take the points of an image ``[N, C, H, W]``: ``[N, H, W, 2]``, for ``grid_sampler``."""
    points = _homogeneous(output_shape, align_corners, Theta.dtype) @ Theta.swapaxes(1, 2)
    return np.asarray(points).reshape(len(Theta), *output_shape[2:], 2)


def _affine_spread_type(X: TensorType, *, output_shape: list[int], align_corners: bool = True) -> TensorType:
    expected = (X.shape[0], *output_shape[2:], 2) if X.shape else ()
    if len(X.shape) != 4 or not all(map(matched, X.shape, expected)):
        raise ShapeError(f"X is {X}; a grid with output_shape={output_shape} is expected")
    return TensorType((X.shape[0], 2, 3), X.dtype)


def _affine_spread_grad(dOut: Tensor, *, output_shape: list[int], align_corners: bool) -> Tensor:
    return affine_grid(dOut, output_shape=output_shape, align_corners=align_corners)


@operator("X -> Out", infer=_affine_spread_type, grad={"X": _affine_spread_grad}, linear="X")
def affine_grid_spread(X: Array, *, output_shape: list[int], align_corners: bool = True) -> Array:
    """The transpose of ``affine_grid``."""
    points = _homogeneous(output_shape, align_corners, X.dtype)
    return np.asarray(X.reshape(len(X), len(points), 2).swapaxes(1, 2) @ points)
