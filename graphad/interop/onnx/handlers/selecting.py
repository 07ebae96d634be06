"""Choosing and placing elements: gather, slice, scatter, one-hot, non-zero, compress."""

from __future__ import annotations

import math

import numpy as np

from graphad.errors import ParseError
from graphad.interop.onnx.handlers.handler import TO_THE_END, Node, handles
from graphad.interop.onnx.handlers.reducing import extent, of_length
from graphad.interop.onnx.operands import UNKNOWN, NotKnown, Value, integers, known_integers

# -- gather --------------------------------------------------------------------------------------


@handles("Gather")
def _gather(node: Node) -> Value:
    x, places, ops = node[0], node[1], node.ops
    axis = node.axis(x.rank, 0)
    indices = places.array
    # What is known is computed at load: shapes are mostly gathered from.
    if x.array is not None and indices is not None:
        node.ops.room([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]], x.dtype)
        return Value(np.asarray(np.take(x.array, indices.astype("int64"), axis)))
    flat = ops.reshape(from_front(node, places, x, axis), shape=[-1])
    out = ops.gather(x, flat, axis=axis)
    if places.rank != 1:
        out = split_axis(node, out, x, places, axis)
    return out


def from_front(node: Node, places: Value, x: Value, axis: int) -> Value:
    """Places counted from the front, those below zero are counted from the end."""
    ops = node.ops
    if places.array is not None:
        if (places.array >= 0).all():
            return places
        if x.shape[axis] != -1:
            return Value(np.asarray(places.array % x.shape[axis]))
    size = ops.cast(extent(node, x, axis), out_dtype=places.dtype)
    return ops.where(ops.less_than(places, ops.like(0, places)), ops.elementwise_add(places, size), places)


def split_axis(node: Node, x: Value, source: Value, places: Value, axis: int) -> Value:
    """The one axis of gathered places as the axes that the places have."""
    shape = [*source.shape[:axis], *places.shape, *source.shape[axis + 1 :]]
    if not places.rank:
        return node.ops.squeeze(x, axes=[axis])
    if shape.count(-1) <= 1:
        return node.ops.reshape(x, shape=shape)
    ops = node.ops
    # More than one extent is open, so ``reshape`` cannot tell them from the attribute alone: the shape is put together at run time.
    shapes = [ops.cast(ops.shape(value), out_dtype="int64") for value in (source, places)]
    pieces = [
        ops.slice(shapes[0], axes=[0], starts=[0], ends=[axis]) if axis else None,
        shapes[1],
        ops.slice(shapes[0], axes=[0], starts=[axis + 1], ends=[source.rank]) if axis + 1 < source.rank else None,
    ]
    target = ops.concat([value for value in pieces if value is not None], axis=0) if any((pieces[0], pieces[2])) else shapes[1]
    return ops.reshape(x, target, shape=shape)


@handles("GatherElements")
def _gather_elements(node: Node) -> Value:
    x, places = node[0], node[1]
    axis = node.axis(x.rank, 0)
    places = from_front(node, places, x, axis)
    for dim in range(x.rank):  # the places may have fewer along the other axes
        if dim != axis and places.shape[dim] not in (-1, x.shape[dim]) and x.shape[dim] != -1:
            x = node.ops.slice(x, axes=[dim], starts=[0], ends=[places.shape[dim]])
    return node.ops.take_along_axis(x, places, Axis=axis)


@handles("GatherND")
def _gather_nd(node: Node) -> Value:
    x, places = node[0], node[1]
    batch = int(node.attr("batch_dims", 0))
    if not batch:
        return node.ops.gather_nd(x, _nd_from_front(node, places, x, 0))
    if batch == 1:
        return node.ops.gather_nd(x, _with_rows(node, _nd_from_front(node, places, x, 1)))
    if -1 in x.shape[:batch] or -1 in places.shape:
        raise NotKnown("GatherND with batch_dims of unknown extents")
    lead = math.prod(x.shape[:batch])
    flat = node.ops.reshape(x, shape=[lead, *x.shape[batch:]])
    inner = node.ops.reshape(_nd_from_front(node, places, x, batch), shape=[lead, *places.shape[batch:]])
    # batch_dims are flattened to one axis, and its number becomes the first index: one gather does the whole batch.
    rows = np.arange(lead).reshape(lead, *[1] * (inner.rank - 1))
    number = Value(np.asarray(np.broadcast_to(rows, (*inner.shape[:-1], 1)), places.dtype))
    result = node.ops.gather_nd(flat, node.ops.concat([number, inner], axis=inner.rank - 1))
    return node.ops.reshape(result, shape=[*x.shape[:batch], *result.shape[1:]])


