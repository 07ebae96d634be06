"""One step of a recurrent network: LSTM (Hochreiter & Schmidhuber 1997) and GRU (Cho et al. 2014) cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.activation import sigmoid
from graphad.ops.attributes import attributes
from graphad.ops.casting import as_mask
from graphad.ops.definition import operator
from graphad.ops.elementwise import tanh
from graphad.ops.inference import matched, same_dtypes, same_float
from graphad.ops.like import fill_zeros_like, reshape_like, sum_like
from graphad.ops.linalg import matmul_v2
from graphad.ops.normalization import times, total
from graphad.ops.registry import REGISTRY
from graphad.ops.shapes import reshape
from graphad.ops.slicing import slice_
from graphad.types import Array, Tensor, TensorType

# -- lstm_unit -----------------------------------------------------------------------------------


def _lstm_type(X: TensorType, C_prev: TensorType, *, forget_bias: float = 0.0) -> tuple[TensorType, TensorType]:
    same_dtypes(X=same_float(X), C_prev=C_prev)
    width = C_prev.shape[-1] if C_prev.shape else -1
    is_fitting = len(X.shape) == 2 and len(C_prev.shape) == 2 and matched(X.shape[0], C_prev.shape[0])
    if not is_fitting or not matched(X.shape[1], -1 if width == -1 else 4 * width):
        raise ShapeError(f"X is {X} but C_prev is {C_prev}: [N, 4 D] and [N, D] are expected")
    return C_prev, C_prev


def _parts(X: Tensor, num: int) -> list[Tensor]:
    return list(REGISTRY["split"](X, num=num, axis=1))


def _joined(parts: list[Tensor]) -> Tensor:
    return REGISTRY["concat"](parts, axis=1)


def _lstm_gates(X: Tensor, forget_bias: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The input, forget and output gates and the candidate."""
    i, f, o, g = _parts(X, 4)
    return sigmoid(i), sigmoid(f + forget_bias), sigmoid(o), tanh(g)


def _cell_cotangent(C: Tensor, o: Tensor, dC: Tensor, dH: Tensor) -> Tensor:
    t = tanh(C)
    # H = o tanh(C): the cell gets the cotangent of H through tanh, besides its own.
    return total(dC, times(dH, o * (1.0 - t * t)))


def _lstm_x_grad(X: Tensor, C_prev: Tensor, C: Tensor, dC: Tensor = None, dH: Tensor = None, *, forget_bias: float) -> Tensor:
    i, f, o, g = _lstm_gates(X, forget_bias)
    d = _cell_cotangent(C, o, dC, dH)
    through_o = fill_zeros_like(o) if dH is None else dH * tanh(C) * o * (1.0 - o)
    # i (1 - i) and 1 - g^2 are the slopes of sigmoid and tanh, by their results.
    return _joined([d * g * i * (1.0 - i), d * C_prev * f * (1.0 - f), through_o, d * i * (1.0 - g * g)])


def _lstm_cell_grad(X: Tensor, C: Tensor, dC: Tensor = None, dH: Tensor = None, *, forget_bias: float) -> Tensor:
    _, f, o, _ = _lstm_gates(X, forget_bias)
    return _cell_cotangent(C, o, dC, dH) * f


@operator("X C_prev -> C H", infer=_lstm_type, grad={"X": _lstm_x_grad, "C_prev": _lstm_cell_grad}, rows="X C_prev")
def lstm_unit(X: Array, C_prev: Array, *, forget_bias: float = 0.0) -> tuple[Array, Array]:
    """The next cell and hidden state from the sums before the gates ``[N, 4 D]`` (input, forget, output, candidate)."""
    i, f, o, g = _lstm_gates(X, forget_bias)
    cell = np.asarray(f * C_prev + i * g)
    return cell, np.asarray(o * np.tanh(cell))


# -- gru_unit ------------------------------------------------------------------------------------

IDENTITY, SIGMOID, TANH, RELU = range(4)


@dataclass(eq=False, repr=False)
class GruUnit:
    """The attributes of gru_unit."""

    activation: int = TANH
    gate_activation: int = SIGMOID
    origin_mode: bool = False


