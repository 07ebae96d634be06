"""Parts of images: boxes in windows, and convolutions whose windows are moved."""

from __future__ import annotations

import itertools
from functools import reduce

import numpy as np

from graphad.errors import ParseError
from graphad.interop.onnx.handlers.convolving import spatial, with_bias
from graphad.interop.onnx.handlers.handler import Node, handles
from graphad.interop.onnx.handlers.reducing import extent
from graphad.interop.onnx.operands import NotKnown, UnsupportedModel, Value

# -- boxes ---------------------------------------------------------------------------------------


class _Sorted:
    """Boxes with the image of each, in any order, as Paddle has them: those of the first image first, with how many each image has."""

    def __init__(self, node: Node, boxes: Value, images: Value, x: Value) -> None:
        self.node, ops = node, node.ops
        count = ops.reshape(ops.cast(extent(node, x, 0), out_dtype="int64"), shape=[1])
        numbers = ops.range(Value(np.zeros(1, "int64")), count, Value(np.ones(1, "int64")))
        wide = ops.unsqueeze(ops.cast(images, out_dtype="int64"), axes=[1])
        memberships = ops.cast(ops.equal(wide, ops.unsqueeze(numbers, axes=[0])), out_dtype="int64")
        self.counts = ops.reduce_sum(memberships, dim=[0])
        self.order = ops.several("argsort", images, axis=0)[1]
        self.boxes = ops.gather(boxes, self.order, axis=0)

    def in_order(self, windows: Value) -> Value:
        """The windows of the boxes in the order of the model."""
        return self.node.ops.gather(windows, self.node.ops.several("argsort", self.order, axis=0)[1], axis=0)


@handles("RoiAlign")
def _roi_align(node: Node) -> Value:
    mode = str(node.attr("mode", "avg"))
    if mode not in ("avg", "max"):
        raise ParseError(f"mode={mode!r} is neither 'avg' nor 'max'")
    height, width, samples = (int(node.attr(*item)) for item in (("output_height", 1), ("output_width", 1), ("sampling_ratio", 0)))
    if mode == "max":
        return _largest_samples(node, height, width, samples)
    # ONNX gives each box the number of its image; here boxes are sorted by image and counted, and results are put back in order.
    boxes = _Sorted(node, node[1], node[2], node[0])
    attrs: dict[str, object] = {"pooled_height": height, "pooled_width": width, "sampling_ratio": samples if samples > 0 else -1}
    attrs |= {"spatial_scale": float(node.attr("spatial_scale", 1.0)), "aligned": _is_aligned(node)}
    return boxes.in_order(node.ops.roi_align(node[0], boxes.boxes, boxes.counts, **attrs))


def _largest_samples(node: Node, height: int, width: int, samples: int) -> Value:
    """The largest of all samples in each window, where a sample is the largest of four elements, each times its weight.

    That is what ONNX's reference and onnxruntime compute; the largest of interpolated values would be another number.
    """
    x, boxes, images, ops = node[0], node[1], node[2], node.ops
    if samples < 1:
        raise UnsupportedModel("RoiAlign with mode='max' of as many samples as a window has elements")
    if -1 in x.shape[1:]:
        raise NotKnown("RoiAlign with mode='max' of extents that are not known before the model runs")
    edges = ops.scale(boxes, scale=float(node.attr("spatial_scale", 1.0)), bias=-0.5 * _is_aligned(node))
    columns = ops.several("split", edges, num=4, axis=1)
    across = _along(node, columns[0], columns[2], width, samples, x.shape[3])
    down = _along(node, columns[1], columns[3], height, samples, x.shape[2])
    rows = ops.reshape(ops.gather(x, images, axis=0), shape=[-1, x.shape[1], x.shape[2] * x.shape[3]])
    # Elements are found by their number in a flattened image: row * width + column, for each pair of a row and a column beside the sample.
    corners = []
    for (row, above), (column, beside) in itertools.product(down, across):
        number = ops.elementwise_add(ops.unsqueeze(ops.scale(row, scale=float(x.shape[3])), axes=[2]), ops.unsqueeze(column, axes=[1]))
        weight = ops.elementwise_mul(ops.unsqueeze(above, axes=[2]), ops.unsqueeze(beside, axes=[1]))
        pair = [ops.reshape(factor, shape=[-1, 1, height * samples * width * samples]) for factor in (number, weight)]
        index = ops.expand_v2(ops.cast(pair[0], out_dtype="int64"), shape=[-1, x.shape[1], -1])
        corners.append(ops.elementwise_mul(ops.take_along_axis(rows, index, Axis=2), pair[1]))
    largest = reduce(ops.elementwise_max, corners)
    return ops.reduce_max(ops.reshape(largest, shape=[-1, x.shape[1], height, samples, width, samples]), dim=[3, 5])


