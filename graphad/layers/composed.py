"""Layers of Fluid that are made of several operators: cells, losses, constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import (
    DefaultFlag,
    DefaultInt,
    DefaultStr,
    checked_flag,
    checked_float,
    checked_format,
    checked_fractions,
    checked_int,
    listed,
)
from graphad.layers.helper import AttrLike, LayerHelper, checked_input, emitted, layer
from graphad.layers.images import adaptive_pool2d
from graphad.layers.nn import fc
from graphad.layers.shaping import image_resize
from graphad.layers.tensor import assign, equal, fill_constant, gaussian_random, range_
from graphad.program import Variable
from graphad.program.source import at_users_line
from graphad.types import FLOATS, dtype_name

_GATES = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


def _refused(layer: str, **arguments: object) -> None:
    """TypeError for parameters of Fluid's that mean nothing here."""
    for word, value in arguments.items():
        if value is not None:
            raise InvalidType(f"layers.{layer}: {word} means nothing here, so it is None, not {value!r}")


# -- cells ---------------------------------------------------------------------------------------


@layer
def lstm_unit(
    x_t: Variable,
    hidden_t_prev: Variable,
    cell_t_prev: Variable | None = None,
    forget_bias: float = 0.0,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """One step of an LSTM (S. Hochreiter and J. Schmidhuber, 1997): the next hidden state and the next cell.

    Args:
        x_t: what this step reads, ``[batch, features]``.
        hidden_t_prev, cell_t_prev: the state before, ``[batch, size]``.
        forget_bias: a number that is added to the forget gate's sum.

    With two tensors it is the operator ``lstm_unit``: the sums before the gates and the cell before, to the next cell and hidden state.
    """
    if cell_t_prev is None:
        # The operator of the same name, called with its own operands.
        return emitted("lstm_unit", [x_t, hidden_t_prev], name, forget_bias=float(forget_bias))  # type: ignore[no-any-return]
    features = emitted("concat", [[checked_input("lstm_unit", x_t), checked_input("lstm_unit", hidden_t_prev)]], axis=1)
    size = checked_input("lstm_unit", cell_t_prev).shape[1]
    sums = fc(features, 4 * size, param_attr=param_attr, bias_attr=bias_attr)
    # The operator has the cell first, Fluid's layer the hidden state.
    cell, hidden = emitted("lstm_unit", [sums, cell_t_prev], name, forget_bias=checked_float("forget_bias", forget_bias))
    return hidden, cell


@layer
def gru_unit(
    input: Variable,
    hidden: Variable,
    size: Any,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    activation: Any = "tanh",
    gate_activation: Any = "sigmoid",
    origin_mode: bool = False,
) -> tuple[Variable, Variable, Variable]:
    """One step of a GRU (K. Cho et al., 2014): the next hidden state, the reset state before, and the gates.

    Args:
        input: the input's share of the sums before the gates, ``[batch, size]``.
        hidden: the state before, ``[batch, size // 3]``.
        size: three times the width of the state.
        activation, gate_activation: "identity", "sigmoid", "tanh" or "relu".
        origin_mode: whether the update gate says how much of the state before is kept.

    With a Variable for ``size`` it is the operator ``gru_unit`` with that weight, and with ``param_attr`` as its bias.
    """
    kinds = {"activation": _GATES.get(activation, activation), "gate_activation": _GATES.get(gate_activation, gate_activation)}
    if isinstance(size, Variable):
        gate, reset, after = emitted("gru_unit", [input, hidden, size, param_attr], **kinds, origin_mode=origin_mode)
        return gate, reset, after
    with at_users_line("layers.gru_unit"):
        # Fluid's size is that of update gate, reset gate and candidate together.
        width = checked_int("size", size, 3) // 3
        if size % 3 or isinstance(kinds["activation"], str) or isinstance(kinds["gate_activation"], str):
            raise InvalidValue(
                f"size={size} is a multiple of 3, activation={activation!r} and gate_activation={gate_activation!r} {[*_GATES]}"
            )
    helper = LayerHelper("gru_unit")
    x = checked_input("gru_unit", input)
    weight = helper.parameter(param_attr, "w", [width, size], x.dtype)
    bias = helper.bias(bias_attr, [1, size], x.dtype)
    inputs = [x, checked_input("gru_unit", hidden), weight, *([] if bias is None else [bias])]
    gate, reset, after = emitted("gru_unit", inputs, **kinds, origin_mode=origin_mode)
    # The operator gives gate, reset and hidden state; Fluid's layer the other way round.
    return after, reset, gate


@layer
def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
) -> Variable:
    """``x @ W[i] @ y.T`` for each row and each i below ``size``, plus a bias: ``[batch, size]``."""
    helper = LayerHelper("bilinear_tensor_product", name)
    shapes = [checked_input("bilinear_tensor_product", variable).shape for variable in (x, y)]
    if any(len(shape) != 2 or shape[1] < 1 for shape in shapes):
        raise ShapeError(f"layers.bilinear_tensor_product takes matrices with known widths, not {x!r} and {y!r}")
    w = helper.parameter(param_attr, "w", [checked_int("size", size, 1), shapes[0][1], shapes[1][1]], x.dtype)
    # b: batch, i: outputs, m and n: the widths of x and y.
    out: Variable = emitted("einsum", [[x, w, y]], equation="bm,imn,bn->bi")
    bias = helper.bias(bias_attr, [1, size], x.dtype)
    return helper.activate(out if bias is None else helper.append("elementwise_add", {"X": out, "Y": bias}), act)


