"""Tensors with one extent that only the run knows: with room for a bounded number of elements, and a count of those that there are.

    tensor_array_to_tensor(a) -> e: float64[-1, 3]    ⇒    data: float64[16, 3], count: how many of its rows there are, zeros after them
    reduce_mean(e) {dim=[0]} -> float64[3]            ⇒    mean(data) * (16 / count)

XLA compiles for shapes that are known. (It has this kind of extent itself, as bounded dynamism, which ``jax.numpy`` does not show.) What
an operator does along the unknown extent is the index that its dimensions say (``ops.dimensions``, the rules by which tensors are cut):
where each place is made of the same place of the inputs it runs on the data, and where places are summed the zeros add nothing. An
operator that has no such index along the extent is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from graphad.errors import ShapeError
from graphad.jax.registry import plain, refuse
from graphad.jax.xla_array import Known, wrapped
from graphad.ops.aggregates import Aggregate
from graphad.ops.definition import Inputs, OpDef, Outputs
from graphad.ops.dimensions import dimensions
from graphad.ops.traits import Dimensions, Label
from graphad.types import Array, Function, Shape, Tensor, TensorType

LEAST = 2  # elements of room: an extent of one would be broadcast
Run = Callable[[Inputs], Outputs]


class Bounded(NDArrayOperatorsMixin, Aggregate):
    """A tensor of which ``axis`` has ``count`` elements, known when the program runs: ``data`` has room for more, which are zeros."""

    __slots__ = ("axis", "count", "data")
    __hash__ = object.__hash__

    def __init__(self, data: Tensor, count: Tensor, axis: int) -> None:
        self.data, self.count, self.axis = data, count, axis

    @classmethod
    def first(cls, data: Tensor, count: Tensor, axis: int) -> Bounded:
        """The first elements of a tensor along an axis."""
        # What is beyond the count is zero, which sums rely on.
        return cls(_kept(jnp.asarray(data), count, axis, 0), count, axis)

    @property
    def dtype(self) -> np.dtype[Tensor]:
        return np.dtype(self.data.dtype)

    @property
    def ndim(self) -> int:
        return int(self.data.ndim)

    @property
    def shape(self) -> Shape:
        """The extents, -1 for the unknown one."""
        return tuple(-1 if i == self.axis else int(extent) for i, extent in enumerate(self.data.shape))

    @property
    def capacity(self) -> int:
        """How many elements there may be along the axis."""
        return int(self.data.shape[self.axis])

    @property
    def size(self) -> Tensor:
        """How many elements there are in all."""
        # The elements along the other axes, times those that there are.
        return self.count * (int(np.prod(self.data.shape)) // self.capacity)

    def sized(self, capacity: int) -> Bounded:
        """With another capacity, no smaller than it is."""
        more = capacity - self.capacity
        if more <= 0:
            return self
        return Bounded(jnp.pad(self.data, [(0, more if i == self.axis else 0) for i in range(self.ndim)]), self.count, self.axis)

    def zeros_like(self) -> Bounded:
        return Bounded(jnp.zeros_like(self.data), self.count, self.axis)

    def parts(self) -> Iterator[Tensor]:
        return iter((self.data,))

    def __array__(self, dtype: Tensor = None, copy: object = None) -> Array:
        """The tensor, after the run."""
        return np.asarray(np.take(np.asarray(self.data), np.arange(int(self.count)), self.axis), dtype)

    def __repr__(self) -> str:
        extents = ", ".join(f"at most {self.capacity}" if extent == -1 else str(extent) for extent in self.shape)
        return f"{self.dtype}[{extents}]"

    # -- arithmetic, which rules of gradients do on what they are given ---------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Tensor, **options: object) -> Bounded:  # type: ignore[override]
        """A function of each element, as ``x + y`` and the other operators are (``NDArrayOperatorsMixin``)."""
        if method != "__call__" or options or ufunc.nout != 1 or ufunc.signature is not None:
            return NotImplemented
        return _combined(ufunc, *inputs)


def as_bounded(value: Tensor, axis: int, capacity: int) -> Bounded:
    """A tensor as one whose extent along an axis is not known, with room for at least as many elements."""
    if isinstance(value, Bounded):
        return value.sized(capacity)
    value = jnp.asarray(value)
    return Bounded(value, jnp.asarray(value.shape[axis], jnp.int64), axis).sized(max(capacity, LEAST))


def _kept(data: Tensor, count: Tensor, axis: int, beyond: Tensor) -> Tensor:
    """The first elements along an axis, and something else beyond them."""
    place = jnp.arange(data.shape[axis]).reshape([-1 if i == axis else 1 for i in range(data.ndim)])
    return jnp.where(place < count, data, jnp.asarray(beyond, data.dtype))


def _common(values: Sequence[Bounded]) -> Tensor:
    """How many elements tensors have that are to have as many; 0 is the count of a cotangent that no side of a branch has written."""
    count = values[0].count
    for value in values[1:]:
        # The same traced number needs no comparison.
        if value.count is not count:
            differ = (value.count != count) & (value.count > 0) & (count > 0)
            refuse(differ, "its inputs have different extents where only the run knows them, and are not broadcast there")
            count = jnp.maximum(count, value.count)
    return count


def _combined(ufunc: np.ufunc, *operands: Tensor) -> Bounded:
    """A function of numpy's of tensors of one rank, and of numbers."""
    bounded = [x for x in operands if isinstance(x, Bounded)]
    axis, capacity, rank = bounded[0].axis, max(x.capacity for x in bounded), bounded[0].ndim
    # Of the others those that reach the unknown axis have to be broadcast along it.
    whole = [x for x in operands if not isinstance(x, Bounded) and np.ndim(plain(x)) > rank - axis - 1]
    if any((x.axis, x.ndim) != (axis, rank) for x in bounded) or any(x.ndim > rank or x.shape[axis - rank] != 1 for x in whole):
        raise Known(f"{' and '.join(map(repr, operands))} have an extent that is known only when the program runs")
    count = _common(bounded)
    result = plain(ufunc(*(wrapped(x.sized(capacity).data) if isinstance(x, Bounded) else x for x in operands)))
    return Bounded.first(result, count, axis)


