"""Programs as users write them: nested blocks of operators and variables, as plain data.

Here belongs the form that is written, copied, stored and printed. What needs single-assignment values is in ``graphad.ir``, what
appends operators for users is in ``graphad.layers``.
"""

from graphad.program.block import Block
from graphad.program.operator import (
    BACKWARD,
    EMPTY,
    FORWARD,
    OPTIMIZE,
    RANDOM_STREAM,
    ROLES,
    Operator,
    check_distinct,
    check_slots_and_attributes,
)
from graphad.program.paddle_gradients import in_own_form, rewrite_gradients
from graphad.program.program import Program, default_main_program, default_startup_program, program_guard, unique_name
from graphad.program.source import SourceLine, located, name_scope, user_line
from graphad.program.streams import random_streams, settle_streams
from graphad.program.variable import L1Decay, L2Decay, Parameter, Regularizer, Variable, name_in, stands_for
from graphad.types import STEP_SCOPES, TENSOR, TENSOR_ARRAY

__all__ = [
    "BACKWARD",
    "EMPTY",
    "FORWARD",
    "OPTIMIZE",
    "RANDOM_STREAM",
    "ROLES",
    "STEP_SCOPES",
    "TENSOR",
    "TENSOR_ARRAY",
    "Block",
    "L1Decay",
    "L2Decay",
    "Operator",
    "Parameter",
    "Program",
    "Regularizer",
    "SourceLine",
    "Variable",
    "check_distinct",
    "check_slots_and_attributes",
    "default_main_program",
    "default_startup_program",
    "in_own_form",
    "located",
    "name_in",
    "name_scope",
    "program_guard",
    "random_streams",
    "rewrite_gradients",
    "settle_streams",
    "stands_for",
    "unique_name",
    "user_line",
]
