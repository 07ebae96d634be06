"""The meaning of operators on single elements, as terms of the solver, and rules as such terms."""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphad.ops import OpDef
from graphad.ops.formulas import Tracer, converted, filled, raised
from graphad.ops.special import error_function
from graphad.rewriting import smt
from graphad.rewriting.evaluation import Evaluation, Slots
from graphad.rewriting.pattern import FOUND, Attribute, Call, Constant, Scalar, Several, Term, both, either
from graphad.rewriting.rule_inputs import Setting
from graphad.rewriting.smt import (
    Builder,
    Element,
    Unsupported,
    by_case,
    current,
    dtype_of,
    has_cases,
    is_number,
    like,
    literal,
    neg,
    number,
    of_bool,
    signed,
    sort_of,
    truth,
    unknown_function,
    z3,
)

if TYPE_CHECKING:
    from graphad.rewriting.rules import PatternRule

# -- arithmetic ------------------------------------------------------------------------------------
# Sums, products, quotients, maxima and minima of single elements.
#
# Terms are brought into forms that spare the solver work where IEEE 754 says that they are equal: signs are moved outwards, factors 1, -1
# and
# 2 and terms 0 are resolved, and arithmetic is moved into choices with a number on one side.


def add(x: Element, y: Element) -> Element:
    """x + y; wraps around in integers, is "or" of truth values."""
    if z3.is_bool(x):
        return z3.Or(x, y)
    if not z3.is_fp(x):
        return x + y
    if has_cases(y):
        return by_case(y, lambda case: add(x, case))
    if has_cases(x):
        return by_case(x, lambda case: add(case, y))
    x, y = (y, x) if z3.is_fp_value(x) and not z3.is_fp_value(y) else (x, y)
    if is_number(y, 0.0):
        # x + 0.0 is x except for -0.0, which becomes 0.0; x + -0.0 is x (IEEE 754-2019, 6.3).
        plus = z3.is_true(z3.simplify(z3.fpIsPositive(y)))
        return z3.If(z3.fpIsZero(x), literal(0.0, x.sort()), x) if plus else x
    return z3.fpAdd(z3.RNE(), x, y) if current().exact else _some_sum(x, y)


def _some_sum(x: Element, y: Element) -> Element:
    """A function of two terms in any order, of which little more is known than what it does with zeros."""
    # Both sides of a rule should get the same term, so operands are put in one order, and the first without a sign.
    (x, minus_x), (y, minus_y) = sorted((signed(x), signed(y)), key=lambda pair: current().place(pair[0]))
    if minus_x:  # -x + y = -(x - y), except for the sign of a sum that is zero, which another function gives
        x, y, minus_y = neg(x), (neg(y) if minus_y else y), False
    y = neg(y) if minus_y else y
    is_flipped = x.decl().kind() == z3.Z3_OP_FPA_NEG
    a, b = (x.arg(0), neg(y)) if is_flipped else (x, y)
    result, is_new = current().apply("sum", a.sort(), a, b, in_any_order=True)
    if is_new:
        # What is known of any sum: nan spreads, and 0 adds nothing. Rounding, and infinities, are left open.
        current().facts += [
            z3.Implies(z3.Or(z3.fpIsNaN(a), z3.fpIsNaN(b)), z3.fpIsNaN(result)),
            z3.Implies(z3.And(z3.fpIsZero(b), z3.Not(z3.fpIsZero(a))), result == a),
            z3.Implies(z3.And(z3.fpIsZero(a), z3.Not(z3.fpIsZero(b))), result == b),
            z3.Implies(z3.And(z3.fpIsZero(a), z3.fpIsZero(b)), z3.fpIsZero(result)),
        ]
    if not is_flipped:
        return result
    zero, _ = current().apply("zero of a sum", a.sort(), a, b, in_any_order=True)
    return z3.If(z3.fpIsZero(result), z3.If(z3.fpIsZero(zero), zero, literal(0.0, a.sort())), neg(result))


def sub(x: Element, y: Element) -> Element:
    """x - y, which is x + -y."""
    if z3.is_bool(x):
        raise Unsupported("subtraction of truth values")
    return add(x, neg(y)) if z3.is_fp(x) else x - y


