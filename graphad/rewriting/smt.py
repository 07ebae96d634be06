"""What operators do to single elements, as terms for the solver z3: integers as bit-vectors, floating-point numbers by IEEE 754.

``ELEMENTWISE`` is one table, operator type to builder. A builder takes one element of each input and the attributes, and returns
the element of the output. ``tests/rewriting/test_smt.py`` evaluates each builder on numbers and compares with the operator's kernel.

What IEEE 754 does not define is a function of which only this is assumed, and tested beside the builders (``ASSUMED``): exp and the like
give equal results for equal arguments; which of two zeros a maximum gives is unknown, but the same for the same operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from graphad.errors import InvalidValue

Element = Any  # a z3 expression: a Bool, a bit-vector or a floating-point number
Builder = Callable[..., Element]


class _Solver:
    """The module z3, imported when it is first needed: that takes half a second."""

    @cached_property
    def _module(self) -> Any:
        try:
            return import_module("z3")
        except ImportError:
            raise InvalidValue("rules are proved with z3, which is not installed: pip install 'graphad[proof]'") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


z3: Any = _Solver()


class Unsupported(Exception):
    """Something has no meaning as a term of the solver."""


ASSUMED: dict[str, str] = {
    "exp": "exp(x) >= 0 unless x is nan, then it is nan; exp(-0) = exp(0)",
    "cos": "cos(-x) = cos(x)",
    "elementwise_pow": "x**1 = x",
    "softmax": "softmax(x) is >= 0 or nan",
}


class Functions:
    """Functions of which little is known, and what is: equal arguments give equal results, and facts that are added.

    ``exact`` says what sums, products and quotients are: bit by bit as IEEE 754 has them, or such functions, with which the solver
    is quicker; what is proved with those holds for the others too.
    """

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.facts: list[Any] = []
        self._results: dict[tuple[Any, ...], Any] = {}
        self.applied: list[tuple[str, tuple[Any, ...], Any]] = []  # names, arguments and results, in this order

    def apply(self, name: str, sort: Any, *arguments: Element) -> tuple[Element, bool]:
        """The result of a function, and whether it is a new one."""
        arguments = tuple(z3.simplify(a) for a in arguments)
        key = (name, *(a.get_id() for a in arguments))
        if key in self._results:
            return self._results[key], False
        result = self._results[key] = z3.FreshConst(sort, name)
        for other, before, known in self.applied:
            if other == name and before[0].sort() == arguments[0].sort():
                self.facts.append(z3.Implies(z3.And(*(a == b for a, b in zip(before, arguments, strict=True))), known == result))
        self.applied.append((name, arguments, result))
        return result, True


_functions: list[Functions] = [Functions(exact=True)]


@contextmanager
def functions(exact: bool) -> Iterator[Functions]:
    """Within it, builders take these functions; their facts are premises of what is to be proved."""
    _functions.append(Functions(exact))
    try:
        yield _functions[-1]
    finally:
        _functions.pop()


# -- sorts and numbers ---------------------------------------------------------------------------


def sort_of(dtype: str) -> Any:
    """The solver's sort for the elements of a dtype."""
    if dtype == "bool":
        return z3.BoolSort()
    if dtype.startswith("float"):
        return {"float16": z3.Float16, "float32": z3.Float32, "float64": z3.Float64}[dtype]()
    return z3.BitVecSort(np.dtype(dtype).itemsize * 8)


def number(value: Any, dtype: str) -> Element:
    """A number of Python or the solver as an element of a dtype: what ``X.dtype.type(value)`` is."""
    sort = sort_of(dtype)
    if z3.is_expr(value):
        return _converted(value, dtype, sort)
    try:
        with np.errstate(all="ignore"):
            held = np.dtype(dtype).type(value).item()
    except (OverflowError, ValueError, TypeError):
        raise Unsupported(f"{value!r} is no {dtype}") from None
    if dtype == "bool":
        return z3.BoolVal(held)
    return literal(held, sort) if dtype.startswith("float") else z3.BitVecVal(held, sort)


def literal(value: float, sort: Any) -> Element:
    """A floating-point number."""
    if value != value:
        return z3.fpNaN(sort)
    if np.isinf(value):
        return z3.fpPlusInfinity(sort) if value > 0 else z3.fpMinusInfinity(sort)
    if value == 0:
        return z3.fpMinusZero(sort) if np.signbit(value) else z3.fpPlusZero(sort)
    return z3.FPVal(value, sort)


