"""The hooks that ``make docs`` adds to mkdocs.

Each tutorial is run and is a notebook as well (``site/notebooks``), to which its page links. A picture is a link to itself, since most
drawings are wider than a column of text, and a light one is marked, so that the stylesheet can make it dark on a dark page. Pages of
pictures and of tables do without a sidebar, and so do those without sections.
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
HIDDEN = {"gallery": ["navigation"], "index": ["navigation", "toc"], "operators": ["toc"], "fluid-layers": ["toc"], "benchmarks": ["toc"]}
CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
IMAGE = re.compile(r'<img alt="[^"]*" src="([^":]+)" ?/?>')  # of the documentation itself: no scheme


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Hide the sidebars that a page does without."""
    sections = re.search(r"^## ", markdown, re.MULTILINE)
    page.meta.setdefault("hide", HIDDEN.get(_name(page), [] if sections else ["toc"]))
    return markdown


def on_page_content(html: str, page: Any, config: Any, **_: Any) -> str:
    """A link around each picture, and to the notebook under the title of a tutorial; bars in the code of tables without backslashes."""
    # GitHub wants a bar in a cell escaped, within code too; Python-Markdown then shows the backslash.
    html = CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), html)

    def linked(image: re.Match[str]) -> str:
        light = "light " * _is_light(Path(config["docs_dir"]) / page.file.src_uri, image[1])
        return f'<a class="{light}picture" href="{image[1]}" title="alone, at its size">{image[0]}</a>'

    html = IMAGE.sub(linked, html)
    if _name(page) not in TUTORIALS:
        return html
    link = f'<p><a href="notebooks/{_name(page)}.ipynb" download>This page as a notebook</a></p>'
    return html.replace("</h1>", f"</h1>\n{link}", 1)


def _is_light(page: Path, image: str) -> bool:
    """Whether a picture is an SVG on white; the gallery has one that is dark."""
    if not image.endswith(".svg"):
        return False
    ground = re.search(r'<rect [^>]*fill="([^"]*)"', (page.parent / image).read_text(encoding="utf-8"))
    return ground is not None and ground[1] in ("white", "#ffffff")


def _name(page: Any) -> str:
    return str(page.file.src_uri).removesuffix(".md")


def on_post_build(config: Any, **_: Any) -> None:
    """Run the tutorials, and write their notebooks into the site."""
    folder = Path(config["site_dir"]) / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for name in TUTORIALS:
        page = Path(config["docs_dir"]) / f"{name}.md"
        check(page)
        text = json.dumps(notebook(page.read_text(encoding="utf-8"), page.parent), indent=1, ensure_ascii=False)
        (folder / f"{name}.ipynb").write_text(f"{text}\n", encoding="utf-8")
