"""``experiment(program, variants=...)``: one program under several pipelines, side by side: what each costs, needs and gives."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue
from graphad.execution import Executor, Scope
from graphad.ir import Graph, lower, schedule
from graphad.ops import REGISTRY
from graphad.ops.definition import did_you_mean
from graphad.ops.traits import ZEROS
from graphad.passes.analyses import estimated
from graphad.program import Operator, Program, Variable, default_startup_program
from graphad.rewriting import Pass, Pipeline, Report
from graphad.showing import Cell, Table, bars

Feed = Mapping[str, Any]
MEASURES: Mapping[str, str] = {
    "operators": "how many operators the graph has, those in loops and branches included",
    "flops": "floating-point operations of a run, estimated",
    "estimated_memory": "the most bytes that are needed at once, estimated",
    "memory": "the most bytes that a run allocated at once, as Python counts them",
    "time": "seconds of a run, the least of several",
    "loss": "the mean of the first requested variable after all steps",
}


@dataclass(frozen=True)
class Experiment:
    """The results of variants: ``rows`` by the variant's name, each a dict by measure; what the pipelines did is in ``reports``.

    It shows itself as a table: ``print``, notebooks, rich; ``csv``, ``pandas`` and ``plot`` give it to others.
    """

    rows: dict[str, dict[str, float]]
    reports: dict[str, Report | None]
    measure: tuple[str, ...]

    def table(self) -> Table:
        """A row a variant."""
        return Table(("variant", *self.measure), tuple((name, *map(_cell, row.values())) for name, row in self.rows.items()))

    def __getitem__(self, variant: str) -> dict[str, float]:
        if variant not in self.rows:
            raise InvalidValue(f"no variant is named {variant!r}{did_you_mean(variant, self.rows)}")
        return self.rows[variant]

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return f"<Experiment: {len(self.rows)} variants, {', '.join(self.measure)}>"

    def _repr_html_(self) -> str:
        return self.table().html()

    def __rich__(self) -> Any:
        return self.table()

    def csv(self, path: str | PathLike[str] | None = None) -> str:
        """The table as comma-separated values with all digits; also written to a file if a path is given."""
        return self.table().csv(path)

    def pandas(self) -> Any:
        """The table as a DataFrame, where pandas is installed."""
        return self.table().pandas().set_index("variant")

    def plot(self, measure: str | None = None, path: str | PathLike[str] | None = None, axes: Any = None) -> str:
        """One measure as bars; the first one if none is named.

        Args:
            path: an ``.svg`` to write.
            axes: axes of matplotlib to draw into as well.

        Returns:
            The SVG.
        """
        measure_name = self.measure[0] if measure is None else measure
        if measure_name not in self.measure:
            if measure_name.endswith(".svg"):
                raise InvalidValue(f"{measure_name!r} is a file, and no measure: plot(path={measure_name!r}), or plot(measure, path)")
            raise InvalidValue(
                f"{measure_name!r} was not measured{did_you_mean(measure_name, self.measure)}; it is one of {', '.join(self.measure)}"
            )
        values = {name: float(row[measure_name]) for name, row in self.rows.items()}
        if axes is not None:
            axes.barh([*values], [*values.values()])
            axes.invert_yaxis()  # the first variant on top, as in the table
            axes.set_xlabel(measure_name)
        text = bars(values, across=measure_name)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


def _cell(value: float) -> Cell:
    return int(value) if float(value).is_integer() and abs(value) < 1e15 else value


def experiment(
    program: Program,
    variants: Mapping[str, Pass | str | Callable[[Program], Program] | None],
    feed: Feed | Sequence[Feed] | None = None,
    measure: Iterable[str] = tuple(MEASURES),
    *,
    fetch_list: Sequence[Variable | str] | None = None,
    startup: Program | None = None,
    scope: Scope | None = None,
    repeat: int = 5,
    executor: Callable[[], object] = Executor,
) -> Experiment:
    """Run one program as several pipelines make it, and compare.

    Each variant starts from the same parameters and gets the same arrays, so that losses can be compared.

    Args:
        program: not changed.
        variants: by name a pipeline or its text, a function from program to program, or None for the program as it is.
        feed: arrays by name, or a list of such minibatches, one a step.
        measure: names of ``MEASURES``: operators, flops, estimated_memory, memory, time, loss.
        fetch_list: the requested variables; the first one is the loss. If None, the loss that the program differentiates, or the results
            that no operator reads.
        startup: what makes the parameters; the program's own if None.
        scope: parameters to start from instead; it is not changed.
        repeat: how many runs of all steps the time is the least of.
        executor: makes what runs the programs.

    Raises:
        ValueError: there is no variant, or no such measure.
        TypeError: a variant is no pipeline, text, function or None.

    >>> import numpy as np
    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()):
    ...     x = ga.layers.data("x", shape=[4])
    ...     loss = ga.layers.mean(ga.layers.relu(x) + ga.layers.relu(x))
    >>> feed = {"x": np.ones((2, 4), "float32")}
    >>> result = experiment(loss.block.program, {"as written": None, "shared": "cse"}, feed, ["operators", "loss"])
    >>> print(result)
    variant     operators  loss
    as written          4     2
    shared              3     2
    """
    if not isinstance(program, Program):
        raise InvalidType(f"experiment takes a Program, not {program!r}")
    names = [measure] if isinstance(measure, str) else list(measure)
    for word in names:
        if word not in MEASURES:
            raise InvalidValue(f"there is no measure {word!r}{did_you_mean(word, MEASURES)}; measures are {', '.join(MEASURES)}")
    if not variants:
        raise InvalidValue("experiment compares variants; there is none")
    setting = _Setting(program, feed, fetch_list, _started(program, startup, scope), repeat, executor)
    # All variants are made before the first is measured, so that a mistake in the last one is told at once.
    setups = {name: _made(name, variant, program, setting.names) for name, variant in variants.items()}
    rows = {
        name: {text: setting.measured(text, graph, program_after) for text in names} for name, (graph, program_after, _) in setups.items()
    }
    return Experiment(rows, {name: report for name, (_, _, report) in setups.items()}, tuple(names))


def _made(
    name: str, variant: Pass | str | Callable[[Program], Program] | None, program: Program, fetch: Sequence[str]
) -> tuple[Graph, Program, Report | None]:
    """The graph of a variant, its program, and what the pipeline did."""
    if callable(variant) and not isinstance(variant, Pass):
        result = variant(program)
        return lower(result, fetch), result, None
    if not isinstance(variant, Pass | str | None):
        raise InvalidType(f"variant {name!r} is a pipeline, its text, a function or None, not {variant!r}")
    # A graph for each: passes change it in place.
    graph = lower(program, fetch)
    report = None
    if variant is not None and variant != "":
        report = Pipeline(variant).run(graph) if isinstance(variant, Pass) else Pipeline.parse(variant).run(graph)
    return graph, schedule(graph), report


def _started(program: Program, startup: Program | None, scope: Scope | None) -> dict[str, object]:
    """The persistable values that every variant starts from."""
    names = [var.name for var in program.global_block().vars.values() if var.persistable]
    if scope is None:
        scope = Scope()
        Executor().run(startup or program.startup or default_startup_program(), scope=scope)
    return {name: scope.get(name) for name in names if scope.has(name)}


def _count(graph: Graph) -> int:
    return sum(1 + sum(map(_count, op.graphs.values())) for op in graph.ops)


class _Setting:
    """The feeds, fetches and start values that all variants share, and the measurements of one variant."""

    def __init__(
        self,
        program: Program,
        feed: Feed | Sequence[Feed] | None,
        fetch: Any,
        start: dict[str, object],
        repeat: int,
        executor: Callable[[], object],
    ) -> None:
        self.feeds: list[Feed] = [feed or {}] if isinstance(feed, Mapping | None) else list(feed)
        if not self.feeds:
            raise InvalidValue("feed is arrays by name, or a list of at least one such minibatch")
        if repeat < 1:
            raise InvalidValue(f"repeat is 1 or more, not {repeat}")
        variables = _requested(program) if fetch is None else [fetch] if isinstance(fetch, str | Variable) else list(fetch)
        self.names = [variable.name if isinstance(variable, Variable) else str(variable) for variable in variables]
        self.start, self.repeat, self.executor = start, repeat, executor
        # Costs need a size of the batch; the first axis of what is fed has it.
        sizes = [np.shape(array)[0] for array in self.feeds[0].values() if np.ndim(array)]
        self.batch = max(sizes, default=1)

    def measured(self, what: str, graph: Graph, program: Program) -> float:
        if what == "operators":
            return _count(graph)
        if what == "flops":
            return estimated(graph, self.batch).total.flops
        if what == "estimated_memory":
            return estimated(graph, self.batch).peak
        return {"memory": self._memory, "time": self._time, "loss": self._loss}[what](program)

    def _run(self, program: Program, executor: Any) -> float:
        """All steps; the mean of the first requested variable after the last one."""
        scope = Scope()
        for name, value in self.start.items():
            # Copied: each variant starts from the same values, which programs may overwrite.
            scope.set(name, np.array(value))
        results: list[Any] = []
        for feed in self.feeds:
            results = executor.run(program, feed=feed, fetch_list=self.names, scope=scope)
        return float(np.mean(results[0])) if results else float("nan")

    def _loss(self, program: Program) -> float:
        return self._run(program, self.executor())

    def _time(self, program: Program) -> float:
        executor = self.executor()
        self._run(program, executor)  # what is prepared once is not counted
        times = []
        for _ in range(self.repeat):
            start = perf_counter()
            self._run(program, executor)
            times.append(perf_counter() - start)
        return min(times)

    def _memory(self, program: Program) -> float:
        executor = self.executor()
        # Once before it is measured: preparing and compiling the program takes memory of its own.
        self._run(program, executor)
        is_traced = tracemalloc.is_tracing()
        if not is_traced:
            tracemalloc.start()
        try:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            self._run(program, executor)
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            if not is_traced:
                tracemalloc.stop()


def _fills(op: Operator) -> bool:
    definition = REGISTRY.get(op.type)
    return definition is not None and definition.fills not in ("", ZEROS)


def _requested(program: Program) -> list[str]:
    """The loss that the program differentiates; else the results that no operator reads."""
    block = program.global_block()
    seeds = [op.output("Out")[0] for op in block.ops if _fills(op) and len(op.output("Out")) == 1]
    # A backward starts from a constant in the gradient of its loss.
    losses = [name.removesuffix("@GRAD") for name in seeds if name.endswith("@GRAD") and block.has_var(name.removesuffix("@GRAD"))]
    if losses:
        return losses[:1]
    read_names = {name for op in block.ops for name in op.input_names()}
    return [name for op in block.ops for name in op.output_names() if name not in read_names and not block.var(name).persistable]
