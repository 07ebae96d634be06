"""Optimizers that give each element a rate of its own, by the squares of its gradients."""

from __future__ import annotations

from typing import Any, ClassVar

from graphad.errors import InvalidValue
from graphad.optimizer.base import Optimizer
from graphad.optimizer.checks import at_least_zero, flag, fraction, number


class Adagrad(Optimizer):
    """``m += gradient**2; w -= learning_rate * gradient / (sqrt(m) + epsilon)`` (J. Duchi, E. Hazan and Y. Singer, 2011)."""

    type = "adagrad"
    starts: ClassVar = {"Moment": "initial_accumulator_value"}

    def __init__(self, learning_rate: Any = 0.01, epsilon: float = 1e-6, initial_accumulator_value: float = 0.0, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.epsilon = at_least_zero("epsilon", epsilon)
        self.initial_accumulator_value = at_least_zero("initial_accumulator_value", initial_accumulator_value)

    def attrs(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}


class DecayedAdagrad(Optimizer):
    """Adagrad with a running mean of the squares: ``m = decay * m + (1 - decay) * gradient**2``."""

    type = "decayed_adagrad"

    def __init__(self, learning_rate: Any = 0.01, decay: float = 0.95, epsilon: float = 1e-6, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.decay = fraction("decay", decay)
        self.epsilon = at_least_zero("epsilon", epsilon)

    def attrs(self) -> dict[str, Any]:
        return {"decay": self.decay, "epsilon": self.epsilon}


class ProximalAdagrad(Optimizer):
    """Adagrad without an epsilon, then the step of ``ProximalGD`` against ``l1 * |w| + l2 / 2 * w**2``."""

    type = "proximal_adagrad"

    def __init__(self, learning_rate: Any = 0.01, l1: float = 0.0, l2: float = 0.0, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.l1 = at_least_zero("l1", l1)
        self.l2 = at_least_zero("l2", l2)

    def attrs(self) -> dict[str, Any]:
        return {"l1": self.l1, "l2": self.l2}


class Adadelta(Optimizer):
    """Steps as large as the last ones were, by running means of their squares and of the gradients' (M. D. Zeiler, 2012)."""

    type = "adadelta"

    def __init__(self, learning_rate: Any = 0.001, epsilon: float = 1e-6, rho: float = 0.95, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.epsilon = at_least_zero("epsilon", epsilon)
        self.rho = fraction("rho", rho)

    def attrs(self) -> dict[str, Any]:
        return {"rho": self.rho, "epsilon": self.epsilon}


class RMSProp(Optimizer):
    """Steps scaled by a running mean of squared gradients (T. Tieleman and G. Hinton, 2012); ``rho`` is its decay."""

    type = "rmsprop"

    def __init__(
        self,
        learning_rate: Any = 0.01,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        momentum: float = 0.0,
        centered: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.rho = fraction("rho", rho)
        self.epsilon = at_least_zero("epsilon", epsilon)
        self.momentum = number("momentum", momentum)
        self.centered = flag("centered", centered)

    def attrs(self) -> dict[str, Any]:
        return {"decay": self.rho, "epsilon": self.epsilon, "momentum": self.momentum, "centered": self.centered}


class Ftrl(Optimizer):
    """Follow the regularized leader: weights that are exactly 0 where ``l1`` is (H. B. McMahan et al., 2013).

    The operator's docstring has the formulas. A weight is found from its gradients alone, so its start counts in the steps
    only, and one that never had a gradient becomes 0.

    Args:
        lr_power: at most 0; -0.5 divides by the root of the summed squares.
    """

    type = "ftrl"

    def __init__(self, learning_rate: Any = 0.01, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.l1 = at_least_zero("l1", l1)
        self.l2 = at_least_zero("l2", l2)
        self.lr_power = number("lr_power", lr_power)
        if self.lr_power > 0:
            raise InvalidValue(f"lr_power is at most 0, not {lr_power!r}")

    def attrs(self) -> dict[str, Any]:
        return {"l1": self.l1, "l2": self.l2, "lr_power": self.lr_power}
