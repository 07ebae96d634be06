"""The documentation site: every page is in its navigation, notebooks have the blocks of their pages, and it builds strictly."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import passes_page
from tests.pages import PYTHON
from tests.site_hooks import TUTORIALS, notebook
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


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_notebook_has_the_blocks_of_its_page(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    cells = json.loads(json.dumps(notebook(text)))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code == [match["code"].strip("\n") for match in PYTHON.finditer(text)]
    assert code
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert cells[0]["source"][0].startswith("# ")


def test_links_to_parts_of_pages_lead_somewhere() -> None:
    for page in DOCS.glob("*.md"):
        for target, anchor in re.findall(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", page.read_text(encoding="utf-8")):
            text = (page.parent / target if target else page).read_text(encoding="utf-8")
            titles = {
                re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            }
            assert anchor in titles, f"{page.name} links to {target}#{anchor}"


def test_the_page_of_passes_is_up_to_date() -> None:
    assert passes_page.PAGE.read_text(encoding="utf-8") == passes_page.text(), "run make pictures"
    assert json.loads(passes_page.DRAWN.read_text(encoding="utf-8")) == passes_page.drawn(), "run make pictures"
    assert {path.stem for path in passes_page.PICTURES.glob("*.svg")} == set(passes_page.drawn())


def test_the_site_builds_strictly(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    pytest.importorskip("material", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/search/search_index.js").stat().st_size > 100_000, "what search reads without a server"
    scripts = re.findall(r'<script src="([^"]+)"', (tmp_path / "site/index.html").read_text(encoding="utf-8"))
    assert scripts
    assert all((tmp_path / "site" / each).is_file() for each in scripts), "the site needs no network"
    assert "<pre" in (tmp_path / "site/api/passes.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "site/notebooks/start.ipynb").read_text(encoding="utf-8"))["nbformat"] == 4
