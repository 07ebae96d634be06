"""Drop grad operators that have nothing to do, and fill in the zeros that the others still read.

    a@GRAD (has no writer) ─▶ f_grad ─▶ x@GRAD                            f_grad is dropped
    a@GRAD ─▶ g_grad ─▶ x@GRAD (x has no gradient)                   ⇒    g_grad is dropped
    a@GRAD ───────────────────▶ split_grad ─▶ x@GRAD                      a@GRAD ───────────────────▶ split_grad ─▶ x@GRAD
    b@GRAD (has no writer) ────▲                                          b ─▶ fill_zeros_like ─▶ b@GRAD ──▲

An operator goes if all its outputs are without gradient, or if it reads gradients and none of them was written.
What stays writes only gradients that are needed and reads only what those need. The same holds in nested graphs: their arguments
and residuals are what they read, no more.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.ir import Graph, Op, Value
from graphad.ir.regions import added_count
from graphad.ir.residuals import add_residual, drop_unread_residuals, find_forward_op, forward_op, is_read, residual_inputs
from graphad.ops import GRAD, REGISTRY, GradOpDef
from graphad.ops.definition import GradRule
from graphad.passes.analyses.shapes_read import shapes_read
from graphad.passes.backward.adjoints import Adjoints
from graphad.passes.backward.create_grad_ops import GradOps
from graphad.passes.backward.find_op_path import OpPath
from graphad.program import BACKWARD, EMPTY
from graphad.rewriting import Pass
from graphad.types import TENSOR

# -- residuals of which only the shape is read -----------------------------------------------------
# Replace residuals of which a gradient reads only the shape by placeholders of that shape, which take no memory.
#
# saved h ─▶ elementwise_add_grad          stand_in{shape} ─▶ elementwise_add_grad          (the shape is known)
#                                   ⇒      h ─▶ stand_in, saved ─▶ elementwise_add_grad     (it is not)


STANDS_IN = "@SHAPE"  # how the name of a placeholder ends, after that of the value it stands for


def keep_shapes_only(op: Op) -> bool:
    """Do so for the graphs nested in a gradient operator; return whether anything changed."""
    has_changed = False
    for inner in op.graphs.values():
        for value, residual in residual_inputs(inner).items():
            if value.kind != TENSOR or not _read_for_shape(value):
                continue
            has_changed = True
            # A shape known before the run needs no residual; an unknown one is kept as a placeholder of each run.
            if value.shape is None or -1 in value.shape:
                _keep_shape(inner, value, residual)
            else:
                _pass_in_shape(op, inner, value)
    for forward in forward_op(op).graphs.values() if has_changed else ():
        drop_unread_residuals(forward)
    return has_changed


def _read_for_shape(value: Value) -> bool:
    if value in value.graph.results or not value.readers:
        return False
    return all(slot in shapes_read(op) for op in value.readers for slot, values in op.inputs.items() if value in values)


def _stands_in(op: Op) -> bool:
    return op.definition is not None and op.definition.placeholder


def _keep_shape(inner: Graph, value: Value, residual: Value) -> None:
    """Keep a placeholder, made in the forward graph, in the place of a value whose shape is known at run time only."""
    forward = residual.graph
    result = next((op.output("Out") for op in residual.readers if _stands_in(op)), None)
    if result is None:
        result = forward.add_value(residual.name + STANDS_IN, residual.shape, residual.dtype)
        forward.add_op("stand_in", {"X": [residual]}, {"Out": [result]}, role=BACKWARD, forward=residual.writer)
    inner.replace(value, add_residual(forward, result)[inner])


def _pass_in_shape(op: Op, inner: Graph, value: Value) -> None:
    """Make a placeholder of a known shape once, outside of the gradient operator, and pass it in."""
    graph, inputs = op.graph, op.inputs.get("X", ())
    stand_in = next((v for v in inputs if v.writer is not None and _stands_in(v.writer) and v.type == value.type), None)
    if stand_in is not None:
        return inner.replace(value, inner.inputs[inputs.index(stand_in)])
    result = graph.add_value(value.name + STANDS_IN, value.shape, value.dtype)
    attrs = {"shape": list(value.shape or ()), "dtype": value.dtype}
    graph.add_op("stand_in", {}, {"Out": [result]}, attrs, before=op, role=op.role, forward=op.forward)
    for subgraph in op.graphs.values():
        argument = subgraph.add_input(subgraph.values.fresh(value.name), value.shape, value.dtype)
        subgraph.inputs.pop()
        if subgraph is inner:  # the operand keeps the name; the new input, which is unread, takes its place among the residuals
            subgraph.inputs[subgraph.inputs.index(value)] = argument
        subgraph.inputs.insert(len(inputs), value if subgraph is inner else argument)
    graph.set_inputs(op, "X", [*inputs, result])


# -- the pass --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PruneNoGrad(Pass):
    """Drop grad operators without gradient on one of their sides; fill zeros where a survivor reads a missing gradient."""

    name = "prune-no-grad"
    requires = (OpPath, GradOps)
    preserves = (OpPath, GradOps)

    def apply(self, graph: Graph) -> bool:
        return prune(graph.analyses[GradOps])


def prune(grad_ops: GradOps) -> bool:
    """Prune one graph's grad operators, and those in graphs nested in them; return whether anything changed."""
    graph, active = grad_ops.adjoints.graph, grad_ops.path.active
    # The operators are in the order in which cotangents flow. What a removed one would have written has no writer when its readers are
    # looked at, so one visit finds all that have nothing left to do.
    survivors, narrowings, fill, has_changed = [], [], [], False
    for op in grad_ops.ops:
        written_count, missing_count = _gradients_read(op, active)
        needed_count, useless = _gradients_written(op, active)
        # A gradient operator without cotangents would compute zeros, and one without active results is trivially dead.
        if needed_count == 0 or (missing_count and not written_count):
            _remove(graph, op)
            continue
        survivors.append(op)
        if useless:
            narrowings.append(op)
        if missing_count:
            fill.append(op)
        for inner in op.graphs.values():
            has_changed |= prune(grad_ops.inner[inner])
    has_changed |= len(survivors) < len(grad_ops.ops) or bool(narrowings or fill)
    grad_ops.ops = survivors
    # After all removals: an output is narrowed by what is active, and zeros are filled only for survivors.
    for op in narrowings:
        _narrow(graph, op, active)
    for op in fill:
        _fill(grad_ops, op)
    for op in survivors:
        if op.graphs:
            has_changed |= _tidy(graph, op, grad_ops)
    return has_changed


