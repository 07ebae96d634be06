"""Calls as numpy's, Fluid's and Paddle 2's documentation has them, one a line, and what numpy says: values, dtypes' kinds and slopes.

The lines were written from the documentation, without a look at graphad. ⏎ ends a line of a program that leaves its result in ``r``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from tests.documented_call import Array

LINES = Path(__file__).with_name("documented_habits.txt").read_text(encoding="utf-8").splitlines()
KINKED = ("argm", "argsort", "cast", "astype", "ceil", "floor", "round", "//", "%", "mod", "sign", "trunc", "one_hot", "full_like")


@cache
def arrays() -> dict[str, Array]:
    rng = np.random.default_rng(7)
    images = rng.normal(size=(2, 4, 5, 6))
    return {
        "x": rng.normal(size=(2, 3, 4)),
        "y": rng.normal(size=(2, 3, 4)),
        "m": rng.normal(size=(3, 4)),
        "n": rng.normal(size=(3, 4)),
        "k": rng.normal(size=(4, 5)),
        "v": rng.normal(size=(4,)),
        "s": rng.normal(size=(3, 3)),
        "c": rng.normal(size=(3, 1)),
        "p": rng.uniform(0.5, 2.0, size=(3, 4)),
        "q": rng.uniform(0.1, 0.9, size=(3, 4)),
        "z": rng.normal(size=(1, 3, 1, 4)),
        "seq": rng.normal(size=(3, 5, 4)),
        "im": images,
        "iml": images.transpose(0, 2, 3, 1).copy(),
        "vol": rng.normal(size=(1, 2, 4, 5, 6)),
        "lo": rng.normal(size=(3, 4)),
        "img8": rng.normal(size=(2, 8, 4, 4)),
        "i": np.array([2, 0, 1]),
        "j": np.array([[1], [0], [3]]),
        "ii": np.array([[0, 1], [2, 3]]),
        "u": np.array([3, 1, 2, 7], dtype="int32"),
        "lab1": np.array([1, 0, 3]),
        "len3": np.array([5, 2, 3]),
        "b": np.array([[True, False, True, True], [False, False, True, False], [True, True, False, False]]),
        "bb": np.array([True, False, True]),
    }


def sig(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def smax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def lsm(x: Array, axis: int = -1) -> Array:
    return np.asarray(np.log(smax(x, axis)))


def conv(x: Array, w: Array, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> Array:
    extent = (w.shape[2] - 1) * dilation + 1
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (extent, extent), (2, 3))[:, :, ::stride, ::stride, ::dilation, ::dilation]
    parts = zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", p, q) for p, q in parts], 1)


def pool(x: Array, size: int, stride: int, reduce: Callable[..., Any], padding: int = 0, fill: float = -np.inf) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride]
    return np.asarray(reduce(windows, axis=(4, 5)))


def W(*shape: int) -> Array:
    return np.full(shape, 0.1)


def P(value: float) -> Any:
    return L.ParamAttr(initializer=ga.initializer.Constant(value))


WORDS = {"L": L, "P": P, "W": W, "conv": conv, "pool": pool, "ga": ga, "fluid": ga, "np": np, "sig": sig, "smax": smax, "lsm": lsm}


def evaluated(code: str, names: dict[str, Any]) -> list[Any]:
    """The value of an expression, or of ``r`` after statements."""
    known = {**WORDS, **names}
    if ";" in code or "⏎" in code:
        exec(code.replace("⏎", "\n"), known)
        result = known["r"]
    else:
        result = eval(code, known)
    return list(result) if isinstance(result, list | tuple) else [result]


def weights(each: Array) -> Array:
    return np.asarray(np.sin(np.arange(each.size) + 1.0).reshape(each.shape))


def slope(reference: str, used: dict[str, Array], name: str, direction: Array) -> float:
    """The central difference of the reference along a direction."""

    def loss(array: Array) -> float:
        return float(sum((weights(np.asarray(each)) * each).sum() for each in evaluated(reference, {**used, name: array})))

    return (loss(used[name] + 1e-6 * direction) - loss(used[name] - 1e-6 * direction)) / 2e-6


@pytest.mark.parametrize("line", LINES)
def test_a_call_means_what_its_documentation_says(line: str) -> None:
    call, reference = line.split("  ⇒  ")
    mentioned = {node.id for node in ast.walk(ast.parse(call.replace("⏎", "\n"))) if isinstance(node, ast.Name)}
    used = {name: array for name, array in arrays().items() if name in mentioned}
    expected = [np.asarray(each) for each in evaluated(reference, dict(arrays()))]
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        floats = [name for name, array in used.items() if array.dtype == np.float64]
        inputs = {
            name: L.data(name, list(a.shape), append_batch_size=False, dtype=str(a.dtype), stop_gradient=name not in floats)
            for name, a in used.items()
        }
        outputs = evaluated(call, dict(inputs))
        smooth = floats and not any(word in call for word in KINKED) and all(each.dtype == "float64" for each in outputs)
        gradients = (
            ga.gradients(outputs, [inputs[name] for name in floats], [L.assign(weights(each)) for each in expected]) if smooth else []
        )
    executor, scope = ga.Executor(), ga.Scope()
    executor.run(startup, scope=scope)
    found = executor.run(main, used, [*outputs, *[each for each in gradients if each is not None]], scope=scope)
    for result, each in zip(found, expected, strict=False):
        assert result.shape == each.shape or result.size == each.size == 1
        assert result.dtype.kind == each.dtype.kind or {result.dtype.kind, each.dtype.kind} <= set("iuf")
        np.testing.assert_allclose(result.reshape(each.shape), each, rtol=2e-6, atol=1e-7)
    reached = [name for name, each in zip(floats, gradients, strict=False) if each is not None]
    for name, result in zip(reached, found[len(expected) :], strict=True):
        direction = np.cos(np.arange(result.size) * 1.5).reshape(result.shape)
        np.testing.assert_allclose((result * direction).sum(), slope(reference, used, name, direction), rtol=1e-5, atol=1e-6)
