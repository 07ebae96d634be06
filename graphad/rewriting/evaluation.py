"""Evaluation of terms: on types, on arrays, in a graph. One walk, three interpretations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from graphad.errors import InvalidType, ShapeError
from graphad.ir import Builder, GraphSymbol, Op, Value
from graphad.ops import OpDef, lookup
from graphad.rewriting.constants import as_stored
from graphad.rewriting.matcher import Match
from graphad.rewriting.pattern import Call, Constant, Result, Scalar, Several, Term
from graphad.types import TENSOR, Array, Extent, TensorType

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Slots = dict[str, list[T]]


class Bindings(Protocol[T_co]):
    """The bindings of a pattern's leaves: a match, or a stand-in for one."""

    @property
    def values(self) -> Mapping[Term, T_co]: ...

    @property
    def lists(self) -> Mapping[Term, Sequence[T_co]]: ...


class Evaluation(ABC, Generic[T]):
    """Terms evaluated from their leaves on, each operator once; ``T`` is what a tensor becomes."""

    def __init__(self, bindings: Bindings[object]) -> None:
        self.found = bindings
        self.done: dict[Call, Slots[T]] = {}

    @abstractmethod
    def leaf(self, term: Term) -> T:
        """The value of a tensor of the pattern."""

    @abstractmethod
    def leaves(self, term: Several) -> Sequence[T]:
        """The values of a list of tensors."""

    @abstractmethod
    def apply(self, definition: OpDef, inputs: Slots[T], attrs: Mapping[str, object]) -> Slots[T]:
        """The result of an operator on its evaluated inputs."""

    @abstractmethod
    def filled(self, number: Any, like: T) -> T:
        """A constant of no axes, of the dtype of another operand."""

    def of(self, term: Term) -> T:
        """The value of a term."""
        if not isinstance(term, Result):
            return self.leaf(term)
        # Kept by call: an operator whose result is read twice is evaluated once.
        outputs = self.done.get(term.call)
        if outputs is None:
            outputs = self.done[term.call] = self._call(term.call)
        return outputs[term.slot][term.index]

    def _call(self, call: Call) -> Slots[T]:
        inputs: Slots[T] = {}
        for slot, terms in call.inputs.items():
            items = inputs[slot] = []
            for term in terms:
                if isinstance(term, Several | Constant):
                    items += self.operands(term, call)
                else:
                    items.append(self.of(term))
            if not items and not call.definition.inputs[slot].optional:
                raise ShapeError(f"slot {slot} of {call!r} is empty")
        return self.apply(call.definition, inputs, {name: self.scalar(value) for name, value in call.attrs.items()})

    def operands(self, term: Term, call: Call) -> list[T]:
        """The inputs of an operator for a term in a slot: one item, or those of a list.

        A constant that was not matched takes the dtype of another input of the operator.
        """
        if isinstance(term, Several):
            return list(self.leaves(term))
        if isinstance(term, Constant) and not self.knows(term):
            # A number has no dtype of its own, as a Python number beside an array has none.
            neighbors = [t for terms in call.inputs.values() for t in terms if not isinstance(t, Constant)]
            if not neighbors:
                raise InvalidType(f"what {term!r} is to be beside is not said in {call!r}; ops.fill_any_like(x, value=...) is")
            return [self.filled(self.scalar(term.number), self.of(neighbors[0]))]
        return [self.of(term)]

    def knows(self, constant: Constant) -> bool:
        """Whether a constant is one of those that were matched."""
        return constant in self.found.values

    def scalar(self, value: object) -> object:
        """An attribute's value."""
        if isinstance(value, Scalar):
            value = value.value(self.found)
        return [self.scalar(item) for item in value] if isinstance(value, tuple | list) else value


class TypeEvaluation(Evaluation[TensorType]):
    """Terms as shapes and dtypes, which the operators infer."""

    def apply(self, definition: OpDef, inputs: Slots[TensorType], attrs: Mapping[str, object]) -> Slots[TensorType]:
        return definition.infer_types(inputs, attrs)

    def filled(self, number: float, like: TensorType) -> TensorType:
        # A number is a scalar in the dtype of its neighbor, as in numpy.
        return TensorType((), like.dtype)


class Types(TypeEvaluation):
    """Terms as shapes and dtypes. ``known`` are the types of matched tensors."""

    found: Match

    def __init__(self, match: Match, known: Mapping[Value, TensorType]) -> None:
        super().__init__(match)
        self.known = known

    def leaf(self, term: Term) -> TensorType:
        return self.known[self.found.values[term]]

    def leaves(self, term: Several) -> Sequence[TensorType]:
        return [self.known[value] for value in self.found.lists[term]]


