"""Regions of images whose windows are moved, or turned: Fluid 1.8's layers, written with operators, with gradients of any order.

Boxes of all images follow each other, and ``rois_num`` says how many each image has, where Fluid has levels of detail (LoD).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphad.errors import InvalidType, ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.helper import checked_input, emitted, layer
from graphad.layers.tensor import assign
from graphad.program import Variable
from graphad.program.source import at_users_line
from graphad.types import Array


def _column(x: Variable, at: int, rank: int) -> Variable:
    """A column of boxes, ``[boxes, 1, 1, ...]``."""
    return emitted("reshape", [emitted("slice", [x], axes=[1], starts=[at], ends=[at + 1])], shape=[-1, *[1] * (rank - 1)])  # type: ignore[no-any-return]


def _of_boxes(images: Variable, rois: Variable, rois_num: Variable | None) -> Variable:
    """The image of each box."""
    # Only how many boxes there are is read of them: four numbers of a polygon's eight do.
    boxes = rois if rois.shape[1] == 4 else emitted("slice", [rois], axes=[1], starts=[0], ends=[4])
    places = emitted("box_images", [images, boxes, *([] if rois_num is None else [rois_num])])
    return emitted("gather", [images, places], axis=0)  # type: ignore[no-any-return]


def _stopped(x: Variable) -> Variable:
    """The same, through which no gradient flows."""
    x.stop_gradient = True
    return x


def _checked_regions(layer: str, input: object, rois: object, width: int) -> tuple[Variable, Variable]:
    images, regions = checked_input(layer, input), checked_input(layer, rois)
    if len(images.shape) != 4:
        raise ShapeError(f"layers.{layer}: input is {images!r}: images [images, channels, height, width] are expected")
    if len(regions.shape) != 2 or regions.shape[1] not in (-1, width) or regions.dtype != images.dtype:
        raise ShapeError(f"layers.{layer}: rois is {regions!r}: {images.dtype} [boxes, {width}] is expected")
    return images, regions


# -- windows that are moved ------------------------------------------------------------------------
# J. Dai et al., "Deformable convolutional networks" (2017), section 2.2.


class _Side(NamedTuple):
    """The windows of boxes along one side of the image."""

    low: Variable  # the start of each box, [R, 1, 1, 1, 1]
    size: Variable  # its length
    number: int  # how many windows there are
    axis: int  # which axis of [R, K, P, Q, S] they are along
    places: Variable  # 0, 1, 2 ... of the image


def _side(images: Variable, rois: Variable, axis: int, count: int, scale: float) -> _Side:
    """Corners are rounded, halves away from zero, and the last pixel belongs to a box, as in Paddle."""
    rounded = _stopped(emitted("sign", [rois]) * emitted("floor", [emitted("abs", [rois]) + 0.5]))
    low, high = _column(rounded, 1 - axis, 5) * scale - 0.5, (_column(rounded, 3 - axis, 5) + 1.0) * scale - 0.5
    size = emitted("elementwise_max", [high - low, emitted("fill_any_like", [low], value=0.1)])
    return _Side(low, size, count, 2 + axis, emitted("element_places", [images], axis=2 + axis))


def _along(axis: int, values: Array) -> Array:
    """Numbers along one axis of ``[R, K, P, Q, S]``."""
    return values.reshape([-1 if each == axis else 1 for each in range(5)])


def _weights(side: _Side, moved: Variable | None, samples: int) -> Variable:
    """``[R, K, P, Q, extent]``: the mean of each window's samples along the side, each interpolated between two elements."""
    dtype = side.places.dtype
    part = side.size * (1.0 / side.number)
    at = side.low + part * _along(side.axis, np.arange(side.number).astype(dtype))
    at = at + part * _along(4, (np.arange(samples) / samples).astype(dtype))
    if moved is not None:
        at = at + moved * side.size
    last = side.places[-1:]
    # A sample more than half an element outside does not count; one less far outside is moved to the edge.
    inside = emitted("cast", [emitted("logical_and", [at >= -0.5, at <= last + 0.5])], out_dtype=dtype)
    at = emitted("elementwise_min", [emitted("relu", [at]), last])
    # Linear interpolation: the weight of an element falls from 1 at the sample to 0 at a distance of 1.
    near = emitted("relu", [1.0 - emitted("abs", [at.unsqueeze(-1) - side.places])])
    total = emitted("reduce_sum", [near * inside.unsqueeze(-1)], dim=[4])
    number = emitted("reduce_sum", [inside], dim=[4], keep_dim=True)
    return total / emitted("elementwise_max", [number, emitted("fill_any_like", [number], value=1.0)])  # type: ignore[no-any-return]


