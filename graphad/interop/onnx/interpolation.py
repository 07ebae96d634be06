"""Resizing along one axis as ONNX defines it (operator Resize): where each new element comes from, and with which weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphad.errors import ParseError
from graphad.types import Array

Numbers = NDArray[np.float64]


class Axis(NamedTuple):
    """An axis that is resized.

    Attributes:
        old, new: extents.
        scale: new elements for an old one.
        coordinates: which place of the old axis a new element is at: ONNX's ``coordinate_transformation_mode``.
        part: the part of the axis that is resized, as fractions, with ``tf_crop_and_resize``.
        filler: what is outside of the axis then.
    """

    old: int
    new: int
    scale: float
    coordinates: str = "half_pixel"
    part: tuple[float, float] | None = None
    filler: float = 0.0

    def sources(self) -> Numbers:
        """The place of the old axis that each new element is at."""
        x = np.arange(self.new, dtype="float64")
        mode, old, new = self.coordinates, self.old, self.new
        if mode == "half_pixel":
            return (x + 0.5) / self.scale - 0.5
        if mode == "pytorch_half_pixel":
            return (x + 0.5) / self.scale - 0.5 if new > 1 else np.zeros(new)
        if mode == "half_pixel_symmetric":
            centre = old / 2 * (1 - new / (self.scale * old))
            return centre + (x + 0.5) / self.scale - 0.5
        if mode == "asymmetric":
            return x / self.scale
        if mode == "align_corners":
            longest = self.scale * old - 1  # the extent before it was cut to whole elements
            return x * (old - 1) / longest if longest > 0 else np.zeros(new)
        if mode == "tf_crop_and_resize" and self.part is not None:
            first, last = self.part
            if new > 1:
                return first * (old - 1) + x * (last - first) * (old - 1) / (new - 1)
            return np.full(new, 0.5 * (first + last) * (old - 1))
        raise ParseError(f"coordinate_transformation_mode {mode!r} is not known")

    def outside(self) -> NDArray[np.bool_]:
        """The new elements that lie outside of the old axis and are filled."""
        if self.part is None:
            return np.zeros(self.new, bool)
        array = self.sources()
        return np.asarray((array < 0) | (array > self.old - 1))


def places(axis: Axis, rounding: str) -> Array:
    """The old element that is nearest to each new one, by ONNX's ``nearest_mode``."""
    x = axis.sources()
    if rounding == "round_prefer_floor":
        # Halves go down, respectively up; numpy's round would take the even one.
        return np.ceil(x - 0.5)
    if rounding == "round_prefer_ceil":
        return np.floor(x + 0.5)
    if rounding in ("floor", "ceil"):
        return np.floor(x) if rounding == "floor" else np.ceil(x)
    raise ParseError(f"nearest_mode {rounding!r} is not known")


def matrix(axis: Axis, mode: str, cubic: float, exclude_outside: bool, antialias: bool) -> Numbers:
    """The weights of the old elements (columns) for each new one (rows); those beyond the ends count for the elements at the ends.

    Args:
        mode: ``linear`` or ``cubic`` (R. Keys, "Cubic convolution interpolation", 1981).
        cubic: the coefficient of the cubic kernel.
        exclude_outside: elements beyond the ends do not count.
        antialias: shrinking, the kernel is made wider.
    """
    if mode not in ("linear", "cubic"):
        raise ParseError(f"mode {mode!r} is not known")
    # Anti-aliasing: a kernel as wide as the distance of the new samples averages all old ones, as a low-pass filter does.
    stretch = max(1.0 / axis.scale, 1.0) if antialias else 1.0
    radius = (1.0 if mode == "linear" else 2.0) * stretch
    weights = np.zeros((axis.new, axis.old))
    for row, x in enumerate(axis.sources()):
        first, last = int(np.floor(x - radius)) + 1, int(np.ceil(x + radius)) - 1
        taps = np.arange(first, max(last, first) + 1)
        values = _kernel((taps - x) / stretch, mode, cubic)
        inside = (taps >= 0) & (taps < axis.old)
        if exclude_outside:
            values = np.where(inside, values, 0.0)
        # Weights add up to 1, so that a constant stays what it is, also where the kernel was cut.
        values = values / values.sum() if values.sum() else values
        np.add.at(weights[row], np.clip(taps, 0, axis.old - 1), values)
    return weights


def _kernel(x: Numbers, mode: str, a: float) -> Numbers:
    x = np.abs(x)
    if mode == "linear":
        return np.maximum(1.0 - x, 0.0)
    # R. Keys, 1981: cubic convolution with the parameter a.
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
