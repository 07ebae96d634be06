"""Forward mode: for every operator on the path, operators that compute its tangents.

    x ─▶ tanh ─▶ h ─▶ mul ─▶ y        ⇒      x ─▶ tanh ─▶ h ─▶ mul ─▶ y
                 w ──▲                                    │    w ──▲
                                             x@TANGENT ─▶ tanh_grad ─▶ h@TANGENT ─▶ mul ─▶ y@TANGENT
                                                                       w ────────────▲

The tangents come right after their primals, so no residuals are kept for them: loops carry the tangents of what they carry,
branches return the tangents of what they return (R. E. Wengert, "A simple automatic derivative evaluation program", 1964).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphad.errors import InvalidValue, Refused
from graphad.ir import Builder, Graph, GraphSymbol, Op, Value
from graphad.ir.edits import insert_carried, insert_results, open_sealed
from graphad.ir.regions import carried_count, definition_of, is_forward_loop, is_grad_op, operands, results_of
from graphad.ops import GRAD, REGISTRY, GradOpDef, OpDef
from graphad.passes.backward.expand_grad_ops import ExpandGradOps
from graphad.passes.backward.find_op_path import FindOpPath, OpPath, source_value
from graphad.rewriting import OnTrial, Pass, erase_if_dead
from graphad.types import TENSOR, joined_shape

# -- tangents --------------------------------------------------------------------------------------
# The tangent of each value: its directional derivative along the tangents of the inputs.

TANGENT = "@TANGENT"
Found = dict[Value, Value]  # values an operator writes -> their tangents


class Tangents:
    """The results of ``jvp``: the tangent of each value that has one, in every graph; a value without one does not move.

    ``path`` are the operators that were visited, ``seeds`` the tangents that were given.
    """

    def __init__(self, path: OpPath) -> None:
        self.path = path
        self.tangent: dict[Value, Value] = {}
        self.seeds: dict[Value, Value] = {}
        self._names: dict[tuple[Graph, str], str] = {}

    def start(self, value: Value, seed: Value) -> None:
        """Say how an input moves by itself."""
        self.tangent[value] = self.seeds[value] = seed

    def moves(self, values: tuple[Value, ...]) -> bool:
        """Whether one of the values has a tangent."""
        return any(value in self.tangent for value in values)

    def new(self, value: Value) -> Value:
        """A value of the type of another one, to be its tangent; the caller that writes it says so with ``keep``."""
        graph = value.graph
        result = graph.add_version(self._name(value), value.shape, value.dtype)
        result.kind = value.kind
        return result

    def part(self, value: Value) -> Value:
        """A value to be a part of a tangent that is a sum."""
        graph = value.graph
        return graph.add_version(graph.values.numbered(value.name + TANGENT, "{}@RENAME@{}"), value.shape, value.dtype)

    def given(self, value: Value) -> Value:
        """A tangent of an input of a nested graph; the caller puts it among the graph's inputs."""
        result = self.tangent[value] = self.new(value)
        result.given = True
        return result

    def keep(self, value: Value, tangent: Value) -> None:
        """Say what the tangent of a value is; one that also moves by itself gets the sum."""
        seed, writer = self.seeds.get(value), tangent.writer or value.writer
        assert writer is not None
        self.tangent[value] = tangent if seed is None else self.total(value, [tangent, seed], writer.next)

    def total(self, value: Value, parts: Sequence[Value], before: Op | None) -> Value:
        """The tangent of a value as a sum."""
        if len(parts) == 1:
            return parts[0]
        result = self.new(value)
        value.graph.add_op("sum", {"X": parts}, {"Out": [result]}, before=before, forward=value.writer)
        return result

    def of(self, value: Value, before: Op | None) -> Value:
        """The tangent of a value; of one that does not move, zeros that are made before an operator (None: at the end)."""
        tangent = self.tangent.get(value)
        return self._zeros(value, before) if tangent is None else tangent

    def _zeros(self, value: Value, before: Op | None) -> Value:
        graph, result, writer = value.graph, self.new(value), value.writer
        if writer is not None and writer.definition is not None and writer.definition.is_absent:
            # What has no value has no tangent either.
            graph.add_op(writer.type, {}, {"Out": [result]}, writer.attrs, before=before, forward=writer)
        else:
            graph.add_op("fill_zeros_like", {"X": [value]}, {"Out": [result]}, before=before, forward=writer)
        return result

    def _name(self, value: Value) -> str:
        key = value.graph, value.name
        if key not in self._names:
            self._names[key] = value.graph.values.fresh(value.name + TANGENT)
        return self._names[key]


