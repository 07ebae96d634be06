"""Programs with control flow, built by a function of fed variables and run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.layers import nest
from tests.execution.test_executor import run

layers: Any = ga.layers
T, V, S = TypeError, ValueError, ga.errors.ShapeError
Row = tuple[Callable[[Any], Any], type[Exception], str]


def built(build: Callable[..., Any], **feed: Any) -> tuple[ga.Program, Any]:
    """The program that a function of variables like the fed arrays builds, and what it returns; its text reads back."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        fed = {name: layers.data(name, list(np.shape(value)), np.asarray(value).dtype, False) for name, value in feed.items()}
        result = build(**fed)
    assert str(ga.Program.parse(str(program))) == str(program)
    assert program.current_block() is program.global_block()
    return program, result


def ran(build: Callable[..., Any], scope: ga.Scope | None = None, **feed: Any) -> Any:
    """The results of the program, in the structure that the function returns."""
    program, result = built(build, **feed)
    arrays = {name: np.asarray(value) for name, value in feed.items()}
    got = run(program, arrays, nest.flatten(result), scope)
    again = run(ga.schedule(ga.lower(program)), arrays, [var.name for var in nest.flatten(result)], scope)
    for one, other in zip(got, again, strict=True):
        np.testing.assert_array_equal(one, other)
    return nest.pack(result, got)


def ops(block: ga.Block) -> list[str]:
    """The operators of a block as text."""
    return [repr(op) for op in block.ops]


def write(op_type: str, out: ga.Variable, attrs: dict[str, Any] | None = None, **inputs: ga.Variable) -> None:
    """Append an operator to the current block that writes a variable there is."""
    out.block.program.current_block().append_op(op_type, inputs, {"Out": out}, attrs)


# -- what is refused ------------------------------------------------------------------------------


class Given:
    """A program with variables of several kinds, and an operator."""

    def __init__(self) -> None:
        self.main, self.startup = ga.Program(), ga.Program()
        with ga.program_guard(self.main, self.startup):
            self.x, self.y = (layers.data(name, [3], append_batch_size=False) for name in "xy")
            self.batch, self.double = layers.data("batch", [4]), layers.data("double", [3], "float64", False)
            self.p, self.mask = layers.data("p", [1], "bool", False), layers.data("mask", [1], "bool")
            self.flags, self.k = layers.data("flags", [3], "bool", False), layers.data("k", [1], "int64", False)
            self.seq, self.short = layers.data("seq", [5, 2, 3], append_batch_size=False), layers.data("short", [4, 3], "float32", False)
            self.bits = layers.data("bits", [5, 2, 3], "bool", False)
            self.array = layers.array_write(self.x, 0)
            self.unknown = self.main.global_block().create_var("unknown")

    def texts(self) -> tuple[Any, ...]:
        return str(self.main), str(self.startup), {key: n for key, n in self.main.names.counts.items() if n}, self.main.current_block().idx

    def loop(self, body: Callable[..., Any], start: Any, **options: Any) -> Any:
        return layers.while_loop(lambda *_: self.p, body, start, **options)

    def turns(self, *tests: Any) -> Callable[..., Any]:
        left = iter(tests)
        return lambda *_: next(left)


def refused(build: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    """Building fails with a message that shows a line of the user's, and leaves the programs as they were."""
    given = Given()
    before = given.texts()
    with ga.program_guard(given.main, given.startup), pytest.raises(error, match=message) as caught:
        build(given)
    assert given.texts() == before
    lines = re.findall(r"\n  written at (.*):(\d+)", str(caught.value))
    assert len(lines) == 1
    assert lines[0][0] in (__file__, build.__code__.co_filename)
