"""The update of each optimizer, as a formula in numpy; the program is ``Line`` of tests/optimizer/test_optimizer.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphad.optimizer import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    DecayedAdagrad,
    Ftrl,
    Lamb,
    LarsMomentum,
    Momentum,
    Optimizer,
    ProximalAdagrad,
    ProximalGD,
    RMSProp,
)
from tests.conformance.loading import Array
from tests.optimizer.test_optimizer import W0, raw_gradients

LR = 0.05
State = dict[str, Array]
Rule = Callable[[Array, Array, State, int], Array]


# -- the formulas: weights, gradient, what is kept, the step from 1 on -------------------------------


def sgd(w: Array, g: Array, kept: State, t: int) -> Array:
    return w - LR * g


def momentum(w: Array, g: Array, kept: State, t: int) -> Array:
    kept["velocity"] = 0.8 * kept.get("velocity", 0.0) + g
    return w - LR * kept["velocity"]


def nesterov(w: Array, g: Array, kept: State, t: int) -> Array:
    kept["velocity"] = 0.8 * kept.get("velocity", 0.0) + g
    return w - LR * (g + 0.8 * kept["velocity"])


def lars(w: Array, g: Array, kept: State, t: int) -> Array:
    """You, Gitman and Ginsburg's local rate, the decay in the gradient; the lengths are those of a whole parameter."""
    length, slope = np.linalg.norm(w), np.linalg.norm(g)
    # A parameter that is 0, as a bias at first, would stay 0.
    rate = LR * 0.5 * length / (slope + 0.25 * length) if length and slope else LR
    kept["velocity"] = 0.8 * kept.get("velocity", 0.0) + rate * (g + 0.25 * w)
    return np.asarray(w - kept["velocity"])


def adagrad(w: Array, g: Array, kept: State, t: int) -> Array:
    kept["moment"] = kept.get("moment", 0.25) + g * g
    return w - LR * g / (np.sqrt(kept["moment"]) + 1e-3)


def decayed_adagrad(w: Array, g: Array, kept: State, t: int) -> Array:
    kept["moment"] = 0.75 * kept.get("moment", 0.0) + 0.25 * g * g
    return w - LR * g / (np.sqrt(kept["moment"]) + 1e-3)


def proximal(w: Array, step: Array) -> Array:
    q = w - LR * step
    return np.sign(q) * np.maximum(np.abs(q) - LR * 0.5, 0.0) / (1.0 + LR * 0.25)


def proximal_gd(w: Array, g: Array, kept: State, t: int) -> Array:
    return proximal(w, g)


def proximal_adagrad(w: Array, g: Array, kept: State, t: int) -> Array:
    kept["moment"] = kept.get("moment", 0.0) + g * g
    return proximal(w, g / np.sqrt(kept["moment"]))


def adadelta(w: Array, g: Array, kept: State, t: int) -> Array:
    kept["_avg_squared_grad"] = 0.75 * kept.get("_avg_squared_grad", 0.0) + 0.25 * g * g
    before = kept.get("_avg_squared_update", np.zeros_like(w))
    step = np.sqrt((before + 1e-3) / (kept["_avg_squared_grad"] + 1e-3)) * g
    kept["_avg_squared_update"] = 0.75 * before + 0.25 * step * step
    return np.asarray(w - LR * step)


def rmsprop(w: Array, g: Array, kept: State, t: int) -> Array:
    kept["mean_square"] = 0.75 * kept.get("mean_square", 0.0) + 0.25 * g * g
    kept["momentum"] = 0.5 * kept.get("momentum", 0.0) + LR * g / np.sqrt(kept["mean_square"] + 1e-3)
    return w - kept["momentum"]


def rmsprop_centered(w: Array, g: Array, kept: State, t: int) -> Array:
    kept["mean_square"] = 0.75 * kept.get("mean_square", 0.0) + 0.25 * g * g
    kept["mean_grad"] = 0.75 * kept.get("mean_grad", 0.0) + 0.25 * g
    return np.asarray(w - LR * g / np.sqrt(kept["mean_square"] - kept["mean_grad"] ** 2 + 1e-3))


def moments(g: Array, kept: State, t: int) -> tuple[Array, Array]:
    """Kingma and Ba's corrected means, epsilon left to the caller."""
    kept["moment1"] = 0.75 * kept.get("moment1", 0.0) + 0.25 * g
    kept["moment2"] = 0.875 * kept.get("moment2", 0.0) + 0.125 * g * g
    kept["beta1_pow_acc"], kept["beta2_pow_acc"] = np.array([0.75 ** (t + 1)]), np.array([0.875 ** (t + 1)])
    return kept["moment1"] / (1 - 0.75**t), kept["moment2"] / (1 - 0.875**t)


