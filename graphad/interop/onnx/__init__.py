"""ONNX models: read as programs, differentiated, and written; the protobuf runtime comes with ``pip install 'graphad[onnx]'``.

Here belongs what knows ONNX. To read, ``reader`` goes through the nodes of a graph, ``operands`` folds what is known at load, and
``handlers`` say what each operator is here. To write, ``writing`` goes through a graph, and ``writers`` say what each operator is there, as
nodes of ``emitting``. What an operator computes is in ``graphad.ops``; Paddle's formats are in ``graphad.interop.paddle``.
"""

from graphad.interop.onnx.model import OnnxModel, gradients, load
from graphad.interop.onnx.operands import UnsupportedModel
from graphad.interop.onnx.saving import from_program, save
from graphad.interop.onnx.writers import CannotWrite
from graphad.interop.protobuf import MissingProtobuf

__all__ = ["CannotWrite", "MissingProtobuf", "OnnxModel", "UnsupportedModel", "from_program", "gradients", "load", "save"]
