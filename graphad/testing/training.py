"""Random training programs: a small network with its backward and its updates, drawn by ``training_program``.

Parameters are read once or often, share a name, or are frozen; layers are of all kinds; and each optimizer occurs with each way of
clipping, of decay and of a learning rate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphad import layers
from graphad.optimizer import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    ClipByGlobalNorm,
    ClipByNorm,
    ClipByValue,
    DecayedAdagrad,
    Ftrl,
    L1Decay,
    L2Decay,
    Lamb,
    Momentum,
    Optimizer,
    ProximalAdagrad,
    ProximalGD,
    RMSProp,
)
from graphad.program import Parameter, Program, Variable, program_guard
from graphad.testing.cases import Array, Case
from graphad.testing.choices import Choices
from graphad.testing.networks import BATCHES, LAYERS, SMOOTH, Network, loss_of
from graphad.testing.number_pools import array_of

# With options that differ from the defaults; without is the other half.
OPTIMIZERS: dict[type[Optimizer], dict[str, Any]] = {
    SGD: {},
    Momentum: {"momentum": 0.7, "use_nesterov": True},
    Adam: {"beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3},
    RMSProp: {"rho": 0.9, "momentum": 0.3, "centered": True},
    Adagrad: {"epsilon": 1e-3},
    DecayedAdagrad: {"decay": 0.7},
    Adadelta: {"rho": 0.7, "epsilon": 1e-3},
    Adamax: {"beta1": 0.8, "epsilon": 1e-3},
    AdamW: {"weight_decay": 0.3, "apply_decay_param_fun": lambda name: name.endswith("0")},
    Lamb: {},
    Ftrl: {"l1": 0.3, "l2": 0.2, "lr_power": -0.7},
    ProximalGD: {"l1": 0.3, "l2": 0.2},
    ProximalAdagrad: {"l1": 0.3, "l2": 0.2},
}
CLIPS = (None, None, ClipByValue(0.1), ClipByValue(0.3, -0.05), ClipByNorm(0.3), ClipByGlobalNorm(0.3))
DECAYS = (None, None, L2Decay(0.03), L1Decay(0.03))
SIGNED = ("velocity", "moment1", "momentum", "linear")  # accumulators that may be negative


def training_program(choices: Choices, max_layers: int = 2, smooth: bool = False) -> Case:
    """A network of up to ``max_layers`` hidden layers with its backward and an optimizer.

    Args:
        choices: where the decisions come from.
        max_layers: how many layers there are before the last one.
        smooth: only layers that are the mean over a batch of 4 of smooth functions of single rows, in float64.

    Returns:
        A case with the first loss. The parameters and what the optimizer keeps are in ``params``, as after some steps.
    """
    main, startup = Program(), Program()
    dtype = "float64" if smooth else choices.one_of(("float32", "float64"))
    net = Network(choices, dtype, 4 if smooth else choices.one_of(BATCHES))
    with program_guard(main, startup):
        hidden = net.start(smooth)
        for _ in range(choices.integer(0, max_layers)):
            hidden = choices.one_of(SMOOTH if smooth else LAYERS)(net, hidden)
        cost = loss_of(net, hidden, smooth)
        optimizer = _optimizer(choices, dtype)
        optimizer.minimize(cost)
        if not smooth and choices.chance(8):
            _second_loss(hidden)
    return Case(main, cost.name, net.feeds, persistent_arrays(choices, main))


def _second_loss(hidden: Variable) -> None:
    """Another loss with updates of its own, after the first ones."""
    second = layers.fc(hidden, size=1, bias_attr=False)
    SGD(0.05).minimize(layers.mean(layers.square(second)))


def _optimizer(choices: Choices, dtype: str) -> Optimizer:
    kind = choices.one_of(tuple(OPTIMIZERS))
    options = {"momentum": 0.9} if kind is Momentum else {}
    if choices.boolean():
        options = OPTIMIZERS[kind]
    return kind(_learning_rate(choices, dtype), regularization=choices.one_of(DECAYS), grad_clip=choices.one_of(CLIPS), **options)


def _learning_rate(choices: Choices, dtype: str) -> Any:
    """A number, seldom a schedule."""
    schedules: tuple[Callable[[], Any], ...] = (
        lambda: layers.exponential_decay(0.1, decay_steps=2, decay_rate=0.7, dtype=dtype),
        lambda: layers.piecewise_decay([2, 5], [0.1, 0.03, 0.01], dtype=dtype),
        lambda: layers.polynomial_decay(0.1, decay_steps=5, dtype=dtype),
        lambda: layers.cosine_decay(0.1, step_each_epoch=2, epochs=3, dtype=dtype),
    )
    return choices.one_of(schedules)() if choices.chance(8) else 0.1


def persistent_arrays(choices: Choices, main: Program) -> dict[str, Array]:
    """Numbers for all that persists: as after some steps, so that no accumulator is zero."""
    variables = [var for var in main.global_block().vars.values() if var.persistable]
    return {var.name: _state(choices, var) for var in variables}


def _state(choices: Choices, var: Variable) -> Array:
    numbers = array_of(choices, var.shape, var.dtype)
    if isinstance(var, Parameter):
        return numbers
    if var.dtype.startswith("int"):
        return np.full(var.shape, 3, var.dtype)
    if "learning_rate" in var.name:
        return np.full(var.shape, 0.1, var.dtype)
    if "_pow_acc" in var.name:
        return np.full(var.shape, 0.9**3, var.dtype)
    if "mean_grad" in var.name:
        return np.asarray(numbers * _number(var)(0.05))
    return numbers if any(word in var.name for word in SIGNED) else np.asarray(np.abs(numbers) + _number(var)(0.25))


def _number(var: Variable) -> Any:
    """The numpy type of a variable's numbers."""
    return np.dtype(var.dtype).type
