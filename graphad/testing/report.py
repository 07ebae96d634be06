"""Reports of checks: the smallest program on which a pass is wrong, or how many programs it was right on."""

from __future__ import annotations

import difflib
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from math import inf
from pathlib import Path
from typing import Any

from graphad.difference import compare
from graphad.drawing import draw
from graphad.errors import GraphadError
from graphad.ir import SINGLE_WRITER, Graph, Op, lower, schedule
from graphad.ops import REGISTRY
from graphad.program import Program
from graphad.testing.cases import Case
from graphad.testing.reach import Unreached
from graphad.testing.snippet import snippet
from graphad.testing.trial import Finding, Subject, Trial, quietly
from graphad.testing.values import short_text
from graphad.types import Array
from graphad.viewing import record

# -- counterexample --------------------------------------------------------------------------------
# What is said of a wrong pass: the smallest program, before and after it, as programs, as text, as a snippet and as pictures.

SECONDS, DPI = 20.0, 144  # that a drawing may take, and that a PNG has
FORMATS = (".svg", ".png")
REMOVED, ADDED = "removed or changed by the pass", "added or changed by the pass"


class Counterexample(AssertionError):
    """A pass is wrong; ``str`` of it says all.

    Attributes:
        finding: what does not hold; ``finding.kind`` is one word for it.
        case: the program, made as small as possible, and arrays for it.
        before: the program that the one after is compared with: that which the pass got, or which the reference made of it.
        after: the program that the pass made of it; None if the graph cannot be written as a program.
        graph: the graph after the pass, or as far as the pass got.
        examples: how many programs were tried until it was found.
        snippet: a Python program that shows it.
        file: snippet.py, which holds it.
        pictures: the files before.svg, after.svg, before.png and after.png, as far as they could be drawn; what the pass
            changed is outlined.
        page: the file page.html, which shows the pass at work, rewrite by rewrite; None if it could not be written.
    """

    def __init__(self, subject: Subject, finding: Finding, case: Case, graph: Graph, folder: Path | None = None, examples: int = 1) -> None:
        self.subject, self.finding, self.case, self.graph = subject, finding, case, graph
        self.examples = examples
        graph_before = _prepared(subject, case)
        self.before = _before(subject, case, graph_before)
        self.after = _program(graph)
        self.snippet = snippet(subject, case, graph)
        self.file = _saved(self.snippet, folder)
        home = self.file.parent
        before = lower(self.before) if subject.reference else graph_before
        self.pictures = _pictures(before, graph, _titles(subject), home)
        self.page = _page(subject, case, home / "page.html")
        super().__init__(self._said())

    def _said(self) -> str:
        after = str(self.graph if self.after is None else self.after)
        parts = {
            **_texts(str(self.before), after),
            "written at": _lines(self.before),
            "arrays": _arrays({**self.case.feeds, **self.case.params}),
            "pictures": "\n".join(map(str, self.pictures)) or "none: it cannot be drawn",
            "rewrite by rewrite": "" if self.page is None else str(self.page),
        }
        sections = "\n".join(f"{title}:\n{_indented(text)}" for title, text in parts.items() if text)
        return f"{self.subject}: {self.finding}\n\n{sections}\nto see it again, python {self.file}:\n\n{self.snippet}"


def _program(graph: Graph) -> Program | None:
    """The program that a graph is, if it can be one."""
    try:
        program = schedule(graph) if SINGLE_WRITER in graph.properties else None
        str(program)
        return program
    except Exception:  # a graph that breaks rules may raise anything; what was found is shown all the same
        return None


def _prepared(subject: Subject, case: Case) -> Graph:
    """The graph that the pass got, or where what prepares it fails, that of the case."""
    with suppress(GraphadError):
        return subject.prepared(case)
    return lower(case.program, case.targets)


def _before(subject: Subject, case: Case, prepared: Graph) -> Program:
    with suppress(GraphadError):
        return subject.before(case, prepared)
    return case.program


# -- as text -------------------------------------------------------------------------------------


def _texts(before: str, after: str) -> dict[str, str]:
    """Both programs, or the first and how the second differs, whichever is shorter."""
    if before == after:
        return {"before and after": before}
    # With all lines as context there is one hunk; before it come three lines of file names and positions.
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=len(before)))[3:]
    whole = len(before.splitlines()) + len(after.splitlines())
    return {"before and after": "\n".join(lines)} if len(lines) < whole else {"before": before, "after": after}


def _lines(program: Program) -> str:
    """The lines of the user's that wrote the operators of a program, as far as any did."""
    ops = (op for block in program.blocks for op in block.ops if op.source)
    return "\n".join(f"{op.source}: {op!r}" for op in ops)


