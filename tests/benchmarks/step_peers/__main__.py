"""Run every step of every library in a process of its own; print one table, and write it into docs/performance.md with ``--write``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import graphad as ga
from tests.benchmarks.page import markdown
from tests.benchmarks.step_peers.protocol import write
from tests.benchmarks.training_steps import WORKLOADS, Workload
from tests.sections import Section

ROOT = Path(__file__).resolve().parents[3]
SECTION = Section(ROOT / "docs" / "performance.md", "<!-- written by make bench-peers -->")
OWN, LOOPS = "graphad", "graphad, numba"
PEERS = {"JAX": "with_jax", "torch": "with_torch", "PyTensor": "with_pytensor", "autograd": "with_autograd", "mygrad": "with_mygrad"}
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
ONE_THREAD = {**dict.fromkeys(THREADS, "1"), "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}
TOLERANCE = 1e-4
LIMIT, TURNS = 600.0, 3


@dataclass(frozen=True)
class Found:
    """The results that a script printed, or one line that says why there are none."""

    seconds: float = float("nan")
    losses: tuple[float, ...] = ()
    version: str = ""
    reason: str = ""


def measured(python: str, script: str, step: str, path: str) -> Found:
    """One step of one library."""
    command = [python, "-m", f"tests.benchmarks.step_peers.{script}", step, path]
    environment = {**os.environ, **ONE_THREAD}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Found(reason=str(error))
    if done.returncode:
        return Found(reason=(done.stderr.strip().splitlines() or ["no message"])[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    return Found(found["seconds"], tuple(found["losses"]), found["version"])


def arrays(work: Workload, path: str) -> None:
    """Keep the parameters and the feeds that all begin with."""
    scope = ga.Scope()
    ga.Executor().run(work.startup, scope=scope)
    write(path, work.parameters(scope), work.feeds)


def checked(found: Found, own: Found) -> Found:
    """Nothing where the losses are others."""
    if found.reason or np.allclose(found.losses, own.losses, rtol=TOLERANCE, atol=1e-6):
        return found
    return Found(reason=f"losses {found.losses} where graphad has {own.losses}")


def rows(python: str, words: Sequence[str], peers: Sequence[str], versions: dict[str, str]) -> Iterator[list[str]]:
    """Rows of the table, the heads first: milliseconds, and how many times graphad's."""
    yield ["step", "by hand", OWN, LOOPS, *peers]
    for make in WORKLOADS:
        if words and not any(word in make.__name__ for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path, work = str(Path(folder) / "arrays.npz"), make()
            arrays(work, path)
            calls = {OWN: (sys.executable, "with_graphad", ""), "by hand": (sys.executable, "with_graphad", " by hand")}
            calls |= {LOOPS: (sys.executable, "with_graphad", " with numba")} | {name: (python, PEERS[name], "") for name in peers}
            found: dict[str, Found] = {}
            for turn in range(TURNS):  # all in turns, since a machine that is shared is quicker at one time than at another
                for name, (interpreter, script, suffix) in calls.items():
                    if not turn or not found[name].reason:
                        one = measured(interpreter, script, make.__name__ + suffix, path)
                        found[name] = min(found.get(name, one), one, key=lambda each: each.seconds)
            own = found.pop(OWN)
            found = {name: checked(each, own) for name, each in found.items()}
            versions |= {name: each.version for name, each in found.items() if each.version and name in PEERS}
            for name, each in {OWN: own, **found}.items():
                print(f"{work.name}, {name}: {each.reason or f'{each.seconds * 1e3:.4f} ms'}", flush=True)
            cells = [cell(found.pop("by hand"), own), f"{own.seconds * 1e3:.4f}", *(cell(each, own) for each in found.values())]
        yield [work.name, *cells]


def cell(found: Found, own: Found) -> str:
    """Milliseconds, and how many times graphad's."""
    return "" if found.reason else f"{found.seconds * 1e3:.4g} ({found.seconds / own.seconds:.2f})"


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.step_peers", description="Training steps of graphad and its peers.")
    parser.add_argument("--python", required=True, help="the interpreter of the environment with the peers")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    parser.add_argument("words", nargs="*", help="measure the steps with one of these words in their names")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # for the processes that are started, too
    versions: dict[str, str] = {}
    load = f", load {os.getloadavg()[0]:.0f} at the start" if hasattr(os, "getloadavg") else ""
    table = markdown(list(rows(given.python, given.words, given.peers, versions)))
    numpy = f"numpy {np.__version__}, Python {platform.python_version()}, {platform.machine()}, one core{load}"
    text = f"{', '.join(versions.values())}; {numpy}.\n\n{table}"
    print(text)
    if given.write:
        SECTION.write(text)


if __name__ == "__main__":
    main()