def grad_definition(op: Op) -> GradOpDef:
    """The definition of an operator's gradient; every operator on a path has one."""
    definition = None if op.definition is None else op.definition.grad
    assert definition is not None
    return definition


def check_start(value: Value, start: Value) -> None:
    """ValueError unless a tangent is of the type of the input that moves along it."""
    if start.dtype != value.dtype:
        raise InvalidValue(f"input {value.name!r} is {value.dtype}, its tangent {start.name!r} is {start.dtype}")
    if value.shape is not None and start.shape is not None and joined_shape(value.shape, start.shape) is None:
        raise InvalidValue(f"input {value.name!r} has shape {list(value.shape)}, its tangent {start.name!r} has {list(start.shape)}")


# -- transposition ---------------------------------------------------------------------------------
# The tangents of any operator with a gradient rule: the rule's transpose.
#
# x~ = vjp(u), written out          u ─▶ mul ─▶ transpose ─▶ x~
# visited backwards                 y' ◀─ mul ◀─ transpose ◀─ x'

Cotangents = dict[Value, list[GraphSymbol]]


def transposed(tangents: Tangents, op: Op, moving: Sequence[str]) -> Found:
    """Add the tangents of an operator's results, right after it; ``moving`` are the inputs' slots that have some."""
    after = op.next
    builder = Builder(op.graph, next(op.writes()).name, before=after, role=op.role, forward=op)
    # The gradient is linear in the cotangents of the results. Written out over symbolic cotangents and differentiated backwards with
    # respect to those, it gives the tangents: the transpose of the transpose.
    symbols = {value: _symbolic(builder, value) for _, slot in grad_definition(op).cotangents for value in op.outputs.get(slot, ())}
    backwards: Cotangents = {}
    for result, tangent in _written_out(tangents, op, moving, builder, symbols):
        backwards.setdefault(result, []).append(builder.symbol(tangent))
    written_out = list(_between(op, after))
    varied = {symbol.value for symbol in symbols.values()}
    # Reverse accumulation over the written-out operators, from the gradients of the inputs back to the symbolic cotangents.
    for member in reversed(_carrying(written_out, varied)):
        if any(v in backwards for v in member.writes()):
            _back_through(builder, member, varied, backwards)
    totals = {value: _total(builder, backwards[symbol.value]) for value, symbol in symbols.items() if symbol.value in backwards}
    # What was written out served to be differentiated; most of it is dead now.
    for member in reversed(written_out):
        erase_if_dead(member)
    return {value: symbol.value for value, symbol in totals.items()}


def _symbolic(builder: Builder, value: Value) -> GraphSymbol:
    """A symbolic cotangent of the type of a value. No operator computes it, so only its shape may be read."""
    symbol: GraphSymbol = REGISTRY["stand_in" if value.kind == TENSOR else "fill_zeros_like"](builder.symbol(value))
    return symbol


def _written_out(
    tangents: Tangents, op: Op, moving: Sequence[str], builder: Builder, symbols: Mapping[Value, GraphSymbol]
) -> Iterator[tuple[Value, Value]]:
    """Write out the gradients of the inputs that move; with each, the tangent that is its cotangent."""
    definition = grad_definition(op)
    inputs: dict[str, list[GraphSymbol]] = {}
    for slot, at in definition.given:
        inputs[slot] = [builder.symbol(v) for v in getattr(op, at).get(slot, ())]
    for slot, forward in definition.cotangents:
        inputs[slot] = [symbols[v] for v in op.outputs.get(forward, ())]
    for slot in moving:
        results = definition.meaning(inputs, op.attrs, [f"{slot}{GRAD}"])[f"{slot}{GRAD}"]
        for value, result in zip(op.inputs[slot], results, strict=True):
            if value in tangents.tangent:
                yield result.value, tangents.tangent[value]


