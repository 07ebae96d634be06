"""Inputs to test a rule on: the types of its tensors with attributes that fit them, and arrays of those types.

The operators of a pattern are walked from the leaves on. At each, values are tried for the attributes that it binds until its type
inference takes them; then the conditions have to hold, and the replacement must have the types of the pattern, as in a match
in a graph. All choices are rotated, never drawn at random, and depend on nothing but the rule's structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import product
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphad.errors import GraphadError, InvalidValue
from graphad.ops.definition import REQUIRED
from graphad.rewriting.rule_settings import Drawn, Setting
from graphad.rewriting.rule_values import contents_of, filled, int_lists, kinks_of, numbers_for
from graphad.rewriting.soundness import calls_in, leaves
from graphad.rewriting.terms import Attribute, Call, Constant, Result, Scalar, Several, parts_of
from graphad.types import FLOATS, Shape, TensorType

Array = NDArray[Any]
Example = Callable[["np.random.Generator"], Mapping[str, Any]]

DTYPES = ("float64", "float32", "int64", "int32", "bool")
SHAPES: tuple[Shape, ...] = (
    *((2, 3), (3, 3), (5,), (), (2, 3, 4), (3, 3, 3), (1,), (0,), (0, 3)),
    *((2, 1, 3), (1, 3), (2, 0), (4, 1), (2, 1, 3, 5), (2, 2, 2, 2), (6,), (1, 1, 2)),
)
PAIRS: tuple[tuple[Shape, ...], ...] = (  # operands that are not broadcast: products, tables and indices, convolutions
    *(((2, 3), (3, 5)), ((2, 3), (5, 3)), ((4, 2, 3), (4, 3, 5)), ((4, 2, 3), (4, 5, 3)), ((7, 3), (5,)), ((7, 3), (4, 1))),
    *(((2, 3, 4), (3,)), ((2, 3), (2,)), ((4, 5), (4, 1)), ((2, 3, 5, 6), (4, 3, 3, 2)), ((7, 3), (2, 2)), ((5,), (5,))),
    *(((2, 3, 5, 6), (4, 3, 3, 2), (4,)), ((2, 3), (3, 5), (5,)), ((2, 6), (6,), (6,)), ((2, 3), (3, 5), (2, 5))),
    ((2, 3, 4, 5), (3,), (3,), (3,), (3,)),
)
TRIES = 8  # how often attributes are sought for one choice of types
INFERENCES = 40  # how many values are tried for the attributes of one operator
_PRIME = 17  # at least as many as there are numbers for an attribute, as far as all pairs of them are to meet
_STRIDES = (7, 5, 11, 13, 3, 17)
BUDGET = 4000  # how many are tried for one rule


class Inputs:
    """Where the inputs of one rule come from.

    Args:
        rule: a pattern rule.
        exact: whether numbers at the ends of the dtypes' ranges are among the attributes and the elements.
    """

    def __init__(self, rule: Any, exact: bool) -> None:
        self.rule = rule
        self.exact = exact
        self.leaves = list(dict.fromkeys(leaf for term in rule.before for leaf in leaves(term)))
        self.calls = list(dict.fromkeys(reversed([call for term in rule.before for call in calls_in(term)])))
        self.numbers = tuple(_literals(rule))
        self.turn = 0
        self.budget = BUDGET

    # -- types and attributes ------------------------------------------------------------------------

    def profiles(self) -> list[tuple[Shape, ...]]:
        """Shapes for the leaves: all alike, broadcast in several ways, and those that products and tables take."""
        count = len(self.leaves)
        alike = [(shape,) * count for shape in SHAPES]
        if count < 2 or all(isinstance(leaf, Constant) for leaf in self.leaves[1:]):
            return alike
        mixed = [tuple(part(shape, i) for i in range(count)) for shape in SHAPES if shape for part in _BROADCAST]
        open_ended = [shapes for shapes in PAIRS if len(shapes) == count]
        return list(dict.fromkeys([*alike[:6], *open_ended[:12], *alike[6:12], *mixed[::5], *alike[12:], *mixed[1::5]]))

    def dtypes_of(self, dtype: str) -> Iterator[tuple[str, ...]]:
        """Dtypes for the leaves: all alike, or some of another dtype, as conditions and indices are."""
        count = len(self.leaves)
        yield (dtype,) * count
        for other in () if dtype == "bool" else ("bool", "int64") if dtype in FLOATS else ("bool",):
            for places in [*((i,) for i in range(count)), *((i, j) for i in range(count) for j in range(i))]:
                if other != dtype and len(places) < count:
                    yield tuple(other if i in places else dtype for i in range(count))

    def setting(self, shapes: tuple[Shape, ...], dtypes: tuple[str, ...]) -> Setting | None:
        """Attributes with which the rule applies to tensors of some types; None if none are found."""
        for _ in range(TRIES if self.has_choices else 1):
            if self.budget <= 0:
                break
            self.turn += 1
            setting = self._leaf_types(shapes, dtypes)
            if setting is not None and self._bind(setting, iter(self.calls)) and self.applies(setting):
                return setting
            if setting is not None and setting.is_hopeless:
                break
        return None

    @cached_property
    def has_choices(self) -> bool:
        """Whether there is more to choose than types: attributes, numbers, or how many tensors a list has."""
        named = any(_attributes_in(value) for call in self.calls for value in call.attrs.values())
        return named or any(isinstance(t, Several) or (isinstance(t, Constant) and isinstance(t.number, Attribute)) for t in self.leaves)

    def _leaf_types(self, shapes: tuple[Shape, ...], dtypes: tuple[str, ...]) -> Setting | None:
        setting = Setting()
        for i, (leaf, shape, dtype) in enumerate(zip(self.leaves, shapes, dtypes, strict=True)):
            if isinstance(leaf, Several):
                setting.lists[leaf] = [TensorType(shape, dtype)] * ((self.turn + 2 * i + 1) % 4)
            elif isinstance(leaf, Constant):
                if not self._set_number(setting, leaf, dtype, i):
                    return None
                shape = (shape, (), (1,) * len(shape))[(self.turn + i) % 3 if len(self.leaves) > 1 else 0]
                setting.values[leaf] = TensorType(shape, dtype)
            else:
                setting.values[leaf] = TensorType(shape, dtype)
        return setting

    def _set_number(self, setting: Setting, leaf: Constant, dtype: str, place: int) -> bool:
        """Choose the number of a constant, or see whether a dtype has the one that the rule names."""
        if not isinstance(leaf.number, Attribute):
            return isinstance(leaf.number, Scalar) or _has(dtype, leaf.number)
        options = [n for n in numbers_for("float", 0, None, self.numbers, self.exact) if _has(dtype, n)]
        number = setting.attrs.setdefault(leaf.number.name, np.dtype(dtype).type(options[self._rotated(place, len(options))]).item())
        return _has(dtype, number)

    def _rotated(self, place: int, count: int) -> int:
        """Which of the options the attribute at a place has: the columns of an orthogonal array, in which all pairs meet."""
        line = self.turn * 101 % _PRIME**2
        return (line % _PRIME * place + line // _PRIME) % _PRIME % count if count <= _PRIME else (line + 7 * place) % count

    def _bind(self, setting: Setting, calls: Iterator[Call]) -> bool:
        """Choose the attributes of the operators in their order, so that each takes its inputs."""
        for place, call in enumerate(calls):
            try:
                types = [t for terms in call.inputs.values() for t in terms if not isinstance(t, Several)]
                known = [setting.type_of(t) for t in types if not isinstance(t, Constant) or t in setting.values]
            except Exception:
                return False
            shape = known[0].shape if known else next((ts[0].shape for ts in setting.lists.values() if ts), (2, 3))
            if not self._bind_call(setting, call, shape):
                setting.is_hopeless = place == 0
                return False
        return True

    def _bind_call(self, setting: Setting, call: Call, shape: Shape) -> bool:
        unbound = dict(_unbound(call, setting.attrs))
        if not unbound:
            self.budget -= 1
            return _takes(setting, call)
        choices = [self._options(kind, shape, len(setting.attrs) + i) for i, kind in enumerate(unbound.values())]
        most = INFERENCES if any(kind.startswith("list") for kind, _ in unbound.values()) else 6
        for tried, values in enumerate(product(*choices) if len(choices) == 1 else _diagonal(choices)):
            if tried > most or self.budget <= 0:
                break
            self.budget -= 1
            setting.attrs.update(zip(unbound, values, strict=True))
            if _takes(setting, call):
                return True
        for name in unbound:
            setting.attrs.pop(name, None)
        return False

    def _options(self, kind: tuple[str, Any], shape: Shape, place: int) -> list[Any]:
        text, default = kind
        if text.startswith("list[int]"):
            options: list[Any] = [list(each) for each in int_lists(shape)]
        else:
            plain = default if isinstance(default, int | float | str | bool) else None
            options = list(numbers_for(text, len(shape), plain, self.numbers, self.exact))
        start, step = self._rotated(place, len(options)), _STRIDES[(self.turn + place) % len(_STRIDES)]
        step = step if gcd(step, len(options)) == 1 else 1
        return [options[(start + i * step) % len(options)] for i in range(len(options))]

    def applies(self, setting: Setting) -> bool:
        """Whether the rule matches there: its conditions hold, and both sides have the same types.

        Raises:
            ValueError: what comes after cannot be made, for another reason than types that do not fit.
        """
        try:
            old = [setting.type_of(term) for term in self.rule.before]
            if not all(condition.value(setting) for condition in self.rule.conditions):
                return False
        except Exception:
            return False
        try:
            return old == [setting.type_of(term) for term in self.rule.after]
        except (GraphadError, ValueError, TypeError, IndexError):
            return False
        except Exception as error:
            types = "\n".join(f"  {name} = {value}" for name, value in [*setting.values.items(), *setting.attrs.items()])
            place = f"\n  defined at {self.rule.source}" if self.rule.source else ""
            raise InvalidValue(
                f"rule {self.rule.name} is wrong: what comes after fails, {error}\n  {self.rule.text}{place}\n{types}"
            ) from None

    def of_example(self, given: Mapping[str, Any]) -> Setting | None:
        """The setting that an example is one of; None if the rule does not apply there."""
        setting = Setting(originals=given)
        names = {attribute.name for call in self.calls for value in call.attrs.values() for attribute in _attributes_in(value)}
        setting.attrs.update({name: value for name, value in given.items() if name in names})
        self.turn += 1
        like = next((np.asarray(v) for v in given.values() if isinstance(v, np.ndarray)), np.zeros((2, 3)))
        for i, leaf in enumerate(self.leaves):
            name = getattr(leaf, "name", "")
            if isinstance(leaf, Several):
                setting.lists[leaf] = [_type(a) for a in given.get(name) or [like] * ((self.turn + i) % 3)]
            elif isinstance(leaf, Constant):
                if isinstance(leaf.number, Attribute) and leaf.number.name in given:
                    setting.attrs[leaf.number.name] = given[leaf.number.name]
                if not self._set_number(setting, leaf, like.dtype.name, i):
                    return None
                setting.values[leaf] = _type(like)
            else:
                setting.values[leaf] = _type(np.asarray(given.get(name, like)))
        return setting if self._bind(setting, iter(self.calls)) and self.applies(setting) else None

    # -- arrays --------------------------------------------------------------------------------------

    def arrays(self, setting: Setting, content: str, salt: int) -> Drawn:
        """Arrays of a setting's types, with a kind of content."""
        kinks = setting.kinks = setting.kinks or self._kinks(setting)
        drawn = Drawn(attrs=setting.attrs, types=setting)
        main = next((t.dtype for t in setting.values.values() if t.dtype in FLOATS), "")
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, Several):
                drawn.lists[leaf] = [self._array(t, content, main, kinks, salt + i + 4 * j) for j, t in enumerate(setting.lists[leaf])]
            elif isinstance(leaf, Constant):
                number = leaf.number.value(setting) if isinstance(leaf.number, Scalar) else leaf.number
                type = setting.values[leaf]
                drawn.values[leaf] = np.full(type.shape, np.asarray(number).astype(type.dtype), type.dtype)
            else:
                drawn.values[leaf] = self._array(setting.values[leaf], content, main, kinks, salt + i)
        return drawn

    def _array(self, type: TensorType, content: str, main: str, kinks: tuple[float, ...], salt: int) -> Array:
        if type.dtype.startswith("int") and main:  # an index, or a label, beside floats
            near = [0, 1, 2, 1, 0, 2, *(int(k) for k in kinks if 0 <= k < 5 and k == int(k))] if salt % 3 else [0, 1, 1]
            pool = np.array(near, type.dtype)
            count = int(np.prod(type.shape))
            return pool[(np.arange(count) + salt) % len(pool)].reshape(type.shape)
        if content not in contents_of(type.dtype, self.exact):
            content = contents_of(type.dtype, self.exact)[salt % 3]
        return filled(content, type.shape, type.dtype, kinks, salt, self.exact)

    def _kinks(self, setting: Setting) -> tuple[float, ...]:
        numbers: list[float] = [n for n in self.numbers if isinstance(n, int | float)]
        numbers += [v for v in setting.attrs.values() if isinstance(v, int | float)]
        for call in self.calls:
            numbers += [a.default for a in call.row.attrs.values() if isinstance(a.default, float) and a.name not in call.attrs]
        return kinks_of(numbers)


