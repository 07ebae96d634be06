"""The dependence of values on the batch: what a value is if a part of the rows is fed.

    whole    the same whatever the batch is                  parameters, constants
    rows     row i is made of row i of the data              mul(x, w), relu, softmax over other axes
    mean     the mean over the rows                          mean, reduce_mean over axis 0, and what is affine in one
    total    the sum over the rows                           reduce_sum over axis 0
    mixed    anything else, or not known                     a maximum over the batch, statistics of the batch

Of the parts of a batch that is cut into parts of one size, ``rows`` are concatenated, ``mean`` by the mean,
``total`` by the sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from graphad.ir import Graph, Op, Value
from graphad.ir.regions import conditions, is_grad_op
from graphad.ops import GRAD, OpDef
from graphad.ops.dimensions import dimensions
from graphad.passes.analyses.sharding import shapes_of
from graphad.program import FORWARD
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.types import FLOATS, TENSOR

WHOLE, ROWS, MEAN, TOTAL, MIXED = "whole", "rows", "mean", "total", "mixed"
Kinds = Mapping[Value, str]
Rule = Callable[[Op, Kinds], str]
GRADIENT_NAME = re.compile(rf"(.+?){GRAD}")  # the name of a gradient, and of what it is the gradient of


def data_of(graph: Graph, names: Sequence[str]) -> list[Value]:
    """The values whose axis 0 is the batch: those that are named, else all tensors that are given and not persistable."""
    if names:
        return [graph.given(name) for name in names]
    return [v for v in graph.inputs if v.kind == TENSOR and not v.persistable and any(op.role == FORWARD for op in v.readers)]


@dataclass(frozen=True)
class BatchDependence(Dataflow[str]):
    """The dependence of every value on the batch, whose rows ``data`` are; only the forward part is looked at.

    Attributes:
        data: the values whose axis 0 is the batch.
        gradients: what values of the backward part are that the forward part reads; the others are the same for all parts.
        in_blocks: whether to look into the nested graphs of operators, too; otherwise such an operator mixes.
        decided: operators whose nested graphs run as the batch says: those mix.
    """

    data: frozenset[Value]
    in_blocks: bool = False
    decided: frozenset[Op] = frozenset()
    gradients: frozenset[tuple[Value, str]] = frozenset()
    bottom, top = None, MIXED

    def solve(self, graph: Graph) -> Facts[str]:
        facts = super().solve(graph)
        # What a condition is, is known only afterwards: where it is not the same for all parts, the facts are found again without it.
        ops = [op for subgraph in graph.tree() for op in subgraph.controls if self.enters(op)]
        decided = frozenset(op for op in ops if any(facts[value] != WHOLE for value in conditions(op)))
        return replace(self, decided=self.decided | decided).solve(graph) if decided else facts

    def join(self, a: str, b: str) -> str:
        # What is the same for all parts is also the mean of what it is for each.
        return a if a == b else MEAN if {a, b} == {WHOLE, MEAN} else MIXED

    def boundary(self, value: Value) -> str:
        return ROWS if value in self.data else WHOLE

    def enters(self, op: Op) -> bool:
        return self.in_blocks and op.role == FORWARD and not is_grad_op(op) and op not in self.decided

    def transfer(self, op: Op, facts: Facts[str]) -> dict[Value, str]:
        if op.role != FORWARD:
            kinds = dict(self.gradients)
            return {value: kinds.get(value, WHOLE) for value in op.writes()}
        kind = _kind(op, facts)
        # Statistics are the same whatever the batch is, where the first output is row by row.
        besides = op.definition.statistics if op.definition is not None and kind == ROWS else ()
        return {value: WHOLE if slot in besides else kind for slot, values in op.outputs.items() for value in values}


def _kind(op: Op, kinds: Kinds) -> str:
    definition, operand_kinds = op.definition, [kinds[value] for value in op.reads()]
    # Random numbers for a part of the batch are others than those for these rows of the whole.
    if definition is None or definition.random or definition.side_effect:
        return MIXED
    if all(kind == WHOLE for kind in operand_kinds):
        return WHOLE
    if MIXED in operand_kinds or op.graphs:
        return MIXED
    return _partly_linear(op, definition, kinds) or _rule(definition)(op, kinds)


def _rule(definition: OpDef) -> Rule:
    """The rule that follows from an operator's traits."""
    if definition.elementwise and definition.linear:
        return _affine if len(definition.inputs) > 1 or definition.inputs["X"].variadic else _scaled
    if definition.elementwise:
        return _product if definition.bilinear else _by_element
    if definition.reduction:
        return _reduced
    # The most special promise first: each kind of operator is asked only what the kinds before do not say.
    if definition.in_order and "shape" in definition.attrs:
        return _reshaped
    return _row_by_row if definition.rows else _by_index