# -- losses and distances ------------------------------------------------------------------------


@layer
def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5, name: str | None = None) -> Variable:
    """One minus the Dice coefficient of predictions and labels: the mean over samples of ``1 - 2 * both / (input + label)``.

    Args:
        input: probabilities ``[batch, ..., classes]``.
        label: integer labels ``[batch, ..., 1]``.
    """
    probabilities = checked_input("dice_loss", input)
    truth: Variable = emitted("one_hot", [checked_input("dice_loss", label)], depth=probabilities.shape[-1], dtype=probabilities.dtype)
    # Over everything but the samples.
    axes = list(range(1, probabilities.ndim))
    intersection = (probabilities * truth).sum(axes)
    either = probabilities.sum(axes) + truth.sum(axes)
    share: Variable = intersection * 2.0 / (either + epsilon)
    return emitted("scale", [share.mean()], name, scale=-1.0, bias=1.0)  # type: ignore[no-any-return]


@layer
def soft_relu(x: Variable, threshold: float = 40.0, name: str | None = None) -> Variable:
    # Within the threshold exp does not overflow.
    """``log(1 + exp(x))``, x kept within ``threshold`` of zero."""
    limit = checked_float("threshold", threshold)
    return emitted("log1p", [checked_input("soft_relu", x).clip(-limit, limit).exp()], name)  # type: ignore[no-any-return]


@layer
def dist(x: Variable, y: Variable, p: float = 2) -> Variable:
    """The p-norm of the difference of two tensors, whose shapes broadcast."""
    away = emitted("elementwise_sub", [checked_input("dist", x), checked_input("dist", y)])
    return emitted("p_norm", [away], porder=checked_float("p", p), asvector=True)  # type: ignore[no-any-return]


@layer
def fsp_matrix(x: Variable, y: Variable) -> Variable:
    """The mean over all places of the products of two images' channels: ``[batch, channels of x, channels of y]`` (J. Yim et al., 2017)."""
    flat = [emitted("flatten_contiguous_range", [checked_input("fsp_matrix", variable)], start_axis=2, stop_axis=3) for variable in (x, y)]
    places = flat[0].shape[2]
    if places < 1:
        raise ShapeError(f"layers.fsp_matrix takes images with known extents, not {x!r}")
    return emitted("matmul_v2", flat, trans_y=True) * (1.0 / places)  # type: ignore[no-any-return]


@layer
def addcmul(
    input: Variable, tensor1: Variable, tensor2: Variable, value: float = 1.0, out: None = None, name: str | None = None
) -> Variable:
    """``input + value * tensor1 * tensor2``."""
    _refused("addcmul", out=out)
    product = emitted("elementwise_mul", [checked_input("addcmul", tensor1), checked_input("addcmul", tensor2)])
    return emitted("elementwise_add", [checked_input("addcmul", input), product * checked_float("value", value)], name)  # type: ignore[no-any-return]


