"""Optimizers: the backward, then one operator a parameter that applies its gradient; all of it passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from graphad.backward import build_backward
from graphad.errors import InvalidType, InvalidValue
from graphad.graph import lower, write_back
from graphad.initializer import Constant
from graphad.layers.helper import declare_in
from graphad.passes.optimization import ACCUMULATORS, ClipGradients, DecayWeights, OptimizeParameters, Updates, accumulator_name
from graphad.program import (
    OPTIMIZE,
    Block,
    L1Decay,
    L2Decay,
    Operator,
    Parameter,
    Program,
    Regularizer,
    Variable,
    default_startup_program,
)
from graphad.rewriting import Pass, Pipeline, diagnoses_only
from graphad.types import element_count

__all__ = [
    "SGD",
    "Adam",
    "ClipByGlobalNorm",
    "ClipByNorm",
    "ClipByValue",
    "L1Decay",
    "L2Decay",
    "Momentum",
    "Optimizer",
    "RMSProp",
    "optimize",
]

Pairs = list[tuple[Parameter, Variable]]


@dataclass(frozen=True)
class ClipByValue:
    """Bounds each element of the gradients to [-bound, bound]."""

    bound: float
    kind: ClassVar[str] = "value"


@dataclass(frozen=True)
class ClipByNorm:
    """Bounds the norm of each gradient."""

    bound: float
    kind: ClassVar[str] = "norm"


@dataclass(frozen=True)
class ClipByGlobalNorm:
    """Bounds the norm of all gradients together."""

    bound: float
    kind: ClassVar[str] = "global-norm"


Clip = ClipByValue | ClipByNorm | ClipByGlobalNorm


class Optimizer:
    """Base of the optimizers.

    Args:
        learning_rate: a number, kept in the persistable variable ``learning_rate_0``, or a variable of one element.
        regularization: L1Decay or L2Decay for the parameters that have none of their own.
        grad_clip: ClipByValue, ClipByNorm or ClipByGlobalNorm.
    """

    type: ClassVar[str] = ""
    starts: ClassVar[dict[str, str]] = {}

    def __init__(self, learning_rate: Any, regularization: Any = None, grad_clip: Any = None) -> None:
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, int | float | Variable):
            raise InvalidType(f"learning_rate is a number or a Variable, not {learning_rate!r}")
        if isinstance(learning_rate, Variable) and element_count(learning_rate.shape) != 1:
            raise InvalidValue(f"learning_rate has one element, not the shape of {learning_rate!r}")
        if not isinstance(learning_rate, Variable) and not math.isfinite(learning_rate):
            raise InvalidValue(f"learning_rate is a finite number, not {learning_rate!r}")
        if not isinstance(regularization, Regularizer | None):
            raise InvalidType(f"regularization is an L1Decay or L2Decay, not {regularization!r}")
        if not isinstance(grad_clip, Clip | None):
            raise InvalidType(f"grad_clip is a ClipByValue, ClipByNorm or ClipByGlobalNorm, not {grad_clip!r}")
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.grad_clip = grad_clip

    def attrs(self) -> dict[str, Any]:
        """The attributes of the optimization operators."""
        return {}

    def minimize(
        self, loss: Variable, startup_program: Program | None = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list[Operator], Pairs]:
        """Append the backward and the updates to the program of ``loss``; initialise their state in the startup program.

        Returns:
            The optimization operators, one a parameter, and the (parameter, gradient) pairs; a gradient is the raw one,
            before clipping and decay.

        Raises:
            ValueError: as ``append_backward``; and if no parameter reaches the loss.
        """
        if not isinstance(loss, Variable):
            raise InvalidType(f"loss is a Variable, not {loss!r}")
        program = loss.block.program
        startup = startup_program or program.startup or default_startup_program()
        if not isinstance(startup, Program):
            raise InvalidType(f"startup_program is a Program, not {startup_program!r}")
        with program.atomic(), startup.atomic():
            return self._minimize(program, startup, loss, parameter_list, no_grad_set)

    def _minimize(
        self, program: Program, startup: Program, loss: Variable, parameter_list: Any, no_grad_set: Any
    ) -> tuple[list[Operator], Pairs]:
        for name, value in self.attrs().items():
            if not isinstance(value, int | float):
                raise InvalidType(f"{type(self).__name__}: {name} is a number, not {value!r}")
        graph, block = lower(program), program.global_block()
        found = build_backward(graph, loss, parameter_list, no_grad_set)
        pairs = list({param.name: (param, gradient) for param, gradient in found}.values())
        parameters = [param for param, _ in pairs]
        if not pairs:
            raise InvalidValue(f"nothing to optimize: no trainable parameter reaches the loss {loss.name!r}")
        for param in parameters:
            if not isinstance(param, Parameter):
                raise InvalidValue(f"{param!r} is no parameter: only those can be optimized")
        program.startup = startup
        instance = self._free_instance(block, parameters)
        rate = self._declare_state(block, startup.global_block(), parameters, loss.dtype, instance)
        graph.analyses[Updates] = Updates({param.name: gradient for param, gradient in pairs})
        with diagnoses_only():
            self.pipeline(parameters, rate, instance).run(graph)
        write_back(graph)
        updates = [op for op in block.ops if op.role == OPTIMIZE and op.type == self.type]
        return updates[-len(pairs) :], [(param, block.var(gradient.name)) for param, gradient in pairs]

    def _free_instance(self, block: Block, parameters: Sequence[Parameter]) -> int:
        """The first number that no accumulator of these parameters has."""
        instance = 0
        while any(block.has_var(accumulator_name(p.name, a, instance)) for p in parameters for a in ACCUMULATORS[self.type].values()):
            instance += 1
        return instance

    def pipeline(self, parameters: Sequence[Parameter], learning_rate: str, instance: int = 0) -> Pipeline:
        """The passes that turn gradients into updates: clip, decay, optimize."""
        names, factors = tuple(p.name for p in parameters), tuple(p.learning_rate for p in parameters)
        clip = [ClipGradients(self.grad_clip.kind, self.grad_clip.bound, _clipped(parameters))] if self.grad_clip else []
        decay = self._decay_passes(parameters)
        return Pipeline(*clip, *decay, OptimizeParameters(self.type, names, learning_rate, factors, tuple(self.attrs().items()), instance))

    def _decay_passes(self, parameters: Sequence[Parameter]) -> list[Pass]:
        groups: dict[Any, list[str]] = {}
        for param in parameters:
            decay = param.regularizer or self.regularization
            if decay is not None and decay.coefficient:
                groups.setdefault(decay, []).append(param.name)
        return [DecayWeights(decay.kind, decay.coefficient, tuple(names)) for decay, names in groups.items()]

    def _declare_state(self, block: Block, startup: Block, parameters: Sequence[Parameter], dtype: str, instance: int) -> str:
        """Declare the learning rate and the accumulators, and initialise them; return the learning rate's name."""
        rate = self.learning_rate
        if not isinstance(rate, Variable):
            rate = _state(block, startup, block.program.names.generate("learning_rate"), [1], dtype, float(rate))
        for param in parameters:
            for slot, accumulator in ACCUMULATORS[self.type].items():
                shape = [1] if slot.endswith("Pow") else list(param.shape)
                _state(block, startup, accumulator_name(param.name, accumulator, instance), shape, param.dtype, self._start(slot))
        return rate.name

    def _start(self, slot: str) -> float:
        return float(getattr(self, self.starts[slot])) if slot in self.starts else 0.0


