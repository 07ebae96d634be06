"""What ``make docs`` does besides mkdocs: each tutorial is run and is a notebook as well (``site/notebooks``), and its page links to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.notebooks import check, notebook

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


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """A link to the notebook under the title of a tutorial."""
    name = page.file.src_uri.removesuffix(".md")
    if name not in TUTORIALS:
        return html
    link = f'<p><a href="notebooks/{name}.ipynb" download>This page as a notebook</a></p>'
    return html.replace("</h1>", f"</h1>\n{link}", 1)


def on_post_build(config: Any, **_: Any) -> None:
    """Run the tutorials, and write their notebooks into the site."""
    folder = Path(config["site_dir"]) / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for name in TUTORIALS:
        page = Path(config["docs_dir"]) / f"{name}.md"
        check(page)
        text = json.dumps(notebook(page.read_text(encoding="utf-8")), indent=1, ensure_ascii=False)
        (folder / f"{name}.ipynb").write_text(f"{text}\n", encoding="utf-8")