def _between(op: Op, end: Op | None) -> Iterator[Op]:
    op_between = op.next
    while op_between is not None and op_between is not end:
        yield op_between
        op_between = op_between.next


def _carrying(ops: Sequence[Op], varied: set[Value]) -> list[Op]:
    """The operators that depend on the symbolic cotangents; what they write is added to ``varied``."""
    carrying = []
    for op in ops:
        if any(varied.intersection(op.inputs.get(slot, ())) for slot in _differentiable(op)):
            carrying.append(op)
            varied.update(op.writes())
    return carrying


def _differentiable(op: Op) -> Mapping[str, object]:
    return (op.definition.grads if op.definition is not None else None) or {}


def _back_through(builder: Builder, op: Op, varied: set[Value], backwards: Cotangents) -> None:
    """Take what came to an operator's outputs to those of its inputs that vary."""
    definition = grad_definition(op)
    inputs: dict[str, list[GraphSymbol]] = {}
    for slot, at in definition.given:
        inputs[slot] = [builder.symbol(v) for v in getattr(op, at).get(slot, ())]
    # Zeros where no cotangent has come: other outputs of the operator, on which no gradient that was written out depends.
    for slot, forward in definition.cotangents:
        inputs[slot] = [_total(builder, backwards.get(v) or [_zeros(builder, v)]) for v in op.outputs.get(forward, ())]
    for slot in _differentiable(op):
        values = op.inputs.get(slot, ())
        if not varied.intersection(values):
            continue
        results = definition.meaning(inputs, op.attrs, [f"{slot}{GRAD}"])[f"{slot}{GRAD}"]
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


# -- the tangents of one operator ------------------------------------------------------------------
# The tangents of the results of one operator.
#
#     linear            y = reshape(x)       y' = reshape(x')
#     bilinear          y = a @ b            y' = a' @ b + a @ b'
#     symmetric         y = tanh(x)          y' = tanh_grad(y, x')         its Jacobian is its own transpose
#     any other         x~ = vjp(u)          y' = the transpose of vjp, which is linear in u, at x'
#
# The last is how every operator with a gradient rule has a tangent: its vjp is written out for a symbolic cotangent u,
# which is then transposed: from x' back to u (J. Townsend, "A new trick for calculating Jacobian vector products", 2017).

Rule = Callable[[Tangents, Op, Sequence[str]], Found]


def through_operator(tangents: Tangents, op: Op, path: OpPath) -> None:
    """Add the tangents of the results of an operator without nested graphs, right after it."""
    moving = [slot for _, slot in grad_definition(op).written if tangents.moves(op.inputs.get(slot, ()))]
    if not moving:
        return
    for value, tangent in _rule(op, moving)(tangents, op, moving).items():
        if value in path.active:
            tangents.keep(value, tangent)


def _rule(op: Op, moving: Sequence[str]) -> Rule:
    definition = op.definition
    assert definition is not None
    # From cheap to general: the last rule covers all, with more operators.
    if definition.linear:
        return _linear
    if definition.bilinear:
        return _bilinear
    return _symmetric if moving == [next(iter(definition.inputs))] and _is_symmetric(definition) else transposed


def _is_symmetric(definition: OpDef) -> bool:
    """Whether the Jacobian is its own transpose, and depends on the input: one that does not is that of a step, which is 0."""
    if definition.symmetric:
        return True
    # The Jacobian of an elementwise operator of one input is diagonal, hence symmetric: vjp and jvp are one function.
    slots = [slot for slot in definition.inputs.values() if not slot.optional]
    rule = (definition.grads or {}).get(slots[0].name) if len(slots) == 1 and not slots[0].variadic else None
    return definition.elementwise and rule is not None and len(rule.reads) > 1


# -- linear --------------------------------------------------------------------------------------


