"""The meaning of elementwise operators on single elements, as terms of the solver.

The function that defines an operator (``graphad.ops.formulas``) is run on terms: an operator means what it does with numpy's functions, and
``MEANINGS`` says what those do with an element. ``tests/rewriting/test_smt.py`` evaluates operators so on numbers and compares with their
kernels; it tests as well what is assumed of exp and others (``ASSUMED``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphad.ops import OpDef
from graphad.ops.error_function import error_function
from graphad.ops.formulas import Tracer, converted, filled, raised
from graphad.rewriting.smt import (
    Builder,
    Element,
    Unsupported,
    current,
    dtype_of,
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
from graphad.rewriting.smt_arithmetic import add, div, maximum, minimum, mul, sub


class NoMeaning(Unsupported):
    """An operator does something that elements of the solver cannot."""


class Unknown:
    """An attribute that is a number of the solver: it can be computed with, and decides nothing."""

    __slots__ = ("element",)
    __hash__ = object.__hash__

    def __init__(self, element: Element) -> None:
        self.element = element

    def _refused(self, *_: Any) -> Any:
        raise Unsupported("an attribute that decides what is computed")

    __bool__ = __float__ = __int__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = is_integer = _refused

    def __eq__(self, other: object) -> bool:
        return bool(self._refused())


class Term(Tracer):
    """An element; ``squares`` says whether a power of 2 is a product, as it is of arrays with axes. Notes what is assumed."""

    __slots__ = ("assumed", "element", "squares")

    def __init__(self, element: Element, squares: bool, assumed: set[str]) -> None:
        self.element, self.squares, self.assumed = element, squares, assumed
        self.dtype = np.dtype(dtype_of(element))

    def like(self, number: Any) -> Term:
        return self._made(like(_held(number), self.element))

    def apply(self, function: Callable[..., Any], args: Sequence[Any]) -> Term:
        meaning = MEANINGS.get(function)
        if meaning is None:
            raise NoMeaning(f"{function.__name__} has no meaning for the solver")
        if function in ASSUMED:
            self.assumed.add(ASSUMED[function])
        if function is raised and args[1] == 2.0 and self.squares:
            return self._made(mul(self.element, self.element))
        if not isinstance(function, np.ufunc) and function is not np.where:
            return self._made(meaning(self.element, *map(_held, args[1:])))
        dtype = next(arg.dtype for arg in reversed(args) if isinstance(arg, Term)).name
        return self._made(meaning(*(_element(arg, dtype) for arg in args)))

    def _made(self, element: Element) -> Term:
        return Term(element, self.squares, self.assumed)


def _held(value: Any) -> Any:
    return value.element if isinstance(value, Unknown) else value


def _element(value: Any, dtype: str) -> Element:
    """An operand as an element: a number of Python takes the dtype of the others."""
    if isinstance(value, Term):
        return value.element
    return number(_held(value), value.dtype.name if isinstance(value, np.generic) else dtype)


def meaning_of(row: OpDef, elements: Sequence[Element], attrs: Mapping[str, Any], squares: bool, assumed: set[str]) -> Element:
    """One element of the output of an elementwise operator, made of one element of each input.

    Args:
        row: the operator.
        elements: one for each input.
        attrs: those that are numbers may be numbers of the solver.
        squares: whether the arrays have axes, of which numpy takes the power 2 as a product.
        assumed: what is assumed is added to it.

    Raises:
        Unsupported: for elements of this dtype, or these attributes, the operator has no meaning; ``NoMeaning`` if it has none.
    """
    terms = [Term(element, squares, assumed) for element in elements]
    variadic = any(slot.variadic for slot in row.inputs.values())
    try:
        result = row.function(*([terms] if variadic else terms), **{n: Unknown(v) if z3.is_expr(v) else v for n, v in attrs.items()})
    except (TypeError, AttributeError) as error:  # it does with a term what only arrays can do
        raise NoMeaning(f"operator {row.type!r}: {error}") from None
    if not isinstance(result, Term):
        raise NoMeaning(f"operator {row.type!r} gives {result!r}")
    return result.element


# -- what numpy's functions do with elements -------------------------------------------------------


def _compare(fp: str, ints: Callable[[Any, Any], Any]) -> Builder:
    def build(x: Element, y: Element) -> Element:
        if z3.is_fp(x):
            return getattr(z3, fp)(x, y)
        if z3.is_bool(x):
            x, y = of_bool(x, "int8"), of_bool(y, "int8")
        return ints(x, y)

    return build


def _logical(function: Callable[..., Any]) -> Builder:
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
        one = literal(1.0, x.sort())
        return z3.If(z3.Or(z3.fpIsNaN(x), z3.fpIsZero(x)), x, z3.If(z3.fpIsPositive(x), one, z3.fpNeg(one)))
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
    wide = np.dtype(out_dtype).itemsize * 8 - x.size()
    return z3.SignExt(wide, x) if wide >= 0 else z3.Extract(np.dtype(out_dtype).itemsize * 8 - 1, 0, x)


def _filled(x: Element, value: Any, dtype: str) -> Element:
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


MEANINGS: Mapping[Callable[..., Any], Builder] = {
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
ASSUMED: Mapping[Callable[..., Any], str] = {
    np.exp: "exp(x) >= 0 unless x is nan, then it is nan; exp(-0) = exp(0)",
    np.cos: "cos(-x) = cos(x)",
    np.power: "x**1 = x",
}
