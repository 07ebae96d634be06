"""A tensor where a layer takes a number: its value if that is known as the program is written, else an error that says so."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L


def run(program: ga.Program, fetched: ga.Variable) -> list[float]:
    values: list[float] = ga.Executor().run(program, {"x": [[3.0, 1.0, 2.0]]}, [fetched])[0].ravel().tolist()
    return values


def test_what_was_written_last_counts() -> None:
    with ga.program_guard(ga.Program()) as program:
        x = L.data("x", [1, 3], append_batch_size=False)
        count = L.fill_constant([1], "int32", 1)
        first = L.topk(x, count)[0]
        L.assign(np.array([2], "int32"), count)
        second = L.topk(x, count)[0]
    assert run(program, first) == [3.0]
    assert run(program, second) == [3.0, 2.0]


def test_a_value_of_the_run_is_refused() -> None:
    with ga.program_guard(ga.Program()):
        x = L.data("x", [1, 3], append_batch_size=False)
        count = L.fill_constant([1], "int32", 1)
        L.increment(count)
        with pytest.raises(TypeError, match=r"k is a number of the program, but .* is known only when it runs"):
            L.topk(x, count)
        with pytest.raises(TypeError, match="value is known only when the program runs"):
            L.split(x, 2, dim=count)  # type: ignore[arg-type]


def test_a_value_from_outside_of_a_loop_is_refused() -> None:
    # The loop may overwrite it after its use: in the next iteration it would be another one.
    with ga.program_guard(ga.Program()):
        x = L.data("x", [1, 3], append_batch_size=False)
        axis = L.fill_constant([1], "int32", 1)
        with pytest.raises(TypeError, match="axis is a number of the program"):
            L.while_loop(lambda i: i < 2, lambda i: [i + L.concat([x, x], axis).sum().astype("int64")], [L.fill_constant([], "int64", 0)])


def test_extents_of_the_run_resize_an_image() -> None:
    with ga.program_guard(ga.Program()) as program:
        height = L.data("height", [1], append_batch_size=False, dtype="int32")
        out = L.image_resize(L.ones([1, 1, 2, 2]), [height, 3], resample="NEAREST")
    assert ga.Executor().run(program, {"height": np.array([4], "int32")}, [out])[0].shape == (1, 1, 4, 3)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x.sum(where=[True], initial='a')", "cannot combine"),
        ("x.max(where=x > 0)", "needs initial="),
        ("x.flatten('Z')", "order is 'C'"),
        ("x.astype('int32', casting='safe')", "cannot be cast to int32"),
        ("x.take([9], mode='nearest')", "mode is 'raise'"),
        ("x.searchsorted(1.0)", "of a vector"),
    ],
)
def test_what_methods_refuse(code: str, message: str) -> None:
    with ga.program_guard(ga.Program()):
        x = L.data("x", [1, 3], append_batch_size=False)
        with pytest.raises(TypeError, match=message):
            eval(code, {"x": x})
