"""What a user builds models from. Every registered operator is a layer too: ``layers.tanh(x)``, ``layers.concat([x, y], axis=1)``."""

from __future__ import annotations

from typing import Any

from graphad.layers.helper import LayerHelper, ParamAttr
from graphad.layers.loss import accuracy, cross_entropy, mean, mse, softmax_with_cross_entropy, square_error_cost
from graphad.layers.nn import batch_norm, conv2d, data, dropout, embedding, fc, layer_norm, pool2d
from graphad.ops.definition import did_you_mean
from graphad.ops.symbol import REGISTRY

__all__ = [
    "LayerHelper",
    "ParamAttr",
    "accuracy",
    "batch_norm",
    "conv2d",
    "cross_entropy",
    "data",
    "dropout",
    "embedding",
    "fc",
    "layer_norm",
    "mean",
    "mse",
    "pool2d",
    "softmax_with_cross_entropy",
    "square_error_cost",
]


def __getattr__(name: str) -> Any:
    if name in REGISTRY:
        return REGISTRY[name]
    raise AttributeError(f"no layer or operator is named {name!r}{did_you_mean(name, [*REGISTRY, *__all__])}")
