"""A pass: a name, options as fields, and ``apply(graph) -> changed``. Pipelines of passes are passes.

    @dataclass(frozen=True)
    class Mine(Pass):
        '''One line that says what it does.'''
        name = "mine"
        limit: int = 3                       # mine{limit=3}
        def apply(self, graph): ...          # change the graph; return whether you did

Every pass is run by one function, ``graphad.rewriting.running.run_pass``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import Field, fields, is_dataclass
from importlib import import_module
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from graphad.errors import InvalidType, InvalidValue, PassError
from graphad.graph import Graph, paused_collector
from graphad.ops.definition import did_you_mean
from graphad.plugins import ensure_plugins
from graphad.program import Program
from graphad.rewriting.on_trial import OnTrial
from graphad.rewriting.running import check_order, run_pass
from graphad.rewriting.syntax import MAX_DEPTH, Call, parse_calls, print_option


class _Library(MutableMapping[str, "type[Pass]"]):
    """Passes by name. graphad's own and those of plugins are loaded when a name is not known, and when all are gone through."""

    def __init__(self) -> None:
        self.defined: dict[str, type[Pass]] = {}

    def __getitem__(self, name: str) -> type[Pass]:
        if name not in self.defined:
            ensure_plugins()
        return self.defined[name]

    def __setitem__(self, name: str, kind: type[Pass]) -> None:
        self.defined[name] = kind

    def __delitem__(self, name: str) -> None:
        del self.defined[name]

    def __iter__(self) -> Iterator[str]:
        ensure_plugins()
        return iter(self.defined)

    def __len__(self) -> int:
        ensure_plugins()
        return len(self.defined)


PASSES = _Library()
LIMIT = 100
_CYCLE = 8


def options_of(kind: type) -> tuple[Field[Any], ...]:
    """The options of a kind of pass: its fields; none, if it is no dataclass."""
    return fields(kind) if is_dataclass(kind) else ()