def _along(node: Node, low: Value, high: Value, count: int, samples: int, extent: int) -> list[tuple[Value, Value]]:
    """The two elements beside each sample along an axis, and their weights: each ``[boxes, count * samples]``."""
    ops = node.ops
    side = ops.elementwise_sub(high, low)
    side = side if _is_aligned(node) else ops.clip(side, min=1.0, max=float(np.finfo(side.dtype).max))
    parts = Value((np.arange(count * samples, dtype=low.dtype)[None] + 0.5) / (count * samples))
    at = ops.elementwise_add(low, ops.elementwise_mul(side, parts))
    within = ops.logical_and(ops.greater_equal(at, ops.like(-1.0, at)), ops.less_equal(at, ops.like(extent, at)))
    inside = ops.cast(within, out_dtype=at.dtype)
    # Samples up to one pixel outside count as those at the edge.
    at = ops.clip(at, min=0.0, max=extent - 1.0)
    first = ops.floor(at)
    second = ops.clip(ops.scale(first, scale=1.0, bias=1.0), min=0.0, max=extent - 1.0)
    share = ops.elementwise_sub(at, first)
    return [
        (first, ops.elementwise_mul(ops.scale(share, scale=-1.0, bias=1.0), inside)),
        (second, ops.elementwise_mul(share, inside)),
    ]


def _is_aligned(node: Node) -> bool:
    """Whether elements lie at halves: not before operator set 16, and there unless it is said otherwise."""
    return node.version >= 16 and str(node.attr("coordinate_transformation_mode", "half_pixel")) == "half_pixel"


@handles("MaxRoiPool")
def _max_roi_pool(node: Node) -> Value:
    x, rows, ops = node[0], node[1], node.ops
    height, width = (int(item) for item in node.required("pooled_shape"))
    # A row is (image, x1, y1, x2, y2); roi_pool takes the boxes of all images one after the other, and how many each has.
    images = ops.reshape(ops.slice(rows, axes=[1], starts=[0], ends=[1]), shape=[-1])
    boxes = _Sorted(node, ops.slice(rows, axes=[1], starts=[1], ends=[5]), images, x)
    attrs = {"pooled_height": height, "pooled_width": width, "spatial_scale": float(node.attr("spatial_scale", 1.0))}
    return boxes.in_order(ops.several("roi_pool", x, boxes.boxes, boxes.counts, **attrs)[0])


# -- deformable convolutions -----------------------------------------------------------------------


@handles("DeformConv")
def _deform_conv(node: Node) -> Value:
    x, kernel, offset, bias, mask = node[0], node[1], node[2], node.get(3), node.get(4)
    if x.rank != 4:
        raise UnsupportedModel(f"DeformConv over {x.rank - 2} axes")
    node.extents("an extent of the image or of the filter", *x.shape[1:], *kernel.shape)
    top, left, bottom, right = spatial(node, "pads", 4, 0)
    attrs = {
        "strides": spatial(node, "strides", 2),
        "dilations": spatial(node, "dilations", 2),
        "paddings": [top, bottom, left, right],
        "groups": int(node.attr("group", 1)),
        "deformable_groups": int(node.attr("offset_group", 1)),
    }
    if mask is None:
        return with_bias(node, node.ops.deformable_conv_v1(x, offset, kernel, **attrs), bias)
    return with_bias(node, node.ops.deformable_conv(x, offset, mask, kernel, **attrs), bias)
