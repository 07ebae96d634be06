"""Sums, products, quotients, maxima and minima of single elements.

Terms are brought into forms that spare the solver work where IEEE 754 says that they are equal: signs are moved outwards, factors 1, -1 and
2 and terms 0 are resolved, and arithmetic is moved into choices with a number on one side.
"""

from __future__ import annotations

from graphad.rewriting.smt import Element, Unsupported, by_case, current, has_cases, is_number, literal, neg, signed, z3


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
        plus = z3.is_true(z3.simplify(z3.fpIsPositive(y)))
        return z3.If(z3.fpIsZero(x), literal(0.0, x.sort()), x) if plus else x
    return z3.fpAdd(z3.RNE(), x, y) if current().exact else _some_sum(x, y)


def _some_sum(x: Element, y: Element) -> Element:
    """A function of two terms in any order, of which little more is known than what it does with zeros."""
    (x, minus_x), (y, minus_y) = sorted((signed(x), signed(y)), key=lambda pair: pair[0].get_id())
    if minus_x:  # -x + y = -(x - y), but for the sign of a sum that is zero, which another function gives
        x, y, minus_y = neg(x), (neg(y) if minus_y else y), False
    y = neg(y) if minus_y else y
    flipped = x.decl().kind() == z3.Z3_OP_FPA_NEG
    a, b = (x.arg(0), neg(y)) if flipped else (x, y)
    result, is_new = current().apply("sum", a.sort(), a, b)
    if is_new:
        current().facts += [
            z3.Implies(z3.Or(z3.fpIsNaN(a), z3.fpIsNaN(b)), z3.fpIsNaN(result)),
            z3.Implies(z3.And(z3.fpIsZero(b), z3.Not(z3.fpIsZero(a))), result == a),
            z3.Implies(z3.And(z3.fpIsZero(a), z3.Not(z3.fpIsZero(b))), result == b),
            z3.Implies(z3.And(z3.fpIsZero(a), z3.fpIsZero(b)), z3.fpIsZero(result)),
        ]
    if not flipped:
        return result
    zero, _ = current().apply("zero of a sum", a.sort(), a, b)
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
    x, y = sorted((x, y), key=lambda factor: factor.get_id())
    result, is_new = current().apply("product", x.sort(), x, y)
    if is_new:
        bounded = [z3.Not(z3.Or(z3.fpIsNaN(f), z3.fpIsInf(f))) for f in (x, y)]
        zero = z3.Or(z3.And(z3.fpIsZero(x), bounded[1]), z3.And(z3.fpIsZero(y), bounded[0]))
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
