"""Random programs of every kind, for ``check_pass``."""

from __future__ import annotations

from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.interest import Interest
from graphad.testing.nested import nested_program
from graphad.testing.optimizable import optimizable_program
from graphad.testing.straight_line import straight_line_program
from graphad.testing.training import training_program


def any_program(choices: Choices, interest: Interest = Interest()) -> Case:  # noqa: B008
    """A program of any kind."""
    kind = choices.below(10)
    if kind < 7:
        return optimizable_program(choices, max_statements=2)
    return (straight_line_program, nested_program, training_program)[kind - 7](choices)


def requested_names(choices: Choices, case: Case) -> tuple[str, ...]:
    """What to request of a program: mostly all that no operator reads, else the loss alone, or all that is written."""
    kind = choices.below(8)
    if kind == 6 and case.loss_name:
        return (case.loss_name,)
    if kind == 7:
        block = case.program.global_block()
        names = (
            dict.fromkeys(name for op in block.ops for name in op.output_names() if block.vars[name].type == "LOD_TENSOR")
            if all(n in block.vars for op in block.ops for n in op.output_names())
            else {}
        )
        return tuple(name for name in names)
    return ()
