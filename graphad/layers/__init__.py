"""The layers of models. Every registered operator is a layer too: ``layers.tanh(x)``, ``layers.concat([x, y], axis=1)``."""

from __future__ import annotations

from typing import Any

from graphad.layers.arrays import array_length, array_read, array_write, create_array
from graphad.layers.control_flow import case, cond, switch_case, while_loop
from graphad.layers.creation import eye, fill_constant, gaussian_random, ones, recorded, uniform_random, zeros
from graphad.layers.creation import range_ as range
from graphad.layers.fluid import (
    assign,
    equal,
    greater_equal,
    greater_than,
    increment,
    less_equal,
    less_than,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    sums,
)
from graphad.layers.fluid_blocks import IfElse, Switch, While
from graphad.layers.helper import LayerHelper, ParamAttr
from graphad.layers.learning_rate_scheduler import (
    autoincreased_step_counter,
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    lambda_decay,
    linear_lr_warmup,
    natural_exp_decay,
    noam_decay,
    piecewise_decay,
    polynomial_decay,
)
from graphad.layers.loss import accuracy, cross_entropy, mean, mse, softmax_with_cross_entropy, square_error_cost
from graphad.layers.nn import batch_norm, conv2d, data, dropout, embedding, fc, layer_norm, pool2d
from graphad.layers.static_rnn import StaticRNN
from graphad.ops.definition import did_you_mean, find
from graphad.ops.symbol import REGISTRY

__all__ = [
    "IfElse",
    "LayerHelper",
    "ParamAttr",
    "StaticRNN",
    "Switch",
    "While",
    "accuracy",
    "array_length",
    "array_read",
    "array_write",
    "assign",
    "autoincreased_step_counter",
    "batch_norm",
    "case",
    "cond",
    "conv2d",
    "cosine_decay",
    "create_array",
    "cross_entropy",
    "data",
    "dropout",
    "embedding",
    "equal",
    "exponential_decay",
    "eye",
    "fc",
    "fill_constant",
    "gaussian_random",
    "greater_equal",
    "greater_than",
    "increment",
    "inverse_time_decay",
    "lambda_decay",
    "layer_norm",
    "less_equal",
    "less_than",
    "linear_lr_warmup",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "mean",
    "mse",
    "natural_exp_decay",
    "noam_decay",
    "not_equal",
    "ones",
    "piecewise_decay",
    "polynomial_decay",
    "pool2d",
    "range",
    "softmax_with_cross_entropy",
    "square_error_cost",
    "sums",
    "switch_case",
    "uniform_random",
    "while_loop",
    "zeros",
]


def __getattr__(name: str) -> Any:
    row = None if name.startswith("__") else find(name)
    if row is not None:
        return recorded(row)
    raise AttributeError(f"no layer or operator is named {name!r}{did_you_mean(name, [*REGISTRY, *__all__])}")
