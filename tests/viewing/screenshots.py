"""Screenshots of pages, to be looked at: ``python -m tests.viewing.screenshots FOLDER`` takes them at three sizes, light and dark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import graphad as ga
from graphad.cli.demo import build_model
from tests.viewing.browser import Window, launched
from tests.viewing.programs import loop, repeated

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SIZES = {"wide": (1400, 900), "medium": (900, 700), "narrow": (400, 800)}


def digits() -> tuple[ga.Program, str]:
    """The network of ``graphad demo``, and its backward."""
    model = build_model()
    return model.program, f"{ga.backward_pipeline((model.cost.name,))}, cse, simplify, dead-code"


SUBJECTS = {"digits": (digits, "#pass=5"), "loop": (loop, "#pass=5"), "layers": (lambda: repeated(290), "#pass=2")}


def take(folder: Path) -> None:
    """Write pages and pictures of them into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with launched() as browser:
        document(browser, folder)
        for name, (made, place) in SUBJECTS.items():
            path = ga.view(*made(), folder / f"{name}.html", title=name).path
            assert path is not None
            for size, (width, height) in SIZES.items():
                for scheme in ("light", "dark"):
                    window = Window(browser, width, height, scheme)
                    window.open(path.resolve(), place)
                    window.settled().screenshot(path=folder / f"{name}-{size}-{scheme}.png")
                    window.close()


def document(browser: Browser, folder: Path) -> None:
    """The picture of docs/viewing.md: what the pass that makes gradients did, and an operator selected."""
    path = ga.view(*digits(), folder / "page.html", title="digits").path
    assert path is not None
    window = Window(browser)
    page = window.open(path.resolve(), "#pass=2")
    page.get_by_role("searchbox").fill("pool2d")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.keyboard.press("-")
    window.settled().screenshot(path=folder / "viewing.png")
    window.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]))
