"""The script that test_sharded.py runs in processes of their own: training on a mesh of devices, and the collectives that XLA runs for it.

    python -m tests.jax.on_devices devices CASE            8 devices of one process
    python -m tests.jax.on_devices process NUMBER PORT     2 devices of one of two processes
    python -m tests.jax.on_devices faulty NUMBER PORT HOW  the same, of which the second one fails or dies

    python -m tests.jax.on_devices stages STAGES PARTS SCHEDULE

It prints JSON: how far losses and parameters are from those of one process, and the collectives in the compiled program.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import graphad as ga
from graphad.distribution import LocalGroup
from graphad.jax import ShardedFunction, connect, pipelined, sharded
from graphad.types import Array
from tests.distribution.test_data_parallel import ROWS, batches, network
from tests.distribution.test_data_parallel import alone as alone_of_classifier
from tests.distribution.test_partition import CASES, NETWORKS, STEPS, alone, feeds, partitioned
from tests.distribution.test_pipeline_split import fed, stages_of

NAMES = {"all-reduce": "c_allreduce_sum", "all-gather": "c_allgather", "reduce-scatter": "c_reducescatter", "all-to-all": "c_recut"}
SIZES = {"f32": 4, "s32": 4, "s64": 8, "f64": 8, "pred": 1, "u32": 4}


def sent(text: str) -> dict[str, dict[str, int]]:
    """The collectives of a compiled program: how many there are, and the bytes that a device passes in, by type."""
    found: dict[str, dict[str, int]] = {}
    pattern = (
        r"= (\S+|\([^)]*\)) (all-reduce|all-gather|reduce-scatter|all-to-all)(?:-start)?\(.*?replica_groups="
        r"(?:\{\{([\d,]*)\}|\[\d+,(\d+)\])"
    )
    for result, name, group, count in re.findall(pattern, text):
        ranks = int(count) if count else len(group.split(","))
        size = sum(
            math.prod(int(e) for e in shape.split(",") if e) * SIZES[kind] for kind, shape in re.findall(r"(\w+)\[([\d,]*)\]", result)
        )
        entry = found.setdefault(NAMES[name], {"count": 0, "bytes": 0})
        entry["count"] += 1
        entry["bytes"] += {"all-gather": size // ranks, "reduce-scatter": size * ranks}.get(name, size)
    return found


def trained(function: ShardedFunction, place: Any = lambda value: value, name: str = "classifier") -> dict[str, Any]:
    """20 steps, compared with one process."""
    losses, start, end = alone(name)
    persistable = function.function.persistable
    with jax.enable_x64(True):
        state = {each: place(jnp.asarray(start[each])) for each in persistable if each in start}
        if function.function.is_random:
            scope = ga.Scope()
            scope.runs = 1
            state["@random"] = place(jnp.asarray(function.function.state(scope)["@random"]))
        step = jax.jit(function)
        fed = [{key: place(jnp.asarray(value)) for key, value in feed.items()} for feed in feeds(name)]
        compiled = step.lower(fed[0], state).compile()
        off = 0.0
        for feed, expected in zip(fed, losses, strict=True):
            (loss,), state = step(feed, state)
            off = max(off, abs(float(loss) - expected))
    apart = max(float(np.abs(np.asarray(state[each]) - end[each]).max()) for each in state if each in end and f"{each}@SHARD" not in state)
    return {"losses": off, "parameters": apart, "sent": sent(compiled.as_text()), "steps": STEPS}


def expected(program: ga.Program) -> dict[str, dict[str, int]]:
    """The number of the program's own collectives by type, and the bytes passed in to them."""
    found: dict[str, dict[str, int]] = {}
    variables = program.global_block().vars
    for op in program.global_block().ops:
        if op.type in NAMES.values():
            shape, dtype = variables[op.input("X")[0]].declared
            entry = found.setdefault(op.type, {"count": 0, "bytes": 0})
            entry["count"] += 1
            entry["bytes"] += math.prod(shape or ()) * np.dtype(dtype or "float32").itemsize
    return found


def on_devices(number: int) -> dict[str, Any]:
    name, mesh, spec = CASES[number]
    program = partitioned(NETWORKS[name](), mesh, spec)
    loss = NETWORKS[name]()[2].name
    return {**trained(sharded(program, [loss]), name=name), "expected": expected(program)}


