"""Random networks: their layers, data and loss, from which ``training_program`` and ``trainable_program`` draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphad import layers
from graphad.layers.helper import ParamAttr
from graphad.program import L2Decay, Parameter, Variable
from graphad.testing.cases import Array
from graphad.testing.choices import Choices
from graphad.testing.number_pools import array_of

FEATURES = 3
BATCHES = (2, 1, 5)


class Network:
    """What layers are drawn with: feeds of one batch, a dtype, and the parameters that may be shared."""

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
        own: tuple[dict[str, Any], ...] = (
            {"trainable": False},
            {"learning_rate": 0.3},
            {"regularizer": L2Decay(0.2)},
            {"need_clip": False},
        )
        return ParamAttr(**self.choices.one_of(own)) if self.choices.chance(5) else None

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
    twice: Variable = layers.elementwise_mul(layers.tanh(hidden), layers.elementwise_add(hidden, layers.tanh(hidden)))
    return twice


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
    normalized: Variable = layers.batch_norm(
        product, is_test=not net.choices.chance(4), momentum=0.7, epsilon=net.choices.one_of((1e-5, 1e-2))
    )
    return layers.reshape(normalized, shape=[-1, normalized.shape[1]]) if len(normalized.shape) > 2 else normalized


def _row_product(net: Network, hidden: Variable, bias: Any) -> Variable:
    if net.choices.boolean():
        rows: Variable = layers.fc(hidden, size=2, param_attr=net.attr(), bias_attr=bias)
        return rows
    product: Variable = layers.matmul(hidden, net.matrix(hidden), transpose_Y=net.choices.boolean(), alpha=net.choices.one_of((1.0, 0.5)))
    return product


def _image_product(net: Network, hidden: Variable, bias: Any) -> Variable:
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
