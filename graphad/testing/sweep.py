"""Sweeps: programs that go through all operators in turn, so that nothing of them is left to chance."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from graphad.testing.call_statements import operators
from graphad.testing.calls import Interest
from graphad.testing.cases import Case
from graphad.testing.choices import Choices, RandomChoices
from graphad.testing.nested import nested_program
from graphad.testing.nested_blocks import accumulate, delay
from graphad.testing.number_pools import SHORT
from graphad.testing.operator_programs import unknown_extent
from graphad.testing.programs import any_program
from graphad.testing.swept_blocks import block_sweep
from graphad.testing.swept_chains import chain_sweep
from graphad.testing.swept_names import name_sweep
from graphad.testing.swept_operators import constant_sweep, gradient_sweep
from graphad.testing.swept_slopes import slope_sweep
from graphad.testing.swept_twins import twin_sweep
from graphad.testing.swept_values import steep_sweep, value_sweep

Sweep = Callable[[Choices, Interest, int], Case]
SWEEPS: tuple[Sweep, ...] = (
    *(twin_sweep, chain_sweep, value_sweep, block_sweep) * 3,
    *(gradient_sweep, name_sweep) * 2,
    constant_sweep,
)
LED: tuple[Sweep, ...] = (  # where a pass names a few operators: there are few twins of them, and many chains
    *(value_sweep, chain_sweep) * 4,
    *(gradient_sweep, name_sweep, block_sweep) * 2,
    twin_sweep,
    constant_sweep,
)
OF_BLOCKS: tuple[Sweep, ...] = (*(block_sweep,) * 8, twin_sweep, chain_sweep, value_sweep, gradient_sweep, name_sweep)
FEW = 20  # operators
FIRST = (None, delay, accumulate, delay)  # what the first operator with blocks of a nested program is; None: any
SEEDS = 1 << 30
SWEPT = 4, 5  # so many programs of so many go through all operators in turn; they are small


def nested_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """A small ``nested_program`` as it is: all smooth, in float64 and of tame numbers, so that differences say what its gradients are."""
    depth, count, first = choices.one_of((1, 1, 2)), choices.one_of((1, 1, 2)), FIRST[start % len(FIRST)]
    return nested_program(choices, depth, max_statements=1, max_nested=count, arrays=choices.chance(4), most_trips=3, first=first)


AFTER_BACKWARDS: tuple[Sweep, ...] = (*(gradient_sweep, block_sweep, nested_sweep, chain_sweep, name_sweep) * 2, twin_sweep, value_sweep)
OF_BACKWARDS: tuple[Sweep, ...] = (
    *(gradient_sweep, block_sweep, nested_sweep, slope_sweep, slope_sweep) * 3,
    nested_sweep,
    name_sweep,
    chain_sweep,
    value_sweep,
)


def _led(interest: Interest, are_few: bool) -> tuple[Sweep, ...]:
    """The mix of sweeps about what is of interest."""
    if interest.blocks:
        return OF_BLOCKS
    return LED if are_few else SWEEPS


def sweeps(interest: Interest, is_backward: bool = False, after_backward: bool = False) -> Callable[[Choices], Case]:
    """A source of programs that go on where the last one of their kind ended; most are about operators of interest if these are few.

    Args:
        interest: operators to go through, and attributes to change, more often.
        is_backward: whether a backward is built, so that only programs with a loss are of use.
        after_backward: whether what is on trial comes after it.

    Returns:
        A function of choices, of which it takes one number: which sweep comes next is not left to them.
    """
    everything = replace(interest, types=(), attrs=())
    interest = everything if 2 * len(interest.types) > len(operators()) else interest
    are_few = 0 < len(interest.types) <= FEW
    led, others = _led(interest, are_few), SWEEPS
    if is_backward:
        led = others = AFTER_BACKWARDS if after_backward else OF_BACKWARDS
    others = (*others, *(steep_sweep,) * 3) if interest.kinds == SHORT else others
    kinds = [*((sweep, interest) for sweep in led * (2 if are_few else 1)), *((sweep, everything) for sweep in others)]
    random.Random("kinds").shuffle(kinds)
    turns: dict[tuple[Sweep, Interest], Iterator[int]] = defaultdict(itertools.count)
    numbers = itertools.count()

    def program(choices: Choices) -> Case:
        number = next(numbers)
        sweep, leaning = kinds[number % len(kinds)]
        own = RandomChoices(f"{choices.below(SEEDS)} {number}")
        case = sweep(own, leaning, next(turns[sweep, leaning]))
        unknown_extent(own, case.program, case.feeds)
        return case

    return program


def drawn(interest: Interest, is_backward: bool = False, after_backward: bool = False) -> Callable[[Choices], Case]:
    """A source of programs of which four of five are sweeps, and the others random ones of any kind; see ``sweeps``."""
    swept = sweeps(interest, is_backward, after_backward)
    return lambda choices: swept(choices) if choices.below(SWEPT[1]) < SWEPT[0] else any_program(choices, interest)