def with_passes(pipeline: str) -> dict[str, Any]:
    """Programs of data-parallel and shard-optimizer, on 2 devices: equal parts."""
    made = network(rows=10)
    graph = ga.lower(made[0], [made[2].name])
    ga.Pipeline.parse(pipeline).run(graph)
    program = ga.schedule(graph)
    function = sharded(program, [made[2].name], mesh="ranks=2")
    return {**trained(function), "expected": expected(program)}


def stages(count: int, parts: int, schedule: str) -> dict[str, Any]:
    """20 steps of a pipeline, a stage on each device; what it sends, and what simulated ranks send."""
    main, startup, loss = network(rows=ROWS)
    losses, scope = alone_of_classifier(network())
    programs, group, begin = stages_of(main, loss.name, count, parts, schedule), LocalGroup(count), ga.Scope()
    ga.Executor().run(startup, scope=begin)
    last: list[list[str]] = [*([] for _ in range(count - 1)), [loss.name]]
    group.run(startup)
    group.run(programs, fed(programs, batches()[0]), last)
    function = pipelined(programs, last)
    with jax.enable_x64(True):
        state = function.state({name: begin.get(name) for name in begin.names()})
        step = jax.jit(function, donate_argnums=1).lower(batches()[0], state).compile()
        off = 0.0
        for feed, value in zip(batches(), losses, strict=True):
            fetches, state = step(feed, state)
            off = max(off, abs(float(fetches[-1][0]) - value))
    apart = max(float(np.abs(array - scope.get(name)).max()) for name, array in function.arrays(state).items())
    passed = re.findall(
        r"= (\w+)\[([\d,]*)\]\S* collective-permute(?:-start)?\(.*source_target_pairs=\{((?:\{\d+,\d+\},?)+)", step.as_text()
    )
    sizes = [math.prod(int(e) for e in shape.split(",") if e) * SIZES[kind] * pairs.count("{") for kind, shape, pairs in passed]
    return {
        "losses": off,
        "parameters": apart,
        "permuted": sum(sizes),
        "simulated": sum(traffic.bytes()["send_v2"] for traffic in group.traffic),
        "kept": {dtype: list(rows.shape) for dtype, rows in state.items()},
    }


def joined(number: int, port: int) -> tuple[ShardedFunction, Callable[[Array], Any]]:
    """A program on the devices of two processes, and what puts an array there."""
    connect(f"127.0.0.1:{port}", 2, number)
    program = partitioned(NETWORKS["classifier"](), "data=4", ("x: data -",))
    function = sharded(program, [NETWORKS["classifier"]()[2].name])

    def place(value: Array) -> Any:
        everywhere = NamedSharding(function.mesh, PartitionSpec())
        return jax.make_array_from_callback(value.shape, everywhere, lambda index: np.asarray(value)[index])

    return function, place


def process(number: int, port: int) -> dict[str, Any]:
    """One of two processes with two devices each."""
    found = trained(*joined(number, port))
    jax.distributed.shutdown()
    return {**found, "devices": len(jax.devices())}


def faulty(number: int, port: int, how: str) -> None:
    """The same, until one of them makes no third step: ``fail`` by a label that there is not, ``die`` by no more than its end."""
    function, place = joined(number, port)
    _, start, _ = alone("classifier")
    with jax.enable_x64(True):
        state = {each: place(start[each]) for each in function.function.persistable if each in start}
        step = jax.jit(function.checked)
        for i, feed in enumerate(feeds("classifier")):
            print(json.dumps({"step": i, "seconds": time.time()}), flush=True)
            if (i, number, how) == (2, 1, "die"):
                os._exit(7)
            if (i, how) == (2, "fail"):
                feed = {**feed, "y": feed["y"] + 1000}
            _, state, failed = step({name: place(value) for name, value in feed.items()}, state)
            if int(failed) and number == 1:
                raise ga.errors.ExecutionError(function.failures[int(failed) - 1])


def main(arguments: list[str]) -> Mapping[str, Any]:
    if arguments[0] == "process":
        return process(int(arguments[1]), int(arguments[2]))
    if arguments[0] == "faulty":
        faulty(int(arguments[1]), int(arguments[2]), arguments[3])
    if arguments[0] == "stages":
        return stages(int(arguments[1]), int(arguments[2]), arguments[3])
    if arguments[0] == "passes":
        return with_passes(arguments[1])
    return {number: on_devices(int(number)) for number in arguments[1:]}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])), flush=True)
