"""Programs run on XLA and on numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

import graphad as ga
from graphad.errors import ExecutionError
from graphad.execution.compiled import FIRST
from graphad.jax import to_jax
from graphad.jax.executor import RANDOM, JaxFunction

# Compiling is most of a test's time, and these programs run once.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def on_xla(
    program: ga.Program,
    feeds: Mapping[str, Any],
    params: Mapping[str, Any],
    fetch: Sequence[Any],
    max_trips: int | None = None,
    quick: bool = True,
) -> tuple[list[Any], dict[str, Any]]:
    """The fetched values and the new state, compiled for speed of compilation.

    Raises:
        ExecutionError: an operator refused a value.
    """
    function = to_jax(program, fetch, max_trips=max_trips)
    with jax.enable_x64(True):
        compiled = jax.jit(function.checked, compiler_options=QUICK if quick else None)
        values, state, failed = compiled(*_arguments(function, feeds, params))
        if int(failed):
            raise ExecutionError(function.failures[int(failed) - 1])
        state.pop(RANDOM, None)
        return jax.tree.map(np.asarray, values), jax.tree.map(np.asarray, state)


def traced(
    program: ga.Program, feeds: Mapping[str, Any], params: Mapping[str, Any], fetch: Sequence[Any], max_trips: int | None = None
) -> None:
    """Lower a program, and compile nothing.

    Raises:
        NotLowered, ExecutionError: it cannot be lowered.
    """
    function = to_jax(program, fetch, max_trips=max_trips)
    with jax.enable_x64(True):
        jax.eval_shape(function, *_arguments(function, feeds, params))


def _arguments(function: JaxFunction, feeds: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The feeds and the state of a function."""
    scope = ga.Scope()
    for name, value in params.items():
        scope.set(name, value)
    return {name: np.asarray(value) for name, value in feeds.items()}, function.state(scope)


def on_numpy(program: ga.Program, feeds: Mapping[str, Any], params: Mapping[str, Any], fetch: Sequence[Any]) -> list[Any]:
    """The results of the interpreter."""
    scope = ga.Scope()
    for name, value in params.items():
        scope.set(name, value)
    before = FIRST.set(1)
    try:
        return ga.Executor(mode="interpreted").run(program, feed=feeds, fetch_list=list(fetch), scope=scope)
    finally:
        FIRST.reset(before)


def assert_close(got: Any, expected: Any, name: str, tolerance: float | None = None) -> None:
    """Equal within a fraction of the largest entry: 1e-6 of float64, 1e-4 of float32; of one dtype and shape."""
    if isinstance(expected, list):
        assert len(got) == len(expected), name
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            if b is not None:
                assert_close(a, b, f"{name}[{i}]", tolerance)
        return
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), f"{name}: {got.dtype}{got.shape}, {expected.dtype}{expected.shape}"
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected, err_msg=name)
        return
    limit = tolerance or (1e-6 if expected.dtype == "float64" else 1e-4)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite], err_msg=name)
    size = float(np.max(np.abs(expected[finite]), initial=0.0))
    np.testing.assert_allclose(got[finite], expected[finite], rtol=limit, atol=limit * size, err_msg=name)
