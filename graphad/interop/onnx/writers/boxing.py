"""Boxes in windows, and convolutions whose windows are moved."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from graphad.interop.onnx.emitting import Dim, Nodes
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.writer import Call, CannotWrite, Result, writes
from graphad.ops.roi import Aligning, Deforming, window_places
from graphad.types import Array

# -- boxes ---------------------------------------------------------------------------------------


def _images(call: Call, boxes: Term) -> Term:
    """The image that each box is in: ``[boxes]``, int64."""
    nodes, counts = call.nodes, call.get("RoisNum")
    if counts is None:
        return nodes.full(nodes.dims(boxes)[:1], 0, "int64")
    wide = nodes.cast(counts, "int64")
    ends = nodes.one("CumSum", [wide, nodes.constant(np.asarray(0))], "int64", wide.sizes)
    numbers = nodes.unsqueeze(nodes.range(nodes.extent(boxes, 0)), [1])
    # The number of ends at or before a box is the number of its image.
    return nodes.reduce("Sum", nodes.cast(on.greater_equal(numbers, nodes.unsqueeze(ends, [0])), "int64"), [1])


def _aligning(call: Call) -> Aligning:
    return Aligning(**call.attrs)


@writes("roi_align")
def _roi_align(call: Call) -> Result:
    x, boxes, aligning = call["X"], call["ROIs"], _aligning(call)
    shape = [boxes.sizes[0], x.sizes[1], aligning.pooled_height, aligning.pooled_width]
    return call.nodes.one(
        "RoiAlign",
        [x, boxes, _images(call, boxes)],
        x.kind,
        shape,
        output_height=aligning.pooled_height,
        output_width=aligning.pooled_width,
        sampling_ratio=max(aligning.sampling_ratio, 0),
        spatial_scale=aligning.spatial_scale,
        coordinate_transformation_mode="half_pixel" if aligning.aligned else "output_half_pixel",
    )


@writes("roi_align_spread")
def _roi_align_spread(call: Call) -> Result:
    """Each box's windows times its two matrices, added up by a product with what says which image it is in."""
    x, like, boxes, nodes, aligning = call["X"], call["Like"], call["ROIs"], call.nodes, _aligning(call)
    count, channels, height, width = nodes.dims(like)
    corners = nodes.split(boxes * aligning.spatial_scale - (0.5 if aligning.aligned else 0.0), [1, 1, 1, 1], 1)
    across = _matrix(nodes, aligning, corners[0], corners[2], aligning.pooled_width, width)
    down = _matrix(nodes, aligning, corners[1], corners[3], aligning.pooled_height, height)
    shares = nodes.matmul(nodes.swapped(nodes.unsqueeze(down, [1])), nodes.matmul(x, nodes.unsqueeze(across, [1])))
    rows = nodes.reshape(shares, [nodes.extent(boxes, 0), nodes.product([channels, height, width])])
    # A box's image as a one-hot row: the product adds up the boxes of each image.
    memberships = nodes.swapped(nodes.one_hot(_images(call, boxes), count, x.kind))
    return nodes.reshape(nodes.matmul(memberships, rows), [count, channels, height, width])


def _matrix(nodes: Nodes, how: Aligning, low: Term, high: Term, count: int, extent: Dim) -> Term:
    """``[boxes, count, extent]`` as ``Aligning`` makes it, of sides ``[boxes, 1]``."""
    side = high - low if how.aligned else on.maximum(high - low, 1.0)
    if how.sampling_ratio > 0:
        # As a tensor with a row for each box, as in the other case, where boxes have as many samples as they are large.
        sample_counts = side * 0.0 + float(how.sampling_ratio)
        samples = nodes.constant(np.arange(how.sampling_ratio))
    else:
        sample_counts = on.ceil(side / float(count))
        # Boxes have different numbers of samples: all are given the largest one, and ``counts`` leaves the surplus out. The 1 keeps Max
        # from having no elements where there are no boxes.
        most = on.maximum(nodes.reduce("Max", nodes.concat([sample_counts, nodes.constant(np.ones((1, 1), low.dtype))], 0), [0, 1]), 1.0)
        samples = nodes.range(nodes.as_vector(nodes.cast(most, "int64")))
    sample = nodes.cast(nodes.unsqueeze(samples, [0, 1]), low.kind)
    low, side, sample_counts = (nodes.unsqueeze(term, [2]) for term in (low, side, sample_counts))
    steps, window = on.maximum(sample_counts, 1.0), nodes.constant(np.arange(count, dtype=low.dtype).reshape(1, count, 1))
    at = low + (window + (sample + 0.5) / steps) * (side / float(count))
    last = nodes.cast(nodes.as_scalar(extent), low.kind)
    # Samples more than one pixel outside count as zero, but stay in the divisor, as in the kernel.
    counts = reduce(on.logical_and, (on.less(sample, sample_counts), on.greater_equal(at, -1.0), on.less_equal(at, last)))
    elements = nodes.cast(nodes.unsqueeze(nodes.range(extent), [0, 1, 2]), low.kind)
    # Linear interpolation as a hat function: an element counts by one less its distance from the sample, if that is positive.
    near = on.maximum(1.0 - on.abs(nodes.unsqueeze(on.minimum(on.maximum(at, 0.0), last - 1.0), [3]) - elements), 0.0)
    return nodes.reduce("Sum", near * nodes.unsqueeze(nodes.cast(counts, low.kind) / steps, [3]), [2])