def _clipped(parameters: Sequence[Parameter]) -> tuple[str, ...]:
    return tuple(p.name for p in parameters if p.need_clip)


def _state(block: Block, startup: Block, name: str, shape: list[int], dtype: str, start: float) -> Variable:
    known = block.has_var(name)
    var = block.create_var(name, shape, dtype, persistable=True, stop_gradient=True)
    if not known:
        Constant(start).append(startup, declare_in(startup, var))
    return var


class SGD(Optimizer):
    """``w -= learning_rate * gradient``."""

    type = "sgd"

    def __init__(self, learning_rate: Any = 0.01, **options: Any) -> None:
        super().__init__(learning_rate, **options)


class Momentum(Optimizer):
    """``v = momentum * v + gradient; w -= learning_rate * v``, with Nesterov's look-ahead if asked for."""

    type = "momentum"

    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.9, use_nesterov: bool = False, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.momentum = momentum
        self.use_nesterov = use_nesterov

    def attrs(self) -> dict[str, Any]:
        return {"mu": self.momentum, "use_nesterov": self.use_nesterov}


class Adam(Optimizer):
    """Steps scaled by running moments of the gradient (D. P. Kingma and J. Ba, 2015)."""

    type = "adam"
    starts: ClassVar = {"Beta1Pow": "beta1", "Beta2Pow": "beta2"}

    def __init__(self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def attrs(self) -> dict[str, Any]:
        return {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}


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
        self.rho = rho
        self.epsilon = epsilon
        self.momentum = momentum
        self.centered = centered

    def attrs(self) -> dict[str, Any]:
        return {"decay": self.rho, "epsilon": self.epsilon, "momentum": self.momentum, "centered": self.centered}


def optimize(cost: Variable, optimizer: Optimizer | None = None) -> tuple[list[Operator], Pairs]:
    """Append the backward and the optimization part for a cost; SGD with a learning rate of 0.01 if no optimizer is given."""
    if not isinstance(optimizer, Optimizer | None):
        raise InvalidType(f"optimizer is an Optimizer, not {optimizer!r}")
    return (SGD() if optimizer is None else optimizer).minimize(cost)
