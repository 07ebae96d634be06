"""Scaling of the loss where gradients are computed in a narrow type: whether a gradient overflowed, and the next scale.

    gradients * s ─▶ check_finite_and_unscale ─▶ gradients, found ─▶ update_loss_scaling ─▶ gradients or zeros, the next s

Where one element of one gradient is infinite or nan, all gradients of the step become zero, and optimizers that read ``found`` as their
``SkipUpdate`` leave the parameter and its state as they are (P. Micikevicius et al., "Mixed precision training", 2018, section 3.2).
Slots, attributes and rules are Paddle's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import operator
from graphad.ops.inference import matched
from graphad.types import FLOATS, Array, TensorType, element_count

_FOUND = TensorType((1,), "bool")


def one_boolean(name: str, type_: TensorType) -> None:
    """ShapeError unless it is one boolean."""
    if type_.dtype != "bool" or not matched(element_count(type_.shape), 1):
        raise ShapeError(f"{name} is {type_}; one boolean is expected")


def _one_number(name: str, type_: TensorType, dtypes: Sequence[str], kind: str) -> None:
    if type_.dtype not in dtypes or not matched(element_count(type_.shape), 1):
        raise ShapeError(f"{name} is {type_}; one {kind} is expected")


def _gradients(X: Sequence[TensorType]) -> list[TensorType]:
    for number, type_ in enumerate(X):
        if type_.dtype not in FLOATS:
            raise ShapeError(f"X[{number}] is {type_}; a floating-point dtype is expected")
    return list(X)


def _checked_types(X: Sequence[TensorType], Scale: TensorType) -> tuple[list[TensorType], TensorType]:
    _one_number("Scale", Scale, FLOATS, "floating-point number")
    return _gradients(X), _FOUND


@operator("X* Scale -> Out* FoundInfinite", infer=_checked_types, grad=None, own=True, flops=2)
def check_finite_and_unscale(X: Sequence[Array], Scale: Array) -> tuple[list[Array], Array]:
    """Each X times ``1 / Scale``, and whether an element of one of them is infinite or nan then: one boolean, ``[1]``."""
    # One division and then products: Paddle multiplies by the inverse too.
    inverse = 1 / Scale.reshape(())
    unscaled = [x * inverse.astype(x.dtype) for x in X]
    is_infinite = np.zeros((1,), "bool")
    for x in unscaled:
        is_infinite = is_infinite | np.logical_not(np.isfinite(x).all())
    return unscaled, is_infinite


def _updated_types(
    X: Sequence[TensorType],
    FoundInfinite: TensorType,
    PrevLossScaling: TensorType,
    InGoodSteps: TensorType,
    InBadSteps: TensorType,
    *,
    incr_every_n_steps: int,
    decr_every_n_nan_or_inf: int,
    incr_ratio: float,
    decr_ratio: float,
    stop_update: bool = False,
) -> tuple[list[TensorType], TensorType, TensorType, TensorType]:
    one_boolean("FoundInfinite", FoundInfinite)
    _one_number("PrevLossScaling", PrevLossScaling, FLOATS, "floating-point number")
    for name, type_ in (("InGoodSteps", InGoodSteps), ("InBadSteps", InBadSteps)):
        _one_number(name, type_, ("int32",), "int32")
    check_growth(incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio)
    return _gradients(X), PrevLossScaling, InGoodSteps, InBadSteps


def check_growth(incr_every_n_steps: int, decr_every_n_nan_or_inf: int, incr_ratio: float, decr_ratio: float) -> None:
    """ValueError unless the scale rises and falls where it should."""
    for name, steps in (("incr_every_n_steps", incr_every_n_steps), ("decr_every_n_nan_or_inf", decr_every_n_nan_or_inf)):
        if steps < 1:
            raise InvalidValue(f"{name} is a number of steps from 1 on, not {steps}")
    if not incr_ratio > 1.0:
        raise InvalidValue(f"incr_ratio is above 1, not {incr_ratio}")
    if not 0.0 < decr_ratio < 1.0:
        raise InvalidValue(f"decr_ratio is between 0 and 1, not {decr_ratio}")


@operator(
    "X* FoundInfinite PrevLossScaling InGoodSteps InBadSteps -> Out* LossScaling OutGoodSteps OutBadSteps",
    infer=_updated_types,
    grad=None,
    own=True,
    flops=1,
)
def update_loss_scaling(
    X: Sequence[Array],
    FoundInfinite: Array,
    PrevLossScaling: Array,
    InGoodSteps: Array,
    InBadSteps: Array,
    *,
    incr_every_n_steps: int,
    decr_every_n_nan_or_inf: int,
    incr_ratio: float,
    decr_ratio: float,
    stop_update: bool = False,
) -> tuple[list[Array], Array, Array, Array]:
    """Each X, or zeros where ``FoundInfinite``; and the scale of the loss for the next step.

    After ``incr_every_n_steps`` steps in sequence without overflow the scale is multiplied by ``incr_ratio``, unless that would be
    infinite; after ``decr_every_n_nan_or_inf`` with overflow by ``decr_ratio``, but it does not fall below 1. Either begins to count again.
    ``stop_update`` leaves the scale and both counts as they are.
    """
    is_infinite = FoundInfinite.reshape(())
    gradients = [np.where(is_infinite, x.dtype.type(0), x) for x in X]
    if stop_update:
        return gradients, PrevLossScaling.copy(), InGoodSteps.copy(), InBadSteps.copy()
    unit = InGoodSteps.dtype.type(1)
    # In a row: one overflow sets the good steps back to 0, one good step the bad ones.
    good, bad = np.where(is_infinite, 0 * unit, InGoodSteps + unit), np.where(is_infinite, InBadSteps + unit, 0 * unit)
    is_up, is_down = (good == incr_every_n_steps).reshape(()), (bad == decr_every_n_nan_or_inf).reshape(())
    number = PrevLossScaling.dtype.type
    with np.errstate(over="ignore"):
        larger = PrevLossScaling * number(incr_ratio)
    # The scale never falls below 1, and keeps what it is where it would overflow.
    smaller = np.maximum(PrevLossScaling * number(decr_ratio), number(1))
    scale = np.where(is_up & np.isfinite(larger), larger, np.where(is_down, smaller, PrevLossScaling))
    return gradients, scale, np.where(is_up, 0 * unit, good), np.where(is_down, 0 * unit, bad)
