"""Convolutions, poolings and what their gradients are made of, over images and volumes in either layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from graphad.interop.onnx.emitting import TO_THE_END, Dim, Nodes
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.writer import Call, CannotWrite, Result, writes
from graphad.ops.conv import Convolution, Convolution3d, TransposedConvolution, TransposedConvolution3d
from graphad.ops.pooling import Pooling, Pooling3d, averaging
from graphad.ops.windows import CHANNELS_LAST

# -- layouts -------------------------------------------------------------------------------------


def to_front(nodes: Nodes, x: Term, data_format: str) -> Term:
    """With the channels in front."""
    return nodes.moved(x, -1, 1) if data_format in CHANNELS_LAST else x


def from_front(nodes: Nodes, x: Term, data_format: str) -> Term:
    """The image with its channels where ``data_format`` has them."""
    return nodes.moved(x, 1, -1) if data_format in CHANNELS_LAST else x


# -- windows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """Windows along one axis; ``kernel`` is -1 where a run knows it, which may also compute the padding around (SAME)."""

    kernel: int
    stride: int
    dilation: int
    before: Dim
    after: Dim

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation + 1


def windows_of(nodes: Nodes, image: Term, kernel: Sequence[Dim], spec: Any) -> list[Window]:
    """The windows of a kernel in an image ``[N, C, ...]``."""
    windows, known = [], [size if isinstance(size, int) else -1 for size in kernel]
    for i, axis in enumerate(spec.axes(image.shape, (1, 1, *known)) if hasattr(spec, "dilations") else spec.axes(image.shape) or ()):
        # Paddle's SAME ignores dilations.
        dilation = 1 if spec.padding_algorithm == "SAME" else axis.dilation
        before, after = axis.before, axis.after
        if spec.padding_algorithm == "SAME" and -1 in (axis.size, axis.kernel):
            size = axis.kernel if axis.kernel != -1 else kernel[i]
            before, after = _same(nodes, image, i + 2, axis.stride, (size - 1) * dilation + 1)
        windows.append(Window(axis.kernel, axis.stride, dilation, before, after))
    return windows


def _same(nodes: Nodes, image: Term, axis: int, stride: int, reach: Dim) -> tuple[Dim, Dim]:
    """The padding for which the extent divided by the stride, rounded up, is the number of windows."""
    extent = nodes.extent(image, axis)
    count = -(-extent // stride) if isinstance(extent, int) else on.floor_divide(extent + (stride - 1), stride)
    total = on.maximum((count - 1) * stride + reach - extent, 0)
    before = on.floor_divide(total, 2)
    return before, total - before


def _same_attrs(windows: Sequence[Window]) -> dict[str, object]:
    """SAME by its name, where only a run knows the padding; nothing else makes such windows."""
    return {"auto_pad": "SAME_UPPER"} if any(isinstance(amount, Term) for w in windows for amount in (w.before, w.after)) else {}


def _explicit(nodes: Nodes, x: Term, windows: Sequence[Window], value: float = 0.0) -> tuple[Term, list[int]]:
    """The image, padded where only a run knows how much, and the padding that is left to do: ``[before..., after...]``."""
    pads = [*(w.before for w in windows), *(w.after for w in windows)]
    amounts = [amount for amount in pads if isinstance(amount, int)]
    if len(amounts) == len(pads):
        return x, amounts
    # The attribute ``pads`` holds numbers alone: if one of them is known only to a run, all of it becomes a Pad before.
    axes = list(range(2, 2 + len(windows)))
    return nodes.pad(x, [w.before for w in windows], [w.after for w in windows], value, axes=axes), [0] * 2 * len(windows)


# -- convolutions --------------------------------------------------------------------------------


def _spec(call: Call) -> Any:
    attrs = call.attrs
    is_transposed = call.type.endswith("transpose")
    if "3d" in call.type:
        return (TransposedConvolution3d if is_transposed else Convolution3d)(**attrs)
    return (TransposedConvolution if is_transposed else Convolution)(**attrs)


def convolved(nodes: Nodes, x: Term, filter_: Term, bias: Term | None, windows: Sequence[Window], groups: int) -> Term:
    """The products of a filter with every window."""
    # By auto_pad there are extent / stride windows, rounded up, whatever the kernel: the extent may be open.
    same = _same_attrs(windows)
    if same:
        counts = [-1 if e == -1 else -(-e // w.stride) for e, w in zip(x.shape[2:], windows, strict=True)]
        attrs: dict[str, object] = {"group": groups, **same}
    else:
        x, pads = _explicit(nodes, x, windows)
        counts = [
            -1 if e == -1 or w.kernel == -1 else (e + a + b - w.reach) // w.stride + 1
            for e, w, a, b in zip(x.shape[2:], windows, pads[: len(windows)], pads[len(windows) :], strict=True)
        ]
        attrs = {"group": groups, "pads": pads}
    attrs |= {"strides": [w.stride for w in windows], "dilations": [w.dilation for w in windows]}
    inputs = [x, filter_] if bias is None else [x, filter_, bias]
    return nodes.one("Conv", inputs, x.kind, [x.sizes[0], filter_.sizes[0], *counts], **attrs)


@writes("conv2d", "depthwise_conv2d", "conv3d")
def _conv(call: Call) -> Result:
    nodes, spec, filter_ = call.nodes, _spec(call), call["Filter"]
    x = to_front(nodes, call["Input"], spec.data_format)
    bias = call.get("Bias") if "Bias" in call.definition.inputs else None
    out = convolved(nodes, x, filter_, bias, windows_of(nodes, x, nodes.dims(filter_)[2:], spec), spec.groups)
    return from_front(nodes, out, spec.data_format)


def spread(nodes: Nodes, y: Term, filter_: Term, windows: Sequence[Window], sizes: Sequence[Dim], groups: int) -> Term:
    """The image of given extents whose windows receive y through a filter: without padding, and then cut or filled up."""
    strides, dilations = [w.stride for w in windows], [w.dilation for w in windows]
    channels = filter_.shape[1] * groups if filter_.shape[1] != -1 else -1
    attrs: dict[str, object] = {"group": groups, "strides": strides, "dilations": dilations}
    exact = _exact(y, windows, sizes)
    if exact is not None:
        attrs |= exact
        return nodes.one("ConvTranspose", [y, filter_], y.kind, [y.sizes[0], channels, *sizes], **attrs)
    whole = nodes.one("ConvTranspose", [y, filter_], y.kind, [y.sizes[0], channels, *[-1] * len(windows)], **attrs)
    axes = list(range(2, 2 + len(windows)))
    # What the last window does not reach is less than a stride; of more it is cut again.
    more: list[Dim] = [w.stride - 1 + w.after for w in windows]
    wide = nodes.pad(whole, [0] * len(windows), more, axes=axes)
    ends = [w.before + e for w, e in zip(windows, sizes, strict=True)]
    image = nodes.slice(wide, axes, [w.before for w in windows], ends)
    return _sized(image, [*image.sizes[:2], *sizes])


def _sized(x: Term, sizes: Sequence[Any]) -> Term:
    x.sizes = tuple(sizes)
    x.shape = tuple(size if isinstance(size, int) else -1 for size in x.sizes)
    return x


def _exact(y: Term, windows: Sequence[Window], sizes: Sequence[Dim]) -> dict[str, object] | None:
    """The paddings for which the image has the extents; None where that needs more than paddings, or only a run knows."""
    before, after, surpluses = [], [], []
    for w, size, count in zip(windows, sizes, y.shape[2:], strict=True):
        if not isinstance(w.before, int) or not isinstance(w.after, int):
            return None
        # From the extent of the image, n = (count - 1) stride + reach - before - after: what is left over is the padding after it.
        if w.stride == 1 and w.kernel != -1:
            surplus = w.after
        elif not isinstance(size, int) or count == -1 or w.kernel == -1:
            return None
        else:
            surplus = (count - 1) * w.stride + w.reach - w.before - size
        # An ``output_padding`` has to be below the stride.
        if surplus < -w.stride + 1:
            return None
        before.append(w.before)
        after.append(max(surplus, 0))
        surpluses.append(max(-surplus, 0))
    return {"pads": [*before, *after], **({"output_padding": surpluses} if any(surpluses) else {})}


@writes("conv2d_backprop_input", "conv3d_backprop_input")
def _to_input(call: Call) -> Result:
    nodes, spec, filter_ = call.nodes, _spec(call), call["Filter"]
    like, y = (to_front(nodes, call[slot], spec.data_format) for slot in ("Like", "X"))
    out = spread(nodes, y, filter_, windows_of(nodes, like, nodes.dims(filter_)[2:], spec), nodes.dims(like)[2:], spec.groups)
    return from_front(nodes, out, spec.data_format)


@writes("conv2d_backprop_filter", "conv3d_backprop_filter")
def _to_filter(call: Call) -> Result:
    """A convolution again: samples are what is summed over, strides and dilations change places, features are the filters."""
    nodes, spec, like = call.nodes, _spec(call), call["Like"]
    x, y = (to_front(nodes, call[slot], spec.data_format) for slot in ("Input", "X"))
    windows = windows_of(nodes, x, nodes.dims(like)[2:], spec)
    x, pads = _explicit(nodes, x, windows)
    groups, rank = spec.groups, len(windows)
    space = list(range(2, 2 + rank))
    if groups == 1:
        image = nodes.transpose(x, [1, 0, *space])
    else:
        dims = nodes.dims(x)
        channels = x.shape[1] // groups if x.shape[1] != -1 else like.shape[1]
        blocks = nodes.reshape(x, [dims[0], groups, channels, *dims[2:]])
        # With groups, the channels of a group must be adjacent for Conv's own groups: [C/g, g, N] is read as [C/g, g·N].
        channels_first = nodes.transpose(blocks, [2, 1, 0, *(i + 1 for i in space)])
        image = nodes.reshape(channels_first, [channels, nodes.product([dims[0], groups]), *dims[2:]])
    features = nodes.transpose(y, [1, 0, *space])
    attrs: dict[str, object] = {"group": groups, "pads": pads}
    attrs |= {"strides": [w.dilation for w in windows], "dilations": [w.stride for w in windows]}
    # dL/dw[o, c, k] = sum over n, p of x[n, c, p·stride + k·dilation] dL/dy[n, o, p]: a convolution of x by dL/dy in which samples
    # take the place of channels. What a window did not reach of x gives places more than the kernel has; they are cut off.
    whole = nodes.one("Conv", [image, features], x.kind, [image.sizes[0], features.sizes[0], *[-1] * rank], **attrs)
    kernel = nodes.slice(whole, space, [0] * rank, nodes.dims(like)[2:])
    out = nodes.transpose(kernel, [1, 0, *space])
    return _sized(out, like.sizes)


@writes("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def _transposed(call: Call) -> Result:
    nodes, spec, filter_ = call.nodes, _spec(call), call["Filter"]
    x = to_front(nodes, call["Input"], spec.data_format)
    axes = spec.axes((-1,) * x.ndim, filter_.shape)
    windows = [Window(a.kernel, a.stride, a.dilation, a.before, a.after) for a in axes]
    extra = spec.output_padding or [0] * len(windows)
    if not spec.output_size and all(e < w.stride for e, w in zip(extra, windows, strict=True)):
        out = _widened(nodes, x, filter_, windows, extra, spec.groups)
    else:
        sizes: list[Dim] = list(spec.output_size)
        # The inverse of the extent of a convolution, of which there are ``stride`` many: ``output_padding`` chooses one.
        rests = [
            (size - 1) * w.dilation + 1 - w.before - w.after + e for size, w, e in zip(nodes.dims(filter_)[2:], windows, extra, strict=True)
        ]
        sizes = sizes or [(n - 1) * w.stride + rest for n, w, rest in zip(nodes.dims(x)[2:], windows, rests, strict=True)]
        out = spread(nodes, x, filter_, windows, sizes, spec.groups)
    bias = call.get("Bias") if "Bias" in call.definition.inputs else None
    if bias is not None:
        out = out + nodes.unsqueeze(bias, list(range(1, 1 + len(windows))))
    return from_front(nodes, out, spec.data_format)


def _widened(nodes: Nodes, x: Term, filter_: Term, windows: Sequence[Window], extra: Sequence[int], groups: int) -> Term:
    """The image whose extents follow from those of x and the windows, as ONNX's own operator has it."""
    pads = [*(w.before for w in windows), *(w.after for w in windows)]
    attrs: dict[str, object] = {"group": groups, "pads": pads}
    attrs |= {"strides": [w.stride for w in windows], "dilations": [w.dilation for w in windows]}
    attrs |= {"output_padding": list(extra)} if any(extra) else {}
    sizes: list[int] = []
    for count, w, more in zip(x.shape[2:], windows, extra, strict=True):
        known_padding = w.before + w.after
        assert isinstance(known_padding, int)
        # The extent of a convolution, solved for that of the image, and what ``output_padding`` adds.
        sizes.append(-1 if -1 in (count, w.kernel) else (count - 1) * w.stride + w.reach - known_padding + more)
    channels = filter_.shape[1] * groups if filter_.shape[1] != -1 else -1
    return nodes.one("ConvTranspose", [x, filter_], x.kind, [x.sizes[0], channels, *sizes], **attrs)