@layer
def elementwise_equal(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Whether ``x == y``, elementwise."""
    return equal(x, y)


@layer
def cumsum(
    x: Variable, axis: int | None = None, exclusive: bool | None = None, reverse: bool | None = None, *, flatten: bool = False
) -> Variable:
    """The sums of the elements up to each along an axis, the last one if None.

    Args:
        x: a tensor; booleans count as 0 and 1.
        exclusive: whether an element is left out of its own sum.
        reverse: whether the sums begin at the end.
        flatten: whether the sums go over all elements.
    """
    along = -1 if axis is None else checked_int("layers.cumsum: axis", axis)
    tensor = checked_input("cumsum", x)
    numbers = tensor.astype("int64") if tensor.dtype == "bool" else tensor
    return emitted("cumsum", [numbers], axis=along, flatten=flatten, exclusive=bool(exclusive), reverse=bool(reverse))  # type: ignore[no-any-return]


@layer
def cumprod(
    x: Variable,
    dim: int | None = None,
    dtype: object = None,
    name: str | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> Variable:
    """The products of the elements up to each, along an axis, or of all elements in a row if ``dim`` is None.

    Args:
        x: a tensor; booleans count as 0 and 1, and ``dtype`` says in what is multiplied.
        exclusive, reverse: as in ``cumsum``.
    """
    tensor = checked_input("cumprod", x)
    numbers = tensor.astype(dtype) if dtype is not None else tensor.astype("int64") if tensor.dtype == "bool" else tensor
    row, axis = (numbers.flatten(), 0) if dim is None else (numbers, checked_int("layers.cumprod: dim", dim))
    return emitted("cumprod", [row], name, dim=axis, exclusive=exclusive, reverse=reverse)  # type: ignore[no-any-return]


@layer
def logcumsumexp(
    x: Variable,
    axis: int | None = None,
    dtype: object = None,
    name: str | None = None,
    *,
    flatten: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Variable:
    """The logarithms of the sums of the exponentials up to each element, along an axis, or of all elements in a row if None.

    Args:
        x: a tensor; integers are computed as float32, or as ``dtype``.
        flatten, exclusive, reverse: as in ``cumsum``.
    """
    tensor = checked_input("logcumsumexp", x)
    numbers = tensor.astype(dtype) if dtype is not None else tensor if tensor.dtype in FLOATS else tensor.astype("float32")
    along = -1 if axis is None else checked_int("layers.logcumsumexp: axis", axis)
    attrs = {"axis": along, "flatten": flatten or axis is None, "exclusive": exclusive, "reverse": reverse}
    return emitted("logcumsumexp", [numbers], name, **attrs)  # type: ignore[no-any-return]


# -- constants -----------------------------------------------------------------------------------


@layer
def full(
    shape: Sequence[int],
    fill_value: float,
    out: Variable | None = None,
    dtype: object = None,
    device: None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """A tensor of one value, float32 unless ``dtype`` says otherwise; gradients stop at it.

    A dtype in the place of ``out`` is taken as one, as in Paddle 2.
    """
    _refused("full", device=device)
    if isinstance(out, str | type) and dtype is None:
        out, dtype = None, out
    result = fill_constant(shape, "float32" if dtype is None else dtype, fill_value, out=out)
    result.stop_gradient = stop_gradient
    return result


@layer
def full_like(
    input: Variable,
    fill_value: float,
    out: None = None,
    dtype: object = None,
    device: None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """One value in the shape of a tensor, and in its dtype unless ``dtype`` says otherwise; gradients stop at it."""
    if isinstance(out, str | type) and dtype is None:
        out, dtype = None, out
    _refused("full_like", out=out, device=device)
    x = checked_input("full_like", input)
    dtype_ = "" if dtype is None else dtype_name(dtype)
    result: Variable = emitted("fill_any_like", [x], name, value=checked_float("fill_value", fill_value), dtype=dtype_)
    result.stop_gradient = stop_gradient
    return result


@layer
def arange(
    start: float | Variable, end: float | Variable | None = None, step: float | Variable = 1, dtype: object = None, name: str | None = None
) -> Variable:
    """The numbers from ``start`` up to ``end`` (left out) in steps; from 0 if only one bound is given. int64 unless a bound is a float."""
    first, last = (0, start) if end is None else (start, end)
    has_floats = any(isinstance(variable, float) for variable in (first, last, step))
    # numpy and Paddle 2 count in int64; one float makes it float32, Paddle's default dtype.
    return range_(first, last, step, dtype or ("float32" if has_floats else "int64"))


@layer
def randn(
    shape: Sequence[int], out: None = None, dtype: object = None, device: None = None, stop_gradient: bool = True, name: str | None = None
) -> Variable:
    """Normally distributed numbers of mean 0 and deviation 1."""
    _refused("randn", out=out, device=device)
    result = gaussian_random(shape, 0.0, 1.0, 0, "float32" if dtype is None else dtype)
    result.stop_gradient = stop_gradient
    return result


@layer
def randint(
    low: int,
    high: int | None = None,
    shape: Sequence[int] | None = None,
    out: None = None,
    dtype: object = None,
    device: None = None,
    stop_gradient: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Whole numbers from ``low`` up to ``high`` (left out); from 0 up to ``low`` without ``high``, of shape [1] without ``shape``."""
    _refused("randint", out=out, device=device)
    with at_users_line("layers.randint"):
        first, last = (0, checked_int("low", low)) if high is None else (checked_int("low", low), checked_int("high", high))
    attrs = {"shape": [1] if shape is None else list(shape), "low": first, "high": last, "seed": seed}
    result: Variable = emitted("randint", [], name, **attrs, dtype=dtype_name("int64" if dtype is None else dtype))
    result.stop_gradient = True
    return result


# -- shapes and images ---------------------------------------------------------------------------


@layer
def t(input: Variable, name: str | None = None) -> Variable:
    """A matrix with its axes swapped; a tensor of fewer axes as it is."""
    x = checked_input("t", input)
    if x.ndim > 2:
        raise ShapeError(f"layers.t takes at most two axes, not {x!r}; layers.transpose takes an order of the axes")
    return emitted("transpose", [x], name, axis=[1, 0]) if x.ndim == 2 else emitted("assign", [x], name)  # type: ignore[no-any-return]


@layer
def pad_constant_like(x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """y in the shape of x, a value after its ends; the extents are known."""
    big, small = checked_input("pad_constant_like", x).shape, checked_input("pad_constant_like", y).shape
    if len(big) != len(small) or any(-1 in pair and a != b for pair in zip(big, small, strict=True) for a, b in [pair]):
        raise ShapeError(f"layers.pad_constant_like takes tensors of one rank with known extents, not {x!r} and {y!r}")
    paddings = [number for a, b in zip(big, small, strict=True) for number in (0, 0 if a == -1 else a - b)]
    return emitted("pad", [y], name, paddings=paddings, pad_value=checked_float("pad_value", pad_value))  # type: ignore[no-any-return]


_CORNERS, _EDGES, _FIRST = DefaultFlag(True), DefaultInt(1), DefaultStr("NCHW")  # Fluid's defaults
_INTERPOLATED = {"nearest": 4, "linear": 3, "bilinear": 4, "trilinear": 5, "bicubic": 4, "area": 4}


@layer
def interpolate(
    input: Variable,
    out_shape: Any = None,
    scale: float | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Any = None,
    align_corners: bool | DefaultFlag | None = _CORNERS,
    align_mode: int | None = _EDGES,
    data_format: str | None = _FIRST,
    *,
    size: Any = None,
    scale_factor: Any = None,
    mode: str | None = None,
) -> Variable:
    """Images at another size: ``image_resize``, or what Paddle 2 calls so where one of its words is given.

    Args:
        input: ``[batch, channels, ...]`` with one to three more axes; the channels last where ``data_format`` says so.
        out_shape, scale, resample, actual_shape: those of ``image_resize``.
        size: the new extents, or a Variable of them.
        scale_factor: the factor on the extents, or one for each.
        mode: "nearest" (which it is beside ``size`` and ``scale_factor``), "linear", "bilinear", "trilinear", "bicubic" or "area".
        align_corners, align_mode, data_format: which points are on top of each other, and where the channels are. Beside ``size``,
            ``scale_factor`` or ``mode`` they are by default what Paddle 2 has: False, 0, and the layout with the channels first.

    Raises:
        TypeError: words of both kinds are given, or neither a size nor a factor.
        ValueError: the mode or the layout is unknown, or does not fit the number of axes.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     wide = ga.layers.interpolate(ga.layers.assign([[[1.0, 3.0]]]), scale_factor=2, mode="linear", data_format="NCW")
    >>> ga.Executor().run(program, fetch_list=[wide])[0].tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]
    """
    tensor = checked_input("interpolate", input)
    if size is None and scale_factor is None and mode is None:
        corners: Any = True if align_corners in (None, _CORNERS) else align_corners
        edges = 1 if align_mode in (None, _EDGES) else align_mode
        return image_resize(tensor, out_shape, scale, name, resample, actual_shape, corners, edges, data_format or "NCHW")
    # Paddle 2's defaults are the opposite of Fluid's, so that those of the signature count as nothing given.
    align_corners = None if align_corners is _CORNERS else align_corners
    align_mode, data_format = None if align_mode is _EDGES else align_mode, None if data_format is _FIRST else data_format
    with at_users_line("layers.interpolate"):
        if out_shape is not None or scale is not None or actual_shape is not None:
            raise InvalidType("size, scale_factor and mode are Paddle 2's words, out_shape, scale and resample Fluid's: give those of one")
        if (size is None) == (scale_factor is None):
            raise InvalidType("one of size and scale_factor is needed")
        return _interpolated(tensor, size, scale_factor, mode or "nearest", (bool(align_corners), align_mode or 0), data_format, name)


def _interpolated(
    tensor: Variable, size: Any, scale_factor: Any, method: str, how: tuple[bool, int], data_format: str | None, name: str | None
) -> Variable:
    """``interpolate`` as Paddle 2 has it."""
    with at_users_line("layers.interpolate"):
        if _INTERPOLATED.get(method) != tensor.ndim:
            fitting = [repr(word) for word, rank in _INTERPOLATED.items() if rank == tensor.ndim]
            raise InvalidValue(f"mode={method!r} with {tensor!r}: of so many axes are {', '.join(fitting) or 'none'}")
        formats = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}[tensor.ndim]
        last = checked_format("data_format", data_format or formats[0], formats)
        factors = None if scale_factor is None else [checked_float("scale_factor", item) for item in _items(scale_factor)]
        # A mean over areas is an adaptive pooling to the new extents.
        if method == "area":
            return adaptive_pool2d(tensor, _extents(tensor, size, factors, last), "avg", name=name)  # type: ignore[no-any-return]
    layout = "NHWC" if last else "NCHW"
    attrs: dict[str, object] = {"align_corners": how[0], "align_mode": how[1], "data_layout": layout}
    if factors is not None:
        attrs["scale"] = factors
    elif not isinstance(size, Variable):
        extents = [checked_int("layers.interpolate: size", item, 1) for item in _items(size)]
        attrs |= dict(zip(("out_d", "out_h", "out_w")[2 - tensor.ndim :], extents, strict=True))
    inputs = [tensor, size] if isinstance(size, Variable) else [tensor]
    return emitted(f"{method}_interp_v2", inputs, name, **attrs)  # type: ignore[no-any-return]


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | np.ndarray) else [value]


