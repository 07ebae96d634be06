"""Sequences of tensors, and optionals.

A sequence whose length is known at load is a list of values. One that a loop makes, or a branch chooses, or that is indexed by a number
known only at run time, is an array of tensors: a variable of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphad.interop.onnx.handlers.handler import Node, handles
from graphad.interop.onnx.handlers.pointwise import dtype_of
from graphad.interop.onnx.operands import NotKnown, Recorder, UnsupportedModel, Value
from graphad.program import TENSOR_ARRAY, Variable
from graphad.types import Shape, common_extent

ElementType = tuple[Shape | None, str]  # the shape of the tensors of a sequence, None where nothing has said it, and their dtype


def sequence(items: Sequence[Value]) -> Value:
    value = Value()
    value.items = list(items)
    return value


def is_array(value: Value) -> bool:
    return value.variable is not None and value.variable.type == TENSOR_ARRAY


def is_sequence(value: Value) -> bool:
    return value.items is not None or is_array(value)


def as_array(ops: Recorder, value: Value, type: ElementType | None = None) -> Variable:
    """The array that has the tensors of a sequence; of a type that its elements will have, where one is given."""
    if value.items is None:
        assert value.variable is not None
        if type is None or value.variable.declared == type:
            return value.variable
        copy = ops.variable(ops.assign(value))
        copy.declare(*type)
        return copy
    items = value.items
    shape, dtype = element_type(value) if type is None else type
    attrs = {"dtype": dtype} if shape is None else {"dtype": dtype, "shape": list(shape)}
    array = ops.recorded("create_array", attrs)
    ops.variable(array).declare(shape, dtype)  # inference says no dtype of an array without a shape, which a loop would take for float32
    for i, item in enumerate(items):
        array = _written(ops, array, item, Value(np.asarray(i, "int64")))
    return ops.variable(array)


def _written(ops: Recorder, array: Value, item: Value, place: Value) -> Value:
    """A new array with a tensor at a place."""
    assert array.variable is not None
    shape, dtype = array.variable.declared
    out = ops.write_to_array(item, place, array)
    assert out.variable is not None
    # Elements may differ in their extents; the operator knows only the one that is written.
    out.variable.declare(common_shape(shape, item.shape), dtype)
    return out


def common_shape(a: Shape | None, b: Shape | None) -> Shape | None:
    """The extents that both have, -1 where they differ; None is a shape that nothing has said."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise UnsupportedModel(f"a sequence with tensors of {len(a)} and of {len(b)} axes, which a run chooses from")
    return tuple(map(common_extent, a, b))


def element_type(value: Value) -> ElementType:
    """The type of the tensors of a sequence; of a tensor its own."""
    if is_array(value):
        assert value.variable is not None
        return value.variable.declared[0], value.dtype
    shape: Shape | None = None
    for item in [value] if value.items is None else value.items:
        shape = common_shape(shape, item.shape)
    return shape, value.dtype


def length(node: Node, value: Value) -> Value:
    """How many tensors a sequence has."""
    if value.items is not None:
        return Value(np.asarray(len(value.items), "int64"))
    count = node.ops.lod_array_length(value)
    assert count.variable is not None
    count.variable.declare((1,), "int64")  # inference says nothing of it while nothing has said what the tensors are
    return node.ops.reshape(count, shape=[])


def element(node: Node, value: Value, place: Value) -> Value:
    """The tensor at a place of a sequence, from its end where that is below zero."""
    ops = node.ops
    if value.items is not None and place.array is not None:
        return value.items[int(place.array.item())]
    array = Value(variable=as_array(ops, value))
    return ops.read_from_array(array, _from_front(node, array, place))


def _from_front(node: Node, array: Value, place: Value) -> Value:
    """A place of an array counted from its front: arrays are read so, and the length is known when it runs."""
    ops = node.ops
    if place.array is not None and place.array.item() >= 0:
        return place
    place = ops.cast(ops.reshape(place, shape=[]), out_dtype="int64")
    from_end = ops.elementwise_add(place, length(node, array))
    return from_end if place.array is not None else ops.where(ops.less_than(place, ops.like(0, place)), from_end, place)


@handles("SequenceConstruct")
def _construct(node: Node) -> Value:
    return sequence([node[i] for i in range(len(node.inputs))])


