"""Handlers of ONNX operators, by what they do. Each module registers its own.

Here belongs what an operator of ONNX is in operators of graphad, with its attributes, versions and defaults. What all of them share
(nodes, operands, names) is in ``graphad.interop.onnx.reader`` and ``operands``; the other direction is in ``writers``.
"""

from graphad.interop.onnx.handlers import (
    arranging,
    boxing,
    convolving,
    counting,
    differentiating,
    learning,
    loss_functions,
    microsoft,
    normalizing,
    pointwise,
    quantizing,
    recurring,
    reducing,
    selecting,
    sequences,
    signals,
    subgraphs,
)
from graphad.interop.onnx.handlers.handler import HANDLERS, MICROSOFT, ML, ONNX, Handler, Node, handler_of
from graphad.interop.onnx.handlers.subgraphs import attempt

__all__ = [
    "HANDLERS",
    "MICROSOFT",
    "ML",
    "ONNX",
    "Handler",
    "Node",
    "arranging",
    "attempt",
    "boxing",
    "convolving",
    "counting",
    "differentiating",
    "handler_of",
    "learning",
    "loss_functions",
    "microsoft",
    "normalizing",
    "pointwise",
    "quantizing",
    "recurring",
    "reducing",
    "selecting",
    "sequences",
    "signals",
    "subgraphs",
]
