"""Whether a training graph may run on parts of its batch, and how the results of the parts are combined."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from graphad.errors import Refused
from graphad.graph import Graph, Op, Value
from graphad.passes.analyses.batch_dependence import MEAN, TOTAL, WHOLE, batch_dependence
from graphad.program import BACKWARD, FORWARD, located

_GRADIENT = re.compile(r"(.+?)@GRAD")


class Training:
    """The part of a training graph that is to run on parts of the batch.

    Args:
        graph: a whole graph with its backward part.
        data: the values whose axis 0 is the batch.

    Attributes:
        inside: the operators that depend on the batch, and the backward part, in order.

    Raises:
        Refused: the graph cannot be run in parts; the message says why.
    """

    def __init__(self, graph: Graph, data: Sequence[Value]) -> None:
        self.graph = graph
        self.data = list(data)
        ordered = graph.ordered_ops()
        self.kinds = batch_dependence(ordered, data)
        self.inside = [op for op in ordered if self._is_inside(op)]
        if not data:
            raise Refused("nothing is given that could be cut into parts: every input is persistable")
        if not any(op.role == BACKWARD for op in self.inside):
            raise Refused("the graph has no backward part, so there are no gradients to accumulate")
        for op in self.inside:
            _check_repeatable(op)
            self._check_shape(op)
        self._check_order(ordered)
        self.loss = self._kind_of_loss()

    def _is_inside(self, op: Op) -> bool:
        return op.role == BACKWARD or (op.role == FORWARD and any(self.kinds[value] != WHOLE for value in op.writes()))

    def _check_order(self, ordered: Sequence[Op]) -> None:
        """Nothing outside may be between two operators inside."""
        inside, after = set(self.inside), set[Value]()
        for op in ordered:
            if op in inside and any(value in after for value in op.reads()):
                raise Refused(located(f"{op!r} needs what is computed from gradients: the parts cannot run one by one", op.source))
            if op not in inside and any(value in after or inside.intersection(value.writers) for value in op.reads()):
                after.update(op.writes())

    def _check_shape(self, op: Op) -> None:
        """A constant with as many rows as the batch would have too many in a part."""
        shape, rows = op.attrs.get("shape"), self.data[0].shape and self.data[0].shape[0]
        if not op.inputs and shape and len(shape) > 1 and shape[0] == rows:
            why = f"has the {rows} rows of the batch: run this pass before the one that made it"
            raise Refused(located(f"{op!r}, of shape {list(shape)}, {why}", op.source))

    # -- the loss --------------------------------------------------------------------------------

    def _kind_of_loss(self) -> str:
        """The kind of the losses over the batch: a mean or a sum."""
        losses = list(dict.fromkeys(self._losses()))
        kinds = {self.kinds.get(loss, WHOLE) for loss in losses} - {WHOLE}
        if not losses:
            raise Refused("no loss is found: its gradient is a constant that the backward part starts from")
        for loss in losses:
            if self.kinds.get(loss) not in (MEAN, TOTAL, WHOLE):
                raise Refused(f"the loss {loss.name!r} is neither a mean nor a sum over the batch: {self._why(loss)}")
        if len(kinds) > 1:
            raise Refused(f"of the losses {', '.join(map(repr, losses))} some are means over the batch and others are sums")
        return kinds.pop() if kinds else MEAN

    def _losses(self) -> Iterator[Value]:
        for op in self.inside:
            if op.role != BACKWARD or op.type not in ("fill_constant", "fill_any_like") or not op.attrs.get("value"):
                continue
            found = _GRADIENT.match(op.output("Out").name)
            if op.type == "fill_any_like":
                yield op.input("X")
            elif found and found[1] in self.graph.values.by_name:
                yield self.graph.versions(found[1])[-1]

    def _why(self, value: Value) -> str:
        """The first operator on the way to a value that does more than the rows allow."""
        for op in self.inside:
            mixed = [v for v in op.writes() if self.kinds.get(v) not in (MEAN, TOTAL, WHOLE, "rows", None)]
            if mixed:
                statistics = ", which uses statistics of the batch" if op.type == "batch_norm" else ""
                return located(f"{op!r}{statistics} is no operation on each row", op.source)
        return f"it is {value!r}, row by row" if self.kinds.get(value) == "rows" else "nothing sums it over the batch"

    # -- results ---------------------------------------------------------------------------------

    def results(self) -> dict[Value, str]:
        """The values that are read or requested outside, each a mean or a sum of the results of the parts."""
        inside = set(self.inside)
        found = [v for op in self.inside for v in op.writes() if self.graph.is_observed(v) or any(r not in inside for r in v.readers)]
        return {value: self._kind(value) for value in found}

    def _kind(self, value: Value) -> str:
        writer = value.writers[0]
        if writer.role == FORWARD:
            kind = self.kinds[value]
            if kind not in (MEAN, TOTAL):
                raise Refused(f"{value.name!r} is requested, which is neither a mean nor a sum over the batch: {self._why(value)}")
            return kind
        name = _GRADIENT.match(value.name)
        of = value.grad_of or (self.graph.versions(name[1])[0] if name and self.graph.versions(name[1]) else None)
        if of is None or of.writers or self.kinds.get(of, WHOLE) != WHOLE:
            raise Refused(f"{value.name!r} is requested, which is not the gradient of a parameter")
        return self.loss


def _check_repeatable(op: Op) -> None:
    row = op.row
    if row is None or row.side_effect or op.graphs:
        why = "is not known" if row is None else "holds blocks" if op.graphs else "has effects"
        raise Refused(located(f"operator {op.type!r} {why}, so it cannot run once for each part of the batch", op.source))
    if row.random:
        raise Refused(located(f"operator {op.type!r} draws random numbers, which for parts of a batch are others", op.source))


def check_cut(data: Sequence[Value], count: int) -> None:
    """Refused unless the data can be cut into so many parts along axis 0."""
    for value in data:
        if not value.shape or -1 in value.shape[1:]:
            raise Refused(f"{value.name!r} cannot be cut along axis 0: its shape is {value.shape}")
        if value.shape[0] % count and value.shape[0] != -1:
            raise Refused(f"{value.name!r} has {value.shape[0]} rows, which do not make {count} parts of one size")
        if value.shape[0] != data[0].shape[0]:  # type: ignore[index]
            raise Refused(f"{data[0].name!r} has shape {data[0].shape} and {value.name!r} {value.shape}: they are not rows of one batch")
