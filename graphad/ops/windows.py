"""Where sliding windows lie along the two spatial axes: the geometry that convolutions and poolings share.

size 5, kernel 3, stride 2, padding 1 + 1:      . x x x x x .
                                               [- - -]
                                                   [- - -]        count 3
                                                       [- - -]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from graphad.errors import ShapeError
from graphad.ops.definition import Array
from graphad.types import TensorType

LAYOUTS = ("NCHW", "AnyLayout")


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


def axes(
    size: Sequence[int],
    kernel: Sequence[int],
    *,
    strides: Sequence[int],
    paddings: Sequence[int],
    dilations: Sequence[int] = (1, 1),
    padding_algorithm: str = "EXPLICIT",
    ceil_mode: bool = False,
) -> tuple[Axis, Axis]:
    """The windows along height and width; ShapeError where no window fits."""
    pads = _explicit(paddings)
    s, d = pair("strides", strides), pair("dilations", dilations)
    h, w = (_axis(size[i], kernel[i], s[i], d[i], pads[i], padding_algorithm, ceil_mode) for i in (0, 1))
    return h, w


def _axis(size: int, kernel: int, stride: int, dilation: int, pad: tuple[int, int], algorithm: str, ceil_mode: bool) -> Axis:
    if algorithm == "SAME":
        dilation = 1
    reach = (kernel - 1) * dilation + 1
    before, after = _padding(size, reach, stride, pad, algorithm)
    if -1 in (size, kernel):
        return Axis(size, kernel, stride, dilation, before, after, -1)
    room = before + size + after - reach
    if room < 0:
        raise ShapeError(f"a window of extent {reach} does not fit into extent {size} with padding {before} + {after}")
    return Axis(size, kernel, stride, dilation, before, after, (room + (stride - 1 if ceil_mode else 0)) // stride + 1)


def _padding(size: int, reach: int, stride: int, pad: tuple[int, int], algorithm: str) -> tuple[int, int]:
    if algorithm == "EXPLICIT":
        return pad
    if algorithm == "VALID" or size == -1:
        return 0, 0
    if algorithm != "SAME":
        raise ShapeError(f"padding_algorithm={algorithm!r} is not EXPLICIT, SAME or VALID")
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def pair(name: str, values: Sequence[int]) -> tuple[int, int]:
    """Height and width of an attribute given as one or two positive ints."""
    if len(values) not in (1, 2) or min(values) < 1:
        raise ShapeError(f"{name}={list(values)}; two positive ints are expected")
    return values[0], values[-1]


def _explicit(paddings: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    if len(paddings) not in (1, 2, 4) or min(paddings) < 0:
        raise ShapeError(f"paddings={list(paddings)}; two ints (height, width) or four (top, bottom, left, right) are expected")
    if len(paddings) == 4:
        return (paddings[0], paddings[1]), (paddings[2], paddings[3])
    return (paddings[0], paddings[0]), (paddings[-1], paddings[-1])


def check_images(data_format: str, **inputs: TensorType) -> None:
    """ShapeError unless the layout is NCHW and every input has four axes."""
    if data_format not in LAYOUTS:
        raise ShapeError(f"data_format={data_format!r} is not supported; transpose to NCHW first")
    for name, type_ in inputs.items():
        if len(type_.shape) != 4:
            raise ShapeError(f"{name} is {type_}; four axes are expected")


def padded(x: Array, h: Axis, w: Axis, value: Any = 0) -> Array:
    """x with ``value`` around its last two axes; x itself where nothing is to be added."""
    if (h.padded, w.padded) == (h.size, w.size):
        return x
    wide = np.full((*x.shape[:2], h.padded, w.padded), value, x.dtype)
    wide[:, :, h.inside, w.inside] = x
    return wide


def windows(x: Array, h: Axis, w: Axis) -> Array:
    """A view ``[N, C, kernel height, kernel width, windows down, windows across]`` of padded x."""
    n, c, down, across = x.strides
    shape = (*x.shape[:2], h.kernel, w.kernel, h.count, w.count)
    return as_strided(x, shape, (n, c, down * h.dilation, across * w.dilation, down * h.stride, across * w.stride), writeable=False)
