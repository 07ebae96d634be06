"""Values of attributes that are read from a file and do not fit the operator: it is refused when it runs, with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga

HUGE = "1" + "0" * 400


def softmax(attribute: Any) -> str:
    return f"program {{ block 0 {{ var x: float32[2] var y: float32[2] softmax(X=x) -> (Out=y) {{axis={attribute}}} }} }}"


def refused_when_run(program: ga.Program, message: str) -> None:
    feed = {"x": np.ones(2, "float32")}
    with pytest.raises(ga.errors.ExecutionError, match=message):
        ga.Executor().run(program, feed=feed, fetch_list=["y"], scope=ga.Scope())


@pytest.mark.parametrize("value", ["[0]", "nan", "1.0", '"0"', "true"])
def test_an_attribute_of_the_wrong_kind_is_refused_when_it_runs(value: str) -> None:
    refused_when_run(ga.Program.parse(softmax(value)), r"operator 'softmax' cannot run: attribute 'axis' is int, got")


@pytest.mark.parametrize("value", [HUGE, "9223372036854775808", "-9223372036854775809"])
def test_an_integer_of_more_than_64_bits_is_refused_when_it_runs(value: str) -> None:
    refused_when_run(
        ga.Program.parse(softmax(value)), rf"operator 'softmax' cannot run: attribute 'axis' is int, of 64 bits at most, got {value[:80]}"
    )


def test_a_number_too_long_for_python_is_no_infinity() -> None:
    with pytest.raises(ga.errors.ParseError, match="a number of 5001 characters"):
        ga.Program.parse(softmax("1" + "0" * 5000))


def test_the_largest_integer_reads_back() -> None:
    text = str(ga.Program.parse(softmax(2**63 - 1)))
    assert f"axis={2**63 - 1}" in text
    assert str(ga.Program.parse(text)) == text


def stored(path: Path, value: str) -> Path:
    """A program in JSON that has this value for an attribute."""
    ga.save(ga.Program.parse(softmax(7)), path, {})
    doc = path.read_text()
    assert doc.count('"axis": 7') == 1
    path.write_text(doc.replace('"axis": 7', f'"axis": {value}'))
    return path


@pytest.mark.parametrize("value", [json.dumps([0]), HUGE])
def test_an_attribute_in_json_that_does_not_fit(tmp_path: Path, value: str) -> None:
    program, _ = ga.load(stored(tmp_path / "program.json", value))
    refused_when_run(program, r"attribute 'axis' is int, (of 64 bits at most, got 1000|got list \[0\])")


BEYOND = 10**400  # beyond all floats


@pytest.mark.parametrize(
    "write",
    [
        lambda x: ga.layers.scale(x, scale=BEYOND), lambda x: ga.layers.leaky_relu(x, alpha=BEYOND), lambda x: x**BEYOND,
        lambda x: ga.layers.dropout(x, BEYOND), lambda x: x * BEYOND, lambda x: x + BEYOND, lambda x: x / BEYOND,
        lambda x: ga.layers.increment(x, BEYOND), lambda x: ga.layers.fc(x, BEYOND), lambda x: ga.layers.data("y", [BEYOND]),
        lambda x: ga.layers.create_parameter([BEYOND], "float32"), lambda x: ga.optimizer.SGD(BEYOND),
        lambda x: ga.layers.exponential_decay(BEYOND, 10, 0.9),
    ],
)  # fmt: skip
def test_a_number_beyond_all_floats_is_refused_where_it_is_written(write: Callable[[ga.Variable], object]) -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        x = ga.layers.data("x", [2])
        with pytest.raises(ga.errors.InvalidValue) as refused:
            write(x)
    assert len(str(refused.value)) < 600
    assert x.block.ops == []
