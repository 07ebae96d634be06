"""``train(cost, reader=...)``: run a program over minibatches, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from graphad.errors import InvalidType, InvalidValue
from graphad.execution import Executor, Scope
from graphad.program import Program, Variable, default_startup_program, name_in
from graphad.showing import Table, curves
from graphad.types import Array, element_count

Batch = Mapping[str, Any] | Sequence[Any]
Reader = Callable[[], Iterable[Batch]] | Iterable[Batch]


class Runs(Protocol):
    """A runner of programs: ``Executor``, ``JaxExecutor`` or ``MpiExecutor``."""

    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str, object] | None = None,
        fetch_list: object = None,
        scope: Scope | None = None,
    ) -> list[Array]:
        """Run block 0 of a program once, and return what is fetched."""


@dataclass(repr=False)
class History:
    """The history of a training: for every step the cost, and each metric by its label."""

    cost: list[float] = field(default_factory=list)
    metrics: dict[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.cost)

    def __bool__(self) -> bool:
        # A history without steps is one, too: ``if history`` asks whether there is any.
        return True

    def recent(self, values: Sequence[float], steps: int = 20) -> float:
        """The mean over the last steps."""
        return float(np.mean(values[-steps:])) if values else float("nan")

    def table(self) -> Table:
        """A row a step."""
        columns = {"cost": self.cost, **self.metrics}
        rows = tuple((step, *values) for step, values in enumerate(zip(*columns.values(), strict=True), 1))
        return Table(("step", *columns), rows)

    def csv(self, path: str | PathLike[str] | None = None) -> str:
        """The table as comma-separated values with all digits; also written to a file if a path is given."""
        return self.table().csv(path)

    def pandas(self) -> Any:
        """The table as a DataFrame, where pandas is installed."""
        return self.table().pandas().set_index("step")

    def plot(self, path: str | PathLike[str] | None = None, axes: Any = None) -> str:
        """The curves of the cost and of each metric.

        Args:
            path: an ``.svg`` to write.
            axes: axes of matplotlib to draw into as well.

        Returns:
            The SVG.
        """
        series = {"cost": self.cost, **self.metrics}
        for label, values in series.items() if axes is not None else ():
            axes.plot(range(1, len(values) + 1), values, label=label)
        text = curves(series, across="step")
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def __repr__(self) -> str:
        if not self.cost:
            return "<History: no step>"
        metrics = "".join(f", {label} {self.recent(values):.4g}" for label, values in self.metrics.items())
        return f"<History: {len(self.cost)} steps, cost {self.cost[0]:.4g} -> {self.recent(self.cost):.4g}{metrics}>"

    def _repr_html_(self) -> str:
        return f"<div>{escape(repr(self).strip('<>').replace('->', '→'))}</div>\n{self.plot()}"

    def __rich__(self) -> Any:
        return self.table()


def train(
    cost: Variable,
    reader: Reader,
    epochs: int = 1,
    metrics: Mapping[str, Variable] | None = None,
    feed_list: Sequence[object] | None = None,
    scope: Scope | None = None,
    executor: Runs | None = None,
    progress: bool = True,
) -> History:
    """Run the startup program, then the program of ``cost`` once for every minibatch.

    Args:
        cost: the scalar that was optimized.
        reader: a function that returns an iterable of minibatches, called for every epoch, or a list of minibatches. A minibatch
            is a dict from name to array, or a sequence of arrays in the order of ``feed_list``.
        epochs: how many times to go through the reader.
        metrics: variables to show and keep besides the cost, by label.
        feed_list: names or variables that a minibatch gives, in order; the program's data variables if None.
        scope: where parameters live; the global scope if None.
        executor: what runs the programs, as a ``JaxExecutor``; an ``Executor`` if None.
        progress: whether to show a progress bar.

    Raises:
        ValueError: no operator updates a parameter (``optimize`` was not called); a minibatch has another number of arrays than
            ``feed_list``; the reader gives nothing.
        TypeError: the cost is not a Variable, or the reader is neither callable nor iterable.
    """
    if not isinstance(cost, Variable):
        raise InvalidType(f"cost is a Variable, not {cost!r}")
    if element_count(cost.shape) != 1:
        raise InvalidValue(f"the cost is a scalar, but {cost.name!r} has shape {list(cost.shape)}")
    if not isinstance(epochs, int) or epochs < 1:
        raise InvalidValue(f"epochs is a number from 1 on, not {epochs!r}")
    if not isinstance(metrics, Mapping | None):
        raise InvalidType(f"metrics is a dict from label to variable, not {metrics!r}")
    program, run = cost.block.program, executor or Executor()
    _check_optimized(program, cost)
    names = _feed_names(program, feed_list)
    metrics_by_label = dict(metrics or {})
    # In a scope that was trained in before it runs nothing, and training goes on: initialization runs once in a scope.
    run.run(program.startup or default_startup_program(), scope=scope)
    history = History(metrics={label: [] for label in metrics_by_label})
    start = perf_counter()
    with _progress(progress) as bar:
        for epoch in range(epochs):
            # An iterator has no length: the bar then counts without an end.
            task = bar.add_task(f"epoch {epoch + 1}/{epochs}", total=len(reader) if isinstance(reader, Sized) else None, status="")
            steps = len(history.cost)
            for feed in _feeds(reader, names):
                values = run.run(program, feed=feed, fetch_list=[cost, *metrics_by_label.values()], scope=scope)
                _note(history, values)
                bar.update(task, advance=1, status=_status(history))
            # The length of an iterator is known once it has ended.
            bar.update(task, total=bar.tasks[task].completed)
            # An iterator instead of a function is used up after the first epoch: the others would train on nothing, silently.
            if len(history.cost) == steps:
                raise InvalidValue(f"the reader gave no minibatch in epoch {epoch + 1}: a function that returns them can be read again")
    history.seconds = perf_counter() - start
    return history


def _check_optimized(program: Program, cost: Variable) -> None:
    parameters = {param.name for param in program.all_parameters()}
    # Nested blocks count: an update may be in a branch, as one that skips steps whose gradients are not finite.
    if not any(name in parameters for block in program.blocks for op in block.ops for name in op.output_names()):
        raise InvalidValue(
            f"nothing would be trained: no operator of {program.identity} updates a parameter; "
            f"call graphad.optimize({cost.name}), or minimize of an optimizer, before train"
        )


def _feed_names(program: Program, feed_list: Sequence[object] | None) -> list[str]:
    block = program.global_block()
    return [name_in("feed_list", block, v) if isinstance(v, Variable) else str(v) for v in feed_list or data_variables(program)]


def data_variables(program: Program) -> list[Variable]:
    """The variables a program is fed: read before any operator writes them, and not persistable; in the order of their making."""
    block = program.global_block()
    written_names: set[str] = set()
    read_names: set[str] = set()
    for op in block.ops:
        # In program order: a name that is written first is no input, however often it is read after.
        read_names.update(name for name in op.input_names() if name not in written_names)
        written_names.update(op.output_names())
    return [var for name, var in block.vars.items() if name in read_names and not var.persistable]


def _feeds(reader: Reader, names: Sequence[str]) -> Iterator[Mapping[str, object]]:
    # A function gives new minibatches in each epoch.
    batches = reader() if callable(reader) else reader
    if not isinstance(batches, Iterable):
        raise InvalidType(f"the reader is a function that returns minibatches, or a list of them, not {reader!r}")
    for batch in batches:
        if isinstance(batch, Mapping):
            yield batch
            continue
        if isinstance(batch, str) or not isinstance(batch, Sequence):
            raise InvalidType(f"a minibatch is a dict or a sequence of arrays, not {batch!r}")
        if len(batch) != len(names):
            raise InvalidValue(f"a minibatch has {len(batch)} arrays, but the program is fed {len(names)}: {', '.join(names)}")
        yield dict(zip(names, batch, strict=True))


def _note(history: History, values: Sequence[Array]) -> None:
    # A mean of one element is that element; a metric may have a number for each sample.
    cost, *metrics = (float(np.mean(v)) for v in values)
    history.cost.append(cost)
    for metric_history, value in zip(history.metrics.values(), metrics, strict=True):
        metric_history.append(value)


def _status(history: History) -> str:
    series = {"cost": history.cost, **history.metrics}
    return "  ".join(f"{label} {history.recent(values):.4f}" for label, values in series.items())


def _progress(shown: bool) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[status]}"),
    )
    return Progress(*columns, console=Console(), disable=not shown)