@handles("SequenceEmpty")
def _empty(node: Node) -> Value:
    value = sequence([])
    value.item_dtype = dtype_of(int(node.attr("dtype", 1)))
    return value


@handles("SequenceAt")
def _at(node: Node) -> Value:
    return element(node, node[0], node[1])


@handles("SequenceInsert")
def _insert(node: Node) -> Value:
    value, is_last = node[0], node.get(2) is None
    if value.items is None or not (is_last or node.is_decided(2)):
        array = Value(variable=as_array(node.ops, value))
        if is_last:
            return _written(node.ops, array, node[1], length(node, array))
        return _moved(array, node.ops.insert_in_array(array, _from_front(node, array, node[2]), node[1]), node[1])
    items = list(value.items)
    place = [len(items)] if is_last else node.integers(2, "position")
    assert place is not None
    # ONNX counts a negative place from the end, as list.insert does: at -1 the new tensor is the last but one.
    items.insert(place[0] if place[0] >= 0 else place[0] + len(items), node[1])
    return sequence(items)


def _moved(array: Value, out: Value, item: Value | None = None) -> Value:
    """An array after an operator on its slots, with the type that its elements have."""
    assert array.variable is not None
    assert out.variable is not None
    shape, dtype = array.variable.declared
    out.variable.declare(shape if item is None else common_shape(shape, item.shape), dtype)
    return out


@handles("SequenceErase")
def _erase(node: Node) -> Value:
    value = node[0]
    if value.items is None or not (node.get(1) is None or node.is_decided(1)):
        array = Value(variable=as_array(node.ops, value))
        last = Value(np.asarray(-1, "int64"))
        return _moved(array, node.ops.erase_in_array(array, _from_front(node, array, node.get(1) or last)))
    items = list(value.items)
    place = node.integers(1, "position") if node.get(1) is not None else [-1]
    assert place is not None
    del items[place[0]]
    return sequence(items)


@handles("SequenceLength")
def _sequence_length(node: Node) -> Value:
    return length(node, node[0])


@handles("ConcatFromSequence")
def _concat_from(node: Node) -> Value:
    value, axis, is_new = node[0], int(node.required("axis")), bool(node.attr("new_axis", 0))
    if value.items is None:
        assert value.variable is not None
        return node.ops.tensor_array_to_tensor(value, axis=axis % (len(value.variable.shape) + is_new), use_stack=is_new)
    if is_new:
        return node.ops.stack(value.items, axis=axis)
    return node.ops.concat(value.items, axis=axis % value.items[0].rank) if len(value.items) > 1 else value.items[0]


@handles("SplitToSequence")
def _split_to(node: Node) -> Value:
    x, ops = node[0], node.ops
    axis = node.axis(x.rank, 0)
    size = x.shape[axis]
    argument = node.get(1)
    drop = argument is None and not node.attr("keepdims", 1)
    ones = argument is None or (argument.rank == 0 and argument.array is not None and int(argument.array) == 1)
    if size == -1 and ones:
        # The axis of an extent that a run knows, which goes; parts keep one of extent 1 in its place.
        rows = x if drop else ops.unsqueeze(x, axes=[axis + 1])
        return ops.tensor_to_tensor_array(rows, axis=axis, use_stack=True)
    if size == -1 and (argument is None or argument.rank == 0):
        raise NotKnown("SplitToSequence of an extent that is not known before the model runs")
    if argument is None:
        sizes = [1] * size
    elif argument.rank == 0:
        number = (node.integers(1, "split") or [1])[0]
        # The last part has what is left.
        sizes = [number] * (size // number) + ([size % number] if size % number else [])
    else:
        sizes = node.integers(1, "split") or []
    parts = ops.several("split", x, sections=sizes, axis=axis) if len(sizes) > 1 else [x]
    return sequence([ops.squeeze(part, axes=[axis]) if drop else part for part in parts])


# -- optionals -----------------------------------------------------------------------------------


@handles("Optional")
def _optional(node: Node) -> Value:
    if node.get(0) is None:
        raise UnsupportedModel("an optional without a value")
    return node[0]


@handles("OptionalGetElement")
def _element(node: Node) -> Value:
    return node[0]


@handles("OptionalHasElement")
def _has_element(node: Node) -> Value:
    return Value(np.asarray(node.get(0) is not None))