def _linear(tangents: Tangents, op: Op, moving: Sequence[str]) -> Found:
    """Apply the linear operator to tangents, with zeros for operands without one, unless those may be left out."""
    same_tangent = _passed_on(tangents, op, moving)
    if same_tangent is not None:
        return {op.output("Out"): same_tangent}
    definition, after, inputs = op.definition, op.next, dict[str, Sequence[Value]](op.inputs)
    assert definition is not None
    if definition.ordered and definition.view:
        # It passes its operand on, and has an effect, as print: which no pass repeats.
        return {op.output("Out"): tangents.tangent[op.input(definition.view)]}
    for _, slot in grad_definition(op).written:
        values = op.inputs.get(slot, ())
        inputs[slot] = [tangents.of(v, after) for v in values if slot != definition.summands or v in tangents.tangent]
    # What adds a number to its one operand leaves the tangent as it is; of what else adds one, the number is 0.
    is_shift = bool(definition.offset) and definition.passed_on == {*definition.inputs}
    attrs = {name: value for name, value in op.attrs.items() if name != definition.offset}
    if definition.offset and not is_shift and definition.attr(definition.offset, {}) != 0.0:
        attrs[definition.offset] = 0.0
    if definition.like:
        inputs[definition.like] = [op.output("Out")]
    if definition.extends and not op.inputs.get(definition.extends):
        # Otherwise lowering would take it for a write into the array of that name from before.
        attrs["fresh"] = True
    outputs = {slot: op.outputs[slot] for _, slot in grad_definition(op).cotangents if slot in op.outputs}
    tangents_by_value = {value: tangents.new(value) for values in outputs.values() for value in values}
    slots = {slot: [tangents_by_value[v] for v in values] for slot, values in outputs.items()}
    op.graph.add_op("assign" if is_shift else op.type, {s: v for s, v in inputs.items() if v}, slots, attrs, before=after, forward=op)
    return tangents_by_value


def _passed_on(tangents: Tangents, op: Op, moving: Sequence[str]) -> Value | None:
    """The tangent that is that of the output as well, if only one input moves and the output has its shape."""
    if op.definition is None or moving[0] not in op.definition.passed_on:
        return None
    values = list(op.reads())
    carriers = [v for v in values if v in tangents.tangent]
    # Without a known type the operand could have been broadcast, and its tangent would lack an axis.
    constant_shapes = [v.shape for v in values if v not in tangents.tangent]
    out = op.output("Out")
    is_known = carriers[0].kind == out.kind and carriers[0].type is not None and not any(s is None or -1 in s for s in constant_shapes)
    return tangents.tangent[carriers[0]] if len(carriers) == 1 and is_known and carriers[0].type == out.type else None


# -- bilinear and symmetric ----------------------------------------------------------------------


def _bilinear(tangents: Tangents, op: Op, moving: Sequence[str]) -> Found:
    (out,) = op.writes()
    after, terms = op.next, []
    for slot in moving:
        term = tangents.part(out) if len(moving) > 1 else tangents.new(out)
        inputs = {**op.inputs, slot: [tangents.tangent[op.input(slot)]]}
        op.graph.add_op(op.type, inputs, {next(iter(op.outputs)): [term]}, op.attrs, before=after, forward=op)
        terms.append(term)
    return {out: tangents.total(out, terms, after)}


def _symmetric(tangents: Tangents, op: Op, moving: Sequence[str]) -> Found:
    (slot_moving,), grad, (out,) = moving, grad_definition(op), op.writes()
    inputs = {slot: values for slot, at in grad.given if (values := getattr(op, at).get(slot))}
    ((cotangent, _),), ((tangent_slot, _), *_) = grad.cotangents, grad.written
    inputs[cotangent] = (tangents.tangent[op.input(slot_moving)],)
    tangent = tangents.new(out)
    op.graph.add_op(grad.type, inputs, {tangent_slot: [tangent]}, op.attrs, before=op.next, forward=op)
    return {out: tangent}


# -- nested graphs ---------------------------------------------------------------------------------
# Tangents through a graph and the graphs nested in it.
#
# while(h, i) { h = f(h) }        ⇒    while(h, i, h@TANGENT) { h = f(h); h@TANGENT = f'(h) h@TANGENT }
# if_else(c, x) -> y              ⇒    if_else(c, x, x@TANGENT) -> y, y@TANGENT


