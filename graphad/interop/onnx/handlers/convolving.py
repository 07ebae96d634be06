"""Convolutions, pooling, resizing and sampling of images, signals and volumes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from graphad.errors import ParseError
from graphad.interop.onnx.handlers.arranging import padded, padded_at_run_time
from graphad.interop.onnx.handlers.handler import Node, handles
from graphad.interop.onnx.handlers.reducing import extent
from graphad.interop.onnx.interpolation import Axis, matrix, places
from graphad.interop.onnx.operands import NotKnown, UnsupportedModel, Value, known_extents
from graphad.types import same_extent

Pads = list[tuple[int, int]]

# -- windows -------------------------------------------------------------------------------------


def spatial(node: Node, name: str, count: int, default: int = 1) -> list[int]:
    """A number for each spatial axis."""
    return [int(item) for item in node.attr(name, [default] * count)]


def pads_of(node: Node, extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Pads | str:
    """The padding before and after each spatial axis, or the mode that decides it where extents are unknown.

    ``SAME`` is what the operators have; ``SAME_LOWER``, or ``SAME_UPPER`` of windows with dilations, is left to ``with_same``.
    """
    auto = str(node.attr("auto_pad", "NOTSET"))
    count = len(kernel)
    if auto == "VALID":
        return [(0, 0)] * count
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        # Windows one element apart are padded alike whatever the extent is; others have to know it.
        if -1 in kernel or any(extent == -1 and stride > 1 for extent, stride in zip(extents, strides, strict=True)):
            return "SAME" if auto == "SAME_UPPER" and all(dilation == 1 for dilation in dilations) else auto
        return [_same(*item, auto) for item in zip(extents, kernel, strides, dilations, strict=True)]
    amounts = spatial(node, "pads", 2 * count, 0)
    return list(zip(amounts[:count], amounts[count:], strict=True))


def _same(extent: int, kernel: int, stride: int, dilation: int, auto: str) -> tuple[int, int]:
    # What the windows reach beyond the extent if there are ceil(extent / stride) of them; SAME_UPPER puts an odd one at the end.
    total = max((-(-extent // stride) - 1) * stride + (kernel - 1) * dilation + 1 - extent, 0)
    less = total // 2
    return (less, total - less) if auto == "SAME_UPPER" else (total - less, less)


def with_same(
    node: Node, x: Value, kernel: Sequence[int | Value], strides: Sequence[int], dilations: Sequence[int], filler: float = 0.0
) -> Value:
    """x with the padding of SAME around it, of extents that only the run knows; its windows are those without any."""
    ops, half, pairs = node.ops, Value(np.asarray(2, "int64")), dict[int, tuple[Value, Value]]()
    for i, (size, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
        count = extent(node, x, i + 2)
        windows = ops.elementwise_floordiv(ops.scale(count, scale=1.0, bias=float(stride - 1)), Value(np.asarray(stride, "int64")))
        # As in ``_same``: (windows - 1) stride + reach - extent, where that is above 0.
        known = (size - 1) * dilation if isinstance(size, int) else -dilation
        room = ops.scale(windows, scale=float(stride), bias=float(known + 1 - stride))
        if isinstance(size, Value):
            room = ops.elementwise_add(room, ops.scale(size, scale=float(dilation)))
        total = ops.elementwise_max(ops.elementwise_sub(room, count), Value(np.asarray(0, "int64")))
        less = ops.elementwise_floordiv(total, half)
        more = ops.elementwise_sub(total, less)
        before, after = (less, more) if node.attr("auto_pad") == "SAME_UPPER" else (more, less)
        pairs[i + 2] = ops.reshape(before, shape=[1]), ops.reshape(after, shape=[1])
    return padded_at_run_time(node, x, pairs, filler=Value(np.asarray(filler, x.dtype)))


def _as_image(node: Node, x: Value) -> Value:
    """A signal as an image of one row."""
    return node.ops.unsqueeze(x, axes=[2])


def _as_signal(node: Node, x: Value) -> Value:
    return node.ops.squeeze(x, axes=[2])


def _flat_pads(pads: Pads) -> list[int]:
    return [amount for pair in pads for amount in pair]


# -- convolution ---------------------------------------------------------------------------------


@handles("Conv")
def _conv(node: Node) -> Value:
    return convolved(node, node[0], node[1], node.get(2))


def convolved(node: Node, x: Value, kernel: Value, bias: Value | None) -> Value:
    count = x.rank - 2
    strides, dilations = spatial(node, "strides", count), spatial(node, "dilations", count)
    pads = pads_of(node, x.shape[2:], kernel.shape[2:], strides, dilations)
    if pads in ("SAME_LOWER", "SAME_UPPER"):
        sizes = [extent(node, kernel, i + 2) if kernel.shape[i + 2] == -1 else kernel.shape[i + 2] for i in range(count)]
        x, pads = with_same(node, x, sizes, strides, dilations), [(0, 0)] * count
    # There is no convolution of signals: they are images of one row.
    if count == 1:
        x, kernel = _as_image(node, x), _as_image(node, kernel)
        strides, dilations = [1, *strides], [1, *dilations]
        pads = pads if isinstance(pads, str) else [(0, 0), *pads]
    if count > 3:
        raise UnsupportedModel(f"a convolution over {count} axes")
    attrs = {"strides": strides, "dilations": dilations, "groups": int(node.attr("group", 1))}
    attrs |= {"padding_algorithm": pads} if isinstance(pads, str) else {"paddings": _flat_pads(pads)}
    out = (node.ops.conv3d if count == 3 else node.ops.conv2d)(x, kernel, **attrs)
    out = _as_signal(node, out) if count == 1 else out
    return with_bias(node, out, bias)


def with_bias(node: Node, x: Value, bias: Value | None) -> Value:
    if bias is None:
        return x
    return node.ops.elementwise_add(x, bias, axis=1)


@handles("ConvTranspose")
def _conv_transpose(node: Node) -> Value:
    """A transposed convolution; if the operator's own padding cannot express the model's, it is computed without padding and cut."""
    x, kernel = node[0], node[1]
    count = x.rank - 2
    strides, dilations = spatial(node, "strides", count), spatial(node, "dilations", count)
    extra, group = spatial(node, "output_padding", count, 0), int(node.attr("group", 1))
    sizes = [d * (k - 1) + 1 for k, d in zip(kernel.shape[2:], dilations, strict=True)]
    is_same = str(node.attr("auto_pad", "")).startswith("SAME")
    is_open = -1 in (*x.shape[2:], *kernel.shape[2:]) if node.attr("output_shape") is not None else is_same and -1 in kernel.shape[2:]
    cuts = [(0, 0)] * count if is_open else _transposed_cuts(node, x, sizes, strides, extra)
    # The operator's own padding cannot say what ONNX can: output_shape may make the result longer than the windows reach.
    is_plain = node.attr("output_shape") is None and all(
        before <= 0 and after - more <= 0 and more < stride for (before, after), more, stride in zip(cuts, extra, strides, strict=True)
    )
    pads = [(-before, more - after) for (before, after), more in zip(cuts, extra, strict=True)] if is_plain else [(0, 0)] * count
    y, w, extra = x, kernel, extra if is_plain else [0] * count
    if count == 1:
        y, w, strides, dilations = _as_image(node, y), _as_image(node, w), [1, *strides], [1, *dilations]
        pads, extra = [(0, 0), *pads], [0, *extra]
    attrs: dict[str, object] = {"strides": strides, "dilations": dilations, "groups": group, "paddings": _flat_pads(pads)}
    attrs |= {"output_padding": extra} if any(extra) else {}
    out = (node.ops.conv3d_transpose if count == 3 else node.ops.conv2d_transpose)(y, w, **attrs)
    out = _as_signal(node, out) if count == 1 else out
    if is_open:
        return with_bias(node, _cut_to_shape(node, out, x), node.get(2))
    return with_bias(node, out if is_plain else padded(node, out, [(0, 0), (0, 0), *cuts]), node.get(2))


def _cut_to_shape(node: Node, out: Value, x: Value) -> Value:
    """The output of a transposed convolution, cropped or padded to ``output_shape``, or x's extents times the strides, at run time."""
    ops, none = node.ops, Value(np.asarray([0], "int64"))
    count, pairs, sizes = out.rank - 2, {}, node.attr("output_shape")
    grown = [e if e == -1 else e * stride for e, stride in zip(x.shape[2:], spatial(node, "strides", count), strict=True)]
    target = grown if sizes is None else [int(item) for item in sizes][-count:]
    for i, (stride, more) in enumerate(zip(spatial(node, "strides", count), spatial(node, "output_padding", count, 0), strict=True)):
        # As in ``_transposed_cuts``, below 0 where elements are added.
        room = ops.reshape(extent(node, out, i + 2), shape=[1])
        wanted = ops.scale(extent(node, x, i + 2), scale=float(stride)) if sizes is None else Value(np.asarray(target[i]))
        surplus = ops.elementwise_sub(room, wanted)
        total = ops.scale(surplus, scale=1.0, bias=float(more))
        less = ops.elementwise_floordiv(total, Value(np.asarray([2], "int64")))
        auto = str(node.attr("auto_pad", "NOTSET"))
        before = less if auto == "SAME_UPPER" else ops.elementwise_sub(total, less)
        before = ops.elementwise_max(before, none) if auto == "NOTSET" else before
        after = ops.elementwise_sub(surplus, before)
        pairs[i + 2] = (ops.scale(before, scale=-1.0), ops.scale(after, scale=-1.0))
    wide = padded_at_run_time(node, out, pairs)
    return ops.reshape(wide, shape=[0 if e == -1 else e for e in [*out.shape[:2], *target]])


