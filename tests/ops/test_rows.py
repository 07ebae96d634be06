"""Softmax and normalizations that go over their rows in tiles, against float64 and by other ways of computing them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad import layers
from graphad.ops import GradOpDef, lookup, rows

Array = NDArray[Any]

SHAPES = [(130, 40), (3, 2, 700), (40, 128), (7, 1001), (2, 90_000)]


def drawn(shape: tuple[int, ...], scale: float = 1.0, offset: float = 0.0) -> Array:
    return np.random.default_rng(shape).normal(offset, scale, shape).astype("float32")


def softmax_of(x: Array) -> Array:
    """By definition, in float64."""
    wide = x.astype("float64")
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("offset", [0.0, 90.0, -120.0])
@pytest.mark.parametrize("shape", SHAPES[:4])
def test_softmax(shape: tuple[int, ...], offset: float, scale: float) -> None:
    x = drawn(shape, scale, offset)
    assert rows.many(x, x.shape[-1])
    out = lookup("softmax")(x)
    # The exponent of what is far from the greatest is rounded to half a unit in its last place.
    np.testing.assert_allclose(out, softmax_of(x), rtol=2e-5, atol=1e-30)
    assert out.max() <= 1.0
    np.testing.assert_allclose(out.sum(-1), 1.0, rtol=1e-5)


def test_softmax_of_rows_that_cannot_be_exponentiated_as_they_are() -> None:
    """Each in a tile of ordinary rows, which stay what they are."""
    x = drawn((64, 128))
    x[3], x[5, 1:], x[7], x[9, 4] = -1e9, -np.inf, 1e30, np.nan
    x[11] = -np.inf
    out = lookup("softmax")(x)
    assert (out[3] == 1 / 128).all()
    assert out[5, 0] == 1
    assert not out[5, 1:].any()
    assert (out[7] == 1 / 128).all()
    assert np.isnan(out[[9, 11]]).all()
    others = np.delete(np.arange(64), [3, 5, 7, 9, 11])
    np.testing.assert_allclose(out[others], softmax_of(x[others]), rtol=2e-6)


@pytest.mark.parametrize("offset", [0.0, 0.4, 3.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(shape: tuple[int, ...], offset: float) -> None:
    x, begin = drawn(shape, offset=offset), len(shape) - 1
    scale, bias = drawn(shape[-1:], offset=1.0), drawn(shape[-1:])
    assert rows.many(x, shape[-1])
    wide = x.astype("float64")
    mean, variance = wide.mean(-1), wide.var(-1)
    expected = (wide - mean[..., None]) / np.sqrt(variance[..., None] + 1e-5)
    for given, meant in (((), expected), ((scale,), expected * scale), ((scale, bias), expected * scale + bias)):
        out = lookup("layer_norm")(x, *given, begin_norm_axis=begin)
        for got, value in zip(out, (meant, mean, variance), strict=True):
            np.testing.assert_allclose(got, value, rtol=2e-6, atol=1e-5)


def test_layer_norm_of_rows_some_of_which_are_far_from_zero() -> None:
    """Each as exact as alone, in one tile: ordinary ones, far ones, constant ones, and ones that are not numbers."""
    x = drawn((96, 200))
    x[::5] += 1e4
    x[::7] = 2.5
    x[11, 3], x[12, 4] = np.nan, np.inf
    scale, bias = drawn((200,)), drawn((200,), offset=1.0)
    with np.errstate(invalid="ignore"):
        y, _, variance = lookup("layer_norm")(x, scale, bias, begin_norm_axis=1)
        wide = x.astype("float64")
        expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * scale + bias
    np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-5)
    np.testing.assert_array_equal(y[::35], np.broadcast_to(bias, (3, 200)))
    assert np.isnan(y[[11, 12]]).all()
    np.testing.assert_array_equal(variance[::7], np.zeros(14, "float32"))


@pytest.mark.parametrize("factor", [1e30, np.inf, np.nan])
def test_layer_norm_with_a_scale_that_is_no_factor_of_a_matrix(factor: float) -> None:
    x, scale, bias = drawn((64, 100), offset=0.3), drawn((100,), offset=3.0), drawn((100,))
    scale[7] = factor
    y = lookup("layer_norm")(x, scale, bias, begin_norm_axis=1)[0]
    plain = lookup("layer_norm")(x, begin_norm_axis=1)[0]
    np.testing.assert_allclose(y, plain * scale + bias, rtol=2e-6, atol=1e-5)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("shape", [(4, 6, 20, 20), (3, 30, 7, 7), (2, 3, 300, 300)])
def test_batch_norm(shape: tuple[int, ...], offset: float) -> None:
    x, channels = drawn(shape, offset=offset), shape[1]
    scale, bias, zeros = drawn((channels,), offset=1.0), drawn((channels,)), np.zeros(channels, "float32")
    assert rows.many(x, shape[2] * shape[3])
    y, running_mean, running_variance, mean, inverse = lookup("batch_norm")(x, scale, bias, zeros, zeros, momentum=0.75)
    wide, wide_shape = x.astype("float64"), (1, channels, 1, 1)
    expected_mean, variance = wide.mean((0, 2, 3)), wide.var((0, 2, 3))
    hat = (wide - expected_mean.reshape(wide_shape)) / np.sqrt(variance.reshape(wide_shape) + 1e-5)
    np.testing.assert_allclose(y, hat * scale.reshape(wide_shape) + bias.reshape(wide_shape), rtol=2e-6, atol=1e-5)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(variance + 1e-5), rtol=2e-6)
    np.testing.assert_allclose(running_mean, 0.25 * expected_mean, rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(running_variance, 0.25 * variance, rtol=4e-6)


def test_rows_that_are_not_in_order() -> None:
    """Transposed and reversed arrays give what copies of them give."""
    x = drawn((128, 96))
    for view in (x.T, x[::-1], x[:, ::2]):
        for op, attrs in (("softmax", {}), ("layer_norm", {"begin_norm_axis": 1})):
            for got, expected in zip(*(np.atleast_3d(lookup(op)(a, **attrs)[0]) for a in (view, view.copy())), strict=True):
                np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("length", [16, 40, 200, 1000])
def test_a_row_is_the_same_whatever_is_beside_it(length: int) -> None:
    x = drawn((300, length), 5.0)
    x[::7] += 200.0
    x[::5] *= 1e-6
    parts = [slice(0, 1), slice(7, 8), slice(13, 150), slice(290, 300)]
    for part in parts:
        np.testing.assert_array_equal(lookup("softmax")(x)[part], lookup("softmax")(x[part]))
    for part in [p for p in parts if rows.many(x[p], length)]:
        for whole, alone in zip(*(lookup("layer_norm")(a, begin_norm_axis=1) for a in (x, x[part])), strict=True):
            np.testing.assert_array_equal(whole[part], alone)


def test_numpys_buffers_are_as_before() -> None:
    before = np.getbufsize()
    lookup("softmax")(drawn((40, 512)))
    with pytest.raises(ValueError, match="broadcast"):
        lookup("layer_norm")(drawn((40, 512)), drawn((3,)), begin_norm_axis=1)
    assert np.getbufsize() == before


def test_compiled_is_interpreted() -> None:
    program, startup = ga.Program(), ga.Program()
    with ga.program_guard(program, startup):
        x = layers.data("x", shape=[6, 30, 40], append_batch_size=False)
        fetched = [layers.softmax(x), layers.layer_norm(x, begin_norm_axis=2), layers.mean(layers.batch_norm(x))]
    results = []
    for mode in ("compiled", "interpreted"):
        executor, scope = ga.Executor(mode=mode), ga.Scope()
        executor.run(startup, scope=scope)
        results.append([executor.run(program, {"x": drawn((6, 30, 40))}, fetched, scope=scope) for _ in range(3)][-1])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


# -- backward ------------------------------------------------------------------------------------


def errors(op_type: str, inputs: dict[str, Array], attrs: dict[str, Any], wanted: list[str]) -> dict[str, tuple[float, float]]:
    """How far the kernel and the rule, both in float32, are from the rule in float64, of its largest number."""
    definition = lookup(f"{op_type}_grad")
    assert isinstance(definition, GradOpDef)
    given = {slot: [array] for slot, array in inputs.items()}
    exact = definition.meaning({slot: [array.astype("float64")] for slot, array in inputs.items()}, attrs, wanted)
    fast, meant = definition.run(given, attrs, wanted), definition.meaning(given, attrs, wanted)
    result = {}
    for slot in wanted:
        assert fast[slot][0].shape == meant[slot][0].shape
        assert fast[slot][0].dtype == "float32"
        scale = np.abs(exact[slot][0]).max()
        far, near = (float(np.abs(each[slot][0] - exact[slot][0]).max() / scale) for each in (fast, meant))
        result[slot] = far, near
    return result


@pytest.mark.parametrize("shape", SHAPES[:4])
def test_softmax_backward_is_as_exact_as_the_rule(shape: tuple[int, ...]) -> None:
    out = softmax_of(drawn(shape, 2.0)).astype("float32")
    ((fast, meant),) = errors("softmax", {"Out": out, "Out@GRAD": drawn((*shape,), offset=1.0)}, {"axis": -1}, ["X@GRAD"]).values()
    assert fast <= 3 * meant + 1e-7  # one sum of products of float32 numbers, where the rule rounds the products first


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES[:4])
def test_layer_norm_backward_is_as_exact_as_the_rule(shape: tuple[int, ...], offset: float, scaled: bool) -> None:
    x, begin = drawn(shape, 1.5, offset), len(shape) - 1
    vectors = {name: drawn((shape[-1],), 1.0, each) for name, each in (("Scale", 1.0), ("Bias", 0.0))} if scaled else {}
    _, mean, variance = lookup("layer_norm")(x, *vectors.values(), begin_norm_axis=begin)
    inputs = {"X": x, **vectors, "Mean": mean, "Variance": variance, "Y@GRAD": drawn((*shape[::-1],)).T.copy()}
    wanted = [f"{slot}@GRAD" for slot in ("X", *vectors)]
    for fast, meant in errors("layer_norm", inputs, {"begin_norm_axis": begin}, wanted).values():
        assert fast <= 2 * meant + 3e-7


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("shape", [(3, 40, 7, 7), (1, 24, 20, 20), (9, 5, 12, 12)])
def test_batch_norm_backward_is_as_exact_as_the_rule(shape: tuple[int, ...], offset: float) -> None:
    x, channels = drawn(shape, 1.5, offset), shape[1]
    scale, bias = drawn((channels,), 1.0, 1.0), drawn((channels,))
    outputs = lookup("batch_norm")(x, scale, bias, np.zeros_like(bias), np.ones_like(bias))
    inputs = {
        "X": x,
        "Scale": scale,
        "Bias": bias,
        "SavedMean": outputs[3],
        "SavedVariance": outputs[4],
        "Y@GRAD": drawn(shape[::-1]).T.copy(),
    }
    inputs |= {"MeanOut": outputs[1], "VarianceOut": outputs[2], "Mean": np.zeros_like(bias), "Variance": np.ones_like(bias)}
    assert rows.many_short(x, shape[2] * shape[3])
    for fast, meant in errors("batch_norm", inputs, {}, ["X@GRAD", "Scale@GRAD", "Bias@GRAD"]).values():
        assert fast <= 2 * meant + 3e-7
