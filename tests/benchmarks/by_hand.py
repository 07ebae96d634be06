"""Training steps written by hand in numpy: every array is allocated once, and each operation writes into one with ``out=``.

They are what graphad's executor is measured against (``training_steps``). A step computes the loss and the gradients, and updates the
parameters in place.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[Any]
Params = dict[str, Array]
F = np.float32
RATE = F(0.01)
EPSILON = F(1e-4)  # of Adam: with a smaller one a step says of next to no gradient only which sign it has


class ByHand:
    """Parameters, their gradients and the arrays of a step."""

    def __init__(self, params: Params) -> None:
        self.p = {name: array.copy() for name, array in params.items()}
        self.g = {name: np.empty_like(array) for name, array in params.items()}
        self.kept: dict[str, Array] = {}

    def array(self, name: str, *shape: int) -> Array:
        """An array that the steps share."""
        found = self.kept.get(name)
        if found is None:
            found = self.kept[name] = np.empty(shape, F)
        return found

    def descend(self) -> None:
        """Gradient descent, in place."""
        for name, gradient in self.g.items():
            step = self.array(f"step {name}", *gradient.shape)
            np.multiply(gradient, RATE, out=step)
            np.subtract(self.p[name], step, out=self.p[name])

    def step(self, *feeds: Array) -> Array:
        """One step of training; the loss."""
        raise NotImplementedError


class SmallMLP(ByHand):
    """tanh(x w1 + b1) w2 + b2, and the mean of the squared error."""

    def __init__(self, params: Params, batch: int) -> None:
        super().__init__(params)
        hidden = params["b1"].size
        self.h, self.dh, self.t = (np.empty((batch, hidden), F) for _ in range(3))
        self.o, self.d = np.empty((batch, 1), F), np.empty((batch, 1), F)
        self.loss = np.empty((), F)
        self.steps = {name: np.empty_like(array) for name, array in params.items()}
        self.share = F(1 / batch)
        self.twice = F(2 / batch)

    def step(self, x: Array, y: Array) -> Array:  # type: ignore[override]
        p, g, h, o, d, dh = self.p, self.g, self.h, self.o, self.d, self.dh
        np.matmul(x, p["w1"], out=h)
        np.add(h, p["b1"], out=h)
        np.tanh(h, out=h)
        np.matmul(h, p["w2"], out=o)
        np.add(o, p["b2"], out=o)
        np.subtract(o, y, out=o)
        np.multiply(o, o, out=d)
        np.add.reduce(d, axis=None, out=self.loss)
        np.multiply(self.loss, self.share, out=self.loss)
        np.multiply(o, self.twice, out=d)
        np.add.reduce(d, axis=0, out=g["b2"])
        np.matmul(h.T, d, out=g["w2"])
        np.matmul(d, p["w2"].T, out=dh)
        np.multiply(h, h, out=self.t)
        np.subtract(F(1), self.t, out=self.t)
        np.multiply(dh, self.t, out=dh)
        np.add.reduce(dh, axis=0, out=g["b1"])
        np.matmul(x.T, dh, out=g["w1"])
        for name, step in self.steps.items():
            np.multiply(g[name], RATE, out=step)
            np.subtract(p[name], step, out=p[name])
        return self.loss


def cross_entropy(owner: ByHand, logits: Array, labels: Array) -> tuple[Array, Array]:
    """The mean cross entropy of the softmax, and its gradient with respect to the logits."""
    batch, classes = logits.shape
    top, e, rows = owner.array("top", batch, 1), owner.array("e", batch, classes), np.arange(batch)
    np.maximum.reduce(logits, axis=1, keepdims=True, out=top)
    np.subtract(logits, top, out=e)
    picked = e[rows, labels[:, 0]]
    np.exp(e, out=e)
    np.add.reduce(e, axis=1, keepdims=True, out=top)
    loss = np.asarray((np.log(top[:, 0]) - picked).mean())
    np.divide(e, top, out=e)
    e[rows, labels[:, 0]] -= F(1)
    np.multiply(e, F(1 / batch), out=e)
    return loss, e


def dense(owner: ByHand, x: Array, i: int) -> Array:
    w, b = owner.p[f"w{i}"], owner.p.get(f"b{i}")
    z = owner.array(f"z{i}", len(x), w.shape[1])
    np.matmul(x, w, out=z)
    return z if b is None else np.add(z, b, out=z)


def dense_grad(owner: ByHand, x: Array, d: Array, i: int, wanted: bool) -> Array:
    """The gradients of a layer's parameters, and of its input if that is wanted."""
    if f"b{i}" in owner.g:
        np.add.reduce(d, axis=0, out=owner.g[f"b{i}"])
    np.matmul(x.T, d, out=owner.g[f"w{i}"])
    return np.matmul(d, owner.p[f"w{i}"].T, out=owner.array(f"dx{i}", *x.shape)) if wanted else d


