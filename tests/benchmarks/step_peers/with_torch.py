"""torch, eager: its own functions, ``backward``, updates in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from tests.benchmarks.step_peers.protocol import BETA1, BETA2, EPSILON, HEADS, RATE, Array, Make, Params, Step, main

Tensors = dict[str, Any]


def descended(loss: Callable[..., Any]) -> Make:
    def make(params: Params, feeds: list[Array]) -> Step:
        p = {name: torch.tensor(array, requires_grad=True) for name, array in params.items()}
        inputs = [torch.tensor(array) for array in feeds]

        def step() -> Any:
            value = loss(p, *inputs)
            value.backward()
            with torch.no_grad():
                for tensor in p.values():
                    tensor.add_(tensor.grad, alpha=-RATE)
                    tensor.grad = None
            return value.detach()

        return step

    return make


def with_adam(loss: Callable[..., Any]) -> Make:
    def make(params: Params, feeds: list[Array]) -> Step:
        p = {name: torch.tensor(array, requires_grad=True) for name, array in params.items()}
        inputs = [torch.tensor(array) for array in feeds]
        optimizer = torch.optim.Adam(p.values(), RATE, (BETA1, BETA2), EPSILON, fused=True)

        def step() -> Any:
            value = loss(p, *inputs)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            return value.detach()

        return step

    return make


def small_mlp(p: Tensors, x: Any, y: Any) -> Any:
    return F.mse_loss(torch.addmm(p["b2"], torch.tanh(torch.addmm(p["b1"], x, p["w1"])), p["w2"]), y)


def head(p: Tensors, h: Any, y: Any) -> Any:
    h = torch.relu(torch.addmm(p["b1"], h, p["w1"]))
    h = torch.relu(torch.addmm(p["b2"], h, p["w2"]))
    return F.cross_entropy(torch.addmm(p["b3"], h, p["w3"]), y[:, 0])


def lenet(p: Tensors, x: Any, y: Any) -> Any:
    h = F.max_pool2d(torch.relu(F.conv2d(x, p["k1"], p["c1"], padding=2)), 2)
    h = F.max_pool2d(torch.relu(F.conv2d(h, p["k2"], p["c2"])), 2)
    return head(p, h.flatten(1), y)


def lstm(p: Tensors, x: Any) -> Any:
    h = c = torch.zeros(x.shape[1], p["W"].shape[0])
    for now in x:
        i, f, o, g = (now @ p["U"] + h @ p["W"] + p["b"]).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h.square().mean()


def transformer(p: Tensors, x: Any, y: Any) -> Any:
    batch, length, width = x.shape

    def norm(x: Any, i: int) -> Any:
        return F.layer_norm(x, [width], p[f"gain{i}"], p[f"bias{i}"])

    def split(x: Any) -> Any:
        return x.view(batch, length, HEADS, width // HEADS).transpose(1, 2)

    n = norm(x, 1)
    q, k, v = split(n @ p["w1"] + p["b1"]), split(n @ p["w2"]), split(n @ p["w3"] + p["b3"])
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
    x1 = mixed @ p["w4"] + p["b4"] + x
    h = torch.relu(norm(x1, 2) @ p["w5"] + p["b5"])
    return F.mse_loss(h @ p["w6"] + p["b6"] + x1, y)


def chain(params: Params, feeds: list[Array]) -> Step:
    x, y = (torch.tensor(array) for array in feeds)

    def step() -> Any:
        t = x + y
        for _ in range(12):
            t = torch.maximum(t * y + x, y) - x
        return t * x

    return step


MAKES: dict[str, Make] = {
    "small_mlp": descended(small_mlp),
    "mlp": descended(head),
    "lstm": descended(lstm),
    "lenet": descended(lenet),
    "chain": chain,
    "transformer": with_adam(transformer),
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    main(MAKES, "torch")
