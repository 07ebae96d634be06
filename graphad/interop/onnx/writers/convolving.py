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
    """In its layout."""
    return nodes.moved(x, 1, -1) if data_format in CHANNELS_LAST else x


# -- windows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """Windows along one axis; ``before`` and ``after`` are the padding, which a run may have to compute (SAME)."""

    kernel: int
    stride: int
    dilation: int
    before: Dim
    after: Dim

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation + 1


def windows(nodes: Nodes, image: Term, kernel: Sequence[int], how: Any) -> list[Window]:
    """The windows of a kernel in an image ``[N, C, ...]``."""
    found = []
    for i, axis in enumerate(how.axes(image.shape, (1, 1, *kernel)) if hasattr(how, "dilations") else how.axes(image.shape) or ()):
        dilation = 1 if how.padding_algorithm == "SAME" else axis.dilation
        before, after = axis.before, axis.after
        if axis.kernel == -1 and how.padding_algorithm == "SAME":
            raise CannotWrite("the extents of the filter are not known before a run")
        if how.padding_algorithm == "SAME" and axis.size == -1:
            before, after = _same(nodes, image, i + 2, axis.stride, (axis.kernel - 1) * dilation + 1)
        found.append(Window(axis.kernel, axis.stride, dilation, before, after))
    return found


def _same(nodes: Nodes, image: Term, axis: int, stride: int, reach: int) -> tuple[Dim, Dim]:
    """The padding for which the extent divided by the stride, rounded up, is the number of windows."""
    extent = nodes.extent(image, axis)
    count = on.floor_divide(extent + (stride - 1), stride)
    total = on.maximum((count - 1) * stride + reach - extent, 0)
    before = on.floor_divide(total, 2)
    return before, total - before


def _explicit(nodes: Nodes, x: Term, found: Sequence[Window], value: float = 0.0) -> tuple[Term, list[int]]:
    """The image, padded where only a run knows how much, and the padding that is left to do: ``[before..., after...]``."""
    pads = [*(w.before for w in found), *(w.after for w in found)]
    known = [each for each in pads if isinstance(each, int)]
    if len(known) == len(pads):
        return x, known
    axes = list(range(2, 2 + len(found)))
    return nodes.pad(x, [w.before for w in found], [w.after for w in found], value, axes=axes), [0] * 2 * len(found)


# -- convolutions --------------------------------------------------------------------------------


def _spec(call: Call) -> Any:
    attrs = call.attrs
    transposed = call.type.endswith("transpose")
    if "3d" in call.type:
        return (TransposedConvolution3d if transposed else Convolution3d)(**attrs)
    return (TransposedConvolution if transposed else Convolution)(**attrs)


def convolved(nodes: Nodes, x: Term, filter_: Term, bias: Term | None, found: Sequence[Window], groups: int) -> Term:
    """The products of a filter with every window."""
    x, pads = _explicit(nodes, x, found)
    counts = [_count(e, w, a, b) for e, w, a, b in zip(x.shape[2:], found, pads[: len(found)], pads[len(found) :], strict=True)]
    attrs: dict[str, object] = {"group": groups, "pads": pads}
    attrs |= {"strides": [w.stride for w in found], "dilations": [w.dilation for w in found]}
    inputs = [x, filter_] if bias is None else [x, filter_, bias]
    return nodes.one("Conv", inputs, x.kind, [x.sizes[0], filter_.sizes[0], *counts], **attrs)


def _count(extent: int, w: Window, before: int, after: int) -> int:
    return -1 if extent == -1 or w.kernel == -1 else (extent + before + after - w.reach) // w.stride + 1


@writes("conv2d", "depthwise_conv2d", "conv3d")
def _conv(call: Call) -> Result:
    nodes, how, filter_ = call.nodes, _spec(call), call["Filter"]
    x = to_front(nodes, call["Input"], how.data_format)
    bias = call.get("Bias") if "Bias" in call.definition.inputs else None
    out = convolved(nodes, x, filter_, bias, windows(nodes, x, filter_.shape[2:], how), how.groups)
    return from_front(nodes, out, how.data_format)


