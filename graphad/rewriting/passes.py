"""Passes and pipelines: what a pass is, its text, the one function that runs every pass, and reproducers of those that fail."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

from graphad.contexts import binding
from graphad.errors import GraphadError, InvalidGraph, InvalidType, InvalidValue, ParseError, PassError, add_line, pointed
from graphad.ir import Graph, check_graph, lower, paused_collector
from graphad.ir.provenance import Origin
from graphad.ir.verify import CLAIM_RULES, RULES, TYPE_RULES, Rule, verify
from graphad.ops.definition import did_you_mean
from graphad.plugins import ensure_plugins
from graphad.program import Program
from graphad.program.operator import check_known
from graphad.rewriting.analysis import Analysis, drop_stale, keep_preserved
from graphad.rewriting.dataflow import Dataflow
from graphad.rewriting.runs import Report, Step, arrow
from graphad.settings import SETTINGS, changed_settings
from graphad.showing import Table

# -- text ------------------------------------------------------------------------------------------
# The text of pipelines.
#
# pipeline = call ("," call)*
# call     = name ["{" option "=" value, ... "}"] ["(" pipeline ")"]
# value    = true | false | none | number | word | "string" | "[" value, ... "]"

_TOKEN = re.compile(r'\s*([{}()\[\]=,]|"(?:[^"\\]|\\.)*"|[^\s{}()\[\]=,"]+)')
Claim = str | type  # a property by name, or an analysis
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r'[^\s{}()\[\]=,"]+')
MAX_DEPTH = 64  # of brackets in brackets, and of passes in passes
_CONSTANTS = {"true": True, "false": False, "none": None}


@dataclass
class Call:
    """A pass by name, with its options and, for a combinator, the passes inside."""

    name: str
    text: str
    place: int
    options: dict[str, object] = field(default_factory=dict)
    inner: list[Call] = field(default_factory=list)

    def fail(self, message: str) -> NoReturn:
        """Raise a ``ParseError`` that points at this call."""
        _fail(self.text, self.place, message)


def _fail(text: str, place: int, message: str) -> NoReturn:
    raise ParseError(f"{message}\n{pointed(text, place)}")


def parse_calls(text: str) -> list[Call]:
    """The calls of a pipeline's text; ``ParseError`` points at the character."""
    if not isinstance(text, str):
        raise InvalidType(f"a pipeline is parsed from text, not from {text!r}")
    reader = _Reader(text)
    calls = reader.calls(end="")
    if not calls:
        _fail(text, 0, "the pipeline is empty")
    return calls


def print_option(value: object) -> str:
    """An option's value as text that reads back."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list | frozenset):
        return f"[{', '.join(map(print_option, sorted(value) if isinstance(value, frozenset) else value))}]"
    # A word that would read back as a number or a truth value is quoted, and so is what is no word.
    text = str(value)
    return text if _WORD.fullmatch(text) and isinstance(_constant(text), str) else json.dumps(text)


def _constant(word: str) -> object:
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if word[:1].isalpha() and word[0] not in "iInN":  # "inf" and "nan" are numbers
        return word
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.depth = 0

    @contextmanager
    def nested(self, start: int) -> Iterator[None]:
        """Within it, brackets inside brackets; ParseError if there are too many."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            _fail(self.text, start, f"brackets are nested more than {MAX_DEPTH} deep")
        yield
        self.depth -= 1

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.place)
        if match is None and self._start() < len(self.text):
            _fail(self.text, self._start(), "unexpected character")
        return match[1] if match else ""

    def take(self) -> str:
        token = self.peek()
        self.place = self._start() + len(token)
        return token

    def _start(self) -> int:
        return _SPACE.match(self.text, self.place).end()  # type: ignore[union-attr]

    def expect(self, mark: str) -> None:
        if self.peek() != mark:
            _fail(self.text, self._start(), f"expected {mark!r}, found {self.peek() or 'the end'!r}")
        self.take()

    def calls(self, end: str) -> list[Call]:
        result: list[Call] = []
        while self.peek() != end:
            if result:
                self.expect(",")
            result.append(self.call())
        return result

    def call(self) -> Call:
        start = self._start()
        if not _WORD.fullmatch(self.peek()):
            _fail(self.text, start, f"expected the name of a pass, found {self.peek() or 'the end'!r}")
        call = Call(self.take(), self.text, start)
        if self.peek() == "{":
            self.take()
            call.options = self.options()
        if self.peek() == "(":
            with self.nested(self._start()):
                self.take()
                call.inner = self.calls(")")
                self.expect(")")
        return call

    def options(self) -> dict[str, object]:
        result: dict[str, object] = {}
        while self.peek() != "}":
            if result:
                self.expect(",")
            start, name = self._start(), self.take()
            if not name.isidentifier():
                _fail(self.text, start, f"expected the name of an option, found {name or 'the end'!r}")
            if name in result:
                _fail(self.text, start, f"option {name} is given twice")
            self.expect("=")
            result[name] = self.value()
        self.expect("}")
        return result

    def value(self) -> object:
        start, token = self._start(), self.take()
        if token == "[":
            with self.nested(start):
                return self.items()
        if token.startswith('"'):
            try:
                return json.loads(token)
            except ValueError as error:
                _fail(self.text, start, f"not a string: {error}")
        if not _WORD.fullmatch(token):
            _fail(self.text, start, f"expected a value, found {token or 'the end'!r}")
        return _constant(token)

    def items(self) -> list[object]:
        items: list[object] = []
        while self.peek() != "]":
            if items:
                self.expect(",")
            items.append(self.value())
        self.expect("]")
        return items


