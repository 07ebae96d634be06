"""Handlers of ONNX operators, by what they do. Each module registers its own."""

from graphad.interop.onnx.handlers import (
    arranging,
    convolving,
    losing,
    normalizing,
    pointwise,
    quantizing,
    recurring,
    reducing,
    selecting,
    subgraphs,
)
from graphad.interop.onnx.handlers.handler import HANDLERS, Node, handler_of

__all__ = [
    "HANDLERS",
    "Node",
    "arranging",
    "convolving",
    "handler_of",
    "losing",
    "normalizing",
    "pointwise",
    "quantizing",
    "recurring",
    "reducing",
    "selecting",
    "subgraphs",
]
