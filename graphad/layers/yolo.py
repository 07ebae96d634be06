"""The loss of a YOLOv3 head (J. Redmon and A. Farhadi, 2018), made of other layers, so that it has gradients of every order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.helper import checked_input, emitted, layer
from graphad.layers.tensor import assign
from graphad.program import Variable
from graphad.program.source import at_users_line
from graphad.types import Array

VALID = 1e-6  # a box that is not wider and higher than this is padding


class _Head(NamedTuple):
    """The geometry of a detection head: its cells, its anchors in pixels, and which of the anchors are its own."""

    height: int
    width: int
    pixels: int
    classes: int
    anchors: Array
    mask: list[int]

    @property
    def cells(self) -> int:
        return len(self.mask) * self.height * self.width

    @property
    def shares(self) -> Array:
        """Width and height of each anchor as shares of the image."""
        return self.anchors / np.array([self.width, self.height]) / self.pixels  # type: ignore[no-any-return]


@layer
def yolov3_loss(
    x: Variable,
    gt_box: Variable,
    gt_label: Variable,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    gt_score: Variable | None = None,
    use_label_smooth: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> Variable:
    """The loss of a YOLOv3 head: of places, sizes, objectness and classes.

    Args:
        x: the head, ``[batch, len(anchor_mask) * (5 + class_num), height, width]``.
        gt_box: the right boxes as shares of the image, centers and extents, ``[batch, boxes, 4]``; extents of 0 are padding.
        gt_label: their classes, integers ``[batch, boxes]``.
        anchors: width and height of each anchor in pixels, of all heads.
        anchor_mask: which of the anchors are this head's.
        ignore_thresh: a place without an object costs nothing if its box overlaps a right one by more than this share.
        downsample_ratio: how many pixels a place is wide.
        gt_score: how much each box counts, ``[batch, boxes]``; 1 if None.
        use_label_smooth: whether the right class has less than 1, and the others more than 0.
        scale_x_y: as of ``yolo_box``.

    Returns:
        The loss of each image, ``[batch]``. It has no gradient with respect to the right boxes.

    Raises:
        ShapeError: the shapes do not fit, or height and width are not known.
        ValueError: ``anchor_mask`` names no anchor.
    """
    with at_users_line("layers.yolov3_loss"):
        variable, boxes, labels = (checked_input("yolov3_loss", item) for item in (x, gt_box, gt_label))
        threshold, factor = checked_float("ignore_thresh", ignore_thresh), checked_float("scale_x_y", scale_x_y)
        head = _head(
            variable, anchors, anchor_mask, checked_int("class_num", class_num, 1), checked_int("downsample_ratio", downsample_ratio, 1)
        )
        if boxes.ndim != 3 or boxes.shape[2] != 4 or labels.ndim != 2 or (gt_score is not None and gt_score.ndim != 2):
            raise ShapeError(
                f"gt_box is [batch, boxes, 4], gt_label and gt_score are [batch, boxes], not {boxes!r}, {labels!r}, {gt_score!r}"
            )
        smooth = min(1.0 / head.classes, 1.0 / 40) if checked_flag("use_label_smooth", use_label_smooth) else 0.0
    boxes = _constant_copy(boxes)
    scores = emitted("fill_any_like", [boxes[:, :, 0]], value=1.0) if gt_score is None else checked_input("yolov3_loss", gt_score)
    parts = emitted("reshape", [variable], shape=[-1, len(head.mask), 5 + head.classes, head.height, head.width])
    cell, weight = _assigned(head, boxes, scores)
    # The predictions at the cells of the right boxes: [batch, boxes, 5 + classes].
    predictions = emitted("reshape", [emitted("transpose", [parts], axis=[0, 1, 3, 4, 2])], shape=[-1, head.cells, 5 + head.classes])
    at = emitted("expand", [cell.unsqueeze(-1)], expand_times=[1, 1, 5 + head.classes])
    cells = emitted("take_along_axis", [predictions, at], Axis=1)
    # Small boxes count up to twice, as in Paddle.
    placed = _place_loss(head, cells, boxes, cell) * ((2.0 - boxes[:, :, 2] * boxes[:, :, 3]) * weight)
    classified = _class_loss(head, cells[:, :, 5:], labels, smooth) * weight
    ignored = _best_overlap(head, parts, boxes, factor) > threshold
    total = (placed + classified).sum(1) + _object_loss(head, parts, cell, weight, ignored)
    return emitted("scale", [total], name, scale=1.0)  # type: ignore[no-any-return]


def _constant_copy(x: Variable) -> Variable:
    """A copy that gets no gradient; the caller's own variable keeps what it gets elsewhere."""
    copy = assign(x)
    copy.stop_gradient = True
    return copy


