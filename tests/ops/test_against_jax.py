"""Values, first and second derivatives of operators against jax's functions of the same meaning, where jax is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.ops.sample import away_from_zero, uniform
from graphad.types import Array
from tests.shares import one_in

jax: Any = pytest.importorskip("jax", reason="jax, which gives a second opinion on the operators, is not installed")
jax.config.update("jax_enable_x64", True)
jnp, nn = jax.numpy, jax.nn
# Compiling is most of the work, and the functions run once.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

SIGNED, POSITIVE, SMALL = away_from_zero(2, 3), uniform(2, 3, low=0.3, high=2.0), uniform(2, 3, low=-0.9, high=0.9)
X, Y, BATCH = uniform(2, 3), uniform(2, 3, seed=1), uniform(2, 3, 4)
SQUARE = uniform(3, 3) + 2 * np.eye(3)
Inputs = dict[str, Array]
Row = tuple[str, Inputs, Callable[..., Any], dict[str, Any]]


def unary(op: str, function: Callable[..., Any], x: Array = SIGNED, **attrs: Any) -> Row:
    return op, {"X": x}, function, attrs


ROWS: Sequence[Row] = (
    *(unary(op, getattr(jnp, op)) for op in ("exp", "expm1", "square", "sin", "cos", "sinh", "cosh", "tanh", "abs", "reciprocal")),
    *(unary(op, getattr(jnp, op), POSITIVE) for op in ("log", "log2", "log10", "log1p", "sqrt")),
    *(unary(op, getattr(jnp, f"arc{op[1:]}"), SMALL) for op in ("asin", "acos", "atan", "asinh", "atanh")),
    *(unary(op, getattr(nn, op)) for op in ("relu", "sigmoid", "silu", "softplus", "mish", "selu")),
    unary("logsigmoid", nn.log_sigmoid),
    unary("softsign", nn.soft_sign),
    unary("gelu", lambda x: nn.gelu(x, approximate=False)),
    unary("gelu", nn.gelu, approximate=True),
    unary("elu", lambda x: nn.elu(x, 0.7), alpha=0.7),
    unary("celu", lambda x: nn.celu(x, 0.7), alpha=0.7),
    unary("erf", jax.scipy.special.erf),
    unary("rsqrt", jax.lax.rsqrt, POSITIVE),
    unary("lgamma", jax.scipy.special.gammaln, POSITIVE),
    unary("pow", lambda x: x**2.5, POSITIVE, factor=2.5),
    unary("scale", lambda x: 2.0 * x + 0.5, scale=2.0, bias=0.5),
    unary("softmax", lambda x: nn.softmax(x, 1), BATCH, axis=1),
    unary("log_softmax", lambda x: nn.log_softmax(x, 2), BATCH, axis=2),
    unary("logsumexp", lambda x: nn.logsumexp(x, 1), BATCH, axis=[1]),
    unary("reduce_sum", lambda x: x.sum((0, 2)), BATCH, dim=[0, 2]),
    unary("reduce_mean", lambda x: x.mean(1, keepdims=True), BATCH, dim=[1], keep_dim=True),
    unary("reduce_prod", lambda x: x.prod(1), BATCH, dim=[1]),
    unary("cumsum", lambda x: x.cumsum(1), BATCH, axis=1),
    unary("cumprod", lambda x: x.cumprod(1), SIGNED, dim=1),
    unary("transpose2", lambda x: x.transpose(2, 0, 1), BATCH, axis=[2, 0, 1]),
    ("elementwise_mul", {"X": X, "Y": Y[0]}, jnp.multiply, {}),
    ("elementwise_div", {"X": X, "Y": away_from_zero(2, 3)}, jnp.divide, {}),
    ("elementwise_pow", {"X": POSITIVE, "Y": Y}, jnp.power, {}),
    ("atan2", {"X1": X, "X2": Y}, jnp.arctan2, {}),
    ("matmul_v2", {"X": BATCH, "Y": BATCH[:1]}, lambda x, y: x @ y.swapaxes(1, 2), {"trans_y": True}),
    ("bmm", {"X": BATCH, "Y": uniform(2, 4, 2)}, jnp.matmul, {}),
    ("kron", {"X": X, "Y": Y}, jnp.kron, {}),
    ("inverse", {"Input": SQUARE}, jnp.linalg.inv, {}),
    ("solve", {"X": SQUARE, "Y": uniform(3, 2)}, jnp.linalg.solve, {}),
)


class Both:
    """A weighted sum of an operator's output, here and in jax, and its derivatives in random directions."""

    def __init__(self, row: Row) -> None:
        op, self.inputs, self.function, attrs = row
        rng = np.random.default_rng(4)
        self.weights = rng.uniform(0.5, 1.5, np.shape(self.function(*self.inputs.values())))
        self.directions = [rng.normal(size=x.shape) for x in self.inputs.values()]
        self.program = ga.Program()
        self.block = self.program.global_block()
        self.variables = [self.block.create_var(f"in_{slot}", x.shape, "float64") for slot, x in self.inputs.items()]
        slot = next(iter(ga.ops.lookup(op).outputs))
        self.block.append_op(op, dict(zip(self.inputs, self.variables, strict=True)), {slot: "out"}, attrs)

    def here(self) -> list[Array]:
        """The sum, its gradients, and the gradients of those in the directions."""
        with ga.program_guard(self.program):
            total = self.weighted(self.block.var("out"), self.weights)
            first = ga.gradients(total, self.variables)
            slopes = [self.weighted(g, d) for g, d in zip(first, self.directions, strict=True) if g is not None]
            second = ga.gradients(ga.layers.sums(slopes), self.variables)
        feed = {v.name: x for v, x in zip(self.variables, self.inputs.values(), strict=True)}
        found = ga.Executor().run(self.program, feed, [total, *first, *(g for g in second if g is not None)])
        values = iter(found[1 + len(first) :])
        zeros = [np.zeros(x.shape) for x in self.inputs.values()]
        return [*found[: 1 + len(first)], *(zero if g is None else next(values) for g, zero in zip(second, zeros, strict=True))]

    def weighted(self, value: ga.Variable, weights: Array) -> ga.Variable:
        numbers = self.program.names.generate("weights")
        attrs = {"shape": list(weights.shape), "dtype": "float64", "values": weights.ravel().tolist()}
        self.block.append_op("assign_value", {}, {"Out": numbers}, attrs)
        total: ga.Variable = ga.layers.reduce_sum(value * self.block.var(numbers))
        return total

    def there(self, *given: Any) -> list[Any]:
        """The same by jax, of the inputs."""
        every = tuple(range(len(self.inputs)))

        def total(*x: Any) -> Any:
            return (self.function(*x) * self.weights).sum()

        def slope(*x: Any) -> Any:
            return sum((g * d).sum() for g, d in zip(jax.grad(total, every)(*x), self.directions, strict=True))

        return [total(*given), *jax.grad(total, every)(*given), *jax.grad(slope, every)(*given)]


SHARE = 4  # one row in so many with make test


@cache
def rows(start: int) -> tuple[list[Both], list[list[Any]]]:
    """One row in four from a start on, and what jax says of each: one function for these, since compiling is most of the work."""
    both = list(map(Both, ROWS[start::SHARE]))
    compiled = jax.jit(lambda inputs: [one.there(*given) for one, given in zip(both, inputs, strict=True)], compiler_options=QUICK)
    return both, compiled([[*map(jnp.asarray, one.inputs.values())] for one in both])


@pytest.mark.parametrize("number", one_in(SHARE, range(len(ROWS))), ids=[f"{op}-{i}" for i, (op, *_) in enumerate(ROWS)])
def test_jax_agrees(number: int) -> None:
    both, there = rows(number % SHARE)
    for got, expected in zip(both[number // SHARE].here(), map(np.asarray, there[number // SHARE]), strict=True):
        np.testing.assert_allclose(np.reshape(got, expected.shape), expected, rtol=1e-8, atol=1e-9)
