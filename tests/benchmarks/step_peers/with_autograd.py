"""autograd: numpy's functions from ``autograd.numpy``, ``value_and_grad``, updates in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd.numpy as np
from autograd import value_and_grad
from autograd.scipy.signal import convolve

from tests.benchmarks.step_peers.protocol import HEADS, Array, Make, Params, Step, adam, descent, main

Update = Callable[[Params], Callable[[Params], None]]


def trained(loss: Callable[..., Any], update: Update = descent) -> Make:
    def make(params: Params, feeds: list[Array]) -> Step:
        both, change = value_and_grad(loss), update(params)

        def step() -> Any:
            value, gradients = both(params, *feeds)
            change(gradients)
            return value

        return step

    return make


def small_mlp(p: Params, x: Array, y: Array) -> Any:
    return np.mean(np.square(np.dot(np.tanh(np.dot(x, p["w1"]) + p["b1"]), p["w2"]) + p["b2"] - y))


def head(p: Params, h: Array, y: Array) -> Any:
    h = np.maximum(np.dot(h, p["w1"]) + p["b1"], 0)
    h = np.maximum(np.dot(h, p["w2"]) + p["b2"], 0)
    z = np.dot(h, p["w3"]) + p["b3"]
    z = z - np.max(z, axis=1, keepdims=True)
    scores = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(scores[np.arange(len(y)), y[:, 0]])


def conv(x: Array, k: Array, c: Array) -> Any:
    turned = k[:, :, ::-1, ::-1]  # what networks call a convolution is a correlation
    z = convolve(x, turned, axes=([2, 3], [2, 3]), dot_axes=([1], [1]), mode="valid") + c[:, None, None]
    n, f, h, w = z.shape
    return np.max(np.maximum(z, 0).reshape(n, f, h // 2, 2, w // 2, 2), axis=(3, 5))


def lenet(p: Params, x: Array, y: Array) -> Any:
    wide = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)), "constant")
    h = conv(conv(wide, p["k1"], p["c1"]), p["k2"], p["c2"])
    return head(p, h.reshape(len(x), -1), y)


def sigmoid(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(p: Params, x: Array) -> Any:
    width = p["W"].shape[0]
    h = c = np.zeros((x.shape[1], width), "float32")
    for now in x:
        z = np.dot(now, p["U"]) + np.dot(h, p["W"]) + p["b"]
        i, f, o, g = (z[:, k * width : (k + 1) * width] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return np.mean(h * h)


def transformer(p: Params, x: Array, y: Array) -> Any:
    batch, length, width = x.shape

    def norm(x: Array, i: int) -> Any:
        centered = x - np.mean(x, axis=-1, keepdims=True)
        root = np.sqrt(np.mean(centered * centered, axis=-1, keepdims=True) + np.float32(1e-5))
        return centered / root * p[f"gain{i}"] + p[f"bias{i}"]

    def split(x: Array) -> Any:
        return np.transpose(np.reshape(x, (batch, length, HEADS, width // HEADS)), (0, 2, 1, 3))

    n = norm(x, 1)
    q, k, v = split(np.dot(n, p["w1"]) + p["b1"]), split(np.dot(n, p["w2"])), split(np.dot(n, p["w3"]) + p["b3"])
    s = np.matmul(q, np.swapaxes(k, 2, 3)) * (width // HEADS) ** -0.5
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    mixed = np.matmul(e / np.sum(e, axis=-1, keepdims=True), v)
    x1 = np.dot(np.reshape(np.transpose(mixed, (0, 2, 1, 3)), (batch, length, width)), p["w4"]) + p["b4"] + x
    h = np.maximum(np.dot(norm(x1, 2), p["w5"]) + p["b5"], 0)
    return np.mean(np.square(np.dot(h, p["w6"]) + p["b6"] + x1 - y))


def chain(params: Params, feeds: list[Array]) -> Step:
    x, y = feeds

    def step() -> Any:
        t = x + y
        for _ in range(12):
            t = np.maximum(t * y + x, y) - x
        return t * x

    return step


MAKES: dict[str, Make] = {
    "small_mlp": trained(small_mlp),
    "mlp": trained(head),
    "lstm": trained(lstm),
    "lenet": trained(lenet),
    "chain": chain,
    "transformer": trained(transformer, adam),
}

if __name__ == "__main__":
    main(MAKES, "autograd")
