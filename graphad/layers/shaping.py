"""Layers of Fluid that shape, choose and count, and that are more than one operator or take several forms."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import DefaultInt, DefaultStr, checked_flag, checked_float, checked_int, has_last_one
from graphad.layers.helper import LayerHelper, checked_input, emitted, layer
from graphad.layers.recorded import operator_layer
from graphad.layers.values import constant, is_literal, known, literal_type
from graphad.program import Variable, default_main_program
from graphad.program.source import at_users_line
from graphad.types import FLOATS, dtype_name


@layer
def softmax(input: Variable, use_cudnn: object = False, name: str | None = None, axis: int = -1) -> Variable:
    """``exp(x)`` over its sum along an axis.

    Args:
        input: logits.
        use_cudnn: a hint without effect; an axis in its place is taken as one, as in Paddle 2.
        axis: the axis that sums to 1.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()):
    ...     ga.layers.softmax(ga.layers.data("x", shape=[4]), -1)
    Variable softmax_0.tmp_0: float32[-1, 4]
    """
    # bool is an int in Python, and is Fluid's hint here.
    if isinstance(use_cudnn, int) and not isinstance(use_cudnn, bool):
        axis = use_cudnn
    elif not isinstance(use_cudnn, bool):
        checked_flag("layers.softmax: use_cudnn", use_cudnn)
    return emitted("softmax", [checked_input("softmax", input)], name, axis=axis)  # type: ignore[no-any-return]


_LAST = DefaultInt(-1)
_NARROW = DefaultStr("int32")


@layer
def split(
    input: Variable,
    num_or_sections: int | Sequence[int] | None = None,
    dim: int = _LAST,
    name: str | None = None,
    *,
    axis: int | None = None,
    num: int = 0,
    sections: Sequence[int] = (),
) -> list[Variable]:
    """The parts of a tensor along an axis.

    Args:
        num_or_sections: how many parts of one extent, or the extents of the parts, of which one may be -1.
        dim: the axis.
        axis: the same as ``dim``, as in Paddle 2.
        num, sections: the operator's attributes, of which one takes the place of ``num_or_sections``; ``axis`` is then 0 by default.

    Raises:
        TypeError: neither says how the tensor is split.
    """
    with at_users_line("layers.split"):
        x = checked_input("split", input)
        along = axis if dim is _LAST or dim is None else dim
        if along is not axis and axis is not None:
            raise InvalidType("dim and axis are the same: give one of them")
        # A size that a constant of the program says counts as the number.
        num_or_sections = known(num_or_sections)
        if num_or_sections is None:
            if not num and not sections:
                raise InvalidType("num_or_sections is missing: how many parts, or a list of their extents")
            return emitted("split", [x], name, num=num, sections=list(sections), axis=0 if along is None else along)  # type: ignore[no-any-return]
        by_count = isinstance(num_or_sections, int | np.integer) and not isinstance(num_or_sections, bool)
        if not by_count and not isinstance(num_or_sections, list | tuple):
            raise InvalidType(f"num_or_sections is an int or a list of ints, not {num_or_sections!r}")
        parts: dict[str, object] = {"num": num_or_sections} if by_count else {"sections": list(num_or_sections)}  # type: ignore[arg-type]
    # Fluid splits along the last axis by default, the operator along the first.
    return emitted("split", [x], name, **parts, axis=-1 if along is None else checked_int("layers.split: dim", along))  # type: ignore[no-any-return]


@layer
def where(condition: Variable, x: object = None, y: object = None, name: str | None = None) -> Variable:
    """The indices at which a condition holds, as rows of int64, as in Fluid; with x and y the elements of x there and those of y
    elsewhere."""
    with at_users_line("layers.where"):
        checked_input("where", condition)
        if (x is None) != (y is None):
            raise InvalidType("x and y come together: where(condition) gives places, where(condition, x, y) elements")
    if x is None:
        return emitted("where_index", [condition], name)  # type: ignore[no-any-return]
    block = default_main_program().current_block()
    if is_literal(x) and is_literal(y):
        # Both are literals: one of them becomes a constant, in the dtype that numpy would give the two together.
        x = constant(block, "number", np.asarray(x, dtype_name(np.result_type(literal_type(x).dtype, literal_type(y).dtype))))
    like = x if isinstance(x, Variable) else y
    if not isinstance(like, Variable):
        raise InvalidType(f"layers.where: x is {x!r} and y is {y!r}; a Variable, a number or an array is expected")
    operands = [constant(block, "number", item, like.tensor_type) if is_literal(item) else item for item in (x, y)]
    return emitted("where", [condition, *operands], name)  # type: ignore[no-any-return]


def _filled_like(kind: str, x: Variable, out: Variable | None, value: float) -> Variable:
    x = checked_input(kind, x)
    if out is None:
        # fill_zeros_like takes other kinds of variables too, and needs no attribute.
        return emitted("fill_any_like", [x], value=value) if value else emitted("fill_zeros_like", [x])  # type: ignore[no-any-return]
    default_main_program().current_block().append_op("fill_any_like", {"X": x}, {"Out": out}, {"value": value})
    return out


@layer
def zeros_like(x: Variable, out: Variable | None = None) -> Variable:
    """Zeros in the shape and dtype of x; ``out`` is a Variable to overwrite."""
    return _filled_like("zeros_like", x, out, 0.0)


@layer
def ones_like(x: Variable, out: Variable | None = None) -> Variable:
    """Ones in the shape and dtype of x; ``out`` is a Variable to overwrite."""
    return _filled_like("ones_like", x, out, 1.0)


@layer
def linspace(start: object, stop: object, num: Any, dtype: Any = "float32", name: str | None = None) -> Variable:
    """``num`` numbers from ``start`` to ``stop``, both among them, at equal distances.

    Args:
        start, stop, num: numbers, or Variables of one element.
    """
    dtype = dtype_name(dtype)
    block = default_main_program().current_block()
    bounds = [item if isinstance(item, Variable) else constant(block, "number", np.array([item], dtype)) for item in (start, stop)]
    count = (
        num if isinstance(num, Variable) else constant(block, "number", np.array([checked_int("layers.linspace: num", num, 1)], "int32"))
    )
    out: Variable = emitted("linspace", [*bounds, count], name, dtype=dtype)
    if not isinstance(num, Variable):
        # Inference does not read values; this one is known here.
        out.declare((int(num),), dtype)
    out.stop_gradient = dtype not in FLOATS
    return out


@layer
def sequence_mask(x: Variable, maxlen: object = None, dtype: object = "int64", name: str | None = None) -> Variable:
    """Ones up to the lengths in x and zeros after: ``[..., maxlen]``.

    Args:
        x: lengths, integers.
        maxlen: an int, or a Variable of one element; the longest length if None.
    """
    lengths = checked_input("sequence_mask", x)
    if maxlen is None:
        # The longest length is known only when the program runs; so is the extent of the mask.
        maxlen = lengths.max()
    places = _places(maxlen, lengths.dtype)
    mask = emitted("less_than", [places, lengths.unsqueeze(-1)])
    return emitted("cast", [mask], name, out_dtype=dtype_name(dtype))  # type: ignore[no-any-return]


def _places(end: object, dtype: str) -> Variable:
    # Places 0, 1, ... before the end, in the dtype of the lengths, so that the two can be compared.
    block = default_main_program().current_block()
    if not isinstance(end, Variable):
        return constant(block, "number", np.arange(checked_int("layers.sequence_mask: maxlen", end, 0), dtype=dtype))
    zero, unit = (constant(block, "number", np.array([number], dtype)) for number in (0, 1))
    bound = end if end.dtype == dtype else end.astype(dtype)
    return emitted("range", [zero, bound.reshape([1]), unit])  # type: ignore[no-any-return]


@layer
def one_hot(
    input: Variable, depth: int, allow_out_of_range: bool = False, *, dtype: object = "float32", name: str | None = None
) -> Variable:
    """A one at each label and zeros elsewhere, along a last axis of extent ``depth``.

    Args:
        input: integer labels. A last axis of extent 1 goes, as in ``fluid.layers.one_hot``; other shapes keep theirs, as in Paddle 2.
        allow_out_of_range: whether a label that is out of range gives zeros, not an error.
    """
    labels = checked_input("one_hot", input)
    with at_users_line("layers.one_hot"):
        attrs = {"depth": checked_int("depth", depth, 1), "allow_out_of_range": checked_flag("allow_out_of_range", allow_out_of_range)}
        # Fluid's labels are [..., 1], and the axis of codes takes the place of that 1; Paddle 2's keep their shape.
        op = "one_hot" if has_last_one(labels) else "one_hot_v2"
    return emitted(op, [labels], name, dtype=dtype_name(dtype), **attrs)  # type: ignore[no-any-return]


@layer
def l2_normalize(x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """``x / sqrt(sum(x * x) + epsilon)`` along an axis."""
    # Fluid normalizes along axis 1 where None is passed.
    attrs = {"axis": 1 if axis is None else checked_int("layers.l2_normalize: axis", axis), "epsilon": checked_float("epsilon", epsilon)}
    return emitted("norm", [checked_input("l2_normalize", x)], name, **attrs)  # type: ignore[no-any-return]


# -- whole tensors -------------------------------------------------------------------------------


@layer
def has_inf(x: Variable) -> Variable:
    """Whether an element is infinite, as one boolean."""
    return emitted("isinf_v2", [checked_input("has_inf", x)]).any()  # type: ignore[no-any-return]


@layer
def has_nan(x: Variable) -> Variable:
    """Whether an element is not a number, as one boolean."""
    return emitted("isnan_v2", [checked_input("has_nan", x)]).any()  # type: ignore[no-any-return]


@layer
def isfinite(x: Variable) -> Variable:
    """Whether all elements are finite, as one boolean; ``layers.isfinite_v2`` says so of each."""
    return emitted("isfinite_v2", [checked_input("isfinite", x)]).all()  # type: ignore[no-any-return]


@layer
def is_empty(x: Variable, cond: Variable | None = None) -> Variable:
    """Whether a tensor has no elements; ``cond`` is a boolean Variable to overwrite."""
    count = emitted("size", [checked_input("is_empty", x)])
    empty: Variable = count == 0
    if cond is None:
        return empty
    default_main_program().current_block().append_op("assign", {"X": empty}, {"Out": cond})
    return cond


@layer
def rank(input: Variable) -> Variable:
    """The number of axes, an int32 of shape []."""
    return constant(default_main_program().current_block(), "rank", np.array(checked_input("rank", input).ndim, "int32"))


@layer
def tril(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The elements of matrices on and below a diagonal; zeros elsewhere."""
    return emitted("tril_triu", [checked_input("tril", input)], name, diagonal=diagonal, lower=True)  # type: ignore[no-any-return]