def spread(nodes: Nodes, y: Term, filter_: Term, found: Sequence[Window], sizes: Sequence[Dim], groups: int) -> Term:
    """The image of given extents whose windows receive y through a filter: without padding, and then cut or filled up."""
    strides, dilations = [w.stride for w in found], [w.dilation for w in found]
    channels = filter_.shape[1] * groups if filter_.shape[1] != -1 else -1
    attrs: dict[str, object] = {"group": groups, "strides": strides, "dilations": dilations}
    exact = _exact(y, found, sizes)
    if exact is not None:
        attrs |= exact
        return nodes.one("ConvTranspose", [y, filter_], y.kind, [y.sizes[0], channels, *sizes], **attrs)
    whole = nodes.one("ConvTranspose", [y, filter_], y.kind, [y.sizes[0], channels, *[-1] * len(found)], **attrs)
    axes = list(range(2, 2 + len(found)))
    # What the last window does not reach is less than a stride; of more it is cut again.
    more: list[Dim] = [w.stride - 1 + w.after for w in found]
    wide = nodes.pad(whole, [0] * len(found), more, axes=axes)
    ends = [w.before + e for w, e in zip(found, sizes, strict=True)]
    cut = nodes.slice(wide, axes, [w.before for w in found], ends)
    return _sized(cut, [*cut.sizes[:2], *sizes])


def _sized(x: Term, sizes: Sequence[Any]) -> Term:
    x.sizes = tuple(sizes)
    x.shape = tuple(each if isinstance(each, int) else -1 for each in x.sizes)
    return x


def _exact(y: Term, found: Sequence[Window], sizes: Sequence[Dim]) -> dict[str, object] | None:
    """The paddings for which the image has the extents; None where that needs more than paddings, or only a run knows."""
    before, after, more = [], [], []
    for w, size, count in zip(found, sizes, y.shape[2:], strict=True):
        if not isinstance(w.before, int) or not isinstance(w.after, int):
            return None
        if w.stride == 1 and w.kernel != -1:
            beyond = w.after
        elif not isinstance(size, int) or count == -1 or w.kernel == -1:
            return None
        else:
            beyond = (count - 1) * w.stride + w.reach - w.before - size
        if beyond < -w.stride + 1:
            return None
        before.append(w.before)
        after.append(max(beyond, 0))
        more.append(max(-beyond, 0))
    return {"pads": [*before, *after], **({"output_padding": more} if any(more) else {})}


@writes("conv2d_backprop_input", "conv3d_backprop_input")
def _to_input(call: Call) -> Result:
    nodes, how, filter_ = call.nodes, _spec(call), call["Filter"]
    like, y = (to_front(nodes, call[slot], how.data_format) for slot in ("Like", "X"))
    out = spread(nodes, y, filter_, windows(nodes, like, filter_.shape[2:], how), nodes.dims(like)[2:], how.groups)
    return from_front(nodes, out, how.data_format)


@writes("conv2d_backprop_filter", "conv3d_backprop_filter")
def _to_filter(call: Call) -> Result:
    """A convolution again: samples are what is summed over, strides and dilations change places, features are the filters."""
    nodes, how, like = call.nodes, _spec(call), call["Like"]
    x, y = (to_front(nodes, call[slot], how.data_format) for slot in ("Input", "X"))
    found = windows(nodes, x, like.shape[2:], how)
    x, pads = _explicit(nodes, x, found)
    groups, rank = how.groups, len(found)
    space = list(range(2, 2 + rank))
    if groups == 1:
        image = nodes.transpose(x, [1, 0, *space])
    else:
        dims = nodes.dims(x)
        channels = x.shape[1] // groups if x.shape[1] != -1 else like.shape[1]
        split = nodes.reshape(x, [dims[0], groups, channels, *dims[2:]])
        turned = nodes.transpose(split, [2, 1, 0, *(i + 1 for i in space)])
        image = nodes.reshape(turned, [channels, nodes.product([dims[0], groups]), *dims[2:]])
    features = nodes.transpose(y, [1, 0, *space])
    attrs: dict[str, object] = {"group": groups, "pads": pads}
    attrs |= {"strides": [w.dilation for w in found], "dilations": [w.stride for w in found]}
    whole = nodes.one("Conv", [image, features], x.kind, [image.sizes[0], features.sizes[0], *[-1] * rank], **attrs)
    kernel = nodes.slice(whole, space, [0] * rank, nodes.dims(like)[2:])
    out = nodes.transpose(kernel, [1, 0, *space])
    return _sized(out, like.sizes)


