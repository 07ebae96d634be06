"""Parts of tensors by position: slices, crops, slices along an axis one by one, and slices written to."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.attributes import Types, attributes, hinted, how_many, is_given, numbers
from graphad.ops.definition import NO_INTS, DType, operator
from graphad.ops.dimensions import along_axis, one_axis_less, sliced
from graphad.ops.inference import FAR, matched, normal_axis, same_dtypes
from graphad.ops.joining import stack
from graphad.ops.like import unbroadcast
from graphad.ops.shapes import flip, flipped, shape_, unsqueeze
from graphad.ops.traits import Declared
from graphad.types import Array, Shape, Tensor, TensorType, broadcast_shapes, element_count, joined_shape

# -- slicing ---------------------------------------------------------------------------------------
# Slices of tensors, with fixed bounds or with bounds in tensors, and their transpose.


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
    """Starts, ends and strides of slices as tensors: each takes the place of an attribute, or is None."""

    starts: object = None
    ends: object = None
    starts_list: object = None
    ends_list: object = None
    strides: object = None
    strides_list: object = None

    def pairs(self, cut: StridedCut) -> list[tuple[str, list[int], Any, Any]]:
        """Starts, ends and strides: the name of each, its attribute, its tensor, and its list of tensors."""
        return [
            ("Starts", cut.starts, self.starts, self.starts_list),
            ("Ends", cut.ends, self.ends, self.ends_list),
            ("Strides", cut.strides, self.strides, self.strides_list),
        ]

    def resolved(self, cut: StridedCut) -> StridedCut:
        """The attributes with what the arrays say."""
        starts, ends, strides = (numbers(*item) for _, *item in self.pairs(cut))
        return replace(cut, starts=starts, ends=ends, strides=strides)

    def known(self, cut: StridedCut) -> list[bool]:
        """For each axis whether its slice is known before the run: the attributes hold it, and ``infer_flags`` does not say otherwise."""
        counts = {
            f"{prefix}Tensor": how_many(f"{prefix}Tensor", *tensors) for prefix, *tensors in self.pairs(cut) if is_given(*tensors[1:])
        }
        if not counts:
            return [True] * len(cut.axes)
        for slot, count in counts.items():
            if count != len(cut.axes):
                raise ShapeError(f"{slot} has {count} numbers for axes={cut.axes}")
        # Paddle's infer_flags: -1 for an axis whose bounds come from a tensor when the program runs.
        same_lengths = len(cut.infer_flags) == len(cut.starts) == len(cut.ends) == len(cut.strides or cut.axes) == len(cut.axes)
        return [same_lengths and cut.infer_flags[i] != -1 for i in range(len(cut.axes))]


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
        # Without the extent only two slices are known: the empty one and the whole.
        return 0 if part.step > 0 and part.start == part.stop else extent if _is_whole(part) else -1
    return len(range(*part.indices(extent)))


def _is_whole(part: builtins.slice) -> bool:
    """Whether a slice takes all places of an axis, whatever its extent is."""
    return bool(part.start == 0 and part.step == 1 and part.stop >= FAR)


def sliced_shape(shape: Shape, by: Bounds, cut: StridedCut) -> Shape:
    """The shape of a slice, before axes are left out; -1 where only the tensors say."""
    flags = by.known(cut)
    # Axes whose bounds are tensors have unknown extents; bounds along the other axes are checked all the same.
    positions = [i for i, k in enumerate(flags) if k]
    axes, starts, ends, strides = (
        [v[i] for i in positions] if positions and v else [] for v in (cut.axes, cut.starts, cut.ends, cut.strides)
    )
    parts = _slices(len(shape), cut if all(flags) else StridedCut(axes, starts, ends, strides=strides))
    open_ = {normal_axis(a, len(shape), "axes") for a, k in zip(cut.axes, flags, strict=True) if not k}
    return tuple(-1 if i in open_ else _sliced_extent(e, parts.get(i)) for i, e in enumerate(shape))


def index_of(rank: int, cut: StridedCut) -> tuple[Any, ...]:
    """The slice as numpy's index."""
    parts = _slices(rank, cut)
    # ``...`` makes numpy give an array, where the plain index of a scalar would give a number.
    return (*(parts.get(i, builtins.slice(None)) for i in range(rank)), ...)