def follow(tangents: Tangents, path: OpPath) -> None:
    """Add the tangents of the results of the operators on a path."""
    for op in path.ops:
        if not op.graphs:
            through_operator(tangents, op, path)
        elif is_forward_loop(op):
            _through_loop(tangents, op, path)
        else:
            _through_branches(tangents, op, path)


def _through_loop(jvp: Tangents, op: Op, path: OpPath) -> None:
    """The loop carries tangents before its condition, and captures those of loop-invariant operands."""
    (body,) = op.graphs.values()
    moving, first = path.carried[op], carried_count(op)
    inputs, outs = operands(op), results_of(op)
    starts = [jvp.of(inputs[k], op) for k in moving]
    arguments = [jvp.given(body.inputs[k]) for k in moving]
    # Only then the body, which reads the tangents of its arguments.
    tangents = _pass_in(jvp, op, path, first)
    follow(jvp, path.inner[body])
    ends = [jvp.of(body.results[k], None) for k in moving]
    values = [jvp.new(outs[k]) for k in moving]
    slot = definition_of(op).operands
    op.graph.set_inputs(op, slot, [*inputs, *tangents])
    insert_carried(op, starts, arguments, ends, values)
    for k, tangent in zip(moving, values, strict=True):
        jvp.keep(outs[k], tangent)


def _through_branches(jvp: Tangents, op: Op, path: OpPath) -> None:
    """Every branch takes the same tangents, and returns those of the same results."""
    definition, around, inputs, outs = definition_of(op), op.graph, operands(op), results_of(op)
    moving, tangents = path.carried[op], _pass_in(jvp, op, path, 0)
    ends: list[list[Value]] = []
    for graph in op.graphs.values():
        follow(jvp, path.inner[graph])
        # A result that does not move in this branch has zeros there: it may move in the other one.
        ends.append([jvp.of(graph.results[k], None) for k in moving])
    values = [jvp.new(outs[k]) for k in moving]
    around.set_inputs(op, definition.operands, [*inputs, *tangents])
    insert_results(op, values, ends)
    for k, tangent in zip(moving, values, strict=True):
        jvp.keep(outs[k], tangent)


def _pass_in(tangents: Tangents, op: Op, path: OpPath, first: int) -> list[Value]:
    """Give nested graphs inputs for the tangents of operands, from one on, that they read; return the tangents, each once."""
    first_with: dict[Value, int] = {}
    for i, value in list(enumerate(operands(op)))[first:]:
        tangent = tangents.tangent.get(value)
        if tangent is None or not any(graph.inputs[i] in path.inner[graph].active for graph in op.graphs.values()):
            continue
        # Operands that are one value have one tangent, which is passed in once.
        first_place = first_with.setdefault(tangent, i)
        for graph in op.graphs.values():
            if first_place == i:
                graph.inputs = [*graph.inputs, tangents.given(graph.inputs[i])]
            else:
                tangents.tangent[graph.inputs[i]] = tangents.tangent[graph.inputs[first_place]]
    return list(first_with)