def _converted(value: Element, dtype: str, sort: Any) -> Element:
    if value.sort() == sort:
        return value
    if z3.is_bool(value):
        return _of_bool(value, dtype)
    if not z3.is_fp(value):
        raise Unsupported(f"an integer as {dtype}")
    if dtype == "bool":
        return z3.Not(z3.fpIsZero(value))
    if not dtype.startswith("float"):
        return z3.fpToSBV(z3.RTZ(), value, sort)
    kind = value.decl().kind()
    if kind == z3.Z3_OP_FPA_NEG:
        return neg(_converted(value.arg(0), dtype, sort))
    if kind == z3.Z3_OP_ITE:
        return z3.If(value.arg(0), _converted(value.arg(1), dtype, sort), _converted(value.arg(2), dtype, sort))
    if kind == z3.Z3_OP_FPA_TO_FP and value.num_args() == 2 and value.arg(1).sort() == sort and sort.ebits() <= value.sort().ebits():
        return value.arg(1)  # it was widened before
    return z3.fpFPToFP(z3.RNE(), value, sort)


def _of_bool(value: Element, dtype: str) -> Element:
    return z3.If(value, number(1, dtype), number(0, dtype))


def fits(value: Element, dtype: str) -> Element:
    """Whether an attribute can be converted to a dtype: numpy refuses what an integer cannot hold."""
    if not z3.is_expr(value) or dtype.startswith("float") or dtype == "bool" or not z3.is_fp(value):
        return z3.BoolVal(True)
    bits = np.dtype(dtype).itemsize * 8 - 1
    low, high = literal(-(2.0**bits), value.sort()), literal(2.0**bits, value.sort())
    return z3.And(z3.fpGEQ(value, low), z3.fpLT(value, high))


def equal(a: Element, b: Element) -> Element:
    """Whether two elements are the same: zeros of both signs are, and so are all nans."""
    if z3.is_fp(a):
        return z3.Or(z3.fpEQ(a, b), z3.And(z3.fpIsNaN(a), z3.fpIsNaN(b)))
    return a == b


# -- arithmetic ----------------------------------------------------------------------------------


def _is(x: Element, value: float) -> bool:
    return bool(z3.is_fp_value(x)) and bool(z3.is_true(z3.simplify(z3.fpEQ(x, literal(value, x.sort())))))


def _signed(x: Element) -> tuple[Element, bool]:
    """An element without minus signs in front, and whether they make it negative."""
    negative = False
    while x.decl().kind() == z3.Z3_OP_FPA_NEG:
        x, negative = x.arg(0), not negative
    return x, negative


def neg(x: Element) -> Element:
    """-x."""
    if x.decl().kind() == z3.Z3_OP_FPA_NEG:
        return x.arg(0)
    return _by_case(x, neg) if _has_cases(x) else z3.simplify(z3.fpNeg(x)) if z3.is_fp_value(x) else z3.fpNeg(x)


def _has_cases(x: Element) -> bool:
    """Whether an element is a choice with a number on one side: arithmetic goes inside it then."""
    return bool(x.decl().kind() == z3.Z3_OP_ITE and any(z3.is_fp_value(x.arg(i)) for i in (1, 2)))


def _by_case(x: Element, function: Callable[[Element], Element]) -> Element:
    return z3.If(x.arg(0), function(x.arg(1)), function(x.arg(2)))


def add(x: Element, y: Element) -> Element:
    """x + y; wraps around in integers, is "or" of truth values."""
    if z3.is_bool(x):
        return z3.Or(x, y)
    if not z3.is_fp(x):
        return x + y
    if _has_cases(y):
        return _by_case(y, lambda case: add(x, case))
    if _has_cases(x):
        return _by_case(x, lambda case: add(case, y))
    x, y = (y, x) if z3.is_fp_value(x) and not z3.is_fp_value(y) else (x, y)
    if _is(y, 0.0):
        plus = z3.is_true(z3.simplify(z3.fpIsPositive(y)))
        return z3.If(z3.fpIsZero(x), literal(0.0, x.sort()), x) if plus else x
    return z3.fpAdd(z3.RNE(), x, y) if _functions[-1].exact else _some_sum(x, y)