def _arrays(arrays: Mapping[str, Array]) -> str:
    return "\n".join(f"{name} = {array.dtype}{list(array.shape)} {short_text(array)}" for name, array in arrays.items())


def _indented(text: str) -> str:
    return "".join(f"  {line}".rstrip() + "\n" for line in text.splitlines())


# -- as pictures ---------------------------------------------------------------------------------


def _titles(subject: Subject) -> tuple[str, str]:
    return f"after {subject.reference}" if subject.reference else f"before {subject.what}", f"after {subject.what}"


def _saved(snippet: str, folder: Path | None) -> Path:
    """The snippet's file, in a temporary folder if the one chosen cannot be written: what took long to find is not lost for that."""
    for home in (folder, None):
        parent = Path(tempfile.mkdtemp(prefix="graphad-")) if home is None else home
        try:
            parent.mkdir(parents=True, exist_ok=True)
            (parent / "snippet.py").write_text(snippet, encoding="utf-8")
        except OSError:
            if home is None:
                raise
        else:
            break
    return parent / "snippet.py"


def _pictures(before: Graph, after: Graph, titles: tuple[str, str], folder: Path) -> list[Path]:
    old_operators, new_operators = _changed_operators(before, after)
    sides = (("before", before, old_operators, titles[0], REMOVED), ("after", after, new_operators, titles[1], ADDED))
    pictures: list[Path] = []
    for stem, graph, ops, title, means in sides:
        options: dict[str, Any] = {"title": title, "highlight": ops, "highlight_means": means, "attributes": True}
        with suppress(Exception):  # a finding is not lost with its picture: a broken graph may fail anywhere
            for ending in FORMATS:
                pictures.append(draw(graph, folder / f"{stem}{ending}", dpi=DPI, timeout=SECONDS, **options))
    return sorted(pictures, key=lambda path: FORMATS.index(path.suffix))


def _page(subject: Subject, case: Case, path: Path) -> Path | None:
    """The page of the pass at work, open at its change; if it fails, up to there."""
    with quietly(), suppress(Exception):
        record(subject.prepared(case), subject.passes(case), path, title=str(subject), at_change=True)
    return path if path.exists() else None


def _changed_operators(before: Graph, after: Graph) -> tuple[list[Op], list[Op]]:
    """The operators that differ between two graphs; none where a graph is too broken to be compared."""
    try:
        return changed_operators(before, after)
    except (GraphadError, LookupError, ValueError, AttributeError):
        return [], []


def changed_operators(before: Graph, after: Graph) -> tuple[list[Op], list[Op]]:
    """The operators of one graph that are not in another, or not like that, and the other way round.

    >>> one = lower(Program.parse("program { block 0 { var x: float32[1] var y: float32[1] tanh(X=x) -> (Out=y) } }"))
    >>> other = lower(Program.parse("program { block 0 { var x: float32[1] var y: float32[1] sin(X=x) -> (Out=y) } }"))
    >>> [[op.type for op in ops] for ops in changed_operators(one, other)]
    [['tanh'], ['sin']]
    """
    difference = compare(before, after)
    # ``compare`` works on copies, whose operators are in the order of the originals.
    originals = dict(zip(_operators(difference.before), _operators(before), strict=True))
    originals |= dict(zip(_operators(difference.after), _operators(after), strict=True))
    return [originals[op] for op in difference.removed], [originals[op] for op in difference.added]


def _operators(graph: Graph) -> Iterator[Op]:
    return (op for inner in graph.tree() for op in inner.ops)


# -- report ----------------------------------------------------------------------------------------
# What a check that found nothing has done: how many programs, how many of them changed, and what there was in them.

MOST = 8  # of one kind that the text names
Number = bool | int | float | str


