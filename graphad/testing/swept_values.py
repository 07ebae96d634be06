"""Sweeps over numbers, dtypes and shapes at which rewrites that look right go wrong."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

import numpy as np

from graphad.ops import lookup
from graphad.testing.call_writer import Names
from graphad.testing.calls import Call, Interest
from graphad.testing.cases import (
    FLOAT16,
    NON_FINITE,
    STEEP,
    Case,
    Choices,
    RandomChoices,
    array_of,
)
from graphad.testing.operator_programs import NEVER, CallProgram
from graphad.testing.swept_calls import (
    DTYPES,
    EXTENT,
    SHAPES,
    Gradually,
    append_over,
    converted,
    in_order,
    known_calls,
    loss_of,
    renumbered,
    reshaped,
    types_of,
    varied,
)

INTEGERS = ("int64", "int32")
VALUED = 4  # so many calls a program
CONSTANT, SAME = 3, 2  # of so many operands one is a constant; of so many calls one has the same operand twice


@cache
def _turns(types: tuple[str, ...], kinds: tuple[str, ...]) -> Gradually[tuple[str, str]]:
    """Every operator with every kind of numbers, the common operators first, again and again."""
    return Gradually(lambda: _each_with_every_kind(in_order(types), kinds))


def _each_with_every_kind(types: tuple[str, ...], kinds: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for shift in itertools.count():
        order = filter(_reads_numbers, types) if any(map(_reads_numbers, types)) else types
        yield from ((op_type, kinds[(i + shift) % len(kinds)]) for i, op_type in enumerate(order))


@cache
def _reads_numbers(op_type: str) -> bool:
    """Whether the results of an operator follow the numbers in its inputs; those of ``shape`` do not."""
    call = next((call for call in known_calls(lookup(op_type)) if call.inputs), None)
    if call is None:
        return False
    variant = renumbered(RandomChoices(op_type), call, "kinks")
    return any(not np.array_equal(a, b) for slot in call.outputs for a, b in zip(call.outputs[slot], variant.outputs[slot], strict=False))


def value_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators on ties, kinks, zeros, large and tiny numbers, nan, in any dtype and shape; a loss where the results are fit for one."""
    w = CallProgram(choices, interest)
    turns = _turns(types_of(interest), (NON_FINITE, *interest.kinds[:4], NON_FINITE, *interest.kinds[4:], "sample", NON_FINITE))
    results: list[str] = []
    for op_type, kind in turns.piece(start * VALUED, VALUED):
        call = varied(choices, op_type, interest)
        if call is None:
            continue
        dtype = choices.one_of(DTYPES)
        if dtype in INTEGERS:
            kind = choices.one_of(("integers", "sample", "large" if "large" in interest.kinds else "integers"))
        call = reshaped(converted(call, dtype), choices.one_of(SHAPES))
        if kind != "sample":
            call = renumbered(choices, call, kind)
        call, names = _operands(w, call)
        written_names = w.append(call, names, overwrite=NEVER)
        # A loss of numbers that are not finite says nothing.
        results += [name for name in written_names if kind != NON_FINITE]
    return Case(w.program, loss_of(w, results), w.feeds, w.params)


def steep_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators over a product of matrices, on numbers that are exact in float16, but whose exponentials are too large for it.

    There is no loss: gradients that are as large may well be infinite in a narrow type.
    """
    w = CallProgram(choices, interest)
    x = w.data(array_of(choices, (EXTENT, EXTENT), "float32", STEEP))
    y = w.data(np.eye(EXTENT, dtype="float32"))
    product = w.apply(choices.one_of(("mul", "matmul_v2")), {"X": [x], "Y": [y]}, {})
    turns = _in_turns(in_order(types_of(interest)), steep=start % 2 == 0)
    for op_type in turns.piece(start * VALUED, VALUED):
        if product:
            append_over(w, op_type, product, NEVER)
    return Case(w.program, "", w.feeds, w.params)


@cache
def _in_turns(types: tuple[str, ...], steep: bool) -> Gradually[str]:
    """Operators, again and again: all of them, or the steep ones."""
    return Gradually(lambda: itertools.cycle(_steep_of(types) if steep else types))


def _steep_of(types: tuple[str, ...]) -> Iterator[str]:
    """The operators that make numbers of these which float16 does not hold; all if there are none."""
    is_any = False
    for op_type in types:
        if any(map(_is_steep, known_calls(lookup(op_type)))):
            is_any = True
            yield op_type
    if not is_any:
        yield from types


def _is_steep(call: Call) -> bool:
    arrays = renumbered(RandomChoices(call.op.type), converted(call, "float32"), STEEP).results
    return any(array.dtype.kind == "f" and bool((np.isfinite(array) & (np.abs(array) > FLOAT16)).any()) for array in arrays)


def _operands(w: CallProgram, call: Call) -> tuple[Call, Names]:
    """A call and names for its inputs: data, now and then a constant, or one name for two inputs of one type."""
    if w.choices.chance(SAME):
        call = _with_one_operand(call)
    names: dict[int, str] = {}
    names_of_slots: Names = {}
    inputs = {slot: list(values) for slot, values in call.inputs.items()}
    for slot, values in inputs.items():
        for i, value in enumerate(values):
            # One object is one variable.
            operand = names.get(id(value))
            if operand is None and isinstance(value, np.ndarray) and value.size and w.choices.chance(CONSTANT):
                operand = w.number_like(value)
            name = operand or (w.data(value) if isinstance(value, np.ndarray) else w.new(value))
            names[id(value)] = name
            names_of_slots.setdefault(slot, []).append(name)
            values[i] = w.values[name]
    new_call = call.with_inputs(inputs)
    return (
        (new_call, names_of_slots) if new_call is not None else (call, {s: [w.new(v) for v in values] for s, values in call.inputs.items()})
    )


def _with_one_operand(call: Call) -> Call:
    """The call with the first of two inputs of one type in both places, if there are such and the operator takes it."""
    for first, second in _alike(call):
        inputs = {slot: [first if value is second else value for value in values] for slot, values in call.inputs.items()}
        new_call = call.with_inputs(inputs)
        if new_call is not None:
            return new_call
    return call


def _alike(call: Call) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    tensors = [value for values in call.inputs.values() for value in values if isinstance(value, np.ndarray)]
    for i, first in enumerate(tensors):
        for second in tensors[i + 1 :]:
            if first is not second and first.shape == second.shape and first.dtype == second.dtype:
                yield first, second
