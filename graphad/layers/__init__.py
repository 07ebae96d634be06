"""The layers of models. Every registered operator is a layer too: ``layers.tanh(x)``, ``layers.concat([x, y], axis=1)``."""

from __future__ import annotations

from typing import Any

from graphad.layers.arrays import array_length, array_read, array_write, create_array
from graphad.layers.composed import (
    addcmul,
    arange,
    bilinear_tensor_product,
    cumsum,
    dice_loss,
    dist,
    elementwise_equal,
    fsp_matrix,
    full,
    full_like,
    gru_unit,
    image_resize_short,
    interpolate,
    lstm_unit,
    pad_constant_like,
    randint,
    randn,
    soft_relu,
    t,
)
from graphad.layers.control_flow import case, cond, switch_case, while_loop
from graphad.layers.convolution import conv2d, conv2d_transpose, conv3d, conv3d_transpose
from graphad.layers.creation import eye, fill_constant, gaussian_random, ones, uniform_random, zeros
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
from graphad.layers.fluid_signatures import SPECS
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
from graphad.layers.loss import accuracy, cross_entropy, mean, mse, mse_loss, softmax_with_cross_entropy, square_error_cost
from graphad.layers.nn import create_global_var, create_parameter, create_tensor, data, dropout, embedding, fc, prelu
from graphad.layers.normalization import batch_norm, group_norm, instance_norm, layer_norm
from graphad.layers.pooling import adaptive_pool2d, adaptive_pool3d, pool2d, pool3d
from graphad.layers.recorded import operator_layer
from graphad.layers.shaping import (
    clamp,
    expand_as,
    has_inf,
    has_nan,
    image_resize,
    is_empty,
    isfinite,
    l2_normalize,
    linspace,
    nonzero,
    ones_like,
    rank,
    resize_bilinear,
    resize_nearest,
    resize_trilinear,
    scatter_nd,
    sequence_mask,
    softmax,
    split,
    tril,
    triu,
    where,
    zeros_like,
)
from graphad.layers.static_rnn import StaticRNN
from graphad.ops import REGISTRY, ControlDef, GradOpDef
from graphad.ops.definition import did_you_mean

__all__ = [
    "IfElse",
    "LayerHelper",
    "ParamAttr",
    "StaticRNN",
    "Switch",
    "While",
    "accuracy",
    "adaptive_pool2d",
    "adaptive_pool3d",
    "addcmul",
    "arange",
    "array_length",
    "array_read",
    "array_write",
    "assign",
    "autoincreased_step_counter",
    "batch_norm",
    "bilinear_tensor_product",
    "case",
    "clamp",
    "cond",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "cosine_decay",
    "create_array",
    "create_global_var",
    "create_parameter",
    "create_tensor",
    "cross_entropy",
    "cumsum",
    "data",
    "dice_loss",
    "dist",
    "dropout",
    "elementwise_equal",
    "embedding",
    "equal",
    "expand_as",
    "exponential_decay",
    "eye",
    "fc",
    "fill_constant",
    "fsp_matrix",
    "full",
    "full_like",
    "gaussian_random",
    "greater_equal",
    "greater_than",
    "group_norm",
    "gru_unit",
    "has_inf",
    "has_nan",
    "image_resize",
    "image_resize_short",
    "increment",
    "instance_norm",
    "interpolate",
    "inverse_time_decay",
    "is_empty",
    "isfinite",
    "l2_normalize",
    "lambda_decay",
    "layer_norm",
    "less_equal",
    "less_than",
    "linear_lr_warmup",
    "linspace",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lstm_unit",
    "mean",
    "mse",
    "mse_loss",
    "natural_exp_decay",
    "noam_decay",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "pad_constant_like",
    "piecewise_decay",
    "polynomial_decay",
    "pool2d",
    "pool3d",
    "prelu",
    "randint",
    "randn",
    "range",
    "rank",
    "resize_bilinear",
    "resize_nearest",
    "resize_trilinear",
    "scatter_nd",
    "sequence_mask",
    "soft_relu",
    "softmax",
    "softmax_with_cross_entropy",
    "split",
    "square_error_cost",
    "sums",
    "switch_case",
    "t",
    "tril",
    "triu",
    "uniform_random",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    made = None if name.startswith("_") else operator_layer(name, SPECS)
    if made is None:
        raise AttributeError(f"no layer or operator is named {name!r}{did_you_mean(name, [*REGISTRY, *SPECS, *__all__])}")
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return sorted({*__all__, *SPECS, *(name for name, row in REGISTRY.items() if not isinstance(row, GradOpDef | ControlDef))})
