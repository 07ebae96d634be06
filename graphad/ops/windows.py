"""The places of sliding windows along the spatial axes: the geometry that convolutions and poolings share.

size 5, kernel 3, stride 2, padding 1 + 1:      . x x x x x .
                                               [- - -]
                                                   [- - -]        count 3
                                                       [- - -]

Everything here is written with the channels in front: ``channels_first`` and ``laid_out`` turn shapes and arrays
that have them last, as data_format says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from graphad.errors import ShapeError
from graphad.ops.scratch import scratch
from graphad.types import Array, Shape, TensorType

# -- windows ---------------------------------------------------------------------------------------

LAYOUTS = ("NCHW", "NCDHW", "AnyLayout")
CHANNELS_LAST = ("NHWC", "NDHWC")
WASTE = 1.6  # windows over the edges for each that is wanted, at most
AXES = {3: "three axes", 4: "four axes", 5: "five axes"}


@dataclass(frozen=True, slots=True)
class Axis:
    """Windows along one axis; ``count`` is -1 where the extent is not known yet."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    count: int

    @property
    def reach(self) -> int:
        """The extent of one window, with its gaps."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def padded(self) -> int:
        """The extent with its padding, and with what the last window needs beyond it."""
        return max(self.before + self.size + self.after, (self.count - 1) * self.stride + self.reach)

    def at(self, k: int) -> slice:
        """The k-th element of every window, in the padded axis."""
        start = k * self.dilation
        return slice(start, start + (self.count - 1) * self.stride + 1, self.stride)

    @property
    def inside(self) -> slice:
        """The axis itself, in the padded axis."""
        return slice(self.before, self.before + self.size)


Axes = tuple[Axis, ...]


def axes(
    size: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int] = (1,),
    padding_algorithm: str = "EXPLICIT",
    ceil_mode: bool = False,
) -> Axes:
    """The windows along every spatial axis; ShapeError where no window fits."""
    rank = len(size)
    per_axis = zip(
        size,
        kernel,
        numbers("strides", strides, rank),
        numbers("dilations", dilations, rank),
        _explicit(paddings, rank),
        strict=True,
    )
    return tuple(_axis(*item, padding_algorithm, ceil_mode) for item in per_axis)


def _axis(size: int, kernel: int, stride: int, dilation: int, pad: tuple[int, int], algorithm: str, ceil_mode: bool) -> Axis:
    # Paddle's SAME sets the dilations to 1.
    if algorithm == "SAME":
        dilation = 1
    reach = (kernel - 1) * dilation + 1
    before, after = _padding(size, reach, stride, pad, algorithm)
    if -1 in (size, kernel):
        # Of an unknown extent only this is known: with strides of one, padding can make up for what the windows take.
        keeps = kernel != -1 and stride == 1 and (before + after == reach - 1 or algorithm == "SAME")
        return Axis(size, kernel, stride, dilation, before, after, size if keeps else -1)
    room = before + size + after - reach
    if room < 0:
        raise ShapeError(f"a window of extent {reach} does not fit into extent {size} with padding {before} + {after}")
    # floor(room / stride) + 1 windows; with ceil_mode a last one that is not filled counts as well.
    return Axis(size, kernel, stride, dilation, before, after, (room + (stride - 1 if ceil_mode else 0)) // stride + 1)


def _padding(size: int, reach: int, stride: int, pad: tuple[int, int], algorithm: str) -> tuple[int, int]:
    if algorithm == "EXPLICIT":
        return pad
    if algorithm == "VALID" or size == -1:
        return 0, 0
    if algorithm != "SAME":
        raise ShapeError(f"padding_algorithm={algorithm!r} is not EXPLICIT, SAME or VALID")
    # As TensorFlow: ceil(size / stride) windows, and of an odd padding the larger part comes last.
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def numbers(name: str, values: Sequence[int], rank: int) -> tuple[int, ...]:
    """An attribute given as one positive int for all spatial axes, or one for each of them."""
    if len(values) not in (1, rank) or min(values) < 1:
        raise ShapeError(f"{name}={list(values)}; {rank} positive ints are expected")
    return tuple(values) * rank if len(values) == 1 else tuple(values)


def _explicit(paddings: Sequence[int], rank: int) -> tuple[tuple[int, int], ...]:
    if len(paddings) not in (1, rank, 2 * rank) or min(paddings) < 0:
        raise ShapeError(
            f"paddings={list(paddings)}; {rank} ints (one for each axis) or {2 * rank} (before and after each axis) are expected"
        )
    if len(paddings) == 2 * rank:
        return tuple(zip(paddings[::2], paddings[1::2], strict=True))
    return tuple((p, p) for p in (tuple(paddings) * rank)[:rank])


# -- layouts -------------------------------------------------------------------------------------


def check_images(data_format: str, rank: int = 4, **inputs: TensorType) -> None:
    """ShapeError unless the layout is known and every input has as many axes as it says."""
    if data_format not in LAYOUTS + CHANNELS_LAST:
        raise ShapeError(f"data_format={data_format!r} is not one of {', '.join(LAYOUTS + CHANNELS_LAST)}")
    for name, type_ in inputs.items():
        if len(type_.shape) != rank:
            raise ShapeError(f"{name} is {type_}; {AXES[rank]} are expected")


def channels_first(shape: Shape, data_format: str) -> Shape:
    """The shape ``[N, C, ...]`` of what has the shape in its layout."""
    return (shape[0], shape[-1], *shape[1:-1]) if data_format in CHANNELS_LAST else shape


def laid_out(shape: Shape, data_format: str) -> Shape:
    """The shape in its layout of what is ``[N, C, ...]``."""
    return (shape[0], *shape[2:], shape[1]) if data_format in CHANNELS_LAST else shape


def to_front(x: Array, data_format: str) -> Array:
    """A view with the channels in front."""
    return np.moveaxis(x, -1, 1) if data_format in CHANNELS_LAST else x


def from_front(x: Array, data_format: str) -> Array:
    """The array in its layout."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if data_format in CHANNELS_LAST else x


