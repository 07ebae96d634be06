"""Updates of a parameter that shrink it as well: by a weight decay beside the gradient, or by a penalty on its size.

In the formulas p is Param, g Grad and lr LearningRate. Differentiating through an update is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.ops.definition import Array
from graphad.ops.optimize import adam, number, update
from graphad.ops.summation import power_norm

_TINY = 1e-10


@update("Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow", "Param Moment1 Moment2 Beta1Pow? Beta2Pow?")
def adamw(
    Param: Array,
    Grad: Array,
    LearningRate: Array,
    Moment1: Array,
    Moment2: Array,
    Beta1Pow: Array,
    Beta2Pow: Array,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    lr_ratio: float = 1.0,
    coeff: float = 0.01,
    with_decay: bool = False,
    lazy_mode: bool = False,
    min_row_size_to_use_multithread: int = 1000,
    multi_precision: bool = False,
    use_global_beta_pow: bool = False,
) -> Any:
    """Adam on ``p (1 - lr coeff)`` (Loshchilov and Hutter, 2019), with ``lr_ratio lr`` for lr; Adam alone unless ``with_decay``."""
    rate = number(LearningRate, Param) * lr_ratio
    decayed = Param * (1 - rate * coeff) if with_decay else Param
    options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "use_global_beta_pow": use_global_beta_pow}
    return adam.kernel(decayed, Grad, np.asarray(rate), Moment1, Moment2, Beta1Pow, Beta2Pow, **options)


@update("Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow", "Param Moment1 Moment2 Beta1Pow? Beta2Pow?")
def lamb(
    Param: Array,
    Grad: Array,
    LearningRate: Array,
    Moment1: Array,
    Moment2: Array,
    Beta1Pow: Array,
    Beta2Pow: Array,
    *,
    weight_decay: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    always_adapt: bool = False,
    multi_precision: bool = False,
) -> Any:
    """``p - lr |p| / |r| r``, r being Adam's step without lr plus ``weight_decay p`` (You et al., 2020).

    ``|p| / |r|`` is 1 where one of the norms is 0, and without a weight decay, unless ``always_adapt``.
    """
    m1 = beta1 * Moment1 + (1 - beta1) * Grad
    m2 = beta2 * Moment2 + (1 - beta2) * np.square(Grad)
    unbiased1, unbiased2 = m1 / (1 - number(Beta1Pow, Param)), m2 / (1 - number(Beta2Pow, Param))
    step = unbiased1 / (np.sqrt(unbiased2) + epsilon) + weight_decay * Param
    rate = number(LearningRate, Param)
    if weight_decay > 0 or always_adapt:
        rate = rate * _trust(Param, step)
    return Param - rate * step, m1, m2, beta1 * Beta1Pow, beta2 * Beta2Pow


def _trust(param: Array, step: Array) -> Any:
    lengths = [power_norm(each, tuple(range(each.ndim))) for each in (param, step)]
    return lengths[0] / lengths[1] if all(lengths) else param.dtype.type(1)


@update("Param SquaredAccumulator LinearAccumulator Grad LearningRate", "Param SquaredAccum LinearAccum")
def ftrl(
    Param: Array,
    SquaredAccumulator: Array,
    LinearAccumulator: Array,
    Grad: Array,
    LearningRate: Array,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    lr_power: float = -0.5,
) -> Any:
    """Follow the regularized leader (McMahan et al., 2013), as ``n = s + g^2``, ``z = l + g - (n^-lr_power - s^-lr_power) / lr p``.

    The parameter is ``(l1 sign(z) - z) / (n^-lr_power / lr + 2 l2)`` where ``|z| > l1``, else 0. To l1 and l2 1e-10 is added.
    """
    rate, l1, l2 = number(LearningRate, Param), l1 + _TINY, l2 + _TINY
    squared = SquaredAccumulator + np.square(Grad)
    new, old = _power(squared, -lr_power), _power(SquaredAccumulator, -lr_power)
    linear = LinearAccumulator + Grad - (new - old) / rate * Param
    solution = (l1 * np.sign(linear) - linear) / (new / rate + 2 * l2)
    return np.where(np.abs(linear) > l1, solution, Param.dtype.type(0)), squared, linear


def _power(x: Array, exponent: float) -> Any:
    return np.sqrt(x) if exponent == 0.5 else np.power(x, exponent)


@update("Param Grad LearningRate", "Param")
def proximal_gd(Param: Array, Grad: Array, LearningRate: Array, *, l1: float = 0.0, l2: float = 0.0) -> Any:
    """Gradient descent under a penalty (Duchi and Singer, 2009): ``q = p - lr g``, ``sign(q) max(|q| - lr l1, 0) / (1 + lr l2)``."""
    rate = number(LearningRate, Param)
    return _shrunk(Param - rate * Grad, rate, l1, l2)


@update("Param Moment Grad LearningRate", "Param Moment")
def proximal_adagrad(Param: Array, Moment: Array, Grad: Array, LearningRate: Array, *, l1: float = 0.0, l2: float = 0.0) -> Any:
    """``m = m + g^2``, then ``proximal_gd`` with the step ``lr g / sqrt(m)``, which is 0 where m is."""
    rate = number(LearningRate, Param)
    m = Moment + np.square(Grad)
    step = np.divide(Grad, np.sqrt(m), out=np.zeros_like(Param), where=m > 0)
    return _shrunk(Param - rate * step, rate, l1, l2), m


def _shrunk(q: Array, rate: Any, l1: float, l2: float) -> Any:
    return np.sign(q) * np.maximum(np.abs(q) - rate * l1, 0) / (1 + rate * l2)
