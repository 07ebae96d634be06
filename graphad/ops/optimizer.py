"""Updates of a parameter by its gradient, with weight decay or without, and clipping of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Unpack

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.casting import as_mask
from graphad.ops.definition import OpDef, operator
from graphad.ops.dimensions import uncut
from graphad.ops.elementwise import elementwise_max
from graphad.ops.formulas import as_array
from graphad.ops.inference import matched, same_float
from graphad.ops.like import fill_any_like
from graphad.ops.loss_scaling import one_boolean
from graphad.ops.reduction import frobenius_norm, reduce_sum
from graphad.ops.summation import power_norm
from graphad.ops.traits import Declared, read
from graphad.types import Array, Function, Tensor, TensorType, element_count

# -- optimize --------------------------------------------------------------------------------------
# Updates of a parameter by its gradient, and clipping of gradients. A program writes the outputs back to the inputs' names.
#
# In the formulas p is Param, g Grad and lr LearningRate. Differentiating through an update is an error. Every update has SkipUpdate as its
# last input, which of Paddle's only adam, adamw and lamb have: the others move on without a gradient there (velocities, decays).

SKIP = "SkipUpdate"
SCALARS = ("LearningRate", "Beta1Pow", "Beta2Pow")
MOMENTS = "Moment1:moment1 Moment2:moment2 Beta1Pow:beta1_pow_acc Beta2Pow:beta2_pow_acc"


def update(inputs: str, outputs: str, **traits: Unpack[Declared]) -> Callable[[Function], OpDef]:
    """An operator whose outputs ``<name>Out`` are new values of the inputs called ``<name>``, or are like Param.

    ``state`` says what it keeps (``Traits.state``): it is what makes it an optimizer that ``optimize-parameters`` knows. Where its last
    input, ``SkipUpdate``, is true, the outputs are the inputs.
    """
    all_traits: Declared = {**traits, "state": traits.get("state", "")}
    names, new_names = inputs.replace("?", "").split(), outputs.replace("?", "").split()
    signature = f"{inputs} {SKIP}? -> " + " ".join(f"{o}Out" if o[-1] != "?" else f"{o[:-1]}Out?" for o in outputs.split())

    slots = {state.output: state.slot for state in read(all_traits)["state"]}
    # Where an update is skipped, each output is the input that it is the new value of.
    old_slots = [slots.get(f"{name}Out", name) for name in new_names]

    def infer(*types: TensorType | None, **_: object) -> TensorType | tuple[TensorType, ...]:
        *operand_types, skip = types
        if skip is not None:
            one_boolean(SKIP, skip)
        types_by_slot = {name: type_ for name, type_ in zip(names, operand_types, strict=True) if type_ is not None}
        _check_state(types_by_slot)
        new = tuple(types_by_slot.get(name, types_by_slot["Param"]) for name in new_names)
        return new if len(new) > 1 else new[0]

    def add(formula: Callable[..., object]) -> OpDef:
        @wraps(formula)
        def kernel(*arrays: Array | None, **attrs: object) -> Array | tuple[Array, ...]:
            new = formula(*arrays[: len(names)], **attrs)
            if len(arrays) > len(names) and arrays[-1] is not None:
                old = dict(zip(names, arrays, strict=False))
                new = _skipped(arrays[-1], [old[slot] for slot in old_slots], new)
            return tuple(map(as_array, new)) if isinstance(new, tuple) else as_array(new)

        return operator(signature, infer=infer, grad=None, **all_traits)(kernel)

    return add


def _skipped(skip: Array, old: Sequence[Array | None], new: Tensor) -> Tensor:
    """The old values where the step is skipped; of what is not kept yet the new one."""
    is_skipped = skip.reshape(())
    values = [n if o is None else np.where(is_skipped, o, n) for o, n in zip(old, new if isinstance(new, tuple) else (new,), strict=True)]
    return tuple(values) if isinstance(new, tuple) else values[0]


def _check_state(types_by_slot: dict[str, TensorType]) -> None:
    """ShapeError unless everything fits Param: one number, or one for each of its elements."""
    param = same_float(types_by_slot["Param"])
    for name, type_ in types_by_slot.items():
        if name in SCALARS:
            if not matched(element_count(type_.shape), 1):
                raise ShapeError(f"{name} is {type_}; one number is expected")
        elif type_.dtype != param.dtype or len(type_.shape) != len(param.shape) or not all(map(matched, type_.shape, param.shape)):
            raise ShapeError(f"Param is {param} but {name} is {type_}: they are of one type")


def number(tensor: Array, like: Array) -> float:
    """The one element of a tensor, in the parameter's dtype."""
    element: float = tensor.reshape(-1)[0].astype(like.dtype, copy=False)
    return element