# -- what a pass says of its tests -----------------------------------------------------------------
# What a pass says of how it is tested: which random programs give it something to do, and which passes it needs around it.


@dataclass(frozen=True)
class OnTrial:
    """How ``check_pass`` tries a pass.

    Args:
        programs: kinds of random programs that give it something to do, of those in ``graphad.testing.programs.KINDS``, or
            any; none: all kinds.
        after_backward: whether the whole standard backward runs before it.
        goes_by_names: whether names of variables mean something to it, so that it does something else where they are others.
        followed_by: the text of passes that run after it, where nothing else reads what it makes.
        rounds_gradients: whether its tolerance is for programs alone that have gradients already, which it expands.
    """

    programs: tuple[str, ...] = ()
    after_backward: bool = False
    goes_by_names: bool = False
    followed_by: str = ""
    rounds_gradients: bool = False


# -- reproducers -----------------------------------------------------------------------------------
# Reproducers of failing passes: a folder with the program, the graph before the pass, the pipeline so far, and how to run it again.

Run = Callable[["Pass", Graph], bool]
_quiet: ContextVar[bool] = ContextVar("diagnoses only", default=False)
_replaying: ContextVar[bool] = ContextVar("replaying", default=False)
_REPORTED = "_graphad_reproducer"
MOST_SHOWN = 5000  # operators of a program whose failure is shown on a page


def diagnoses_only() -> AbstractContextManager[None]:
    """Within it, what graphad says about the user's own program (no gradient, a wrong name) leaves no reproducer; defects do."""
    return binding(_quiet, True)


@contextmanager
def reported(pass_: Pass, graph: Graph, run: Run) -> Iterator[None]:
    """Within it, an exception leaves a reproducer, which its message names. Nested passes leave one reproducer only.

    ``run`` runs a pass, to make the graph before again from the program. Of passes at work on a nested graph the one that runs them on
    the whole graph is reported: it is what can be run again.
    """
    journal, inside = graph.journal, graph.parent is not None and graph.journal.author is not None
    passes_before = len(journal.history)
    try:
        yield
    except Exception as error:
        # The innermost pass on the whole graph writes it and marks the exception; the pipelines around it see the mark.
        is_reported = bool(SETTINGS.reproducers) and not inside and not _replaying.get()
        if is_reported and not hasattr(error, _REPORTED) and not _is_diagnosis(error):
            _mention(error, _written(pass_, graph, journal.history[:passes_before], run, error))
        raise


def is_replaying() -> bool:
    """Whether passes run in order to make a reproducer; such runs are not reported."""
    return _replaying.get()


def _is_diagnosis(error: Exception) -> bool:
    return _quiet.get() and isinstance(error, GraphadError) and not isinstance(error, InvalidGraph)


def _mention(error: Exception, text: str) -> None:
    setattr(error, _REPORTED, text)
    add_line(error, text)


