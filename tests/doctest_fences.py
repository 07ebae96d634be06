"""Examples in docstrings as blocks of code on the site: an extension of griffe, which ``mkdocs.yml`` names."""

from __future__ import annotations

from typing import Any

import griffe


def fenced(text: str) -> str:
    """The text with its ``>>>`` examples, up to the next empty line, in fences."""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        starts = line.lstrip().startswith(">>>")
        indent = line[: len(line) - len(line.lstrip())]
        if starts and not inside:
            lines += ["", f"{indent}```pycon"]
            inside, margin = True, indent
        if inside and not line.strip():
            lines.append(f"{margin}```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, f"{margin}```"] if inside else lines)


class DoctestFences(griffe.Extension):
    """Puts examples into fences when a docstring is loaded."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change a docstring in place."""
        if obj.docstring is not None and ">>>" in obj.docstring.value and "```pycon" not in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)