def _with_rows(node: Node, places: Value) -> Value:
    """Places with their number along the first axis as the first index."""
    ops = node.ops
    rows = ops.unsqueeze(ops.cast(numbered(node, places, 0), out_dtype=places.dtype), axes=list(range(1, places.rank)))
    zeros = ops.fill_zeros_like(ops.slice(places, axes=[places.rank - 1], starts=[0], ends=[1]))
    return ops.concat([ops.elementwise_add(zeros, rows), places], axis=places.rank - 1)


def _nd_from_front(node: Node, places: Value, x: Value, batch: int) -> Value:
    count = places.shape[-1]
    node.extents("how many axes the indices are of", count)
    if places.array is not None and (places.array >= 0).all():
        return places
    sizes = x.shape[batch : batch + count]
    ops = node.ops
    if -1 in sizes:
        shape = ops.cast(ops.shape(x), out_dtype=places.dtype)
        extents = ops.slice(shape, axes=[0], starts=[batch], ends=[batch + count])
    else:
        extents = Value(np.asarray(sizes, places.dtype))
    return ops.where(ops.less_than(places, ops.like(0, places)), ops.elementwise_add(places, extents), places)


# -- slice ---------------------------------------------------------------------------------------


@handles("Slice")
def _slice(node: Node) -> Value:
    x = node[0]
    if node.version < 10:
        starts, ends = ([int(item) for item in node.required(name)] for name in ("starts", "ends"))
        return sliced(node, x, starts, ends, [int(item) for item in node.attr("axes", range(len(starts)))], [1] * len(starts))
    parts = [node.get(i) for i in (1, 2, 3, 4)]
    count = next((known for i in (1, 2, 3, 4) if (known := -1 if (part := node.get(i)) is None else part.shape[0]) != -1), -1)
    if count == -1 and parts[2] is None and parts[3] is None:
        return _sliced_from_the_front(node, x)
    node.extents("the number of axes", count)
    axes = list(range(count)) if parts[2] is None else integers(node.known(3, "axes"))  # type: ignore[arg-type]
    steps = [1] * count if parts[3] is None else integers(node.known(4, "steps"))  # type: ignore[arg-type]
    starts, ends = (known_integers(node[i]) for i in (1, 2))  # type: ignore[assignment]
    if starts is None or ends is None or UNKNOWN in starts or UNKNOWN in ends:
        return _sliced_at_run_time(node, x, axes, steps)
    return sliced(node, x, list(starts), list(ends), axes, steps)