@writes("roi_pool")
def _roi_pool(call: Call) -> Result:
    if call.is_read("Argmax"):
        raise CannotWrite("ONNX's MaxRoiPool does not say where the largest elements are")
    x, boxes, nodes = call["X"], call["ROIs"], call.nodes
    size = [int(call.attr("pooled_height")), int(call.attr("pooled_width"))]
    rows = nodes.concat([nodes.cast(nodes.unsqueeze(_images(call, boxes), [1]), x.kind), boxes], 1)
    shape = [boxes.sizes[0], x.sizes[1], *size]
    return nodes.one("MaxRoiPool", [x, rows], x.kind, shape, pooled_shape=size, spatial_scale=float(call.attr("spatial_scale"))), None


def _elements(call: Call, index: Term, image: Sequence[Dim]) -> tuple[Term, Term]:
    """The positions of the elements in all images together, and a mask of those that exist."""
    nodes, (channels, height, width) = call.nodes, image
    size, parts = nodes.product([height, width]), nodes.unsqueeze(nodes.range(channels), [0])
    numbers = nodes.unsqueeze(_images(call, index), [1]) * nodes.as_scalar(channels) + parts
    flat = nodes.unsqueeze(numbers * nodes.as_scalar(size), [2, 3]) + on.maximum(nodes.cast(index, "int64"), 0)
    return flat, on.greater_equal(index, 0)


@writes("roi_pool_gather_max")
def _roi_gather(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    places, has = _elements(call, call["Argmax"], nodes.dims(x)[1:])
    return on.where(has, nodes.gather(nodes.flatten(x), places, 0), 0.0)


@writes("roi_pool_scatter_max")
def _roi_scatter(call: Call) -> Result:
    x, like, nodes = call["X"], call["Like"], call.nodes
    places, has = _elements(call, call["Argmax"], nodes.dims(like)[1:])
    zeros = nodes.full([nodes.product(nodes.dims(like))], 0, x.kind)
    total = nodes.put(zeros, nodes.flatten(places), nodes.flatten(on.where(has, x, 0.0)), 0, "add")
    return nodes.reshape(total, nodes.dims(like))


# -- deformable convolutions -----------------------------------------------------------------------
# ONNX has them since operator set 19; of what older sets have they are samples of four elements, gathered, and a product.


@writes("window_places")
def _places(call: Call) -> Result:
    nodes, like = call.nodes, call["Like"]
    return nodes.expand(nodes.constant(_one_image(call.attrs, like.shape, like.dtype)), nodes.dims(like))


def _one_image(attrs: dict[str, object], shape: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    if -1 in shape[1:]:
        raise CannotWrite("the offsets have unknown extents")
    return np.asarray(window_places(np.zeros((1, *shape[1:]), dtype), **attrs))


@writes("deformable_conv", "deformable_conv_v1")
def _deformable(call: Call) -> Result:
    x, offset, weights, nodes = call["Input"], call["Offset"], call["Filter"], call.nodes
    deforming, kernel = Deforming(**call.attrs), list(weights.shape[2:])
    channels, height, width = x.shape[1:]
    windows, elements, part = math.prod(offset.shape[2:]), math.prod(kernel), channels // deforming.deformable_groups
    attrs = {"strides": deforming.strides, "paddings": deforming.paddings, "dilations": deforming.dilations}
    # Where a plain convolution would take its elements; the offsets come on top, so what is left is to sample and to multiply.
    places = _one_image({"image": [height, width], "kernel": kernel, **attrs}, offset.shape, offset.dtype)
    pairs = nodes.reshape(offset + nodes.constant(places), [-1, elements, 2, windows])
    y, across = (nodes.reshape(nodes.part(pairs, 2, i, i + 1), [-1, 1, elements * windows]) for i in range(2))
    rows = nodes.reshape(x, [-1, part, height * width])
    # The four corners of bilinear interpolation, each a gather with its weight.
    columns = reduce(
        add, (_corner(nodes, rows, a, b, width) for a, b in itertools.product(_beside(nodes, y, height), _beside(nodes, across, width)))
    )
    mask = call.get("Mask")
    columns = columns if mask is None else columns * nodes.reshape(mask, [-1, 1, elements * windows])
    column_groups = nodes.reshape(columns, [-1, deforming.groups, channels // deforming.groups * elements, windows])
    filters = nodes.reshape(weights, [deforming.groups, weights.shape[0] // deforming.groups, channels // deforming.groups * elements])
    return nodes.reshape(nodes.matmul(filters, column_groups), [nodes.extent(x, 0), weights.shape[0], *offset.shape[2:]])


def _beside(nodes: Nodes, at: Term, extent: int) -> list[tuple[Term, Term]]:
    """The two elements beside each place along an axis, and their weights, zero outside of the image."""
    low = on.floor(at)
    pairs = ((low, 1.0 - (at - low)), (low + 1.0, at - low))
    within = (on.logical_and(on.greater_equal(number, 0.0), on.less_equal(number, extent - 1.0)) for number, _ in pairs)
    return [
        (on.minimum(on.maximum(number, 0.0), extent - 1.0), weight * nodes.cast(inside, at.kind))
        for (number, weight), inside in zip(pairs, within, strict=True)
    ]


def _corner(nodes: Nodes, rows: Term, row: tuple[Term, Term], column: tuple[Term, Term], width: int) -> Term:
    number = nodes.cast(row[0] * float(width) + column[0], "int64")
    index = nodes.expand(number, [nodes.extent(rows, 0), rows.shape[1], number.shape[2]])
    return nodes.take(rows, index, 2) * (row[1] * column[1])
