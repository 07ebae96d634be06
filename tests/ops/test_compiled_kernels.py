"""Kernels as compiled loops: the values of numpy's kernels, to rounding; both executors the same bits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.contexts import binding
from graphad.ops import lookup
from graphad.ops.depthwise import depthwise, depthwise_cotangent, depthwise_spread
from graphad.ops.loops import COMPILED
from graphad.ops.maxima import scattered
from graphad.ops.rows import normalized_channels, normalized_rows, softmax_rows, softmax_rows_grad, through_channels, through_rows
from graphad.ops.window_loops import scattered_by_loop
from graphad.ops.windows import axes, extents_of
from graphad.types import Array

pytestmark = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed: pip install 'graphad[numba]'")
DTYPES = ["float32", "float64"]


@pytest.fixture(autouse=True)
def compiled_once(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHAD_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "loops"))


@contextmanager
def loops() -> Iterator[None]:
    with np.errstate(all="ignore"), binding(COMPILED, True):
        yield


def near(one: Any, other: Any, dtype: str, times: float = 1.0) -> None:
    """Equal to rounding, relative to the largest; nan and infinities where the other has them."""
    one, other = np.asarray(one), np.asarray(other)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    finite = np.isfinite(other)
    np.testing.assert_array_equal(one[~finite], other[~finite])
    largest = float(np.abs(other[finite]).max(initial=0))
    np.testing.assert_allclose(one[finite], other[finite], rtol=0, atol=times * (4e-6 if dtype == "float32" else 1e-14) * largest)


def drawn(*shape: int, dtype: str, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# -- windows ---------------------------------------------------------------------------------------

# Each takes seconds to compile.
GEOMETRIES = [
    ("float32", (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    *(
        pytest.param(*item, marks=pytest.mark.long)
        for item in [
            ("float64", (3, 3), (1, 2), (2, 3), (3, 1, 0, 4)),
            ("float32", (5, 5), (2, 2), (1, 1), (2, 2, 2, 2)),  # more runs than one loop reads
            ("float64", (5, 5), (2, 2), (1, 1), (2, 2, 2, 2)),
            ("float32", (3, 2), (2, 3), (1, 1), (0, 1, 2, 0)),
            ("float32", (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
            ("float32", (7, 1), (3, 1), (1, 1), (3, 3, 0, 0)),
            ("float32", (1, 1), (4, 4), (1, 1), (0, 0, 0, 0)),
        ]
    ),
]


@pytest.mark.parametrize(("dtype", "kernel", "strides", "dilations", "paddings"), GEOMETRIES)
def test_depthwise_convolutions(dtype: str, kernel: Any, strides: Any, dilations: Any, paddings: Any) -> None:
    for samples, channels, extents in ((2, 5, (19, 23)), (1, 3, (9, 40))):
        window_axes = axes(extents, kernel, strides=strides, dilations=dilations, paddings=paddings)
        x, w = drawn(samples, channels, *extents, dtype=dtype), drawn(channels, 1, *kernel, dtype=dtype, seed=1)
        y = drawn(samples, channels, *extents_of(window_axes), dtype=dtype, seed=2)

        def works(x: Array = x, w: Array = w, y: Array = y, window_axes: Any = window_axes) -> list[Array]:
            groups = len(w)
            return [
                depthwise(x, w, window_axes, groups),
                depthwise_spread(w, y, window_axes, groups),
                depthwise_cotangent(x, y, window_axes, w.shape, groups),
            ]

        wanted = works()
        with loops():
            for one, other in zip(works(), wanted, strict=True):
                near(one, other, dtype)


def test_an_infinite_pixel_reaches_its_own_windows_only() -> None:
    window_axes = axes((6, 6), (3, 3), strides=(1, 1), paddings=(1, 1, 1, 1))
    x, w = np.ones((1, 2, 6, 6), "float32"), np.ones((2, 1, 3, 3), "float32")
    x[0, 0, 2, 5] = np.inf
    with loops():
        out, grad = depthwise(x, w, window_axes, 2), depthwise_cotangent(x, x, window_axes, w.shape, 2)
    assert np.argwhere(np.isinf(out)).tolist() == [[0, 0, row, column] for row in (1, 2, 3) for column in (4, 5)]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(grad, depthwise_cotangent(x, x, window_axes, w.shape, 2))
    assert np.isfinite(grad[1]).all()


MAXIMA = [
    ("float32", (3, 3), (2, 2), (1, 1, 1, 1)),
    ("float32", (2, 2), (2, 2), (0, 0, 0, 0)),  # windows that do not overlap, with a row that none of them has
    pytest.param("float32", (2, 3), (3, 4), (0, 1, 1, 2), marks=pytest.mark.long),
    pytest.param("float64", (3, 2), (1, 1), (0, 2, 1, 0), marks=pytest.mark.long),
    pytest.param("float32", (5, 5), (2, 3), (2, 2, 2, 2), marks=pytest.mark.long),
    pytest.param("float32", (2, 2), (5, 5), (0, 0, 0, 0), marks=pytest.mark.long),  # a stride for which no vectors are shuffled
]


@pytest.mark.parametrize(("dtype", "kernel", "strides", "paddings"), MAXIMA)
def test_gradients_of_maxima_have_the_same_bits(dtype: str, kernel: Any, strides: Any, paddings: Any) -> None:
    for kind in ("drawn", "few", "least", "nan"):
        window_axes = axes((61, 64), kernel, strides=strides, paddings=paddings)
        x = drawn(8, 8, 61, 64, dtype=dtype)
        if kind == "few":
            x = np.sign(np.round(x))  # many equals: the first one gets it
        elif kind == "least":
            x[x < 1.5] = -np.inf
        elif kind == "nan":
            x[x > 2.5] = np.nan
        wide = np.pad(x, ((0, 0), (0, 0), *((a.before, a.padded - a.size - a.before) for a in window_axes)), constant_values=-np.inf)
        views = np.lib.stride_tricks.sliding_window_view(wide, kernel, (2, 3))[:, :, :: strides[0], :: strides[1]]
        peaks = np.ascontiguousarray(views[:, :, : window_axes[0].count, : window_axes[1].count].max((4, 5)))
        pooled = drawn(*peaks.shape, dtype=dtype, seed=1)
        wanted = scattered(x, peaks, pooled, window_axes)
        with loops():
            np.testing.assert_array_equal(scattered(x, peaks, pooled, window_axes), wanted)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (2, 2, 0)])
def test_gradients_of_maxima_of_few_and_narrow_images(kernel: int, stride: int, padding: int) -> None:
    """Rows and images that are shorter than a vector, as few as one, of which the last elements are moved one by one."""
    for extents in [(4, 4), (5, 7), (2, 15), (9, 16), (3, 33), (40, 2)]:
        window_axes = axes(extents, (kernel, kernel), strides=(stride, stride), paddings=(padding,) * 4)
        for samples in (1, 3, 20):
            x = np.round(drawn(samples, 1, *extents, dtype="float32"))
            wide = np.pad(x, ((0, 0), (0, 0), *((a.before, a.padded - a.size - a.before) for a in window_axes)), constant_values=-np.inf)
            peaks = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride].max((4, 5))
            pooled = drawn(*peaks.shape, dtype="float32", seed=1)
            np.testing.assert_array_equal(scattered_by_loop(x, peaks, pooled, window_axes), scattered(x, peaks, pooled, window_axes))


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called as Linux has it")
def test_no_loop_reads_beyond_the_end_of_an_array() -> None:
    found = subprocess.run([sys.executable, "-m", "tests.ops.array_ends"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "done\n"), found.stderr


# -- rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [16, 77, 1000])
def test_rows(length: int, dtype: str) -> None:
    x, d = drawn(70, length, dtype=dtype), drawn(70, length, dtype=dtype, seed=1)
    x[3] += 1000  # overflows
    x[4] -= 1000
    x[5, 2], x[6, 3], x[7] = np.inf, np.nan, -np.inf
    with np.errstate(all="ignore"):
        wanted = softmax_rows(x)
    with loops():
        found = softmax_rows(x)
    near(found, wanted, dtype)
    near(found[:5].sum(1), np.ones(5, dtype), dtype)
    with loops():
        grad = softmax_rows_grad(found[:3], d[:3])
    near(grad, softmax_rows_grad(wanted[:3], d[:3]), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_is_exact_to_a_few_digits_for_all_numbers(dtype: str) -> None:
    """Relative to each number, against numpy's longest floats; what is masked by minus infinity is 0."""
    middles = np.array([0, -9, -80, -600, 60, 80, 600, 0], dtype)[:, None]  # rows whose sums are too small or too large among them
    x = 5 * drawn(8, 301, dtype=dtype) + middles
    x[7, ::3] = -np.inf
    wide = x.astype("longdouble")
    wanted = np.exp(wide - wide.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    with loops():
        found = softmax_rows(x)
    np.testing.assert_allclose(found, wanted, rtol=4 * float(np.finfo(dtype).eps), atol=0)
    assert not found[7, ::3].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("middle", [0.0, 3.0, 1e4])
@pytest.mark.parametrize("has_scale", [True, False])
def test_layer_norm_keeps_its_digits_far_from_zero(has_scale: bool, middle: float, dtype: str) -> None:
    """Against float64: the rows of float32 are the exact ones."""
    x, d = drawn(130, 96, dtype=dtype) + np.asarray(middle, dtype), drawn(130, 96, dtype=dtype, seed=1)
    scale = drawn(96, dtype=dtype, seed=2) if has_scale else None
    exact, wide = x.astype("float64"), None if scale is None else scale.astype("float64")
    y, mean, variance = normalized_rows(exact, wide, None, 1e-5)
    grad = through_rows(exact, d.astype("float64"), mean, 1 / np.sqrt(variance + 1e-5), wide)
    with loops():
        found, *moments = normalized_rows(x, scale, None, 1e-5)
        inverse = (1 / np.sqrt(moments[1] + 1e-5)).astype(dtype)
        found_grad = through_rows(x, d, moments[0], inverse, scale)
    near(found, y.astype(dtype), dtype)
    near(moments[0], mean.astype(dtype), dtype)
    near(moments[1], variance.astype(dtype), dtype)
    for one, other in zip(found_grad, grad, strict=True):
        near(one, other.astype(dtype), dtype, times=4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("middle", [0.0, 1e4])
def test_batch_norm_keeps_its_digits_far_from_zero(middle: float, dtype: str) -> None:
    x, scale, bias = drawn(6, 5, 77, dtype=dtype) + np.asarray(middle, dtype), drawn(5, dtype=dtype, seed=1), drawn(5, dtype=dtype, seed=2)
    x[2, 3, 4], x[:, 4] = np.nan, x[0, 4, 0]  # a channel with nan, and one of equal numbers
    exact = x.astype("longdouble")
    mean, variance = exact.mean((0, 2)), exact.var((0, 2))
    inverse = 1 / np.sqrt(variance + np.longdouble(1e-5))
    exact = (exact - mean[:, None]) * (inverse * scale)[:, None] + bias[:, None]
    with loops():
        found, moments = normalized_channels(x, scale, bias, 1e-5)
    near(found, exact.astype(dtype), dtype)
    for one, other in zip(moments, (mean, variance, inverse), strict=True):
        near(one, other.astype(dtype), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_gradient_of_batch_norm(dtype: str) -> None:
    x, d = drawn(6, 5, 49, dtype=dtype) + np.asarray(100, dtype), drawn(6, 5, 49, dtype=dtype, seed=1)
    scale, exact = drawn(5, dtype=dtype, seed=2), x.astype("float64")
    mean, inverse = exact.mean((0, 2)), 1 / exact.std((0, 2))
    wanted = through_channels(exact, d.astype("float64"), mean, inverse, scale.astype("float64"))
    with loops():
        found = through_channels(x, d, mean.astype(dtype), inverse.astype(dtype), scale)
    for one, other in zip(found, wanted, strict=True):
        near(one, other.astype(dtype), dtype, times=4)


def test_a_row_has_the_same_bits_whatever_is_beside_it_and_may_be_read_only() -> None:
    x = drawn(40, 129, dtype="float32")
    x.flags.writeable = False
    with loops():
        together, alone = normalized_rows(x, None, None, 1e-5), normalized_rows(x[7:9], None, None, 1e-5)
        np.testing.assert_array_equal(together[0][7:9], alone[0])
        np.testing.assert_array_equal(softmax_rows(x)[7:9], softmax_rows(x[7:9]))
        softmax_rows_grad(x, x)
        depthwise(x.reshape(1, 40, 3, 43), np.ones((40, 1, 3, 3), "float32"), axes((3, 43), (3, 3), strides=(1, 1), paddings=(1, 1)), 40)


# -- executors -------------------------------------------------------------------------------------


def network() -> ga.Variable:
    x = L.data("x", [4, 8, 20, 20], append_batch_size=False)
    x = L.conv2d(x, 8, 3, padding=1, groups=8, param_attr="w", bias_attr=False)
    x = L.batch_norm(x, param_attr="scale", bias_attr="bias")
    x = L.pool2d(x, 3, "max", 2, 1)
    rows = L.layer_norm(L.reshape(x, [80, 40]), param_attr="gain", bias_attr="shift")
    loss: ga.Variable = L.mean(L.square(L.softmax(rows) * rows))
    ga.optimizer.SGD(0.1).minimize(loss)
    return loss


def losses(build: Callable[[], ga.Variable], **options: Any) -> list[Array]:
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 1
    with ga.program_guard(main, startup):
        loss = build()
    scope, executor = ga.Scope(), ga.Executor(**options)
    executor.run(startup, scope=scope)
    feed = {"x": drawn(4, 8, 20, 20, dtype="float32")}
    runs = [executor.run(main, feed, [loss], scope)[0] for _ in range(4)]
    return [*runs, *(scope.get(name) for name in ("w", "scale", "bias", "gain", "shift"))]


def test_both_executors_take_the_same_loops() -> None:
    wanted = losses(network, numba=True, mode="interpreted")
    for options in ({}, {"threads": 2}):
        for one, other in zip(losses(network, numba=True, **options), wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    plain = losses(network)
    assert any((one != other).any() for one, other in zip(wanted, plain, strict=True)), "the loops were taken"
    for one, other in zip(wanted, plain, strict=True):
        near(one, other, "float32", times=20)


def test_other_executors_keep_numpys_kernels() -> None:
    """Also one that runs within a run of the other kind, and kernels that are called by themselves."""
    x, before = drawn(64, 64, dtype="float32"), COMPILED.get()
    softmax = lookup("softmax")
    wanted, inner = softmax(x), []

    def run_another(array: Array) -> Array:
        main = ga.Program()
        with ga.program_guard(main, ga.Program()):
            out = L.softmax(L.data("x", [64, 64], append_batch_size=False))
        inner.append(ga.Executor().run(main, {"x": x}, [out])[0])
        return array

    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        y = L.data("x", [64, 64], append_batch_size=False)
        result = main.current_block().create_var(name="result", shape=[64, 64], dtype="float32")
        L.py_func(run_another, y, result)
    ga.Executor(numba=True).run(main, {"x": x}, [result])
    np.testing.assert_array_equal(inner[0], wanted)
    assert COMPILED.get() is before is False
