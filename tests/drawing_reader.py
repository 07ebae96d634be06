"""Drawings read back from their DOT: nodes, the frames they stand in, edges, and what is level with what."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import graphad as ga
from graphad.drawing import to_dot

ATTRIBUTE = re.compile(r'(\w+)="((?:\\.|[^"\\])*)"')


@dataclass(frozen=True)
class Line:
    """An edge as readers see it: from where to where, by label and frame."""

    tail: str
    head: str
    frames: tuple[str, str]
    attrs: dict[str, str]

    @property
    def mark(self) -> str:
        return self.attrs.get("class", "")


@dataclass
class Drawn:
    """A drawing read back: labels of nodes, the frame of each (empty outside), what each frame is in, edges, and nodes on one level."""

    labels: dict[str, str] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)
    frames: dict[str, str] = field(default_factory=dict)
    around: dict[str, str] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    levels: set[frozenset[str]] = field(default_factory=set)
    boxes: list[str] = field(default_factory=list)

    def arrows(self, mark: str = "") -> set[tuple[str, str]]:
        """The ends of edges of a class, without those that only hold nodes in place."""
        return {(line.tail, line.head) for line in self.lines if line.mark == mark and line.attrs.get("style") not in ("invis", "solid")}

    def inside(self, frame: str) -> list[str]:
        """The labels of the nodes that stand directly in frames of a label."""
        return [label for node, label in self.labels.items() if self.frames.get(self.homes[node]) == frame]

    def boxes_in(self, frame: str) -> list[str]:
        """The types of the operators directly in a frame, without the one whose graph it is."""
        return [
            self.labels[node]
            for node in self.boxes
            if self.frames.get(self.homes[node]) == frame and self.labels[node] != frame.split(":")[0]
        ]

    @property
    def outside(self) -> list[str]:
        """The labels of the nodes that stand in no frame."""
        return [label for node, label in self.labels.items() if not self.homes[node]]

    @property
    def operators(self) -> list[str]:
        """The types of the operators."""
        return sorted(self.labels[node] for node in self.boxes)

    @property
    def titles(self) -> list[str]:
        """The titles above the frames."""
        return [title for title in self.frames.values() if title]


def drawn(program_or_graph: ga.Program | ga.Graph, **options: Any) -> Drawn:
    found, stack = Drawn(), [""]
    for line in to_dot(program_or_graph, **options).splitlines():
        attrs, node, edge = dict(ATTRIBUTE.findall(line)), re.match(r"(n\d+) \[", line), re.match(r"(n\d+) -> (n\d+) \[", line)
        if match := re.match(r"subgraph (\w*) ?\{", line):
            found.around[match[1]] = next(name for name in reversed(stack) if name in found.around or not name)
            stack.append(match[1])
        elif line == "}" and len(stack) > 1:
            stack.pop()
        elif node:
            found.labels[node[1]], found.homes[node[1]] = attrs["label"].split("\\n")[0], stack[-1]
            found.boxes += [node[1]] * (attrs["shape"] == "box")
        elif edge:
            ends = (edge[2], edge[1]) if attrs.get("dir") == "back" else (edge[1], edge[2])
            tail, head = (found.labels[end] for end in ends)
            found.lines.append(Line(tail, head, (found.homes[ends[0]], found.homes[ends[1]]), attrs))
        elif stack[-1].startswith("cluster") and line.startswith("label="):
            found.frames[stack[-1]] = attrs["label"]
    for match in re.finditer(r"rank=same;\n(n\d+);\n(n\d+);", to_dot(program_or_graph, **options)):
        found.levels.add(frozenset(found.labels[match[i]] for i in (1, 2)))
    return found