@dataclass(repr=False)
class Checked:
    """A check that found nothing.

    Attributes:
        examples: programs tried.
        changed: how many of them the pass changed.
        unfinished: how many of those have an unfinished backward after the pass, so that they cannot run: nothing was compared.
        unfit: programs drawn that the pass cannot be tried on: what prepares it refuses them.
        rewrites: in how many programs each pass and rule rewrote something, or made an operator that is left.
        operators: how many programs each operator type was in.
        attributes: the values that attributes had, by ``type.attribute``.
        dtypes: how many programs had variables of a dtype.
        extents: how many programs had variables with an axis of so many elements.
        trips: how many of the programs that the pass changed had a loop that ran so many iterations.
        special: how many programs were fed ties, zeros, large or tiny numbers, nan, infinities.
        unreached: the lines of the pass's own code that never ran.
        seconds: of processor time.
        interrupted: whether it was stopped before its end.
    """

    examples: int = 0
    changed: int = 0
    unfinished: int = 0
    unfit: int = 0
    rewrites: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    attributes: dict[str, set[str]] = field(default_factory=dict)
    dtypes: Counter[str] = field(default_factory=Counter)
    extents: Counter[int] = field(default_factory=Counter)
    trips: Counter[int] = field(default_factory=Counter)
    special: Counter[str] = field(default_factory=Counter)
    unreached: list[Unreached] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    def count(self, trial: Trial) -> None:
        """Add a program that was tried."""
        self.examples += 1
        self.changed += trial.changed
        self.unfinished += trial.changed and trial.after is None
        self._count_program(trial.case.program)
        self._count_arrays(trial.case)
        self.trips.update(trial.trips)
        if trial.changed:
            self.rewrites.update(_rewrites(trial))

    def _count_program(self, program: Program) -> None:
        ops = [op for block in program.blocks for op in block.ops]
        self.operators.update({op.type for op in ops})
        for op in ops:
            definition = REGISTRY.get(op.type)
            for name in definition.attrs if definition is not None else ():
                value = op.attrs.get(name, definition.attrs[name].default if definition is not None else None)
                self.attributes.setdefault(f"{op.type}.{name}", set()).add(_short(value))
        variables = [var.declared for block in program.blocks for var in block.vars.values()]
        self.dtypes.update({dtype for _, dtype in variables if dtype is not None})
        self.extents.update({extent for shape, _ in variables for extent in shape or ()})

    def _count_arrays(self, case: Case) -> None:
        self.special.update({kind for array in (*case.feeds.values(), *case.params.values()) for kind in _special(array)})

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        stopped = ", interrupted" if self.interrupted else ""
        return f"<Checked: nothing wrong on {self.examples} programs, of which {self.changed} changed{stopped}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _lines(self) -> Iterator[str]:
        suffix = " before it was interrupted" if self.interrupted else ""
        programs = f"{self.examples} programs, of which it changed {self.changed}{suffix}"
        yield f"nothing wrong on {programs}; {self.seconds:.1f} s of processor time"
        if self.unfinished:
            yield f"not compared: {self.unfinished} programs, whose backward no pass has finished"
        if self.unfit:
            yield f"unfit: {self.unfit} more programs, which the preparation refuses"
        yield from _counts("rewrites", self.rewrites)
        yield from _counts("operators", self.operators)
        count = sum(len(values) > 1 for values in self.attributes.values())
        yield f"attributes: {len(self.attributes)}, of which {count} with two values or more"
        yield from _counts("dtypes", self.dtypes)
        yield from _counts("extents", self.extents)
        yield from _counts("trips of loops", self.trips)
        yield from _counts("values", self.special)
        for line in self.unreached[:MOST]:
            yield f"never ran: {line}"
        if len(self.unreached) > MOST:
            yield f"never ran: {len(self.unreached) - MOST} more lines"


def _short(value: object) -> str:
    return str(value) if isinstance(value, Number | list | tuple) else type(value).__name__


def _counts(title: str, counts: Mapping[Any, int]) -> Iterator[str]:
    """One line: how many there are, and those that occurred most often."""
    if counts:
        items = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
        more = f" and {len(items) - MOST} more" if len(items) > MOST else ""
        yield f"{title}: {', '.join(f'{name} {count}' for name, count in items[:MOST])}{more}"


def _rewrites(trial: Trial) -> set[str]:
    ops = (op for graph in trial.graph.tree() for op in graph.ops)
    made = {f"{op.made_by}: {op.origin.rule}" if op.origin is not None else str(op.made_by) for op in ops if op.made_by is not None}
    return made | trial.fired


def _special(array: Array) -> Iterator[str]:
    if array.dtype.kind != "f" or not array.size:
        yield from ["empty"] if not array.size else []
        return
    numbers = array.ravel().tolist()
    # Equal elements are where maxima, sorts and choices have several answers.
    if len(set(numbers)) < len(numbers):
        yield "ties"
    yield from filter(None, map(_special_kind, numbers))


def _special_kind(number: float) -> str:
    """What is special about a number; empty if nothing is."""
    size = abs(number)
    if 1e-6 <= size <= 100:
        return ""
    if number == 0:
        return "-zero" if str(number)[0] == "-" else "zero"
    if number != number:
        return "nan"
    if size == inf:
        return "infinity"
    return "under 1e-6" if size < 1 else "over 100"