def _some_sum(x: Element, y: Element) -> Element:
    """A function of two terms in any order, of which little more is known than what it does with zeros."""
    (x, minus_x), (y, minus_y) = sorted((_signed(x), _signed(y)), key=lambda pair: pair[0].get_id())
    if minus_x:  # -x + y = -(x - y), but for the sign of a sum that is zero, which another function gives
        x, y, minus_y = neg(x), (neg(y) if minus_y else y), False
    y = neg(y) if minus_y else y
    name = "sum"
    flipped = x.decl().kind() == z3.Z3_OP_FPA_NEG
    a, b = (x.arg(0), neg(y)) if flipped else (x, y)
    result, is_new = _functions[-1].apply(name, a.sort(), a, b)
    if is_new:
        _functions[-1].facts += [
            z3.Implies(z3.Or(z3.fpIsNaN(a), z3.fpIsNaN(b)), z3.fpIsNaN(result)),
            z3.Implies(z3.And(z3.fpIsZero(b), z3.Not(z3.fpIsZero(a))), result == a),
            z3.Implies(z3.And(z3.fpIsZero(a), z3.Not(z3.fpIsZero(b))), result == b),
            z3.Implies(z3.And(z3.fpIsZero(a), z3.fpIsZero(b)), z3.fpIsZero(result)),
        ]
    if not flipped:
        return result
    zero, _ = _functions[-1].apply("zero of a sum", a.sort(), a, b)
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
    if _has_cases(x) and x.eq(y):
        return _by_case(x, lambda case: mul(case, case))
    if _has_cases(y):
        return _by_case(y, lambda case: mul(x, case))
    if _has_cases(x):
        return _by_case(x, lambda case: mul(case, y))
    (x, minus_x), (y, minus_y) = _signed(x), _signed(y)
    if minus_x != minus_y:
        return neg(mul(x, y))
    x, y = (y, x) if z3.is_fp_value(x) else (x, y)
    if _is(y, 1.0):
        return x
    if _is(y, -1.0):
        return neg(x)
    if _is(y, 2.0):
        return add(x, x)
    return z3.fpMul(z3.RNE(), x, y) if _functions[-1].exact else _some_product(x, y)


def _some_product(x: Element, y: Element) -> Element:
    x, y = sorted((x, y), key=lambda factor: factor.get_id())
    result, is_new = _functions[-1].apply("product", x.sort(), x, y)
    if is_new:
        bounded = [z3.Not(z3.Or(z3.fpIsNaN(f), z3.fpIsInf(f))) for f in (x, y)]
        zero = z3.Or(z3.And(z3.fpIsZero(x), bounded[1]), z3.And(z3.fpIsZero(y), bounded[0]))
        _functions[-1].facts += [
            z3.Implies(z3.Or(z3.fpIsNaN(x), z3.fpIsNaN(y)), z3.fpIsNaN(result)),
            z3.Implies(zero, z3.fpIsZero(result)),
            *([z3.Or(z3.fpIsNaN(result), z3.fpIsPositive(result))] if x.eq(y) else []),
        ]
    return result


def div(x: Element, y: Element) -> Element:
    """x / y of floating-point numbers."""
    if not z3.is_fp(x):
        raise Unsupported("division of integers, which goes through float64")
    if _is(y, 1.0):
        return x
    (x, minus_x), (y, minus_y) = _signed(x), _signed(y)
    if minus_x != minus_y:
        return neg(div(x, y))
    return z3.fpDiv(z3.RNE(), x, y) if _functions[-1].exact else _functions[-1].apply("quotient", x.sort(), x, y)[0]


def _chosen(name: str, x: Element, y: Element, is_x: Element) -> Element:
    """A maximum or minimum of floating-point numbers; of two zeros an unknown one."""
    tie, _ = _functions[-1].apply(name, z3.BoolSort(), x, y)
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


def _like(value: Any, x: Element) -> Element:
    return number(value, dtype_of(x))


def dtype_of(x: Element) -> str:
    """The dtype that an element is of."""
    if z3.is_bool(x):
        return "bool"
    return f"float{x.ebits() + x.sbits()}" if z3.is_fp(x) else f"int{x.size()}"


# -- builders ------------------------------------------------------------------------------------


def _scale(x: Element, *, scale: Any = 1.0, bias: Any = 0.0, bias_after_scale: bool = True) -> Element:
    s, b = _like(scale, x), _like(bias, x)
    return add(mul(x, s), b) if bias_after_scale else mul(add(x, b), s)


