"""Names of Fluid's top level: compiled programs and their strategies, values saved under a prefix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad
from graphad.errors import GraphadError

fluid: Any = graphad  # calls that type checkers refuse are made on purpose
X = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")


def line() -> tuple[graphad.Program, graphad.Program, graphad.Variable]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        out = fluid.layers.fc(fluid.data("x", [None, 2]), 3, param_attr="w", bias_attr="b")
        fluid.optimizer.Adam(0.1).minimize(fluid.layers.mean(out))
    return main, startup, out


def test_a_compiled_program_runs_as_the_program() -> None:
    with fluid.program_guard(fluid.Program()) as program:
        loss = fluid.layers.mean(fluid.data("x", [None, 2]))
    build, run = fluid.BuildStrategy(), fluid.ExecutionStrategy()
    build.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    run.num_threads = 4
    compiled = fluid.CompiledProgram(program, build_strategy=build)
    assert compiled.with_data_parallel(loss.name, build, run, places=fluid.cpu_places(1)) is compiled
    executor = fluid.Executor(fluid.CPUPlace())
    for _ in range(2):
        assert executor.run(compiled, {"x": X}, [loss])[0] == 2.5
    assert fluid.compiler.CompiledProgram is fluid.CompiledProgram
    parallel = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=program)
    assert parallel.run([loss.name], feed=[{"x": X}])[0] == 2.5
    assert parallel.run(fetch_list=[loss], feed={"x": X})[0] == 2.5


def test_values_are_saved_under_a_prefix_and_put_back(tmp_path: Path) -> None:
    main, startup, _ = line()
    executor, path = fluid.Executor(), str(tmp_path / "model")
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        executor.run(main, {"x": X})
        before = {name: fluid.global_scope().get(name) for name in ("w", "b", "w_moment1_0")}
        fluid.save(main, path)
        state = fluid.load_program_state(path)
        for name, array in before.items():
            np.testing.assert_array_equal(state[name], array)
    with fluid.scope_guard(fluid.Scope()):
        assert fluid.load(main, path, executor) is None
        for name, array in before.items():
            np.testing.assert_array_equal(fluid.global_scope().get(name), array)
        fluid.io.set_program_state(main, {"w": before["w"] * 2, "another": np.zeros(3)})
        np.testing.assert_array_equal(fluid.global_scope().get("w"), before["w"] * 2)
        assert "another" not in fluid.global_scope().arrays
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.pdiparams", "model.pdmodel"]


def test_a_gradient_has_a_name() -> None:
    with fluid.program_guard(fluid.Program()):
        assert fluid.data("x", [2]).grad_name == "x@GRAD"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fluid.CompiledProgram("main"), TypeError, "CompiledProgram takes a Program, not 'main'"),
        (lambda: fluid.CompiledProgram(fluid.Program(), {}), TypeError, "build_strategy is a BuildStrategy or None"),
        (
            lambda: fluid.CompiledProgram(fluid.Program()).with_data_parallel(places=fluid.cpu_places(2)),
            ValueError,
            "runs on one CPU, not on 2 places: the pass data-parallel splits a batch",
        ),
        (lambda: fluid.ParallelExecutor(use_cuda=True), ValueError, "give use_cuda=False"),
        (lambda: fluid.ParallelExecutor(False).run([], feed=[{}, {}]), ValueError, "a dict for each device, and there is one; it has 2"),
        (lambda: fluid.load(fluid.Program()), TypeError, "needs the path that save was given"),
        (lambda: fluid.load("a.pdmodel", "b"), TypeError, "load takes a path alone, or a Program and a path"),
        (lambda: fluid.dygraph.guard(), AttributeError, "there is no eager mode"),
        (lambda: fluid.enable_imperative(), AttributeError, "there is no eager mode"),
        (lambda: fluid.load_op_library("a.so"), AttributeError, "an operator of one's own is Python: @graphad.operator"),
        (lambda: fluid.incubate, AttributeError, "LocalGroup and graphad.MpiExecutor"),
    ],
)
def test_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert isinstance(caught.value, GraphadError | AttributeError)


def test_settings_of_strategies_are_fluids() -> None:
    strategy: Any = fluid.BuildStrategy()
    assert "enable_inplace" in dir(strategy)
    assert strategy.enable_inplace is None
    with pytest.raises(AttributeError, match="BuildStrategy has no setting 'enable_inplaces'; did you mean 'enable_inplace'"):
        strategy.enable_inplaces = True
