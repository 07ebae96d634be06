"""The optimizers: along the gradient, with a rate for each element, and by running means of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Unpack

from graphad.errors import InvalidType, InvalidValue
from graphad.optimizer.base import CommonOptions, LearningRate, Optimizer, Options, Pairs, at_least_zero, flag, fraction, function
from graphad.program import Operator, Parameter, Variable
from graphad.program.clipping import number

# -- descent ---------------------------------------------------------------------------------------
# Optimizers that go along the gradient, all elements at one rate.


class SGD(Optimizer):
    """``w -= learning_rate * gradient``."""

    type = "sgd"

    def __init__(self, learning_rate: LearningRate = 0.01, **options: Unpack[Options]) -> None:
        super().__init__(learning_rate, **options)


class Momentum(Optimizer):
    """``v = momentum * v + gradient; w -= learning_rate * v``, with Nesterov's look-ahead if requested."""

    type = "momentum"

    def __init__(
        self, learning_rate: LearningRate = 0.01, momentum: float = 0.9, use_nesterov: bool = False, **options: Unpack[Options]
    ) -> None:
        super().__init__(learning_rate, **options)
        self.momentum = number("momentum", momentum)
        self.use_nesterov = flag("use_nesterov", use_nesterov)

    def attrs(self) -> dict[str, object]:
        return {"mu": self.momentum, "use_nesterov": self.use_nesterov}


class LarsMomentum(Optimizer):
    """Momentum with a rate for each parameter, by its length and its gradient's (Y. You, I. Gitman and B. Ginsburg, "Large batch training
    of convolutional networks", 2017).

    ``rate = learning_rate * lars_coeff * |w| / (|gradient| + lars_weight_decay * |w|)``, then
    ``v = momentum * v + rate * (gradient + lars_weight_decay * w); w -= v``.
    """

    type = "lars_momentum"

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        momentum: float = 0.9,
        lars_coeff: float = 0.001,
        lars_weight_decay: float = 0.0005,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, **options)
        self.momentum = number("momentum", momentum)
        self.lars_coeff = at_least_zero("lars_coeff", lars_coeff)
        self.lars_weight_decay = at_least_zero("lars_weight_decay", lars_weight_decay)

    def attrs(self) -> dict[str, object]:
        return {"mu": self.momentum, "lars_coeff": self.lars_coeff, "lars_weight_decay": self.lars_weight_decay}


class _Penalized(Optimizer):
    """Base of those with the penalties ``l1 * |w|`` and ``l2 / 2 * w**2``."""

    def __init__(self, learning_rate: LearningRate = 0.01, l1: float = 0.0, l2: float = 0.0, **options: Unpack[Options]) -> None:
        super().__init__(learning_rate, **options)
        self.l1 = at_least_zero("l1", l1)
        self.l2 = at_least_zero("l2", l2)

    def attrs(self) -> dict[str, object]:
        return {"l1": self.l1, "l2": self.l2}


class ProximalGD(_Penalized):
    """Gradient descent, then a step against the penalty ``l1 * |w| + l2 / 2 * w**2``, which makes small elements 0.

    J. Duchi and Y. Singer, "Efficient online and batch learning using forward backward splitting", 2009.
    """

    type = "proximal_gd"


def optimize(cost: Variable, optimizer: Optimizer | None = None) -> tuple[list[Operator], Pairs]:
    """Append the backward and the optimization part for a cost; SGD with a learning rate of 0.01 if no optimizer is given."""
    if not isinstance(optimizer, Optimizer | None):
        raise InvalidType(f"optimizer is an Optimizer, not {optimizer!r}")
    return (SGD() if optimizer is None else optimizer).minimize(cost)


# -- adaptive --------------------------------------------------------------------------------------
# Optimizers that give each element a rate of its own, by the squares of its gradients.


class Adagrad(Optimizer):
    """``m += gradient**2; w -= learning_rate * gradient / (sqrt(m) + epsilon)`` (J. Duchi, E. Hazan and Y. Singer, 2011)."""

    type = "adagrad"
    # The accumulator starts from an argument, as in Paddle; by default from 0.
    starts: ClassVar = {"Moment": "initial_accumulator_value"}

    def __init__(
        self, learning_rate: LearningRate = 0.01, epsilon: float = 1e-6, initial_accumulator_value: float = 0.0, **options: Unpack[Options]
    ) -> None:
        super().__init__(learning_rate, **options)
        self.epsilon = at_least_zero("epsilon", epsilon)
        self.initial_accumulator_value = at_least_zero("initial_accumulator_value", initial_accumulator_value)

    def attrs(self) -> dict[str, object]:
        return {"epsilon": self.epsilon}


class DecayedAdagrad(Optimizer):
    """Adagrad with a running mean of the squares: ``m = decay * m + (1 - decay) * gradient**2``."""

    type = "decayed_adagrad"

    def __init__(self, learning_rate: LearningRate = 0.01, decay: float = 0.95, epsilon: float = 1e-6, **options: Unpack[Options]) -> None:
        super().__init__(learning_rate, **options)
        self.decay = fraction("decay", decay)
        self.epsilon = at_least_zero("epsilon", epsilon)

    def attrs(self) -> dict[str, object]:
        return {"decay": self.decay, "epsilon": self.epsilon}


