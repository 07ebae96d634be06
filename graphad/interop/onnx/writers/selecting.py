"""Elements by index, mask or coordinates, and where they are put back; one of several tensors; what is made of numbers."""

from __future__ import annotations

from functools import reduce

import numpy as np

from graphad.interop.onnx.emitting import Dim, Nodes
from graphad.interop.onnx.stacks import Stack
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.writer import Call, CannotWrite, Result, writes

# -- slices by index -----------------------------------------------------------------------------


def _along(call: Call, name: str = "axis") -> int:
    axis = call.get("Axis") if "Axis" in call.definition.inputs else None
    if axis is None:
        return int(call.attr(name))
    if axis.array is None:
        raise CannotWrite("the axis is not known before a run")
    return int(axis.array.ravel()[0])


def _row(nodes: Nodes, index: Term) -> Term:
    """Indices [N, 1] as a vector."""
    return nodes.squeeze(index, [1]) if index.ndim == 2 else index


@writes("gather", "index_select")
def _gather(call: Call) -> Result:
    axis = call.attr("dim") if call.type == "index_select" else _along(call)
    return call.nodes.gather(call["X"], _row(call.nodes, call["Index"]), axis)


def added_at(nodes: Nodes, x: Term, index: Term, values: Term, axis: int) -> Term:
    """x with slices added at indices along an axis."""
    axis %= x.ndim
    if index.ndim == 0:
        index, values = nodes.unsqueeze(index, [0]), nodes.unsqueeze(values, [axis])
    places = nodes.unsqueeze(nodes.cast(_row(nodes, index), "int64"), [1])
    rows = nodes.scatter(nodes.moved(x, axis, 0), places, nodes.moved(values, axis, 0), "add")
    return nodes.moved(rows, 0, axis)


@writes("index_add")
def _index_add(call: Call) -> Result:
    return added_at(call.nodes, call["X"], call["Index"], call["AddValue"], call.attr("axis"))


@writes("ungather")
def _ungather(call: Call) -> Result:
    zeros = call.nodes.full(call.nodes.dims(call["Like"]), 0, call["X"].kind)
    return added_at(call.nodes, zeros, call["Index"], call["X"], _along(call))


@writes("scatter")
def _scatter(call: Call) -> Result:
    """Without overwriting, the rows that are added to are zeros before."""
    x, nodes = call["X"], call.nodes
    ids = call["Ids"]
    places = nodes.reshape(nodes.cast(ids, "int64"), [nodes.extent(ids, 0), 1])
    if call.attr("overwrite"):
        return nodes.scatter(x, places, call["Updates"])
    # Rows that are added to start from zero, all others stay.
    base = nodes.scatter(x, places, on.zeros_like(call["Updates"]))
    return nodes.scatter(base, places, call["Updates"], "add")


# -- by coordinates ------------------------------------------------------------------------------


@writes("gather_nd")
def _gather_nd(call: Call) -> Result:
    x, index, nodes = call["X"], call["Index"], call.nodes
    if not index.shape[-1]:
        return nodes.expand(x, [*nodes.dims(index)[:-1], *nodes.dims(x)])
    shape = (*index.shape[:-1], *x.shape[index.shape[-1] :])
    return nodes.one("GatherND", [x, nodes.cast(index, "int64")], x.kind, shape)


@writes("scatter_nd_add")
def _scatter_nd(call: Call) -> Result:
    x, index, nodes = call["X"], call["Index"], call.nodes
    if not index.shape[-1]:
        return x + nodes.reduce("Sum", call["Updates"], range(index.ndim - 1))
    return nodes.scatter(x, index, call["Updates"], "add")


# -- along an axis -------------------------------------------------------------------------------


@writes("take_along_axis")
def _take(call: Call) -> Result:
    return call.nodes.take(call["Input"], call["Index"], call.attr("Axis"))


@writes("index_sample")
def _sample(call: Call) -> Result:
    return call.nodes.take(call["X"], call["Index"], 1)


_HOW = {"assign": "none", "add": "add", "mul": "mul", "multiply": "mul", "amin": "min", "amax": "max", "mean": "add"}


