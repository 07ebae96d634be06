"""The one function that runs every pass, and the observers that it notifies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from graphad.errors import InvalidGraph, PassError
from graphad.graph import Graph, check_graph
from graphad.graph.provenance import Origin
from graphad.graph.verify import CLAIM_RULES, RULES, TYPE_RULES, Rule, verify
from graphad.knobs import KNOBS, changed_knobs
from graphad.rewriting.analysis import Analysis, drop_outgrown, keep_preserved
from graphad.rewriting.dataflow import Dataflow
from graphad.rewriting.failure import is_replaying, reported

if TYPE_CHECKING:
    from graphad.rewriting.passes import Pass


@dataclass(frozen=True)
class Step:
    """Statistics of one run of a pass: seconds, and operators and values before and after."""

    name: str
    text: str
    changed: bool
    seconds: float
    ops: tuple[int, int]
    values: tuple[int, int]


Observer = Callable[["Pass", Graph, Step], None]
Applier = Callable[["Pass", Graph], bool]
_observers: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())
_applier: ContextVar[Applier | None] = ContextVar("applier", default=None)


class _Verified(NamedTuple):
    """The state in which a graph was verified last, kept among its analyses."""

    edits: int
    typings: int
    properties: frozenset[str]


def run_pass(each: Pass, graph: Graph) -> bool:
    """Run one pass on a graph: check what it requires, apply it, keep the books, verify, tell the observers.

    Once as many rewrites were made as ``graph.journal.limit`` allows, nothing is done; a pass that does not count its own is one.

    Raises:
        PassError: the graph has not what the pass requires.
        TypeError: it is no graph.
        InvalidGraph: the graph breaks a rule before the first pass, or after this one; then the message names the pass.
        Exception: whatever the pass raises. The message of each names the folder where the graph before, the pipeline so far and a
            command that reproduces it were written.
    """
    check_graph(f"pass {each} runs on", graph)
    journal = graph.journal
    if journal.is_exhausted:
        return False
    verifying, applier = KNOBS.verify, _applier.get()
    ops, values, rewrites = len(graph.ops), len(graph.values), journal.rewrites
    with reported(each, graph, run_pass):
        _check_required(each, graph)
        drop_outgrown(graph)
        if verifying and graph.parent is None and not journal.history and _Verified not in graph.analyses:
            verify(graph)  # else a pass would be blamed for the program that it was given, or fail on it
        before, author, last = dict(graph.analyses), journal.author, journal.origin
        journal.author, journal.origin = each.name, None
        start = perf_counter()
        try:
            changed = each.apply(graph) if applier is None else applier(each, graph)
        finally:
            journal.author = author
        seconds = perf_counter() - start
        if journal.rewrites == rewrites:
            journal.rewrites, journal.origin = (rewrites + 1, Origin(each.name, ())) if changed else (rewrites, last)
        _keep_books(each, graph, changed, before)
        if verifying:
            _verify_after(each, graph)
    if not each.combines and graph.parent is None:
        journal.history.append(each)
    observers = _observers.get()
    if observers and not is_replaying():
        step = Step(each.name, str(each), changed, seconds, (ops, len(graph.ops)), (values, len(graph.values)))
        for observer in observers:
            observer(each, graph, step)
    return changed


# -- what passes claim ---------------------------------------------------------------------------


def _missing(each: Pass, available: Iterable[Any]) -> Any:
    """The first requirement of a pass that does not hold; analyses are computed on request."""
    there = set(available)
    wanted = (w for w in each.requires if w not in there and not (isinstance(w, type) and issubclass(w, Analysis | Dataflow)))
    return next(wanted, None)


def _name(claim: Any) -> str:
    return claim if isinstance(claim, str) else str(claim.__name__)


def _check_required(each: Pass, graph: Graph) -> None:
    wanted = _missing(each, [*graph.properties, *graph.analyses])
    if wanted is not None:
        has = ", ".join(sorted(graph.properties)) or "nothing"
        raise PassError(f"pass {each.name} requires {_name(wanted)}, which the graph does not have; it has {has}")


def check_order(passes: tuple[Pass, ...], graph: Graph) -> None:
    """Go through a pipeline's claims, and those of the passes that it repeats, without running it.

    Raises:
        PassError: a pass requires what the graph has not and no pass before it establishes.
    """
    check_graph("a pipeline runs on", graph)
    available: set[Any] = {*graph.properties, *graph.analyses}
    passes = tuple(part for each in passes for part in each.parts())
    for place, each in enumerate(passes, 1):
        wanted = _missing(each, available)
        if wanted is not None:
            later = next((p.name for p in passes[place:] if wanted in p.establishes), None)
            hint = f"; {later}, which does, comes after it" if later else ""
            where = f"{each.name}, pass {place} of the {len(passes)} in the pipeline,"
            raise PassError(f"{where} requires {_name(wanted)}, which the graph does not have and no pass before it establishes{hint}")
        available -= set(each.clears)
        available |= set(each.establishes)


def _keep_books(each: Pass, graph: Graph, changed: bool, before: dict[type, Any]) -> None:
    graph.properties.difference_update(each.clears)
    graph.properties.update(claim for claim in each.establishes if isinstance(claim, str))
    if changed and not each.combines:
        made = {kind: graph.analyses[kind] for kind in each.establishes if kind in graph.analyses}
        keep_preserved(graph, (*each.preserves, _Verified), before, each.name)
        graph.analyses |= made


# -- verification --------------------------------------------------------------------------------


def _verify_after(each: Pass, graph: Graph) -> None:
    """Hold the graph against the rules that a change since the last verification can break, whatever the pass says it did."""
    now = _Verified(graph.journal.edits, graph.journal.typings, frozenset(graph.properties))
    last: _Verified | None = graph.analyses.get(_Verified)
    try:
        verify(graph, _rules_to_check(last, now))
    except InvalidGraph as error:
        raise InvalidGraph(f"after pass {each}: {error}") from None
    graph.analyses[_Verified] = now


def _rules_to_check(last: _Verified | None, now: _Verified) -> tuple[Rule, ...]:
    if last is None or last.edits != now.edits:
        return RULES
    claims = () if last.properties == now.properties else CLAIM_RULES
    types = () if last.typings == now.typings else TYPE_RULES
    return claims + types


@contextmanager
def verification(on: bool) -> Iterator[None]:
    """Within it, graphs are verified after every pass, or not."""
    with changed_knobs(verify=on):
        yield


def take_as_verified(graph: Graph) -> None:
    """Let the first pass on a graph run without verifying its input; its output is verified as always."""
    graph.analyses[_Verified] = _Verified(graph.journal.edits, graph.journal.typings, frozenset(graph.properties))


# -- observers -----------------------------------------------------------------------------------


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Within it, the observer is told of every pass in this thread or asyncio task: ``observer(pass, graph, step)``."""
    before = _observers.set((*_observers.get(), observer))
    try:
        yield
    finally:
        _observers.reset(before)