def _head(x: Variable, anchors: Sequence[int], mask: Sequence[int], classes: int, pixels: int) -> _Head:
    sizes = np.array([checked_float("anchors", item) for item in anchors])
    if not len(sizes) or len(sizes) % 2:
        raise InvalidValue(f"anchors has a width and a height for each anchor, not {anchors!r}")
    own = [checked_int("anchor_mask", item, 0) for item in mask]
    if not own or max(own) >= len(sizes) // 2:
        raise InvalidValue(f"anchor_mask has numbers of the {len(sizes) // 2} anchors, not {mask!r}")
    if x.ndim != 4 or x.shape[1] != len(own) * (5 + classes) or min(x.shape[2:]) < 1:
        raise ShapeError(f"x is [batch, {len(own)} * (5 + {classes}), height, width] of known extents, not {x!r}")
    return _Head(x.shape[2], x.shape[3], pixels, classes, sizes.reshape(-1, 2), own)


def _entropy(logits: Variable, target: object) -> Variable:
    return emitted("sigmoid_cross_entropy_with_logits", [logits, target])  # type: ignore[no-any-return]


def _constant(array: Array, like: Variable) -> Variable:
    return assign(array.astype(like.dtype))


def _assigned(head: _Head, boxes: Variable, scores: Variable) -> tuple[Variable, Variable]:
    """The cell of each right box among all cells of the head, and how much it counts: 0 for padding, and for other heads' anchors."""
    wide, high = boxes[:, :, 2:3], boxes[:, :, 3:4]
    shares = head.shares[None, None]
    # Of shapes alone, as if the box and the anchor had one center: [batch, boxes, anchors].
    inner = emitted("elementwise_min", [wide, _constant(shares[..., 0], boxes)]) * emitted(
        "elementwise_min", [high, _constant(shares[..., 1], boxes)]
    )
    overlap = inner / (wide * high + _constant(shares.prod(-1), boxes) - inner)
    # The anchor of the box's shape, of all heads; -1 for the anchors of others.
    place_of = np.full(len(head.anchors), -1)
    place_of[head.mask] = np.arange(len(head.mask))
    own = emitted("gather", [assign(place_of), emitted("reshape", [emitted("arg_max", [overlap], axis=-1)], shape=[-1])])
    own = emitted("reshape", [own], shape=[-1, boxes.shape[1]])
    counts = (wide[:, :, 0] > VALID) & (high[:, :, 0] > VALID) & (own >= 0)
    columns, rows = ((boxes[:, :, at] * float(places)).astype("int64") for at, places in ((0, head.width), (1, head.height)))
    # Cells are numbered anchor by anchor, row by row.
    cell = emitted("relu", [own.astype("int64")]) * (head.height * head.width) + rows * head.width + columns
    return emitted("where", [counts, cell, emitted("fill_zeros_like", [cell])]), scores * counts.astype(scores.dtype)


