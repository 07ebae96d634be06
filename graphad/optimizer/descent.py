"""Optimizers that go along the gradient, all elements at one rate."""

from __future__ import annotations

from typing import Any

from graphad.errors import InvalidType
from graphad.optimizer.base import Optimizer, Pairs
from graphad.optimizer.checks import at_least_zero, flag, number
from graphad.program import Operator, Variable


class SGD(Optimizer):
    """``w -= learning_rate * gradient``."""

    type = "sgd"

    def __init__(self, learning_rate: Any = 0.01, **options: Any) -> None:
        super().__init__(learning_rate, **options)


class Momentum(Optimizer):
    """``v = momentum * v + gradient; w -= learning_rate * v``, with Nesterov's look-ahead if requested."""

    type = "momentum"

    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.9, use_nesterov: bool = False, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.momentum = number("momentum", momentum)
        self.use_nesterov = flag("use_nesterov", use_nesterov)

    def attrs(self) -> dict[str, Any]:
        return {"mu": self.momentum, "use_nesterov": self.use_nesterov}


class ProximalGD(Optimizer):
    """Gradient descent, then a step against the penalty ``l1 * |w| + l2 / 2 * w**2``, which makes small elements 0.

    J. Duchi and Y. Singer, "Efficient online and batch learning using forward backward splitting", 2009.
    """

    type = "proximal_gd"

    def __init__(self, learning_rate: Any = 0.01, l1: float = 0.0, l2: float = 0.0, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.l1 = at_least_zero("l1", l1)
        self.l2 = at_least_zero("l2", l2)

    def attrs(self) -> dict[str, Any]:
        return {"l1": self.l1, "l2": self.l2}


def optimize(cost: Variable, optimizer: Optimizer | None = None) -> tuple[list[Operator], Pairs]:
    """Append the backward and the optimization part for a cost; SGD with a learning rate of 0.01 if no optimizer is given."""
    if not isinstance(optimizer, Optimizer | None):
        raise InvalidType(f"optimizer is an Optimizer, not {optimizer!r}")
    return (SGD() if optimizer is None else optimizer).minimize(cost)