@contextmanager
def applying(by: Applier) -> Iterator[None]:
    """Within it, passes are applied by a function: ``by(pass, graph)``, which calls ``pass.apply(graph)`` and returns what that does."""
    before = _applier.set(by)
    try:
        yield
    finally:
        _applier.reset(before)


class Timings:
    """An observer that remembers every step; its text is a table of passes, seconds and node counts."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __call__(self, each: Pass, graph: Graph, step: Step) -> None:
        if not each.combines:
            self.steps.append(step)

    def __str__(self) -> str:
        rows = [(f"{s.seconds * 1e3:.2f} ms", _arrow(s.ops), _arrow(s.values), "changed" if s.changed else "", s.text) for s in self.steps]
        rows.append((f"{sum(s.seconds for s in self.steps) * 1e3:.2f} ms", "", "", "", "all"))
        table = [("time", "operators", "values", "", "pass"), *rows]
        widths = [max(len(row[i]) for row in table) for i in range(4)]
        return "\n".join("  ".join([*(f"{c:>{w}}" for c, w in zip(row, widths, strict=False)), row[4]]).rstrip() for row in table)


def _arrow(counts: tuple[int, int]) -> str:
    return f"{counts[0]}" if counts[0] == counts[1] else f"{counts[0]} -> {counts[1]}"