def mul(x: Element, y: Element) -> Element:
    """x * y. By 1, -1 and 2 it is what IEEE 754 makes of that: nothing, another sign, a sum; that spares the solver a multiplication."""
    if z3.is_bool(x):
        return z3.And(x, y)
    if not z3.is_fp(x):
        return x * y
    # A square of a choice: two cases, not four.
    if has_cases(x) and x.eq(y):
        return by_case(x, lambda case: mul(case, case))
    if has_cases(y):
        return by_case(y, lambda case: mul(x, case))
    if has_cases(x):
        return by_case(x, lambda case: mul(case, y))
    (x, minus_x), (y, minus_y) = signed(x), signed(y)
    if minus_x != minus_y:
        return neg(mul(x, y))
    x, y = (y, x) if z3.is_fp_value(x) else (x, y)
    if is_number(y, 1.0):
        return x
    if is_number(y, -1.0):
        return neg(x)
    if is_number(y, 2.0):
        return add(x, x)
    return z3.fpMul(z3.RNE(), x, y) if current().exact else _some_product(x, y)


def _some_product(x: Element, y: Element) -> Element:
    x, y = sorted((x, y), key=current().place)
    result, is_new = current().apply("product", x.sort(), x, y, in_any_order=True)
    if is_new:
        is_finite = [z3.Not(z3.Or(z3.fpIsNaN(f), z3.fpIsInf(f))) for f in (x, y)]
        zero = z3.Or(z3.And(z3.fpIsZero(x), is_finite[1]), z3.And(z3.fpIsZero(y), is_finite[0]))
        current().facts += [
            z3.Implies(z3.Or(z3.fpIsNaN(x), z3.fpIsNaN(y)), z3.fpIsNaN(result)),
            z3.Implies(zero, z3.fpIsZero(result)),
            *([z3.Or(z3.fpIsNaN(result), z3.fpIsPositive(result))] if x.eq(y) else []),
        ]
    return result


def div(x: Element, y: Element) -> Element:
    """x / y of floating-point numbers."""
    if not z3.is_fp(x):
        raise Unsupported("division of integers, which goes through float64")
    if is_number(y, 1.0):
        return x
    (x, minus_x), (y, minus_y) = signed(x), signed(y)
    if minus_x != minus_y:
        return neg(div(x, y))
    return z3.fpDiv(z3.RNE(), x, y) if current().exact else current().apply("quotient", x.sort(), x, y)[0]


def _chosen(name: str, x: Element, y: Element, is_x: Element) -> Element:
    """A maximum or minimum of floating-point numbers; of two zeros an unknown one."""
    # Which zero numpy takes depends on the order of operands and the instruction: either, but the same one each time.
    tie, _ = current().apply(name, z3.BoolSort(), x, y)
    zeros = z3.And(z3.fpIsZero(x), z3.fpIsZero(y))
    return z3.If(z3.fpIsNaN(x), x, z3.If(z3.fpIsNaN(y), y, z3.If(z3.If(zeros, tie, is_x), x, y)))


def maximum(x: Element, y: Element) -> Element:
    """The larger one; nan if one is."""
    if z3.is_bool(x):
        return z3.Or(x, y)
    return _chosen("max", x, y, z3.fpGEQ(x, y)) if z3.is_fp(x) else z3.If(x >= y, x, y)


def minimum(x: Element, y: Element) -> Element:
    """The smaller one; nan if one is."""
    if z3.is_bool(x):
        return z3.And(x, y)
    return _chosen("min", x, y, z3.fpLEQ(x, y)) if z3.is_fp(x) else z3.If(x <= y, x, y)


# -- operators -------------------------------------------------------------------------------------
# The meaning of elementwise operators on single elements, as terms of the solver.
#
# The function that defines an operator (``graphad.ops.formulas``) is run on terms: an operator means what it does with numpy's functions,
# and
# ``MEANINGS`` says what those do with an element. ``tests/rewriting/test_smt.py`` evaluates operators so on numbers and compares with their
# kernels; it tests as well what is assumed of exp and others (``ASSUMED``).


class NoMeaning(Unsupported):
    """An operator does something that elements of the solver cannot."""


class Unknown:
    """An attribute that is a number of the solver: it can be computed with, and decides nothing."""

    __slots__ = ("element",)
    __hash__ = object.__hash__

    def __init__(self, element: Element) -> None:
        self.element = element

    def _refused(self, *_: object) -> Any:
        raise Unsupported("an attribute that decides what is computed")

    __bool__ = __float__ = __int__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = is_integer = _refused

    def __eq__(self, other: object) -> bool:
        return bool(self._refused())


