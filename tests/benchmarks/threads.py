"""The costs and gains of lanes: the constants of ``graphad.execution.parallel.Model``, and programs on one and on two threads.

Wall time, the least of many turns: two threads take as much processor time as one. ``OPENBLAS_NUM_THREADS=1``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import graphad as ga
from graphad import layers as L
from graphad.execution.parallel import Threads, new_signals
from tests.benchmarks.training_steps import chain, lenet, mlp, normal, transformer


def least(work: Callable[[], Any], turns: int = 30) -> float:
    """The least of many turns, in seconds."""
    found = []
    for _ in range(turns):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def fitted() -> dict[str, float]:
    """Microseconds of the model's parts."""
    x, y = (np.random.default_rng(i).standard_normal(1 << 18).astype("float32") for i in (0, 1))
    out, a = np.empty_like(x), x.reshape(512, 512)
    small, into = np.ones(8, "float32"), np.empty(8, "float32")
    call = least(lambda: [np.add(small, small, into) for _ in range(100)]) / 100
    adding, steep, product = (least(work) for work in (lambda: np.add(x, y, out), lambda: np.tanh(x, out), lambda: np.dot(a, a)))
    threads = Threads(2)
    forked = least(lambda: threads.together((lambda: None, lambda: None), ((), ())), 200)
    ping, pong = new_signals(20), new_signals(20)

    def one() -> None:
        for i in range(20):
            ping[i].release()
            pong[i].acquire()

    def other() -> None:
        for i in range(20):
            ping[i].acquire()
            pong[i].release()

    both = least(lambda: threads.together((one, other), (ping, pong)), 100)
    return {
        "call": call * 1e6,
        "byte": adding / (3 * x.nbytes) * 1e6,
        "flop": product / (2 * 512**3) * 1e6,
        "steep": (steep - adding) / x.size * 1e6,
        "fork": forked * 1e6,
        "wait": max(both - forked, 0.0) / 40 * 1e6,
    }


def towers(width: int = 256, deep: int = 2) -> tuple[ga.Program, ga.Program, ga.Variable, dict[str, Any]]:
    """Two towers over one input, forward and backward."""
    program, startup = ga.Program(), ga.Program()
    program.random_seed = startup.random_seed = 1
    with ga.program_guard(program, startup):
        x = L.data("x", [width, width], append_batch_size=False)
        ends = []
        for _ in range(2):
            t = x
            for _ in range(deep):
                t = L.fc(t, width, act="tanh")
            ends.append(t)
        loss = L.mean(ends[0] * ends[1])
        ga.optimizer.SGD(0.1).minimize(loss)
    return program, startup, loss, {"x": normal(width, width)}


def paired(program: ga.Program, startup: ga.Program, loss: ga.Variable, feeds: dict[str, Any], turns: int = 200) -> tuple[float, float]:
    """Milliseconds on one thread and on two, in turns."""
    runs = []
    for threads in (1, 2):
        scope, executor = ga.Scope(), ga.Executor(threads=threads)
        executor.run(startup, scope=scope)
        runs.append(lambda executor=executor, scope=scope: executor.run(program, feeds, [loss], scope))
    found: list[list[float]] = [[], []]
    for _ in range(turns):
        for run, times in zip(runs, found, strict=True):
            times.append(least(run, 1))
    return min(found[0][3:]) * 1e3, min(found[1][3:]) * 1e3


def main() -> None:
    """Print both tables."""
    console = Console(width=120)
    cores = len(os.sched_getaffinity(0))
    console.print(f"Python {sys.version.split()[0]}, numpy {np.__version__}, {cores} cores")
    console.print({name: float(f"{value:.3g}") for name, value in fitted().items()})
    table = Table(title="wall time in ms, the least of 197")
    for column in ("program", "1 thread", "2 threads", "ratio"):
        table.add_column(column, justify="right")
    works = [("two towers, 256 wide", towers())]
    works += [(work.name, (work.main, work.startup, work.loss, work.feeds)) for work in (mlp(), lenet(), chain(), transformer(2))]
    for name, work in works:
        one, two = paired(*work)
        table.add_row(name, f"{one:.2f}", f"{two:.2f}", f"{two / one:.2f}")
    console.print(table)


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "tests.benchmarks.threads", *sys.argv[1:]])
    main()