def relu_grad(owner: ByHand, name: str, y: Array, d: Array) -> Array:
    mask = owner.kept.setdefault(f"mask {name}", np.empty(y.shape, bool))
    np.greater(y, 0, out=mask)
    return np.multiply(d, mask, out=d)


class MLP(ByHand):
    """Three layers with relu between them, and the cross entropy."""

    def step(self, x: Array, y: Array) -> Array:  # type: ignore[override]
        h1 = dense(self, x, 1)
        np.maximum(h1, 0, out=h1)
        h2 = dense(self, h1, 2)
        np.maximum(h2, 0, out=h2)
        loss, d = cross_entropy(self, dense(self, h2, 3), y)
        d = relu_grad(self, "2", h2, dense_grad(self, h2, d, 3, True))
        d = relu_grad(self, "1", h1, dense_grad(self, h1, d, 2, True))
        dense_grad(self, x, d, 1, False)
        self.descend()
        return loss


class LSTM(ByHand):
    """A recurrent network over the steps of a sequence, all its gates in one product; the mean square of the last state."""

    def __init__(self, params: Params, steps: int, batch: int) -> None:
        super().__init__(params)
        self.hidden = H = params["W"].shape[0]
        self.h, self.c = np.zeros((steps + 1, batch, H), F), np.zeros((steps + 1, batch, H), F)
        self.gates, self.tanh_c = np.empty((steps, 4, batch, H), F), np.empty((steps, batch, H), F)
        self.z, self.z2, self.dz = (np.empty((batch, 4 * H), F) for _ in range(3))
        self.dh, self.dc, self.t, self.s = (np.empty((batch, H), F) for _ in range(4))

    def forward(self, x: Array) -> None:
        H, z, z2, p = self.hidden, self.z, self.z2, self.p
        for t, part in enumerate(x):
            np.matmul(part, p["U"], out=z)
            np.matmul(self.h[t], p["W"], out=z2)
            np.add(z, z2, out=z)
            np.add(z, p["b"], out=z)
            gates = self.gates[t]
            for k in range(3):
                gate = gates[k]
                np.negative(z[:, k * H : (k + 1) * H], out=gate)
                np.exp(gate, out=gate)
                np.add(gate, F(1), out=gate)
                np.reciprocal(gate, out=gate)
            i, f, o, g = gates
            np.tanh(z[:, 3 * H :], out=g)
            np.multiply(f, self.c[t], out=self.c[t + 1])
            np.multiply(i, g, out=self.t)
            np.add(self.c[t + 1], self.t, out=self.c[t + 1])
            np.tanh(self.c[t + 1], out=self.tanh_c[t])
            np.multiply(o, self.tanh_c[t], out=self.h[t + 1])

    def backward(self, x: Array) -> None:
        H, dz, dh, dc, t, s, p, g = self.hidden, self.dz, self.dh, self.dc, self.t, self.s, self.p, self.g
        for gradient in g.values():
            gradient.fill(0)
        for step in reversed(range(len(x))):
            i, f, o, gate = self.gates[step]
            th = self.tanh_c[step]
            np.multiply(th, th, out=t)
            np.subtract(F(1), t, out=t)
            np.multiply(t, o, out=t)
            np.multiply(t, dh, out=t)
            np.add(dc, t, out=dc)
            np.multiply(gate, gate, out=t)
            np.subtract(F(1), t, out=t)
            np.multiply(t, i, out=t)
            np.multiply(t, dc, out=dz[:, 3 * H :])
            for k, (y, other, d) in enumerate(((i, gate, dc), (f, self.c[step], dc), (o, th, dh))):
                np.subtract(F(1), y, out=t)
                np.multiply(t, y, out=t)
                np.multiply(other, d, out=s)
                np.multiply(t, s, out=dz[:, k * H : (k + 1) * H])
            np.multiply(dc, f, out=dc)
            g["U"] += np.matmul(x[step].T, dz, out=self._like("U"))
            g["W"] += np.matmul(self.h[step].T, dz, out=self._like("W"))
            g["b"] += np.add.reduce(dz, axis=0, out=self._like("b"))
            np.matmul(dz, p["W"].T, out=dh)

    def _like(self, name: str) -> Array:
        return self.array(f"part {name}", *self.p[name].shape)

    def step(self, x: Array) -> Array:  # type: ignore[override]
        self.forward(x)
        last = self.h[len(x)]
        np.multiply(last, last, out=self.t)
        loss = np.asarray(self.t.mean())
        np.multiply(last, F(2 / last.size), out=self.dh)
        self.dc.fill(0)
        self.backward(x)
        self.descend()
        return loss