class SolverTerm(Tracer):
    """An element; ``squares`` says whether a power of 2 is a product, as it is of arrays with axes. Notes what is assumed."""

    __slots__ = ("assumed", "element", "squares")

    def __init__(self, element: Element, squares: bool, assumed: set[str]) -> None:
        self.element, self.squares, self.assumed = element, squares, assumed
        self.dtype = np.dtype(dtype_of(element))

    def like(self, number: object) -> SolverTerm:
        return self._made(like(_held(number), self.element))

    def apply(self, function: Callable[..., object], args: Sequence[object]) -> SolverTerm:
        meaning = MEANINGS.get(function)
        if meaning is None:
            raise NoMeaning(f"{function.__name__} has no meaning for the solver")
        if function in ASSUMED:
            self.assumed.add(ASSUMED[function])
        # numpy multiplies arrays where the exponent is 2; single numbers go through pow, which may round otherwise.
        if function is raised and args[1] == 2.0 and self.squares:
            return self._made(mul(self.element, self.element))
        if not isinstance(function, np.ufunc) and function is not np.where:
            return self._made(meaning(self.element, *map(_held, args[1:])))
        dtype = next(arg.dtype for arg in reversed(args) if isinstance(arg, SolverTerm)).name
        return self._made(meaning(*(_element(arg, dtype) for arg in args)))

    def _made(self, element: Element) -> SolverTerm:
        return SolverTerm(element, self.squares, self.assumed)


def _held(value: object) -> Any:
    return value.element if isinstance(value, Unknown) else value


def _element(value: object, dtype: str) -> Element:
    """An operand as an element: a number of Python takes the dtype of the others."""
    if isinstance(value, SolverTerm):
        return value.element
    return number(_held(value), value.dtype.name if isinstance(value, np.generic) else dtype)


def meaning_of(definition: OpDef, elements: Sequence[Element], attrs: Mapping[str, object], squares: bool, assumed: set[str]) -> Element:
    """One element of the output of an elementwise operator, made of one element of each input.

    Args:
        definition: of the operator.
        elements: one for each input.
        attrs: those that are numbers may be numbers of the solver.
        squares: whether the arrays have axes, of which numpy takes the power 2 as a product.
        assumed: what is assumed is added to it.

    Raises:
        Unsupported: for elements of this dtype, or these attributes, the operator has no meaning; ``NoMeaning`` if it has none.
    """
    terms = [SolverTerm(element, squares, assumed) for element in elements]
    variadic = any(slot.variadic for slot in definition.inputs.values())
    try:
        result = definition.function(*([terms] if variadic else terms), **{n: Unknown(v) if z3.is_expr(v) else v for n, v in attrs.items()})
    except (TypeError, AttributeError) as error:  # it does with a term what only arrays can do
        raise NoMeaning(f"operator {definition.type!r}: {error}") from None
    if not isinstance(result, SolverTerm):
        raise NoMeaning(f"operator {definition.type!r} gives {result!r}")
    return result.element


# -- what numpy's functions do with elements -------------------------------------------------------


def _compare(fp: str, ints: Callable[[Element, Element], Element]) -> Builder:
    def build(x: Element, y: Element) -> Element:
        if z3.is_fp(x):
            return getattr(z3, fp)(x, y)
        if z3.is_bool(x):
            x, y = of_bool(x, "int8"), of_bool(y, "int8")
        return ints(x, y)

    return build


def _logical(function: Callable[..., object]) -> Builder:
    def build(x: Element, y: Element) -> Element:
        return function(truth(x), truth(y))

    return build


def _floats_only(function: Callable[[Element], Element]) -> Builder:
    def build(x: Element) -> Element:
        if not z3.is_fp(x):
            raise Unsupported("an operator of floating-point numbers on others")
        return function(x)

    return build


def _rounded(mode: str) -> Builder:
    return _floats_only(lambda x: z3.fpRoundToIntegral(getattr(z3, mode)(), x))


def _with_sign(x: Element, y: Element) -> Element:
    size = z3.fpAbs(x)
    return z3.If(z3.fpIsNegative(y), z3.fpNeg(size), size)


def _sign(x: Element) -> Element:
    if z3.is_fp(x):
        unit = literal(1.0, x.sort())
        return z3.If(z3.Or(z3.fpIsNaN(x), z3.fpIsZero(x)), x, z3.If(z3.fpIsPositive(x), unit, z3.fpNeg(unit)))
    zero = number(0, dtype_of(x))
    return z3.If(x > zero, number(1, dtype_of(x)), z3.If(x == zero, zero, number(-1, dtype_of(x))))


