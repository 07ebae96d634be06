"""What test_mpi.py runs under mpiexec: a rank of a partitioned program, which prints how far it is from one process.

python tests/distribution/mpi_partition.py CASE [fail|leave|die]      the rank 1 does that in the third step
"""

from __future__ import annotations

import json
import os
import signal
import sys

import numpy as np

import graphad as ga
from graphad.distribution import declared_parts, split_arrays
from graphad.ops.mesh import cut
from tests.distribution.test_partition import CASES, NETWORKS, alone, feeds, partitioned


def faulty(what: str, part: dict[str, object]) -> dict[str, object]:
    """What rank 1 does instead of a step, or is fed: indices that are out of range."""
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "leave":
        raise SystemExit("rank 1 leaves")
    return {name: np.asarray(array) + 100 if np.asarray(array).dtype.kind == "i" else array for name, array in part.items()}


def main(number: int, what: str = "") -> None:
    name, mesh, spec = CASES[number]
    executor, scope = ga.MpiExecutor(timeout=60.0), ga.Scope()
    made = NETWORKS[name]()
    program = partitioned(made, mesh, spec)
    losses, start, end = alone(name)
    executor.run(made[1], scope=scope)
    for key, array in split_arrays(program, start, executor.size)[executor.rank].items():
        scope.set(key, np.asarray(array))
    found = []
    for step, feed in enumerate(feeds(name)):
        part = split_arrays(program, feed, executor.size)[executor.rank]
        if what and step == 2 and executor.rank == 1:
            part = faulty(what, part)
        found.append(float(executor.run(program, part, [made[2].name], scope)[0]))
    parts = declared_parts(program)
    own = {key: cut(array, parts[key].spec, parts[key].mesh, executor.rank) if key in parts else array for key, array in end.items()}
    apart = max(float(np.abs(np.subtract(scope.get(key), own[key])).max()) for key in own if not _is_padded(parts, key))
    off = max(abs(a - b) for a, b in zip(found, losses, strict=True))
    print(json.dumps({"rank": executor.rank, "losses": off, "parameters": apart}), flush=True)


def _is_padded(parts: object, key: str) -> bool:
    """Whether a rank may have places that mean nothing."""
    part = parts.get(key)  # type: ignore[attr-defined]
    return part is not None and any(e % part.mesh.parts(axes) for e, axes in zip(part.shape, part.spec, strict=True))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
