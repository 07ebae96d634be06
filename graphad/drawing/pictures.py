"""Files with drawings: one program or graph, or two beside each other."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from pathlib import Path

from graphad.drawing.dot import dot_text
from graphad.drawing.plan import Options, checked_options
from graphad.drawing.render import joined, plain_svg, render_dot
from graphad.errors import InvalidType, InvalidValue
from graphad.ir import Graph, lower
from graphad.program import Program

FORMATS = (".svg", ".png", ".pdf", ".dot")
NOTEBOOK_SECONDS = 20.0


def draw(program_or_graph: Program | Graph, path: str | os.PathLike[str], **options: object) -> Path:
    """Draw a program or a graph to a file; on an error the file stays as it was.

    The blocks of loops and branches are drawn as frames with their operator: captured values enter them, carried values go
    around, and residuals come from the frame of the forward.

    Args:
        program_or_graph: what to draw; it is not changed.
        path: where to: ``.svg``, ``.png``, ``.pdf`` (where Graphviz itself is installed) or ``.dot`` (the text Graphviz is given).
        title: a line above the drawing.
        highlight: operators and values (of the graph, of the program, or values by name) to outline: what a pass added, say.
        highlight_means: what the legend says that an outline means.
        values: ``"all"``, ``"shared"`` (values with one writer and one reader become arrows), ``"none"`` (operators only),
            or ``"auto"``: the first of these that draws at most 1500 nodes. Unless it is ``"all"``, what an optimizer
            operator alone keeps between runs (moments) is named inside the operator.
        links: dashed lines from gradients to what they are gradients of: ``"all"``, ``"none"``, or ``"auto"``: up to 200.
        nested: ``"all"`` draws the graphs nested in loops, branches and nets; ``"none"`` draws only their operators, marked with
            ``[+]``; ``"auto"`` leaves out the deepest ones until at most 600 nodes are in frames, and 1500 in all.
        rankdir: ``"TB"``, from top to bottom, or ``"LR"``, from left to right.
        attributes: whether operators show their attributes, which else only their tooltips in an SVG do.
        legend: whether the kinds of nodes are explained.
        prefix: what ids of nodes and edges in an SVG begin with, for several drawings on one page.
        dpi: the resolution of a PNG.
        timeout: seconds that laying out may take.

    Returns:
        The path.

    Raises:
        TypeError: what is given is no program or graph; there is no such option.
        ValueError: another ending or a folder that is not there; an option that is none of its choices.
        RenderError: Graphviz is missing, failed or took too long.

    >>> import graphad as ga, tempfile
    >>> program = ga.Program()
    >>> x = program.global_block().create_var(name="x", shape=[3], dtype="float32")
    >>> _ = program.global_block().append_op(type="tanh", inputs={"X": x}, outputs={"Out": "y"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw(program, f"{folder}/tanh.svg", title="y = tanh(x)").name
    'tanh.svg'
    """
    target = _checked_path(path)
    given = checked_options(options)
    dot = dot_text(_graph(program_or_graph), given)
    if target.suffix.lower() == ".dot":
        _replace(target, dot.encode())
    elif target.suffix.lower() == ".svg":
        _replace(target, _svg(dot, given).encode())
    else:
        _replace(target, render_dot(dot, target.suffix.lower()[1:], given.timeout, given.dpi))
    return target


def to_dot(program_or_graph: Program | Graph, **options: object) -> str:
    """The DOT text of a drawing; options and errors as in ``draw``, but Graphviz is not run."""
    return dot_text(_graph(program_or_graph), checked_options(options))


def to_svg(program_or_graph: Program | Graph, **options: object) -> str:
    """A drawing as one ``<svg>`` element; options and errors as in ``draw``."""
    given = checked_options(options)
    return _svg(dot_text(_graph(program_or_graph), given), given)


def draw_pair(
    before: Program | Graph,
    after: Program | Graph,
    path: str | os.PathLike[str],
    *,
    titles: tuple[str, str] = ("before", "after"),
    highlight: Collection[object] = (),
    **options: object,
) -> Path:
    """Draw two programs or graphs beside each other, with an arrow between, as one SVG.

    Args:
        before, after: what to draw on the left and on the right.
        path: where to: ``.svg``.
        titles: a line above each.
        highlight: operators and values of either to outline.
        options: as in ``draw``, for both.

    Returns:
        The path.

    Raises:
        ValueError: another ending; what ``draw`` raises.
    """
    target = _checked_path(path)
    if target.suffix.lower() != ".svg":
        raise InvalidValue(f"two drawings in one end in .svg; {str(target)!r} does not")
    sides = [
        to_svg(graph, title=title, highlight=highlight, prefix=prefix, **options)
        for graph, title, prefix in ((before, titles[0], "before-"), (after, titles[1], "after-"))
    ]
    _replace(target, joined(*sides).encode())
    return target


def repr_svg(program_or_graph: Program | Graph) -> str:
    """What a notebook shows of a program or a graph: its drawing, given 20 seconds."""
    return to_svg(program_or_graph, timeout=NOTEBOOK_SECONDS)


def _graph(given: object) -> Graph:
    if isinstance(given, Program):
        return lower(given)
    if isinstance(given, Graph):
        return given
    raise InvalidType(f"a Program or a Graph is drawn, not {given!r}")


def _checked_path(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise InvalidType(f"path names a file, not {path!r}")
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise InvalidValue(f"a drawing ends in {', '.join(FORMATS)}; {str(target)!r} does not")
    if not target.parent.is_dir():
        raise InvalidValue(f"cannot draw to {str(target)!r}: there is no folder {str(target.parent)!r}")
    return target


def _svg(dot: str, options: Options) -> str:
    return plain_svg(render_dot(dot, "svg", options.timeout, options.dpi))


def _replace(target: Path, content: bytes) -> None:
    """Write to a temporary file first, so that no half-written file is ever seen."""
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        part.write_bytes(content)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