def _abs(x: Element) -> Element:
    if z3.is_bool(x):
        return x
    return z3.fpAbs(x) if z3.is_fp(x) else z3.If(x < 0, -x, x)


def _exp(x: Element) -> Element:
    """A function that is not negative, and nan where its argument is; the zeros give one result."""
    if not z3.is_fp(x):
        raise Unsupported("exp of integers")
    x = _but_for_zeros(x)
    # Equal arguments give equal results only if they are equal bit by bit, and the zeros are not.
    argument = z3.If(z3.fpIsZero(x), literal(0.0, x.sort()), x)
    result, is_new = current().apply("exp", x.sort(), argument)
    if is_new:
        current().facts.append(z3.If(z3.fpIsNaN(x), z3.fpIsNaN(result), z3.fpGEQ(result, literal(0.0, x.sort()))))
    return result


def _but_for_zeros(x: Element) -> Element:
    """An element without a choice that only sets the sign of a zero."""
    while x.decl().kind() == z3.Z3_OP_ITE and x.arg(0).decl().kind() == z3.Z3_OP_FPA_IS_ZERO and is_number(x.arg(1), 0.0):
        if not signed(x.arg(2))[0].eq(signed(x.arg(0).arg(0))[0]):
            break
        x = x.arg(2)
    return x


def _sqrt(x: Element) -> Element:
    if current().exact:
        return z3.fpSqrt(z3.RNE(), x)
    result, is_new = current().apply("sqrt", x.sort(), x)
    if is_new:
        current().facts.append(z3.Or(z3.fpIsNaN(result), z3.fpGEQ(result, literal(0.0, x.sort()))))
    return result


def _raised(x: Element, factor: float) -> Element:
    """Powers 0 and 1; of integers 2 too. The square of floating-point numbers depends on how numpy was called."""
    if factor in (0.0, 1.0):
        return like(1, x) if factor == 0.0 else x
    return mul(x, x) if factor == 2.0 and not z3.is_fp(x) else unknown_function(f"pow{factor}", x)


def _power(x: Element, y: Element) -> Element:
    return x if is_number(y, 1.0) else unknown_function("elementwise_pow", x, y)


def _converted(x: Element, out_dtype: str) -> Element:
    if out_dtype == dtype_of(x):
        return x
    if out_dtype == "bool":
        return truth(x)
    if z3.is_bool(x):
        return of_bool(x, out_dtype)
    sort = sort_of(out_dtype)
    if z3.is_fp(x):
        if out_dtype.startswith("float"):
            return z3.fpFPToFP(z3.RNE(), x, sort)
        raise Unsupported("a cast from floating-point numbers to integers, which is not defined for all")
    if out_dtype.startswith("float"):
        return z3.fpSignedToFP(z3.RNE(), x, sort)
    # As numpy casts: sign extension to wider integers, the low bits to narrower ones.
    wide = np.dtype(out_dtype).itemsize * 8 - x.size()
    return z3.SignExt(wide, x) if wide >= 0 else z3.Extract(np.dtype(out_dtype).itemsize * 8 - 1, 0, x)


def _filled(x: Element, value: object, dtype: str) -> Element:
    if z3.is_expr(value) and not dtype.startswith("float"):
        raise Unsupported("integers filled with an attribute")
    return number(value, dtype)


def _cos(x: Element) -> Element:
    if not z3.is_fp(x):
        raise Unsupported("cos of integers")
    return unknown_function("cos", z3.fpAbs(signed(x)[0]))


def _opaque(name: str) -> Builder:
    return _floats_only(lambda x: unknown_function(name, x))


def _negative(x: Element) -> Element:
    if z3.is_bool(x):
        raise Unsupported("the negative of a truth value")
    return neg(x) if z3.is_fp(x) else -x


