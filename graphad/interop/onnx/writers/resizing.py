"""Images resized, sampled, and rearranged between channels and space."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.interop.onnx.emitting import Dim, Nodes
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.convolving import along, from_front, to_front
from graphad.interop.onnx.writers.writer import Call, CannotWrite, Result, writes
from graphad.ops.vision import CUBIC, METHODS, FirstInterpolation, Interpolation, Resampling, _scales, homogeneous

# -- resized -------------------------------------------------------------------------------------
# Every method is a product with one matrix ``[new, old]`` for each spatial axis: a constant, or made of the extents by a run.


def _matrix(nodes: Nodes, spec: Resampling, old: Dim, new: Dim, scale: float, dtype: Any) -> Term:
    if isinstance(old, int) and isinstance(new, int):
        return nodes.constant(spec.matrix(old, new, scale, dtype))
    kind = dtype.name
    last = nodes.cast(nodes.as_scalar(old), kind) - 1.0
    columns = nodes.cast(nodes.range(old), kind)
    matrix: Term | None = None
    # A sum of one-hot rows: where two places are clamped to the same element of the border, their weights add up as in the kernel.
    for place, weight in _picked(nodes, spec, old, new, scale, kind, last):
        at = on.minimum(on.maximum(place, 0.0), last)
        mask = nodes.cast(on.equal(nodes.unsqueeze(at, [1]), columns), kind)
        share = mask if weight is None else mask * nodes.unsqueeze(weight, [1])
        matrix = share if matrix is None else matrix + share
    assert matrix is not None
    return matrix


def _positions(nodes: Nodes, spec: Resampling, old: Dim, new: Dim, scale: float, kind: str, shift: float) -> Term:
    k = nodes.cast(nodes.range(new), kind) + shift
    a, b = (nodes.cast(nodes.as_scalar(size), kind) for size in (old, new))
    # As the kernel's ``positions``, with extents that may be known only when the model runs.
    at = k * (a - 1.0) / on.maximum(b - 1.0, 1.0) if spec.align_corners else k / scale if scale > 0 else k * a / b
    return on.where(on.greater(b, 1.0), at, 0.0)


def _picked(nodes: Nodes, spec: Resampling, old: Dim, new: Dim, scale: float, kind: str, last: Term) -> list[tuple[Term, Term | None]]:
    """The elements of the old axis that each of the new one is made of, and their weights."""
    at = _positions(nodes, spec, old, new, scale, kind, 0.0)
    if spec.interp_method == "nearest":
        return [(on.floor(at + (0.5 if spec.align_corners else 0.0)), None)]
    center_positions = _positions(nodes, spec, old, new, scale, kind, 0.5) - 0.5
    if spec.interp_method == "bicubic":
        at = at if spec.align_corners else center_positions
        base = on.floor(at)
        t = at - base
        # Keys' cubic convolution (R. Keys, 1981): two elements on either side, by their distances.
        return [(base - 1.0, _far(t + 1.0)), (base, _near(t)), (base + 1.0, _near(1.0 - t)), (base + 2.0, _far(2.0 - t))]
    at = on.maximum(center_positions, 0.0) if spec.align_mode == 0 and not spec.align_corners else at
    low = on.minimum(on.floor(at), last)
    return [(low, 1.0 - (at - low)), (low + 1.0, at - low)]


def _near(x: Term) -> Term:
    return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1.0


def _far(x: Term) -> Term:
    return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC


def _resized(nodes: Nodes, x: Term, spec: Resampling, old: list[Dim], new: list[Dim], back: bool) -> Term:
    """x multiplied along each spatial axis, or by the transposes of the matrices."""
    scales = _scales(spec.scale, len(old))
    for axis, (a, b, scale) in enumerate(zip(old, new, scales, strict=True), 2):
        matrix = _matrix(nodes, spec, a, b, scale, x.dtype)
        x = along(nodes, nodes.swapped(matrix) if back else matrix, x, axis)
    return x


def _known_scale(call: Call, scale: list[float]) -> list[float]:
    tensor = call.get("Scale")
    if tensor is None:
        return scale
    if tensor.array is None:
        raise CannotWrite("the scale is not known before a run")
    return [float(factor) for factor in tensor.array.ravel()]


@writes("resample", "resample_spread")
def _resample(call: Call) -> Result:
    nodes, back = call.nodes, call.type == "resample_spread"
    spec = Resampling(**{**call.attrs, "scale": _known_scale(call, call.attr("scale"))})
    x, like = (to_front(nodes, call[slot], spec.data_layout) for slot in ("X", "Like"))
    sides = (nodes.dims(like)[2:], nodes.dims(x)[2:])
    old, new = sides if back else sides[::-1]
    return from_front(nodes, _resized(nodes, x, spec, old, new, back), spec.data_layout)


@writes(*(f"{method}_interp{version}" for method in METHODS for version in ("", "_v2")))
def _interp(call: Call) -> Result:
    nodes, second = call.nodes, call.type.endswith("_v2")
    spec = (Interpolation if second else FirstInterpolation)(**call.attrs)
    x = to_front(nodes, call["X"], spec.data_layout)
    scales = [] if call.inputs.get("SizeTensor") else _known_scale(call, spec.scales)
    # By ONNX's own node where it means the same to the last digit; else by gathers and weights.
    if call.inputs.get("OutSize") is None and (mode := _resize_mode(spec, x, scales)):
        factors = nodes.constant(np.asarray([1.0, 1.0, *_scales(scales, 2)], "float32"))
        sizes = [*x.sizes[:2], *spec.extents(x.shape[2:], scales)] if -1 not in x.shape[2:] else [*x.sizes[:2], -1, -1]
        result = nodes.one("Resize", [x, None, factors], x.kind, sizes, **mode)
        return from_front(nodes, result, spec.data_layout)
    new = _new_extents(call, spec, x, scales)
    resampling = Resampling(**spec.resampling(scales if second else ()))
    return from_front(nodes, _resized(nodes, x, resampling, nodes.dims(x)[2:], new, False), spec.data_layout)


def _resize_mode(spec: Interpolation, x: Term, scales: list[float]) -> dict[str, object]:
    """The attributes of ONNX's Resize for a method; empty where Resize means something else by it, or runtimes have no kernel."""
    # Factors that float32 does not hold give other extents there.
    if x.kind != "float32" or x.ndim != 4 or not scales or any(s <= 0 or float(np.float32(s)) != s for s in scales):
        return {}
    if spec.interp_method == "nearest" and not spec.align_corners:
        return {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if spec.interp_method == "bilinear":
        center = "pytorch_half_pixel" if spec.align_mode == 0 else "asymmetric"
        return {"mode": "linear", "coordinate_transformation_mode": "align_corners" if spec.align_corners else center}
    return {}


def _new_extents(call: Call, spec: Interpolation, x: Term, scales: list[float]) -> list[Dim]:
    nodes, rank = call.nodes, x.ndim - 2
    # In the kernel's order: a list of tensors, then one tensor, then the attributes.
    if call.inputs.get("SizeTensor"):
        return [nodes.as_vector(term) if term.array is None else int(term.array.ravel()[0]) for term in call.all("SizeTensor")]
    size = call.get("OutSize")
    if size is not None:
        if size.array is not None:
            return [int(number) for number in size.array.ravel()]
        return [nodes.part(nodes.cast(size, "int64"), 0, i, i + 1) for i in range(rank)]
    if not scales or -1 not in x.shape[2:]:
        return list(spec.extents(x.shape[2:], scales))
    factors = _scales(scales, rank)
    extents = [nodes.extent(x, i + 2) for i in range(rank)]
    return [
        int(e * s) if isinstance(e, int) else nodes.cast(on.floor(nodes.cast(e, "float64") * s), "int64")
        for e, s in zip(extents, factors, strict=True)
    ]


# -- between channels and space ------------------------------------------------------------------


@writes("pixel_shuffle")
def _shuffle(call: Call) -> Result:
    nodes, r = call.nodes, int(call.attr("upscale_factor"))
    x = to_front(nodes, call["X"], call.attr("data_format"))
    n, c, h, w = x.sizes
    # Channels are divided by r squared, height and width multiplied by r, as far as they are known.
    sizes = [
        n,
        *(
            size if not isinstance(size, int) or size == -1 else size * f if f > 0 else size // (r * r)
            for size, f in ((c, 0), (h, r), (w, r))
        ),
    ]
    sizes = [size if isinstance(size, int) else -1 for size in sizes]
    result = nodes.one("DepthToSpace", [x], x.kind, sizes, blocksize=r, mode="CRD")
    return from_front(nodes, result, call.attr("data_format"))


@writes("pixel_unshuffle")
def _unshuffle(call: Call) -> Result:
    nodes, r = call.nodes, int(call.attr("downscale_factor"))
    x = to_front(nodes, call["X"], call.attr("data_format"))
    n, c, h, w = nodes.dims(x)
    rows, columns = (e // r if isinstance(e, int) else on.floor_divide(e, r) for e in (h, w))
    # Rows and columns are split into blocks and places in them; the places become channels.
    blocks = nodes.reshape(x, [n, c, rows, r, columns, r])
    planes = nodes.transpose(blocks, [0, 1, 3, 5, 2, 4])
    result = nodes.reshape(planes, [n, nodes.product([c, r * r]), rows, columns])
    return from_front(nodes, result, call.attr("data_format"))


@writes("shuffle_channel")
def _shuffle_channel(call: Call) -> Result:
    x, nodes, group = call["X"], call.nodes, int(call.attr("group"))
    dims = nodes.dims(x)
    groups = nodes.reshape(x, [dims[0], group, x.shape[1] // group, *dims[2:]])
    return nodes.reshape(nodes.transpose(groups, [0, 2, 1, 3, 4]), dims)


@writes("maxout", "maxout_index")
def _maxout(call: Call) -> Result:
    x, nodes, groups = call["X"], call.nodes, int(call.attr("groups"))
    axis = call.attr("axis") % x.ndim
    dims = nodes.dims(x)
    extent = dims[axis]
    count = extent // groups if isinstance(extent, int) else on.floor_divide(extent, groups)
    parts = nodes.reshape(x, [*dims[:axis], count, groups, *dims[axis + 1 :]])
    if call.type == "maxout":
        return nodes.reduce("Max", parts, [axis + 1])
    place = nodes.arg("ArgMax", parts, axis + 1, keep=False)
    # From the place in a group to the channel's number.
    starts = nodes.unsqueeze(nodes.range(count), list(range(1, x.ndim - axis)))
    return place + starts * groups


# -- grids ---------------------------------------------------------------------------------------


@writes("affine_grid")
def _affine_grid(call: Call) -> Result:
    theta, nodes, shape = call["Theta"], call.nodes, call.attr("output_shape")
    points = nodes.constant(homogeneous(shape, call.attr("align_corners"), theta.dtype))
    grid = nodes.matmul(points, nodes.swapped(theta))
    return nodes.reshape(grid, [nodes.extent(theta, 0), *shape[2:], len(shape) - 2])


@writes("affine_grid_spread")
def _affine_spread(call: Call) -> Result:
    x, nodes, shape = call["X"], call.nodes, call.attr("output_shape")
    points = nodes.constant(homogeneous(shape, call.attr("align_corners"), x.dtype))
    rows = nodes.reshape(x, [nodes.extent(x, 0), len(points.array) if points.array is not None else -1, len(shape) - 2])
    return nodes.matmul(nodes.swapped(rows), points)


MODE_NAMES = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}  # since operator set 20


@writes("grid_sampler")
def _grid_sampler(call: Call) -> Result:
    """Halves of the nearest are rounded to even there, away from zero here."""
    x, grid, mode = call["X"], call["Grid"], call.attr("mode")
    if x.ndim > 4 and call.nodes.opset < 20:
        raise call.cannot("ONNX samples volumes since operator set 20")
    if x.ndim > 4 and mode == "bicubic":
        raise call.cannot("ONNX samples no volumes with cubic weights")
    attrs = {"padding_mode": call.attr("padding_mode"), "align_corners": int(call.attr("align_corners"))}
    attrs["mode"] = MODE_NAMES[mode] if call.nodes.opset >= 20 else mode
    return call.nodes.one("GridSample", [x, grid], x.kind, [x.sizes[0], x.sizes[1], *grid.sizes[1:-1]], **attrs)


@writes("non_max_suppression")
def _suppress(call: Call) -> Result:
    nodes, boxes, scores = call.nodes, call["Boxes"], call["Scores"]
    if boxes.kind != "float32":
        boxes, scores = nodes.cast(boxes, "float32"), nodes.cast(scores, "float32")
    limits = [
        nodes.integers(call.attr("most")),
        *(nodes.constant(np.asarray([call.attr(n)], "float32")) for n in ("iou_threshold", "score_threshold")),
    ]
    # Without this threshold every score counts.
    if not on.isfinite(call.attr("score_threshold")):
        limits = limits[:2]
    return nodes.one("NonMaxSuppression", [boxes, scores, *limits], "int64", [-1, 3], center_point_box=int(call.attr("center")))
