"""The terms of patterns: tensors and scalars that a match binds, and what makes a rule of them well-formed."""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, overload

from graphad.errors import InvalidType, InvalidValue
from graphad.ops import REGISTRY, OpDef, Symbol
from graphad.types import FLOATS, Tensor

# -- terms -----------------------------------------------------------------------------------------
# The terms of patterns: tensors and scalars that a match binds.
#
# Operators applied to a ``Unknown`` or a ``Result`` build a tree instead of computing (they are symbols); arithmetic and comparisons
# of attributes, shapes and dtypes build a ``Scalar``, which is computed once a rule has matched.


class Scalar:
    """A number, a text or a list that is known once a rule has matched; arithmetic, comparisons, ``& | ~`` and ``[]`` build others."""

    def __init__(self, text: str, function: Callable[..., object], parts: Sequence[object] = ()) -> None:
        self.text = text
        self.function = function
        self.parts = tuple(parts)

    def value(self, match: object) -> object:
        """Its value for a match."""
        return self.function(*(part.value(match) if isinstance(part, Scalar) else part for part in self.parts))

    def __repr__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        # Else ``if x.ndim == 2`` in a rule would take one branch, whatever a match has.
        raise InvalidType(f"{self.text} is not known before the rule matches: return it as a condition of the rule")

    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[object]:
        # Without it Python would take [0], [1] and so on for its elements, for ever.
        raise InvalidType(f"{self.text} has no elements before the rule matches; [] of a number or of a value takes one element")

    def __contains__(self, item: object) -> bool:
        raise InvalidType(f"what {self.text} has in it is not known before the rule matches: return it as a condition of the rule")

    def __getitem__(self, index: object) -> Scalar:
        return Scalar(f"{self.text}[{index!r}]", python.getitem, (self, index))

    def __neg__(self) -> Scalar:
        return Scalar(f"-{self.text}", python.neg, (self,))

    def __invert__(self) -> Scalar:
        return Scalar(f"not {self.text}", python.not_, (self,))


class Uses(Scalar):
    """How many readers a tensor has."""


def parts_of(value: object) -> Iterator[object]:
    """The parts of a scalar, or of a list with scalars in it: scalars, attributes, and tensors."""
    yield value
    items = value.parts if isinstance(value, Scalar) else value if isinstance(value, list | tuple) else ()
    for item in items:
        yield from parts_of(item)


def _infix(name: str, mark: str, function: Callable[[object, object], object], mirrored: bool = False) -> None:
    def method(self: Scalar, other: object) -> Scalar:
        return Scalar(f"({self!r} {mark} {other!r})", function, (self, other))

    def reflected(self: Scalar, other: object) -> Scalar:
        return Scalar(f"({other!r} {mark} {self!r})", function, (other, self))

    setattr(Scalar, f"__{name}__", method)
    if mirrored:
        setattr(Scalar, f"__r{name}__", reflected)


for _name, _mark in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}.items():
    _infix(_name, _mark, getattr(python, _name), mirrored=True)
for _name, _mark in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    # Comparisons have no reflected form: Python turns a < b into b > a itself.
    _infix(_name, _mark, getattr(python, _name))


def both(a: object, b: object) -> bool:
    """Whether two conditions hold."""
    return bool(a) and bool(b)


def either(a: object, b: object) -> bool:
    """Whether one of two conditions holds."""
    return bool(a) or bool(b)


# ``and`` and ``or`` cannot be overloaded, so conditions are joined by & and |, as in numpy.
_infix("and", "and", both)
_infix("or", "or", either)


def compute(function: Callable[..., object], *parts: object) -> Any:
    """A scalar that a function computes of others: ``compute(max, a, b)``."""
    name = getattr(function, "__name__", "function")
    label = "f" if name == "<lambda>" else name
    return Scalar(f"{label}({', '.join(map(repr, parts))})", function, parts)


def is_float(*terms: Term) -> Any:
    """A condition: the tensors are of a floating-point dtype."""
    text = f"is_float({', '.join(map(repr, terms))})"
    # The match comes first: a condition is a function of it, and of its terms.
    return Scalar(text, lambda match, *terms: all(match.type_of(term).dtype in FLOATS for term in terms), (FOUND, *terms))


