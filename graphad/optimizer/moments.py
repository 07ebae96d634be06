"""Adam and its relatives: steps made of running means of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from graphad.optimizer.base import Optimizer
from graphad.optimizer.checks import at_least_zero, flag, fraction, function, number
from graphad.program import Parameter


class _WithMoments(Optimizer):
    """Base of those with two decays and an epsilon."""

    def __init__(self, learning_rate: Any, beta1: float, beta2: float, epsilon: float, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.beta1 = fraction("beta1", beta1)
        self.beta2 = fraction("beta2", beta2)
        self.epsilon = at_least_zero("epsilon", epsilon)

    def attrs(self) -> dict[str, Any]:
        return {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}


class Adam(_WithMoments):
    """Steps scaled by running moments of the gradient (D. P. Kingma and J. Ba, 2015)."""

    type = "adam"
    starts: ClassVar = {"Beta1Pow": "beta1", "Beta2Pow": "beta2"}

    def __init__(self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **options: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **options)


class Adamax(_WithMoments):
    """Adam with the largest gradient so far, which is forgotten by ``beta2``, for the root of the mean square (Kingma and Ba, 2015)."""

    type = "adamax"
    starts: ClassVar = {"Beta1Pow": "beta1"}

    def __init__(self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **options: Any) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **options)


class AdamW(_WithMoments):
    """Adam with a weight decay beside the gradient, not in it (I. Loshchilov and F. Hutter, 2019).

    Before Adam's step a weight is multiplied by ``1 - learning_rate * lr_ratio * weight_decay``.

    Args:
        weight_decay: the coefficient.
        lr_ratio: a function from a Parameter to a factor on the learning rate of its decay, as in Paddle's kernel for the CPU;
            Adam's step is taken with the whole rate.
        apply_decay_param_fun: a function from a parameter's name to whether it decays; all do if None.
    """

    type = "adamw"
    starts: ClassVar = {"Beta1Pow": "beta1", "Beta2Pow": "beta2"}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        lr_ratio: Callable[[Parameter], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **options)
        self.weight_decay = number("weight_decay", weight_decay)
        self.lr_ratio = function("lr_ratio", lr_ratio)
        self.apply_decay_param_fun = function("apply_decay_param_fun", apply_decay_param_fun)

    def attrs(self) -> dict[str, Any]:
        return {**super().attrs(), "coeff": self.weight_decay, "with_decay": True}

    def own_attrs(self, param: Parameter) -> dict[str, Any]:
        own: dict[str, Any] = {}
        if self.apply_decay_param_fun is not None and not self.apply_decay_param_fun(param.name):
            own["with_decay"] = False
        if self.lr_ratio is not None:
            own["lr_ratio"] = number(f"lr_ratio of {param.name!r}", self.lr_ratio(param))
        return own


class Lamb(_WithMoments):
    """Adam's step and a weight decay, as long as the parameter is, for large batches (Y. You et al., 2020).

    The length is adapted where there is a weight decay, everywhere with ``always_adapt``.

    Args:
        lamb_weight_decay: its coefficient.
        exclude_from_weight_decay_fn: a function from a Parameter to whether it does not decay.
    """

    type = "lamb"
    starts: ClassVar = {"Beta1Pow": "beta1", "Beta2Pow": "beta2"}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay_fn: Callable[[Parameter], bool] | None = None,
        always_adapt: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **options)
        self.lamb_weight_decay = at_least_zero("lamb_weight_decay", lamb_weight_decay)
        self.exclude_from_weight_decay_fn = function("exclude_from_weight_decay_fn", exclude_from_weight_decay_fn)
        self.always_adapt = flag("always_adapt", always_adapt)

    def attrs(self) -> dict[str, Any]:
        return {**super().attrs(), "weight_decay": self.lamb_weight_decay, "always_adapt": self.always_adapt}

    def own_attrs(self, param: Parameter) -> dict[str, Any]:
        excluded = self.exclude_from_weight_decay_fn is not None and self.exclude_from_weight_decay_fn(param)
        return {"weight_decay": 0.0} if excluded else {}
