"""Extents with names, from what users declare to texts, files, runs and costs."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidValue, ParseError
from graphad.interop.json_form import from_json, to_json
from graphad.interop.paddle import dump_program, load_program
from graphad.passes.analyses import estimated
from graphad.types import Extent, broadcast_shapes, joined_shape, same_extent, same_shape

BATCH, TIME = Extent("batch"), Extent("time")


@pytest.fixture
def program() -> ga.Program:
    """A layer over two inputs, with a gradient."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", shape=["batch", 4])
        mask = ga.layers.data("mask", shape=["batch", "time steps"])
        x.stop_gradient = False
        loss = ga.layers.reduce_sum(ga.layers.tanh(x)) + ga.layers.reduce_sum(mask)
        ga.gradients([loss], [x])
    return program


def test_an_extent_is_minus_one_with_a_name() -> None:
    assert BATCH == -1 == TIME
    assert Extent("batch") is BATCH is pickle.loads(pickle.dumps(BATCH)) is copy.deepcopy(BATCH)
    assert str([BATCH, Extent("a b"), Extent("inf")]) == '[batch, "a b", "inf"]'
    with pytest.raises(InvalidValue, match="not empty"):
        Extent("")


def test_extents_are_the_same_where_numbers_or_names_are() -> None:
    assert all(map(same_extent, (BATCH, 3), (BATCH, 3)))
    assert not any(map(same_extent, (BATCH, -1, BATCH, 3), (TIME, -1, -1, 4)))
    assert same_shape((BATCH, 2), (BATCH, 2))
    assert not same_shape((-1, 2), (-1, 2))


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [
        ([(BATCH, 4), (4,)], "[batch, 4]"),
        ([(BATCH, 1), (BATCH, TIME)], "[batch, time]"),
        ([(BATCH,), (-1,)], "[-1]"),  # the batch may be 1, and the other one not
        ([(BATCH,), (TIME,)], "[-1]"),
        ([(BATCH,), (8,)], "[8]"),
    ],
)
def test_broadcasting_keeps_a_name_that_is_certain(shapes: list[tuple[int, ...]], wanted: str) -> None:
    assert str(list(broadcast_shapes(*shapes))) == str(list(broadcast_shapes(*shapes[::-1]))) == wanted


def test_shapes_that_agree_have_the_names_of_both() -> None:
    assert str(joined_shape((BATCH, -1, 3), (-1, TIME, -1))) == "(batch, time, 3)"


def test_inference_passes_names_on() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", shape=["batch", "time", 4])
        image = ga.layers.data("image", shape=["batch", 3, "height", "width"])
        found = {
            "matmul": ga.layers.matmul(x, ga.layers.transpose(x, [0, 2, 1])),
            "concat": ga.layers.concat([x, ga.layers.tanh(x)], axis=2),
            "stacked": ga.layers.concat([x, x], axis=1),
            "reduced": ga.layers.reduce_mean(x, dim=[1]),
            "reshaped": ga.layers.reshape(x, [0, 0, 2, 2]),
            "split": ga.layers.reshape(image, [-1, 3]),
            "same": ga.layers.conv2d(image, 2, 3, padding=1),
            "halved": ga.layers.pool2d(image, 2, pool_stride=2),
            "rest": x[:, 1:],
            "whole": x[:, :, :2],
        }
    assert {name: str(list(value.shape)) for name, value in found.items()} == {
        "matmul": "[batch, time, time]",
        "concat": "[batch, time, 8]",
        "stacked": "[batch, -1, 4]",
        "reduced": "[batch, 4]",
        "reshaped": "[batch, time, 2, 2]",
        "split": "[-1, 3]",
        "same": "[batch, 2, height, width]",
        "halved": "[batch, 3, -1, -1]",
        "rest": "[batch, -1, 4]",
        "whole": "[batch, time, 2]",
    }


def test_the_number_of_elements_of_one_extent_is_that_extent() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", shape=["batch", 2, 6])
        assert str(ga.layers.reshape(x, [-1, 12]).shape) == "(batch, 12)"
        assert str(ga.layers.reshape(x, [-1, 6]).shape) == "(-1, 6)"


