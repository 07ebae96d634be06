"""Profiles of runs: time by operator, by the user's lines, by type, and as a trace that Perfetto shows.

    executor = ga.Executor(profile=True)
    executor.run(...)                           operator   at          runs   ms    share  MB moved  GFLOP   GFLOP/s
    print(executor.profile)              ⇒      mul        train.py:7    10  2.41   0.62       8.3   0.206     85.4
    executor.profile.save("trace.json")         relu       train.py:8    10  0.35   0.09       ...

The time is measured as the program runs: of compiled programs after each call of numpy that an operator has become, which takes about
0.1 µs a call; of interpreted ones around each operator. Bytes and floating-point operations are estimated from the shapes, as
``ga.Cost`` does.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from graphad.errors import GraphadError
from graphad.ir import lower
from graphad.program import Operator, Program
from graphad.showing import Table

MOST_EVENTS = 1 << 18  # of a trace: later ones count in the tables alone
_NOWHERE = "(not from a line)"
Costs = dict[Operator, tuple[int, int]]  # floating-point operations and bytes of a run


@dataclass
class Spent:
    """The time and the work of an operator, a line or a type.

    Attributes:
        seconds: without what is in the blocks of an operator.
        times: how often it ran.
        moved: bytes read and written, estimated.
        flops: floating-point operations, estimated.
    """

    seconds: float = 0.0
    times: int = 0
    moved: int = 0
    flops: int = 0

    def add(self, other: Spent) -> None:
        """Add the counts of another entry."""
        self.seconds += other.seconds
        self.times += other.times
        self.moved += other.moved
        self.flops += other.flops


class Event(NamedTuple):
    """Something that took time: an operator, or a run (a text)."""

    what: Operator | str
    start: float
    seconds: float
    thread: int


@dataclass(eq=False)
class Profile:
    """The time that the runs of an executor have taken so far; ``Executor(profile=True).profile``.

    Attributes:
        operators: by operator of the programs that have run.
        runs: how many runs there were.
        seconds: of the runs, from the first operator to the last.

    ``ga.draw(program, "heat.svg", overlay="time", measured=profile.heat())`` colors a drawing by it.
    """

    operators: dict[Operator, Spent] = field(default_factory=dict)
    runs: int = 0
    seconds: float = 0.0
    _events: list[Event] = field(default_factory=list)
    _nested: threading.local = field(default_factory=threading.local)
    _lock: Any = field(default_factory=threading.Lock)

    # -- recording -------------------------------------------------------------------------------

    def timed(self, op: Operator, step: Callable[..., None]) -> Callable[..., None]:
        """A step of the interpreter whose time is noted: its own, without the steps in its blocks."""

        def run(*args: object) -> None:
            # Inclusive minus what the steps in its blocks took is the step's own time.
            outer = getattr(self._nested, "seconds", 0.0)
            self._nested.seconds = 0.0
            start = perf_counter()
            try:
                step(*args)
            finally:
                seconds = perf_counter() - start
                self.note(op, start, seconds, seconds - self._nested.seconds)
                self._nested.seconds = outer + seconds

        return run

    def note(self, op: Operator, start: float, seconds: float, own: float, times: int = 1) -> None:
        """Note that an operator ran."""
        with self._lock:
            usage = self.operators.setdefault(op, Spent())
            usage.seconds += own
            usage.times += times
        self._remember(op, start, seconds)

    def marked(self, marks: Iterable[tuple[Operator | None, float, bool]], start: float) -> None:
        """Note the calls of a compiled run: whose each is, when it ended, and whether it is the first of its operator."""
        event_start, last = start, None
        for op, end, first in marks:
            if op is not None:
                with self._lock:
                    usage = self.operators.setdefault(op, Spent())
                    usage.seconds += end - start
                    usage.times += first
                # Calls of one operator that follow each other are one event of the trace.
                if op is last and self._events and len(self._events) < MOST_EVENTS:
                    self._events[-1] = self._events[-1]._replace(seconds=end - event_start)
                else:
                    event_start = start
                    self._remember(op, start, end - start)
            last, start = op, end

    def ran(self, program: Program, costs: Costs, start: float, before: Mapping[Operator, int]) -> None:
        """Note that a run has ended, of operators with such costs."""
        seconds = perf_counter() - start
        with self._lock:
            self.runs += 1
            self.seconds += seconds
            for op, (flops, bytes_moved) in costs.items():
                usage = self.operators.get(op)
                # The costs are of one execution: in a loop an operator has as many as it ran in this run, without those before.
                if usage is not None:
                    times = usage.times - before.get(op, 0)
                    usage.flops += flops * times
                    usage.moved += bytes_moved * times
        self._remember(f"run of {program.identity}", start, seconds)

    def times(self) -> dict[Operator, int]:
        """How often each operator has run so far."""
        with self._lock:
            return {op: usage.times for op, usage in self.operators.items()}

    def _remember(self, what: Operator | str, start: float, seconds: float) -> None:
        if len(self._events) < MOST_EVENTS:
            self._events.append(Event(what, start, seconds, threading.get_ident()))

    # -- showing ---------------------------------------------------------------------------------

    def heat(self) -> dict[Operator, float]:
        """Seconds by operator, as ``measured`` of a drawing."""
        return {op: usage.seconds for op, usage in self.operators.items()}

    def by_line(self) -> dict[str, Spent]:
        """The time of each line of the user's program; a gradient counts for the line of its forward operator."""
        return _summed((_place(op), usage) for op, usage in self.operators.items())

    def by_type(self) -> dict[str, Spent]:
        """The time of each type of operator."""
        return _summed((op.type, usage) for op, usage in self.operators.items())

    def table(self, by: str = "operator", most: int = 30) -> Table:
        """A table of the entries, the slowest first.

        Args:
            by: "operator", "line" or "type".
            most: rows; the rest is one more.
        """
        all_seconds = sum(usage.seconds for usage in self.operators.values()) or 1.0
        rows: list[tuple[tuple[str, ...], Spent]]
        if by == "operator":
            names: tuple[str, ...] = ("operator", "writes", "at")
            rows = [((op.type, ", ".join(op.output_names()[:2]), _place(op)), usage) for op, usage in self.operators.items()]
        else:
            names = (by,)
            rows = [((key,), usage) for key, usage in (self.by_line() if by == "line" else self.by_type()).items()]
        rows.sort(key=lambda row: -row[1].seconds)
        if len(rows) > most:
            # The rows that are not shown are one more, so that shares add up to the whole.
            rest = Spent()
            for _, usage in rows[most:]:
                rest.add(usage)
            rows = [*rows[:most], ((f"{len(rows) - most} more", *("" for _ in names[1:])), rest)]
        columns = (*names, "times", "ms", "share", "MB moved", "GFLOP", "GB/s", "GFLOP/s")
        return Table(columns, tuple((*key, *_numbers(usage, all_seconds)) for key, usage in rows), digits=3)

    def trace(self) -> dict[str, Any]:
        """The runs as Chrome's trace-event format, which https://ui.perfetto.dev opens: complete events with microseconds.

        The format is described in "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
        """
        first = min((event.start for event in self._events), default=0.0)
        threads = list(dict.fromkeys(event.thread for event in self._events))
        # Events of phase M are metadata, here what processes and threads are called; those of phase X are complete, with a duration.
        names = [{"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "graphad"}}]
        names += [{"name": "thread_name", "ph": "M", "pid": 1, "tid": i, "args": {"name": f"thread {i}"}} for i in range(len(threads))]
        events = [
            {
                "name": event.what if isinstance(event.what, str) else event.what.type,
                "cat": "run" if isinstance(event.what, str) else event.what.role,
                "ph": "X",
                "ts": round((event.start - first) * 1e6, 3),
                "dur": round(event.seconds * 1e6, 3),
                "pid": 1,
                "tid": threads.index(event.thread),
                "args": {} if isinstance(event.what, str) else {"operator": str(event.what), "at": _place(event.what)},
            }
            # Of two that begin at once the longer is first: it is the one around the other.
            for event in sorted(self._events, key=lambda event: (event.start, -event.seconds))
        ]
        return {"traceEvents": [*names, *events], "displayTimeUnit": "ms"}

    def save(self, path: str | Path) -> None:
        """Write the trace to a ``.json`` file."""
        Path(path).write_text(json.dumps(self.trace()), encoding="utf-8")

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return f"<Profile: {self.runs} runs, {self.seconds * 1e3:.4g} ms, {len(self.operators)} operators>"

    def _repr_html_(self) -> str:
        return self.table().html()

    def __rich__(self) -> Any:
        return self.table()


def _numbers(spent: Spent, whole: float) -> tuple[int | float | None, ...]:
    rates = (spent.moved / spent.seconds / 1e9, spent.flops / spent.seconds / 1e9) if spent.seconds else (None, None)
    return (spent.times, spent.seconds * 1e3, spent.seconds / whole, spent.moved / 1e6, spent.flops / 1e9, *rates)


def _place(op: Operator) -> str:
    return str(op.source) if op.source else _NOWHERE


def _summed(pairs: Iterable[tuple[str, Spent]]) -> dict[str, Spent]:
    totals: dict[str, Spent] = {}
    for key, usage in pairs:
        totals.setdefault(key, Spent()).add(usage)
    return dict(sorted(totals.items(), key=lambda item: -item[1].seconds))


def costs_of(program: Program, batch: int) -> Costs:
    """Floating-point operations and bytes of one run of each operator without blocks; nothing where the program cannot be lowered."""
    costs: Costs = {}
    estimate = import_module("graphad.passes.analyses").estimated  # the passes are not read for programs that are run alone
    with suppress(GraphadError):
        stack = [estimate(lower(program), batch)]
        while stack:
            cost = stack.pop()
            # Operators with blocks are left out: what is in their blocks is counted there.
            stack += cost.nested.values()
            costs.update({op.operator: (op_cost.flops, op_cost.moved) for op, op_cost in cost.ops.items() if op.operator and not op.graphs})
    return costs


def batch_of(program: Program, shapes: Mapping[str, Sequence[int]]) -> int:
    """The size of the batch that was fed: the first extent of what is declared with -1 there; 1 if nothing is."""
    variables = program.global_block().vars
    pairs = ((variables[name].declared[0], shape) for name, shape in shapes.items() if name in variables)
    return next((max(int(shape[0]), 1) for extents, shape in pairs if extents and extents[0] == -1 and len(shape)), 1)


__all__ = ["Costs", "Event", "Profile", "Spent", "batch_of", "costs_of"]
