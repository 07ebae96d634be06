"""A pass: a name, options as fields, and ``apply(graph) -> changed``. Pipelines of passes are passes.

    @dataclass(frozen=True)
    class Mine(Pass):
        '''One line that says what it does.'''
        name = "mine"
        limit: int = 3                       # mine{limit=3}
        def apply(self, graph): ...          # change the graph; return whether you did

Every pass is run by one function, ``run_pass``: it checks what the pass requires, times it, verifies
the graph behind it, and tells the observers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

from graphad.errors import InvalidGraph, InvalidType, InvalidValue, PassError
from graphad.graph import Graph, paused_collector
from graphad.graph.verify import CLAIM_RULES, RULES, TYPE_RULES, Rule, verify
from graphad.rewriting.syntax import Call, parse_calls, print_option

PASSES: dict[str, type[Pass]] = {}
LIMIT = 100


@dataclass(frozen=True)
class Step:
    """What one run of a pass did: seconds, and operators and values before and after."""

    name: str
    text: str
    changed: bool
    seconds: float
    ops: tuple[int, int]
    values: tuple[int, int]


Observer = Callable[["Pass", Graph, Step], None]
_observers: list[Observer] = []
_verifying: list[bool] = [True]


class Pass(ABC):
    """One rewrite of a graph. Subclasses are frozen dataclasses; they register themselves by ``name``.

    Attributes:
        name: what the pass is called in pipelines.
        requires: properties and analyses the graph must have.
        clears: properties it takes from the graph.
        establishes: properties it gives to the graph.
        preserves: analyses that stay true although the pass changes the graph.
    """

    name: ClassVar[str] = ""
    requires: ClassVar[tuple[Any, ...]] = ()
    clears: ClassVar[tuple[str, ...]] = ()
    establishes: ClassVar[tuple[str, ...]] = ()
    preserves: ClassVar[tuple[type, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.name:
            other = PASSES.setdefault(cls.name, cls)
            if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise InvalidValue(
                    f"two passes are named {cls.name!r}: {other.__module__}.{other.__qualname__} and {cls.__module__}.{cls.__qualname__}"
                )
            PASSES[cls.name] = cls

    @abstractmethod
    def apply(self, graph: Graph) -> bool:
        """Change the graph; return whether it changed."""

    def run(self, graph: Graph) -> bool:
        """Apply the pass as ``run_pass`` does: checked, verified, observed; return whether the graph changed."""
        return run_pass(self, graph)

    def __or__(self, other: Pass) -> Pipeline:
        return Pipeline(self, other)

    def __str__(self) -> str:
        options = [f"{f.name}={print_option(getattr(self, f.name))}" for f in fields(self) if getattr(self, f.name) != f.default]  # type: ignore[arg-type]
        return f"{self.name}{{{', '.join(options)}}}" if options else self.name

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().split("\n", 1)[0]


class Pipeline(Pass):
    """Passes one after the other: ``Pipeline(a, b)``, ``a | b`` or ``Pipeline.parse("a, b")``."""

    def __init__(self, *passes: Pass) -> None:
        for each in passes:
            if not isinstance(each, Pass):
                raise InvalidType(f"a pipeline is made of passes, not of {each!r}")
        self.passes: tuple[Pass, ...] = tuple(p for each in passes for p in (each.passes if type(each) is Pipeline else (each,)))

    def apply(self, graph: Graph) -> bool:
        return any([run_pass(each, graph) for each in self.passes])

    def run(self, graph: Graph) -> bool:
        with paused_collector():
            return self.apply(graph)

    def __str__(self) -> str:
        return ", ".join(map(str, self.passes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline) and self.passes == other.passes

    def __hash__(self) -> int:
        return hash(self.passes)

    @staticmethod
    def parse(text: str) -> Pipeline:
        """The pipeline a text describes: ``create-grad-ops, fixpoint(dead-code)``; ``ParseError`` points at the character."""
        return Pipeline(*(_built(call) for call in parse_calls(text)))


class Fixpoint(Pass):
    """Run passes again and again until none changes the graph."""

    name = "fixpoint"

    def __init__(self, *passes: Pass, limit: int = LIMIT) -> None:
        self.inner = Pipeline(*passes)
        self.limit = limit

    def apply(self, graph: Graph) -> bool:
        for rounds in range(self.limit):
            if not self.inner.apply(graph):
                return rounds > 0
        raise PassError(f"{self} still changes the graph after {self.limit} rounds")

    def __str__(self) -> str:
        limit = "" if self.limit == LIMIT else f"{{limit={self.limit}}}"
        return f"fixpoint{limit}({self.inner})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixpoint) and (self.inner, self.limit) == (other.inner, other.limit)

    def __hash__(self) -> int:
        return hash((self.inner, self.limit))


def fixpoint(*passes: Pass, limit: int = LIMIT) -> Fixpoint:
    """Passes repeated until none changes the graph; ``PassError`` after ``limit`` rounds."""
    return Fixpoint(*passes, limit=limit)


# -- running -------------------------------------------------------------------------------------


class _Verified(NamedTuple):
    """The state in which a graph was verified last, kept among its analyses."""

    edits: int
    typings: int
    properties: frozenset[str]


def run_pass(each: Pass, graph: Graph) -> bool:
    """Run one pass on a graph: check what it requires, apply it, keep the books, verify, tell the observers.

    Raises:
        PassError: the graph has not what the pass requires.
        InvalidGraph: the pass left a graph that breaks a rule; the message names the pass.
    """
    _check_required(each, graph)
    ops, values = len(graph.ops), len(graph.values)
    author, graph.journal.author = graph.journal.author, each.name
    start = perf_counter()
    try:
        changed = each.apply(graph)
    finally:
        graph.journal.author = author
    seconds = perf_counter() - start
    _keep_books(each, graph, changed)
    if _verifying[-1]:
        _verify_after(each, graph)
    step = Step(each.name, str(each), changed, seconds, (ops, len(graph.ops)), (values, len(graph.values)))
    for observer in _observers:
        observer(each, graph, step)
    return changed


def _check_required(each: Pass, graph: Graph) -> None:
    for wanted in each.requires:
        present = wanted in graph.properties if isinstance(wanted, str) else wanted in graph.analyses
        if not present:
            name = wanted if isinstance(wanted, str) else wanted.__name__
            has = ", ".join(sorted(graph.properties)) or "nothing"
            raise PassError(f"pass {each.name} requires {name}, which the graph does not have; it has {has}")


def _keep_books(each: Pass, graph: Graph, changed: bool) -> None:
    graph.properties.difference_update(each.clears)
    graph.properties.update(each.establishes)
    if changed and not isinstance(each, Pipeline | Fixpoint):
        kept = {*each.preserves, _Verified}
        graph.analyses = {kind: result for kind, result in graph.analyses.items() if kind in kept}


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
def observing(observer: Observer) -> Iterator[None]:
    """Within it, the observer is told of every pass: ``observer(pass, graph, step)``."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


