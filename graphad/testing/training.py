"""Random networks with data and loss: to be trained, or trained already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphad import layers
from graphad.layers.helper import AttrLike, ParamAttr
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
    Lamb,
    LarsMomentum,
    Momentum,
    Optimizer,
    ProximalAdagrad,
    ProximalGD,
    RMSProp,
)
from graphad.optimizer.base import LearningRate
from graphad.passes.optimization import accumulator_name, accumulators, optimizers
from graphad.program import L2Decay, Parameter, Program, Variable, program_guard
from graphad.testing.cases import Case, Choices, array_of
from graphad.types import Array

# -- networks --------------------------------------------------------------------------------------
# Random networks: their layers, data and loss, from which ``training_program`` and ``trainable_program`` draw.

FEATURES = 3
BATCHES = (2, 1, 5)


class Network:
    """The state in which layers are drawn: feeds of one batch, a dtype, and the parameters that may be shared."""

    def __init__(self, choices: Choices, dtype: str, batch: int) -> None:
        self.choices, self.dtype, self.batch = choices, dtype, batch
        self.feeds: dict[str, Array] = {}

    def start(self, smooth: bool) -> Variable:
        """Data, or rows of a table that ids choose."""
        if smooth or not self.choices.chance(6):
            return self.data("x", FEATURES)
        ids: Variable = layers.data("ids", shape=[], dtype="int64")
        self.feeds["ids"] = np.array([self.choices.below(4) for _ in range(self.batch)], "int64")
        rows: Variable = layers.embedding(ids, size=[4, FEATURES], dtype=self.dtype, padding_idx=self.choices.one_of((-1, 1)))
        return rows

    def data(self, name: str, width: int) -> Variable:
        self.feeds[name] = array_of(self.choices, (self.batch, width), self.dtype, self.choices.one_of(("ordinary", "ordinary", "ties")))
        variable: Variable = layers.data(name, shape=[width], dtype=self.dtype)
        return variable

    def attr(self) -> ParamAttr | None:
        """How a parameter is trained: mostly as all others, sometimes frozen, faster, or with a decay of its own."""
        options: tuple[dict[str, Any], ...] = (
            {"trainable": False},
            {"learning_rate": 0.3},
            {"regularizer": L2Decay(0.2)},
            {"need_clip": False},
        )
        return ParamAttr(**self.choices.one_of(options)) if self.choices.chance(5) else None

    def matrix(self, hidden: Variable) -> Parameter:
        """A square parameter of the width of a layer."""
        block, width = hidden.block.program.global_block(), hidden.shape[-1]
        return block.create_parameter(shape=[width, width], dtype=self.dtype)


def _dense(net: Network, hidden: Variable) -> Variable:
    act = net.choices.one_of(("tanh", "sigmoid", None))
    output: Variable = layers.fc(hidden, size=net.choices.integer(2, 3), act=act, param_attr=net.attr())
    return output


def _rectified(net: Network, hidden: Variable) -> Variable:
    output: Variable = layers.fc(hidden, size=net.choices.integer(1, 3), act="relu", bias_attr=net.choices.one_of((None, False)))
    return output


def _twice(net: Network, hidden: Variable) -> Variable:
    """A layer's output times a function of itself, which is computed twice."""
    product: Variable = layers.elementwise_mul(layers.tanh(hidden), layers.elementwise_add(hidden, layers.tanh(hidden)))
    return product


def _shared(net: Network, hidden: Variable) -> Variable:
    """A square matrix that is read two to four times, so that its gradient has as many terms."""
    matrix = net.matrix(hidden)
    parts = [hidden]
    for _ in range(net.choices.integer(2, 4)):
        source = net.choices.one_of((parts[-1], hidden))
        product: Variable = layers.matmul(source, matrix)
        parts.append(layers.tanh(product))
    total: Variable = layers.sums(parts[1:])
    return total


def _normalized(net: Network, hidden: Variable) -> Variable:
    output: Variable = layers.batch_norm(hidden, is_test=net.choices.chance(3), momentum=0.7, epsilon=1e-2)
    return output