@writes("put_along_axis")
def _put(call: Call) -> Result:
    x, index, values, nodes = call["Input"], call["Index"], call["Value"], call.nodes
    axis, reduction, include_self = call.attr("Axis"), call.attr("Reduce"), bool(call.attr("Include_self"))
    start = x
    if not include_self and reduction != "assign":
        # What was there does not count: it is overwritten first with what changes nothing, then the values are put as if it did.
        start = nodes.put(x, index, nodes.full(nodes.dims(index), _neutral(reduction, x), x.kind), axis)
    result = nodes.put(start, index, values, axis, _HOW[reduction])
    if reduction != "mean":
        return result
    ones = nodes.full(nodes.dims(index), 1, "int64")
    # ScatterElements has no mean: sums, divided by how many values came to each place; places without any keep what they have.
    hits = nodes.put(nodes.full(nodes.dims(x), 0, "int64"), index, ones, axis, "add")
    count = nodes.cast(on.where(on.greater(hits, 0), hits + int(include_self), 1), x.kind)
    return result / count if x.is_float else on.floor_divide(result, count)


def _neutral(reduction: str, x: Term) -> float:
    if reduction in ("amin", "amax"):
        if x.is_float:
            return float("inf") if reduction == "amin" else float("-inf")
        limits = np.iinfo(x.kind)
        return int(limits.max if reduction == "amin" else limits.min)
    return 1 if reduction in ("mul", "multiply") else 0


@writes("last_of_each")
def _last(call: Call) -> Result:
    """Whether any later element of the line is equal: all pairs are compared."""
    x, nodes = call["X"], call.nodes
    axis = call.attr("axis") % x.ndim
    lines = nodes.moved(x, axis, -1)
    are_equal = nodes.cast(on.equal(nodes.unsqueeze(lines, [lines.ndim]), nodes.unsqueeze(lines, [lines.ndim - 1])), "int32")
    # Above the diagonal are the pairs of an element with a later one.
    later = nodes.one("Trilu", [are_equal, nodes.constant(np.asarray(1))], "int32", are_equal.shape, upper=1)
    is_last = on.equal(nodes.reduce("Sum", later, [later.ndim - 1]), 0)
    return nodes.moved(is_last, -1, axis)


# -- masks ---------------------------------------------------------------------------------------


def _places(nodes: Nodes, mask: Term) -> Term:
    flags = nodes.cast(mask, "bool")
    if not mask.ndim:
        indices = nodes.one("NonZero", [nodes.reshape(flags, [1])], "int64", [1, -1])
        return nodes.reshape(nodes.part(indices, 0, 0, 0), [nodes.extent(indices, 1), 0])
    indices = nodes.one("NonZero", [flags], "int64", [mask.ndim, -1])
    return nodes.transpose(indices, [1, 0])


@writes("where_index")
def _where_index(call: Call) -> Result:
    return _places(call.nodes, call["Condition"])


@writes("masked_select")
def _masked(call: Call) -> Result:
    x, mask, nodes = call["X"], call["Mask"], call.nodes
    if x.shape != mask.shape or -1 in x.shape:
        # A value that is always true, in the shape of both: Where then broadcasts each to it without a Shape of either.
        joint = on.logical_and(mask, on.equal(x, x)) if x.is_float else on.logical_and(mask, on.less_equal(x, x))
        ones = on.logical_or(joint, on.logical_not(joint))
        x, mask = nodes.where(ones, x, x), nodes.where(ones, mask, mask)
    if not x.ndim:
        x, mask = nodes.reshape(x, [1]), nodes.reshape(mask, [1])
    return nodes.one("GatherND", [x, _places(nodes, mask)], x.kind, [-1])


@writes("multiplex")
def _multiplex(call: Call) -> Result:
    candidates, nodes = call.all("X"), call.nodes
    ids = nodes.reshape(call["Ids"], [nodes.extent(call["Ids"], 0), *[1] * (candidates[0].ndim - 1)])
    pairs = list(enumerate(candidates))
    return reduce(lambda found, pair: nodes.where(on.equal(ids, pair[0]), pair[1], found), pairs[1:], candidates[0])