def _part_type(Input: TensorType, *tensors: object, **attrs: Any) -> TensorType:
    cut, by = StridedCut(**attrs), Bounds(*tensors)
    extents = sliced_shape(Input.shape, by, cut)
    dropped_axes = {normal_axis(a, len(extents), "decrease_axis") for a in cut.decrease_axis}
    if any(not matched(extents[a], 1) for a in dropped_axes):
        raise ShapeError(
            f"Input is {Input}: the slice has the shape {list(extents)}, so decrease_axis={cut.decrease_axis} cannot be left out"
        )
    return TensorType(tuple(e for i, e in enumerate(extents) if i not in dropped_axes), Input.dtype)


def _decreased(shape: Shape, decrease_axis: list[int]) -> Shape:
    # Inference let these axes pass if their extent was unknown; here it is known.
    dropped_axes = {a % len(shape) for a in decrease_axis}
    if any(shape[a] != 1 for a in dropped_axes):
        raise InvalidValue(f"the slice has the shape {list(shape)}, so decrease_axis={decrease_axis} cannot be left out")
    return tuple(e for i, e in enumerate(shape) if i not in dropped_axes)


def _resolved(tensors: tuple[object, ...], attrs: dict[str, Any]) -> StridedCut:
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
    **attrs: object,
) -> Tensor:
    return unslice(dOut, Input, StartsTensor, EndsTensor, StartsTensorList, EndsTensorList, **attrs)


def _cutting(bounds: str) -> Declared:
    """The traits of a slice, whose bounds may come from some slots."""
    return {
        "speculatable": "extents",
        "extents": bounds,
        "linear": "Input",
        "rows": "Input",
        "along": "axes",
        "view": "Input",
        "narrow": "follows",
        "flops": 0,
        "dimensions": sliced,
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
def slice_(Input: Array, *tensors: object, **attrs: object) -> Array:
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
    **attrs: object,
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
def strided_slice(Input: Array, *tensors: object, **attrs: object) -> Array:
    """``Input[start:end:stride]`` along each of ``axes``, with Python's meaning; axes in ``decrease_axis`` go."""
    return _cut_out(Input, _resolved(tensors, attrs))


def _unsliced(X: TensorType, Like: TensorType, *tensors: object, **attrs: object) -> TensorType:
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
    **attrs: object,
) -> Tensor:
    return strided_slice(dOut, StartsTensor, EndsTensor, StartsTensorList, EndsTensorList, StridesTensor, StridesTensorList, **attrs)


@operator(f"X Like {_STRIDED_BOUNDS} -> Out", infer=_unsliced, grad={"X": _unslice_grad}, linear="X", flops=0)
@attributes(StridedCut)
def unslice(X: Array, Like: Array, *tensors: object, **attrs: object) -> Array:
    """Zeros in the shape of Like with X where the slice was taken: the transpose of ``strided_slice``."""
    out = np.zeros(Like.shape, X.dtype)
    place = out[index_of(Like.ndim, _resolved(tensors, attrs))]
    if X.size != place.size:
        raise InvalidValue(f"X has the shape {list(X.shape)}, but the slice of Like has {list(place.shape)}")
    # X may lack the axes of decrease_axis, which have one element in ``place``.
    place[...] = X.reshape(place.shape)
    return out


# -- slices written to -----------------------------------------------------------------------------
# ``set_value``: a slice of a tensor written to.


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


def _bounds(starts: object = None, ends: object = None, steps: object = None) -> Bounds:
    return Bounds(starts_list=starts, ends_list=ends, strides_list=steps)


def _places(rank: int, decrease_axes: list[int], none_axes: list[int]) -> list[int | None]:
    """The axes that a value is assigned to, None for one that is new: those of the slice without those left out, and new ones in front
    of the axes that ``none_axes`` names."""
    dropped_axes, new = {normal_axis(a, rank, "decrease_axes") for a in decrease_axes}, sorted(none_axes)
    places: list[int | None] = []
    # One place after the last axis: there go new axes that are named beyond it, as negative ones go to the front.
    for axis in range(rank + 1):
        last = axis == rank
        places += [None] * sum(1 for n in new if (n == axis or (last and n > axis) or (axis == 0 and n < 0)))
        places += [] if last or axis in dropped_axes else [axis]
    return places


def _assigned(shape: Shape, setting: Setting) -> Shape:
    """The shape a value is broadcast to, of the shape of the slice."""
    return tuple(1 if axis is None else shape[axis] for axis in _places(len(shape), setting.decrease_axes, setting.none_axes))


def _set_type(Input: TensorType, ValueTensor: TensorType | None = None, *lists: object, **attrs: Any) -> TensorType:
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
        is_fitting = len(value.shape) <= len(target) and len(broadcast_shapes(target, value.shape)) == len(target)
        # Broadcasting must not make the slice larger: it is the value that is stretched.
        is_fitting = is_fitting and all(b in (1, -1, a) or a == -1 for a, b in zip(target[::-1], value.shape[::-1], strict=False))
    except ShapeError:
        is_fitting = False
    if not is_fitting:
        raise ShapeError(f"Input is {Input}: a value of the shape {list(value.shape)} does not broadcast to the slice, {list(target)}")
    return Input