# -- operators -----------------------------------------------------------------------------------

OF_BOUNDED: dict[str, Function] = {}


def of_bounded(*definitions: OpDef) -> Callable[[Function], Function]:
    """Let a function compute operators where an input is ``Bounded``: of what looks at extents, or is not one tensor."""

    def add(form: Function) -> Function:
        OF_BOUNDED.update({definition.type: form for definition in definitions})
        return form

    return add


def has_bounded(values: Sequence[Tensor]) -> bool:
    """Whether one of the values is ``Bounded``."""
    return any(isinstance(value, Bounded) for value in values)


def applied(definition: OpDef, inputs: Inputs, attrs: Mapping[str, Tensor], run: Run) -> Outputs:
    """The outputs of an operator of which some inputs are ``Bounded``; ``run`` computes it on tensors.

    Raises:
        Known: it depends on the extent that is not known.
    """
    form = OF_BOUNDED.get(definition.type)
    if form is not None:
        result = form(*(plain(argument) for argument in definition.arguments(inputs)), **attrs)
        results = result if isinstance(result, tuple) else (result,)
        return {slot: [value] for slot, value in zip(definition.outputs, results, strict=False)}
    inputs = {slot: [x for x in values if x is not None] for slot, values in inputs.items()}
    bounded = [x for values in inputs.values() for x in values if isinstance(x, Bounded)]
    # All get the room of the largest; what lies beyond their counts is padding, which must not reach a result.
    capacity = max(LEAST, *(x.capacity for x in bounded))
    inputs = {slot: [x.sized(capacity) if isinstance(x, Bounded) else x for x in values] for slot, values in inputs.items()}
    along = _along(definition, inputs, attrs, capacity)
    return along.outputs(inputs, _common(bounded), capacity, run)


