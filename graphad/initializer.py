"""Initializers of parameters: each appends one operator that runs once in a scope."""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from graphad.errors import InvalidType, InvalidValue
from graphad.ops.definition import absent
from graphad.program import Block, Operator, Variable


@dataclass(frozen=True)
class Initializer:
    """Base: ``append(block, var)`` appends the operator that gives ``var`` its first value."""

    def append(self, block: Block, var: Variable) -> Operator:
        """Append the initialization operator; it does nothing in a scope that has a value already."""
        op_type, attrs = self.operator(var)
        attrs = {"shape": list(var.shape), "dtype": var.dtype, **attrs, "run_once": True}
        return block.append_op(op_type, {}, {"Out": var}, attrs)

    def operator(self, var: Variable) -> tuple[str, dict[str, object]]:
        """The operator's type and attributes besides shape and dtype."""
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Initializer):
    """One value everywhere."""

    value: float = 0.0
    force_cpu: bool = False  # a hint of Fluid's, without effect

    def operator(self, var: Variable) -> tuple[str, dict[str, object]]:
        return "fill_constant", {"value": self.value}


@dataclass(frozen=True)
class Uniform(Initializer):
    """Uniform in [low, high). ``diag_num`` is 0: the first elements of a diagonal that start otherwise are said with ``NumpyArray``."""

    low: float = -1.0
    high: float = 1.0
    seed: int = 0
    diag_num: int = 0
    diag_step: int = 0  # without effect, as is diag_val, while diag_num is 0
    diag_val: float = 1.0

    def __post_init__(self) -> None:
        if self.diag_num:
            raise InvalidValue(f"diag_num={self.diag_num}: elements of a diagonal that start otherwise are said with NumpyArray(values)")

    def operator(self, var: Variable) -> tuple[str, dict[str, object]]:
        return "uniform_random", {"min": self.low, "max": self.high, "seed": self.seed}


@dataclass(frozen=True)
class Normal(Initializer):
    """Normal with mean ``loc`` and standard deviation ``scale``."""

    loc: float = 0.0
    scale: float = 1.0
    seed: int = 0

    def operator(self, var: Variable) -> tuple[str, dict[str, object]]:
        return "gaussian_random", {"mean": self.loc, "std": self.scale, "seed": self.seed}


@dataclass(frozen=True)
class TruncatedNormal(Initializer):
    """Normal, drawn again outside two standard deviations."""

    loc: float = 0.0
    scale: float = 1.0
    seed: int = 0

    def operator(self, var: Variable) -> tuple[str, dict[str, object]]:
        return "truncated_gaussian_random", {"mean": self.loc, "std": self.scale, "seed": self.seed}


@dataclass(frozen=True)
class Xavier(Initializer):
    """Variance 2 / (fan in + fan out), uniform or normal (X. Glorot and Y. Bengio, AISTATS 2010).

    ``fan_in`` and ``fan_out`` follow from the shape where they are None.
    """

    uniform: bool = True
    fan_in: float | None = None
    fan_out: float | None = None
    seed: int = 0

    def operator(self, var: Variable) -> tuple[str, dict[str, object]]:
        inputs, outputs = fans(var)
        fan_in, fan_out = _chosen_fan("fan_in", self.fan_in, inputs), _chosen_fan("fan_out", self.fan_out, outputs)
        if self.uniform:
            # X. Glorot and Y. Bengio, 2010, eq. 16; a normal of the same variance, 2 / (in + out).
            return _uniform(math.sqrt(6.0 / (fan_in + fan_out)), self.seed)
        return Normal(0.0, math.sqrt(2.0 / (fan_in + fan_out)), self.seed).operator(var)


@dataclass(frozen=True)
class MSRA(Initializer):
    """Variance 2 / fan in, uniform or normal (K. He et al., ICCV 2015). ``fan_in`` follows from the shape where it is None."""

    uniform: bool = True
    fan_in: float | None = None
    seed: int = 0

    def operator(self, var: Variable) -> tuple[str, dict[str, object]]:
        fan_in = _chosen_fan("fan_in", self.fan_in, fans(var)[0])
        if self.uniform:
            return _uniform(math.sqrt(6.0 / fan_in), self.seed)
        return Normal(0.0, math.sqrt(2.0 / fan_in), self.seed).operator(var)


@dataclass(frozen=True, eq=False)
class NumpyArray(Initializer):
    """The values of an array, of the parameter's shape."""

    value: ArrayLike = ()

    def append(self, block: Block, var: Variable) -> Operator:
        array = np.asarray(self.value, var.dtype)
        if array.shape != var.shape:
            raise InvalidValue(f"initializer of {var.name!r} has shape {list(array.shape)}, the variable {list(var.shape)}")
        # The operator has lists for these dtypes alone, as Paddle's does.
        slots = {"float64": "fp64_values", "float32": "fp32_values", "int64": "int64_values", "int32": "int32_values"}
        if var.dtype not in slots:
            raise InvalidValue(f"initializer of {var.name!r}: an array can start {', '.join(slots)}, not {var.dtype}")
        slot = slots[var.dtype]
        attrs = {"shape": list(var.shape), "dtype": var.dtype, slot: array.ravel().tolist(), "run_once": True}
        return block.append_op("assign_value", {}, {"Out": var}, attrs)