@writes("select_input")
def _select_input(call: Call) -> Result:
    """One of several, which need not have a value but where they are chosen."""
    candidates, nodes = call.inputs["X"], call.nodes
    if any(isinstance(candidate, Stack) or candidate is None for candidate in candidates):
        raise CannotWrite("it chooses between what has no value, or is an array")
    mask = nodes.as_scalar(nodes.cast(call["Mask"], "int64"))
    choice: Term = candidates[0]
    for number, candidate in list(enumerate(candidates))[1:]:
        choice = _either(nodes, on.equal(mask, number), candidate, choice)
    return choice


def _either(nodes: Nodes, condition: Term, x: Term, y: Term) -> Term:
    return nodes.choose(condition, lambda: [x], lambda: [y])[0]


@writes("select_output")
def _select_output(call: Call) -> Result:
    """The value where it is chosen, zeros in the shapes of the others."""
    x, nodes = call["X"], call.nodes
    mask = nodes.as_scalar(nodes.cast(call["Mask"], "int64"))
    zeros = [nodes.full(nodes.dims(like), 0, x.kind) for like in call.all("Like")]
    return [[_either(nodes, on.equal(mask, i), x, zero) for i, zero in enumerate(zeros)]]


@writes("split_lod_tensor")
def _split_rows(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    mask = nodes.flatten(call["Mask"])
    shape = [-1, *x.shape[1:]]
    return [nodes.one("Compress", [x, flags], x.kind, shape, axis=0) for flags in (mask, nodes.elementwise("Not", mask))]


@writes("merge_lod_tensor")
def _merge_rows(call: Call) -> Result:
    """The rows of both, one after the other, taken in the order of the mask."""
    nodes, mask = call.nodes, call.nodes.flatten(call["Mask"])
    yes, no = call.get("InTrue"), call.get("InFalse")
    if yes is None or no is None:
        raise CannotWrite("a side may have no value")
    number = nodes.cast(mask, "int64")
    first = _running(nodes, number)
    # The rows of the second side lie after those of the first.
    second = _running(nodes, nodes.constant(np.asarray(1)) - number) + nodes.as_scalar(nodes.extent(yes, 0))
    return nodes.gather(nodes.concat([yes, no], 0), nodes.where(mask, first, second), 0)


def _running(nodes: Nodes, x: Term) -> Term:
    return nodes.one("CumSum", [x, nodes.constant(np.asarray(0))], x.kind, x.sizes, exclusive=1)


# -- tables --------------------------------------------------------------------------------------


def _ids(call: Call) -> Term:
    ids = call["Ids"]
    return call.nodes.squeeze(ids, [ids.ndim - 1]) if call.type == "lookup_table" else ids


@writes("lookup_table", "lookup_table_v2")
def _look_up(call: Call) -> Result:
    w, nodes, ids, padding = call["W"], call.nodes, _ids(call), int(call.attr("padding_idx"))
    if padding == -1:
        return nodes.gather(w, ids, 0)
    is_padding = on.equal(ids, padding)
    rows = nodes.gather(w, nodes.where(is_padding, nodes.like(0, ids), ids), 0)
    return nodes.where(nodes.unsqueeze(is_padding, [ids.ndim]), nodes.like(0.0, rows), rows)


@writes("embedding_scatter")
def _scatter_rows(call: Call) -> Result:
    x, ids, like, nodes, padding = call["X"], call["Ids"], call["Like"], call.nodes, int(call.attr("padding_idx"))
    flat = nodes.reshape(nodes.cast(ids, "int64"), [nodes.product(nodes.dims(ids)), 1])
    rows = nodes.reshape(x, [nodes.product(nodes.dims(ids)), nodes.extent(like, 1)])
    if padding != -1:
        is_padding = on.equal(flat, padding)
        rows = nodes.where(is_padding, nodes.like(0.0, rows), rows)
        # Padding goes to row 0 with zeros, which add nothing.
        flat = nodes.where(is_padding, nodes.like(0, flat), flat)
    return nodes.scatter(nodes.full(nodes.dims(like), 0, x.kind), flat, rows, "add")


@writes("one_hot", "one_hot_v2")
def _one_hot(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    ids = nodes.squeeze(x, [x.ndim - 1]) if call.type == "one_hot" else x
    return nodes.one_hot(ids, int(call.attr("depth")), call.output("Out").dtype)


# -- made of numbers -----------------------------------------------------------------------------


@writes("fill_constant")
def _fill(call: Call) -> Result:
    nodes, dtype = call.nodes, call.output("Out").dtype
    dims = call.numbers("shape", "ShapeTensor", "ShapeTensorList")
    value = call.get("ValueTensor")
    if value is not None:
        return nodes.expand(nodes.as_scalar(value), dims)
    return nodes.full(dims, call.attr("value"), dtype)


@writes("fill_constant_batch_size_like")
def _fill_like(call: Call) -> Result:
    return call.nodes.full(batch_dims(call), call.attr("value"), call.output("Out").dtype)


def batch_dims(call: Call) -> list[Dim]:
    """The extents of a tensor of which one is that of an input."""
    x = call["Input"]
    dims: list[Dim] = list(call.attr("shape"))
    dims[call.attr("output_dim_idx")] = call.nodes.extent(x, call.attr("input_dim_idx")) if x.ndim else 1
    return dims


@writes("assign_value", "eye")
def _value(call: Call) -> Result:
    return call.nodes.constant(np.asarray(call.definition.kernel(**call.attrs)))


@writes("fill_any_like")
def _fill_any(call: Call) -> Result:
    return call.nodes.full(call.nodes.dims(call["X"]), call.attr("value"), call.output("Out").dtype)


@writes("stand_in")
def _stand_in(call: Call) -> Result:
    x, out = call.get("X"), call.output("Out")
    dims = [max(size, 0) for size in call.attr("shape") or ()] if x is None else call.nodes.dims(x)
    return call.nodes.full(dims, 0, out.dtype)


@writes("undefined")
def _undefined(call: Call) -> Result:
    """Nothing: what reads it has to do without."""
    return [None]


@writes("range")
def _range(call: Call) -> Result:
    nodes = call.nodes
    bounds = [nodes.as_scalar(call[slot]) for slot in ("Start", "End", "Step")]
    narrow = bounds[0].kind in ("uint8", "int8", "float16")
    wide = ("float32" if bounds[0].is_float else "int64") if narrow else bounds[0].kind
    return nodes.one("Range", [nodes.cast(bound, wide) for bound in bounds], wide, [-1])


@writes("linspace")
def _linspace(call: Call) -> Result:
    """Evenly spaced numbers, computed in float64 as the operator does; for integers they are truncated."""
    nodes, dtype = call.nodes, call.output("Out").dtype
    start, stop = (nodes.cast(nodes.as_scalar(call[slot]), "float64") for slot in ("Start", "Stop"))
    count = nodes.as_scalar(nodes.cast(call["Num"], "int64"))
    steps = nodes.cast(nodes.one("Range", [nodes.constant(np.asarray(0)), count, nodes.constant(np.asarray(1))], "int64", [-1]), "float64")
    gaps = nodes.cast(on.maximum(count - 1, 1), "float64")
    row = start + steps * ((stop - start) / gaps)
    # The last number is ``stop`` itself, which a sum of steps may miss.
    last = on.equal(steps, nodes.cast(on.maximum(count - 1, 1), "float64"))
    return nodes.cast(nodes.where(last, nodes.expand(stop, [nodes.extent(steps, 0)]), row), dtype)


@writes("tril_triu")
def _triangle(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    wide = nodes.cast(x, "int32") if x.kind in ("uint8", "int8", "int16", "uint16") else x
    result = nodes.one(
        "Trilu", [wide, nodes.constant(np.asarray(int(call.attr("diagonal"))))], wide.kind, x.sizes, upper=int(not call.attr("lower"))
    )
    return nodes.cast(result, x.kind)


@writes("accuracy")
def _accuracy(call: Call) -> Result:
    """How many rows have their label among the indices."""
    nodes, index, label = call.nodes, call["Indices"], call["Label"]
    hits = nodes.cast(on.equal(index, nodes.cast(label, index.kind)), "int32")
    hit_count = nodes.reduce("Sum", nodes.reduce("Max", hits, [1]), [0], keep=True)
    total = nodes.cast(nodes.vector([nodes.extent(index, 0)]), "int32")
    share = nodes.cast(hit_count, "float32") / on.maximum(nodes.cast(total, "float32"), 1.0)
    types = [call.output(slot) for slot in ("Accuracy", "Correct", "Total")]
    return [nodes.reshape(value, [1] * len(type.shape)) for value, type in zip((share, hit_count, total), types, strict=True)]
