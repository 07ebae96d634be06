"""Operations that a Variable does not have before a program runs: TypeError, with what to use instead and the user's line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.ops import array_functions
from graphad.ops.tensor_methods import INSTEAD

# What is about the memory of arrays.
MEMORY = {"byteswap", "ctypes", "dump", "dumps", "flags", "getfield", "setfield", "setflags", "to_device"}

REFUSED: list[tuple[str, Callable[[Any], Any], str]] = [
    ("float(x)", float, r"no value before the program runs, so it is no Python number: executor.run\(program, feed, fetch_list=\['x'\]\)"),
    ("int(x)", int, r"layers.cast\(x, 'int64'\)"),
    ("complex(x)", complex, "no Python number"),
    ("range(x)", range, r"no Python index: layers.while_loop repeats, layers.range makes a tensor"),
    ("list[x]", lambda x: [1, 2][x], "no Python index"),
    ("len(x)", len, r"first extent of Variable x: float32\[-1, 3\] is not known .* layers.shape\(x\)\[0\]"),
    ("for row in x", list, r"cannot iterate over it: layers.while_loop over x\[i\] or layers.StaticRNN"),
    ("a, b = x", lambda x: (lambda a, b: a)(*x), "cannot iterate over it"),
    ("if x > 0", lambda x: 1 if x > 0.0 else 2, "cannot decide a Python branch or a Python loop: layers.cond and layers.while_loop"),
    ("x > 0 and x < 1", lambda x: x > 0.0 and x < 1.0, "`&`, `|` and `~` combine conditions"),
    ("x in list", lambda x: x in [x + 1.0], "compare names or use `is`"),
    ("1.0 in x", lambda x: 1.0 in x, r"layers.reduce_any\(x == item\)"),
    ("np.exp(x)", np.exp, r"np.exp computes on arrays, and Variable x.* use layers.exp"),
    ("np.abs(x)", np.abs, r"use abs\(x\)"),
    ("np.maximum(x, 0)", lambda x: np.maximum(x, 0), r"use layers.elementwise_max\(x, y\)"),
    ("np.sum(x)", np.sum, r"use layers.reduce_sum\(x\)"),
    ("np.concatenate([x, x])", lambda x: np.concatenate([x, x]), r"use layers.concat\(\[x, y\], axis\)"),
    ("np.frexp(x)", np.frexp, "use layers or arithmetic on the variable, or the array that a run returns"),
    ("array += x", lambda x: np.add(np.ones(3), x, out=np.ones(3)), "np.add computes on arrays"),
    ("np.array(x)", np.array, r"so it is no array: executor.run"),
    ("math.sqrt(x)", math.sqrt, "no Python number"),
    ("x.numpy()", lambda x: x.numpy(), r"executor.run\(program, feed, fetch_list=\['x'\]\) returns its value as an array"),
    ("f'{x:.2f}'", lambda x: f"{x:.2f}", r"'.2f' cannot format it: executor.run"),
    ("np.ndim(x)", np.ndim, "use x.ndim"),
    ("np.zeros_like(x)", np.zeros_like, "use layers.zeros_like"),
    ("np.var(x)", np.var, "use layers.var"),
    ("x.reshape(3, -1, order='Z')", lambda x: x.reshape(3, -1, order="Z"), "order is 'C', row by row, or 'F', column by column, not 'Z'"),
    ("-(x > 0)", lambda x: -(x > 0.0), "~x is the opposite"),
    ("x << 1", lambda x: x << 1, "integers are shifted"),
    ("x * [[1], [2, 3]]", lambda x: x * [[1.0], [2.0, 3.0]], "whose rows differ in length"),
    ("x.item()", lambda x: x.item(), "returns its value as an array"),
    ("x[0] = 1", lambda x: x.__setitem__(0, 1.0), "not changed in place: layers.where, layers.scatter or layers.set_value"),
    ("x + None", lambda x: x + None, "a variable, a number or an array is expected"),
    ("x + strings", lambda x: x + np.array(["a"]), "with an array of <U1"),
    ("x['a']", lambda x: x["a"], "indexed by whole numbers, slices, None, ... and tensors of integers or booleans, not by 'a'"),
    ("x[0.5]", lambda x: x[0.5], "not by 0.5"),
    ("x[True]", lambda x: x[True], r"x\[mask\] with a tensor of booleans"),
    ("x[x]", lambda x: x[x], r"an index is of integers or booleans: use layers.cast\(index, 'int64'\)"),
    ("x[:'a']", lambda x: x[:"a"], "bounds of a slice are whole numbers or None, not 'a'"),
]


@pytest.mark.parametrize(("call", "message"), [pytest.param(call, message, id=text) for text, call, message in REFUSED])
def test_what_needs_a_value_is_refused(call: Callable[[Any], Any], message: str) -> None:
    with ga.program_guard(ga.Program()):
        x = L.data("x", [3])
        with pytest.raises(TypeError, match=message) as caught:
            call(x)
        assert "written at" not in str(caught.value) or __file__ in str(caught.value)


@pytest.mark.parametrize("key", [3, -4, (0, 5), (0, 0, 0), (slice(None), slice(None), slice(None)), (..., ...)])
def test_an_index_out_of_range_is_an_index_error(key: Any) -> None:
    with ga.program_guard(ga.Program()):
        x = L.data("x", [3, 5], append_batch_size=False)
        before = len(ga.default_main_program().global_block().ops)
        with pytest.raises(IndexError, match="Variable x") as caught:
            x[key]
        assert f"written at {__file__}" in str(caught.value)
        assert len(ga.default_main_program().global_block().ops) == before


def test_numbers_with_a_fraction_make_floats_of_integers() -> None:
    main = ga.Program()
    with ga.program_guard(main):
        i = L.data("i", [3], "int64", append_batch_size=False)
        results = [i + 0.5, i * np.array([0.5, 1.0, 2.0]), i**0.5, i + 1.0, i > 1.5, 2.5**i]
    assert [each.dtype for each in results] == ["float32", "float32", "float32", "int64", "bool", "float32"]
    array = np.array([1, 2, 3])
    expected = [array + 0.5, array * [0.5, 1.0, 2.0], array**0.5, array + 1, array > 1.5, 2.5**array]
    for result, each in zip(ga.Executor().run(main, {"i": array}, results), expected, strict=True):
        np.testing.assert_allclose(result, each, rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [lambda i: L.scale(i, 0.5), lambda i: L.pow(i, 0.5), lambda i: L.pow(i, -1.0), lambda i: L.clip(i, 0.5, 1.5)],
    ids=["scale", "pow", "power of -1", "clip"],
)
def test_a_layer_does_not_drop_the_fraction_that_it_is_given(call: Callable[[Any], Any]) -> None:
    with ga.program_guard(ga.Program()) as program:
        i = L.data("i", [3], "int64")
        with pytest.raises(ValueError, match=r"with integers, and the result is int64: layers.cast\(x, 'float32'\) first"):
            call(i)
        assert not program.global_block().ops


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("backward", "ga.append_backward"),
        ("grad", "ga.gradients"),
        ("softplus", r"layers.softplus\(x\)"),
        ("summ", "'sum'"),
    ],
)
def test_an_attribute_that_is_not_there_names_what_is(name: str, hint: str) -> None:
    with ga.program_guard(ga.Program()):
        x = L.data("x", [3])
        with pytest.raises(AttributeError, match=hint):
            getattr(x, name)


def test_unknown_extents_are_counted_when_the_program_runs() -> None:
    main = ga.Program()
    with ga.program_guard(main):
        x = L.data("x", [3])
        count = x.size
        assert isinstance(count, ga.Variable)
        results = [x.sum() / count.astype("float32"), x.mean(), x[-1], x[::-1][:2], x[x[:, 0] > 0.0], x.flatten()]
    array = np.arange(12.0, dtype="float32").reshape(4, 3)
    got = ga.Executor().run(main, {"x": array}, results)
    expected = [array.mean(), array.mean(), array[-1], array[::-1][:2], array[array[:, 0] > 0], array.ravel()]
    for result, each in zip(got, expected, strict=True):
        np.testing.assert_allclose(result, each, rtol=1e-6)


def test_a_tensor_indexes_in_a_loop() -> None:
    main = ga.Program()
    with ga.program_guard(main):
        x = L.data("x", [4, 3], append_batch_size=False, stop_gradient=False)
        _, total = L.while_loop(lambda i, s: i < 4, lambda i, s: [i + 1, s + x[i] * x[i]], [0, L.zeros([3], "float32")])
        (gradient,) = ga.gradients(total, x)
    array = np.arange(12.0, dtype="float32").reshape(4, 3)
    got, slope = ga.Executor().run(main, {"x": array}, [total, gradient])
    np.testing.assert_allclose(got, (array * array).sum(0))
    np.testing.assert_allclose(slope, 2 * array)


def test_integers_divide_as_in_python() -> None:
    main = ga.Program()
    with ga.program_guard(main):
        i = L.data("i", [3], "int64", append_batch_size=False)
        results = [i / 2, 1 / i, i // 2, i % 2, -i // 2]
    got = ga.Executor().run(main, {"i": [1, 2, 3]}, results)
    expected = np.array([[0.5, 1, 1.5], [1, 0.5, 1 / 3], [0, 1, 1], [1, 0, 1], [-1, -1, -2]])
    for result, each in zip(got, expected, strict=True):
        np.testing.assert_allclose(result, each, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in dir(np.ndarray) if not name.startswith("_")])
def test_what_arrays_have_is_there_or_something_takes_its_place(name: str) -> None:
    with ga.program_guard(ga.Program()):
        x = L.data("x", [2, 3], append_batch_size=False)
        if name in MEMORY or name in INSTEAD:
            with pytest.raises(AttributeError, match=f"no attribute {name!r}" + (": " if name in INSTEAD else "")):
                getattr(x, name)
        else:
            getattr(x, name)


def test_the_layers_that_take_the_place_of_functions_of_numpy_are_there() -> None:
    for name in array_functions._LAYERS:
        assert callable(getattr(L, name)), name
        assert callable(getattr(np, name, None) or getattr(L, name))
