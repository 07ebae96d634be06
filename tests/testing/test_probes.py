"""Functions that note their lines: what they compute stays, and the lines are those that a tracer sees."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from types import CodeType, FrameType
from typing import Any

import pytest

from graphad.testing.probes import Probes, own_code

pytestmark = pytest.mark.skipif(not Probes.available, reason="the bytecode of this version of Python is not known")
Steps = set[tuple[int, int, int]]


# -- functions -------------------------------------------------------------------------------------
# One for each thing that the bytecode has a form of its own for.


class Swallowing:
    def __enter__(self) -> Swallowing:
        return self

    def __exit__(self, *error: object) -> bool:
        return True


def generated(count: int) -> Iterator[tuple[int, int]]:
    try:
        for i in range(count):
            if i % 2:
                continue
            yield (i,
                   i + 1)  # fmt: skip
    finally:
        count = 0


def delegated(xs: list[int], *, factor: int = 3) -> Any:
    total = 0.0
    functions: list[Any] = [lambda v: (v *
                                       factor)]  # fmt: skip
    while xs:
        x = xs.pop()
        try:
            total += functions[0](x) / (x - 2)
        except ZeroDivisionError:
            total -= 1
        else:
            total += sum(a for pair in generated(x)
                         for a in pair
                         if a > 1)  # fmt: skip
        with Swallowing():
            if x == 3:
                raise ValueError
        yield from generated(x)
    table = {i: j
             for i, j in enumerate("ab")}  # fmt: skip
    return [key
            for key in table
            if key], total  # fmt: skip


def matched(x: Any) -> Any:
    largest = max(
        x,
        x + 1,
    )
    ordered = sorted([largest],
        key=lambda v: -v,
        reverse=True)  # fmt: skip
    with Swallowing() as first, \
         Swallowing():  # fmt: skip
        assert first
    match largest:
        case 1:
            return 3
        case [a, b] if (a
                        and b):  # fmt: skip
            return 5
        case _:
            pass
    return (
        ordered
        .copy()
    )  # fmt: skip


def everything() -> object:
    results, generator = [], delegated([1, 2, 3, 4], factor=2)
    try:
        while True:
            results.append(next(generator))
    except StopIteration as end:
        results.append(end.value)
    return results, matched(3), matched(0)


def large(count: int) -> Callable[[float], float]:
    """A function whose jumps and constants take more than a byte."""
    lines = [f"    if x == {i}.5: x += {i}" for i in range(count)]
    body = [f"        x = x + {i} if i else x" for i in range(count)]
    names: dict[str, Any] = {}
    exec(compile("\n".join(["def f(x):", *lines, "    for i in range(3):", *body, "    return x"]), "<large>", "exec"), names)
    function: Callable[[float], float] = names["f"]
    return function


def made(factor: int) -> Any:
    def times(x: int) -> int:
        return x * factor

    return times


LARGE = large(300)
FUNCTIONS: list[Any] = [generated, delegated, matched, everything, LARGE, Swallowing.__enter__, Swallowing.__exit__]
MATCHED: list[Any] = [matched]


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def traced(functions: list[Any], run: Callable[[], object]) -> tuple[object, Steps]:
    """What a run gives, and the steps that ``sys.settrace`` shows."""
    known, steps = {id(code) for function in functions for code in codes(function.__code__)}, Steps()

    def calls(frame: FrameType, event: str, argument: object) -> Any:
        code, last = id(frame.f_code), 0

        def lines(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal last
            if event == "line":
                steps.add((code, last, frame.f_lineno))
                last = frame.f_lineno
            return lines

        return lines if code in known else None

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        return run(), steps
    finally:
        sys.settrace(before)


def noted(functions: list[Any], run: Callable[[], object]) -> tuple[object, Steps]:
    """What a run gives, and the steps that the functions note."""
    steps = Steps()
    with Probes(functions).noting(steps):
        result = run()
    return result, steps


# -- tests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [everything, lambda: LARGE(2.5)], ids=["everything", "large"])
def test_the_lines_are_those_that_a_tracer_sees(run: Callable[[], object]) -> None:
    (expected, steps_traced), (result, steps_noted) = traced(FUNCTIONS, run), noted(FUNCTIONS, run)
    assert result == expected
    assert {(code, line) for code, _, line in steps_noted} == {(code, line) for code, _, line in steps_traced}


def test_the_steps_are_those_that_a_tracer_sees() -> None:
    """Of functions of which no two frames run at the same time."""
    functions: list[Any] = [matched, everything]
    assert noted(functions, everything)[1] == traced(functions, everything)[1]


def test_afterwards_functions_are_what_they_were() -> None:
    before = [function.__code__ for function in FUNCTIONS]
    with suppress(RuntimeError), Probes(FUNCTIONS).noting(Steps()):
        assert FUNCTIONS[0].__code__ is not own_code(FUNCTIONS[0])
        raise RuntimeError
    assert [function.__code__ for function in FUNCTIONS] == before


def test_errors_are_at_their_lines() -> None:
    def failing(x: int) -> int:
        y = x
        return y // 0

    functions: list[Any] = [failing]
    with pytest.raises(ZeroDivisionError) as error, Probes(functions).noting(Steps()):
        failing(1)
    assert error.traceback[-1].lineno + 1 == failing.__code__.co_firstlineno + 2


def test_functions_of_one_def_are_seen_whichever_is_called() -> None:
    double, triple = made(2), made(3)
    result, steps = noted([double], lambda: triple(5))
    assert (result, len(steps)) == (15, 1)


def test_nothing_is_noted_of_other_threads() -> None:
    """Two threads look at one function at a time, each at its own run of it."""
    barrier = Barrier(2, timeout=60)

    def steps_of(x: int) -> set[int]:
        steps = Steps()
        with Probes(MATCHED).noting(steps):
            barrier.wait()
            matched(x)
            barrier.wait()
        return {line - matched.__code__.co_firstlineno for _, _, line in steps}

    alone = [{line - matched.__code__.co_firstlineno for _, _, line in noted(MATCHED, lambda x=x: matched(x))[1]} for x in (0, 3)]  # type: ignore[misc]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(steps_of, (0, 3))) == alone
    assert alone[0] != alone[1]
