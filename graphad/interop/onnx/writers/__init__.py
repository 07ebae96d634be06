"""Writers of graphad's operators, by what they do. Each module registers its own."""

from graphad.interop.onnx.writers import (
    arranging,
    attending,
    containing,
    convolving,
    losing,
    multiplying,
    normalizing,
    pointwise,
    randomizing,
    reducing,
    resizing,
    selecting,
)
from graphad.interop.onnx.writers.writer import WRITERS, Call, CannotWrite, Writer, by_formula

__all__ = [
    "WRITERS",
    "Call",
    "CannotWrite",
    "Writer",
    "arranging",
    "attending",
    "by_formula",
    "containing",
    "convolving",
    "losing",
    "multiplying",
    "normalizing",
    "pointwise",
    "randomizing",
    "reducing",
    "resizing",
    "selecting",
]