class LeNet(ByHand):
    """Two convolutions, each with relu and 2 by 2 maximum pooling, three layers, and the cross entropy."""

    def convolved(self, x: Array, i: int, padding: int) -> Array:
        w = self.p[f"k{i}"]
        out, channels, size, _ = w.shape
        batch, _, height, width = x.shape
        if padding:
            wide = self.kept.setdefault(f"wide {i}", np.zeros((batch, channels, height + 2 * padding, width + 2 * padding), F))
            wide[:, :, padding:-padding, padding:-padding] = x
            x = wide
        rows, columns = x.shape[2] - size + 1, x.shape[3] - size + 1
        patches = self.array(f"patches {i}", channels * size * size, batch * rows * columns)
        windows = sliding_window_view(x, (size, size), axis=(2, 3))
        patches.reshape(channels, size, size, batch, rows, columns)[...] = windows.transpose(1, 4, 5, 0, 2, 3)
        product = self.array(f"product {i}", out, batch * rows * columns)
        np.matmul(w.reshape(out, -1), patches, out=product)
        np.add(product, self.p[f"c{i}"][:, None], out=product)
        np.maximum(product, 0, out=product)
        return product.reshape(out, batch, rows, columns)

    def pooled(self, y: Array, i: int) -> Array:
        """The maximum of each 2 by 2 square: channels, batch, rows, columns."""
        quarters = [y[:, :, a::2, b::2] for a in (0, 1) for b in (0, 1)]
        best, other = self.array(f"best {i}", *quarters[0].shape), self.array(f"other {i}", *quarters[0].shape)
        np.maximum(quarters[0], quarters[1], out=best)
        np.maximum(quarters[2], quarters[3], out=other)
        return np.maximum(best, other, out=best)

    def pooled_grad(self, y: Array, best: Array, d: Array, i: int) -> Array:
        """The cotangent to the first element of each square that is its maximum."""
        dy, left = self.array(f"dy {i}", *y.shape), self.kept.setdefault(f"left {i}", np.empty(best.shape, bool))
        hit = self.kept.setdefault(f"hit {i}", np.empty(best.shape, bool))
        left.fill(True)
        for a in (0, 1):
            for b in (0, 1):
                np.equal(y[:, :, a::2, b::2], best, out=hit)
                np.logical_and(hit, left, out=hit)
                np.multiply(d, hit, out=dy[:, :, a::2, b::2])
                np.logical_xor(left, hit, out=left)
        return relu_grad(self, f"conv {i}", y, dy)

    def filters_grad(self, d: Array, i: int) -> Array:
        flat = d.reshape(d.shape[0], -1)
        np.add.reduce(flat, axis=1, out=self.g[f"c{i}"])
        np.matmul(flat, self.kept[f"patches {i}"].T, out=self.g[f"k{i}"].reshape(len(flat), -1))
        return flat

    def image_grad(self, flat: Array, i: int, shape: tuple[int, ...]) -> Array:
        """The cotangent of the image that was convolved: channels, batch, rows, columns."""
        w = self.p[f"k{i}"]
        out, channels, size, _ = w.shape
        patches = self.kept[f"patches {i}"]
        np.matmul(w.reshape(out, -1).T, flat, out=patches)
        channels, batch, height, width = shape
        rows, columns = height - size + 1, width - size + 1
        dx = self.array(f"dimage {i}", *shape)
        dx.fill(0)
        parts = patches.reshape(channels, size, size, batch, rows, columns)
        for a in range(size):
            for b in range(size):
                dx[:, :, a : a + rows, b : b + columns] += parts[:, a, b]
        return dx

    def step(self, x: Array, y: Array) -> Array:  # type: ignore[override]
        y1 = self.convolved(x, 1, 2)
        p1 = self.pooled(y1, 1)
        y2 = self.convolved(p1.transpose(1, 0, 2, 3), 2, 0)
        p2 = self.pooled(y2, 2)
        flat = self.array("flat", len(x), p2.size // len(x))
        flat.reshape(len(x), p2.shape[0], *p2.shape[2:])[...] = p2.transpose(1, 0, 2, 3)
        h1 = dense(self, flat, 1)
        np.maximum(h1, 0, out=h1)
        h2 = dense(self, h1, 2)
        np.maximum(h2, 0, out=h2)
        loss, d = cross_entropy(self, dense(self, h2, 3), y)
        d = relu_grad(self, "2", h2, dense_grad(self, h2, d, 3, True))
        d = relu_grad(self, "1", h1, dense_grad(self, h1, d, 2, True))
        d = dense_grad(self, flat, d, 1, True).reshape(len(x), p2.shape[0], *p2.shape[2:]).transpose(1, 0, 2, 3)
        d = self.image_grad(self.filters_grad(self.pooled_grad(y2, p2, d, 2), 2), 2, p1.shape)
        self.filters_grad(self.pooled_grad(y1, p1, d, 1), 1)
        self.descend()
        return loss


class Chain(ByHand):
    """Fifty elementwise operators, forward alone; the result stands for the loss."""

    def step(self, x: Array, y: Array) -> Array:  # type: ignore[override]
        t = self.array("t", *x.shape)
        np.add(x, y, out=t)
        for _ in range(12):
            np.multiply(t, y, out=t)
            np.add(t, x, out=t)
            np.maximum(t, y, out=t)
            np.subtract(t, x, out=t)
        return np.multiply(t, x, out=t)


class NumbaChain(Chain):
    """The same as one loop of numba's, as one writes it: ``max`` loses nan where numpy's keeps it."""

    def __init__(self, params: Params) -> None:
        super().__init__(params)

        def loop(x: Array, y: Array, result: Array) -> None:
            for i in range(result.size):
                t = x[i] + y[i]
                for _ in range(12):
                    t = max(t * y[i] + x[i], y[i]) - x[i]
                result[i] = t * x[i]

        self.loop = import_module("numba").njit("void(float32[::1], float32[::1], float32[::1])")(loop)

    def step(self, x: Array, y: Array) -> Array:  # type: ignore[override]
        t = self.array("t", *x.shape)
        self.loop(x, y, t)
        return t


class Transformer(ByHand):
    """One block: attention with heads and a network of two layers, each after a normalization and with the input added; Adam."""

    def __init__(self, params: Params, heads: int) -> None:
        super().__init__(params)
        self.heads = heads
        self.m, self.v = ({n: np.zeros_like(a) for n, a in params.items()} for _ in range(2))
        self.powers = [F(0.9), F(0.999)]

    def normalized(self, x: Array, i: int) -> Array:
        n, mean, root = self.array(f"n{i}", *x.shape), self.array(f"mean{i}", len(x), 1), self.array(f"root{i}", len(x), 1)
        y = self.array(f"y{i}", *x.shape)
        np.add.reduce(x, axis=1, keepdims=True, out=mean)
        np.multiply(mean, F(1 / x.shape[1]), out=mean)
        np.subtract(x, mean, out=n)
        np.multiply(n, n, out=y)
        np.add.reduce(y, axis=1, keepdims=True, out=root)
        np.multiply(root, F(1 / x.shape[1]), out=root)
        np.add(root, F(1e-5), out=root)
        np.sqrt(root, out=root)
        np.divide(n, root, out=n)
        np.multiply(n, self.p[f"gain{i}"], out=y)
        return np.add(y, self.p[f"bias{i}"], out=y)

    def normalized_grad(self, d: Array, i: int) -> Array:
        n, root, t = self.kept[f"n{i}"], self.kept[f"root{i}"], self.array(f"t{i}", *d.shape)
        np.add.reduce(d, axis=0, out=self.g[f"bias{i}"])
        np.multiply(d, n, out=t)
        np.add.reduce(t, axis=0, out=self.g[f"gain{i}"])
        np.multiply(d, self.p[f"gain{i}"], out=d)
        np.multiply(d, n, out=t)
        mean, along = self.array(f"dmean{i}", len(d), 1), self.array(f"dalong{i}", len(d), 1)
        np.add.reduce(d, axis=1, keepdims=True, out=mean)
        np.add.reduce(t, axis=1, keepdims=True, out=along)
        np.multiply(mean, F(1 / d.shape[1]), out=mean)
        np.multiply(along, F(1 / d.shape[1]), out=along)
        np.multiply(n, along, out=t)
        np.subtract(d, mean, out=d)
        np.subtract(d, t, out=d)
        return np.divide(d, root, out=d)

    def attention(self, q: Array, k: Array, v: Array) -> Array:
        """Softmax of q k^T / sqrt(width), times v: all of shape [batch, heads, length, width]."""
        batch, heads, length, width = q.shape
        s, top = self.array("scores", batch, heads, length, length), self.array("highest", batch, heads, length, 1)
        np.matmul(q, k.swapaxes(2, 3), out=s)
        np.multiply(s, F(width**-0.5), out=s)
        np.maximum.reduce(s, axis=3, keepdims=True, out=top)
        np.subtract(s, top, out=s)
        np.exp(s, out=s)
        np.add.reduce(s, axis=3, keepdims=True, out=top)
        np.divide(s, top, out=s)
        return np.matmul(s, v, out=self.array("mixed", *q.shape))

    def attention_grad(self, q: Array, k: Array, v: Array, d: Array) -> tuple[Array, Array, Array]:
        s = self.kept["scores"]
        ds, t, along = self.array("dscores", *s.shape), self.array("tscores", *s.shape), self.array("dhighest", *s.shape[:3], 1)
        dv = np.matmul(s.swapaxes(2, 3), d, out=self.array("dv", *v.shape))
        np.matmul(d, v.swapaxes(2, 3), out=ds)
        np.multiply(ds, s, out=t)
        np.add.reduce(t, axis=3, keepdims=True, out=along)
        np.subtract(ds, along, out=ds)
        np.multiply(ds, s, out=ds)
        np.multiply(ds, F(q.shape[3] ** -0.5), out=ds)
        dq = np.matmul(ds, k, out=self.array("dq", *q.shape))
        dk = np.matmul(ds.swapaxes(2, 3), q, out=self.array("dk", *k.shape))
        return dq, dk, dv

    def split(self, x: Array, batch: int) -> Array:
        return x.reshape(batch, -1, self.heads, x.shape[1] // self.heads).transpose(0, 2, 1, 3)

    def joined(self, x: Array, name: str) -> Array:
        batch, heads, length, width = x.shape
        found = self.array(name, batch * length, heads * width)
        found.reshape(batch, length, heads, width)[...] = x.transpose(0, 2, 1, 3)
        return found

    def adam(self) -> None:
        p1, p2 = self.powers
        correction = np.sqrt(F(1) - p2)
        rate = F(RATE * correction / (F(1) - p1))
        for name, g in self.g.items():
            m, v, t, s = self.m[name], self.v[name], self.array(f"t {name}", *g.shape), self.array(f"s {name}", *g.shape)
            np.multiply(m, F(0.9), out=m)
            np.multiply(g, F(1 - 0.9), out=t)
            np.add(m, t, out=m)
            np.multiply(v, F(0.999), out=v)
            np.multiply(g, g, out=t)
            np.multiply(t, F(1 - 0.999), out=t)
            np.add(v, t, out=v)
            np.sqrt(v, out=t)
            np.add(t, EPSILON * correction, out=t)
            np.multiply(m, rate, out=s)
            np.divide(s, t, out=s)
            np.subtract(self.p[name], s, out=self.p[name])
        self.powers = [F(p1 * F(0.9)), F(p2 * F(0.999))]

    def step(self, x: Array, y: Array) -> Array:  # type: ignore[override]
        batch, width = x.shape[0], x.shape[2]
        x0, target = x.reshape(-1, width), y.reshape(-1, width)
        n1 = self.normalized(x0, 1)
        q, k, v = (self.split(dense(self, n1, i), batch) for i in (1, 2, 3))
        mixed = self.joined(self.attention(q, k, v), "joined")
        x1 = dense(self, mixed, 4)
        np.add(x1, x0, out=x1)
        n2 = self.normalized(x1, 2)
        h = dense(self, n2, 5)
        np.maximum(h, 0, out=h)
        x2 = dense(self, h, 6)
        np.add(x2, x1, out=x2)
        np.subtract(x2, target, out=x2)
        square = np.multiply(x2, x2, out=self.array("square", *x2.shape))
        loss = np.asarray(square.mean())
        d = np.multiply(x2, F(2 / x2.size), out=square)
        dh = relu_grad(self, "h", h, dense_grad(self, h, d, 6, True))
        dn = self.normalized_grad(dense_grad(self, n2, dh, 5, True), 2)
        np.add(d, dn, out=d)
        dmixed = self.split(dense_grad(self, mixed, d, 4, True), batch)
        parts = self.attention_grad(q, k, v, dmixed)
        dn1 = [dense_grad(self, n1, self.joined(part, f"d{i}"), i, True) for i, part in enumerate(parts, 1)]
        np.add(dn1[0], dn1[1], out=dn1[0])
        np.add(dn1[0], dn1[2], out=dn1[0])
        self.normalized_grad(dn1[0], 1)
        self.adam()
        return loss
