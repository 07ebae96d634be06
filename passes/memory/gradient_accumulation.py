"""Run forward and backward on parts of the batch in sequence, and update the parameters once.

    x, y ─▶ forward, backward ─▶ w@GRAD ─▶ sgd ─▶ w

      ⇒    i = 0; total = 0
           while i < k { x_i, y_i ─▶ forward, backward ─▶ w@GRAD;  total += w@GRAD;  i += 1 }
           total / k ─▶ w@GRAD ─▶ sgd ─▶ w

The peak memory is that of one part. The loss has to be a mean over the batch, or a sum: then its gradients are the mean,
or the sum, of those of the parts. The data are cut along axis 0 without copies. After ``data-parallel`` each rank's part of the batch is
cut, and what ranks send to each other they send once, around the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphad.errors import InvalidValue, Refused
from graphad.ir import Graph, Op, Value
from graphad.ir.edits import LOOP, add_region_op, outline
from graphad.ir.regions import is_grad_op, operands, results_of
from graphad.ir.residuals import residual_inputs
from graphad.passes.analyses.batch_dependence import GRADIENT_NAME, MEAN, MIXED, ROWS, TOTAL, WHOLE, BatchDependence, data_of
from graphad.passes.backward.prune_no_grad import STANDS_IN
from graphad.program import BACKWARD, EMPTY, FORWARD, located
from graphad.rewriting import OnTrial, Pass
from graphad.types import TENSOR, TENSOR_ARRAY, TensorType

# -- what may run in parts -------------------------------------------------------------------------
# Whether a training graph may run on parts of its batch, and how the results of the parts are combined.


class Training:
    """The part of a training graph that is to run on parts of the batch.

    Args:
        graph: a whole graph with its backward part.
        data: the values whose axis 0 is the batch.

    Attributes:
        inside: the operators that depend on the batch, and the backward part, in order; without what ranks send to each other.
        in_rows: those among them, and in their nested graphs, whose attribute says the shape of rows of the batch.

    Raises:
        Refused: the graph cannot be run in parts; the message says why.
    """

    def __init__(self, graph: Graph, data: Sequence[Value]) -> None:
        self.graph = graph
        self.data = list(data)
        ops = graph.ordered_ops()
        self.kinds = BatchDependence(frozenset(data), in_blocks=True).of(graph)
        # What follows from the batch is repeated for each part; what does not, such as a learning rate, is computed once.
        self.inside = [
            op for op in ops if op.role == BACKWARD or (op.role == FORWARD and any(self.kinds[value] != WHOLE for value in op.writes()))
        ]
        self.sent = _sent(self.inside)
        self.inside = [op for op in self.inside if op not in self.sent]
        if not data:
            raise Refused("nothing is given that could be cut into parts: every input is persistable")
        if not any(op.role == BACKWARD for op in self.inside):
            raise Refused("the graph has no backward part, so there are no gradients to accumulate")
        self.in_rows: list[Op] = []
        for op in _with_nested(self.inside):
            _check_repeatable(op)
            self._check_shape(op)
        self._check_order(ops)
        self.loss = self._kind_of_loss()

    def _check_order(self, ordered: Sequence[Op]) -> None:
        """Nothing outside may be between two operators inside."""
        # ``after``: what depends on the inside, and is outside. If the inside depends on that in turn, no single loop can hold the inside.
        inside, after = set(self.inside), set[Value]()
        for op in ordered:
            if op in inside and any(value in after for value in op.reads()):
                raise Refused(located(f"{op!r} needs what is computed from gradients: the parts cannot run one by one", op.source))
            if op not in inside and any(value in after or inside.intersection(value.writers) for value in op.reads()):
                after.update(op.writes())

    def _check_shape(self, op: Op) -> None:
        """A constant with as many rows as the batch would have too many in a part, unless it is known to be made like rows of it."""
        # Only a suspicion, by the number: a wrong refusal costs an error message, a wrong constant a wrong gradient.
        shape, rows = op.attrs.get("shape"), self.data[0].shape and self.data[0].shape[0]
        if op.inputs or not shape or len(shape) < 2 or shape[0] != rows:
            return
        kinds = self._kinds_of_model(op.output("Out").name)
        if kinds == {ROWS}:
            self.in_rows.append(op)
        elif not kinds or kinds & {ROWS, MIXED}:
            why = f"has the {rows} rows of the batch: run this pass before the one that made it"
            raise Refused(located(f"{op!r}, of shape {list(shape)}, {why}", op.source))

    def _kinds_of_model(self, name: str) -> set[str]:
        """The kinds of the value that a constant of the backward is shaped like: zeros for its gradient, or a placeholder for it in a
        block."""
        match = GRADIENT_NAME.match(name)
        if match is None and not name.endswith(STANDS_IN):
            return set()
        model = match[1] if match else name.removesuffix(STANDS_IN)
        return {self.kinds[value] for graph in self.graph.tree() for value in graph.versions(model) if value in self.kinds}

    # -- the loss --------------------------------------------------------------------------------

    def _kind_of_loss(self) -> str:
        """The kind of the losses over the batch: a mean or a sum."""
        # Mean and sum may not be mixed: gradients are scaled once, after the loop, all alike.
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
        for op in (*self.inside, *self.sent):
            if not _is_seed(op):
                continue
            # A loss of known shape starts from a constant, which only its name relates to the loss.
            match = GRADIENT_NAME.match(op.output("Out").name)
            if "X" in op.inputs:
                yield op.input("X")
            elif match and match[1] in self.graph.values.by_name:
                yield from self._of_rank(self.graph.versions(match[1])[-1])

    def _of_rank(self, value: Value) -> Iterator[Value]:
        """The values of this rank that a value of all ranks is made of; else the value itself."""
        if not any(writer in self.sent for writer in value.writers):
            yield value
            return
        for operand in dict.fromkeys(v for writer in value.writers for v in writer.reads()):
            yield from (v for v in self._of_rank(operand) if any(writer.role == FORWARD for writer in v.writers))

    def _why(self, value: Value) -> str:
        """The first operator on the way to a value that does more than the rows allow."""
        for op in self.inside:
            values = [v for v in op.writes() if self.kinds.get(v) not in (MEAN, TOTAL, WHOLE, "rows", None)]
            if values:
                statistics = ", which uses statistics of the batch" if op.definition is not None and op.definition.statistics else ""
                return located(f"{op!r}{statistics} is no operation on each row", op.source)
        return f"it is {value!r}, row by row" if self.kinds.get(value) == "rows" else "nothing sums it over the batch"

    # -- results ---------------------------------------------------------------------------------

    def results(self) -> dict[Value, str]:
        """The values that are read or requested outside, each a mean or a sum of the results of the parts."""
        inside = set(self.inside)
        values = [v for op in self.inside for v in op.writes() if self.graph.is_observed(v) or any(r not in inside for r in v.readers)]
        return {value: self._kind(value) for value in values}

    def _kind(self, value: Value) -> str:
        writer = value.writers[0]
        if writer.role == FORWARD:
            kind = self.kinds[value]
            if kind not in (MEAN, TOTAL):
                raise Refused(f"{value.name!r} is requested, which is neither a mean nor a sum over the batch: {self._why(value)}")
            return kind
        # A graph that was read from a file has no ``grad_of``: there the name says what it is the gradient of.
        name = GRADIENT_NAME.match(value.name)
        of = value.grad_of or (self.graph.versions(name[1])[0] if name and self.graph.versions(name[1]) else None)
        if of is None or of.writers or self.kinds.get(of, WHOLE) != WHOLE:
            raise Refused(f"{value.name!r} is requested, which is not the gradient of a parameter")
        return self.loss


def _sent(ops: Sequence[Op]) -> dict[Op, None]:
    """The collectives that run once for all parts of the batches, as ``data-parallel`` adds them.

    x ─▶ shape ─▶ c_allgather ─▶ share of the rows        before the loop: what no part of the batch is needed for
    w@GRAD@PART ─▶ c_allreduce_sum ─▶ w@GRAD              after it: what depends on results of the loop
    """
    collectives = [op for op in ops if op.definition is not None and op.definition.ordered]
    if not collectives:
        return {}
    of_forward, of_gradients, complete = set[Value](), set[Value](), set[Value]()
    for op in ops:
        reads = list(op.reads())
        if op.role == FORWARD or not of_forward.isdisjoint(reads):
            of_forward.update(op.writes())
        # Complete: gradients of parameters, and what is made of them alone, as a bucket.
        if op.role == BACKWARD and reads and not is_grad_op(op) and all(v in complete or _is_of_parameter(v) for v in reads):
            complete.update(op.writes())
        elif op.role == BACKWARD and (_is_seed(op) or is_grad_op(op) or not of_gradients.isdisjoint(reads)):
            of_gradients.update(op.writes())
    # Before the loop: collectives that need nothing of the forward part, what leads to them, and what follows from both alone.
    early = {op for op in ops if of_forward.isdisjoint(op.writes())}
    sent = dict.fromkeys(op for op in collectives if op in early)
    _spread(sent, early)
    # After it: the other ones, and what follows from them; before them what is made of complete gradients or of no gradient.
    sent.update(dict.fromkeys(op for op in collectives if op not in early))
    late = {value for op in collectives if op not in early for value in op.writes()}
    for op in ops:
        if op.role == BACKWARD and not late.isdisjoint(op.reads()):
            sent[op] = None
            late.update(op.writes())
    for op in reversed(ops):
        readers = {reader for value in op.writes() for reader in value.readers}
        if op.role == BACKWARD and op not in early and of_gradients.isdisjoint(op.writes()) and readers and readers <= sent.keys():
            sent[op] = None
    return sent


def _is_of_parameter(value: Value) -> bool:
    """Whether a value is the gradient of a parameter, by its name."""
    name = GRADIENT_NAME.match(value.name)
    of = value.graph.versions(name[1]) if name else ()
    return bool(of) and of[0].persistable and not of[0].writers


def _is_seed(op: Op) -> bool:
    """Whether a backward may begin with what an operator makes."""
    return op.role == BACKWARD and op.definition is not None and op.definition.fills == "value" and bool(op.attrs.get("value"))


def _spread(sent: dict[Op, None], among: set[Op]) -> None:
    """Extend a set of operators by those among the candidates that they depend on or that depend on them."""
    pending = list(sent)
    while pending:
        op = pending.pop()
        near = [*(w for value in op.reads() for w in value.writers), *(r for value in op.writes() for r in value.readers)]
        new = [other for other in near if other in among and other not in sent]
        sent.update(dict.fromkeys(new))
        pending += new


def _with_nested(ops: Iterable[Op]) -> Iterator[Op]:
    """Operators, each followed by those in its nested graphs."""
    for op in ops:
        yield op
        yield from (inner for graph in op.graphs.values() for subgraph in graph.tree() for inner in subgraph.ops)


def _check_repeatable(op: Op) -> None:
    definition = op.definition
    if definition is None or definition.side_effect:
        why = "is not known" if definition is None else "has effects"
        raise Refused(located(f"operator {op.type!r} {why}, so it cannot run once for each part of the batch", op.source))
    if definition.random:
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


# -- the loop over parts ---------------------------------------------------------------------------
# Turn a net into a loop over parts of its data, which adds up its results.
#
# net(x, w) { ... } -> g      ⇒      parts = x, cut into an array;  i = 0
#                                    while(total, i, i < k, w, parts) { x = parts[i]; ...; total = total + g; i = i + 1 }
#                                    g = total / k

Slots = Mapping[str, Sequence[Value]]
_INDEX, _FLAG = TensorType((1,), "int64"), TensorType((1,), "bool")


def make_loop(net: Op, data: Sequence[Value], kinds: Mapping[Value, str], count: int) -> Op:
    """Put a loop in the place of a net.

    Args:
        net: a ``net`` without gradient.
        data: the operands that are cut into parts along axis 0.
        kinds: of each result whether it is the mean or the sum of the results of the parts.
        count: how many parts.
    """
    graph, (body,) = net.graph, net.graphs.values()
    inputs, results = operands(net), results_of(net)
    for value in results:
        if value.type is None:
            graph.set_type(value, *(_gradient_type(graph, value) or (None, None)))
    # Outside the loop: its counter and condition, totals that start from zero, and each piece of data as an array of its parts.
    limit, number = _constant(graph, "parts@COUNT", count, net), _constant(graph, "parts@INDEX", 0, net)
    condition = _written(graph, "less_than", {"X": [number], "Y": [limit]}, "parts@MORE", _FLAG, net)
    starts = [_zeros(graph, value, net) for value in results]
    arrays = [_in_parts(graph, value, count, net) for value in data]
    carried_values = [_input(body, value) for value in (*starts, number, condition)]
    inner_arrays, inner_limit = [_input(body, value) for value in arrays], _input(body, limit)
    # Inside: the parts by their number in the place of the data, then the new totals and the next number.
    first = body.ops.first
    for value, array in zip(data, inner_arrays, strict=True):
        _read_part(body, body.inputs[inputs.index(value)], array, carried_values[-2], first)
    constants = [v for v, outside in zip(body.inputs, inputs, strict=True) if outside not in data]
    survivors = set(constants)
    for value in [v for v in body.inputs if v not in survivors]:
        body.drop(value)
    _retype(body)
    totals = [_next(body, "sum", {"X": [total, value]}, total) for total, value in zip(carried_values, body.results, strict=False)]
    index = _next(body, "increment", {"X": [carried_values[-2]]}, carried_values[-2])
    body.results = [*totals, index, _next(body, "less_than", {"X": [index], "Y": [inner_limit]}, carried_values[-1])]
    body.inputs = [*carried_values, *constants, *inner_arrays, inner_limit]
    reads = [*starts, number, condition, *(v for v in inputs if v not in data), *arrays, limit]
    loop = _replaced(net, body, reads)
    # A mean is that of the parts' means, since the parts are of one size.
    after = loop.next
    for value, total in zip(results, results_of(loop), strict=False):
        attrs = {"scale": 1.0 / count} if kinds[value] == MEAN else {}
        graph.add_op("scale", {"X": [total]}, {"Out": [value]}, attrs, before=after, role=BACKWARD)
    graph.remove_op(net)
    return loop


def _replaced(net: Op, body: Graph, reads: Sequence[Value]) -> Op:
    """The loop before the net, which has no graphs any more."""
    graph, starts = net.graph, reads[: len(body.results)]
    # The body moves from the net to the loop: a graph has one owner.
    net.graphs = {}
    graph.controls.pop(net, None)
    outs = [graph.add_version(value.name, value.shape, value.dtype) for value in starts]
    return add_region_op(graph, LOOP, [body], reads, outs, before=net, role=BACKWARD)


# -- around the loop -----------------------------------------------------------------------------


def _written(graph: Graph, op_type: str, inputs: Slots, stem: str, type: TensorType, before: Op, **attrs: object) -> Value:
    result = graph.add_value(stem, *type)
    graph.add_op(op_type, inputs, {"Out": [result]}, attrs, before=before, role=BACKWARD)
    return result


def _constant(graph: Graph, stem: str, number: int, before: Op) -> Value:
    return _written(graph, "fill_constant", {}, stem, _INDEX, before, shape=[1], value=float(number), dtype="int64")


def _zeros(graph: Graph, value: Value, before: Op) -> Value:
    """The initial value of a total: zeros of the type of a result, which does not depend on the batch."""
    type = TensorType(value.shape or (), value.dtype or "float32")
    return _written(graph, "fill_constant", {}, f"{value.name}@TOTAL", type, before, shape=list(type.shape), dtype=type.dtype)


def _in_parts(graph: Graph, value: Value, count: int, before: Op) -> Value:
    """The parts of data as an array; they are views of the data."""
    rows, *rest = value.shape or ()
    size = -1 if rows == -1 else rows // count
    dtype = value.dtype or "float32"
    # (rows, ...) as (parts, rows / parts, ...): consecutive rows, so a reshape and views instead of copies.
    type = TensorType((count, size, *rest), dtype)
    pieces = _written(graph, "reshape", {"X": [value]}, f"{value.name}@CUT", type, before, shape=[count, size, *rest])
    array = _written(graph, "tensor_to_tensor_array", {"X": [pieces]}, f"{value.name}@PARTS", TensorType((size, *rest), dtype), before)
    array.kind = TENSOR_ARRAY
    return array


# -- inside --------------------------------------------------------------------------------------


def _input(body: Graph, value: Value) -> Value:
    """An argument of the body, with the type and, if it is free, the name of a value around."""
    result = body.add_value(value.name, value.shape, value.dtype)
    result.kind, result.given = value.kind, True
    return result


def _read_part(body: Graph, source: Value, array: Value, index: Value, before: Op | None) -> None:
    part = body.add_value(f"{source.name}@PART", array.shape, array.dtype)
    body.add_op("read_from_array", {"X": [array], "I": [index]}, {"Out": [part]}, before=before, role=FORWARD)
    body.replace(source, part)


def _next(body: Graph, op_type: str, inputs: Slots, value: Value) -> Value:
    """The next version of a carried value."""
    result = body.add_version(value.name, value.shape, value.dtype)
    body.add_op(op_type, inputs, {"Out": [result]}, role=BACKWARD)
    return result


def _retype(body: Graph) -> None:
    """Infer the types in the body again: a part has fewer rows than the batch. A gradient has the type of its value."""
    # In order, so that inference sees the new types of operands.
    for op in body.ordered_ops():
        definition = op.definition
        if op.graphs:
            _retype_blocks(op)
            continue
        # What is read out of an array has the type of the array's elements, which are parts already.
        if definition is None or definition.like:
            continue
        operand_types = {slot: [v.type or TensorType((), "float32") for v in values] for slot, values in op.inputs.items()}
        types = definition.infer_types(operand_types, definition.own_attrs(op.attrs))
        for slot, values in op.outputs.items():
            for i, value in enumerate(values):
                _set_type(value, types[slot][i] if slot in types else _gradient_type(body, value))


def _retype_blocks(op: Op) -> None:
    """The same in the graphs nested in an operator, and for what comes out of them."""
    for graph in op.graphs.values():
        for value, outside in (*zip(graph.inputs, operands(op), strict=False), *residual_inputs(graph).items()):
            _set_type(value, outside.type)
        _retype(graph)
        for value, result in zip(results_of(op), graph.results, strict=True):
            _set_type(value, result.type)


def _set_type(value: Value, type: TensorType | None) -> None:
    if value.name != EMPTY and type is not None and type != value.type and value.kind == TENSOR:
        value.graph.set_type(value, *type)
        value.var = None


def _gradient_type(body: Graph, value: Value) -> TensorType | None:
    if value.grad_of is not None:
        return value.grad_of.type
    match = GRADIENT_NAME.match(value.name)
    of = body.versions(match[1]) if match else ()
    return of[-1].type if of else None


# -- the pass --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GradientAccumulation(Pass):
    """Compute the gradients of parts of the batch in a loop, and add them up.

    Sums are taken in another order, so results differ by rounding. A batch whose size only a run knows has to be divisible then.

    Args:
        micro_batches: how many parts; they are of one size.
        inputs: names of the data; empty: all that is given and not persistable.

    Raises:
        Refused: the graph has no backward part; the loss is neither a mean nor a sum over the batch; something is requested that
            is not a gradient of a parameter, mean or sum; an operator draws random numbers; the batch decides how a loop or branch
            runs; the batch is not divisible.
        ValueError: ``micro_batches`` is below 1.
    """

    name = "gradient-accumulation"
    tolerance = 1e-5
    on_trial = OnTrial(programs=("trainable",), after_backward=True)
    micro_batches: int = 2
    inputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.micro_batches < 1:
            raise InvalidValue(f"a batch is cut into 1 part at least, not into {self.micro_batches}")

    def apply(self, graph: Graph) -> bool:
        if self.micro_batches == 1:
            return False
        training = Training(graph, data_of(graph, self.inputs))
        kinds = training.results()
        check_cut(training.data, self.micro_batches)
        if not graph.allows("accumulate", *training.inside[:1]):
            return False
        # Shapes in attributes that have the number of rows of the batch: in the loop they are those of a part.
        for op in training.in_rows:
            rows, *rest = op.attrs["shape"]
            op.graph.set_attr(op, "shape", [rows // self.micro_batches, *rest])
        make_loop(outline(training.inside), training.data, kinds, self.micro_batches)
        return True
