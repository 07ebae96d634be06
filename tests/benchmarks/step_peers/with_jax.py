"""JAX: a loss, ``jax.value_and_grad`` and an update in one jitted function that gets the parameters' memory (``by_jax``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tests.benchmarks import by_jax
from tests.benchmarks.step_peers.protocol import Array, Make, Params, Step, main


def small_mlp(p: by_jax.Params, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean(jnp.square(jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"] - y))


def mlp(p: by_jax.Params, x: jax.Array, y: jax.Array) -> jax.Array:
    h = jax.nn.relu(jax.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"])
    scores = jax.nn.log_softmax(h @ p["w3"] + p["b3"])
    return -jnp.take_along_axis(scores, y, axis=1).mean()


def elementwise(x: jax.Array, y: jax.Array) -> jax.Array:
    t = x + y
    for _ in range(12):
        t = jnp.maximum(t * y + x, y) - x
    return t * x


def trained(step: by_jax.Step, start: Callable[[by_jax.Params], Any] = lambda p: p) -> Make:
    def make(params: Params, feeds: list[Array]) -> Step:
        # JAX's own dtypes: labels are int32 there.
        inputs = [jnp.array(each.astype("int32") if each.dtype == "int64" else each) for each in feeds]
        state = start({name: jnp.array(array) for name, array in params.items()})
        jitted = jax.jit(step, donate_argnums=1)

        def run() -> Any:
            nonlocal state
            value, state = jitted(inputs, state)
            jax.block_until_ready(state)
            return value

        return run

    return make


def chain(params: Params, feeds: list[Array]) -> Step:
    x, y = (jnp.array(each) for each in feeds)
    jitted = jax.jit(elementwise)
    return lambda: jitted(x, y).block_until_ready()


MAKES: dict[str, Make] = {
    "small_mlp": trained(by_jax.descent(small_mlp)),
    "mlp": trained(by_jax.descent(mlp)),
    "lstm": trained(by_jax.descent(by_jax.lstm)),
    "lenet": trained(by_jax.descent(by_jax.lenet)),
    "chain": chain,
    "transformer": trained(by_jax.adam(by_jax.transformer), by_jax.with_moments),
}

if __name__ == "__main__":
    main(MAKES, "jax", "jaxlib")
