"""What test_mpi.py runs under mpiexec: a rank of a training run, which prints what it found as JSON.

python tests/distribution/mpi_training.py STEPS [fail|leave|differ|die]      the rank 1 does that in the third step
"""

from __future__ import annotations

import json
import os
import signal
import sys

import numpy as np

import graphad as ga
from graphad.distribution import split_feed
from graphad.rewriting import Pipeline
from tests.distribution.test_data_parallel import alone, batches, network


def other_program() -> ga.Program:
    """A rank that comes to another collective than the others."""
    return ga.Program.parse("program { block 0 { var x: float32[-1, 6] barrier(X=x) -> (Out=y) } }")


def main(steps: int, what: str) -> None:
    executor, scope = ga.MpiExecutor(timeout=30.0), ga.Scope()
    program, startup, loss = network()
    graph = ga.lower(program, [loss.name])
    Pipeline.parse(f"data-parallel{{ranks={executor.size}}}").run(graph)
    program = ga.schedule(graph)
    executor.run(startup, scope=scope)
    losses = []
    for step, feed in enumerate(batches()[:steps]):
        part = dict(split_feed(feed, executor.size)[executor.rank])
        if step == 2 and executor.rank == 1 and what:
            if what == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "leave":
                raise SystemExit("rank 1 leaves")
            if what == "differ":
                executor.run(other_program(), {"x": part["x"]}, [], scope)
            if what == "fail":
                part["y"] = np.asarray(part["y"]) + 100
        losses.append(float(executor.run(program, part, [loss.name], scope)[0]))
    expected, single = alone(network())
    apart = max(float(np.abs(scope.get(name) - single.get(name)).max()) for name in single.names())
    off = max(abs(a - b) for a, b in zip(losses, expected, strict=False))
    print(json.dumps({"rank": executor.rank, "losses": off, "parameters": apart, "bytes": executor.traffic.bytes()}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
