"""Boxes of object detectors, as Fluid 1.8 has them: priors and anchors (constants), overlaps, encodings, YOLO's boxes.

Boxes are pooled too. What yields a different number of boxes for each image (proposals, matching, suppression) is not here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.helper import LayerHelper, checked_input, emitted, layer
from graphad.layers.images import conv2d
from graphad.layers.tensor import assign
from graphad.program import Variable
from graphad.program.source import at_users_line

Numbers = Sequence[float]
Box = tuple[float, float, float, float]


def _boxes(layer: str, x: object, rank: int = 2) -> Variable:
    boxes = checked_input(layer, x)
    if boxes.ndim != rank or boxes.shape[-1] != 4:
        raise ShapeError(f"layers.{layer} takes boxes [{'n, ' * (rank - 1)}4] of two corners, not {x!r}")
    return boxes


def _corners(boxes: Variable) -> list[Variable]:
    """The columns x1, y1, x2, y2, each of extent 1."""
    return emitted("split", [boxes], num=4, axis=len(boxes.shape) - 1)  # type: ignore[no-any-return]


@layer
def iou_similarity(x: Variable, y: Variable, box_normalized: bool = True, name: str | None = None) -> Variable:
    """The shares that boxes ``[n, 4]`` and ``[m, 4]`` have in common: intersection over union, ``[n, m]``.

    Args:
        box_normalized: False if corners are pixels, so that a box from 1 to 1 is one wide.
    """
    first, second = _boxes("iou_similarity", x), _boxes("iou_similarity", y)
    # Corners that are pixels belong to the box: it is one pixel wider and higher than their difference.
    pixel = 0.0 if checked_flag("layers.iou_similarity: box_normalized", box_normalized) else 1.0
    # The second boxes as rows: columns and rows broadcast to all pairs.
    first_corners, second_corners = _corners(first), [emitted("transpose", [variable], axis=[1, 0]) for variable in _corners(second)]
    sides = []
    for low, high in ((0, 2), (1, 3)):
        start = emitted("elementwise_max", [first_corners[low], second_corners[low]])
        # Boxes that do not meet have no side in common: 0, and not a negative number.
        sides.append(emitted("relu", [emitted("elementwise_min", [first_corners[high], second_corners[high]]) - start + pixel]))
    intersections = sides[0] * sides[1]
    areas = [(box[2] - box[0] + pixel) * (box[3] - box[1] + pixel) for box in (first_corners, second_corners)]
    return emitted("elementwise_div", [intersections, areas[0] + areas[1] - intersections], name)  # type: ignore[no-any-return]


@layer
def box_coder(
    prior_box: Variable,
    prior_box_var: object,
    target_box: Variable,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    name: str | None = None,
    axis: int = 0,
) -> Variable:
    """Boxes as shifts and scales from prior boxes, or such codes as boxes.

    Args:
        prior_box: ``[m, 4]``.
        prior_box_var: what codes are divided by: a Variable ``[m, 4]``, four numbers, or None.
        target_box: ``[n, 4]`` to encode; ``[n, m, 4]`` to decode.
        code_type: "encode_center_size" or "decode_center_size".
        axis: when decoding, which axis of ``target_box`` the priors have not: 0, or 1 for ``[m, n, 4]``.

    Returns:
        ``[n, m, 4]``, or the shape of the codes.
    """
    with at_users_line("layers.box_coder"):
        pixel = 0.0 if checked_flag("box_normalized", box_normalized) else 1.0
        kinds = {"encode_center_size": True, "decode_center_size": False}
        if code_type not in kinds:
            raise InvalidValue(f"code_type is 'encode_center_size' or 'decode_center_size', not {code_type!r}")
        if checked_int("axis", axis) not in (0, 1):
            raise InvalidValue(f"axis is 0 or 1, not {axis}")
    # Encoding pairs every target with every prior: [targets, priors, 4]. Decoding has codes for each pair already, and priors along an
    # axis.
    along = 0 if kinds[code_type] else axis
    # A prior's columns get an axis for the targets.
    x1, y1, x2, y2 = (emitted("unsqueeze", [variable], axes=[along]) for variable in _corners(_boxes("box_coder", prior_box)))
    priors = _sized(x1, y1, x2, y2, pixel)
    factors = _variances(prior_box_var, along)
    if kinds[code_type]:
        corners = [emitted("unsqueeze", [variable], axes=[1]) for variable in _corners(_boxes("box_coder", target_box))]
        codes = _encoded(corners, priors, pixel)
        return emitted("concat", [[c if f is None else c / f for c, f in zip(codes, factors, strict=True)]], name, axis=2)  # type: ignore[no-any-return]
    boxes = _corners(_boxes("box_coder", target_box, 3))
    return emitted(  # type: ignore[no-any-return]
        "concat", [_decoded([c if f is None else c * f for c, f in zip(boxes, factors, strict=True)], priors, pixel)], name, axis=2
    )


def _sized(x1: Variable, y1: Variable, x2: Variable, y2: Variable, pixel: float) -> list[Variable]:
    """Width, height and center."""
    width, height = x2 - x1 + pixel, y2 - y1 + pixel
    return [width, height, x1 + width * 0.5, y1 + height * 0.5]


def _variances(variances: object, along: int) -> list[object]:
    if variances is None:
        return [None] * 4
    if isinstance(variances, Variable):
        return [emitted("unsqueeze", [variable], axes=[along]) for variable in _corners(_boxes("box_coder", variances))]
    if not isinstance(variances, list | tuple) or len(variances) != 4:
        raise InvalidType(f"layers.box_coder: prior_box_var is a Variable, four numbers or None, not {variances!r}")
    return [checked_float("layers.box_coder: prior_box_var", item) for item in variances]


def _encoded(corners: list[Variable], priors: list[Variable], pixel: float) -> list[Variable]:
    width, height = corners[2] - corners[0] + pixel, corners[3] - corners[1] + pixel
    x, y = (corners[0] + corners[2]) * 0.5, (corners[1] + corners[3]) * 0.5
    # Offsets from the prior's center in units of its extents, and logarithms of how much larger the box is (R. Girshick et al., R-CNN,
    # 2014, appendix C).
    return [
        (x - priors[2]) / priors[0],
        (y - priors[3]) / priors[1],
        (width / priors[0]).abs().log(),
        (height / priors[1]).abs().log(),
    ]


def _decoded(codes: list[Variable], priors: list[Variable], pixel: float) -> list[Variable]:
    x, y = codes[0] * priors[0] + priors[2], codes[1] * priors[1] + priors[3]
    width, height = codes[2].exp() * priors[0], codes[3].exp() * priors[1]
    return [x - width * 0.5, y - height * 0.5, x + width * 0.5 - pixel, y + height * 0.5 - pixel]


@layer
def box_decoder_and_assign(
    prior_box: Variable, prior_box_var: object, target_box: Variable, box_score: Variable, box_clip: float, name: str | None = None
) -> tuple[Variable, Variable]:
    """The boxes that codes mean, one for each class, and of each row the box of its likeliest class; corners are pixels.

    Args:
        prior_box: ``[n, 4]``, two corners each.
        prior_box_var: four numbers that the codes are multiplied by, as a Variable ``[4]`` or a list.
        target_box: codes ``[n, classes * 4]``: the offset of the center in units of the prior's extents, and logarithms of how much larger
            the box is.
        box_score: ``[n, classes]``; class 0 is the background.
        box_clip: the most that such a logarithm counts.

    Returns:
        The boxes ``[n, classes * 4]``, and those of the likeliest class that is not the background, ``[n, 4]``: the prior where it is the
        only class.

    Raises:
        ShapeError: the shapes do not fit, or the number of classes is not known.
    """
    priors, codes = _boxes("box_decoder_and_assign", prior_box), checked_input("box_decoder_and_assign", target_box)
    scores, limit = checked_input("box_decoder_and_assign", box_score), checked_float("layers.box_decoder_and_assign: box_clip", box_clip)
    classes = scores.shape[-1]
    if scores.ndim != 2 or codes.ndim != 2 or classes < 1 or codes.shape[1] != 4 * classes:
        raise ShapeError(
            f"layers.box_decoder_and_assign takes codes [n, classes * 4] and scores [n, classes], not {codes!r} and {scores!r}"
        )
    if isinstance(prior_box_var, Variable):
        factors = prior_box_var.reshape([4]).astype(codes.dtype)
    else:
        factors = assign(np.array(_numbers("layers.box_decoder_and_assign: prior_box_var", prior_box_var, 4), codes.dtype))
    by_class = emitted("reshape", [codes], shape=[-1, classes, 4]) * factors
    x, y, width, height = emitted("split", [by_class], num=4, axis=2)
    # A network may predict anything, of which the exponential could overflow.
    sides = [emitted("elementwise_min", [side, emitted("fill_any_like", [side], value=limit)]) for side in (width, height)]
    x1, y1, x2, y2 = _corners(priors)
    sized = [emitted("unsqueeze", [variable], axes=[1]) for variable in _sized(x1, y1, x2, y2, 1.0)]
    decoded = emitted("concat", [_decoded([x, y, *sides], sized, 1.0)], axis=2)
    boxes = emitted("reshape", [decoded], name, shape=[-1, 4 * classes])
    if classes == 1:
        return boxes, emitted("assign", [priors])
    # Class 0 is the background, which is never chosen.
    best = scores[:, 1:].argmax(-1) + 1
    # A product with one-hot rows picks one class of each row.
    hot = emitted("one_hot_v2", [best], depth=classes, dtype="float32").astype(codes.dtype).unsqueeze(-1)
    return boxes, (decoded * hot).sum(1)


@layer
def box_clip(input: Variable, im_info: Variable, name: str | None = None) -> Variable:
    """Boxes ``[..., 4]`` kept within an image.

    Args:
        im_info: height, width and scale of the one image, ``[1, 3]``; there are no levels of detail, so that a box belongs to it.
    """
    boxes, info = checked_input("box_clip", input), checked_input("box_clip", im_info)
    if boxes.shape[-1] != 4 or info.shape[-1] != 3 or info.shape[0] not in (1, -1):
        raise ShapeError(f"layers.box_clip takes boxes [..., 4] and one image's [height, width, scale], not {input!r} and {im_info!r}")
    # The extents of the image before it was scaled, less one: the last pixel's place.
    ends = [emitted("round", [info[0, at] / info[0, 2]]) - 1.0 for at in (1, 0)]
    zero = emitted("fill_any_like", [ends[0]], value=0.0)
    sides = [
        emitted("elementwise_max", [emitted("elementwise_min", [corner, ends[at % 2]]), zero]) for at, corner in enumerate(_corners(boxes))
    ]
    return emitted("concat", [sides], name, axis=len(boxes.shape) - 1)  # type: ignore[no-any-return]


@layer
def polygon_box_transform(input: Variable, name: str | None = None) -> Variable:
    """Offsets ``[batch, 2 * corners, height, width]`` as places: 4 times the column (even channels) or the row, less the offset."""
    x = checked_input("polygon_box_transform", input)
    if x.ndim != 4 or min(x.shape[1:]) < 1 or x.shape[1] % 2:
        raise ShapeError(f"layers.polygon_box_transform takes [batch, 2 * corners, height, width] of known extents, not {x!r}")
    _, channels, height, width = x.shape
    columns, rows = np.broadcast_to(np.arange(width), (height, width)), np.arange(height)[:, None].repeat(width, 1)
    places = np.stack([rows if at % 2 else columns for at in range(channels)])[None] * 4.0
    return emitted("elementwise_sub", [assign(places.astype(x.dtype)), x], name)  # type: ignore[no-any-return]


# -- priors ----------------------------------------------------------------------------------------


def _extents(layer: str, **images: object) -> list[tuple[int, int]]:
    """Height and width of feature maps and images."""
    sizes = []
    for label, value in images.items():
        shape = checked_input(layer, value).shape
        if len(shape) != 4 or min(shape[2:]) < 1:
            raise ShapeError(f"layers.{layer}: {label} is [batch, channels, height, width] with known height and width, not {value!r}")
        sizes.append((shape[2], shape[3]))
    return sizes


def _numbers(what: str, numbers: object, count: int | None = None) -> list[float]:
    values = list(numbers) if isinstance(numbers, list | tuple) else [numbers]
    if count is not None and len(values) != count:
        raise InvalidValue(f"{what} has {count} numbers, not {numbers!r}")
    return [checked_float(what, item) for item in values]


def _given(boxes: object, variance: Numbers, dtype: str) -> tuple[Variable, Variable]:
    """Constants: the boxes ``[height, width, boxes, 4]`` and their variances."""
    array = np.asarray(boxes, dtype)
    return assign(array), assign(np.ascontiguousarray(np.broadcast_to(np.asarray(variance, dtype), array.shape)))


@layer
def prior_box(
    input: Variable,
    image: Variable,
    min_sizes: object,
    max_sizes: object = None,
    aspect_ratios: object = [1.0],
    variance: object = [0.1, 0.1, 0.2, 0.2],
    flip: bool = False,
    clip: bool = False,
    steps: object = [0.0, 0.0],
    offset: float = 0.5,
    name: str | None = None,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Variable, Variable]:
    """SSD's prior boxes (W. Liu et al., 2016), as shares of the image: ``[height, width, priors, 4]``, and their variances.

    Args:
        input: the feature map; each place of it has its priors.
        image: the image.
        steps: width and height of a place in pixels; 0 divides the image.
        flip: whether each ratio stands for its reciprocal, too.
        min_max_aspect_ratios_order: whether the box of the largest size is second rather than last.
    """
    with at_users_line("layers.prior_box"):
        (height, width), (image_height, image_width) = _extents("prior_box", input=input, image=image)
        small_sizes, large_sizes = _numbers("min_sizes", min_sizes), _numbers("max_sizes", max_sizes or [])
        if large_sizes and len(large_sizes) != len(small_sizes):
            raise InvalidValue(f"max_sizes has as many numbers as min_sizes, {len(small_sizes)}, not {len(large_sizes)}")
        ratios = _ratios(_numbers("aspect_ratios", aspect_ratios), checked_flag("flip", flip))
        shares = _numbers("variance", variance, 4)
        across, down = (
            # 0 divides the image into as many steps as the map has places.
            item or extent / places
            for item, extent, places in zip(_numbers("steps", steps, 2), (image_width, image_height), (width, height), strict=True)
        )
        order = checked_flag("min_max_aspect_ratios_order", min_max_aspect_ratios_order)
    sizes = np.array(
        [size for at, least in enumerate(small_sizes) for size in _sizes(least, large_sizes[at] if large_sizes else None, ratios, order)]
    )
    # The center of a place is at its offset, 0.5 by default.
    x, y = np.meshgrid((np.arange(width) + offset) * across, (np.arange(height) + offset) * down)
    centers = np.stack([x, y], -1)[:, :, None]
    # Priors depend on extents alone, so they are numbers of the program, computed here.
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], -1) / [image_width, image_height, image_width, image_height]
    return _given(boxes.clip(0.0, 1.0) if checked_flag("layers.prior_box: clip", clip) else boxes, shares, input.dtype)


def _ratios(ratios_: list[float], flip: bool) -> list[float]:
    """1 and the ratios, each once."""
    ratios = [1.0]
    for item in ratios_:
        # Paddle compares with this tolerance; 1 always comes first.
        if all(abs(item - ratio) >= 1e-6 for ratio in ratios):
            ratios += [item, 1.0 / item] if flip else [item]
    return ratios


def _sizes(least: float, largest: float | None, ratios: list[float], order: bool) -> list[tuple[float, float]]:
    """Widths and heights of the boxes of one size."""
    by_ratio = [(least * math.sqrt(ratio), least / math.sqrt(ratio)) for ratio in ratios]
    # The box between two sizes is a square with their geometric mean.
    between = [] if largest is None else [(math.sqrt(least * largest),) * 2]
    return [by_ratio[0], *between, *by_ratio[1:]] if order else [*by_ratio, *between]


@layer
def multi_box_head(
    inputs: Sequence[Variable],
    image: Variable,
    base_size: int,
    num_classes: int,
    aspect_ratios: Sequence[object],
    min_ratio: int | None = None,
    max_ratio: int | None = None,
    min_sizes: Sequence[object] | None = None,
    max_sizes: Sequence[object] | None = None,
    steps: Sequence[float] | None = None,
    step_w: Sequence[float] | None = None,
    step_h: Sequence[float] | None = None,
    offset: float = 0.5,
    variance: object = [0.1, 0.1, 0.2, 0.2],
    flip: bool = True,
    clip: bool = False,
    kernel_size: int = 1,
    pad: int = 0,
    stride: int = 1,
    name: str | None = None,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Variable, Variable, Variable, Variable]:
    """The head of SSD (W. Liu et al., 2016): for each prior box of several feature maps its place and the scores of its classes.

    Args:
        inputs: feature maps ``[batch, channels, height, width]``, each of which has ``prior_box`` and two convolutions.
        image: the image.
        base_size: the size of the image, of which ``min_ratio`` and ``max_ratio`` are percents: where there are no ``min_sizes``, and three
            maps or more, the sizes of the boxes are spread evenly between them, and the first map has 10 and 20 percent.
        aspect_ratios: those of each map, a number or a list.
        min_sizes, max_sizes, steps, step_w, step_h: those of each map, and the width and the height of its places, in pixels.
        kernel_size, pad, stride: of the convolutions, which keep height and width.

    Returns:
        Places ``[batch, boxes, 4]``, scores ``[batch, boxes, num_classes]``, the priors ``[boxes, 4]`` and their variances.

    Raises:
        TypeError: neither sizes nor ratios say how large the boxes are.
        ValueError: a list has not one item for each map.
    """
    with at_users_line("layers.multi_box_head"):
        maps = [checked_input("multi_box_head", item) for item in inputs]
        least, largest = _head_sizes(len(maps), base_size, min_ratio, max_ratio, min_sizes, max_sizes)
        across, down = (steps or step_w or [0.0] * len(maps), steps or step_h or [0.0] * len(maps))
        settings = {"aspect_ratios": aspect_ratios, "min_sizes": least, "max_sizes": largest, "steps": across, "step_h": down}
        for label, items in settings.items():
            if not isinstance(items, list | tuple) or len(items) != len(maps):
                raise InvalidValue(f"{label} is a list with one item for each of {len(maps)} maps, not {items!r}")
    outputs: list[list[Variable]] = [[], [], [], []]
    for i, x in enumerate(maps):
        order = (variance, flip, clip, [across[i], down[i]], offset, None, min_max_aspect_ratios_order)
        boxes, variances = prior_box(x, image, _several(least[i]), _several(largest[i]), _several(aspect_ratios[i]), *order)
        for at, width in enumerate((4, num_classes)):
            part = conv2d(x, boxes.shape[2] * width, kernel_size, stride, pad)
            outputs[at].append(part.transpose(0, 2, 3, 1).reshape(0, -1, width))
        outputs[2].append(boxes.reshape(-1, 4))
        outputs[3].append(variances.reshape(-1, 4))
    results = [emitted("concat", [parts], axis=1 if at < 2 else 0) for at, parts in enumerate(outputs)]
    return results[0], results[1], results[2], results[3]


def _several(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _head_sizes(
    count: int, base_size: int, min_ratio: int | None, max_ratio: int | None, min_sizes: Any, max_sizes: Any
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The sizes of the boxes of each map: as given, or spread between two percents of the image."""
    if min_sizes is not None and max_sizes is not None:
        return min_sizes, max_sizes
    if count < 3 or min_ratio is None or max_ratio is None:
        raise InvalidType("min_sizes and max_sizes are given, or min_ratio and max_ratio for three feature maps or more")
    # SSD's rule: from the second map on the sizes rise by one step.
    step = (max_ratio - min_ratio) // (count - 2)
    if step < 1:
        raise InvalidValue(f"max_ratio - min_ratio is {count - 2} or more, not {max_ratio} - {min_ratio}")
    ratios = range(min_ratio, max_ratio + 1, step)
    least = [base_size * 0.1, *(base_size * ratio / 100 for ratio in ratios)]
    largest = [base_size * 0.2, *(base_size * (ratio + step) / 100 for ratio in ratios)]
    return least[:count], largest[:count]


