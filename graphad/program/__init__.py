"""What a user writes: programs of nested blocks of operators and variables, as plain data."""

from graphad.program.block import Block
from graphad.program.defaults import default_main_program, default_startup_program, program_guard, unique_name
from graphad.program.operator import BACKWARD, EMPTY, FORWARD, OPTIMIZE, ROLES, Operator
from graphad.program.program import Program
from graphad.program.source import SourceLine, located, user_line
from graphad.program.variable import STEP_SCOPES, TENSOR, TENSOR_ARRAY, Parameter, Variable

__all__ = [
    "BACKWARD",
    "EMPTY",
    "FORWARD",
    "OPTIMIZE",
    "ROLES",
    "STEP_SCOPES",
    "TENSOR",
    "TENSOR_ARRAY",
    "Block",
    "Operator",
    "Parameter",
    "Program",
    "SourceLine",
    "Variable",
    "default_main_program",
    "default_startup_program",
    "located",
    "program_guard",
    "unique_name",
    "user_line",
]
