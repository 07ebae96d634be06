"""Derivatives of derivatives: which sweep of the reverse mode made an operator, and whether its part of the drawing goes down or up.

    x ─ tanh ─▶ y      y@GRAD ─ mul ─▶ x@GRAD      x@GRAD@GRAD ─ mul_grad ─▶ y@GRAD@GRAD      y@GRAD_0 ─ tanh_grad ─▶ x@GRAD_0

    forward: down      order 1: up                  order 2, of order 1: down                  order 2, of the forward: up

A sweep goes against what it differentiates: up beside the forward, down beside a backward that goes up. So all that belongs to one
operator is in one row.
"""

from __future__ import annotations

from graphad.drawing.nesting import Nesting
from graphad.drawing.pairs import Pairs
from graphad.ir import Node, Op, Value
from graphad.program import BACKWARD, OPTIMIZE


class Sweeps:
    """The order of each operator and value of a drawing, from 1 on in the backward, 0 in the forward; and where it goes.

    Attributes:
        orders: of the operators of the backward, what they write, and gradients that are passed in.
        deepest: the highest order.
    """

    def __init__(self, nesting: Nesting, pairs: Pairs) -> None:
        self._nesting = nesting
        self._pairs = pairs
        # What the forward computes from gradients has a level as well: its own gradients are of the order above.
        self._levels: dict[Node, int] = {}
        nodes = list(nesting.in_order())
        for node in nodes:
            self._note(node)
        for node in reversed(nodes):
            if isinstance(node, Op) and nesting.role(node) == BACKWARD:
                self._lift(node)
        # What the backward computes of the forward alone is of order 1, unless a later sweep alone needs it.
        self.orders = {node: max(level, 1) for node, level in self._levels.items() if self._is_backward(node)}
        self.deepest = max(self.orders.values(), default=0)
        self._down: dict[Op, bool] = {}

    def order(self, node: Node) -> int:
        """The order of a node, 0 in the forward."""
        return self.orders.get(node, 0)

    def goes_down(self, node: Node) -> bool:
        """Whether the arrows to and from a node of one order go down."""
        return self._of_op(node) if isinstance(node, Op) else self._of_value(node)

    def column(self, op: Op) -> int | None:
        """The part of the drawing that an operator is in, from left to right: 0 is the forward, then follow the orders.

        None of updates, and of what the forward computes of gradients, as a penalty.
        """
        role = self._nesting.role(op)
        if self.deepest < 2 or role == OPTIMIZE:
            return None
        return self.order(op) if role == BACKWARD else None if self._levels.get(op) else 0

    def is_lookup(self, tail: Node, head: Node) -> bool:
        """Whether an operator of the backward reads what a sweep before its own, or the forward, computed."""
        return isinstance(head, Op) and self.order(tail) < self.order(head)

    # -- levels ----------------------------------------------------------------------------------

    def _note(self, node: Node) -> None:
        # What an operator of the backward runs belongs to its sweep, whatever the names in it say.
        region = self._nesting.regions.get(node.graph)
        around = 0 if region is None or self._nesting.role(region.op) != BACKWARD else self._levels[region.op]
        if isinstance(node, Value):
            if not node.writers:
                self._levels[node] = around or max(self._levels.get(node, 0), self._above(node))
            return
        role = self._nesting.role(node)
        level = around or max((self._levels.get(self._nesting.outer(value), 0) for value in node.reads()), default=0)
        if role == BACKWARD and not around:
            level = max(level, *map(self._above, node.writes()), 0)
        # The parameters of the next step are no function of gradients that is differentiated, unless it is written as one.
        self._levels[node] = 0 if role == OPTIMIZE else level
        for value in node.writes():
            self._levels[value] = around or max(self._levels[node], self._above(value))

    def _above(self, value: Value) -> int:
        """One above the level of what a value is the gradient of, 0 if of nothing."""
        partner = self._pairs.gradient_of(value)
        return 0 if partner is None else 1 + self._levels.get(self._nesting.outer(partner), 0)

    def _lift(self, op: Op) -> None:
        """Count what one sweep alone needs as a part of that, whatever it is computed from."""
        values = list(op.writes())
        if any(self._pairs.gradient_of(value) is not None for value in values):
            return
        readers = [reader for value in values for reader in value.readers]
        if readers and all(self._nesting.role(reader) == BACKWARD for reader in readers):
            level = max(self._levels[op], min(self._levels.get(reader, 0) for reader in readers))
            self._levels.update(dict.fromkeys((op, *values), level))

    def _is_backward(self, node: Node) -> bool:
        if isinstance(node, Op):
            return self._nesting.role(node) == BACKWARD
        return self._pairs.gradient_of(node) is not None if node.writer is None else self._is_backward(node.writer)

    # -- directions ------------------------------------------------------------------------------

    def _of_op(self, op: Op) -> bool:
        if self._nesting.role(op) != BACKWARD:
            return True
        if op not in self._down:
            self._down[op] = False  # the answer if a cycle leads back here on the way
            self._down[op] = self._direction(op)
        return self._down[op]

    def _direction(self, op: Op) -> bool:
        """Against what an operator differentiates; what belongs to no gradient goes as those that read it."""
        forward = self._pairs.forwards.get(op)
        if forward is not None:
            return not self._of_op(forward)
        # A sum of terms, for example, is the gradient of no operator, but what it writes is the gradient of a value.
        partner = next((partner for value in op.writes() if (partner := self._pairs.gradient_of(value)) is not None), None)
        if partner is not None:
            return not self._of_value(partner)
        readers = (reader for value in op.writes() for reader in value.readers if self.order(reader) == self.order(op))
        reader = next(readers, None)
        return reader is not None and self._of_op(reader)

    def _of_value(self, value: Value) -> bool:
        if self.order(value) == 0:
            return True
        partner = self._pairs.gradient_of(value)
        if partner is not None:
            return not self._of_value(partner)
        return value.writer is None or self._of_op(value.writer)
