"""The nodes of a file that is written: ONNX's operators as functions of terms, extents that are known before a run or not.

An extent is an int, or a term of one element where only a run knows it; arithmetic takes both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphad.errors import InvalidValue
from graphad.interop.onnx.terms import NARROW, Axis, Size, Term, known, on
from graphad.types import Array, Shape

Dim = int | Term
Type = tuple[str, Sequence[Size]]
TO_THE_END = np.iinfo("int64").max
_SMALL = 64  # elements of a vector of extents
# What onnxruntime has no kernel of Where for, and in what it is chosen; the bits of uint64 are those of int64.
_CHOSEN_AS = {"bool": "uint8", "int16": "int32", "uint16": "int32", "uint64": "int64"}
# Operators that are not defined for narrow integers, or run nowhere: they are computed in int32.
_WIDENED = frozenset(
    [
        "Pow",
        "Max",
        "Min",
        "Neg",
        "MatMul",
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "CumSum",
        "ArgMax",
        "ArgMin",
        "TopK",
        "Trilu",
        "Range",
        "Where",
        "Sub",
        "Mod",
        "NonZero",
        "Unique",
        "Einsum",
        "Sum",
    ]
)


@dataclass(eq=False)
class Node:
    """A node: its operator, the terms that it reads (None for one that is left out) and writes, its attributes.

    The type of one that is not ONNX's own is ``domain::type``.
    """

    type: str
    inputs: list[Term | None]
    outputs: list[Term]
    attrs: dict[str, object]


@dataclass(eq=False)
class Frame:
    """A graph: its inputs, nodes and outputs, and what its nodes compute, so that nothing is computed twice."""

    inputs: list[Term] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Term] = field(default_factory=list)
    found: dict[object, list[Term]] = field(default_factory=dict)


class Nodes:
    """Makes nodes. The last of ``frames`` is the graph that is being written, the others are around it.

    Args:
        opset: the operator set.
    """

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.frames = [Frame()]
        self.constants: dict[tuple[str, Shape, bytes], Term] = {}
        self.named: dict[str, Axis] = {}  # extents of the inputs by their names
        self.domains: dict[str, int] = {}  # the versions of other operator sets that nodes are of

    # -- nodes -----------------------------------------------------------------------------------

    def node(self, type: str, inputs: Sequence[Term | None], outputs: Sequence[Type], /, **attrs: object) -> list[Term]:
        """A node; one of the graphs around that computes the same is taken in its place."""
        # Value numbering: of two equal nodes the second is not made. An id stays the term's own, as nodes hold their inputs for good; a
        # node of a graph that is closed is never found, since only the graphs around may be read.
        key = (type, tuple(map(id, inputs)), repr(sorted(attrs.items())), len(outputs))
        plain = not type.startswith("Random") and type != "Bernoulli" and not any(isinstance(value, Frame) for value in attrs.values())
        if plain:
            for frame in self.frames:
                if key in frame.found:
                    return frame.found[key]
        results = [Term(self, dtype, shape) for dtype, shape in outputs]
        self.frames[-1].nodes.append(Node(type, list(inputs), results, attrs))
        if plain:
            self.frames[-1].found[key] = results
        return results

    def of_domain(
        self, domain: str, version: int, type: str, inputs: Sequence[Term | None], outputs: Sequence[Type], attrs: Mapping[str, object]
    ) -> list[Term]:
        """A node of any domain, ``""`` for ONNX's own."""
        if domain:
            self.domains[domain] = max(version, self.domains.get(domain, 1))
        return self.node(f"{domain}::{type}" if domain else type, inputs, outputs, **attrs)

    def one(self, type: str, inputs: Sequence[Term | None], dtype: str, sizes: Sequence[Size], /, **attrs: object) -> Term:
        """A node with one output."""
        return self.node(type, inputs, [(dtype, sizes)], **attrs)[0]

    def constant(self, array: Array) -> Term:
        """A constant; equal ones are one."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = Term(self, array.dtype.name, array.shape, array)
        return self.constants[key]

    def like(self, number: float, x: Term) -> Term:
        """A number without axes in the dtype of a term."""
        return self.constant(np.asarray(number).astype(x.dtype))

    def integers(self, *numbers: int) -> Term:
        """A vector of integers."""
        return self.constant(np.asarray(numbers, "int64"))

    # -- elements --------------------------------------------------------------------------------

    def elementwise(self, type: str, *args: Term, dtype: str = "", **attrs: object) -> Term:
        """An operator on single elements; narrow integers are computed in wider ones where the operator does not take them."""
        kind = args[0].kind
        shape = broadcast(*(term.sizes for term in args))
        # ONNX does not have it for narrow integers: it is computed in int32, and the cast back cuts off what does not fit.
        if kind in NARROW and type in _WIDENED:
            wide = self.one(type, [self.cast(term, "int32") for term in args], dtype or "int32", shape, **attrs)
            return self.cast(wide, dtype or kind)
        return self.one(type, args, dtype or kind, shape, **attrs)

    def cast(self, x: Term, dtype: str) -> Term:
        """The same elements in another dtype."""
        if x.kind == dtype:
            return x
        # Small constants are cast here; large ones would be stored twice.
        if x.array is not None and x.array.size <= 64:
            with np.errstate(all="ignore"):
                return self.constant(x.array.astype(dtype))
        result = self.one("Cast", [x], dtype, x.sizes, to=np.dtype(dtype))
        if dtype in ("int32", "int64"):
            # Known extents survive a cast between integers.
            result.elements = x.elements
        return result

    def where(self, condition: Term, x: Term, y: Term) -> Term:
        """x where the condition holds, else y."""
        shape = broadcast(condition.sizes, x.sizes, y.sizes)
        wide = _CHOSEN_AS.get(x.kind)
        if wide is not None:
            return self.cast(self.one("Where", [condition, self.cast(x, wide), self.cast(y, wide)], wide, shape), x.kind)
        return self.one("Where", [condition, x, y], x.kind, shape)

    # -- extents ---------------------------------------------------------------------------------

    def extent(self, x: Term, axis: int) -> Dim:
        """The extent of an axis; what reads it from a run is in the graph of the term that has it."""
        size = x.sizes[axis % max(x.ndim, 1)]
        if not isinstance(size, Axis):
            return size
        term, place = size
        # The Shape is in the graph of the term itself, also if that is one around: a loop then reads it once, before it begins.
        key = ("Shape", id(term), place)
        outputs = term.frame.found.get(key)
        if outputs is None:
            outputs = term.frame.found[key] = [Term(self, "int64", [1])]
            outputs[0].frame, outputs[0].is_extent = term.frame, True
            term.frame.nodes.append(Node("Shape", [term], outputs, {"start": place, "end": place + 1}))
        return outputs[0]

    def dims(self, x: Term) -> list[Dim]:
        """All extents."""
        return [self.extent(x, i) for i in range(x.ndim)]

    def shape_of(self, x: Term) -> Term:
        """The extents as a vector."""
        if -1 not in x.shape:
            return self.integers(*x.shape)
        vector = self.one("Shape", [x], "int64", [x.ndim])
        vector.elements = tuple(self.dims(x))
        return vector

    def vector(self, dims: Sequence[Dim]) -> Term:
        """Extents as a vector."""
        if all(isinstance(dim, int) for dim in dims):
            return self.constant(np.asarray(dims, "int64"))
        # A vector that is computed from others, since only the model's run knows some extents.
        parts = [self.integers(dim) if isinstance(dim, int) else self.as_vector(dim) for dim in dims]
        return parts[0] if len(parts) == 1 else self.concat(parts, 0)

    def as_vector(self, x: Term) -> Term:
        """One number as a vector of int64."""
        x = self.cast(x, "int64")
        return x if x.shape == (1,) else self.one("Reshape", [x, self.integers(1)], "int64", [1])

    def as_scalar(self, x: Dim) -> Term:
        """One number without axes."""
        if isinstance(x, int):
            return self.constant(np.asarray(x, "int64"))
        return self.squeeze(x, range(x.ndim))

    def elements(self, x: Term) -> tuple[Dim, ...] | None:
        """The extents that are in a vector, or in a term of one element; None where they are not known to be extents."""
        if x.elements is not None:
            return x.elements
        if x.array is not None and x.array.dtype.kind in "iu" and x.array.size <= _SMALL:
            return tuple(int(number) for number in x.array.ravel())
        return (x,) if x.is_extent else None

    def product(self, dims: Sequence[Dim]) -> Dim:
        """The product of extents."""
        total: Dim = math.prod(dim for dim in dims if isinstance(dim, int))
        for dim in dims:
            # No multiplication by 1 is written.
            if isinstance(dim, Term):
                total = dim if isinstance(total, int) and total == 1 else dim * total
        return total

    def size(self, x: Term) -> Term:
        """The number of elements, without axes."""
        return self.one("Size", [x], "int64", []) if -1 in x.shape else self.constant(np.asarray(math.prod(x.shape), "int64"))

    # -- arrangement -----------------------------------------------------------------------------

    def reshape(self, x: Term, dims: Sequence[Dim]) -> Term:
        """Another shape; where one extent is not known it is what remains."""
        shape = static(dims)
        if len(dims) == x.ndim and all(map(is_same, dims, x.sizes)):
            return x
        if x.array is not None and x.array.size <= _SMALL and known(shape):
            return self.constant(x.array.reshape(shape))
        open_axes = [i for i, dim in enumerate(dims) if not isinstance(dim, int) or dim == -1]
        sizes: list[Size] = list(dims)
        # Reshape takes one -1. A 0 means "as in the input" unless allowzero is set, and with allowzero there may be no -1.
        if len(open_axes) == 1 and 0 not in shape:
            dims = [-1 if i in open_axes else dim for i, dim in enumerate(dims)]
            if known(x.shape):
                sizes[open_axes[0]] = math.prod(x.shape) // max(1, -math.prod(shape))
        result = self.one("Reshape", [x, self.vector(dims)], x.kind, sizes, **({"allowzero": 1} if 0 in shape else {}))
        result.elements = x.elements
        return result

    def flatten(self, x: Term) -> Term:
        """All elements in a row."""
        return self.one("Reshape", [x, self.integers(-1)], x.kind, [-1 if -1 in x.shape else math.prod(x.shape)])

    def transpose(self, x: Term, order: Sequence[int]) -> Term:
        """The axes in another order."""
        order = [axis % max(x.ndim, 1) for axis in order]
        if order == sorted(order):
            return x
        return self.one("Transpose", [x], x.kind, [x.sizes[i] for i in order], perm=list(order))

    def moved(self, x: Term, source: int, target: int) -> Term:
        """One axis moved."""
        order = [i for i in range(x.ndim) if i != source % x.ndim]
        order.insert(target % x.ndim, source % x.ndim)
        return self.transpose(x, order)

    def unsqueeze(self, x: Term, axes: Sequence[int]) -> Term:
        """New axes of one element; ``axes`` are places in the result, in ascending order."""
        if not axes:
            return x
        shape = list(x.sizes)
        for axis in sorted(axes):
            shape.insert(axis, 1)
        if x.array is not None and x.array.size <= _SMALL:
            return self.constant(np.expand_dims(x.array, tuple(sorted(axes))))
        result = self.one("Unsqueeze", [x, self.integers(*axes)], x.kind, shape)
        result.elements = x.elements
        return result

    def squeeze(self, x: Term, axes: Sequence[int]) -> Term:
        """Without axes of one element."""
        if not axes:
            return x
        if x.array is not None and x.array.size <= _SMALL:
            return self.constant(np.squeeze(x.array, tuple(axes)))
        result = self.one("Squeeze", [x, self.integers(*axes)], x.kind, [e for i, e in enumerate(x.sizes) if i not in axes])
        result.elements = x.elements
        return result

    def expand(self, x: Term, dims: Sequence[Dim]) -> Term:
        """Broadcast to extents."""
        if len(dims) == x.ndim and all(map(is_same, dims, x.sizes)):
            return x
        return self.one("Expand", [x, self.vector(dims)], x.kind, dims)

    def concat(self, parts: Sequence[Term], axis: int) -> Term:
        """One after the other along an axis."""
        if len(parts) == 1:
            return parts[0]
        axis %= parts[0].ndim
        extents = [part.shape[axis] for part in parts]
        sizes = list(parts[0].sizes)
        sizes[axis] = -1 if -1 in extents else sum(extents)
        result = self.one("Concat", parts, parts[0].kind, sizes, axis=axis)
        if result.ndim == 1 and result.dtype.kind == "i":
            # Shapes are concatenated from extents; what is known of them keeps later operators from asking for a run.
            known_parts = [self.elements(part) for part in parts]
            if all(part is not None for part in known_parts):
                result.elements = tuple(e for part in known_parts for e in part or ())
        return result

    def split(self, x: Term, sizes: Sequence[Dim], axis: int) -> list[Term]:
        """Parts along an axis, by their extents."""
        if len(sizes) == 1:
            return [x]
        axis %= x.ndim
        types = [(x.kind, (*x.sizes[:axis], size, *x.sizes[axis + 1 :])) for size in sizes]
        return self.node("Split", [x, self.vector(sizes)], types, axis=axis)

    def slice(self, x: Term, axes: Sequence[int], starts: Sequence[Dim], ends: Sequence[Dim], steps: Sequence[Dim] | None = None) -> Term:
        """Slices with Python's meaning of bounds."""
        if not axes:
            return x
        strides: Sequence[Dim] = steps or [1] * len(axes)
        shape = list(x.sizes)
        for axis, start, end, step in zip(axes, starts, ends, strides, strict=True):
            shape[axis] = _sliced(x.shape[axis], start, end, step)
        bounds = [self.vector(starts), self.vector(ends), self.integers(*axes)]
        if any(not isinstance(stride, int) or stride != 1 for stride in strides):
            bounds.append(self.vector(strides))
        result = self.one("Slice", [x, *bounds], x.kind, shape)
        start, end, step = starts[0], ends[0], strides[0]
        if x.elements is not None and x.ndim == 1 and isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
            # A slice of a shape is a shape: its extents are known as before.
            result.elements = x.elements[slice(start, end, step)]
        return result

    def part(self, x: Term, axis: int, start: Dim, end: Dim) -> Term:
        """A slice of one axis."""
        return self.slice(x, [axis % x.ndim], [start], [end])

    def flip(self, x: Term, axes: Sequence[int]) -> Term:
        """The tensor reversed along axes."""
        places = [axis % x.ndim for axis in axes]
        # Where a step is negative, an end of -1 is the last element; only an end far below zero is "before the first".
        first, last, back = [-1] * len(places), [-TO_THE_END] * len(places), [-1] * len(places)
        result = self.slice(x, places, first, last, back)
        result.sizes, result.shape = x.sizes, x.shape
        return result

    def pad(
        self, x: Term, before: Sequence[Dim], after: Sequence[Dim], value: float = 0.0, mode: str = "constant", axes: Sequence[int] = ()
    ) -> Term:
        """Elements around; one number each for every axis, or for each of ``axes``."""
        if all(isinstance(amount, int) and not amount for amount in (*before, *after)):
            return x
        # Written for all axes: where onnxruntime moves a transposition past a Pad, it takes the pads of some axes for those of all.
        if axes:
            before, after = ([dict(zip(axes, some, strict=True)).get(i, 0) for i in range(x.ndim)] for some in (before, after))
        shape = list(x.sizes)
        for axis, (a, b) in enumerate(zip(before, after, strict=True)):
            if isinstance(a, int) and isinstance(b, int) and not a and not b:
                continue
            shape[axis] = x.shape[axis] + a + b if isinstance(a, int) and isinstance(b, int) and x.shape[axis] != -1 else -1
        inputs = [x, self.vector([*before, *after]), self.like(value, x) if mode == "constant" else None]
        if inputs[-1] is None:
            inputs.pop()
        # Pad takes int16 and uint16 by the standard; onnxruntime has no kernels for them.
        if x.kind in ("int16", "uint16"):
            return self.cast(self.pad(self.cast(x, "int32"), before, after, value, mode), x.kind)
        return self.one("Pad", inputs, x.kind, shape, mode=mode)

    def full(self, dims: Sequence[Dim], value: float, dtype: str) -> Term:
        """One value in a shape."""
        shape = static(dims)
        filler = np.asarray(value).astype(dtype)
        if known(shape) and math.prod(shape) <= 1:
            return self.constant(np.full(shape, filler))
        return self.one("ConstantOfShape", [self.vector(dims)], dtype, dims, value=filler.reshape(1))

    def range(self, count: Dim) -> Term:
        """0, 1, 2 ... as int64."""
        if isinstance(count, int):
            return self.constant(np.arange(count, dtype="int64"))
        ends = [self.constant(np.asarray(0)), self.as_scalar(count), self.constant(np.asarray(1))]
        return self.one("Range", ends, "int64", [count])

    # -- sums and products -----------------------------------------------------------------------

    def reduce(self, kind: str, x: Term, axes: Sequence[int], keep: bool = False) -> Term:
        """A reduction (``Sum``, ``Mean``, ``Max`` ...) over axes."""
        axes = [axis % x.ndim for axis in axes] if x.ndim else []
        shape = [1 if i in axes else e for i, e in enumerate(x.sizes) if keep or i not in axes]
        if not axes:
            return on.abs(x) if kind in ("L1", "L2") else x
        wide = x.kind in NARROW
        # ONNX reduces no bools and no narrow integers.
        operand = self.cast(x, "uint8" if x.kind == "bool" and kind in ("Max", "Min") else "int32") if wide else x
        result = self.one(f"Reduce{kind}", [operand, self.integers(*axes)], operand.kind, shape, keepdims=int(keep))
        return self.cast(result, x.kind) if wide else result

    def arg(self, kind: str, x: Term, axis: int, keep: bool = True) -> Term:
        """The index of the first extremum along an axis, by ``ArgMax`` or ``ArgMin``."""
        axis %= x.ndim
        shape = [1 if i == axis else e for i, e in enumerate(x.sizes) if keep or i != axis]
        operand = self.cast(x, "int32") if x.kind in NARROW else x
        return self.one(kind, [operand], "int64", shape, axis=axis, keepdims=int(keep))

    def matmul(self, x: Term, y: Term) -> Term:
        """As numpy's."""
        if x.kind in NARROW:
            return self.cast(self.matmul(self.cast(x, "int32"), self.cast(y, "int32")), x.kind)
        lead = broadcast(x.sizes[:-2], y.sizes[:-2])
        rows = x.sizes[-2:-1] if x.ndim > 1 else ()
        columns = y.sizes[-1:] if y.ndim > 1 else ()
        return self.one("MatMul", [x, y], x.kind, [*lead, *rows, *columns])

    def swapped(self, x: Term) -> Term:
        """With the last two axes exchanged."""
        return x if x.ndim < 2 else self.transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])

    # -- indices ---------------------------------------------------------------------------------

    def gather(self, x: Term, index: Term, axis: int) -> Term:
        """Slices by index along an axis."""
        axis %= x.ndim
        result = self.one("Gather", [x, self.index(index)], x.kind, [*x.sizes[:axis], *index.sizes, *x.sizes[axis + 1 :]], axis=axis)
        if x.elements is not None and x.ndim == 1 and index.array is not None:
            result.elements = tuple(x.elements[int(i)] for i in index.array.ravel())
        return result

    def index(self, index: Term) -> Term:
        """Indices as int64."""
        return index if index.kind == "int32" else self.cast(index, "int64")

    def take(self, x: Term, index: Term, axis: int) -> Term:
        """An element of each line along an axis for each index."""
        return self.one("GatherElements", [x, self.index(index)], x.kind, index.sizes, axis=axis % x.ndim)

    def put(self, x: Term, index: Term, values: Term, axis: int, how: str = "none") -> Term:
        """Elements put at indices along an axis: in the place of what is there, or combined with it."""
        attrs: dict[str, object] = {"axis": axis % x.ndim}
        if how != "none":
            attrs["reduction"] = how
        return self.one("ScatterElements", [x, self.index(index), values], x.kind, x.sizes, **attrs)

    def scatter(self, x: Term, index: Term, values: Term, how: str = "none") -> Term:
        """Parts put at coordinates."""
        attrs: dict[str, object] = {} if how == "none" else {"reduction": how}
        return self.one("ScatterND", [x, self.cast(index, "int64"), values], x.kind, x.sizes, **attrs)

    def counted(self, index: Term, extent: Dim) -> Term:
        """Indices that may count from the end, counted from the front."""
        index = self.cast(index, "int64")
        more = index + (extent if isinstance(extent, int) else self.as_scalar(extent))
        return self.where(on.less(index, 0), more, index)

    def one_hot(self, index: Term, depth: Dim, dtype: str, axis: int = -1) -> Term:
        """1 at each index along a new axis, else 0; an index beyond gives zeros."""
        index = self.unsqueeze(self.cast(index, "int64"), [axis % (index.ndim + 1)])
        places = self.reshape(self.range(depth), [depth, *[1] * (index.ndim - 1 - axis % index.ndim)])
        return self.cast(on.equal(index, places), dtype)

    # -- nested graphs ---------------------------------------------------------------------------

    def graph(self, types: Sequence[Term], build: Callable[[list[Term]], Sequence[Term]]) -> Frame:
        """A nested graph: ``build`` gets its inputs, of the types of terms, and returns its outputs."""
        frame = Frame()
        self.frames.append(frame)
        frame.inputs = [Term(self, term.kind, term.sizes, is_sequence=term.is_sequence) for term in types]
        try:
            for term in build(list(frame.inputs)):
                # An output has to be made by a node of the graph itself, and no two outputs may be one value: else an Identity makes it.
                is_taken = any(term is member for member in (*frame.inputs, *frame.outputs))
                frame.outputs.append(self.copied(term) if is_taken or term.frame is not frame else term)
        finally:
            self.frames.pop()
        return frame

    def outside(self, size: Size) -> Size:
        """An extent of a nested graph that was written, as the graph around knows it: -1 where it does not."""
        owner = size.term.frame if isinstance(size, Axis) else size.frame if isinstance(size, Term) else self.frames[0]
        return size if any(owner is frame for frame in self.frames) else -1

    def copied(self, x: Term) -> Term:
        """A value of the graph that is being written: outputs are no inputs, and none is there twice."""
        copy = Term(self, x.kind, x.sizes, is_sequence=x.is_sequence)
        self.frames[-1].nodes.append(Node("Identity", [x], [copy], {}))
        return copy

    def choose(self, condition: Term, yes: Callable[[], Sequence[Term]], no: Callable[[], Sequence[Term]]) -> list[Term]:
        """The results of one of two graphs."""
        branches = [self.graph([], _without_inputs(build)) for build in (yes, no)]
        outputs = []
        for a, b in zip(*(branch.outputs for branch in branches), strict=True):
            # An extent is known outside where both branches have the same; one that is named inside has no meaning outside.
            sizes = [self.outside(x) if is_same(x, y) else -1 for x, y in zip(a.sizes, b.sizes, strict=False)]
            outputs.append(Term(self, a.kind, sizes, is_sequence=a.is_sequence))
        attrs: dict[str, object] = {"then_branch": branches[0], "else_branch": branches[1]}
        self.frames[-1].nodes.append(Node("If", [self.as_scalar(condition)], outputs, attrs))
        return outputs

    def loop(
        self,
        count: Dim | None,
        going: Term | None,
        first: Sequence[Term],
        body: Callable[[Term, list[Term]], tuple[Term | None, Sequence[Term], Sequence[Term]]],
    ) -> list[Term]:
        """A loop: ``body`` gets the number of the iteration and what is carried, and returns the condition, that, and what is stacked.

        Returns:
            What is carried at the end, and then the stacks.
        """
        types = [Term(self, "int64", []), Term(self, "bool", []), *first]
        row_terms: list[Term] = []

        def build(inputs: list[Term]) -> list[Term]:
            goes_on, states, rows = body(inputs[0], inputs[2:])
            row_terms[:] = rows
            return [self.as_scalar(goes_on) if goes_on is not None else inputs[1], *states, *rows]

        frame = self.graph(types, build)
        # What the body returns may be of another extent than what it was given: then the extent is open.
        outputs = [Term(self, a.kind, _joined(a, b), is_sequence=a.is_sequence) for a, b in zip(first, frame.outputs[1:], strict=False)]
        outputs += [Term(self, row.kind, [-1, *map(self.outside, row.sizes)]) for row in row_terms]
        condition = None if going is None else self.as_scalar(going)
        limit = None if count is None else self.as_scalar(count)
        self.frames[-1].nodes.append(Node("Loop", [limit, condition, *first], outputs, {"body": frame}))
        return outputs

    def scan(
        self,
        first: Sequence[Term],
        rows: Sequence[Term],
        body: Callable[[list[Term], list[Term]], tuple[Sequence[Term], Sequence[Term]]],
        axis: int = 0,
        backward: bool = False,
    ) -> list[Term]:
        """A loop over the slices along an axis: ``body`` takes the carried values and the slices, and returns both for the next step."""
        slices = [Term(self, row.kind, [e for i, e in enumerate(row.sizes) if i != axis]) for row in rows]
        row_terms: list[Term] = []

        def build(inputs: list[Term]) -> list[Term]:
            states, out = body(inputs[: len(first)], inputs[len(first) :])
            row_terms[:] = out
            return [*states, *out]

        frame = self.graph([*first, *slices], build)
        extent = rows[0].sizes[axis]
        outputs = [Term(self, a.kind, _joined(a, b)) for a, b in zip(first, frame.outputs, strict=False)]
        for row in row_terms:
            sizes = [self.outside(size) for size in row.sizes]
            # Rows come together along the same axis as the slices came.
            outputs.append(Term(self, row.kind, [*sizes[:axis], extent, *sizes[axis:]]))
        attrs: dict[str, object] = {"body": frame, "num_scan_inputs": len(rows), "scan_input_axes": [axis] * len(rows)}
        attrs |= {"scan_output_axes": [axis] * len(row_terms)}
        if backward:
            attrs |= {"scan_input_directions": [1] * len(rows), "scan_output_directions": [1] * len(row_terms)}
        self.frames[-1].nodes.append(Node("Scan", [*first, *rows], outputs, attrs))
        return outputs