class Term(Symbol):
    """A tensor in a pattern."""

    __slots__ = ()

    @property
    def shape(self) -> Any:
        """Its shape, -1 where unknown."""
        return Scalar(f"{self!r}.shape", lambda match, term: match.type_of(term).shape, (FOUND, self))

    @property
    def dtype(self) -> Any:
        """Its dtype."""
        return Scalar(f"{self!r}.dtype", lambda match, term: match.type_of(term).dtype, (FOUND, self))

    @property
    def ndim(self) -> Any:
        """How many axes it has."""
        return compute(len, self.shape)

    @property
    def uses(self) -> Scalar:
        """How many operators read it, plus one if it is requested or read from outside the graph."""
        return Uses(f"{self!r}.uses", lambda match, term: match.uses_of(term), (FOUND, self))

    def emit(self, op: OpDef, inputs: Sequence[object], attrs: Mapping[str, object]) -> Tensor:
        return called(op, inputs, attrs)

    def __add__(self, other: object) -> Term:
        # A scalar of the rule is an attribute of ``scale``, as a number is; ``Symbol`` knows numbers only.
        return REGISTRY["scale"](self, bias=other) if _is_scalar(other) else super().__add__(other)

    def __sub__(self, other: Any) -> Term:
        return REGISTRY["scale"](self, bias=-other) if _is_scalar(other) else super().__sub__(other)

    def __mul__(self, other: object) -> Term:
        return REGISTRY["scale"](self, scale=other) if _is_scalar(other) else super().__mul__(other)

    def __neg__(self) -> Self:
        return self._on("scale", scale=-1.0)

    def __pow__(self, other: object) -> Term:
        return REGISTRY["pow"](self, factor=other) if _is_scalar(other) else super().__pow__(other)

    def __rsub__(self, other: object) -> Term:
        return REGISTRY["scale"](self, scale=-1.0, bias=other) if _is_scalar(other) else super().__rsub__(other)

    __radd__, __rmul__ = __add__, __mul__
    __hash__ = object.__hash__


def _is_scalar(value: object) -> bool:
    return isinstance(value, int | float | Scalar)


class _Found(Scalar):
    """The match itself, among the parts of a scalar."""

    def __init__(self) -> None:
        super().__init__("match", lambda: None)

    def value(self, match: object) -> object:
        return match


FOUND = _Found()


class Unknown(Term):
    """A tensor that a rule is about, whatever computes it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Several(Unknown):
    """Any number of tensors in a slot that takes a list: ``[*before, x, *after]``, or the whole slot."""

    __slots__ = ()

    # So that ``[*before, x, *after]`` has the list itself as one item, which the matcher spreads out.
    def __iter__(self) -> Iterator[Several]:
        yield self

    def __repr__(self) -> str:
        return f"*{self.name}"


class Constant(Term):
    """A tensor all of whose elements are one number, which may be an attribute of the rule."""

    __slots__ = ("number",)

    def __init__(self, number: Any) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"constant({self.number!r})"


def constant(number: object) -> Constant:
    """In ``before``: a tensor filled with one number; ``constant(c)`` binds the attribute ``c`` to it."""
    return Constant(number)


class Attribute(Scalar):
    """An attribute of an operator, or the number in a constant, that a rule calls by a name."""

    def __init__(self, name: str) -> None:
        super().__init__(name, lambda match: match.attrs[name], (FOUND,))
        self.name = name


@dataclass(frozen=True, eq=False)
class Call:
    """An operator over terms. ``attrs`` are those that the pattern names: the others have their defaults.

    ``origin`` is the call that this one is, with inputs of commutative operators in another order.
    """

    definition: OpDef
    inputs: Mapping[str, tuple[Term, ...]]
    attrs: Mapping[str, object]
    origin: Call | None = None

    @property
    def key(self) -> Call:
        """The call as the rule's author wrote it."""
        return self.origin or self

    def __repr__(self) -> str:
        terms = [f"[{', '.join(map(repr, t))}]" if self.definition.inputs[s].variadic else repr(t[0]) for s, t in self.inputs.items()]
        return f"{self.definition.type}({', '.join([*terms, *(f'{name}={value!r}' for name, value in self.attrs.items())])})"

    @property
    def is_swappable(self) -> bool:
        """Whether its two inputs may change places."""
        terms = [t for slot in self.inputs.values() for t in slot]
        # Two equal terms may change places without a difference, and would be tried twice.
        return self.definition.commutative and len(terms) == 2 and not self.attrs and not same_term(*terms)