@update("Param Grad LearningRate", "Param", own=True, flops=2)
def sgd(Param: Array, Grad: Array, LearningRate: Array) -> Array:
    """``p - lr g``."""
    return Param - number(LearningRate, Param) * Grad


@update("Param Grad Velocity LearningRate", "Param Velocity", state="Velocity:velocity", flops=5)
def momentum(
    Param: Array,
    Grad: Array,
    Velocity: Array,
    LearningRate: Array,
    *,
    mu: float,
    use_nesterov: bool = False,
    regularization_method: str = "",
    regularization_coeff: float = 0.0,
    rescale_grad: float = 1.0,
    multi_precision: bool = False,
) -> tuple[Array, ...]:
    """``v = mu v + g``, ``p - lr v``; with Nesterov's step ``p - lr (g + mu v)``. "l2_decay" adds ``coeff p`` to g."""
    # Without rescaling the gradient is taken as it is, to the last bit.
    lr, g = number(LearningRate, Param), Grad if rescale_grad == 1.0 else Grad * rescale_grad
    if regularization_method == "l2_decay":
        g = g + regularization_coeff * Param
    # Paddle's form: the learning rate is outside of the velocity, so that a change of it acts at once.
    velocity = mu * Velocity + g
    return Param - lr * (g + mu * velocity if use_nesterov else velocity), velocity


@update("Param Grad Velocity LearningRate", "Param Velocity", state="Velocity:velocity", dimensions=uncut, flops=9)
def lars_momentum(
    Param: Array,
    Grad: Array,
    Velocity: Array,
    LearningRate: Array,
    *,
    mu: float,
    lars_coeff: float = 0.001,
    lars_weight_decay: float = 0.0005,
    epsilon: float = 0.0,
) -> tuple[Array, ...]:
    """``v = mu v + r (g + decay p)``, ``p - v``, with the rate ``r = lr coeff |p| / (|g| + decay |p| + epsilon)`` (Y. You et al., 2017).

    As in Paddle the rate is lr where the decay or a length is 0.
    """
    lr, length, slope = number(LearningRate, Param), np.sqrt(np.square(Param).sum()), np.sqrt(np.square(Grad).sum())
    ratio = lars_coeff * length / (slope + lars_weight_decay * length + epsilon)
    is_scaled = (lars_weight_decay > 0) & (length > 0) & (slope > 0)
    rate = np.where(is_scaled, lr * ratio, lr).astype(Param.dtype)
    velocity = mu * Velocity + rate * (Grad + lars_weight_decay * Param)
    return Param - velocity, velocity


def _running_mean(mean: Array, value: Array, decay: float) -> Array:
    """An exponential moving average, one step on."""
    return decay * mean + (1 - decay) * value