@writes("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
def _transposed(call: Call) -> Result:
    nodes, how, filter_ = call.nodes, _spec(call), call["Filter"]
    x = to_front(nodes, call["Input"], how.data_format)
    axes = how.axes((-1,) * x.ndim, filter_.shape)
    found = [Window(a.kernel, a.stride, a.dilation, a.before, a.after) for a in axes]
    if any(w.kernel == -1 for w in found) and not how.output_size:
        raise CannotWrite("the extents of the filter are not known before a run")
    extra = how.output_padding or [0] * len(found)
    sizes: list[Dim] = list(how.output_size)
    if not sizes:
        counts = nodes.dims(x)[2:]
        sizes = [(n - 1) * w.stride + (w.reach - w.before - w.after + e) for n, w, e in zip(counts, found, extra, strict=True)]
    out = spread(nodes, x, filter_, found, sizes, how.groups)
    bias = call.get("Bias") if "Bias" in call.definition.inputs else None
    if bias is not None:
        out = out + nodes.unsqueeze(bias, list(range(1, 1 + len(found))))
    return from_front(nodes, out, how.data_format)


# -- columns of windows --------------------------------------------------------------------------


def _columns(call: Call, image: Term) -> list[Window]:
    """The windows of an unfolding; four paddings are top, left, bottom, right."""
    given = call.attr("paddings")
    around = [given[i] for i in (0, 2, 1, 3)] if len(given) == 4 else given
    how = Convolution(strides=call.attr("strides"), paddings=around, dilations=call.attr("dilations"))
    kernel = list(call.attr("kernel_sizes"))
    return windows(call.nodes, image, kernel * (2 if len(kernel) == 1 else 1), how)


def _unit_filter(found: Sequence[Window], dtype: Any) -> np.ndarray[Any, Any]:
    """A filter for each element of a window, which takes that element."""
    size = prod(w.kernel for w in found)
    return np.eye(size, dtype=dtype).reshape(size, 1, *(w.kernel for w in found))


@writes("unfold")
def _unfold(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    found = _columns(call, x)
    n, c, *space = nodes.dims(x)
    planes = nodes.reshape(x, [nodes.product([n, c]), 1, *space])
    out = convolved(nodes, planes, nodes.constant(_unit_filter(found, x.dtype)), None, found, 1)
    size = prod(w.kernel for w in found)
    return nodes.reshape(out, [n, nodes.product([c, size]), nodes.product(nodes.dims(out)[2:])])


def _folded(call: Call, columns: Term, image: list[Dim], found: list[Window], like: Term | None) -> Term:
    nodes = call.nodes
    n, c, *space = image
    size = prod(w.kernel for w in found)
    counts = [_windows_in(e, w) for e, w in zip(space, found, strict=True)]
    planes = nodes.reshape(columns, [nodes.product([n, c]), size, *counts])
    out = spread(nodes, planes, nodes.constant(_unit_filter(found, columns.dtype)), found, space, 1)
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
    found = _columns(call, image)
    rows = x.shape[1] // prod(w.kernel for w in found) if x.shape[1] != -1 else -1
    if rows == -1:
        raise CannotWrite("the number of rows of the columns is not known before a run")
    return _folded(call, x, [nodes.extent(x, 0), rows, *space], found, None)


# -- poolings ------------------------------------------------------------------------------------


def _pooling(call: Call) -> Any:
    attrs = dict(call.attrs)
    if call.type.endswith("with_index"):
        attrs["pooling_type"] = "max"
    return (Pooling3d if "3d" in call.type else Pooling)(**attrs)


def _is_uniform(how: Any, image: Term) -> bool:
    """Whether all windows are of one kind: not the even parts of an adaptive pooling that the extent does not divide into."""
    return not how.adaptive and not how.global_pooling


def _is_global(how: Any) -> bool:
    return bool(how.global_pooling) or (how.adaptive and all(each == 1 for each in how.ksize))


def _max_attrs(nodes: Nodes, x: Term, how: Any) -> tuple[Term, dict[str, object]]:
    found = windows(nodes, x, how.ksize, how)
    x, pads = _explicit(nodes, x, found, float("-inf") if x.is_float else float(np.iinfo(x.kind).min))
    attrs: dict[str, object] = {"kernel_shape": [w.kernel for w in found], "strides": [w.stride for w in found], "pads": pads}
    return x, attrs | ({"ceil_mode": 1} if how.ceil_mode else {})


def _counts(how: Any, x: Term) -> list[int]:
    return list(how.counts(x.shape))


def _flat_places(nodes: Nodes, x: Term, how: Any) -> tuple[Term, Term, Term]:
    """The maxima of windows, where the first one of each is, its number among all elements, and the padded image that these are of."""
    if _is_global(how):
        dims = nodes.dims(x)
        rows = nodes.reshape(x, [nodes.product(dims[:2]), nodes.product(dims[2:])])
        place = nodes.arg("ArgMax", rows, 1)
        top = nodes.take(rows, place, 1)
        width = nodes.extent(rows, 1)
        starts = nodes.unsqueeze(nodes.range(nodes.extent(rows, 0)), [1]) * (width if isinstance(width, int) else nodes.as_scalar(width))
        shape = [*dims[:2], *[1] * (x.ndim - 2)]
        return nodes.reshape(top, shape), nodes.reshape(place + starts, shape), x
    if how.adaptive and (-1 in x.shape[2:] or how.axes(x.shape) is None):
        raise CannotWrite("an adaptive maximum pooling whose windows differ in extent")
    wide, attrs = _max_attrs(nodes, x, how)
    sizes = [*x.sizes[:2], *_counts(how, x)]
    given = wide if x.kind != "float16" else nodes.cast(wide, "float32")
    top, places = nodes.node("MaxPool", [given], [(given.kind, sizes), ("int64", sizes)], **attrs)
    return nodes.cast(top, x.kind), places, wide


def _cropped(nodes: Nodes, wide: Term, x: Term, how: Any) -> Term:
    """What is left of a padded image without its padding."""
    found = windows(nodes, x, how.ksize, how)
    axes = list(range(2, x.ndim))
    out = nodes.slice(wide, axes, [w.before for w in found], [w.before + e for w, e in zip(found, nodes.dims(x)[2:], strict=True)])
    return _sized(out, x.sizes)


@writes("pool2d", "pool3d")
def _pool(call: Call) -> Result:
    nodes, how = call.nodes, _pooling(call)
    x = to_front(nodes, call["X"], how.data_format)
    return from_front(nodes, _pooled(nodes, x, how), how.data_format)


def _pooled(nodes: Nodes, x: Term, how: Any) -> Term:
    if _is_global(how):
        return nodes.reduce("Max" if how.pooling_type == "max" else "Mean", x, range(2, x.ndim), keep=True)
    sizes = [*x.sizes[:2], *_counts(how, x)]
    if how.pooling_type == "max" and (not how.adaptive or (-1 not in x.shape[2:] and how.axes(x.shape) is not None)):
        wide, attrs = _max_attrs(nodes, x, how)
        return nodes.one("MaxPool", [wide], x.kind, sizes, **attrs)
    if how.pooling_type == "max":
        return _adaptive_maxima(nodes, x, how)
    found = [] if how.adaptive else windows(nodes, x, how.ksize, how)
    plain = found and not how.ceil_mode and all(isinstance(each, int) for w in found for each in (w.before, w.after))
    if plain and x.kind == "float32":
        pads = [*(w.before for w in found), *(w.after for w in found)]
        attrs = {"kernel_shape": [w.kernel for w in found], "strides": [w.stride for w in found], "pads": pads}
        return nodes.one("AveragePool", [x], x.kind, sizes, count_include_pad=int(not how.exclusive), **attrs)
    if -1 not in x.shape[2:]:
        return _along_axes(nodes, averaging(how, x.shape, x.dtype), x)
    if not plain:
        raise CannotWrite("an average over windows of extents that only a run knows")
    total = convolved(nodes, *_planes(nodes, x, found), None, found, 1)
    out = nodes.reshape(total, [*nodes.dims(x)[:2], *nodes.dims(total)[2:]])
    return out / _divisors(nodes, x, how, found)


def _planes(nodes: Nodes, x: Term, found: Sequence[Window]) -> tuple[Term, Term]:
    """The channels as images of their own, and a filter of ones."""
    dims = nodes.dims(x)
    return nodes.reshape(x, [nodes.product(dims[:2]), 1, *dims[2:]]), nodes.constant(np.ones((1, 1, *(w.kernel for w in found)), x.dtype))


def _divisors(nodes: Nodes, like: Term, how: Any, found: Sequence[Window]) -> Term:
    """How many elements each window counts."""
    if not how.exclusive or not any(isinstance(e, Term) or e for w in found for e in (w.before, w.after)):
        return nodes.like(prod(w.kernel for w in found), like)
    ones = nodes.full([1, 1, *nodes.dims(like)[2:]], 1, like.kind)
    return convolved(nodes, ones, nodes.constant(np.ones((1, 1, *(w.kernel for w in found)), like.dtype)), None, found, 1)


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


def _adaptive_maxima(nodes: Nodes, x: Term, how: Any) -> Term:
    """Axis by axis, the maxima of slices."""
    if -1 in x.shape[2:]:
        raise CannotWrite("an adaptive pooling of extents that only a run knows")
    for axis, bounds in enumerate(how.bounds(x.shape), 2):
        parts = [nodes.reduce("Max", nodes.part(x, axis, start, stop), [axis], keep=True) for start, stop in bounds]
        x = nodes.concat(parts, axis)
    return x


@writes("pool2d_spread", "pool3d_spread")
def _spread(call: Call) -> Result:
    """The shares of the windows, added up where these overlap."""
    nodes, how = call.nodes, _pooling(call)
    x, like = (to_front(nodes, call[slot], how.data_format) for slot in ("X", "Like"))
    if _is_global(how):
        count = nodes.product(nodes.dims(like)[2:])
        divisor = nodes.like(count, x) if isinstance(count, int) else nodes.cast(nodes.as_scalar(count), x.kind)
        out = nodes.expand(x / divisor, nodes.dims(like))
    elif -1 not in like.shape[2:] and (how.adaptive or how.ceil_mode or x.kind != "float32"):
        out = _along_axes(nodes, [m.T for m in averaging(how, like.shape, x.dtype)], x)
    elif how.adaptive or how.ceil_mode:
        raise CannotWrite("an average over windows of extents that only a run knows")
    else:
        found = windows(nodes, like, how.ksize, how)
        share, ones = _planes(nodes, x / _divisors(nodes, like, how, found), found)
        out = nodes.reshape(spread(nodes, share, ones, found, nodes.dims(like)[2:], 1), nodes.dims(like))
    return from_front(nodes, out, how.data_format)


@writes("pool2d_scatter_max", "pool3d_scatter_max")
def _scatter_max(call: Call) -> Result:
    """What was pooled, put where the maxima are."""
    nodes, how = call.nodes, _pooling(call)
    x, pooled = (to_front(nodes, call[slot], how.data_format) for slot in ("X", "Pooled"))
    _, places, wide = _flat_places(nodes, x, how)
    zeros = nodes.full([nodes.product(nodes.dims(wide))], 0, pooled.kind)
    out = nodes.put(zeros, nodes.flatten(places), nodes.flatten(pooled), 0, "add")
    image = nodes.reshape(out, nodes.dims(wide))
    return from_front(nodes, image if wide is x else _cropped(nodes, image, x, how), how.data_format)


@writes("pool2d_gather_max", "pool3d_gather_max")
def _gather_max(call: Call) -> Result:
    nodes, how = call.nodes, _pooling(call)
    x, image = (to_front(nodes, call[slot], how.data_format) for slot in ("X", "Image"))
    _, places, wide = _flat_places(nodes, x, how)
    if wide is not x:
        found = windows(nodes, x, how.ksize, how)
        image = nodes.pad(image, [w.before for w in found], [w.after for w in found], axes=list(range(2, x.ndim)))
    return from_front(nodes, nodes.gather(nodes.flatten(image), places, 0), how.data_format)


@writes("max_pool2d_with_index", "max_pool3d_with_index")
def _with_index(call: Call) -> Result:
    """Places count from the beginning of the channel."""
    nodes, how, x = call.nodes, _pooling(call), call["X"]
    top, places, wide = _flat_places(nodes, x, how)
    if wide is not x:
        raise CannotWrite("the places of maxima in an image whose padding only a run knows")
    size = nodes.product(nodes.dims(x)[2:])
    return [top, on.remainder(places, size if isinstance(size, int) else nodes.as_scalar(size))]


__all__ = ["TO_THE_END", "along", "from_front", "to_front"]
