"""What is said of a wrong pass: the smallest program, before and after it, as programs, as text, as a snippet and as pictures."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from graphad.difference import compare
from graphad.drawing import draw
from graphad.errors import GraphadError
from graphad.graph import SINGLE_WRITER, Graph, Op, lower, schedule
from graphad.program import Program
from graphad.testing.array_text import Array, short_text
from graphad.testing.cases import Case
from graphad.testing.snippet import snippet
from graphad.testing.subject import Subject
from graphad.testing.trial import Finding

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
    """

    def __init__(self, subject: Subject, finding: Finding, case: Case, graph: Graph, folder: Path | None = None, examples: int = 1) -> None:
        self.subject, self.finding, self.case, self.graph = subject, finding, case, graph
        self.examples = examples
        prepared = _prepared(subject, case)
        self.before = _before(subject, case, prepared)
        self.after = _program(graph)
        self.snippet = snippet(subject, case, graph)
        home = Path(tempfile.mkdtemp(prefix="graphad-")) if folder is None else folder
        home.mkdir(parents=True, exist_ok=True)
        self.file = home / "snippet.py"
        self.file.write_text(self.snippet, encoding="utf-8")
        before = lower(self.before) if subject.reference else prepared
        self.pictures = _pictures(before, graph, _titles(subject), home)
        super().__init__(self._said())

    def _said(self) -> str:
        after = str(self.graph if self.after is None else self.after)
        parts = {
            **_texts(str(self.before), after),
            "arrays": _arrays({**self.case.feeds, **self.case.params}),
            "pictures": "\n".join(map(str, self.pictures)) or "none: it cannot be drawn",
        }
        shown = "\n".join(f"{title}:\n{_indented(text)}" for title, text in parts.items() if text)
        return f"{self.subject}: {self.finding}\n\n{shown}\nto see it again, python {self.file}:\n\n{self.snippet}"


def _program(graph: Graph) -> Program | None:
    """The program that a graph is, if it can be one."""
    try:
        return schedule(graph) if SINGLE_WRITER in graph.properties else None
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
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=len(before)))[3:]
    whole = len(before.splitlines()) + len(after.splitlines())
    return {"before and after": "\n".join(lines)} if len(lines) < whole else {"before": before, "after": after}


def _arrays(arrays: Mapping[str, Array]) -> str:
    return "\n".join(f"{name} = {array.dtype}{list(array.shape)} {short_text(array)}" for name, array in arrays.items())


def _indented(text: str) -> str:
    return "".join(f"  {line}".rstrip() + "\n" for line in text.splitlines())


# -- as pictures ---------------------------------------------------------------------------------


def _titles(subject: Subject) -> tuple[str, str]:
    return f"after {subject.reference}" if subject.reference else f"before {subject.what}", f"after {subject.what}"


def _pictures(before: Graph, after: Graph, titles: tuple[str, str], folder: Path) -> list[Path]:
    removed, added = _changed_operators(before, after)
    sides = (("before", before, removed, titles[0], REMOVED), ("after", after, added, titles[1], ADDED))
    drawn: list[Path] = []
    for stem, graph, ops, title, means in sides:
        options: dict[str, Any] = {"title": title, "highlight": ops, "highlight_means": means, "attributes": True}
        with suppress(Exception):  # a finding is not lost with its picture: a broken graph may fail anywhere
            for ending in FORMATS:
                drawn.append(draw(graph, folder / f"{stem}{ending}", dpi=DPI, timeout=SECONDS, **options))
    return sorted(drawn, key=lambda path: FORMATS.index(path.suffix))


def _changed_operators(before: Graph, after: Graph) -> tuple[list[Op], list[Op]]:
    """What changed; nothing where a graph is too broken to be compared."""
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
    own = dict(zip(_operators(difference.before), _operators(before), strict=True))
    own |= dict(zip(_operators(difference.after), _operators(after), strict=True))
    return [own[op] for op in difference.removed], [own[op] for op in difference.added]


def _operators(graph: Graph) -> Iterator[Op]:
    return (op for inner in graph.tree() for op in inner.ops)
