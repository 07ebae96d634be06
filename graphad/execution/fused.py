"""``fused_elementwise``: the operators of its block on pieces of the arrays, one piece after the other, each small enough for a cache.

    for every piece:  t = x[piece] * y[piece];  t = t + z[piece];  out[piece] = tanh(t)

Buffers between operators are as long as a piece, and reused. Where arrays turn out not to be of one shape, where something is
kept for a gradient, or where an operator has no such form, the block is run as that of a ``net``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphad.execution.layout import Layout, depth, home
from graphad.execution.replay import Runner
from graphad.execution.steps import Frames, Step
from graphad.ops import REGISTRY, OpDef
from graphad.ops.fused import FUSED_ELEMENTWISE
from graphad.ops.in_place import Write, takes_required, writer
from graphad.program import Block, Operator
from graphad.types import TENSOR, Shape, element_count

Array = NDArray[Any]
PIECE = 1 << 20  # bytes that all the arrays of a piece take together, about
_LEAST = 2048  # elements of a piece, at least


class _Call(NamedTuple):
    """One operator of the block: its function, and the places of its operands and results."""

    write: Write
    reads: tuple[int, ...]
    target: int


class _Work(NamedTuple):
    """The block as calls over places: inputs first, then results, then arrays in between.

    ``dtypes`` has one for each place, ``whole`` says which inputs have one element, ``names`` those of inputs and results.
    """

    calls: list[_Call]
    dtypes: list[np.dtype[Any]]
    whole: list[bool]
    inputs: list[str]
    results: list[str]


def fused_step(run: Runner, op: Operator, layout: Layout, plain: Step) -> Step:
    """The step of a ``fused_elementwise``; ``plain`` runs it as a ``net``."""
    if op.type != FUSED_ELEMENTWISE or run.check_finite or op.output("Scope"):
        return plain
    block: Block = op.attrs["sub_block"]
    work = None if run.saved.get(block.idx) else _planned(op, block)
    if work is None:
        return plain
    reads = [(depth(layout, name), name) for name in work.inputs]
    writes = [(home(layout, name), name) for name in work.results]

    def step(frames: Frames) -> None:
        try:
            arrays = [frames[at][name] for at, name in reads]
        except KeyError:
            arrays = [run.fetch(frames, place, op) for place in reads]
        shape = _common_shape(work, arrays)
        if shape is None:
            return plain(frames)
        for (at, name), result in zip(writes, _in_pieces(work, arrays, shape), strict=True):
            frames[at][name] = result

    return step


# -- running -------------------------------------------------------------------------------------


def _common_shape(work: _Work, arrays: Sequence[Any]) -> tuple[int, ...] | None:
    """The shape that all arrays have, but for those of one element; None if there is none, or something is not as declared."""
    shape = None
    for array, dtype, whole in zip(arrays, work.dtypes, work.whole, strict=False):
        if type(array) is not np.ndarray or array.dtype != dtype or (whole and array.size != 1):
            return None
        if not whole:
            shape = array.shape if shape is None else shape
            if array.shape != shape or not array.flags.c_contiguous:
                return None
    return shape


def _in_pieces(work: _Work, arrays: Sequence[Array], shape: tuple[int, ...]) -> list[Array]:
    """Run the calls on one piece after the other; return the results."""
    count, many = len(arrays), len(arrays) + len(work.results)
    results = [np.empty(shape, dtype) for dtype in work.dtypes[count:many]]
    flat = [a.reshape(()) if whole else a.reshape(-1) for a, whole in zip(arrays, work.whole, strict=True)]
    flat += [each.reshape(-1) for each in results]
    total = flat[-1].size
    length = max(_LEAST, PIECE // max(sum(dtype.itemsize for dtype in work.dtypes), 1))
    between = [np.empty(min(length, total), dtype) for dtype in work.dtypes[many:]]
    whole = [*work.whole, *([False] * len(results))]
    for start in range(0, total, length):
        end = min(start + length, total)
        pieces = [each if one else each[start:end] for each, one in zip(flat, whole, strict=True)]
        pieces += between if end - start == length else [each[: end - start] for each in between]
        for call in work.calls:
            call.write([pieces[i] for i in call.reads], pieces[call.target])
    return results


# -- planning ------------------------------------------------------------------------------------


def _planned(op: Operator, block: Block) -> _Work | None:
    """The block as calls, None if an operator or a type does not allow it."""
    plan = _Plan(op, block)
    ok = all(plan.add(each) for each in block.ops)
    return plan.work() if ok else None


class _Plan:
    """Names become places: ``place`` is where the current value of a name is."""

    def __init__(self, op: Operator, block: Block) -> None:
        self.block = block
        self.results = list(op.output("Out"))
        read = {name for each in block.ops for name in each.input_names()}
        self.inputs = [name for name in dict.fromkeys(op.input("X")) if name in read]
        self.place = {name: i for i, name in enumerate(self.inputs)}
        self.last = {name: i for i, each in enumerate(block.ops) for name in each.input_names()}
        self.final = {name: i for i, each in enumerate(block.ops) for name in each.output_names()}
        self.shape = self.declared(self.results[0])[0] if self.results else None
        self.dtypes = [self.dtype(name) for name in (*self.inputs, *self.results)]
        self.free: list[int] = []
        self.gone: set[str] = set()
        self.calls: list[_Call] = []

    def declared(self, name: str) -> tuple[Shape | None, str | None]:
        """The shape and dtype that a tensor is declared with."""
        var = self.block.var_recursive(name) if self.block.has_var_recursive(name) else None
        return (None, None) if var is None or var.type != TENSOR else var.declared

    def dtype(self, name: str) -> np.dtype[Any] | None:
        """The dtype of a tensor of the common shape or of one element; None for any other."""
        shape, dtype = self.declared(name)
        if shape is None or dtype is None or not (shape == self.shape or (self.is_one(name) and name in self.inputs)):
            return None
        return np.dtype(dtype)

    def add(self, op: Operator) -> bool:
        """One operator more; whether that is possible."""
        row = REGISTRY.get(op.type)
        given = [slot for slot, names in op.inputs.items() if names]
        if row is None or not row.elementwise or len(op.output_names()) != 1 or not takes_required(row, given):
            return False
        if any(name not in self.place for name in op.input_names()):
            return False
        (name,), at = op.output_names(), len(self.calls)
        reads = tuple(self.place[each] for each in op.input_names())
        if len(reads) < 3:
            self.let_go(op.input_names(), at)
        target = self.target(name, at)
        dtypes = [self.dtypes[place] for place in reads]
        if target is None or any(dtype is None for dtype in dtypes):  # numpy takes None for float64
            return False
        attrs = {key: value for key, value in op.attrs.items() if key in row.attrs}
        aliased = [i for i, place in enumerate(reads) if place == target]
        self.calls.append(_Call(writer_of(row, attrs, dtypes, self.dtypes[target], aliased), reads, target))
        self.place[name] = target
        self.let_go((*op.input_names(), name), at)
        return True

    def target(self, name: str, at: int) -> int | None:
        """Where the value that an operator writes goes: to a result if it is the last of that name, else to a free array."""
        if name in self.results and self.final[name] == at:
            return len(self.inputs) + self.results.index(name)
        dtype = self.dtype(name)
        if dtype is None:
            return None
        found = next((i for i in self.free if self.dtypes[i] == dtype), None)
        if found is not None:
            self.free.remove(found)
            return found
        self.dtypes.append(dtype)
        return len(self.dtypes) - 1

    def let_go(self, names: Sequence[str], at: int) -> None:
        """Intermediate arrays that are dead after an operator can be reused, by the operator itself too if it reads one or two."""
        first = len(self.inputs) + len(self.results)
        for name in names:
            place = self.place[name]
            if place >= first and self.last.get(name, -1) <= at and place not in self.free and name not in self.gone:
                self.free.append(place)
                self.gone.add(name)

    def work(self) -> _Work | None:
        """The instructions."""
        if not self.calls or not all(name in self.final for name in self.results) or any(dtype is None for dtype in self.dtypes):
            return None
        whole = [self.is_one(name) for name in self.inputs]
        dtypes = [dtype for dtype in self.dtypes if dtype is not None]
        return None if all(whole) else _Work(self.calls, dtypes, whole, self.inputs, self.results)

    def is_one(self, name: str) -> bool:
        """Whether a tensor is declared to have one element, and no more axes than the common shape."""
        shape = self.declared(name)[0]
        return shape is not None and self.shape is not None and len(shape) <= len(self.shape) and element_count(shape) == 1


def writer_of(row: OpDef, attrs: Mapping[str, Any], dtypes: Sequence[Any], out: Any, aliased: Sequence[int] = ()) -> Write:
    """The function that computes an operator into an array: by its arithmetic, or by its kernel and a copy."""
    flat = {**attrs, "axis": -1} if "axis" in row.attrs else attrs
    found = writer(row, flat, dtypes, out, aliased)
    return _copied(row.kernel, flat) if found is None else found


def _copied(kernel: Callable[..., Any], attrs: Mapping[str, Any]) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        np.copyto(out, kernel(*arrays, **attrs))

    return write
