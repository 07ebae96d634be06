"""The tangents of the results of one operator.

    linear            y = reshape(x)       y' = reshape(x')
    bilinear          y = a @ b            y' = a' @ b + a @ b'
    symmetric         y = tanh(x)          y' = tanh_grad(y, x')         its Jacobian is its own transpose
    any other         x~ = vjp(u)          y' = the transpose of vjp, which is linear in u, at x'

The last is how every operator with a gradient rule has a tangent: its vjp is written out for a symbolic cotangent u,
which is then transposed: from x' back to u (J. Townsend, "A new trick for calculating Jacobian vector products", 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphad.graph import Op, Value
from graphad.ops import OpDef
from graphad.passes.backward.find_op_path import OpPath
from graphad.passes.differentiation.tangents import Found, Tangents, grad_row
from graphad.passes.differentiation.transposition import transposed

Rule = Callable[[Tangents, Op, Sequence[str]], Found]


def through_operator(made: Tangents, op: Op, path: OpPath) -> None:
    """Add the tangents of the results of an operator without nested graphs, right after it."""
    moving = [slot for _, slot in grad_row(op).written if made.moves(op.inputs.get(slot, ()))]
    if not moving:
        return
    for value, tangent in _rule(op, moving)(made, op, moving).items():
        if value in path.active:
            made.keep(value, tangent)


def _rule(op: Op, moving: Sequence[str]) -> Rule:
    row = op.row
    assert row is not None
    if row.linear:
        return _linear
    if row.bilinear:
        return _bilinear
    return _symmetric if moving == [next(iter(row.inputs))] and _is_symmetric(row) else transposed


def _is_symmetric(row: OpDef) -> bool:
    """Whether the Jacobian is its own transpose, and depends on the input: one that does not is that of a step, which is 0."""
    if row.symmetric:
        return True
    required = [slot for slot in row.inputs.values() if not slot.optional]
    rule = (row.grads or {}).get(required[0].name) if len(required) == 1 and not required[0].variadic else None
    return row.elementwise and rule is not None and len(rule.reads) > 1


# -- linear --------------------------------------------------------------------------------------


def _linear(made: Tangents, op: Op, moving: Sequence[str]) -> Found:
    """The operator itself, on tangents; zeros where something does not move, unless that may be left out."""
    passed = _passed_on(made, op, moving)
    if passed is not None:
        return {op.output("Out"): passed}
    row, after, inputs = op.row, op.next, dict[str, Sequence[Value]](op.inputs)
    assert row is not None
    for _, slot in grad_row(op).written:
        values = op.inputs.get(slot, ())
        inputs[slot] = [made.of(v, after) for v in values if op.type != "sum" or v in made.tangent]
    op_type = "assign" if op.type == "increment" else op.type
    attrs = {name: value for name, value in op.attrs.items() if name != row.offset}
    if op.type == "read_from_array":
        inputs["Like"] = [op.output("Out")]
    if op.type == "write_to_array" and not op.inputs.get("Array"):
        attrs["fresh"] = True
    outputs = {slot: op.outputs[slot] for _, slot in grad_row(op).cotangents if slot in op.outputs}
    found = {value: made.new(value) for values in outputs.values() for value in values}
    slots = {slot: [found[v] for v in values] for slot, values in outputs.items()}
    op.graph.add_op(op_type, {s: v for s, v in inputs.items() if v}, slots, attrs, before=after, forward=op)
    return found


def _passed_on(made: Tangents, op: Op, moving: Sequence[str]) -> Value | None:
    """The tangent that is that of the output as well, if only one input moves and the output has its shape."""
    if op.row is None or moving[0] not in op.row.passed_on:
        return None
    values = list(op.reads())
    found = [v for v in values if v in made.tangent]
    still = [v.shape for v in values if v not in made.tangent]
    out = op.output("Out")
    known = found[0].kind == out.kind and found[0].type is not None and not any(s is None or -1 in s for s in still)
    return made.tangent[found[0]] if len(found) == 1 and known and found[0].type == out.type else None


# -- bilinear and symmetric ----------------------------------------------------------------------


def _bilinear(made: Tangents, op: Op, moving: Sequence[str]) -> Found:
    (out,) = op.writes()
    after, terms = op.next, []
    for slot in moving:
        term = made.part(out) if len(moving) > 1 else made.new(out)
        inputs = {**op.inputs, slot: [made.tangent[op.input(slot)]]}
        op.graph.add_op(op.type, inputs, {next(iter(op.outputs)): [term]}, op.attrs, before=after, forward=op)
        terms.append(term)
    return {out: made.total(out, terms, after)}


def _symmetric(made: Tangents, op: Op, moving: Sequence[str]) -> Found:
    (moved,), grad, (out,) = moving, grad_row(op), op.writes()
    inputs = {slot: values for slot, at in grad.given if (values := getattr(op, at).get(slot))}
    ((cotangent, _),), ((tangent_slot, _), *_) = grad.cotangents, grad.written
    inputs[cotangent] = (made.tangent[op.input(moved)],)
    tangent = made.new(out)
    op.graph.add_op(grad.type, inputs, {tangent_slot: [tangent]}, op.attrs, before=op.next, forward=op)
    return {out: tangent}
