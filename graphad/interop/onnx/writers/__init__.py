"""Writers of graphad's operators, by what they do. Each module registers its own.

Here belongs what an operator of graphad is in operators of ONNX, for an opset. What all of them share is in
``graphad.interop.onnx.emitting``; the other direction is in ``handlers``.
"""

from graphad.interop.onnx.writers import (
    arranging,
    attending,
    boxing,
    containing,
    convolving,
    loss_functions,
    multiplying,
    normalizing,
    pointwise,
    randomizing,
    reducing,
    resizing,
    scaling,
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
    "boxing",
    "by_formula",
    "containing",
    "convolving",
    "loss_functions",
    "multiplying",
    "normalizing",
    "pointwise",
    "randomizing",
    "reducing",
    "resizing",
    "scaling",
    "selecting",
]
