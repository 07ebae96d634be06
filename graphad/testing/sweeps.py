"""Sweeps: programs that go through all operators in turn, so that nothing of them is left to chance."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from graphad.ops import GRAD, ControlDef, OpDef, lookup
from graphad.ops.sample import Value
from graphad.testing.call_writer import Names
from graphad.testing.calls import Call, Draft, Interest, Slots, candidates_of, inferred, other_attr
from graphad.testing.cases import (
    MIXED,
    NARROW,
    NON_FINITE,
    SHORT,
    WIDE,
    Case,
    Choices,
    RandomChoices,
    array_of,
    renumbered_case,
    retyped,
)
from graphad.testing.derivatives import NO_SLOPE, has_slope, side_results
from graphad.testing.nested import accumulate, delay, nested_program
from graphad.testing.open_extents import unknown_extent
from graphad.testing.operator_programs import COMMON, NEVER, CallProgram, operators, over, over_all
from graphad.testing.programs import any_program, differentiated
from graphad.testing.samples.valid import computed
from graphad.testing.swept_blocks import block_sweep
from graphad.testing.swept_calls import (
    CALLS_TRIED,
    DTYPES,
    FIRST_SHAPES,
    FLOATS_DRAWN,
    Gradually,
    append_over,
    converted,
    exchanged,
    in_order,
    known_calls,
    loss_of,
    renumbered,
    reshaped,
    types_of,
    varied,
)
from graphad.testing.swept_gradients import gradient_operator_sweep
from graphad.testing.swept_values import steep_sweep, value_sweep
from graphad.testing.values import name_of, random_like
from graphad.types import Array

# -- swept chains ----------------------------------------------------------------------------------
# Programs in which operators read each other's results, every operator after every other one.

CHAINS = 2  # so many pairs of operators a program
DIAMONDS = 4  # of so many pairs in one the second reads the first twice
TRIANGLES = 3  # of so many others in one the second reads what the first reads, too
NUMBERS_BESIDE = 2  # of so many of these in one the first reads a number
SIDES = 3  # of so many others in one the second joins two results of the first, over different values
RESHAPED = 6  # one first call of so many has other extents
PARTS = 3  # of so many first operators with several results one has another one over each of two
UNARY = ("tanh", "softmax", "scale", "square", "cumsum")
SANDWICHES = 3  # and of so many others in one the first comes once more after the second
OF_INTEGERS = ("ordinary", "large")  # kinds of numbers that integers have
NARROWED = ("float32", "float64")  # what a pass makes narrower
LINKS = (  # what is between operators of interest: copies, views, arithmetic
    "assign",
    "scale",
    "cast",
    "reshape",
    "reshape2",
    "transpose2",
    "slice",
    "squeeze2",
    "unsqueeze2",
    "elementwise_add",
    "elementwise_mul",
    "tanh",
    "concat",
    "dropout",
)


def chain_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Pairs of operators, the second over a result of the first; what lies before and between them is perhaps read once more.

    Operators of interest come with each other in every second turn, and else with what is often between them.
    """
    w = CallProgram(choices, interest)
    w.non_finite = choices.chance(4)
    w.stopped = choices.one_of((2, 3) if interest.marks else (2, 6, 16))
    w.kinds = (*interest.kinds, *(NON_FINITE,) * (3 * w.non_finite))
    types = in_order(types_of(interest))
    around = tuple(dict.fromkeys((*types, *LINKS))) if interest.types else types
    mentioned = tuple(word for word in interest.constants.words if word in DTYPES)
    dtype = choices.one_of(NARROWED if interest.kinds == SHORT else mentioned if mentioned and choices.boolean() else DTYPES)
    results: list[str] = []
    for number in range(start * CHAINS, (start + 1) * CHAINS):
        # Each turn goes through all types, with partners one step further on: after as many turns every pair has come up.
        turn, place = divmod(number, len(types))
        partners, step = (around, turn) if not interest.types else ((types, around)[turn % 2], turn // 2)
        pair = [types[place], partners[(place + step) % len(partners)]]
        pair = pair[::-1] if choices.boolean() else pair
        writers = [(_diamond, DIAMONDS), (_triangle, TRIANGLES), (_sides, SIDES), (_sandwich, SANDWICHES)]
        writers = [(_parts, PARTS), *writers] if _has_several(lookup(pair[0])) else writers
        write = next((write for write, one_in in writers if choices.chance(one_in)), _chain)
        results += write(w, pair, dtype)
    return Case(w.program, loss_of(w, results), w.feeds, w.params)


def _chain(w: CallProgram, types: list[str], dtype: str) -> list[str]:
    """One operator after another; the names of the results, the last first."""
    written_names: list[str] = []
    names = _first(w, types[0], dtype)
    sources = [name for name in w.block.ops[-1].input_names() if isinstance(w.values[name], np.ndarray)] if names else []
    for op_type in types[1:]:
        written_names = names + written_names
        tensors = [name for name in names if isinstance(w.values[name], np.ndarray)]
        names = append_over(w, op_type, w.choices.one_of(tensors), 8) if tensors else []
    written_names = names + written_names
    # Other readers, of where the chain comes from and of a value in its middle, which a pass must not take away.
    for operands in (sources, written_names[len(names) :]):
        if names and operands and w.choices.chance(3):
            written_names += append_over(w, w.choices.one_of(("tanh", "scale", types[0])), w.choices.one_of(operands), 8)
    return written_names


def _diamond(w: CallProgram, types: list[str], dtype: str) -> list[str]:
    """An operator twice over the same, with other attributes perhaps, and another one that joins the two; the names of the results."""
    first = _first_call(w, types[0], dtype)
    names = w.append(*first, overwrite=NEVER) if first is not None else []
    if first is None or not names or not isinstance(w.values[names[0]], np.ndarray):
        return names
    return _joined(w, types[-1], names, w.append(_related(w, first[0]), first[1], overwrite=NEVER))


def _triangle(w: CallProgram, types: list[str], dtype: str) -> list[str]:
    """An operator, and another one over its result and what it read; the names of the results.

    ``where(x > y, x, y)``, ``x - reduce_max(x)``, ``x * sigmoid(x)``: idioms that a rewrite knows.
    """
    first = _first_call(w, types[0], dtype)
    if first is not None and w.choices.chance(NUMBERS_BESIDE):
        first = _beside_number(w, *first)
    names = w.append(*first, overwrite=NEVER) if first is not None else []
    if first is None or not names or not isinstance(w.values[names[0]], np.ndarray):
        return names
    operands = [name for read in first[1].values() for name in read if isinstance(w.values[name], np.ndarray)]
    calls = (_call_over_all(w, types[-1], dtype, names[0], operands) for _ in range(CALLS_TRIED))
    again = next((each for each in calls if each is not None), None)
    return (w.append(*again, overwrite=NEVER) if again is not None else []) + names


def _call_over_all(w: CallProgram, op_type: str, dtype: str, name: str, operands: list[str]) -> tuple[Call, Names] | None:
    call = varied(w.choices, op_type, w.interest)
    call = None if call is None else converted(call, dtype)
    draft = None if call is None else inferred(Draft(call.op, call.inputs, call.attrs, call.number))
    return None if draft is None else over_all(w, draft, name, operands)


def _beside_number(w: CallProgram, call: Call, names: Names) -> tuple[Call, Names]:
    """The call with a number in the place of its last operand, if it has several and takes it."""
    slot = next(reversed(names), "")
    if sum(map(len, names.values())) < 2 or len(names[slot]) != 1 or not isinstance(call.inputs[slot][0], np.ndarray):
        return call, names
    number = w.number_like(call.inputs[slot][0])
    with_number = call.with_inputs({**call.inputs, slot: [w.values[number]]})
    return (call, names) if with_number is None or not w.accepts(with_number) else (with_number, {**names, slot: [number]})


def _sides(w: CallProgram, types: list[str], dtype: str) -> list[str]:
    """An operator twice with the same attributes, over different values, and another one that joins the two; the names of the results.

    ``cast(x) + cast(y)``, ``concat(slice(x), slice(y))``: what a rewrite that moves operators across a join looks for.
    """
    first = _first_call(w, types[0], dtype)
    names = w.append(*first, overwrite=NEVER) if first is not None else []
    if first is None or not names or not isinstance(w.values[names[0]], np.ndarray):
        return names
    call = first[0]
    if w.choices.boolean():
        call = renumbered(w.choices, call, w.choices.one_of(_kinds(w, call)))
    return _joined(w, types[-1], names, w.append(call, w.named(call, {}), overwrite=NEVER))


def _has_several(op: OpDef) -> bool:
    """Whether an operator has several results."""
    return len(op.outputs) > 1 or any(slot.variadic for slot in op.outputs.values())


def _parts(w: CallProgram, types: list[str], dtype: str) -> list[str]:
    """An operator with several results, another one over each of two, and one that joins those; the names of the results.

    ``merge(mask, f(rows where it holds), f(the others))``: what is cut into parts, and treated alike.
    """
    first = _first_call(w, types[0], dtype)
    names = w.append(*first, overwrite=NEVER) if first is not None else []
    parts = [name for name in names if isinstance(w.values[name], np.ndarray) and w.values[name].dtype == w.values[names[0]].dtype][:2]
    if first is None or len(parts) < 2:
        return names
    between = w.choices.one_of((*(t for t in w.interest.types if t in operators()), *UNARY))
    call = varied(w.choices, between, w.interest)
    call = None if call is None else converted(call, name_of(w.values[parts[0]].dtype))
    draft = None if call is None else inferred(Draft(call.op, call.inputs, call.attrs, call.number))
    calls = [] if draft is None else [over(w, draft, part) for part in parts]
    sides = [written_names[0] for each in calls if each is not None and (written_names := w.append(*each, overwrite=NEVER))]
    if len(sides) < 2 or not all(isinstance(w.values[side], np.ndarray) for side in sides):
        return sides + names
    # Of merge_lod_tensor(X, Mask, InTrue, InFalse) the second part comes last, and the first one after what was parted.
    operands = [*(name for read in first[1].values() for name in read if isinstance(w.values[name], np.ndarray)), sides[0]]
    joins = (_call_over_all(w, types[-1], dtype, sides[1], operands) for _ in range(CALLS_TRIED))
    join = next((each for each in joins if each is not None), None)
    return (w.append(*join, overwrite=NEVER) if join is not None else []) + sides + names


def _sandwich(w: CallProgram, types: list[str], dtype: str) -> list[str]:
    """An operator, another one, and the first one again with its attributes; the names of the results.

    ``flip(cumsum(flip(x)))``, ``cast(matmul(cast(x)))``: what is done and undone around an operator.
    """
    first = _first_call(w, types[0], dtype)
    names = w.append(*first, overwrite=NEVER) if first is not None else []
    if first is None or not names or not isinstance(w.values[names[0]], np.ndarray):
        return names
    inner_names = append_over(w, types[-1], names[0], NEVER)
    value = w.values[inner_names[0]] if inner_names else None
    if not isinstance(value, np.ndarray):
        return inner_names + names
    call = converted(first[0], name_of(value.dtype))
    draft = inferred(Draft(call.op, call.inputs, call.attrs, call.number))
    again = over(w, draft, inner_names[0]) if draft is not None else None
    return (w.append(*again, overwrite=NEVER) if again is not None else []) + inner_names + names


def _joined(w: CallProgram, op_type: str, names: list[str], others: list[str]) -> list[str]:
    """An operator over the first of some names and the first of others; the names of all results."""
    beside = [name for name in others[:1] if isinstance(w.values[name], np.ndarray)]
    return append_over(w, op_type, names[0], NEVER, beside) + others + names


def _related(w: CallProgram, call: Call) -> Call:
    """A call on the same inputs that differs in an attribute, which perhaps is what another attribute is in the first call."""
    attrs = call.op.attrs
    names = [name for name in w.interest.attrs if name in attrs] or list(attrs)
    pairs = [(to, of) for to, of in itertools.permutations(names, 2) if attrs[to].kind == attrs[of].kind and call.attrs.get(of) is not None]
    variant = None
    if pairs and w.choices.boolean():
        to, of = w.choices.one_of(pairs)
        variant = call.with_attrs({**call.attrs, to: call.attrs[of]})
    return variant or other_attr(w.choices, call, w.interest) or call


def _first(w: CallProgram, op_type: str, dtype: str) -> list[str]:
    first_call = _first_call(w, op_type, dtype)
    return [] if first_call is None else w.append(*first_call, overwrite=8)


def _first_call(w: CallProgram, op_type: str, dtype: str) -> tuple[Call, Names] | None:
    """A call of an operator, and names for what it reads; None if it has no samples."""
    call = varied(w.choices, op_type, w.interest)
    if call is None:
        return None
    chooses = any(attr.kind == "DType" for attr in call.op.attrs.values())  # a type, as cast does: its samples have several
    call = call if chooses and w.choices.boolean() else converted(call, dtype)
    if w.choices.chance(RESHAPED):
        call = reshaped(call, w.choices.one_of(FIRST_SHAPES))
    if w.non_finite or call.op.converts or w.choices.chance(3):  # what is converted rounds on few numbers only
        call = renumbered(w.choices, call, w.choices.one_of(_kinds(w, call)))
    operands = {slot: [_known(w, value) for value in values] for slot, values in call.inputs.items()}
    pairs = {slot: list(zip(values, operands[slot], strict=True)) for slot, values in call.inputs.items()}
    call_on_known = call.with_inputs(
        {slot: [value if name is None else w.values[name] for value, name in value_names] for slot, value_names in pairs.items()}
    )
    return (call, w.named(call, {})) if call_on_known is None else (call_on_known, w.named(call_on_known, operands))


def _kinds(w: CallProgram, call: Call) -> tuple[str, ...]:
    """The kinds of numbers that a call may get."""
    # Large integers become large floats where they are cast: not where numbers are to fit into float16.
    return w.kinds if _has_floats(call) else OF_INTEGERS if "large" in w.interest.kinds else OF_INTEGERS[:1]


def _has_floats(call: Call) -> bool:
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "f" for values in call.inputs.values() for value in values)


