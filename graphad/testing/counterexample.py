"""What is said of a pass that is wrong: the smallest program, before and behind it, as text, as a snippet and as pictures."""

from __future__ import annotations

import tempfile
from dataclasses import fields
from pathlib import Path

from graphad.drawing import draw
from graphad.errors import GraphadError
from graphad.graph import SINGLE_WRITER, Graph, schedule
from graphad.program import Program
from graphad.rewriting import Fixpoint, Pass, Pipeline
from graphad.testing.cases import Array, Case
from graphad.testing.subject import LOSS, Subject, inner_passes
from graphad.testing.trial import Finding

SECONDS = 20.0  # a drawing may take


class Counterexample(AssertionError):
    """A pass is wrong; ``str`` of it says all.

    Attributes:
        finding: what does not hold; ``finding.kind`` is one word for it.
        case: the program, made as small as possible, and arrays for it.
        examples: how many programs were tried until it was found.
        snippet: a python program that shows it.
        pictures: the files before.svg and after.svg, as far as they could be drawn.
    """

    def __init__(self, subject: Subject, finding: Finding, case: Case, graph: Graph, folder: Path | None = None, examples: int = 1) -> None:
        self.subject, self.finding, self.case = subject, finding, case
        self.examples = examples
        self.before = str(case.program)
        self.after = _text(graph)
        self.snippet = snippet(subject, case)
        self.pictures = _drawn({"before": case.program, "after": graph}, folder)
        super().__init__(self._said())

    def _said(self) -> str:
        parts = {
            f"{self.subject}: {self.finding}\n\nbefore": self.before,
            "behind it": self.after,
            "drawn in": "\n".join(map(str, self.pictures)) or "nothing: it cannot be drawn",
        }
        return "\n".join(f"{title}:\n{_indented(text)}" for title, text in parts.items()) + f"\nto see it:\n\n{self.snippet}"


def _text(graph: Graph) -> str:
    """The program that a graph is, or if it cannot be one, the graph."""
    try:
        return str(schedule(graph)) if SINGLE_WRITER in graph.properties else str(graph)
    except GraphadError:
        return str(graph)


def _indented(text: str) -> str:
    return "".join(f"  {line}".rstrip() + "\n" for line in text.splitlines())


def _drawn(what: dict[str, Program | Graph], folder: Path | None) -> list[Path]:
    home = Path(tempfile.mkdtemp(prefix="graphad-")) if folder is None else folder
    home.mkdir(parents=True, exist_ok=True)
    return [path for name, each in what.items() if (path := _picture(each, home / f"{name}.svg")) is not None]


def _picture(what: Program | Graph, path: Path) -> Path | None:
    try:
        draw(what, path, timeout=SECONDS)
    except (GraphadError, OSError):
        return None
    return path


# -- as python -----------------------------------------------------------------------------------


def snippet(subject: Subject, case: Case) -> str:
    """A python program that tries the pass on the case: silent if all is well, else an AssertionError."""
    imports, expression = _expression(subject.what, case)
    options = [f"prepare={str(subject.prepare).replace(LOSS, case.loss_name)!r}"] if subject.prepare else []
    options += [] if subject.tolerance is None else [f"tolerance={subject.tolerance!r}"]
    lines = [
        "from numpy import array, inf, nan  # noqa: F401",
        "from graphad.program import Program",
        "from graphad.testing import Case, check_case",
        *imports,
        "",
        f'program = Program.parse("""\\\n{case.program}""")',
        f"feeds = {_arrays(case.feeds)}",
        f"params = {_arrays(case.params)}",
        f"case = Case(program, {case.loss_name!r}, feeds, params)",
        f"check_case({', '.join([expression, 'case', *options])})  # lowers, runs the pass, schedules, runs both, compares",
    ]
    return "\n".join(lines) + "\n"


def _arrays(arrays: dict[str, Array]) -> str:
    return "{" + ", ".join(f"{name!r}: array({array.tolist()!r}, {str(array.dtype)!r})" for name, array in arrays.items()) + "}"


def _expression(what: Pass | str, case: Case) -> tuple[list[str], str]:
    """How to import and to write a pass: as text if it comes with graphad, else as what makes it."""
    if isinstance(what, str):
        return ["import graphad.passes"], repr(what.replace(LOSS, case.loss_name))
    inner = inner_passes(what)
    if all(type(each).__module__.startswith("graphad.") for each in inner):
        return ["import graphad.passes"], repr(str(what))
    imports = [f"from {type(each).__module__} import {type(each).__qualname__}" for each in inner]
    combining = ["from graphad.rewriting import Fixpoint, Pipeline"] if isinstance(what, Pipeline | Fixpoint) else []
    return list(dict.fromkeys([*combining, *imports])), _made(what)


def _made(each: Pass) -> str:
    if isinstance(each, Pipeline):
        return f"Pipeline({', '.join(map(_made, each.passes))})"
    if isinstance(each, Fixpoint):
        return f"Fixpoint({', '.join(map(_made, each.inner.passes))}, limit={each.limit})"
    options = [f"{f.name}={getattr(each, f.name)!r}" for f in fields(each)]  # type: ignore[arg-type]
    return f"{type(each).__qualname__}({', '.join(options)})"