@contextmanager
def verification(on: bool) -> Iterator[None]:
    """Within it, graphs are verified after every pass, or not."""
    _verifying.append(on)
    try:
        yield
    finally:
        _verifying.pop()


# -- from text -----------------------------------------------------------------------------------


def _built(call: Call) -> Pass:
    if call.name == Fixpoint.name:
        limit = call.options.pop("limit", LIMIT)
        if call.options or not call.inner or type(limit) is not int:
            call.fail("fixpoint takes passes in parentheses, and a whole number as its limit")
        return Fixpoint(*map(_built, call.inner), limit=limit)
    kind = PASSES.get(call.name)
    if kind is None:
        call.fail(f"no pass is named {call.name!r}; known are {', '.join(sorted(PASSES))}")
        raise AssertionError
    if call.inner:
        call.fail(f"pass {call.name} takes no passes in parentheses")
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    for option in call.options:
        if option not in known:
            call.fail(f"pass {call.name} has no option {option!r}; it has {', '.join(known) or 'none'}")
    hints = get_type_hints(kind)
    for option, value in call.options.items():
        if not _fits(value, hints[option]):
            call.fail(f"option {option} of pass {call.name} is {known[option].type}, not {print_option(value)}")
    try:
        return kind(**{name: _option(value) for name, value in call.options.items()})
    except (TypeError, ValueError) as error:
        call.fail(str(error))
        raise AssertionError from error


def _fits(value: Any, hint: Any) -> bool:
    """Whether an option's value is of the type that its field declares."""
    if get_origin(hint) is tuple and isinstance(value, list):
        inner = get_args(hint)
        each = inner[:1] * len(value) if inner[-1:] == (...,) else inner
        return len(each) == len(value) and all(map(_fits, value, each))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if get_origin(hint) is tuple or isinstance(value, list):
        return hint is Any
    return hint is Any or not isinstance(hint, type) or type(value) is hint


def _option(value: Any) -> Any:
    return tuple(map(_option, value)) if isinstance(value, list) else value