def _gru_type(
    Input: TensorType,
    HiddenPrev: TensorType,
    Weight: TensorType,
    Bias: TensorType | None = None,
    **attrs: Any,
) -> tuple[TensorType, TensorType, TensorType]:
    cell = GruUnit(**attrs)
    same_dtypes(Input=same_float(Input), HiddenPrev=HiddenPrev, Weight=Weight, Bias=Bias)
    if not {cell.activation, cell.gate_activation} <= {IDENTITY, SIGMOID, TANH, RELU}:
        raise ShapeError(f"an activation of {cell} is not 0 (identity), 1 (sigmoid), 2 (tanh) or 3 (relu)")
    if len(Weight.shape) != 2 or -1 in Weight.shape or Weight.shape[1] != 3 * Weight.shape[0]:
        raise ShapeError(f"Weight is {Weight}; [D, 3 D] with D known is expected")
    width, batch = Weight.shape[0], Input.shape[0] if Input.shape else -1
    expected = {"Input": (Input, (batch, 3 * width)), "HiddenPrev": (HiddenPrev, (batch, width)), "Bias": (Bias, (1, 3 * width))}
    for name, (type_, shape) in expected.items():
        if type_ is not None and not (len(type_.shape) == 2 and all(map(matched, type_.shape, shape))):
            raise ShapeError(f"Weight is {Weight} but {name} is {type_}: {list(shape)} is expected")
    return Input, HiddenPrev, HiddenPrev


def _activated(X: Tensor, which: int) -> Tensor:
    if which == IDENTITY:
        return X
    return REGISTRY[{SIGMOID: "sigmoid", TANH: "tanh", RELU: "relu"}[which]](X)


def _slope(Y: Tensor, d: Tensor, which: int) -> Tensor:
    """The cotangent before an activation whose result is Y."""
    # Each derivative as a function of the result, so that what came before an activation need not be kept.
    if which == SIGMOID:
        return d * (Y * (1.0 - Y))
    if which == TANH:
        return d * (1.0 - Y * Y)
    return d * as_mask(Y > 0.0, Y) if which == RELU else d


def _weights(Weight: Tensor) -> tuple[Tensor, Tensor]:
    """``[D, 2 D]`` of the gates and ``[D, D]`` of the candidate, which follow each other in Weight's memory."""
    width = Weight.shape[0]
    # Not columns of [D, 3 D]: Paddle keeps two matrices one after the other in the memory of one parameter.
    flat = reshape(Weight, shape=[-1])
    gates = slice_(flat, axes=[0], starts=[0], ends=[2 * width * width])
    candidate = slice_(flat, axes=[0], starts=[2 * width * width], ends=[3 * width * width])
    return reshape(gates, shape=[width, 2 * width]), reshape(candidate, shape=[width, width])


class Back(NamedTuple):
    """The cotangents within a GRU cell: before its gates (update, reset), before its candidate, and of the state before."""

    gates: Tensor
    candidate: Tensor
    hidden: Tensor

    @property
    def input(self) -> Tensor:
        """The cotangent of the sums before the gates and the candidate."""
        return _joined([self.gates, self.candidate])


def _back(HiddenPrev: Tensor, Weight: Tensor, Gate: Tensor, dGate: Tensor, dReset: Tensor, dHidden: Tensor, cell: GruUnit) -> Back:
    u, r, c = _parts(Gate, 3)
    cotangents = [None] * 3 if dGate is None else _parts(dGate, 3)
    of_gates, of_candidate = _weights(Weight)
    # The two conventions for the update gate: of the old state (K. Cho et al., 2014) or of the candidate.
    # Paddle's default takes the update gate for the share of the candidate; ``origin_mode`` is the paper's form.
    carry, new = (u, 1.0 - u) if cell.origin_mode else (1.0 - u, u)
    toward = HiddenPrev - c if cell.origin_mode else c - HiddenPrev
    zero = fill_zeros_like(u)
    # In the opposite order of the forward: the candidate, then the reset gate that it read, then both gates, then the state.
    candidate = _slope(c, total(cotangents[2], times(dHidden, new), zero), cell.activation)
    reset = total(dReset, matmul_v2(candidate, of_candidate, trans_y=True))
    before = (total(cotangents[0], times(dHidden, toward), zero), total(cotangents[1], reset * HiddenPrev))
    gates = _joined([_slope(y, d, cell.gate_activation) for y, d in zip((u, r), before, strict=True)])
    # Three ways back to the state before: through the reset gate, through what is carried on, and through the gates' products.
    hidden = total(reset * r, times(dHidden, carry), matmul_v2(gates, of_gates, trans_y=True))
    return Back(gates, candidate, hidden)


