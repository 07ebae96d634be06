"""Costs that must not grow faster than the program: counted in steps, not in seconds."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.program import gc_pause
from tests.counting import calls


def build_and_train(layers: int, shared: bool) -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        x = ga.layers.data("x", [4])
        for _ in range(layers):
            x = ga.layers.fc(x, 4, act="relu", param_attr="w" if shared else None)
        ga.optimizer.SGD(0.1).minimize(ga.layers.mean(x))


def test_building_and_differentiating_are_linear_in_the_layers() -> None:
    for shared in (False, True):
        small, large = (calls(lambda n=n, s=shared: build_and_train(n, s)) for n in (100, 400))  # type: ignore[misc]
        assert large < 4.4 * small, f"shared={shared}: {small} calls for 100 layers, {large} for 400"


def a_network(layers: int) -> tuple[ga.Program, dict[str, Any]]:
    """A program with two parameters a layer, and their values."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", [4])
        for _ in range(layers):
            x = ga.layers.fc(x, 4)
    return program, {var.name: np.zeros(var.shape, "float32") for var in program.all_parameters()}


@pytest.mark.parametrize("end", [".pdmodel", ".json", ".txt"])
def test_saving_and_loading_are_linear_in_the_parameters(end: str, tmp_path: Path) -> None:
    path = tmp_path / f"network{end}"
    counts = []
    for layers in (3, 50, 200):  # the first for what is done once
        program, values = a_network(layers)
        counts.append((calls(lambda p=program, v=values: ga.save(p, path, v)), calls(lambda: ga.load(path))))  # type: ignore[misc]
    for what, small, large in zip(("save", "load"), *counts[1:], strict=True):
        assert large < 4.4 * small, f"{what}: {small} calls for 100 parameters, {large} for 400"


def fail_inside(depth: int) -> ga.Program:
    """A program in whose layers, nested so deep, a user's function fails."""
    program = ga.Program()

    def branch(left: int, x: ga.Variable) -> Any:
        if not left:
            raise ValueError("the user's error")
        return ga.layers.cond(ga.layers.mean(x) < 2.0, lambda: branch(left - 1, x * 2.0), lambda: x)

    with ga.program_guard(program):
        x = ga.layers.data("x", [1], "float64", append_batch_size=False)
        with pytest.raises(ValueError, match="the user's error"):
            branch(depth, x)
    return program


def test_an_error_in_nested_layers_is_linear_in_the_depth() -> None:
    small, large = (calls(lambda depth=depth: fail_inside(depth)) for depth in (5, 20))  # type: ignore[misc]
    assert large < 7 * small, f"{small} calls at depth 5, {large} at depth 20"


def test_an_error_in_nested_layers_takes_everything_back() -> None:
    program = fail_inside(12)
    assert str(program) == str(fail_inside(1))
    assert program.declarations is None
    with ga.program_guard(program):
        assert (program.global_block().var("x") * 2.0).name == "scale_0.tmp_0"


def test_graphs_that_are_done_with_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_pause, "_book", gc_pause._Book())
    block = ga.Program().global_block()
    block.create_var("x0", [4], "float32")
    for i in range(3000):
        block.append_op("tanh", {"X": f"x{i}"}, {"Out": f"x{i + 1}"})
    graphs: list[weakref.ref[ga.Graph]] = []
    for _ in range(12):
        graph = ga.lower(block.program)
        ga.backward_pipeline(("x3000",)).run(graph)
        graphs.append(weakref.ref(graph))
    assert sum(alive() is not None for alive in graphs) <= 6


def a_chain(count: int) -> ga.Program:
    block = ga.Program().global_block()
    block.create_var("x0", [4], "float32")
    for i in range(count):
        block.append_op("tanh", {"X": f"x{i}"}, {"Out": f"x{i + 1}"})
    return block.program


def test_a_program_that_grows_is_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each look costs as much as a tenth of building, and finds nothing: neither while it grows nor before its first graph.
    gc.collect()
    monkeypatch.setattr(gc_pause, "_book", gc_pause._Book(collections=gc_pause._full_collections()))
    before = gc_pause._full_collections()
    program = a_chain(20_000)
    ga.lower(program)
    assert gc_pause._full_collections() == before
    assert gc_pause._book.written >= 12 * 18_000  # more than a graph's objects may be


def test_programs_that_are_done_with_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_pause, "_book", gc_pause._Book())
    monkeypatch.setattr(gc_pause, "_MANY", 100_000)
    programs = [weakref.ref(a_chain(3000)) for _ in range(12)]
    assert sum(alive() is not None for alive in programs) <= 6