def _attr(op: Op, name: str) -> object:
    definition = op.definition
    assert definition is not None
    return definition.attr(name, op.attrs)


def _rank(value: Value) -> int:
    return -1 if value.shape is None else len(value.shape)


# -- one rule for each family of operators -------------------------------------------------------


def _by_element(op: Op, kinds: Kinds) -> str:
    """Each element by itself: rows stay rows, what is not affine makes something else of a mean."""
    return ROWS if {kinds[v] for v in op.reads()} <= {ROWS, WHOLE} and _aligned(op, kinds) else MIXED


def _aligned(op: Op, kinds: Kinds) -> bool:
    """Whether the rows of all inputs lie along axis 0 of the output, and nothing else does."""
    # Broadcasting aligns axes from the end: only operands of full rank have their axis 0 where the result has its own.
    rank = max(map(_rank, op.reads()))
    if rank < 1:
        return False
    for value in op.reads():
        if kinds[value] == ROWS and _rank(value) != rank:
            return False
        if kinds[value] == WHOLE and not _lies_beside(op, value, rank):
            return False
    return True


def _lies_beside(op: Op, value: Value, rank: int) -> bool:
    """Whether a value that does not know the batch is broadcast along axis 0."""
    if value.shape is None:
        return False
    if len(value.shape) == rank:
        return value.shape[0] == 1
    definition = op.definition
    # Of a lower rank: aligned from the end it does not reach axis 0; with Fluid's ``axis`` it begins there, which 0 puts onto the batch.
    axis = definition.attr("axis", op.attrs) if definition is not None and "axis" in definition.attrs else -1
    return axis != 0 or not value.shape or value.shape == (1,)


def _affine(op: Op, kinds: Kinds) -> str:
    """Sums and differences: those of means are means, those of totals totals."""
    definition, operand_kinds = op.definition, {kinds[v] for v in op.reads()}
    if definition is None or any(kinds[v] != WHOLE for slot, values in op.inputs.items() if slot not in definition.linear for v in values):
        return _by_element(op, kinds)
    # (mean + w) of the parts has the mean (mean + w): an affine function with a constant is fine for means. For totals the constant would
    # be added once for each part.
    if operand_kinds <= {MEAN, WHOLE}:
        return MEAN if _same_shapes(op) else MIXED
    if operand_kinds == {TOTAL}:
        return TOTAL if _same_shapes(op) else MIXED
    return _by_element(op, kinds)


def _same_shapes(op: Op) -> bool:
    return all(value.shape is not None for value in op.reads())


def _scaled(op: Op, kinds: Kinds) -> str:
    """The kind of the result of an operator with one input: an offset is added to each part of a total, and rounded parts no longer add
    up."""
    definition, (value,), (result,) = op.definition, op.reads(), op.writes()
    kind = kinds[value]
    if kind != ROWS and result.dtype != value.dtype and result.dtype not in FLOATS:
        return MIXED
    biased = definition is not None and definition.offset != "" and bool(_attr(op, definition.offset))
    return MIXED if kind == TOTAL and biased else kind


def _product(op: Op, kinds: Kinds) -> str:
    """A product with what does not know the batch is linear."""
    operand_kinds = {kinds[v] for v in op.reads()}
    # Of two means it is not the mean of the products: E[a b] is not E[a] E[b].
    if operand_kinds == {MEAN, WHOLE} or operand_kinds == {TOTAL, WHOLE}:
        return (operand_kinds - {WHOLE}).pop()
    return _by_element(op, kinds)


def _partly_linear(op: Op, definition: OpDef, kinds: Kinds) -> str:
    """A mean or a total in a slot in which the operator is linear while all else stays, as in ``(a + b) / w = a / w + b / w``; else ''."""
    changing = [(slot, kinds[v]) for slot, values in op.inputs.items() for v in values if kinds[v] != WHOLE]
    if len(changing) != 1:
        return ""
    ((slot, kind),) = changing
    return kind if slot in definition.partly_linear and kind in (MEAN, TOTAL) else ""


def _row_by_row(op: Op, kinds: Kinds) -> str:
    """The kind by the trait ``rows``: each row of some operands by itself, where the other operands do not depend on the batch."""
    definition = op.definition
    assert definition is not None
    if not definition.has_rows(op.attrs):
        return MIXED
    # Rows of softmax over axis 0 would be mixed: the axis that the operator works along has to be another one.
    apart = _is_inside(op, _attr(op, definition.along)) if definition.along else _has_rows(op, definition.rows)
    return ROWS if apart and _are_rows_of(op, kinds, definition.rows) else MIXED