@dataclass(frozen=True)
class Bilinear(Initializer):
    """The filters ``[out, in, k, k]`` with which ``conv2d_transpose`` interpolates between pixels, when it strides by k / 2 or so.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()) as program:
    ...     _ = ga.layers.create_parameter([1, 1, 4, 4], "float32", name="w", default_initializer=Bilinear())
    ...     _ = ga.Executor().run(ga.default_startup_program())
    ...     row = ga.Executor().run(program, fetch_list=["w"])[0][0, 0, 1]
    >>> row.tolist()
    [0.1875, 0.5625, 0.5625, 0.1875]
    """

    def append(self, block: Block, var: Variable) -> Operator:
        shape = var.shape
        if len(shape) != 4 or shape[2] != shape[3]:
            raise InvalidValue(f"Bilinear starts square filters [out, in, k, k], not {var.name!r} of shape {list(shape)}")
        # A tent over the filter: Fluid's, whose top lies between two elements where k is even.
        factor = math.ceil(shape[3] / 2)
        top = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        tent = 1 - np.abs(np.arange(shape[3]) / factor - top)
        return NumpyArray(np.broadcast_to(np.outer(tent, tent), shape)).append(block, var)


# -- for all parameters ----------------------------------------------------------------------------


class _Usual(NamedTuple):
    """The initializers of weights and biases without one of their own; None stands for the layer's own choice."""

    weight: Initializer | None = None
    bias: Initializer | None = None


_NOTHING = _Usual()
_usual: ContextVar[_Usual] = ContextVar("usual initializers", default=_NOTHING)


def set_global_initializer(weight_init: Initializer | None, bias_init: Initializer | None = None) -> None:
    """Say how parameters start, from now on, for which neither a ParamAttr nor a ``default_initializer`` says it.

    It counts in this thread or asyncio task. A layer's own choice, such as the ones of ``batch_norm``, stays.

    Args:
        weight_init: of weights; None for each layer's usual one, Xavier in most.
        bias_init: of biases; None for zeros.

    Raises:
        TypeError: one of them is no initializer.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()) as program, ga.scope_guard(ga.Scope()):
    ...     ga.initializer.set_global_initializer(ga.initializer.Constant(0.5))
    ...     y = ga.layers.fc(ga.data("x", [1, 2]), 1)
    ...     ga.initializer.set_global_initializer(None)
    ...     _ = ga.Executor().run(ga.default_startup_program())
    ...     ga.Executor().run(program, {"x": [[1.0, 1.0]]}, [y])
    [array([[1.]], dtype=float32)]
    """
    for name, value in (("weight_init", weight_init), ("bias_init", bias_init)):
        if not isinstance(value, Initializer | None):
            raise InvalidType(f"{name} is an initializer or None, not {value!r}")
    _usual.set(_Usual(weight_init, bias_init))


def are_usual() -> bool:
    """Whether ``set_global_initializer`` says nothing now: then parameters start as each layer has it."""
    usual = _usual.get()
    return usual is _NOTHING or usual == _NOTHING


def usual_weight() -> Initializer:
    """The initializer of a weight for which neither the user nor its layer chooses one."""
    return _usual.get().weight or _XAVIER


def usual_bias() -> Initializer:
    """The initializer of a bias for which neither the user nor its layer chooses one."""
    return _usual.get().bias or _ZERO


_XAVIER, _ZERO = Xavier(), Constant(0.0)  # which cannot be changed: one of each is enough

# Fluid has each under both names.
ConstantInitializer, UniformInitializer, NormalInitializer = Constant, Uniform, Normal
TruncatedNormalInitializer, XavierInitializer, MSRAInitializer, NumpyArrayInitializer = TruncatedNormal, Xavier, MSRA, NumpyArray
BilinearInitializer = Bilinear


def fans(var: Variable) -> tuple[int, int]:
    """Inputs and outputs of a weight: [in, out] of a matrix, [out, in, height, width] of a filter; at least 1 of each.

    >>> import graphad as ga
    >>> block = ga.Program().global_block()
    >>> fans(block.create_parameter("w", [6, 5])), fans(block.create_parameter("f", [8, 3, 5, 5]))
    ((6, 5), (75, 200))
    """
    shape = tuple(max(extent, 1) for extent in var.shape)
    if len(shape) < 2:
        return (shape[0], shape[0]) if shape else (1, 1)
    if len(shape) == 2:
        return shape[0], shape[1]
    # Each output sees a whole window of every input channel.
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def _chosen_fan(what: str, chosen: float | None, of_shape: float) -> float:
    if chosen is None:
        return of_shape
    if chosen <= 0:
        raise InvalidValue(f"{what} of an initializer is above 0, not {chosen!r}")
    return float(chosen)


def _uniform(limit: float, seed: int) -> tuple[str, dict[str, object]]:
    """The operator that draws uniformly in [-limit, limit], and its attributes; the variance is limit² / 3."""
    return "uniform_random", {"min": -limit, "max": limit, "seed": seed}


if not TYPE_CHECKING:  # a type checker would take any name for one of the module's

    def __getattr__(name: str) -> NoReturn:
        """Suggest an initializer for a mistyped name."""
        names = [other for other, value in globals().items() if isinstance(value, type) and issubclass(value, Initializer)]
        raise absent(__name__, name, names)


def __dir__() -> list[str]:
    kinds = (name for name, value in globals().items() if isinstance(value, type) and issubclass(value, Initializer))
    return sorted({"set_global_initializer", *kinds})
