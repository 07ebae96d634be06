"""The options of a drawing, checked once."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from graphad.errors import InvalidType, InvalidValue
from graphad.graph import Node, Op
from graphad.ops.definition import did_you_mean

CHOICES = {
    "values": ("auto", "all", "shared", "none"),
    "links": ("auto", "all", "none"),
    "nested": ("auto", "all", "none"),
    "rankdir": ("TB", "LR"),
}


@dataclass(frozen=True)
class Options:
    """How to draw; see ``graphad.drawing.draw`` for what each option means.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an option that is none of its choices.
    """

    title: str | None = None
    highlight: Collection[Any] = ()
    highlight_means: str = "highlighted"
    values: str = "auto"
    links: str = "auto"
    nested: str = "auto"
    rankdir: str = "TB"
    attributes: bool = False
    legend: bool = True
    prefix: str = ""
    dpi: int = 96
    timeout: float = 60.0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidValue(f"{name} is one of {', '.join(map(repr, choices))}, not {getattr(self, name)!r}")
        if not (self.title is None or isinstance(self.title, str)):
            raise InvalidType(f"title is a string, not {self.title!r}")
        if isinstance(self.highlight, str) or not isinstance(self.highlight, Collection):
            raise InvalidType(f"highlight is a set of operators and values, not {self.highlight!r}")
        if not isinstance(self.highlight_means, str):
            raise InvalidType(f"highlight_means is a text for the legend, not {self.highlight_means!r}")
        if not isinstance(self.prefix, str) or not re.fullmatch(r"([A-Za-z_][\w-]*)?", self.prefix, re.ASCII):
            raise InvalidValue(f"prefix begins the ids in an SVG: letters, digits, - and _, not {self.prefix!r}")
        for name, number in (("dpi", self.dpi), ("timeout", self.timeout)):
            if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
                raise InvalidValue(f"{name} is a number above 0, not {number!r}")

    @cached_property
    def _highlighted(self) -> set[Any]:
        return {item if isinstance(item, str) else id(item) for item in self.highlight}

    def highlights(self, node: Node) -> bool:
        """Whether a node is to be highlighted: requested itself, by its operator in the program, or by the name of a value."""
        keys = (id(node), id(node.operator)) if isinstance(node, Op) else (id(node), id(node.var), node.name, repr(node))
        return bool(self._highlighted) and not self._highlighted.isdisjoint(keys)


def checked_options(given: dict[str, Any]) -> Options:
    """Options from keywords; TypeError for one that does not exist."""
    known = [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            raise InvalidType(f"a drawing has no option {name!r}; its options are {', '.join(known)}{did_you_mean(name, known)}")
    return Options(**given)
