"""The snippet of a counterexample holds the whole case: arrays, program, requested names and what was checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.testing import Case
from graphad.testing.snippet import snippet
from graphad.testing.trial import Subject

TEXT = "program { block 0 { var x: float64[2] var y: float64[2] tanh(X=x) -> (Out=y) } }"


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.ones((7, 9), "float32"),
        np.array([0.1, -0.0, np.nan, np.inf], "float32"),
        np.array(3),
        np.array([[True], [False]]),
    ],
)
def test_arrays_keep_bits_shape_and_dtype(array: Any) -> None:
    text = snippet(Subject("cse"), Case(ga.Program(), feeds={"x": array}))
    names: dict[str, Any] = {}
    exec(text.replace("check_case(", "(lambda *_: None)("), names)
    again = names["case"].feeds["x"]
    assert (again.dtype, again.shape, again.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_programs_with_quotes_and_backslashes() -> None:
    program = ga.Program()
    block = program.global_block()
    block.create_var(name='a"""\\n', shape=[1], dtype="float64")
    names: dict[str, Any] = {}
    exec(snippet(Subject("cse"), Case(program)), names)
    assert str(names["case"].program) == str(program)


def test_everything_that_was_checked_is_checked_again(tmp_path: Path) -> None:
    """The requested names, the reference, and a condition of the user."""
    limit = 0
    subject = Subject("cse", reference="dead-code", expect=lambda before, after: len(after.blocks) == limit)
    text = snippet(subject, Case(ga.Program.parse(TEXT), "y", {"x": np.array([0.5, 2.0])}, requested=("y",)))
    assert "requested=('y',)" in text
    assert "limit = 0\n" in text
    assert "reference='dead-code', expect=lambda before, after: len(after.blocks) == limit)" in text
    names: dict[str, Any] = {}
    with pytest.raises(AssertionError, match="what was expected after the pass does not hold"):
        exec(text, names)


def test_the_loss_keeps_its_placeholder() -> None:
    """The checks run a pass under other names too, in which a pipeline's text has to follow."""
    text = snippet(Subject("create-grad-ops", prepare="find-op-path{targets=[$loss]}"), Case(ga.Program.parse(TEXT), "y"))
    assert "check_case('create-grad-ops', case, prepare='find-op-path{targets=[$loss]}')" in text


def test_sets_are_written_in_order() -> None:
    words = {"tanh", "sin", "cos", "exp"}
    subject = Subject("cse", expect=lambda before, after: {op.type for op in after.global_block().ops} <= words)
    assert "words = set(['cos', 'exp', 'sin', 'tanh'])\n" in snippet(subject, Case(ga.Program.parse(TEXT)))
