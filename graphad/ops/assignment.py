"""``set_value``: a slice of a tensor written to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.attributes import attributes
from graphad.ops.basic import unbroadcast
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import matched, normal_axis, same_dtypes
from graphad.ops.shapes import unsqueeze
from graphad.ops.slicing import Bounds, StridedCut, index_of, sliced_shape, strided_slice
from graphad.types import Shape, TensorType, broadcast_shapes, element_count

DType = str


@dataclass
class Setting:
    """The attributes of ``set_value``: a slice, and a value, in whichever list is not empty, in ``shape``."""

    axes: list[int]
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    decrease_axes: list[int] = field(default_factory=list)
    none_axes: list[int] = field(default_factory=list)
    dtype: DType = ""
    bool_values: list[int] = field(default_factory=list)
    fp32_values: list[float] = field(default_factory=list)
    fp64_values: list[float] = field(default_factory=list)
    int32_values: list[int] = field(default_factory=list)
    int64_values: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)

    @property
    def cut(self) -> StridedCut:
        """The slice."""
        return StridedCut(self.axes, self.starts, self.ends, strides=self.steps, decrease_axis=self.decrease_axes)

    @property
    def given(self) -> list[float]:
        """The elements of the value."""
        lists = (self.bool_values, self.fp32_values, self.fp64_values, self.int32_values, self.int64_values, self.values)
        return next((list(v) for v in lists if v), [])


def _bounds(starts: Any = None, ends: Any = None, steps: Any = None) -> Bounds:
    return Bounds(starts_list=starts, ends_list=ends, strides_list=steps)


def _places(rank: int, decrease_axes: list[int], none_axes: list[int]) -> list[int | None]:
    """The axes that a value is assigned to, None for one that is new: those of the slice without those left out, and new ones in front
    of the axes that ``none_axes`` names."""
    gone, new = {normal_axis(a, rank, "decrease_axes") for a in decrease_axes}, sorted(none_axes)
    places: list[int | None] = []
    for axis in range(rank + 1):
        last = axis == rank
        places += [None] * sum(1 for n in new if (n == axis or (last and n > axis) or (axis == 0 and n < 0)))
        places += [] if last or axis in gone else [axis]
    return places


def _assigned(shape: Shape, setting: Setting) -> Shape:
    """The shape a value is broadcast to, of the shape of the slice."""
    return tuple(1 if axis is None else shape[axis] for axis in _places(len(shape), setting.decrease_axes, setting.none_axes))


def _set_type(Input: TensorType, ValueTensor: TensorType | None = None, *lists: Any, **attrs: Any) -> TensorType:
    setting = Setting(**attrs)
    part = sliced_shape(Input.shape, _bounds(*lists), setting.cut)
    target = _assigned(part, setting)
    if any(not matched(part[a], 1) for a in setting.decrease_axes):
        raise ShapeError(f"Input is {Input}: the slice is {list(part)}, so decrease_axes={setting.decrease_axes} cannot be left out")
    if ValueTensor is None and len(setting.given) != element_count(setting.shape):
        raise ShapeError(f"{len(setting.given)} values do not fill the shape {setting.shape}")
    value = ValueTensor or TensorType(tuple(setting.shape), Input.dtype)
    same_dtypes(Input=Input, ValueTensor=value)
    try:
        fits = len(value.shape) <= len(target) and len(broadcast_shapes(target, value.shape)) == len(target)
        fits = fits and all(b in (1, -1, a) or a == -1 for a, b in zip(target[::-1], value.shape[::-1], strict=False))
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"Input is {Input}: a value of the shape {list(value.shape)} does not broadcast to the slice, {list(target)}")
    return Input


@attributes(Setting)
def _input_grad(
    dOut: Tensor, StartsTensorList: list[Tensor], EndsTensorList: list[Tensor], StepsTensorList: list[Tensor], **attrs: Any
) -> Tensor:
    zero = {"fp32_values": [0.0], "shape": [], "dtype": ""}
    none: dict[str, list[float]] = {name: [] for name in attrs if name.endswith("values")}
    return set_value(dOut, None, StartsTensorList, EndsTensorList, StepsTensorList, **{**attrs, **none, **zero})


@attributes(Setting)
def _value_grad(
    ValueTensor: Tensor,
    dOut: Tensor,
    StartsTensorList: list[Tensor],
    EndsTensorList: list[Tensor],
    StepsTensorList: list[Tensor],
    **attrs: Any,
) -> Tensor:
    setting = Setting(**attrs)
    cut = setting.cut
    bounds = _bounds(StartsTensorList, EndsTensorList, StepsTensorList)
    part = strided_slice(
        dOut, *bounds, axes=cut.axes, starts=cut.starts, ends=cut.ends, strides=cut.strides, decrease_axis=cut.decrease_axis
    )
    new = [i for i, axis in enumerate(_places(dOut.ndim, setting.decrease_axes, setting.none_axes)) if axis is None]
    return unbroadcast(unsqueeze(part, axes=new) if new else part, ValueTensor)


@operator(
    "Input ValueTensor? StartsTensorList*? EndsTensorList*? StepsTensorList*? -> Out",
    infer=_set_type,
    grad={"Input": _input_grad, "ValueTensor": _value_grad},
    shapes="ValueTensor",
)
@attributes(Setting)
def set_value(Input: Array, ValueTensor: Array | None = None, *lists: Any, **attrs: Any) -> Array:
    """Input with ``Input[start:end:step]`` along each of ``axes`` replaced by ValueTensor, or by the attributes' value, broadcast.

    ``decrease_axes`` are axes that the value does not have, ``none_axes`` such that only the value has.
    """
    setting = Setting(**attrs)
    out = Input.copy()
    place = out[index_of(out.ndim, _bounds(*lists).resolved(setting.cut))]
    value = np.array(setting.given, Input.dtype).reshape(setting.shape) if ValueTensor is None else ValueTensor
    place[...] = np.broadcast_to(value, _assigned(place.shape, setting)).reshape(place.shape)
    return out