def _written(pass_: Pass, graph: Graph, history: Sequence[Pass], run: Run, error: Exception) -> str:
    """Write the folder; say where it is, or why there is none: the pass's own error matters more."""
    try:
        files = _files(pass_, graph, history, run, error)
        # The folder is named after what is in it: the same failure again writes over itself, another one beside it.
        digest = hashlib.sha256("\0".join(files.values()).encode()).hexdigest()[:8]
        folder = Path(SETTINGS.reproducers) / f"{pass_.name or 'pass'}-{digest}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        shown = _shown(pass_, graph, history, folder / "page.html") if "program.txt" in files else ""
        return f"{shown}to reproduce it: {folder}"
    except Exception as other:
        return f"no reproducer was written: {other}"


def _shown(pass_: Pass, graph: Graph, history: Sequence[Pass], page: Path) -> str:
    """Run the passes once more, and write a page that shows them up to the failure; say where it is.

    None is written while passes are being recorded, since whoever records them writes one, nor of a very large program.
    """
    write = getattr(Graph, "_write_page_", None)  # by graphad.viewing, a later layer
    program = graph.block.program if graph.block is not None else None
    if write is None or program is None or _applier.get() is not None or sum(len(block.ops) for block in program.blocks) > MOST_SHOWN:
        return ""
    with suppress(Exception), binding(_observers, ()), changed_settings(reproducers=""):
        write(lower(program, graph.journal.requested), Pipeline(*history, pass_), page)
    return f"pass by pass: {page}\n  " if page.exists() else ""


def _files(pass_: Pass, graph: Graph, history: Sequence[Pass], run: Run, error: Exception) -> dict[str, str]:
    """The files of a reproducer, the same for the same failure."""
    pipeline = ", ".join(map(str, [*history, pass_]))
    files = {"pipeline.txt": pipeline + "\n", "error.txt": "".join(traceback.format_exception_only(error))}
    files["trace.txt"] = "".join(traceback.format_exception(error))
    if graph.parent is not None or graph.block is None:
        return {**files, "graph.txt": str(graph)}
    names = graph.journal.requested
    fetch = "" if names is None else f" --fetch {shlex.quote(','.join(names))}"
    unknown = " --allow-unknown" if _has_unknown(graph.block.program) else ""
    # The program stands for the graph: passes are deterministic, so running those before again gives the graph as it was.
    files["program.txt"] = str(graph.block.program)
    files["before.txt"] = _before(graph.block.program, names, history, run)
    files["command.txt"] = f"graphad opt program.txt{unknown}{fetch} -p {shlex.quote(pipeline)}\n"
    return files


def _has_unknown(program: Program) -> bool:
    """Whether the program's text has operators, slots or attributes that commands refuse unless told otherwise."""
    try:
        for op in (op for block in program.blocks for op in block.ops):
            check_known(op)
    except GraphadError:
        return True
    return False


def _before(program: Program, requested: Sequence[str] | None, history: Sequence[Pass], run: Run) -> str:
    """The graph as it was before the failing pass, made again from the program by the passes that went well."""
    with binding(_replaying, True):
        graph = lower(program, requested)
        for pass_ in history:
            run(pass_, graph)
        return str(graph)


# -- one function runs every pass ------------------------------------------------------------------
# The one function that runs every pass, and the observers that it notifies.


Observer = Callable[["Pass", Graph, Step], None]
Applier = Callable[["Pass", Graph], bool]
_observers: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())
_applier: ContextVar[Applier | None] = ContextVar("applier", default=None)


class _Verified(NamedTuple):
    """The state in which a graph was verified last, kept among its analyses."""

    edits: int
    typings: int
    properties: frozenset[str]


