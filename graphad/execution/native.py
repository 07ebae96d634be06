"""Groups of elementwise calls as one loop each, which numba compiles to machine code: no intermediate result leaves a register.

    np.multiply(t, y, tile)                    @njit(nogil=True, cache=True)
    np.add(tile, x, tile)              ⇒       def loop(a0, a1, a2, a3):
    np.maximum(tile, y, t)                         for i in range(a0.size):
                                                       t0 = a0[i] * a1[i]
                                                       ...

Numba comes with ``pip install 'graphad[numba]'``. A loop gives the same as numpy, to the last bit: only operations are compiled that
IEEE 754 rounds correctly or that round nothing, products and sums are not contracted, and of 0.0 and -0.0 numpy's ``maximum`` is asked
which it takes. Exponentials and the like differ in their last digits from library to library: they stay numpy's, on a tile, between the
loops for what is before and after them.

What is compiled is kept on disk (``graphad/ops/loops.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec

import numpy as np

from graphad.errors import GraphadError
from graphad.execution.tracing import Call, Value
from graphad.ops.loops import LONG_VECTORS, LOOPS, UNCOUNTED, folder, function_of


class MissingNumba(GraphadError, ImportError):
    """Loops are compiled by numba, which is not installed."""


def check_installed() -> None:
    """MissingNumba if numba is not installed."""
    if find_spec("numba") is None:
        raise MissingNumba(
            "Executor(numba=True) compiles elementwise operators by numba, which is not installed: pip install 'graphad[numba]'"
        )


# -- what is compiled ------------------------------------------------------------------------------

_PLAIN = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "divide": "{0} / {1}",
    "true_divide": "{0} / {1}",
    "negative": "-{0}",
    "absolute": "abs({0})",
    "sqrt": "np.sqrt({0})",
    "square": "{0} * {0}",
    "floor": "np.floor({0})",
    "ceil": "np.ceil({0})",
    "trunc": "np.trunc({0})",
    "greater": "{0} > {1}",
    "greater_equal": "{0} >= {1}",
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "equal": "{0} == {1}",
    "not_equal": "{0} != {1}",
    "logical_and": "{0} & {1}",
    "logical_or": "{0} | {1}",
    "logical_not": "not {0}",
    "where": "{1} if {0} else {2}",
}
_FORM = re.compile(r"np\.(\w+)\((?:\{\d\}(?:, )?)+\)")
_CAST = re.compile(r"\{0\}\.astype\('(float32|float64)'\)")
_FLOATS = ("float32", "float64")
_VARIABLE = re.compile(r"\b[tx]\d+\b")

# A chain of operations in which each waits for the one before is limited by how long they take, not by how many the processor can begin: a
# loop over four parts of the arrays at once takes two thirds of the time for fifty operations. It takes eight times as long to compile,
# gains little for short chains, and loses where there are many arrays, of each of which four places are then in use.
PARTS, LONG_CHAIN, FEW_ARRAYS = 4, 32, 3


def expression(call: Call) -> str:
    """A call for one element, as Python that numba compiles to the same bits; empty if there is none.

    The arguments are ``{0}``, ``{1}``. After a ``;`` comes another step, in which ``{r}`` is what the one before has given.
    """
    (result,) = call.results
    kinds = [_kind(value) for value in call.args]
    if cast_match := _CAST.fullmatch(call.form):
        return f"np.{cast_match[1]}({{0}})" if kinds[0] in (*_FLOATS, "bool") else ""
    match = _FORM.fullmatch(call.form)
    if match is None:
        return ""
    name = match[1]
    if name in ("maximum", "minimum"):
        text = _extreme(name)
    elif name.startswith("logical_"):
        return _PLAIN.get(name, "") if set(kinds) == {"bool"} else ""
    else:
        text = _PLAIN.get(name, "")
    numbers = kinds[1:] if name == "where" else kinds
    if name == "where" and kinds[0] != "bool":
        return ""
    # One type throughout: numba and numpy differ in what float32 and float64 together become.
    has_one_type = len(set(numbers)) == 1 and numbers[0] in _FLOATS and _kind(result) in (numbers[0], "bool")
    return text if has_one_type else ""


@cache
def _extreme(name: str) -> str:
    """``maximum`` or ``minimum``, whose result numpy leaves open where 0.0 meets -0.0; empty if it depends on where they are."""
    function, sign = getattr(np, name), ">" if name == "maximum" else "<"
    sides = set()
    for dtype in _FLOATS:
        # Lengths with and without whole vectors, since numpy's loops may differ between the two.
        for count in (1, 3, 8, 33, 100):
            zeros = np.zeros(count, dtype)
            for x, y in ((zeros, -zeros), (-zeros, zeros)):
                signs = np.signbit(function(x, y))
                sides |= {"first" if is_first else "second" for is_first in (signs == np.signbit(x)).tolist()}
    if len(sides) > 1:
        return ""
    if sides == {"first"}:
        return f"{{0}} if ({{0}} {sign}= {{1}}) | ({{0}} != {{0}}) else {{1}}"
    # The first step is one instruction of x86, which gives the second operand where the two are equal or one is nan. In one expression
    # with the second step, or as conditions joined by ``|``, it is compiled to three.
    return f"{{0}} if {{0}} {sign} {{1}} else {{1}}; {{r}} if {{0}} == {{0}} else {{0}}"


def _kind(value: Value) -> str:
    return value.example.dtype.name if isinstance(value.example, np.ndarray | np.generic) else ""


# -- loops -----------------------------------------------------------------------------------------


_HEAD = (
    f'''\
"""Elementwise operations as one loop, by graphad."""
import numpy as np
from numba import njit
{UNCOUNTED}{LONG_VECTORS}'''
    + '''\
def read(kind):
    """The type of a read-only operand; an array that numpy marks as not writeable fits it, too."""
    return types.Array(kind, 1, "C", readonly=True)

@njit([types.void({types})], nogil=True, cache={cached}, error_model="numpy", **uncounted)
def loop({names}):
    long_vectors()
'''
)


def loop_of(calls: Sequence[Call], outside: Sequence[Value], array_of: Callable[[Value], str]) -> tuple[str, list[str]]:
    """Calls, each of which has an ``expression``, as one loop.

    Args:
        calls: in order.
        outside: the results that it writes into arrays.
        array_of: how the source calls the array of one axis that a value is, or lies in; two values may be in one.

    Returns:
        The text of a module that defines ``loop``, and the arrays that it takes, each once: two names for the same memory would
        keep the compiler from working on many elements at a time.
    """
    results = {call.results[0] for call in calls}
    reads = list(dict.fromkeys(arg for call in calls for arg in call.args if arg not in results and not _is_constant(arg)))
    # By array, not by value: what is read and written in place is one argument.
    params: dict[str, Value] = {}
    for value in (*reads, *outside):
        params.setdefault(array_of(value), value)
    names = {array: f"a{i}" for i, array in enumerate(params)}
    texts: dict[Value, str] = {}
    before: list[str] = []
    body_lines: list[str] = []
    for i, value in enumerate(reads):
        texts[value] = f"x{i}"
        number = value.example.size == 1
        (before if number else body_lines).append(f"x{i} = {names[array_of(value)]}[{0 if number else 'i'}]")
    for i, call in enumerate(calls):
        args = [_number(arg) if _is_constant(arg) else texts[arg] for arg in call.args]
        body_lines += [f"t{i} = {step.format(*args, r=f't{i}')}" for step in expression(call).split("; ")]
        texts[call.results[0]] = f"t{i}"
    body_lines += [f"{names[array_of(value)]}[i] = {texts[value]}" for value in outside]
    written = {array_of(value) for value in outside}
    kinds = ", ".join(_type(value, is_read=array not in written) for array, value in params.items())
    head = _HEAD.replace("{types}", kinds).replace("{names}", ", ".join(names.values()))
    size = f"{names[array_of(outside[0])]}.size"
    parts = PARTS if len(calls) >= LONG_CHAIN and len(params) <= FEW_ARRAYS else 1
    lines = [*before, *_in_parts(body_lines, size, parts)]
    return head + "".join(f"    {line}\n" for line in lines), list(params)


def _in_parts(body_lines: Sequence[str], size: str, parts: int) -> list[str]:
    """The loop of a body, over some parts of the arrays at once: their operations do not wait for each other."""
    if parts == 1:
        return [f"for i in range({size}):", *(f"    {line}" for line in body_lines)]
    own = {line.split(" = ")[0] for line in body_lines}  # each part has variables of its own; numbers are read before the loop

    def of_part(line: str, part: int) -> str:
        line = _VARIABLE.sub(lambda name: f"{name[0]}_{part}" if name[0] in own else name[0], line)
        return line.replace("[i]", f"[i + {part} * part]")

    of_parts = [of_part(line, part) for line in body_lines for part in range(parts)]
    lines = [f"part = {size} // {parts}", "for i in range(part):", *(f"    {line}" for line in of_parts)]
    return [*lines, f"for i in range({parts} * part, {size}):", *(f"    {line}" for line in body_lines)]


def _type(value: Value, is_read: bool) -> str:
    kind = "types.boolean" if _kind(value) == "bool" else f"types.{_kind(value)}"
    return f"read({kind})" if is_read else f"{kind}[::1]"


def _is_constant(value: Value) -> bool:
    return value.constant and np.size(value.example) == 1


def _number(value: Value) -> str:
    """A number as text that gives the same bits."""
    number = np.asarray(value.example).reshape(-1)[0]
    if number.dtype == bool:
        return str(bool(number))
    finite = bool(np.isfinite(number))
    # A float32 as a double is exact, and ``repr`` of a double reads back to the same.
    text = repr(float(number)) if finite else "np.nan" if np.isnan(number) else f"{'-' if number < 0 else ''}np.inf"
    return f"np.{number.dtype.name}({text})"


__all__ = ["LOOPS", "MissingNumba", "check_installed", "expression", "folder", "function_of", "loop_of"]
