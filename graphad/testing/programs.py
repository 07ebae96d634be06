"""Random programs of every kind, for ``check_pass``."""

from __future__ import annotations

from graphad.testing.calls import Interest
from dataclasses import replace
from graphad.backward import gradients
from graphad.errors import GraphadError
from graphad.testing.fitted import completed
from graphad.testing.operator_programs import operator_program
from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.nested import nested_program
from graphad.testing.optimizable import optimizable_program
from graphad.testing.straight_line import straight_line_program
from graphad.testing.training import training_program


def any_program(choices: Choices, interest: Interest) -> Case:
    """A program of any kind; one in four is differentiated."""
    case = _program(choices, interest)
    return differentiated(choices, case) if case.loss_name and choices.chance(4) else case


def _program(choices: Choices, interest: Interest) -> Case:
    kind = choices.below(10)
    if kind < 5:
        return operator_program(choices, interest)
    if kind < 7:
        return optimizable_program(choices, max_statements=2)
    return (straight_line_program, nested_program, training_program)[kind - 7](choices)


def differentiated(choices: Choices, case: Case) -> Case:
    block = case.program.global_block()
    try:
        gradients([block.var(case.loss_name)], [block.var(name) for name in case.sources])
        completed(case.program)
    except GraphadError:
        pass
    return replace(case, program=case.program)


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