def _extents(x: Variable, size: Any, factors: list[float] | None, last: bool) -> list[int]:
    """The new extents of a mean over areas."""
    if last or isinstance(size, Variable):
        raise InvalidValue(f"mode='area' takes NCHW and a size that is known, not {x!r} with size={size!r}")
    if factors is None:
        return [checked_int("size", item, 1) for item in _items(size)]
    if -1 in x.shape[2:]:
        raise ShapeError(f"mode='area' with scale_factor takes known extents, not {x!r}")
    # One factor counts for both axes.
    return [int(extent * factor) for extent, factor in zip(x.shape[2:], factors * (3 - len(factors)), strict=True)]


@layer
def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """Images whose shorter extent has a length, with the proportions kept."""
    x = checked_input("image_resize_short", input)
    if x.ndim != 4 or -1 in x.shape[2:]:
        raise ShapeError(f"layers.image_resize_short takes [batch, channels, height, width] with known height and width, not {x!r}")
    short = min(x.shape[2:])
    # Rounded half up, as Fluid does it.
    size = [out_short_len if extent == short else int(extent * (out_short_len / short) + 0.5) for extent in x.shape[2:]]
    return image_resize(x, size, resample=resample)


@layer
def cross(input: Variable, other: Variable, dim: int | None = None) -> Variable:
    """The cross products of vectors of three elements along an axis: the first axis of extent 3 if None."""
    x, y = checked_input("cross", input), checked_input("cross", other)
    if dim is None and 3 not in x.shape:
        raise ShapeError(f"layers.cross: {x!r} has no axis of extent 3")
    axis = x.shape.index(3) if dim is None else checked_int("layers.cross: dim", dim)
    if not -x.ndim <= axis < x.ndim or x.shape[axis] != 3:
        raise ShapeError(f"layers.cross: dim={dim} is no axis of extent 3 of {x!r}")
    # x1 * y2 - x2 * y1 with the components rotated by one and by two is all three components at once.
    rotations = [[emitted("roll", [variable], shifts=[by], axis=[axis]) for by in (-1, -2)] for variable in (x, y)]
    (x1, x2), (y1, y2) = rotations
    return x1 * y2 - x2 * y1  # type: ignore[no-any-return]


