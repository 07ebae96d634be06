"""mygrad: tensors over numpy, ``backward``, updates in numpy; its checks of memory are off, as it advises for speed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mygrad as mg
import numpy as np
from mygrad.nnet.activations import relu, sigmoid, softmax
from mygrad.nnet.layers import conv_nd, max_pool
from mygrad.nnet.losses import softmax_crossentropy

from tests.benchmarks.step_peers.protocol import HEADS, Array, Make, Params, Step, adam, descent, main

Tensors = dict[str, Any]
Update = Callable[[Params], Callable[[Params], None]]


def trained(loss: Callable[..., Any], update: Update = descent) -> Make:
    def make(params: Params, feeds: list[Array]) -> Step:
        change = update(params)

        def step() -> Any:
            tensors = {name: mg.tensor(array, copy=False) for name, array in params.items()}
            value = loss(tensors, *feeds)
            value.backward()
            change({name: tensor.grad for name, tensor in tensors.items()})
            return value.data

        return step

    return make


def small_mlp(p: Tensors, x: Array, y: Array) -> Any:
    return mg.mean(mg.square(mg.matmul(mg.tanh(mg.matmul(x, p["w1"]) + p["b1"]), p["w2"]) + p["b2"] - y))


def head(p: Tensors, h: Any, y: Array) -> Any:
    h = relu(mg.matmul(h, p["w1"]) + p["b1"])
    h = relu(mg.matmul(h, p["w2"]) + p["b2"])
    return softmax_crossentropy(mg.matmul(h, p["w3"]) + p["b3"], y[:, 0])


def lenet(p: Tensors, x: Array, y: Array) -> Any:
    def conv(x: Any, i: int, padding: int) -> Any:
        z = conv_nd(x, p[f"k{i}"], stride=1, padding=padding) + mg.reshape(p[f"c{i}"], (1, -1, 1, 1))
        return max_pool(relu(z), (2, 2), 2)

    h = conv(conv(x, 1, 2), 2, 0)
    return head(p, mg.reshape(h, (len(x), -1)), y)


def lstm(p: Tensors, x: Array) -> Any:
    width = p["W"].shape[0]
    h = c = np.zeros((x.shape[1], width), "float32")
    for now in x:
        z = mg.matmul(now, p["U"]) + mg.matmul(h, p["W"]) + p["b"]
        i, f, o, g = (z[:, k * width : (k + 1) * width] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * mg.tanh(g)
        h = sigmoid(o) * mg.tanh(c)
    return mg.mean(h * h)


def transformer(p: Tensors, x: Array, y: Array) -> Any:
    batch, length, width = x.shape

    def norm(x: Any, i: int) -> Any:
        centered = x - mg.mean(x, axis=-1, keepdims=True)
        root = mg.sqrt(mg.mean(centered * centered, axis=-1, keepdims=True) + np.float32(1e-5))
        return centered / root * p[f"gain{i}"] + p[f"bias{i}"]

    def split(x: Any) -> Any:
        return mg.transpose(mg.reshape(x, (batch, length, HEADS, width // HEADS)), (0, 2, 1, 3))

    n = norm(x, 1)
    q, k, v = split(mg.matmul(n, p["w1"]) + p["b1"]), split(mg.matmul(n, p["w2"])), split(mg.matmul(n, p["w3"]) + p["b3"])
    weights = softmax(mg.matmul(q, mg.swapaxes(k, 2, 3)) * np.float32((width // HEADS) ** -0.5), axis=-1)
    mixed = mg.reshape(mg.transpose(mg.matmul(weights, v), (0, 2, 1, 3)), (batch, length, width))
    x1 = mg.matmul(mixed, p["w4"]) + p["b4"] + x
    h = relu(mg.matmul(norm(x1, 2), p["w5"]) + p["b5"])
    return mg.mean(mg.square(mg.matmul(h, p["w6"]) + p["b6"] + x1 - y))


def chain(params: Params, feeds: list[Array]) -> Step:
    x, y = (mg.tensor(each, constant=True) for each in feeds)

    def step() -> Any:
        t = x + y
        for _ in range(12):
            t = mg.maximum(t * y + x, y) - x
        return (t * x).data

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
    mg.turn_memory_guarding_off()
    main(MAKES, "mygrad")
