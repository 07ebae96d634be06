"""Paddle's programs and models, read and written without Paddle; the protobuf runtime comes with ``pip install 'graphad[paddle]'``."""

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
