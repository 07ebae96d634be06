"""Shared parts of the passes that split a batch over ranks: the rows of a rank, and how values and gradients depend on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphad.errors import GraphadError, InvalidValue, Refused
from graphad.ir import Builder, Graph, Op, Value
from graphad.ir.regions import KEPT, Edge
from graphad.ir.residuals import forward_graph
from graphad.ops import GRAD, GradOpDef, lookup
from graphad.passes.analyses.batch_dependence import GRADIENT_NAME, MEAN, MIXED, ROWS, TOTAL, WHOLE, BatchDependence
from graphad.passes.analyses.proportional import proportional
from graphad.program import BACKWARD, FORWARD, OPTIMIZE, located
from graphad.rewriting.constants import uniform_number
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.types import Tensor, TensorType

UNUSUAL = 1009  # rows: a prime number that no extent of a program is likely to be


@dataclass(frozen=True)
class Seed:
    """A seed of a backward: the cotangent of a loss, and how the loss depends on the batch."""

    op: Op
    loss: Value
    kind: str


@dataclass(frozen=True)
class Batch:
    """The dependence of the values of a graph with its backward part on the batch.

    Attributes:
        seeds: where the backward begins.
        kinds: what values of the forward part are of the batch, once gradients are those of the whole batch.
        gradients: the accumulated gradients of parameters, as ``gradients`` finds them.
    """

    seeds: list[Seed]
    kinds: Facts[str]
    gradients: list[Value]

    @classmethod
    def of(cls, graph: Graph, data: Sequence[Value], assumed: str = "") -> Batch:
        """Find them.

        Args:
            graph: a whole graph with its backward part.
            data: the values whose axis 0 is the batch.
            assumed: ``mean`` or ``sum``: what losses are of which that does not follow from their operators.

        Raises:
            Refused: there is no backward part, its loss is not in the graph, or is neither a mean nor a sum.
        """
        # Complete gradients are those of the whole batch already; losses are found where the backward begins.
        complete, starts = gradients(graph), dict(_losses(graph))
        facts = _with_gradients(graph, BatchDependence(frozenset(data)), list(starts), complete)
        kinds, seeds = facts.of(graph), list[Seed]()
        parts = {*complete, *(value for value, kind in facts.gradients if kind == MIXED)}
        for op, loss in starts.items():
            for part in (value for value in _made_of(loss) if value in parts):
                # Each rank would differentiate its own part of it.
                raise Refused(
                    located(f"the loss {loss.name!r} is made of {part.name!r}, a gradient that is not known to be one of rows", op.source)
                )
            seeds.append(Seed(op, loss, _kind(kinds[loss], loss, assumed)))
        if not starts:
            raise Refused("no loss is found: the backward part begins with a constant, the gradient of the loss")
        return cls(seeds, kinds, complete)

    def check_starts(self, graph: Graph) -> None:
        """Refused unless every gradient of a parameter is proportional to where the backward begins, and that of its own loss."""
        for seed in self.seeds:
            for loss in _differentiated(seed.op.output("Out")):
                # One constant starts both: it cannot be scaled for one of them alone.
                if self.kinds[loss] != self.kinds[seed.loss]:
                    raise Refused(
                        f"the gradients of {seed.loss.name!r} and {loss.name!r} begin with one constant: one is a mean, one is not"
                    )
        proportional = _Proportional(graph, [seed.op for seed in self.seeds])
        for value in self.gradients:
            if value not in proportional and uniform_number(value) != 0.0:
                raise Refused(f"it does not follow from the operators that {value.name!r} is proportional to the gradient of a loss")


class _Proportional:
    """The values that are proportional to one start of a backward, or to all of them."""

    def __init__(self, graph: Graph, starts: Sequence[Op]) -> None:
        # Each start alone, and all together: a sum of proportional values is proportional to the constants as a whole.
        groups = [starts, *([op] for op in starts)] if len(starts) > 1 else [starts]
        self.sets = [proportional(graph, group) for group in groups]

    def __contains__(self, value: Value) -> bool:
        return any(value in values for values in self.sets)


def _with_gradients(graph: Graph, facts: BatchDependence, starts: Sequence[Op], complete: Sequence[Value]) -> BatchDependence:
    """The analysis, with what it has to know of gradients that the forward part reads: in programs with gradients of gradients."""
    values = [v for op in graph.ordered_ops() if op.role == BACKWARD for v in op.writes() if any(r.role == FORWARD for r in v.readers)]
    if not values:
        return facts
    proportional = _Proportional(graph, starts)
    for value in (value for value in values if value not in complete):
        # The gradient of rows is one of rows, and of the whole batch where it is proportional to what the share is multiplied with.
        of = value.grad_of or next(reversed(graph.versions(value.name.removesuffix(GRAD))), None)
        is_of_rows = of is not None and of.shape == value.shape and facts.of(graph)[of] == ROWS and value in proportional
        facts = replace(facts, gradients=facts.gradients | {(value, ROWS if is_of_rows else MIXED)})
    return facts


def _made_of(value: Value) -> Iterator[Value]:
    """The values that the forward part makes a value of, and those of the backward part that it reads."""
    stack, visited = [value], {value}
    while stack:
        value = stack.pop()
        yield value
        values = dict.fromkeys(v for op in value.writers if op.role == FORWARD for v in op.reads() if v not in visited)
        visited.update(values)
        stack += values


def _losses(graph: Graph) -> Iterator[tuple[Op, Value]]:
    for op in graph.ordered_ops():
        definition, result = op.definition, next(op.writes(), None)
        if op.role != BACKWARD or definition is None or result is None or not op.attrs.get("value"):
            continue
        # A loss of known shape starts from a constant, which only its name relates to the loss; else from ``fill_any_like`` of it.
        name = GRADIENT_NAME.match(result.name)
        if definition.of_shape and op.inputs:
            yield op, next(op.reads())
        elif not op.inputs and name:
            loss = next(reversed(graph.versions(name[1])), None)
            if loss is None:
                raise Refused(
                    f"the backward part begins with {result.name!r}, and nothing computes {name[1]!r}, of which it is the gradient"
                )
            yield op, loss


def _differentiated(cotangent: Value) -> Iterator[Value]:
    """The values that a value is the cotangent of, as the gradient operators say that read it."""
    for op in cotangent.readers:
        definition = op.definition
        if not isinstance(definition, GradOpDef) or definition.forward is None:
            continue
        inputs = {slot: op.inputs.get(slot) for slot, side in definition.given if side == "inputs"}
        forward_ops = [f for v in op.reads() for f in v.readers if f.type == definition.forward.type]
        forward_ops = [f for f in forward_ops if all(f.inputs.get(slot) == values for slot, values in inputs.items())]
        for slot, out in definition.cotangents:
            if cotangent in op.inputs.get(slot, ()):
                yield from op.inputs.get(out) or [value for f in forward_ops[:1] for value in f.outputs.get(out, ())]


def _kind(kind: str, loss: Value, assumed: str) -> str:
    if kind in (MEAN, TOTAL, WHOLE):
        return kind
    # The sum of rows is a total.
    if kind == "rows":
        return TOTAL
    if assumed:
        return MEAN if assumed == "mean" else TOTAL
    writer = loss.writer
    suffix = "" if writer is None else located("", writer.source)
    raise Refused(
        f"it does not follow from the operators that the loss {loss.name!r} is a mean or a sum over the batch (a loop, random numbers, or"
        f" statistics of the batch are on the way): say which with loss=mean or loss=sum{suffix}"
    )


def gradient_of(value: Value) -> Value | None:
    """The value whose gradient this one is, by its note, else by its name."""
    name = GRADIENT_NAME.match(value.name)
    return value.grad_of or next(reversed(value.graph.versions(name[1])), None) if name else value.grad_of


def gradients(graph: Graph) -> list[Value]:
    """The accumulated gradients of parameters, in the order in which they are computed; a program may have more than one backward.

    They are what the backward writes for a persistable value, by the value's note or its name, and what it passes to the update. What is
    made of one of them, as with decay, is none.
    """
    parameters = [value for value in graph.inputs if value.persistable]
    names, known_parameters = {f"{value.name}{GRAD}" for value in parameters}, set(parameters)
    results: list[Value] = []
    made_of_one: set[Value] = set()
    for op in graph.ordered_ops():
        # What is made of a gradient, by clipping for instance, each rank computes from the reduced one.
        if any(value in made_of_one for value in op.reads()):
            made_of_one.update(op.writes())
            continue
        for value in op.writes() if op.role == BACKWARD else ():
            is_update = any(reader.role == OPTIMIZE for reader in value.readers)
            # The last writer: before, several writers may each have a term.
            if value.writers[-1] is op and (value.name in names or value.grad_of in known_parameters or is_update):
                results.append(value)
                made_of_one.add(value)
    return results


# -- values between a writer and its readers -------------------------------------------------------


def own_part(value: Value) -> tuple[Value, Builder]:
    """A new value for what this rank has of another one, and what adds operators after the writer of that; ``interpose`` ends it."""
    graph, writer = value.graph, value.writers[-1]
    part = graph.add_value(f"{value.name}@PART", value.shape, value.dtype)
    part.kind = value.kind
    return part, Builder(graph, value.name, before=writer.next, role=BACKWARD, forward=writer)


def interpose(value: Value, part: Value, new_value: Value) -> None:
    """Let the writer of a value write the part in its place; the value is what has been made of the part."""
    writer = value.writers[-1]
    written_as(new_value, value)
    value.graph.replace_output(writer, value, part)


def written_as(new_value: Value, value: Value) -> None:
    """Let the operator that writes a value write another one in its place."""
    value.graph.replace_output(new_value.writers[0], new_value, value)


class Share:
    """This rank's share of the batch, as values of the graph: a constant where all parts are of one size."""

    def __init__(self, graph: Graph, data: Sequence[Value], ranks: int, before: Op, dtype: str, equal: bool) -> None:
        self.ranks = ranks
        self.equal = equal
        if not equal:
            build = Builder(graph, "share", before=before, role=BACKWARD)
            extents = lookup("shape")(build.symbol(data[0]))
            # Rows of unknown number: each rank tells the others how many it has, once per step.
            rows = lookup("cast")(lookup("slice")(extents, axes=[0], starts=[0], ends=[1]), out_dtype=dtype)
            gathered = lookup("c_allgather")(rows, nranks=ranks)
            self.weight: Value = (rows / lookup("reduce_sum")(gathered, dim=[0], keep_dim=True)).value

    def of(self, build: Builder, value: Tensor) -> Tensor:
        """A value, times the rank's share."""
        if self.equal:
            # A constant, so that nothing is communicated.
            return value * (1.0 / self.ranks)
        weight = build.symbol(self.weight)
        if weight.dtype != value.dtype:
            weight = lookup("cast")(weight, out_dtype=value.dtype)
        return value * (lookup("reshape")(weight, shape=[]) if value.shape == () else weight)

    def total(self, build: Builder, value: Value, kind: str) -> Value:
        """The mean or the sum over the whole batch, of those of the parts."""
        part = build.symbol(value)
        part = self.of(build, part) if kind == MEAN else part
        column = lookup("unsqueeze")(part, axes=[0])
        gathered = lookup("c_allgather")(column, nranks=self.ranks)
        result: Value = lookup("reduce_sum")(gathered, dim=[0]).value
        return result