def test_a_variable_that_is_written_again_has_no_name_that_differs() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x, y = ga.layers.data("x", shape=["batch", 4]), ga.layers.data("y", shape=["time", 4])
        out = ga.layers.tanh(x)
        program.global_block().append_op("tanh", {"X": y}, {"Out": out})
    assert str(out.shape) == "(-1, 4)"


def test_texts_and_files_have_the_names(program: ga.Program) -> None:
    text = str(program)
    assert "var x: float32[batch, 4]\n" in text
    assert 'var mask: float32[batch, "time steps"] stop_gradient' in text
    assert "x@GRAD: float32[batch, 4]" in text
    again = [
        ga.Program.parse(text),
        from_json(to_json(program)),
        load_program(dump_program(program)),
        pickle.loads(pickle.dumps(program)),
        copy.deepcopy(program),
        program.clone(),
    ]
    assert [str(each) for each in again] == [text] * len(again)
    assert str(ga.schedule(ga.lower(program))).count("[batch, 4]") > 2


@pytest.mark.parametrize("extent", ["inf", "1.5", '""', "[a]"])
def test_what_is_no_extent_is_refused_at_its_place(extent: str) -> None:
    with pytest.raises(ParseError, match="line 1, column"):
        ga.Program.parse(f"program {{ block 0 {{ var x: float32[{extent}] }} }}")


def test_feeds_that_disagree_are_refused_by_name(program: ga.Program) -> None:
    feed = {"x": np.ones((3, 4), "float32"), "mask": np.ones((5, 2), "float32")}
    with pytest.raises(InvalidValue, match=r"batch=3 in feed 'x', \[3, 4\], and batch=5 in feed 'mask', \[5, 2\]"):
        ga.Executor().run(program, feed, ["x@GRAD"])
    executor = ga.Executor()
    for batch in (3, 3, 3, 5):
        feed = {"x": np.ones((batch, 4), "float32"), "mask": np.ones((batch, 2), "float32")}
        assert executor.run(program, feed, ["x@GRAD"])[0].shape == (batch, 4)
    with pytest.raises(InvalidValue, match=r"batch=5 .* and batch=2"):
        executor.run(program, {**feed, "mask": np.ones((2, 2), "float32")}, ["x@GRAD"])


def test_costs_are_for_sizes_by_name(program: ga.Program) -> None:
    graph = ga.lower(program)
    alone = estimated(graph, {"batch": 10, "time steps": 7})
    assert alone.sizes[graph.value("mask")] == 10 * 7 * 4
    assert alone.sizes[graph.value("x")] == 10 * 4 * 4
    assert estimated(graph, {"time steps": 7}).sizes[graph.value("mask")] == 7 * 4
    assert estimated(graph, 3).sizes[graph.value("mask")] == 3 * 3 * 4
    with pytest.raises(InvalidValue, match="no extent has the name 'bach'; did you mean 'batch'"):
        estimated(graph, {"bach": 2})


def test_passes_know_that_extents_of_one_name_are_equal() -> None:
    def left(second: str) -> list[str]:
        program = ga.Program()
        with ga.program_guard(program, ga.Program()):
            x, y = ga.layers.data("x", shape=["batch", 4]), ga.layers.data("y", shape=[second, 4])
            out = x + ga.layers.zeros_like(y)  # broadcast where y has more places than x
        graph = ga.lower(program, [out])
        ga.Pipeline.parse("simplify, dead-code").run(graph)
        return [op.type for op in graph.ops]

    assert "elementwise_add" in left("time")
    assert left("batch") == ["assign"]


def test_gradients_of_equal_extents_are_not_summed() -> None:
    def types(second: str) -> set[str]:
        program = ga.Program()
        with ga.program_guard(program, ga.Program()):
            x, y = ga.layers.data("x", shape=["batch", 4]), ga.layers.data("y", shape=[second, 4])
            x.stop_gradient = False
            first = ga.gradients([ga.layers.reduce_sum(ga.layers.tanh(x) * y)], [x])
            (second_order,) = ga.gradients(first, [x])
        assert second_order is not None
        return {op.type for op in ga.lower(program, [second_order]).ops}

    assert "sum_like" in types("time")
    assert "sum_like" not in types("batch")


def test_a_drawing_shows_names(program: ga.Program, tmp_path: Path) -> None:
    assert "float32[batch, 4]" in ga.draw(program, tmp_path / "x.dot").read_text()
