"""The documentation site: every page is in its navigation, notebooks have the blocks of their pages, and it builds strictly."""

from __future__ import annotations

import base64
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import passes_page
from tests.notebooks import CellError, check, notebook
from tests.pages import PYTHON
from tests.site_hooks import HIDDEN, TUTORIALS, on_page_content, on_page_markdown
from tests.source_tree import ROOT

DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_the_navigation_has_every_page_once() -> None:
    named = re.findall(r"[\w/-]+\.md$", CONFIG.partition("\nnav:")[2], re.MULTILINE)
    pages = {path.relative_to(DOCS).as_posix() for path in [*DOCS.glob("*.md"), *DOCS.glob("api/*.md")]}
    assert sorted(named) == sorted(pages)


@pytest.mark.parametrize("path", sorted(DOCS.glob("api/*.md")), ids=lambda path: path.stem)
def test_what_the_reference_names_is_there(path: Path) -> None:
    for name in re.findall(r"^::: ([\w.]+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
        try:
            assert importlib.import_module(name).__doc__
        except ModuleNotFoundError:
            module, _, attribute = name.rpartition(".")
            assert getattr(importlib.import_module(module), attribute).__doc__, name


PACKAGES = "graphad testing rewriting interop interop.onnx interop.paddle distribution drawing ir execution viewing"


@pytest.mark.parametrize("package", PACKAGES.split())
def test_the_reference_has_every_public_name(package: str) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("api/*.md"))
    shown = {*re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)}
    module = importlib.import_module("graphad" if package == "graphad" else f"graphad.{package}")
    made = {name: item for name in module.__all__ if inspect.isroutine(item := getattr(module, name)) or inspect.isclass(item)}
    missing = [
        name
        for name, item in made.items()
        if not shown & {item.__module__, f"{item.__module__}.{name}", *(f"{parent}.{name}" for parent in _parents(item.__module__))}
    ]
    assert not [name for name in missing if name not in UNLISTED]


UNLISTED = {
    *("Follower", "sweep"),  # names of older versions
    *("CannotWrite", "MissingHypothesis", "MissingProtobuf", "UnsupportedModel"),  # errors, which say what to do
    *("paused_collector", "stages_of"),  # for graphad's own packages
}


def _parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_notebook_has_the_blocks_of_its_page(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    cells = json.loads(json.dumps(notebook(text)))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code == [match["code"].strip("\n") for match in PYTHON.finditer(text)]
    assert code
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert cells[0]["source"][0].startswith("# ")


@pytest.mark.long
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_notebook_runs_from_the_first_cell_to_the_last(name: str) -> None:
    check(DOCS / f"{name}.md")


def test_a_notebook_that_prints_something_else_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```text\n2\n```\n", encoding="utf-8")
    with pytest.raises(CellError, match=r"page.md, cell 1: the page shows\n2\n\nthe cell prints\n1\n"):
        check(page)
    cells = notebook(page.read_text(encoding="utf-8"))["cells"]
    assert [cell.get("execution_count") for cell in cells] == [None, 1, 2]
    assert cells[2]["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["2\n"]}]


def test_a_notebook_carries_its_pictures() -> None:
    text = (DOCS / "experiments.md").read_text(encoding="utf-8")
    (cell,) = (cell for cell in notebook(text, DOCS)["cells"] if "attachments" in cell)
    assert "](attachment:experiment-memory.svg)" in "".join(cell["source"])
    (encoded,) = cell["attachments"]["experiment-memory.svg"].values()
    assert base64.b64decode(encoded) == (DOCS / "images" / "experiment-memory.svg").read_bytes()


def test_links_of_notebooks_lead_to_the_pages_of_the_site() -> None:
    (cell,) = notebook("See [the passes](passes.md#cse), ![a drawing](images/first.svg), [other](https://example.org/a.md).")["cells"]
    text = "See [the passes](../passes.html#cse), ![a drawing](../images/first.svg), [other](https://example.org/a.md)."
    assert "".join(cell["source"]) == text


def test_links_to_parts_of_pages_lead_somewhere() -> None:
    for page in DOCS.glob("*.md"):
        for target, anchor in re.findall(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", page.read_text(encoding="utf-8")):
            text = (page.parent / target if target else page).read_text(encoding="utf-8")
            titles = {
                re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            }
            assert anchor in titles, f"{page.name} links to {target}#{anchor}"


def test_no_link_leaves_the_site() -> None:
    """mkdocs would say so as well, where it is installed."""
    for page in [*DOCS.glob("*.md"), *DOCS.glob("api/*.md")]:
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[\w-]*)?\)", prose):
            found = (page.parent / target).resolve()
            assert found.is_file(), f"{page.name} links to {target}"
            assert found.is_relative_to(DOCS), f"{page.name} links to {target}"


def test_a_picture_of_the_site_is_a_link_to_itself_and_is_marked_where_it_is_light() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="gallery.md"), meta={})
    light, dark, other = (
        f'<img alt="A picture" src="{source}" />'
        for source in ("images/gallery-forward.svg", "images/gallery-flops.svg", "https://example.org/a.svg")
    )
    html = on_page_content(f"<h1>Gallery</h1><p>{light}</p><p>{dark}</p><p>{other}</p>", page, {"docs_dir": str(DOCS)})
    assert f'<a class="light picture" href="images/gallery-forward.svg" title="alone, at its size">{light}</a>' in html
    assert f'<a class="picture" href="images/gallery-flops.svg" title="alone, at its size">{dark}</a>' in html
    assert f"<p>{other}</p>" in html


def test_a_bar_in_a_table_has_no_backslash() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="operators.md"), meta={})
    html = on_page_content(r"<td><code>list[int] \| None</code></td> <code>a \| b</code>", page, {"docs_dir": str(DOCS)})
    assert html == r"<td><code>list[int] | None</code></td> <code>a \| b</code>"


def test_pages_do_without_the_sidebars_that_they_have_no_use_for() -> None:
    def hidden(name: str, markdown: str) -> object:
        page = SimpleNamespace(file=SimpleNamespace(src_uri=f"{name}.md"), meta={})
        assert on_page_markdown(markdown, page) == markdown
        return page.meta["hide"]

    assert hidden("gallery", "# Gallery\n\n## A loop\n") == ["navigation"]
    assert hidden("rules", "# Rules\n\n## Zeros\n") == []
    assert hidden("rules", "# Rules\n") == ["toc"]  # a table of contents with nothing in it
    assert all((DOCS / f"{name}.md").is_file() for name in HIDDEN)


def test_the_page_of_passes_is_up_to_date() -> None:
    assert passes_page.PAGE.read_text(encoding="utf-8") == passes_page.text(), "run make pictures"
    assert json.loads(passes_page.DRAWN.read_text(encoding="utf-8")) == passes_page.drawn(), "run make pictures"
    assert {path.stem for path in passes_page.PICTURES.glob("*.svg")} == set(passes_page.drawn())


@pytest.mark.long
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    """Without ``--quiet``, which keeps mkdocs from counting its warnings."""
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    pytest.importorskip("material", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/search/search_index.js").stat().st_size > 100_000, "what search reads without a server"
    scripts = re.findall(r'<script src="([^"]+)"', (tmp_path / "site/index.html").read_text(encoding="utf-8"))
    assert scripts
    assert all((tmp_path / "site" / each).is_file() for each in scripts), "the site needs no network"
    assert "<pre" in (tmp_path / "site/api/passes.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "site/notebooks/start.ipynb").read_text(encoding="utf-8"))["nbformat"] == 4