class Result(Term):
    """The results of an operator of a pattern in a slot."""

    __slots__ = ("call", "index", "slot")

    def __init__(self, call: Call, slot: str, index: int = 0) -> None:
        self.call = call
        self.slot = slot
        self.index = index

    def __repr__(self) -> str:
        text = repr(self.call)
        slots = [name for name, slot in self.call.definition.outputs.items() if not slot.optional]
        text = text if len(slots) == 1 and self.slot == slots[0] else f"{text}.{self.slot}"
        return f"{text}[{self.index}]" if self.call.definition.outputs[self.slot].variadic else text


def called(definition: OpDef, inputs: Sequence[object], attrs: Mapping[str, object]) -> Tensor:
    """The results of an operator over terms: one, or a tuple; a slot that takes a list gives as many results as are taken from it."""
    slots = {}
    for slot, argument in zip(definition.inputs, inputs, strict=False):
        # Absent optional slots are no part of the pattern: they have to be absent in the graph.
        if argument is not None:
            items = tuple(argument) if isinstance(argument, list | tuple | Several) else (argument,)
            slots[slot] = tuple(_term(definition, item) for item in items)
    unknown = [name for name in attrs if name not in definition.attrs]
    if unknown:
        raise InvalidType(
            f"operator {definition.type} has no attribute {', '.join(unknown)}; it has {', '.join(definition.attrs) or 'none'}"
        )
    call = Call(definition, slots, dict(attrs))
    results = [
        _Results(call, name) if slot.variadic else Result(call, name) for name, slot in definition.outputs.items() if not slot.optional
    ]
    return results[0] if len(results) == 1 else tuple(results)


class _Results(Sequence[Result]):
    """The results in a slot that holds a list: ``a, b = results[:2]`` or ``results[0]``."""

    def __init__(self, call: Call, slot: str) -> None:
        self.call = call
        self.slot = slot

    def __len__(self) -> int:
        raise InvalidType(f"how many results {self.call!r} has is not known: take them by index")

    def __iter__(self) -> Iterator[Result]:
        # Without it Python would take results by index for ever.
        len(self)
        return iter(())

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...

    def __getitem__(self, index: int | slice) -> Result | list[Result]:
        if isinstance(index, slice):
            # Without an end there is no number of results to take.
            if index.stop is None:
                len(self)
            return [Result(self.call, self.slot, i) for i in range(index.stop)[index]]
        return Result(self.call, self.slot, index)


def _term(definition: OpDef, item: object) -> Term:
    if isinstance(item, int | float):
        return Constant(item)
    if not isinstance(item, Term):
        raise InvalidType(f"operator {definition.type} in a pattern reads tensors of the pattern or numbers, not {item!r}")
    return item


def same_term(a: Term, b: Term) -> bool:
    """Whether two terms are the same, operator by operator."""
    if a is b:
        return True
    if isinstance(a, Constant) and isinstance(b, Constant):
        # Computed numbers are only known at a match: never taken for the same.
        return not isinstance(a.number, Scalar) and not isinstance(b.number, Scalar) and bool(a.number == b.number)
    return isinstance(a, Result) and isinstance(b, Result) and (a.slot, a.index) == (b.slot, b.index) and _same_call(a.call, b.call)