def _remove(graph: Graph, op: Op) -> None:
    """Remove a grad operator; what only it read of the runs of a forward operator is no longer kept."""
    forward = find_forward_op(op)
    graph.remove_op(op)
    for inner in forward.graphs.values() if forward is not None else ():
        drop_unread_residuals(inner)


def _gradients_read(op: Op, active: frozenset[Value]) -> tuple[int, int]:
    """The numbers of gradients that an operator reads: of those that are written, and of those that are not, or will not be in the end."""
    written_count = missing_count = 0
    inputs = op.inputs
    for slot, _ in ((f"Out{GRAD}", ""),) if op.graphs else _gradient_definition(op).cotangents:
        for value in inputs.get(slot, ()):
            # A gradient of a value that is not active has a writer only until that is pruned.
            if value.given or (value.writers and value.grad_of in active):
                written_count += 1
            else:
                missing_count += 1
    return written_count, missing_count


def _cotangents(op: Op) -> tuple[str, ...]:
    """The slots of the gradients that an operator reads."""
    return (f"Out{GRAD}",) if op.graphs else tuple(slot for slot, _ in _gradient_definition(op).cotangents)


def _gradients_written(op: Op, active: frozenset[Value]) -> tuple[int, int]:
    """The numbers of gradients that an operator writes: of those of active values, and of the others."""
    needed_count = useless = 0
    for values in op.outputs.values():
        for value in values:
            if value.grad_of in active:
                needed_count += 1
            else:
                useless += 1
    return needed_count, useless


