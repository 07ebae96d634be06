"""Rules as terms of the solver: elements for tensors, float64 numbers for attributes, truth values for conditions."""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from graphad.ops import OpDef
from graphad.rewriting import smt
from graphad.rewriting.evaluation import Evaluation, Slots
from graphad.rewriting.rule_settings import Setting
from graphad.rewriting.smt import Unsupported, z3
from graphad.rewriting.smt_arithmetic import mul
from graphad.rewriting.smt_operators import NoMeaning, meaning_of
from graphad.rewriting.terms import FOUND, Attribute, Call, Constant, Scalar, Several, Term, both, either

# Operators over several elements whose results are at least 0, or nan.
NONNEGATIVE: Mapping[str, str] = {"softmax": "softmax(x) is >= 0 or nan"}


class Elements(Evaluation):
    """Terms as single elements: those of all tensors that broadcasting brings to one place of the result.

    Operators that are not elementwise give an element of which nothing is known: a proof that does not need it holds all the same.

    Args:
        setting: the types of the tensors, and values for the attributes that are no numbers.
        symbolic: the attributes that are numbers of the solver.
    """

    def __init__(self, setting: Setting, symbolic: Mapping[str, Any]) -> None:
        super().__init__(setting)
        self.attrs: dict[str, Any] = {**setting.attrs, **symbolic}
        self.elements: dict[Any, Any] = {}
        self.needs: list[Any] = []  # what has to hold for the operators to run
        self.assumed: set[str] = set()
        # Numpy squares arrays where it raises single numbers to the power 2.
        self.rank = max((len(type.shape) for type in setting.values.values()), default=0)
        for term, type in setting.values.items():
            self.elements[term] = self._element(term, type.dtype)
        for term, types in setting.lists.items():
            for i, type in enumerate(types):
                self.elements[term, i] = z3.Const(f"{term!r}.{i}", smt.sort_of(type.dtype))

    def _element(self, term: Term, dtype: str) -> Any:
        if not isinstance(term, Constant):
            return z3.Const(repr(term), smt.sort_of(dtype))
        if not isinstance(term.number, Scalar):
            return smt.number(term.number, dtype)
        if not isinstance(term.number, Attribute):
            raise Unsupported(f"the constant {term.number!r}")
        element = z3.Const(term.number.name, smt.sort_of(dtype))
        is_narrow = z3.is_fp(element) and element.sort() != z3.Float64()
        self.attrs[term.number.name] = z3.fpFPToFP(z3.RNE(), element, z3.Float64()) if is_narrow else element
        return element

    def leaf(self, term: Term) -> Any:
        if isinstance(term, Several):
            return [self.elements[term, i] for i in range(len(self.found.lists[term]))]
        return self.elements[term]

    def _call(self, call: Call) -> Slots:
        if not call.row.elementwise:
            return self._unknown(call)
        try:
            return super()._call(call)
        except NoMeaning:
            return self._unknown(call)

    def _unknown(self, call: Call) -> Slots:
        """An unknown element for each result of an operator that is not elementwise."""
        types = self.found.inferred.done.get(call) or self.found.inferred._call(call)
        elements = {
            slot: [z3.FreshConst(smt.sort_of(type.dtype), call.row.type) for type in items] for slot, items in types.items() if any(items)
        }
        if call.row.type in NONNEGATIVE:
            (element,) = elements["Out"]
            self.needs.append(z3.Or(z3.fpIsNaN(element), z3.fpGEQ(element, smt.literal(0.0, element.sort()))))
            self.assumed.add(NONNEGATIVE[call.row.type])
        return elements

    def apply(self, row: OpDef, inputs: Slots, attrs: Mapping[str, Any]) -> Slots:
        operands = [element for slot in row.inputs for element in inputs.get(slot, ())]
        self.needs += [smt.fits(value, smt.dtype_of(operands[0])) for value in attrs.values()]
        return {next(iter(row.outputs)): [meaning_of(row, operands, attrs, bool(self.rank), self.assumed)]}

    def filled(self, number: Any, like: Any) -> Any:
        return smt.number(number, smt.dtype_of(like))

    def scalar(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [self.scalar(item) for item in value]
        return self.value(value) if isinstance(value, Scalar) else value

    # -- attributes and conditions -------------------------------------------------------------------

    def value(self, scalar: Any) -> Any:
        """The value of a scalar: a Python value if it is known, else a number or truth value of the solver."""
        if not isinstance(scalar, Scalar):
            return scalar
        if isinstance(scalar, Attribute):
            return self.attrs[scalar.name]
        if scalar.parts and scalar.parts[0] is FOUND:
            return scalar.value(self.found)
        parts = [self.value(part) for part in scalar.parts]
        if not any(z3.is_expr(part) for part in parts):
            return scalar.function(*parts)
        meaning = _SCALARS.get(scalar.function)
        if meaning is None:
            raise Unsupported(f"{scalar!r}, a function in Python")
        if scalar.function is python.truediv:
            self.needs.append(z3.Not(z3.fpIsZero(_fp(parts[1]))))
        return meaning(*parts)

    def conditions(self, scalars: Sequence[Any]) -> Iterator[Any]:
        """The conditions as truth values, without those that have no meaning for the solver: fewer conditions are harder to prove from."""
        for scalar in scalars:
            if isinstance(scalar, Scalar) and scalar.function is both:
                yield from self.conditions(scalar.parts)
                continue
            try:
                held = self.value(scalar)
            except Unsupported:
                continue
            yield held if z3.is_expr(held) else z3.BoolVal(bool(held))


def _fp(value: Any) -> Any:
    if z3.is_expr(value) and not z3.is_fp(value):
        raise Unsupported("arithmetic of an integer attribute")
    return value if z3.is_expr(value) else smt.literal(float(value), z3.Float64())


def _compared(fp: str, plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compare(a: Any, b: Any) -> Any:
        if any(z3.is_bv(x) for x in (a, b)):
            dtype = smt.dtype_of(a if z3.is_bv(a) else b)
            if any(not z3.is_expr(x) and x != int(x) for x in (a, b)):
                raise Unsupported("an integer compared with a fraction")
            return plain(*(x if z3.is_expr(x) else smt.number(int(x), dtype) for x in (a, b)))
        if any(z3.is_expr(x) and z3.is_bool(x) for x in (a, b)):
            raise Unsupported("a comparison of truth values")
        return getattr(z3, fp)(_fp(a), _fp(b))

    return compare


def _truth(value: Any) -> Any:
    return smt.truth(value) if z3.is_expr(value) else z3.BoolVal(bool(value))


def _finite(value: Any) -> Any:
    if z3.is_expr(value) and not z3.is_fp(value):
        return z3.BoolVal(True)
    return z3.Not(z3.Or(z3.fpIsNaN(_fp(value)), z3.fpIsInf(_fp(value))))


_SCALARS: Mapping[Any, Callable[..., Any]] = {
    python.add: lambda a, b: z3.fpAdd(z3.RNE(), _fp(a), _fp(b)),
    python.sub: lambda a, b: z3.fpSub(z3.RNE(), _fp(a), _fp(b)),
    python.mul: lambda a, b: mul(_fp(a), _fp(b)),
    python.truediv: lambda a, b: z3.fpDiv(z3.RNE(), _fp(a), _fp(b)),
    python.neg: lambda a: smt.neg(_fp(a)),
    python.not_: lambda a: z3.Not(_truth(a)),
    python.eq: _compared("fpEQ", lambda a, b: a == b),
    python.ne: _compared("fpNEQ", lambda a, b: a != b),
    python.lt: _compared("fpLT", lambda a, b: a < b),
    python.le: _compared("fpLEQ", lambda a, b: a <= b),
    python.gt: _compared("fpGT", lambda a, b: a > b),
    python.ge: _compared("fpGEQ", lambda a, b: a >= b),
    both: lambda a, b: z3.And(_truth(a), _truth(b)),
    either: lambda a, b: z3.Or(_truth(a), _truth(b)),
    max: lambda a, b: z3.If(z3.fpGT(_fp(b), _fp(a)), _fp(b), _fp(a)),
    min: lambda a, b: z3.If(z3.fpLT(_fp(b), _fp(a)), _fp(b), _fp(a)),
    abs: lambda a: z3.fpAbs(_fp(a)),
    float: _fp,
    bool: _truth,
    math.isfinite: _finite,
}


def starts_elementwise(rule: Any) -> bool:
    """Whether the operators that a rule starts from are elementwise."""
    return all(term.call.row.elementwise for term in rule.before)