def _transposed_cuts(node: Node, x: Value, sizes: list[int], strides: list[int], extra: list[int]) -> Pads:
    """The elements cut before (negative), and cut or added after, each spatial axis."""
    auto = str(node.attr("auto_pad", "NOTSET"))
    target = node.attr("output_shape")
    if target is None and auto in ("NOTSET", "VALID"):
        count = len(sizes)
        amounts = spatial(node, "pads", 2 * count, 0)
        return [(-amounts[i], extra[i] - amounts[i + count]) for i in range(count)]
    cuts = []
    for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        total = (
            _transposed_surplus(x.shape[2 + i], size, stride, None if target is None else int(target[len(target) - len(sizes) + i]))
            + extra[i]
        )
        # Unlike a convolution's, all but SAME_UPPER put the larger half at the beginning (ConvTranspose, "auto_pad").
        less = total // 2
        before = less if auto == "SAME_UPPER" else total - less
        # What the windows do not reach is after them, where no SAME says that it is around them.
        before = max(before, 0) if auto == "NOTSET" else before
        cuts.append((-before, extra[i] - (total - before)))
    return cuts


def _transposed_surplus(extent: int, size: int, stride: int, target: int | None) -> int:
    """The surplus of an axis over its target: that of the stride, or the requested extent."""
    return size - stride if target is None else stride * (extent - 1) + size - target