MEANINGS: Mapping[Callable[..., object], Builder] = {
    np.add: add,
    np.subtract: sub,
    np.multiply: mul,
    np.divide: div,
    np.negative: _negative,
    np.maximum: maximum,
    np.minimum: minimum,
    np.power: _power,
    np.square: lambda x: mul(x, x),
    np.less: _compare("fpLT", lambda x, y: x < y),
    np.less_equal: _compare("fpLEQ", lambda x, y: x <= y),
    np.greater: _compare("fpGT", lambda x, y: x > y),
    np.greater_equal: _compare("fpGEQ", lambda x, y: x >= y),
    np.equal: _compare("fpEQ", lambda x, y: x == y),
    np.not_equal: _compare("fpNEQ", lambda x, y: x != y),
    np.logical_and: _logical(lambda x, y: z3.And(x, y)),
    np.logical_or: _logical(lambda x, y: z3.Or(x, y)),
    np.logical_xor: _logical(lambda x, y: z3.Xor(x, y)),
    np.logical_not: lambda x: z3.Not(truth(x)),
    np.isnan: lambda x: z3.fpIsNaN(x) if z3.is_fp(x) else z3.BoolVal(False),
    np.isinf: lambda x: z3.fpIsInf(x) if z3.is_fp(x) else z3.BoolVal(False),
    np.isfinite: lambda x: z3.Not(z3.Or(z3.fpIsInf(x), z3.fpIsNaN(x))) if z3.is_fp(x) else z3.BoolVal(True),
    np.where: lambda condition, x, y: z3.If(truth(condition), x, y),
    np.absolute: _abs,
    np.sign: _sign,
    np.copysign: _with_sign,
    np.floor: _rounded("RTN"),
    np.ceil: _rounded("RTP"),
    np.trunc: _rounded("RTZ"),
    np.rint: _rounded("RNE"),
    np.sqrt: _floats_only(_sqrt),
    np.exp: _exp,
    np.tanh: _opaque("tanh"),
    np.log: _opaque("log"),
    np.log1p: _opaque("log1p"),
    np.expm1: _opaque("expm1"),
    np.sin: _opaque("sin"),
    np.cos: _cos,
    np.zeros_like: lambda x: like(0, x),
    error_function: _opaque("erf"),
    converted: _converted,
    filled: _filled,
    raised: _raised,
}
ASSUMED: Mapping[Callable[..., object], str] = {
    np.exp: "exp(x) >= 0 unless x is nan, then it is nan; exp(-0) = exp(0)",
    np.cos: "cos(-x) = cos(x)",
    np.power: "x**1 = x",
}


# -- rules as terms --------------------------------------------------------------------------------
# Rules as terms of the solver: elements for tensors, float64 numbers for attributes, truth values for conditions.

# Operators over several elements whose results are at least 0, or nan.
NONNEGATIVE: Mapping[str, str] = {"softmax": "softmax(x) is >= 0 or nan"}


