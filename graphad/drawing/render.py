"""DOT to SVG or PNG: finds the renderer and runs it, with a time limit; two drawings side by side."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from graphad.drawing.style import INK, MUTED
from graphad.errors import InvalidValue, RenderError

# -- render ----------------------------------------------------------------------------------------
# DOT to SVG or PNG: finds the renderer and runs it, with a time limit.

RENDERER = "graphviz-pure"
VARIABLE = "GRAPHAD_DOT"
_EDGE = re.compile(r'^n\d+ -> n\d+ .*\bid="([^"]+)".*$', re.MULTILINE)
_DRAWN = re.compile(r'<g id="([^"]+)" class="edge')
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def find_renderer() -> str:
    """The program that lays out and renders: ``$GRAPHAD_DOT``, else graphviz-pure beside Python or on the PATH, else ``dot``.

    Raises:
        RenderError: there is none; the message says what to install.
    """
    asked = os.environ.get(VARIABLE)
    if asked:
        found = shutil.which(asked)
        if found is None:
            raise RenderError(f"{VARIABLE} names {asked!r}, which is no program that can be run; unset it to use {RENDERER}")
        return found
    beside = sysconfig.get_path("scripts")
    found = shutil.which(RENDERER, path=beside) or shutil.which(RENDERER) or shutil.which("dot")
    if found is None:
        raise RenderError(f"no Graphviz found to draw with: `pip install {RENDERER}`, or install Graphviz, or name its dot in {VARIABLE}")
    return found


def find_pdf_renderer() -> str:
    """The program that renders PDF, which the wheel does not: ``$GRAPHAD_DOT``, else Graphviz's ``dot``.

    Raises:
        RenderError: there is none.
    """
    found = find_renderer() if os.environ.get(VARIABLE) else shutil.which("dot")
    if found is None:
        raise RenderError(f"PDF is drawn by Graphviz itself, which is not installed; an SVG is drawn without, or name a dot in {VARIABLE}")
    return found


def render_dot(dot: str, format: str, timeout: float, dpi: float) -> bytes:
    """Run the renderer on DOT text; where Graphviz finds no curves around the frames, links are left out, or lines are straight.

    Args:
        dot: the drawing.
        format: ``svg``, ``png`` or ``pdf``.
        timeout: seconds after which it is stopped.
        dpi: resolution of a PNG.

    Raises:
        RenderError: no renderer, it failed, or it took too long.
    """
    program = find_pdf_renderer() if format == "pdf" else find_renderer()
    done = _run(program, dot, format, timeout, dpi)
    if done.returncode != 0 and "routesplines" in _said(done):
        whole = done if format == "svg" else _run(program, dot, "svg", timeout, dpi)
        if done.stdout and _lacks_links_only(dot, whole.stdout.decode("utf-8", "replace")):
            return done.stdout
        done = _run(program, dot, format, timeout, dpi, "-Gsplines=line")
    if done.returncode != 0 or not done.stdout:
        raise RenderError(_failed(program, done.returncode, _said(done).strip()))
    return done.stdout


def _run(program: str, dot: str, format: str, timeout: float, dpi: float, *more: str) -> subprocess.CompletedProcess[bytes]:
    command = [program, "-Kdot", f"-T{format}", *([f"-Gdpi={dpi:g}"] if format == "png" else []), *more]
    try:
        return subprocess.run(command, input=dot.encode("utf-8", "replace"), capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise RenderError(_too_slow(program, timeout)) from None
    except OSError as error:
        raise RenderError(f"{program} cannot be run: {error}") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode("utf-8", "replace")


def _lacks_links_only(dot: str, svg: str) -> bool:
    """Whether of all edges only such have no way that say what a gradient is the gradient of, as its tooltip does."""
    drawn = set(_DRAWN.findall(svg))
    return all(match[1] in drawn or 'class="link"' in match[0] for match in _EDGE.finditer(dot))


def plain_svg(svg: bytes) -> str:
    """The ``<svg>`` element alone, without what may differ between two renderers or runs: comments and what precedes it.

    Raises:
        RenderError: there is no such element.
    """
    text = svg.decode("utf-8", "replace").replace("\r\n", "\n")
    if "<svg" not in text:
        raise RenderError(f"the renderer wrote no SVG, but {text[:80]!r}")
    return _COMMENT.sub("", text[text.index("<svg") :]).strip() + "\n"


def _too_slow(program: str, timeout: float) -> str:
    return (
        f"{Path(program).name} did not lay out the drawing within {timeout:g} s; draw less of it (values='shared' or 'none', "
        "nested='none', a part of it: Program.prune), or allow more time (timeout=)"
    )


def _failed(program: str, code: int, said: str) -> str:
    return (
        f"{Path(program).name} failed (exit code {code}): {said or 'it said nothing'}\n  what it was given: to_dot, or draw to a .dot file"
    )


# -- side by side ----------------------------------------------------------------------------------
# Two drawings beside each other in one SVG, with an arrow between: before ⇒ after.

GAP, MARGIN = 56.0, 12.0
_SIZE = re.compile(r'<svg\b[^>]*?\bviewBox="([-\d.]+) ([-\d.]+) ([-\d.]+) ([-\d.]+)"')


def joined(before: str, after: str) -> str:
    """One ``<svg>`` of two, in points, vertically centred, on white."""
    (wide, high), (wide_after, high_after) = _size(before), _size(after)
    height = max(high, high_after) + 2 * MARGIN
    width = wide + wide_after + GAP + 2 * MARGIN
    middle, arrow = height / 2, MARGIN + wide
    left = _placed(before, MARGIN, (height - high) / 2, wide, high)
    right = _placed(after, arrow + GAP, (height - high_after) / 2, wide_after, high_after)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{width:.2f}pt" height="{height:.2f}pt" viewBox="0 0 {width:.2f} {height:.2f}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{left}\n{_arrow(arrow, middle)}\n{right}\n</svg>\n'
    )


def _arrow(x: float, y: float) -> str:
    start, end = x + 12, x + GAP - 12
    lines = "".join(f'<path d="M{start:.2f},{y + d:.2f}H{end - 5:.2f}" stroke="{MUTED}" stroke-width="1.6"/>' for d in (-3, 3))
    head = f"M{end - 8:.2f},{y - 8:.2f}L{end:.2f},{y:.2f}L{end - 8:.2f},{y + 8:.2f}"
    return f'<g fill="none">{lines}<path d="{head}" stroke="{INK}" stroke-width="1.6"/></g>'


def _size(svg: str) -> tuple[float, float]:
    found = _SIZE.search(svg)
    if found is None:
        raise InvalidValue("an SVG without a viewBox cannot be put beside another one")
    return float(found[3]), float(found[4])


def _placed(svg: str, x: float, y: float, width: float, height: float) -> str:
    """The element at a place: what it says of its own size is replaced."""
    head, _, rest = svg[svg.index("<svg") :].partition(">")
    head = re.sub(r'\s(width|height|x|y|xmlns(:\w+)?)="[^"]*"', "", head)
    return f'{head} x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}">{rest.rstrip()}'
