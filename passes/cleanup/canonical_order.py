"""Put the inputs of commutative operators into one order.

    elementwise_add(c, x)                              elementwise_add(x, c)
    elementwise_add(x, y)                 ⇒            elementwise_add(x, y)
    elementwise_add(y, x)                              elementwise_add(x, y)

Constants come last; of the others, inputs of the graph come before results of operators, and else the first defined comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from graphad.ir import Graph, Op, Value
from graphad.ops import REGISTRY
from graphad.passes.cleanup.constant_arrays import is_source
from graphad.passes.cleanup.operator_keys import frozen_attrs
from graphad.rewriting import ChangeCursor, Pass

Place = tuple[bool, int, int]  # whether it is a constant, the place of its writer, and its place there or among the inputs


@dataclass(frozen=True)
class CanonicalOrder(Pass):
    """Order the inputs of commutative operators, so that other passes see one form of each.

    Nothing changes in what they compute, not by a bit, nor in gradients: only operators whose definition says that they are commutative
    are touched, where all attributes have their defaults.
    """

    name = "canonical-order"
    idempotent = True

    def apply(self, graph: Graph) -> bool:
        cursor = ChangeCursor(self, graph)
        changed_ops = cursor.changed_ops()
        ops = [op for subgraph in graph.tree(sealed=False) for op in subgraph.ops] if changed_ops is None else _with_readers(changed_ops)
        order = _Order()
        # A list within any(): over a generator it would stop at the first operator that changes.
        has_changed = any([order.put(op) for op in ops if is_commutative(op.type)])
        cursor.catch_up()
        return has_changed


def is_commutative(op_type: str) -> bool:
    """Whether the inputs of a type of operator may change places."""
    definition = REGISTRY.get(op_type)
    return definition is not None and definition.commutative


def _with_readers(changed_ops: list[Op]) -> list[Op]:
    """The changed operators, and the readers of their results, which may be constants now."""
    return list(dict.fromkeys(op for member in changed_ops for op in (member, *(r for value in member.writes() for r in value.readers))))


def _tells_inputs_apart(op: Op) -> bool:
    """Whether attributes may mean one input and not another, as an axis of Y does; marks of memory are dropped with any change."""
    definition = REGISTRY[op.type]
    return bool(frozen_attrs(definition, definition.own_attrs(op.attrs)))


class _Order:
    """The order of definitions. Operators and given values are numbered at the first question about their graph."""

    def __init__(self) -> None:
        self.numbered: set[Graph] = set()
        self.given: dict[Value, int] = {}

    def put(self, op: Op) -> bool:
        """Put the inputs of a commutative operator into their order; return whether they were in another."""
        graph = op.graph
        if graph not in self.numbered:
            self._number(graph)
        values = [value for slot in op.inputs.values() for value in slot]
        if self._are_ordered(values) or (op.attrs and _tells_inputs_apart(op)) or not graph.allows("order-inputs", op):
            return False
        rest = iter(sorted(values, key=self._place))
        op.inputs = {slot: tuple([next(rest) for _ in before]) for slot, before in op.inputs.items()}  # who reads what stays as it is
        graph.journal.edits += 1
        graph.journal.touch(op)
        return True

    def _are_ordered(self, values: list[Value]) -> bool:
        places = list(map(self._place, values))
        return all(a <= b for a, b in pairwise(places))

    def _number(self, graph: Graph) -> None:
        self.numbered.add(graph)
        for i, op in enumerate(graph.ops):
            op.order = i
        self.given |= {value: i for i, value in enumerate(graph.inputs)}

    def _place(self, value: Value) -> Place:
        if not value.writers:
            return False, -1, self.given.get(value, 0)
        writer = value.writers[0]
        # The ordinary case: no need to look for the place among several results.
        if len(writer.outputs) == 1 and len(next(iter(writer.outputs.values()))) == 1:
            return is_source(writer), writer.order, 0
        return False, writer.order, next(i for i, v in enumerate(writer.writes()) if v is value)