@update("Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow", "Param Moment1 Moment2 Beta1Pow? Beta2Pow?", state=MOMENTS, flops=12)
def adam(
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
    lazy_mode: bool = False,
    min_row_size_to_use_multithread: int = 1000,
    multi_precision: bool = False,
    use_global_beta_pow: bool = False,
) -> tuple[Array, ...]:
    """Adam (Kingma and Ba, 2015): the powers are ``beta^t``, and epsilon is scaled by ``sqrt(1 - beta2^t)``.

    ``use_global_beta_pow`` leaves the powers for another operator to advance.
    """
    power1, power2 = number(Beta1Pow, Param), number(Beta2Pow, Param)
    # The paper's ``m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)`` in Paddle's form: with both corrections moved to the
    # step and to epsilon.
    correction = np.sqrt(1 - power2)
    m1 = _running_mean(Moment1, Grad, beta1)
    m2 = _running_mean(Moment2, np.square(Grad), beta2)
    step = number(LearningRate, Param) * correction / (1 - power1) * m1 / (np.sqrt(m2) + epsilon * correction)
    if use_global_beta_pow:
        return Param - step, m1, m2, Beta1Pow, Beta2Pow
    return Param - step, m1, m2, beta1 * Beta1Pow, beta2 * Beta2Pow


