"""The meaning of operators on single elements, as terms of the solver z3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from graphad.contexts import binding
from graphad.errors import InvalidValue

Element = Any  # a z3 expression: a Bool, a bit-vector or a floating-point number
Sort = Any  # a z3 sort: of truth values, of bit-vectors or of floating-point numbers
Builder = Callable[..., Element]


class _Solver:
    """The module z3, imported when it is first needed: that takes half a second."""

    @cached_property
    def _module(self) -> ModuleType:
        try:
            return import_module("z3")
        except ImportError:
            raise InvalidValue("rules are proved with z3, which is not installed: pip install 'graphad[proof]'") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


z3: Any = _Solver()


class Unsupported(Exception):
    """Something has no meaning as a term of the solver."""


class Functions:
    """Functions of which little is known, and what is: equal arguments give equal results, and facts that are added.

    ``exact`` says what sums, products and quotients are: bit by bit as IEEE 754 has them, or such functions, with which the solver
    is quicker; what is proved with those holds for the others too.
    """

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.facts: list[Element] = []
        self._results: dict[tuple[object, ...], Element] = {}
        self._places: dict[int, tuple[int, Element]] = {}
        self.applied: list[tuple[str, tuple[Element, ...], Element]] = []  # names, arguments and results, in this order

    @cached_property
    def _context(self) -> Element:
        # The solver orders and searches by its numbers for terms, which go on through the life of a context: in one of their own, the same
        # terms are simplified to the same ones whatever was proved before.
        return z3.Context()

    def place(self, x: Element) -> int:
        """The place of a term among those that were asked for, in the order in which they first were."""
        # The solver's own number for it would depend on what was made before. Terms are kept, since numbers of those gone are given anew.
        return self._places.setdefault(x.get_id(), (len(self._places), x))[0]

    def _simplified(self, x: Element) -> Element:
        return z3.simplify(x.translate(self._context)).translate(x.ctx)

    def apply(self, name: str, sort: object, *arguments: Element, in_any_order: bool = False) -> tuple[Element, bool]:
        """The result of a function, and whether it is a new one; two arguments may be given ``in_any_order``."""
        # Ackermann's expansion (W. Ackermann, "Solvable Cases of the Decision Problem", 1954): a constant for each application, and for
        # each pair of them that equal arguments give equal results. The solver's logic of floats and bits has no functions.
        arguments = tuple(self._simplified(a) for a in arguments)
        key = (name, *(a.get_id() for a in arguments))
        if key in self._results:
            return self._results[key], False
        result = self._results[key] = z3.Const(f"{name}!{len(self._results)}", sort)
        for function_name, before, earlier_result in self.applied:
            if function_name == name and before[0].sort() == arguments[0].sort():
                orders = (arguments, arguments[::-1]) if in_any_order else (arguments,)
                are_equal = [z3.And(*(a == b for a, b in zip(before, order, strict=True))) for order in orders]
                self.facts.append(z3.Implies(z3.Or(*are_equal), earlier_result == result))
        self.applied.append((name, arguments, result))
        return result, True


_functions: ContextVar[Functions] = ContextVar("functions")


def current() -> Functions:
    """The functions that builders take: builders are called within ``functions``."""
    return _functions.get()


@contextmanager
def functions(exact: bool) -> Iterator[Functions]:
    """Within it, builders take these functions; their facts are premises of what is to be proved."""
    unknowns = Functions(exact)
    with binding(_functions, unknowns):
        yield unknowns


# -- sorts and numbers ---------------------------------------------------------------------------


def sort_of(dtype: str) -> Sort:
    """The solver's sort for the elements of a dtype."""
    if dtype == "bool":
        return z3.BoolSort()
    if dtype.startswith("float"):
        return {"float16": z3.Float16, "float32": z3.Float32, "float64": z3.Float64}[dtype]()
    return z3.BitVecSort(np.dtype(dtype).itemsize * 8)


def number(value: object, dtype: str) -> Element:
    """A number of Python or the solver as an element of a dtype: what ``X.dtype.type(value)`` is."""
    sort = sort_of(dtype)
    if z3.is_expr(value):
        return _converted(value, dtype, sort)
    try:
        with np.errstate(all="ignore"):
            element = np.dtype(dtype).type(value).item()
    except (OverflowError, ValueError, TypeError):
        raise Unsupported(f"{value!r} is no {dtype}") from None
    if dtype == "bool":
        return z3.BoolVal(element)
    return literal(element, sort) if dtype.startswith("float") else z3.BitVecVal(element, sort)


