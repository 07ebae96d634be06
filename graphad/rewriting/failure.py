"""Reproducers of failing passes: a folder with the program, the graph before the pass, the pipeline so far, and how to run it again."""

from __future__ import annotations

import hashlib
import shlex
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from graphad.errors import GraphadError, InvalidGraph
from graphad.graph import Graph, lower
from graphad.knobs import KNOBS
from graphad.program import Program
from graphad.program.operator import check_known

if TYPE_CHECKING:
    from graphad.rewriting.passes import Pass

Run = Callable[["Pass", Graph], bool]
_quiet: ContextVar[bool] = ContextVar("diagnoses only", default=False)
_replaying: ContextVar[bool] = ContextVar("replaying", default=False)
_REPORTED = "_graphad_reproducer"


@contextmanager
def diagnoses_only() -> Iterator[None]:
    """Within it, what graphad says about the user's own program (no gradient, a wrong name) leaves no reproducer; defects do."""
    before = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(before)


@contextmanager
def reported(each: Pass, graph: Graph, run: Run) -> Iterator[None]:
    """Within it, an exception leaves a reproducer, which its message names. Nested passes leave one reproducer only.

    ``run`` runs a pass, to make the graph before anew from the program. Of passes at work on a nested graph the one that runs them on
    the whole graph is reported: it is what can be run again.
    """
    journal, inside = graph.journal, graph.parent is not None and graph.journal.author is not None
    done = len(journal.history)
    try:
        yield
    except Exception as error:
        asked_for = bool(KNOBS.reproducers) and not inside and not _replaying.get()
        if asked_for and not hasattr(error, _REPORTED) and not _is_diagnosis(error):
            _mention(error, _written(each, graph, journal.history[:done], run, error))
        raise


def is_replaying() -> bool:
    """Whether passes run in order to make a reproducer; such runs are not reported."""
    return _replaying.get()


def _is_diagnosis(error: Exception) -> bool:
    return _quiet.get() and isinstance(error, GraphadError) and not isinstance(error, InvalidGraph)


def _mention(error: Exception, text: str) -> None:
    setattr(error, _REPORTED, text)
    if len(error.args) == 1 and isinstance(error.args[0], str) and isinstance(error, GraphadError):
        error.args = (f"{error.args[0]}\n  {text}",)
    else:
        error.add_note(text)


def _written(each: Pass, graph: Graph, history: Sequence[Pass], run: Run, error: Exception) -> str:
    """Write the folder; say where it is, or why there is none: the pass's own error matters more."""
    try:
        files = _files(each, graph, history, run, error)
        digest = hashlib.sha256("\0".join(files.values()).encode()).hexdigest()[:8]
        folder = Path(KNOBS.reproducers) / f"{each.name or 'pass'}-{digest}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        return f"to reproduce it: {folder}"
    except Exception as other:
        return f"no reproducer was written: {other}"


def _files(each: Pass, graph: Graph, history: Sequence[Pass], run: Run, error: Exception) -> dict[str, str]:
    """The files of a reproducer, the same for the same failure."""
    pipeline = ", ".join(map(str, [*history, each]))
    files = {"pipeline.txt": pipeline + "\n", "error.txt": "".join(traceback.format_exception_only(error))}
    files["trace.txt"] = "".join(traceback.format_exception(error))
    if graph.parent is not None or graph.block is None:
        return {**files, "graph.txt": str(graph)}
    asked = graph.journal.asked
    fetch = "" if asked is None else f" --fetch {shlex.quote(','.join(asked))}"
    unknown = " --allow-unknown" if _has_unknown(graph.block.program) else ""
    files["program.txt"] = str(graph.block.program)
    files["before.txt"] = _before(graph.block.program, asked, history, run)
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


def _before(program: Program, asked: Sequence[str] | None, history: Sequence[Pass], run: Run) -> str:
    """The graph as it was before the failing pass, made again from the program by the passes that went well."""
    before = _replaying.set(True)
    try:
        graph = lower(program, asked)
        for each in history:
            run(each, graph)
        return str(graph)
    finally:
        _replaying.reset(before)