# -- arrays --------------------------------------------------------------------------------------


def last(parts: Iterable[slice | int]) -> tuple[Any, ...]:
    """An index of the last axes."""
    return (..., *parts)


def element(window_axes: Axes, place: Iterable[int]) -> tuple[Any, ...]:
    """An index of padded arrays: one element, at its place in the window, of all windows."""
    return last(a.at(k) for a, k in zip(window_axes, place, strict=True))


def inside(window_axes: Axes) -> tuple[Any, ...]:
    """An index of padded arrays: what is not padding."""
    return last(a.inside for a in window_axes)


def check_fit(what: str, actual: Shape, expected: Shape) -> None:
    """ShapeError unless an array has the shape that the windows were computed for: views of windows reach as far as that says."""
    if actual != expected:
        raise ShapeError(f"{what} has the shape {list(actual)}, and {list(expected)} is expected")


def padded(x: Array, window_axes: Axes, value: object = 0) -> Array:
    """x with ``value`` around its spatial axes; x itself where nothing is to be added. ShapeError if the axes are not those of x."""
    check_fit("X", x.shape[2:], tuple(a.size for a in window_axes))
    extents = tuple(a.padded for a in window_axes)
    if extents == tuple(a.size for a in window_axes):
        return x
    # zeros come from memory that the system has cleared already; any other value has to be written.
    wide = np.full((*x.shape[:2], *extents), value, x.dtype) if value else np.zeros((*x.shape[:2], *extents), x.dtype)
    wide[inside(window_axes)] = x
    return wide


