"""Turn a net into a loop over parts of its data, which adds up its results.

net(x, w) { ... } -> g      ⇒      parts = x, cut into an array;  i = 0
                                   while(total, i, i < k, w, parts) { x = parts[i]; ...; total = total + g; i = i + 1 }
                                   g = total / k
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graphad.edit import LOOP, add_region_op
from graphad.graph import Graph, Op, Value
from graphad.graph.regions import operands, outcomes
from graphad.passes.analyses.batch_dependence import MEAN
from graphad.program import BACKWARD, EMPTY, FORWARD
from graphad.types import TENSOR_ARRAY, TensorType

Slots = Mapping[str, Sequence[Value]]
_GRADIENT = re.compile(r"(.+?)@GRAD")
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
    given, results = operands(net), outcomes(net)
    for value in results:
        if value.type is None:
            graph.set_type(value, *(_gradient_type(graph, value) or (None, None)))
    limit, number = _constant(graph, "parts@COUNT", count, net), _constant(graph, "parts@INDEX", 0, net)
    more = _written(graph, "less_than", {"X": [number], "Y": [limit]}, "parts@MORE", _FLAG, net)
    starts = [_zeros(graph, value, net) for value in results]
    arrays = [_in_parts(graph, value, count, net) for value in data]
    carried = [_input(body, value) for value in (*starts, number, more)]
    inner_arrays, inner_limit = [_input(body, value) for value in arrays], _input(body, limit)
    first = body.ops.first
    for value, array in zip(data, inner_arrays, strict=True):
        _read_part(body, body.inputs[given.index(value)], array, carried[-2], first)
    fixed = [v for v, outside in zip(body.inputs, given, strict=True) if outside not in data]
    for value in [v for v in body.inputs if v not in fixed]:
        body.drop(value)
    _retype(body)
    totals = [_next(body, "sum", {"X": [total, value]}, total) for total, value in zip(carried, body.results, strict=False)]
    index = _next(body, "increment", {"X": [carried[-2]]}, carried[-2])
    body.results = [*totals, index, _next(body, "less_than", {"X": [index], "Y": [inner_limit]}, carried[-1])]
    body.inputs = [*carried, *fixed, *inner_arrays, inner_limit]
    reads = [*starts, number, more, *(v for v in given if v not in data), *arrays, limit]
    loop = _replaced(net, body, reads)
    after = loop.next
    for value, total in zip(results, outcomes(loop), strict=False):
        attrs = {"scale": 1.0 / count} if kinds[value] == MEAN else {}
        graph.add_op("scale", {"X": [total]}, {"Out": [value]}, attrs, before=after, role=BACKWARD)
    graph.remove_op(net)
    return loop


def _replaced(net: Op, body: Graph, reads: Sequence[Value]) -> Op:
    """The loop before the net, which has no graphs any more."""
    graph, carried = net.graph, reads[: len(body.results)]
    net.graphs = {}
    graph.controls.pop(net, None)
    outs = [graph.add_version(value.name, value.shape, value.dtype) for value in carried]
    return add_region_op(graph, LOOP, [body], reads, outs, before=net, role=BACKWARD)


# -- around the loop -----------------------------------------------------------------------------


def _written(graph: Graph, op_type: str, inputs: Slots, stem: str, type: TensorType, before: Op, **attrs: object) -> Value:
    made = graph.add_value(stem, *type)
    graph.add_op(op_type, inputs, {"Out": [made]}, attrs, before=before, role=BACKWARD)
    return made


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
    type = TensorType((count, size, *rest), dtype)
    cut = _written(graph, "reshape", {"X": [value]}, f"{value.name}@CUT", type, before, shape=[count, size, *rest])
    array = _written(graph, "tensor_to_tensor_array", {"X": [cut]}, f"{value.name}@PARTS", TensorType((size, *rest), dtype), before)
    array.kind = TENSOR_ARRAY
    return array


# -- inside --------------------------------------------------------------------------------------


def _input(body: Graph, value: Value) -> Value:
    """An argument of the body, with the type and, if it is free, the name of a value around."""
    made = body.add_value(value.name, value.shape, value.dtype)
    made.kind, made.given = value.kind, True
    return made


def _read_part(body: Graph, whole: Value, array: Value, index: Value, before: Op | None) -> None:
    part = body.add_value(f"{whole.name}@PART", array.shape, array.dtype)
    body.add_op("read_from_array", {"X": [array], "I": [index]}, {"Out": [part]}, before=before, role=FORWARD)
    body.replace(whole, part)


def _next(body: Graph, op_type: str, inputs: Slots, value: Value) -> Value:
    """The next version of a carried value."""
    made = body.add_version(value.name, value.shape, value.dtype)
    body.add_op(op_type, inputs, {"Out": [made]}, role=BACKWARD)
    return made


def _retype(body: Graph) -> None:
    """Infer the types in the body anew: a part has fewer rows than the batch. A gradient has the type of its value."""
    for op in body.ordered_ops():
        row = op.row
        if row is None or op.type == "read_from_array":
            continue
        known = {slot: [v.type or TensorType((), "float32") for v in values] for slot, values in op.inputs.items()}
        inferred = row.infer_types(known, op.attrs)
        for slot, values in op.outputs.items():
            for i, value in enumerate(values):
                type = inferred[slot][i] if slot in inferred else _gradient_type(body, value)
                if value.name != EMPTY and type is not None and type != value.type:
                    body.set_type(value, *type)
                    value.var = None


def _gradient_type(body: Graph, value: Value) -> TensorType | None:
    found = _GRADIENT.match(value.name)
    of = body.versions(found[1]) if found else ()
    return of[-1].type if of else None