@layer
def add_position_encoding(input: Variable, alpha: float, beta: float, name: str | None = None) -> Variable:
    """``alpha * x + beta * positions`` for ``[batch, time, width]``, with sines and then cosines (A. Vaswani et al., 2017)."""
    x = checked_input("add_position_encoding", input)
    if x.ndim != 3 or min(x.shape[1:]) < 1 or x.shape[2] % 2:
        raise ShapeError(f"layers.add_position_encoding takes [batch, time, width] with known time and even width, not {x!r}")
    half = x.shape[2] // 2
    # Fluid's exponents go from 0 to 1 with both ends, unlike the paper's 2i / width.
    powers = 10000.0 ** (np.arange(half) / (half - 1)) if half > 1 else np.array([10000.0])
    angles = np.arange(x.shape[1])[:, None] / powers
    positions = np.concatenate([np.sin(angles), np.cos(angles)], 1)[None].astype(x.dtype)
    share = x * checked_float("layers.add_position_encoding: alpha", alpha)
    shift = assign(positions * checked_float("layers.add_position_encoding: beta", beta))
    return emitted("elementwise_add", [share, shift], name)  # type: ignore[no-any-return]


@layer
def continuous_value_model(input: Variable, cvm: Variable, use_cvm: bool = True) -> Variable:
    """Features ``[batch, n]`` whose first two columns count shows and clicks.

    With ``use_cvm`` these become ``log(shows + 1)`` and ``log(clicks + 1) - log(shows + 1)``; else they are left out. ``cvm`` says in
    Paddle what the gradients of these columns are; here no gradient goes through them.
    """
    x = checked_input("continuous_value_model", input)
    checked_input("continuous_value_model", cvm)
    if x.ndim != 2 or x.shape[1] < 3:
        raise ShapeError(f"layers.continuous_value_model takes [batch, n] with n above 2, not {x!r}")
    rest: Variable = x[:, 2:]
    if not checked_flag("layers.continuous_value_model: use_cvm", use_cvm):
        return rest
    counts = emitted("log1p", [x[:, :2]])
    # log(click + 1) - log(show + 1): the logarithm of the rate of clicks.
    shows, clicks = counts[:, :1], counts[:, 1:] - counts[:, :1]
    for item in (shows, clicks):
        item.stop_gradient = True
    return emitted("concat", [[shows, clicks, rest]], axis=1)  # type: ignore[no-any-return]