def run_pass(pass_: Pass, graph: Graph) -> bool:
    """Run one pass on a graph: check what it requires, apply it, keep the books, verify, tell the observers.

    Once as many rewrites were made as ``graph.journal.limit`` allows, nothing is done; a pass that does not count its own is one.

    Raises:
        PassError: the graph has not what the pass requires.
        TypeError: it is not a graph.
        InvalidGraph: the graph breaks a rule before the first pass, or after this one; then the message names the pass.
        Exception: whatever the pass raises. The message of each names the folder where the graph before, the pipeline so far and a
            command that reproduces it were written.
    """
    check_graph(f"pass {pass_} runs on", graph)
    journal = graph.journal
    if journal.is_exhausted:
        return False
    verifying, applier = SETTINGS.verify, _applier.get()
    ops, values, rewrites = len(graph.ops), len(graph.values), journal.rewrites
    with reported(pass_, graph, run_pass):
        _check_required(pass_, graph)
        drop_stale(graph)
        if verifying and graph.parent is None and not journal.history and _Verified not in graph.analyses:
            verify(graph)  # else a pass would be blamed for the program that it was given, or fail on it
            if pass_.is_analysis:  # any other may have changed the graph by means that do not count edits
                take_as_verified(graph)
        # The author is restored for a combinator, whose inner passes run within it; so is the origin of the last rewrite, where this pass
        # made none.
        before, author, last = dict(graph.analyses), journal.author, journal.origin
        journal.author, journal.origin = pass_.name, None
        start = perf_counter()
        try:
            has_changed = pass_.apply(graph) if applier is None else applier(pass_, graph)
        finally:
            journal.author = author
        seconds = perf_counter() - start
        # A pass that does not count rewrites is one if it changed the graph, so that bisection has a step to stop at.
        if journal.rewrites == rewrites:
            journal.rewrites, journal.origin = (rewrites + 1, Origin(pass_.name, ())) if has_changed else (rewrites, last)
        _update_claims(pass_, graph, has_changed, before)
        if verifying:
            _verify_after(pass_, graph)
    # What a reproducer has to run again: passes on nested graphs run within one that is listed.
    if not pass_.combines and graph.parent is None:
        journal.history.append(pass_)
    observers = _observers.get()
    if observers and not is_replaying():
        counts = (ops, len(graph.ops)), (values, len(graph.values))
        step = Step(pass_.name, str(pass_), has_changed, seconds, *counts, journal.rewrites - rewrites)
        for observer in observers:
            observer(pass_, graph, step)
    return has_changed


# -- what passes claim ---------------------------------------------------------------------------


def _missing(pass_: Pass, available: Iterable[Claim]) -> Claim | None:
    """The first requirement of a pass that does not hold; analyses are computed on request."""
    claims = set(available)
    requirements = (w for w in pass_.requires if w not in claims and not (isinstance(w, type) and issubclass(w, Analysis | Dataflow)))
    return next(requirements, None)


def _name(claim: Claim) -> str:
    return claim if isinstance(claim, str) else str(claim.__name__)


def _check_required(pass_: Pass, graph: Graph) -> None:
    claim = _missing(pass_, [*graph.properties, *graph.analyses])
    if claim is not None:
        has = ", ".join(sorted(graph.properties)) or "nothing"
        raise PassError(f"pass {pass_.name} requires {_name(claim)}, which the graph does not have; it has {has}")


def check_order(passes: tuple[Pass, ...], graph: Graph) -> None:
    """Go through a pipeline's claims, and those of the passes that it repeats, without running it.

    Raises:
        PassError: a pass requires what the graph has not and no pass before it establishes.
    """
    check_graph("a pipeline runs on", graph)
    available: set[Claim] = {*graph.properties, *graph.analyses}
    passes = tuple(part for member in passes for part in member.parts())
    for place, pass_ in enumerate(passes, 1):
        claim = _missing(pass_, available)
        if claim is not None:
            later = next((p.name for p in passes[place:] if claim in p.establishes), None)
            hint = f"; {later}, which does, comes after it" if later else ""
            place_text = f"{pass_.name}, pass {place} of the {len(passes)} in the pipeline,"
            raise PassError(f"{place_text} requires {_name(claim)}, which the graph does not have and no pass before it establishes{hint}")
        # What a pass claims is taken at its word here; ``run_pass`` verifies it when the pass has run.
        available -= set(pass_.clears)
        available |= set(pass_.establishes)


def _update_claims(pass_: Pass, graph: Graph, changed: bool, before: dict[type, object]) -> None:
    graph.properties.difference_update(pass_.clears)
    graph.properties.update(claim for claim in pass_.establishes if isinstance(claim, str))
    # Inner passes of a combinator have settled their claims themselves. Results that this pass established are of the graph as it is now.
    if changed and not pass_.combines:
        results = {kind: graph.analyses[kind] for kind in pass_.establishes if kind in graph.analyses}
        keep_preserved(graph, (*pass_.preserves, _Verified), before, pass_.name)
        graph.analyses |= results


