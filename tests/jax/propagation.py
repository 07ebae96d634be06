"""How far the propagation of annotations agrees with XLA's, over ten programs: python -m tests.jax.propagation

XLA is given the annotations (``with_sharding_constraint``) and asked how each value that an operator makes lies
(``jax.debug.inspect_array_sharding``); the analysis ``Sharding`` says the same of the graph. Values of one element are left out.
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import graphad as ga
from graphad import layers as L
from graphad.distribution import ProcessMesh
from graphad.jax.executor import JaxFunction
from graphad.jax.lowering import Lowering, Options
from graphad.ops.mesh import Spec, spec_text
from graphad.passes import Shard
from graphad.passes.analyses import Sharding
from tests.distribution.test_partition import MEGATRON, NETWORKS, Network, built, given


def chain() -> ga.Variable:
    h = given("x", 8, 8)
    for _ in range(4):
        h = L.tanh(L.fc(h, size=8))
    return L.mean(h)


def residual() -> ga.Variable:
    h = given("x", 8, 8)
    for _ in range(3):
        h = h + L.fc(L.fc(L.layer_norm(h), size=16, act="relu"), size=8)
    return L.mean(L.square(h))


def reshaping() -> ga.Variable:
    h = L.transpose(L.reshape(given("x", 8, 4, 8), shape=[8, 32]), perm=[1, 0])
    return L.mean(L.softmax(L.matmul(h, L.create_parameter([8, 16], "float32", name="w"))))


def reductions() -> ga.Variable:
    x = given("x", 8, 4, 8)
    return L.mean(L.reduce_sum(x, dim=[1]) * L.reduce_mean(x, dim=[1]) + L.reduce_max(x, dim=[1]))


PROGRAMS: Mapping[str, tuple[Callable[[], Network], str, tuple[str, ...]]] = {
    "chain, data": (lambda: built(chain), "data=4", ("x: data -",)),
    "chain, columns and rows": (lambda: built(chain), "model=4", ("fc_0.w_0: - model", "fc_2.w_0: - model")),
    "residual, both": (
        lambda: built(residual),
        "data=2,model=2",
        ("x: data -", "fc_0.w_0: - model", "fc_2.w_0: - model", "fc_4.w_0: - model"),
    ),
    "reshapes": (lambda: built(reshaping), "data=2,model=4", ("x: data - -", "w: - model")),
    "reductions": (lambda: built(lambda: reductions() + 0.0 * L.mean(L.fc(given("z", 8, 8), size=8))), "data=4", ("x: data - -",)),
    "transformer, data": (NETWORKS["transformer"], "data=4", ("ids: data -", "y: data - -")),
    "transformer, model": (NETWORKS["transformer"], "model=4", MEGATRON),
    "transformer, both": (NETWORKS["transformer"], "data=2,model=2", ("ids: data -", "y: data - -", *MEGATRON)),
    "convolutions, data": (NETWORKS["convolutions"], "data=2", ("x: data - - -",)),
    "convolutions, channels": (NETWORKS["convolutions"], "model=2", ("conv2d_0.w_0: model - - -", "conv2d_1.w_0: - model - -")),
}


class Row(NamedTuple):
    """One value that lies otherwise."""

    program: str
    op: str
    value: str
    ours: str
    theirs: str


class _Watched(Lowering):
    """The lowering of a program that asks XLA how the values lie, and tells it the annotations."""

    mesh: Mesh
    found: dict[str, Any]

    def plain(self, op: Any, definition: Any, frames: Any, layout: Any) -> None:
        super().plain(op, definition, frames, layout)
        for slot, names in op.outputs.items():
            for name in names:
                value = frames[0].get(name)
                if not isinstance(value, jax.Array | jax.core.Tracer) or value.size < 2 or len(layout) > 1:
                    continue
                if op.type == "shard_tensor":
                    value = frames[0][name] = jax.lax.with_sharding_constraint(
                        value, NamedSharding(self.mesh, _partition(op.attrs["spec"]))
                    )
                jax.debug.inspect_array_sharding(value, callback=lambda s, n=name, t=f"{op.type} {slot}": self.found.__setitem__(n, (t, s)))


def _partition(words: list[str]) -> PartitionSpec:
    return PartitionSpec(
        *(PartitionSpec.UNCONSTRAINED if word == "?" else tuple(word.split("+")) if word != "-" else None for word in words)
    )


def theirs(program: ga.Program, mesh: Mesh, feed: Mapping[str, Any], state: Mapping[str, Any], fetch: list[str]) -> dict[str, Any]:
    """How XLA lets each value lie, by name."""
    function = JaxFunction(program, fetch, Options())
    found: dict[str, Any] = {}

    def step(feeds: Any, kept: Any) -> Any:
        lowering = _Watched(program, function.options, kept.get("@random"))
        lowering.mesh, lowering.found = mesh, found
        frame = lowering.run({**{name: value for name, value in kept.items() if name != "@random"}, **feeds})
        return [frame[name] for name in fetch], {name: frame[name] for name in function.persistable if name in frame}

    with jax.enable_x64(True):
        jax.jit(step).lower(feed, state).compile()
    return found


def _spec(sharding: Any, rank: int) -> Spec:
    """XLA's sharding as ours."""
    if not isinstance(sharding, NamedSharding):
        return ((),) * rank
    dims = [() if each is None else (each,) if isinstance(each, str) else tuple(each) for each in sharding.spec]
    return tuple([*dims, *[()] * rank][:rank])


def compared(name: str) -> tuple[int, int, list[Row]]:
    """How many values a program has, how many of them are cut, and those that lie otherwise than XLA says."""
    make, shape, spec = PROGRAMS[name]
    main, startup, loss = make()
    graph = ga.lower(main, [loss.name])
    Shard(shape, spec).run(graph)
    sharding = Sharding.of(graph)
    program, grid = ga.schedule(graph), ProcessMesh.parse(shape)
    mesh = Mesh(np.array(jax.devices()[: grid.size]).reshape([size for _, size in grid.axes]), grid.names)
    scope = ga.Scope()
    ga.Executor().run(startup, scope=scope)
    function = JaxFunction(program, [loss.name], Options())
    state = {key: jnp.asarray(value) for key, value in function.state(scope).items()}
    variables = program.global_block().vars
    feed = {v.name: np.zeros(variables[v.name].shape, v.dtype) for v in graph.inputs if v.name not in state}
    found = theirs(program, mesh, feed, state, [loss.name])
    rows, count, cut = [], 0, 0
    for value in graph.values:
        if value.writer is None or value is not graph.versions(value.name)[-1] or value.name not in found:
            continue
        count += 1
        what, other = found[value.name]
        ours = sharding[value]
        cut += any(ours)
        if ours != _spec(other, len(ours)):
            rows.append(Row(name, what, value.name, spec_text(ours), spec_text(_spec(other, len(ours)))))
    return count, cut, rows


def main() -> None:
    total, different = 0, list[Row]()
    for name in PROGRAMS:
        count, cut, rows = compared(name)
        total, different = total + count, different + rows
        print(f"{name:28} {count - len(rows):4} of {count:4} agree, {cut:4} are cut", flush=True)
        for row in rows:
            print(f"    {row.op:40} {row.value:36} {row.ours:20} {row.theirs}")
    print(f"{total - len(different)} of {total}: {1 - len(different) / total:.1%}")


if __name__ == "__main__":
    main()
