"""Functions under the names that numpy and Paddle 2 share, where Fluid has another name or composes them: ``maximum``, ``std``, ``outer``.

Those that are one operator each are in ``numpy_signatures``. Axes, ``keepdim`` and defaults are Paddle 2's, which are numpy's except
where a docstring says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.layers.checks import checked_flag, checked_int
from graphad.layers.helper import checked_input, emitted, layer
from graphad.layers.shaping import split
from graphad.layers.values import constant, is_literal
from graphad.program import Variable, default_main_program
from graphad.program.source import at_users_line
from graphad.types import dtype_name

Axes = int | Sequence[int] | None


def _tensor(layer: str, x: object, like: Variable | None = None) -> Variable:
    """A Variable; a number or an array beside another tensor becomes a constant of its dtype."""
    if isinstance(x, Variable) or like is None or not is_literal(x):
        return checked_input(layer, x)
    return constant(default_main_program().current_block(), "number", x, like.tensor_type)


def _pair(layer: str, x: object, y: object) -> tuple[Variable, Variable]:
    like = next((item for item in (x, y) if isinstance(item, Variable)), None)
    return _tensor(layer, x, like), _tensor(layer, y, like)


def _named(result: Variable, name: str | None) -> Variable:
    """The result of a method, under a name if one is given."""
    return result if name is None else emitted("assign", [result], name)


# -- arithmetic ----------------------------------------------------------------------------------


@layer
def divide(x: Any, y: Any, name: str | None = None) -> Variable:
    """``x / y``, of integers as well: as numpy's ``true_divide``, the result is floating-point.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     half = ga.layers.divide(ga.layers.assign([1, 4]), 2)
    >>> ga.Executor().run(program, fetch_list=[half])[0].tolist()
    [0.5, 2.0]
    """
    if not isinstance(x, Variable):
        return _named(x / checked_input("divide", y), name)
    return _named(x / y, name)


@layer
def negative(x: Variable, name: str | None = None) -> Variable:
    """``-x``."""
    return emitted("scale", [checked_input("negative", x)], name, scale=-1.0)  # type: ignore[no-any-return]


neg = negative


@layer
def logaddexp(x: Any, y: Any, name: str | None = None) -> Variable:
    """``log(exp(x) + exp(y))`` without overflow."""
    a, b = _pair("logaddexp", x, y)
    # m + log(exp(a - m) + exp(b - m)) is the same for every m, so m is a constant to derivatives.
    shift: Variable = emitted("elementwise_max", [a, b])
    # Of infinities the difference would be nan: there nothing is taken out.
    shift = emitted("where", [emitted("isfinite_v2", [shift]), shift, emitted("fill_zeros_like", [shift])])
    shift.stop_gradient = True
    return emitted("elementwise_add", [((a - shift).exp() + (b - shift).exp()).log(), shift], name)  # type: ignore[no-any-return]


@layer
def deg2rad(x: Variable, name: str | None = None) -> Variable:
    """Degrees as radians."""
    return emitted("scale", [checked_input("deg2rad", x)], name, scale=math.pi / 180)  # type: ignore[no-any-return]


@layer
def rad2deg(x: Variable, name: str | None = None) -> Variable:
    """Radians as degrees."""
    return emitted("scale", [checked_input("rad2deg", x)], name, scale=180 / math.pi)  # type: ignore[no-any-return]


@layer
def logit(x: Variable, eps: float | None = None, name: str | None = None) -> Variable:
    """``log(x / (1 - x))``, of x between ``eps`` and ``1 - eps`` where that is given."""
    inside = checked_input("logit", x) if eps is None else checked_input("logit", x).clip(eps, 1 - eps)
    return emitted("log", [inside / (1.0 - inside)], name)  # type: ignore[no-any-return]


@layer
def nan_to_num(
    x: Variable, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None, name: str | None = None
) -> Variable:
    """The elements, with numbers in place of nan and of both infinities (the largest and the smallest of the dtype)."""
    tensor = checked_input("nan_to_num", x)
    limits = np.finfo(tensor.dtype)
    result = _chosen(emitted("isnan_v2", [tensor]), float(nan), tensor)
    infinite: Variable = emitted("isinf_v2", [tensor])
    result = _chosen(infinite & (tensor > 0.0), float(limits.max) if posinf is None else float(posinf), result)
    result = _chosen(infinite & (tensor < 0.0), float(limits.min) if neginf is None else float(neginf), result)
    return _named(result, name)


def _chosen(condition: Variable, number: float, other: Variable) -> Variable:
    """A number where the condition holds, else the elements of a tensor."""
    numbers: Variable = emitted("fill_any_like", [other], value=number)
    numbers.stop_gradient = True
    return emitted("where", [condition, numbers, other])  # type: ignore[no-any-return]


@layer
def masked_fill(x: Variable, mask: Variable, value: float, name: str | None = None) -> Variable:
    """A number where ``mask`` (of booleans, broadcast to the shape of x) holds, else the elements of x."""
    tensor, mask_tensor = checked_input("masked_fill", x), checked_input("masked_fill", mask)
    if mask_tensor.shape != tensor.shape:
        # Broadcast, since ``where`` takes one shape.
        mask_tensor = mask_tensor & emitted("fill_any_like", [tensor], value=1.0).astype("bool")
    result = _chosen(mask_tensor, float(value), tensor)
    return _named(result, name)


# -- products ------------------------------------------------------------------------------------


@layer
def outer(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The product of each element of x with each of y: ``[x.size, y.size]``."""
    column = emitted("reshape", [checked_input("outer", x)], shape=[-1, 1])
    row = emitted("reshape", [checked_input("outer", y)], shape=[1, -1])
    return emitted("elementwise_mul", [column, row], name)  # type: ignore[no-any-return]