class Bound(Evaluation[T]):
    """Terms whose leaves are what they are bound to."""

    found: Bindings[T]

    def __init__(self, bindings: Bindings[T]) -> None:
        super().__init__(bindings)

    def leaf(self, term: Term) -> T:
        return self.found.values[term]

    def leaves(self, term: Several) -> Sequence[T]:
        return self.found.lists[term]


class Arrays(Bound[Array]):
    """Terms as arrays: ``found.values`` holds those of the leaves. What inference refuses is not computed."""

    def apply(self, definition: OpDef, inputs: Slots[Array], attrs: Mapping[str, object]) -> Slots[Array]:
        # Kernels assume what inference has checked.
        definition.infer_types({slot: [TensorType(a.shape, a.dtype.name) for a in arrays] for slot, arrays in inputs.items()}, attrs)
        return definition.run(inputs, attrs, tuple(definition.outputs))

    def filled(self, number: float, like: Array) -> Array:
        return np.asarray(as_stored(number, like.dtype.name), like.dtype)


class Instance(Bound[Value]):
    """Terms as values of a graph: operators that are not there yet are put before the one that was matched."""

    found: Match

    def __init__(self, op: Op, match: Match) -> None:
        super().__init__(match)
        self.op = op
        stem = next(value.name for values in op.outputs.values() for value in values)
        self.builder = _Builder(op.graph, stem, op, op.role)

    @property
    def made(self) -> set[Value]:
        """The values that were not there before."""
        return self.builder.made

    def value(self, term: Term) -> Value:
        """The value that a term is in the graph."""
        return self.of(term)

    def of(self, term: Term) -> Value:
        # What was matched is not built again: the replacement may use it.
        if isinstance(term, Result) and term.call.key in self.found.ops:
            return self.found.value_of(term)
        return super().of(term)

    def apply(self, definition: OpDef, inputs: Slots[Value], attrs: Mapping[str, object]) -> Slots[Value]:
        return self.builder.add(definition, inputs, attrs)

    def filled(self, number: float, like: Value) -> Value:
        # Added in the dtype of the neighbor; numbers are attributes, stored as floats.
        attrs = {"shape": [], "value": float(number), "dtype": like.dtype}
        return self.builder.add(lookup("fill_constant"), {}, attrs)["Out"][0]


class _Builder(Builder):
    """Adds operators in the place of one, on its line and for what it is the gradient of."""

    def add(self, definition: OpDef, inputs: Slots[Value], attrs: Mapping[str, object]) -> Slots[Value]:
        """Add an operator over values; return the values it writes, slot by slot."""
        symbols = [self._symbols(definition, slot, inputs) for slot in definition.inputs]
        result = self.emit(definition, symbols, attrs)
        place = self.before
        assert place is not None and place.previous is not None
        # ``emit`` put the operator right before ``place``; an error in it should point at the user's line of what it replaces.
        place.previous.source, place.previous.forward = place.source, place.forward
        slots = [slot for slot in definition.outputs.values() if not slot.optional]
        parts = (result,) if len(slots) == 1 else result
        return {slot.name: _unwrapped(part) for slot, part in zip(slots, parts, strict=True)}

    def _symbols(self, definition: OpDef, slot: str, inputs: Slots[Value]) -> list[GraphSymbol] | GraphSymbol | None:
        values = inputs.get(slot)
        if not values:
            return None
        symbols = [self.symbol(value) for value in values]
        return symbols if definition.inputs[slot].variadic else symbols[0]


def _unwrapped(part: GraphSymbol | Sequence[GraphSymbol]) -> list[Value]:
    return [item.value for item in part] if isinstance(part, list | tuple) else [part.value]  # type: ignore[union-attr]


# -- types ---------------------------------------------------------------------------------------

_REFUSED = (ShapeError, ValueError, TypeError, IndexError)
_SIZE = 7  # what an unknown extent is taken to be, to see which extents are the same
_SIZES = (7, 11, 13, 17, 19, 23, 29, 31)  # the same, by axis from the last
Owner = Value | str
Sizes = Callable[
    [Owner, int], int
]  # what an unknown extent is taken to be: that of a name, or of a value at an axis, counted from the last