# -- types on a rank -----------------------------------------------------------------------------


def with_rows(graph: Graph, data: Sequence[Value], ranks: int) -> bool:
    """Give the data the rows that a rank has; whether these are known, and as many for each.

    Raises:
        Refused: an operator has the number of rows written in an attribute, or reads what has as many beside the data; a name stands for
            rows and for something else.
    """
    shapes = [value.shape for value in data]
    if any(not shape for shape in shapes):
        raise Refused(f"{data[[not s for s in shapes].index(True)].name!r} has no axis 0 that could be cut")
    rows = [shape[0] for shape in shapes if shape]
    if all(count == -1 for count in rows):
        return False
    counts = {count for count in rows if count != -1}
    if any(count < ranks for count in counts):
        raise Refused(f"{min(counts)} rows cannot be shared out to {ranks} ranks")
    if len(counts) > 1:
        raise Refused(f"the data have {sorted(counts)} rows: name those that are cut with inputs=[...]")
    count = counts.pop()
    # Parts of two sizes have no static number of rows; but each has to fit what is read beside it.
    sizes = [count // ranks, count // ranks + 1, -1] if count % ranks else [count // ranks]
    facts = [_RankTypes(frozenset(data), size).of(graph) for size in sizes][-1]
    types = {value: type for value, type in facts.items() if type is not None and value.type is not None}
    # First, so that what keeps the name also keeps its declaration.
    for value in _of_other_types(graph, types):
        value.graph.rename(value, value.graph.values.numbered(value.name, "{}@WHOLE@{}"))
        value.var = None
    for value, type in types.items():
        if type != value.type:
            value.graph.redeclare(value, type.shape, type.dtype)
    return count % ranks == 0


def check_any_rows(graph: Graph, data: Sequence[Value]) -> None:
    """Refused if an operator does not fit any number of rows, where that is not declared: a rank has another one than one process has."""
    if all(value.shape and value.shape[0] == -1 for value in data):
        # One, of which there may be no more; and as many as nothing in the program has, so that nothing fits by chance.
        for rows in (1, UNUSUAL):
            _RankTypes(frozenset(data), rows).of(graph)


def _of_other_types(graph: Graph, types: Mapping[Value, TensorType]) -> list[Value]:
    """The values that cannot keep the names of variables any more, since those are of other types on a rank.

    Raises:
        Refused: a value has to keep its name, and another one as well.
    """
    by_variable: dict[tuple[object, str], list[Value]] = {}
    for value in (value for subgraph in graph.tree() for value in subgraph.values):
        if value in types and value.var is not None:
            by_variable.setdefault((value.var.block, value.name), []).append(value)
    others = []
    for (_, name), values in by_variable.items():
        # Of several types in one process already, or of one on a rank as well: nothing has come apart.
        if len({value.type for value in values}) > 1 or len({types[value] for value in values}) < 2:
            continue
        bound = [value for value in values if value.given or value.graph.is_observed(value)]
        if len({types[value] for value in bound}) > 1:
            raise Refused(f"{name!r} is given or requested both as rows of the batch and as a value of another type: give one another name")
        type = types[(bound or values)[0]]
        others += [value for value in values if types[value] != type]
    return others


@dataclass(frozen=True)
class _RankTypes(Dataflow[TensorType | None]):
    """The types of values where the data have so many rows; -1: not known. A gradient has the type of its value.

    Raises, where they are computed:
        Refused: an operator does not fit them.
    """

    data: frozenset[Value]
    rows: int
    bottom, top = None, None

    def join(self, a: TensorType | None, b: TensorType | None) -> TensorType | None:
        if a is None or b is None or a == b:
            return a or b
        if a.shape[1:] == b.shape[1:] and a.shape and b.shape and -1 not in (a.shape[0], b.shape[0]):
            raise Refused(
                f"a loop or branch does not fit the part of the batch that a rank has: it gives {a} in one way and {b} in another"
            )
        return a

    def along(self, edge: Edge, fact: TensorType | None) -> TensorType | None:
        return None if edge.kind == KEPT else fact

    def boundary(self, value: Value) -> TensorType | None:
        type = value.type
        return TensorType((self.rows, *type.shape[1:]), type.dtype) if value in self.data and type is not None else type

    def transfer(self, op: Op, facts: Facts[TensorType | None]) -> dict[Value, TensorType | None]:
        definition = op.definition
        if definition is None:
            return {value: value.type for value in op.writes()}
        operand_types = {slot: [facts[v] or v.type or TensorType((), "float32") for v in values] for slot, values in op.inputs.items()}
        try:
            types = definition.infer_types(operand_types, definition.own_attrs(op.attrs))
        except GraphadError as error:
            raise Refused(located(f"{op!r} does not fit the part of the batch that a rank has: {error}", op.source)) from error
        is_gradient = isinstance(definition, GradOpDef)
        return {
            value: _type_of(value, types.get(slot, ())[i : i + 1], facts, is_gradient)
            for slot, values in op.outputs.items()
            for i, value in enumerate(values)
        }


def _type_of(value: Value, inferred: Sequence[TensorType], facts: Facts[TensorType | None], is_gradient: bool) -> TensorType | None:
    if is_gradient and value.grad_of is not None:
        return facts[value.grad_of] or value.grad_of.type
    if inferred or not is_gradient:
        return inferred[0] if inferred else value.type
    # A gradient that reads nothing in the shape of its result, and has no note, as of a program: its name says what it is the gradient of.
    source = gradient_of(value) or _in_forward(value)
    return facts[source] or value.type if source is not None and source.type == value.type else value.type


def _in_forward(value: Value) -> Value | None:
    """The forward value that a gradient in a block belongs to, by name, in the forward graph of the block; None if there is none."""
    name, forward = GRADIENT_NAME.match(value.name), forward_graph(value.graph)
    return next(reversed(forward.versions(name[1])), None) if name and forward is not None else None


def check_ranks(what: str, ranks: int) -> None:
    """ValueError unless there is a rank."""
    if ranks < 1:
        raise InvalidValue(f"{what} takes 1 rank at least, not ranks={ranks}")