@layer
def inner(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The sums of products along the last axis of both: the shape is that of x and of y without it."""
    a, b = checked_input("inner", x), checked_input("inner", y)
    return tensordot(a, b, ([a.ndim - 1], [b.ndim - 1]), name)


@layer
def tensordot(x: Variable, y: Variable, axes: Any = 2, name: str | None = None) -> Variable:
    """Sums of products over axes of both tensors.

    Args:
        x, y: tensors.
        axes: how many last axes of x and first ones of y, or a list of the axes of each.

    Raises:
        ValueError: not as many axes of x as of y, or an axis that is not there.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x = ga.layers.assign([[1.0, 2.0], [3.0, 4.0]])
    ...     both = ga.layers.tensordot(x, x, axes=[[0], [0]])
    >>> ga.Executor().run(program, fetch_list=[both])[0].tolist()
    [[10.0, 14.0], [14.0, 20.0]]
    """
    a, b = checked_input("tensordot", x), checked_input("tensordot", y)
    with at_users_line("layers.tensordot"):
        axes_x, axes_y = _summed_axes(axes, a.ndim, b.ndim)
    letters = "abcdefghijklmnopqrstuvwxyz"
    first = list(letters[: a.ndim])
    second = list(letters[a.ndim : a.ndim + b.ndim])
    for axis, partner in zip(axes_x, axes_y, strict=True):
        second[partner] = first[axis]
    axes_left = [word for i, word in enumerate(first) if i not in axes_x] + [word for i, word in enumerate(second) if i not in axes_y]
    equation = f"{''.join(first)},{''.join(second)}->{''.join(axes_left)}"
    return emitted("einsum", [[a, b]], name, equation=equation)  # type: ignore[no-any-return]


def _summed_axes(axes: Any, first: int, second: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        # A number means the last axes of the first tensor and the first ones of the second, as in numpy.tensordot.
        axes_x, axes_y = list(range(first - axes, first)), list(range(axes))
    else:
        pair = [[item] if isinstance(item, int) else list(item) for item in axes]
        axes_x, axes_y = (pair[0], pair[0]) if len(pair) == 1 else (pair[0], pair[1])
    if len(axes_x) != len(axes_y) or any(not -first <= i < first for i in axes_x) or any(not -second <= i < second for i in axes_y):
        raise InvalidValue(f"axes={axes!r} does not name as many axes of a tensor of {first} as of one of {second}")
    return [i % first for i in axes_x], [i % second for i in axes_y]


# -- statistics ----------------------------------------------------------------------------------


@layer
def var(x: Variable, axis: Axes = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> Variable:
    """The variance along axes, of all elements by default: the sum of squared differences from the mean over ``n - 1``.

    numpy's divides by n; so does this with ``unbiased=False``, and the method ``x.var()``.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x = ga.layers.assign([1.0, 2.0, 3.0])
    ...     both = [ga.layers.var(x), ga.layers.var(x, unbiased=False)]
    >>> [round(float(each), 4) for each in ga.Executor().run(program, fetch_list=both)]
    [1.0, 0.6667]
    """
    tensor = checked_input("var", x)
    off = tensor - tensor.mean(axis, keepdim=True)
    total = (off * off).sum(axis, keepdim=checked_flag("layers.var: keepdim", keepdim))
    ones: Variable = emitted("fill_any_like", [tensor], value=1.0)
    ones.stop_gradient = True
    # Counted when the program runs: extents may be unknown. n - 1 makes it unbiased (Bessel's correction).
    count = ones.sum(axis, keepdim=keepdim) - (1.0 if checked_flag("layers.var: unbiased", unbiased) else 0.0)
    return emitted("elementwise_div", [total, count], name)  # type: ignore[no-any-return]


@layer
def std(x: Variable, axis: Axes = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> Variable:
    """The root of ``var``, with the same parameters."""
    return emitted("sqrt", [var(x, axis, unbiased, keepdim)], name)  # type: ignore[no-any-return]


@layer
def sum(
    x: Variable | Sequence[Variable], axis: Axes = None, dtype: object = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The sum of several tensors, as in Fluid; with ``axis`` or ``keepdim`` that of a tensor along axes, as in Paddle 2.

    ``x.sum()`` and ``reduce_sum(x)`` add up all elements of one.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x = ga.layers.assign([[1.0, 2.0], [3.0, 4.0]])
    ...     sums = [ga.layers.sum([x, x]), ga.layers.sum(x, axis=0)]
    >>> [each.tolist() for each in ga.Executor().run(program, fetch_list=sums)]
    [[[2.0, 4.0], [6.0, 8.0]], [4.0, 6.0]]
    """
    if axis is None and not checked_flag("layers.sum: keepdim", keepdim):
        items = list(x) if isinstance(x, list | tuple) else [x]
        total: Variable = emitted("sum", [[checked_input("sum", item) for item in items]], name)
    else:
        total = _named(checked_input("sum", x).sum(axis, keepdim), name)
    return total if dtype is None else total.astype(dtype)


def _place_of(kind: str, x: Variable, axis: int | None, keepdims: bool, dtype: object, name: str | None) -> Variable:
    along = -1 if axis is None else checked_int(f"layers.arg{kind}: axis", axis)
    keep = checked_flag(f"layers.arg{kind}: keepdims", keepdims)
    tensor = checked_input(f"arg{kind}", x)
    return emitted(f"arg_{kind}", [tensor], name, axis=along, flatten=axis is None, keepdims=keep, dtype=dtype_name(dtype))  # type: ignore[no-any-return]


@layer
def argmax(
    x: Variable, axis: int | None = 0, keepdims: bool = False, dtype: object = "int64", name: str | None = None, *, flatten: bool = False
) -> Variable:
    """The index of the largest element along an axis, the first one unless told otherwise; among all elements if it is None, as in
    numpy."""
    return _place_of("max", x, None if flatten else axis, keepdims, dtype, name)


@layer
def argmin(
    x: Variable, axis: int | None = 0, keepdims: bool = False, dtype: object = "int64", name: str | None = None, *, flatten: bool = False
) -> Variable:
    """The index of the smallest element along an axis, the first one unless told otherwise; among all elements if it is None, as in
    numpy."""
    return _place_of("min", x, None if flatten else axis, keepdims, dtype, name)


@layer
def median(x: Variable, axis: int | None = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The element in the middle when sorted, or the mean of the two there, along an axis or of all elements.

    Raises:
        ShapeError: the extent of the axis is unknown.
    """
    tensor = checked_input("median", x)
    is_whole = axis is None
    values = tensor.flatten() if is_whole else tensor
    at = (0 if axis is None else checked_int("layers.median: axis", axis)) % values.ndim
    extent = values.shape[at]
    if extent < 1:
        raise ShapeError(f"layers.median takes an axis of a known extent, not axis {at} of {values!r}")
    sorted_values = values.sort(at)
    # One element for an odd extent, the two around the middle for an even one: the mean of the slice is right for both.
    middle = emitted("slice", [sorted_values], axes=[at], starts=[(extent - 1) // 2], ends=[extent // 2 + 1])
    result = middle.mean(at, keepdim=keepdim and not is_whole)
    if is_whole and keepdim:
        result = result.reshape([1] * tensor.ndim)
    return _named(result, name)


@layer
def count_nonzero(x: Variable, axis: Axes = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """How many elements are not 0, along axes; int64."""
    counts = (checked_input("count_nonzero", x) != 0).astype("int64").sum(axis, keepdim=keepdim)
    return _named(counts, name)


@layer
def sort(x: Variable, axis: int = -1, descending: bool = False, name: str | None = None) -> Variable:
    """The elements in order along an axis."""
    axis, is_descending = checked_int("layers.sort: axis", axis), checked_flag("layers.sort: descending", descending)
    return emitted("argsort", [checked_input("sort", x)], name, axis=axis, descending=is_descending)[0]  # type: ignore[no-any-return]


# -- shapes --------------------------------------------------------------------------------------


@layer
def moveaxis(x: Variable, source: int | Sequence[int], destination: int | Sequence[int], name: str | None = None) -> Variable:
    """Axes moved to other places; the others keep their order."""
    tensor = checked_input("moveaxis", x)
    with at_users_line("layers.moveaxis"):
        sources = [source] if isinstance(source, int) else list(source)
        places = [destination] if isinstance(destination, int) else list(destination)
        if len(sources) != len(places) or any(not -tensor.ndim <= i < tensor.ndim for i in (*sources, *places)):
            raise InvalidValue(f"source={source!r} and destination={destination!r} do not name axes of a tensor of {tensor.ndim}")
    order = [i for i in range(tensor.ndim) if i not in {number % tensor.ndim for number in sources}]
    # Inserted from the first place to the last: each insertion leaves the places before it as they are.
    for place, axis in sorted((place % tensor.ndim, axis % tensor.ndim) for place, axis in zip(places, sources, strict=True)):
        order.insert(place, axis)
    return emitted("transpose", [tensor], name, axis=order)  # type: ignore[no-any-return]


@layer
def swapaxes(x: Variable, axis0: int, axis1: int, name: str | None = None) -> Variable:
    """Two axes exchanged."""
    result = checked_input("swapaxes", x).swapaxes(axis0, axis1)
    return _named(result, name)


@layer
def broadcast_to(x: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """The elements repeated along axes of extent 1 and new first axes; -1 keeps an extent."""
    return emitted("expand_v2", [checked_input("broadcast_to", x)], name, shape=[int(number) for number in shape])  # type: ignore[no-any-return]


@layer
def expand_dims(x: Variable, axis: int | Sequence[int], name: str | None = None) -> Variable:
    """New axes of extent 1, as ``unsqueeze``."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    return emitted("unsqueeze", [checked_input("expand_dims", x)], name, axes=axes)  # type: ignore[no-any-return]


@layer
def chunk(x: Variable, chunks: int, axis: int = 0, name: str | None = None) -> list[Variable]:
    """A tensor cut into equal parts along an axis."""
    return split(checked_input("chunk", x), checked_int("layers.chunk: chunks", chunks, 1), axis=axis, name=name)


@layer
def diff(
    x: Variable, n: int = 1, axis: int = -1, prepend: Variable | None = None, append: Variable | None = None, name: str | None = None
) -> Variable:
    """Each element less the one before it along an axis, n times; ``prepend`` and ``append`` are put before and after x first."""
    tensor = checked_input("diff", x)
    at = checked_int("layers.diff: axis", axis) % tensor.ndim
    ends = [item for item in (prepend, tensor, append) if item is not None]
    tensor = emitted("concat", [ends], axis=at) if len(ends) > 1 else tensor
    before, after = (slice(None),) * at + (slice(None, -1),), (slice(None),) * at + (slice(1, None),)
    for _ in range(checked_int("layers.diff: n", n, 1)):
        tensor = tensor[after] - tensor[before]
    return _named(tensor, name)


@layer
def repeat_interleave(x: Variable, repeats: int, axis: int | None = None, name: str | None = None) -> Variable:
    """Each element ``repeats`` times in a row along an axis, or those of ``x.flatten()``; numpy's ``repeat``."""
    result = checked_input("repeat_interleave", x).repeat(repeats, axis=axis)
    return _named(result, name)


@layer
def meshgrid(input: Any, name: Any = None, *inputs: Any) -> list[Variable]:
    """Tensors of one axis, each repeated along the axes of the others: rows follow the first, as numpy's ``indexing="ij"``.

    Args:
        input: a list of the tensors; or the first of them.
        name: a prefix of the names of the results; or, as numpy has it, the second tensor.
        inputs: further tensors.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x, y = ga.layers.assign([1.0, 2.0]), ga.layers.assign([3.0, 4.0, 5.0])
    ...     down, across = ga.layers.meshgrid([x, y])
    >>> [each.tolist() for each in ga.Executor().run(program, fetch_list=[down, across])]
    [[[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], [[3.0, 4.0, 5.0], [3.0, 4.0, 5.0]]]
    """
    tensors = list(input) if isinstance(input, list | tuple) else [input]
    # A text is a name, and nothing else is one.
    if name is not None and not isinstance(name, str):
        tensors, name = [*tensors, name], None
    return emitted("meshgrid", [[checked_input("meshgrid", item) for item in (*tensors, *inputs)]], name)  # type: ignore[no-any-return]


@layer
def norm(
    x: Variable,
    axis: Any = None,
    epsilon: float = 1e-10,
    is_test: bool = False,
    name: str | None = None,
    *,
    p: float | str | None = None,
    keepdim: bool = False,
) -> Variable:
    """With ``p`` or without an axis, how long vectors are; with an axis alone, the operator ``norm``, which divides by that length.

    Args:
        x: a tensor.
        axis: an axis; with ``p="fro"`` also two; None is all elements.
        epsilon, is_test: of the operator, which divides.
        p: the power of which the absolute values are summed (``inf``: the largest of them), or "fro", which is 2.
        keepdim: the axis stays, with extent 1.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x = ga.layers.assign([[3.0, 4.0]])
    ...     lengths = [ga.layers.norm(x), ga.layers.norm(x, p=1, axis=1), ga.layers.norm(x, axis=1)]
    >>> [each.tolist() for each in ga.Executor().run(program, fetch_list=lengths)]
    [5.0, [7.0], [[0.6000000238418579, 0.800000011920929]]]
    """
    tensor = checked_input("norm", x)
    if p is None and axis is not None:
        return emitted("norm", [tensor], name, axis=checked_int("layers.norm: axis", axis), epsilon=epsilon, is_test=is_test)  # type: ignore[no-any-return]
    keeps_axes = checked_flag("layers.norm: keepdim", keepdim)
    if p is None or p == "fro":
        axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
        return emitted("frobenius_norm", [tensor], name, dim=axes, keep_dim=keeps_axes, reduce_all=axis is None)  # type: ignore[no-any-return]
    with at_users_line("layers.norm"):
        if isinstance(p, str):
            raise InvalidValue(f"p is a number or 'fro', not {p!r}")
    along = -1 if axis is None else checked_int("layers.norm: axis", axis)
    return emitted("p_norm", [tensor], name, porder=float(p), axis=along, keepdim=keeps_axes, asvector=axis is None)  # type: ignore[no-any-return]