# -- verification --------------------------------------------------------------------------------


def _verify_after(pass_: Pass, graph: Graph) -> None:
    """Hold the graph against the rules that a change since the last verification can break, whatever the pass says it did."""
    verified = _Verified(graph.journal.edits, graph.journal.typings, frozenset(graph.properties))
    last: _Verified | None = graph.analyses.get(_Verified)
    try:
        verify(graph, _rules_to_check(last, verified))
    except InvalidGraph as error:
        raise InvalidGraph(f"after pass {pass_}: {error}") from None
    graph.analyses[_Verified] = verified


def _rules_to_check(last: _Verified | None, now: _Verified) -> tuple[Rule, ...]:
    # Edits can break any rule. Claims and types are counted apart, so that a pass that only infers types costs two rules.
    if last is None or last.edits != now.edits:
        return RULES
    claims = () if last.properties == now.properties else CLAIM_RULES
    types = () if last.typings == now.typings else TYPE_RULES
    return claims + types


def verification(on: bool) -> AbstractContextManager[None]:
    """Within it, graphs are verified after every pass, or not."""
    return changed_settings(verify=on)


def take_as_verified(graph: Graph) -> None:
    """Let the first pass on a graph run without verifying its input; its output is verified as always."""
    graph.analyses[_Verified] = _Verified(graph.journal.edits, graph.journal.typings, frozenset(graph.properties))


# -- observers -----------------------------------------------------------------------------------


def observing(observer: Observer) -> AbstractContextManager[None]:
    """Within it, the observer is told of every pass in this thread or asyncio task: ``observer(pass, graph, step)``."""
    return binding(_observers, (*_observers.get(), observer))


def applying(by: Applier) -> AbstractContextManager[None]:
    """Within it, passes are applied by a function: ``by(pass, graph)``, which calls ``pass.apply(graph)`` and returns what that does."""
    return binding(_applier, by)


class Timings:
    """An observer that remembers every step; its text is a table of passes, seconds and node counts."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def __call__(self, pass_: Pass, graph: Graph, step: Step) -> None:
        if not pass_.combines:
            self.steps.append(step)

    def __str__(self) -> str:
        rows = [(f"{s.seconds * 1e3:.2f} ms", arrow(s.ops), arrow(s.values), "changed" if s.changed else "", s.text) for s in self.steps]
        rows.append((f"{sum(s.seconds for s in self.steps) * 1e3:.2f} ms", "", "", "", "all"))
        table = [("time", "operators", "values", "", "pass"), *rows]
        widths = [max(len(row[i]) for row in table) for i in range(4)]
        return "\n".join("  ".join([*(f"{c:>{w}}" for c, w in zip(row, widths, strict=False)), row[4]]).rstrip() for row in table)


# -- passes and pipelines --------------------------------------------------------------------------
# A pass: a name, options as fields, and ``apply(graph) -> changed``. Pipelines of passes are passes.
#
#     @dataclass(frozen=True)
#     class Mine(Pass):
#         '''One line that says what it does.'''
#         name = "mine"
#         limit: int = 3                       # mine{limit=3}
#         def apply(self, graph): ...          # change the graph; return whether you did
#
# Every pass is run by one function, ``graphad.rewriting.passes.run_pass``.


class _Library(MutableMapping[str, "type[Pass]"]):
    """Passes by name. graphad's own and those of plugins are loaded when a name is not known, and when all names are listed.

    Attributes:
        defined: those that are there already.
        changes: how often a name has got another pass; while this stays the same, a text means the same passes.
    """

    def __init__(self) -> None:
        self.defined: dict[str, type[Pass]] = {}
        self.changes = 0

    def __getitem__(self, name: str) -> type[Pass]:
        if name not in self.defined:
            ensure_plugins()
        return self.defined[name]

    def __setitem__(self, name: str, kind: type[Pass]) -> None:
        self.defined[name] = kind
        self.changes += 1

    def __delitem__(self, name: str) -> None:
        del self.defined[name]
        self.changes += 1

    def __iter__(self) -> Iterator[str]:
        ensure_plugins()
        return iter(self.defined)

    def __len__(self) -> int:
        ensure_plugins()
        return len(self.defined)


PASSES = _Library()
LIMIT = 100
_CYCLE = 8


def options_of(kind: type) -> tuple[Field[object], ...]:
    """The options of a kind of pass: its fields; none, if it is not a dataclass."""
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
    requires: ClassVar[tuple[Claim, ...]] = ()
    clears: ClassVar[tuple[str, ...]] = ()
    establishes: ClassVar[tuple[Claim, ...]] = ()
    preserves: ClassVar[tuple[type, ...]] = ()
    idempotent: ClassVar[bool] = False
    combines: ClassVar[bool] = False
    is_analysis: ClassVar[bool] = False
    tolerance: ClassVar[float] = 0.0
    on_trial: ClassVar[OnTrial] = OnTrial()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if cls.name:
            if not cls.__module__.startswith("graphad."):
                import_module("graphad.passes")  # so that a name that graphad has is refused here, not when its own pass is loaded
            first_class = PASSES.defined.setdefault(cls.name, cls)
            if (first_class.__module__, first_class.__qualname__) != (cls.__module__, cls.__qualname__):
                first_name, name = (f"{kind.__module__}.{kind.__qualname__}" for kind in (first_class, cls))
                raise InvalidValue(f"two passes are named {cls.name!r}: {first_name} and {name}")
            PASSES[cls.name] = cls

    @abstractmethod
    def apply(self, graph: Graph) -> bool:
        """Change the graph; return whether it changed."""

    def run(self, graph: Graph) -> bool | Report:
        """Apply the pass as ``run_pass`` does: checked, verified, observed; return whether the graph changed."""
        return run_pass(self, graph)

    @property
    def group(self) -> int:
        """How many ranks run the program after the pass; 1 where it runs as before."""
        return 1

    def parts(self) -> tuple[Pass, ...]:
        """The passes that run on the same graph in its place: itself, unless it only runs others."""
        return (self,)

    def intended(self, program: Program, values: Mapping[str, object]) -> Mapping[str, Any]:
        """The arrays that the pass is meant to change, by name.

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


