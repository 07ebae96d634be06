"""What random cases request of their programs: mostly all that is unused, else less, or more."""

from __future__ import annotations

from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.types import TENSOR

ALL_IN, ALONE, EVERYTHING = 8, 6, 7  # of so many cases one requests the loss alone, and one every tensor that is written


def requested_names(choices: Choices, case: Case) -> tuple[str, ...]:
    """The names to request; none stands for the default of a case."""
    kind = choices.below(ALL_IN)
    if kind == ALONE and case.loss_name:
        return (case.loss_name,)
    if kind != EVERYTHING:
        return ()
    block = case.program.global_block()
    written = dict.fromkeys(name for op in block.ops for name in op.output_names())
    return tuple(name for name in written if name in block.vars and block.vars[name].type == TENSOR)
