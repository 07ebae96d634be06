"""Finds Graphviz and runs it, with a time limit; two drawings side by side."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from graphad.drawing.theme import LIGHT, Theme
from graphad.errors import InvalidValue, RenderError

# -- render ----------------------------------------------------------------------------------------
# Finds the renderer and runs it, with a time limit.

RENDERER = "graphviz-pure"
VARIABLE = "GRAPHAD_DOT"
WITHOUT_WAYS = ("line", "curved")  # straight, which still goes around what lies at the same height; then with nothing in its way
_LOST = re.compile(r"\blost (\w+) (\w+) edge")
_ENDS = re.compile(r"^(\w+)\S* -> (\w+)\S* \[", re.MULTILINE)
_EDGE = re.compile(r"^n\d+\S* -> n\d+\S* \[id=(e\d+).*$", re.MULTILINE)


def find_renderer() -> str:
    """The program that lays out and renders: ``$GRAPHAD_DOT``, else graphviz-pure beside Python or on the PATH, else ``dot``.

    Raises:
        RenderError: there is none; the message says what to install.
    """
    name = os.environ.get(VARIABLE)
    if name:
        path = shutil.which(name)
        if path is None:
            raise RenderError(f"{VARIABLE} names {name!r}, which is no program that can be run; unset it to use {RENDERER}")
        return path
    beside = sysconfig.get_path("scripts")
    # Beside Python first: that is the one that was installed with graphad.
    path = shutil.which(RENDERER, path=beside) or shutil.which(RENDERER) or shutil.which("dot")
    if path is None:
        raise RenderError(f"no Graphviz found to draw with: `pip install {RENDERER}`, or install Graphviz, or name its dot in {VARIABLE}")
    return path


def lay_out(dot: str, timeout: float, with_lines: bool = True) -> str:
    """Run the renderer on DOT text: where it puts everything, as JSON.

    A line for which it finds no way to a slot ends anywhere at the box. Where it finds no curves around the frames, lines are straight;
    where it finds no such lines, they pass over what is in the way.

    Args:
        dot: the drawing.
        timeout: seconds after which it is stopped.
        with_lines: whether lines are to have places, too.

    Raises:
        RenderError: no renderer, it failed, or it took too long.
    """
    program = find_renderer()
    process = _run(program, dot, ("-Kdot", "-Tjson0", *(() if with_lines else ("-Gsplines=none",))), timeout)
    if process.returncode != 0 and "routesplines" in _said(process) and not _lacks_links_only(dot, process.stdout):
        # Mostly it is one line that cannot end where its slot is, in between others: then it ends anywhere at the box.
        process = _run(program, _without_ports(dot, _said(process)), ("-Kdot", "-Tjson0"), timeout)
    if process.returncode != 0 and "routesplines" in _said(process):
        if _lacks_links_only(dot, process.stdout):
            return process.stdout.decode("utf-8", "replace")
        # Graphviz can fail to route curves in crowded drawings: straighter lines are tried then.
        for way in WITHOUT_WAYS:
            process = _run(program, dot, ("-Kdot", "-Tjson0", f"-Gsplines={way}"), timeout)
            if process.returncode == 0 or "routesplines" not in _said(process):
                break
    if process.returncode != 0 or not process.stdout:
        raise RenderError(_failed(program, process.returncode, _said(process).strip()))
    if not process.stdout.lstrip().startswith(b"{"):
        raise RenderError(f"the renderer wrote no JSON, but {process.stdout[:80]!r}")
    return process.stdout.decode("utf-8", "replace")


def paint(dot: str, format: str, timeout: float, dpi: float) -> bytes:
    """Run the renderer on DOT text in which everything has its place.

    Raises:
        RenderError: no renderer, it failed, or it took too long.
    """
    program = find_renderer()
    process = _run(program, dot, ("-Kneato", "-n2", f"-T{format}", f"-Gdpi={dpi:g}"), timeout)
    if process.returncode != 0 or not process.stdout:
        raise RenderError(_failed(program, process.returncode, _said(process).strip()))
    return process.stdout


def _run(program: str, dot: str, options: tuple[str, ...], timeout: float) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run([program, *options], input=dot.encode("utf-8", "replace"), capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise RenderError(_too_slow(program, timeout)) from None
    except OSError as error:
        raise RenderError(f"{program} cannot be run: {error}") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode("utf-8", "replace")


def _lacks_links_only(dot: str, output: bytes) -> bool:
    """Whether of all edges only such have no way as have no arrow: that say what a gradient is the gradient of."""
    if not output:
        return False
    edges = json.loads(output).get("edges", ())
    edge_ids = {edge.get("id") for edge in edges if "pos" in edge}
    return all(match[1] in edge_ids or "arrowhead=none" in match[0] for match in _EDGE.finditer(dot))


def _without_ports(dot: str, said: str) -> str:
    """The text with the edges that Graphviz says it lost between nodes, instead of between cells of these."""
    lost = {frozenset(match.groups()) for match in _LOST.finditer(said)}

    def edge(match: re.Match[str]) -> str:
        return f"{match[1]} -> {match[2]} [" if frozenset(match.groups()) in lost else match[0]

    return _ENDS.sub(edge, dot)


def _too_slow(program: str, timeout: float) -> str:
    return (
        f"{Path(program).name} did not lay out the drawing within {timeout:g} s; draw less of it (values='none', nested='none', "
        "a part of it: focus=, path=), or allow more time (timeout=)"
    )


def _failed(program: str, code: int, said: str) -> str:
    message = f"{Path(program).name} failed (exit code {code}): {said or 'it said nothing'}"
    return f"{message}\n  to_dot, or draw to a .dot file, shows what was to be laid out"


# -- side by side ----------------------------------------------------------------------------------
# Two drawings beside each other in one SVG, with an arrow between: before ⇒ after.

GAP, MARGIN = 56.0, 12.0
_SIZE = re.compile(r'<svg\b[^>]*?\bviewBox="([-\d.]+) ([-\d.]+) ([-\d.]+) ([-\d.]+)"')


def joined(before: str, after: str, theme: Theme = LIGHT) -> str:
    """One ``<svg>`` of two, in points, vertically centered."""
    (wide, high), (wide_after, high_after) = _size(before), _size(after)
    height = max(high, high_after) + 2 * MARGIN
    width = wide + wide_after + GAP + 2 * MARGIN
    middle, arrow = height / 2, MARGIN + wide
    left = _placed(before, MARGIN, (height - high) / 2, wide, high)
    right = _placed(after, arrow + GAP, (height - high_after) / 2, wide_after, high_after)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" '
        f'width="{width:.2f}pt" height="{height:.2f}pt" viewBox="0 0 {width:.2f} {height:.2f}">\n'
        f'<rect width="100%" height="100%" fill="{theme.background}"/>\n{left}\n{_arrow(arrow, middle, theme)}\n{right}\n</svg>\n'
    )


def _arrow(x: float, y: float, theme: Theme) -> str:
    start, end = x + 12, x + GAP - 12
    lines = "".join(f'<path d="M{start:.2f},{y + d:.2f}H{end - 5:.2f}" stroke="{theme.muted}" stroke-width="1.6"/>' for d in (-3, 3))
    head = f"M{end - 8:.2f},{y - 8:.2f}L{end:.2f},{y:.2f}L{end - 8:.2f},{y + 8:.2f}"
    return f'<g fill="none">{lines}<path d="{head}" stroke="{theme.ink}" stroke-width="1.6"/></g>'


def _size(svg: str) -> tuple[float, float]:
    size = _SIZE.search(svg)
    if size is None:
        raise InvalidValue("an SVG without a viewBox cannot be put beside another one")
    return float(size[3]), float(size[4])


def _placed(svg: str, x: float, y: float, width: float, height: float) -> str:
    """The element at a place: what it says of its own size is replaced."""
    head, _, rest = svg[svg.index("<svg") :].partition(">")
    # The viewBox stays: with a place and a size around it, a nested <svg> is scaled to them.
    head = re.sub(r'\s(width|height|x|y|xmlns(:\w+)?)="[^"]*"', "", head)
    return f'{head} x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}">{rest.rstrip()}'
