"""Names of Fluid's top level: compiled programs and their strategies, values saved under a prefix."""

from __future__ import annotations

import importlib
import subprocess
import sys
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
        (lambda: fluid.contrib.layers, AttributeError, "layers.LSTMCell, GRUCell and rnn"),
        (lambda: fluid.contrib.mixed_precision.AutoMixedPrecisionLists(["softmax"]), ValueError, "products alone are narrow"),
        (lambda: fluid.contrib.mixed_precision.decorate(fluid.optimizer.SGD(0.1), 8.0), TypeError, "an AutoMixedPrecisionLists or None"),
        (lambda: fluid.contrib.op_freq_statistic("main"), TypeError, "takes a Program"),
        (lambda: fluid.require_version("2.0"), ValueError, "the names of Fluid 1.8.5"),
        (lambda: fluid.require_version("1.5", "1.7"), ValueError, "wants Paddle 1.5 to 1.7"),
        (lambda: fluid.require_version(1.5), TypeError, "a version such as"),
        (lambda: fluid.get_flags(["FLAGS_nothing"]), ValueError, "have not been set"),
        (lambda: fluid.average.WeightedAverage().eval(), ValueError, "there is no average"),
        (lambda: fluid.set_global_initializer("xavier"), TypeError, "weight_init is an initializer"),
        (lambda: fluid.initializer.Uniform(diag_num=2), ValueError, "NumpyArray"),
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


def test_a_layer_that_was_written_before_starts_as_is_said_now() -> None:
    """Calls that are alike are copied, which holds for what is said beside them too."""

    def started() -> list[float]:
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
            out = fluid.layers.fc(fluid.data("x", [1, 2]), 1)
            fluid.Executor().run(fluid.default_startup_program())
            (found,) = fluid.Executor().run(feed={"x": np.ones((1, 2), "float32")}, fetch_list=[out])
            return found.ravel().tolist()  # type: ignore[no-any-return]

    try:
        for weight, bias in (0.5, 0.25), (2.0, 1.0), (2.0, 0.0):
            fluid.set_global_initializer(fluid.initializer.Constant(weight), fluid.initializer.Constant(bias))
            assert started() == started() == [2 * weight + bias]
    finally:
        fluid.set_global_initializer(None)
    before = started()
    assert before not in (started(), [4.0])  # Xavier's numbers are drawn


def test_parameters_start_as_is_said_for_all() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        fluid.set_global_initializer(fluid.initializer.Constant(0.5), fluid.initializer.Constant(0.25))
        try:
            fluid.layers.fc(fluid.data("x", [None, 2]), 1, param_attr="w", bias_attr="b")
            fluid.layers.fc(fluid.data("z", [None, 2]), 1, 1, fluid.ParamAttr("own", fluid.initializer.Constant(3.0)), False)
        finally:
            fluid.set_global_initializer(None)
        fluid.layers.create_parameter([2], "float32", name="usual", is_bias=True)
        fluid.Executor().run(fluid.default_startup_program())
        found = {name: fluid.global_scope().get(name).ravel().tolist() for name in ("w", "b", "own", "usual")}
    assert found == {"w": [0.5, 0.5], "b": [0.25], "own": [3.0, 3.0], "usual": [0.0, 0.0]}


def test_versions_flags_and_averages() -> None:
    for bounds in (("1.7.0",), ("1.8", "1.8"), ("1.8.5", "1.8.5"), ("0.14", "2")):
        fluid.require_version(*bounds)
    fluid.set_flags({"FLAGS_check_nan_inf": 1})
    assert fluid.get_flags(["FLAGS_check_nan_inf"]) == {"FLAGS_check_nan_inf": 1}
    average = fluid.average.WeightedAverage()
    average.add(np.array([1.0, 3.0]), 1)
    average.add([5.0, 7.0], weight=3)
    assert average.eval().tolist() == [4.0, 6.0]
    average.reset()
    average.add(value=2.5, weight=2)
    assert average.eval() == 2.5


def test_mixed_precision_keeps_a_black_list_wide() -> None:
    amp = fluid.contrib.mixed_precision
    types = []
    for lists in (None, amp.AutoMixedPrecisionLists(custom_black_list={"mul"})):
        with fluid.program_guard(fluid.Program(), fluid.Program()) as program:
            loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 2))
            optimizer = amp.decorate(fluid.optimizer.Adam(0.1), lists, init_loss_scaling=8.0, use_dynamic_loss_scaling=False)
            optimizer.minimize(loss)
        assert optimizer.get_loss_scaling() == 8.0
        types.append({var.dtype for var in program.list_vars()})
    assert "float16" in types[0]
    assert "float16" not in types[1]


def test_a_script_may_import_from_the_places_that_it_had_before() -> None:
    script = """
import graphad.fluid as fluid
import graphad.fluid.layers as layers
import graphad.fluid.optimizer
from graphad.fluid.initializer import Constant
from graphad.fluid.regularizer import L2Decay

x = fluid.data("x", [None, 3])
loss = layers.mean(fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr(initializer=Constant(2.0), regularizer=L2Decay(0.1))))
graphad.fluid.optimizer.SGD(0.1).minimize(loss)
executor = fluid.Executor(fluid.CPUPlace())
executor.run(fluid.default_startup_program())
print(executor.run(fluid.default_main_program(), feed={"x": [[1.0, 2.0, 3.0]]}, fetch_list=[loss])[0])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("12.0\n", "")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("dygraph", "'dygraph', which Fluid has: there is no eager mode"),
        ("Programm", "did you mean 'Program'"),
        ("_hidden", r"module 'graphad\.fluid' has no attribute '_hidden'"),
    ],
)
def test_a_name_that_is_nowhere_gets_the_hint_of_the_top(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=hint):
        getattr(importlib.import_module("graphad.fluid"), name)
