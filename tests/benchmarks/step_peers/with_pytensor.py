"""PyTensor: shared variables, ``grad``, one compiled function with updates, in its default mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from tests.benchmarks.step_peers.protocol import BETA1, BETA2, EPSILON, HEADS, RATE, Array, Make, Params, Step, main

Symbols = dict[str, Any]
Updates = list[tuple[Any, Any]]
F = np.float32


def descent(p: Symbols, gradients: list[Any]) -> Updates:
    return [(value, value - F(RATE) * d) for value, d in zip(p.values(), gradients, strict=True)]


def adam(p: Symbols, gradients: list[Any]) -> Updates:
    taken = pytensor.shared(F(0))
    count = taken + F(1)
    updates: Updates = [(taken, count)]
    for value, d in zip(p.values(), gradients, strict=True):
        m, v = (pytensor.shared(np.zeros_like(value.get_value())) for _ in range(2))
        new_m, new_v = F(BETA1) * m + F(1 - BETA1) * d, F(BETA2) * v + F(1 - BETA2) * d * d
        step = F(RATE) * (new_m / (F(1) - F(BETA1) ** count)) / (pt.sqrt(new_v / (F(1) - F(BETA2) ** count)) + F(EPSILON))
        updates += [(m, new_m), (v, new_v), (value, value - step)]
    return updates


def inputs_of(feeds: list[Array]) -> list[Any]:
    return [pt.tensor(dtype=each.dtype.name, shape=each.shape) for each in feeds]


def compiled(inputs: list[Any], output: Any, updates: Updates, feeds: list[Array]) -> Step:
    function = pytensor.function([pytensor.In(each, borrow=True) for each in inputs], output, updates=updates)
    function.trust_input = True
    return lambda: function(*feeds)


def trained(loss: Callable[..., Any], update: Callable[[Symbols, list[Any]], Updates] = descent) -> Make:
    def make(params: Params, feeds: list[Array]) -> Step:
        p = {name: pytensor.shared(array, name, borrow=True, shape=array.shape) for name, array in params.items()}
        inputs = inputs_of(feeds)
        value = loss(p, *inputs)
        return compiled(inputs, value, update(p, pytensor.grad(value, list(p.values()))), feeds)

    return make


def small_mlp(p: Symbols, x: Any, y: Any) -> Any:
    return pt.mean(pt.sqr(pt.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"] - y))


def head(p: Symbols, h: Any, y: Any) -> Any:
    h = pt.maximum(h @ p["w1"] + p["b1"], F(0))
    h = pt.maximum(h @ p["w2"] + p["b2"], F(0))
    scores = pt.special.log_softmax(h @ p["w3"] + p["b3"], axis=1)
    return -pt.mean(scores[pt.arange(y.shape[0]), y[:, 0]])


def lenet(p: Symbols, x: Any, y: Any) -> Any:
    def conv(x: Any, i: int) -> Any:
        # PyTensor has no convolution of many channels: a matrix product with the windows.
        k = p[f"k{i}"]
        (f, c, size, _), (n, _, height, width) = k.get_value().shape, x.type.shape
        h, w = height - size + 1, width - size + 1
        windows = pt.stack([x[:, :, a : a + h, b : b + w] for a in range(size) for b in range(size)], axis=2)
        z = k.reshape((f, c * size * size)) @ windows.reshape((n, c * size * size, h * w)) + p[f"c{i}"][:, None]
        return pt.max(pt.maximum(z, F(0)).reshape((n, f, h // 2, 2, w // 2, 2)), axis=(3, 5))

    n, c, height, width = x.type.shape
    wide = pt.zeros((n, c, height + 4, width + 4), "float32")[:, :, 2:-2, 2:-2].set(x)
    h = conv(pt.specify_shape(wide, (n, c, height + 4, width + 4)), 1)
    return head(p, conv(pt.specify_shape(h, (n, 6, 14, 14)), 2).reshape((n, 400)), y)


def lstm(p: Symbols, x: Any) -> Any:
    width = p["W"].get_value().shape[0]

    def cell(now: Any, h: Any, c: Any, U: Any, W: Any, b: Any) -> list[Any]:
        z = now @ U + h @ W + b
        i, f, o, g = (z[:, k * width : (k + 1) * width] for k in range(4))
        c = pt.sigmoid(f) * c + pt.sigmoid(i) * pt.tanh(g)
        return [pt.sigmoid(o) * pt.tanh(c), c]

    start = pt.zeros((x.type.shape[1], width), "float32")
    states, _ = pytensor.scan(cell, [x], [start, start], [p["U"], p["W"], p["b"]], return_updates=False)
    return pt.mean(pt.sqr(states[-1]))


def transformer(p: Symbols, x: Any, y: Any) -> Any:
    batch, length, width = x.type.shape

    def norm(x: Any, i: int) -> Any:
        centered = x - pt.mean(x, axis=-1, keepdims=True)
        root = pt.sqrt(pt.mean(centered * centered, axis=-1, keepdims=True) + F(1e-5))
        return centered / root * p[f"gain{i}"] + p[f"bias{i}"]

    def split(x: Any) -> Any:
        return x.reshape((batch, length, HEADS, width // HEADS)).transpose(0, 2, 1, 3)

    n = norm(x, 1)
    q, k, v = split(n @ p["w1"] + p["b1"]), split(n @ p["w2"]), split(n @ p["w3"] + p["b3"])
    weights = pt.special.softmax((q @ k.transpose(0, 1, 3, 2)) * F((width // HEADS) ** -0.5), axis=-1)
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape((batch, length, width))
    x1 = mixed @ p["w4"] + p["b4"] + x
    h = pt.maximum(norm(x1, 2) @ p["w5"] + p["b5"], F(0))
    return pt.mean(pt.sqr(h @ p["w6"] + p["b6"] + x1 - y))


def chain(params: Params, feeds: list[Array]) -> Step:
    inputs = inputs_of(feeds)
    x, y = inputs
    t = x + y
    for _ in range(12):
        t = pt.maximum(t * y + x, y) - x
    return compiled(inputs, t * x, [], feeds)


MAKES: dict[str, Make] = {
    "small_mlp": trained(small_mlp),
    "mlp": trained(head),
    "lstm": trained(lstm),
    "lenet": trained(lenet),
    "chain": chain,
    "transformer": trained(transformer, adam),
}

if __name__ == "__main__":
    main(MAKES, "pytensor")
