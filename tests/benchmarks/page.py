"""Writes docs/benchmarks.md: training steps against numpy by hand, and what construction costs.

OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.page               all
OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.page steps         training steps alone
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.benchmarks import construction, training_steps

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
HEAD = "# Benchmarks\n\n`make bench` writes this page.\n"
STEPS = """\
## Training steps

{measured}

Forward, backward and update; the fifty elementwise operators are forward alone. *By hand* is numpy with every array allocated once and
each operation writing with `out=` (`tests/benchmarks/by_hand.py`); losses, gradients and parameters are
compared with graphad's first. Processor time: the least, and the median of the ratios of 7 pairs that run in turns.
[performance.md](performance.md) says how programs run, and what helped.

{table}
"""
CONSTRUCTION = """\
## Construction

{measured}

Microseconds of processor time a forward operator, and kilobytes that its program and lowered graph take together, each program in a
process of its own (`python -m tests.benchmarks.construction 10000 100000`). *Backward* is all of `append_backward`: it lowers the program,
runs five passes and schedules the graph; *verified* is the same with every pass verified, which is the default. *All* is building and the
unverified backward, for which 40 are aimed at. *MLP* is of `fc` layers: its startup program, two operators for three, is in the time of
building. The lowered graph is pickled; the program is saved in Paddle's format, with the values of its parameters. *GB* is the most memory
that the process took for all of it.

{table}
"""


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table, the heads first."""
    head, *body = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] + ["---:"] * (len(head) - 1), *body))


def versions() -> str:
    """Of Python and what is measured with."""
    found = [f"Python {sys.version.split()[0]}"]
    for name in ("numpy", "networkx", "numba"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def processor() -> str:
    """The processor, as Linux names it; elsewhere its architecture alone."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return f"{fields.get('model name', platform.machine())} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"


def measured() -> str:
    """The versions, the processor and the load of the measurements."""
    busy = f", load {os.getloadavg()[0]:.0f} at the start" if hasattr(os, "getloadavg") else ""
    return f"{versions()}; {processor()}, {os.cpu_count()} cores{busy}; one thread."


def section(name: str, sizes: Sequence[int]) -> str:
    """A section, measured anew."""
    machine = measured()
    if name == "steps":
        return STEPS.format(measured=machine, table=markdown(list(training_steps.rows())))
    return CONSTRUCTION.format(measured=machine, table=markdown(construction.table(list(sizes))))


def main(names: Sequence[str] = ("steps", "construction"), sizes: Sequence[int] = (10_000, 100_000)) -> None:
    """Measure, print and write; sections that are not named stay as they are."""
    _, *stored = PAGE.read_text(encoding="utf-8").split("\n## ")
    sections = dict(zip(("steps", "construction"), (f"## {text.strip()}\n" for text in stored), strict=True))
    sections |= {name: section(name, sizes) for name in names}
    text = "\n".join([HEAD, *sections.values()])
    print(text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or ("steps", "construction"))