def _binary(function: Builder) -> Builder:
    def build(x: Element, y: Element, *, axis: int = -1) -> Element:
        return function(x, y)

    return build


def _compare(fp: str, ints: Callable[[Any, Any], Any]) -> Builder:
    def build(x: Element, y: Element, *, axis: int = -1) -> Element:
        if z3.is_fp(x):
            return getattr(z3, fp)(x, y)
        if z3.is_bool(x):
            x, y = _of_bool(x, "int8"), _of_bool(y, "int8")
        return ints(x, y)

    return build


def truth(x: Element) -> Element:
    """Whether an element is not zero."""
    if z3.is_bool(x):
        return x
    return z3.Not(z3.fpIsZero(x)) if z3.is_fp(x) else x != 0


def _logical(function: Callable[..., Any]) -> Builder:
    def build(x: Element, y: Element, *, axis: int = -1) -> Element:
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


def _away_from_zero(x: Element) -> Element:
    whole = z3.fpRoundToIntegral(z3.RTZ(), x)
    far = z3.fpGEQ(z3.fpAbs(z3.fpSub(z3.RNE(), x, whole)), literal(0.5, x.sort()))
    return add(whole, z3.If(far, _sign(x), literal(0.0, x.sort())))


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


def _relu(x: Element) -> Element:
    return maximum(x, _like(0, x))


def _relu6(x: Element, *, threshold: Any = 6.0) -> Element:
    return minimum(_relu(x), _like(threshold, x))


def _clip(x: Element, *, min: Any, max: Any) -> Element:
    return minimum(maximum(x, _like(min, x)), _like(max, x))


def unknown_function(name: str, *operands: Element) -> Element:
    """A function of which nothing is known but that equal operands give equal results."""
    return _functions[-1].apply(name, operands[0].sort(), *operands)[0]


def _exp(x: Element) -> Element:
    """A function that is not negative, and nan where its argument is; the zeros give one result."""
    if not z3.is_fp(x):
        raise Unsupported("exp of integers")
    argument = z3.If(z3.fpIsZero(x), literal(0.0, x.sort()), x)
    result, is_new = _functions[-1].apply("exp", x.sort(), argument)
    if is_new:
        _functions[-1].facts.append(z3.If(z3.fpIsNaN(x), z3.fpIsNaN(result), z3.fpGEQ(result, literal(0.0, x.sort()))))
    return result


def _sigmoid(x: Element) -> Element:
    one = literal(1.0, x.sort())
    return div(one, add(_exp(neg(x)), one))


def _reciprocal(x: Element) -> Element:
    return div(literal(1.0, x.sort()), x)


def _sqrt(x: Element) -> Element:
    if _functions[-1].exact:
        return z3.fpSqrt(z3.RNE(), x)
    result, is_new = _functions[-1].apply("sqrt", x.sort(), x)
    if is_new:
        _functions[-1].facts.append(z3.Or(z3.fpIsNaN(result), z3.fpGEQ(result, literal(0.0, x.sort()))))
    return result


def _pow(x: Element, *, factor: Any = 1.0) -> Element:
    """Powers 0, 1 and 3; of integers 2 too. The square of floating-point numbers depends on how numpy was called."""
    if z3.is_expr(factor):
        raise Unsupported("pow by an attribute")
    if factor in (0.0, 1.0):
        return _like(1, x) if factor == 0.0 else x
    if factor == 3.0 or (factor == 2.0 and not z3.is_fp(x)):
        return mul(mul(x, x), x) if factor == 3.0 else mul(x, x)
    return unknown_function(f"pow{factor}", x)


def _elementwise_pow(x: Element, y: Element, *, axis: int = -1) -> Element:
    return x if _is(y, 1.0) else unknown_function("elementwise_pow", x, y)


def _cast(x: Element, *, out_dtype: str, in_dtype: str = "") -> Element:
    if out_dtype == dtype_of(x):
        return x
    if out_dtype == "bool":
        return truth(x)
    if z3.is_bool(x):
        return _of_bool(x, out_dtype)
    sort = sort_of(out_dtype)
    if z3.is_fp(x):
        if out_dtype.startswith("float"):
            return z3.fpFPToFP(z3.RNE(), x, sort)
        raise Unsupported("a cast from floating-point numbers to integers, which is not defined for all")
    if out_dtype.startswith("float"):
        return z3.fpSignedToFP(z3.RNE(), x, sort)
    wide = np.dtype(out_dtype).itemsize * 8 - x.size()
    return z3.SignExt(wide, x) if wide >= 0 else z3.Extract(np.dtype(out_dtype).itemsize * 8 - 1, 0, x)


