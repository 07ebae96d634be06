"""Training steps written directly in JAX, as its users write them: a loss, ``jax.value_and_grad``, and an update of a tree of parameters.

They are what programs on XLA are measured against (``jax_steps``): the networks of ``training_steps``. Of the ways to write each that were
tried the quickest on a CPU is here: channels last, rows of batch and length together, products with the input inside the scan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.benchmarks.by_hand import EPSILON, RATE

Params = dict[str, jax.Array]
Loss = Callable[..., jax.Array]
Step = Callable[..., tuple[jax.Array, Any]]


def lenet(p: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    """Two convolutions, each with relu and 2 by 2 maximum pooling, three layers, and the cross entropy."""

    def conv(x: jax.Array, i: int, padding: int) -> jax.Array:
        around = [(padding, padding)] * 2
        z = lax.conv_general_dilated(x, p[f"k{i}"], (1, 1), around, dimension_numbers=("NHWC", "OIHW", "NHWC"))
        z = jax.nn.relu(z + p[f"c{i}"])
        return lax.reduce_window(z, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    h = conv(conv(x.transpose(0, 2, 3, 1), 1, 2), 2, 0).transpose(0, 3, 1, 2).reshape(len(x), -1)
    h = jax.nn.relu(h @ p["w1"] + p["b1"])
    h = jax.nn.relu(h @ p["w2"] + p["b2"])
    scores = jax.nn.log_softmax(h @ p["w3"] + p["b3"])
    return -jnp.take_along_axis(scores, y, axis=1).mean()


def lstm(p: Params, x: jax.Array) -> jax.Array:
    """``lax.scan`` over the steps; the mean of the squares of the last state."""

    def cell(state: tuple[jax.Array, jax.Array], now: jax.Array) -> Any:
        h, c = state
        i, f, o, g = jnp.split(now @ p["U"] + h @ p["W"] + p["b"], 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    start = jnp.zeros((x.shape[1], p["W"].shape[0]), x.dtype)
    (h, _), _ = lax.scan(cell, (start, start), x)
    return jnp.mean(h * h)


def transformer(p: Params, x: jax.Array, y: jax.Array, heads: int = 4) -> jax.Array:
    """Attention with heads and a network of two layers, each after a normalization and with the input added; the squared error."""
    batch, length, width = x.shape
    x, y = x.reshape(-1, width), y.reshape(-1, width)

    def norm(x: jax.Array, i: int) -> jax.Array:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * p[f"gain{i}"] + p[f"bias{i}"]

    def split(x: jax.Array) -> jax.Array:
        return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)

    n = norm(x, 1)
    q, k, v = split(n @ p["w1"] + p["b1"]), split(n @ p["w2"]), split(n @ p["w3"] + p["b3"])
    weights = jax.nn.softmax(q @ k.swapaxes(2, 3) * (width // heads) ** -0.5)
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(-1, width)
    x1 = mixed @ p["w4"] + p["b4"] + x
    h = jax.nn.relu(norm(x1, 2) @ p["w5"] + p["b5"])
    return jnp.mean(jnp.square(h @ p["w6"] + p["b6"] + x1 - y))


def descent(loss: Loss) -> Step:
    """Gradient descent: ``(feeds, parameters) -> (loss, parameters)``."""

    def step(feeds: list[jax.Array], p: Params) -> tuple[jax.Array, Params]:
        value, g = jax.value_and_grad(loss)(p, *feeds)
        return value, jax.tree.map(lambda a, b: a - float(RATE) * b, p, g)

    return step


def adam(loss: Loss, beta1: float = 0.9, beta2: float = 0.999) -> Step:
    """Adam (Kingma and Ba 2015), its state beside the parameters: ``(feeds, (parameters, m, v, t)) -> (loss, the same)``."""

    def step(feeds: list[jax.Array], state: Any) -> tuple[jax.Array, Any]:
        p, m, v, t = state
        value, g = jax.value_and_grad(loss)(p, *feeds)
        t = t + 1
        m = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, m, g)
        v = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, v, g)
        part1, part2 = 1 - beta1**t, 1 - beta2**t
        p = jax.tree.map(lambda p, m, v: p - float(RATE) * (m / part1) / (jnp.sqrt(v / part2) + float(EPSILON)), p, m, v)
        return value, (p, m, v, t)

    return step


def with_moments(p: Params) -> Any:
    """The state that ``adam`` begins with."""
    return p, jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p), jnp.zeros((), "float32")
