"""The options of a drawing, checked once."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from graphad.drawing.groups import Groups
from graphad.drawing.theme import Theme, theme_of
from graphad.errors import InvalidType, InvalidValue
from graphad.ir import Node, Op
from graphad.ops.definition import did_you_mean
from graphad.types import Sizes

CHOICES = {
    "values": ("auto", "all", "shared", "none"),
    "parameters": ("auto", "nodes", "inside"),
    "links": ("auto", "all", "none"),
    "nested": ("auto", "all", "none"),
    "fold": ("auto", "repeats", "parts", "none"),
    "scopes": ("auto", "open", "closed", "none"),
    "rankdir": ("TB", "LR"),
}
MEASURES = ("flops", "bytes", "liveness", "parts", "sent", "ranks", "time", "range", "nan")
Measured = Mapping[Any, Any]  # keys of several kinds, as a user gives them


@dataclass(frozen=True)
class Options:
    """The options of drawings: which nodes, how much detail, and how it looks; the keywords of ``ga.draw``, ``ga.draw_diff`` and the
    others.

    Attributes:
        title: a line above the drawing.
        highlight: operators and values (of the graph, of the program, or values by name) to outline: what a pass added, say.
        highlight_means: what the legend says that an outline means.
        values: ``"all"``, ``"shared"`` (values with one writer and one reader become arrows), ``"none"`` (operators only),
            or ``"auto"``: the first of these that is legible, with names of operators of 9 pixels on a screen 1600 pixels wide: ``"all"``
            if the drawing is no larger than the screen, ``"shared"`` if no larger than two; and with at most 150, 300 and 1500 nodes,
            by which alone DOT is written, for which nothing is laid out. Unless it is ``"all"``, what an optimizer operator alone keeps
            between runs (moments) is named inside the operator.
        parameters: ``"nodes"`` of their own, or ``"inside"`` the operators that read them; ``"auto"``: inside, where values are
            ``"shared"``, and by their names alone where they are ``"none"``.
        links: dashed lines from gradients to what they are gradients of: ``"all"``, ``"none"``, or ``"auto"``: up to 200.
        nested: ``"all"`` draws the graphs nested in loops, branches and nets; ``"none"`` draws only their operators, marked with
            ``[+]``; ``"auto"`` leaves out the deepest ones until at most 600 nodes are in frames,
            and 1500 in all, and, without values, the drawing is no wider than two screens; and draws at most 16 frames in one another
            unless a part is drawn.
        fold: ``"repeats"`` draws layers that follow upon one another once, with their gradients and updates, and says how often
            they are there and in what they differ, and 12 or more equal inputs of an operator as one; ``"parts"`` draws besides,
            of what does not repeat, parts of 25 to 80 operators as one box each, for an overview; ``"none"`` draws each; ``"auto"``
            folds repeats above 60 operators, and up to 300 only if that spares a third of them, folds equal inputs always, and draws parts
            where more than 300 operators are left.
        scopes: frames around the groups of ``ga.name_scope``, and around all of an order of gradients: ``"open"``, ``"closed"``
            (each of the outermost is one box), ``"none"``, or ``"auto"``: open, and the deepest are closed where more than 150
            operators would be drawn.
        closed: names of scopes to close (``["encoder/layer_0"]``).
        focus: a node, or a node and a radius: draw only what is so many operators away (1 unless given). A node is an
            operator or value of the graph or of the program, the name of a value, or a type of operators.
        path: two nodes: draw only what is on a way from one to the other.
        around: how many operators beyond these are drawn, pale.
        overlay: colors for numbers, with a color bar: a mapping from nodes to numbers, or ``"flops"``, ``"bytes"``, ``"liveness"``
            (estimated for ``batch`` samples), ``"parts"`` and ``"sent"`` (on ranks), ``"time"`` (``measured``: seconds by operator),
            ``"range"`` or ``"nan"`` (``measured``: arrays by the names of values, as a run fetches them). Or a color for each group of
            nodes: ``"ranks"`` (which axes of a mesh cut values), or ``graphad.drawing.Groups``.
        overlay_title: what the color bar says that the numbers are.
        measured: what was measured, for ``overlay``.
        batch: for how many samples costs are estimated, or the numbers of extents by their names.
        theme: ``"light"``, ``"dark"``, or a ``graphad.drawing.Theme``.
        rankdir: ``"TB"``, from top to bottom, or ``"LR"``, from left to right.
        attributes: whether operators show their attributes, which else only their tooltips in an SVG do.
        legend: whether the kinds of nodes are explained.
        columns: how many columns a long drawing is cut into; chosen unless given.
        prefix: what ids of nodes and edges in an SVG begin with, for several drawings on one page.
        limit: how many nodes are drawn at most; beyond it is an error that says how to draw a part.
        dpi: the resolution of a PNG.
        timeout: seconds that laying out may take.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an option that is none of its choices.
    """

    title: str | None = None
    highlight: Collection[object] = ()
    highlight_means: str = "highlighted"
    values: str = "auto"
    parameters: str = "auto"
    links: str = "auto"
    nested: str = "auto"
    fold: str = "auto"
    scopes: str = "auto"
    closed: Collection[str] = ()
    focus: object = None
    path: tuple[object, object] | None = None
    around: int = 0
    overlay: str | Measured | Groups | None = None
    overlay_title: str | None = None
    measured: Measured | None = None
    batch: Sizes = 1
    theme: str | Theme = "light"
    rankdir: str = "TB"
    attributes: bool = False
    legend: bool = True
    columns: int | None = None
    prefix: str = ""
    limit: int = 4000
    dpi: int = 96
    timeout: float = 60.0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidValue(f"{name} is one of {', '.join(map(repr, choices))}, not {getattr(self, name)!r}")
        if not (self.title is None or isinstance(self.title, str)):
            raise InvalidType(f"title is a string, not {self.title!r}")
        # A string is a collection too, of its letters: closed="encoder" would close seven scopes that are not there.
        for name, content in (("highlight", "operators and values"), ("closed", "names of scopes")):
            if isinstance(getattr(self, name), str) or not isinstance(getattr(self, name), Collection):
                raise InvalidType(f"{name} is a set of {content}, not {getattr(self, name)!r}")
        if not isinstance(self.highlight_means, str):
            raise InvalidType(f"highlight_means is a text for the legend, not {self.highlight_means!r}")
        if not isinstance(self.prefix, str) or not re.fullmatch(r"([A-Za-z_][\w-]*)?", self.prefix, re.ASCII):
            raise InvalidValue(f"prefix begins the ids in an SVG: letters, digits, - and _, not {self.prefix!r}")
        self._check_numbers()
        self._check_part()
        self._check_overlay()

    def _check_numbers(self) -> None:
        for name in ("dpi", "timeout", "limit", *(() if isinstance(self.batch, Mapping) else ("batch",))):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
                raise InvalidValue(f"{name} is a number above 0, not {number!r}")
        if self.columns is not None and (not _is_count(self.columns) or self.columns < 1):
            raise InvalidValue(f"columns is a number of columns from 1 on, or None, not {self.columns!r}")

    def _check_part(self) -> None:
        if self.path is not None and not (isinstance(self.path, tuple | list) and len(self.path) == 2):
            raise InvalidType(f"path is two nodes, from where and to where, not {self.path!r}")
        if isinstance(self.focus, tuple) and not (len(self.focus) == 2 and _is_count(self.focus[1])):
            raise InvalidType(f"focus is a node, or a node and a radius, not {self.focus!r}")
        if self.focus is not None and self.path is not None:
            raise InvalidValue("focus or path: one of them says what is drawn")
        if not _is_count(self.around):
            raise InvalidValue(f"around is a number of operators from 0 on, not {self.around!r}")

    def _check_overlay(self) -> None:
        theme_of(self.theme)
        if isinstance(self.overlay, str) and self.overlay not in MEASURES:
            raise InvalidValue(f"overlay is one of {', '.join(map(repr, MEASURES))}, or numbers by node, not {self.overlay!r}")
        if not (self.overlay is None or isinstance(self.overlay, str | Mapping | Groups)):
            raise InvalidType(f"overlay is a name or numbers by node, not {self.overlay!r}")
        if not (self.measured is None or isinstance(self.measured, Mapping)):
            raise InvalidType(f"measured has seconds by operator or arrays by name, not {self.measured!r}")

    @cached_property
    def look(self) -> Theme:
        """The theme."""
        return theme_of(self.theme)

    @cached_property
    def _highlighted(self) -> set[object]:
        return {item if isinstance(item, str) else id(item) for item in self.highlight}

    def highlights(self, node: Node) -> bool:
        """Whether a node is to be highlighted: requested itself, by its operator in the program, or by the name of a value."""
        return bool(self._highlighted) and not self._highlighted.isdisjoint(keys_of(node))


def keys_of(node: Node) -> tuple[object, ...]:
    """The ways to name a node: itself, its operator or variable in the program (by identity), the name of a value."""
    return (id(node), id(node.operator)) if isinstance(node, Op) else (id(node), id(node.var), node.name, repr(node))


def checked_options(values: dict[str, object]) -> Options:
    """Options from keywords; TypeError for one that does not exist."""
    names = [field.name for field in fields(Options)]
    for name in values:
        if name not in names:
            raise InvalidType(f"a drawing has no option {name!r}; its options are {', '.join(names)}{did_you_mean(name, names)}")
    return Options(**values)  # type: ignore[arg-type]  # each is checked there


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0
