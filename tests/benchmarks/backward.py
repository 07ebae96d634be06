"""Time and memory of lower + the five backward passes + schedule, for chains, MLPs and a parameter that every operator reads.

Target: 40 microseconds and 8 KB a forward operator, linear; with verification at most twice the time.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import networkx as nx
from rich.console import Console
from rich.table import Table

import graphad as ga
from graphad.rewriting import Pass, Step, observing, verification

Model = tuple[ga.Program, str]
SIZES = (1_000, 10_000, 100_000)


def chain(operators: int) -> Model:
    """tanh of tanh of tanh..."""
    block = ga.Program().global_block()
    block.create_var("x0", [4], "float32")
    for i in range(operators):
        block.append_op("tanh", {"X": f"x{i}"}, {"Out": f"x{i + 1}"})
    return block.program, f"x{operators}"


def mlp(operators: int) -> Model:
    """Layers of mul, elementwise_add and relu, each with a weight and a bias of its own."""
    block = ga.Program().global_block()
    block.create_var("r-1", [2, 4], "float32", stop_gradient=True)
    layers = operators // 3
    for i in range(layers):
        block.create_parameter(f"w{i}", [4, 4])
        block.create_parameter(f"b{i}", [4])
        block.append_op("mul", {"X": f"r{i - 1}", "Y": f"w{i}"}, {"Out": f"h{i}"})
        block.append_op("elementwise_add", {"X": f"h{i}", "Y": f"b{i}"}, {"Out": f"a{i}"})
        block.append_op("relu", {"X": f"a{i}"}, {"Out": f"r{i}"})
    return block.program, f"r{layers - 1}"


def fan_out(operators: int) -> Model:
    """One parameter that every operator of a chain reads."""
    block = ga.Program().global_block()
    block.create_parameter("w", [4])
    block.create_var("x0", [4], "float32", stop_gradient=True)
    for i in range(operators):
        block.append_op("elementwise_mul", {"X": f"x{i}", "Y": "w"}, {"Out": f"x{i + 1}"})
    return block.program, f"x{operators}"


MODELS = (chain, mlp, fan_out)


@dataclass
class Measured:
    """Seconds of each stage, in order."""

    operators: int
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def micros(self, stage: str | None = None) -> float:
        """Microseconds a forward operator, of one stage or of all."""
        return (self.total if stage is None else self.seconds[stage]) / self.operators * 1e6


def differentiate(model: Model) -> tuple[ga.Graph, ga.Program]:
    """The measured steps: lower, five passes, schedule."""
    program, target = model
    graph = ga.lower(program)
    ga.backward_pipeline((target,)).run(graph)
    return graph, ga.schedule(graph)


def timed(make: Callable[[int], Model], operators: int, verify: bool = False) -> Measured:
    """Time every stage once."""
    program, target = make(operators)
    result = Measured(len(program.global_block().ops))
    gc.collect()

    def note(each: Pass, graph: ga.Graph, step: Step) -> None:
        result.seconds[step.name] = step.seconds

    with verification(verify), observing(note):
        graph = clocked(result, "lower", lambda: ga.lower(program))
        start = time.perf_counter()
        ga.backward_pipeline((target,)).run(graph)
        passes = time.perf_counter() - start
        result.seconds["verify and collect"] = passes - sum(s for name, s in result.seconds.items() if name != "lower")
        clocked(result, "schedule", lambda: ga.schedule(graph))
    return result


def clocked(result: Measured, stage: str, work: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    made = work()
    result.seconds[stage] = time.perf_counter() - start
    return made


def best(make: Callable[[int], Model], operators: int, verify: bool = False, repeat: int = 3) -> Measured:
    """The quickest of a few runs."""
    return min((timed(make, operators, verify) for _ in range(repeat)), key=lambda m: m.total)


def memory(make: Callable[[int], Model], operators: int) -> float:
    """Bytes a forward operator: program, graph with its backward, and scheduled program, all alive."""
    gc.collect()
    tracemalloc.start()
    model = make(operators)
    with verification(False):
        kept = differentiate(model)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept
    return used / len(model[0].global_block().ops)


def speed_table(repeat: int) -> Table:
    table = Table(title="microseconds a forward operator")
    stages = ("lower", "find-op-path", "create-grad-ops", "prune-no-grad", "accumulate-grads", "create-grad-vars", "schedule")
    for column in ("model", "operators", "all", "all, verified", *stages):
        table.add_column(column, justify="right")
    for make in MODELS:
        for operators in SIZES:
            plain, checked = best(make, operators, repeat=repeat), best(make, operators, verify=True, repeat=repeat)
            row = [plain.micros(), checked.micros(), *map(plain.micros, stages)]
            table.add_row(make.__name__, f"{operators:,}", *(f"{v:.1f}" for v in row))
    return table


def why_table() -> Table:
    """The gain of the two measures against slowness: pausing the collector, and networkx seeing views."""
    table = Table(title="where the time would go (mlp, 10,000 operators)")
    for column in ("", "µs an operator", "bytes an operator"):
        table.add_column(column, justify="right")
    model = mlp(10_000)
    count = len(model[0].global_block().ops)
    for label, context in (("as it is", nullcontext()), ("collector not paused", patch("gc.disable"))):
        with context, verification(False):
            start = time.perf_counter()
            graph, _ = differentiate(model)
            table.add_row(label, f"{(time.perf_counter() - start) / count * 1e6:.1f}", "")
    tracemalloc.start()
    start = time.perf_counter()
    plain: nx.MultiDiGraph[Any] = nx.MultiDiGraph(graph)
    seconds = time.perf_counter() - start
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert plain.number_of_edges() == graph.number_of_edges()
    table.add_row("stored by networkx: on top", f"{seconds / count * 1e6:.1f}", f"{used / count:.0f}")
    return table


def memory_table() -> Table:
    table = Table(title="bytes a forward operator, all included")
    for column in ("model", "operators", "bytes"):
        table.add_column(column, justify="right")
    for make in MODELS:
        for operators in SIZES:
            table.add_row(make.__name__, f"{operators:,}", f"{memory(make, operators):.0f}")
    return table


def main(repeat: int = 3) -> None:
    """Print the tables."""
    console = Console(width=160)
    console.print(f"Python {sys.version.split()[0]}, networkx {nx.__version__}")
    console.print(speed_table(repeat))
    console.print(memory_table())
    console.print(why_table())