def _place_loss(head: _Head, chosen: Variable, boxes: Variable, cell: Variable) -> Variable:
    """The loss of places: the cross entropy of centers, which are sigmoids, and the distance of extents, which are logarithms."""
    column, row = (cell % head.width).astype(boxes.dtype), (cell // head.width % head.height).astype(boxes.dtype)
    x, y = boxes[:, :, 0] * float(head.width) - column, boxes[:, :, 1] * float(head.height) - row
    best = emitted(
        "gather", [_constant(head.shares[head.mask], boxes), emitted("reshape", [cell // (head.height * head.width)], shape=[-1])]
    )
    anchors = emitted("reshape", [best], shape=[-1, boxes.shape[1], 2])
    # Padding has no extent, of which the logarithm would be infinite; it counts nothing.
    extents = emitted("elementwise_max", [boxes[:, :, 2:], _constant(np.full((1, 1, 2), VALID), boxes)])
    sizes: Variable = (chosen[:, :, 2:4] - (extents / anchors).log()).abs().sum(2)
    return _entropy(chosen[:, :, 0], x) + _entropy(chosen[:, :, 1], y) + sizes


def _class_loss(head: _Head, logits: Variable, labels: Variable, smooth: float) -> Variable:
    hot = emitted("one_hot_v2", [labels], depth=head.classes, dtype="float32").astype(logits.dtype)
    # 1 - smooth for the right class, smooth for the others.
    return _entropy(logits, hot * (1.0 - 2.0 * smooth) + smooth).sum(2)


def _best_overlap(head: _Head, parts: Variable, boxes: Variable, factor: float) -> Variable:
    """The best overlap of the box of each cell with a right box, ``[batch, anchors, height, width]``."""
    centers, halves = [], []
    for at, places in enumerate((head.width, head.height)):
        grid = _constant(np.arange(places).reshape([1, 1, 1, -1] if at == 0 else [1, 1, -1, 1]), parts)
        # b = (factor * sigmoid(t) - (factor - 1) / 2 + cell) / cells for centers, and anchor * exp(t) for extents.
        centers.append((emitted("sigmoid", [parts[:, :, at]]) * factor + (0.5 - 0.5 * factor) + grid) / float(places))
        halves.append(parts[:, :, 2 + at].exp() * _constant(head.shares[head.mask][:, at].reshape(1, -1, 1, 1) / 2, parts))
    inner: Variable | None = None
    for at, (center, half) in enumerate(zip(centers, halves, strict=True)):
        low, high = (emitted("unsqueeze", [side], axes=[4]) for side in (center - half, center + half))
        middle, extent = (emitted("unsqueeze", [boxes[:, :, column]], axes=[1, 2, 3]) for column in (at, 2 + at))
        side = emitted("elementwise_min", [high, middle + extent * 0.5]) - emitted("elementwise_max", [low, middle - extent * 0.5])
        inner = emitted("relu", [side]) if inner is None else inner * emitted("relu", [side])
    assert inner is not None
    own = emitted("unsqueeze", [halves[0] * halves[1] * 4.0], axes=[4])
    areas = emitted("unsqueeze", [boxes[:, :, 2] * boxes[:, :, 3]], axes=[1, 2, 3])
    best: Variable = emitted("reduce_max", [inner / (own + areas - inner)], dim=[4])
    best.stop_gradient = True
    return best


def _object_loss(head: _Head, parts: Variable, cell: Variable, weight: Variable, ignored: Variable) -> Variable:
    """Whether there is an object: 1 for the cells of right boxes, 0 for the others but those that are ignored."""
    count = cell.shape[1]
    if count < 1:
        raise ShapeError("layers.yolov3_loss: the number of right boxes of an image, gt_box.shape[1], has to be known")
    # Of several boxes in one cell the last one counts: the largest of the places, which begin at 1 so that 0 says none.
    hot = emitted("one_hot_v2", [cell], depth=head.cells, dtype="float32").astype(weight.dtype)
    places = _constant(np.arange(1, count + 1).reshape(1, -1, 1), weight) * (weight.unsqueeze(-1) > 0.0).astype(weight.dtype)
    last = emitted("reduce_max", [hot * places], dim=[1]).astype("int64")
    none = emitted("fill_zeros_like", [weight[:, :1]])
    counts = emitted("take_along_axis", [emitted("concat", [[none, weight]], axis=1), last], Axis=1)
    logits = emitted("reshape", [parts[:, :, 4]], shape=[-1, head.cells])
    # Paddle's bound: a box that counts less is none.
    absent = (counts <= 1e-5).astype(logits.dtype) * (~emitted("reshape", [ignored], shape=[-1, head.cells])).astype(logits.dtype)
    ones = emitted("fill_any_like", [logits], value=1.0)
    total: Variable = (_entropy(logits, ones) * counts + _entropy(logits, ones - 1.0) * absent).sum(1)
    return total
