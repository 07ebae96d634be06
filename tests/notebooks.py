"""Tutorials as Jupyter notebooks that have been run: the cells of one, in order, in one process, as Jupyter runs them.

A cell's output is what the page shows after the block, once it fits what the cell prints; so the same pages make the same bytes. Pictures
are attachments of their cells, since a notebook is downloaded, and opened where no picture is beside it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.pages import PYTHON, ROOT, fits, without_folder

# Reads cells from standard input, runs them in the namespace of __main__, and writes what each printed.
_RUN = """
import contextlib, io, json, sys
printed = []
for cell in json.load(sys.stdin):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(cell, "<string>", "exec"), sys.modules["__main__"].__dict__)
    printed.append(said.getvalue())
print(json.dumps(printed))
"""


class CellError(Exception):
    """A cell fails, or prints something else than its page shows."""


IMAGE = re.compile(r"(!\[[^\]]*\]\()([\w./-]+)\.svg\)")


def notebook(markdown: str, folder: Path | None = None) -> dict[str, Any]:
    """A page as a notebook: its blocks of Python are cells of code with what the page shows as their output, the rest is markdown.

    Pictures are read from beside the page, in ``folder``; without one they stay links.
    """
    cells: list[dict[str, Any]] = []
    place = 0
    for match in PYTHON.finditer(markdown):
        _add_text(cells, markdown[place : match.start()], folder)
        _add(cells, "code", match["code"], match["shown"])
        place = match.end() if match["indented"] is None else match.start("indented")
    _add_text(cells, markdown[place:], folder)
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def _add_text(cells: list[dict[str, Any]], markdown: str, folder: Path | None) -> None:
    pictures = {} if folder is None else {f"{Path(match[2]).name}.svg": folder / f"{match[2]}.svg" for match in IMAGE.finditer(markdown)}
    before = len(cells)
    _add(cells, "markdown", _with_links(IMAGE.sub(_attached, markdown) if pictures else markdown))
    if len(cells) > before and pictures:
        cells[-1]["attachments"] = {
            name: {"image/svg+xml": base64.b64encode(path.read_bytes()).decode()} for name, path in pictures.items()
        }


def _attached(match: re.Match[str]) -> str:
    return f"{match[1]}attachment:{Path(match[2]).name}.svg)"


def _add(cells: list[dict[str, Any]], kind: str, text: str, shown: str | None = None) -> None:
    if not text.strip():
        return
    source = text.strip("\n").splitlines(keepends=True)
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}, "source": source}
    if kind == "code":
        output = {"name": "stdout", "output_type": "stream", "text": (shown or "").splitlines(keepends=True)}
        number = 1 + sum(each["cell_type"] == "code" for each in cells)
        cell |= {"execution_count": number, "outputs": [output] if shown else []}
    cells.append(cell)


def _with_links(markdown: str) -> str:
    """Links of a page of ``docs`` as they lead from the folder of notebooks: pictures, and pages of the site."""
    return re.sub(r"\]\((?!\w+:)([\w./-]+?)(\.md)?(#[\w-]+)?\)", _moved, markdown)


def _moved(match: re.Match[str]) -> str:
    return f"](../{match[1]}{'.html' if match[2] else ''}{match[3] or ''})"


def check(page: Path) -> None:
    """Run the cells of a page one after another in one process; CellError unless each prints what the page shows."""
    blocks = [*PYTHON.finditer(page.read_text(encoding="utf-8"))]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
        cells = json.dumps([block["code"] for block in blocks])
        done = subprocess.run(
            [sys.executable, "-c", _RUN], input=cells, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            raise CellError(f"{page.name}: {done.stderr[-3000:]}")
        printed = [without_folder(text, Path(folder)) for text in json.loads(done.stdout.splitlines()[-1])]
    for number, (block, text) in enumerate(zip(blocks, printed, strict=True)):
        if block["shown"] is not None and not fits(block["shown"], text):
            raise CellError(f"{page.name}, cell {number}: the page shows\n{block['shown']}\nthe cell prints\n{text}")
