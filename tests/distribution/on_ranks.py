"""The script that test_mpi.py runs under mpiexec: a rank of a training run, which prints as JSON how far it is from one process.

    python tests/distribution/on_ranks.py training STEPS [FAULT RANK]
    python tests/distribution/on_ranks.py passes PIPELINE [FAULT RANK]
    python tests/distribution/on_ranks.py partition CASE [FAULT RANK]              a case of test_partition.py
    python tests/distribution/on_ranks.py pipeline PARTS SCHEDULE [FAULT RANK]     as many stages as ranks
    python tests/distribution/on_ranks.py checkpoint FOLDER [FAULT RANK]           goes on from what is there, and saves each step

Several of them, with ``+`` between, are done one after another: to start a rank takes longer than what it does.
In the third step one rank does a FAULT: ``fail`` (it is fed labels that there are not), ``die``, ``leave``, ``differ`` (it comes to
another collective than the others).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

import graphad as ga
from graphad.distribution import declared_parts, split_arrays, split_feed
from graphad.ops.mesh import cut
from tests.distribution.test_data_parallel import ROWS, alone, batches, network
from tests.distribution.test_partition import CASES, NETWORKS, partitioned
from tests.distribution.test_partition import alone as alone_of
from tests.distribution.test_partition import feeds as feeds_of
from tests.distribution.test_pipeline_split import fed, stages_of

FAULT_STEP = 2


class Fault(NamedTuple):
    """The fault of a rank in the third step."""

    what: str = ""
    rank: int = -1


def other_program() -> ga.Program:
    """A rank that comes to another collective than the others."""
    return ga.Program.parse("program { block 0 { var x: float32[-1, 6] barrier(X=x) -> (Out=y) } }")


class Rank:
    """This process's.

    Args:
        fault: what one of the ranks does.
    """

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.executor, self.scope = ga.MpiExecutor(timeout=60.0), ga.Scope()
        self.rank, self.size = self.executor.rank, self.executor.size

    def step(self, number: int, program: ga.Program, part: Mapping[str, object], fetch: list[str]) -> list[float]:
        """A step, or what the rank does in its place."""
        if (number, self.rank) == (FAULT_STEP, self.fault.rank):
            part = self.misbehave(part)
        return [float(value) for value in self.executor.run(program, part, fetch, self.scope)]

    def misbehave(self, part: Mapping[str, object]) -> dict[str, object]:
        print(json.dumps({"fault": time.time()}), flush=True)
        if self.fault.what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault.what == "leave":
            raise SystemExit(f"rank {self.rank} leaves")
        if self.fault.what == "differ":
            self.executor.run(other_program(), {"x": part["x"]}, [], self.scope)
        return {name: np.asarray(array) + 100 if np.asarray(array).dtype.kind == "i" else array for name, array in part.items()}

    def report(self, losses: list[float], expected: list[float], apart: float, **more: object) -> None:
        off = max((abs(a - b) for a, b in zip(losses, expected, strict=False)), default=0.0)
        print(json.dumps({"rank": self.rank, "steps": len(losses), "losses": off, "parameters": apart, **more}), flush=True)


def training(rank: Rank, steps: int) -> None:
    """Parts of the batch."""
    program, startup, loss = network()
    graph = ga.lower(program, [loss.name])
    ga.Pipeline.parse(f"data-parallel{{ranks={rank.size}}}").run(graph)
    program = ga.schedule(graph)
    rank.executor.run(startup, scope=rank.scope)
    parts = [dict(split_feed(feed, rank.size)[rank.rank]) for feed in batches()[:steps]]
    losses = [rank.step(i, program, part, [loss.name])[0] for i, part in enumerate(parts)]
    expected, single = alone(network())
    apart = max(float(np.abs(rank.scope.get(name) - single.get(name)).max()) for name in single.names())
    rank.report(losses, expected, apart, bytes=rank.executor.traffic.bytes())


def passes(rank: Rank, pipeline: str) -> None:
    """Parts of the batch, and what a pipeline makes of the collectives: buckets, shards of the optimizer's states."""
    program, startup, loss = network()
    graph = ga.lower(program, [loss.name])
    ga.Pipeline.parse(pipeline).run(graph)
    program = ga.schedule(graph)
    rank.executor.run(startup, scope=rank.scope)
    parts = [dict(split_feed(feed, rank.size)[rank.rank]) for feed in batches()]
    losses = [rank.step(i, program, part, [loss.name])[0] for i, part in enumerate(parts)]
    sent, counts = rank.executor.traffic.bytes(), rank.executor.traffic.counts()  # of the last step, not of what follows
    expected, single = alone(network())
    whole = rank.executor.whole_state(program, rank.scope)
    apart = max(float(np.abs(whole[name] - single.get(name)).max()) for name in single.names())
    rank.report(losses, expected, apart, bytes=sent, counts=counts)