def keeps_types(before: Sequence[Result], after: Sequence[Term], match: Match) -> bool:
    """Whether the replacement has the shapes and dtypes of the pattern, for all values of the unknown extents."""
    try:
        # The ordinary case: all types are known, and each side is inferred once.
        return _same(match, before, [_static(match.value_of(term)) for term in before], after, _Static())
    except _Unknown:
        return _keeps_unknown(before, after, match)
    except _REFUSED as error:
        reason = str(error)
        return match.fail(lambda: f"what comes after does not fit: {reason}")


class _Unknown(Exception):
    """A type is not known, or not as a whole."""


class _Static(dict[Value, TensorType]):
    """The types of values that are known as a whole."""

    def __missing__(self, value: Value) -> TensorType:
        return _static(value)


def _static(value: Value) -> TensorType:
    shape, dtype = value.shape, value.dtype
    if shape is None or dtype is None or -1 in shape or value.kind != TENSOR:
        raise _Unknown
    return TensorType(shape, dtype)


def _keeps_unknown(before: Sequence[Result], after: Sequence[Term], match: Match) -> bool:
    values = _matched(match)
    types = {value: type for value in values if value.kind == TENSOR and (type := value.type) is not None}
    if len(types) < len(values):
        return match.fail(lambda: "the shape or the dtype of something is not known")
    # Unknown extents cannot be compared, so both sides are inferred with several choices of numbers for them.
    open_ended = dict.fromkeys(_owner(value, extent) for value in values for extent in value.shape or () if extent == -1)
    try:
        return all(_keeps(before, after, match, types, *item) for item in _trials([*open_ended]))
    except _REFUSED as error:
        reason = str(error)
        return match.fail(lambda: f"what comes after does not fit: {reason}")


def _matched(match: Match) -> dict[Value, None]:
    leaves = [*match.values.values(), *(value for values in match.lists.values() for value in values)]
    results = [value for op in match.ops.values() for values in op.outputs.values() for value in values]
    return dict.fromkeys([*leaves, *results])


def _owner(value: Value, extent: int) -> Owner:
    """The key by which trials choose an unknown extent: its name, else its value."""
    return extent.name if isinstance(extent, Extent) else value


def _trials(open_ended: Sequence[Owner]) -> Iterator[tuple[Sizes, bool]]:
    """Assignments of sizes to unknown extents, each with whether the pattern has to fit them: one size for all; a size of its own for each
    axis or name; and, where broadcasting makes a difference, 1 for one owner and a size for the others, and the reverse."""
    places: dict[Owner, int] = {owner: i for i, owner in enumerate(open_ended) if isinstance(owner, str)}
    yield lambda owner, axis: _SIZE, True
    # Different sizes show an axis that is taken for another; a 1 among others shows what only broadcasting would let pass.
    yield lambda owner, axis: _SIZES[places.get(owner, axis) % len(_SIZES)], False
    for single in open_ended:
        yield lambda owner, axis, single=single: 1 if owner is single else _SIZE, False  # type: ignore[misc]
        yield lambda owner, axis, single=single: _SIZE if owner is single else 1, False  # type: ignore[misc]


def _keeps(
    before: Sequence[Result], after: Sequence[Term], match: Match, known: Mapping[Value, TensorType], sizes: Sizes, has_to_fit: bool
) -> bool:
    """Whether the types are kept with the unknown extents being of some sizes, or whether these cannot be."""
    types = {value: _closed(value, type, sizes) for value, type in known.items()}
    try:
        old = [Types(match, types).of(term) for term in before]
    except ShapeError as error:
        reason = str(error)
        return not has_to_fit or match.fail(lambda: f"with unknown extents of one size what comes before does not fit: {reason}")
    return _same(match, before, old, after, types)


def _closed(value: Value, type: TensorType, sizes: Sizes) -> TensorType:
    last = len(type.shape) - 1
    extents = (sizes(_owner(value, extent), last - i) if extent == -1 else extent for i, extent in enumerate(type.shape))
    return TensorType(tuple(extents), type.dtype)


def _same(
    match: Match, before: Sequence[Result], old: Sequence[TensorType], after: Sequence[Term], known: Mapping[Value, TensorType]
) -> bool:
    types = Types(match, known)
    for was, type, term in zip(before, old, after, strict=True):
        new = types.of(term)
        if (type.shape, type.dtype) != (tuple(new.shape), new.dtype):
            return match.fail(lambda was=was, type=type, new=new: f"{match.value_of(was)!r} is {type}, what comes after is {new}")
    return True