def adam(w: Array, g: Array, kept: State, t: int) -> Array:
    m, v = moments(g, kept, t)
    return w - LR * m / (np.sqrt(v) + 1e-3)


def adamw(w: Array, g: Array, kept: State, t: int) -> Array:
    return adam(w * (1 - LR * 0.5), g, kept, t)


def adamax(w: Array, g: Array, kept: State, t: int) -> Array:
    kept["moment"] = 0.75 * kept.get("moment", 0.0) + 0.25 * g
    kept["inf_norm"] = np.maximum(np.abs(g), 0.875 * kept.get("inf_norm", np.zeros_like(g)) + 1e-3)
    kept["beta1_pow_acc"] = np.array([0.75 ** (t + 1)])
    return w - LR / (1 - 0.75**t) * kept["moment"] / kept["inf_norm"]


def lamb(w: Array, g: Array, kept: State, t: int) -> Array:
    m, v = moments(g, kept, t)
    r = m / (np.sqrt(v) + 1e-3) + 0.5 * w
    trust = np.linalg.norm(w) / np.linalg.norm(r) if np.any(w) else 1.0
    return w - LR * trust * r


def ftrl(power: float) -> Rule:
    def rule(w: Array, g: Array, kept: State, t: int) -> Array:
        old = kept.get("squared", np.zeros_like(w))
        kept["squared"] = old + g * g
        kept["linear"] = kept.get("linear", 0.0) + g - (kept["squared"] ** -power - old**-power) / LR * w
        z, l1, l2 = kept["linear"], 0.5 + 1e-10, 0.25 + 1e-10
        return np.where(np.abs(z) > l1, (l1 * np.sign(z) - z) / (kept["squared"] ** -power / LR + 2 * l2), 0.0)

    return rule


BETAS: dict[str, Any] = {"beta1": 0.75, "beta2": 0.875, "epsilon": 1e-3}
RULES: dict[str, tuple[Callable[[], Optimizer], Rule]] = {
    "sgd": (lambda: SGD(LR), sgd),
    "momentum": (lambda: Momentum(LR, momentum=0.8), momentum),
    "nesterov": (lambda: Momentum(LR, momentum=0.8, use_nesterov=True), nesterov),
    "lars": (lambda: LarsMomentum(LR, momentum=0.8, lars_coeff=0.5, lars_weight_decay=0.25), lars),
    "adagrad": (lambda: Adagrad(LR, epsilon=1e-3, initial_accumulator_value=0.25), adagrad),
    "decayed_adagrad": (lambda: DecayedAdagrad(LR, decay=0.75, epsilon=1e-3), decayed_adagrad),
    "adadelta": (lambda: Adadelta(LR, epsilon=1e-3, rho=0.75), adadelta),
    "rmsprop": (lambda: RMSProp(LR, rho=0.75, epsilon=1e-3, momentum=0.5), rmsprop),
    "rmsprop_centered": (lambda: RMSProp(LR, rho=0.75, epsilon=1e-3, centered=True), rmsprop_centered),
    "adam": (lambda: Adam(LR, **BETAS), adam),
    "adamw": (lambda: AdamW(LR, **BETAS, weight_decay=0.5), adamw),
    "adamax": (lambda: Adamax(LR, **BETAS), adamax),
    "lamb": (lambda: Lamb(LR, lamb_weight_decay=0.5, **BETAS), lamb),
    "ftrl": (lambda: Ftrl(LR, l1=0.5, l2=0.25), ftrl(-0.5)),
    "ftrl_power": (lambda: Ftrl(LR, l1=0.5, l2=0.25, lr_power=-0.75), ftrl(-0.75)),
    "proximal_gd": (lambda: ProximalGD(LR, l1=0.5, l2=0.25), proximal_gd),
    "proximal_adagrad": (lambda: ProximalAdagrad(LR, l1=0.5, l2=0.25), proximal_adagrad),
}


def by_hand(rule: Rule, steps: int) -> tuple[dict[str, Array], dict[str, State]]:
    """The line's parameters after some steps, and what the rule keeps for each."""
    values: dict[str, Array] = {"w": W0, "b": np.zeros(1)}
    kept: dict[str, State] = {"w": {}, "b": {}}
    for t in range(1, steps + 1):
        gradients = dict(zip("wb", raw_gradients(values["w"], float(values["b"][0])), strict=True))
        values = {name: rule(value, gradients[name], kept[name], t) for name, value in values.items()}
    return values, kept