def _filled_like(x: Element, *, value: Any, dtype: str = "") -> Element:
    wanted = dtype or dtype_of(x)
    if z3.is_expr(value) and not wanted.startswith("float"):
        raise Unsupported("integers filled with an attribute")
    return number(value, wanted)


def _where(condition: Element, x: Element, y: Element) -> Element:
    return z3.If(truth(condition), x, y)


def _sum(*terms: Element) -> Element:
    total = terms[0]
    for term in terms[1:]:
        total = add(total, term)
    return total


def _cos(x: Element) -> Element:
    if not z3.is_fp(x):
        raise Unsupported("cos of integers")
    return unknown_function("cos", z3.fpAbs(_signed(x)[0]))


def _silu(x: Element) -> Element:
    return mul(x, _sigmoid(x))


def _opaque(name: str) -> Builder:
    return _floats_only(lambda x: unknown_function(name, x))


ELEMENTWISE: Mapping[str, Builder] = {
    "assign": lambda x: x,
    "scale": _scale,
    "increment": lambda x, *, step=1.0: add(x, _like(step, x)),
    "cast": _cast,
    "fill_zeros_like": lambda x: _like(0, x),
    "fill_any_like": _filled_like,
    "sum": _sum,
    "elementwise_add": _binary(add),
    "elementwise_sub": _binary(sub),
    "minus": lambda x, y: sub(x, y),
    "elementwise_mul": _binary(mul),
    "elementwise_div": _binary(div),
    "elementwise_max": _binary(maximum),
    "elementwise_min": _binary(minimum),
    "elementwise_pow": _elementwise_pow,
    "less_than": _compare("fpLT", lambda x, y: x < y),
    "less_equal": _compare("fpLEQ", lambda x, y: x <= y),
    "greater_than": _compare("fpGT", lambda x, y: x > y),
    "greater_equal": _compare("fpGEQ", lambda x, y: x >= y),
    "equal": _compare("fpEQ", lambda x, y: x == y),
    "not_equal": _compare("fpNEQ", lambda x, y: x != y),
    "logical_and": _logical(lambda x, y: z3.And(x, y)),
    "logical_or": _logical(lambda x, y: z3.Or(x, y)),
    "logical_xor": _logical(lambda x, y: z3.Xor(x, y)),
    "logical_not": lambda x: z3.Not(truth(x)),
    "isnan_v2": lambda x: z3.fpIsNaN(x) if z3.is_fp(x) else z3.BoolVal(False),
    "isinf_v2": lambda x: z3.fpIsInf(x) if z3.is_fp(x) else z3.BoolVal(False),
    "isfinite_v2": lambda x: z3.Not(z3.Or(z3.fpIsInf(x), z3.fpIsNaN(x))) if z3.is_fp(x) else z3.BoolVal(True),
    "where": _where,
    "clip": _clip,
    "abs": _abs,
    "sign": _sign,
    "relu": _relu,
    "relu6": _relu6,
    "floor": _rounded("RTN"),
    "ceil": _rounded("RTP"),
    "trunc": _rounded("RTZ"),
    "round": _floats_only(_away_from_zero),
    "square": lambda x: mul(x, x),
    "sqrt": _floats_only(_sqrt),
    "rsqrt": _floats_only(lambda x: _reciprocal(_sqrt(x))),
    "reciprocal": _floats_only(_reciprocal),
    "pow": _pow,
    "exp": _exp,
    "sigmoid": _floats_only(_sigmoid),
    "silu": _floats_only(_silu),
    "swish": lambda x, *, beta=1.0: mul(x, _sigmoid(mul(x, _like(beta, x)))),
    "tanh": _opaque("tanh"),
    "tanh_shrink": _floats_only(lambda x: sub(x, unknown_function("tanh", x))),
    "log": _opaque("log"),
    "log1p": _opaque("log1p"),
    "expm1": _opaque("expm1"),
    "sin": _opaque("sin"),
    "cos": _cos,
    "erf": _opaque("erf"),
}
