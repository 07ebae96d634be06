"""Calls of operators: samples with other attributes, dtypes, extents and numbers, as far as the operator takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import GraphadError
from graphad.ops import GRAD, OpDef
from graphad.ops.aggregates import TensorArray, zeros_like
from graphad.ops.definition import Attr, checked_attr
from graphad.ops.sample import Value
from graphad.testing.cases import KINDS, Choices, array_of
from graphad.testing.samples import SAMPLES, samples_of
from graphad.testing.samples.valid import outputs_of
from graphad.testing.values import arrays, name_of, remade, type_of
from graphad.types import FLOATS, Array

# -- attribute values ------------------------------------------------------------------------------
# Other values for the attributes of an operator, so that random programs have each of them at two values at least.

FLOAT_VALUES = (0.3, 1.7, -0.7, 0.0, 1.0, -1.0, 2.5, 0.05)  # mostly no powers of two: 0.5 * x is exact where 0.3 * x is not
DTYPE_VALUES = ("float64", "float32", "int64", "int32", "bool")
WORDS = {  # what samples do not have anyway
    "data_format": ("NHWC", "NCHW", "NDHWC", "NCDHW", "NCL", "AnyLayout"),
    "data_layout": ("NHWC", "NCHW", "NDHWC", "NCDHW", "NWC", "NCW"),
    "padding_algorithm": ("SAME", "VALID", "EXPLICIT"),
    "pooling_type": ("max", "avg"),
    "mode": ("constant", "reflect", "edge", "replicate", "circular", "bilinear", "nearest", "all", "channel", "element"),
    "padding_mode": ("zeros", "border", "reflection"),
    "reduction": ("none", "sum", "mean", "batchmean"),
    "Reduce": ("assign", "add", "mul", "multiply"),
    "interp_method": ("nearest", "bilinear", "linear", "bicubic", "trilinear"),
    "regularization_method": ("", "l2_decay"),
    "rtol": ("0.3", "1e-5"),
    "atol": ("0.3", "1e-8"),
}


class Constants(NamedTuple):
    """The constants that the code of a pass compares attributes and numbers with: it has nothing to do in a program without them."""

    numbers: tuple[float, ...] = ()
    words: tuple[str, ...] = ()


NONE = Constants()


def other_value(choices: Choices, op: OpDef, number: int, name: str, constants: Constants = NONE) -> tuple[object, ...]:
    """A value for an attribute that an operator takes in the place of that in one of its samples; nothing if two drawn ones fail.

    Args:
        choices: where the decisions come from.
        op: the operator.
        number: which of its samples.
        name: the attribute.
        constants: what to choose every second time, as far as the attribute takes it.
    """
    candidates = candidates_of(op, number, name, constants)
    for _ in range(2 if candidates else 0):
        index = chosen_value(choices, op, number, name, constants)
        if _fits(op, number, name, constants, index):
            return (candidates[index],)
    return ()


def chosen_value(choices: Choices, op: OpDef, number: int, name: str, constants: Constants = NONE) -> int:
    """Choose one of the ``candidates_of`` an attribute, by its number: one of the constants every second time, if there are such."""
    candidates = candidates_of(op, number, name, constants)
    indices = _of_constants(op, number, name, constants) if constants != NONE else []
    return choices.one_of(indices) if indices and choices.boolean() else choices.below(len(candidates))


@cache
def _of_constants(op: OpDef, number: int, name: str, constants: Constants) -> list[int]:
    """The numbers of the candidates that are made of constants."""
    current = current_value(op, number, name)
    texts = {repr(value) for value in _accepted(op.attrs[name], _hints(op.attrs[name], current, constants))}
    return [i for i, value in enumerate(candidates_of(op, number, name, constants)) if repr(value) in texts]


def _hints(attr: Attr, current: Any, constants: Constants) -> Iterator[object]:
    """Values for an attribute that are one of the constants, or lists of them."""
    numbers, whole = constants.numbers, [int(number) for number in constants.numbers if number.is_integer()]
    if attr.kind in ("str", "DType"):
        yield from constants.words
    elif attr.kind in ("float", "int"):
        yield from (numbers if attr.kind == "float" else whole)
    elif attr.kind == "list[float]" or attr.kind.startswith("list[int]"):
        elements = numbers if attr.kind == "list[float]" else whole
        yield from ([number] * max(len(current or ()), 1) for number in elements)


@cache
def _fits(op: OpDef, number: int, name: str, constants: Constants, index: int) -> bool:
    sample = samples_of(op.type)[number]
    attrs = {**canonical(op, sample.attrs), name: candidates_of(op, number, name, constants)[index]}
    outputs = outputs_of(op, sample.slots(), attrs)
    return outputs is not None and not _divides_by_zero(op, sample.slots(), attrs, outputs)


def _divides_by_zero(op: OpDef, inputs: Mapping[str, list[object]], attrs: dict[str, object], outputs: Mapping[str, list[object]]) -> bool:
    """Whether a gradient rule divides by an attribute that is zero, which is an error where the kernel gives infinity."""
    if op.grad is None:
        return False
    cotangents = {slot + GRAD: [v if v is None else zeros_like(v) for v in values] for slot, values in outputs.items()}
    gradient_inputs = {slot: values for slot, values in {**outputs, **inputs, **cotangents}.items() if slot in op.grad.inputs}
    try:
        with np.errstate(all="ignore"):
            op.grad.run(gradient_inputs, attrs, [slot + GRAD for slot in op.grads or () if slot in inputs])
    except ZeroDivisionError:
        return True
    except Exception:  # a rule that does not take these cotangents says nothing about the attribute
        return False
    return False


def canonical(op: OpDef, attrs: Mapping[str, object]) -> dict[str, object]:
    """The attributes as programs hold them."""
    return {name: checked_attr(op.attrs[name], value) for name, value in attrs.items()}


@cache
def candidates_of(op: OpDef, number: int, name: str, constants: Constants = NONE) -> list[object]:
    """Other values for an attribute of a sample: those of other samples, such as it may have, and some constants, as it takes them."""
    return values_beside(op, name, current_value(op, number, name), constants)


def values_beside(op: OpDef, name: str, current: Any, constants: Constants = NONE) -> list[object]:
    """Other values for an attribute than one that it has; see ``candidates_of``."""
    attr = op.attrs[name]
    sample_values = [sample.attrs[name] for sample in samples_of(op.type) if name in sample.attrs]
    unique: dict[str, object] = {}
    for value in _accepted(attr, (*sample_values, *_values(attr, current), *_hints(attr, current, constants))):
        if value != current or type(value) is not type(current):
            # By text: 1, 1.0 and True are equal in Python, and different attributes.
            unique.setdefault(repr(value), value)
    return list(unique.values())


def current_value(op: OpDef, number: int, name: str) -> Any:
    """The value of an attribute in a sample, or its default."""
    return canonical(op, samples_of(op.type)[number].attrs).get(name, op.attrs[name].default)


def _accepted(attr: Attr, values: Iterable[object]) -> Iterator[object]:
    """The values that an attribute accepts, as programs hold them."""
    for value in values:
        try:
            attr_value = checked_attr(attr, value)
        except GraphadError:
            continue
        if attr_value is not None:
            yield attr_value


def _values(attr: Attr, current: Any) -> Iterator[object]:
    if attr.kind == "bool":
        yield not current
    elif attr.kind == "int":
        yield from (current + 1, current - 1, 0, 1, 2, 3, -1, -2)
    elif attr.kind == "float":
        yield from FLOAT_VALUES
    elif attr.kind == "DType":
        yield from DTYPE_VALUES
    elif attr.kind == "str":
        yield from _words(attr.name)
    elif attr.kind.startswith("list[int]"):
        yield from _int_lists(list(current or []))
    elif attr.kind == "list[float]":
        numbers = list(current or [])
        yield from (numbers[::-1], [0.3 + n for n in numbers], [1.7] * len(numbers), [0.3], [0.3, 1.7], [])


def _int_lists(current: list[int]) -> Iterator[list[int]]:
    """The list in other orders, with single elements changed, or of another length."""
    yield current[::-1]
    yield current[1:] + current[:1]
    for i, number in enumerate(current):
        for change in (number + 1, number - 1, -1, 0, 1):
            yield [*current[:i], change, *current[i + 1 :]]
    yield from (current[:-1], [number + 1 for number in current], [0], [1], [-1], [0, 1], [1, 1], [2, 3], [0, 0, 1, 1], [])


@cache
def _words(name: str) -> tuple[str, ...]:
    """The words that samples of any operator have for an attribute of a name, and those that are known besides."""
    of_samples = (s.attrs[name] for samples in SAMPLES.values() for s in samples if isinstance(s.attrs.get(name), str))
    return tuple(dict.fromkeys((*WORDS.get(name, ()), *of_samples)))


@cache
def attribute_words() -> frozenset[str]:
    """All words that some attribute of some operator may be."""
    of_samples = (value for samples in SAMPLES.values() for s in samples for value in s.attrs.values() if isinstance(value, str))
    return frozenset((*DTYPE_VALUES, *(word for words in WORDS.values() for word in words), *of_samples))


# -- calls -----------------------------------------------------------------------------------------
# Calls of operators: samples with other attributes, dtypes, extents and numbers, as far as the operator takes them.

Slots = dict[str, list[Value]]
Written = tuple[Slots, dict[str, Any]]
EXTENTS = (0, 1, 3, 5, 7, 2)
MOST_ELEMENTS = 600
MOST_RESULTS = 3000


@dataclass(frozen=True)
class Interest:
    """The operators, attributes and numbers that random programs contain more often than others: those that a pass is about.

    Args:
        types: types of operators; half of a program's operators are of these.
        attrs: names of attributes; these are varied first.
        kinds: kinds of numbers, of ``graphad.testing.cases``.
        blocks: whether loops and branches are to be looked at.
        gradients: whether gradient operators are, so that programs have to be differentiated first.
        backward: whether gradients are spoken of at all, so that half of the programs have to be.
        constants: numbers and words that attributes should have, and constants be filled with.
        marks: whether variables that stop or clip gradients are spoken of.
        clips: whether variables may clip their gradients, which passes have to keep: not where a backward is built that does not clip.
        left_out: attributes that are what they are by default throughout a program. Of some operators no sample leaves them out, and
            what a pass does only where several operators have none would be left to chance.
    """

    types: tuple[str, ...] = ()
    attrs: tuple[str, ...] = ()
    kinds: tuple[str, ...] = KINDS
    blocks: bool = False
    gradients: bool = False
    constants: Constants = NONE
    backward: bool = False
    marks: bool = False
    clips: bool = False
    left_out: tuple[str, ...] = ()


class Draft(NamedTuple):
    """A planned call of an operator: inputs and attributes whose types inference accepts.

    ``fixed`` is False if the extents of its outputs depend on numbers in its inputs, which then have to stay as they are.
    """

    op: OpDef
    inputs: Slots
    attrs: dict[str, Any]
    number: int = 0
    fixed: bool = True


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

    @property
    def results(self) -> list[Array]:
        """The arrays of all outputs, those in lists of tensors too."""
        return [array for values in self.outputs.values() for value in values for array in arrays(value)]

    def with_inputs(self, inputs: Slots) -> Call | None:
        """The call on other inputs; None if the operator does not take them."""
        return checked(self.op, inputs, self.attrs, self.number)

    def with_attrs(self, attrs: dict[str, object]) -> Call | None:
        """The call with other attributes; None if the operator does not take them."""
        return checked(self.op, self.inputs, attrs, self.number)


def checked(op: OpDef, inputs: Slots, attrs: dict[str, object], number: int = 0) -> Call | None:
    """The call, None if the operator does not take it or makes something large of it."""
    outputs = outputs_of(op, inputs, attrs)
    if outputs is None or any(_size(value) > MOST_RESULTS for values in outputs.values() for value in values):
        return None
    return Call(op, inputs, attrs, outputs, number)


def _size(value: Value) -> int:
    """How many elements there are, written or not."""
    return value.length if isinstance(value, TensorArray) else np.size(value)


def inferred(draft: Draft) -> Draft | None:
    """The draft, if inference accepts the types, with what it knows of the outputs' extents; else None."""
    types = {slot: [type_of(value) for value in values] for slot, values in draft.inputs.items()}
    try:
        outputs = draft.op.infer_types(types, draft.attrs)
    except Exception:  # whatever it raises: the operator does not take this
        return None
    is_fixed = not any(type is not None and -1 in type.shape for types_of_slot in outputs.values() for type in types_of_slot)
    return draft if is_fixed else draft._replace(fixed=False)


