"""Random training programs for hypothesis: ``training_programs()`` draws a small net with its backward and its updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad import layers
from graphad.execution import Executor, Scope
from graphad.optimizer import SGD, Adam, ClipByGlobalNorm, ClipByValue, L2Decay, Momentum, RMSProp
from graphad.program import Program, Variable, program_guard
from graphad.testing.cases import Array, Case
from graphad.testing.choices import Choices

OPTIMIZERS: tuple[type[Any], ...] = (SGD, Momentum, Adam, RMSProp)
ROWS, FEATURES = 4, 3


def training_program(choices: Choices, max_layers: int = 2) -> Case:
    """Nets of one to ``max_layers`` hidden layers in float64, with backward and an optimizer; some clip, some decay weights.

    The parameters and what the optimizer keeps are in ``params``, as after a startup program.
    """
    main, startup = Program(), Program()
    with program_guard(main, startup):
        x = layers.data("x", shape=[FEATURES], dtype="float64")
        y = layers.data("y", shape=[1], dtype="float64")
        hidden = x
        for _ in range(choices.integer(0, max_layers)):
            hidden = layers.fc(hidden, size=choices.integer(2, 3), act=choices.one_of(["tanh", "sigmoid", None]))
            hidden = _twice(hidden) if choices.integer(0, 3) == 3 else hidden
        cost = layers.mse(layers.fc(hidden, size=1), y)
        _optimizer(choices).minimize(cost)
    rng = np.random.default_rng(choices.integer(0, 99))
    feeds = {"x": _numbers(rng, (ROWS, FEATURES)), "y": _numbers(rng, (ROWS, 1))}
    return Case(main, cost.name, feeds, _params(main, startup, rng))


def _twice(hidden: Variable) -> Variable:
    """A layer's output times a function of itself, which is computed twice."""
    twice: Variable = layers.elementwise_mul(layers.tanh(hidden), layers.elementwise_add(hidden, layers.tanh(hidden)))
    return twice


def _optimizer(choices: Choices) -> Any:
    kind = choices.one_of(OPTIMIZERS)
    options: dict[str, Any] = {"momentum": 0.9} if kind is Momentum else {}
    clip = choices.one_of([None, ClipByValue(0.1), ClipByGlobalNorm(0.5)])
    return kind(learning_rate=0.1, regularization=choices.one_of([None, L2Decay(0.01)]), grad_clip=clip, **options)


def _params(main: Program, startup: Program, rng: np.random.Generator) -> dict[str, Array]:
    """What the startup program leaves, with random numbers of our own for the parameters."""
    scope = Scope()
    Executor().run(startup, scope=scope)
    drawn = {p.name: _numbers(rng, p.shape) for p in main.all_parameters()}
    return {name: drawn.get(name, array) for name, array in scope.arrays.items()}


def _numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.round(rng.uniform(-1.0, 1.0, shape), 3)
