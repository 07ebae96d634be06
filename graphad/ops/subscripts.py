"""``x[...]`` with numpy's meaning, recorded as operators.

A subscript is read in four steps:

    x[2:, None, i, ::-1]    1. slices between tensors       one strided_slice, which reads its bounds when the program runs: x[i:i + 2]
                            2. whole numbers and slices     one strided_slice; numbers take their axes away
                            3. index tensors                gather along one axis, gather_nd over several
                            4. None                         unsqueeze

With an index tensor in the subscript, whole numbers are index tensors as well: numpy puts the axes of the index where the indexed axes
were if these are next to each other, and first if not.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from graphad.errors import InvalidType, InvalidValue
from graphad.ops.inference import FAR
from graphad.ops.registry import REGISTRY
from graphad.ops.tensor_literals import Emitter, array_constant, is_literal
from graphad.types import INTS, Shape, Tensor


class Indexed(Emitter, Protocol):
    """An operand of indexing: a symbol with a known rank."""

    @property
    def shape(self) -> Shape: ...


class OutOfRange(InvalidValue, IndexError):
    """An index is beyond the extent of its axis."""


@dataclass(eq=False)
class _Item:
    """One part of a subscript and the axis it is about (that at which None puts a new one)."""

    axis: int
    value: Tensor  # int, slice, None, or an index tensor of integers
    places: Tensor = None  # where the mask holds that the index tensor is a column of


def subscripted(x: Indexed, key: object, is_symbol: Callable[[object], bool]) -> Tensor:
    """``x[key]``.

    Raises:
        TypeError: a part is not a whole number, slice, None, ``...``, or tensor, array or list of integers or booleans; or a bound of a
            slice is not an integer.
        IndexError: there are more parts than axes, or a number is out of range.
    """
    items = _items(x, key, is_symbol)
    x, items = _cut_between_tensors(x, items)
    if any(_is_index(item.value) for item in items):
        return _with_tensors(x, items)
    return _with_new_axes(_cut(x, items), items)


# -- reading a subscript -------------------------------------------------------------------------


def _items(x: Indexed, key: object, is_symbol: Callable[[object], bool]) -> list[_Item]:
    # Numbers and lists become what the steps below take: ints, slices, None, tensors.
    parts = [_tensor_of(x, part, is_symbol) for part in (key if isinstance(key, tuple) else (key,))]
    width = sum(_width(part) for part in parts)
    rank = len(x.shape)
    if width > rank:
        raise OutOfRange(f"{x!r} has {rank} axes, but {width} are indexed")
    dots = [i for i, part in enumerate(parts) if part is ...]
    if len(dots) > 1:
        raise OutOfRange(f"{x!r}: a subscript has one '...', not {len(dots)}")
    rest = [builtins.slice(None)] * (rank - width)
    # Axes that are not named are whole, where '...' is, else at the end.
    at = dots[0] if dots else len(parts)
    return _placed(x, [*parts[:at], *rest, *parts[at + 1 :]])


def _width(part: Tensor) -> int:
    """How many axes a part is about."""
    if part is None or part is ...:
        return 0
    return len(part.shape) if _is_mask(part) else 1


def _placed(x: Indexed, parts: Sequence[Tensor]) -> list[_Item]:
    items: list[_Item] = []
    axis = 0
    for part in parts:
        if _is_mask(part):
            items += _columns(x, axis, part)
            axis += len(part.shape)
            continue
        items.append(_Item(axis, _checked_number(x, axis, part) if isinstance(part, int) else part))
        # None is about no axis.
        axis += part is not None
    return items


def _tensor_of(x: Indexed, part: Tensor, is_symbol: Callable[[object], bool]) -> Tensor:
    """A part of a subscript with arrays and lists as index tensors."""
    if part is None or part is ... or isinstance(part, builtins.slice):
        return _whole(x, part, is_symbol) if isinstance(part, builtins.slice) else part
    if isinstance(part, list):
        part = np.asarray(part, None if part else "int64")
    # Masks before numbers: a bool is an int in Python, and ``x[True]`` would be ``x[1]``.
    if isinstance(part, np.ndarray | np.bool_) and part.dtype.kind == "b":
        return array_constant(x, np.asarray(part), "bool")
    if isinstance(part, bool):
        # numpy takes x[True] for a new axis of one element; that would surprise whoever has tensors in mind.
        raise InvalidType(f"{x!r} is not indexed by {part}; use x[mask] with a tensor of booleans, or layers.cond")
    if is_literal(part) and np.asarray(part).dtype.kind in "iu":
        return array_constant(x, part, "int64") if np.ndim(part) else int(part)
    if not is_symbol(part):
        raise InvalidType(f"{x!r} is indexed by whole numbers, slices, None, ... and tensors of integers or booleans, not by {part!r}")
    if part.dtype not in INTS:
        raise InvalidType(f"{x!r} is indexed by {part!r}; an index is of integers or booleans: use layers.cast(index, 'int64')")
    return part


def _whole(x: Indexed, part: builtins.slice, is_symbol: Callable[[object], bool]) -> builtins.slice:
    start, stop = (_bound(x, bound, is_symbol) for bound in (part.start, part.stop))
    step = _bound(x, part.step, lambda bound: False)
    if step == 0:
        raise InvalidValue(f"{x!r}: the step of a slice is not 0")
    return builtins.slice(start, stop, step)


def _bound(x: Indexed, bound: Tensor, is_symbol: Callable[[object], bool]) -> Tensor:
    """A bound of a slice: a whole number, None, or a tensor of one integer."""
    if is_symbol(bound):
        if bound.dtype not in ("int32", "int64") or any(extent not in (1, -1) for extent in bound.shape):
            raise InvalidType(f"{x!r}: a bound of a slice is one integer, not {bound!r}")
        return bound
    if bound is not None and not hasattr(bound, "__index__"):
        raise InvalidType(f"{x!r}: the bounds of a slice are whole numbers or None, not {bound!r}")
    return None if bound is None else bound.__index__()


def _checked_number(x: Indexed, axis: int, number: int) -> int:
    extent = x.shape[axis]
    if extent >= 0 and not -extent <= number < extent:
        raise OutOfRange(f"index {number} is out of range for axis {axis} of {x!r}, which has the extent {extent}")
    return number


def _is_index(value: object) -> bool:
    return value is not None and not isinstance(value, int | builtins.slice)


def _is_mask(part: Tensor) -> bool:
    return part is not ... and _is_index(part) and part.dtype == "bool"


def _columns(x: Indexed, axis: int, mask: Tensor) -> list[_Item]:
    """The index of each axis that a mask is about: where the mask holds."""
    rank = len(mask.shape)
    extents = x.shape[axis : axis + rank]
    if any(-1 not in (a, b) and a != b for a, b in zip(extents, mask.shape, strict=False)):
        raise OutOfRange(f"{x!r} is indexed by the mask {mask!r}; the extents of the mask are those of the axes it is about")
    # As in numpy, a mask is the index tensors of where it holds, one for each of its axes.
    places = REGISTRY["where_index"](mask)
    columns = [REGISTRY["slice"](places, axes=[1], starts=[i], ends=[i + 1], decrease_axis=[1]) for i in range(rank)]
    return [_Item(axis + i, column, places) for i, column in enumerate(columns)]


# -- slices between tensors ----------------------------------------------------------------------


def _cut_between_tensors(x: Tensor, items: Sequence[_Item]) -> tuple[Tensor, list[_Item]]:
    """``x`` cut where a slice has a tensor for a bound, and the items with nothing left to cut there."""
    slice_items = [item for item in items if isinstance(item.value, builtins.slice) and not _is_static(item.value)]
    if not slice_items:
        return x, list(items)
    # One operator for all slices with a tensor for a bound, before everything else: after it they are whole, and axes
    # keep their numbers.
    bounds = [_bounds(item.value) for item in slice_items]
    starts = [_bound_tensor(x, start) for start, _, _ in bounds]
    ends = [_bound_tensor(x, stop) for _, stop, _ in bounds]
    steps = [step for _, _, step in bounds]
    # -1 stands for a bound that only the tensors know.
    attrs = {"axes": [item.axis for item in slice_items], "starts": [-1] * len(steps), "ends": [-1] * len(steps)}
    if all(step == 1 for step in steps):
        x = REGISTRY["slice"](x, None, None, starts, ends, **attrs)
    else:
        x = REGISTRY["strided_slice"](x, None, None, starts, ends, **attrs, strides=steps)
    return x, [_Item(item.axis, builtins.slice(None), item.places) if item in slice_items else item for item in items]


def _is_static(part: builtins.slice) -> bool:
    return all(bound is None or isinstance(bound, int) for bound in (part.start, part.stop))


def _bound_tensor(x: Tensor, bound: Tensor) -> Tensor:
    """A bound as a tensor: ``slice`` takes all of its bounds as tensors, or none."""
    return array_constant(x, np.array([bound]), "int64") if isinstance(bound, int) else bound


# -- numbers, slices and None --------------------------------------------------------------------


def _cut(x: Tensor, items: Sequence[_Item]) -> Tensor:
    """``x`` by the whole numbers and slices among the items."""
    cuts = [item for item in items if isinstance(item.value, int) or (isinstance(item.value, builtins.slice) and _cuts(item.value))]
    if not cuts:
        # ``x[:]`` is a copy, as in Paddle, unless an index or a new axis makes one anyway.
        keeps_axes = all(item.value is not None and not _is_index(item.value) for item in items)
        return REGISTRY["assign"](x) if keeps_axes else x
    bounds = [_bounds(item.value) for item in cuts]
    attrs = {
        "axes": [item.axis for item in cuts],
        "starts": [start for start, _, _ in bounds],
        "ends": [end for _, end, _ in bounds],
        "decrease_axis": [item.axis for item in cuts if isinstance(item.value, int)],
    }
    strides = [step for _, _, step in bounds]
    if all(step == 1 for step in strides):
        return REGISTRY["slice"](x, **attrs)
    return REGISTRY["strided_slice"](x, **attrs, strides=strides)


def _cuts(part: builtins.slice) -> bool:
    return (part.start or 0, part.stop, part.step or 1) != (0, None, 1)


def _bounds(part: int | builtins.slice) -> tuple[Tensor, Tensor, int]:
    if isinstance(part, int):
        # -1 + 1 would be 0, the beginning: the last element ends at the end.
        return part, part + 1 if part != -1 else FAR, 1
    step = part.step or 1
    start, stop = (0, FAR) if step > 0 else (-1, -FAR)
    return start if part.start is None else part.start, stop if part.stop is None else part.stop, step


def _with_new_axes(x: Tensor, items: Sequence[_Item]) -> Tensor:
    rest = [item for item in items if not isinstance(item.value, int)]
    axes = [i for i, item in enumerate(rest) if item.value is None]
    return REGISTRY["unsqueeze"](x, axes=axes) if axes else x


# -- index tensors -------------------------------------------------------------------------------


def _with_tensors(x: Tensor, items: Sequence[_Item]) -> Tensor:
    x = _cut(x, [item for item in items if isinstance(item.value, builtins.slice)])
    picks = [item for item in items if isinstance(item.value, int) or _is_index(item.value)]
    # Positions in the subscript, not axes, decide what is next to each other.
    # numpy's rule for advanced indices: next to each other they leave their axes where they are, apart from each other at the front.
    at = [i for i, item in enumerate(items) if item in picks]
    together = at == list(range(at[0], at[0] + len(at)))
    axes = [item.axis for item in picks]
    width, x = _picked(x, axes, picks)
    first = axes[0] if together else 0
    x = _moved(x, range(width), first) if first else x
    new = [i for i, item in enumerate(items) if item.value is None]
    return REGISTRY["unsqueeze"](x, axes=[_place(items, i, at, width, together) for i in new]) if new else x


def _place(items: Sequence[_Item], at: int, picks: Sequence[int], width: int, together: bool) -> int:
    """The position in the result of the new axis of a None: after the axes of what comes before it."""
    before = sum(i not in picks for i in range(at))
    # Advanced indices that come before it, or that went to the front, have put their axes before it.
    return before + (width if not together or picks[0] < at else 0)


def _picked(x: Tensor, axes: list[int], picks: Sequence[_Item]) -> tuple[int, Tensor]:
    """``x`` by index tensors on some axes, the axes of the index first, and how many these are."""
    # One vector of indices: gather does that along any axis. Several go to the front, and gather_nd takes them as coordinates.
    if len(axes) == 1 and len(picks[0].value.shape) <= 1:
        width = len(picks[0].value.shape)
        return width, _moved_front(REGISTRY["gather"](x, picks[0].value, axis=axes[0]), axes[0], width)
    index = _coordinates(picks)
    order = [*axes, *(axis for axis in range(len(x.shape)) if axis not in axes)]
    permuted_x = x if order == sorted(order) else REGISTRY["transpose"](x, axis=order)
    return len(index.shape) - 1, REGISTRY["gather_nd"](permuted_x, index)


def _coordinates(picks: Sequence[_Item]) -> Tensor:
    """Index tensors, broadcast together, as the coordinates that ``gather_nd`` takes."""
    places = picks[0].places
    # All columns of one mask, in order: where_index has them side by side already.
    if places is not None and len(picks) == places.shape[1] and all(item.places is places for item in picks):
        return places
    like = next(item.value for item in picks if _is_index(item.value))
    tensors = [item.value if _is_index(item.value) else array_constant(like, np.asarray(item.value), "int64") for item in picks]
    tensors = [item if item.dtype == "int64" else REGISTRY["cast"](item, out_dtype="int64") for item in tensors]
    if len({item.shape for item in tensors}) > 1 or any(-1 in item.shape for item in tensors):
        # Broadcast by adding zeros of all the others, whatever their extents turn out to be.
        zeros = sum(item * 0 for item in tensors)
        tensors = [item + zeros for item in tensors]
    return REGISTRY["stack"](tensors, axis=len(tensors[0].shape))


def _moved_front(x: Tensor, axis: int, width: int) -> Tensor:
    """``x`` with ``width`` axes from ``axis`` on moved to the front."""
    return x if not axis or not width else REGISTRY["transpose"](x, axis=[axis, *(i for i in range(len(x.shape)) if i != axis)])


def _moved(x: Tensor, axes: range, to: int) -> Tensor:
    """``x`` with its first axes moved to where ``to`` others come before them."""
    if not axes:
        return x
    rest = [i for i in range(len(x.shape)) if i not in axes]
    return REGISTRY["transpose"](x, axis=[*rest[:to], *axes, *rest[to:]])
