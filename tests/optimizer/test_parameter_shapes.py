"""Parameters without axes, or with an extent of 0: declared, initialized, trained, saved and read back as any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphad as ga
from graphad import initializer, optimizer

INITIALIZERS = {
    "constant": initializer.Constant(2.0),
    "uniform": initializer.Uniform(),
    "normal": initializer.Normal(),
    "xavier": initializer.Xavier(),
    "msra": initializer.MSRA(),
}
OPTIMIZERS = ("SGD", "Momentum", "Adam", "AdamW", "Adamax", "Adagrad", "RMSProp", "Adadelta", "Lamb", "Ftrl")


def trained_program(shape: list[int], start: initializer.Initializer, name: str = "SGD") -> tuple[ga.Program, ga.Program]:
    """The program of a cost that depends on a parameter of this shape and on another one, with an optimizer."""
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 3
    with ga.program_guard(main, startup):
        x = ga.layers.data("x", [2], "float32")
        w = main.global_block().create_parameter("w", shape)
        start.append(startup.global_block(), startup.global_block().create_parameter("w", shape))
        cost = ga.layers.mean(ga.layers.fc(x, 1, param_attr="v")) + ga.ops.reduce_sum(w * w, reduce_all=True)
        options = {"rho": 0.9} if name == "RMSProp" else {}
        getattr(optimizer, name)(0.125, **options).minimize(cost)
    return main, startup


def run_steps(main: ga.Program, startup: ga.Program, count: int = 2) -> ga.Scope:
    scope, executor = ga.Scope(), ga.Executor()
    executor.run(startup, scope=scope)
    for _ in range(count):
        executor.run(main, feed={"x": np.ones((3, 2), "float32")}, scope=scope)
    return scope


@pytest.mark.parametrize("shape", [[], [0], [0, 3], [3, 0], [0, 2, 3, 3]], ids=str)
@pytest.mark.parametrize("start", INITIALIZERS)
def test_it_is_initialized_and_trained(start: str, shape: list[int]) -> None:
    w = run_steps(*trained_program(shape, INITIALIZERS[start])).get("w")
    assert list(w.shape) == shape
    assert w.dtype == "float32"
    assert np.isfinite(w).all()
    if start == "constant" and not shape:
        assert w == 2.0 * (1 - 2 * 0.125) ** 2


@pytest.mark.parametrize("shape", [[], [0, 3]], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_takes_it(name: str, shape: list[int]) -> None:
    w = run_steps(*trained_program(shape, initializer.Constant(2.0), name)).get("w")
    assert list(w.shape) == shape
    assert np.isfinite(w).all()
    assert shape or w < 2.0


@pytest.mark.parametrize("end", [".txt", ".json", ".pdmodel"])
@pytest.mark.parametrize("shape", [[], [0, 3]], ids=str)
def test_it_is_saved_and_read_back(tmp_path: Path, shape: list[int], end: str) -> None:
    main, startup = trained_program(shape, initializer.Constant(2.0))
    scope = run_steps(main, startup)
    path = tmp_path / f"program{end}"
    ga.save(main, path, scope)
    program, values = ga.load(path)
    assert isinstance(program.global_block().var("w"), ga.Parameter)
    assert program.global_block().var("w").shape == tuple(shape)
    np.testing.assert_array_equal(values["w"], scope.get("w"))


def test_its_text_reads_back() -> None:
    main, _ = trained_program([0, 3], initializer.Constant(2.0))
    assert str(ga.Program.parse(str(main))) == str(main)