def example_arrays(inputs: Inputs, setting: Setting) -> Drawn:
    """The arrays that an example gave, and what the rule needs besides."""
    drawn = inputs.arrays(setting, "ordinary", 0)
    for leaf in inputs.leaves:
        name = getattr(leaf, "name", "")
        if isinstance(leaf, Several) and setting.originals.get(name):
            drawn.lists[leaf] = [np.asarray(a) for a in setting.originals[name]]
        elif name in setting.originals and not isinstance(leaf, Constant):
            drawn.values[leaf] = np.asarray(setting.originals[name])
    return drawn


def _type(array: Array) -> TensorType:
    return TensorType(array.shape, array.dtype.name)


def _has(dtype: str, number: Any) -> bool:
    """Whether arrays of a dtype hold a number as it is, but for rounding."""
    if dtype.startswith("float"):
        return True
    whole = bool(np.isfinite(number)) and number == int(number)
    return whole and (dtype != "bool" or number in (0, 1))


def _takes(setting: Setting, call: Call) -> bool:
    """Whether an operator takes its inputs, with the attributes that are bound."""
    slot = next(iter(call.row.outputs))
    try:
        setting.inferred._call(call) if call.row.outputs[slot].variadic else setting.inferred.of(Result(call, slot))
    except Exception:
        return False
    return True