def _known(w: CallProgram, value: object) -> str | None:
    """A constant, or a name of the type, or neither."""
    if not isinstance(value, np.ndarray) or not value.size:
        return None
    kind = w.choices.below(6)
    if kind == 5:
        return w.number_like(value)
    names = w.like(value) if kind > 2 else []
    return w.choices.one_of(names) if names else None


# -- swept names -----------------------------------------------------------------------------------
# Programs over a few names that are written again and again, so that it matters which value of a name is read, kept or overwritten.
#
# Some names are state, some are views of others, and now and then an operator has an effect; often little of it all is requested.

NAME_SHAPES = ((3,), (1,), (2, 2), (1, 3))
NAME_DTYPES = (*FLOATS_DRAWN * 2, "int64")
EFFECT = 7  # of so many statements one is an effect
PAIRS = ("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_max")


def name_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Four to seven operators over three names of one type; what is requested is all that is unused, one name, or the loss alone."""
    w = CallProgram(choices, interest)
    shape, dtype = choices.one_of(NAME_SHAPES), choices.one_of(NAME_DTYPES)
    names = [_start(w, array_of(choices, shape, dtype)) for _ in range(3)]
    for _ in range(choices.integer(4, 7)):
        _statement(w, names)
    if choices.chance(4):
        return Case(w.program, "", w.feeds, w.params, (choices.one_of(names),))
    loss = loss_of(w, names[::-1])
    return Case(w.program, loss, w.feeds, w.params, (loss,) if loss and choices.chance(3) else ())


def _start(w: CallProgram, array: Array) -> str:
    kind = w.choices.below(6)
    if kind < 3:
        return w.state(array)
    if kind == 3:
        return w.parameter(array, trainable=True)
    return w.data(array) if kind == 4 else w.constant(array)


def _statement(w: CallProgram, names: list[str]) -> None:
    """An operator that reads names and writes one of them, or a new one that joins them."""
    name = w.choices.one_of(names)
    value = w.values[name]
    assert isinstance(value, np.ndarray)
    if w.choices.chance(EFFECT):
        if w.choices.boolean():
            w.print(name)
        else:
            w.apply("fetch", {"X": [name]}, {"col": 0})
        return
    target = w.choices.one_of((*names, *names, ""))
    kind = w.choices.below(8)
    if kind < 2 and w.interest.types and (result := _of_interest(w, name)):
        names.append(result)
        return
    if kind == 2:
        target = w.constant(np.full_like(value, w.choices.one_of((0, 1, 2))), target or None)
    elif kind == 3:
        view = w.apply("reshape", {"X": [name]}, {"shape": list(value.shape)})
        target = view or ""
    elif kind == 4:
        target = w.apply(w.choices.one_of(PAIRS), {"X": [name], "Y": [w.choices.one_of(names)]}, {}, target or None) or ""
    elif kind == 5:
        target = w.apply("increment", {"X": [name]}, {"step": float(w.choices.integer(1, 2))}, name) or ""
    elif kind == 6 and value.dtype.kind == "f":
        target = w.apply(w.choices.one_of(("tanh", "square", "exp")), {"X": [name]}, {}, target or None) or ""
    else:
        op_type, attrs = w.choices.one_of((("assign", {}), ("scale", {"scale": 2.0, "bias": 1.0})))
        target = w.apply(op_type, {"X": [name]}, attrs, target or None) or ""
    if target and target not in names:
        names.append(target)


def _of_interest(w: CallProgram, name: str) -> str:
    """An operator of interest over a name; the name of its result, if that has the type of the other names."""
    written_names = append_over(w, w.choices.one_of(types_of(w.interest)), name, 2)
    return next((candidate for candidate in written_names if candidate in w.like(w.values[name])), "")


# -- swept operators -------------------------------------------------------------------------------
# Programs that go through operators over constants, which folding computes, and under a loss, whose gradient is taken.

FOLDED, DIFFERENTIATED, WITH_BACKWARD = 4, 2, 3  # so many operators a program tries


def constant_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators over constants; every second one with an attribute changed."""
    w = CallProgram(choices, interest)
    for call in _in_turn(choices, interest, start, FOLDED):
        if choices.boolean():
            call = converted(call, choices.one_of(DTYPES))
        names: Names = {s: [w.constant(v) if isinstance(v, np.ndarray) else w.new(v) for v in values] for s, values in call.inputs.items()}
        written_names = w.append(call, names, overwrite=NEVER)
        value = w.values[written_names[0]] if written_names else None
        # Folded again: what a fold keeps for later may have lost its dtype, and with it where integers wrap around.
        if isinstance(value, np.ndarray) and value.size and choices.boolean():
            append_over(w, choices.one_of(in_order(types_of(interest))), written_names[0], NEVER, [w.number_like(value)])
    return Case(w.program, "", w.feeds, w.params)