def _has_rows(op: Op, rows: Collection[str]) -> bool:
    """Whether there are rows: of one axis, an operator may work along it, as top_k does, unless the result has further ones."""
    operands = [value for slot in rows for value in op.inputs.get(slot, ())]
    return all(_rank(value) > 1 for value in operands) or all(_rank(value) > 1 for value in op.writes())


def _are_rows_of(op: Op, kinds: Kinds, rows: Collection[str]) -> bool:
    """Whether some slots hold rows, and the others nothing that knows the batch."""
    return all(kinds[v] == (ROWS if slot in rows else WHOLE) for slot, values in op.inputs.items() for v in values)


def _is_inside(op: Op, axes: object) -> bool:
    """Whether an axis, or each of some, is not that of the rows."""
    if isinstance(axes, list | tuple):
        return bool(axes) and all(axis > 0 for axis in axes)
    ranks = _rank(next(op.reads())), _rank(next(op.writes()))  # an axis may be one of the output, as that of a stack is
    return isinstance(axes, int) and (axes > 0 or all(rank > 1 and axes % rank != 0 for rank in ranks))


def _reduced(op: Op, kinds: Kinds) -> str:
    value = op.input("X")
    dims, rank = _attr(op, "dim"), _rank(value)
    # No axes stand for all of them, as in Paddle.
    axes = {d % rank for d in dims} if isinstance(dims, list | tuple) and rank > 0 else set()
    if kinds[value] != ROWS or rank < 1:
        return MIXED
    if not axes or 0 in axes or bool(_attr(op, "reduce_all")):
        reduction = op.definition.reduction if op.definition is not None else ""
        return MEAN if reduction == "mean" else TOTAL if reduction == "sum" else MIXED
    return ROWS


def _reshaped(op: Op, kinds: Kinds) -> str:
    """The first extent is taken over (0), or is what is left (-1) and the others are as many elements as before."""
    x, shape = op.input("X"), _attr(op, "shape")
    if len([*op.reads()]) > 1 or kinds[x] != ROWS or not x.shape or not isinstance(shape, list | tuple) or not shape or 0 in shape[1:]:
        return MIXED
    if shape[0] == 0:
        return ROWS
    # With one element count for each row, row i stays row i; an unknown extent on either side could hide a shift.
    extents_after, before = list(shape[1:]), list(x.shape[1:])
    if shape[0] != -1 or -1 in extents_after or -1 in before:
        return MIXED
    return ROWS if _elements(extents_after) == _elements(before) else MIXED


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _by_index(op: Op, kinds: Kinds) -> str:
    """The kind of an operator's results by its index map (``graphad.ops.dimensions``), in which axis 0 of all operands that are rows is one
    index, and no other operand has it. Results are rows where axis 0 of all of them is that index too; where it is summed or averaged away,
    the results of the parts are parts of the whole."""
    definition = op.definition
    # Without outputs of no elements, such as XShape, which have no rows.
    results = {slot: [v for v in values if 0 not in (v.shape or ())] for slot, values in op.outputs.items()}
    inputs, outputs = shapes_of(op.inputs), shapes_of({slot: values for slot, values in results.items() if values})
    if definition is None or inputs is None or outputs is None or not {kinds[v] for v in op.reads()} <= {ROWS, WHOLE}:
        return MIXED
    indices = dimensions(definition, inputs, outputs, definition.own_attrs(op.attrs))
    if indices is None:
        return MIXED
    operands = [(v, labels) for slot, values in op.inputs.items() for v, labels in zip(values, indices.inputs[slot], strict=True)]
    row, *others = {labels[:1] for v, labels in operands if kinds[v] == ROWS}
    # An extent that an attribute says would be that of the whole batch; a part of a dimension is not one row for each.
    if others or row in ((), (None,)) or row[0] in indices.even or any(row[0] in labels for labels in indices.shapes.values()):
        return MIXED
    if any(row[0] in labels[1:] or (labels[:1] == row) != (kinds[v] == ROWS) for v, labels in operands):
        return MIXED
    everywhere = [labels for group in indices.outputs.values() for labels in group]
    if all(labels[:1] == row for labels in everywhere):
        return ROWS
    kind = MIXED if any(row[0] in labels for labels in everywhere) else indices.reduced.get(row[0])
    return MEAN if kind == "mean" else TOTAL if kind == "sum" else MIXED
