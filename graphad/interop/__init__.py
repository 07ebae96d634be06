"""Programs in and out: as text, as JSON, as Paddle's protobuf, with and without the values of their parameters; models of ONNX.

Here belong files and formats; everything of Paddle's is in ``paddle``, of ONNX's in ``onnx``. The text of programs is in
``graphad.program.text``, pictures are in ``graphad.drawing``.
"""

from graphad.interop import onnx, paddle
from graphad.interop.formats import FORMATS, read_program, write_program
from graphad.interop.json_form import from_json, to_json
from graphad.interop.report import refusals, unknown_operators
from graphad.interop.saving import Saved, load, save

__all__ = [
    "FORMATS",
    "Saved",
    "from_json",
    "load",
    "onnx",
    "paddle",
    "read_program",
    "refusals",
    "save",
    "to_json",
    "unknown_operators",
    "write_program",
]
