"""DOT to SVG or PNG: finds the renderer and runs it, with a time limit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from graphad.errors import RenderError

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


def render_dot(dot: str, format: str, timeout: float, dpi: float) -> bytes:
    """Run the renderer on DOT text; where Graphviz finds no curves around the frames, links are left out, or lines are straight.

    Args:
        dot: the drawing.
        format: ``svg`` or ``png``.
        timeout: seconds after which it is stopped.
        dpi: resolution of a PNG.

    Raises:
        RenderError: no renderer, it failed, or it took too long.
    """
    program = find_renderer()
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