class ProximalAdagrad(_Penalized):
    """Adagrad without an epsilon, then the step of ``ProximalGD`` against ``l1 * |w| + l2 / 2 * w**2``."""

    type = "proximal_adagrad"


class Adadelta(Optimizer):
    """Steps as large as the last ones were, by running means of their squares and of the gradients' (M. D. Zeiler, 2012)."""

    type = "adadelta"

    def __init__(self, learning_rate: LearningRate = 0.001, epsilon: float = 1e-6, rho: float = 0.95, **options: Unpack[Options]) -> None:
        super().__init__(learning_rate, **options)
        self.epsilon = at_least_zero("epsilon", epsilon)
        self.rho = fraction("rho", rho)

    def attrs(self) -> dict[str, object]:
        return {"rho": self.rho, "epsilon": self.epsilon}


class RMSProp(Optimizer):
    """Steps scaled by a running mean of squared gradients (T. Tieleman and G. Hinton, 2012); ``rho`` is its decay."""

    type = "rmsprop"

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        momentum: float = 0.0,
        centered: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, **options)
        self.rho = fraction("rho", rho)
        self.epsilon = at_least_zero("epsilon", epsilon)
        self.momentum = number("momentum", momentum)
        self.centered = flag("centered", centered)

    def attrs(self) -> dict[str, object]:
        return {"decay": self.rho, "epsilon": self.epsilon, "momentum": self.momentum, "centered": self.centered}


class Ftrl(_Penalized):
    """Follow the regularized leader: weights that are exactly 0 where ``l1`` is (H. B. McMahan et al., 2013).

    The operator's docstring has the formulas. A weight is found from its gradients alone, so its start counts in the steps
    only, and one that never had a gradient becomes 0.

    Args:
        lr_power: at most 0; -0.5 divides by the root of the summed squares.
    """

    type = "ftrl"

    def __init__(
        self, learning_rate: LearningRate = 0.01, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5, **options: Unpack[Options]
    ) -> None:
        super().__init__(learning_rate, l1, l2, **options)
        self.lr_power = number("lr_power", lr_power)
        if self.lr_power > 0:
            raise InvalidValue(f"lr_power is at most 0, not {lr_power!r}")

    def attrs(self) -> dict[str, object]:
        return {**super().attrs(), "lr_power": self.lr_power}


# -- moments ---------------------------------------------------------------------------------------
# Adam and its relatives: steps made of running means of the gradient and of its square.


class _WithMoments(Optimizer):
    """Base of those with two decays and an epsilon."""

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, **options)
        self.beta1 = fraction("beta1", beta1)
        self.beta2 = fraction("beta2", beta2)
        self.epsilon = at_least_zero("epsilon", epsilon)

    def attrs(self) -> dict[str, object]:
        return {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}


class Adam(_WithMoments):
    """Steps scaled by running moments of the gradient (D. P. Kingma and J. Ba, 2015).

    ``lazy_mode`` is a hint of Fluid's for sparse gradients, which are dense here, and has no effect.
    """

    type = "adam"
    # The powers start as beta^1: the operator reads them before it multiplies them.
    starts: ClassVar = {"Beta1Pow": "beta1", "Beta2Pow": "beta2"}

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        *,
        lazy_mode: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **options)
        # Checked, so that a mistaken argument in this place is not lost.
        flag("lazy_mode", lazy_mode)


class Adamax(_WithMoments):
    """Adam with the largest gradient so far, which is forgotten by ``beta2``, for the root of the mean square (Kingma and Ba, 2015)."""

    type = "adamax"
    starts: ClassVar = {"Beta1Pow": "beta1"}


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
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        lr_ratio: Callable[[Parameter], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        **options: Unpack[CommonOptions],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **options)
        self.weight_decay = number("weight_decay", weight_decay)
        self.lr_ratio = function("lr_ratio", lr_ratio)
        self.apply_decay_param_fun = function("apply_decay_param_fun", apply_decay_param_fun)

    def attrs(self) -> dict[str, object]:
        return {**super().attrs(), "coeff": self.weight_decay, "with_decay": True}

    def own_attrs(self, param: Parameter) -> dict[str, object]:
        # What differs from parameter to parameter; the rest is the same attribute of every update.
        attrs: dict[str, object] = {}
        if self.apply_decay_param_fun is not None and not self.apply_decay_param_fun(param.name):
            attrs["with_decay"] = False
        if self.lr_ratio is not None:
            attrs["lr_ratio"] = number(f"lr_ratio of {param.name!r}", self.lr_ratio(param))
        return attrs


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
        learning_rate: LearningRate = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay_fn: Callable[[Parameter], bool] | None = None,
        always_adapt: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, **options)
        self.lamb_weight_decay = at_least_zero("lamb_weight_decay", lamb_weight_decay)
        self.exclude_from_weight_decay_fn = function("exclude_from_weight_decay_fn", exclude_from_weight_decay_fn)
        self.always_adapt = flag("always_adapt", always_adapt)

    def attrs(self) -> dict[str, object]:
        return {**super().attrs(), "weight_decay": self.lamb_weight_decay, "always_adapt": self.always_adapt}

    def own_attrs(self, param: Parameter) -> dict[str, object]:
        is_excluded = self.exclude_from_weight_decay_fn is not None and self.exclude_from_weight_decay_fn(param)
        return {"weight_decay": 0.0} if is_excluded else {}
