"""Drawings of changes: two graphs in one, or several drawings of a graph as it changes, each node at one place in all of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphad.difference import compare
from graphad.drawing.composing import Composer, Marks, scene_of, with_marks
from graphad.drawing.dot import dot_text
from graphad.drawing.frames import Frame
from graphad.drawing.layout import Geometry
from graphad.drawing.nesting import BEFORE, Arrow
from graphad.drawing.options import Options, checked_options
from graphad.drawing.pictures import checked_path, replace_file, written
from graphad.drawing.plan import plan
from graphad.drawing.scene import Scene
from graphad.drawing.theme import ADDED, CHANGED, REMOVED
from graphad.errors import InvalidValue
from graphad.ir import Graph, Node, Op, Value
from graphad.ir.lower import graph_of
from graphad.program import BACKWARD, Program


def draw_diff(before: Program | Graph, after: Program | Graph, path: str | os.PathLike[str], /, **options: object) -> Path:
    """Draw two programs or graphs as one: what was added is outlined, what was removed a ghost, what changed is marked.

    Operators are paired as in ``graphad diff``: up to renaming, by what they compute, then in order by type. A changed operator is one
    with other attributes, or that reads something else; what it read before is a ghost of an arrow.

    Args:
        before, after: what to compare; neither is changed.
        path: where to: ``.svg``, ``.pdf``, ``.png`` or ``.dot``.
        options: as in ``draw``; layers are not folded unless ``fold`` says so.

    Returns:
        The path.

    Raises:
        TypeError, ValueError, RenderError: as ``draw``.

    >>> import graphad as ga, tempfile
    >>> text = "program {{ block 0 {{ var x: float32[3] {}(X=x) -> (Out=y) }} }}"
    >>> before, after = (ga.Program.parse(text.format(name)) for name in ("tanh", "relu"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ga.draw_diff(before, after, f"{folder}/change.svg").name
    'change.svg'
    """
    target = checked_path(path)
    # Folding may differ between the two, and would look like changes.
    settings = checked_options({"fold": "none"} | options)
    union = Union([graph_of(before, "drawn"), graph_of(after, "drawn")])
    marks = union.marks(0, 1)
    if target.suffix.lower() == ".dot":
        replace_file(target, dot_text(union.graph, settings, marks).encode())
    else:
        replace_file(target, written(scene_of(union.graph, settings, marks), target, settings))
    return target


def draw_steps(
    steps: Sequence[Program | Graph],
    paths: Sequence[str | os.PathLike[str]],
    *,
    titles: Sequence[str] = (),
    **options: object,
) -> list[Path]:
    """Draw a program or graph as it changes from step to step, each step as a file: a node has one place in all of them.

    From one to the next, what was added is outlined, and what changed is marked; what is removed in the next step is not yet marked.

    Args:
        steps: the graph before, and after each pass (``graph.clone()``, since passes change a graph in place).
        paths: a file for each step: ``.svg``, ``.pdf`` or ``.png``.
        titles: a line above each, if any.
        options: as in ``draw``, for all; layers are not folded unless ``fold`` says so.

    Returns:
        The paths.

    Raises:
        ValueError: another number of paths or titles than of steps.
        TypeError, RenderError: as ``draw``.
    """
    if len(paths) != len(steps) or len(titles) not in (0, len(steps)):
        raise InvalidValue(
            f"{len(steps)} steps need {len(steps)} paths, and as many titles or none; there are {len(paths)} and {len(titles)}"
        )
    if not steps:
        return []
    targets = [checked_path(path) for path in paths]
    if any(target.suffix.lower() == ".dot" for target in targets):
        raise InvalidValue("steps are drawn at fixed places, which DOT has not: the paths end in .svg, .pdf, .png")
    # Folding may differ from step to step, and with it the places.
    settings = checked_options({"fold": "none"} | options)
    union = Union([graph_of(step, "drawn") for step in steps])
    for target, content in zip(targets, union.drawn(settings, titles), strict=True):
        replace_file(target, written(content, target, settings))
    return targets


Edge = tuple[Node, Node]  # from a value to an operator that reads it, or from an operator to a value that it writes


@dataclass
class Step:
    """The part of the union that exists in a step: operators and values, uses and definitions, and names of values that differ from the
    union's."""

    nodes: dict[Node, Node] = field(default_factory=dict)
    edges: set[Edge] = field(default_factory=set)
    names: dict[Value, str] = field(default_factory=dict)


class Union:
    """Several graphs as one: the last of them, with what only those before it have."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.graph = graphs[-1].clone()
        self.steps = [Step() for _ in graphs]
        self.changed: list[set[Node]] = [set() for _ in graphs]
        self.edges: dict[Edge, str] = {}
        self.names: dict[Value, str] = {}
        self._note(len(graphs) - 1, _counterparts(graphs[-1], self.graph))
        # From the last step backwards: the union is the last graph, and each earlier step adds only what no later one has.
        for i in range(len(graphs) - 2, -1, -1):
            self._step(i, graphs[i], graphs[i + 1])

    def _step(self, i: int, graph: Graph, later: Graph) -> None:
        """Find what of a graph is in the union already by way of the next one, and add the rest."""
        # ``compare`` pairs nodes of clones of its own: ``clones`` leads from the graph to these, ``back`` from there to the later graph.
        difference = compare(graph, later)
        place = _counterparts(later, difference.after)
        back = {clone: original for original, clone in place.items()}
        nodes: dict[Node, Node] = {}
        clones = _counterparts(graph, difference.before)
        next_nodes = self.steps[i + 1].nodes
        for original, clone in clones.items():
            partner = difference.ops.get(clone) if isinstance(clone, Op) else difference.values.get(clone)
            if partner is not None:
                nodes[original] = next_nodes[back[partner]]
        for subgraph in graph.tree():
            self._add_missing(subgraph, nodes)
        self._note(i, nodes)
        # An operator that has a partner and yet counts as removed is there in both, with other attributes or operands.
        partners = {partner for op, partner in difference.ops.items() if op in difference.removed}
        self.changed[i + 1] |= {next_nodes[back[partner]] for partner in partners}

    def _add_missing(self, graph: Graph, nodes: dict[Node, Node]) -> None:
        home = self._home(graph, nodes)
        if home is None:
            return
        for value in graph.values:
            if value not in nodes:
                # What is there no more is drawn as a ghost in the graph as it is: its name may be another value's by now.
                name = value.name if not home.values.taken(value.name) else home.values.numbered(value.name, "{} before {}")
                copy = home.add_value(name, value.shape, value.dtype, value.var)
                copy.kind, copy.given = value.kind, value.given
                nodes[value], self.names[copy] = copy, repr(value)
        for op in graph.ops:
            if op not in nodes:
                slots = [{slot: [_value(nodes[v]) for v in values] for slot, values in item.items()} for item in (op.inputs, op.outputs)]
                ghost = home.add_op(op.type, slots[0], slots[1], dict(op.attrs), role=op.role)
                ghost.source, ghost.made_by = op.source, op.made_by
                nodes[op] = ghost

    def _home(self, graph: Graph, nodes: dict[Node, Node]) -> Graph | None:
        """The graph of the union that a graph is part of; None for one of an operator that is only there as a ghost."""
        if graph.owner is None:
            return self.graph
        owner = nodes.get(graph.owner)
        name = next(name for name, subgraph in graph.owner.graphs.items() if subgraph is graph)
        return owner.graphs.get(name) if isinstance(owner, Op) else None

    def _note(self, i: int, nodes: dict[Node, Node]) -> None:
        step = self.steps[i]
        step.nodes = nodes
        for node, partner in nodes.items():
            if isinstance(node, Op) and isinstance(partner, Op):
                edges: list[tuple[Edge, str]] = []
                for slot, values in node.inputs.items():
                    edges += [((_value(nodes[value]), partner), slot) for value in values if value in nodes]
                for slot, values in node.outputs.items():
                    edges += [((partner, _value(nodes[value])), slot) for value in values if value in nodes]
                step.edges.update(edge for edge, _ in edges)
                for edge, slot in edges:
                    self.edges.setdefault(edge, slot)
            elif isinstance(node, Value) and isinstance(partner, Value) and repr(node) != repr(partner) and partner not in self.names:
                step.names[partner] = repr(node)

    def marks(self, before: int, after: int) -> Marks:
        """The changes from one step to another."""
        old, new = (dict.fromkeys(self.steps[i].nodes.values()) for i in (before, after))
        nodes: dict[Node, str] = dict.fromkeys((node for node in new if node not in old), ADDED)
        nodes |= dict.fromkeys((node for node in old if node not in new), REMOVED)
        nodes |= dict.fromkeys((node for node in new if node in self.changed[after] and node in old), CHANGED)
        # An edge is marked only where both its ends are in both steps: otherwise the node is marked already.
        survivors = {node for node in new if node in old}
        old_edges = frozenset(edge for edge in self.steps[before].edges - self.steps[after].edges if survivors.issuperset(edge))
        new_edges = frozenset(edge for edge in self.steps[after].edges - self.steps[before].edges if survivors.issuperset(edge))
        return Marks(nodes, old_edges, new_edges, tuple(self._lost()), self.names)

    def _lost(self) -> Iterator[Arrow]:
        """Arrows for what an operator of the union reads, or writes, in a step before the last one only."""
        for (tail, head), slot in self.edges.items():
            if isinstance(tail, Value) and isinstance(head, Op) and tail not in head.reads():
                yield Arrow(tail, head, head, tail, "", "" if len(head.inputs) == 1 else f"{slot} before")
            elif isinstance(tail, Op) and isinstance(head, Value) and head not in tail.writes():
                yield Arrow(tail, head, tail, head, sort=BEFORE, backward=tail.role == BACKWARD, up=tail.role == BACKWARD)

    def drawn(self, options: Options, titles: Sequence[str]) -> Iterator[Scene]:
        """A scene for each step: the places are those of the union."""
        all_marks = Marks(arrows=tuple(self._lost()), names=self.names)
        picture = with_marks(plan(self.graph, options), all_marks)
        # Laid out once, with everything that is there in any step.
        places = Composer(self.graph, picture, options, all_marks).places
        for i, step in enumerate(self.steps):
            marks = self.marks(i - 1, i) if i else all_marks
            nodes = set(step.nodes.values())
            marks = replace(marks, nodes={node: mark for node, mark in marks.nodes.items() if node in nodes})
            step_options = replace(options, title=titles[i]) if titles else options
            composer = Composer(self.graph, replace(picture, names=picture.names | step.names), step_options, marks)
            yield composer.scene(_part(places, composer, nodes, step.edges, self.edges))


def _part(places: Geometry, composer: Composer, nodes: set[Node], edges: Collection[Edge], known: Collection[Edge]) -> Geometry:
    """The places of what is there in a step: some nodes, and of the known edges some."""
    lines = {}
    for number, line in enumerate(composer.lines):
        is_read = line.value is None or not isinstance(line.head, Op) or (line.value, line.head) in edges
        # Lines that are no operand and no result are there as long as both ends are.
        is_written = (line.tail, line.head) in edges or (line.tail, line.head) not in known
        if line.tail in nodes and line.head in nodes and is_read and is_written:
            lines[number] = line
    part = replace(places, nodes={node: place for node, place in places.nodes.items() if node in nodes})
    part.curves = {number: curve for number, curve in places.curves.items() if number in lines}
    part.frames = {frame: place for frame, place in places.frames.items() if _holds(frame, nodes)}
    return part


def _holds(frame: Frame, nodes: set[Node]) -> bool:
    return any(_holds(item, nodes) if isinstance(item, Frame) else item in nodes for item in frame.items)


def _counterparts(graph: Graph, clone: Graph) -> dict[Node, Node]:
    """The nodes of a graph and of its clone, whose operators have the same order; values may have other names there."""
    counterparts: dict[Node, Node] = {}
    for subgraph, partner in zip(graph.tree(), clone.tree(), strict=True):
        counterparts.update(zip(subgraph.inputs, partner.inputs, strict=True))
        for op, partner_op in zip(subgraph.ops, partner.ops, strict=True):
            counterparts[op] = partner_op
            counterparts.update(zip((*op.reads(), *op.writes()), (*partner_op.reads(), *partner_op.writes()), strict=True))
    return counterparts


def _value(node: Node) -> Value:
    assert isinstance(node, Value)
    return node