def _diagonal(choices: list[list[Any]]) -> Iterator[tuple[Any, ...]]:
    """Combinations of options: first the one in front, then those that differ from it in one place, then others."""
    first = tuple(options[0] for options in choices)
    yield first
    longest = max(map(len, choices))
    for step in range(1, longest):
        for i, options in enumerate(choices):
            if step < len(options):
                yield (*first[:i], options[step], *first[i + 1 :])
    for step in range(1, 4 * longest):
        yield tuple(options[(step * (2 * i + 1) + step // len(options)) % len(options)] for i, options in enumerate(choices))


_BROADCAST: tuple[Callable[[Shape, int], Shape], ...] = (
    lambda shape, i: shape[1:] if i else shape,
    lambda shape, i: shape if i else (1, *shape[1:]),
    lambda shape, i: (*shape[:-1], 1) if i % 2 else (1, *shape[1:]),
    lambda shape, i: shape if i else (),
)


def _unbound(call: Call, bound: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, Any]]]:
    """The attributes of the rule that an operator binds, with the kind and the default of the operator's attribute."""
    for name, value in call.attrs.items():
        attr = call.row.attrs[name]
        if isinstance(value, Attribute) and value.name not in bound:
            yield value.name, (attr.kind, None if attr.default is REQUIRED else attr.default)
        elif isinstance(value, list | tuple):
            yield from ((item.name, (attr.kind[5:-1], None)) for item in value if isinstance(item, Attribute) and item.name not in bound)


def _attributes_in(value: Any) -> list[Attribute]:
    return [part for part in parts_of(value) if isinstance(part, Attribute)]


def _literals(rule: Any) -> Iterator[float]:
    """The numbers that a rule names: in its conditions, attributes and constants."""
    calls = [call for term in (*rule.before, *rule.after) for call in calls_in(term)]
    values = [*rule.conditions, *(value for call in calls for value in call.attrs.values())]
    terms = [term for call in calls for ts in call.inputs.values() for term in ts]
    values += [term.number for term in terms if isinstance(term, Constant)]
    found = [n for value in values for n in parts_of(value) if isinstance(n, int | float) and not isinstance(n, bool)]
    return iter(dict.fromkeys(float(n) for n in found if n == n))
