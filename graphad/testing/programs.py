"""``any_program``: random programs of every kind, those that ``check_pass`` draws."""

from __future__ import annotations

from collections.abc import Callable

from graphad.testing.calls import Interest
from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.differentiated import differentiated
from graphad.testing.hardened import hardened
from graphad.testing.nested import nested_program
from graphad.testing.operator_programs import operator_program
from graphad.testing.optimizable import optimizable_program
from graphad.testing.straight_line import straight_line_program
from graphad.testing.trainable import trainable_program
from graphad.testing.training import training_program


def small_optimizable(choices: Choices, interest: Interest) -> Case:
    """An ``optimizable_program`` of few statements, in any dtype and with any extents."""
    return hardened(choices, optimizable_program(choices, max_statements=choices.one_of((1, 1, 2)), most_trips=7), extents=True)


def small_nested(choices: Choices, interest: Interest) -> Case:
    """A ``nested_program`` of few statements, in any dtype and with any extents."""
    case = nested_program(choices, max_depth=choices.one_of((1, 1, 2)), max_statements=1, max_nested=2, most_trips=7)
    return hardened(choices, case, extents=True)


def small_straight_line(choices: Choices, interest: Interest) -> Case:
    """A ``straight_line_program`` of few operators, in any dtype."""
    return hardened(choices, straight_line_program(choices, max_ops=6))


def small_training(choices: Choices, interest: Interest) -> Case:
    """A ``training_program`` of at most one hidden layer."""
    return training_program(choices, max_layers=1)


def trainable(choices: Choices, interest: Interest) -> Case:
    """A ``trainable_program``."""
    return trainable_program(choices)


def with_gradients(choices: Choices, interest: Interest) -> Case:
    """A program of any kind with gradients of its loss, if it has one that can be differentiated."""
    case = _program(choices, interest)
    return case if _has_gradients(case) else differentiated(choices, case) or case


Kind = Callable[[Choices, Interest], Case]
KINDS: dict[str, tuple[int, Kind]] = {  # how many of a hundred programs are of a kind
    "operators": (45, operator_program),
    "optimizable": (20, small_optimizable),
    "nested": (13, small_nested),
    "straight-line": (12, small_straight_line),
    "training": (10, small_training),
    "trainable": (0, trainable),
    "with-gradients": (0, with_gradients),
}
_TABLE = tuple(generator for share, generator in KINDS.values() for _ in range(share))


def any_program(choices: Choices, interest: Interest | None = None) -> Case:
    """A small program of any kind; a quarter of all have been differentiated, once or twice.

    Args:
        choices: where the decisions come from.
        interest: operators and attributes to prefer, where the kind of program has a choice of them.

    >>> from graphad.testing.choices import RandomChoices
    >>> case = any_program(RandomChoices("seed"))
    >>> bool(case.program.global_block().ops)
    True
    """
    case = _program(choices, interest or Interest())
    if not case.loss_name or not choices.chance(3) or _has_gradients(case):
        return case
    return differentiated(choices, case) or case


def _program(choices: Choices, interest: Interest) -> Case:
    return choices.one_of(_TABLE)(choices, interest)


def _has_gradients(case: Case) -> bool:
    return any(op.role != "forward" for op in case.program.global_block().ops)