def normalized_product(net: Network, hidden: Variable) -> Variable:
    """A product, mostly with a bias, and a batch norm of it, mostly by running statistics."""
    bias = net.choices.one_of((None, False))
    product = net.choices.one_of((_image_product, _row_product))(net, hidden, bias)
    result: Variable = layers.batch_norm(product, is_test=not net.choices.chance(4), momentum=0.7, epsilon=net.choices.one_of((1e-5, 1e-2)))
    return layers.reshape(result, shape=[-1, result.shape[1]]) if len(result.shape) > 2 else result


def _row_product(net: Network, hidden: Variable, bias: AttrLike) -> Variable:
    if net.choices.boolean():
        rows: Variable = layers.fc(hidden, size=2, param_attr=net.attr(), bias_attr=bias)
        return rows
    product: Variable = layers.matmul(hidden, net.matrix(hidden), transpose_Y=net.choices.boolean(), alpha=net.choices.one_of((1.0, 0.5)))
    return product


def _image_product(net: Network, hidden: Variable, bias: AttrLike) -> Variable:
    """A convolution of an image of one pixel, with as many channels as there are features, and as many groups or one."""
    channels = hidden.shape[-1]
    image = layers.reshape(hidden, shape=[-1, channels, 1, 1])
    groups = net.choices.one_of((1, channels))
    product: Variable = layers.conv2d(image, channels, [1, 1], groups=groups, bias_attr=bias)
    return product


def _dropped(net: Network, hidden: Variable) -> Variable:
    output: Variable = layers.dropout(hidden, 0.3, seed=net.choices.one_of((0, 3)))
    return output


def _convolved(net: Network, hidden: Variable) -> Variable:
    image = layers.reshape(hidden, shape=[-1, 1, 1, hidden.shape[-1]])
    output: Variable = layers.reshape(layers.conv2d(image, 2, [1, 1], bias_attr=False), shape=[-1, 2 * hidden.shape[-1]])
    return output


def _curved(net: Network, hidden: Variable) -> Variable:
    """A smooth function, element by element."""
    name = net.choices.one_of(("tanh", "sin", "gelu", "sigmoid", "square", "softplus"))
    curve: Callable[[Variable], Variable] = getattr(layers, name)
    return curve(hidden)


def _squared(net: Network, hidden: Variable) -> Variable:
    """A product with a matrix that leaves the shape as it is."""
    product: Variable = layers.matmul(hidden, net.matrix(hidden))
    return product


def _recurrent(net: Network, hidden: Variable) -> Variable:
    """A loop of 0 to 3 steps h = tanh(h w + x), whose matrix is read in every step."""
    matrix = net.matrix(hidden)
    count = layers.fill_constant([1], "int64", 0)
    limit = layers.fill_constant([1], "int64", net.choices.one_of((2, 1, 0, 3)))

    def step(index: Variable, state: Variable) -> list[Variable]:
        return [layers.increment(index, in_place=False), layers.tanh(layers.elementwise_add(layers.matmul(state, matrix), hidden))]

    output: Variable = layers.while_loop(lambda index, _: layers.less_than(index, limit), step, [count, layers.tanh(hidden)])[1]
    return output


Layer = Callable[[Network, Variable], Variable]
SMOOTH: tuple[Layer, ...] = (_dense, _dense, _dense, _twice)
LAYERS: tuple[Layer, ...] = (_dense, _dense, _twice, _shared, _shared, _rectified, _normalized, _dropped, _convolved, _recurrent)


def loss_of(net: Network, hidden: Variable, smooth: bool) -> Variable:
    """The mean of squares of what a last layer gives, less data; at least one parameter trains."""
    last = layers.fc(hidden, size=1, param_attr=None if smooth else net.attr())
    if not any(param.trainable for param in last.block.program.all_parameters()):
        last = layers.fc(last, size=1)
    cost: Variable = layers.mse(last, net.data("y", 1))
    return cost


