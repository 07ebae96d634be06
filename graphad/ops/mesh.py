"""Meshes of ranks, and shardings: which axes of a mesh each dimension of a tensor is cut along.

    mesh data=2, model=2        spec "data model" of a [4, 6] tensor: rank 0 has [0:2, 0:3], rank 1 [0:2, 3:6], rank 2 [2:4, 0:3], ...

The notation is that of GSPMD (Xu et al. 2021) and of JAX's PartitionSpec. A dimension that several axes cut is cut by the first one, then
each part by the next. An extent that cannot be shared out evenly is padded: every rank has ``ceil(extent / parts)`` places, and the last
ranks fewer that mean something, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Self

import numpy as np

from graphad.errors import InvalidValue
from graphad.types import Array, Shape

Spec = tuple[tuple[str, ...], ...]  # by dimension: the axes that cut it, the first one first
OPEN = "?"  # of a dimension of an annotation: propagation may cut it
UNCUT = "-"
SPEC = "spec"  # the attribute of a value's node in which ``partition`` leaves how the whole lies


@dataclass(frozen=True)
class ProcessMesh:
    """Ranks in a grid whose axes have names, as Paddle's ``ProcessMesh`` and JAX's ``Mesh``; the last axis runs fastest.

    Args:
        axes: the name and the size of each axis.

    Raises:
        ValueError: an axis has no name or one that another has, or a size below 1.

    >>> mesh = ProcessMesh.parse("data=2,model=4")
    >>> mesh.size, mesh.coordinates(5), mesh.groups(["model"])
    (8, {'data': 1, 'model': 1}, [[0, 1, 2, 3], [4, 5, 6, 7]])
    """

    axes: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        if not names or len(set(names)) < len(names) or not all(name.isidentifier() for name in names):
            raise InvalidValue(f"a mesh has one axis at least, each with a name of its own, not {names}")
        if any(size < 1 for _, size in self.axes):
            raise InvalidValue(f"an axis of a mesh has 1 rank at least, not {dict(self.axes)}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The mesh that ``str`` prints: ``data=2,model=4``; ValueError where the text is none."""
        pairs = [part.partition("=") for part in text.replace(" ", "").split(",") if part]
        if not pairs or not all(name and size.isdigit() for name, _, size in pairs):
            raise InvalidValue(f"a mesh is written as data=2,model=4, not as {text!r}")
        return cls(tuple((name, int(size)) for name, _, size in pairs))

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return prod(size for _, size in self.axes)

    def parts(self, axes: Iterable[str]) -> int:
        """Into how many parts some axes cut."""
        return prod(self._sizes[axis] for axis in axes)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return dict(self.axes)

    def coordinates(self, rank: int) -> dict[str, int]:
        """The place of a rank along each axis."""
        places = np.unravel_index(rank, [size for _, size in self.axes])
        return {name: int(place) for name, place in zip(self.names, places, strict=True)}

    def part(self, rank: int, axes: Sequence[str]) -> int:
        """The number of a rank's part among those that some axes make."""
        place, number = self.coordinates(rank), 0
        # The first axis cuts first: its place counts most.
        for axis in axes:
            number = number * self.parts([axis]) + place[axis]
        return number

    def groups(self, axes: Sequence[str]) -> list[list[int]]:
        """The ranks that differ along some axes alone: in each group by the number of their part."""
        ranks_by_place: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.size):
            place = self.coordinates(rank)
            ranks_by_place.setdefault(tuple(place[name] for name in self.names if name not in axes), []).append(rank)
        # Ordered by part, so that a rank's number in its ring is that of the part that it has.
        return [sorted(group, key=lambda rank: self.part(rank, axes)) for group in ranks_by_place.values()]

    def ring(self, axes: Sequence[str]) -> int:
        """The number of the ring whose groups differ along some axes alone: 0 for all of them, else a bit for each axis."""
        # A bit for each axis makes the numbers of rings independent of the order in which they are needed.
        bits = sum(1 << self.names.index(axis) for axis in axes)
        return 0 if bits == (1 << len(self.axes)) - 1 else bits

    def rings(self) -> dict[int, list[list[int]]]:
        """All rings by number, except for 0: what ``LocalGroup`` and ``MpiExecutor`` take.

        >>> ProcessMesh.parse("x=2,y=2").rings()
        {1: [[0, 2], [1, 3]], 2: [[0, 1], [2, 3]]}
        """
        bits = range(1, (1 << len(self.axes)) - 1)
        return {number: self.groups([name for i, name in enumerate(self.names) if number >> i & 1]) for number in bits}


# -- specs ---------------------------------------------------------------------------------------


def spec_text(spec: Spec) -> str:
    """A spec as it is written: ``data -``, ``data+model``; nothing for a number."""
    return " ".join("+".join(axes) if axes else UNCUT for axes in spec)


