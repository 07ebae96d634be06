"""Operators that arrange elements: reshape, transpose, expand, slice, pad, concat, and what undoes them in gradients."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import prod

import numpy as np

from graphad.interop.onnx.emitting import TO_THE_END, Dim, Nodes, is_same
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.pointwise import aligned
from graphad.interop.onnx.writers.writer import Call, CannotWrite, Result, writes
from graphad.ops.inference import normal_axis
from graphad.ops.slicing import Setting, _places

# -- shapes --------------------------------------------------------------------------------------


@writes("shape")
def _shape(call: Call) -> Result:
    return call.nodes.cast(call.nodes.shape_of(call["Input"]), "int32")


@writes("size")
def _size(call: Call) -> Result:
    return call.nodes.size(call["Input"])


def with_shape(call: Call, out: Term) -> Result:
    """The result of an operator that also gives the old shape, as an empty tensor."""
    if "XShape" not in call.definition.outputs:
        return out
    x = call["X"]
    return [out, call.nodes.full([0, *call.nodes.dims(x)], 0, x.kind) if call.wants("XShape") else None]


@writes("reshape", "reshape2")
def _reshape(call: Call) -> Result:
    x = call["X"]
    dims = call.numbers("shape", "Shape", "ShapeTensor")
    if call.attr("allow_zero"):
        known_sizes = [-1 if isinstance(dim, Term) else dim for dim in dims]
        return with_shape(call, call.nodes.one("Reshape", [x, call.nodes.vector(dims)], x.kind, known_sizes, allowzero=1))
    dims = [call.nodes.extent(x, i) if isinstance(dim, int) and not dim and i < x.ndim else dim for i, dim in enumerate(dims)]
    if any(isinstance(dim, Term) and not dim.is_extent for dim in dims):  # they may be 0 or -1, which mean the same in ONNX
        sizes = [-1 if isinstance(dim, Term) and not dim.is_extent else dim for dim in dims]
        return with_shape(call, call.nodes.one("Reshape", [x, call.nodes.vector(dims)], x.kind, sizes))
    return with_shape(call, call.nodes.reshape(x, _remaining(call.nodes, x, dims)))


def _remaining(nodes: Nodes, x: Term, dims: list[Dim]) -> list[Dim]:
    """Extents that are all known, -1 among them as a number."""
    numbers = [dim for dim in dims if isinstance(dim, int)]
    if len(numbers) < len(dims) or -1 not in numbers or -1 in x.shape or 0 in numbers:
        return dims
    # The product has the factor -1: its absolute value is that of the others.
    rest = prod(x.shape) // max(1, -prod(numbers))
    return [rest if dim == -1 else dim for dim in numbers]


@writes("transpose", "transpose2")
def _transpose(call: Call) -> Result:
    return with_shape(call, call.nodes.transpose(call["X"], call.attr("axis")))


@writes("squeeze", "squeeze2")
def _squeeze(call: Call) -> Result:
    x, axes = call["X"], call.attr("axes")
    if not axes and -1 in x.shape:
        raise CannotWrite("which axes have one element is not known before a run")
    places = {normal_axis(a, x.ndim) for a in axes if x.ndim} if axes else {i for i, e in enumerate(x.shape) if e == 1}
    return with_shape(call, call.nodes.squeeze(x, sorted(i for i in places if x.shape[i] in (1, -1))))


@writes("unsqueeze", "unsqueeze2")
def _unsqueeze(call: Call) -> Result:
    x = call["X"]
    order = list(range(x.ndim))  # -1 stands for a new axis
    for axis in call.attr("axes"):
        order.insert(normal_axis(axis, len(order) + 1), -1)
    return with_shape(call, call.nodes.unsqueeze(x, [i for i, place in enumerate(order) if place == -1]))


@writes("flatten", "flatten2")
def _flatten(call: Call) -> Result:
    x, axis = call["X"], call.attr("axis")
    dims = call.nodes.dims(x)
    return with_shape(call, call.nodes.reshape(x, [call.nodes.product(dims[:axis]), call.nodes.product(dims[axis:])]))


@writes("flatten_contiguous_range")
def _flatten_range(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    if not x.ndim:
        return with_shape(call, nodes.reshape(x, [1]))
    start, stop = (normal_axis(call.attr(name), x.ndim) for name in ("start_axis", "stop_axis"))
    dims = nodes.dims(x)
    return with_shape(call, nodes.reshape(x, [*dims[:start], nodes.product(dims[start : stop + 1]), *dims[stop + 1 :]]))


@writes("reshape_like")
def _reshape_like(call: Call) -> Result:
    like, skip = call["Like"], call.attr("skip")
    return call.nodes.reshape(call["X"], call.nodes.dims(like)[skip:])


# -- expanded and summed -------------------------------------------------------------------------


@writes("expand_like")
def _expand_like(call: Call) -> Result:
    like = call["Like"]
    return call.nodes.expand(aligned(call, like, call["X"], call.attr("axis")), call.nodes.dims(like))


@writes("sum_like")
def _sum_like(call: Call) -> Result:
    x, like = call["X"], call["Like"]
    return summed_like(call.nodes, x, like, aligned(call, x, like, call.attr("axis")).shape)


def summed_like(nodes: Nodes, x: Term, like: Term, wide: Sequence[int]) -> Term:
    """x summed over the axes along which a tensor of the extents ``wide`` is broadcast to it, in the shape of ``like``.

    Where only a run knows whether that is an axis, it chooses.
    """
    lead = x.ndim - len(wide)
    axes = [i for i in range(x.ndim) if (i < lead or wide[i - lead] == 1) and x.shape[i] != 1]
    # Whether an axis was broadcast shows only in a run if its extent is not known: then an If sums it, or leaves it.
    open_ = [i for i in range(lead, x.ndim) if wide[i - lead] == -1 and x.shape[i] != 1]
    open_ = [i for i in open_ if not is_same(x.sizes[i], like.sizes[i - lead])]
    x = nodes.reduce("Sum", x, axes, keep=bool(open_))
    for i in open_:
        x = _summed_if(nodes, x, i, nodes.extent(like, i - lead))
    return nodes.reshape(x, nodes.dims(like))


def _summed_if(nodes: Nodes, x: Term, axis: int, extent: Dim) -> Term:
    """x summed over an axis if that has another extent in what it is the gradient of."""
    size = nodes.extent(x, axis)
    is_equal = on.equal(extent, size)
    return nodes.choose(is_equal, lambda: [nodes.copied(x)], lambda: [nodes.reduce("Sum", x, [axis], keep=True)])[0]


@writes("expand_v2")
def _expand(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    dims = call.numbers("shape", "Shape", "expand_shapes_tensor")
    lead = len(dims) - x.ndim
    # -1 keeps an extent of x. As a number that is known here; as an element of a tensor only a run can tell, by a Where.
    target: list[Dim] = [nodes.extent(x, i - lead) if isinstance(e, int) and e == -1 else e for i, e in enumerate(dims)]
    target = [
        on.where(on.equal(e, -1), nodes.extent(x, i - lead), e) if isinstance(e, Term) and i >= lead else e for i, e in enumerate(target)
    ]
    return nodes.expand(x, target)


@writes("expand_as_v2")
def _expand_as(call: Call) -> Result:
    y = call.get("Y")
    return call.nodes.expand(call["X"], call.attr("target_shape") if y is None else call.nodes.dims(y))


def _repeats(call: Call, rank: int, name: str, whole: str, each: str) -> tuple[list[Dim], int]:
    """How often each axis is repeated, with as many axes as there are numbers at least."""
    repeats = call.numbers(name, whole, each)
    count = max(rank, len(repeats))
    return [1] * (count - len(repeats)) + repeats, count


def _tiled(call: Call, name: str, whole: str, each: str) -> Term:
    x, nodes = call["X"], call.nodes
    repeats, count = _repeats(call, x.ndim, name, whole, each)
    x = nodes.unsqueeze(x, list(range(count - x.ndim)))
    shape = [e * r if isinstance(r, int) and e != -1 else -1 for e, r in zip(x.shape, repeats, strict=True)]
    return nodes.one("Tile", [x, nodes.vector(repeats)], x.kind, shape) if count else x


@writes("tile")
def _tile(call: Call) -> Result:
    return _tiled(call, "repeat_times", "RepeatTimes", "repeat_times_tensor")


@writes("expand")
def _expand_times(call: Call) -> Result:
    return _tiled(call, "expand_times", "ExpandTimes", "expand_times_tensor")


@writes("untile")
def _untile(call: Call) -> Result:
    x, like, nodes = call["X"], call["Like"], call.nodes
    repeats, count = _repeats(call, like.ndim, "repeat_times", "RepeatTimes", "repeat_times_tensor")
    dims: list[Dim] = [*[1] * (count - like.ndim), *nodes.dims(like)]
    # A pair of axes for each axis: the repeats, which are added up, and the extent.
    blocks = nodes.one(
        "Reshape", [x, nodes.vector([e for pair in zip(repeats, dims, strict=True) for e in pair])], x.kind, [-1] * 2 * count
    )
    return nodes.reshape(nodes.reduce("Sum", blocks, list(range(0, 2 * count, 2))), nodes.dims(like))


# -- order ---------------------------------------------------------------------------------------


@writes("flip", "reverse")
def _flip(call: Call) -> Result:
    return call.nodes.flip(call["X"], call.attr("axis"))


@writes("roll")
def _roll(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    shifts, axes = call.attr("shifts"), call.attr("axis")
    # Without axes all elements are one line, which moves by the sum of the shifts.
    if not axes:
        return nodes.reshape(_rolled(nodes, nodes.flatten(x), sum(shifts), 0), nodes.dims(x))
    for shift, axis in zip(shifts, axes, strict=True):
        x = _rolled(nodes, x, shift, axis % x.ndim)
    return x


def _rolled(nodes: Nodes, x: Term, shift: int, axis: int) -> Term:
    """The shift may be more than the extent."""
    extent = nodes.extent(x, axis)
    if isinstance(extent, int):
        at: Dim = -shift % extent if extent else 0
    else:
        at = on.remainder(-shift, extent)
    return nodes.concat([nodes.part(x, axis, at, TO_THE_END), nodes.part(x, axis, 0, at)], axis)


# -- joined and split ----------------------------------------------------------------------------


@writes("concat")
def _concat(call: Call) -> Result:
    return call.nodes.concat(call.all("X"), call.attr("axis"))


@writes("stack")
def _stack(call: Call) -> Result:
    parts, axis = call.all("X"), call.attr("axis")
    place = normal_axis(axis, parts[0].ndim + 1)
    return call.nodes.concat([call.nodes.unsqueeze(part, [place]) for part in parts], place)


@writes("split")
def _split(call: Call) -> Result:
    x, nodes, axis = call["X"], call.nodes, call.attr("axis") % call["X"].ndim
    extent = nodes.extent(x, axis)
    sections = list(call.attr("sections"))
    count = call.attr("num") or len(sections)
    # Split with a list of extents needs them as numbers or as a tensor: of an unknown axis equal parts are a quotient in the graph.
    if not sections and not isinstance(extent, int):
        whole = on.floor_divide(extent, count)
        return [nodes.split(x, [whole] * count, axis)]
    sizes: list[Dim] = sections or [extent // count] * count
    rest = sum(size for size in sizes if isinstance(size, int) and size != -1)
    return [nodes.split(x, [extent - rest if isinstance(e, int) and e == -1 else e for e in sizes], axis)]


@writes("split_like")
def _split_like(call: Call) -> Result:
    axis = call.attr("axis") % call["X"].ndim
    return [call.nodes.split(call["X"], [call.nodes.extent(term, axis) for term in call.all("Like")], axis)]


@writes("unstack", "unbind")
def _unstack(call: Call) -> Result:
    x, axis = call["X"], call.attr("axis") % call["X"].ndim
    count = len(next(iter(call.op.outputs.values())))
    return [[call.nodes.squeeze(part, [axis]) for part in call.nodes.split(x, [1] * count, axis)]]


@writes("meshgrid")
def _meshgrid(call: Call) -> Result:
    vectors, nodes = call.all("X"), call.nodes
    dims = [nodes.extent(vector, 0) if vector.ndim else 1 for vector in vectors]
    # Each vector along an axis of its own; expanding them all to one shape makes the grid.
    rows = [nodes.reshape(vector, [-1 if j == i else 1 for j in range(len(vectors))]) for i, vector in enumerate(vectors)]
    return [[nodes.expand(row, dims) for row in rows]]


# -- slices --------------------------------------------------------------------------------------


def _bounds(call: Call, rank: int) -> tuple[list[int], list[Dim], list[Dim], list[Dim]]:
    """Axes, starts, ends and steps of a slice."""
    axes = [normal_axis(a, rank) for a in call.attr("axes")]
    starts = call.numbers("starts", "StartsTensor", "StartsTensorList")
    ends = call.numbers("ends", "EndsTensor", "EndsTensorList")
    strides = "strides" in call.definition.attrs
    steps = call.numbers("strides", "StridesTensor", "StridesTensorList") if strides else []
    return axes, starts, ends, steps or [1] * len(axes)


@writes("slice", "strided_slice")
def _slice(call: Call) -> Result:
    x, nodes = call["Input"], call.nodes
    axes, starts, ends, steps = _bounds(call, x.ndim)
    return nodes.squeeze(nodes.slice(x, axes, starts, ends, steps), sorted({a % x.ndim for a in call.attr("decrease_axis")}))


@writes("unslice")
def _unslice(call: Call) -> Result:
    """Pad, if the slice has steps of one; otherwise put the elements at the places that the slice takes them from."""
    x, like, nodes = call["X"], call["Like"], call.nodes
    axes, starts, ends, steps = _bounds(call, like.ndim)
    x = nodes.unsqueeze(x, sorted({a % like.ndim for a in call.attr("decrease_axis")})) if x.ndim < like.ndim else x
    if any(not isinstance(step, int) for step in steps):
        raise CannotWrite("the steps of the slice are not known before a run")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        x = _put_back(nodes, x, like, axis, start, end, step)
    return x


def _put_back(nodes: Nodes, x: Term, like: Term, axis: int, start: Dim, end: Dim, step: Dim) -> Term:
    extent = nodes.extent(like, axis)
    simple = isinstance(start, int) and isinstance(step, int) and step == 1
    # Steps of one leave no gaps, so that zeros before and after are all there is to add; the amounts are clipped as Python's slices are.
    if isinstance(extent, int) and isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        first, last, _ = builtins.slice(start, None if end < -(2**62) else end, step).indices(extent)
        if step == 1:
            last = max(first, last)
            return nodes.pad(x, [first], [extent - last], axes=[axis])
    elif simple and isinstance(start, int):
        first_ = start if start >= 0 else _not_below_zero(extent + start)
        before = _at_most(first_, extent)
        return nodes.pad(x, [before], [extent - before - nodes.extent(x, axis)], axes=[axis])
    # Whatever the bounds are: the same slice of the numbers 0, 1, 2 ... gives the places, without working the bounds out.
    places = nodes.slice(nodes.range(extent), [0], [start], [end], [step])
    rows = nodes.moved(x, axis, 0)
    target: list[Dim] = [extent, *(nodes.extent(x, i) for i in range(x.ndim) if i != axis)]
    out = nodes.scatter(nodes.full(target, 0, x.kind), nodes.unsqueeze(places, [1]), rows)
    return nodes.moved(out, 0, axis)


def _not_below_zero(x: Dim) -> Dim:
    return max(x, 0) if isinstance(x, int) else on.maximum(x, 0)


def _at_most(x: Dim, limit: Dim) -> Dim:
    if isinstance(x, int) and isinstance(limit, int):
        return min(x, limit)
    if isinstance(x, int) and not x:
        return 0
    return on.minimum(x, limit)


@writes("set_value")
def _set_value(call: Call) -> Result:
    """Elements are put where a slice of the numbers of all elements takes them from."""
    x, nodes = call["Input"], call.nodes
    setting = Setting(**call.attrs)
    axes = [normal_axis(a, x.ndim) for a in setting.axes]
    starts, ends = call.numbers("starts", "", "StartsTensorList"), call.numbers("ends", "", "EndsTensorList")
    steps = call.numbers("steps", "", "StepsTensorList") or [1] * len(axes)
    size = nodes.product(nodes.dims(x))
    # Slicing the numbers of all elements, in the shape of x, gives the flat place of each element that is set.
    places = nodes.slice(nodes.reshape(nodes.range(size), nodes.dims(x)), axes, starts, ends, steps)
    value = call.get("ValueTensor")
    if value is None:
        value = nodes.constant(np.array(setting.given, x.dtype).reshape(setting.shape))
    target_axes = _places(x.ndim, setting.decrease_axes, setting.none_axes)
    target: list[Dim] = [1 if axis is None else nodes.extent(places, axis) for axis in target_axes]
    whole = nodes.flatten(nodes.expand(nodes.cast(value, x.kind), target))
    result = nodes.put(nodes.flatten(x), nodes.flatten(places), whole, 0)
    return nodes.reshape(result, nodes.dims(x))


# -- crops and paddings --------------------------------------------------------------------------


def _offsets(call: Call, rank: int) -> list[Dim]:
    slot = "OffsetsTensor" if "OffsetsTensor" in call.definition.inputs else ""
    return call.numbers("offsets", "Offsets", slot) or [0] * rank


@writes("crop_tensor", "crop")
def _crop(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    # The extents are those of Y, or of an attribute in crop; crop_tensor takes them from tensors as well.
    offsets = _offsets(call, x.ndim)
    y = call.get("Y")
    if call.type == "crop":
        dims: list[Dim] = list(call.attr("shape")) if y is None else nodes.dims(y)
    else:
        dims = call.numbers("shape", "Shape", "ShapeTensor")
    # -1 is everything after the offset, as long as the axis turns out to be.
    ends: list[Dim] = [TO_THE_END if isinstance(e, int) and e == -1 else _sum(o, e) for o, e in zip(offsets, dims, strict=True)]
    return nodes.slice(x, list(range(x.ndim)), offsets, ends)


def _sum(a: Dim, b: Dim) -> Dim:
    return a if isinstance(b, int) and not b else b if isinstance(a, int) and not a else a + b


@writes("uncrop")
def _uncrop(call: Call) -> Result:
    x, like, nodes = call["X"], call["Like"], call.nodes
    before = _offsets(call, like.ndim)
    after: list[Dim] = [nodes.extent(like, i) - b - nodes.extent(x, i) for i, b in enumerate(before)]
    return nodes.pad(x, before, after)


@writes("pad")
def _pad(call: Call) -> Result:
    amounts = call.attr("paddings")
    return call.nodes.pad(call["X"], amounts[::2], amounts[1::2], float(call.attr("pad_value")))


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "edge": "edge", "circular": "wrap"}


def _amounts(call: Call) -> tuple[list[int], list[Dim], list[Dim]]:
    """The spatial axes, and how much comes before and after."""
    amounts = call.numbers("paddings", "Paddings")
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
    volumes = call.type.endswith("3d")
    # pad3d lists the last axis first, as torch does; pad2d the first.
    pairs = pairs[::-1] if volumes else pairs
    first = 1 if call.attr("data_format").endswith("C") else 2
    return list(range(first, first + len(pairs))), [a for a, _ in pairs], [b for _, b in pairs]


@writes("pad2d", "pad3d")
def _pad_images(call: Call) -> Result:
    x, nodes, mode = call["X"], call.nodes, _MODES[call.attr("mode")]
    axes, before, after = _amounts(call)
    value = call.attr("pad_value" if call.type == "pad2d" else "value")
    if mode != "wrap":
        return nodes.pad(x, before, after, float(value), mode, axes)
    for axis, a, b in zip(axes, before, after, strict=True):
        extent = nodes.extent(x, axis)
        # Going round: the end comes before the beginning, and the beginning after the end.
        front, back = nodes.part(x, axis, extent - a, TO_THE_END), nodes.part(x, axis, 0, b)
        x = nodes.concat([front, x, back], axis)
    return x


@writes("unpad2d", "unpad3d")
def _unpad_images(call: Call) -> Result:
    """Margins are added to where they were taken from: the places of a row, padded alike, say where that is."""
    x, like, nodes, mode = call["X"], call["Like"], call.nodes, _MODES[call.attr("mode")]
    axes, before, after = _amounts(call)
    if mode == "constant":
        ends: list[Dim] = [_sum(a, nodes.extent(like, axis)) for axis, a in zip(axes, before, strict=True)]
        return nodes.slice(x, axes, before, ends)
    # An axis at a time, since the padding of one axis repeats the margins of those before it: corners are summed along both.
    for axis, a, b in zip(axes, before, after, strict=True):
        if isinstance(a, int) and isinstance(b, int) and not a and not b:
            continue
        row = nodes.range(nodes.extent(like, axis))
        if mode == "wrap":
            extent = nodes.extent(like, axis)
            places = nodes.concat([nodes.part(row, 0, extent - a, TO_THE_END), row, nodes.part(row, 0, 0, b)], 0)
        else:
            # Places below 2**24 are exact in float32.
            places = nodes.cast(nodes.pad(nodes.cast(row, "float32"), [a], [b], 0.0, mode), "int64")
        rows = nodes.moved(x, axis, 0)
        target: list[Dim] = [nodes.extent(like, axis), *nodes.dims(rows)[1:]]
        sums = nodes.scatter(nodes.full(target, 0, x.kind), nodes.unsqueeze(places, [1]), rows, "add")
        x = nodes.moved(sums, 0, axis)
    return x