# -- columns of windows --------------------------------------------------------------------------


def _columns(call: Call, image: Term) -> list[Window]:
    """The windows of an unfolding; four paddings are top, left, bottom, right."""
    paddings = call.attr("paddings")
    around = [paddings[i] for i in (0, 2, 1, 3)] if len(paddings) == 4 else paddings
    spec = Convolution(strides=call.attr("strides"), paddings=around, dilations=call.attr("dilations"))
    kernel = list(call.attr("kernel_sizes"))
    return windows_of(call.nodes, image, kernel * (2 if len(kernel) == 1 else 1), spec)


def _unit_filter(windows: Sequence[Window], dtype: Any) -> np.ndarray[Any, Any]:
    """A filter for each element of a window, which takes that element."""
    size = prod(w.kernel for w in windows)
    return np.eye(size, dtype=dtype).reshape(size, 1, *(w.kernel for w in windows))


@writes("unfold")
def _unfold(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    windows = _columns(call, x)
    n, c, *space = nodes.dims(x)
    # Each channel is an image of its own, of which each unit filter picks one element of a window.
    planes = nodes.reshape(x, [nodes.product([n, c]), 1, *space])
    out = convolved(nodes, planes, nodes.constant(_unit_filter(windows, x.dtype)), None, windows, 1)
    size = prod(w.kernel for w in windows)
    return nodes.reshape(out, [n, nodes.product([c, size]), nodes.product(nodes.dims(out)[2:])])


def _folded(call: Call, columns: Term, image: list[Dim], windows: list[Window], like: Term | None) -> Term:
    nodes = call.nodes
    n, c, *space = image
    size = prod(w.kernel for w in windows)
    counts = [_windows_in(e, w) for e, w in zip(space, windows, strict=True)]
    planes = nodes.reshape(columns, [nodes.product([n, c]), size, *counts])
    # The transpose of ``unfold``: what windows share is added up.
    out = spread(nodes, planes, nodes.constant(_unit_filter(windows, columns.dtype)), windows, space, 1)
    return nodes.reshape(out, image)


def _windows_in(extent: Dim, w: Window) -> Dim:
    room = extent + w.before + w.after - w.reach
    return room // w.stride + 1 if isinstance(room, int) else on.floor_divide(room, w.stride) + 1


@writes("fold_like")
def _fold_like(call: Call) -> Result:
    like = call["Like"]
    return _folded(call, call["X"], call.nodes.dims(like), _columns(call, like), like)


@writes("fold")
def _fold(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    sizes = list(call.attr("output_sizes"))
    space = sizes * (2 if len(sizes) == 1 else 1)
    image = Term(nodes, x.kind, [-1, -1, *space])
    windows = _columns(call, image)
    rows = x.shape[1] // prod(w.kernel for w in windows) if x.shape[1] != -1 else -1
    if rows == -1:
        raise CannotWrite("the number of rows of the columns is not known before a run")
    return _folded(call, x, [nodes.extent(x, 0), rows, *space], windows, None)


# -- poolings ------------------------------------------------------------------------------------


def _pooling(call: Call) -> Any:
    attrs = dict(call.attrs)
    if call.type.endswith("with_index"):
        attrs["pooling_type"] = "max"
    return (Pooling3d if "3d" in call.type else Pooling)(**attrs)


def _is_global(spec: Any) -> bool:
    return bool(spec.global_pooling) or (spec.adaptive and all(size == 1 for size in spec.ksize))


def _max_attrs(nodes: Nodes, x: Term, spec: Any) -> tuple[Term, dict[str, object]]:
    windows = windows_of(nodes, x, spec.ksize, spec)
    # Padding must not be the largest element.
    x, pads = _explicit(nodes, x, windows, float("-inf") if x.is_float else float(np.iinfo(x.kind).min))
    attrs: dict[str, object] = {"kernel_shape": [w.kernel for w in windows], "strides": [w.stride for w in windows], "pads": pads}
    return x, attrs | ({"ceil_mode": 1} if spec.ceil_mode else {})


def _counts(spec: Any, x: Term) -> list[int]:
    return list(spec.counts(x.shape))


def _flat_places(nodes: Nodes, x: Term, spec: Any) -> tuple[Term, Term, Term]:
    """The maxima of windows, where the first one of each is, its number among all elements, and the padded image that these are of."""
    if _is_global(spec):
        dims = nodes.dims(x)
        rows = nodes.reshape(x, [nodes.product(dims[:2]), nodes.product(dims[2:])])
        place = nodes.arg("ArgMax", rows, 1)
        top = nodes.take(rows, place, 1)
        width = nodes.extent(rows, 1)
        # ArgMax counts within a row, Mask within the whole tensor, as MaxPool's second output does.
        starts = nodes.unsqueeze(nodes.range(nodes.extent(rows, 0)), [1]) * (width if isinstance(width, int) else nodes.as_scalar(width))
        shape = [*dims[:2], *[1] * (x.ndim - 2)]
        return nodes.reshape(top, shape), nodes.reshape(place + starts, shape), x
    if spec.adaptive and (-1 in x.shape[2:] or spec.axes(x.shape) is None):
        raise CannotWrite("an adaptive maximum pooling whose windows differ in extent")
    wide, attrs = _max_attrs(nodes, x, spec)
    sizes = [*x.sizes[:2], *_counts(spec, x)]
    # onnxruntime gives the places for some dtypes only; float16 is exact in float32.
    operand = wide if x.kind != "float16" else nodes.cast(wide, "float32")
    top, places = nodes.node("MaxPool", [operand], [(operand.kind, sizes), ("int64", sizes)], **attrs)
    return nodes.cast(top, x.kind), places, wide


def _cropped(nodes: Nodes, wide: Term, x: Term, spec: Any) -> Term:
    """A padded image without its padding."""
    windows = windows_of(nodes, x, spec.ksize, spec)
    axes = list(range(2, x.ndim))
    out = nodes.slice(wide, axes, [w.before for w in windows], [w.before + e for w, e in zip(windows, nodes.dims(x)[2:], strict=True)])
    return _sized(out, x.sizes)


@writes("pool2d", "pool3d")
def _pool(call: Call) -> Result:
    nodes, spec = call.nodes, _pooling(call)
    x = to_front(nodes, call["X"], spec.data_format)
    return from_front(nodes, _pooled(nodes, x, spec), spec.data_format)


def _pooled(nodes: Nodes, x: Term, spec: Any) -> Term:
    if _is_global(spec):
        return nodes.reduce("Max" if spec.pooling_type == "max" else "Mean", x, range(2, x.ndim), keep=True)
    sizes = [*x.sizes[:2], *_counts(spec, x)]
    if spec.pooling_type == "max" and (not spec.adaptive or (-1 not in x.shape[2:] and spec.axes(x.shape) is not None)):
        windows = windows_of(nodes, x, spec.ksize, spec)
        same = _same_attrs(windows)
        if same and not spec.ceil_mode:
            attrs = {"kernel_shape": [w.kernel for w in windows], "strides": [w.stride for w in windows], **same}
            return nodes.one("MaxPool", [x], x.kind, sizes, **attrs)
        wide, attrs = _max_attrs(nodes, x, spec)
        return nodes.one("MaxPool", [wide], x.kind, sizes, **attrs)
    if spec.pooling_type == "max":
        return _adaptive_maxima(nodes, x, spec)
    windows = [] if spec.adaptive else windows_of(nodes, x, spec.ksize, spec)
    # AveragePool where runtimes agree about it; otherwise as a product with a matrix of averages for each axis, or sums over windows
    # divided by how many elements each has.
    plain = windows and not spec.ceil_mode
    if plain and x.kind == "float32":
        pads = [*(w.before for w in windows), *(w.after for w in windows)]
        attrs = {"kernel_shape": [w.kernel for w in windows], "strides": [w.stride for w in windows]}
        attrs |= _same_attrs(windows) or {"pads": pads}
        return nodes.one("AveragePool", [x], x.kind, sizes, count_include_pad=int(not spec.exclusive), **attrs)
    if -1 not in x.shape[2:]:
        return _along_axes(nodes, averaging(spec, x.shape, x.dtype), x)
    if not plain:
        raise CannotWrite("an average over windows of extents that only a run knows")
    total = convolved(nodes, *_planes(nodes, x, windows), None, windows, 1)
    out = nodes.reshape(total, [*nodes.dims(x)[:2], *nodes.dims(total)[2:]])
    return out / _divisors(nodes, x, spec, windows)


def _planes(nodes: Nodes, x: Term, windows: Sequence[Window]) -> tuple[Term, Term]:
    """The channels as images of their own, and a filter of ones."""
    dims = nodes.dims(x)
    return nodes.reshape(x, [nodes.product(dims[:2]), 1, *dims[2:]]), nodes.constant(np.ones((1, 1, *(w.kernel for w in windows)), x.dtype))


def _divisors(nodes: Nodes, like: Term, spec: Any, windows: Sequence[Window]) -> Term:
    """The number of elements that each window counts."""
    if not spec.exclusive or not any(isinstance(e, Term) or e for w in windows for e in (w.before, w.after)):
        return nodes.like(prod(w.kernel for w in windows), like)
    # A convolution of ones counts the elements of each window that are not padding.
    ones = nodes.full([1, 1, *nodes.dims(like)[2:]], 1, like.kind)
    return convolved(nodes, ones, nodes.constant(np.ones((1, 1, *(w.kernel for w in windows)), like.dtype)), None, windows, 1)


def _along_axes(nodes: Nodes, matrices: Sequence[np.ndarray[Any, Any]], x: Term) -> Term:
    """x multiplied by a matrix ``[new, old]`` along each of its spatial axes."""
    for axis, matrix in enumerate(matrices, 2):
        x = along(nodes, nodes.constant(np.ascontiguousarray(matrix)), x, axis)
    return x


def along(nodes: Nodes, matrix: Term, x: Term, axis: int) -> Term:
    """x multiplied by a matrix ``[new, old]`` along an axis."""
    if axis == x.ndim - 1:
        return nodes.matmul(x, nodes.swapped(matrix))
    if axis == x.ndim - 2:
        return nodes.matmul(matrix, x)
    return nodes.moved(nodes.matmul(nodes.moved(x, axis, -1), nodes.swapped(matrix)), -1, axis)


def _adaptive_maxima(nodes: Nodes, x: Term, spec: Any) -> Term:
    """Axis by axis, the maxima of slices."""
    if -1 in x.shape[2:]:
        raise CannotWrite("an adaptive pooling of extents that only a run knows")
    for axis, bounds in enumerate(spec.bounds(x.shape), 2):
        parts = [nodes.reduce("Max", nodes.part(x, axis, start, stop), [axis], keep=True) for start, stop in bounds]
        x = nodes.concat(parts, axis)
    return x


@writes("pool2d_spread", "pool3d_spread")
def _spread(call: Call) -> Result:
    """The shares of the windows, added up where these overlap."""
    nodes, spec = call.nodes, _pooling(call)
    x, like = (to_front(nodes, call[slot], spec.data_format) for slot in ("X", "Like"))
    if _is_global(spec):
        count = nodes.product(nodes.dims(like)[2:])
        divisor = nodes.like(count, x) if isinstance(count, int) else nodes.cast(nodes.as_scalar(count), x.kind)
        out = nodes.expand(x / divisor, nodes.dims(like))
    elif -1 not in like.shape[2:] and (spec.adaptive or spec.ceil_mode or x.kind != "float32"):
        # Averages are linear, so their gradient is the transposed matrix, axis by axis.
        out = _along_axes(nodes, [m.T for m in averaging(spec, like.shape, x.dtype)], x)
    elif spec.adaptive or spec.ceil_mode:
        raise CannotWrite("an average over windows of extents that only a run knows")
    else:
        windows = windows_of(nodes, like, spec.ksize, spec)
        share, ones = _planes(nodes, x / _divisors(nodes, like, spec, windows), windows)
        out = nodes.reshape(spread(nodes, share, ones, windows, nodes.dims(like)[2:], 1), nodes.dims(like))
    return from_front(nodes, out, spec.data_format)


@writes("pool2d_scatter_max", "pool3d_scatter_max")
def _scatter_max(call: Call) -> Result:
    """Scatter the pooled values to the positions of the maxima."""
    nodes, spec = call.nodes, _pooling(call)
    x, values = (to_front(nodes, call[slot], spec.data_format) for slot in ("X", "Pooled"))
    _, places, wide = _flat_places(nodes, x, spec)
    zeros = nodes.full([nodes.product(nodes.dims(wide))], 0, values.kind)
    # Windows may share their maximum: what goes there is added up.
    out = nodes.put(zeros, nodes.flatten(places), nodes.flatten(values), 0, "add")
    image = nodes.reshape(out, nodes.dims(wide))
    return from_front(nodes, image if wide is x else _cropped(nodes, image, x, spec), spec.data_format)


@writes("pool2d_gather_max", "pool3d_gather_max")
def _gather_max(call: Call) -> Result:
    nodes, spec = call.nodes, _pooling(call)
    x, image = (to_front(nodes, call[slot], spec.data_format) for slot in ("X", "Image"))
    _, places, wide = _flat_places(nodes, x, spec)
    if wide is not x:
        windows = windows_of(nodes, x, spec.ksize, spec)
        image = nodes.pad(image, [w.before for w in windows], [w.after for w in windows], axes=list(range(2, x.ndim)))
    return from_front(nodes, nodes.gather(nodes.flatten(image), places, 0), spec.data_format)


@writes("max_pool2d_with_index", "max_pool3d_with_index")
def _with_index(call: Call) -> Result:
    """Places count from the beginning of the channel."""
    nodes, spec, x = call.nodes, _pooling(call), call["X"]
    top, places, wide = _flat_places(nodes, x, spec)
    if wide is not x:
        raise CannotWrite("the places of maxima in an image whose padding only a run knows")
    size = nodes.product(nodes.dims(x)[2:])
    return [top, on.remainder(places, size if isinstance(size, int) else nodes.as_scalar(size))]


__all__ = ["TO_THE_END", "along", "from_front", "to_front"]
