"""Paddle 2's ``nn.functional`` for images, beside Fluid's layers, and for sequences, as windows over one axis.

Sequences ``[batch, channels, length]`` are images of height 1, so the operators are those of images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_format, checked_int, listed
from graphad.layers.composed import interpolate
from graphad.layers.functional import named
from graphad.layers.helper import checked_input, emitted, layer
from graphad.layers.images import Window, adaptive_pool2d, adaptive_pool3d, pool2d, pool3d
from graphad.layers.nn import dropout
from graphad.layers.tensor import uniform_random
from graphad.program import Variable
from graphad.program.source import at_users_line


def _sequences(what: str, x: object, data_format: str = "NCL") -> tuple[Variable, bool]:
    """Sequences as images of height 1, channels first, and whether they came with the channels last."""
    with at_users_line(f"layers.{what}"):
        tensor = checked_input(what, x)
        last = data_format in ("NLC", "NWC") or checked_format("data_format", data_format, ("NCL", "NLC", "NCW"))
        if tensor.ndim != 3:
            raise ShapeError(f"it takes [batch, channels, length], not {tensor!r}")
    return (tensor.transpose(0, 2, 1) if last else tensor).unsqueeze(2), last


def _back(image: Variable, last: bool, name: str | None) -> Variable:
    out = image.squeeze(2)
    return named(out.transpose(0, 2, 1) if last else out, name)


# -- convolutions --------------------------------------------------------------------------------


def _convolved(what: str, op: str, x: Variable, weight: Variable, bias: Variable | None, attrs: dict[str, Any]) -> Variable:
    out: Variable = emitted(op, [x, checked_input(what, weight).unsqueeze(2)], **attrs)
    return out if bias is None else out + checked_input(what, bias).reshape(1, -1, 1, 1)


def _sides(what: str, padding: object) -> dict[str, object]:
    """The attributes of a padding along the length alone."""
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise InvalidValue(f"layers.{what}: padding is 'SAME', 'VALID', an int or a list of ints, not {padding!r}")
        return {"padding_algorithm": padding.upper()}
    # A sequence is an image of height 1: nothing is added above and below.
    if isinstance(padding, list | tuple) and len(padding) == 2:
        return {"paddings": [0, 0, *listed("padding", padding, 2)]}
    (side,) = listed(f"layers.{what}: padding", padding, 1)
    return {"paddings": [0, side]}


@layer
def conv1d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Window = 1,
    padding: object = 0,
    dilation: Window = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Variable:
    """The convolution of sequences ``[batch, channels, length]`` with weights ``[out, channels / groups, size]`` that exist.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     out = ga.layers.conv1d(ga.layers.assign([[[1.0, 2.0, 4.0]]]), ga.layers.assign([[[1.0, -1.0]]]))
    >>> ga.Executor().run(program, fetch_list=[out])[0].tolist()
    [[[-1.0, -2.0]]]
    """
    image, last = _sequences("conv1d", x, data_format)
    attrs: dict[str, Any] = {"strides": [1, *listed("stride", stride, 1)], "dilations": [1, *listed("dilation", dilation, 1)]}
    attrs |= {"groups": checked_int("layers.conv1d: groups", groups, 1), **_sides("conv1d", padding)}
    return _back(_convolved("conv1d", "conv2d", image, weight, bias, attrs), last, name)


@layer
def conv1d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Window = 1,
    padding: object = 0,
    output_padding: int = 0,
    groups: int = 1,
    dilation: Window = 1,
    output_size: Window | None = None,
    data_format: str = "NCL",
    name: str | None = None,
) -> Variable:
    """The transpose of ``conv1d``: weights ``[channels, out / groups, size]``; ``output_size`` or ``output_padding`` chooses a length."""
    image, last = _sequences("conv1d_transpose", x, data_format)
    attrs: dict[str, Any] = {"strides": [1, *listed("stride", stride, 1)], "dilations": [1, *listed("dilation", dilation, 1)]}
    attrs |= {"groups": checked_int("layers.conv1d_transpose: groups", groups, 1), **_sides("conv1d_transpose", padding)}
    if output_size is not None:
        attrs["output_size"] = [1, *listed("output_size", output_size, 1)]
    if output_padding:
        attrs["output_padding"] = [0, *listed("output_padding", output_padding, 1)]
    return _back(_convolved("conv1d_transpose", "conv2d_transpose", image, weight, bias, attrs), last, name)


# -- pooling -------------------------------------------------------------------------------------


def _pooled(
    what: str, kind: str, x: Variable, size: Window, stride: Window | None, padding: object, ceil_mode: bool, **more: Any
) -> Variable:
    image, _ = _sequences(what, x)
    (extent,), (step,) = listed("kernel_size", size, 1), listed("stride", size if stride is None else stride, 1)
    sides = padding if isinstance(padding, str) else [0, *listed("padding", padding, 1)]
    return pool2d(image, [1, extent], kind, [1, step], sides, ceil_mode=ceil_mode, **more)


@layer
def max_pool1d(
    x: Variable, kernel_size: Window, stride: Window | None = None, padding: object = 0, ceil_mode: bool = False, name: str | None = None
) -> Variable:
    """The largest elements of windows along the last axis of ``[batch, channels, length]``."""
    return _back(_pooled("max_pool1d", "max", x, kernel_size, stride, padding, ceil_mode), False, name)


@layer
def avg_pool1d(
    x: Variable,
    kernel_size: Window,
    stride: Window | None = None,
    padding: object = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable:
    """The means of windows along the last axis of ``[batch, channels, length]``; padding counts unless ``exclusive``."""
    return _back(_pooled("avg_pool1d", "avg", x, kernel_size, stride, padding, ceil_mode, exclusive=exclusive), False, name)


def _pooled_volumes(
    kind: str, x: Variable, size: Window, stride: Window | None, padding: object, ceil_mode: bool, data_format: str, name: str | None
) -> Variable:
    step = size if stride is None else stride
    return named(pool3d(x, size, kind, step, padding, ceil_mode=ceil_mode, data_format=data_format), name)


@layer
def max_pool3d(
    x: Variable,
    kernel_size: Window,
    stride: Window | None = None,
    padding: object = 0,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """The largest elements of windows over volumes: ``pool3d`` whose stride is the size of the window unless told otherwise."""
    return _pooled_volumes("max", x, kernel_size, stride, padding, ceil_mode, data_format, name)


@layer
def avg_pool3d(
    x: Variable,
    kernel_size: Window,
    stride: Window | None = None,
    padding: object = 0,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """The means of windows over volumes, without padding."""
    return _pooled_volumes("avg", x, kernel_size, stride, padding, ceil_mode, data_format, name)


def _adaptive_1d(what: str, kind: str, x: Variable, output_size: Window) -> Variable:
    image, _ = _sequences(what, x)
    pooled: Variable = adaptive_pool2d(image, [1, *listed("output_size", output_size, 1)], kind)
    return pooled.squeeze(2)


@layer
def adaptive_avg_pool1d(x: Variable, output_size: Window, name: str | None = None) -> Variable:
    """The means of ``output_size`` parts of sequences ``[batch, channels, length]``."""
    return named(_adaptive_1d("adaptive_avg_pool1d", "avg", x, output_size), name)


@layer
def adaptive_max_pool1d(x: Variable, output_size: Window, name: str | None = None) -> Variable:
    """The largest elements of ``output_size`` parts of sequences ``[batch, channels, length]``."""
    return named(_adaptive_1d("adaptive_max_pool1d", "max", x, output_size), name)


def _size_of(x: Variable, output_size: Any, axes: int) -> list[int]:
    """The extents of a result; None among them is the image's own."""
    sizes = output_size if isinstance(output_size, list | tuple) else [output_size] * axes
    return [own if size is None else checked_int("output_size", size, 1) for size, own in zip(sizes, x.shape[2:], strict=True)]


