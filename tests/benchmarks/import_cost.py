"""The processor time of ``import graphad`` above importing numpy and networkx, and its ratio to theirs.

    python -m tests.benchmarks.import_cost [RUNS]

Each run is a process of its own that imports the one and then the other, with byte code from an earlier run. The median counts, which is
to be 150 ms at most; the quickest is shown, too. Besides: what importing the rest costs, which ``import graphad`` leaves until it
is first used.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median
from typing import NamedTuple

from tests.source_tree import ROOT

TARGET = 150  # milliseconds of processor time
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


def import_cost(runs: int) -> tuple[Cost, Cost]:
    """The medians and the least of some runs."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": folder}
        _, *timed = [_once(environment, folder) for _ in range(runs + 1)]
    columns = list(zip(*timed, strict=True))
    return Cost(*map(median, columns)), Cost(*map(min, columns))


def _once(environment: dict[str, str], folder: str) -> Cost:
    command = [sys.executable, "-c", IMPORTS]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return Cost(*map(float, done.stdout.split()))


def main() -> None:
    """Print it."""
    usual, least = import_cost(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
    print(f"numpy and networkx {usual.before * 1e3:.0f} ms (least {least.before * 1e3:.0f})")
    print(f"graphad            {usual.graphad * 1e3:.0f} ms above them (least {least.graphad * 1e3:.0f}; target {TARGET})")
    print(f"what comes later   {usual.rest * 1e3:.0f} ms (least {least.rest * 1e3:.0f})")


if __name__ == "__main__":
    main()