def finite(value: Value) -> bool:
    """Whether no number in a value is nan or infinite."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    return all(array.dtype.kind != "f" or bool(np.isfinite(array).all()) for array in arrays(value))


@cache
def _sample(op: OpDef, number: int) -> tuple[Slots, dict[str, object]]:
    sample = samples_of(op.type)[number]
    return sample.slots(), canonical(op, sample.attrs)


def draw_call(choices: Choices, op: OpDef, dtype: str, interest: Interest) -> Draft | None:
    """Draw a call of an operator: a sample with other attributes, dtype and extents, as far as inference accepts them.

    Args:
        choices: where the decisions come from.
        op: the operator.
        dtype: that of its floating-point numbers; another one if it does not take this one.
        interest: which attributes to change first.

    Returns:
        The draft of a call; None if the operator has no samples.
    """
    samples = samples_of(op.type)
    if not samples:
        return None
    number = choices.below(len(samples))
    inputs, sample_attrs = _sample(op, number)
    attrs = sample_attrs
    for _ in range(choices.one_of((0, 1, 1, 2)) if op.attrs else 0):
        attrs = _other_attr(choices, op, number, attrs, interest)
    # Inference is the judge: drawn calls that it refuses are drawn again, down to the sample as it is, which it accepts.
    for name in dict.fromkeys((dtype, choices.one_of(("float32", "float64")))):
        for draft in (Draft(op, *parts, number) for parts in in_dtype(choices, op, inputs, attrs, name)):
            drafts = _resized(choices, draft.inputs, draft.attrs) if choices.chance(3) else ()
            for candidate in (*(Draft(op, *parts, number) for parts in drafts), draft):
                call = inferred(candidate)
                if call is not None:
                    return call
    return inferred(Draft(op, inputs, attrs, number)) or inferred(Draft(op, inputs, sample_attrs, number))


def sampled(draft: Draft) -> Call | None:
    """The sample that a draft was made from, as a call."""
    return checked(draft.op, *_sample(draft.op, draft.number), draft.number)


# -- attributes ----------------------------------------------------------------------------------


def _other_attr(choices: Choices, op: OpDef, number: int, attrs: dict[str, object], interest: Interest) -> dict[str, object]:
    """The attributes with one changed, mostly one of interest; as they are if there is none to change."""
    names = [name for name in interest.attrs if name in op.attrs]
    if not names or choices.chance(4):
        names = list(op.attrs)
    for _ in range(min(3, len(names))):
        name = choices.one_of(names)
        for value in other_value(choices, op, number, name, interest.constants):
            return {**attrs, name: value}
    return attrs


def other_attr(choices: Choices, call: Call, interest: Interest) -> Call | None:
    """The call with one attribute changed; None if there is none to change."""
    for _ in range(2):
        attrs = _other_attr(choices, call.op, call.number, call.attrs, interest)
        result = None if attrs == call.attrs else call.with_attrs(attrs)
        if result is not None:
            return result
    return None


# -- dtypes --------------------------------------------------------------------------------------


def in_dtype(choices: Choices, op: OpDef, inputs: Slots, attrs: dict[str, object], dtype: str) -> Iterator[Written]:
    """The call with its numbers, but not its indices, in another dtype; or with another attribute ``dtype``."""
    main = _numbers_dtype(inputs)
    dtype_attrs = [a.name for a in op.attrs.values() if a.kind == "DType" and attrs.get(a.name, a.default) == (main or "float64")]
    if dtype_attrs and op.type != "cast":
        attrs = {**attrs, **dict.fromkeys(dtype_attrs, dtype)}
    if main == dtype or (not main and dtype_attrs):
        yield inputs, attrs
    elif main in FLOATS:
        convert = _cast if dtype in FLOATS else choices.one_of((_rounded, _above_zero))
        wide, narrow = np.dtype(main), np.dtype(dtype)
        # Arrays of other dtypes are indices, and stay as they are.
        yield (
            {
                slot: [remade(v, (convert(a, narrow) if a.dtype == wide else a for a in arrays(v))) for v in values]
                for slot, values in inputs.items()
            },
            attrs,
        )


def _numbers_dtype(inputs: Slots) -> str:
    """The dtype of the numbers, not that of indices beside them; empty if there are no inputs."""
    names = [name_of(array.dtype) for values in inputs.values() for value in values for array in arrays(value)]
    return next((name for name in names if name in FLOATS), names[0] if names else "")


def _cast(array: Array, dtype: np.dtype[np.generic]) -> Array:
    return array.astype(dtype)


def _rounded(array: Array, dtype: np.dtype[np.generic]) -> Array:
    with np.errstate(all="ignore"):
        # Samples are mostly in [-1, 1]: times 3 they are several integers.
        return np.asarray(np.round(np.nan_to_num(array) * 3), dtype)


def _above_zero(array: Array, dtype: np.dtype[np.generic]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.ceil(np.abs(np.nan_to_num(array)) + 0.1), dtype)


# -- extents -------------------------------------------------------------------------------------


def _resized(choices: Choices, inputs: Slots, attrs: dict[str, Any]) -> Iterator[Written]:
    """The call with one extent replaced wherever it occurs, or along the first axis, or in one place; or with no axes at all."""
    places = [(s, i, axis) for s, values in inputs.items() for i, v in enumerate(values) for axis in range(rank_of(v))]
    sizes = [e for v in attrs.values() if isinstance(v, list) for e in v if type(e) is int and e > 0]
    if not places and not sizes:
        return
    # 0, 1: all axes of the extent; 2: this axis of all tensors, which may be the batch; 3: one place; 4: tensors without axes.
    kind = choices.below(5)
    if kind == 4 and places:
        yield {s: [first_element(v) for v in values] for s, values in inputs.items()}, attrs
        return
    slot, i, axis = choices.one_of(places) if places else ("", 0, 0)
    old = inputs[slot][i].shape[axis] if places else choices.one_of(sizes)
    new = choices.one_of(EXTENTS)
    if kind < 2:
        cuts = [(s, n, a) for s, n, a in places if inputs[s][n].shape[a] == old]
    else:
        cuts = [(s, n, a) for s, n, a in places if a == axis] if kind == 2 else [(slot, i, axis)][: len(places)]
    new_inputs = cut_to(inputs, cuts, new)
    if any(np.size(v) > MOST_ELEMENTS for values in new_inputs.values() for v in values):
        return
    # An attribute that names the old extent, such as a shape, has to name the new one.
    if any(_has(value, old) for value in attrs.values()):
        yield new_inputs, {n: [new if e == old else e for e in v] if _has(v, old) else v for n, v in attrs.items()}
    yield new_inputs, attrs


def rank_of(value: Value) -> int:
    return value.ndim if isinstance(value, np.ndarray) else 0


def _has(value: object, extent: int) -> bool:
    return isinstance(value, list) and any(type(e) is int and e == extent for e in value)


def first_element(value: Value) -> Value:
    """The first element of an array as a scalar; what has none stays."""
    return value.reshape(-1)[:1].reshape(()) if isinstance(value, np.ndarray) and value.size else value


def cut_to(inputs: Slots, places: Sequence[tuple[str, int, int]], extent: int) -> Slots:
    """The inputs with the axes at some places repeated or cut to an extent."""
    result = {slot: list(values) for slot, values in inputs.items()}
    for slot, i, axis in places:
        value = result[slot][i]
        if value.shape[axis]:
            # Repeated and not drawn again: indices stay in range, matrices stay as well-conditioned as the sample's.
            result[slot][i] = np.take(value, np.arange(extent) % value.shape[axis], axis)
        else:
            result[slot][i] = np.ones((*value.shape[:axis], extent, *value.shape[axis + 1 :]), value.dtype)
    return result


# -- numbers -------------------------------------------------------------------------------------


def with_numbers(choices: Choices, draft: Draft, kind: str) -> Draft:
    """The draft with other floating-point numbers, and the same indices in another order.

    Args:
        kind: one of ``graphad.testing.cases``.
    """

    def other(value: Value) -> Value:
        if not isinstance(value, np.ndarray) or not value.size:
            return value
        if value.dtype.kind != "f":
            # Rolled and not drawn: they may be indices, which have to stay in range.
            return np.roll(value, choices.below(value.size)) if choices.boolean() else value
        return array_of(choices, value.shape, name_of(value.dtype), kind)

    return draft._replace(inputs={slot: list(map(other, values)) for slot, values in draft.inputs.items()})
