"""Calls of operators: samples with other attributes, dtypes, extents and numbers, as far as the operator takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.ops import OpDef
from graphad.ops.sample import Array, Value
from graphad.testing.attribute_values import alternatives, canonical
from graphad.testing.choices import Choices
from graphad.testing.number_pools import NON_FINITE, array_of
from graphad.testing.samples import samples_of
from graphad.testing.samples.valid import outputs_of
from graphad.testing.values import arrays, remade
from graphad.types import FLOATS

Slots = dict[str, list[Value]]
EXTENTS = (0, 1, 3, 5, 7, 2)
MOST_ELEMENTS = 600


@dataclass(frozen=True)
class Interest:
    """What random programs should have more often than the rest.

    Args:
        types: types of operators; half of a program's operators are of these.
        attrs: names of attributes; these are varied first.
    """

    types: tuple[str, ...] = ()
    attrs: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Call:
    """An operator with values for its inputs, its attributes, and the outputs that it has on them."""

    op: OpDef
    inputs: Slots
    attrs: dict[str, Any]
    outputs: Slots
    number: int = 0

    @property
    def finite(self) -> bool:
        """Whether no output is nan or infinite."""
        return all(finite(value) for values in self.outputs.values() for value in values)

    def with_inputs(self, inputs: Slots) -> Call | None:
        """The call on other inputs; None if the operator does not take them."""
        return checked(self.op, inputs, self.attrs, self.number)

    def with_attrs(self, attrs: dict[str, Any]) -> Call | None:
        """The call with other attributes; None if the operator does not take them."""
        return checked(self.op, self.inputs, attrs, self.number)


def checked(op: OpDef, inputs: Slots, attrs: dict[str, Any], number: int = 0) -> Call | None:
    """The call, None if the operator does not take it."""
    outputs = outputs_of(op, inputs, attrs)
    return None if outputs is None else Call(op, inputs, attrs, outputs, number)


def finite(value: Value) -> bool:
    """Whether no number in a value is nan or infinite."""
    return all(array.dtype.kind != "f" or bool(np.isfinite(array).all()) for array in arrays(value))


def draw_call(choices: Choices, op: OpDef, dtype: str, interest: Interest) -> Call | None:
    """A call of an operator, in a dtype if it takes that; None if no sample of it runs."""
    samples = samples_of(op.type)
    if not samples:
        return None
    number = choices.below(len(samples))
    sample = samples[number]
    call = checked(op, sample.slots(), canonical(op, sample.attrs), number)
    if call is None:
        return None
    call = _vary_attrs(choices, call, interest)
    call = _in_dtype(choices, call, dtype)
    return _resize(choices, call) if choices.chance(3) else call


# -- attributes ----------------------------------------------------------------------------------


def _vary_attrs(choices: Choices, call: Call, interest: Interest) -> Call:
    for _ in range(choices.one_of((0, 1, 1, 2))):
        call = other_attr(choices, call, interest) or call
    return call


def other_attr(choices: Choices, call: Call, interest: Interest) -> Call | None:
    """The call with one attribute changed; None if there is none to change."""
    valid = alternatives(call.op, call.number)
    names = [name for name in interest.attrs if name in valid]
    if not names or choices.chance(4):
        names = list(valid)
    for _ in range(2 if names else 0):
        name = choices.one_of(names)
        changed = call.with_attrs({**call.attrs, name: choices.one_of(valid[name])})
        if changed is not None:
            return changed
    return None


# -- dtypes --------------------------------------------------------------------------------------


def _in_dtype(choices: Choices, call: Call, dtype: str) -> Call:
    """The call in a dtype if the operator takes it, else in float32 or float64."""
    wanted = dict.fromkeys((dtype, choices.one_of(("float32", "float64"))))
    return next((cast for name in wanted for cast in _casts(call, name)), call)


def _casts(call: Call, dtype: str) -> Iterator[Call]:
    """The call with its numbers, but not its indices, in another dtype; or with another attribute ``dtype``."""
    main = _numbers_dtype(call)
    typed = [a.name for a in call.op.attrs.values() if a.kind == "DType" and call.attrs.get(a.name, a.default) == (main or "float64")]
    attrs = {**call.attrs, **dict.fromkeys(typed, dtype)} if typed and not call.op.type == "cast" else call.attrs
    if main == dtype:
        yield call
    elif main in FLOATS:
        for convert in (_cast,) if dtype in FLOATS else (_rounded, _above_zero):
            inputs = {s: [remade(v, (convert(a, dtype, main) for a in arrays(v))) for v in values] for s, values in call.inputs.items()}
            cast = checked(call.op, inputs, attrs, call.number)
            if cast is not None:
                yield cast
    elif not main and typed:
        cast = call.with_attrs(attrs)
        if cast is not None:
            yield cast


def _numbers_dtype(call: Call) -> str:
    """The dtype of the numbers, not that of indices beside them; empty if there are no inputs."""
    names = [array.dtype.name for values in call.inputs.values() for value in values for array in arrays(value)]
    return next((name for name in names if name in FLOATS), names[0] if names else "")


def _cast(array: Array, dtype: str, main: str) -> Array:
    return array.astype(dtype) if array.dtype.name == main else array


def _rounded(array: Array, dtype: str, main: str) -> Array:
    return np.round(np.nan_to_num(array) * 3).astype(dtype) if array.dtype.name == main else array


def _above_zero(array: Array, dtype: str, main: str) -> Array:
    return np.ceil(np.abs(np.nan_to_num(array)) + 0.1).astype(dtype) if array.dtype.name == main else array


# -- extents -------------------------------------------------------------------------------------


def _resize(choices: Choices, call: Call) -> Call:
    """The call with one extent replaced wherever it occurs, or along the first axis, or in one place; or with no axes at all."""
    places = [(s, i, axis) for s, values in call.inputs.items() for i, v in enumerate(values) for axis in range(np.ndim(v))]
    listed = [e for v in call.attrs.values() if isinstance(v, list) for e in v if isinstance(e, int) and not isinstance(e, bool) and e > 0]
    if not places and not listed:
        return call
    kind = choices.below(5)
    if kind == 4:
        return call.with_inputs({s: [_first(v) for v in values] for s, values in call.inputs.items()}) or call
    if places:
        slot, i, axis = choices.one_of(places)
        old = call.inputs[slot][i].shape[axis]
    else:
        slot, i, axis, old = "", 0, 0, choices.one_of(listed)
    new = choices.one_of(EXTENTS)
    if kind < 2 or not places:
        chosen = [(s, n, a) for s, n, a in places if call.inputs[s][n].shape[a] == old]
    else:
        chosen = [(s, n, a) for s, n, a in places if a == axis] if kind == 2 else [(slot, i, axis)]
    inputs = _recut(call.inputs, chosen, new)
    if any(np.size(v) > MOST_ELEMENTS for values in inputs.values() for v in values):
        return call
    replaced = {n: [new if e == old else e for e in v] if _has(v, old) else v for n, v in call.attrs.items()}
    return next((c for attrs in (replaced, call.attrs) if (c := checked(call.op, inputs, attrs, call.number)) is not None), call)


def _has(value: Any, extent: int) -> bool:
    return isinstance(value, list) and extent in value and not any(isinstance(e, bool) for e in value)


def _first(value: Value) -> Value:
    return value.reshape(-1)[:1].reshape(()) if isinstance(value, np.ndarray) and value.size else value


def _recut(inputs: Slots, places: Sequence[tuple[str, int, int]], extent: int) -> Slots:
    """The inputs with the axes at some places repeated or cut to an extent."""
    result = {slot: list(values) for slot, values in inputs.items()}
    for slot, i, axis in places:
        value = result[slot][i]
        if value.shape[axis]:
            result[slot][i] = np.take(value, np.arange(extent) % value.shape[axis], axis)
        else:
            result[slot][i] = np.ones((*value.shape[:axis], extent, *value.shape[axis + 1 :]), value.dtype)
    return result


# -- numbers -------------------------------------------------------------------------------------


def with_numbers(choices: Choices, call: Call, kind: str) -> Call:
    """The call on other floating-point numbers, and the same indices in another order; as it was if its results would not be finite.

    Args:
        kind: one of ``graphad.testing.number_pools``.
    """

    def other(value: Value) -> Value:
        if not isinstance(value, np.ndarray) or not value.size:
            return value
        if value.dtype.kind != "f":
            return np.roll(value, choices.below(value.size)) if choices.boolean() else value
        return array_of(choices, value.shape, value.dtype.name, kind)

    changed = call.with_inputs({slot: list(map(other, values)) for slot, values in call.inputs.items()})
    if changed is None or (kind != NON_FINITE and not changed.finite):
        return call
    return changed
