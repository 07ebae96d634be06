"""Slices of tensors, with fixed bounds or with bounds in tensors, and their transpose."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.attributes import attributes
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.extents import how_many, is_given, numbers
from graphad.ops.inference import matched, normal_axis
from graphad.ops.traits import Declared
from graphad.types import Shape, TensorType, joined_shape


@dataclass(eq=False, repr=False)
class Cut:
    """The attributes of ``slice``."""

    axes: list[int]
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    decrease_axis: list[int] = field(default_factory=list)
    infer_flags: list[int] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class StridedCut(Cut):
    """The attributes of ``strided_slice``."""

    strides: list[int] = field(default_factory=list)


class Bounds(NamedTuple):
    """Where slices start and end and what their steps are, as tensors: each takes the place of an attribute, or is None."""

    starts: Any = None
    ends: Any = None
    starts_list: Any = None
    ends_list: Any = None
    strides: Any = None
    strides_list: Any = None

    def pairs(self, cut: StridedCut) -> list[tuple[str, list[int], Any, Any]]:
        """What starts, ends and strides are called, their attributes, and their tensors."""
        return [
            ("Starts", cut.starts, self.starts, self.starts_list),
            ("Ends", cut.ends, self.ends, self.ends_list),
            ("Strides", cut.strides, self.strides, self.strides_list),
        ]

    def resolved(self, cut: StridedCut) -> StridedCut:
        """The attributes with what the arrays say."""
        starts, ends, strides = (numbers(*each) for _, *each in self.pairs(cut))
        return replace(cut, starts=starts, ends=ends, strides=strides)

    def known(self, cut: StridedCut) -> list[bool]:
        """For each axis whether its slice is known beforehand: the attributes hold it, and ``infer_flags`` does not say otherwise."""
        counts = {f"{what}Tensor": how_many(f"{what}Tensor", *given) for what, *given in self.pairs(cut) if is_given(*given[1:])}
        if not counts:
            return [True] * len(cut.axes)
        for slot, count in counts.items():
            if count != len(cut.axes):
                raise ShapeError(f"{slot} has {count} numbers for axes={cut.axes}")
        told = len(cut.infer_flags) == len(cut.starts) == len(cut.ends) == len(cut.strides or cut.axes) == len(cut.axes)
        return [told and cut.infer_flags[i] != -1 for i in range(len(cut.axes))]


# -- what a slice is -----------------------------------------------------------------------------


def _slices(rank: int, cut: StridedCut) -> dict[int, builtins.slice]:
    axes, starts, ends, strides = cut.axes, cut.starts, cut.ends, cut.strides
    if not len(axes) == len(starts) == len(ends) == len(strides or axes) or 0 in strides:
        raise ShapeError(f"axes={axes}, starts={starts}, ends={ends}, strides={strides} do not fit together")
    steps = strides or [1] * len(axes)
    return {normal_axis(a, rank, "axes"): builtins.slice(*_) for a, *_ in zip(axes, starts, ends, steps, strict=True)}


def _sliced_extent(extent: int, part: builtins.slice | None) -> int:
    if part is None:
        return extent
    if extent == -1:
        return 0 if part.step > 0 and part.start == part.stop else -1
    return len(range(*part.indices(extent)))


def sliced_shape(shape: Shape, by: Bounds, cut: StridedCut) -> Shape:
    """The shape of a slice, before axes are left out; -1 where only the tensors say."""
    known = by.known(cut)
    kept = [i for i, k in enumerate(known) if k]
    axes, starts, ends, strides = ([v[i] for i in kept] if kept and v else [] for v in (cut.axes, cut.starts, cut.ends, cut.strides))
    parts = _slices(len(shape), cut if all(known) else StridedCut(axes, starts, ends, strides=strides))
    open_ = {normal_axis(a, len(shape), "axes") for a, k in zip(cut.axes, known, strict=True) if not k}
    return tuple(-1 if i in open_ else _sliced_extent(e, parts.get(i)) for i, e in enumerate(shape))


def index_of(rank: int, cut: StridedCut) -> tuple[Any, ...]:
    """The slice as numpy's index."""
    parts = _slices(rank, cut)
    return (*(parts.get(i, builtins.slice(None)) for i in range(rank)), ...)


def _part_type(Input: TensorType, *tensors: Any, **attrs: Any) -> TensorType:
    cut, by = StridedCut(**attrs), Bounds(*tensors)
    extents = sliced_shape(Input.shape, by, cut)
    gone = {normal_axis(a, len(extents), "decrease_axis") for a in cut.decrease_axis}
    if any(not matched(extents[a], 1) for a in gone):
        raise ShapeError(
            f"Input is {Input}: the slice has the shape {list(extents)}, so decrease_axis={cut.decrease_axis} cannot be left out"
        )
    return TensorType(tuple(e for i, e in enumerate(extents) if i not in gone), Input.dtype)


def _decreased(shape: Shape, decrease_axis: list[int]) -> Shape:
    gone = {a % len(shape) for a in decrease_axis}
    if any(shape[a] != 1 for a in gone):
        raise InvalidValue(f"the slice has the shape {list(shape)}, so decrease_axis={decrease_axis} cannot be left out")
    return tuple(e for i, e in enumerate(shape) if i not in gone)