@layer
def adaptive_avg_pool2d(x: Variable, output_size: Any, name: str | None = None) -> Variable:
    """The means of parts of images ``[batch, channels, height, width]``; None keeps an extent."""
    return named(adaptive_pool2d(x, _size_of(checked_input("adaptive_avg_pool2d", x), output_size, 2), "avg"), name)


@layer
def adaptive_max_pool2d(x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """The largest elements of parts of images; with ``return_mask`` their places as well."""
    result = adaptive_pool2d(x, _size_of(checked_input("adaptive_max_pool2d", x), output_size, 2), "max", return_mask)
    return result if return_mask else named(result, name)


@layer
def adaptive_avg_pool3d(x: Variable, output_size: Any, name: str | None = None) -> Variable:
    """``adaptive_avg_pool2d`` of volumes."""
    return named(adaptive_pool3d(x, _size_of(checked_input("adaptive_avg_pool3d", x), output_size, 3), "avg"), name)


@layer
def adaptive_max_pool3d(x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """``adaptive_max_pool2d`` of volumes."""
    result = adaptive_pool3d(x, _size_of(checked_input("adaptive_max_pool3d", x), output_size, 3), "max", return_mask)
    return result if return_mask else named(result, name)


# -- images --------------------------------------------------------------------------------------

_LAYOUTS = {3: ("NCL", "NLC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}


@layer
def pad(
    x: Variable,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str | None = None,
    name: str | None = None,
) -> Variable:
    """Pad the sides of sequences, images or volumes: ``layers.pad`` with ``mode``, ``pad`` or ``data_format``, as in Paddle 2.

    Args:
        x: three to five axes.
        pad: left, right, then top, bottom, then front, back; two numbers for each axis but the batch's and the channels'.
        mode: "constant", "reflect", "replicate" or "circular".
        data_format: channels first unless it ends in C.

    Raises:
        ShapeError: the number of axes is another one.
    """
    tensor = checked_input("pad", x)
    if tensor.ndim not in _LAYOUTS:
        raise ShapeError(f"layers.pad with mode, pad or data_format takes three to five axes, not {tensor!r}")
    first, channels_last = _LAYOUTS[tensor.ndim]
    last = checked_format("layers.pad: data_format", first if data_format is None else data_format, (first, channels_last))
    sides = listed("layers.pad: pad", pad, 2 * (tensor.ndim - 2))
    # Sequences and images become volumes, of extent 1 along the axes that they lack.
    missing = 5 - tensor.ndim
    at = 1 if last else 2
    volume = tensor if not missing else tensor.unsqueeze([*range(at, at + missing)])
    attrs = {"paddings": [*sides, *[0] * (2 * missing)], "mode": mode, "value": checked_float("layers.pad: value", value)}
    out = emitted("pad3d", [volume], data_format="NDHWC" if last else "NCDHW", **attrs)
    return named(out if not missing else out.squeeze([*range(at, at + missing)]), name)


@layer
def zeropad2d(x: Variable, padding: Any, data_format: str = "NCHW", name: str | None = None) -> Variable:
    """Images with zeros around them: ``padding`` is left, right, top, bottom."""
    left, right, top, bottom = listed("layers.zeropad2d: padding", padding, 4)
    sides = [top, bottom, left, right]
    return emitted("pad2d", [checked_input("zeropad2d", x)], name, paddings=sides, data_format=data_format)  # type: ignore[no-any-return]


@layer
def channel_shuffle(x: Variable, groups: int, data_format: str = "NCHW", name: str | None = None) -> Variable:
    """The channels of images with one of each group after the other: Fluid's ``shuffle_channel``, of both layouts."""
    last = checked_format("layers.channel_shuffle: data_format", data_format, ("NCHW", "NHWC"))
    image = checked_input("channel_shuffle", x)
    mixed = emitted("shuffle_channel", [image.transpose(0, 3, 1, 2) if last else image], group=checked_int("groups", groups, 1))
    return named(mixed.transpose(0, 2, 3, 1) if last else mixed, name)


@layer
def upsample(
    x: Variable,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """``layers.interpolate`` as Paddle 2 has it."""
    more: dict[str, Any] = {"align_corners": align_corners, "align_mode": align_mode, "data_format": data_format}
    return interpolate(x, size=size, scale_factor=scale_factor, mode=mode, name=name, **more)


@layer
def local_response_norm(
    x: Variable, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Each element over ``(k + alpha * mean of squares over size channels)**beta``: Fluid's ``lrn``, whose ``alpha`` is of the sum."""
    count = checked_int("layers.local_response_norm: size", size, 1)
    image = checked_input("local_response_norm", x)
    share = checked_float("layers.local_response_norm: alpha", alpha) / count
    last = checked_format("layers.local_response_norm: data_format", data_format, ("NCHW", "NHWC"))
    image = image.transpose(0, 3, 1, 2) if last else image
    # The window has its larger half before the element, which is where Paddle 2 pads.
    squares = emitted("pad", [image.square()], paddings=[0, 0, count // 2, (count - 1) // 2, 0, 0, 0, 0], pad_value=0.0)
    total = squares[:, : image.shape[1]]
    for step in range(1, count):
        total = total + squares[:, step : step + image.shape[1]]
    out = image / (total * share + checked_float("k", k)) ** checked_float("beta", beta)
    return named(out.transpose(0, 2, 3, 1) if last else out, name)


# -- chance --------------------------------------------------------------------------------------


def _noise(x: Variable) -> Variable:
    """Numbers over [0, 1) in the shape of a tensor."""
    if -1 in x.shape[1:]:
        raise ShapeError(f"noise in the shape of {x!r} needs its extents, but the first, to be known")
    if x.shape[0] != -1:
        return uniform_random(list(x.shape), x.dtype, 0.0, 1.0)
    attrs = {"shape": [-1, *x.shape[1:]], "dtype": x.dtype, "min": 0.0, "max": 1.0}
    return emitted("uniform_random_batch_size_like", [x], **attrs)  # type: ignore[no-any-return]


@layer
def gumbel_softmax(x: Variable, temperature: float = 1.0, hard: bool = False, axis: int = -1, name: str | None = None) -> Variable:
    """Softmax of logits and Gumbel noise over a temperature (E. Jang et al., 2017).

    With ``hard`` the largest is 1 and the others 0, with the gradient of the softmax.
    """
    logits, along = checked_input("gumbel_softmax", x), checked_int("layers.gumbel_softmax: axis", axis)
    small = 1e-20 if logits.dtype == "float64" else 1e-10
    # Gumbel's distribution as the transform of a uniform one; the small number keeps both logarithms finite.
    noise = -(-(_noise(logits) + small).log() + small).log()
    noise.stop_gradient = True
    soft = ((logits + noise) / checked_float("layers.gumbel_softmax: temperature", temperature)).softmax(along)
    if not checked_flag("layers.gumbel_softmax: hard", hard):
        return named(soft, name)
    # Forward the one-hot choice, backward the softmax (straight-through: Y. Bengio et al., 2013).
    difference = (soft == soft.max(along, keepdims=True)).astype(soft.dtype) - soft
    difference.stop_gradient = True
    return named(soft + difference, name)


@layer
def alpha_dropout(x: Variable, p: float = 0.5, training: bool = True, name: str | None = None) -> Variable:
    """Dropout that keeps mean and variance of what ``selu`` gives (G. Klambauer et al., 2017)."""
    tensor, share = checked_input("alpha_dropout", x), checked_float("layers.alpha_dropout: p", p)
    if not checked_flag("layers.alpha_dropout: training", training) or not share:
        return emitted("assign", [tensor], name)  # type: ignore[no-any-return]
    if not 0 <= share < 1:
        raise InvalidValue(f"layers.alpha_dropout: p is from 0 to less than 1, not {share}")
    low = -1.0507009873554805 * 1.6732632423543772  # selu of minus infinity
    # Elements are kept, or ``low``: for mean 0 and variance 1 that has mean p low and variance (1 - p) (1 + p low^2), which is undone.
    factor = ((1 - share) * (1 + share * low**2)) ** -0.5
    mask = (_noise(tensor) >= share).astype(tensor.dtype)
    mask.stop_gradient = True
    return named((tensor * mask + (1.0 - mask) * low) * factor - factor * low * share, name)


@layer
def rrelu(x: Variable, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = True, name: str | None = None) -> Variable:
    """``leaky_relu`` whose slope is drawn between two for each element when training, and is their mean otherwise (B. Xu et al., 2015)."""
    tensor, low, high = checked_input("rrelu", x), checked_float("lower", lower), checked_float("upper", upper)
    if not 0 <= low <= high <= 1:
        raise InvalidValue(f"layers.rrelu: lower and upper are from 0 to 1, the lower first, not {lower} and {upper}")
    if not checked_flag("layers.rrelu: training", training):
        return emitted("leaky_relu", [tensor], name, alpha=(low + high) / 2)  # type: ignore[no-any-return]
    slopes = _noise(tensor) * (high - low) + low
    slopes.stop_gradient = True
    return named(tensor.maximum(0.0) + slopes * tensor.minimum(0.0), name)


def _dropped_maps(what: str, x: Variable, p: float, training: bool, data_format: str, layouts: Sequence[str]) -> Variable:
    tensor = checked_input(what, x)
    last = checked_format(f"layers.{what}: data_format", data_format, layouts)
    # One draw for each sample and channel, which is broadcast over the map.
    return dropout(tensor, p=p, axis=[0, tensor.ndim - 1 if last else 1], training=training)


@layer
def dropout2d(x: Variable, p: float = 0.5, training: bool = True, data_format: str = "NCHW", name: str | None = None) -> Variable:
    """Dropout of whole feature maps (J. Tompson et al., 2015)."""
    return named(_dropped_maps("dropout2d", x, p, training, data_format, ("NCHW", "NHWC")), name)


@layer
def dropout3d(x: Variable, p: float = 0.5, training: bool = True, data_format: str = "NCDHW", name: str | None = None) -> Variable:
    """``dropout2d`` of volumes."""
    return named(_dropped_maps("dropout3d", x, p, training, data_format, ("NCDHW", "NDHWC")), name)


@layer
def bilinear(x1: Variable, x2: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None) -> Variable:
    """``x1 @ weight[k] @ x2`` for each ``k``, with parameters that exist: ``[N, in1]``, ``[N, in2]``, ``[out, in1, in2]``."""
    tensors = [checked_input("bilinear", item) for item in (x1, x2, weight)]
    if tensors[2].ndim != 3:
        raise InvalidType(f"layers.bilinear: weight is [out, in1, in2], not {weight!r}")
    product: Variable = emitted("einsum", [[tensors[0], tensors[2], tensors[1]]], equation="ni,oij,nj->no")
    return named(product if bias is None else product + bias, name)
