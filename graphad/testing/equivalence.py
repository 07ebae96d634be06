"""Whether two programs compute the same: both are run on the same arrays in fresh scopes, step by step, and all they give is compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.errors import NoValue
from graphad.execution import Executor, Scope, prepared
from graphad.program import Program
from graphad.testing.cases import Array, Case

ITERATIONS = 2000  # of the loops of a run, all together
LEAST = 1e-3  # what is smaller than this may differ by as much as this may


@dataclass(frozen=True)
class Observed:
    """What a run gave: the targets that have a value, and what the scope then held."""

    values: dict[str, Any]
    scope: dict[str, Array]


@contextmanager
def _warm_after(runs: int) -> Iterator[None]:
    """Within it, blocks become functions at this run of theirs; 0 is never."""
    before = prepared.WARM
    prepared.WARM = runs
    try:
        yield
    finally:
        prepared.WARM = before


def observe(program: Program, case: Case, names: Sequence[str], compiled: bool = False) -> Observed:
    """Run a program on the arrays of a case: step by step, or as functions over numpy.

    Names without a value (of a block that did not run) are left out; so are arrays for what the program does not declare.

    Raises:
        GraphadError: the program does not run, or does not end.
    """
    variables = program.global_block().vars
    feeds = {name: array for name, array in case.feeds.items() if name in variables}
    with _warm_after(1 if compiled else 0):
        try:
            return _run(program, feeds, case, names)
        except NoValue:
            with_value = [name for name in names if _has_value(program, feeds, case, name)]
            return _run(program, feeds, case, with_value)


def _run(program: Program, feeds: dict[str, Array], case: Case, names: Sequence[str]) -> Observed:
    scope = Scope()
    for name, array in case.params.items():
        scope.set(name, array)
    results = Executor(max_iterations=ITERATIONS).run(program, feed=feeds, fetch_list=list(names), scope=scope)
    return Observed(dict(zip(names, results, strict=True)), dict(scope.arrays))


def _has_value(program: Program, feeds: dict[str, Array], case: Case, name: str) -> bool:
    try:
        _run(program, feeds, case, [name])
    except NoValue:
        return False
    return True


def difference(one: Any, other: Any, tolerance: float = 0.0) -> str:
    """How two results differ, empty if they do not; nan equals nan, 0.0 equals -0.0.

    Args:
        tolerance: how far elements may lie apart, relative to themselves or to the largest one; 0: not at all.
    """
    if isinstance(one, list) or isinstance(other, list):
        return _list_difference(one, other, tolerance)
    if one.dtype != other.dtype or one.shape != other.shape:
        return f"{one.dtype}{list(one.shape)} before, {other.dtype}{list(other.shape)} after"
    if _same(one, other, tolerance):
        return ""
    apart = "" if one.dtype.kind != "f" else f"; at most {_farthest(one, other):.3g} apart, tolerance {tolerance:g}"
    return f"{one.tolist()} before, {other.tolist()} after{apart}"


def _list_difference(one: Any, other: Any, tolerance: float) -> str:
    if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
        return f"{one} before, {other} after"
    found = (difference(a, b, tolerance) for a, b in zip(one, other, strict=True))
    return next((f"element {i}: {text}" for i, text in enumerate(found) if text), "")


def _same(one: Array, other: Array, tolerance: float) -> bool:
    if one.dtype.kind not in "fc":
        return np.array_equal(one, other)
    if not tolerance:
        return np.array_equal(one, other, equal_nan=True)
    largest = float(np.abs(one[np.isfinite(one)]).max(initial=LEAST))
    return np.allclose(other, one, rtol=tolerance, atol=tolerance * largest, equal_nan=True)


def _farthest(one: Array, other: Array) -> float:
    with np.errstate(all="ignore"):
        return float(np.nanmax(np.abs(one - other), initial=0.0))


def observed_difference(before: Observed, after: Observed, tolerance: float = 0.0) -> str:
    """What differs between two runs, by name; empty if nothing does. What had no value before may have any."""
    for what, one, other in (("", before.values, after.values), ("persistable ", before.scope, after.scope)):
        for name, value in one.items():
            text = difference(value, other[name], tolerance) if name in other else f"{value} before, no value after"
            if text:
                return f"{what}{name}: {text}"
    return ""


def assert_equivalent(before: Program, after: Program, case: Case, tolerance: float = 0.0, compiled: bool = False) -> None:
    """Both programs give the same targets and leave the same in the scope.

    Args:
        before: what is right.
        after: what is to be the same.
        case: the arrays to run them on; its program's targets are compared.
        tolerance: relative; 0: equal to the last bit.
        compiled: whether ``after`` runs as functions over numpy, rather than step by step.

    Raises:
        AssertionError: a value, a shape or a dtype differs, or ``after`` does not run.

    >>> from graphad.testing.cases import Case
    >>> program = Program.parse("program { block 0 { var y: float32[1] fill_constant() -> (Out=y) {shape=[1], value=2.0} } }")
    >>> assert_equivalent(program, program.clone(), Case(program))
    """
    names = case.targets
    expected = observe(before, case, names)
    try:
        got = observe(after, case, list(expected.values), compiled)
    except Exception as error:
        raise AssertionError(f"the program after it does not run: {type(error).__name__}: {error}") from error
    text = observed_difference(expected, got, tolerance)
    if text:
        raise AssertionError(text)
