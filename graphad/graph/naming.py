"""Which name each value of a graph has in a block: its own where that works.

Where two values of one name live at the same time,

    x#0 ─▶ increment ─▶ x#1          x@SAVED@0 = assign(x)
     └───────────────▶ tanh     ⇒    x = increment(x)
                                     y = tanh(x@SAVED@0)

the name goes to the final value, and to a value given from outside at the start (which is then
copied, as above); any other one gets a name of its own. The results of a nested graph, and its residuals, are live at its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Value
from graphad.graph.regions import carried_count, is_forward_loop, operands
from graphad.program import EMPTY

Names = dict[Value, str]


@dataclass
class Plan:
    """Names of values where they differ from their own, and copies to make before an operator.

    ``from_copy`` says by which name an operator reads a copied value, ``captured`` by which a loop does that overwrites it itself,
    ``ends`` by which it is known at the end.
    """

    names: Names = field(default_factory=dict)
    copies: dict[Op, list[tuple[Value, str]]] = field(default_factory=dict)
    from_copy: dict[Op, Names] = field(default_factory=dict)
    captured: dict[Op, Names] = field(default_factory=dict)
    ends: Names = field(default_factory=dict)

    def name(self, value: Value) -> str:
        """The name a value is written under."""
        return self.names.get(value, value.name)

    def end(self, value: Value) -> str:
        """The name a value is known by at the end."""
        return self.ends.get(value) or self.name(value)

    def read(self, op: Op, value: Value) -> str:
        """The name an operator reads a value by."""
        copies = self.from_copy.get(op)
        return (copies and copies.get(value)) or self.name(value)


def planned(graph: Graph) -> Plan:
    """The names of a graph whose operators know their order (``Graph.ordered_ops``)."""
    naming = _Naming(graph)
    for name in graph.values.contested:
        if name != EMPTY:
            naming.settle(graph.versions(name))
    return naming.plan


class _Naming:
    """Decides which value has a contested name."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.plan = Plan()
        self.numbers: dict[str, int] = {}
        self.lasting = {*graph.results, *graph.residuals}

    def settle(self, versions: tuple[Value, ...]) -> None:
        """Give the name to one value after the other, as long as no two need it at once."""
        if len(versions) < 2:
            return
        final = versions[-1]
        holder: Value | None = None
        for value in sorted(versions, key=_written_at):
            if holder is not None and (holder is final or self._overlaps(holder, value)):
                holder = self._evict(holder, value, final)
            else:
                holder = value

    def _last_read(self, value: Value) -> float:
        if value in self.lasting:
            return math.inf
        return max((op.order + (0.5 if op.graphs and _captures(op, value) else 0) for op in value.readers), default=-1)

    def _overlaps(self, holder: Value, value: Value) -> bool:
        """Whether a value still needs its name where a later one is written; what one operator writes is there at once."""
        return self._last_read(holder) > _written_at(value) or (bool(holder.writers) and _written_at(holder) == _written_at(value))

    def _evict(self, holder: Value, value: Value, final: Value) -> Value:
        """Both live at once: one of them gets another name; return who has the name from here on."""
        if holder is final:
            self.plan.names[value] = self._fresh(value)
            return holder
        if holder.writers:
            self.plan.names[holder] = self._fresh(holder)
            return value
        self._copy(holder, value)
        return value

    def _copy(self, holder: Value, value: Value) -> None:
        writer = value.writers[0]
        name = self.plan.ends[holder] = self._fresh(holder)
        self.plan.copies.setdefault(writer, []).append((holder, name))
        for reader in holder.readers:
            if reader.order > writer.order:
                self.plan.from_copy.setdefault(reader, {})[holder] = name
            elif reader is writer and reader.graphs and _captures(reader, holder):
                self.plan.captured.setdefault(reader, {})[holder] = name

    def _fresh(self, value: Value) -> str:
        n, values = self.numbers.get(value.name, 0), self.graph.values
        while values.taken(name := f"{value.name}@SAVED@{n}"):
            n += 1
        self.numbers[value.name] = n + 1
        return name


def _captures(op: Op, value: Value) -> bool:
    """Whether a loop reads a value in every iteration, also when it has written what has the value's name."""
    return is_forward_loop(op) and value in operands(op)[carried_count(op) :]


def _written_at(value: Value) -> int:
    return value.writers[0].order if value.writers else -1
