"""Operators with nested graphs: If, Loop, Scan, SequenceMap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from graphad import layers
from graphad.errors import GraphadError, ShapeError
from graphad.interop.onnx.handlers.handler import Node, handles
from graphad.interop.onnx.handlers.pointwise import cast
from graphad.interop.onnx.handlers.sequences import (
    ElementType,
    as_array,
    common_shape,
    element,
    element_type,
    is_array,
    is_sequence,
    length,
    sequence,
)
from graphad.interop.onnx.operands import Recorder, TwoRanks, UnsupportedModel, Value
from graphad.interop.protobuf import Desc
from graphad.layers.control_flow import Branch, branched
from graphad.layers.helper import LayerHelper
from graphad.program import Variable
from graphad.types import Extent, same_extent

# -- If ------------------------------------------------------------------------------------------


@handles("If")
def _if(node: Node) -> list[Value]:
    """A condition that is known chooses at load."""
    condition = node[0]
    graphs = [node.required(name) for name in ("then_branch", "else_branch")]
    if condition.array is not None:
        # An If is often a switch of the exporter's: one branch is then all there is.
        results: list[Value] = node.reader.nested(graphs[0] if condition.array.all() else graphs[1], [])
        return results
    ops = node.ops

    def branch(graph: object) -> Callable[[], list[Value]]:
        return lambda: node.reader.nested(graph, [])

    def variables(read: Callable[[], list[Value]]) -> Callable[[], Any]:
        return lambda: [ops.variable(value) if not is_sequence(value) else as_array(node.ops, value) for value in read()]

    branches = [branch(graph) for graph in graphs]
    then, other = (Branch(name, variables(read)) for name, read in zip(("then_branch", "else_branch"), branches, strict=True))
    choice = ops.variable(condition if condition.rank == 0 else ops.reshape(condition, shape=[]))
    try:
        # Results may differ in extents (If-19: their shapes are compatible with the declared one).
        outputs = attempt(ops, lambda: branched("layers.cond", LayerHelper("cond"), choice, then, other, exact=False))
    except ShapeError:
        # Of one rank they differ in dtype, which is an error of the model; of several ranks there is a way.
        if len({tuple(len(shape or ()) for shape, _ in node.reader.types_of(graph, [])) for graph in graphs}) == 1:
            raise
        # Results of two ranks are no value here. The reader may still decide for each use of them.
        raise TwoRanks("the branches of an If give results of different ranks", choice, branches) from None
    return [Value(variable=item) for item in outputs]


def attempt(ops: Recorder, build: Callable[[], Any]) -> Any:
    """Build a control-flow operator; what a failed attempt made is forgotten, as the program takes it back."""
    count = len(ops.made)
    parameters = dict(ops.parameters)
    try:
        return build()
    except GraphadError:
        ops.forget(count)
        # In place, since the reader holds this dict.
        ops.parameters.clear()
        ops.parameters.update(parameters)
        raise


# -- Loop ----------------------------------------------------------------------------------------


@handles("Loop")
def _loop(node: Node) -> list[Value]:
    count, keep = node.get(0), node.get(1)
    body, first = node.required("body"), [node[i] for i in range(2, len(node.inputs))]
    if any(map(is_sequence, first)):
        # Sequences first as Python lists, of which nothing is left in the program.
        outputs = _unrolled(node, body, count, keep, first)
        if outputs is not None:
            return outputs
        first = _arrays_of_the_body(node, body, first)
    # A Loop does not declare the types of what it carries. First they are taken as they come in, which keeps extents known; if an
    # iteration may change an extent that has a name, the loop is built again without the name; if it changes a number, of carried
    # values of which only the rank is known.
    shapes = [None if is_array(value) else list(value.shape) for value in first]
    while True:
        extents = [None if shape is None else list(shape) for shape in shapes]
        outputs = _loop_with(node, body, count, keep, first, extents)
        if outputs is not None:
            return outputs
        unknown = [None if shape is None else [-1] * len(shape) for shape in shapes]
        if shapes == unknown and not any(type(extent) is Extent for shape in shapes for extent in shape or ()):
            raise UnsupportedModel("the loop's carried values change their types")
        shapes = extents if _differ(extents, shapes) else unknown


Shapes = list[list[int] | None]
RowType = tuple[Sequence[int], str]  # shape and dtype of the rows of a scan output


def _differ(a: Shapes, b: Shapes) -> bool:
    """Whether an extent that has a name in one of them has none in the other."""
    pairs = ((one, other) for x, y in zip(a, b, strict=True) for one, other in zip(x or (), y or (), strict=True))
    return any(one is not other and type(other) is Extent for one, other in pairs)


def _loop_with(
    node: Node, body: Desc, count: Value | None, keep: Value | None, first: Sequence[Value], shapes: Shapes
) -> list[Value] | None:
    """The loop, whose carried values have some shapes in all iterations; None where an iteration changes one of them.

    Names of extents that may change are taken out of ``shapes``.
    """
    ops = node.ops
    # Without a count it goes on while the condition holds.
    most = Value(np.asarray(np.iinfo("int64").max)) if count is None else ops.reshape(count, shape=[])
    begin = Value(np.asarray(True)) if keep is None else ops.reshape(keep, shape=[])
    element_types: list[RowType] = []

    def condition(step: Variable, going: Variable, *rest: Variable) -> Variable:
        return layers.logical_and(going, layers.less_than(step, ops.variable(most)))

    start = [ops.variable(value) for value in first]
    types = _scanned_types(node, body, first) if len(body.output) - 1 > len(first) else []
    arrays = [layers.create_array(dtype) for _, dtype in types]
    iteration = _iteration(node, body, len(first), shapes, element_types)
    invariants = _shape_invariants(first, shapes, len(arrays))

    def build() -> list[Variable]:
        variables = [ops.variable(Value(np.asarray(0, "int64"))), ops.variable(begin), *start, *arrays]
        outputs: list[Variable] = layers.while_loop(condition, iteration, variables, shape_invariants=invariants)
        return outputs

    try:
        outputs = attempt(ops, build)
    except ShapeError:
        if first:
            return None
        raise
    results = [Value(variable=item) for item in outputs[2 : 2 + len(first)]]
    rows = [_stacked(node, item, *type) for item, type in zip(outputs[2 + len(first) :], element_types, strict=True)]
    return [*results, *rows]


def _iteration(node: Node, body: Desc, carried: int, shapes: Shapes, element_types: list[RowType]) -> Callable[..., list[Variable]]:
    """An iteration as a function of the step, the condition, so many carried values, and an array for each scan output.

    It takes names of extents that may change out of ``shapes``, and sets ``element_types`` to the types of the scan outputs.
    """
    ops = node.ops

    def iteration(step: Variable, going: Variable, *rest: Variable) -> list[Variable]:
        state_vars, arrays = rest[:carried], rest[carried:]
        operands = [Value(variable=variable) for variable in (step, going, *state_vars)]
        # The result comes first: condition, carried values, scan outputs.
        result = node.reader.nested(body, operands)
        goes_on = ops.variable(ops.reshape(result[0], shape=[]))
        # A value that a loop carries keeps its dtype.
        kept_values = [
            as_array(ops, value) if is_sequence(value) else ops.variable(cast(node, value, variable.dtype))
            for value, variable in zip(result[1 : carried + 1], state_vars, strict=True)
        ]
        _keep_names(shapes, kept_values)
        elements = [ops.variable(value) for value in result[carried + 1 :]]
        element_types[:] = [(variable.shape, variable.dtype) for variable in elements]
        next_arrays = [layers.array_write(variable, step, array) for variable, array in zip(elements, arrays, strict=True)]
        # Counted by adding 1, so that the counter is a plain loop variable.
        return [layers.scale(step, scale=1.0, bias=1.0), goes_on, *kept_values, *next_arrays]

    return iteration


def _shape_invariants(first: Sequence[Value], shapes: Shapes, arrays: int) -> list[list[int] | None] | None:
    """The shapes of all that a Loop carries in all iterations; None if they are those of the values that come in."""
    start_shapes = [None if is_array(value) else list(value.shape) for value in first]
    if shapes == start_shapes and not _differ(shapes, start_shapes):
        return None
    return [[], [], *(shape and list(shape) for shape in shapes), *([None] * arrays)]


def _keep_names(shapes: Shapes, values: Sequence[Variable]) -> None:
    """ShapeError where a value of an iteration may differ from an extent that has a name, which is one number in a run."""
    has_changed = False
    for shape, value in zip(shapes, values, strict=True):
        for i, (extent, size) in enumerate(zip(shape or (), value.shape if shape else (), strict=False)):
            if shape is not None and type(extent) is Extent and not same_extent(extent, size):
                shape[i], has_changed = -1, True
    if has_changed:
        raise ShapeError("an iteration may change an extent")


def _stacked(node: Node, array: Variable, shape: Sequence[int], dtype: str) -> Value:
    """The results of all iterations, stacked along a new axis 0. After no iteration the tensor has no elements, and unknown extents are
    0."""
    empty = [max(extent, 0) for extent in shape]
    return node.ops.tensor_array_to_tensor(Value(variable=array), axis=0, use_stack=True, empty_shape=empty, empty_dtype=dtype)


def _scanned_types(node: Node, body: object, first: Sequence[Value]) -> list[ElementType]:
    """Shapes and dtypes of what iterations give: the body is read once into a program that is thrown away."""
    types: list[ElementType] = node.reader.types_of(body, [Value(np.asarray(0, "int64")), Value(np.asarray(True)), *first])
    return types[len(first) + 1 :]


def _unrolled(node: Node, body: Desc, count: Value | None, keep: Value | None, first: Sequence[Value]) -> list[Value] | None:
    """A loop that carries sequences, with a number of iterations that is known; None where it is not."""
    if count is None or count.array is None or (keep is not None and keep.array is None) or any(map(is_array, first)):
        return None
    states, scans, goes_on = list(first), list[list[Value]](), True if keep is None else bool(keep.array)
    # The list exists while the model is read, and each iteration is read once.
    for step in range(int(count.array)):
        if not goes_on:
            break
        result = node.reader.nested(body, [Value(np.asarray(step, "int64")), Value(np.asarray(True)), *states])
        # A condition that only the run knows: no unrolling.
        if result[0].array is None:
            return None
        goes_on, states = bool(result[0].array), result[1 : len(first) + 1]
        scans.append(result[len(first) + 1 :])
    rows = [node.ops.stack([row[i] for row in scans], axis=0) for i in range(len(body.output) - 1 - len(first))]
    return [*states, *rows]


def _arrays_of_the_body(node: Node, body: Desc, first: Sequence[Value]) -> list[Value]:
    """Sequences that a loop carries as arrays, of elements with the shape that they have before the loop and after each iteration.

    What an iteration makes of a wider type may be wider still, so types are joined until nothing changes: each extent opens once.
    """
    states = [Value(variable=as_array(node.ops, value)) if is_sequence(value) else value for value in first]
    step = Value(variable=node.ops.variable(Value(np.asarray(0, "int64"))))
    while True:
        after = node.reader.types_of(body, [step, Value(np.asarray(True)), *states])[1:]
        wider = [_joined(value, type) if is_array(value) else None for value, type in zip(states, after, strict=False)]
        if not any(wider):
            return states
        states = [
            state if type is None else Value(variable=as_array(node.ops, value, type))
            for value, state, type in zip(first, states, wider, strict=True)
        ]


def _joined(array: Value, after: ElementType) -> ElementType | None:
    """The type of the elements that an array has before and after an iteration; None where it has that before."""
    (shape, dtype), shape_after = element_type(array), after[0]
    joined = common_shape(shape, shape_after)
    # Names count: an extent that has one before and none after is open.
    return None if str(joined) == str(shape) else (joined, dtype)


# -- Scan ----------------------------------------------------------------------------------------


@handles("Scan", since=9)
def _scan(node: Node) -> list[Value]:
    body, ops = node.required("body"), node.ops
    states, rows = _scan_operands(node)
    size = rows[0].shape[0]
    steps = Value(np.asarray(size, "int64")) if size != -1 else _length(node, rows[0])
    # Arrays are made before the loop, and their element types are known only from the body: it is read once, and taken back.
    types = node.reader.types_of(body, [*states, *(_row(node, x, Value(np.asarray(0, "int64"))) for x in rows)])[len(states) :]

    def condition(step: Variable, *rest: Variable) -> Variable:
        return layers.less_than(step, ops.variable(steps))

    def iteration(step: Variable, *rest: Variable) -> list[Variable]:
        state_vars, arrays = rest[: len(states)], rest[len(states) :]
        inputs = [_row(node, x, Value(variable=step)) for x in rows]
        result = node.reader.nested(body, [*(Value(variable=variable) for variable in state_vars), *inputs])
        kept_values = [ops.variable(value) for value in result[: len(states)]]
        elements = [ops.variable(value) for value in result[len(states) :]]
        next_arrays = [layers.array_write(variable, step, array) for variable, array in zip(elements, arrays, strict=True)]
        return [layers.scale(step, scale=1.0, bias=1.0), *kept_values, *next_arrays]

    arrays = [layers.create_array(dtype) for _, dtype in types]
    start = [ops.variable(value) for value in states]
    variables = layers.while_loop(condition, iteration, [ops.variable(Value(np.asarray(0, "int64"))), *start, *arrays])
    results = [Value(variable=item) for item in variables[1 : 1 + len(states)]]
    return [*results, *_scan_outputs(node, variables[1 + len(states) :], types)]


def _scan_operands(node: Node) -> tuple[list[Value], list[Value]]:
    """The initial states of a Scan, and the tensors that it scans: iteration i reads row i of each."""
    operands, count = [node[i] for i in range(len(node.inputs))], int(node.required("num_scan_inputs"))
    states, sequences = operands[: len(operands) - count], operands[len(operands) - count :]
    axes = [int(a) % x.rank for a, x in zip(node.attr("scan_input_axes", [0] * count), sequences, strict=True)]
    backward = [bool(item) for item in node.attr("scan_input_directions", [0] * count)]
    # With their axes in front, and reversed where they are read backwards.
    rows = [_first(node, node.ops.flip(x, axis=[a]) if back else x, a) for x, a, back in zip(sequences, axes, backward, strict=True)]
    return states, rows


def _scan_outputs(node: Node, arrays: Sequence[Variable], types: Sequence[RowType]) -> Iterator[Value]:
    """The scan outputs: the elements of each array, stacked along its axis in its direction."""
    out_axes = node.attr("scan_output_axes", [0] * len(arrays))
    reverse = node.attr("scan_output_directions", [0] * len(arrays))
    for array, type, axis, back in zip(arrays, types, out_axes, reverse, strict=True):
        value = _stacked(node, array, *type)
        # A direction of 1 puts what the last iteration gave first.
        if back:
            value = node.ops.flip(value, axis=[0])
        yield _placed(node, value, int(axis) % value.rank)


def _length(node: Node, x: Value) -> Value:
    out = node.ops.reshape(node.ops.slice(node.ops.cast(node.ops.shape(x), out_dtype="int64"), axes=[0], starts=[0], ends=[1]), shape=[])
    return out


def _first(node: Node, x: Value, axis: int) -> Value:
    """The tensor with an axis moved to the front."""
    if axis == 0:
        return x
    return node.ops.transpose(x, axis=[axis, *(i for i in range(x.rank) if i != axis)])


def _placed(node: Node, x: Value, axis: int) -> Value:
    """The tensor with its first axis moved to another place."""
    if axis == 0:
        return x
    order = list(range(1, x.rank))
    order.insert(axis, 0)
    return node.ops.transpose(x, axis=order)


def _row(node: Node, x: Value, step: Value) -> Value:
    ops = node.ops
    return ops.squeeze(ops.gather(x, ops.reshape(step, shape=[1]), axis=0), axes=[0])


# -- SequenceMap ---------------------------------------------------------------------------------


@handles("SequenceMap", since=17)
def _map(node: Node) -> list[Value]:
    """The graph for each tensor of the first sequence, and for those at its place in others."""
    body, first, others = node.required("body"), node[0], [node[i] for i in range(1, len(node.inputs))]
    if first.items is None:
        return _mapped_array(node, body, first, others)
    results: list[list[Value]] = []
    for i, item in enumerate(first.items):
        rest = [other if not is_sequence(other) else element(node, other, Value(np.asarray(i, "int64"))) for other in others]
        results.append(node.reader.nested(body, [item, *rest]))
    return [sequence([outputs[j] for outputs in results]) for j in range(len(body.output))]


def _mapped_array(node: Node, body: Desc, first: Value, others: Sequence[Value]) -> list[Value]:
    """The same by a loop over an array."""
    ops = node.ops
    others = [Value(variable=as_array(node.ops, other)) if is_sequence(other) else other for other in others]

    def results(step: Value) -> list[Value]:
        inputs = [element(node, value, step) if is_array(value) else value for value in (first, *others)]
        outputs: list[Value] = node.reader.nested(body, inputs)
        return outputs

    def iteration(step: Variable, *arrays: Variable) -> list[Variable]:
        elements = [ops.variable(value) for value in results(Value(variable=step))]
        return [layers.scale(step, scale=1.0, bias=1.0), *map(layers.array_write, elements, [step] * len(elements), arrays)]

    start = ops.variable(Value(np.asarray(0, "int64")))
    types = node.reader.types_taken_back(lambda: results(Value(variable=start)))
    arrays = [as_array(node.ops, sequence([]), type) for type in types]
    count = ops.variable(length(node, first))
    outputs = layers.while_loop(lambda step, *_: layers.less_than(step, count), iteration, [start, *arrays])
    return [Value(variable=output) for output in outputs[1:]]
