"""Parts of tensors put together, taken apart and chosen, as numpy and Paddle 2 have them; each is made of operators."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.arrays import checked_array
from graphad.layers.checks import checked_flag, checked_int
from graphad.layers.functional import named
from graphad.layers.helper import LayerHelper, checked_input, emitted, layer
from graphad.layers.tensor import assign
from graphad.program import Variable
from graphad.program.source import at_users_line

Tensors = Sequence[Variable]

# -- put together --------------------------------------------------------------------------------


def _listed(what: str, x: object) -> list[Variable]:
    if not isinstance(x, list | tuple) or not x:
        raise InvalidType(f"layers.{what} takes a list of tensors, not {x!r}")
    return [checked_input(what, item) for item in x]


def _joined(tensors: Tensors, axis: int, name: str | None) -> Variable:
    return emitted("concat", [list(tensors)], name, axis=axis)  # type: ignore[no-any-return]


def _with_axes(x: Variable, count: int, after: bool = False) -> Variable:
    """A tensor with axes of extent 1 added at the front, or at the end, until it has so many."""
    while x.ndim < count:
        x = x.unsqueeze(x.ndim if after else 0)
    return x


@layer
def tensor_array_to_tensor(input: Variable, axis: int = 1, name: str | None = None, use_stack: bool = False) -> tuple[Variable, Variable]:
    """The elements of an array in one tensor, and the extent of each along the axis.

    Args:
        input: an array of tensors of one rank and dtype; without ``use_stack`` their extents may differ along the axis.
        axis: along which they are joined.
        name: of the tensor.
        use_stack: join them along a new axis.

    Returns:
        The tensor, and int32 of the shape [number of elements]: how long each element is along ``axis``, 1 where only the result has it.

    Raises:
        TypeError: ``input`` is not an array, or ``use_stack`` not a bool.
        ShapeError: the elements lack the axis.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()):
    ...     array = ga.layers.create_array("float32", [ga.layers.ones([2, 3]), ga.layers.zeros([2, 1])])
    ...     ga.Executor().run(ga.default_main_program(), {}, ga.layers.tensor_array_to_tensor(array))
    [array([[1., 1., 1., 0.],
           [1., 1., 1., 0.]], dtype=float32), array([3, 1], dtype=int32)]
    """
    with at_users_line("layers.tensor_array_to_tensor"):
        checked_array(input)
        attrs = {"axis": checked_int("axis", axis), "use_stack": checked_flag("use_stack", use_stack)}
    helper = LayerHelper("tensor_array_to_tensor")
    tensor, extents = helper.append_all("tensor_array_to_tensor", {"X": input}, ("Out", "OutIndex"), attrs, stopped=("OutIndex",))
    return named(tensor, name), extents


@layer
def hstack(x: Tensors, name: str | None = None) -> Variable:
    """Tensors side by side, along the second axis; vectors one after the other.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     both = ga.layers.hstack([ga.layers.assign([1, 2]), ga.layers.assign([3])])
    >>> ga.Executor().run(program, fetch_list=[both])[0].tolist()
    [1, 2, 3]
    """
    tensors = [_with_axes(item, 1) for item in _listed("hstack", x)]
    return _joined(tensors, 0 if tensors[0].ndim == 1 else 1, name)


@layer
def vstack(x: Tensors, name: str | None = None) -> Variable:
    """Tensors below each other, along the first axis; vectors are rows."""
    return _joined([_with_axes(item, 2) for item in _listed("vstack", x)], 0, name)


row_stack = vstack


@layer
def dstack(x: Tensors, name: str | None = None) -> Variable:
    """Tensors joined along the third axis."""
    return _joined([_with_axes(_with_axes(item, 2), 3, after=True) for item in _listed("dstack", x)], 2, name)


@layer
def column_stack(x: Tensors, name: str | None = None) -> Variable:
    """Tensors side by side, along the second axis; vectors are columns."""
    return _joined([_with_axes(_with_axes(item, 1), 2, after=True) for item in _listed("column_stack", x)], 1, name)


def _at_least(what: str, count: int, inputs: Tensors, after: bool = False) -> Any:
    tensors = [_with_axes(_with_axes(checked_input(what, item), 2 if count == 3 else count), count, after) for item in inputs]
    return tensors[0] if len(tensors) == 1 else tensors


@layer
def atleast_1d(*inputs: Variable) -> Any:
    """Tensors with one axis or more; one tensor alone, or a list of several."""
    return _at_least("atleast_1d", 1, inputs)


@layer
def atleast_2d(*inputs: Variable) -> Any:
    """Tensors with two axes or more, new ones in front."""
    return _at_least("atleast_2d", 2, inputs)


@layer
def atleast_3d(*inputs: Variable) -> Any:
    """Tensors with three axes or more: a vector is ``[1, n, 1]``, a matrix ``[m, n, 1]``."""
    return _at_least("atleast_3d", 3, inputs, after=True)


# -- taken apart ---------------------------------------------------------------------------------


@layer
def tensor_split(x: Variable, num_or_indices: Any, axis: int = 0, name: str | None = None) -> list[Variable]:
    """The parts of a tensor along an axis: so many of nearly one extent, or those that begin at given places, as ``numpy.array_split``.

    Raises:
        ShapeError: the extent along the axis is not known.
    """
    tensor = checked_input("tensor_split", x)
    along = checked_int("layers.tensor_split: axis", axis) % tensor.ndim
    extent = tensor.shape[along]
    if extent < 0:
        raise ShapeError(f"layers.tensor_split: the extent of {tensor!r} along the axis is known")
    if isinstance(num_or_indices, list | tuple):
        # Places beyond the end give empty parts.
        inner = [min(item if item >= 0 else item + extent, extent) for item in num_or_indices]
    else:
        count = checked_int("layers.tensor_split: num_or_indices", num_or_indices, 1)
        # What the division leaves over goes to the first parts, one element each.
        inner = np.cumsum([extent // count + (part < extent % count) for part in range(count)]).tolist()[:-1]
    bounds = itertools.pairwise([0, *inner, extent])
    return [emitted("slice", [tensor], axes=[along], starts=[start], ends=[max(start, end)]) for start, end in bounds]


@layer
def hsplit(x: Variable, num_or_indices: Any, name: str | None = None) -> list[Variable]:
    """The parts along the second axis, of a vector along its only one; of one extent if their number is given."""
    tensor = checked_input("hsplit", x)
    return _split_evenly("hsplit", tensor, num_or_indices, 0 if tensor.ndim == 1 else 1)


@layer
def vsplit(x: Variable, num_or_indices: Any, name: str | None = None) -> list[Variable]:
    """The parts along the first axis, of one extent if their number is given."""
    return _split_evenly("vsplit", checked_input("vsplit", x), num_or_indices, 0)


@layer
def dsplit(x: Variable, num_or_indices: Any, name: str | None = None) -> list[Variable]:
    """The parts along the third axis, of one extent if their number is given."""
    return _split_evenly("dsplit", checked_input("dsplit", x), num_or_indices, 2)


def _split_evenly(what: str, x: Variable, parts: Any, axis: int) -> list[Variable]:
    if x.ndim <= axis:
        raise ShapeError(f"layers.{what} takes {axis + 1} axes or more, not {x!r}")
    if isinstance(parts, int) and parts > 0 and x.shape[axis] % parts:
        raise InvalidValue(f"layers.{what}: {x!r} has no {parts} parts of one extent; layers.tensor_split takes nearly one")
    return tensor_split(x, parts, axis)


@layer
def unflatten(x: Variable, axis: int, shape: Sequence[int], name: str | None = None) -> Variable:
    """An axis as several: ``shape`` are their extents, of which one may be -1."""
    tensor = checked_input("unflatten", x)
    along = checked_int("layers.unflatten: axis", axis) % tensor.ndim
    extents = [*([0] * along), *shape, *tensor.shape[along + 1 :]]
    return emitted("reshape", [tensor], name, shape=extents)  # type: ignore[no-any-return]


# -- chosen --------------------------------------------------------------------------------------


@layer
def kthvalue(x: Variable, k: int, axis: int | None = None, keepdim: bool = False, name: str | None = None) -> tuple[Variable, Variable]:
    """The k-th smallest elements along an axis, the last by default, and where they are; k counts from 1."""
    tensor, nth = checked_input("kthvalue", x), checked_int("layers.kthvalue: k", k, 1)
    along = (-1 if axis is None else checked_int("layers.kthvalue: axis", axis)) % tensor.ndim
    if 0 <= tensor.shape[along] < nth:
        raise InvalidValue(f"layers.kthvalue: k is {nth}, but {tensor!r} has fewer elements along the axis")
    ordered, places = emitted("argsort", [tensor], axis=along)
    slices = [emitted("slice", [item], axes=[along], starts=[nth - 1], ends=[nth]) for item in (ordered, places)]
    values, at = [item if keepdim else item.squeeze(along) for item in slices]
    return named(values, name), at


@layer
def take(x: Variable, index: Variable, mode: str = "raise", name: str | None = None) -> Variable:
    """The elements of ``x.flatten()`` at places; those out of range as ``mode`` says: "raise", "wrap" or "clip"."""
    return named(checked_input("take", x).take(index, mode=mode), name)


@layer
def index_fill(x: Variable, index: Variable, axis: int, value: float, name: str | None = None) -> Variable:
    """A tensor with a number at places along an axis."""
    tensor, places = checked_input("index_fill", x), checked_input("index_fill", index)
    along = checked_int("layers.index_fill: axis", axis) % tensor.ndim
    if tensor.shape[along] < 0:
        raise ShapeError(f"layers.index_fill: the extent of {tensor!r} along the axis is known")
    numbers = assign(np.arange(tensor.shape[along]).reshape(-1, 1))
    hit = (numbers == places.astype("int64").reshape(1, -1)).any(1).reshape(-1, *[1] * (tensor.ndim - along - 1))
    return emitted("where", [hit, tensor._on("fill_any_like", value=float(value)), tensor], name)  # type: ignore[no-any-return]


@layer
def combinations(x: Variable, r: int = 2, with_replacement: bool = False, name: str | None = None) -> Variable:
    """The choices of ``r`` elements of a vector of known extent, as rows in order."""
    vector, count = checked_input("combinations", x), checked_int("layers.combinations: r", r, 1)
    if vector.ndim != 1 or vector.shape[0] < 0:
        raise ShapeError(f"layers.combinations takes a vector of known extent, not {vector!r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array([*choose(range(vector.shape[0]), count)], "int64").reshape(-1, count)
    return named(vector.take(places), name)
