"""What ``make docs`` does besides mkdocs: each tutorial is a notebook as well (``site/notebooks``), and its page links to it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

TUTORIALS = (
    "start",
    "write-a-pass",
    "replace-a-backward-pass",
    "loop-gradient",
    "write-an-operator",
    "write-an-analysis",
    "import-a-model",
    "experiments",
    "control-flow",
)
_BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)


def notebook(markdown: str) -> dict[str, Any]:
    """A page as a Jupyter notebook: its blocks of Python are cells of code, without outputs; the rest is markdown."""
    cells: list[dict[str, Any]] = []
    place = 0
    for match in _BLOCK.finditer(markdown):
        _add(cells, "markdown", markdown[place : match.start()])
        _add(cells, "code", match[1])
        place = match.end()
    _add(cells, "markdown", markdown[place:])
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def _add(cells: list[dict[str, Any]], kind: str, text: str) -> None:
    if text.strip():
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": f"cell-{len(cells)}",
            "metadata": {},
            "source": text.strip("\n").splitlines(keepends=True),
        }
        cells.append({**cell, "execution_count": None, "outputs": []} if kind == "code" else cell)


# -- what mkdocs calls -----------------------------------------------------------------------------


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """A link to the notebook under the title of a tutorial."""
    name = page.file.src_uri.removesuffix(".md")
    if name not in TUTORIALS:
        return html
    link = f'<p><a href="notebooks/{name}.ipynb" download>This page as a notebook</a></p>'
    return html.replace("</h1>", f"</h1>\n{link}", 1)


def on_post_build(config: Any, **_: Any) -> None:
    """Write the notebooks into the site."""
    folder = Path(config["site_dir"]) / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for name in TUTORIALS:
        text = (Path(config["docs_dir"]) / f"{name}.md").read_text(encoding="utf-8")
        (folder / f"{name}.ipynb").write_text(json.dumps(notebook(text), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