# Pipelines that have a name: in a text it stands for the passes.
PIPELINES = {
    "optimize-for-speed": "fold-batch-norm, fold-branches, hoist-invariants, inline-net, constant-folding, simplify, cse, dead-code",
    "optimize-for-memory": "fold-branches, inline-net, constant-folding, simplify, cse, dead-code, recompute",
}


class Pipeline(Pass):
    """Passes run in sequence: ``Pipeline(a, b)``, ``a | b`` or ``Pipeline.parse("a, b")``.

    ``optimize-for-speed`` and ``optimize-for-memory`` are the names of pipelines (``PIPELINES``).
    """

    combines = True

    def __init__(self, *passes: Pass) -> None:
        for pass_ in passes:
            if not isinstance(pass_, Pass):
                raise InvalidType(f"a pipeline is made of passes, not of {pass_!r}")
        # Pipelines in a pipeline are spliced in: composition is associative, so nesting would only say how it was written.
        self.passes: tuple[Pass, ...] = tuple(p for member in passes for p in (member.passes if type(member) is Pipeline else (member,)))
        inner = (member.inner for member in self.passes if isinstance(member, Fixpoint | Nested))
        self.depth: int = 1 + max((item.depth for item in inner), default=-1)
        if self.depth > MAX_DEPTH:
            raise InvalidValue(f"passes are nested {self.depth} deep in fixpoint and nested; at most {MAX_DEPTH} are possible")

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def __getitem__(self, number: int) -> Pass:
        return self.passes[number]

    def __bool__(self) -> bool:
        return True  # a pipeline of no passes, too: it is no list of them

    def apply(self, graph: Graph) -> bool:
        # A list, not a generator: ``any`` would stop at the first pass that changes the graph.
        return any([run_pass(pass_, graph) for pass_ in self.passes])

    def run(self, graph: Graph) -> Report:
        """Run the passes; one whose place cannot work is refused before any runs.

        Returns:
            What each pass did; it is true if the graph changed.

        Raises:
            PassError: a pass requires what the graph has not and no pass before it establishes.
        """
        check_order(self.passes, graph)
        ops, values, timings = len(graph.ops), len(graph.values), Timings()
        start = perf_counter()
        with paused_collector(ops), observing(timings):
            has_changed = self.apply(graph)
        seconds = perf_counter() - start
        return Report(has_changed, tuple(timings.steps), seconds, (ops, len(graph.ops)), (values, len(graph.values)))

    @property
    def group(self) -> int:
        return max((pass_.group for pass_ in self.passes), default=1)

    def parts(self) -> tuple[Pass, ...]:
        return tuple(part for pass_ in self.passes for part in pass_.parts())

    def intended(self, program: Program, values: Mapping[str, object]) -> Mapping[str, Any]:
        attrs: dict[str, Any] = {}
        for pass_ in self.passes:
            attrs.update(pass_.intended(program, {**values, **attrs}))
        return attrs

    def __str__(self) -> str:
        return ", ".join(map(str, self.passes))

    def __repr__(self) -> str:
        return f"<Pipeline: {self}>"

    def _repr_html_(self) -> str:
        rows = [(str(pass_), type(pass_).summary()) for pass_ in self.passes]
        return Table(("pass", "what it does"), tuple(rows)).html()

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
        # Rules that undo each other come back to a graph seen before. Its text decides, since text is the same for equal graphs.
        texts, did = [str(graph)], []
        for _ in range(_CYCLE):
            did.append([f"{pass_}{_last_rewrite(graph)}" for pass_ in self.inner.passes if run_pass(pass_, graph)])
            text = str(graph)
            if text in texts:
                around = did[texts.index(text) :]
                often = "round" if len(around) == 1 else f"{len(around)} rounds"
                return f"the same graph comes back every {often}, changed by {', then '.join(word for names in around for word in names)}"
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
        # Listed before any pass runs, since passes may inline graphs; ``tree`` yields a graph before those in it.
        graphs = [subgraph for subgraph in graph.tree(sealed=False) if subgraph is not graph]
        return any([self.inner.apply(subgraph) for subgraph in reversed(graphs)])

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
    limit = call.options.pop("limit", LIMIT) if call.name == Fixpoint.name else LIMIT
    if call.options or not call.inner or type(limit) is not int:
        also = ", and a whole number as its limit" if call.name == Fixpoint.name else ""
        call.fail(f"{call.name} takes passes in parentheses{also}")
    inner = [_built(item) for item in call.inner]
    if call.name == Nested.name:
        return Nested(*inner)
    try:
        return Fixpoint(*inner, limit=limit)
    except ValueError as error:
        call.fail(str(error))