@layer
def density_prior_box(
    input: Variable,
    image: Variable,
    densities: object = None,
    fixed_sizes: object = None,
    fixed_ratios: object = None,
    variance: object = [0.1, 0.1, 0.2, 0.2],
    clip: bool = False,
    steps: object = [0.0, 0.0],
    offset: float = 0.5,
    flatten_to_2d: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Prior boxes of fixed sizes, several in each place (S. Zhang et al., 2017): ``[height, width, priors, 4]``, and variances.

    Args:
        densities: for each of ``fixed_sizes`` how many boxes are in a row of a place.
        flatten_to_2d: whether the results are ``[priors, 4]``.
    """
    with at_users_line("layers.density_prior_box"):
        (height, width), (image_height, image_width) = _extents("density_prior_box", input=input, image=image)
        counts, sizes, ratios = (
            _numbers(*item) for item in (("densities", densities), ("fixed_sizes", fixed_sizes), ("fixed_ratios", fixed_ratios))
        )
        if len(counts) != len(sizes):
            raise InvalidValue(f"densities and fixed_sizes have as many numbers, not {len(counts)} and {len(sizes)}")
        step_sizes, shares = _numbers("steps", steps, 2), _numbers("variance", variance, 4)
    # One of the two sizes alone counts as none, as in Paddle.
    across, down = step_sizes if all(step_sizes) else (image_width / width, image_height / height)
    shifts = np.array([*_dense(int((across + down) * 0.5), counts, sizes, ratios)])
    x, y = np.meshgrid((np.arange(width) + offset) * across, (np.arange(height) + offset) * down)
    boxes = (np.stack([x, y, x, y], -1)[:, :, None] + shifts) / [image_width, image_height, image_width, image_height]
    # Boxes are cut at the image's edges whatever ``clip`` says, as in Paddle.
    boxes = np.concatenate([boxes[..., :2].clip(0.0), boxes[..., 2:].clip(None, 1.0)], -1)
    if checked_flag("layers.density_prior_box: clip", clip):
        boxes = boxes.clip(0.0, 1.0)
    return _given(
        boxes.reshape(-1, 4) if checked_flag("layers.density_prior_box: flatten_to_2d", flatten_to_2d) else boxes, shares, input.dtype
    )


def _dense(step: int, counts: Numbers, sizes: Numbers, ratios: Numbers) -> Iterator[Box]:
    """The corners of a place's boxes, from its center."""
    for count, size in zip(counts, sizes, strict=True):
        shift = int(step / count)
        for ratio in ratios:
            wide, high = size * math.sqrt(ratio) / 2, size / math.sqrt(ratio) / 2
            for row, column in product(range(int(count)), repeat=2):
                # The centers of a grid of count times count points around the place's center.
                x, y = (-step / 2.0 + shift / 2.0 + at * shift for at in (column, row))
                yield x - wide, y - high, x + wide, y + high


@layer
def anchor_generator(
    input: Variable,
    anchor_sizes: object = None,
    aspect_ratios: object = None,
    variance: object = [0.1, 0.1, 0.2, 0.2],
    stride: object = None,
    offset: float = 0.5,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Faster R-CNN's anchors (S. Ren et al., 2015), in pixels: ``[height, width, anchors, 4]``, and their variances.

    Args:
        input: the feature map.
        stride: width and height of one of its places in pixels.
    """
    with at_users_line("layers.anchor_generator"):
        ((height, width),) = _extents("anchor_generator", input=input)
        sizes, ratios = _numbers("anchor_sizes", anchor_sizes), _numbers("aspect_ratios", aspect_ratios)
        across, down = _numbers("stride", stride, 2)
        shares = _numbers("variance", variance, 4)
    corners = []
    for ratio, size in product(ratios, sizes):
        # Rounded to whole pixels in the order of the reference implementation, so that anchors agree to the last pixel.
        base = math.floor(math.sqrt(across * down / ratio) + 0.5)
        wide, high = size / across * base, size / down * math.floor(base * ratio + 0.5)
        corners.append([-(wide - 1) / 2, -(high - 1) / 2, (wide - 1) / 2, (high - 1) / 2])
    x, y = np.meshgrid(np.arange(width) * across + offset * (across - 1), np.arange(height) * down + offset * (down - 1))
    return _given(np.stack([x, y, x, y], -1)[:, :, None] + np.array(corners), shares, input.dtype)


# -- YOLO ------------------------------------------------------------------------------------------


@layer
def yolo_box(
    x: Variable,
    img_size: Variable,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> tuple[Variable, Variable]:
    """The boxes that a YOLOv3 head predicts (J. Redmon and A. Farhadi, 2018), in pixels, and their scores.

    Args:
        x: ``[batch, anchors * (5 + class_num), height, width]``.
        img_size: heights and widths of the images, int32 ``[batch, 2]``.
        anchors: width and height of each anchor.
        conf_thresh: boxes of less confidence are zeros.

    Returns:
        ``[batch, height * width * anchors, 4]`` and ``[batch, height * width * anchors, class_num]``, the anchors outermost.
    """
    with at_users_line("layers.yolo_box"):
        head, images = checked_input("yolo_box", x), checked_input("yolo_box", img_size)
        classes, pixels = checked_int("class_num", class_num, 1), checked_int("downsample_ratio", downsample_ratio, 1)
        sizes = np.array(_numbers("anchors", anchors)).reshape(-1, 2)
        if head.ndim != 4 or head.shape[1] != len(sizes) * (5 + classes) or min(head.shape[2:]) < 1:
            raise ShapeError(f"it takes [batch, {len(sizes)} * (5 + {classes}), height, width] of known extents, not {x!r}")
        threshold, factor = checked_float("conf_thresh", conf_thresh), checked_float("scale_x_y", scale_x_y)
    height, width = head.shape[2:]
    count = len(sizes) * height * width
    parts = emitted("reshape", [head], shape=[-1, len(sizes), 5 + classes, height, width])
    confidence = emitted("sigmoid", [parts[:, :, 4]])
    sure_mask = (confidence >= threshold).astype(head.dtype)
    # Width first, as the anchors have it.
    extents = [emitted("reshape", [images[:, at]], shape=[-1, 1, 1, 1]).astype(head.dtype) for at in (1, 0)]
    sides: list[list[Variable]] = []
    for at, (extent, places) in enumerate(zip(extents, (width, height), strict=True)):
        shape = [1, 1, 1, width] if at == 0 else [1, 1, height, 1]
        grid = assign(np.arange(places, dtype=head.dtype).reshape(shape))
        # The sigmoid keeps a center within its place; ``scale_x_y`` lets it reach the edges, beyond which it is scaled around the middle.
        center = (emitted("sigmoid", [parts[:, :, at]]) * factor + (0.5 - 0.5 * factor) + grid) * extent * (1.0 / places)
        anchor = assign((sizes[:, at] / (places * pixels)).astype(head.dtype).reshape(1, -1, 1, 1))
        # The head predicts logarithms of how much larger than the anchor a box is.
        half = parts[:, :, 2 + at].exp() * anchor * extent * 0.5
        sides.append(_within([center - half, center + half], extent, checked_flag("layers.yolo_box: clip_bbox", clip_bbox)))
    # Boxes below the threshold are zeros, not left out: how many there are does not depend on values.
    corners = [side * sure_mask for pair in zip(*sides, strict=True) for side in pair]
    boxes = emitted("reshape", [emitted("stack", [corners], axis=4)], shape=[-1, count, 4])
    scores = emitted("sigmoid", [parts[:, :, 5:]]) * (confidence * sure_mask).unsqueeze(2)
    return boxes, emitted("reshape", [emitted("transpose", [scores], axis=[0, 1, 3, 4, 2])], shape=[-1, count, classes])


def _within(sides: list[Variable], limit: Variable, clipped: bool) -> list[Variable]:
    """The low side at least 0, the high one at most the last pixel."""
    if not clipped:
        return sides
    low, high = sides
    return [emitted("relu", [low]), emitted("elementwise_min", [high, limit - 1.0])]


# -- boxes in windows ------------------------------------------------------------------------------


def _windows_of_boxes(pooled_height: int, pooled_width: int, spatial_scale: float) -> dict[str, object]:
    """The attributes that all of these operators have: how many windows a box is cut into, and how far it is scaled to the image."""
    return {
        "pooled_height": checked_int("pooled_height", pooled_height, 1),
        "pooled_width": checked_int("pooled_width", pooled_width, 1),
        "spatial_scale": checked_float("spatial_scale", spatial_scale),
    }


def _boxes_of_images(layer: str, rois: Variable, rois_num: Variable | None, rois_lod: Variable | None) -> dict[str, Variable]:
    """The boxes, and how many each image has: as said, or as the differences of the places where they begin."""
    if rois_num is not None and rois_lod is not None:
        raise InvalidValue(f"layers.{layer}: rois_num and rois_lod say the same; one of them is given")
    boxes = {"ROIs": _boxes(layer, rois)}
    if rois_lod is not None:
        places = checked_input(layer, rois_lod)
        # Level-of-detail offsets: image i has the boxes from places[i] up to places[i + 1].
        return {**boxes, "RoisNum": places[1:] - places[:-1]}
    return boxes if rois_num is None else {**boxes, "RoisNum": checked_input(layer, rois_num)}


@layer
def roi_align(
    input: Variable,
    rois: Variable,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    name: str | None = None,
    rois_lod: Variable | None = None,
    *,
    rois_num: Variable | None = None,
    aligned: bool = False,
) -> Variable:
    """Boxes as so many windows each: the means of samples that are interpolated between elements (K. He et al., 2017).

    Args:
        input: ``[batch, channels, height, width]``.
        rois: boxes ``[n, 4]`` of two corners (x1, y1, x2, y2), those of the first image first. They get no gradient.
        spatial_scale: takes the boxes to elements of ``input``.
        sampling_ratio: so many samples are taken along each side of a window; -1: as many as it has elements.
        rois_lod: where the boxes of each image begin, and where the last ones end: ``[batch + 1]``.
        rois_num: how many boxes each image has, ``[batch]``; without it and ``rois_lod`` there is one image.
        aligned: moves the boxes by half an element, so that elements lie at their centers.

    Returns:
        ``[n, channels, pooled_height, pooled_width]``.
    """
    with at_users_line("layers.roi_align"):
        attrs: dict[str, object] = {
            **_windows_of_boxes(pooled_height, pooled_width, spatial_scale),
            "sampling_ratio": checked_int("sampling_ratio", sampling_ratio),
            "aligned": checked_flag("aligned", aligned),
        }
    boxes = _boxes_of_images("roi_align", rois, rois_num, rois_lod)
    return LayerHelper("roi_align", name).append("roi_align", {"X": checked_input("roi_align", input), **boxes}, attrs)


@layer
def roi_pool(
    input: Variable,
    rois: Variable,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    rois_lod: Variable | None = None,
    *,
    rois_num: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Boxes as so many windows each: their largest elements (R. Girshick, 2015); arguments as ``roi_align``.

    The corners of boxes are rounded to elements, which are in them. A window without elements is 0.
    """
    with at_users_line("layers.roi_pool"):
        attrs = _windows_of_boxes(pooled_height, pooled_width, spatial_scale)
    boxes = _boxes_of_images("roi_pool", rois, rois_num, rois_lod)
    helper = LayerHelper("roi_pool", name)
    out, _ = helper.append_all("roi_pool", {"X": checked_input("roi_pool", input), **boxes}, ("Out", "Argmax"), attrs, stopped=("Argmax",))
    return out


@layer
def psroi_pool(
    input: Variable,
    rois: Variable,
    output_channels: int,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    name: str | None = None,
    *,
    rois_num: Variable | None = None,
) -> Variable:
    """Boxes as so many windows each: their means, each of a channel of its own (J. Dai et al., R-FCN, 2016).

    Args:
        input: ``[images, output_channels * pooled_height * pooled_width, height, width]``.
        rois, rois_num: boxes ``[boxes, 4]`` and how many each image has, as of ``roi_align``.
        output_channels: how many channels the result has.
        spatial_scale: what takes corners, which are rounded, to elements.

    Returns:
        ``[boxes, output_channels, pooled_height, pooled_width]``.

    Raises:
        ShapeError: the shapes do not fit.
    """
    with at_users_line("layers.psroi_pool"):
        attrs: dict[str, object] = {
            "output_channels": checked_int("output_channels", output_channels, 1),
            **_windows_of_boxes(pooled_height, pooled_width, spatial_scale),
        }
    boxes = _boxes_of_images("psroi_pool", rois, rois_num, None)
    return LayerHelper("psroi_pool", name).append("psroi_pool", {"X": checked_input("psroi_pool", input), **boxes}, attrs)


@layer
def prroi_pool(
    input: Variable,
    rois: Variable,
    spatial_scale: float = 1.0,
    pooled_height: int = 1,
    pooled_width: int = 1,
    batch_roi_nums: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Boxes as so many windows each: integrals of the interpolated image (B. Jiang et al., 2018), so that boxes have a gradient too.

    Args:
        input: ``[images, channels, height, width]``, zero outside.
        rois, batch_roi_nums: boxes ``[boxes, 4]`` and how many each image has.
        spatial_scale: what takes corners to elements.

    Returns:
        ``[boxes, channels, pooled_height, pooled_width]``; a box without area is zero.

    Raises:
        ShapeError: the shapes do not fit.
    """
    with at_users_line("layers.prroi_pool"):
        attrs = _windows_of_boxes(pooled_height, pooled_width, spatial_scale)
    inputs = {"X": checked_input("prroi_pool", input), "ROIs": _boxes("prroi_pool", rois)}
    if batch_roi_nums is not None:
        inputs["BatchRoINums"] = checked_input("prroi_pool", batch_roi_nums)
    return LayerHelper("prroi_pool", name).append("prroi_pool", inputs, attrs)