def sliced(node: Node, x: Value, starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> Value:
    """Parts of axes, as Python's slices are: bounds are cut to what is there."""
    ops, axes = node.ops, [axis % x.rank for axis in axes]
    if x.array is not None:
        slices = [slice(None)] * x.rank
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            slices[axis] = _python_slice(start, end, step, x.shape[axis])
        return Value(np.ascontiguousarray(x.array[tuple(slices)]))
    # ONNX says "to the end" by numbers as large as int64 has; attributes hold smaller ones.
    total = [(axis, _bound(start), _bound(end), step) for axis, start, end, step in zip(axes, starts, ends, steps, strict=True)]
    ranges = [(a, *_in_range(s, e, step, x.shape[a]), step) for a, s, e, step in total]
    if all(step == 1 for step in steps):
        out = ops.slice(x, axes=[k[0] for k in ranges], starts=[k[1] for k in ranges], ends=[k[2] for k in ranges])
    else:
        out = ops.strided_slice(
            x, axes=[k[0] for k in ranges], starts=[k[1] for k in ranges], ends=[k[2] for k in ranges], strides=[k[3] for k in ranges]
        )
    return out


def _python_slice(start: int, end: int, step: int, size: int) -> slice:
    """ONNX's bounds: cut to the extent; going backwards, one before the first is before the first."""
    if step > 0:
        return slice(start, end, step)
    # Python takes an end of -1 for the last element; going backwards it has to be None to reach the first one.
    end = end + size if end < 0 else end
    start = start + size if start < 0 else start
    return slice(min(start, size - 1), end if end >= 0 else None, step)


def _in_range(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    if size == -1:
        return start, end
    first, last, _ = _python_slice(start, end, step, size).indices(size)
    # An end of -1 would be read as the last element: -size - 1 says "before the first".
    return (first, max(last, first)) if step > 0 else (first, last if last >= 0 else -size - 1)


def _bound(value: int) -> int:
    return max(-TO_THE_END, min(value, TO_THE_END))


def _sliced_at_run_time(node: Node, x: Value, axes: list[int], steps: list[int]) -> Value:
    ops, axes = node.ops, [axis % x.rank for axis in axes]
    starts, ends = (ops.cast(_cut(node, of_length(node, node[i], len(axes))), out_dtype="int32") for i in (1, 2))
    if all(step == 1 for step in steps):
        return ops.slice(x, starts, ends, axes=axes)
    return ops.strided_slice(x, starts, ends, axes=axes, strides=steps)


def _sliced_from_the_front(node: Node, x: Value) -> Value:
    """Bounds whose number only a run knows: they are those of the first axes, and the axes after them stay whole."""
    ops, whole = node.ops, [Value(np.full(x.rank, bound, "int32")) for bound in (0, TO_THE_END)]
    bounds = [ops.concat([ops.cast(_cut(node, node[i]), out_dtype="int32"), rest], axis=0) for i, rest in enumerate(whole, 1)]
    starts, ends = (of_length(node, ops.slice(each, axes=[0], starts=[0], ends=[x.rank]), x.rank) for each in bounds)
    return ops.slice(x, starts, ends, axes=list(range(x.rank)))


def _cut(node: Node, bounds: Value) -> Value:
    """Bounds that int32 holds."""
    if bounds.dtype == "int32":
        return bounds
    ops = node.ops
    return ops.elementwise_max(ops.elementwise_min(bounds, ops.like(TO_THE_END, bounds)), ops.like(-TO_THE_END, bounds))


# -- scatter -------------------------------------------------------------------------------------

_REDUCTIONS = {"none": "assign", "add": "add", "mul": "multiply", "max": "amax", "min": "amin"}


@handles("ScatterElements", "Scatter")
def _scatter_elements(node: Node) -> Value:
    x, places, values = node[0], node[1], node[2]
    axis = node.axis(x.rank, 0)
    reduction = _REDUCTIONS[str(node.attr("reduction", "none"))]
    places = from_front(node, places, x, axis)
    # ``put_along_axis`` takes places that agree with x along all other axes.
    if places.shape != x.shape[:axis] + places.shape[axis : axis + 1] + x.shape[axis + 1 :]:
        return _scattered_by_place(node, x, places, values, axis, reduction)
    return node.ops.put_along_axis(x, places, values, Axis=axis, Reduce=reduction)


def _scattered_by_place(node: Node, x: Value, places: Value, values: Value, axis: int, reduction: str) -> Value:
    """Scatter into the flattened tensor: for fewer places than the tensor has along other axes."""
    ops = node.ops
    stride, strides = Value(np.asarray(1, "int64")), list[Value]()
    # Strides of the flattened tensor, from the last axis on; extents may be known to a run alone, so they are values.
    for i in reversed(range(x.rank)):
        strides.insert(0, stride)
        stride = ops.elementwise_mul(stride, ops.reshape(extent(node, x, i), shape=[]))
    flat = ops.elementwise_mul(ops.cast(places, out_dtype="int64"), strides[axis])
    # Along the axis the place is given, along every other one it is where the place itself lies.
    for i in range(x.rank):
        if i != axis:
            steps = ops.elementwise_mul(numbered(node, places, i), strides[i])
            flat = ops.elementwise_add(flat, ops.unsqueeze(steps, axes=list(range(1, x.rank - i))) if i + 1 < x.rank else steps)
    out = ops.put_along_axis(*(ops.reshape(value, shape=[-1]) for value in (x, flat, values)), Axis=0, Reduce=reduction)
    if list(x.shape).count(-1) <= 1:
        return ops.reshape(out, shape=list(x.shape))
    return ops.reshape(out, ops.cast(ops.shape(x), out_dtype="int64"), shape=list(x.shape))


def numbered(node: Node, x: Value, axis: int) -> Value:
    """0, 1, ... along an axis."""
    first, last = Value(np.asarray([0], "int64")), node.ops.reshape(extent(node, x, axis), shape=[1])
    return node.ops.range(first, last, Value(np.asarray([1], "int64")))


@handles("ScatterND")
def _scatter_nd(node: Node) -> Value:
    x, places, values, ops = node[0], node[1], node[2], node.ops
    reduction = _REDUCTIONS[str(node.attr("reduction", "none"))]
    places = _nd_from_front(node, places, x, 0)
    if reduction == "add" and x.is_float:
        return ops.scatter_nd_add(x, places, values)
    count = places.shape[-1]
    if -1 in x.shape:
        return _scatter_rows(node, x, places, values, reduction)
    # Row-major numbers of the slices: the indices' product with the strides, as numpy's ravel_multi_index.
    strides = [math.prod(x.shape[i + 1 : count]) for i in range(count)]
    weights = Value(np.asarray(strides, places.dtype))
    row = ops.reduce_sum(ops.elementwise_mul(places, weights), dim=[places.rank - 1], keep_dim=False)
    inner = math.prod(x.shape[count:])
    flat_row = ops.reshape(row, shape=[-1, 1])
    table = ops.reshape(x, shape=[math.prod(x.shape[:count]), inner])
    wide = ops.elementwise_add(flat_row, Value(np.zeros((1, inner), places.dtype)))
    result = ops.put_along_axis(table, wide, ops.reshape(values, shape=[-1, inner]), Axis=0, Reduce=reduction)
    return ops.reshape(result, shape=list(x.shape))


def _scatter_rows(node: Node, x: Value, places: Value, values: Value, reduction: str) -> Value:
    """Slices as rows of a table, whose numbers are computed when it runs."""
    ops, count = node.ops, places.shape[-1]
    row, stride = None, Value(np.asarray(1, "int64"))
    # The number of a row in row-major order, from the last index on.
    for i in reversed(range(count)):
        index = ops.cast(ops.slice(places, axes=[places.rank - 1], starts=[i], ends=[i + 1]), out_dtype="int64")
        part = ops.elementwise_mul(index, stride)
        row = part if row is None else ops.elementwise_add(row, part)
        stride = ops.elementwise_mul(stride, extent(node, x, i))
    table, rows = ops.flatten(x, axis=count), ops.flatten(values, axis=places.rank - 1)
    wide = ops.elementwise_add(ops.reshape(row, shape=[-1, 1]), ops.fill_any_like(rows, value=0.0, dtype="int64"))
    return ops.reshape_like(ops.put_along_axis(table, wide, rows, Axis=0, Reduce=reduction), x)


@handles("TensorScatter")
def _tensor_scatter(node: Node) -> Value:
    """Rows written one after the other from a place that each element of the batch has."""
    cache, update, first, ops = node[0], node[1], node.get(2), node.ops
    axis = node.axis(cache.rank, -2)
    steps = ops.unsqueeze(numbered(node, update, axis), axes=[i for i in range(cache.rank) if i != axis])
    if first is not None:
        begin = ops.unsqueeze(ops.cast(first, out_dtype="int64"), axes=list(range(1, cache.rank)))
        steps = ops.elementwise_add(steps, begin)
    if str(node.attr("mode", "linear")) == "circular":
        steps = ops.elementwise_mod(steps, extent(node, cache, axis))
    places = ops.elementwise_add(steps, ops.fill_any_like(update, value=0.0, dtype="int64"))
    return ops.put_along_axis(cache, places, update, Axis=axis)


# -- by values -----------------------------------------------------------------------------------


@handles("OneHot")
def _one_hot(node: Node) -> Value:
    places, values, ops = node[0], node[2], node.ops
    axis = int(node.attr("axis", -1)) % (places.rank + 1)
    if not places.dtype.startswith("int"):
        places = ops.cast(places, out_dtype="int64")
    depth, steps = _classes(node, places.dtype)
    # Places below zero count from the end.
    indices = ops.where(ops.less_than(places, ops.like(0, places)), ops.elementwise_add(places, depth), places)
    shape = [1] * (places.rank + 1)
    shape[axis] = -1
    is_hot = ops.equal(ops.unsqueeze(indices, axes=[axis]), ops.reshape(steps, shape=shape))
    off, on = (sliced(node, values, [i], [i + 1], [0], [1]) for i in (0, 1))
    return ops.where(is_hot, on, off)


def _classes(node: Node, dtype: str) -> tuple[Value, Value]:
    """How many classes there are, and the numbers of all: those of a depth that may be known only when the model runs."""
    ops = node.ops
    if node.is_decided(1):
        (depth,) = node.integers(1, "depth") or [0]
        ops.room([depth], dtype)
        return Value(np.asarray(depth, dtype)), Value(np.arange(depth, dtype=dtype))
    count = ops.cast(ops.reshape(node[1], shape=[1]), out_dtype=dtype)
    return ops.reshape(count, shape=[]), ops.range(Value(np.zeros(1, dtype)), count, Value(np.ones(1, dtype)))


@handles("NonZero")
def _non_zero(node: Node) -> Value:
    x, ops = node[0], node.ops
    if x.array is not None:
        return Value(np.asarray(np.nonzero(x.array), "int64").reshape(x.rank, -1))
    mask = x if x.dtype == "bool" else ops.not_equal(x, ops.like(0, x))
    return ops.transpose(ops.where_index(mask), axis=[1, 0])


@handles("Compress")
def _compress(node: Node) -> Value:
    x, mask, ops = node[0], node[1], node.ops
    if "axis" in node.attrs:
        axis = node.axis(x.rank)
    else:
        x, axis = ops.reshape(x, shape=[-1]), 0
    places = ops.reshape(ops.where_index(mask), shape=[-1])
    return ops.gather(x, places, axis=axis)


@handles("ReverseSequence")
def _reverse_sequence(node: Node) -> Value:
    x, lengths = node[0], node[1]
    batch, time = int(node.attr("batch_axis", 1)), int(node.attr("time_axis", 0))
    return reversed_by_length(node, x, lengths, batch, time)


def reversed_by_length(node: Node, x: Value, lengths: Value, batch: int, time: int) -> Value:
    """Each sequence backwards as far as it goes; what comes after it stays."""
    if {batch, time} != {0, 1}:
        raise ParseError(f"batch_axis={batch} and time_axis={time}; they are 0 and 1")
    ops = node.ops
    steps = ops.unsqueeze(numbered(node, x, time), axes=[1 - time])
    last = ops.unsqueeze(ops.cast(lengths, out_dtype="int64"), axes=[1 - batch])
    back = ops.scale(ops.elementwise_sub(last, steps), scale=1.0, bias=-1.0)
    # Beyond the end a step is its own place; zeros bring it to the shape of the others.
    places = ops.where(ops.less_than(steps, last), back, ops.elementwise_add(steps, ops.fill_zeros_like(back)))
    for axis in range(2, x.rank):
        places = ops.unsqueeze(places, axes=[axis])
    indices = ops.elementwise_add(places, ops.fill_any_like(x, value=0.0, dtype="int64"))
    return ops.take_along_axis(x, indices, Axis=time)


@handles("NonMaxSuppression")
def _non_max_suppression(node: Node) -> Value:
    count = node.known(2, "the number of boxes")
    overlap, least = (node.known(i, "a threshold") for i in (3, 4))
    return node.ops.non_max_suppression(
        node[0],
        node[1],
        most=0 if count is None else int(np.ravel(count)[0]),
        iou_threshold=0.0 if overlap is None else float(np.ravel(overlap)[0]),
        score_threshold=-math.inf if least is None else float(np.ravel(least)[0]),
        center=bool(node.attr("center_point_box", 0)),
    )
