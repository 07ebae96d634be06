"""Groups of nodes, shown as colors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphad.drawing.theme import GROUP_INK, group_color
from graphad.ir import Node, Op, Value


@dataclass(frozen=True)
class Groups:
    """Groups of nodes, each shown in a color of its own: the stages that run operators, the ranks that values are cut across.

    As ``overlay=`` of a drawing. Where an operator reads what one of another group wrote, the line has the bytes of it.

    Args:
        names: the group's name by node, operator or variable of the program, or name of a value.
        title: what the legend says that the groups are.

    >>> import graphad as ga
    >>> from graphad.drawing import to_svg
    >>> text = "program { block 0 { var x: float32[4] var y: float32[4] var z: float32[4] tanh(X=x) -> (Out=y) exp(X=y) -> (Out=z) } }"
    >>> svg = to_svg(ga.Program.parse(text), overlay=Groups({"y": "rank 0", "z": "rank 1"}))
    >>> "rank 0" in svg
    True
    """

    names: Mapping[Any, str]
    title: str = ""
    messages: Mapping[tuple[Value, Op], str] = field(default_factory=dict, repr=False)

    @property
    def colors(self) -> dict[str, str]:
        """The color of each group, in their order."""
        return {name: group_color(i) for i, name in enumerate(dict.fromkeys(self.names.values()))}

    def color(self, node: Node) -> tuple[str, str] | None:
        """The color of a node, and that of text on it; None for one in no group."""
        return (self.colors[self.names[node]], GROUP_INK) if node in self.names else None

    def words(self, node: Node) -> str | None:
        """The tooltip of a node."""
        return (f"{self.title}: " if self.title else "") + self.names[node] if node in self.names else None
