"""Tensors with something around them: a number, or their own elements mirrored, repeated or wrapped around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.attributes import how_many, numbers
from graphad.ops.definition import operator
from graphad.ops.inference import matched
from graphad.ops.slicing import slice_
from graphad.types import Array, Tensor, TensorType

TO_THE_END = 2**31 - 1
NO_INTS: list[int] = []
Amounts = list[tuple[int, int]]

# -- pad -----------------------------------------------------------------------------------------


def _padded(X: TensorType, *, paddings: list[int], pad_value: float = 0.0) -> TensorType:
    if len(paddings) != 2 * len(X.shape) or any(p < 0 for p in paddings):
        raise ShapeError(f"X is {X}: paddings={paddings} must be two numbers, not negative, for each axis")
    extents = (_longer(e, (a, b)) for e, a, b in zip(X.shape, paddings[::2], paddings[1::2], strict=True))
    return TensorType(tuple(extents), X.dtype)


def _longer(extent: int, by: tuple[int, int]) -> int:
    """The extent with so much before and after it."""
    return extent + sum(by) if extent != -1 else extent if by == (0, 0) else -1


def _pad_grad(dOut: Tensor, *, paddings: list[int]) -> Tensor:
    # A slice to -0 would be empty, so no padding at the end is a bound beyond it.
    ends = [-after if after else TO_THE_END for after in paddings[1::2]]
    return slice_(dOut, axes=list(range(len(ends))), starts=paddings[::2], ends=ends)


@operator(
    "X -> Out", infer=_padded, grad={"X": _pad_grad}, speculatable="extents", linear="X", offset="pad_value", narrow="follows", flops=0
)
def pad(X: Array, *, paddings: list[int], pad_value: float = 0.0) -> Array:
    """X with ``pad_value`` around it: ``paddings`` says how much before and after, axis by axis."""
    return _surrounded(X, list(zip(paddings[::2], paddings[1::2], strict=True)), pad_value)


def _surrounded(X: Array, amounts: Amounts, value: float) -> Array:
    """X with a number around it, so much before and after along each axis; ``np.pad`` takes ten times as long for a small one."""
    out = np.full([e + before + after for e, (before, after) in zip(X.shape, amounts, strict=True)], value, X.dtype)
    out[tuple(slice(before, before + e) for e, (before, _) in zip(X.shape, amounts, strict=True))] = X
    return out


# -- images and volumes --------------------------------------------------------------------------

_NUMPY = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "edge": "edge", "circular": "wrap"}
_LEAST = {"reflect": 1, "circular": 0}  # by how much an axis is longer than what is taken of it
_NO_PADDING = [0, 0, 0, 0]


@dataclass(frozen=True)
class _Kind:
    """The differences between pad2d and pad3d."""

    formats: tuple[str, str]
    modes: tuple[str, ...]
    last_first: bool

    @property
    def count(self) -> int:
        """How many numbers there are in ``paddings``."""
        return 2 * len(self.formats[0]) - 4

    def amounts(self, paddings: list[int], data_format: str) -> Amounts:
        """How much before and after, axis by axis."""
        pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
        # pad3d has the last axis first, as torch's F.pad; pad2d has top, bottom, left, right.
        pairs = pairs[::-1] if self.last_first else pairs
        return [(0, 0), *pairs, (0, 0)] if data_format.endswith("C") else [(0, 0), (0, 0), *pairs]

    def checked(self, shape: tuple[int, ...], paddings: list[int], mode: str, data_format: str) -> Amounts:
        """The amounts; ShapeError where an axis does not have as much as the mode takes of it."""
        amounts = self.amounts(paddings, data_format)
        for axis, (extent, (before, after)) in enumerate(zip(shape, amounts, strict=True)):
            most = max(before, after)
            # Reflected margins need that many elements besides the edge; a copied edge needs one.
            least = 0 if mode == "constant" or not most else max(1, most + _LEAST.get(mode, -most))
            if min(before, after) < 0 or extent not in (-1, *range(least, extent + 1)):
                raise ShapeError(f"the shape {list(shape)} cannot be padded by {before} and {after} along axis {axis} (mode={mode!r})")
        return amounts

    def padded(self, X: TensorType, Paddings: TensorType | None, paddings: list[int], mode: str, data_format: str) -> TensorType:
        """The type of the padded tensor."""
        if len(X.shape) != len(self.formats[0]) or mode not in self.modes or data_format not in self.formats:
            raise ShapeError(f"X is {X}: {self.formats} are padded, in the modes {self.modes}, not {data_format!r} in mode={mode!r}")
        if how_many("Paddings", paddings, Paddings, None) != self.count:
            raise ShapeError(f"X is {X}: {self.count} paddings are expected, not {paddings if Paddings is None else Paddings}")
        # Values of tensors are known at run time only: of the padded axes the extents are open.
        if Paddings is not None:
            return TensorType(tuple(e if data_format[i] in "NC" else -1 for i, e in enumerate(X.shape)), X.dtype)
        pairs = zip(X.shape, self.checked(X.shape, paddings, mode, data_format), strict=True)
        return TensorType(tuple(_longer(e, a) for e, a in pairs), X.dtype)

    def unpadded(self, X: TensorType, Like: TensorType, Paddings: TensorType | None, *attrs: Any) -> TensorType:
        """The type of Like, of which X is the padded form."""
        padded_type = self.padded(Like, Paddings, *attrs)
        if len(padded_type.shape) != len(X.shape) or not all(map(matched, padded_type.shape, X.shape)):
            raise ShapeError(f"X is {X}: it is not Like with paddings, which would be {padded_type}")
        return TensorType(Like.shape, X.dtype)

    def pad(self, X: Array, Paddings: Array | None, paddings: list[int], mode: str, data_format: str, value: float) -> Array:
        """X padded."""
        amounts = self.checked(X.shape, numbers(paddings, Paddings, None), mode, data_format)
        return _surrounded(X, amounts, value) if mode == "constant" else np.asarray(np.pad(X, amounts, _NUMPY[mode]))  # type: ignore[call-overload]

    def unpad(self, X: Array, Like: Array, Paddings: Array | None, paddings: list[int], mode: str, data_format: str) -> Array:
        """Each element of X added to the one of Like that it is a copy of; those of a constant are left out."""
        amounts = self.checked(Like.shape, numbers(paddings, Paddings, None), mode, data_format)
        shape = tuple(e + before + after for e, (before, after) in zip(Like.shape, amounts, strict=True))
        if shape != X.shape:
            raise InvalidValue(f"X has the shape {list(X.shape)}, but Like with its paddings has {list(shape)}")
        # Axis by axis, as numpy pads: the corners fold into margins, which fold in turn.
        for axis, (before, after) in enumerate(amounts):
            if before or after:
                X = _folded(X, axis, Like.shape[axis], (before, after), mode)
        return np.array(X)


def _folded(X: Array, axis: int, extent: int, amount: tuple[int, int], mode: str) -> Array:
    """The margins of one axis added to where they were taken from."""
    axis_first = np.moveaxis(X, axis, 0)
    core = axis_first[amount[0] : amount[0] + extent].copy()
    if mode != "constant":
        # Padding the indices in the same way says where each element of the margins came from.
        source: Array = np.pad(np.arange(extent), amount, _NUMPY[mode])  # type: ignore[call-overload]
        # add.at, since several elements of a margin may be copies of one.
        np.add.at(core, source[: amount[0]], axis_first[: amount[0]])
        np.add.at(core, source[amount[0] + extent :], axis_first[amount[0] + extent :])
    return np.moveaxis(core, 0, axis)


_IMAGES = _Kind(("NCHW", "NHWC"), ("constant", "reflect", "edge"), last_first=False)
_VOLUMES = _Kind(("NCDHW", "NDHWC"), ("constant", "reflect", "replicate", "circular"), last_first=True)


def _pad2d_type(
    X: TensorType,
    Paddings: TensorType | None = None,
    *,
    paddings: list[int] = _NO_PADDING,
    mode: str = "constant",
    data_format: str = "NCHW",
    **_: object,
) -> TensorType:
    return _IMAGES.padded(X, Paddings, paddings, mode, data_format)


def _pad2d_grad(X: Tensor, dOut: Tensor, Paddings: Tensor, *, paddings: list[int], mode: str, data_format: str) -> Tensor:
    return unpad2d(dOut, X, Paddings, paddings=paddings, mode=mode, data_format=data_format)


@operator("X Paddings? -> Out", infer=_pad2d_type, grad={"X": _pad2d_grad}, shapes="X", linear="X", offset="pad_value", rows="X", flops=0)
def pad2d(
    X: Array,
    Paddings: Array | None = None,
    *,
    paddings: list[int] = _NO_PADDING,
    mode: str = "constant",
    pad_value: float = 0.0,
    data_format: str = "NCHW",
) -> Array:
    """Images padded by ``[top, bottom, left, right]``, or by what Paddings says: with a number, mirrored, or with their edge."""
    return _IMAGES.pad(X, Paddings, paddings, mode, data_format, pad_value)


def _unpad2d_type(
    X: TensorType,
    Like: TensorType,
    Paddings: TensorType | None = None,
    *,
    paddings: list[int] = _NO_PADDING,
    mode: str = "constant",
    data_format: str = "NCHW",
) -> TensorType:
    return _IMAGES.unpadded(X, Like, Paddings, paddings, mode, data_format)


def _unpad2d_grad(dOut: Tensor, Paddings: Tensor, *, paddings: list[int], mode: str, data_format: str) -> Tensor:
    return pad2d(dOut, Paddings, paddings=paddings, mode=mode, data_format=data_format)


@operator("X Like Paddings? -> Out", infer=_unpad2d_type, grad={"X": _unpad2d_grad}, linear="X")
def unpad2d(
    X: Array,
    Like: Array,
    Paddings: Array | None = None,
    *,
    paddings: list[int] = _NO_PADDING,
    mode: str = "constant",
    data_format: str = "NCHW",
) -> Array:
    """The transpose of ``pad2d`` with zeros. Only Like's shape is read."""
    return _IMAGES.unpad(X, Like, Paddings, paddings, mode, data_format)