# -- pooling -------------------------------------------------------------------------------------


@handles("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(node: Node) -> Value:
    x, ops = node[0], node.ops
    axes = list(range(2, x.rank))
    if node.type == "GlobalLpPool":
        p = float(node.attr("p", 2))
        total = ops.reduce_sum(ops.pow(ops.abs(x), factor=p), dim=axes, keep_dim=True)
        return ops.pow(total, factor=1.0 / p)
    return (ops.reduce_mean if node.type == "GlobalAveragePool" else ops.reduce_max)(x, dim=axes, keep_dim=True)


@handles("MaxPool", "AveragePool", "LpPool")
def _pool(node: Node) -> Value | list[Value]:
    x = node[0]
    kernel = [int(item) for item in node.required("kernel_shape")]
    count = len(kernel)
    strides, dilations = spatial(node, "strides", count), spatial(node, "dilations", count)
    pads = pads_of(node, x.shape[2:], kernel, strides, dilations)
    # SAME says how many windows there are, whatever ceil_mode is.
    ceil = bool(node.attr("ceil_mode", 0)) and not str(node.attr("auto_pad", "")).startswith("SAME")
    if node.type == "MaxPool" and node.wants(1):
        return _pool_with_places(node, x, kernel, strides, dilations, pads, ceil)
    # What pool2d computes alike. ONNX counts differently from Paddle where windows are rounded up: those are built of slices.
    is_plain = all(number == 1 for number in dilations) and count <= 3 and node.type != "LpPool" and x.is_float
    counts_padding = bool(node.attr("count_include_pad", 0))

    def pooled(x: Value, pads: Pads | str) -> Value:
        if is_plain and not ceil:
            return _plain_pool(node, x, kernel, strides, pads, ceil, counts_padding)
        assert not isinstance(pads, str)
        return _pool_by_slices(node, x, kernel, strides, dilations, pads, ceil, counts_padding)

    if not isinstance(pads, str) or (pads == "SAME" and is_plain):
        return pooled(x, pads)
    none = [(0, 0)] * count
    low = 0.0 if node.type != "MaxPool" else -np.inf if x.is_float else float(np.iinfo(x.dtype).min)
    out = pooled(with_same(node, x, kernel, strides, dilations, low), none)
    if node.type != "AveragePool" or counts_padding:
        return out
    # The averages count the padding: divided by those of ones, they do not.
    ones = node.ops.fill_any_like(node.ops.slice(x, axes=[0, 1], starts=[0, 0], ends=[1, 1]), value=1.0, dtype=x.dtype)
    return node.ops.elementwise_div(out, pooled(with_same(node, ones, kernel, strides, dilations), none))


def _plain_pool(node: Node, x: Value, kernel: list[int], strides: list[int], pads: Pads | str, ceil: bool, included: bool) -> Value:
    count = len(kernel)
    if count == 1:
        # A signal is an image of one row.
        x, kernel, strides = _as_image(node, x), [1, *kernel], [1, *strides]
        pads = pads if isinstance(pads, str) else [(0, 0), *pads]
    attrs = {"ksize": kernel, "strides": strides, "ceil_mode": ceil, "exclusive": not included}
    attrs |= {"padding_algorithm": pads} if isinstance(pads, str) else {"paddings": _flat_pads(pads)}
    kind = "max" if node.type == "MaxPool" else "avg"
    out = (node.ops.pool3d if count == 3 else node.ops.pool2d)(x, pooling_type=kind, **attrs)
    return _as_signal(node, out) if count == 1 else out


def _pool_by_slices(
    node: Node, x: Value, kernel: list[int], strides: list[int], dilations: list[int], pads: Pads, ceil: bool, included: bool
) -> Value:
    """One strided slice for each place in a window; they are joined element by element."""
    ops, is_max = node.ops, node.type == "MaxPool"
    low = np.finfo(x.dtype).min if x.is_float else np.iinfo(x.dtype).min
    windows = _Windows(x, kernel, strides, dilations, pads, ceil)
    y = windows.padded(node, x, float(-np.inf if x.is_float else low) if is_max else 0.0)
    if is_max:
        return reduce(ops.elementwise_max, windows.slices(node, y))
    if node.type == "LpPool":
        p = float(node.attr("p", 2))
        return ops.pow(reduce(ops.elementwise_add, windows.slices(node, ops.pow(ops.abs(y), factor=p))), factor=1.0 / p)
    counts = reduce(ops.elementwise_add, windows.slices(node, _counted(node, x, pads, windows.margins, included)))
    return ops.elementwise_div(reduce(ops.elementwise_add, windows.slices(node, y)), counts)


def _counted(node: Node, x: Value, pads: Pads, margins: Pads, included: bool) -> Value:
    """[1, 1, ...spatial]: 1 for each cell of the padded tensor that a mean counts, 0 for the others.

    The padding of the node counts if count_include_pad says so; the cells that only ceil_mode reaches never do.
    """
    beyond = [(0, margin[1] - pad[1]) for margin, pad in zip(margins, pads, strict=True)]
    if -1 not in x.shape[2:]:
        counted = np.pad(np.pad(np.ones(x.shape[2:]), pads, constant_values=float(included)), beyond)
        return Value(counted[None, None].astype(x.dtype))
    ops, none = node.ops, [(0, 0), (0, 0)]
    first = ops.slice(x, axes=[0, 1], starts=[0, 0], ends=[1, 1])
    inside = padded(node, ops.fill_any_like(first, value=1.0, dtype=x.dtype), [*none, *pads], "constant", float(included))
    return padded(node, inside, [*none, *beyond], "constant", 0.0)


class _Windows:
    """The windows of a pooling: each place in them is a strided slice of the padded tensor."""

    def __init__(self, x: Value, kernel: list[int], strides: list[int], dilations: list[int], pads: Pads, ceil: bool) -> None:
        self.kernel, self.strides, self.dilations = kernel, strides, dilations
        # A window with dilation d spans d * (k - 1) + 1 elements.
        self.sizes = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
        self.margins: list[tuple[int, int]] = []
        self.lasts: list[int | None] = []  # where the last window begins
        for count, (before, after), size, stride in zip(x.shape[2:], pads, self.sizes, strides, strict=True):
            if count == -1:
                # ceil(room / stride) windows more are floor((room + stride - 1) / stride): whatever the extent is, as much is added at the
                # end. Only where a window may begin after the tensor, and is left out, has the extent to be known.
                if ceil and after + stride > size:
                    raise NotKnown("pooling with ceil_mode, and pads or strides beyond its windows, of extents that are not known yet")
                self.margins.append((before, after + (stride - 1 if ceil else 0)))
                self.lasts.append(None)
                continue
            # With windows rounded up, the last one may end after the padding: the image is made as wide as it needs.
            last = (_count_of(count, before, after, size, stride, ceil) - 1) * stride
            self.margins.append((before, max(after, last + size - count - before)))
            self.lasts.append(last)

    def padded(self, node: Node, x: Value, filler: float) -> Value:
        return padded(node, x, [(0, 0), (0, 0), *self.margins], "constant", filler)

    def slices(self, node: Node, y: Value) -> list[Value]:
        """One strided slice for each place in the window, as im2col has one row for each."""
        results = []
        for place in itertools.product(*map(range, self.kernel)):
            starts = [p * d for p, d in zip(place, self.dilations, strict=True)]
            stops = [self._stop(i, start) for i, start in enumerate(starts)]
            axes = list(range(2, 2 + len(place)))
            results.append(node.ops.strided_slice(y, axes=axes, starts=starts, ends=stops, strides=self.strides))
        return results

    def _stop(self, i: int, start: int) -> int:
        last = self.lasts[i]
        if last is not None:
            return start + last + 1
        # As far from the end as the last window that fits has elements after this place.
        return start - self.sizes[i] + 1 or np.iinfo(np.int32).max


def _count_of(extent: int, before: int, after: int, size: int, stride: int, ceil: bool) -> int:
    """Windows along an axis; rounded up, the last one begins in the tensor or before it."""
    room = extent + before + after - size
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    # A window that would begin in the padding after the tensor has nothing to pool.
    return count - 1 if (count - 1) * stride >= extent + before else count


def _pool_with_places(
    node: Node, x: Value, kernel: list[int], strides: list[int], dilations: list[int], pads: Pads | str, ceil: bool
) -> list[Value]:
    """The largest of each window, and where it is in the whole tensor: the first of equal ones."""
    ops = node.ops
    # The integers that MaxPool takes have 8 bits, and float64 has a -inf to pad with.
    wide, numbers = x if x.is_float else ops.cast(x, out_dtype="float64"), _numbers(node, x)
    if isinstance(pads, str):
        wide, numbers = (with_same(node, part, kernel, strides, dilations, low) for part, low in ((wide, -np.inf), (numbers, -1.0)))
        pads = [(0, 0)] * len(kernel)
    out = _pool_by_slices(node, wide, kernel, strides, dilations, pads, ceil, False)
    windows = _Windows(wide, kernel, strides, dilations, pads, ceil)
    window_elements = ops.stack(windows.slices(node, windows.padded(node, wide, -np.inf)), axis=0)
    window_places = ops.stack(windows.slices(node, windows.padded(node, numbers, -1)), axis=0)
    first = ops.arg_max(window_elements, axis=0, keepdims=True)
    choice = ops.squeeze(ops.take_along_axis(window_places, first, Axis=0), axes=[0])
    return [out if x.is_float else ops.cast(out, out_dtype=x.dtype), choice]


def _numbers(node: Node, x: Value) -> Value:
    """Each element's number in the whole tensor, batch and channels too; storage_order=1 counts the spatial axes column by column."""
    ops, order = node.ops, list(range(x.rank))
    if node.attr("storage_order", 0):
        order[2:] = reversed(order[2:])
    back = [order.index(i) for i in range(x.rank)]
    extents = [x.shape[i] for i in order]
    if -1 not in extents:
        return Value(np.arange(math.prod(extents), dtype="int64").reshape(extents).transpose(back))
    zero, one = (Value(np.asarray([number], "int64")) for number in (0, 1))
    shape = ops.gather(ops.cast(ops.shape(x), out_dtype="int64"), Value(np.asarray(order, "int64")), axis=0)
    flat = ops.range(zero, ops.reshape(ops.size(x), shape=[1]), one)
    return ops.transpose(ops.reshape(flat, shape, shape=extents), axis=back)


@handles("MaxUnpool")
def _max_unpool(node: Node) -> Value:
    x, indices, ops = node[0], node[1], node.ops
    kernel = [int(item) for item in node.required("kernel_shape")]
    strides = spatial(node, "strides", len(kernel))
    amounts = spatial(node, "pads", 2 * len(kernel), 0)
    node.extents("an extent of the image", *x.shape)
    usual = [
        (e - 1) * s - amounts[i] - amounts[i + len(kernel)] + k
        for i, (e, s, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    argument = node.integers(2, "output_shape")
    # The indices count in a tensor of the usual shape, whatever output_shape says: what that has more is zeros at the ends.
    inner = [*x.shape[:2], *usual]
    flat = Value(np.zeros(math.prod(inner), x.dtype))
    elements = ops.put_along_axis(flat, ops.reshape(indices, shape=[-1]), ops.reshape(x, shape=[-1]), Axis=0)
    out = ops.reshape(elements, shape=inner)
    if argument is None or argument == inner:
        return out
    return padded(node, out, [(0, size - extent) for size, extent in zip(argument, inner, strict=True)])


# -- resizing ------------------------------------------------------------------------------------


@handles("Upsample")
def _upsample(node: Node) -> Value:
    x = node[0]
    scales = node.attr("scales", None if "scales" in node.attrs else node.known(1, "scales"))
    mode = str(node.attr("mode", "nearest"))
    return resized(node, x, list(range(x.rank)), None, [float(item) for item in scales], mode, "asymmetric", "floor")


@handles("Resize")
def _resize(node: Node) -> Value:
    x = node[0]
    mode = str(node.attr("mode", "nearest"))
    if node.version < 11:
        scales = node.known(1, "scales")
        assert scales is not None
        return resized(node, x, list(range(x.rank)), None, [float(item) for item in scales], mode, "asymmetric", "floor")
    axes = [int(item) % x.rank for item in node.attr("axes", range(x.rank))]
    argument = node.get(2)
    has_factors = argument is not None and argument.shape != (0,)
    factors = [float(item) for item in np.ravel(node.known(2, "scales"))] if has_factors else None  # type: ignore[arg-type]
    policy = str(node.attr("keep_aspect_ratio_policy", "stretch"))
    coordinates, rounding = (str(node.attr(*pair)) for pair in _RESIZING)
    is_plain = policy == "stretch" and coordinates != "tf_crop_and_resize" and not node.attr("antialias", 0)
    if is_plain and node.get(3) is not None and not node.is_decided(3):
        return _resized_at_run_time(node, x, axes, mode, coordinates, rounding)
    sizes = None if node.get(3) is None else node.integers(3, "sizes")
    has_region = node.get(1) is not None and node.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    roi = node.known(1, "roi") if has_region else None
    if sizes is not None and policy != "stretch" and any(x.shape[axis] == -1 for axis in axes):
        raise NotKnown(f"keep_aspect_ratio_policy={policy!r} with extents that are not known before the model runs")
    if sizes is not None and policy != "stretch":
        ratios = [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
        # keep_aspect_ratio_policy: one factor for all axes, and sizes rounded half up from it, not those that were requested.
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        factors, sizes = [ratio] * len(axes), [math.floor(ratio * x.shape[axis] + 0.5) for axis in axes]
    return resized(node, x, axes, sizes, factors, mode, coordinates, rounding, roi)


_RESIZING = (("coordinate_transformation_mode", "half_pixel"), ("nearest_mode", "round_prefer_floor"))


def _resized_at_run_time(node: Node, x: Value, axes: list[int], mode: str, coordinates: str, rounding: str) -> Value:
    """Resize to extents that a run knows; an axis that keeps its extent, by its number or its name, stays as it is."""
    extents = known_extents(node[3]) or [-1] * len(axes)
    for i, (axis, size) in enumerate(zip(axes, extents, strict=True)):
        if same_extent(size, x.shape[axis]):
            continue
        new = Value(np.asarray(size, "int64")) if size != -1 else node.ops.slice(node[3], axes=[0], starts=[i], ends=[i + 1])
        x = _resized_open(node, x, axis, node.ops.reshape(new, shape=[]), 1.0, mode, coordinates, rounding)
    return x


def resized(
    node: Node,
    x: Value,
    axes: list[int],
    sizes: list[int] | None,
    factors: list[float] | None,
    mode: str,
    coordinates: str,
    rounding: str,
    roi: np.ndarray[tuple[int, ...], np.dtype[np.floating]] | None = None,
) -> Value:
    """Along each axis a product with a matrix, or taking elements; both are known where the extent is."""
    is_open = roi is None and any(x.shape[axis] == -1 and not _is_one(axis, i, sizes, factors, x) for i, axis in enumerate(axes))
    whole = _interpolated(node, x, axes, sizes, factors, mode, coordinates, rounding) if is_open else None
    if whole is not None:
        return whole
    out = x
    for i, axis in enumerate(axes):
        size = x.shape[axis]
        if roi is None and _is_one(axis, i, sizes, factors, x):
            continue
        if size == -1:
            if roi is not None:
                raise NotKnown("Resize of a region of extents that are not known before the model runs")
            new = None if sizes is None else sizes[i]
            out = _resized_open(node, out, axis, new, 1.0 if factors is None else factors[i], mode, coordinates, rounding)
            continue
        scale = factors[i] if factors is not None else (sizes[i] / size if sizes is not None else 1.0)
        new = sizes[i] if sizes is not None else math.floor(size * scale)
        # roi has the starts of all axes, then the ends of all axes, as fractions of the extents.
        part = None if roi is None else (float(roi[i]), float(roi[i + len(axes)]))
        resampling = Axis(size, new, scale, coordinates, part, float(node.attr("extrapolation_value", 0.0)))
        out = _filled_outside(node, _resized_axis(node, out, axis, resampling, mode, rounding), axis, resampling)
    return out


def _resized_axis(node: Node, x: Value, axis: int, resampling: Axis, mode: str, rounding: str) -> Value:
    if mode == "nearest":
        array = np.clip(places(resampling, rounding), 0, resampling.old - 1).astype("int64")
        return node.ops.gather(x, Value(array), axis=axis)
    coefficient, exclude, smooth = node.attr("cubic_coeff_a", -0.75), node.attr("exclude_outside", 0), node.attr("antialias", 0)
    weights = matrix(resampling, mode, float(coefficient), bool(exclude), bool(smooth))
    return along(node, x, Value(weights.astype(x.dtype if x.is_float else "float64")), axis)


def _filled_outside(node: Node, x: Value, axis: int, resampling: Axis) -> Value:
    outside = resampling.outside()
    if not outside.any():
        return x
    shape = [1] * x.rank
    shape[axis] = resampling.new
    return node.ops.where(Value(outside.reshape(shape)), node.ops.like(resampling.filler, x), x)


def along(node: Node, x: Value, weights: Value, axis: int) -> Value:
    """A matrix applied along an axis."""
    ops = node.ops
    order = [i for i in range(x.rank) if i != axis] + [axis]
    back = [int(i) for i in np.argsort(order)]
    rows = ops.transpose(x, axis=order) if order != sorted(order) else x
    # Integers are computed in float64, in which they are exact to 2**53, and rounded back.
    total = rows if x.is_float else ops.cast(rows, out_dtype="float64")
    result = ops.matmul_v2(total, weights, trans_y=True)
    result = ops.transpose(result, axis=back) if order != sorted(order) else result
    return result if x.is_float else ops.cast(ops.rint(result), out_dtype=x.dtype)


def _interpolated(
    node: Node, x: Value, axes: list[int], sizes: list[int] | None, factors: list[float] | None, mode: str, coordinates: str, rounding: str
) -> Value | None:
    """Resize by graphad's own operators for images, whose extents may be unknown; None where these have another meaning."""
    has_other_weights = node.attr("cubic_coeff_a", -0.75) != -0.75 or node.attr("exclude_outside", 0) or node.attr("antialias", 0)
    if x.rank != 4 or not x.is_float or has_other_weights or not {2, 3} <= set(axes) or (sizes is None and factors is None):
        return None
    if any(axis < 2 and not _is_one(axis, i, sizes, factors, x) for i, axis in enumerate(axes)):
        return None
    height, width = (axes.index(axis) for axis in (2, 3))
    new = None if sizes is None else [sizes[height], sizes[width]]
    scales = None if factors is None or new is not None else [factors[height], factors[width]]
    if not _is_ours(mode, coordinates, rounding, new, scales):
        return None
    attrs: dict[str, object] = {"align_corners": coordinates == "align_corners"}
    attrs |= {"scale": scales} if new is None else {"out_h": new[0], "out_w": new[1]}
    if mode == "nearest":
        return node.ops.nearest_interp_v2(x, **attrs)
    # align_mode 0 takes the centers of elements for their places, 1 their corners.
    align = 0 if coordinates in ("half_pixel", "pytorch_half_pixel") else 1
    return (node.ops.bilinear_interp_v2 if mode == "linear" else node.ops.bicubic_interp_v2)(x, align_mode=align, **attrs)


def _is_ours(mode: str, coordinates: str, rounding: str, new: list[int] | None, scales: list[float] | None) -> bool:
    """Whether graphad's interpolation is ONNX's, for all extents that an image may have."""
    is_whole = scales is not None and all(scale >= 1 and scale == int(scale) for scale in scales)
    grows = all(scale >= 2 for scale in scales) if scales is not None else all(size > 1 for size in new or ())
    centers = coordinates in ("half_pixel", "pytorch_half_pixel")
    if mode == "nearest":
        # By a whole factor s, element i is at (i + 1/2) / s - 1/2, and the nearest one is i // s: there are no halves.
        return (coordinates, rounding) == ("asymmetric", "floor") or (centers and is_whole and rounding.startswith("round"))
    if coordinates == "align_corners":
        return new is not None or is_whole
    if mode == "linear" and coordinates in ("asymmetric", "pytorch_half_pixel"):
        return True
    # One new element is at the middle in one of the coordinates, at the beginning in the others.
    return centers and grows


class _OpenAxis(NamedTuple):
    """An axis of an extent that a run knows: extents and the factor in float64, without axes."""

    old: Value
    new: Value
    scale: Value

    def sources(self, node: Node, coordinates: str) -> Value:
        """The place of the old axis that each new element is at, as ``Axis.sources`` has it."""
        ops, (old, new, scale) = node.ops, self
        zero, unit = (Value(np.asarray([number], "float64")) for number in (0.0, 1.0))
        k = ops.range(zero, ops.reshape(new, shape=[1]), unit)
        centers = ops.scale(ops.elementwise_div(ops.scale(k, scale=1.0, bias=0.5), scale), scale=1.0, bias=-0.5)
        if coordinates == "half_pixel":
            return centers
        if coordinates == "pytorch_half_pixel":
            return ops.where(ops.greater_than(new, ops.like(1.0, new)), centers, ops.like(0.0, new))
        if coordinates == "half_pixel_symmetric":
            # Where the new extent was rounded, half of what the scale would leave out is moved to each side.
            missing = ops.elementwise_sub(old, ops.elementwise_div(new, scale))
            return ops.elementwise_add(centers, ops.scale(missing, scale=0.5))
        if coordinates == "asymmetric":
            return ops.elementwise_div(k, scale)
        if coordinates == "align_corners":
            longest = ops.scale(ops.elementwise_mul(scale, old), scale=1.0, bias=-1.0)
            is_long = ops.greater_than(longest, ops.like(0.0, longest))
            step = ops.elementwise_div(ops.scale(old, scale=1.0, bias=-1.0), ops.where(is_long, longest, ops.like(1.0, longest)))
            return ops.where(is_long, ops.elementwise_mul(k, step), ops.like(0.0, longest))
        raise NotKnown(f"Resize with {coordinates} of an extent that is not known before the model runs")


def _resized_open(
    node: Node, x: Value, axis: int, size: int | Value | None, factor: float, mode: str, coordinates: str, rounding: str
) -> Value:
    """An axis of an extent that a run knows: elements are taken by their places, and added with their weights."""
    ops = node.ops
    old = ops.cast(extent(node, x, axis), out_dtype="float64")
    if size is None:
        scale = ops.like(factor, old)
        new = ops.floor(ops.elementwise_mul(old, scale))
    else:
        new = ops.cast(size, out_dtype="float64") if isinstance(size, Value) else ops.like(float(size), old)
        scale = ops.elementwise_div(new, old)
    at = _OpenAxis(old, new, scale).sources(node, coordinates)
    last = ops.scale(old, scale=1.0, bias=-1.0)

    def taken(place: Value, source: Value) -> Value:
        # Beyond the edges the element at the edge counts.
        inside = ops.elementwise_max(ops.elementwise_min(place, last), ops.like(0.0, place))
        return ops.gather(source, ops.cast(inside, out_dtype="int64"), axis=axis)

    if mode == "nearest":
        return taken(_rounded(node, at, rounding), x)
    taps = _taps(node, at, mode, last)
    source = x if x.is_float else ops.cast(x, out_dtype="float64")
    parts = []
    for place, weight in taps:
        share = ops.reshape(ops.cast(weight, out_dtype=source.dtype), shape=[-1, *[1] * (x.rank - 1 - axis)])
        parts.append(ops.elementwise_mul(taken(place, source), share))
    total = reduce(ops.elementwise_add, parts)
    return total if x.is_float else ops.cast(ops.rint(total), out_dtype=x.dtype)


def _rounded(node: Node, at: Value, rounding: str) -> Value:
    ops = node.ops
    if rounding not in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
        raise ParseError(f"nearest_mode {rounding!r} is not known")
    shift = {"round_prefer_floor": -0.5, "round_prefer_ceil": 0.5}.get(rounding, 0.0)
    return (ops.ceil if rounding in ("ceil", "round_prefer_floor") else ops.floor)(ops.scale(at, scale=1.0, bias=shift))


def _taps(node: Node, at: Value, mode: str, last: Value) -> list[tuple[Value, Value]]:
    """The old elements that a new one is made of, and their weights, which add up to 1."""
    ops, a = node.ops, float(node.attr("cubic_coeff_a", -0.75))
    if mode not in ("linear", "cubic") or node.attr("antialias", 0):
        raise NotKnown(f"Resize with mode={mode!r}, antialias, of an extent that is not known before the model runs")
    base = ops.floor(at)
    results = []
    for step in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
        place = ops.scale(base, scale=1.0, bias=float(step))
        distance = ops.abs(ops.elementwise_sub(at, place))
        if mode == "linear":
            weight = ops.scale(distance, scale=-1.0, bias=1.0)
        else:  # Keys' kernel within one element, or within two
            factors = (a + 2, -(a + 3), 0.0, 1.0) if step in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
            weight = ops.like(factors[0], at)
            for factor in factors[1:]:
                weight = ops.scale(ops.elementwise_mul(weight, distance), scale=1.0, bias=factor)
        results.append((place, weight))
    if not node.attr("exclude_outside", 0):
        return results
    parts = []
    for place, weight in results:
        inside = ops.logical_and(ops.greater_equal(place, ops.like(0.0, place)), ops.less_equal(place, last))
        parts.append((place, ops.where(inside, weight, ops.like(0.0, weight))))
    total = reduce(ops.elementwise_add, [weight for _, weight in parts])
    return [(place, ops.elementwise_div(weight, total)) for place, weight in parts]


def _is_one(axis: int, i: int, sizes: list[int] | None, factors: list[float] | None, x: Value) -> bool:
    """Whether an axis stays as it is."""
    return sizes[i] == x.shape[axis] if sizes is not None else factors is not None and factors[i] == 1.0


# -- sampling ------------------------------------------------------------------------------------


_MODES = {"linear": "bilinear", "bilinear": "bilinear", "cubic": "bicubic", "bicubic": "bicubic", "nearest": "nearest"}


@handles("GridSample")
def _grid_sample(node: Node) -> Value:
    mode = str(node.attr("mode", "linear"))
    if mode not in _MODES:
        raise ParseError(f"mode={mode!r} is none of {', '.join(_MODES)}")
    attrs = {"padding_mode": str(node.attr("padding_mode", "zeros")), "align_corners": bool(node.attr("align_corners", 0))}
    if -1 in node[0].shape[1:]:
        raise NotKnown("GridSample of an image whose extents are not known before the model runs")
    grid = _at_elements(node, node[1], node[0].shape[2:], attrs["align_corners"]) if mode == "nearest" else node[1]
    return node.ops.grid_sampler(node[0], grid, mode=_MODES[mode], **attrs)


def _at_elements(node: Node, grid: Value, image: Sequence[int], align_corners: object) -> Value:
    """The points moved to the nearest elements, from halves to the even one: the operator itself rounds halves away from zero."""
    ops, extents = node.ops, np.asarray(image[::-1], grid.dtype)
    half = np.maximum((extents - 1) / 2 if align_corners else extents / 2, 0.5).astype(grid.dtype)  # one element has no extent to move in
    middle = ((extents - 1) / 2).astype(grid.dtype)
    numbers = ops.rint(ops.elementwise_add(ops.elementwise_mul(grid, Value(half)), Value(middle)))
    return ops.elementwise_div(ops.elementwise_sub(numbers, Value(middle)), Value(half))


@handles("AffineGrid")
def _affine_grid(node: Node) -> Value:
    sizes = node.integers(1, "size") or []
    return node.ops.affine_grid(node[0], output_shape=sizes, align_corners=bool(node.attr("align_corners", 0)))


@handles("Col2Im")
def _col2im(node: Node) -> Value:
    x, ops = node[0], node.ops
    image, block = node.integers(1, "image_shape") or [], node.integers(2, "block_shape") or []
    count = len(image)
    strides, dilations = spatial(node, "strides", count), spatial(node, "dilations", count)
    pads = spatial(node, "pads", 2 * count, 0)
    channels = x.shape[1] // math.prod(block)
    padded_extents = [e + pads[i] + pads[i + count] for i, e in enumerate(image)]
    outs = [(w - d * (b - 1) - 1) // s + 1 for w, d, b, s in zip(padded_extents, dilations, block, strides, strict=True)]
    # The inverse of im2col adds each column to the cells that its window was cut from: those cells' numbers are cut the same way.
    numbers = np.arange(math.prod(padded_extents)).reshape(padded_extents)
    results = []
    for place in itertools.product(*map(range, block)):
        window = tuple(slice(p * d, p * d + (o - 1) * s + 1, s) for p, d, o, s in zip(place, dilations, outs, strides, strict=True))
        results.append(numbers[window].ravel())
    indices = Value(np.concatenate(results).astype("int64"))
    batch = x.shape[0]
    if batch == -1:
        raise NotKnown("Col2Im of a batch that is not known before the model runs")
    flat = ops.reshape(x, shape=[batch * channels, math.prod(block) * math.prod(outs)])
    rows = ops.transpose(flat, axis=[1, 0])
    total = ops.index_add(Value(np.zeros((math.prod(padded_extents), batch * channels), x.dtype)), indices, rows, axis=0)
    image_shape = ops.reshape(ops.transpose(total, axis=[1, 0]), shape=[batch, channels, *padded_extents])
    return padded(node, image_shape, [(0, 0), (0, 0), *((-pads[i], -pads[i + count]) for i in range(count))])
