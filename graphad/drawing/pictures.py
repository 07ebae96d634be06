"""Files with drawings: one program or graph, or two beside each other."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from pathlib import Path

from graphad.drawing.composing import scene_of
from graphad.drawing.dot import dot_text
from graphad.drawing.options import Options, checked_options
from graphad.drawing.painting import pdf_bytes, png_bytes
from graphad.drawing.render import joined
from graphad.drawing.scene import Scene
from graphad.drawing.svg import svg_text
from graphad.errors import InvalidType, InvalidValue
from graphad.ir import Graph
from graphad.ir.lower import graph_of
from graphad.program import Program

FORMATS = (".svg", ".pdf", ".png", ".dot")
NOTEBOOK_SECONDS = 20.0


def draw(program_or_graph: Program | Graph, path: str | os.PathLike[str] | None = None, /, **options: object) -> Path:
    """Draw a program or a graph to a file; on an error the file stays as it was.

    The blocks of loops and branches are drawn as frames with their operator: captured values enter them, carried values go
    around, and residuals come from the frame of the forward.

    Args:
        program_or_graph: what to draw; it is not changed.
        path: where to draw it: ``.svg``, ``.pdf``, ``.png`` or ``.dot`` (a text for Graphviz and other tools).
        options: what is drawn, how much of it, and how it looks: ``title``, ``highlight``, ``values``, ``fold``, ``scopes``, ``focus``,
            ``path``, ``overlay``, ``theme`` and others, all in ``graphad.drawing.Options``.

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
    target = checked_path(options.pop("path", None) if path is None else path)  # path= names the file, or after it a way through the graph
    settings = checked_options(options)
    graph = graph_of(program_or_graph, "drawn")
    if target.suffix.lower() == ".dot":
        replace_file(target, dot_text(graph, settings).encode())
    else:
        replace_file(target, written(scene_of(graph, settings), target, settings))
    return target


def to_dot(program_or_graph: Program | Graph, **options: object) -> str:
    """The DOT text of a drawing; options and errors as in ``draw``, but Graphviz is not run."""
    return dot_text(graph_of(program_or_graph, "drawn"), checked_options(options))


def to_svg(program_or_graph: Program | Graph, **options: object) -> str:
    """A drawing as one ``<svg>`` element; options and errors as in ``draw``."""
    return svg_text(scene_of(graph_of(program_or_graph, "drawn"), checked_options(options)))


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
    target = checked_path(path)
    if target.suffix.lower() != ".svg":
        raise InvalidValue(f"two drawings in one end in .svg; {str(target)!r} does not")
    sides = [
        to_svg(graph, title=title, highlight=highlight, prefix=prefix, **options)
        for graph, title, prefix in ((before, titles[0], "before-"), (after, titles[1], "after-"))
    ]
    replace_file(target, joined(sides[0], sides[1], checked_options(options).look).encode())
    return target


def repr_svg(program_or_graph: Program | Graph) -> str:
    """The drawing of a program or a graph for notebooks, within 20 seconds."""
    return to_svg(program_or_graph, timeout=NOTEBOOK_SECONDS)


def checked_path(path: object) -> Path:
    """The file to draw to, if there is such a format and such a folder."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidType(f"path names a file, not {path!r}")
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise InvalidValue(f"a drawing ends in {', '.join(FORMATS)}; {str(target)!r} does not")
    if not target.parent.is_dir():
        raise InvalidValue(f"cannot draw to {str(target)!r}: there is no folder {str(target.parent)!r}")
    return target


def written(scene: Scene, target: Path, options: Options) -> bytes:
    """The scene in the format that a file's ending names."""
    ending = target.suffix.lower()
    if ending == ".svg":
        return svg_text(scene).encode()
    return pdf_bytes(scene, options.timeout) if ending == ".pdf" else png_bytes(scene, options.dpi, options.timeout)


def replace_file(target: Path, content: bytes) -> None:
    """Write to a temporary file first, so that no half-written file is ever seen."""
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        part.write_bytes(content)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