def gradient_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators over data that can be differentiated, now and then at ties and once more with operands exchanged, and a loss over all."""
    return _under_loss(choices, interest, _in_turn(choices, interest, start, DIFFERENTIATED))


def backward_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators with a gradient, a loss over all, and its gradients: operators of gradients are operators too."""
    differentiable = replace(interest, types=_differentiable(types_of(interest)) or _differentiable(operators()))
    case = _under_loss(choices, interest, _in_turn(choices, differentiable, start, WITH_BACKWARD))
    return differentiated(choices, case) or case


@cache
def _differentiable(types: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(op_type for op_type in types if getattr(lookup(op_type), "grads", None))


def _under_loss(choices: Choices, interest: Interest, calls: Iterable[Call]) -> Case:
    """Calls over data, and a loss over all of their results."""
    w = CallProgram(choices, interest)
    dtype, results = choices.one_of(FLOATS_DRAWN), list[str]()
    for call in calls:
        kind = choices.one_of(("sample", "sample", "ties", "kinks"))
        call = converted(call, dtype)
        call = call if kind == "sample" else renumbered(choices, call, kind)
        names = {s: [w.data(v) if isinstance(v, np.ndarray) else w.new(v) for v in values] for s, values in call.inputs.items()}
        results += w.append(call, names, overwrite=NEVER)
        if choices.chance(3):
            results += _again(w, call, names)
    return Case(w.program, loss_of(w, results, terms=len(results)), w.feeds, w.params)


def _again(w: CallProgram, call: Call, names: Names) -> list[str]:
    """The call once more, its operands exchanged if it takes that."""
    names_by_id = {id(value): name for slot, values in call.inputs.items() for value, name in zip(values, names[slot], strict=True)}
    for inputs in exchanged(call.inputs):
        swap = call.with_inputs(inputs)
        if swap is not None:
            return w.append(swap, {s: [names_by_id[id(v)] for v in values] for s, values in inputs.items()}, overwrite=NEVER)
    return []


def _in_turn(choices: Choices, interest: Interest, start: int, count: int) -> Iterator[Call]:
    """Calls of the operators from a place in their order on; another sample each time, and other attributes."""
    types = in_order(types_of(interest))
    for number in range(start * count, (start + 1) * count):
        call = varied(choices, types[number % len(types)], interest)
        if call is not None:
            yield call


# -- swept slopes ----------------------------------------------------------------------------------
# Programs of many operators at once where all of them are smooth, so that one central difference judges all of their gradients.

OPERATORS = 6  # of a program
STILL = 3  # of so many operators with several inputs one has gradients with respect to some alone
STEP, BENT = 1e-4, 3e-4  # how far numbers move, and how much slopes may differ where an operator is smooth
BEND = 1e-2  # and by how much they differ at least where it bends
STEEPEST = 1e2  # the slope of what goes into a sum with many others, which would not be seen beside larger ones
SLOPE_SEEDS = 1 << 14
TRIES = 80  # calls tried to find some that differ
WORDS = ("str", "DType")  # kinds of attributes that seldom matter to a gradient
POWERS = np.array([2.0, 1.0, -1.0, 0.5, 4.0])  # products with them, and quotients, are exact
SLOPE_NUMBERS = ("sample", "ordinary", "positive")  # on which an operator may be smooth, the first ones preferred


def slope_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Many operators where they are smooth: one difference says whether the gradients of all of them are right.

    Every operator comes with all samples and attributes in turn; of half of them only the first result is read, and of some only a part
    of what they read moves.
    """
    w = CallProgram(choices, interest)
    types, results = in_order(types_of(interest)), list[str]()
    types = tuple(filter(_has_gradients, types)) or types
    for number in range(start * OPERATORS, (start + 1) * OPERATORS):
        turn, place = divmod(number, len(types))
        call = smooth_variant(lookup(types[place]), turn)
        if call is not None:
            still = _still(choices, call)
            inputs = {slot: [_input(w, call.op, slot, value, slot == still) for value in values] for slot, values in call.inputs.items()}
            written_names = w.append(call, inputs, overwrite=NEVER)
            side_names = {*side_results(w.block.ops[-1], call.op)}
            names = [name for name in written_names if name not in side_names]
            # Of some operators one result alone, so that the other cotangents are missing, not zero.
            results += names[:1] if choices.boolean() else names
    return _of_either(choices, Case(w.program, loss_of(w, results, terms=len(results)), w.feeds, w.params))


def _of_either(choices: Choices, case: Case) -> Case:
    """The case, which was drawn in float64, in float32 as often as not."""
    return retyped(case, WIDE, NARROW) if choices.boolean() else case


def _still(choices: Choices, call: Call) -> str:
    """The slot, now and then, of which the inputs stop gradients beside others that do not; else empty."""
    slots = [slot for slot, values in call.inputs.items() if values and has_slope(call.op, slot)]
    return choices.one_of(slots) if len(slots) > 1 and choices.chance(STILL) else ""


def _input(w: CallProgram, op: OpDef, slot: str, value: Value, is_still: bool) -> str:
    """A name for an input, which stops gradients if the operator has none with respect to it: what depends on it has no slope.

    Half of the others are products with a power of two for each element: the elements of one input move by unlike amounts then, where all
    that is fed moves by the same. An operator that is wrongly taken for linear agrees on tangents that are all ones.
    """
    if not isinstance(value, np.ndarray):
        return w.new(value)
    if is_still or not has_slope(op, slot) or not _is_wide(value) or not value.size or w.choices.boolean():
        return w.data(value, stop_gradient=is_still or not has_slope(op, slot))
    factors = np.resize(POWERS, value.size).reshape(value.shape)
    operands = {"X": [w.data(value / factors)], "Y": [w.data(factors, stop_gradient=True)]}
    return w.apply("elementwise_mul", operands, {}) or w.data(value)


def smooth_variant(op: OpDef, turn: int) -> Call | None:
    """One of an operator's calls that are smooth, another one each turn; None if there is none, or the operator has no gradient."""
    return _variants(op).at(turn) if _has_gradients(op.type) else None


def _has_gradients(op_type: str) -> bool:
    """Whether an operator has gradients, and no blocks."""
    definition = lookup(op_type)
    return not isinstance(definition, ControlDef) and bool(definition.grads)


class _Variants:
    """The calls of an operator that are smooth and give other results than those before, found one by one when needed.

    An attribute that changes no result changes no gradient either. Calls whose results stay the same where inputs move come only where
    there are no others.
    """

    def __init__(self, op: OpDef) -> None:
        self.moving: dict[bytes, Call] = {}
        self.still: dict[bytes, Call] = {}
        self.left = itertools.islice(_in_float64(op), TRIES)

    def at(self, turn: int) -> Call | None:
        while len(self.moving) <= turn and (call := next(self.left, None)) is not None:
            self._note(call)
        calls = list((self.moving or self.still).values())
        return calls[turn % len(calls)] if calls else None

    def _note(self, call: Call) -> None:
        key = _numbers(call)
        if key in self.moving or key in self.still:
            return
        for kind in SLOPE_NUMBERS:
            choices = RandomChoices(f"{call.op.type} {kind}")
            smooth = call if kind == "sample" else renumbered(choices, call, kind)
            slopes = _slopes(choices, smooth)
            if slopes is not None:
                # Where slopes are zero a wrong gradient may not show: such calls are for operators that have no others.
                table = self.moving if any(np.any(slope) for slope in slopes) else self.still
                table[key] = smooth
                return


def _numbers(call: Call) -> bytes:
    """The content of all operands and results of a call, as a key to find calls that compute the same."""
    tensors = [v for slots in (call.inputs, call.outputs) for values in slots.values() for v in values if isinstance(v, np.ndarray)]
    return b"".join(str(tensor.shape).encode() + tensor.tobytes() for tensor in tensors)


@cache
def _variants(op: OpDef) -> _Variants:
    return _Variants(op)


def _in_float64(op: OpDef) -> Iterator[Call]:
    """The samples, and each with another value for an attribute; what differs in attributes first, names of modes and layouts last."""
    calls = [call for call in dict.fromkeys(converted(call, WIDE) for call in known_calls(op)) if _is_of_floats(call)]
    changes = [(call, {name: value}) for call in calls for name in op.attrs for value in candidates_of(op, call.number, name)]
    # Seeded by the type: the same order in each process.
    random.Random(op.type).shuffle(changes)
    changes.sort(key=lambda change: any(op.attrs[name].kind in WORDS for name in change[1]))
    drafts = [(call, {**call.attrs, **change}) for call, change in (*((call, {}) for call in calls), *changes)]
    for call, attrs in _in_rounds(drafts):
        variant = call if attrs == call.attrs else call.with_attrs(attrs)
        if variant is not None and variant.finite and _is_of_floats(variant) and not any(map(variant.attrs.get, NO_SLOPE)):
            yield variant


def _in_rounds(drafts: list[tuple[Call, dict[str, object]]]) -> list[tuple[Call, dict[str, object]]]:
    """All that differ in attributes, then those that have the same attributes as one before."""
    counts = Counter[str]()
    rounds = list[int]()
    for call, attrs in drafts:
        key = repr(sorted((name, value) for name, value in attrs.items() if value != call.op.attrs[name].default))
        rounds.append(counts[key])
        counts[key] += 1
    return [draft for _, draft in sorted(zip(rounds, drafts, strict=True), key=itemgetter(0))]


def _is_of_floats(call: Call) -> bool:
    """Whether all are tensors, and those of floating point are float64, with elements in one that has a slope."""
    values = [value for slots in (call.inputs, call.outputs) for slot_values in slots.values() for value in slot_values]
    if not all(isinstance(value, np.ndarray) and (value.dtype.kind != "f" or _is_wide(value)) for value in values):
        return False
    return any(_is_wide(v) and np.size(v) and has_slope(call.op, slot) for slot, values in call.inputs.items() for v in values)


def _slopes(choices: Choices, call: Call) -> list[Array] | None:
    """The slopes of the results along a random direction; None if they differ from those to the other side, or are steep."""
    rng = np.random.default_rng(choices.below(SLOPE_SEEDS))
    ways = {
        s: [rng.uniform(-1, 1, v.shape) if _is_wide(v) and has_slope(call.op, s) else None for v in vs] for s, vs in call.inputs.items()
    }
    results = [_moved(call, ways, distance) for distance in (-STEP, 0.0, STEP)]
    if any(result is None for result in results):
        return None
    if any([v.shape for v in result or ()] != [v.shape for v in results[0] or ()] for result in results):
        return None
    slopes = list[Array]()
    for below, middle, above in zip(*(result or () for result in results), strict=True):
        left, right = (middle - below) / STEP, (above - middle) / STEP
        # Smooth there: the slopes from both sides agree, and are not so steep that differences lose digits.
        # right - left is about STEP times the second derivative: it may be up to 3 * (1 + slope). At a kink the difference is that of two
        # slopes.
        if not (np.abs(right - left) <= BENT * (1 + np.abs(right))).all() or not (np.abs(right) <= STEEPEST).all():
            return None
        slopes.append(right)
    return slopes


def _is_wide(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.dtype(WIDE)


def _moved(call: Call, ways: dict[str, list[Any]], distance: float) -> list[Array] | None:
    """The floating-point results where the inputs are moved some way; None if they cannot be computed."""
    inputs = {s: [v if way is None else v + distance * way for v, way in zip(vs, ways[s], strict=True)] for s, vs in call.inputs.items()}
    shifted_call = call.with_inputs(inputs)
    return None if shifted_call is None else [v for values in shifted_call.outputs.values() for v in values if _is_wide(v)]


# -- swept pairs -----------------------------------------------------------------------------------
# Programs with an operator twice, one thing changed, so that the results differ: what is merged by a key that leaves it out.
#
# Random programs meet every attribute of every operator only after thousands. A sweep goes through them in order.

PAIRS_AT_ONCE = 6  # so many pairs a program
MOST_TRIED = 12
NUMBERS = {"near": 0.01, "nearer": 1e-9, "zero": 0.0}  # how little attributes differ that are numbers: zeros in their sign
PAIR_DTYPES = ("as the samples are", "float32", "int64")  # mostly float64 at first
PAIR_TURNS = ((0, 1), (1, 0), (2, 2))  # dtypes of every second variation and of the others: the first time through, the second, and so on


class Variation(NamedTuple):
    """How an operator's second call differs from its first.

    ``kind`` is one of ``attr`` (another value), ``near`` and ``nearer`` (a number that is almost the same), ``zero`` (a zero of
    the other sign), ``input`` (another value), ``order`` (two inputs exchanged), and ``again`` (the same call of a random
    operator); ``name`` is the attribute or slot.
    """

    op: OpDef
    kind: str
    name: str = ""


@cache
def variations(definitions: tuple[OpDef, ...]) -> tuple[Variation, ...]:
    """The attributes and inputs of some operators, shuffled by a fixed seed, common and random ones first."""
    result = [Variation(op, "attr", name) for op in definitions for name in op.attrs]
    result += [Variation(op, kind, a.name) for op in definitions for a in op.attrs.values() if a.kind == "float" for kind in NUMBERS]
    result += [Variation(op, "input", slot) for op in definitions for slot in op.inputs]
    result += [Variation(op, "order") for op in definitions if len(op.inputs) > 1 or any(s.variadic for s in op.inputs.values())]
    result += [Variation(op, "again") for op in definitions if op.random]
    random.Random("variations").shuffle(result)
    return tuple(sorted(result, key=lambda variation: variation.op.type not in COMMON and variation.kind != "again"))


def pair_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators twice, with one attribute or input changed; ``start`` says where in the order of all variations."""
    w = CallProgram(choices, interest)
    w.stopped = NEVER  # one of two that stops gradients is not merged with the other
    for variation, dtype in _pairs(tuple(map(lookup, types_of(interest)))).piece(start * PAIRS_AT_ONCE, PAIRS_AT_ONCE):
        pair = _pair(variation, dtype)
        if pair is not None:
            _write_pair(w, variation.kind, *pair)
    case = Case(w.program, "", w.feeds, w.params)
    # Not every tensor, as elsewhere now and then: what is requested is not merged, and each pair comes once in a thousand programs.
    return replace(case, requested=tuple(case.targets))


@cache
def _pairs(definitions: tuple[OpDef, ...]) -> Gradually[tuple[Variation, int]]:
    """The variations that make a difference, each with the number of its dtype; after the last come those of another dtype."""
    return Gradually(lambda: _that_differ(definitions))


def _that_differ(definitions: tuple[OpDef, ...]) -> Iterator[tuple[Variation, int]]:
    is_any = False
    for turns in itertools.cycle(PAIR_TURNS):
        for pair in zip(variations(definitions), itertools.cycle(turns)):
            if _pair(*pair) is not None:
                is_any = True
                yield pair
        if not is_any:
            return


def _write_pair(w: CallProgram, kind: str, one: Call, other: Call) -> list[str]:
    """Two calls, and the names of their results; inputs that are the same objects get one name.

    Zeros of the two signs differ in what divides by them.
    """
    input_names: dict[str, list[str | None]] = {}
    if kind == TIED:
        input_names = {slot: [w.data(v) if isinstance(v, np.ndarray) else None for v in values] for slot, values in one.inputs.items()}
    first = w.named(one, input_names)
    names_by_id = {id(value): name for slot, names in first.items() for value, name in zip(one.inputs[slot], names, strict=True)}
    other_names = {slot: [names_by_id.get(id(value)) for value in values] for slot, values in other.inputs.items()}
    results: list[str] = []
    for call, names in ((one, first), (other, w.named(other, other_names))):
        written_names = w.append(call, names, overwrite=NEVER)
        results += written_names
        # A reciprocal tells zeros of the two signs apart.
        if kind == "zero" and written_names and isinstance(value := w.values[written_names[0]], np.ndarray):
            w.emit("reciprocal", {"X": written_names[:1]}, {"Out": [w.unique("t")]}, {}, {"Out": [_inverse(value)]})
    return results


def _inverse(value: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(1 / value, value.dtype)


# -- pairs -----------------------------------------------------------------------------------------


@cache
def _pair(variation: Variation, dtype: int) -> tuple[Call, Call] | None:
    """Two calls that differ in an attribute or input, and in their results, of the same shapes if there are such."""
    pairs: list[tuple[Call, Call]] = []
    for call in known_calls(variation.op):
        call = converted(call, PAIR_DTYPES[dtype]) if dtype else call
        base = call.with_attrs({**call.attrs, variation.name: 0.0}) if variation.kind == "zero" else call
        if base is None:
            continue
        for variant in _others(base, variation):
            if variant is None or not _differ(base, variant, variation.kind == "zero"):
                continue
            # Of one shape they can be taken for each other, which a common subexpression must not.
            if _shapes(base) == _shapes(variant):
                return base, variant
            pairs.append((base, variant))
    return pairs[0] if pairs else None


def _others(call: Call, variation: Variation) -> Iterator[Call | None]:
    if variation.kind == "attr":
        for value in candidates_of(call.op, call.number, variation.name)[:MOST_TRIED]:
            yield call.with_attrs({**call.attrs, variation.name: value})
    elif variation.kind in NUMBERS:
        number = call.op.attr(variation.name, call.attrs)
        if isinstance(number, float):
            yield call.with_attrs({**call.attrs, variation.name: -0.0 if variation.kind == "zero" else number + NUMBERS[variation.kind]})
    elif variation.kind == "input":
        yield from map(call.with_inputs, _changed(call.inputs, variation.name))
    elif variation.kind == "order":
        yield from map(call.with_inputs, exchanged(call.inputs))
    else:
        yield call


def _changed(inputs: Slots, slot: str) -> Iterator[Slots]:
    """The inputs with another value in a slot: other numbers, or the same in another order."""
    for i, value in enumerate(inputs.get(slot, ())):
        if isinstance(value, np.ndarray) and value.size:
            variants: list[Value] = [np.ascontiguousarray(value[..., ::-1]) if value.ndim else value, np.roll(value, 1)]
            if value.dtype.kind == "f":
                variants.insert(0, np.abs(random_like(value, np.random.default_rng(5))).astype(value.dtype))
            for variant in variants:
                yield {**inputs, slot: [*inputs[slot][:i], variant, *inputs[slot][i + 1 :]]}


def _differ(one: Call, other: Call, signs: bool) -> bool:
    """Whether the results differ, with ``signs`` also in the signs of zeros."""
    return one.op.random or any(_unlike(a, b, signs) for a, b in zip(one.results, other.results, strict=False))


def _unlike(one: np.ndarray, other: np.ndarray, signs: bool) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return True
    is_float = one.dtype.kind == "f"
    if not np.array_equal(one, other, equal_nan=is_float):
        return True
    return signs and is_float and not np.array_equal(np.signbit(one), np.signbit(other))


def _shapes(call: Call) -> list[object]:
    return [(array.shape, array.dtype) for array in call.results]


# -- swept ties ------------------------------------------------------------------------------------
# Programs with an operator twice over inputs that are equal, exchanged the second time, where results are the same and gradients are not.

TIES = 6  # so many pairs a program
TIED = "tied"


def tied_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators over equal inputs and over these exchanged: at ties, only the gradients show which input is which.

    Few operators tell them apart, so that a program has a good part of these.
    """
    w = CallProgram(choices, interest)
    dtype, results = choices.one_of(FLOATS_DRAWN), list[str]()
    pairs = _tied_pairs(types_of(interest), dtype).piece(start * TIES, TIES) or _tied_pairs(operators(), dtype).piece(start * TIES, TIES)
    # Of few operators the same pair comes again.
    for pair in dict.fromkeys(pairs):
        results += _write_pair(w, TIED, *(pair if choices.boolean() else pair[::-1]))
    return Case(w.program, loss_of(w, results, terms=len(results)), w.feeds, w.params)


@cache
def _tied_pairs(types: tuple[str, ...], dtype: str) -> Gradually[tuple[Call, Call]]:
    """The first such pair of every operator that has one, shuffled by a fixed seed, again and again; none if no operator has one."""
    return Gradually(lambda: itertools.cycle(_that_tie(types, dtype)))


def _that_tie(types: tuple[str, ...], dtype: str) -> Iterator[tuple[Call, Call]]:
    for op in map(lookup, in_order(types)):
        call = _call_that_ties(op)
        pair = None if call is None else _tied(converted(call, dtype))
        if pair is not None:
            yield pair


@cache
def _call_that_ties(op: OpDef) -> Call | None:
    """The first call of an operator that has such a pair, in the dtype that it has."""
    return next(filter(_tied, known_calls(op)), None) if op.grads and len(op.inputs) > 1 else None


def _tied(call: Call) -> tuple[Call, Call] | None:
    """The call with one number in two inputs, and with these exchanged, if the gradients of the two differ then, or the results bend.

    Of an operator whose results change where different inputs are exchanged, those show it, and there is no need for ties.
    """
    slots = [slot for slot, values in call.inputs.items() if len(values) == 1 and isinstance(values[0], np.ndarray)]
    for s, t in itertools.combinations(slots, 2):
        first, like = call.inputs[s][0], call.inputs[t][0]
        if first.shape != like.shape or first.dtype != like.dtype:
            continue
        turned = call.with_inputs({**call.inputs, s: [like], t: [first]})
        if turned is None or _differ(call, turned, signs=False):
            continue
        # A copy: names are told apart by the identity of their arrays.
        second = first.copy()
        pair = [call.with_inputs({**call.inputs, s: [a], t: [b]}) for a, b in ((first, second), (second, first))]
        if pair[0] is not None and pair[1] is not None and (_gradients_differ(pair[0], s, t) or _bends(pair[0], s)):
            return pair[0], pair[1]
    return None


def _gradients_differ(call: Call, s: str, t: str) -> bool:
    """Whether the gradients with respect to two inputs differ."""
    if call.op.grad is None:
        return False
    cotangents: Slots = {slot + GRAD: [v if v is None else np.ones_like(v) for v in values] for slot, values in call.outputs.items()}
    gradient_inputs = {
        slot: values for slot, values in {**call.outputs, **call.inputs, **cotangents}.items() if slot in call.op.grad.inputs
    }
    grad_results = computed(call.op.grad, gradient_inputs, call.attrs)
    gradients = [None if grad_results is None else (grad_results.get(slot + GRAD) or [None])[0] for slot in (s, t)]
    return not (gradients[0] is gradients[1] is None) and not np.array_equal(*gradients)  # type: ignore[arg-type]


def _bends(call: Call, s: str) -> bool:
    """Whether slopes to both sides differ where an input moves: the gradient may be wrong, and say that they do not."""
    wide = converted(call, WIDE)
    ways = {slot: [np.ones(np.shape(v)) if slot == s and _is_wide(v) else None for v in values] for slot, values in wide.inputs.items()}
    results = [_moved(wide, ways, distance) for distance in (-STEP, 0.0, STEP)]
    triples = zip(*(result or () for result in results), strict=False)
    return any((np.abs(above - 2 * middle + below) > BEND * STEP).any() for below, middle, above in triples)


# -- sweep -----------------------------------------------------------------------------------------
# Sweeps: programs that go through all operators in turn, so that nothing of them is left to chance.

Sweep = Callable[[Choices, Interest, int], Case]
SWEEPS: tuple[Sweep, ...] = (
    *(pair_sweep, chain_sweep, value_sweep, block_sweep) * 3,
    *(pair_sweep, name_sweep, gradient_sweep) * 2,
    chain_sweep,
    backward_sweep,
    gradient_operator_sweep,
    constant_sweep,
    tied_sweep,
)
LED: tuple[Sweep, ...] = (  # where a pass names a few operators: there are few pairs of them, and many chains
    *(value_sweep, chain_sweep) * 4,
    *(name_sweep, block_sweep, gradient_sweep, pair_sweep) * 2,
    chain_sweep,
    backward_sweep,
    tied_sweep,
    constant_sweep,
)
OF_BLOCKS: tuple[Sweep, ...] = (*(block_sweep,) * 8, pair_sweep, chain_sweep, value_sweep, gradient_sweep, name_sweep)
FEW = 32  # operators
FIRST = (None, delay, accumulate, delay)  # what the first operator with blocks of a nested program is; None: any
SEEDS = 1 << 30
LEFT_OUT = 3  # of so many programs one leaves out an attribute that the pass mentions
HARDENED = 5  # of so many programs with blocks one runs on nan, infinities, zeros and kinks
SWEPT = 4, 5  # so many programs of so many go through all operators in turn; they are small


def nested_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """A small ``nested_program`` as it is: all smooth and of tame numbers, so that differences say what its gradients are."""
    depth, count, first = choices.one_of((1, 1, 2)), choices.one_of((1, 1, 2)), FIRST[start % len(FIRST)]
    case = nested_program(choices, depth, max_statements=1, max_nested=count, arrays=choices.chance(4), most_trips=3, first=first)
    return _of_either(choices, case)


AFTER_BACKWARDS: tuple[Sweep, ...] = (
    *(gradient_sweep, block_sweep, nested_sweep, chain_sweep, name_sweep, pair_sweep) * 2,
    gradient_sweep,
    value_sweep,
)
OF_BACKWARDS: tuple[Sweep, ...] = (
    *(gradient_sweep, block_sweep, nested_sweep, slope_sweep, slope_sweep, slope_sweep) * 3,
    *(gradient_sweep, slope_sweep, nested_sweep),
    name_sweep,
    chain_sweep,
    value_sweep,
    tied_sweep,
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
        is_backward: whether a backward is built, or something else of a loss, so that only programs with one are of use.
        after_backward: whether what is on trial comes after it.

    Returns:
        A function of choices; which sweep comes next is not left to them.
    """
    any_interest = replace(interest, types=(), attrs=())
    are_few = 0 < len(interest.types) <= FEW
    leading, rest = _led(interest, are_few), SWEEPS
    if is_backward:
        leading = rest = AFTER_BACKWARDS if after_backward else OF_BACKWARDS
    rest = (*rest, *(steep_sweep,) * 3) if interest.kinds == SHORT else rest
    kinds = [*((sweep, interest) for sweep in leading * (2 if are_few else 1)), *((sweep, any_interest) for sweep in rest)]
    random.Random("kinds").shuffle(kinds)
    turns = Counter[tuple[Sweep, tuple[str, ...]]]()
    numbers = itertools.count()

    def program(choices: Choices) -> Case:
        sweep, emphasis = kinds[choices.in_turn(len(kinds), next(numbers) % len(kinds))]
        if emphasis.attrs and choices.chance(LEFT_OUT):
            emphasis = replace(emphasis, left_out=(choices.one_of(emphasis.attrs),))
        # Where the last one over these operators ended, unless the choices say an earlier start: a shrunk program repeats its own.
        place = sweep, emphasis.types
        start = choices.in_turn(turns[place] + 1, turns[place])
        turns[place] += start == turns[place]
        case = sweep(choices, emphasis, start)
        if sweep is block_sweep and not is_backward and emphasis.kinds != SHORT and choices.chance(HARDENED):
            # No loss, which says nothing of numbers that are not finite: what a block that does not run computes may be such.
            case = replace(renumbered_case(choices, case, (MIXED, NON_FINITE)), loss_name="")
        elif sweep is block_sweep and not is_backward and choices.chance(2 if _is_steep_inside(case) else HARDENED):
            # With the loss, which is finite where what has no slope at zero does not run.
            case = renumbered_case(choices, case, ("zeros", "zeros", "kinks"))
        unknown_extent(choices, case.program, case.feeds)
        return case

    return program


def _is_steep_inside(case: Case) -> bool:
    """Whether a block holds an operator of which the slope may be infinite."""
    return any(lookup(op.type).steep for block in case.program.blocks[1:] for op in block.ops)


def drawn(interest: Interest, is_backward: bool = False, after_backward: bool = False) -> Callable[[Choices], Case]:
    """A source of programs of which four of five are sweeps, and the others random ones of any kind; see ``sweeps``."""
    sweep = sweeps(interest, is_backward, after_backward)
    return lambda choices: sweep(choices) if choices.below(SWEPT[1]) < SWEPT[0] else any_program(choices, interest)