def _resolved(tensors: tuple[Any, ...], attrs: dict[str, Any]) -> StridedCut:
    cut = StridedCut(**attrs)
    return Bounds(*tensors).resolved(cut) if tensors else cut


def _cut_out(Input: Array, cut: StridedCut) -> Array:
    part: Array = Input[index_of(Input.ndim, cut)]
    return part.reshape(_decreased(part.shape, cut.decrease_axis)) if cut.decrease_axis else part


# -- slices --------------------------------------------------------------------------------------


@attributes(Cut)
def _slice_grad(
    Input: Tensor,
    dOut: Tensor,
    StartsTensor: Tensor,
    EndsTensor: Tensor,
    StartsTensorList: list[Tensor],
    EndsTensorList: list[Tensor],
    **attrs: Any,
) -> Tensor:
    return unslice(dOut, Input, StartsTensor, EndsTensor, StartsTensorList, EndsTensorList, **attrs)


def _cutting(bounds: str) -> Declared:
    """The traits of a slice, whose bounds may come from some slots."""
    return {
        "speculatable": "extents",
        "safe_dtypes": "all",
        "extents": bounds,
        "linear": "Input",
        "rows": "Input",
        "along": "axes",
        "view": "Input",
        "narrow": "follows",
        "flops": 0,
    }


_BOUNDS = "StartsTensor? EndsTensor? StartsTensorList*? EndsTensorList*?"
_STRIDED_BOUNDS = f"{_BOUNDS} StridesTensor? StridesTensorList*?"


@operator(
    f"Input {_BOUNDS} -> Out",
    name="slice",
    infer=_part_type,
    grad={"Input": _slice_grad},
    shapes="Input",
    **_cutting("StartsTensor EndsTensor StartsTensorList EndsTensorList"),
)
@attributes(Cut)
def slice_(Input: Array, *tensors: Any, **attrs: Any) -> Array:
    """``Input[start:end]`` along each of ``axes``, with Python's meaning of negative and large bounds; axes in ``decrease_axis`` go.

    Tensors take the place of ``starts`` and ``ends``; then ``infer_flags`` is -1 for the axes of which these do not say the slice.
    """
    return _cut_out(Input, _resolved(tensors, attrs))


@attributes(StridedCut)
def _strided_grad(
    Input: Tensor,
    dOut: Tensor,
    StartsTensor: Tensor,
    EndsTensor: Tensor,
    StartsTensorList: list[Tensor],
    EndsTensorList: list[Tensor],
    StridesTensor: Tensor,
    StridesTensorList: list[Tensor],
    **attrs: Any,
) -> Tensor:
    tensors = (StartsTensor, EndsTensor, StartsTensorList, EndsTensorList, StridesTensor, StridesTensorList)
    return unslice(dOut, Input, *tensors, **attrs)


@operator(
    f"Input {_STRIDED_BOUNDS} -> Out",
    infer=_part_type,
    grad={"Input": _strided_grad},
    shapes="Input",
    **_cutting("StartsTensor EndsTensor StartsTensorList EndsTensorList StridesTensor StridesTensorList"),
)
@attributes(StridedCut)
def strided_slice(Input: Array, *tensors: Any, **attrs: Any) -> Array:
    """``Input[start:end:stride]`` along each of ``axes``, with Python's meaning; axes in ``decrease_axis`` go."""
    return _cut_out(Input, _resolved(tensors, attrs))


def _unsliced(X: TensorType, Like: TensorType, *tensors: Any, **attrs: Any) -> TensorType:
    part = _part_type(Like, *tensors, **attrs)
    if joined_shape(part.shape, X.shape) is None:
        raise ShapeError(f"X is {X}: it is not like a slice of Like, which would be {part}")
    return TensorType(Like.shape, X.dtype)


@attributes(StridedCut)
def _unslice_grad(
    dOut: Tensor,
    StartsTensor: Tensor,
    EndsTensor: Tensor,
    StartsTensorList: list[Tensor],
    EndsTensorList: list[Tensor],
    StridesTensor: Tensor,
    StridesTensorList: list[Tensor],
    **attrs: Any,
) -> Tensor:
    return strided_slice(dOut, StartsTensor, EndsTensor, StartsTensorList, EndsTensorList, StridesTensor, StridesTensorList, **attrs)


@operator(f"X Like {_STRIDED_BOUNDS} -> Out", infer=_unsliced, grad={"X": _unslice_grad}, linear="X", flops=0)
@attributes(StridedCut)
def unslice(X: Array, Like: Array, *tensors: Any, **attrs: Any) -> Array:
    """Zeros in the shape of Like with X where the slice was taken: the transpose of ``strided_slice``."""
    out = np.zeros(Like.shape, X.dtype)
    place = out[index_of(Like.ndim, _resolved(tensors, attrs))]
    if X.size != place.size:
        raise InvalidValue(f"X has the shape {list(X.shape)}, but the slice of Like has {list(place.shape)}")
    place[...] = X.reshape(place.shape)
    return out