@attributes(Setting)
def _input_grad(
    dOut: Tensor, StartsTensorList: list[Tensor], EndsTensorList: list[Tensor], StepsTensorList: list[Tensor], **attrs: object
) -> Tensor:
    # What was overwritten has no influence: the cotangent, with zeros written to the slice.
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
    # Axes that only the value has come back first; then the sum over what was broadcast is as usual.
    new = [i for i, axis in enumerate(_places(dOut.ndim, setting.decrease_axes, setting.none_axes)) if axis is None]
    return unbroadcast(unsqueeze(part, axes=new) if new else part, ValueTensor)


@operator(
    "Input ValueTensor? StartsTensorList*? EndsTensorList*? StepsTensorList*? -> Out",
    infer=_set_type,
    grad={"Input": _input_grad, "ValueTensor": _value_grad},
    shapes="ValueTensor",
)
@attributes(Setting)
def set_value(Input: Array, ValueTensor: Array | None = None, *lists: object, **attrs: Any) -> Array:
    """Input with ``Input[start:end:step]`` along each of ``axes`` replaced by ValueTensor, or by the attributes' value, broadcast.

    ``decrease_axes`` are axes that the value does not have, ``none_axes`` such that only the value has.
    """
    setting = Setting(**attrs)
    out = Input.copy()
    place = out[index_of(out.ndim, _bounds(*lists).resolved(setting.cut))]
    value = np.array(setting.given, Input.dtype).reshape(setting.shape) if ValueTensor is None else ValueTensor
    place[...] = np.broadcast_to(value, _assigned(place.shape, setting)).reshape(place.shape)
    return out


# -- parts by position -----------------------------------------------------------------------------
# Parts of tensors by position: crops, slices along an axis one by one, and the reverse order.

# -- along one axis ------------------------------------------------------------------------------


def _unbound(X: TensorType, *, axis: int = 0) -> list[TensorType]:
    at = normal_axis(axis, len(X.shape))
    if not X.shape or X.shape[at] == -1:
        raise ShapeError(f"X is {X}: the extent along axis={axis} has to be known, since there is an output for each place")
    return [TensorType(X.shape[:at] + X.shape[at + 1 :], X.dtype)] * X.shape[at]


@operator(
    "X -> Out*",
    infer=_unbound,
    grad={"X": lambda dOut, *, axis: stack(dOut, axis=axis)},
    linear="X",
    narrow="follows",
    flops=0,
    dimensions=one_axis_less,
)
def unbind(X: Array, *, axis: int = 0) -> list[Array]:
    """The slices of X along ``axis``, without that axis."""
    # Slices are views of X; results own their memory.
    return [part.copy() for part in np.moveaxis(X, axis, 0)]


@operator(
    "X -> Out",
    infer=flipped,
    grad={"X": lambda dOut, *, axis: flip(dOut, axis=axis)},
    linear="X",
    narrow="follows",
    flops=0,
    dimensions=along_axis,
)
def reverse(X: Array, *, axis: list[int]) -> Array:
    """X in reverse order along each of ``axis``."""
    return np.flip(X, tuple(axis)).copy()


# -- crops ---------------------------------------------------------------------------------------


def _cropped(old: Shape, offsets: list[int], shape: list[int]) -> Shape:
    """The extents of a crop; one of -1 goes to the end."""
    offsets = offsets or [0] * len(old)
    if not len(offsets) == len(shape) == len(old):
        raise ShapeError(f"X has the shape {list(old)}: offsets={offsets} and shape={shape} must have a number for each axis")
    extents = tuple((-1 if e == -1 else e - o) if s == -1 else s for e, o, s in zip(old, offsets, shape, strict=True))
    # The part has to be within X, as far as extents are known.
    if any(o < 0 or (e != -1 and (o + max(n, 0) > e or n < 0)) for e, o, n in zip(old, offsets, extents, strict=True)):
        raise ShapeError(f"X has the shape {list(old)}: offsets={offsets} and shape={shape} are not within")
    return extents


