"""Layers of Fluid that are made of several operators: cells, losses, constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphad import ops
from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_float, checked_int
from graphad.layers.helper import AttrLike, LayerHelper, checked_input, layer
from graphad.layers.nn import fc
from graphad.layers.shaping import image_resize
from graphad.layers.tensor import equal, fill_constant, gaussian_random, range_
from graphad.program import Variable, default_main_program
from graphad.program.source import at_users_line
from graphad.types import dtype_name

_GATES = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}


def _emitted(op: str, inputs: Sequence[object], name: str | None = None, **attrs: object) -> Any:
    return default_main_program().current_block().emit(ops.lookup(op), inputs, attrs, name)


def _refused(layer: str, **given: object) -> None:
    """TypeError for parameters of Fluid's that mean nothing here."""
    for word, value in given.items():
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
        return _emitted("lstm_unit", [x_t, hidden_t_prev], name, forget_bias=float(forget_bias))  # type: ignore[no-any-return]
    joined = _emitted("concat", [[checked_input("lstm_unit", x_t), checked_input("lstm_unit", hidden_t_prev)]], axis=1)
    size = checked_input("lstm_unit", cell_t_prev).shape[1]
    sums = fc(joined, 4 * size, param_attr=param_attr, bias_attr=bias_attr)
    cell, hidden = _emitted("lstm_unit", [sums, cell_t_prev], name, forget_bias=checked_float("forget_bias", forget_bias))
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
        gate, reset, after = _emitted("gru_unit", [input, hidden, size, param_attr], **kinds, origin_mode=origin_mode)
        return gate, reset, after
    with at_users_line("layers.gru_unit"):
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
    gate, reset, after = _emitted("gru_unit", inputs, **kinds, origin_mode=origin_mode)
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
    shapes = [checked_input("bilinear_tensor_product", each).shape for each in (x, y)]
    if any(len(shape) != 2 or shape[1] < 1 for shape in shapes):
        raise ShapeError(f"layers.bilinear_tensor_product takes matrices with known widths, not {x!r} and {y!r}")
    w = helper.parameter(param_attr, "w", [checked_int("size", size, 1), shapes[0][1], shapes[1][1]], x.dtype)
    out: Variable = _emitted("einsum", [[x, w, y]], equation="bm,imn,bn->bi")
    bias = helper.bias(bias_attr, [1, size], x.dtype)
    return helper.activate(out if bias is None else helper.append("elementwise_add", {"X": out, "Y": bias}), act)


# -- losses and distances ------------------------------------------------------------------------


@layer
def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-5, name: str | None = None) -> Variable:
    """One less the share that predictions and labels have in common: the mean over samples of ``1 - 2 * both / (input + label)``.

    Args:
        input: probabilities ``[batch, ..., classes]``.
        label: integer labels ``[batch, ..., 1]``.
    """
    probabilities = checked_input("dice_loss", input)
    truth: Variable = _emitted("one_hot", [checked_input("dice_loss", label)], depth=probabilities.shape[-1], dtype=probabilities.dtype)
    axes = list(range(1, probabilities.ndim))
    both = (probabilities * truth).sum(axes)
    either = probabilities.sum(axes) + truth.sum(axes)
    share: Variable = both * 2.0 / (either + epsilon)
    return _emitted("scale", [share.mean()], name, scale=-1.0, bias=1.0)  # type: ignore[no-any-return]


@layer
def soft_relu(x: Variable, threshold: float = 40.0, name: str | None = None) -> Variable:
    """``log(1 + exp(x))``, x kept within ``threshold`` of zero."""
    limit = checked_float("threshold", threshold)
    return _emitted("log1p", [checked_input("soft_relu", x).clip(-limit, limit).exp()], name)  # type: ignore[no-any-return]


@layer
def dist(x: Variable, y: Variable, p: float = 2) -> Variable:
    """The p-norm of the difference of two tensors, whose shapes broadcast."""
    away = _emitted("elementwise_sub", [checked_input("dist", x), checked_input("dist", y)])
    return _emitted("p_norm", [away], porder=checked_float("p", p), asvector=True)  # type: ignore[no-any-return]


