"""Which nodes and arrows of a graph get drawn: all, or values folded into arrows between operators.

    mul ─▶ y ─▶ tanh      ⇒      mul ─▶ tanh          y has one writer and one reader

Nothing here knows Graphviz.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from graphad.drawing.options import Options
from graphad.graph import Graph, Node, Op, Value
from graphad.graph.nodes import Slots
from graphad.ops.definition import GRAD
from graphad.program import BACKWARD, EMPTY, OPTIMIZE, Parameter

NODE_BUDGET = 1500
REPEATED_FROM = 3
_PART = re.compile(r"@RENAME@\d+$")
_GRADIENT = re.compile(rf"(.+){GRAD}(_\d+)?(@RENAME@\d+)?", re.DOTALL)


class Arrow(NamedTuple):
    """From an operator to a value it writes, from a value to an operator that reads it, or past a folded value from one to the other.

    ``op`` is the operator, of two the reader; the slots are empty where there is no choice.
    """

    tail: Node
    head: Node
    op: Op
    value: Value
    tail_slot: str = ""
    head_slot: str = ""

    @property
    def folded(self) -> bool:
        """Whether the value is not drawn."""
        return self.value not in (self.tail, self.head)


class _End(NamedTuple):
    op: Op
    slot: str


@dataclass
class Plan:
    """What is drawn of one graph, in the order it is drawn; ``gradient_of`` holds what each drawn gradient is of.

    ``repeated`` are values that many optimizer operators read: each reader gets a node of its own for them. ``levels`` are pairs
    drawn at one height: a gradient and what it is the gradient of, a grad operator and its operator.
    ``kept`` are the slots of what an optimizer operator alone uses from run to run, which is not drawn.
    """

    nodes: dict[Node, None] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    gradient_of: dict[Value, Value] = field(default_factory=dict)
    repeated: set[Value] = field(default_factory=set)
    levels: list[tuple[Node, Node]] = field(default_factory=list)
    kept: dict[Op, list[str]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many nodes are drawn."""
        return len(self.nodes) + sum(arrow.tail in self.repeated for arrow in self.arrows)


def plan(graph: Graph, options: Options) -> Plan:
    """What to draw of a graph; ``values="auto"`` folds no more than needed to stay within the node budget."""
    modes = ("all", "shared", "none") if options.values == "auto" else (options.values,)
    for mode in modes:
        result = _Planner(graph, options, mode).plan()
        if result.size <= NODE_BUDGET:
            break
    return result


class _Planner:
    def __init__(self, graph: Graph, options: Options, mode: str) -> None:
        self.graph = graph
        self.options = options
        self.mode = mode
        self.result = Plan()
        self.readers = _ends((op, op.inputs) for op in graph.ops)
        self.writers = _ends((op, op.outputs) for op in graph.ops)

    def plan(self) -> Plan:
        values = [value for value in self.graph.values if not _absent(value)]
        folded = {value for value in values if self._folds(value)}
        self.result.repeated = {value for value in values if value not in folded and _repeats(value)}
        private = set(self._private()) if self.options.values != "all" else set()
        hidden = folded | private | {value for value in self.result.repeated if not value.writers}
        for op in self.graph.ops:
            self._add([*op.reads(), op, *op.writes()], hidden)
        self._add(values, hidden)
        for value in self._in_order():
            if value not in private:
                self._arrows(value, value in folded)
        self._gradients()
        return self.result

    def _add(self, nodes: Iterable[Node], hidden: set[Value]) -> None:
        self.result.nodes.update((node, None) for node in nodes if node not in hidden and not _absent(node))

    def _in_order(self) -> Iterable[Value]:
        touched = (value for op in self.graph.ops for value in (*op.reads(), *op.writes()) if not _absent(value))
        return dict.fromkeys(touched)

    def _private(self) -> Iterable[Value]:
        for op in self.graph.ops:
            own = {slot: values[0] for slot, values in op.inputs.items() if op.role == OPTIMIZE and _is_state_of(values, op)}
            if any(map(self.options.highlights, own.values())):
                continue
            if own:
                self.result.kept[op] = list(own)
            names = {value.name for value in own.values()}
            yield from own.values()
            yield from (v for v in op.writes() if v.name in names and not v.readers and not self.options.highlights(v))

    def _gradients(self) -> None:
        for node in self.result.nodes:
            source = gradient_of(node) if isinstance(node, Value) else None
            if isinstance(node, Value) and source is not None:
                self.result.gradient_of[node] = source
        self.result.levels += [(g, of) for g, of in self.result.gradient_of.items() if of in self.result.nodes and not _PART.search(g.name)]
        self.result.levels += [(op, forward) for forward, op in grad_ops(self.graph).items()]

    def _folds(self, value: Value) -> bool:
        if self.mode == "all" or self.options.highlights(value):
            return False
        ends = len(self.writers.get(value, ())), len(self.readers.get(value, ()))
        return self.mode == "none" or ends == (1, 1)

    def _arrows(self, value: Value, folded: bool) -> None:
        writers, readers = self.writers.get(value, []), self.readers.get(value, [])
        if folded:
            self.result.arrows += [Arrow(w.op, r.op, r.op, value, w.slot, r.slot) for w in writers for r in readers]
            return
        self.result.arrows += [Arrow(w.op, value, w.op, value, tail_slot=w.slot) for w in writers]
        self.result.arrows += [Arrow(value, r.op, r.op, value, head_slot=r.slot) for r in readers]


def gradient_of(value: Value) -> Value | None:
    """The value this is the gradient of, by its name if nothing noted it (a lowered program has names only)."""
    if value.grad_of is not None:
        return value.grad_of
    match = _GRADIENT.fullmatch(value.name)
    versions = value.graph.versions(match[1]) if match else ()
    return next((v for v in reversed(versions) if v.writer is None or v.writer.role != OPTIMIZE), None)


def grad_ops(graph: Graph) -> dict[Op, Op]:
    """For each operator the first one of the backward that turns a gradient of its outputs into one of its inputs."""
    found: dict[Op, Op] = {}
    for op in graph.ops:
        forward = _forward(op) if op.role == BACKWARD else None
        if forward is not None and forward is not op:
            found.setdefault(forward, op)
    return found


def _forward(op: Op) -> Op | None:
    outputs = (gradient_of(value) for value in op.reads())
    writers = {value.writer for value in outputs if value is not None}
    inputs = (gradient_of(value) for value in op.writes())
    return next((reader for value in inputs if value is not None for reader in value.readers if reader in writers), None)


def _absent(node: Node) -> bool:
    return isinstance(node, Value) and node.name == EMPTY


def _is_state_of(values: tuple[Value, ...], op: Op) -> bool:
    return len(values) == 1 and is_state(values[0]) and not values[0].writers and list(values[0].readers) == [op]


def is_state(value: Value) -> bool:
    """Whether a value outlives a run without being a parameter."""
    return value.persistable and not isinstance(value.var, Parameter)


def _repeats(value: Value) -> bool:
    return len(value.readers) >= REPEATED_FROM and all(op.role == OPTIMIZE for op in value.readers)


def _ends(ops: Iterable[tuple[Op, Slots]]) -> dict[Value, list[_End]]:
    found: dict[Value, list[_End]] = {}
    for op, slots in ops:
        for slot, values in slots.items():
            for index, value in enumerate(values):
                found.setdefault(value, []).append(_End(op, _slot_text(slots, slot, index)))
    return found


def _slot_text(slots: Slots, slot: str, index: int) -> str:
    if len(slots) == 1:
        return ""
    return slot if len(slots[slot]) == 1 else f"{slot}[{index}]"