def _picked(x: Variable, places: list[int], axis: int) -> Variable:
    return emitted("index_select", [x, assign(np.array(places))], dim=axis)  # type: ignore[no-any-return]


def _moves(trans: Variable, part_size: Sequence[int], pooled: Sequence[int], std: float) -> list[Variable | None]:
    """How far windows are moved, as shares of a box, ``[R, K, P, Q, 1]``: along x, then along y."""
    classes = trans.shape[1] // 2
    pairs = emitted("reshape", [trans], shape=[-1, classes, 2, *part_size])
    for axis, (part, count) in enumerate(zip(part_size, pooled, strict=True)):
        # In float32, as Paddle computes it: which part a window belongs to depends on how the quotient is rounded.
        places = np.floor(np.arange(count, dtype="float32") / np.float32(count) * np.float32(part)).astype(int).tolist()
        if places != list(range(part)):
            pairs = _picked(pairs, places, 3 + axis)
    x, y = emitted("split", [pairs], num=2, axis=2)
    return [emitted("reshape", [each * std], shape=[-1, classes, *pooled, 1]) for each in (x, y)]


@layer
def deformable_roi_pooling(
    input: Variable,
    rois: Variable,
    trans: Variable,
    no_trans: bool = False,
    spatial_scale: float = 1.0,
    group_size: Sequence[int] = [1, 1],
    pooled_height: int = 1,
    pooled_width: int = 1,
    part_size: Sequence[int] | None = None,
    sample_per_part: int = 1,
    trans_std: float = 0.1,
    position_sensitive: bool = False,
    name: str | None = None,
    *,
    rois_num: Variable | None = None,
) -> Variable:
    """Boxes as so many windows each, which are moved (J. Dai et al., "Deformable convolutional networks", 2017, section 2.2).

    A window is the mean of ``sample_per_part`` times ``sample_per_part`` samples, each interpolated between four elements; those outside
    of the image do not count. The images and the shifts have gradients, the boxes have none.

    Args:
        input, rois: images ``[images, channels, height, width]``, and boxes of all of them, two corners each, ``[boxes, 4]``.
        trans: for each part of a box how far it is moved, as shares of the box: ``[boxes, 2 * classes, *part_size]``, x and y in turn. The
            channels belong to the classes in equal parts.
        no_trans, trans_std: whether the windows stay where they are; what ``trans`` is multiplied by.
        spatial_scale, sample_per_part: what takes corners to elements; how many samples a window has along each side.
        group_size: of position-sensitive windows: how many parts, down and across, have channels of their own.
        pooled_height, pooled_width, part_size: how many windows there are; how many parts move by themselves, None for as many.
        position_sensitive: whether a window reads channels of its own, of ``channels / pooled_height / pooled_width`` results.
        rois_num: how many boxes each image has, integers ``[images]``; needed for several images.

    Returns:
        ``[boxes, channels, pooled_height, pooled_width]``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import numpy as np
    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     image = ga.layers.assign(np.arange(64.0).reshape(1, 1, 8, 8))
    ...     box, moves = ga.layers.assign(np.array([[1.0, 1.0, 4.0, 4.0]])), ga.layers.assign(np.full((1, 2, 1, 1), 0.5))
    ...     options = {"pooled_height": 2, "pooled_width": 2, "part_size": [1, 1], "sample_per_part": 2, "trans_std": 0.5}
    ...     still, moved = (ga.layers.deformable_roi_pooling(image, box, moves, no_trans=each, **options) for each in (True, False))
    >>> [each.tolist() for each in ga.Executor().run(program, fetch_list=[still, moved])]
    [[[[[9.0, 11.0], [25.0, 27.0]]]], [[[[18.0, 20.0], [34.0, 36.0]]]]]
    """
    images, boxes = _checked_regions("deformable_roi_pooling", input, rois, 4)
    with at_users_line("layers.deformable_roi_pooling"):
        pooled = [checked_int("pooled_height", pooled_height, 1), checked_int("pooled_width", pooled_width, 1)]
        groups, parts = _pair("group_size", group_size), _pair("part_size", pooled if part_size is None else part_size)
        samples, scale, std = checked_int("sample_per_part", sample_per_part, 1), *_floats(spatial_scale=spatial_scale, trans_std=trans_std)
        out = _results(images.shape[1], pooled if checked_flag("position_sensitive", position_sensitive) else [1, 1], groups)
        shifts = None if checked_flag("no_trans", no_trans) else _checked_shifts(trans, parts, out)
    classes, moves = (1, [None, None]) if shifts is None else (shifts.shape[1] // 2, _moves(shifts, parts, pooled, std))
    sides = [_side(images, boxes, axis, count, scale) for axis, count in enumerate(pooled)]
    down, across = (_weights(side, move, samples) for side, move in zip(sides, reversed(moves), strict=True))
    return _summed(_of_boxes(images, boxes, rois_num), (classes, out), down, across, groups, pooled)


def _results(channels: int, pooled: Sequence[int], groups: Sequence[int]) -> int:
    out = channels // pooled[0] // pooled[1]
    if out < 1 or out * groups[0] * groups[1] != channels:
        raise ShapeError(f"input has {channels} channels: {out} results for each of {[*groups]} parts are expected")
    return out


def _checked_shifts(trans: object, parts: list[int], out: int) -> Variable:
    shifts = checked_input("deformable_roi_pooling", trans)
    if len(shifts.shape) != 4 or list(shifts.shape[2:]) != parts or shifts.shape[1] % 2 or out % max(shifts.shape[1] // 2, 1):
        raise ShapeError(f"trans is {shifts!r}: [boxes, 2 * classes, {parts[0]}, {parts[1]}], classes of {out}, is expected")
    return shifts


def _summed(
    images: Variable, numbers: tuple[int, int], down: Variable, across: Variable, groups: Sequence[int], pooled: Sequence[int]
) -> Variable:
    """The windows: sums over the images of boxes, ``[R, K, E, *groups, H, W]``, each window over the channels of its group."""
    classes, out = numbers
    found = emitted("reshape", [images], shape=[-1, classes, out // classes, *groups, *images.shape[2:]])
    for axis, (group, count) in enumerate(zip(groups, pooled, strict=True)):
        if group not in (1, count):
            found = _picked(found, [place * group // count for place in range(count)], 3 + axis)
    # Where there is one group, all windows read its channels.
    letters = "".join(letter for letter, group in zip("pq", groups, strict=True) if group > 1)
    if len(letters) < 2:
        found = emitted("squeeze", [found], axes=[3 + axis for axis, group in enumerate(groups) if group == 1])
    equation = f"rke{letters}hw,rkpqh,rkpqw->rkepq"
    windows = emitted("einsum", [[found, *(_full(each, classes, pooled) for each in (down, across))]], equation=equation)
    return emitted("reshape", [windows], shape=[-1, out, *pooled])  # type: ignore[no-any-return]


def _full(weights: Variable, classes: int, pooled: Sequence[int]) -> Variable:
    """Weights that are the same for all classes, or along a side, for each of them."""
    times = [1, classes // max(weights.shape[1], 1), *(count // each for count, each in zip(pooled, weights.shape[2:4], strict=True)), 1]
    return weights if times == [1] * 5 else emitted("expand", [weights], expand_times=times)


def _pair(name: str, value: object) -> list[int]:
    values = [value, value] if isinstance(value, int) else value
    if not isinstance(values, list | tuple) or len(values) != 2:
        raise InvalidType(f"{name} is two integers, down and across, not {value!r}")
    return [checked_int(name, each, 1) for each in values]


def _floats(**values: float) -> tuple[float, ...]:
    return tuple(checked_float(name, value) for name, value in values.items())


# -- windows that are turned -----------------------------------------------------------------------
# X. Liu et al., "FOTS: fast oriented text spotting with a unified network" (2018), with Paddle's perspective in the affine map's place.

NEAR = 1e-4  # what is nearer than this is equal, as in Paddle


class _Quads(NamedTuple):
    """The corners of quadrangles, clockwise from the upper left one: ``[R, 1, 1]`` each."""

    x: list[Variable]
    y: list[Variable]


def _length(quads: _Quads, i: int, j: int) -> Variable:
    dx, dy = quads.x[i] - quads.x[j], quads.y[i] - quads.y[j]
    return emitted("sqrt", [dx * dx + dy * dy])  # type: ignore[no-any-return]


def _perspective(quads: _Quads, height: int, width: int) -> list[Variable]:
    """The nine numbers of the matrix that takes a place in the window to one in the image (P. Heckbert, 1989, section 2.2.3).

    A window that is narrower than its quadrangle is high fills the left part of the result.
    """
    (x0, x1, x2, x3), (y0, y1, y2, y3) = quads
    tall, wide = (_length(quads, 1, 2) + _length(quads, 3, 0)) * 0.5, (_length(quads, 0, 1) + _length(quads, 2, 3)) * 0.5
    rows = max(2, height) - 1
    columns = emitted("clip", [emitted("floor", [wide * float(rows) / tall + 0.5])], min=1.0, max=float(max(width - 1, 1)))
    dx1, dx2, dx3 = x1 - x2, x3 - x2, x0 - x1 + x2 - x3
    dy1, dy2, dy3 = y1 - y2, y3 - y2, y0 - y1 + y2 - y3
    area = dx1 * dy2 - dx2 * dy1 + 1e-5
    g, h = (dx3 * dy2 - dx2 * dy3) / area / columns, (dx1 * dy3 - dx3 * dy1) / area / float(rows)
    first = [(x1 - x0 + g * columns * x1) / columns, (x3 - x0 + h * float(rows) * x3) / float(rows), x0]
    second = [(y1 - y0 + g * columns * y1) / columns, (y3 - y0 + h * float(rows) * y3) / float(rows), y0]
    return [*first, *second, g, h, emitted("fill_any_like", [g], value=1.0)]


def _inside(quads: _Quads, x: Variable, y: Variable) -> Variable:
    """Whether places are in a quadrangle or on its outline: those from which a ray to the right crosses it an odd number of times."""
    on_outline: list[Variable] = []
    crossings: list[Variable] = []
    for i in range(4):
        xs, ys, xe, ye = quads.x[i], quads.y[i], quads.x[(i + 1) % 4], quads.y[(i + 1) % 4]
        left, right = emitted("elementwise_min", [xs, xe]), emitted("elementwise_max", [xs, xe])
        low, high = emitted("elementwise_min", [ys, ye]), emitted("elementwise_max", [ys, ye])
        is_flat = emitted("abs", [ys - ye]) < NEAR
        # A flat edge has no crossing: where there is one, it is divided by 1 and not looked at.
        slope = (xe - xs) / emitted("where", [is_flat, emitted("fill_any_like", [ys], value=1.0), ye - ys])
        crossing = (y - ys) * slope + xs
        near_both = (emitted("abs", [y - ys]) < NEAR) & (emitted("abs", [y - ye]) < NEAR)
        on_flat = is_flat & near_both & (x > left - NEAR) & (x < right + NEAR)
        on_line = (~is_flat) & (emitted("abs", [crossing - x]) < NEAR) & (y > low - NEAR) & (y < high + NEAR)
        on_outline += [on_flat, on_line]
        crossings.append((~is_flat) & (y >= low + NEAR) & (y - high <= NEAR) & (crossing - x > NEAR))
    odd = crossings[0] ^ crossings[1] ^ crossings[2] ^ crossings[3]
    for each in on_outline:
        odd = odd | each
    return odd


@layer
def roi_perspective_transform(
    input: Variable,
    rois: Variable,
    transformed_height: int,
    transformed_width: int,
    spatial_scale: float = 1.0,
    name: str | None = None,
    *,
    rois_num: Variable | None = None,
) -> tuple[Variable, Variable, Variable]:
    """Quadrangles of images as upright windows, each by a perspective transformation.

    Each element is interpolated between four of the image. The images have gradients, the quadrangles have none.

    Args:
        input, rois: ``[images, channels, height, width]``; quadrangles ``[boxes, 8]``: x, y of each corner, clockwise from the upper left.
        transformed_height, transformed_width: of the windows.
        spatial_scale: what takes corners to elements.
        rois_num: how many quadrangles each image has, integers ``[images]``; needed for several images.

    Returns:
        The windows ``[boxes, channels, transformed_height, transformed_width]``, zero outside of the quadrangle and of the image; where
        they are not, int32 ``[boxes, 1, transformed_height, transformed_width]``; and the transformations ``[boxes, 9]``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import numpy as np
    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     image = ga.layers.assign(np.arange(16.0).reshape(1, 1, 4, 4))
    ...     corners = ga.layers.assign(np.array([[1.0, 1.0, 3.0, 1.0, 3.0, 3.0, 1.0, 3.0]]))
    ...     window = ga.layers.roi_perspective_transform(image, corners, 3, 3)[0]
    >>> ga.Executor().run(program, fetch_list=[window])[0].round(3).tolist()
    [[[[5.0, 6.0, 7.0], [9.0, 10.0, 11.0], [13.0, 14.0, 15.0]]]]
    """
    images, corners = _checked_regions("roi_perspective_transform", input, rois, 8)
    with at_users_line("layers.roi_perspective_transform"):
        height, width = checked_int("transformed_height", transformed_height, 1), checked_int("transformed_width", transformed_width, 1)
        (scale,) = _floats(spatial_scale=spatial_scale)
    fixed = _stopped(corners * scale)
    quads = _Quads([_column(fixed, 2 * i, 3) for i in range(4)], [_column(fixed, 2 * i + 1, 3) for i in range(4)])
    matrix = _perspective(quads, height, width)
    across, down = np.arange(width).astype(images.dtype).reshape(1, 1, -1), np.arange(height).astype(images.dtype).reshape(1, -1, 1)
    u, v, w = (matrix[3 * i] * across + matrix[3 * i + 1] * down + matrix[3 * i + 2] for i in range(3))
    x, y = u / w, v / w
    mask, grid = _inside(quads, x, y), []
    for place, axis in ((x, 3), (y, 2)):
        last = emitted("element_places", [images], axis=axis)[-1:]
        # Within half an element of the image, where the outermost element counts.
        mask = mask & (place > NEAR - 0.5) & (place < last + 0.5 - NEAR)
        # A grid goes from -1 to 1 across the image; one that is a single element wide has its only place at -1.
        kept = emitted("elementwise_min", [emitted("relu", [place]), last])
        grid.append((kept / emitted("elementwise_max", [last, emitted("fill_any_like", [last], value=1.0)]) * 2.0 - 1.0).unsqueeze(-1))
    points = _stopped(emitted("concat", [grid], axis=-1))
    sampled = emitted("grid_sampler", [_of_boxes(images, corners, rois_num), points], padding_mode="border")
    kept = mask.unsqueeze(1)
    out = sampled * _stopped(emitted("cast", [kept], out_dtype=images.dtype))
    rows = emitted("reshape", [emitted("concat", [matrix], axis=1)], shape=[-1, 9])
    return out, _stopped(emitted("cast", [kept], out_dtype="int32")), _stopped(rows)
