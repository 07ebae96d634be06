"""Subgradients at kinks and ties are those of conventions.json, except where it is numerically wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import ops
from tests.conformance.loading import HERE

CONVENTIONS = {each["name"]: each for each in json.loads((HERE / "conventions.json").read_text())}
ALL = {"reduce_all": True}
Build = Callable[..., Any]


def summed(value: Any) -> Any:
    return ops.reduce_sum(value, **ALL)


BUILDS: dict[str, Build] = {
    "relu at 0": lambda x: summed(ops.relu(x)),
    "abs at 0": lambda x: summed(ops.abs(x)),
    "leaky_relu at 0": lambda x: summed(ops.leaky_relu(x, alpha=0.125)),
    "relu6 at 0 and 6": lambda x: summed(ops.relu6(x)),
    "clip at bounds": lambda x: summed(ops.clip(x, min=-1.0, max=1.0)),
    "elementwise_max tie": lambda x, y: summed(ops.elementwise_max(x, y)),
    "elementwise_min tie": lambda x, y: summed(ops.elementwise_min(x, y)),
    "reduce_max ties": lambda x: summed(ops.reduce_max(x, **ALL)),
    "amax ties": lambda x: summed(ops.reduce_amax(x, **ALL)),
    "reduce_min ties": lambda x: summed(ops.reduce_min(x, dim=[0])),
    "max_pool ties": lambda x: summed(ops.pool2d(x, pooling_type="max", ksize=[2, 2], strides=[1, 1], paddings=[0, 0])),
    "sqrt at 0": lambda x: summed(ops.sqrt(x)),
    "pow 2 at 0": lambda x: summed(x**2.0),
    "elu at 0": lambda x: summed(ops.elu(x, alpha=1.5)),
    "softsign at 0": lambda x: summed(ops.softsign(x)),
    "topk ties": lambda x: summed(ops.top_k_v2(x, k=2, axis=-1)[0]),
    "prod with zero": lambda x: summed(ops.reduce_prod(x, **ALL)),
    "prod with two zeros": lambda x: summed(ops.reduce_prod(x, **ALL)),
    "norm at 0": lambda x: summed(ops.p_norm(x, porder=2.0, axis=-1)),
    "where same": lambda x: summed(ops.where(x > 0.0, x, ops.scale(x, scale=2.0))),
    "floor": lambda x: summed(ops.floor(x)),
    "smooth_l1 at delta": lambda x: summed(ops.huber_loss(x, ops.fill_zeros_like(x), delta=1.0)[1]),
    "gather repeated": lambda x: summed(ops.gather(x, ops.fill_any_like(x, value=0.0, dtype="int64"))),
    "hardtanh bounds": lambda x: summed(ops.brelu(x, t_min=-1.0, t_max=1.0)),
    "log_sigmoid 0": lambda x: summed(ops.logsigmoid(x)),
    "divide by negative": lambda x, y: summed(x / y),
}

# What Paddle gives is wrong: the derivative of a product exists where a factor is zero.
RIGHT = {"prod with zero": [6.0, 0.0, 0.0], "prod with two zeros": [0.0, 0.0, 0.0]}
# Built here from other values than the stored ones, so only what is checked below holds.
OWN = {"gather repeated": [3.0, 0.0, 0.0]}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_subgradient(name: str) -> None:
    convention = CONVENTIONS[name]
    program = ga.Program()
    block = program.global_block()
    feeds = {k: np.array(v, "float64") for k, v in convention["feeds"].items()}
    variables = {k: block.create_var(k, v.shape, "float64") for k, v in feeds.items()}
    with ga.program_guard(program):
        loss = BUILDS[name](*variables.values())
    gradients = ga.gradients(loss, list(variables.values()))
    for (leaf, stored), gradient in zip(convention["grads"].items(), gradients, strict=True):
        expected = OWN.get(name, RIGHT.get(name, stored))
        if gradient is None:
            assert not np.any(expected)
            continue
        (got,) = ga.Executor().run(program, feed=feeds, fetch_list=gradient)
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=0, err_msg=leaf)
