"""``JaxExecutor`` as ``Executor``: state, feeds, errors, and the function under jit, vmap and export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax, on which programs run as XLA programs, is not installed: pip install 'graphad[jax]'")

import jax
from jax import export

import graphad as ga
from graphad.errors import ExecutionError, InvalidType, InvalidValue, NotLowered
from graphad.jax import exported
from graphad.types import Array
from tests.jax.programs import assert_close

RNG = np.random.default_rng(1)
FEED = {"x": RNG.normal(size=(6, 1, 8, 8)).astype("float32"), "y": RNG.integers(0, 5, (6, 1))}


Make = Callable[[], tuple[ga.Program, ga.Program, ga.Variable]]


def network() -> tuple[ga.Program, ga.Program, ga.Variable]:
    """A small convolutional network with dropout, trained by Adam with clipped gradients."""
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 3
    with ga.program_guard(main, startup), ga.unique_name.guard():
        x, y = ga.layers.data("x", shape=[1, 8, 8]), ga.layers.data("y", shape=[1], dtype="int64")
        h = ga.layers.pool2d(ga.layers.conv2d(x, num_filters=4, filter_size=3, act="relu"), pool_size=2, pool_stride=2)
        p = ga.layers.fc(ga.layers.dropout(h, 0.3), size=5, act="softmax")
        loss = ga.layers.mean(ga.layers.cross_entropy(p, y))
        ga.optimizer.Adam(0.01, grad_clip=ga.optimizer.ClipByGlobalNorm(0.5)).minimize(loss)
    return main, startup, loss


def dense() -> tuple[ga.Program, ga.Program, ga.Variable]:
    """One layer with dropout, trained: less to compile."""
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 3
    with ga.program_guard(main, startup), ga.unique_name.guard():
        x, y = ga.layers.data("x", shape=[1, 8, 8]), ga.layers.data("y", shape=[1], dtype="int64")
        p = ga.layers.fc(ga.layers.dropout(x, 0.3), size=5, act="softmax")
        loss = ga.layers.mean(ga.layers.cross_entropy(p, y))
        ga.optimizer.Momentum(0.01, momentum=0.9).minimize(loss)
    return main, startup, loss


EACH = pytest.mark.parametrize("make", [dense, pytest.param(network, marks=pytest.mark.long)])


def test_training_is_that_of_the_numpy_executor() -> None:
    main, startup, loss = network()
    losses, scopes = [], []
    for executor in (ga.Executor(), ga.JaxExecutor()):
        scope = ga.Scope()
        executor.run(startup, scope=scope)
        losses.append([float(executor.run(main, FEED, [loss], scope)[0]) for _ in range(5)])
        scopes.append(scope)
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert losses[0][-1] < losses[0][0]
    assert sorted(scopes[0].names()) == sorted(scopes[1].names())
    for name in scopes[0].names():
        assert_close(np.asarray(scopes[1].get(name)), scopes[0].get(name), name)


@EACH
def test_a_scope_goes_from_one_executor_to_the_other(make: Make) -> None:
    main, startup, loss = make()
    alone, mixed = ga.Scope(), ga.Scope()
    numpy, xla = ga.Executor(), ga.JaxExecutor()
    for scope in (alone, mixed):
        numpy.run(startup, scope=scope)
    for executor in (numpy, xla, numpy, xla):
        (expected,) = numpy.run(main, FEED, [loss], alone)
        (got,) = executor.run(main, FEED, [loss], mixed)
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@EACH
def test_initialization_runs_once(make: Make) -> None:
    _, startup, _ = make()
    executor, scope = ga.JaxExecutor(), ga.Scope()
    executor.run(startup, scope=scope)
    before = {name: np.array(scope.get(name)) for name in scope.names()}
    executor.run(startup, scope=scope)
    for name, value in before.items():
        np.testing.assert_array_equal(scope.get(name), value)
    executor.run(startup, scope=scope, reinitialize=True)
    assert any((scope.get(name) != value).any() for name, value in before.items())


def doubled() -> tuple[ga.Program, ga.Variable]:
    program = ga.Program()
    with ga.program_guard(program):
        return program, ga.layers.data("x", shape=[2], dtype="float64") * 2.0


def test_a_program_that_changes_is_compiled_again() -> None:
    program, y = doubled()
    executor = ga.JaxExecutor()
    assert executor.run(program, {"x": [[1.0, 2.0]]}, [y], ga.Scope())[0].tolist() == [[2.0, 4.0]]
    program.global_block().ops[-1].attrs = {**program.global_block().ops[-1].attrs, "scale": 3.0}
    assert executor.run(program, {"x": [[1.0, 2.0]]}, [y], ga.Scope())[0].tolist() == [[3.0, 6.0]]


def test_what_does_not_fit_is_refused_as_by_the_numpy_executor() -> None:
    program, y = doubled()
    for executor in (ga.Executor(), ga.JaxExecutor()):
        with pytest.raises(InvalidValue, match="declared"):
            executor.run(program, {"x": np.zeros((1, 3))}, [y], ga.Scope())
        with pytest.raises(InvalidValue, match=r"has no value|not fed"):
            executor.run(program, {}, [y], ga.Scope())
        with pytest.raises(InvalidValue, match="no such variable"):
            executor.run(program, {"x": np.zeros((1, 2))}, ["z"], ga.Scope())
    with pytest.raises(InvalidType, match="max_trips"):
        ga.JaxExecutor(max_trips=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="max_trips"):
        ga.to_jax(program, [y], max_trips=0)


def test_types_that_do_not_fit_an_operator_are_an_error_of_the_program_as_on_numpy() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        z = ga.layers.data("x", shape=[2]) + ga.layers.data("y", shape=[2])
    feed = {"x": np.zeros((2, 2), "float32"), "y": np.zeros((3, 2), "float32")}
    for executor in (ga.Executor(), ga.JaxExecutor()):
        with pytest.raises(
            ExecutionError, match=r"operator 'elementwise_add' failed: .*\n  X = x: float32\[2, 2\]\n[\s\S]*test_executor.py"
        ):
            executor.run(program, feed, [z], ga.Scope())


def test_options_of_the_executor() -> None:
    program, y = doubled()
    feed = {"x": [[1.0, np.inf]]}
    executor = ga.JaxExecutor(jax.devices()[0], check_finite=True)
    assert repr(executor) == f"<JaxExecutor, place={jax.devices()[0]}, check_finite=True>"
    with pytest.raises(ExecutionError, match=rf"operator 'scale' made a nan or an infinity in '{y.name}'\n.*test_executor.py"):
        executor.run(program, feed, [y], ga.Scope())
    executor.close()
    (on_device,) = ga.JaxExecutor(ga.CPUPlace()).run(program, feed, [y], ga.Scope(), return_numpy=False)
    assert isinstance(on_device, jax.Array)
    with pytest.raises(InvalidType, match=r"place is one of jax.devices\(\), CPUPlace\(\) or None, not 8"):
        ga.JaxExecutor(8)
    with pytest.raises(InvalidValue, match="prune"):
        executor.run(program, feed, [y], use_prune=True)


def looked_up() -> tuple[ga.Program, ga.Variable]:
    program = ga.Program()
    with ga.program_guard(program):
        w, ids = ga.layers.data("w", shape=[3]), ga.layers.data("ids", shape=[1], dtype="int64")
        return program, ga.layers.gather(w, ids)


def test_an_index_out_of_range_is_an_error_at_the_users_line() -> None:
    program, y = looked_up()
    feed = {"w": np.zeros((4, 3), "float32"), "ids": np.array([[0], [4]])}
    scope = ga.Scope()
    with pytest.raises(ExecutionError, match=r"operator 'gather' failed: Index has an index outside of \[-4, 4\)\n.*test_executor.py"):
        ga.JaxExecutor().run(program, feed, [y], scope)
    assert not scope.runs


@pytest.mark.parametrize(("choice", "is_refused"), [(1.0, False), (-1.0, True)])
def test_what_a_branch_refuses_that_does_not_run_is_no_error(choice: float, is_refused: bool) -> None:
    program = ga.Program()
    with ga.program_guard(program):
        w, c = ga.layers.data("w", shape=[2, 3], append_batch_size=False), ga.layers.data("c", shape=[1], append_batch_size=False)
        beyond = ga.layers.fill_constant([1], "int64", 5)
        y = ga.layers.cond(ga.layers.reduce_sum(c) > 0.0, lambda: w * 2.0, lambda: ga.layers.scatter(w, beyond, w[:1]))
    feed = {"w": np.ones((2, 3), "float32"), "c": np.array([choice], "float32")}
    if is_refused:
        with pytest.raises(ExecutionError, match="operator 'scatter' failed"):
            ga.JaxExecutor().run(program, feed, [y], ga.Scope())
    else:
        assert (ga.JaxExecutor().run(program, feed, [y], ga.Scope())[0] == 2.0).all()


def test_what_has_a_shape_by_values_is_refused_at_the_users_line() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        y = ga.layers.bincount(ga.layers.data("x", shape=[2], dtype="int64", append_batch_size=False))
    with pytest.raises(NotLowered, match=r"operator 'bincount' cannot be lowered to XLA: [\s\S]*test_executor.py"):
        ga.JaxExecutor().run(program, {"x": np.zeros(2, "int64")}, [y], ga.Scope())


# -- the function --------------------------------------------------------------------------------


def test_the_function_is_pure_and_jitted() -> None:
    main, startup, loss = network()
    scope = ga.Scope()
    ga.Executor().run(startup, scope=scope)
    function = ga.to_jax(main, [loss])
    with jax.enable_x64(True):
        step, state = jax.jit(function, donate_argnums=1), jax.tree.map(jax.numpy.asarray, function.state(scope))
        before = {name: np.array(value) for name, value in scope.arrays.items()}
        got = []
        for _ in range(3):
            (value,), state = step(FEED, state)
            got.append(float(value))
    for name, value in before.items():
        np.testing.assert_array_equal(scope.get(name), value)
    np.testing.assert_allclose(got, [float(ga.Executor().run(main, FEED, [loss], scope)[0]) for _ in range(3)], rtol=1e-5)


def test_feeds_of_the_function_are_as_declared() -> None:
    program, y = doubled()
    function = ga.to_jax(program, [y])
    (narrow,), _ = jax.jit(function)({"x": np.ones((1, 2), "float32")}, {})  # as JAX makes of float64 where nothing says otherwise
    (listed,), _ = function({"x": [[1.0, 1.0]]}, {})
    assert narrow.tolist() == np.asarray(listed).tolist() == [[2.0, 2.0]]
    with pytest.raises(InvalidValue, match=r"feed 'x' has shape \[1, 3\], but the variable is declared \[-1, 2\]"):
        jax.jit(function)({"x": np.ones((1, 3))}, {})
    with pytest.raises(InvalidValue, match="feed has 'z', which the program does not declare"):
        function({"x": np.ones((1, 2)), "z": np.ones(1)}, {})
    with pytest.raises(InvalidValue, match="feed 'x' is int32, but the variable is declared float64"):
        function({"x": np.ones((1, 2), "int32")}, {})


def test_the_function_is_mapped() -> None:
    program, y = doubled()
    function = ga.to_jax(program, [y])
    xs = RNG.normal(size=(5, 1, 2))
    with jax.enable_x64(True):
        (got,), _ = jax.vmap(lambda x: function({"x": x}, {}))(xs)
    np.testing.assert_allclose(got, xs * 2.0)


@EACH
def test_a_step_is_exported_and_read_back(make: Make) -> None:
    main, startup, loss = make()
    scope, expected_state = ga.Scope(), ga.Scope()
    for each in (scope, expected_state):
        ga.Executor().run(startup, scope=each)
    found = exported(main, [loss], scope=scope, feeds=FEED)
    again = export.deserialize(found.serialize())
    with jax.enable_x64(True):
        (got,), state = again.call(FEED, ga.to_jax(main, [loss]).state(scope))
    (expected,) = ga.JaxExecutor().run(main, FEED, [loss], expected_state)
    np.testing.assert_array_equal(got, expected)
    for name in expected_state.names():
        np.testing.assert_array_equal(state[name], np.asarray(expected_state.get(name)))


def saved(folder: Path) -> tuple[Path, Array]:
    program = ga.Program()
    with ga.program_guard(program):
        ga.layers.tanh(ga.layers.data("x", shape=[3]), name="y")
    path = folder / "program.txt"
    path.write_text(str(program))
    return path, RNG.normal(size=(2, 3)).astype("float32")
