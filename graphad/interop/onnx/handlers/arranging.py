"""Shapes and arrangement: reshape, transpose, concatenation, constants, padding; what is known of shapes at load is folded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from graphad.errors import ParseError
from graphad.interop.onnx.handlers.handler import TO_THE_END, Node, handles
from graphad.interop.onnx.handlers.pointwise import dtype_of
from graphad.interop.onnx.handlers.reducing import extent, flattened, of_length
from graphad.interop.onnx.operands import (
    UNKNOWN,
    NotKnown,
    TwoRanks,
    UnsupportedModel,
    Value,
    integers,
    is_known,
    known_extents,
    known_integers,
)
from graphad.types import Extent, same_extent

# -- constants -----------------------------------------------------------------------------------


@handles("Constant")
def _constant(node: Node) -> Value:
    attrs = node.attrs
    for name in ("value_float", "value_floats"):
        if name in attrs:
            return Value(np.asarray(attrs[name], "float32"))
    for name in ("value_int", "value_ints"):
        if name in attrs:
            return Value(np.asarray(attrs[name], "int64"))
    for name in ("value_string", "value_strings"):
        if name in attrs:
            return Value(np.asarray(attrs[name], object))
    for name in ("value", "sparse_value"):
        if name in attrs:
            return Value(attrs[name])
    raise UnsupportedModel(f"a constant with {', '.join(attrs) or 'no value'} is not supported")


@handles("ConstantOfShape")
def _constant_of_shape(node: Node) -> Value:
    value = np.asarray(node.attr("value", np.zeros(1, "float32"))).ravel()
    shape = node.vector(0, "the shape")
    if shape.array is not None:
        # A view: a constant takes no memory, however large its shape is.
        return Value(np.broadcast_to(value[0], integers(shape.array)))
    hint = known_extents(shape) or [-1] * shape.shape[0]
    result = node.ops.fill_constant(None, shape, shape=hint, dtype=str(value.dtype), value=float(value[0]))
    return result


@handles("EyeLike")
def _eye_like(node: Node) -> Value:
    x = node[0]
    dtype = dtype_of(int(node.attrs["dtype"])) if "dtype" in node.attrs else x.dtype
    diagonal = int(node.attr("k", 0))
    if -1 in x.shape:
        columns = node.ops.scale(_numbers(node, x, 0), scale=1.0, bias=float(diagonal))
        return node.ops.cast(node.ops.equal(columns, _numbers(node, x, 1)), out_dtype=dtype)
    node.ops.room(x.shape, dtype)
    return Value(np.eye(x.shape[0], x.shape[1], diagonal, dtype))


def _numbers(node: Node, x: Value, axis: int) -> Value:
    """The places along one of the last two axes, as a matrix of one column, or of one row."""
    ops = node.ops
    zero, one = (Value(np.asarray([number], "int64")) for number in (0, 1))
    numbers = ops.range(zero, ops.reshape(extent(node, x, x.rank - 2 + axis), shape=[1]), one)
    return ops.reshape(numbers, shape=[-1, 1] if axis == 0 else [1, -1])


@handles("Range")
def _range(node: Node) -> Value:
    start, stop, step = node[0], node[1], node[2]
    if start.array is not None and stop.array is not None and step.array is not None:
        # All three are known: a constant, so that shapes made of it are known as well.
        first, last, delta = (array.ravel()[0] for array in (start.array, stop.array, step.array))
        count = max(math.ceil((last - first) / delta), 0)
        node.ops.room([count], start.dtype)
        return Value(np.asarray(first + delta * np.arange(count), start.dtype))
    ops = node.ops
    flat = [ops.reshape(bound, shape=[1]) for bound in (start, stop, step)]
    return ops.range(*flat)


# -- shapes --------------------------------------------------------------------------------------


@handles("Shape")
def _shape(node: Node) -> Value:
    x = node[0]
    first, last, _ = slice(int(node.attr("start", 0)), node.attr("end")).indices(x.rank)
    extents = x.shape[first:last]
    if -1 not in extents:
        return Value(np.asarray(extents, "int64"))
    ops = node.ops
    shape = ops.cast(ops.shape(x), out_dtype="int64")
    out = ops.slice(shape, axes=[0], starts=[first], ends=[last]) if len(extents) < x.rank else shape
    # The extents that are known stay known, although the tensor as a whole is not.
    out.elements = np.asarray([UNKNOWN if type(size) is int and size == -1 else size for size in extents], object)
    return out


@handles("Size")
def _size(node: Node) -> Value:
    x = node[0]
    if -1 not in x.shape:
        return Value(np.asarray(math.prod(x.shape), "int64"))
    return node.ops.size(x)


@handles("Reshape")
def _reshape(node: Node) -> Value:
    x = node[0]
    if node.version < 5:
        return node.ops.reshape(x, shape=list(node.required("shape")))
    return reshaped(node, x, node.vector(1, "the shape"), bool(node.attr("allowzero", 0)))


def reshaped(node: Node, x: Value, shape: Value, allow_zero: bool = False) -> Value:
    """A tensor in a shape of which some extents may be unknown; one of them is what remains."""
    extents = known_extents(shape)
    if extents is None:
        return node.ops.reshape(x, shape, shape=[-1] * shape.shape[0], allow_zero=allow_zero)
    if allow_zero and 0 in extents:  # the tensor is empty
        return _emptied(node, x, shape, extents)
    are_same = [type(size) is Extent and i < x.rank and same_extent(size, x.shape[i]) for i, size in enumerate(extents)]
    if extents.count(-1) > 1:
        sizes = [0 if keep else size for size, keep in zip(extents, are_same, strict=True)]
        if sizes.count(-1) > 1:  # which -1 is what remains is decided at run time
            return node.ops.reshape(x, shape, shape=extents if allow_zero else sizes, allow_zero=allow_zero)
        extents = sizes
    return node.ops.reshape(x, shape=extents)


def _emptied(node: Node, x: Value, shape: Value, extents: list[int]) -> Value:
    if min(extents) < 0:
        return node.ops.reshape(x, shape, shape=extents, allow_zero=True)
    node.ops.room(extents, x.dtype)
    return Value(np.zeros(extents, x.dtype))


@handles("Flatten")
def _flatten(node: Node) -> Value:
    x, axis = node[0], int(node.attr("axis", 1))
    return flattened(node, x, axis + x.rank if axis < 0 else axis)


@handles("Transpose")
def _transpose(node: Node) -> Value:
    x = node[0]
    axes = [int(axis) for axis in node.attr("perm", range(x.rank)[::-1])]
    return node.ops.transpose(x, axis=axes) if x.rank else node.ops.assign(x)


@handles("Unsqueeze")
def _unsqueeze(node: Node) -> Value:
    x = node[0]
    axes = node.integers(1, "axes") or []
    rank = x.rank + len(axes)
    return node.ops.unsqueeze(x, axes=sorted(axis % rank for axis in axes))


@handles("Squeeze")
def _squeeze(node: Node) -> Value:
    x = node[0]
    axes = node.integers(1, "axes")
    if axes is None:
        ones, unknown = ([i for i, size in enumerate(x.shape) if size == which] for which in (1, -1))
        return _without_ones(node, x, ones, unknown)
    # Axes may come from the end, and in any order.
    places = sorted(axis % max(x.rank, 1) for axis in axes)
    return node.ops.squeeze(x, axes=places) if places else node.ops.assign(x)


def _without_ones(node: Node, x: Value, ones: list[int], unknown: list[int]) -> Value:
    """A tensor without axes of extent 1, where the run decides which ones the unknown extents are."""
    ops = node.ops
    if not unknown:
        return ops.squeeze(x, axes=sorted(ones)) if ones else ops.assign(x)
    first, *others = unknown
    is_one = ops.variable(ops.equal(extent(node, x, first), Value(np.asarray(1, "int64"))))
    # Either this extent is 1 and goes, or it stays: two ranks, between which the reader decides.
    branches = [lambda: [_without_ones(node, x, [*ones, first], others)], lambda: [_without_ones(node, x, ones, others)]]
    raise TwoRanks(f"Squeeze without axes of extents {list(x.shape)}: the ranks of what it gives differ", is_one, branches, x)


@handles("Expand")
def _expand(node: Node) -> Value:
    return expanded(node, node[0], node.vector(1, "the shape"))


def expanded(node: Node, x: Value, shape: Value) -> Value:
    """A tensor broadcast with a shape, either way."""
    hint = known_extents(shape) or [-1] * shape.shape[0]
    if -1 not in hint and -1 not in x.shape:
        target = np.broadcast_shapes(x.shape, tuple(hint))
        if target == x.shape:
            return x
        return node.ops.expand_v2(x, shape=list(target))
    # A target of ones, and of extents that x has already, changes nothing; which is the usual form of models with a dynamic batch.
    if len(hint) <= x.rank and all(e == 1 or same_extent(e, size) for e, size in zip(hint[::-1], x.shape[::-1], strict=False)):
        return x
    # expand_v2 broadcasts one way; ONNX's Expand goes both ways, as adding zeros of the target's shape does.
    zeros = node.ops.fill_constant(None, shape, shape=hint, dtype=x.dtype if x.dtype != "bool" else "int32", value=0.0)
    if x.dtype == "bool":
        return node.ops.logical_or(x, node.ops.cast(zeros, out_dtype="bool"))
    return node.ops.elementwise_add(x, zeros)


@handles("Tile")
def _tile(node: Node) -> Value:
    x = node[0]
    if node.version < 6:
        raise UnsupportedModel("Tile of operator sets before 6 is not supported")
    times = known_integers(node[1])
    if times is not None and UNKNOWN not in times:
        return node.ops.tile(x, repeat_times=list(times)) if times else node.ops.assign(x)
    return node.ops.tile(x, of_length(node, node[1], x.rank), repeat_times=[-1] * x.rank)


# -- joining and splitting -----------------------------------------------------------------------


@handles("Concat")
def _concat(node: Node) -> Value:
    values = [node[i] for i in range(len(node.inputs))]
    axis = node.axis(values[0].rank, 1)
    if len(values) == 1:
        return values[0]
    return node.ops.concat(values, axis=axis)


@handles("Split")
def _split(node: Node) -> list[Value]:
    x = node[0]
    axis, count = node.axis(x.rank, 0), len(node.outputs)
    size = x.shape[axis]
    if not node.is_decided(1, "split"):
        return _split_at(node, x, axis, [_element(node, of_length(node, node[1], count), i) for i in range(count)])
    sizes = node.integers(1, "split")
    if sizes is None and size == -1 and count > 1:
        # Since version 18 the last part is the smaller one where the extent is not divisible.
        whole = node.ops.scale(extent(node, x, axis), scale=1.0, bias=float(count - 1))
        share = node.ops.reshape(node.ops.elementwise_floordiv(whole, Value(np.asarray(count, "int64"))), shape=[1])
        return _split_at(node, x, axis, [share] * count)
    if sizes is None:
        share_known = -(-size // count)
        sizes = [share_known] * (count - 1) + [size - share_known * (count - 1)]
    if len(sizes) == 1:
        return [node.ops.assign(x)]
    return node.ops.several("split", x, sections=sizes, axis=axis)


def _split_at(node: Node, x: Value, axis: int, sizes: Sequence[Value]) -> list[Value]:
    """Parts of sizes that a run knows; of the last one what is left of it."""
    ops, parts = node.ops, list[Value]()
    start = Value(np.zeros(1, "int64"))
    for size in sizes:
        end = ops.elementwise_add(start, size)
        parts.append(ops.slice(x, *(ops.cast(bound, out_dtype="int32") for bound in (start, end)), axes=[axis]))
        start = end
    return parts


def _element(node: Node, x: Value, i: int) -> Value:
    """An element of a vector, as a vector."""
    elements = x.partly()
    if elements is not None and is_known(elements[i]):
        return Value(np.asarray([elements[i]], x.dtype))
    return node.ops.slice(x, axes=[0], starts=[i], ends=[i + 1])


# -- padding -------------------------------------------------------------------------------------


@handles("Pad")
def _pad(node: Node) -> Value:
    x = node[0]
    mode = str(node.attr("mode", "constant"))
    argument, filler = node.get(3), node.get(2) if node.version >= 11 else None
    axes = list(range(x.rank)) if argument is None else [axis % x.rank for axis in integers(node.known(3, "axes"))]  # type: ignore[arg-type]
    if not node.is_decided(1, "pads") or (filler is not None and filler.content is None):
        half = len(axes)
        amounts_open = of_length(node, node[1], 2 * half)
        pairs_open = {axis: (_element(node, amounts_open, i), _element(node, amounts_open, i + half)) for i, axis in enumerate(axes)}
        return padded_at_run_time(node, x, pairs_open, mode, filler)
    amounts = node.integers(1, "pads") if node.version >= 2 else [int(amount) for amount in node.required("paddings")]
    if amounts is None:
        raise ParseError("the amounts of padding are missing")
    if filler is not None:
        content = node.known(2, "the number to pad with")
        number = content.ravel()[0].item() if content is not None and content.size else 0
    else:
        number = node.attr("value", 0.0)
    pairs = [(0, 0)] * x.rank
    half = len(amounts) // 2
    for i, axis in enumerate(axes):
        # ONNX lists all amounts before, then all amounts after.
        pairs[axis] = (amounts[i], amounts[i + half])
    return padded(node, x, pairs, mode, number)


def padded_at_run_time(
    node: Node, x: Value, pairs: Mapping[int, tuple[Value, Value]], mode: str = "constant", filler: Value | None = None
) -> Value:
    """A tensor with elements before and after along axes, as many as a run says; amounts below zero cut.

    Each axis is taken by the places that its elements come from: range(-before, extent + after), brought into the extent.
    """
    ops, zero = node.ops, Value(np.asarray(0, "int64"))
    outside: Value | None = None
    for axis, (before, after) in pairs.items():
        if all(amount.array is not None and not amount.array.any() for amount in (before, after)):
            continue
        count = extent(node, x, axis)
        last = ops.scale(count, scale=1.0, bias=-1.0)
        before, after = (ops.cast(amount, out_dtype="int64") for amount in (before, after))
        end = ops.elementwise_add(ops.reshape(count, shape=[1]), after)
        at = ops.range(ops.scale(before, scale=-1.0), end, Value(np.ones(1, "int64")))
        inside = ops.elementwise_max(ops.elementwise_min(at, last), zero)
        if mode == "wrap":
            inside = ops.elementwise_mod(at, count)
        elif mode == "reflect":
            # There and back: of 4 elements 0 1 2 3 2 1, and so on.
            period = ops.elementwise_max(ops.scale(last, scale=2.0), Value(np.asarray(1, "int64")))
            inside = ops.elementwise_mod(at, period)
            inside = ops.elementwise_min(inside, ops.elementwise_sub(period, inside))
        elif mode == "constant":
            is_new = ops.reshape(ops.not_equal(at, inside), shape=[-1, *[1] * (x.rank - 1 - axis)])
            outside = is_new if outside is None else ops.logical_or(outside, is_new)
        x = ops.gather(x, inside, axis=axis)
    if outside is None:
        return x
    return ops.where(outside, ops.like(0, x) if filler is None else ops.reshape(filler, shape=[]), x)


def padded(node: Node, x: Value, pairs: Sequence[tuple[int, int]], mode: str = "constant", number: float = 0.0) -> Value:
    """A tensor with elements before and after along each axis; amounts below zero cut."""
    ops = node.ops
    cuts = [i for i, pair in enumerate(pairs) if min(pair) < 0]
    if cuts:
        starts = [max(-pairs[i][0], 0) for i in cuts]
        ends = [pairs[i][1] if pairs[i][1] < 0 else TO_THE_END for i in cuts]
        x = ops.slice(x, axes=cuts, starts=starts, ends=ends)
        pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if not any(map(any, pairs)):
        return x
    if mode == "constant":
        wide = x if x.dtype != "bool" else ops.cast(x, out_dtype="int32")
        out = ops.pad(wide, paddings=[amount for pair in pairs for amount in pair], pad_value=float(number))
        return out if wide is x else ops.cast(out, out_dtype="bool")
    # The other modes repeat elements of the input: a gather by an index that says which.
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = _taken(node, x, axis, before, after, mode)
    return x


def _taken(node: Node, x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    """Padding by taking elements of the tensor itself: those at the edge, mirrored, or from the other end."""
    ops, size = node.ops, x.shape[axis]
    if size == -1 and mode != "edge":
        return _taken_parts(node, x, axis, before, after, mode)
    if size == -1:
        count = extent(node, x, axis)
        places = ops.range(
            Value(np.asarray([-before], "int64")),
            ops.reshape(ops.scale(count, scale=1.0, bias=float(after)), shape=[1]),
            Value(np.asarray([1], "int64")),
        )
        places = ops.elementwise_min(ops.elementwise_max(places, Value(np.asarray(0, "int64"))), ops.scale(count, scale=1.0, bias=-1.0))
        return ops.gather(x, places, axis=axis)
    numpy_mode = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}[mode]
    ops.room([size + before + after], "int64")
    indices = np.pad(np.arange(size), (before, after), numpy_mode)  # type: ignore[call-overload]
    return ops.gather(x, Value(np.asarray(indices, "int64")), axis=axis)


def _taken_parts(node: Node, x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    """The same of an unknown extent that is larger than what is added."""
    ops, parts = node.ops, [x]
    if mode == "reflect":
        if before:
            # The margin of a reflection leaves out the element at the edge.
            parts.insert(0, ops.flip(ops.slice(x, axes=[axis], starts=[1], ends=[before + 1]), axis=[axis]))
        if after:
            parts.append(ops.flip(ops.slice(x, axes=[axis], starts=[-after - 1], ends=[-1]), axis=[axis]))
    else:
        if before:
            parts.insert(0, ops.slice(x, axes=[axis], starts=[-before], ends=[TO_THE_END]))
        if after:
            parts.append(ops.slice(x, axes=[axis], starts=[0], ends=[after]))
    return ops.concat(parts, axis=axis)


# -- blocks and triangles ------------------------------------------------------------------------


@handles("DepthToSpace")
def _depth_to_space(node: Node) -> Value:
    x, size, ops = node[0], int(node.required("blocksize")), node.ops
    # DCR: depth, column, row: the channels of one place are ``[size, size, depth]``; CRD has depth first.
    y = x
    if node.attr("mode", "DCR") == "DCR":
        if x.shape[1] == -1:
            raise NotKnown("DepthToSpace of channels whose number is not known before the model runs")
        channels = np.arange(x.shape[1]).reshape(size * size, -1).T.ravel()
        y = ops.gather(x, Value(channels), axis=1)
    return ops.pixel_shuffle(y, upscale_factor=size)


@handles("SpaceToDepth")
def _space_to_depth(node: Node) -> Value:
    x, size, ops = node[0], int(node.required("blocksize")), node.ops
    y = ops.pixel_unshuffle(x, downscale_factor=size)
    if node.attr("mode", "DCR") != "DCR":
        return y
    if x.shape[1] == -1:
        raise NotKnown("SpaceToDepth of channels whose number is not known before the model runs")
    # DCR: the place in the block is the outer part of a channel's number; CRD: the inner one.
    channels = np.arange(x.shape[1] * size * size).reshape(-1, size * size).T.ravel()
    return ops.gather(y, Value(channels), axis=1)


@handles("Trilu")
def _trilu(node: Node) -> Value:
    x, ops, is_upper = node[0], node.ops, bool(node.attr("upper", 1))
    if not node.is_decided(1):
        edge = ops.elementwise_add(_numbers(node, x, 0), ops.reshape(node[1], shape=[]))
        columns = _numbers(node, x, 1)
        stays = ops.greater_equal(columns, edge) if is_upper else ops.less_equal(columns, edge)
        return ops.where(stays, x, ops.like(0, x))
    offsets = node.integers(1, "k")
    return ops.tril_triu(x, diagonal=offsets[0] if offsets else 0, lower=not is_upper)


@handles("CenterCropPad")
def _center_crop_pad(node: Node) -> Value:
    x = node[0]
    axes = [int(axis) % x.rank for axis in node.attr("axes", range(x.rank))]
    if not node.is_decided(1) or any(x.shape[axis] == -1 for axis in axes):
        return padded_at_run_time(node, x, {axis: _center(node, x, axis, _element(node, node[1], i)) for i, axis in enumerate(axes)})
    sizes = node.integers(1, "shape") or []
    pairs = [(0, 0)] * x.rank
    for axis, size in zip(axes, sizes, strict=True):
        difference = size - x.shape[axis]
        # Of an odd difference the larger half comes after, where it pads, and goes from the end, where it cuts.
        before = difference // 2 if difference >= 0 else -(-difference // 2)
        pairs[axis] = (before, difference - before)
    return padded(node, x, pairs)


def _center(node: Node, x: Value, axis: int, size: Value) -> tuple[Value, Value]:
    """The elements to pad before and after an axis so that it has a size, split as above; negative amounts are cut."""
    ops, two = node.ops, Value(np.asarray(2, "int64"))
    difference = ops.elementwise_sub(ops.cast(size, out_dtype="int64"), extent(node, x, axis))
    halves = ops.elementwise_floordiv(ops.abs(difference), two)
    before = ops.elementwise_mul(halves, ops.sign(difference))
    return before, ops.elementwise_sub(difference, before)
