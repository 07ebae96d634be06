"""Small random programs from every registered operator: ``operator_program``.

Calls come from the samples of the operators, with other attributes, dtypes, extents and numbers. Around them stands what passes
get wrong: the same operator again with one thing changed, results that feed other operators, names that are overwritten, state,
loops and branches. A program has few of these, so that the sum of many programs has them all (A. Groce and others, Swarm testing,
ISSTA 2012).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphad.ops.sample import Array, Value
from graphad.program import Program
from graphad.testing.call_blocks import BLOCKS
from graphad.testing.call_statements import CallProgram, chain, plain, reading, twins
from graphad.testing.call_writer import type_checks
from graphad.testing.calls import Interest, finite
from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.number_pools import array_of
from graphad.testing.values import name_of
from graphad.types import FLOATS

LARGEST = 1e8  # of what goes into a loss: a sum of squares of it has to be finite in float32

Statement = Callable[[CallProgram], None]
STATEMENTS: tuple[Statement, ...] = (plain, plain, chain, chain, chain, twins, twins)


def operator_program(choices: Choices, interest: Interest | None = None) -> Case:
    """A program of mostly two to five operators, drawn from all that are registered, with a scalar loss over what is differentiable.

    Args:
        choices: where the decisions come from.
        interest: operators and attributes to prefer.

    Returns:
        A case whose program runs. The loss is the mean or sum of some finite results of float32 or float64; there is none if the
        program has no such results. Other unused results may be nan or infinite.

    >>> from graphad.testing.choices import RandomChoices
    >>> case = operator_program(RandomChoices("seed"), Interest(types=("tanh",)))
    >>> any(op.type == "tanh" for op in case.program.global_block().ops)
    True
    """
    w = CallProgram(choices, interest or Interest())
    for _ in range(choices.one_of((0, 0, 1))):
        choices.one_of(STATEMENTS)(w)
    if choices.chance(3) or any(op_type in w.interest.types for op_type in BLOCKS):
        _block(w)
    else:
        choices.one_of(STATEMENTS)(w)
    if choices.chance(5) or not w.block.ops:
        chain(w)
    loss = _loss(w) or _other_loss(w)
    if choices.chance(8):
        plain(w)
    unknown_extent(w.choices, w.program, w.feeds)
    return Case(w.program, loss, w.feeds, w.params)


def _block(w: CallProgram) -> None:
    preferred = [write for op_type, write in BLOCKS.items() if op_type in w.interest.types]
    w.choices.one_of(preferred or tuple(BLOCKS.values()))(w)


# -- the loss ------------------------------------------------------------------------------------


def _loss(w: CallProgram, moving: bool = True) -> str:
    """A scalar made of one or two results, weighted so that gradients differ by element; empty if no result fits.

    Args:
        w: the program.
        moving: whether only results count that have a gradient with respect to data or parameters.
    """
    names = [name for name in w.tensors(floating=True) if name not in w.underivable and _harmless(w.values[name])]
    results = [name for name in names if name in w.moving and name not in w.feeds and name not in w.params] or names * (not moving)
    if not results:
        return ""
    dtype = w.values[results[0]].dtype
    results = [name for name in results if w.values[name].dtype == dtype]
    reduction, attrs = w.choices.one_of((("mean", {}), ("reduce_sum", {"reduce_all": True})))
    chosen = dict.fromkeys([results[0], *w.choices.several(results, 0, 1)])
    parts = [part for name in chosen if (part := w.apply(reduction, {"X": [_weighted(w, name)]}, attrs)) is not None]
    return (w.apply("sum", {"X": parts}, {}) or "") if len(parts) > 1 else "".join(parts)


def _other_loss(w: CallProgram) -> str:
    """The loss over another operator's results, in most programs that have nothing for one so far."""
    if w.choices.chance(4):
        return ""
    name = w.data(array_of(w.choices, w.choices.one_of(((2, 3), (3,), (1, 5))), w.choices.one_of(FLOATS[1:])))
    call = reading(w, name)
    if call is not None:
        w.append(*call)
    return _loss(w, moving=False)


def _harmless(value: Value) -> bool:
    return name_of(value.dtype) in FLOATS[1:] and value.size > 0 and finite(value) and float(np.abs(value).max()) < LARGEST


def _weighted(w: CallProgram, name: str) -> str:
    value = w.values[name]
    if value.size == 1 or w.choices.chance(4):
        return name
    numbers = array_of(w.choices, value.shape, name_of(value.dtype)) + value.dtype.type(2.0)
    weights = w.constant(numbers) if w.choices.boolean() else w.data(numbers, stop_gradient=True)
    return w.apply("elementwise_mul", {"X": [name], "Y": [weights]}, {}) or name


# -- extents that are not declared ---------------------------------------------------------------


def unknown_extent(choices: Choices, program: Program, feeds: dict[str, Array]) -> None:
    """Declare the first extent of what is fed as unknown, in a few programs; not where inference has to know it."""
    if not choices.chance(6):
        return
    root = program.global_block()
    declared = {name: root.vars[name].declared for name in feeds if feeds[name].ndim}
    for name in declared if choices.boolean() else [*declared][:1]:
        shape, dtype = declared[name]
        root.vars[name].declare((-1, *(shape or ())[1:]), dtype)
    if not type_checks(program):
        for name, (shape, dtype) in declared.items():
            root.vars[name].declare(shape, dtype)