@update(
    "Param Grad LearningRate Moment InfNorm Beta1Pow",
    "Param Moment InfNorm",
    state="Moment:moment InfNorm:inf_norm Beta1Pow:beta1_pow_acc:*beta1",
    flops=10,
)
def adamax(
    Param: Array,
    Grad: Array,
    LearningRate: Array,
    Moment: Array,
    InfNorm: Array,
    Beta1Pow: Array,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> tuple[Array, ...]:
    """Adam by the largest gradient (Kingma and Ba, 2015): ``p - lr / (1 - beta1^t) m / u``, ``u = max(|g|, beta2 u + epsilon)``."""
    m = _running_mean(Moment, Grad, beta1)
    largest = np.maximum(np.abs(Grad), beta2 * InfNorm + epsilon)
    # An operator after it advances Beta1Pow, as in Paddle's programs.
    return Param - number(LearningRate, Param) / (1 - number(Beta1Pow, Param)) * m / largest, m, largest


@update("Param Grad Moment LearningRate", "Param Moment", state="Moment:moment", flops=6)
def adagrad(Param: Array, Grad: Array, Moment: Array, LearningRate: Array, *, epsilon: float = 1e-6) -> tuple[Array, ...]:
    """``m = m + g^2``, ``p - lr g / (sqrt(m) + epsilon)`` (Duchi, Hazan and Singer, 2011)."""
    m = Moment + np.square(Grad)
    return Param - number(LearningRate, Param) * Grad / (np.sqrt(m) + epsilon), m


@update("Param Grad Moment LearningRate", "Param Moment", state="Moment:moment")
def decayed_adagrad(
    Param: Array, Grad: Array, Moment: Array, LearningRate: Array, *, decay: float = 0.95, epsilon: float = 1e-6
) -> tuple[Array, ...]:
    """Adagrad that forgets: ``m = decay m + (1 - decay) g^2``, ``p - lr g / (sqrt(m) + epsilon)``."""
    m = _running_mean(Moment, np.square(Grad), decay)
    return Param - number(LearningRate, Param) * Grad / (np.sqrt(m) + epsilon), m


@update(
    "Param Grad AvgSquaredGrad AvgSquaredUpdate LearningRate?",
    "Param AvgSquaredGrad AvgSquaredUpdate",
    state="AvgSquaredGrad:_avg_squared_grad AvgSquaredUpdate:_avg_squared_update",
    flops=11,
)
def adadelta(
    Param: Array,
    Grad: Array,
    AvgSquaredGrad: Array,
    AvgSquaredUpdate: Array,
    LearningRate: Array | None = None,
    *,
    rho: float = 0.95,
    epsilon: float = 1e-6,
) -> tuple[Array, ...]:
    """Steps as large as the last ones were (Zeiler, 2012), times lr if it is there."""
    squared_grad = _running_mean(AvgSquaredGrad, np.square(Grad), rho)
    # The ratio of two root mean squares: of the last steps and of the gradients. Both start from epsilon, without which
    # no step would ever be made.
    step = -np.sqrt((AvgSquaredUpdate + epsilon) / (squared_grad + epsilon)) * Grad
    squared_update = _running_mean(AvgSquaredUpdate, np.square(step), rho)
    return Param + (step if LearningRate is None else number(LearningRate, Param) * step), squared_grad, squared_update


@update(
    "Param MeanSquare MeanGrad? Grad Moment LearningRate",
    "Param Moment MeanSquare MeanGrad?",
    state="MeanSquare:mean_square MeanGrad:mean_grad Moment:momentum",
    flops=9,
)
def rmsprop(
    Param: Array,
    MeanSquare: Array,
    MeanGrad: Array | None,
    Grad: Array,
    Moment: Array,
    LearningRate: Array,
    *,
    epsilon: float = 1e-10,
    decay: float = 0.9,
    momentum: float = 0.0,
    centered: bool = False,
) -> tuple[Array, ...]:
    """``s = decay s + (1 - decay) g^2``, ``m = momentum m + lr g / sqrt(s + epsilon)``, ``p - m``.

    ``centered`` takes the square of g's mean from s under the root. (Tieleman and Hinton, 2012; centered: Graves, 2013.)
    """
    square = _running_mean(MeanSquare, np.square(Grad), decay)
    mean = np.zeros_like(Param) if MeanGrad is None else MeanGrad
    if centered:
        mean = _running_mean(mean, Grad, decay)
    # A. Graves, 2013, eq. 38-41: the second moment about the mean.
    variance = square - np.square(mean) if centered else square
    # Epsilon is under the root, as in Paddle; in Adam it is beside it.
    moment = momentum * Moment + number(LearningRate, Param) * Grad / np.sqrt(variance + epsilon)
    return Param - moment, moment, square, mean


# -- clipping ------------------------------------------------------------------------------------


def _clipped_grad(X: Tensor, dOut: Tensor, *, max_norm: float) -> Tensor:
    # Clipped, X becomes max_norm times its direction: what of the cotangent is along X has no effect. One formula does
    # for both cases, with the larger of norm and limit as the divisor.
    norm = frobenius_norm(X, reduce_all=True)
    limit = fill_any_like(norm, value=max_norm)
    larger = elementwise_max(norm, limit)
    unit = X / larger
    radial = unit * (as_mask(norm > limit, X) * reduce_sum(unit * dOut, reduce_all=True))
    return (dOut - radial) * (limit / larger)


@operator("X -> Out", infer=same_float, grad={"X": _clipped_grad})
def clip_by_norm(X: Array, *, max_norm: float) -> Array:
    """X, made shorter if its norm (over all elements) is above ``max_norm``."""
    norm = power_norm(X, tuple(range(X.ndim)))
    # Always an array of its own: whether a result shares memory with X may not depend on values.
    return X.copy() if norm <= max_norm else as_array(X * X.dtype.type(max_norm / norm))


# -- decay updates ---------------------------------------------------------------------------------
# Updates of a parameter that shrink it as well: by a weight decay beside the gradient, or by a penalty on its size.
#
# In the formulas p is Param, g Grad and lr LearningRate. Differentiating through an update is an error.

_TINY = 1e-10


@update("Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow", "Param Moment1 Moment2 Beta1Pow? Beta2Pow?", state=MOMENTS)
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
) -> tuple[Array, ...]:
    """Adam on ``p (1 - lr_ratio lr coeff)`` (Loshchilov and Hutter, 2019); Adam alone unless ``with_decay``.

    As in Paddle's kernel for the CPU, ``lr_ratio`` scales the decay, not Adam's step.
    """
    rate = number(LearningRate, Param)
    decayed_param = Param * (1 - rate * lr_ratio * coeff) if with_decay else Param
    options = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "use_global_beta_pow": use_global_beta_pow}
    results: tuple[Array, ...] = adam.kernel(decayed_param, Grad, as_array(rate), Moment1, Moment2, Beta1Pow, Beta2Pow, **options)
    return results


