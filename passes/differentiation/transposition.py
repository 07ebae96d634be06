"""The tangents of any operator with a gradient rule: the rule's transpose.

x~ = vjp(u), written out          u ─▶ mul ─▶ transpose ─▶ x~
gone through backwards            y' ◀─ mul ◀─ transpose ◀─ x'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphad.graph import Builder, GraphSymbol, Op, Value
from graphad.ops import GRAD, REGISTRY
from graphad.passes.differentiation.tangents import Found, Tangents, grad_row
from graphad.rewriting import sweep
from graphad.types import TENSOR

Cotangents = dict[Value, list[GraphSymbol]]


def transposed(made: Tangents, op: Op, moving: Sequence[str]) -> Found:
    """Add the tangents of an operator's results, right after it; ``moving`` are the inputs' slots that have some."""
    after = op.next
    builder = Builder(op.graph, next(op.writes()).name, before=after, role=op.role, forward=op)
    symbols = {value: _symbolic(builder, value) for _, slot in grad_row(op).cotangents for value in op.outputs.get(slot, ())}
    backwards: Cotangents = {}
    for result, tangent in _written_out(made, op, moving, builder, symbols):
        backwards.setdefault(result, []).append(builder.symbol(tangent))
    written_out = list(_between(op, after))
    varied = {symbol.value for symbol in symbols.values()}
    for each in reversed(_carrying(written_out, varied)):
        if any(v in backwards for v in each.writes()):
            _back_through(builder, each, varied, backwards)
    found = {value: _total(builder, backwards[symbol.value]) for value, symbol in symbols.items() if symbol.value in backwards}
    for each in reversed(written_out):
        sweep(each)
    return {value: symbol.value for value, symbol in found.items()}


def _symbolic(builder: Builder, value: Value) -> GraphSymbol:
    """A symbolic cotangent of the type of a value. No operator computes it, so only its shape may be read."""
    symbol: GraphSymbol = REGISTRY["stand_in" if value.kind == TENSOR else "fill_zeros_like"](builder.symbol(value))
    return symbol


def _written_out(
    made: Tangents, op: Op, moving: Sequence[str], builder: Builder, symbols: Mapping[Value, GraphSymbol]
) -> Iterator[tuple[Value, Value]]:
    """Write out the gradients of the inputs that move; with each, the tangent that is its cotangent."""
    row = grad_row(op)
    inputs: dict[str, list[GraphSymbol]] = {}
    for slot, at in row.given:
        inputs[slot] = [builder.symbol(v) for v in getattr(op, at).get(slot, ())]
    for slot, forward in row.cotangents:
        inputs[slot] = [symbols[v] for v in op.outputs.get(forward, ())]
    for slot in moving:
        results = row.meaning(inputs, op.attrs, [f"{slot}{GRAD}"])[f"{slot}{GRAD}"]
        for value, result in zip(op.inputs[slot], results, strict=True):
            if value in made.tangent:
                yield result.value, made.tangent[value]


def _between(op: Op, end: Op | None) -> Iterator[Op]:
    following = op.next
    while following is not None and following is not end:
        yield following
        following = following.next


def _carrying(ops: Sequence[Op], varied: set[Value]) -> list[Op]:
    """The operators that depend on the symbolic cotangents; what they write is added to ``varied``."""
    carrying = []
    for op in ops:
        if any(varied.intersection(op.inputs.get(slot, ())) for slot in _differentiable(op)):
            carrying.append(op)
            varied.update(op.writes())
    return carrying


def _differentiable(op: Op) -> Mapping[str, Any]:
    return (op.row.grads if op.row is not None else None) or {}


def _back_through(builder: Builder, op: Op, varied: set[Value], backwards: Cotangents) -> None:
    """Take what came to an operator's outputs to those of its inputs that vary."""
    row = grad_row(op)
    inputs: dict[str, list[GraphSymbol]] = {}
    for slot, at in row.given:
        inputs[slot] = [builder.symbol(v) for v in getattr(op, at).get(slot, ())]
    for slot, forward in row.cotangents:
        inputs[slot] = [_total(builder, backwards.get(v) or [_zeros(builder, v)]) for v in op.outputs.get(forward, ())]
    for slot in _differentiable(op):
        values = op.inputs.get(slot, ())
        if not varied.intersection(values):
            continue
        results = row.meaning(inputs, op.attrs, [f"{slot}{GRAD}"])[f"{slot}{GRAD}"]
        for value, result in zip(values, results, strict=True):
            if value in varied:
                backwards.setdefault(value, []).append(result)


def _total(builder: Builder, parts: list[GraphSymbol]) -> GraphSymbol:
    """The sum of the cotangents of a value; it is made once."""
    if len(parts) > 1:
        parts[:] = [REGISTRY["sum"](list(parts))]
    return parts[0]


def _zeros(builder: Builder, value: Value) -> GraphSymbol:
    zeros: GraphSymbol = REGISTRY["fill_zeros_like"](builder.symbol(value))
    return zeros
