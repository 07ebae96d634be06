"""ONNX models: read as programs, differentiated, and written; the protobuf runtime comes with ``pip install 'graphad[onnx]'``.

What reads an operator is in ``handlers``; ``reader`` goes through the nodes of a graph, ``operands`` folds what is known at load.
"""

from graphad.interop.onnx.model import OnnxModel, gradients, load
from graphad.interop.onnx.operands import UnsupportedModel
from graphad.interop.onnx.saving import from_program, save
from graphad.interop.onnx.writers import CannotWrite
from graphad.interop.protobuf import MissingProtobuf

__all__ = ["CannotWrite", "MissingProtobuf", "OnnxModel", "UnsupportedModel", "from_program", "gradients", "load", "save"]