def _crop_tensor_type(
    X: TensorType,
    Shape: TensorType | None = None,
    Offsets: TensorType | None = None,
    ShapeTensor: Types | None = None,
    OffsetsTensor: Types | None = None,
    *,
    offsets: list[int] = NO_INTS,
    shape: list[int] = NO_INTS,
) -> TensorType:
    rank = len(X.shape)
    by_tensor = is_given(Shape, ShapeTensor), is_given(Offsets, OffsetsTensor)
    if not any(by_tensor):
        return TensorType(_cropped(X.shape, offsets, shape), X.dtype)
    extents = hinted("Shape", shape, Shape, ShapeTensor)
    if len(extents) != rank or (by_tensor[1] and how_many("Offsets", offsets, Offsets, OffsetsTensor) != rank):
        raise ShapeError(f"X is {X}: a crop takes a number for each axis")
    return TensorType(tuple(e if e > 0 else -1 for e in extents), X.dtype)


@operator(
    "X Shape? Offsets? ShapeTensor*? OffsetsTensor*? -> Out",
    infer=_crop_tensor_type,
    grad={"X": lambda X, dOut, Offsets, OffsetsTensor, *, offsets: uncrop(dOut, X, Offsets, OffsetsTensor, offsets=offsets)},
    shapes="X",
    linear="X",
    flops=0,
)
def crop_tensor(
    X: Array,
    Shape: Array | None = None,
    Offsets: Array | None = None,
    ShapeTensor: list[Array] | None = None,
    OffsetsTensor: list[Array] | None = None,
    *,
    offsets: list[int] = NO_INTS,
    shape: list[int] = NO_INTS,
) -> Array:
    """The part of X of the extents ``shape`` (-1: to the end) that starts at ``offsets``; tensors take the place of either."""
    start = numbers(offsets, Offsets, OffsetsTensor) or [0] * X.ndim
    extents = _cropped(X.shape, start, numbers(shape, Shape, ShapeTensor))
    return X[tuple(builtins.slice(o, o + e) for o, e in zip(start, extents, strict=True))].copy()


def _crop_type(
    X: TensorType,
    Y: TensorType | None = None,
    Offsets: TensorType | None = None,
    *,
    offsets: list[int] = NO_INTS,
    shape: list[int] = NO_INTS,
) -> TensorType:
    target = list(shape if Y is None else Y.shape)
    # Extents of Y that are not known before the run: a crop by a tensor of them.
    if Y is not None and -1 in target:
        return _crop_tensor_type(X, TensorType((len(target),), "int64"), Offsets, offsets=offsets, shape=target)
    return _crop_tensor_type(X, None, Offsets, offsets=offsets, shape=target)


@operator(
    "X Y? Offsets? -> Out",
    infer=_crop_type,
    grad={"X": lambda X, dOut, Offsets, *, offsets: uncrop(dOut, X, Offsets, offsets=offsets)},
    shapes="X",
    linear="X",
    flops=0,
)
def crop(
    X: Array, Y: Array | None = None, Offsets: Array | None = None, *, offsets: list[int] = NO_INTS, shape: list[int] = NO_INTS
) -> Array:
    """The part of X in the shape of Y, or of the extents ``shape``, that starts at ``offsets`` or at what Offsets says."""
    part: Array = crop_tensor.kernel(X, None, Offsets, offsets=offsets, shape=list(shape if Y is None else Y.shape))
    return part


def _uncropped(
    X: TensorType, Like: TensorType, Offsets: TensorType | None = None, OffsetsTensor: Types | None = None, *, offsets: list[int] = NO_INTS
) -> TensorType:
    start = [] if is_given(Offsets, OffsetsTensor) else offsets
    _cropped(Like.shape, start, list(X.shape))
    return TensorType(Like.shape, X.dtype)


def _uncrop_grad(X: Tensor, dOut: Tensor, Offsets: Tensor, OffsetsTensor: list[Tensor], *, offsets: list[int]) -> Tensor:
    return crop_tensor(dOut, shape_(X), Offsets, None, OffsetsTensor, offsets=offsets, shape=list(X.shape))


@operator("X Like Offsets? OffsetsTensor*? -> Out", infer=_uncropped, grad={"X": _uncrop_grad}, shapes="X", linear="X", flops=0)
def uncrop(
    X: Array, Like: Array, Offsets: Array | None = None, OffsetsTensor: list[Array] | None = None, *, offsets: list[int] = NO_INTS
) -> Array:
    """Zeros in the shape of Like with X at ``offsets``: the transpose of ``crop_tensor``. Only Like's shape is read."""
    start = numbers(offsets, Offsets, OffsetsTensor) or [0] * X.ndim
    _cropped(Like.shape, start, list(X.shape))
    out = np.zeros(Like.shape, X.dtype)
    out[tuple(builtins.slice(o, o + e) for o, e in zip(start, X.shape, strict=True))] = X
    return out