@layer
def fsp_matrix(x: Variable, y: Variable) -> Variable:
    """The mean over all places of the products of two images' channels: ``[batch, channels of x, channels of y]`` (J. Yim et al., 2017)."""
    flat = [_emitted("flatten_contiguous_range", [checked_input("fsp_matrix", each)], start_axis=2, stop_axis=3) for each in (x, y)]
    places = flat[0].shape[2]
    if places < 1:
        raise ShapeError(f"layers.fsp_matrix takes images with known extents, not {x!r}")
    return _emitted("matmul_v2", flat, trans_y=True) * (1.0 / places)  # type: ignore[no-any-return]


@layer
def addcmul(
    input: Variable, tensor1: Variable, tensor2: Variable, value: float = 1.0, out: None = None, name: str | None = None
) -> Variable:
    """``input + value * tensor1 * tensor2``."""
    _refused("addcmul", out=out)
    product = _emitted("elementwise_mul", [checked_input("addcmul", tensor1), checked_input("addcmul", tensor2)])
    return _emitted("elementwise_add", [checked_input("addcmul", input), product * checked_float("value", value)], name)  # type: ignore[no-any-return]


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
        exclusive: whether an element is left out of its own sum.
        reverse: whether the sums begin at the end.
        flatten: whether the sums go over all elements.
    """
    along = -1 if axis is None else checked_int("layers.cumsum: axis", axis)
    return _emitted("cumsum", [checked_input("cumsum", x)], axis=along, flatten=flatten, exclusive=bool(exclusive), reverse=bool(reverse))  # type: ignore[no-any-return]


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
    """A tensor of one value, float32 unless ``dtype`` says otherwise; gradients stop at it."""
    _refused("full", device=device)
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
    _refused("full_like", out=out, device=device)
    x = checked_input("full_like", input)
    chosen = "" if dtype is None else dtype_name(dtype)
    result: Variable = _emitted("fill_any_like", [x], name, value=checked_float("fill_value", fill_value), dtype=chosen)
    result.stop_gradient = stop_gradient
    return result


@layer
def arange(start: object, end: object = None, step: object = 1, dtype: object = None, name: str | None = None) -> Variable:
    """The numbers from ``start`` up to ``end`` (left out) in steps; from 0 if only one bound is given. int64 unless a bound is a float."""
    first, last = (0, start) if end is None else (start, end)
    floating = any(isinstance(each, float) for each in (first, last, step))
    return range_(first, last, step, dtype or ("float32" if floating else "int64"))


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
    result: Variable = _emitted("randint", [], name, **attrs, dtype=dtype_name("int64" if dtype is None else dtype))
    result.stop_gradient = True
    return result


# -- shapes and images ---------------------------------------------------------------------------


@layer
def t(input: Variable, name: str | None = None) -> Variable:
    """A matrix with its axes swapped; a tensor of fewer axes as it is."""
    x = checked_input("t", input)
    if x.ndim > 2:
        raise ShapeError(f"layers.t takes at most two axes, not {x!r}; layers.transpose takes an order of the axes")
    return _emitted("transpose", [x], name, axis=[1, 0]) if x.ndim == 2 else _emitted("assign", [x], name)  # type: ignore[no-any-return]


@layer
def pad_constant_like(x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """y in the shape of x, a value after its ends; the extents are known."""
    big, small = checked_input("pad_constant_like", x).shape, checked_input("pad_constant_like", y).shape
    if len(big) != len(small) or any(-1 in pair and a != b for pair in zip(big, small, strict=True) for a, b in [pair]):
        raise ShapeError(f"layers.pad_constant_like takes tensors of one rank with known extents, not {x!r} and {y!r}")
    paddings = [each for a, b in zip(big, small, strict=True) for each in (0, 0 if a == -1 else a - b)]
    return _emitted("pad", [y], name, paddings=paddings, pad_value=checked_float("pad_value", pad_value))  # type: ignore[no-any-return]


@layer
def interpolate(
    input: Variable,
    out_shape: object = None,
    scale: float | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: object = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """Images at another size; arguments as ``image_resize``."""
    return image_resize(input, out_shape, scale, name, resample, actual_shape, align_corners, align_mode, data_format)


@layer
def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """Images whose shorter extent has a length, with the proportions kept."""
    x = checked_input("image_resize_short", input)
    if x.ndim != 4 or -1 in x.shape[2:]:
        raise ShapeError(f"layers.image_resize_short takes [batch, channels, height, width] with known height and width, not {x!r}")
    short = min(x.shape[2:])
    size = [out_short_len if extent == short else int(extent * (out_short_len / short) + 0.5) for extent in x.shape[2:]]
    return image_resize(x, size, resample=resample)