# -- training --------------------------------------------------------------------------------------
# Random training programs: a small network with its backward and its updates, drawn by ``training_program``.
#
# Parameters are read once or often, share a name, or are frozen; layers are of all kinds; and each optimizer occurs with each way of
# clipping, of decay and of a learning rate.

# With options that differ from the defaults; without is the other half.
OPTIMIZERS: dict[type[Optimizer], dict[str, Any]] = {
    SGD: {},
    Momentum: {"momentum": 0.7, "use_nesterov": True},
    LarsMomentum: {"lars_coeff": 0.1, "lars_weight_decay": 0.02},
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
DECAYS: tuple[L2Decay | L1Decay | None, ...] = (None, None, L2Decay(0.03), L1Decay(0.03))
SIGNED = ("velocity", "moment1", "momentum", "linear")  # accumulators that may be negative


def training_program(choices: Choices, max_layers: int = 2, smooth: bool = False, types: Sequence[str] = ()) -> Case:
    """A network of up to ``max_layers`` hidden layers with its backward and an optimizer.

    Args:
        choices: where the decisions come from.
        max_layers: how many layers there are before the last one.
        smooth: only layers that are the mean over a batch of 4 of smooth functions of single rows, in float64.
        types: operators whose optimizers half of the programs have.

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
        _set_own_options(choices, main.all_parameters())
        optimizer = _optimizer(choices, dtype, types)
        optimizer.minimize(cost)
        # A program may have several optimizers: a pass must not take the first one's updates for all there are.
        if not smooth and choices.chance(8):
            _second_loss(hidden)
    return Case(main, cost.name, net.feeds, persistent_arrays(choices, main))


def _set_own_options(choices: Choices, parameters: list[Parameter]) -> None:
    """Give some parameters a factor on the learning rate, or a decay, of their own."""
    for parameter in parameters:
        if choices.chance(5):
            parameter.learning_rate = choices.one_of((0.5, 3.0))
        if choices.chance(8):
            parameter.regularizer = choices.one_of(DECAYS[2:])


def _second_loss(hidden: Variable) -> None:
    """Another loss with updates of its own, after the first ones."""
    second = layers.fc(hidden, size=1, bias_attr=False)
    SGD(0.05).minimize(layers.mean(layers.square(second)))


def _optimizer(choices: Choices, dtype: str, types: Sequence[str]) -> Optimizer:
    preferred = [kind for kind in OPTIMIZERS if kind.type in types]
    kind = choices.one_of(preferred if preferred and choices.boolean() else tuple(OPTIMIZERS))
    options = {"momentum": 0.9} if kind is Momentum else {}
    if choices.boolean():
        options = OPTIMIZERS[kind]
    make: Callable[..., Optimizer] = kind
    return make(_learning_rate(choices, dtype), regularization=choices.one_of(DECAYS), grad_clip=choices.one_of(CLIPS), **options)


def _learning_rate(choices: Choices, dtype: str) -> LearningRate:
    """A number, seldom a schedule."""
    schedules: tuple[Callable[[], Variable], ...] = (
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
    # Powers of the decays after three steps, as in the middle of a training.
    if "_pow_acc" in var.name:
        return np.full(var.shape, 0.9**3, var.dtype)
    if "mean_grad" in var.name:
        return np.asarray(numbers * _number(var)(0.05))
    return numbers if any(word in var.name for word in SIGNED) else np.asarray(np.abs(numbers) + _number(var)(0.25))


def _number(var: Variable) -> type[np.generic]:
    """The numpy type of a variable's numbers."""
    return np.dtype(var.dtype).type


# -- deep ------------------------------------------------------------------------------------------
# Chains in which what is kept for the backward takes most of the memory: ``deep_program``.

ROWS, DEEPEST = (16, 5), 10
_LINKS: tuple[Layer, ...] = (_squared, _squared, _curved, _curved, _curved, _dropped, _twice)


def deep_program(choices: Choices) -> Case:
    """A chain of 4 to 10 layers over rows of one width, and a loss, without backward: products, curves and random numbers.

    There are more rows than features, so that values that are kept for the backward weigh more than parameters.

    >>> from graphad.testing.cases import RandomChoices
    >>> len(deep_program(RandomChoices("seed")).program.global_block().ops) > 4
    True
    """
    main = Program()
    net = Network(choices, choices.one_of(("float64", "float32")), choices.one_of(ROWS))
    with program_guard(main, Program()):
        hidden = net.data("x", FEATURES)
        for _ in range(choices.integer(4, DEEPEST)):
            hidden = choices.one_of(_LINKS)(net, hidden)
        cost = layers.mean(layers.matmul(hidden, net.matrix(hidden)))
    return Case(main, cost.name, net.feeds, persistent_arrays(choices, main))


# -- trainable -------------------------------------------------------------------------------------
# Random networks that can be trained or used as they are: ``trainable_program``.

EVEN = (4, 2, 6)
_LAYERS: tuple[Layer, ...] = (normalized_product, *LAYERS[::2], normalized_product, *LAYERS[1::2])


def trainable_program(choices: Choices) -> Case:
    """A network of up to two hidden layers with its loss, without backward and updates.

    Two of three compute every row by itself. The batch has an even number of them. In the others there are layers of all kinds,
    many of them products with a batch norm, and mostly another output beside the loss. The learning rate, and what one optimizer
    keeps, are declared as ``minimize`` declares them, and have values as after some steps.

    >>> from graphad.testing.cases import RandomChoices
    >>> "learning_rate_0" in trainable_program(RandomChoices("seed")).params
    True
    """
    main, by_rows = Program(), not choices.chance(3)
    dtype = choices.one_of(("float64", "float32"))
    net = Network(choices, dtype, choices.one_of(EVEN))
    with program_guard(main, Program()):
        hidden = net.start(by_rows)
        for _ in range(choices.integer(0, 2)):
            hidden = choices.one_of(SMOOTH if by_rows else _LAYERS)(net, hidden)
        if not by_rows and choices.boolean():
            layers.relu(normalized_product(net, hidden))
        cost = loss_of(net, hidden, by_rows) if choices.boolean() else _other_loss(net, hidden)
        _declare_state(choices, main.all_parameters(), cost)
    return Case(main, cost.name, net.feeds, persistent_arrays(choices, main))


def _other_loss(net: Network, hidden: Variable) -> Variable:
    """A loss that is no mean over the rows: a sum, one with a bias, a product of means, a term of weights, numbers across the batch."""
    kind = net.choices.below(5)
    if kind == 0:
        hidden = layers.softmax(hidden, axis=net.choices.one_of((0, -len(hidden.shape))))
    last = layers.fc(hidden, size=2)
    errors = layers.square(last)
    mean, total = layers.mean(errors), layers.reduce_sum(errors)
    cost: Variable = mean
    if kind == 1:
        cost = total
    elif kind == 2:
        cost = layers.scale(net.choices.one_of((total, mean)), scale=2.0, bias=1.0)
    elif kind == 3:
        cost = layers.elementwise_mul(mean, net.choices.one_of((mean, layers.mean(last))))
    elif kind == 4:
        weights = last.block.program.all_parameters()[0]
        cost = layers.elementwise_add(mean, layers.mean(layers.square(weights)))
    return cost


def _declare_state(choices: Choices, parameters: list[Parameter], cost: Variable) -> None:
    state = choices.one_of(tuple(map(accumulators, optimizers())))
    cost.block.create_var("learning_rate_0", [1], cost.dtype, persistable=True, stop_gradient=True)
    for parameter in parameters:
        for slot, accumulator in state.items():
            shape = [1] if slot.endswith("Pow") else list(parameter.shape)
            name = accumulator_name(parameter.name, accumulator)
            cost.block.create_var(name, shape, parameter.dtype, persistable=True, stop_gradient=True)