@layer
def triu(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The elements of matrices on and above a diagonal; zeros elsewhere."""
    return emitted("tril_triu", [checked_input("triu", input)], name, diagonal=diagonal, lower=False)  # type: ignore[no-any-return]


@layer
def scatter_nd(index: Variable, updates: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """Zeros of a shape to which updates are added at places; repeated places add up."""
    x = checked_input("scatter_nd", updates)
    zeros = emitted("fill_constant", [], shape=list(shape), value=0.0, dtype=x.dtype)
    return emitted("scatter_nd_add", [zeros, checked_input("scatter_nd", index), x], name)  # type: ignore[no-any-return]


@layer
def nonzero(input: Variable, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: rows of int64, or with ``as_tuple`` one column ``[n, 1]`` an axis."""
    x = checked_input("nonzero", input)
    places = emitted("where_index", [x if x.dtype == "bool" else x.astype("bool")])
    if not checked_flag("layers.nonzero: as_tuple", as_tuple):
        return places
    return tuple(places[:, i : i + 1] for i in builtins.range(x.ndim))


@layer
def clamp(input: Variable, min: object = None, max: object = None, output: Variable | None = None, name: str | None = None) -> Variable:
    """The elements, at least ``min`` and at most ``max``; None leaves a side open. ``output`` is a Variable to overwrite."""
    x = checked_input("clamp", input)
    out = x.clip(None if min is None else checked_float("min", min), None if max is None else checked_float("max", max))
    if output is None:
        return out
    default_main_program().current_block().append_op("assign", {"X": out}, {"Out": output})
    return output


@layer
def clip(x: Variable, min: Any = None, max: Any = None, name: str | None = None, act: str | None = None) -> Variable:
    """The elements, at least ``min`` and at most ``max``; None leaves a side open.

    Args:
        x: a tensor.
        min, max: numbers, or tensors of one number.

    Raises:
        TypeError: both sides are open.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     above = ga.layers.clip(ga.layers.assign([-1.0, 2.0]), min=0.0)
    >>> ga.Executor().run(program, fetch_list=[above])
    [array([0., 2.], dtype=float32)]
    """
    if min is None and max is None:
        raise InvalidType("layers.clip needs 'min' or 'max'")
    if min is not None and max is not None:
        # With both bounds it is one operator; one side alone is a maximum or a minimum.
        clip_layer = operator_layer("clip")
        assert clip_layer is not None
        return clip_layer(x, min=min, max=max, name=name, act=act)  # type: ignore[no-any-return]
    op, bound = ("elementwise_max", min) if max is None else ("elementwise_min", max)
    tensor = checked_input("clip", x)
    limit = bound if isinstance(bound, Variable) else constant(default_main_program().current_block(), "number", bound, tensor.tensor_type)
    return LayerHelper("clip", name).activate(emitted(op, [tensor, limit], None if act else name), act)


@layer
def topk(
    input: Variable, k: Any, name: Any = None, axis: int | None = None, largest: bool = True, sorted: bool = True
) -> tuple[Variable, Variable]:
    """The k largest elements along an axis, the last by default, and where they are: two tensors with k in place of the extent.

    Args:
        input: a tensor.
        k: how many, a number or a tensor of one.
        name: how the first result is called; an axis in its place is taken as one, as in Paddle 2.
        largest: False gives the smallest.
        sorted: a hint; the elements are always in order, of equal ones the first comes first.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     values, places = ga.layers.topk(ga.layers.assign([[3.0, 1.0], [2.0, 5.0]]), 1, axis=0)
    >>> ga.Executor().run(program, fetch_list=[values, places])
    [array([[3., 5.]], dtype=float32), array([[0, 1]])]
    """
    # The third argument is Fluid's name or Paddle 2's axis: the type tells.
    if isinstance(name, int) and axis is None:
        name, axis = None, name
    # Fluid's operator wherever it suffices, as older readers of a program know it.
    last = axis is None and largest
    options = (
        {} if last else {"axis": -1 if axis is None else axis, "largest": checked_flag("layers.topk: largest", largest), "sorted": sorted}
    )
    layer = operator_layer("top_k" if last else "top_k_v2")
    assert layer is not None
    values, places = layer(input, k=k, name=name, **options)
    return values, places


@layer
def unique(
    x: Variable,
    dtype: object = _NARROW,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    name: str | None = None,
) -> Any:
    """The distinct elements of a tensor with one axis in the order in which they come first, and which of them each element is.

    With a word of Paddle 2's (``return_index``, ``return_inverse``, ``return_counts``, ``axis``) the distinct elements are sorted, and the
    tensors that the words request follow them.

    Args:
        x: a tensor.
        dtype: of the indices; where it is left out beside a word of Paddle 2's, int64, as there.
        return_index: where each comes first.
        return_inverse: which of them each element is.
        return_counts: how often each is there.
        axis: distinct slices along this axis, not distinct elements.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x = ga.layers.assign([3.0, 1.0, 3.0])
    ...     out, index = ga.layers.unique(x)
    ...     ordered, counts = ga.layers.unique(x, return_counts=True)
    >>> ga.Executor().run(program, fetch_list=[out, index, ordered, counts])
    [array([3., 1.], dtype=float32), array([0, 1, 0], dtype=int32), array([1., 3.], dtype=float32), array([1, 2])]
    """
    helper = LayerHelper("unique", name)
    requested_slots = {"Indices": return_index, "Index": return_inverse, "Counts": return_counts}
    for word, flag in zip(("return_index", "return_inverse", "return_counts"), requested_slots.values(), strict=True):
        checked_flag(f"layers.unique: {word}", flag)
    # Fluid's gives the inverse always, and keeps the order of first occurrence; Paddle 2's, with an axis or a flag, sorts.
    fluid = axis is None and not any(requested_slots.values())
    kind = "int64" if dtype is _NARROW and not fluid else dtype_name("int32" if dtype is None else dtype)
    slots = ("Out", "Index") if fluid else ("Out", *(slot for slot, flag in requested_slots.items() if flag))
    flags = {"return_index": return_index, "return_inverse": fluid or return_inverse, "return_counts": return_counts}
    attrs = {"dtype": kind, **flags, "is_sorted": not fluid, "axis": [] if axis is None else [checked_int("layers.unique: axis", axis)]}
    results = helper.append_all("unique", {"X": checked_input("unique", x)}, slots, attrs, stopped=slots)
    return tuple(results) if len(slots) > 1 else results[0]


@layer
def numel(x: Variable, name: str | None = None) -> Variable:
    """How many elements a tensor has: an int64 tensor with one element."""
    return emitted("size", [checked_input("numel", x)], name)  # type: ignore[no-any-return]


@layer
def einsum(*operands: Any, equation: str | None = None, name: str | None = None) -> Variable:
    """Einstein's sum, as numpy writes it: ``einsum("ij,jk->ik", x, y)``, or with a list, ``einsum([x, y], equation="ij,jk->ik")``.

    Args:
        operands: the equation and the tensors, or the tensors alone, or a list of them.
        equation: what is multiplied and summed; ``...`` stands for axes that are not named.

    Raises:
        TypeError: there is no equation, or two.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x = ga.layers.assign([[1.0, 2.0], [3.0, 4.0]])
    ...     trace = ga.layers.einsum("ii->", x)
    >>> ga.Executor().run(program, fetch_list=[trace])
    [array(5., dtype=float32)]
    """
    texts = [item for item in (*operands, equation) if isinstance(item, str)]
    tensors = [item for item in operands if not isinstance(item, str)]
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = list(tensors[0])
    if len(texts) != 1:
        raise InvalidType(f"layers.einsum takes one equation and the tensors, as in einsum('ij,jk->ik', x, y), not {len(texts)} equations")
    return emitted("einsum", [[checked_input("einsum", item) for item in tensors]], name, equation=texts[0])  # type: ignore[no-any-return]


@layer
def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """x repeated along each axis until it has the shape of another tensor, whose extents are multiples and known."""
    with at_users_line("layers.expand_as"):
        shape, target = checked_input("expand_as", x).shape, checked_input("expand_as", target_tensor).shape
        if len(shape) != len(target):
            raise ShapeError(f"x is {x!r} and target_tensor {target_tensor!r}; they have different numbers of axes")
        # What agrees needs no repeating; an unknown extent leaves it to the operator that reads the target's shape.
        pairs = [(a, b) for a, b in zip(shape, target, strict=True) if a != b or a == -1]
        if any(-1 in pair for pair in pairs):
            return emitted("expand_as_v2", [x, target_tensor], name)  # type: ignore[no-any-return]
        if any(b % a for a, b in pairs if a):
            raise ShapeError(f"the extents of {target_tensor!r} are not multiples of those of {x!r}")
        times = [b // a if a else 1 for a, b in zip(shape, target, strict=True)]
    return emitted("expand", [x], name, expand_times=times)  # type: ignore[no-any-return]


# -- images --------------------------------------------------------------------------------------

_METHODS = {
    "BILINEAR": ("bilinear_interp", 4),
    "LINEAR": ("linear_interp", 3),
    "NEAREST": ("nearest_interp", 4),
    "TRILINEAR": ("trilinear_interp", 5),
}


@layer
def image_resize(
    input: Variable,
    out_shape: Any = None,
    scale: float | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Any = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """Images at another size.

    Args:
        input: ``[batch, channels, height, width]``, with an axis for the depth before the height for "TRILINEAR"; the channels last
            where ``data_format`` says so.
        out_shape: the extents of the result, or a Variable of them; from ``scale`` if None.
        scale: the factor on the extents.
        resample: "BILINEAR", "NEAREST", "TRILINEAR", or "LINEAR" of one axis.
        actual_shape: a Variable of the extents, which takes the place of ``out_shape``.
        align_corners, align_mode: which points of the images are on top of each other.
    """
    with at_users_line("layers.image_resize"):
        x = checked_input("image_resize", input)
        if not isinstance(resample, str) or resample.upper() not in _METHODS:
            raise InvalidValue(f"resample is {' or '.join(map(repr, _METHODS))}, not {resample!r}")
        op, axes = _METHODS[resample.upper()]
        if (out_shape is None) == (scale is None) and actual_shape is None:
            raise InvalidType("one of out_shape and scale is needed")
        checked_flag("align_corners", align_corners)
        if data_format not in ("NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC"):
            raise InvalidValue(f"data_format is 'NCHW' or 'NHWC' (with a D for the depth, without H in one dimension), not {data_format!r}")
        if len(x.shape) != axes:
            raise ShapeError(f"resample={resample!r} takes {axes} axes, not {x!r}")
    attrs: dict[str, object] = {
        "align_corners": align_corners,
        "align_mode": align_mode,
        # The operators tell layouts apart by where the channels are, whatever the number of axes.
        "data_layout": "NHWC" if data_format.endswith("C") else "NCHW",
    }
    inputs: list[object] = [x]
    size = known(out_shape if actual_shape is None else actual_shape)
    # A list with tensors becomes one tensor of extents.
    if isinstance(size, list) and any(isinstance(item, Variable) for item in size):
        block = default_main_program().current_block()
        items = [item.reshape(1) if isinstance(item, Variable) else constant(block, "number", np.array([item], "int32")) for item in size]
        size = emitted("concat", [[item.astype("int32") for item in items]], axis=0)
    # Extents in a tensor go before the attributes.
    if isinstance(size, Variable):
        inputs.append(size)
    elif size is not None:
        extents = [checked_int("layers.image_resize: out_shape", item, 1) for item in size]
        # One extent is the width, two are height and width.
        attrs |= dict(zip(("out_d", "out_h", "out_w")[-len(extents) :], extents, strict=True))
    else:
        attrs["scale"] = checked_float("layers.image_resize: scale", scale)
    return emitted(op, inputs, name, **attrs)  # type: ignore[no-any-return]


@layer
def resize_bilinear(
    input: Variable,
    out_shape: object = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: object = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """``image_resize`` with ``resample="BILINEAR"``."""
    return image_resize(input, out_shape, scale, name, "BILINEAR", actual_shape, align_corners, align_mode, data_format)


@layer
def resize_nearest(
    input: Variable,
    out_shape: object = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: object = None,
    align_corners: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """``image_resize`` with ``resample="NEAREST"``."""
    return image_resize(input, out_shape, scale, name, "NEAREST", actual_shape, align_corners, 1, data_format)


@layer
def resize_trilinear(
    input: Variable,
    out_shape: object = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: object = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCDHW",
) -> Variable:
    """``image_resize`` with ``resample="TRILINEAR"``."""
    return image_resize(input, out_shape, scale, name, "TRILINEAR", actual_shape, align_corners, align_mode, data_format)


@layer
def resize_linear(
    input: Variable,
    out_shape: object = None,
    scale: float | None = None,
    name: str | None = None,
    actual_shape: object = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCW",
) -> Variable:
    """``image_resize`` with ``resample="LINEAR"``, of ``[batch, channels, width]``."""
    return image_resize(input, out_shape, scale, name, "LINEAR", actual_shape, align_corners, align_mode, data_format)
