"""Sections of pages that a command writes, between two marks."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

END = "<!-- until here -->"


class Section(NamedTuple):
    """The part of a page that follows a mark, up to the next ``END``."""

    page: Path
    mark: str

    def parts(self) -> tuple[str, str, str]:
        """The text before the section, the section, and the text after it."""
        before, rest = self.page.read_text(encoding="utf-8").split(self.mark)
        text, after = rest.split(END, 1)
        return before, text.strip(), after

    def write(self, text: str) -> None:
        before, _, after = self.parts()
        self.page.write_text(f"{before}{self.mark}\n\n{text}\n\n{END}{after}", encoding="utf-8")
