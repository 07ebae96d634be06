"""Programs that have been differentiated already, so that passes get gradients, and the gradient operators of every operator."""

from __future__ import annotations

from dataclasses import replace

from graphad.backward import append_backward, gradients
from graphad.errors import GraphadError
from graphad.program import Program, Variable
from graphad.testing.cases import Case
from graphad.testing.choices import Choices

MOST_ONCE = 60  # operators up to which a program that was differentiated once is differentiated again: it gets four times as large


def differentiated(choices: Choices, case: Case) -> Case | None:
    """The case with gradients of its loss appended; in a third of the cases gradients of those as well, in a sixth a loss made of them.

    Args:
        choices: where the decisions come from.
        case: a case with a loss. It is not changed.

    Returns:
        A case with the same loss, or one made of gradients. None if it has no loss, nothing to differentiate with respect to, or an
        operator on the way has no gradient rule.

    >>> from graphad.testing.choices import RandomChoices
    >>> from graphad.testing.fitted import random_case
    >>> program = Program.parse("program { block 0 { var x: float64[3] square(X=x) -> (Out=y) mean(X=y) -> (Out=loss) } }")
    >>> case = differentiated(RandomChoices("seed"), random_case(program, loss_name="loss"))
    >>> "x@GRAD" in case.program.global_block().vars
    True
    """
    sources = case.sources if case.loss_name else []
    if not sources:
        return None
    twin = case.clone()
    chosen = [name for name in sources if not choices.chance(4)] or sources
    kind = choices.below(6)
    try:
        first = _first(choices, twin, chosen)
        twice = kind < 2 and _size(twin.program) <= MOST_ONCE
        if first and twice:
            _second(twin.program, first, chosen)
        if first and kind == 2 and (total := _sum_of_squares(twin.program, first)):
            return replace(twin, loss_name=total)
    except GraphadError:
        return None
    return replace(twin, forward=case, order=1 + twice) if first else None


def with_gradients(case: Case, order: int) -> Case | None:
    """The case with the gradients of its loss with respect to all its sources, and of those in turn; None where there are none."""
    twin = case.clone()
    block = twin.program.global_block()
    try:
        first = [g for g in gradients(twin.loss, [block.var(name) for name in twin.sources]) if g is not None] if case.loss_name else []
        if order > 1 and first:
            _second(twin.program, first, twin.sources)
    except GraphadError:
        return None
    return replace(twin, forward=case, order=order) if first else None


def _size(program: Program) -> int:
    return sum(len(block.ops) for block in program.blocks)


def _first(choices: Choices, case: Case, sources: list[str]) -> list[Variable]:
    """The gradients of the loss: those that ``append_backward`` gives parameters if there are any, or with respect to some names."""
    if case.program.all_parameters() and choices.boolean():
        return [gradient for _, gradient in append_backward(case.loss)]
    block = case.program.global_block()
    return [g for g in gradients(case.loss, [block.var(name) for name in sources]) if g is not None]


def _second(program: Program, first: list[Variable], sources: list[str]) -> None:
    """The gradients of the sum of squares of gradients."""
    block = program.global_block()
    total = _sum_of_squares(program, first)
    if total:
        gradients(block.var(total), [block.var(name) for name in sources])


def _sum_of_squares(program: Program, first: list[Variable]) -> str:
    """The name of the sum of squares of up to two gradients, empty if they stop gradients themselves."""
    block = program.global_block()
    parts = []
    for gradient in first[:2]:
        if gradient.dtype != first[0].dtype or gradient.stop_gradient:
            continue
        squares, part = (program.names.generate(stem) for stem in ("squares", "part"))
        block.append_op("square", {"X": gradient}, {"Out": squares})
        block.append_op("reduce_sum", {"X": squares}, {"Out": part}, {"reduce_all": True})
        parts.append(part)
    if not parts:
        return ""
    total: str = program.names.generate("total")
    block.append_op("sum", {"X": parts}, {"Out": total})
    return total