def parse_spec(text: str, mesh: ProcessMesh) -> tuple[tuple[str, ...] | None, ...]:
    """The dimensions of an annotation, None where it leaves one to propagation.

    Raises:
        ValueError: an axis is not the mesh's, or cuts two dimensions.

    >>> parse_spec("data ? -", ProcessMesh.parse("data=2"))
    (('data',), None, ())
    """
    words = text.replace(",", " ").split()
    dims = tuple(None if word == OPEN else () if word == UNCUT else tuple(word.split("+")) for word in words)
    axes = [axis for dim in dims for axis in dim or ()]
    for axis in axes:
        if axis not in mesh.names:
            raise InvalidValue(f"spec {text!r}: the mesh {mesh} has no axis {axis!r}")
    if len(set(axes)) < len(axes):
        raise InvalidValue(f"spec {text!r} cuts two dimensions along one axis of the mesh")
    # One way to write a cut: two orders would be two layouts, with a collective between them.
    if any(dim and list(dim) != sorted(dim, key=mesh.names.index) for dim in dims):
        raise InvalidValue(f"spec {text!r}: the axes of a dimension are written in the order of the mesh, {' '.join(mesh.names)}")
    return dims


def used_axes(spec: Spec) -> set[str]:
    """The axes that cut a dimension."""
    return {axis for axes in spec for axis in axes}


def local_extent(extent: int, parts: int) -> int:
    """The places of a dimension that every rank has; an unknown extent stays unknown."""
    # Rounded up: all ranks have places for as many.
    return extent if extent == -1 else -(-extent // parts)


def local_shape(shape: Shape, spec: Spec, mesh: ProcessMesh) -> Shape:
    """The shape of a rank's part of a tensor."""
    return tuple(local_extent(e, mesh.parts(axes)) for e, axes in zip(shape, spec, strict=True)) if spec else shape


# -- arrays in parts -----------------------------------------------------------------------------


def cut(array: Array, spec: Spec, mesh: ProcessMesh, rank: int) -> Array:
    """A rank's part of an array, padded with zeros.

    >>> cut(np.arange(5), (("x",),), ProcessMesh.parse("x=3"), 2).tolist()
    [4, 0]
    """
    for dim, axes in enumerate(spec):
        parts = mesh.parts(axes)
        if parts > 1:
            array = _part(array, dim, parts, mesh.part(rank, axes))
    return np.ascontiguousarray(array)


def _part(array: Array, dim: int, parts: int, number: int) -> Array:
    count = local_extent(array.shape[dim], parts)
    part = array[(slice(None),) * dim + (slice(number * count, (number + 1) * count),)]
    # All parts have one extent, as collectives need; the last ones may be padded with zeros.
    margins = [(0, count - part.shape[dim] if i == dim else 0) for i in range(array.ndim)]
    return np.pad(part, margins) if part.shape[dim] < count else part


def joined(parts: Sequence[Array], shape: Sequence[int], spec: Spec, mesh: ProcessMesh) -> Array:
    """The array of which every rank has a part; an extent that is not known is that of the parts together.

    >>> mesh = ProcessMesh.parse("x=3")
    >>> joined([cut(np.arange(5), (("x",),), mesh, rank) for rank in range(3)], [5], (("x",),), mesh).tolist()
    [0, 1, 2, 3, 4]
    """
    part_shape = parts[0].shape
    padded_shape = [extent * mesh.parts(axes) for extent, axes in zip(part_shape, spec, strict=True)]
    whole = np.empty(padded_shape, parts[0].dtype)
    for rank, part in enumerate(parts):
        numbers = [mesh.part(rank, axes) for axes in spec]
        whole[tuple(slice(n * e, (n + 1) * e) for n, e in zip(numbers, part_shape, strict=True))] = part
    # The padding of the last parts is cut off.
    return whole[tuple(slice(None if e == -1 else e) for e in shape)]


def spec_of(words: Sequence[str]) -> Spec:
    """The spec that an operator has as a list of texts, one for each dimension.

    >>> spec_of(["data+model", "-"])
    (('data', 'model'), ())
    """
    return tuple(() if word in (UNCUT, OPEN) else tuple(word.split("+")) for word in words)


def words_of(spec: Spec) -> list[str]:
    """A spec as an operator has it."""
    return ["+".join(axes) if axes else UNCUT for axes in spec]


def merged(one: Spec, other: Spec, mesh: ProcessMesh) -> Spec:
    """The union of two specs of one tensor, the first one where they conflict; axes of a dimension are in the order of the mesh.

    >>> merged((("x",), ()), (("y",), ("x",)), ProcessMesh.parse("y=2,x=2"))
    (('y', 'x'), ())
    """
    if not one or not other or one == other:
        return other or one
    first_axes = used_axes(one)
    dims = ((*a, *(axis for axis in b if axis not in first_axes)) for a, b in zip(one, other, strict=True))
    return tuple(tuple(sorted(axes, key=mesh.names.index)) for axes in dims)


__all__ = [
    "ProcessMesh",
    "Spec",
    "cut",
    "joined",
    "local_extent",
    "local_shape",
    "merged",
    "parse_spec",
    "spec_of",
    "spec_text",
    "used_axes",
    "words_of",
]