def _same_call(a: Call, b: Call) -> bool:
    if a is b:
        return True
    # Attributes are compared by identity: two computed ones may differ at a match.
    if a.definition is not b.definition or a.attrs.keys() != b.attrs.keys() or any(a.attrs[k] is not b.attrs[k] for k in a.attrs):
        return False
    # Recursive, which patterns of a handful of operators allow.
    pairs = [(x, y) for slot in a.inputs for x, y in zip(a.inputs[slot], b.inputs.get(slot, ()), strict=False)]
    return [*map(len, a.inputs.values())] == [*map(len, b.inputs.values())] and all(same_term(x, y) for x, y in pairs)


# -- well-formed rules -----------------------------------------------------------------------------
# Well-formedness of rules, checked before they are matched or tested: both sides have as many results, and no name is unbound.


def check_terms(name: str, before: Sequence[Term], after: Sequence[Term], conditions: Sequence[object]) -> None:
    """Refuse what is not a rule.

    Raises:
        ValueError: the sides do not fit together, or the right-hand side or a condition uses a name that the pattern does not bind.
        TypeError: a condition is none.
    """
    if len(before) != len(after):
        raise InvalidValue(f"rule {name} has {len(before)} results before and {len(after)} after")
    for term in before:
        if not isinstance(term, Result):
            raise InvalidValue(f"rule {name} starts from {term!r}, which no operator computes")
    for condition in conditions:
        if not isinstance(condition, Scalar):
            raise InvalidType(f"a condition of rule {name} is made of attributes, shapes and dtypes, not {condition!r}")
    # The right-hand side may use what the pattern binds, and nothing else.
    leaves_before = {leaf for term in before for leaf in leaves(term)}
    for term in after:
        _check_after(name, term, leaves_before)
    _check_scalars(name, before, [*conditions, *_scalars(before), *_scalars(after)], leaves_before)


def _check_after(name: str, term: Term, known: set[Term]) -> None:
    # A number has no shape of its own; beside an operand it would have the operand's.
    if isinstance(term, Constant) and term not in known:
        raise InvalidValue(f"rule {name} makes {term!r}, which does not say its shape: ops.fill_any_like(x, value=...) does")
    for leaf in leaves(term):
        if leaf not in known and not isinstance(leaf, Constant):
            raise InvalidValue(f"rule {name} uses {leaf!r} on its right-hand side, which does not occur in its pattern")


def _check_scalars(name: str, before: Sequence[Term], scalars: Sequence[object], known: set[Term]) -> None:
    calls = {call for term in before for call in calls_in(term)}
    bound = {part.name for value in _scalars(before) for part in _bound(value)}
    for part in (part for value in scalars for part in parts_of(value)):
        if isinstance(part, Attribute) and part.name not in bound:
            raise InvalidValue(f"rule {name} needs {part!r}, which is no attribute and no number of an operator before")
        # Shapes and dtypes are known of values that the pattern names: of its operators' results, and its leaves.
        if isinstance(part, Term) and (part.call not in calls if isinstance(part, Result) else part not in known):
            raise InvalidValue(f"rule {name} has a condition on {part!r}, which does not occur before: give it a name there")


def _scalars(terms: Sequence[Term]) -> Iterator[object]:
    """The attributes of the operators of terms, and the numbers in constants."""
    for call in (call for term in terms for call in calls_in(term)):
        yield from call.attrs.values()
        yield from (t.number for term in call.inputs.values() for t in term if isinstance(t, Constant))


def _bound(value: object) -> Iterator[Attribute]:
    """The attributes of a rule that are known from an attribute of an operator."""
    items = value if isinstance(value, list | tuple) else [value]
    return (item for item in items if isinstance(item, Attribute))


def leaves(term: Term) -> Iterator[Term]:
    """The tensors at the ends of a term."""
    if not isinstance(term, Result):
        yield term
        return
    for terms in term.call.inputs.values():
        for leaf in terms:
            yield from leaves(leaf)


def calls_in(term: Term) -> Iterator[Call]:
    """The operators of a term, from its result on, with repetitions."""
    if isinstance(term, Result):
        yield term.call
        for terms in term.call.inputs.values():
            for leaf in terms:
                yield from calls_in(leaf)
