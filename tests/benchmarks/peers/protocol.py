"""The protocol of the scripts of all peers: each describes itself as a ``Peer`` and ends in ``main(peer)``.

    python -m tests.benchmarks.peers.with_xdsl 10000 [--repeat 3] [--variant NAME]

prints one line of JSON: seconds (the quickest of the repeats), those of each stage, operators before and after, the fewest there could
be (``fewest``), and whether the optimized graph computes what the original does, evaluated by numpy on one random input.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

from tests.benchmarks.peers.reference import FUNCTIONS, fewest, values
from tests.benchmarks.peers.workload import Workload, workload

Stages = dict[str, Callable[[Any], Any]]


@dataclass(frozen=True)
class Peer:
    """How a library optimizes the workload.

    Attributes:
        name: what the table calls it.
        version: what is measured, by name and number; ``versions`` says it of installed distributions.
        build: the library's graph of a workload; not timed.
        stages: what is timed, by name and in order; each takes the graph and returns it, changed or new.
        read_back: an optimized graph as a workload.
        variants: other stages, which can be requested by name.
        prepare: what is timed too, but not counted: it runs between ``build`` and the stages.
    """

    name: str
    version: str
    build: Callable[[Workload], Any]
    stages: Stages
    read_back: Callable[[Any], Workload]
    variants: dict[str, Stages] = field(default_factory=dict)
    prepare: Stages = field(default_factory=dict)


def versions(*distributions: str) -> str:
    """Names and versions of installed distributions."""
    return ", ".join(f"{each} {version(each)}" for each in distributions)


@dataclass
class Run:
    """One optimization: its graph, and the seconds of every stage."""

    graph: Any
    seconds: dict[str, float]
    prepared: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def optimize(graph: Any, stages: Stages) -> Run:
    """Run and time the stages, the garbage collector as it is by default."""
    seconds = {}
    for name, stage in stages.items():
        start = time.perf_counter()
        graph = stage(graph)
        seconds[name] = time.perf_counter() - start
    return Run(graph, seconds)


def run(peer: Peer, work: Workload, stages: Stages) -> Run:
    """Build, prepare and optimize once."""
    prepared = optimize(peer.build(work), peer.prepare)
    done = optimize(prepared.graph, stages)
    return Run(done.graph, done.seconds, prepared.seconds)


def agree(before: Workload, after: Workload) -> bool | None:
    """Whether both compute the same, to what folding in another precision may change; None if there are operators new to numpy."""
    if any(node.is_operator and node.kind not in FUNCTIONS for node in after.nodes):
        return None
    pairs = zip(values(before), values(after), strict=True)
    return all(bool(np.all(np.isfinite(a))) and np.allclose(a, b, rtol=1e-5) for a, b in pairs)


def measured(peer: Peer, operators: int, repeat: int, variant: str | None = None) -> dict[str, Any]:
    """The measurements that ``main`` prints."""
    work = workload(operators)
    stages = peer.stages if variant is None else peer.variants[variant]
    best = min((run(peer, work, stages) for _ in range(repeat)), key=lambda each: each.total)
    after = peer.read_back(best.graph)
    return {
        "peer": peer.name if variant is None else f"{peer.name}, {variant}",
        "version": peer.version,
        "python": sys.version.split()[0],
        "seconds": best.total,
        "stages": best.seconds,
        "prepared": best.prepared,
        "before": work.operators,
        "after": after.operators,
        "fewest": fewest(work),
        "agrees": agree(work, after),
    }


def main(peer: Peer, arguments: list[str] | None = None) -> None:
    """Measure a peer as the command line, or ``arguments``, say, and print it."""
    parser = argparse.ArgumentParser(description=f"Optimize the benchmark's graph with {peer.name}.")
    parser.add_argument("operators", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--variant", choices=sorted(peer.variants))
    given = parser.parse_args(arguments)
    print(json.dumps(measured(peer, given.operators, given.repeat, given.variant)))
