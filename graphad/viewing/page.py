"""The page: what was recorded as JSON, and the program of the page, in one file that needs nothing else.

The program of the page is written in TypeScript, in the folder ``viewer`` of the repository; ``make viewer`` builds ``viewer.js`` from it.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

from graphad.drawing.overlays import numbers_by_node
from graphad.errors import GraphadError, InvalidType, InvalidValue, add_line
from graphad.interop.files import write_bytes
from graphad.ir import Graph, Node
from graphad.ir.lower import graph_of
from graphad.program import Program
from graphad.rewriting import Pass, Pipeline
from graphad.types import Sizes
from graphad.viewing.recording import Frame, Recorder
from graphad.viewing.statistics import Statistics, statistics
from graphad.viewing.tables import Json

HEIGHT = 640  # pixels of the page in a notebook
LARGE = 2_000_000  # characters of data from which on it is compressed; below, a page can be searched as a text


@dataclass(frozen=True)
class Page:
    """A page that shows a program pass by pass; in a notebook it shows itself.

    Attributes:
        html: the whole page.
        path: the file it was written to, None if to none.
        hash: what to append to its address to see a rewrite, ``#pass=2&step=5``; empty for the whole.
    """

    html: str
    path: Path | None = None
    hash: str = ""

    def save(self, path: str | os.PathLike[str]) -> Page:
        """Write the page to a file; ValueError if there is no such folder."""
        target = Path(path)
        if not target.parent.is_dir():
            raise InvalidValue(f"there is no folder {str(target.parent)!r} to write {target.name!r} to")
        # A lone surrogate in a name has no form in UTF-8. Written \ud800 it is one again to whoever parses the data, which is JSON.
        write_bytes(target, self.html.encode("utf-8", "backslashreplace"))
        return Page(self.html, target, self.hash)

    def _repr_html_(self) -> str:
        # A document of its own: neither its styles nor its ids meet those of the notebook.
        source = html.escape(self.html, quote=True)
        return f'<iframe title="graphad" style="width:100%;height:{HEIGHT}px;border:1px solid #8884" srcdoc="{source}"></iframe>'

    def __repr__(self) -> str:
        return f"<Page of {len(self.html):,} characters{'' if self.path is None else f' in {self.path}'}>"


def view(
    program_or_graph: Program | Graph,
    pipeline: Pass | str | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    feed: Mapping[str, object] | None = None,
    batch: Sizes = 1,
    watched: bool = False,
    overlay: Mapping[Any, Any] | None = None,
    overlay_title: str = "overlay",
) -> Page:
    """A page that shows a program or a graph, and what each pass of a pipeline, and each of its rewrites, does to it.

    Args:
        program_or_graph: what to show; it is not changed.
        pipeline: the passes to run, or their text; none if None.
        path: the file to write the page to.
        title: the heading; the name of the program if None.
        feed: arrays by the name of the variable. The program is run on them, and the page shows what values are, and how long operators
            took. Parameters that are not among them are drawn at random, and the page says so.
        batch: what unknown extents of the data are taken to be in costs: a number, or numbers by names.
        watched: whether the page loads itself again whenever its window is looked at again, since it is written again and again.
        overlay: numbers by node, which the page can color operators by, as ``ga.draw`` does: ``executor.profile.heat()``, for instance.
        overlay_title: what those numbers are.

    Returns:
        The page. It is one file, which needs nothing from elsewhere.

    Raises:
        TypeError: something else than a program or a graph, or than a pipeline.
        ValueError: the pipeline's text cannot be read; the folder is not there; a feed does not fit.
        GraphadError: a pass failed.

    >>> import graphad as ga
    >>> program = ga.Program.parse("program { block 0 { var x: float32[3] var y: float32[3] tanh(X=x) -> (Out=y) } }")
    >>> page = view(program, "cse, dead-code")
    >>> page.html.startswith("<!doctype html>"), page.path
    (True, None)
    """
    graph = graph_of(program_or_graph, "viewed", own=True)
    overlays = () if overlay is None else ((overlay_title, _colors(program_or_graph, graph, overlay)),)
    return record(graph, _passes(pipeline), path, title=title or "program", feed=feed, batch=batch, watched=watched, overlays=overlays)


def record(
    graph: Graph,
    passes: Pass | None,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str = "program",
    feed: Mapping[str, object] | None = None,
    batch: Sizes = 1,
    watched: bool = False,
    rewrite: int | None = None,
    at_change: bool = False,
    overlays: Sequence[tuple[str, Mapping[Node, float]]] = (),
) -> Page:
    """The same of a graph itself, which the passes change.

    The page opens at one of all rewrites (``rewrite``), to which its ``hash`` leads too, or at the first pass that changed the graph
    (``at_change``), or where a pass failed; otherwise before all passes.
    """
    recorder, values = Recorder(graph, batch), Statistics()
    colors = [
        {"title": name, "numbers": {recorder.states.numbers[node]: _finite(x) for node, x in numbers.items()}} for name, numbers in overlays
    ]
    try:
        values = values.joined(statistics(graph, feed, recorder.states.numbers))
        with recorder.recording():
            if passes is not None:
                passes.run(graph)
        values = values.joined(_after(recorder, feed) if passes is not None else Statistics())
    except Exception as error:
        # A page up to the failure helps more than none.
        if path is not None and len(recorder.frames) > 1:
            partial_page = Page(page_of(recorder, title, values, watched, colors)).save(path)
            add_line(error, f"the page up to the failure: {partial_page.path}")
        raise
    place = "" if rewrite is None else recorder.place(rewrite)
    start = recorder.first_change() if at_change and not place else place
    page = Page(page_of(recorder, title, values, watched, colors, start), hash=place)
    return page if path is None else page.save(path)


def _after(recorder: Recorder, feed: Mapping[str, object] | None) -> Statistics:
    """Statistics of the last state; a note where a graph between two passes of the backward cannot run."""
    try:
        return statistics(recorder.graph, feed, recorder.states.numbers)
    except GraphadError as error:
        return Statistics(note=f"The graph after the last pass was not run: {error}.")


def _colors(given: Program | Graph, graph: Graph, overlay: Mapping[Any, Any]) -> dict[Node, float]:
    """The numbers of an overlay by the nodes of the graph that is shown, which is a copy if a graph was given."""
    if not isinstance(given, Graph):
        return numbers_by_node(graph, overlay)
    copies: dict[Node, Node] = {}
    # A clone has its nodes in the same order.
    for old, new in zip(given.tree(), graph.tree(), strict=True):
        copies |= dict(zip((*old.ops, *old.values), (*new.ops, *new.values), strict=True))
    return {copies[node]: number for node, number in numbers_by_node(given, overlay).items()}


def _finite(number: float) -> float | None:
    """A number as JSON has it: None for what is not finite."""
    return number if isfinite(number) else None


def _passes(pipeline: Pass | str | None) -> Pass | None:
    if pipeline is None or isinstance(pipeline, Pass):
        return pipeline
    if isinstance(pipeline, str):
        return Pipeline.parse(pipeline)
    raise InvalidType(f"a pipeline is a Pass, its text or None, not {pipeline!r}")


# -- the file --------------------------------------------------------------------------------------


def page_of(recorder: Recorder, title: str, values: Statistics, watched: bool, overlays: Sequence[Json] = (), start: str = "") -> str:
    """The page of what was recorded; it opens at the address ``start``."""
    data = {
        "title": title,
        "watched": watched,
        "frames": [_frame(frame, recorder) for frame in recorder.frames],
        "values": values.found,
        "seconds": {number: float(f"{seconds:.3g}") for number, seconds in values.seconds.items()},
        "overlays": list(overlays),
        "note": values.note,
        "start": start,
    }
    text = json.dumps(data | {"tables": recorder.tables.stored()}, separators=(",", ":"), ensure_ascii=False)
    # In HTML a script ends at the first </script>, even within a string: no "<" is left in the data, which JSON reads back.
    encoding, payload = ("", text.replace("<", "\\u003c")) if len(text) < LARGE else _deflated(text)
    parts = {
        "title": html.escape(title),
        "style": _part("viewer.css"),
        "script": _part("viewer.js"),
        "encoding": encoding,
        "data": payload,
    }
    # In one pass: what is put in is not looked through again, so that a title may be any text.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _part("viewer.html"))


def _deflated(text: str) -> tuple[str, str]:
    """The attribute that says how data is written, and the data: raw deflate in base64, which the page reads by itself."""
    content = text.encode("utf-8", "backslashreplace")
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = compressor.compress(content) + compressor.flush()
    return f' data-deflated="{len(content)}"', base64.b64encode(packed).decode("ascii")


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _frame(frame: Frame, recorder: Recorder) -> dict[str, Json]:
    fields: dict[str, Json] = {
        "name": frame.name,
        "text": frame.text,
        "doc": frame.doc,
        "ms": round(frame.seconds * 1e3, 3),
        "line": frame.line,
        "ops": frame.ops,
        "values": frame.values,
        "count": frame.count,
        "error": frame.error,
        "delta": frame.delta.stored(),
        "costs": frame.costs,
        "totals": frame.totals,
    }
    return fields | {
        "rewrites": [[recorder.tables.text(rewrite.rule), rewrite.seen, rewrite.line, rewrite.delta.stored()] for rewrite in frame.rewrites]
    }
