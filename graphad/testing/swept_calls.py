"""Calls that sweeps go through: samples with all extents the same, and with other attributes, dtypes, shapes and numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from math import prod
from typing import Generic, TypeVar

import numpy as np

from graphad.ops import OpDef, lookup
from graphad.ops.sample import Value
from graphad.program import Operator
from graphad.testing.call_writer import Names
from graphad.testing.calls import (
    NONE,
    Call,
    Constants,
    Draft,
    Interest,
    Slots,
    candidates_of,
    canonical,
    checked,
    chosen_value,
    cut_to,
    first_element,
    in_dtype,
    inferred,
    rank_of,
)
from graphad.testing.cases import SHORT, Choices, RandomChoices, array_of
from graphad.testing.operator_programs import COMMON, CallProgram, operators, over
from graphad.testing.samples import samples_of
from graphad.testing.values import name_of
from graphad.types import FLOATS, Array, Shape

EXTENT = 3  # of all axes, where an operator takes that: transposed or not, the shapes are the same
FLOATS_DRAWN = ("float64", "float32")  # as often the one as the other
DTYPES = (*FLOATS_DRAWN * 2, "float32", "int64", "int32")  # an operator that takes no integers stays as it is, which is mostly float64
FORGOTTEN = 3  # of so many changed attributes one is any that the operator has, whether or not the pass mentions it
LEFT = 0.3  # of the terms of a sum, where that does not cancel
KEPT = 1 << 14  # so many calls that were made from others
LARGEST, TERMS = 1e6, 3  # of what goes into a loss: no larger numbers, and so many results
# Of calls at the beginning of a chain, now and then.
FIRST_SHAPES = ("empty", "hollow", "lowered", "lowered", "row", "row", "short", "odd", "odd")
SHAPES = ("as it is", "as it is", "as it is", "flat", "flat", "empty", "single", "odd", "scalar", "narrow", "short", "crossed")
T = TypeVar("T")


class Gradually(Generic[T]):
    """The elements of an iterable, each computed when it is first needed, and kept: a check of a few programs needs few of them.

    >>> squares = Gradually(lambda: (n * n for n in itertools.count()))
    >>> squares.piece(2, 3)
    [4, 9, 16]
    """

    def __init__(self, make: Callable[[], Iterable[T]]) -> None:
        self._make = make
        self._known: list[T] = []
        self._left = iter(make())

    def piece(self, start: int, count: int) -> list[T]:
        """So many elements from a place on; fewer where there are no more."""
        try:
            while len(self._known) < start + count:
                self._known.append(next(self._left))
        except StopIteration:
            pass
        except BaseException:  # an interrupt ends a generator for good
            self._left = itertools.islice(self._make(), len(self._known), None)
            raise
        return self._known[start : start + count]


@cache
def in_order(types: tuple[str, ...]) -> tuple[str, ...]:
    """Some operators, shuffled by a fixed seed, the common ones first."""
    order = list(types)
    random.Random("operators").shuffle(order)
    return tuple(sorted(order, key=lambda op_type: op_type not in COMMON))


def types_of(interest: Interest) -> tuple[str, ...]:
    """The operators of interest, or if there are none, all."""
    return _among(interest.types, operators())


@lru_cache
def _among(types: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(t for t in types if t in known) or known


@cache
def known_calls(op: OpDef) -> tuple[Call, ...]:
    """The samples with all extents the same, and as they are, as far as their results are finite."""
    return tuple(_calls(op))


def _calls(op: OpDef) -> Iterator[Call]:
    for number, sample in enumerate(samples_of(op.type)):
        inputs, attrs = sample.slots(), canonical(op, sample.attrs)
        # With equal extents axes that are mixed up change no type, so that the numbers alone show it.
        for slots in (cut_to(inputs, _places(inputs), EXTENT), inputs):
            call = checked(op, slots, attrs, number)
            if call is not None and call.finite:
                yield call


def _places(inputs: Slots) -> list[tuple[str, int, int]]:
    return [(s, i, axis) for s, values in inputs.items() for i, v in enumerate(values) for axis in range(rank_of(v))]


def varied(choices: Choices, op_type: str, interest: Interest) -> Call | None:
    """A call of an operator, in half of all cases with another value for an attribute: mostly one of interest if it has such.

    Of every fourth call the other attributes are what they are by default.

    What a pass does not mention is what it may have forgotten.
    """
    op = lookup(op_type)
    calls = known_calls(op)
    if not calls:
        return None
    call = choices.one_of(calls)
    if interest.left_out:
        call = _without(call, interest.left_out)
    names = [name for name in op.attrs if name not in interest.left_out and candidates_of(op, call.number, name)]
    if not names or not choices.boolean():
        return call
    mentioned = [n for n in interest.attrs if n in names]
    name = choices.one_of(mentioned if mentioned and not choices.chance(FORGOTTEN) else names)
    constants = interest.constants if name in interest.attrs else NONE
    return _with_attr(call, name, constants, chosen_value(choices, op, call.number, name, constants))


@lru_cache(maxsize=KEPT)
def _without(call: Call, names: tuple[str, ...]) -> Call:
    """The call with some attributes left out, those that the operator can do without."""
    for name in names:
        variant = call.with_attrs({attr: value for attr, value in call.attrs.items() if attr != name}) if name in call.attrs else None
        call = variant if variant is not None and variant.finite else call
    return call


@lru_cache(maxsize=KEPT)
def _with_attr(call: Call, name: str, constants: Constants, index: int) -> Call:
    variant = call.with_attrs({**call.attrs, name: candidates_of(call.op, call.number, name, constants)[index]})
    return variant if variant is not None and variant.finite else call


# -- other dtypes, shapes and numbers --------------------------------------------------------------


@lru_cache(maxsize=KEPT)
def converted(call: Call, dtype: str) -> Call:
    """The call on numbers of a dtype, if the operator takes them; else as it is."""
    for inputs, attrs in in_dtype(RandomChoices(dtype), call.op, call.inputs, call.attrs, dtype):
        variant = checked(call.op, inputs, attrs, call.number)
        if variant is not None:
            return variant
    return call


@lru_cache(maxsize=KEPT)
def reshaped(call: Call, shape: str) -> Call:
    """The call on inputs of one axis, of no element, one, or extent 5, without axes, or broadcast, if the operator takes them."""
    if shape == "as it is":
        return call
    if shape in ("hollow", "lowered", "row"):
        return _unlike(call, shape)
    if shape in ("narrow", "short", "crossed"):
        return _broadcast(call, last=shape != "short", first=shape != "narrow")
    if shape in ("flat", "scalar"):
        change = _flat if shape == "flat" else first_element
        inputs: Slots = {slot: [change(value) for value in values] for slot, values in call.inputs.items()}
    else:
        extent = {"empty": 0, "single": 1, "odd": 5}[shape]
        places = [place for place in _places(call.inputs) if extent or place[2] == 0]
        inputs = cut_to(call.inputs, places, extent)
    return call.with_inputs(inputs) or call


def _broadcast(call: Call, last: bool, first: bool) -> Call:
    """The call with the first of two inputs of one shape broadcast along the last axis, with ``first`` the second along the first one."""
    tensors = [(s, i, v) for s, values in call.inputs.items() for i, v in enumerate(values) if isinstance(v, np.ndarray) and v.size]
    for (s, i, x), (t, j, y) in itertools.combinations(tensors, 2):
        if x.shape == y.shape and x.ndim and max(x.shape) > 1:
            inputs = {slot: list(values) for slot, values in call.inputs.items()}
            if last:
                inputs[s][i] = x[..., :1] if x.ndim > 1 or not first else x[:, None]
            if first and (y.ndim > 1 or not last):
                inputs[t][j] = y[:1]
            return call.with_inputs(inputs) or call
    return call


def _unlike(call: Call, shape: str) -> Call:
    """The call with one of two inputs of one shape broadcast.

    "hollow": the second, along a first axis of no element; "lowered": the second, with one axis less and its last extent 1; "row": the
    first, along its first axis.
    """
    tensors = [(s, i, v) for s, values in call.inputs.items() for i, v in enumerate(values) if isinstance(v, np.ndarray) and v.size]
    for (s, i, x), (t, j, y) in itertools.combinations(tensors, 2):
        if x.shape != y.shape or x.ndim < (2 if shape == "lowered" else 1):
            continue
        inputs = {slot: list(values) for slot, values in call.inputs.items()}
        if shape == "lowered":
            inputs[t][j] = y[0][..., :1]
        else:
            inputs[s][i], inputs[t][j] = (x[:0], y[:1]) if shape == "hollow" else (x[:1], y)
        return call.with_inputs(inputs) or call
    return call


def _flat(value: Value) -> Value:
    return value.reshape(-1)[:5] if isinstance(value, np.ndarray) else value


def renumbered(choices: Choices, call: Call, kind: str) -> Call:
    """The call on numbers of a kind, if the operator takes them; integers beside floating-point numbers may be indices, and stay.

    So do numbers on which the extents of the results depend: some are too large for that.
    """
    tensors = [value for values in call.inputs.values() for value in values if isinstance(value, np.ndarray)]
    kinds = "f" if any(value.dtype.kind == "f" for value in tensors) else "iu"
    draft = inferred(Draft(call.op, call.inputs, call.attrs))
    # Where shapes depend on values, other numbers would make another call.
    if draft is None or not draft.fixed:
        return call

    def other(value: Value) -> Value:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
            return value
        return array_of(choices, value.shape, name_of(value.dtype), kind)

    return call.with_inputs({slot: [other(value) for value in values] for slot, values in call.inputs.items()}) or call


def exchanged(inputs: Slots) -> Iterator[Slots]:
    """The inputs with two of one type exchanged."""
    places = [(slot, i) for slot, values in inputs.items() for i, value in enumerate(values) if isinstance(value, np.ndarray)]
    for (s, i), (t, j) in itertools.combinations(places, 2):
        first, second = inputs[s][i], inputs[t][j]
        if first.shape == second.shape and first.dtype == second.dtype:
            swap = {slot: list(values) for slot, values in inputs.items()}
            swap[s][i], swap[t][j] = second, first
            yield swap


def append_over(w: CallProgram, op_type: str, name: str, overwrite: int, beside: Sequence[str] = ()) -> list[str]:
    """An operator over a name, and others beside it; the names of its results, none if it takes no value of that type."""
    if not isinstance(w.values[name], np.ndarray):
        return []
    # Calls on values of another type do not take it.
    calls = (_call_over(w, op_type, name, beside) for _ in range(CALLS_TRIED))
    call = next((each for each in calls if each is not None), None)
    return w.append(*call, overwrite=overwrite) if call is not None else []


def _call_over(w: CallProgram, op_type: str, name: str, beside: Sequence[str]) -> tuple[Call, Names] | None:
    call = varied(w.choices, op_type, w.interest)
    if call is None:
        return None
    if w.choices.chance(3):
        call = _along_the_same(w, call, name)
    call = _back(w, converted(call, name_of(w.values[name].dtype)), name)
    draft = inferred(Draft(call.op, call.inputs, call.attrs, call.number))
    return over(w, draft, name, beside) if draft is not None else None


CALLS_TRIED = 3  # calls of an operator that are tried over a value
AXES = ("axis", "axes", "dim")  # attributes that say along which axes an operator works


def _along_the_same(w: CallProgram, call: Call, name: str) -> Call:
    """The call along the axis that the operator works along which wrote a name, if both work along one: where pieces meet, say."""
    writer = _writer(w, name)
    axes = [] if writer is None else _axes(lookup(writer.type), writer.attrs)
    # Slicing along the axis of a concatenation, say, is where rules about pieces apply.
    if len(axes) != 1 or len(_axes(call.op, call.attrs)) != 1:
        return call
    axis_attr = next(attr for attr in AXES if attr in call.op.attrs)
    value = axes[0] if call.op.attrs[axis_attr].kind == "int" else axes
    return call.with_attrs({**call.attrs, axis_attr: value}) or call


def _back(w: CallProgram, call: Call, name: str) -> Call:
    """A conversion of what another one gave is now and then that back to the dtype from before: what looks like nothing, and rounds."""
    writer = _writer(w, name) if call.op.converts else None
    if writer is None or not lookup(writer.type).converts or w.choices.boolean():
        return call
    value = w.values[writer.input_names()[0]]
    return call.with_attrs({**call.attrs, call.op.converts: name_of(value.dtype)}) or call if isinstance(value, np.ndarray) else call


def _writer(w: CallProgram, name: str) -> Operator | None:
    """The operator of the current block that wrote a name last."""
    return next((op for op in reversed(w.block.ops) if name in op.output_names()), None)


def _axes(op: OpDef, attrs: Mapping[str, object]) -> list[object]:
    """The axes that an operator works along, as far as attributes say."""
    value = next((op.attr(name, attrs) for name in AXES if name in op.attrs), None)
    return value if isinstance(value, list) else [value] if isinstance(value, int) else []


# -- names -----------------------------------------------------------------------------------------


def _part_of_loss(w: CallProgram, name: str) -> list[str]:
    """The names of a weighted sum over a result; none if it is not fit for a loss."""
    value = w.values[name]
    if not isinstance(value, np.ndarray) or name_of(value.dtype) not in FLOATS[1:] or not value.size or name in w.underivable:
        return []
    if not np.isfinite(value).all() or float(np.abs(value).max()) > LARGEST:
        return []
    product = w.apply("elementwise_mul", {"X": [name], "Y": [_weights(w, value)]}, {})
    # A sum that cancels has no digits left to compare.
    part = w.apply("reduce_sum", {"X": [product]}, {"reduce_all": True}) if product and not _cancels(w, [product]) else None
    return [part] if part else []


def _weights(w: CallProgram, value: Array) -> str:
    """Data of a shape and dtype, all numbers different, so that an exchange of two elements changes the sum; data costs no operator."""
    return w.data(_uneven(value.shape).astype(value.dtype), stop_gradient=True)


@lru_cache(maxsize=KEPT)
def _uneven(shape: Shape) -> Array:
    """Numbers about 1, for copying."""
    return np.round(np.random.default_rng(prod(shape)).uniform(0.5, 1.5, shape), 2)


def _cancels(w: CallProgram, names: list[str]) -> bool:
    """Whether a sum is much smaller than its terms, where a pass may round: what it rounds in them is no error then."""
    numbers = np.concatenate([np.ravel(np.asarray(w.values[name], "float64")) for name in names])
    return w.interest.kinds == SHORT and abs(float(numbers.sum())) < LEFT * float(np.abs(numbers).sum())


def loss_of(w: CallProgram, names: list[str], terms: int = 0) -> str:
    """The sum of weighted sums over the first so many results of one dtype, a few if that is 0; empty if none is fit for a loss."""
    terms = terms or w.choices.integer(1, TERMS)
    float_names = [
        name for name in [*dict.fromkeys(names)][:terms] if isinstance(w.values[name], np.ndarray) and w.values[name].dtype.kind == "f"
    ]
    parts = [part for name in float_names if w.values[name].dtype == w.values[float_names[0]].dtype for part in _part_of_loss(w, name)]
    if len(parts) < 2 or _cancels(w, parts):
        return "".join(parts[:1])
    return w.apply("sum", {"X": parts}, {}) or ""
