"""Random operators draw on XLA what they draw on numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax, on which programs run as XLA programs, is not installed: pip install 'graphad[jax]'")

import jax

import graphad as ga
from graphad.jax.pcg64 import Generator, raw, words_of
from graphad.ops import REGISTRY
from graphad.testing.samples import samples_of
from graphad.types import Array
from tests.jax.programs import QUICK
from tests.shares import one_in

SEEDS = ([7], [3, 0, 12345], [1 << 40 | 5, 3, 99, 4, 5])
LONG = {"gaussian_random_batch_size_like", "truncated_gaussian_random"}  # much to compile; the numbers of gaussian_random
MATCHES = {"generate_proposal_labels", "rpn_target_assign"}  # how many boxes match, values say, and XLA compiles for shapes
RANDOM = [
    pytest.param(name, marks=[pytest.mark.long] if name in LONG else [])
    for name, definition in sorted(REGISTRY.items())
    if definition.random and name not in MATCHES
]


def drawn(method: str, numbers: list[int], *args: Any) -> Array:
    with jax.enable_x64(True):
        words = np.array(words_of(*numbers), "uint32")
        return np.asarray(jax.jit(lambda words: getattr(Generator(words), method)(*args), compiler_options=QUICK)(words))


@pytest.mark.parametrize("numbers", SEEDS, ids=len)
def test_the_bits_are_numpys(numbers: list[int]) -> None:
    with jax.enable_x64(True):
        got = raw(np.array(words_of(*numbers), "uint32"), 2500)
    np.testing.assert_array_equal(got, np.random.default_rng(numbers).bit_generator.random_raw(2500))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_numbers_are_equal_to_the_last_bit(dtype: str) -> None:
    expected = np.random.default_rng(SEEDS[1]).random((7, 301), dtype)  # type: ignore[call-overload]
    np.testing.assert_array_equal(drawn("random", SEEDS[1], (7, 301), dtype), expected)


RANGES = [(0, 10), (-5, 7), (0, 3 << 30), (0, 1 << 32), (0, 3 << 40), (-(1 << 63), (1 << 63) - 1)]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_integers_are_equal(low: int, high: int) -> None:
    got = drawn("integers", SEEDS[1], low, high, (999,))
    np.testing.assert_array_equal(got, np.random.default_rng(SEEDS[1]).integers(low, high, (999,)))


def test_single_normal_numbers_are_equal_to_the_last_bit() -> None:
    expected = np.random.default_rng(SEEDS[2]).standard_normal(100_000, "float32")
    np.testing.assert_array_equal(drawn("standard_normal", SEEDS[2], (100_000,), "float32"), expected)


def test_double_normal_numbers_are_equal_to_the_last_bit_but_in_the_tail() -> None:
    """Of a million, one or two differ, in the last bit: numbers beyond 3.65 are logarithms."""
    expected = np.random.default_rng(SEEDS[2]).standard_normal(100_000)
    got = drawn("standard_normal", SEEDS[2], (100_000,), "float64")
    middle = np.abs(expected) < 3.65
    np.testing.assert_array_equal(got[middle], expected[middle])
    np.testing.assert_array_max_ulp(got[~middle], expected[~middle], 1)
    assert (~middle).sum() > 10


OPERATORS = {
    "uniform_random": {"min": -0.3171, "max": 1.713},
    "gaussian_random": {"mean": 1.713, "std": 0.3171},
    "truncated_gaussian_random": {"mean": 1.713, "std": 0.3171},
}


@pytest.mark.parametrize("dtype", one_in(2, ["float32", "float64"]))
@pytest.mark.parametrize("op_type", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in OPERATORS])
def test_what_is_scaled_is_rounded_as_on_numpy(op_type: str, dtype: str) -> None:
    """A product and a sum are two roundings, where XLA could do with one."""
    program = ga.Program()
    program.random_seed = 11
    program.global_block().create_var("y", [5000], dtype)
    program.global_block().append_op(op_type, {}, {"Out": ["y"]}, {"shape": [5000], "dtype": dtype, **OPERATORS[op_type]})
    expected, got = (executor.run(program, {}, ["y"], ga.Scope())[0] for executor in (ga.Executor(), ga.JaxExecutor()))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("op_type", one_in(3, RANDOM))
def test_a_random_operator_draws_what_it_draws_on_numpy(op_type: str) -> None:
    definition, sample = ga.ops.lookup(op_type), samples_of(op_type)[0]
    program = ga.Program()
    program.random_seed = 11
    block = program.global_block()
    feeds: dict[str, Array] = {}
    inputs: dict[str, list[str]] = {}
    for slot, values in sample.slots().items():
        inputs[slot] = []
        for i, value in enumerate(values):
            name = f"{slot}{i}"
            block.create_var(name, value.shape, value.dtype.name)
            feeds[name] = value
            inputs[slot].append(name)
    outputs = {slot: [slot.lower()] for slot in definition.outputs}
    block.append_op(op_type, inputs, outputs, sample.attrs)
    fetch = [name for (name,) in outputs.values()]
    scopes = ga.Scope(), ga.Scope()
    for _ in range(2):
        expected = ga.Executor().run(program, feeds, fetch, scopes[0])
        got = ga.JaxExecutor().run(program, feeds, fetch, scopes[1])
        for one, other in zip(got, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def test_each_iteration_of_a_loop_draws_anew_and_as_on_numpy() -> None:
    program = ga.Program()
    program.random_seed = 5
    with ga.program_guard(program):
        x = ga.layers.data("x", shape=[4])
        i, n = (ga.layers.fill_constant([1], "int64", value) for value in (0, 6))
        _, total = ga.layers.while_loop(lambda i, x: i < n, lambda i, x: [i + 1, x + ga.layers.dropout(x, 0.5)], [i, x])
    feed = {"x": np.ones((3, 4), "float32")}
    (expected,), (got,) = (executor.run(program, feed, [total], ga.Scope()) for executor in (ga.Executor(), ga.JaxExecutor()))
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert len(np.unique(expected)) > 3
