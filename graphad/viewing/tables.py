"""Tables of what a page stores once: texts, attributes, lines of source, and records of where operators come from.

Each gives a number for what is stored, the same number for the same thing; -1 stands for nothing.
"""

from __future__ import annotations

import linecache
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphad.ir.provenance import Origin
from graphad.program import SourceLine

NOTHING = -1
_PACKAGE = Path(__file__).resolve().parent.parent
_PASSES = (_PACKAGE / "passes").resolve()
AROUND = 3  # lines shown before and after a line of source
Json = Any  # what ``json.dumps`` takes: nested lists, tables, texts and numbers


class Numbers:
    """Things numbered in the order in which they are met.

    >>> numbers = Numbers()
    >>> numbers.of("a"), numbers.of("b"), numbers.of("a"), numbers.items
    (0, 1, 0, ['a', 'b'])
    """

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.items: list[Any] = []

    def of(self, item: Hashable) -> int:
        """The number of a thing; of one that is new the next one."""
        number = self.numbers.get(item)
        if number is None:
            number = self.numbers[item] = len(self.items)
            self.items.append(item)
        return number


@dataclass
class Tables:
    """All that the states of a page refer to by number."""

    texts: Numbers = field(default_factory=Numbers)
    attributes: Numbers = field(default_factory=Numbers)
    lines: Numbers = field(default_factory=Numbers)
    origins: list[Json] = field(default_factory=list)
    _origin_numbers: dict[int, int] = field(default_factory=dict)
    _kept: list[Origin] = field(default_factory=list)  # so that no id is used a second time

    def text(self, text: str | None) -> int:
        """The number of a text."""
        return NOTHING if text is None else self.texts.of(text)

    def attrs(self, attrs: Mapping[str, object]) -> int:
        """The number of an operator's attributes: names and values as text, concatenated."""
        if not attrs:
            return NOTHING
        return self.attributes.of(tuple(self.texts.of(part) for name, value in attrs.items() for part in (name, repr(value))))

    def line(self, source: SourceLine | None) -> int:
        """The number of a line of source."""
        return self.lines.of(source) if source else NOTHING

    def origin(self, origin: Origin | None) -> int:
        """The number of the record of a rewrite: its rule, and what it started from."""
        if origin is None:
            return NOTHING
        # By identity; the origin is kept below, so that no other object gets its id.
        number = self._origin_numbers.get(id(origin))
        if number is None:
            ancestors = [
                [self.text(ancestor.text), self.line(ancestor.source), self.text(ancestor.made_by), self.origin(ancestor.origin)]
                for ancestor in origin.ancestors
            ]
            number = self._origin_numbers[id(origin)] = len(self.origins)
            self._kept.append(origin)
            self.origins.append([self.text(origin.rule), ancestors])
        return number

    def stored(self) -> dict[str, Json]:
        """The tables as they are written into the page. Lines of source come with the lines around them."""
        files: dict[str, dict[int, str]] = {}
        for source in self.lines.items:
            texts = files.setdefault(source.file, {})
            for number in range(max(source.line - AROUND, 1), source.line + AROUND + 1):
                # linecache has the cells of notebooks as well.
                text = linecache.getline(source.file, number)
                if text:
                    texts[number] = text.rstrip("\n")
        return {
            "texts": self.texts.items,
            "attributes": self.attributes.items,
            "lines": [[_shown(source.file), source.line] for source in self.lines.items],
            "files": {_shown(file): dict(sorted(texts.items())) for file, texts in files.items()},
            "origins": self.origins,
        }


def _shown(file: str) -> str:
    """A file's name as it is shown: from graphad's folder or the current one on, if it is in one of them."""
    path = Path(file)
    for folder, prefix in ((_PASSES, "graphad/passes"), (_PACKAGE, "graphad"), (Path.cwd(), "")):
        if path.is_relative_to(folder):
            return (Path(prefix) / path.relative_to(folder)).as_posix()
    return file
