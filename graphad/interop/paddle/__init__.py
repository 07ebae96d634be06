"""Paddle's programs and models, read and written without Paddle; the protobuf runtime comes with ``pip install 'graphad[paddle]'``.

Here belong Paddle's files: its protobuf of programs, its streams of parameters, and what they call things otherwise. Operators have
Paddle's types, slots and attributes everywhere in graphad, so there is nothing to translate for them; gradients in Paddle's form are
rewritten by ``graphad.program.paddle_gradients``, and other formats are in ``graphad.interop``.
"""

from graphad.interop.paddle.models import InferenceModel, load_inference_model, save_inference_model
from graphad.interop.paddle.program_desc import dump_program, load_program
from graphad.interop.protobuf import MissingProtobuf
from graphad.interop.report import refusals, unknown_operators

__all__ = [
    "InferenceModel",
    "MissingProtobuf",
    "dump_program",
    "load_inference_model",
    "load_program",
    "refusals",
    "save_inference_model",
    "unknown_operators",
]