def _pad3d_type(
    X: TensorType,
    Paddings: TensorType | None = None,
    *,
    paddings: list[int] = NO_INTS,
    mode: str = "constant",
    data_format: str = "NCDHW",
    **_: object,
) -> TensorType:
    return _VOLUMES.padded(X, Paddings, paddings, mode, data_format)


def _pad3d_grad(X: Tensor, dOut: Tensor, Paddings: Tensor, *, paddings: list[int], mode: str, data_format: str) -> Tensor:
    return unpad3d(dOut, X, Paddings, paddings=paddings, mode=mode, data_format=data_format)


@operator("X Paddings? -> Out", infer=_pad3d_type, grad={"X": _pad3d_grad}, shapes="X", linear="X", offset="value", rows="X", flops=0)
def pad3d(
    X: Array,
    Paddings: Array | None = None,
    *,
    paddings: list[int] = NO_INTS,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCDHW",
) -> Array:
    """Volumes padded by ``[left, right, top, bottom, front, back]``, or by what Paddings says.

    ``mode`` fills with ``value`` (constant), mirrors (reflect), repeats the edge (replicate) or goes round (circular).
    """
    return _VOLUMES.pad(X, Paddings, paddings, mode, data_format, value)


def _unpad3d_type(
    X: TensorType,
    Like: TensorType,
    Paddings: TensorType | None = None,
    *,
    paddings: list[int] = NO_INTS,
    mode: str = "constant",
    data_format: str = "NCDHW",
) -> TensorType:
    return _VOLUMES.unpadded(X, Like, Paddings, paddings, mode, data_format)


def _unpad3d_grad(dOut: Tensor, Paddings: Tensor, *, paddings: list[int], mode: str, data_format: str) -> Tensor:
    return pad3d(dOut, Paddings, paddings=paddings, mode=mode, data_format=data_format)


@operator("X Like Paddings? -> Out", infer=_unpad3d_type, grad={"X": _unpad3d_grad}, linear="X")
def unpad3d(
    X: Array,
    Like: Array,
    Paddings: Array | None = None,
    *,
    paddings: list[int] = NO_INTS,
    mode: str = "constant",
    data_format: str = "NCDHW",
) -> Array:
    """The transpose of ``pad3d`` with zeros. Only Like's shape is read."""
    return _VOLUMES.unpad(X, Like, Paddings, paddings, mode, data_format)