def windows(x: Array, window_axes: Axes) -> Array:
    """A view ``[N, C, *kernel, *counts]`` of padded x."""
    check_fit("padded X", x.shape[2:], tuple(a.padded for a in window_axes))
    n, c, *steps = x.strides
    shape = (*x.shape[:2], *(a.kernel for a in window_axes), *(a.count for a in window_axes))
    # Within a window a step is a dilation, from window to window a stride.
    inner = (step * a.dilation for step, a in zip(steps, window_axes, strict=True))
    outer = (step * a.stride for step, a in zip(steps, window_axes, strict=True))
    return as_strided(x, shape, (n, c, *inner, *outer), writeable=False)


def extents_of(window_axes: Axes) -> Shape:
    """The number of windows along each axis."""
    return tuple(a.count for a in window_axes)


def kernel_of(window_axes: Axes) -> Shape:
    """The extents of a window, its gaps not counted."""
    return tuple(a.kernel for a in window_axes)


# -- lines: with a stride of one, windows that follow each other in memory, those over the edges included -----------


class Lines(NamedTuple):
    """The distance of neighbors along each axis in a padded image laid out as one line, and the length of the line of windows."""

    pitches: Shape
    length: int

    def view(self, line: Array, extents: Shape) -> Array:
        """The windows that are not over an edge, ``[..., *extents]``, of contiguous ``[..., length]``."""
        steps = (pitch * line.itemsize for pitch in self.pitches)
        return as_strided(line, (*line.shape[:-1], *extents), (*line.strides[:-1], *steps))

    def windows(self, wide: Array, window_axes: Axes) -> Array:
        """Every window of contiguous padded samples, ``[samples, C, *kernel, length]``, those over the edges included."""
        inner = (a.dilation * pitch * wide.itemsize for a, pitch in zip(window_axes, self.pitches, strict=True))
        shape = (*wide.shape[:2], *kernel_of(window_axes), self.length)
        return as_strided(wide, shape, (*wide.strides[:2], *inner, wide.itemsize), writeable=False)

    def starts(self, window_axes: Axes) -> Iterator[tuple[Shape, slice]]:
        """Every element of the window, and where its line is."""
        for place in np.ndindex(*kernel_of(window_axes)):
            start = sum(k * a.dilation * pitch for k, a, pitch in zip(place, window_axes, self.pitches, strict=True))
            yield place, slice(start, start + self.length)


def lines_of(window_axes: Axes, waste: float = WASTE) -> Lines | None:
    """None where there are gaps between windows, or too many windows over the edges."""
    # In a padded image seen as one line, a window moved along an axis is the same offsets from a later start: one stride for all windows.
    # The windows that wrap round an edge are computed in vain, and left out at the end (``waste`` bounds how many).
    pitches = tuple(prod(a.padded for a in window_axes[i + 1 :]) for i in range(len(window_axes)))
    length = 1 + sum((a.count - 1) * pitch for a, pitch in zip(window_axes, pitches, strict=True))
    count = prod(extents_of(window_axes))
    return Lines(pitches, length) if all(a.stride == 1 for a in window_axes) and 0 < length <= waste * count else None


def spaced(y: Array, lines: Lines | None) -> Array:
    """An output ``[samples, features, windows]``, as lines with zeros for the windows over the edges."""
    if lines is None:
        return y.reshape(*y.shape[:2], prod(y.shape[2:]))
    line = scratch("lines", (*y.shape[:2], lines.length), y.dtype)
    line[...] = 0
    lines.view(line, y.shape[2:])[...] = y
    return line


# -- between channels and space ------------------------------------------------------------------


def divided_extent(X: TensorType, extent: int, divisor: int, what: str) -> int:
    if divisor < 1 or (extent != -1 and extent % divisor):
        raise ShapeError(f"X is {X}: its {what} {extent} does not divide by {divisor}")
    return -1 if extent == -1 else extent // divisor


def times_extent(extent: int, factor: int) -> int:
    return -1 if extent == -1 else extent * factor