def literal(value: float, sort: object) -> Element:
    """A floating-point number."""
    if value != value:
        return z3.fpNaN(sort)
    if np.isinf(value):
        return z3.fpPlusInfinity(sort) if value > 0 else z3.fpMinusInfinity(sort)
    if value == 0:
        return z3.fpMinusZero(sort) if np.signbit(value) else z3.fpPlusZero(sort)
    return z3.FPVal(value, sort)


def _converted(value: Element, dtype: str, sort: Sort) -> Element:
    if value.sort() == sort:
        return value
    if z3.is_bool(value):
        return of_bool(value, dtype)
    if not z3.is_fp(value):
        raise Unsupported(f"an integer as {dtype}")
    if dtype == "bool":
        return z3.Not(z3.fpIsZero(value))
    if not dtype.startswith("float"):
        return z3.fpToSBV(z3.RTZ(), value, sort)
    # Conversions are moved inwards and undone where they can be: rounding terms are what the solver is slowest at.
    kind = value.decl().kind()
    if kind == z3.Z3_OP_FPA_NEG:
        return neg(_converted(value.arg(0), dtype, sort))
    if kind == z3.Z3_OP_ITE:
        return z3.If(value.arg(0), _converted(value.arg(1), dtype, sort), _converted(value.arg(2), dtype, sort))
    if kind == z3.Z3_OP_FPA_TO_FP and value.num_args() == 2 and value.arg(1).sort() == sort and sort.ebits() <= value.sort().ebits():
        return value.arg(1)  # it was widened before
    return z3.fpFPToFP(z3.RNE(), value, sort)


def of_bool(value: Element, dtype: str) -> Element:
    return z3.If(value, number(1, dtype), number(0, dtype))


def fits(value: Element, dtype: str) -> Element:
    """Whether an attribute can be converted to a dtype: numpy refuses what an integer cannot hold."""
    if not z3.is_expr(value) or dtype.startswith("float") or dtype == "bool" or not z3.is_fp(value):
        return z3.BoolVal(True)
    bits = np.dtype(dtype).itemsize * 8 - 1
    # Both bounds are powers of two, and so exact as floats; the largest integer itself, 2^bits - 1, need not be.
    low, high = literal(-(2.0**bits), value.sort()), literal(2.0**bits, value.sort())
    return z3.And(z3.fpGEQ(value, low), z3.fpLT(value, high))


def equal(a: Element, b: Element) -> Element:
    """Whether two elements are the same: zeros of both signs are, and so are all nans."""
    if z3.is_fp(a):
        return z3.Or(z3.fpEQ(a, b), z3.And(z3.fpIsNaN(a), z3.fpIsNaN(b)))
    return a == b


# -- forms of terms ------------------------------------------------------------------------------


def is_number(x: Element, value: float) -> bool:
    return bool(z3.is_fp_value(x)) and bool(z3.is_true(z3.simplify(z3.fpEQ(x, literal(value, x.sort())))))


def signed(x: Element) -> tuple[Element, bool]:
    """An element without minus signs in front, and whether they make it negative."""
    negative = False
    while x.decl().kind() == z3.Z3_OP_FPA_NEG:
        x, negative = x.arg(0), not negative
    return x, negative


def neg(x: Element) -> Element:
    """-x."""
    if x.decl().kind() == z3.Z3_OP_FPA_NEG:
        return x.arg(0)
    return by_case(x, neg) if has_cases(x) else z3.simplify(z3.fpNeg(x)) if z3.is_fp_value(x) else z3.fpNeg(x)


def has_cases(x: Element) -> bool:
    """Whether an element is a choice with a number on one side: arithmetic goes inside it then."""
    return bool(x.decl().kind() == z3.Z3_OP_ITE and any(z3.is_fp_value(x.arg(i)) for i in (1, 2)))


def by_case(x: Element, function: Callable[[Element], Element]) -> Element:
    return z3.If(x.arg(0), function(x.arg(1)), function(x.arg(2)))


def like(value: object, x: Element) -> Element:
    return number(value, dtype_of(x))


def dtype_of(x: Element) -> str:
    """The dtype that an element is of."""
    if z3.is_bool(x):
        return "bool"
    return f"float{x.ebits() + x.sbits()}" if z3.is_fp(x) else f"int{x.size()}"


def truth(x: Element) -> Element:
    """Whether an element is not zero."""
    if z3.is_bool(x):
        return x
    return z3.Not(z3.fpIsZero(x)) if z3.is_fp(x) else x != 0


def unknown_function(name: str, *operands: Element) -> Element:
    """A function of which nothing is known but that equal operands give equal results."""
    return current().apply(name, operands[0].sort(), *operands)[0]