def _narrow(graph: Graph, op: Op, active: frozenset[Value]) -> None:
    """Leave out the outputs without gradient, and inputs that only they needed."""
    for slot, values in list(op.outputs.items()):
        is_active = [value.grad_of in active for value in values]
        if not any(is_active) and not op.graphs:
            graph.set_outputs(op, slot, ())
        # Of a list of gradients some are left out: positions have to stay, so the others get the name that means none.
        elif not all(is_active):
            graph.set_outputs(op, slot, [v if keep else graph.add_version(EMPTY) for v, keep in zip(values, is_active, strict=True)])
    if op.graphs:
        return
    slots_read = {slot for rule in _rules(op) for slot in rule.reads}
    for slot in [slot for slot in op.inputs if slot not in slots_read]:
        graph.set_inputs(op, slot, ())


def _gradient_definition(op: Op) -> GradOpDef:
    definition = REGISTRY[op.type]
    assert isinstance(definition, GradOpDef)
    return definition


def _rules(op: Op) -> list[GradRule]:
    forward = _gradient_definition(op).forward
    assert forward is not None and forward.grads is not None
    return [forward.grads[slot.removesuffix(GRAD)] for slot in op.outputs]


def _fill(grad_ops: GradOps, op: Op) -> None:
    """Fill in zeros for gradients that the operator reads and that have no writer. An optional slot is left out instead."""
    slots = [slot for slot in _cotangents(op) if not all(v.writers or v.given for v in op.inputs.get(slot, ()))]
    for slot in slots:
        values = op.inputs[slot]
        # An optional cotangent is taken for zero by the rule itself, which is cheaper than an array of zeros.
        is_optional = not op.graphs and all(slot in rule.optional or slot not in rule.reads for rule in _rules(op))
        if is_optional and not any(v.writers or v.given for v in values):
            grad_ops.adjoints.graph.set_inputs(op, slot, ())
            continue
        for value in values:
            if not value.writers and not value.given:
                _zero(grad_ops.adjoints, value, op)


def _zero(adjoints: Adjoints, gradient: Value, before: Op | None) -> None:
    """Write zeros to a gradient without a writer."""
    value = gradient.grad_of
    if value is None:
        return
    graph, forward = adjoints.graph, before and before.forward
    # In a graph of its own a constant spares a residual, which would be kept only for its shape.
    if graph is adjoints.forward or value.shape is None or -1 in value.shape or value.kind != TENSOR:
        graph.add_op("fill_zeros_like", {"X": [adjoints.read(value)]}, {"Out": [gradient]}, before=before, role=BACKWARD, forward=forward)
    else:
        attrs = {"shape": list(value.shape), "value": 0.0, "dtype": value.dtype}
        graph.add_op("fill_constant", {}, {"Out": [gradient]}, attrs, before=before, role=BACKWARD, forward=forward)


# -- graphs nested in grad operators -------------------------------------------------------------


def _tidy(graph: Graph, op: Op, grad_ops: GradOps) -> bool:
    """Fill in zeros that nested graphs return, and drop their unused inputs."""
    graphs, has_changed = list(op.graphs.values()), False
    for inner in graphs:
        adjoints = grad_ops.inner[inner].adjoints
        for value in dict.fromkeys(inner.results):
            if not value.writers and not value.given:
                _zero(adjoints, value, None)
                has_changed = True
    has_changed |= _drop_unread(graph, op, graphs)
    return keep_shapes_only(op) or has_changed


def _drop_unread(graph: Graph, op: Op, graphs: list[Graph]) -> bool:
    """Drop unused arguments and residuals. Operands whose gradients are summed over iterations stay: their zeros are made like them."""
    inputs = op.inputs.get("X", ())
    # From ``added_count`` on: the operands before it are those whose gradients are sums.
    places = [i for i in range(added_count(op), len(inputs)) if not any(is_read(inner.inputs[i]) for inner in graphs)]
    for inner in graphs:
        for value in [inner.inputs[i] for i in places]:
            inner.drop(value)
    if places:
        graph.set_inputs(op, "X", [value for i, value in enumerate(inputs) if i not in places])
    has_dropped = [drop_unread_residuals(forward) for forward in forward_op(op).graphs.values()]
    return bool(places) or any(has_dropped)