class Elements(Evaluation[Element]):
    """Terms as single elements: those of all tensors that broadcasting brings to one place of the result.

    Operators that are not elementwise give an element of which nothing is known: a proof that does not need it holds all the same.

    Args:
        setting: the types of the tensors, and values for the attributes that are not numbers.
        symbolic: the attributes that are numbers of the solver.
    """

    found: Setting

    def __init__(self, setting: Setting, symbolic: Mapping[str, object]) -> None:
        super().__init__(setting)
        self.attrs: dict[str, object] = {**setting.attrs, **symbolic}
        self.elements: dict[Term | tuple[Term, int], Element] = {}
        self.needs: list[object] = []  # what has to hold for the operators to run
        self.assumed: set[str] = set()
        # Numpy squares arrays where it raises single numbers to the power 2.
        self.rank = max((len(type.shape) for type in setting.values.values()), default=0)
        for term, type in setting.values.items():
            self.elements[term] = self._element(term, type.dtype)
        for term, types in setting.lists.items():
            for i, type in enumerate(types):
                self.elements[term, i] = z3.Const(f"{term!r}.{i}", smt.sort_of(type.dtype))

    def _element(self, term: Term, dtype: str) -> Element:
        if not isinstance(term, Constant):
            return z3.Const(repr(term), smt.sort_of(dtype))
        if not isinstance(term.number, Scalar):
            return smt.number(term.number, dtype)
        if not isinstance(term.number, Attribute):
            raise Unsupported(f"the constant {term.number!r}")
        element = z3.Const(term.number.name, smt.sort_of(dtype))
        # Attributes are float64 numbers in conditions, whatever the dtype of the tensor that holds them.
        is_narrow = z3.is_fp(element) and element.sort() != z3.Float64()
        self.attrs[term.number.name] = z3.fpFPToFP(z3.RNE(), element, z3.Float64()) if is_narrow else element
        return element

    def leaf(self, term: Term) -> Element:
        return self.elements[term]

    def leaves(self, term: Several) -> list[Element]:
        return [self.elements[term, i] for i in range(len(self.found.lists[term]))]

    def _call(self, call: Call) -> Slots[Element]:
        if not call.definition.elementwise:
            return self._unknown(call)
        try:
            return super()._call(call)
        except NoMeaning:
            return self._unknown(call)

    def _unknown(self, call: Call) -> Slots[Element]:
        """An unknown element for each result of an operator that is not elementwise."""
        types = self.found.inferred.done.get(call) or self.found.inferred._call(call)
        elements = {
            slot: [z3.FreshConst(smt.sort_of(type.dtype), call.definition.type) for type in items]
            for slot, items in types.items()
            if any(items)
        }
        if call.definition.type in NONNEGATIVE:
            (element,) = elements["Out"]
            self.needs.append(z3.Or(z3.fpIsNaN(element), z3.fpGEQ(element, smt.literal(0.0, element.sort()))))
            self.assumed.add(NONNEGATIVE[call.definition.type])
        return elements

    def apply(self, definition: OpDef, inputs: Slots[Element], attrs: Mapping[str, object]) -> Slots[Element]:
        operands = [element for slot in definition.inputs for element in inputs.get(slot, ())]
        self.needs += [smt.fits(value, smt.dtype_of(operands[0])) for value in attrs.values()]
        return {next(iter(definition.outputs)): [meaning_of(definition, operands, attrs, bool(self.rank), self.assumed)]}

    def filled(self, number: float, like: Element) -> Element:
        return smt.number(number, smt.dtype_of(like))

    def scalar(self, value: object) -> object:
        if isinstance(value, tuple | list):
            return [self.scalar(item) for item in value]
        return self.value(value) if isinstance(value, Scalar) else value

    # -- attributes and conditions -------------------------------------------------------------------

    def value(self, scalar: object) -> Any:
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
            # Python raises where numpy gives inf: the rule does not apply then.
            self.needs.append(z3.Not(z3.fpIsZero(_fp(parts[1]))))
        return meaning(*parts)

    def conditions(self, scalars: Sequence[object]) -> Iterator[Element]:
        """The conditions as truth values, without those that have no meaning for the solver: fewer conditions are harder to prove from."""
        for scalar in scalars:
            if isinstance(scalar, Scalar) and scalar.function is both:
                yield from self.conditions(scalar.parts)
                continue
            try:
                truth_value = self.value(scalar)
            except Unsupported:
                continue
            yield truth_value if z3.is_expr(truth_value) else z3.BoolVal(bool(truth_value))


def _fp(value: Element | float) -> Element:
    if z3.is_expr(value) and not z3.is_fp(value):
        raise Unsupported("arithmetic of an integer attribute")
    return value if z3.is_expr(value) else smt.literal(float(value), z3.Float64())


def _compared(fp: str, plain: Callable[[Element, Element], Element]) -> Callable[[Element, Element], Element]:
    def compare(a: Element, b: Element) -> Element:
        if any(z3.is_bv(x) for x in (a, b)):
            dtype = smt.dtype_of(a if z3.is_bv(a) else b)
            # A Python number beside a bit-vector has to be whole, or it has no counterpart of the same width.
            if any(not z3.is_expr(x) and x != int(x) for x in (a, b)):
                raise Unsupported("an integer compared with a fraction")
            return plain(*(x if z3.is_expr(x) else smt.number(int(x), dtype) for x in (a, b)))
        if any(z3.is_expr(x) and z3.is_bool(x) for x in (a, b)):
            raise Unsupported("a comparison of truth values")
        return getattr(z3, fp)(_fp(a), _fp(b))

    return compare


def _truth(value: object) -> Element:
    return smt.truth(value) if z3.is_expr(value) else z3.BoolVal(bool(value))


def _finite(value: object) -> Element:
    if z3.is_expr(value) and not z3.is_fp(value):
        return z3.BoolVal(True)
    return z3.Not(z3.Or(z3.fpIsNaN(_fp(value)), z3.fpIsInf(_fp(value))))


_SCALARS: Mapping[object, Callable[..., object]] = {
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


def starts_elementwise(rule: PatternRule) -> bool:
    """Whether the operators that a rule starts from are elementwise."""
    return all(term.call.definition.elementwise for term in rule.before)
