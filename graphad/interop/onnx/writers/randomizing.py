"""Operators that draw random numbers: of the same distribution, and other numbers than graphad's."""

from __future__ import annotations

import numpy as np

from graphad.interop.onnx.emitting import Dim, Nodes
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.selecting import batch_dims
from graphad.interop.onnx.writers.writer import Call, Result, writes
from graphad.ops.random import _kept_scale


def _seed(call: Call) -> dict[str, object]:
    """The seed of the operator, if it has one."""
    seed = call.attr("seed") if "seed" in call.definition.attrs else 0
    return {"seed": float(seed)} if seed else {}


def _uniform(call: Call, dims: list[Dim], low: float, high: float, dtype: str) -> Term:
    return _drawn(call.nodes, "RandomUniform", dims, dtype, {"low": float(low), "high": float(high), **_seed(call)})


def _normal(call: Call, dims: list[Dim], dtype: str) -> Term:
    return _drawn(
        call.nodes, "RandomNormal", dims, dtype, {"mean": float(call.attr("mean")), "scale": float(call.attr("std")), **_seed(call)}
    )


def _drawn(nodes: Nodes, type: str, dims: list[Dim], dtype: str, attrs: dict[str, object]) -> Term:
    if dtype == "float16":
        return nodes.cast(_drawn(nodes, type, dims, "float32", attrs), dtype)
    if all(isinstance(dim, int) for dim in dims):
        return nodes.one(type, [], dtype, dims, dtype=np.dtype(dtype), shape=list(dims), **attrs)
    like = nodes.full(dims, 0, dtype)
    return nodes.one(f"{type}Like", [like], dtype, like.sizes, dtype=np.dtype(dtype), **attrs)


@writes("uniform_random")
def _uniform_random(call: Call) -> Result:
    return _uniform(call, list(call.attr("shape")), call.attr("min"), call.attr("max"), call.output("Out").dtype)


@writes("uniform_random_batch_size_like")
def _uniform_like(call: Call) -> Result:
    return _uniform(call, batch_dims(call), call.attr("min"), call.attr("max"), call.output("Out").dtype)


@writes("gaussian_random")
def _gaussian_random(call: Call) -> Result:
    return _normal(call, list(call.attr("shape")), call.output("Out").dtype)


@writes("gaussian_random_batch_size_like")
def _gaussian_like(call: Call) -> Result:
    return _normal(call, batch_dims(call), call.output("Out").dtype)


@writes("randint")
def _integers(call: Call) -> Result:
    """Whole numbers from the lower bound up to the upper one, which is left out."""
    low, high = call.attr("low"), call.attr("high")
    numbers = on.floor(_uniform(call, list(call.attr("shape")), low, high, "float64"))
    # A uniform number may be rounded to the upper bound itself.
    return call.nodes.cast(on.minimum(numbers, float(high - 1)), call.output("Out").dtype)


@writes("bernoulli")
def _bernoulli(call: Call) -> Result:
    x = call["X"]
    return call.nodes.one("Bernoulli", [x], x.kind, x.sizes, **_seed(call))


@writes("dropout")
def _dropout(call: Call) -> Result:
    """Dropout: a factor in a test, otherwise a random mask."""
    x, nodes, p = call["X"], call.nodes, float(call.attr("dropout_prob"))
    scale = _kept_scale(p, call.attr("is_test"), call.attr("dropout_implementation"))
    if call.attr("is_test"):
        ones = nodes.full(nodes.dims(x), 1, "uint8")
        return [nodes.one("Identity", [x], x.kind, x.sizes) if scale == 1.0 else x * scale, ones]
    numbers = nodes.one("RandomUniformLike", [x], "float32", x.sizes, dtype=np.dtype("float32"), low=0.0, high=1.0, **_seed(call))
    mask = nodes.cast(on.greater_equal(numbers, p), "uint8")
    return [x * (nodes.cast(mask, x.kind) * scale), mask]