def partition(rank: Rank, case: int) -> None:
    """Parts of the tensors."""
    name, mesh, spec = CASES[case]
    made = NETWORKS[name]()
    program = partitioned(made, mesh, spec)
    expected, start, end = alone_of(name)
    rank.executor.run(made[1], scope=rank.scope)
    for key, array in split_arrays(program, start, rank.size)[rank.rank].items():
        rank.scope.set(key, np.asarray(array))
    parts = [split_arrays(program, feed, rank.size)[rank.rank] for feed in feeds_of(name)]
    losses = [rank.step(i, program, part, [made[2].name])[0] for i, part in enumerate(parts)]
    declared = declared_parts(program)
    own = {key: cut(a, declared[key].spec, declared[key].mesh, rank.rank) if key in declared else a for key, a in end.items()}
    apart = max(float(np.abs(np.subtract(rank.scope.get(key), own[key])).max()) for key in own if not _is_padded(declared, key))
    whole = rank.executor.whole_state(program, rank.scope)
    apart = max(apart, *(float(np.abs(np.subtract(whole[key], array)).max()) for key, array in end.items()))
    rank.report(losses, expected, apart)


def _is_padded(parts: object, key: str) -> bool:
    """Whether a rank may have places that mean nothing."""
    part = parts.get(key)  # type: ignore[attr-defined]
    return part is not None and any(e % part.mesh.parts(axes) for e, axes in zip(part.shape, part.spec, strict=True))


def pipeline(rank: Rank, parts: int, schedule: str) -> None:
    """Stages; the last one has the loss."""
    main, startup, loss = network(rows=ROWS)
    program = stages_of(main, loss.name, rank.size, parts, schedule)[rank.rank]
    rank.executor.run(startup, scope=rank.scope)
    fetch = [loss.name] if rank.rank == rank.size - 1 else []
    found = [rank.step(i, program, fed([program], feed)[0], fetch) for i, feed in enumerate(batches())]
    expected, single = alone(network())
    whole = rank.executor.whole_state(program, rank.scope)
    apart = max(float(np.abs(whole[name] - single.get(name)).max()) for name in single.names())
    counts = rank.executor.traffic.counts()
    rank.report([loss for each in found for loss in each], expected, apart, sent=counts.get("send_v2", 0), got=counts.get("recv_v2", 0))


def checkpoint(rank: Rank, folder: Path) -> None:
    """States in shards; the first rank saves what one process would have, with the number of steps."""
    main, startup, loss = network()
    graph = ga.lower(main, [loss.name])
    ga.Pipeline.parse(f"data-parallel{{ranks={rank.size}}}, shard-optimizer{{ranks={rank.size}, stage=2}}").run(graph)
    program, saved = ga.schedule(graph), folder / "checkpoint.json"
    rank.executor.run(startup, scope=rank.scope)
    done = 0
    if saved.exists():
        for name, array in (arrays := ga.load(saved).arrays).items():
            rank.scope.set(name, array)
        done = int(arrays["steps"][0])
    expected, single = alone(network())
    losses: list[float] = []
    counter = main.global_block().create_var("steps", [1], "int64", persistable=True)
    for i, feed in enumerate(batches()[done:]):
        losses += rank.step(i, program, split_feed(feed, rank.size)[rank.rank], [loss.name])
        whole = rank.executor.whole_state(program, rank.scope)
        if rank.rank == 0:
            ga.save(main, saved, {**whole, counter.name: np.array([done + i + 1])})
    apart = max(float(np.abs(whole[name] - single.get(name)).max()) for name in single.names())
    rank.report(losses, expected[done:], apart)


def one(kind: str, *words: str) -> None:
    count = {"training": 1, "passes": 1, "partition": 1, "pipeline": 2, "checkpoint": 1}[kind]
    own, rest = words[:count], words[count:]
    rank = Rank(Fault(rest[0], int(rest[1])) if rest else Fault())
    if kind == "training":
        training(rank, int(own[0]))
    elif kind == "passes":
        passes(rank, own[0])
    elif kind == "partition":
        partition(rank, int(own[0]))
    elif kind == "pipeline":
        pipeline(rank, int(own[0]), own[1])
    else:
        checkpoint(rank, Path(own[0]))


def main(arguments: list[str]) -> None:
    for _, words in groupby(arguments, "+".__ne__):
        if (run := list(words)) != ["+"]:
            one(*run)


if __name__ == "__main__":
    main(sys.argv[1:])