class Pass(ABC):
    """One rewrite of a graph. Subclasses are frozen dataclasses, or have no options; they register themselves by ``name``.

    Attributes:
        name: what the pass is called in pipelines.
        requires: properties, and results of other passes by their class, that the graph must have.
        clears: properties it takes from the graph.
        establishes: properties, and results by their class, that it gives to the graph.
        preserves: analyses and results that stay true although the pass changes the graph.
        idempotent: whether it claims that a second run right after the first changes nothing.
        combines: whether it only runs other passes.
        is_analysis: whether it only computes something about the graph, and never changes it.
        tolerance: the relative difference that it may make to the values that the program computes; 0 keeps every bit.
        on_trial: how ``check_pass`` tries it, where that is not told otherwise.
    """

    name: ClassVar[str] = ""
    requires: ClassVar[tuple[Any, ...]] = ()
    clears: ClassVar[tuple[str, ...]] = ()
    establishes: ClassVar[tuple[Any, ...]] = ()
    preserves: ClassVar[tuple[type, ...]] = ()
    idempotent: ClassVar[bool] = False
    combines: ClassVar[bool] = False
    is_analysis: ClassVar[bool] = False
    tolerance: ClassVar[float] = 0.0
    on_trial: ClassVar[OnTrial] = OnTrial()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.name:
            if not cls.__module__.startswith("graphad."):
                import_module("graphad.passes")  # so that a name that graphad has is refused here, not when its own pass is loaded
            other = PASSES.defined.setdefault(cls.name, cls)
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

    def parts(self) -> tuple[Pass, ...]:
        """The passes that run on the same graph in its place: itself, unless it only runs others."""
        return (self,)

    def intended(self, program: Program, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the pass is there to change: the arrays that differ after it, by name.

        ``check_pass`` holds the pass to it. A formula over arrays that owes nothing to ``apply`` says most.

        Args:
            program: the program before the pass.
            values: what that computes: results, gradients, and at its end all that persists.
        """
        return {}

    def __or__(self, other: Pass) -> Pipeline:
        return Pipeline(self, other)

    def __str__(self) -> str:
        options = [f"{f.name}={print_option(getattr(self, f.name))}" for f in options_of(type(self)) if getattr(self, f.name) != f.default]
        return f"{self.name}{{{', '.join(options)}}}" if options else self.name

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().split("\n", 1)[0]


class Pipeline(Pass):
    """Passes one after the other: ``Pipeline(a, b)``, ``a | b`` or ``Pipeline.parse("a, b")``."""

    combines = True

    def __init__(self, *passes: Pass) -> None:
        for each in passes:
            if not isinstance(each, Pass):
                raise InvalidType(f"a pipeline is made of passes, not of {each!r}")
        self.passes: tuple[Pass, ...] = tuple(p for each in passes for p in (each.passes if type(each) is Pipeline else (each,)))
        inner = (each.inner for each in self.passes if isinstance(each, Fixpoint | Nested))
        self.depth: int = 1 + max((each.depth for each in inner), default=-1)
        if self.depth > MAX_DEPTH:
            raise InvalidValue(f"passes are nested {self.depth} deep in fixpoint and nested; at most {MAX_DEPTH} are possible")

    def apply(self, graph: Graph) -> bool:
        return any([run_pass(each, graph) for each in self.passes])

    def run(self, graph: Graph) -> bool:
        """Run the passes; one whose place cannot work is refused before any runs.

        Raises:
            PassError: a pass requires what the graph has not and no pass before it establishes.
        """
        check_order(self.passes, graph)
        with paused_collector(len(graph.ops)):
            return self.apply(graph)

    def parts(self) -> tuple[Pass, ...]:
        return tuple(part for each in self.passes for part in each.parts())

    def intended(self, program: Program, values: Mapping[str, Any]) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for each in self.passes:
            found.update(each.intended(program, {**values, **found}))
        return found

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
    combines = True

    def __init__(self, *passes: Pass, limit: int = LIMIT) -> None:
        if limit < 1:
            raise InvalidValue(f"the limit of a fixpoint is at least 1, not {limit}")
        self.inner = Pipeline(*passes)
        self.limit = limit

    def parts(self) -> tuple[Pass, ...]:
        return self.inner.parts()

    def run(self, graph: Graph) -> bool:
        check_order(self.parts(), graph)
        return run_pass(self, graph)

    def apply(self, graph: Graph) -> bool:
        for rounds in range(self.limit):
            if not self.inner.apply(graph):
                return rounds > 0
        raise PassError(f"{self} still changes the graph after {self.limit} rounds: {self._cycle(graph)}")

    def _cycle(self, graph: Graph) -> str:
        """Run some rounds more, and say which passes change what until the same graph comes back."""
        texts, did = [str(graph)], []
        for _ in range(_CYCLE):
            did.append([f"{each}{_last_rewrite(graph)}" for each in self.inner.passes if run_pass(each, graph)])
            text = str(graph)
            if text in texts:
                around = did[texts.index(text) :]
                often = "round" if len(around) == 1 else f"{len(around)} rounds"
                return f"the same graph comes back every {often}, changed by {', then '.join(each for names in around for each in names)}"
            texts.append(text)
        return f"it has {len(graph.ops)} operators, and the last round was changed by {', '.join(did[-1])}"

    def __str__(self) -> str:
        limit = "" if self.limit == LIMIT else f"{{limit={self.limit}}}"
        return f"fixpoint{limit}({self.inner})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixpoint) and (self.inner, self.limit) == (other.inner, other.limit)

    def __hash__(self) -> int:
        return hash((self.inner, self.limit))


def _last_rewrite(graph: Graph) -> str:
    origin = graph.journal.origin
    return "" if origin is None else f" (rule {origin.rule} on {', '.join(a.text for a in origin.ancestors) or 'the graph'})"


def fixpoint(*passes: Pass, limit: int = LIMIT) -> Fixpoint:
    """Passes repeated until none changes the graph; ``PassError`` after ``limit`` rounds, with what comes back again and again."""
    return Fixpoint(*passes, limit=limit)


class Nested(Pass):
    """Run passes on the graphs nested in operators, the innermost first, and not on the graph around them."""

    name = "nested"

    def __init__(self, *passes: Pass) -> None:
        self.inner = Pipeline(*passes)

    def apply(self, graph: Graph) -> bool:
        graphs = [each for each in graph.tree() if each is not graph]
        return any([self.inner.apply(each) for each in reversed(graphs)])

    def __str__(self) -> str:
        return f"nested({self.inner})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nested) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash(("nested", self.inner))


def nested(*passes: Pass) -> Nested:
    """Passes for the graphs nested in operators."""
    return Nested(*passes)


# -- from text -----------------------------------------------------------------------------------


def _combined(call: Call) -> Pass:
    limits = [call.options.pop("limit")] if call.name == Fixpoint.name and "limit" in call.options else []
    if call.options or not call.inner or not all(type(limit) is int for limit in limits):
        also = ", and a whole number as its limit" if call.name == Fixpoint.name else ""
        call.fail(f"{call.name} takes passes in parentheses{also}")
    inner = [_built(each) for each in call.inner]
    if call.name == Nested.name:
        return Nested(*inner)
    try:
        return Fixpoint(*inner, limit=limits[0] if limits else LIMIT)
    except ValueError as error:
        call.fail(str(error))


def _built(call: Call) -> Pass:
    if call.name in (Fixpoint.name, Nested.name):
        return _combined(call)
    kind = PASSES.get(call.name)
    if kind is None:
        near = did_you_mean(call.name, PASSES) or f"; the command graphad passes lists the {len(PASSES)} there are"
        call.fail(f"no pass is named {call.name!r}{near}")
        raise AssertionError
    if call.inner:
        call.fail(f"pass {call.name} takes no passes in parentheses")
    known = {f.name: f for f in options_of(kind)}
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