@dataclass(frozen=True)
class _Along:
    """An operator applied along the unknown extent.

    Attributes:
        label: the index of the extent.
        dimensions: those of the operator.
    """

    label: Label
    dimensions: Dimensions

    def outputs(self, inputs: Inputs, count: Tensor, capacity: int, run: Run) -> Outputs:
        """The operator on the data, with what is beyond the count left out of its outputs."""
        kind = self.dimensions.reduced.get(self.label)
        if kind in ("max", "min"):
            refuse(count == 0, "there is no extremum over an axis without elements")
        # Zeros add nothing to a sum. Of an extremum the first element is what changes nothing when it is there again.
        data = {
            slot: [self._padded(x, count, slot, i, kind in ("max", "min")) for i, x in enumerate(values)] for slot, values in inputs.items()
        }
        return {
            slot: [self._settled(plain(x), self.dimensions.outputs[slot][i], count, capacity) for i, x in enumerate(values)]
            for slot, values in run(data).items()
        }

    def _padded(self, x: Tensor, count: Tensor, slot: str, i: int, is_repeated: bool) -> Tensor:
        if isinstance(x, Bounded):
            first = jnp.take(x.data, jnp.zeros(1, int), x.axis) if is_repeated else 0
            return _kept(x.data, count, x.axis, first) if is_repeated else x.data
        for axis, label in enumerate(self.dimensions.inputs[slot][i]):
            if label == self.label:
                refuse(count != x.shape[axis], f"an input has {x.shape[axis]} elements where another one has as many as only the run knows")
        return x

    def _settled(self, x: Tensor, labels: Sequence[Label | None], count: Tensor, capacity: int) -> Tensor:
        if self.label in labels:
            # The output has the extent as well: what was computed of the rest of the room is set to zero.
            return Bounded.first(x, count, labels.index(self.label))
        if self.dimensions.reduced.get(self.label) == "mean":
            return (x * (capacity / count)).astype(x.dtype)  # of no elements nan, as in numpy
        return x


def _along(definition: OpDef, inputs: Inputs, attrs: Mapping[str, Tensor], capacity: int) -> _Along:
    """The application of an operator along the unknown extent of its inputs.

    Raises:
        Known: that depends on the extent.
    """
    # As if all the room were used: which dimensions are one index does not depend on extents.
    types = {slot: [_type(x) for x in values] for slot, values in inputs.items() if values}
    try:
        results = definition.infer_types(types, attrs)
    except ShapeError as error:
        raise _refused(inputs) from error
    shapes, result_shapes = ({slot: [t.shape for t in ts] for slot, ts in side.items()} for side in (types, results))
    dims = dimensions(definition, shapes, result_shapes, attrs)
    labels = {} if dims is None else {dims.inputs[slot][i][x.axis] for slot, i, x in _places(inputs) if isinstance(x, Bounded)}
    if dims is None or len(labels) != 1 or None in labels:
        raise _refused(inputs)
    (label,) = labels
    # A number in an attribute would be that of the room.
    is_said = any(label in extents and attrs[name][extents.index(label)] > 0 for name, extents in dims.shapes.items() if attrs.get(name))
    has_place = all(label in labels_of_result or label in dims.reduced for group in dims.outputs.values() for labels_of_result in group)
    if is_said or not has_place or label in dims.even:
        raise _refused(inputs)
    return _Along(label, dims)


def _places(inputs: Inputs) -> Iterator[tuple[str, int, Tensor]]:
    return ((slot, i, x) for slot, values in inputs.items() for i, x in enumerate(values))


def _type(x: Tensor) -> TensorType:
    data = x.data if isinstance(x, Bounded) else plain(x)
    return TensorType(tuple(data.shape), np.dtype(data.dtype).name)


def _refused(inputs: Inputs) -> Known:
    (name, *_) = [repr(x) for _, _, x in _places(inputs) if isinstance(x, Bounded)]
    return Known(f"an input is {name}, an extent of which is known only when the program runs")


__all__ = ["OF_BOUNDED", "Bounded", "applied", "as_bounded", "has_bounded", "of_bounded"]
