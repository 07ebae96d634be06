"""The cost of building, lowering and scheduling an operator: in a chain, an MLP, and a program in which all read one parameter.

    python -m tests.benchmarks.construction 10000 100000

Microseconds of processor time, and kilobytes, a forward operator; each program in a process of its own, in which a small one has gone
through every step before. The backward is that of ``append_backward``: it lowers the program, runs the passes and schedules the graph,
unverified and verified after each pass. ``all`` is building, with the startup program, and the unverified backward: 40 are aimed at, and
twice as many with verification. ``lower``, ``schedule`` and ``verify`` are parts of the backward, once more and by themselves; it is the
lowered graph that is pickled, and the program that is saved to a file. ``GB`` is the most memory that the process took for it all.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import graphad as ga
from graphad import layers as L
from graphad.ir.verify import verify
from graphad.rewriting import verification

KINDS = ("chain", "MLP", "fan-out")
ROUNDS, OPERATORS = 3, 30_000  # as many rounds at most, of so many operators together, but at least one
PARTS = ("lower", "schedule", "verify", "pickle", "unpickle", "clone", "text", "parse", "save", "load")
STEPS = ("all", "build", "backward", "verified", *PARTS)


def built(kind: str, count: int) -> tuple[ga.Program, Any]:
    """A program of about as many forward operators, and its loss."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = L.data("x", [4])
        x.stop_gradient = False
        if kind == "chain":
            t = x
            for _ in range(count - 1):
                t = L.tanh(t)
        elif kind == "MLP":
            t = x
            for _ in range(count // 3):
                t = L.fc(t, 4, act="tanh")
        else:
            w = L.create_parameter([4], "float32", name="w")
            t = L.sums([x * w for _ in range(count - 2)])
        loss = L.mean(t)
    return program, loss


def zeros(program: ga.Program) -> dict[str, Any]:
    """Values of all parameters."""
    return {var.name: np.zeros(var.shape, var.dtype) for var in program.list_vars() if var.persistable}


def resident() -> float:
    """Kilobytes of memory that the process has now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


def measured(kind: str, count: int) -> dict[str, float]:
    """Microseconds an operator of each step, the least of some rounds, and kilobytes of program and graph together."""
    _measured(kind, 50)  # what is imported and remembered once costs no operator
    first = _measured(kind, count)  # in later rounds memory is there already
    rounds = [first, *(_measured(kind, count) for _ in range(1, min(ROUNDS, OPERATORS // count)))]
    found = {step: min(each[step] for each in rounds) for step in first}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return found | {"KB": first["KB"], "all": found["build"] + found["backward"], "GB": peak}


def _measured(kind: str, count: int) -> dict[str, float]:
    seconds: dict[str, float] = {}

    def timed(step: str, work: Callable[[], Any]) -> Any:
        gc.collect()  # what the step before has left would be collected in this one
        start = time.process_time()
        result = work()
        seconds[step] = time.process_time() - start
        return result

    before = resident()
    program, loss = timed("build", lambda: built(kind, count))
    forward = len(program.global_block().ops)
    graph = timed("lower", lambda: ga.lower(program, [loss.name]))
    memory = resident() - before
    timed("verify", lambda: verify(graph))
    timed("schedule", lambda: ga.schedule(graph))
    pickled = timed("pickle", lambda: pickle.dumps(graph))
    graph = None  # a large one takes gigabytes
    timed("unpickle", lambda: pickle.loads(pickled))
    pickled = b""
    copy = timed("clone", program.clone)
    text = timed("text", lambda: str(program))
    timed("parse", lambda: ga.Program.parse(text))
    with tempfile.TemporaryDirectory() as folder:
        path, values = Path(folder) / "program.pdmodel", zeros(copy)
        timed("save", lambda: ga.save(copy, path, values))
        timed("load", lambda: ga.load(path))
    with verification(False):
        timed("backward", lambda: differentiate(kind, copy, loss.name))
    copy = text = None
    timed("verified", lambda: differentiate(kind, program, loss.name))
    return {step: spent / forward * 1e6 for step, spent in seconds.items()} | {"KB": memory / forward}


def differentiate(kind: str, program: ga.Program, loss: str) -> None:
    """Append the backward, with respect to the data of a chain, which has no parameters."""
    block = program.global_block()
    if kind == "chain":
        ga.gradients(block.var(loss), block.var("x"))
    else:
        ga.append_backward(block.var(loss))


def table(sizes: list[int], kinds: tuple[str, ...] = KINDS) -> list[list[str]]:
    """Rows of figures, the heads first."""
    rows = [["program", "operators", *STEPS, "KB", "GB"]]
    for kind in kinds:
        for size in sizes:
            command = [sys.executable, "-m", "tests.benchmarks.construction", "--one", kind, str(size)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            rows.append([kind, f"{size:,}", *(f"{found[step]:.1f}" for step in STEPS), f"{found['KB']:.1f}", f"{found['GB']:.2f}"])
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", type=int, nargs="*", default=[10_000])
    parser.add_argument("--one", help="measure one program here, and print JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measured(args.one, args.sizes[0])))
        return
    head, *rows = table(args.sizes)
    shown = Table(title="µs of processor time a forward operator; KB of program and graph")
    for name in head:
        shown.add_column(name, justify="right")
    for row in rows:
        shown.add_row(*row)
    Console(width=190).print(shown)


if __name__ == "__main__":
    main()