def _without_inputs(build: Callable[[], Sequence[Term]]) -> Callable[[list[Term]], Sequence[Term]]:
    return lambda _: build()


def static(dims: Sequence[Dim]) -> Shape:
    """Extents, -1 where only a run knows one."""
    return tuple(dim if isinstance(dim, int) else int(dim.array.ravel()[0]) if dim.array is not None else -1 for dim in dims)


def broadcast(*sizes: Sequence[Size]) -> list[Size]:
    """The extents of what is made of tensors element by element."""
    rank = max(map(len, sizes))
    return [_widest([extents[i - rank + len(extents)] for extents in sizes if i >= rank - len(extents)]) for i in range(rank)]


def _widest(sizes: Sequence[Size]) -> Size:
    # Broadcasting: any number above 1 decides. Open extents are that of the result only if all are one and the same.
    numbers = [size for size in sizes if isinstance(size, int) and size != 1]
    if numbers:
        return numbers[0]
    open_ = [size for size in sizes if not isinstance(size, int)]
    if not open_:
        return 1
    return open_[0] if all(is_same(size, open_[0]) for size in open_) else -1


def is_same(a: Size, b: Size) -> bool:
    """Whether two extents are certainly one."""
    a, b = _seen(a), _seen(b)
    if isinstance(a, Axis) and isinstance(b, Axis):
        return a.term is b.term and a.place == b.place
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b != -1)


def _seen(size: Size) -> Size:
    """An extent by the term that has it, where there is one."""
    if not isinstance(size, Axis):
        return size
    terms = size.term.frame.found.get(("Shape", id(size.term), size.place))
    return size if terms is None else terms[0]


def _joined(a: Term, b: Term) -> list[Size]:
    """The extents of what is carried round a loop."""
    if a.ndim != b.ndim:
        return [-1] * a.ndim
    return [x if is_same(x, y) else -1 for x, y in zip(a.sizes, b.sizes, strict=True)]


def _sliced(extent: int, start: Dim, end: Dim, step: Dim) -> int:
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(step, int)):
        return -1
    if not step:
        raise InvalidValue("the step of a slice is not 0")
    if extent == -1:
        return -1  # whatever the bounds are, they are cut to what is there
    return len(range(*slice(start, None if end <= -TO_THE_END else end, step).indices(extent)))
