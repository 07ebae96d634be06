"""Recording a pipeline at work: every pass, and within it every single rewrite, with its rule and the line that wrote the rule."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TypeVar

from graphad.ir import Graph, Op
from graphad.ir import graph as graph_module
from graphad.passes.analyses import Cost, OpCost, estimated
from graphad.program import SourceLine
from graphad.program.source import line_of
from graphad.rewriting import Pass, Step, observing, rewriter, rules
from graphad.rewriting.passes import applying
from graphad.rewriting.rule_pass import rules_of
from graphad.types import Sizes
from graphad.viewing.states import Delta, Record, States
from graphad.viewing.tables import NOTHING, Tables

MOST_REWRITES = 4000  # that a page shows one by one; what comes after them is shown with the pass
Stored = TypeVar("Stored")
_MACHINERY = {Path(module.__file__ or "") for module in (graph_module, rewriter, rules)}


@dataclass
class Rewrite:
    """One rewrite: the rule, the operators it saw, the line that wrote the rule, and what it changed."""

    rule: str
    seen: list[int]
    line: int
    delta: Delta = field(default_factory=Delta)


@dataclass
class Frame:
    """One pass: what it is called, how long it took, its rewrites, and what they leave to say about the graph after it."""

    name: str
    text: str
    doc: str = ""
    seconds: float = 0.0
    line: int = NOTHING
    ops: tuple[int, int] = (0, 0)
    values: tuple[int, int] = (0, 0)
    rewrites: list[Rewrite] = field(default_factory=list)
    count: int = 0
    made: int = 0  # rewrites up to the end of this pass, as the graph's journal counts them
    delta: Delta = field(default_factory=Delta)
    costs: dict[int, Record] = field(default_factory=dict)
    totals: Record = ()
    error: str = ""


class Recorder:
    """An observer of passes that remembers what each of them, and each rewrite, did to a graph.

    Args:
        graph: the graph that passes are going to run on.
        batch: what unknown extents of the data are taken to be in costs: a number, or numbers by names.
    """

    def __init__(self, graph: Graph, batch: Sizes = 1) -> None:
        self.graph = graph
        self.batch = batch
        self.tables = Tables()
        self.states = States(graph, self.tables)
        self.frames: list[Frame] = []
        self.rewrites: list[Rewrite] = []
        self.count = 0
        self.recorded = 0
        self.seen = 0  # how many of the touched operators were looked at
        self.at_work = ""  # the pass
        self.costs: dict[int, Record] = {}
        self._end(Frame("before", "before", "The graph before any pass.", delta=self.states.everything()))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Within it, passes on the graph are recorded. An error is recorded as well, and raised."""
        journal = self.graph.journal
        journal.watcher = self.watch
        # The journal notes what is touched only if it has a list for that.
        journal.touched = [] if journal.touched is None else journal.touched
        self.seen = len(journal.touched)
        try:
            with observing(self.observe), applying(self._apply):
                yield
        except Exception as error:
            name = self.at_work or "failed"
            # A pass that failed may have changed anything: the whole graph is looked at.
            self._end(Frame(name, name, error=f"{type(error).__name__}: {error}", delta=self.states.everything()))
            raise
        finally:
            journal.watcher = None

    def _apply(self, pass_: Pass, graph: Graph) -> bool:
        if not pass_.combines:
            self.at_work = str(pass_)
        return pass_.apply(graph)

    # -- rewrites --------------------------------------------------------------------------------

    def watch(self, rule: str, ops: Sequence[Op]) -> None:
        """A rewrite is about to be made; the one before it is complete."""
        self._complete()
        self.count += 1
        # Beyond so many they are counted only: each one makes the page longer.
        if self.recorded < MOST_REWRITES:
            self.recorded += 1
            # The caller is the code of the rewrite, whose line the page shows.
            line = self.tables.line(_line_of_rewrite(sys._getframe(1)))
            self.rewrites.append(Rewrite(rule, [self.states.number(op) for op in ops if op in self.states.ops], line))

    def _complete(self) -> None:
        """Say of the rewrite before what it changed; of those that are not shown one by one, the end of the pass says it."""
        touched_nodes = self.graph.journal.touched or []
        start = self.seen if self.seen <= len(touched_nodes) else 0  # the list was started again
        self.seen = len(touched_nodes)
        if self.rewrites and self.count == len(self.rewrites):
            self.rewrites[-1].delta = self.states.around(touched_nodes[start:])

    # -- passes ----------------------------------------------------------------------------------

    def observe(self, pass_: Pass, graph: Graph, step: Step) -> None:
        """A pass ran."""
        if pass_.combines or graph is not self.graph:
            return
        doc = inspect.cleandoc(type(pass_).__doc__ or "").split("\n\n", 1)[0]
        frame = Frame(step.name, step.text, doc, step.seconds, self.tables.line(line_of(type(pass_).apply)), step.ops, step.values)
        if step.changed or self.rewrites:
            self._complete()
            before = set(self.states.ops) if not self.rewrites else set()
            frame.delta = self.states.everything()
            sources = {rule.name: getattr(rule, "source", None) for rule in rules_of(pass_)}
            for rewrite in self.rewrites:
                rewrite.line = self.tables.line(sources[rewrite.rule]) if sources.get(rewrite.rule) is not None else rewrite.line
            # A pass that is no set of rules: all that it did is one step.
            if not self.rewrites:
                self.rewrites = self._made_for(frame, before)
                self.count = len(self.rewrites)
        self._end(frame)

    def _made_for(self, frame: Frame, before: set[Op]) -> list[Rewrite]:
        """The rewrites of a pass that counts none: one for each operator of the graph that it made for another one."""
        pairs = [(op, op.forward) for op in self.graph.ops if op not in before and op.forward is not None]
        return [self._made(op, forward, frame) for op, forward in pairs] if len(pairs) > 1 else []

    def _made(self, op: Op, forward: Op, frame: Frame) -> Rewrite:
        """The part of a pass that made one operator."""
        part, number, new = Delta(), self.states.number, frame.delta
        for graph in (graph for inner in op.graphs.values() for graph in inner.tree()):
            part.graphs |= _taken(new.graphs, [number(graph)])
            part.orders |= _taken(new.orders, [number(graph)])
            part.values |= _taken(new.values, map(number, graph.values))
            part.ops |= _taken(new.ops, map(number, graph.ops))
        part.values |= _taken(new.values, map(number, (*op.reads(), *op.writes())))
        part.ops |= _taken(new.ops, [number(op)])
        part.after = [number(op), NOTHING if op.previous is None else number(op.previous)]
        return Rewrite(f"{forward.type} ⇒ {op.type}", [number(forward)], frame.line, part)

    def _end(self, frame: Frame) -> None:
        frame.rewrites, frame.count, self.rewrites, self.count = self.rewrites, self.count, [], 0
        frame.made = self.graph.journal.rewrites
        frame.costs, frame.totals = self._costs()
        self.frames.append(frame)

    def place(self, number: int) -> str:
        """The fragment of the page's address that shows a rewrite, counted over all passes from 1; "" if the page does not have it."""
        for at, frame in enumerate(self.frames):
            # Rewrites from before the recording are in the count, and are not in the page.
            before = self.frames[at - 1].made if at else self.frames[0].made
            if before < self.frames[0].made + number <= frame.made:
                step = self.frames[0].made + number - before
                # A frame that does not hold all of its rewrites has no steps to lead to.
                return f"#pass={at}" + (f"&step={step}" if frame.made - before == len(frame.rewrites) else "")
        return ""

    def first_change(self) -> str:
        """The fragment of the page's address that shows the first pass that changed the graph; "" if none did."""
        return next((f"#pass={at}" for at, frame in enumerate(self.frames) if at and (frame.delta or frame.rewrites)), "")

    # -- costs -----------------------------------------------------------------------------------

    def _costs(self) -> tuple[dict[int, Record], Record]:
        """Operations and bytes by operator where they are new, and those of the whole graph; none where they cannot be told."""
        try:
            cost = estimated(self.graph, self.batch)
        except Exception:  # between passes of the backward a graph has values without types and with several writers
            return {}, ()
        costs: dict[int, Record] = {
            self.states.number(op): (op_cost.flops, op_cost.read, op_cost.written) for op, op_cost in _all_costs(cost)
        }
        new = {number: item for number, item in costs.items() if self.costs.get(number) != item}
        self.costs |= new
        return new, (cost.total.flops, cost.total.read, cost.total.written, cost.peak)


def _all_costs(cost: Cost) -> Iterator[tuple[Op, OpCost]]:
    yield from cost.ops.items()
    for inner in cost.nested.values():
        yield from _all_costs(inner)


def _taken(new: dict[int, Stored], numbers: Iterable[int]) -> dict[int, Stored]:
    """Those of the new records that have these numbers, taken out."""
    return {number: new.pop(number) for number in numbers if number in new}


# -- lines of source -------------------------------------------------------------------------------


def _line_of_rewrite(frame: FrameType | None) -> SourceLine | None:
    """The line of a pass that begins a rewrite: the first one on the stack that is not of the machinery that counts and applies rules."""
    while frame is not None and Path(frame.f_code.co_filename) in _MACHINERY:
        frame = frame.f_back
    return None if frame is None else SourceLine(frame.f_code.co_filename, frame.f_lineno)
