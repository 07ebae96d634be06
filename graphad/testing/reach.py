"""What of a pass's own code has run, and which names of operators, attributes and slots that code mentions.

The own code of a pass are the methods of its class and the functions of the same file that those call, found through the names
they use. Lines are traced with ``sys.settrace``, which costs nothing where tracing is off.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

from graphad.graph import Graph
from graphad.ops import REGISTRY, ControlDef
from graphad.plugins import ensure_plugins
from graphad.rewriting import Pass, Rule
from graphad.rewriting.running import Applier, applying
from graphad.testing.calls import Interest

Arc = tuple[CodeType, int, int]  # from one line to the next within a function; 0 before the first
TOLD_APART = 16  # so many operators at most that have the same text in a field of their definitions
OF_BLOCKS = {"is_loop", "carried_count"}  # names by which code speaks of loops and branches


def own_functions(kind: type) -> list[FunctionType]:
    """The methods that a class and its bases outside graphad's framework define, and the functions of their files they use."""
    bases = [base for base in kind.__mro__ if base not in (*Pass.__mro__, *Rule.__mro__)]
    pending = [f for base in bases for value in vars(base).values() if (f := _function(value)) is not None and _is_in_file_of(f, base)]
    functions: dict[FunctionType, None] = {}
    while pending:
        function = pending.pop()
        if function not in functions and not function.__name__.startswith("__"):
            functions[function] = None
            pending += _mentioned(function)
    return sorted(functions, key=lambda f: (f.__code__.co_filename, f.__code__.co_firstlineno))


def _function(value: Any) -> FunctionType | None:
    value = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", None) or value
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) else None


def _is_in_file_of(function: FunctionType, kind: type) -> bool:
    """Whether a method was written by hand; what dataclasses make has another file name."""
    return not function.__code__.co_filename.startswith("<string>") and function.__module__ == kind.__module__


def _mentioned(function: FunctionType) -> Iterator[FunctionType]:
    """The functions, and methods of classes, of the same file that a function's code mentions."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    values += [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    for value in values:
        members = vars(value).values() if isinstance(value, type) else (value,)
        for member in members:
            found = _function(member)
            if found is not None and found.__code__.co_filename == function.__code__.co_filename:
                yield found


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions, lambdas and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def interest_of(passes: Iterable[Pass], rules: Iterable[Rule] = ()) -> Interest:
    """The operators, attributes and slots that the code of some passes and rules mentions, in its constants and those of its module.

    Code also speaks of operators by a field of their definitions: ``row.narrow == "gains"`` mentions all that gain by narrow types.
    And whether it looks at loops and branches: at operators' graphs, or the blocks that they are written in.
    """
    ensure_plugins()
    rules = list(rules)
    words: dict[str, None] = dict.fromkeys(op_type for rule in rules for op_type in sorted(rule.types or ()))
    names, fields = set[str](), _types_by_field()
    for each in (*passes, *rules):
        for function in own_functions(type(each)):
            for code in _codes(function.__code__):
                names.update(code.co_names)
                words.update(dict.fromkeys([*_words(code.co_consts), *_told_apart(code, fields)]))
                words.update(dict.fromkeys(_words([function.__globals__.get(name) for name in code.co_names])))
    types = tuple(sorted(word for word in words if word in REGISTRY))
    attributes = {name for definition in REGISTRY.values() for name in definition.attrs}
    about_blocks = bool(names & OF_BLOCKS) or any(isinstance(REGISTRY[op_type], ControlDef) for op_type in types)
    return Interest(types, tuple(sorted(word for word in words if word in attributes)), blocks=about_blocks)


def _types_by_field() -> dict[tuple[str, str], list[str]]:
    """The types of operators by the fields of their definitions that are texts, and these texts; only where few have the same."""
    found = defaultdict[tuple[str, str], list[str]](list)
    for definition in REGISTRY.values():
        for field_name, value in vars(definition).items():
            if isinstance(value, str) and value:
                found[field_name, value].append(definition.type)
    return {key: types for key, types in found.items() if len(types) <= TOLD_APART}


def _told_apart(code: CodeType, types: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    """The operators that code tells from others by a field of their definitions."""
    for (name, value), found in types.items():
        if name in code.co_names and value in code.co_consts:
            yield from found


def _words(values: Iterable[Any], depth: int = 3) -> Iterator[str]:
    """The words in texts, and in collections of texts."""
    for value in values:
        if isinstance(value, str):
            yield from value.split()
        elif isinstance(value, dict) and depth:
            yield from _words([*value.keys(), *value.values()], depth - 1)
        elif isinstance(value, tuple | list | set | frozenset) and depth:
            yield from _words(sorted(value, key=repr) if isinstance(value, set | frozenset) else value, depth - 1)


# -- lines that ran ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unreached:
    """A line of a pass that never ran: its function, number and text."""

    function: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.function}, line {self.line}: {self.text}"


@dataclass
class Reach:
    """The lines and arcs of some passes' own code that ran while they were traced.

    >>> from graphad.passes import InlineNet
    >>> reach = Reach.of([InlineNet()])
    >>> reach.unreached()[0].function
    'InlineNet.apply'
    """

    names: dict[CodeType, str] = field(default_factory=dict)
    arcs: set[Arc] = field(default_factory=set)
    passes: frozenset[type[Pass]] = frozenset()

    @classmethod
    def of(cls, passes: Iterable[Pass]) -> Reach:
        kinds = dict.fromkeys(type(each) for each in passes)
        functions = [function for kind in kinds for function in own_functions(kind)]
        return cls({code: f.__qualname__ for f in functions for code in _codes(f.__code__)}, passes=frozenset(kinds))

    @contextmanager
    def traced(self) -> Iterator[set[Arc]]:
        """Within it, arcs are noted while passes are applied; those that are new are in the set afterwards."""
        new = set[Arc]()
        if sys.gettrace() is not None or not self.names:  # a debugger, or a coverage tool, is at work
            yield new
            return
        with applying(self._applier(new)):
            yield new
        new -= self.arcs
        self.arcs |= new

    def _applier(self, arcs: set[Arc]) -> Applier:
        tracer, own = self._tracer(arcs), self.passes

        def apply(each: Pass, graph: Graph) -> bool:
            if type(each) not in own:
                return each.apply(graph)
            before = sys.gettrace()
            sys.settrace(tracer)
            try:
                return each.apply(graph)
            finally:
                sys.settrace(before)

        return apply

    def _tracer(self, arcs: set[Arc]) -> Any:
        names = self.names

        def trace_call(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code not in names:
                return None
            code, last = frame.f_code, 0

            def trace_line(frame: FrameType, event: str, argument: Any) -> Any:
                nonlocal last
                if event == "line":
                    arcs.add((code, last, frame.f_lineno))
                    last = frame.f_lineno
                return trace_line

            return trace_line

        return trace_call

    def unreached(self) -> list[Unreached]:
        """The lines that never ran, in order."""
        ran = {(code.co_filename, line) for code, _, line in self.arcs}
        missing: dict[tuple[str, int], Unreached] = {}
        for code, name in self.names.items():
            for line in sorted({line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}):
                place = (code.co_filename, line)
                if place not in ran:
                    missing.setdefault(place, Unreached(name, line, linecache.getline(*place).strip()))
        return [missing[place] for place in sorted(missing)]