@layer
def shard_index(input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Variable:
    """Indices below ``index_num`` as those of one of ``nshards`` parts; ``ignore_value`` for those of other parts."""
    x = checked_input("shard_index", input)
    with at_users_line("layers.shard_index"):
        shards = checked_int("nshards", nshards, 1)
        # Rounded up, so that the last part may have fewer.
        size = -(-checked_int("index_num", index_num, 1) // shards)
        if not 0 <= checked_int("shard_id", shard_id) < shards:
            raise InvalidValue(f"shard_id={shard_id} is not below nshards={shards}")
    is_of_shard = x // size == shard_id
    return emitted("where", [is_of_shard, x % size, emitted("fill_any_like", [x], value=checked_int("ignore_value", ignore_value))])  # type: ignore[no-any-return]


@layer
def unique_with_counts(x: Variable, dtype: object = "int32") -> tuple[Variable, Variable, Variable]:
    """The distinct elements in the order in which they come first, which of them each element is, and how often each is there."""
    helper = LayerHelper("unique_with_counts")
    slots, kind = ("Out", "Index", "Counts"), dtype_name(dtype)
    attrs = {"dtype": kind, "return_inverse": True, "return_counts": True}
    out, index, counts = helper.append_all("unique", {"X": checked_input("unique_with_counts", x)}, slots, attrs, stopped=slots)
    return out, index, counts


@layer
def space_to_depth(x: Variable, blocksize: int, name: str | None = None) -> Variable:
    """Images whose squares of ``blocksize`` places have become channels: the place comes before the channel."""
    images, size = checked_input("space_to_depth", x), checked_int("layers.space_to_depth: blocksize", blocksize, 1)
    if images.ndim != 4 or min(images.shape[1:]) < 1 or images.shape[2] % size or images.shape[3] % size:
        raise ShapeError(f"layers.space_to_depth takes [batch, channels, height, width] that {size} divides, not {images!r}")
    _, channels, height, width = images.shape
    # Height and width are split into (block, place in it); then both places go before the channel.
    blocks = emitted("reshape", [images], shape=[-1, channels, height // size, size, width // size, size])
    places_first = emitted("transpose", [blocks], axis=[0, 3, 5, 1, 2, 4])
    return emitted("reshape", [places_first], name, shape=[-1, channels * size * size, height // size, width // size])  # type: ignore[no-any-return]


@layer
def temporal_shift(x: Variable, seg_num: int, shift_ratio: float = 0.25, name: str | None = None) -> Variable:
    """Images ``[batch * seg_num, channels, height, width]`` with shares of the channels of the frames around (J. Lin et al., 2019)."""
    images, steps = checked_input("temporal_shift", x), checked_int("layers.temporal_shift: seg_num", seg_num, 1)
    ratio = checked_float("layers.temporal_shift: shift_ratio", shift_ratio)
    if images.ndim != 4 or min(images.shape[1:]) < 1 or not 0.0 <= ratio <= 0.5:
        raise ShapeError(
            f"layers.temporal_shift takes [batch, channels, height, width] and at most half of the channels, not {images!r}, {ratio}"
        )
    extents = list(images.shape[1:])
    first, second = int(extents[0] * ratio), int(extents[0] * 2 * ratio)
    frames = emitted("reshape", [images], shape=[-1, steps, *extents])
    # A frame of zeros before the first and after the last, so that each has two neighbors.
    around = emitted("pad", [frames], paddings=[0, 0, 1, 1, 0, 0, 0, 0, 0, 0])
    # The first channels come from the frame before, the next from the one after, the rest from the frame itself.
    parts = [around[:, :steps, :first], around[:, 2:, first:second], around[:, 1 : steps + 1, second:]]
    nonempty = [part for part, extent in zip(parts, (first, second - first, extents[0] - second), strict=True) if extent]
    return emitted("reshape", [emitted("concat", [nonempty], axis=2)], name, shape=[-1, *extents])  # type: ignore[no-any-return]


@layer
def row_conv(input: Variable, future_context_size: int, param_attr: AttrLike = None, act: str | None = None) -> Variable:
    """Each step plus the weighted ``future_context_size`` steps after it (D. Amodei et al., 2016), for ``[batch, time, width]``."""
    x, ahead = checked_input("row_conv", input), checked_int("layers.row_conv: future_context_size", future_context_size, 0)
    if x.ndim != 3 or x.shape[1] < 1 or x.shape[2] < 1:
        raise ShapeError(f"layers.row_conv takes [batch, time, width] with known time and width, not {x!r}")
    helper = LayerHelper("row_conv")
    weight = helper.parameter(param_attr, "w", [ahead + 1, x.shape[2]], x.dtype)
    # Zeros after the last step; the sum over shifted copies is the convolution.
    longer = emitted("pad", [x], paddings=[0, 0, 0, ahead, 0, 0])
    terms = [longer[:, step : step + x.shape[1]] * weight[step] for step in range(ahead + 1)]
    return helper.activate(emitted("sum", [terms]), act)


@layer
def im2sequence(
    input: Variable,
    filter_size: object = 1,
    stride: object = 1,
    padding: object = 0,
    input_image_size: None = None,
    out_stride: object = 1,
    name: str | None = None,
) -> Variable:
    """The windows of images, a row each: ``[batch * places, channels * height * width of a window]``; there are no levels of detail."""
    x = checked_input("im2sequence", input)
    if input_image_size is not None or out_stride not in (1, [1, 1], (1, 1)):
        raise InvalidType("layers.im2sequence: images have one size here: input_image_size is None and out_stride 1")
    with at_users_line("layers.im2sequence"):
        pads = list(padding) if isinstance(padding, list | tuple) and len(padding) == 4 else listed("padding", padding, 2) * 2
        window, step = listed("filter_size", filter_size, 2), listed("stride", stride, 2)
    attrs = {"kernel_sizes": window, "strides": step, "paddings": pads, "dilations": [1, 1]}
    columns = emitted("transpose", [emitted("unfold", [x], **attrs)], axis=[0, 2, 1])
    return emitted("reshape", [columns], name, shape=[-1, x.shape[1] * window[0] * window[1]])  # type: ignore[no-any-return]


@layer
def merge_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """The tensor itself: gradients of embeddings are whole tensors here, whose rows are merged already."""
    return emitted("assign", [checked_input("merge_selected_rows", x)], name)  # type: ignore[no-any-return]


@layer
def get_tensor_from_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """The tensor itself: gradients of embeddings are whole tensors here."""
    return emitted("assign", [checked_input("get_tensor_from_selected_rows", x)], name)  # type: ignore[no-any-return]


@layer
def pow(x: Variable, factor: object = 1.0, name: str | None = None) -> Variable:
    """The elements to a power: a number, or a tensor of one element or of a shape that broadcasts."""
    base = checked_input("pow", x)
    if isinstance(factor, Variable):
        return emitted("elementwise_pow", [base, factor if factor.dtype == base.dtype else factor.astype(base.dtype)], name)  # type: ignore[no-any-return]
    power = checked_float("layers.pow: factor", factor)
    result: Variable = emitted("pow", [base], name, factor=power)
    checked_fractions("layers.pow", base, result, {"factor": power if power >= 0 else 1 / 2})
    return result


@layer
def diag(diagonal: object, offset: int = 0, padding_value: float = 0.0, name: str | None = None) -> Variable:
    """A matrix with a vector (a Variable, or an array) in a diagonal, and ``padding_value`` elsewhere; of a matrix that diagonal."""
    x = assign(diagonal) if isinstance(diagonal, np.ndarray) else checked_input("diag", diagonal)
    if x.ndim == 1 and not offset and not padding_value:
        return emitted("diag", [x], name)  # type: ignore[no-any-return]
    attrs = {"offset": checked_int("layers.diag: offset", offset), "padding_value": checked_float("padding_value", padding_value)}
    return emitted("diag_v2", [x], name, **attrs)  # type: ignore[no-any-return]


@layer
def flatten(
    x: Variable, axis: int = 1, name: str | None = None, *, start_axis: int | None = None, stop_axis: int | None = None
) -> Variable:
    """A matrix of the axes before ``axis`` and of the others; with ``start_axis`` or ``stop_axis`` (Paddle 2) these axes as one."""
    tensor = checked_input("flatten", x)
    if start_axis is None and stop_axis is None:
        return emitted("flatten", [tensor], name, axis=checked_int("layers.flatten: axis", axis))  # type: ignore[no-any-return]
    first = 0 if start_axis is None else checked_int("layers.flatten: start_axis", start_axis)
    last = -1 if stop_axis is None else checked_int("layers.flatten: stop_axis", stop_axis)
    return emitted("flatten_contiguous_range", [tensor], name, start_axis=first, stop_axis=last)  # type: ignore[no-any-return]
