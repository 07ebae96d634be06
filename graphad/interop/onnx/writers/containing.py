"""Operators on arrays of tensors and on tapes."""

from __future__ import annotations

import numpy as np

from graphad.interop.onnx import stacks
from graphad.interop.onnx.emitting import Dim, Nodes
from graphad.interop.onnx.stacks import Leaf, NoRows, Stack
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.writer import Call, CannotWrite, Result, writes

# -- arrays --------------------------------------------------------------------------------------


def _index(call: Call) -> Term:
    return call.nodes.as_scalar(call.nodes.cast(call["I"], "int64"))


def as_items(call: Call, slot: str) -> Term:
    """An array as a sequence."""
    array = call.stack(slot)
    if array.layout.is_rows:
        raise NoRows(array.layout)
    return array.parts[0]


@writes("create_array")
def _create(call: Call) -> Result:
    return stacks.empty(call.nodes, call.layout("Out"))


@writes("write_to_array")
def _write(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    layout = call.layout("Out")
    array = call.stack("Array") if call.inputs.get("Array") else stacks.empty(nodes, layout)
    if layout.is_rows and array.collected is None:
        raise NoRows(layout)
    leaf = layout.entries[0][0]
    assert isinstance(leaf, Leaf)
    return stacks.write(nodes, array, _index(call), nodes.cast(x, leaf.dtype))


@writes("clear_in_array")
def _clear(call: Call) -> Result:
    """Clear an element; in an array that is rows the row becomes zeros, since no operator tells that from an empty slot."""
    nodes, array, index = call.nodes, call.stack("X"), _index(call)
    if array.layout.is_rows:
        if not array.parts or array.collected is not None:
            raise NoRows(array.layout)
        (part,) = array.parts
        zero = nodes.full([1, *nodes.dims(part)[1:]], 0, part.kind)
        rows = nodes.scatter(part, nodes.reshape(index, [1, 1]), zero)
        return Stack(array.layout, (rows,), array.count)
    (items,) = array.parts
    return Stack(
        array.layout,
        (stacks.inserted(nodes, stacks.erased(nodes, items, index), stacks.hole(nodes, items.kind, array.layout.rank), index),),
    )


@writes("erase_in_array")
def _erase(call: Call) -> Result:
    """Nothing changes beyond the end, where SequenceErase fails."""
    nodes, items, index = call.nodes, as_items(call, "X"), _index(call)
    there = on.less(index, stacks.length(nodes, items))
    copy_items = lambda: [nodes.copied(items)]  # noqa: E731
    return Stack(call.layout("Out"), (nodes.choose(there, lambda: [stacks.erased(nodes, items, index)], copy_items)[0],))


@writes("insert_in_array")
def _insert(call: Call) -> Result:
    nodes, items, index, layout = call.nodes, as_items(call, "X"), _index(call), call.layout("Out")
    new = nodes.cast(call["V"], items.kind) if call.get("V") is not None else stacks.hole(nodes, items.kind, layout.rank)
    return Stack(layout, (stacks.inserted(nodes, stacks.long_enough(nodes, items, index, layout.rank), new, index),))


@writes("read_from_array")
def _read(call: Call) -> Result:
    nodes, array, index, like = call.nodes, call.stack("X"), _index(call), call.get("Like")
    shape = call.output("Out").shape
    # Rows are one tensor, of which an element is a slice; otherwise it is a Sequence, whose holes are told apart by what fills them.
    if array.layout.is_rows:
        if not array.parts or array.collected is not None:
            raise NoRows(array.layout)
        return nodes.gather(array.parts[0], index, 0)
    (items,) = array.parts
    if like is None:
        return stacks.element(nodes, items, index, shape)
    item = stacks.filled(nodes, items, index, shape or ())
    return nodes.choose(stacks.is_hole(nodes, item), lambda: [nodes.copied(on.zeros_like(like))], lambda: [item])[0]


@writes("lod_array_length")
def _length(call: Call) -> Result:
    array = call.stack("X")
    if array.layout.is_rows:
        return call.nodes.vector([call.nodes.extent(array.parts[0], 0) if array.parts else 0])
    count = stacks.length(call.nodes, array.parts[0])
    vector = call.nodes.as_vector(count)
    vector.elements = (count,)
    return vector


@writes("tensor_array_to_tensor")
def _joined(call: Call) -> Result:
    if not call.is_read("OutIndex"):
        return [_whole(call), None]
    rank = len(call.output("Out").shape) - int(call.attr("use_stack"))
    at = call.attr("axis") % len(call.output("Out").shape)
    # Only elements that are rows of one tensor have one extent, which is then written for each of them.
    array, nodes = call.stack("X"), call.nodes
    if not array.layout.is_rows or not array.parts:
        raise CannotWrite("the extents of the elements of an array (OutIndex)")
    extent = nodes.extent(array.parts[0], 1 + at) if at < rank else 1
    extents = nodes.expand(nodes.vector([extent]), [nodes.extent(array.parts[0], 0)])
    return [_whole(call), nodes.cast(extents, "int32")]


def _whole(call: Call) -> Term:
    """Rows are there already; joined they lose their first axis."""
    array, new_axis, nodes = call.stack("X"), int(call.attr("use_stack")), call.nodes
    axis, out = call.attr("axis"), call.output("Out")
    if array.layout.is_rows:
        if not array.parts or array.collected is not None:
            raise NoRows(array.layout)
        # The axis of the elements goes where they are joined; a concatenation then merges it with the axis that it is in front of.
        place = axis % len(out.shape)
        rows = nodes.moved(array.parts[0], 0, place)
        if new_axis:
            return rows
        dims = nodes.dims(rows)
        return nodes.reshape(rows, [*dims[:place], nodes.product(dims[place : place + 2]), *dims[place + 2 :]])
    (items,) = array.parts
    return call.nodes.one("ConcatFromSequence", [items], items.kind, out.shape, axis=axis % len(out.shape), new_axis=new_axis)


@writes("tensor_to_tensor_array")
def _taken_apart(call: Call) -> Result:
    x, nodes, axis, layout = call["X"], call.nodes, call.attr("axis"), call.layout("Out")
    if layout.is_rows:
        if not call.attr("use_stack"):
            raise NoRows(layout)
        # An array whose elements have one shape is a tensor with one axis more.
        rows = nodes.moved(x, axis % x.ndim, 0)
        return Stack(layout, (rows,), nodes.extent(rows, 0))
    if not call.attr("use_stack"):
        if not call.inputs.get("Like"):
            raise CannotWrite("without use_stack, Like says how long the pieces are")
        return Stack(layout, (_cut(nodes, x, as_items(call, "Like"), axis % x.ndim),))
    sequence = nodes.one("SplitToSequence", [x], x.kind, [], axis=axis % x.ndim, keepdims=0)
    sequence.is_sequence = True
    return Stack(layout, (sequence,))


def _cut(nodes: Nodes, x: Term, like: Term, axis: int) -> Term:
    """A tensor in pieces that are as long as the elements of a sequence along an axis.

    A loop takes one slice after the other: of how many pieces there are SplitToSequence would know only what a run says.
    """
    zero = nodes.constant(np.asarray([0], "int64"))
    where = nodes.constant(np.asarray([axis], "int64"))

    def body(step: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        start, pieces = carried
        size = nodes.one("Shape", [stacks.element(nodes, like, step, [-1] * x.ndim)], "int64", [1], start=axis, end=axis + 1)
        end = start + size
        piece = nodes.one("Slice", [x, start, end, where], x.kind, [-1 if i == axis else extent for i, extent in enumerate(x.sizes)])
        return None, [end, stacks.inserted(nodes, pieces, piece)], []

    return nodes.loop(stacks.length(nodes, like), None, [zero, stacks.sequence(nodes, x.kind)], body)[1]


@writes("tensor_array_like")
def _like(call: Call) -> Result:
    """Zeros for the elements that the array has not."""
    nodes, array, like = call.nodes, call.stack("X"), call["Like"]
    axis = call.attr("axis") % like.ndim
    if array.layout.is_rows:
        if not array.parts or not call.attr("use_stack") or array.collected is not None:
            raise NoRows(array.layout)
        return nodes.reshape(nodes.moved(array.parts[0], 0, axis), nodes.dims(like))
    (items,) = array.parts
    if not call.attr("use_stack"):
        return _pieces(call, nodes, items, axis, like)
    dims = [size for i, size in enumerate(nodes.dims(like)) if i != axis]

    def body(step: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        return None, [], [_or_zeros(nodes, items, step, dims)]

    # A Sequence has no operator that fills holes, so they are filled one element after the other.
    rows = nodes.loop(nodes.extent(like, axis), None, [], body)[0]
    return nodes.reshape(nodes.moved(rows, 0, axis), nodes.dims(like))


def _or_zeros(nodes: Nodes, items: Term, step: Term, dims: list[Dim]) -> Term:
    item = stacks.filled(nodes, items, step, [-1] * len(dims))
    zero = nodes.full(dims, 0, items.kind)
    return nodes.choose(stacks.is_hole(nodes, item), lambda: [nodes.copied(zero)], lambda: [item])[0]


def _pieces(call: Call, nodes: Nodes, items: Term, axis: int, like: Term) -> Term:
    pieces = as_items(call, "Pieces")

    def body(step: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        shape = nodes.one("Shape", [stacks.element(nodes, pieces, step)], "int64", [like.ndim])
        zero = nodes.one("ConstantOfShape", [shape], items.kind, [-1] * like.ndim, value=np.zeros(1, items.dtype))
        piece = stacks.filled(nodes, items, step, zero.shape)
        whole = nodes.choose(stacks.is_hole(nodes, piece), lambda: [nodes.copied(zero)], lambda: [piece])[0]
        return None, [stacks.inserted(nodes, carried[0], whole)], []

    sequence = nodes.loop(stacks.length(nodes, pieces), None, [stacks.sequence(nodes, items.kind)], body)[0]
    return nodes.one("ConcatFromSequence", [sequence], items.kind, like.shape, axis=axis)


# -- tapes: their layouts come from the graph ----------------------------------------------------


@writes("tape_has_more")
def _more(call: Call) -> Result:
    return stacks.has_more(call.nodes, call.stack("Scopes"))
