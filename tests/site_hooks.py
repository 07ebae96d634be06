"""What ``make docs`` does besides mkdocs.

Each tutorial is run and is a notebook as well (``site/notebooks``), to which its page links. A picture is a link to itself, since most
drawings are wider than a column of text. Pages of pictures and of tables do without a sidebar.
"""

from __future__ import annotations

import json
import re
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


# Which sidebars a page does without; the tabs above lead to the others all the same.
HIDDEN = {"gallery": ["navigation"], "operators": ["toc"], "fluid-layers": ["toc"], "benchmarks": ["toc"]}
IMAGE = re.compile(r'<img alt="[^"]*" src="([^":]+)" ?/?>')  # of the documentation itself: no scheme


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Hide the sidebars that a page does without."""
    page.meta.setdefault("hide", HIDDEN.get(_name(page), []))
    return markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """A link around each picture, and to the notebook under the title of a tutorial."""
    html = IMAGE.sub(r'<a class="picture" href="\1" title="alone, at its size">\g<0></a>', html)
    if _name(page) not in TUTORIALS:
        return html
    link = f'<p><a href="notebooks/{_name(page)}.ipynb" download>This page as a notebook</a></p>'
    return html.replace("</h1>", f"</h1>\n{link}", 1)


def _name(page: Any) -> str:
    return str(page.file.src_uri).removesuffix(".md")


def on_post_build(config: Any, **_: Any) -> None:
    """Run the tutorials, and write their notebooks into the site."""
    folder = Path(config["site_dir"]) / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for name in TUTORIALS:
        page = Path(config["docs_dir"]) / f"{name}.md"
        check(page)
        text = json.dumps(notebook(page.read_text(encoding="utf-8")), indent=1, ensure_ascii=False)
        (folder / f"{name}.ipynb").write_text(f"{text}\n", encoding="utf-8")