def _built(call: Call) -> Pass:
    if call.name in (Fixpoint.name, Nested.name):
        return _combined(call)
    # A registered pipeline is spliced in under its name.
    if call.name in PIPELINES and not call.options and not call.inner:
        return Pipeline.parse(PIPELINES[call.name])
    kind = PASSES.get(call.name)
    if kind is None:
        near = did_you_mean(call.name, [*PASSES, *PIPELINES]) or f"; the command graphad passes lists the {len(PASSES)} there are"
        call.fail(f"no pass is named {call.name!r}{near}")
        raise AssertionError
    if call.inner:
        call.fail(f"pass {call.name} takes no passes in parentheses")
    options_by_name = {f.name: f for f in options_of(kind)}
    for option in call.options:
        if option not in options_by_name:
            call.fail(f"pass {call.name} has no option {option!r}; it has {', '.join(options_by_name) or 'none'}")
    hints = _type_hints(kind) if call.options else {}
    for option, value in call.options.items():
        if not _fits(value, hints[option]):
            call.fail(f"option {option} of pass {call.name} is {options_by_name[option].type}, not {print_option(value)}")
    try:
        return kind(**{name: _option(value) for name, value in call.options.items()})
    except (TypeError, ValueError) as error:
        call.fail(str(error))
        raise AssertionError from error


@lru_cache(maxsize=64)
def _type_hints(kind: type[Pass]) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: object, hint: object) -> bool:
    """Whether an option's value is of the type that its field declares."""
    # ``tuple[int, ...]`` takes any number of items, ``tuple[int, str]`` one of each.
    if get_origin(hint) is tuple and isinstance(value, list):
        inner = get_args(hint)
        item = inner[:1] * len(value) if inner[-1:] == (...,) else inner
        return len(item) == len(value) and all(map(_fits, value, item))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if get_origin(hint) is tuple or isinstance(value, list):
        return hint is Any
    return hint is Any or not isinstance(hint, type) or type(value) is hint


def _option(value: object) -> object:
    return tuple(map(_option, value)) if isinstance(value, list) else value