# -- the pass --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Jvp(Pass):
    """Add the tangents of targets: the product of their Jacobian with tangents of inputs.

    The tangent of a target ``y`` is a new target, ``y@TANGENT``. ``graph.analyses[Tangents]`` has it, should that name be taken.

    Args:
        targets: names of the values whose tangents are requested.
        inputs: names of the values that move; empty means every value given from outside that has not stop_gradient, except
            for one of unknown extents that blocks only pass through, which may have no value.
        tangents: for each input the name of its tangent; one that the graph has not becomes an input of it, to be fed. ``""``,
            or no names at all, is a tangent of ones.

    Raises:
        ValueError: numbers or types of inputs and tangents do not fit; an operator on the way has no gradient rule.
        Refused: a tensor on the way has no type.
    """

    name = "jvp"
    tolerance = ExpandGradOps.tolerance  # gradients on the way are expanded
    on_trial = OnTrial(rounds_gradients=True)
    establishes = (Tangents,)
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    tangents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.tangents and len(self.tangents) != len(self.inputs):
            raise InvalidValue(f"{len(self.tangents)} tangents are given for {len(self.inputs)} inputs")

    def apply(self, graph: Graph) -> bool:
        for name in self.inputs:
            graph.given(name)
        open_sealed(graph)
        path = self._path(graph)
        tangents = Tangents(path)
        for value, start in list(self._seeds(graph, path)):
            tangents.start(value, start)
        follow(tangents, path)
        for target in map(graph.value, self.targets):
            _ask_for(graph, tangents, target)
        graph.analyses[Tangents] = tangents
        return bool(self.targets)

    def _path(self, graph: Graph) -> OpPath:
        """The operators on the way from the inputs to the targets, gradients among them expanded."""
        find = FindOpPath(self.targets, self.inputs)
        find.apply(graph)
        _check_typed(graph.analyses[OpPath])
        if any(is_grad_op(op) for subgraph in graph.tree() for op in subgraph.ops):
            ExpandGradOps().apply(graph)
            find.apply(graph)
        path: OpPath = graph.analyses[OpPath]
        return path

    def _seeds(self, graph: Graph, path: OpPath) -> Iterator[tuple[Value, Value]]:
        values = [source_value(graph, name) for name in self.inputs] or list(path.sources)
        for value, name in zip(values, self.tangents or ("",) * len(values), strict=True):
            start = _named_start(graph, value, name) if name else None
            # By default only what surely has a value moves: a tangent of ones is made from the shape of the value at run time.
            if value in path.active and (start is not None or self.inputs or is_needed(value) or has_known_extents(value)):
                yield value, _ones(graph, value) if start is None else start


def _check_typed(path: OpPath) -> None:
    """Refused if a tensor that moves has no type: its tangent has that."""
    untyped = next((value for value in path.active if value.kind == TENSOR and value.type is None), None)
    if untyped is not None:
        raise Refused(f"value {untyped!r} has no type, which its tangent needs: declare its shape and dtype")
    for inner in path.inner.values():
        _check_typed(inner)


def is_needed(value: Value) -> bool:
    """Whether a value has to be there: an operator outside of all blocks reads it, or one inside cannot do without it.

    What blocks only pass through, or read if it is there, may have no value at all.
    """
    return bool(value.writers) or value.persistable or any(_needs(op, value) for op in value.readers)


def has_known_extents(value: Value) -> bool:
    return value.kind == TENSOR and value.shape is not None and -1 not in value.shape


def _needs(op: Op, value: Value) -> bool:
    if not op.graphs:
        return op.graph.parent is None or op.definition is None or not op.definition.partial
    # An operand that nested graphs only pass on is needed as far as a reader inside needs it.
    places = [i for i, operand in enumerate(operands(op)) if operand is value]
    inner = [graph.inputs[i] for graph in op.graphs.values() for i in places if i < len(graph.inputs)]
    return not places or any(_needs(reader, inside) for inside in inner for reader in inside.readers)


def _named_start(graph: Graph, value: Value, name: str) -> Value:
    is_declared = graph.block is not None and graph.block.has_var_recursive(name)
    start = graph.given(name) if is_declared or name in graph.values.by_name else graph.add_input(name, value.shape, value.dtype)
    check_start(value, start)
    return start


def _ones(graph: Graph, value: Value) -> Value:
    first = graph.ops.first if value.writer is None else value.writer.next
    ones = graph.add_value(value.name + TANGENT, value.shape, value.dtype)
    if is_needed(value) or not has_known_extents(value):
        graph.add_op("fill_any_like", {"X": [value]}, {"Out": [ones]}, {"value": 1.0}, before=first, forward=value.writer)
    else:
        attrs = {"shape": list(value.shape or ()), "value": 1.0, "dtype": value.dtype}
        graph.add_op("fill_constant", {}, {"Out": [ones]}, attrs, before=first)
    return ones


def _ask_for(graph: Graph, tangents: Tangents, target: Value) -> None:
    """Make the tangent of a target, under a name of its own, a target as well."""
    tangent = tangents.of(target, None)
    if tangent.given or tangent.persistable or tangent in graph.targets or tangent.name != f"{target.name}{TANGENT}":
        result = tangents.new(target)
        graph.add_op("assign", {"X": [tangent]}, {"Out": [result]}, forward=target.writer)
        tangent = result
    tangents.tangent[target] = tangent
    graph.targets |= {target: None, tangent: None}
