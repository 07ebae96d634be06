"""The semantics of operators on single elements, as terms of the solver.

``ELEMENTWISE`` is one table, operator type to builder. A builder takes one element of each input and the attributes, and returns
the element of the output. ``tests/rewriting/test_smt.py`` evaluates each builder on numbers and compares with the operator's kernel;
it tests as well what is assumed of exp and others (``ASSUMED``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

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

ASSUMED: dict[str, str] = {
    "exp": "exp(x) >= 0 unless x is nan, then it is nan; exp(-0) = exp(0)",
    "cos": "cos(-x) = cos(x)",
    "elementwise_pow": "x**1 = x",
    "softmax": "softmax(x) is >= 0 or nan",
}


# -- builders ------------------------------------------------------------------------------------


def _scale(x: Element, *, scale: Any = 1.0, bias: Any = 0.0, bias_after_scale: bool = True) -> Element:
    s, b = like(scale, x), like(bias, x)
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
            x, y = of_bool(x, "int8"), of_bool(y, "int8")
        return ints(x, y)

    return build


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
    return maximum(x, like(0, x))


def _relu6(x: Element, *, threshold: Any = 6.0) -> Element:
    return minimum(_relu(x), like(threshold, x))


def _clip(x: Element, *, min: Any, max: Any) -> Element:
    return minimum(maximum(x, like(min, x)), like(max, x))


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


def _sigmoid(x: Element) -> Element:
    one = literal(1.0, x.sort())
    return div(one, add(_exp(neg(x)), one))


def _reciprocal(x: Element) -> Element:
    return div(literal(1.0, x.sort()), x)


def _sqrt(x: Element) -> Element:
    if current().exact:
        return z3.fpSqrt(z3.RNE(), x)
    result, is_new = current().apply("sqrt", x.sort(), x)
    if is_new:
        current().facts.append(z3.Or(z3.fpIsNaN(result), z3.fpGEQ(result, literal(0.0, x.sort()))))
    return result


def _pow(x: Element, *, factor: Any = 1.0) -> Element:
    """Powers 0, 1 and 3; of integers 2 too. The square of floating-point numbers depends on how numpy was called."""
    if z3.is_expr(factor):
        raise Unsupported("pow by an attribute")
    if factor in (0.0, 1.0):
        return like(1, x) if factor == 0.0 else x
    if factor == 3.0 or (factor == 2.0 and not z3.is_fp(x)):
        return mul(mul(x, x), x) if factor == 3.0 else mul(x, x)
    return unknown_function(f"pow{factor}", x)


def _elementwise_pow(x: Element, y: Element, *, axis: int = -1) -> Element:
    return x if is_number(y, 1.0) else unknown_function("elementwise_pow", x, y)


def _cast(x: Element, *, out_dtype: str, in_dtype: str = "") -> Element:
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
    return unknown_function("cos", z3.fpAbs(signed(x)[0]))


def _silu(x: Element) -> Element:
    return mul(x, _sigmoid(x))


def _opaque(name: str) -> Builder:
    return _floats_only(lambda x: unknown_function(name, x))


ELEMENTWISE: Mapping[str, Builder] = {
    "assign": lambda x: x,
    "scale": _scale,
    "increment": lambda x, *, step=1.0: add(x, like(step, x)),
    "cast": _cast,
    "fill_zeros_like": lambda x: like(0, x),
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
    "swish": lambda x, *, beta=1.0: mul(x, _sigmoid(mul(x, like(beta, x)))),
    "tanh": _opaque("tanh"),
    "tanh_shrink": _floats_only(lambda x: sub(x, unknown_function("tanh", x))),
    "log": _opaque("log"),
    "log1p": _opaque("log1p"),
    "expm1": _opaque("expm1"),
    "sin": _opaque("sin"),
    "cos": _cos,
    "erf": _opaque("erf"),
}