@update(
    "Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow",
    "Param Moment1 Moment2 Beta1Pow? Beta2Pow?",
    state=MOMENTS,
    dimensions=uncut,
)
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
) -> tuple[Array, ...]:
    """``p - lr |p| / |r| r``, r being Adam's step without lr plus ``weight_decay p`` (You et al., 2020).

    ``|p| / |r|`` is 1 where one of the norms is 0, and without a weight decay, unless ``always_adapt``.
    """
    m1 = _running_mean(Moment1, Grad, beta1)
    m2 = _running_mean(Moment2, np.square(Grad), beta2)
    unbiased1, unbiased2 = m1 / (1 - number(Beta1Pow, Param)), m2 / (1 - number(Beta2Pow, Param))
    step = unbiased1 / (np.sqrt(unbiased2) + epsilon) + weight_decay * Param
    rate = number(LearningRate, Param)
    if weight_decay > 0 or always_adapt:
        # Without weight decay, as for biases, LAMB is Adam unless it is told to adapt always.
        rate = rate * _trust(Param, step)
    return Param - rate * step, m1, m2, beta1 * Beta1Pow, beta2 * Beta2Pow


def _trust(param: Array, step: Array) -> Tensor:
    lengths = [power_norm(array, tuple(range(array.ndim))) for array in (param, step)]
    return lengths[0] / lengths[1] if all(lengths) else param.dtype.type(1)


@update(
    "Param SquaredAccumulator LinearAccumulator Grad LearningRate",
    "Param SquaredAccum LinearAccum",
    state="SquaredAccumulator:squared:SquaredAccumOut LinearAccumulator:linear:LinearAccumOut",
)
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
) -> tuple[Array, ...]:
    """Follow the regularized leader (McMahan et al., 2013), as ``n = s + g^2``, ``z = l + g - (n^-lr_power - s^-lr_power) / lr p``.

    The parameter is ``(l1 sign(z) - z) / (n^-lr_power / lr + 2 l2)`` where ``|z| > l1``, else 0. To l1 and l2 1e-10 is added.
    """
    rate, l1, l2 = number(LearningRate, Param), l1 + _TINY, l2 + _TINY
    square_sum = SquaredAccumulator + np.square(Grad)
    new, old = _power(square_sum, -lr_power), _power(SquaredAccumulator, -lr_power)
    linear = LinearAccumulator + Grad - (new - old) / rate * Param
    solution = (l1 * np.sign(linear) - linear) / (new / rate + 2 * l2)
    return np.where(np.abs(linear) > l1, solution, Param.dtype.type(0)), square_sum, linear


def _power(x: Array, exponent: float) -> Array:
    # The default of 1/2 by a root, which is exact and fast.
    return np.sqrt(x) if exponent == 0.5 else np.power(x, exponent)


@update("Param Grad LearningRate", "Param")
def proximal_gd(Param: Array, Grad: Array, LearningRate: Array, *, l1: float = 0.0, l2: float = 0.0) -> Array:
    """Gradient descent under a penalty (Duchi and Singer, 2009): ``q = p - lr g``, ``sign(q) max(|q| - lr l1, 0) / (1 + lr l2)``."""
    rate = number(LearningRate, Param)
    return _shrunk(Param - rate * Grad, rate, l1, l2)


@update("Param Moment Grad LearningRate", "Param Moment", state="Moment:moment")
def proximal_adagrad(
    Param: Array, Moment: Array, Grad: Array, LearningRate: Array, *, l1: float = 0.0, l2: float = 0.0
) -> tuple[Array, ...]:
    """``m = m + g^2``, then ``proximal_gd`` with the step ``lr g / sqrt(m)``, which is 0 where m is."""
    rate = number(LearningRate, Param)
    m = Moment + np.square(Grad)
    step = np.divide(Grad, np.sqrt(m), out=np.zeros_like(Param), where=m > 0)
    return _shrunk(Param - rate * step, rate, l1, l2), m


def _shrunk(q: Array, rate: float, l1: float, l2: float) -> Array:
    return np.sign(q) * np.maximum(np.abs(q) - rate * l1, 0) / (1 + rate * l2)