def _gru_grad(part: Callable[[Back], Tensor]) -> Callable[..., Tensor]:
    """A gradient rule: one part of what flows back through the cell."""

    @attributes(GruUnit)
    def rule(
        HiddenPrev: Tensor,
        Weight: Tensor,
        Gate: Tensor,
        dGate: Tensor = None,
        dResetHiddenPrev: Tensor = None,
        dHidden: Tensor = None,
        **attrs: Any,
    ) -> Tensor:
        return part(_back(HiddenPrev, Weight, Gate, dGate, dResetHiddenPrev, dHidden, GruUnit(**attrs)))

    return rule


@attributes(GruUnit)
def _gru_bias_grad(
    Bias: Tensor,
    HiddenPrev: Tensor,
    Weight: Tensor,
    Gate: Tensor,
    dGate: Tensor = None,
    dResetHiddenPrev: Tensor = None,
    dHidden: Tensor = None,
    **attrs: Any,
) -> Tensor:
    return sum_like(_back(HiddenPrev, Weight, Gate, dGate, dResetHiddenPrev, dHidden, GruUnit(**attrs)).input, Bias)


@attributes(GruUnit)
def _gru_weight_grad(
    HiddenPrev: Tensor,
    Weight: Tensor,
    Gate: Tensor,
    ResetHiddenPrev: Tensor,
    dGate: Tensor = None,
    dResetHiddenPrev: Tensor = None,
    dHidden: Tensor = None,
    **attrs: Any,
) -> Tensor:
    back = _back(HiddenPrev, Weight, Gate, dGate, dResetHiddenPrev, dHidden, GruUnit(**attrs))
    # The gates read the state before, the candidate the state after the reset gate.
    products = matmul_v2(HiddenPrev, back.gates, trans_x=True), matmul_v2(ResetHiddenPrev, back.candidate, trans_x=True)
    return reshape_like(REGISTRY["concat"]([reshape(p, shape=[-1]) for p in products], axis=0), Weight)


@operator(
    "Input HiddenPrev Weight Bias? -> Gate ResetHiddenPrev Hidden",
    infer=_gru_type,
    grad={
        "Input": _gru_grad(lambda back: back.input),
        "HiddenPrev": _gru_grad(lambda back: back.hidden),
        "Weight": _gru_weight_grad,
        "Bias": _gru_bias_grad,
    },
    shapes="Bias",
    rows="Input HiddenPrev",
)
@attributes(GruUnit)
def gru_unit(Input: Array, HiddenPrev: Array, Weight: Array, Bias: Array | None = None, **attrs: Any) -> tuple[Array, Array, Array]:
    """The next hidden state from the input's share ``[N, 3 D]`` (update gate, reset gate, candidate) and the state before.

    The update gate says how much of the candidate is taken, with ``origin_mode`` how much of the state before is kept.
    Weight ``[D, 3 D]`` holds in its memory ``[D, 2 D]`` for the gates, then ``[D, D]`` for the candidate.
    """
    cell, width = GruUnit(**attrs), HiddenPrev.shape[1]
    gates, candidate = _weights(Weight)
    gate = Input + Bias if Bias is not None else Input.copy()
    gate[:, : 2 * width] = _activated(gate[:, : 2 * width] + HiddenPrev @ gates, cell.gate_activation)
    # Views: what is computed for the candidate is written into Gate, which is an output.
    u, r, c = (gate[:, k * width : (k + 1) * width] for k in range(3))
    reset = np.asarray(r * HiddenPrev)
    c[...] = _activated(c + reset @ candidate, cell.activation)
    hidden = c + u * (HiddenPrev - c) if cell.origin_mode else HiddenPrev + u * (c - HiddenPrev)
    return gate, reset, np.asarray(hidden)
