"""What ``import graphad`` costs in processor time, above importing numpy and networkx, and what that is to their cost.

    python -m tests.benchmarks.import_cost [RUNS]

Each run is a process of its own that imports the one and then the other, with byte code from an earlier run; the quickest counts.
Besides: what importing the rest costs, which ``import graphad`` leaves until it is first used.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import NamedTuple

from tests.source_tree import ROOT

IMPORTS = """
import time
start = time.process_time()
import numpy, networkx
ready = time.process_time()
import graphad as ga
there = time.process_time()
ga.optimizer, ga.interop.load, ga.draw, ga.train, ga.append_backward
print(ready - start, there - ready, time.process_time() - there)
"""


class Cost(NamedTuple):
    """Seconds of processor time."""

    before: float  # numpy and networkx
    graphad: float
    rest: float  # what is imported when it is first used


def import_cost(runs: int) -> Cost:
    """The least of some runs."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": folder}
        _, *timed = [_once(environment, folder) for _ in range(runs + 1)]
    return Cost(*map(min, zip(*timed, strict=True)))


def _once(environment: dict[str, str], folder: str) -> Cost:
    command = [sys.executable, "-c", IMPORTS]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return Cost(*map(float, done.stdout.split()))


def main() -> None:
    """Print it."""
    cost = import_cost(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
    print(f"numpy and networkx {cost.before * 1e3:.0f} ms")
    print(f"graphad            {cost.graphad * 1e3:.0f} ms above them, {cost.graphad / cost.before:.2f} of them")
    print(f"what comes later   {cost.rest * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
