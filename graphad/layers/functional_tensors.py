"""Functions of Paddle 2's tensors and ``nn.functional`` that are several operators, or one with other parameters, with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.functional import named
from graphad.layers.helper import checked_input, emitted, layer
from graphad.layers.images import Window, pool2d
from graphad.layers.nn import dropout
from graphad.layers.tensor import sums
from graphad.ops.tensor_literals import as_tensor
from graphad.program import Variable
from graphad.program.source import at_users_line


@layer
def add_n(inputs: Variable | Sequence[Variable], name: str | None = None) -> Variable:
    """The sum of tensors of one shape, as ``sums``; of one tensor that tensor.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     total = ga.layers.add_n([ga.layers.assign([1.0, 2.0]), ga.layers.assign([10.0, 20.0])])
    >>> ga.Executor().run(program, fetch_list=[total])[0].tolist()
    [11.0, 22.0]
    """
    return named(sums(list(inputs) if isinstance(inputs, list | tuple) else [checked_input("add_n", inputs)]), name)


# -- running extrema -----------------------------------------------------------------------------


def _running(what: str, x: Variable, axis: int | None, dtype: str, name: str | None) -> tuple[Variable, Variable]:
    tensor = checked_input(what, x)
    # Paddle 2 runs over all elements in a row where no axis is given.
    if axis is None:
        tensor, axis = tensor.reshape(-1), 0
    out, indices = emitted(what, [tensor], name, axis=checked_int(f"layers.{what}: axis", axis), dtype=dtype)
    indices.stop_gradient = True
    return out, indices


@layer
def cummax(x: Variable, axis: int | None = None, dtype: str = "int64", name: str | None = None) -> tuple[Variable, Variable]:
    """The largest element up to each along an axis, or over all elements in a row, and where it is.

    Args:
        x: a tensor.
        axis: None for all elements in a row.
        dtype: of the places: int64 or int32.

    Returns:
        The extrema and their places; of equal elements the last counts.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     most, places = ga.layers.cummax(ga.layers.assign([1.0, 3.0, 2.0, 3.0]))
    >>> [each.tolist() for each in ga.Executor().run(program, fetch_list=[most, places])]
    [[1.0, 3.0, 3.0, 3.0], [0, 1, 1, 3]]
    """
    return _running("cummax", x, axis, dtype, name)


@layer
def cummin(x: Variable, axis: int | None = None, dtype: str = "int64", name: str | None = None) -> tuple[Variable, Variable]:
    """The smallest element up to each along an axis, and where it is: as ``cummax``."""
    return _running("cummin", x, axis, dtype, name)


# -- parts ---------------------------------------------------------------------------------------


@layer
def put_along_axis(
    arr: Variable,
    indices: Variable,
    values: Variable | float,
    axis: int,
    reduce: str = "assign",
    include_self: bool = True,
    broadcast: bool = True,
    *,
    name: str | None = None,
) -> Variable:
    """A tensor with other elements at places along an axis.

    Args:
        arr: a tensor.
        indices: integers, of the rank of ``arr``: where each of the values goes along the axis.
        values: one for each index, or one for all, a number or what is broadcast to the shape of the indices.
        reduce: "assign", or "add", "multiply", "mean", "amin", "amax" of what is there and what comes.
        include_self: whether what is there counts in these.
        broadcast: whether values are broadcast.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     out = ga.layers.put_along_axis(ga.layers.assign([[1.0, 2.0]]), ga.layers.assign([[1]]), 9.0, axis=1)
    >>> ga.Executor().run(program, fetch_list=[out])[0].tolist()
    [[1.0, 9.0]]
    """
    tensor, places = checked_input("put_along_axis", arr), checked_input("put_along_axis", indices)
    given: Any = as_tensor(values, tensor)
    if checked_flag("broadcast", broadcast) and given.shape != places.shape:
        given = given.expand_as(places)
    attrs = {"Axis": axis, "Reduce": reduce, "Include_self": include_self}
    return emitted("put_along_axis", [tensor, places, given], name, **attrs)  # type: ignore[no-any-return]


@layer
def index_add(
    x: Variable, index: Variable, add_value: Any = None, axis: Any = None, value: Any = None, name: str | None = None
) -> Variable:
    """A tensor with slices added at places along an axis, each time that a place is named.

    Args:
        x: a tensor.
        index: the places, integers ``[count]``.
        add_value: the slices, of the shape of x except for ``count`` along the axis.
        axis: the axis of x; 0 if it is left out. Paddle 2's order, ``index_add(x, index, axis, value)``, works as well.
        value: Paddle 2's word for ``add_value``.

    Raises:
        TypeError: the slices are missing.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     out = ga.layers.index_add(ga.layers.assign([1.0, 1.0]), ga.layers.assign([1, 1]), 0, ga.layers.assign([2.0, 3.0]))
    >>> ga.Executor().run(program, fetch_list=[out])[0].tolist()
    [1.0, 6.0]
    """
    # An axis is a number and slices are a tensor, so that the two orders cannot be confused.
    if isinstance(axis, Variable):
        add_value, axis = axis, add_value
    elif value is not None and add_value is not None:
        axis = add_value
    slices = add_value if value is None else value
    if slices is None:
        raise InvalidType("layers.index_add: value is missing, the slices that are added")
    along = checked_int("layers.index_add: axis", 0 if axis is None else axis)
    return emitted("index_add", [checked_input("index_add", x), index, slices], name, axis=along)  # type: ignore[no-any-return]


@layer
def slice_scatter(
    x: Variable,
    value: Variable,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int],
    name: str | None = None,
) -> Variable:
    """A tensor with a slice replaced: ``value`` is written to ``x[starts:ends:strides]`` along each of the axes, and x stays as it is.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     out = ga.layers.slice_scatter(ga.layers.zeros([4]), ga.layers.assign([1.0, 2.0]), [0], [0], [4], [2])
    >>> ga.Executor().run(program, fetch_list=[out])[0].tolist()
    [1.0, 0.0, 2.0, 0.0]
    """
    parts = {"axes": axes, "starts": starts, "ends": ends, "steps": strides}
    attrs = {
        word: [checked_int(f"layers.slice_scatter: {word}", item) for item in (values if isinstance(values, list | tuple) else [values])]
        for word, values in parts.items()
    }
    inputs = [checked_input("slice_scatter", x), checked_input("slice_scatter", value)]
    return emitted("set_value", inputs, name, **attrs)  # type: ignore[no-any-return]


# -- distances, attention, pooling ---------------------------------------------------------------


@layer
def pairwise_distance(
    x: Variable, y: Variable, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False, name: str | None = None
) -> Variable:
    """The p-norm of the differences of vectors along the last axis; ``epsilon`` is added to each difference."""
    difference = checked_input("pairwise_distance", x) - checked_input("pairwise_distance", y)
    shifted = difference + checked_float("layers.pairwise_distance: epsilon", epsilon)
    return named(shifted.norm(p=p, axis=-1, keepdim=checked_flag("layers.pairwise_distance: keepdim", keepdim)), name)


@layer
def scaled_dot_product_attention(
    query: Variable,
    key: Variable,
    value: Variable,
    attn_mask: Variable | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    name: str | None = None,
) -> Variable:
    """``softmax(q k' / sqrt(width) + mask) v`` (A. Vaswani et al., 2017), head by head.

    Args:
        query, key, value: ``[batch, length, heads, width]``.
        attn_mask: what is added to the scores ``[batch, heads, length of query, length of key]``, or booleans: False forbids.
        dropout_p: the probability with which a weight becomes zero in training.
        is_causal: whether an element sees no later one; the last of the queries and the last of the keys are the same.
        training: whether weights are dropped.

    Returns:
        ``[batch, length of query, heads, width of value]``.

    Raises:
        ShapeError: the shapes do not fit.
        ValueError: weights are to be dropped from causal attention.
    """
    q, k, v = (checked_input("scaled_dot_product_attention", item) for item in (query, key, value))
    with at_users_line("layers.scaled_dot_product_attention"):
        share, causal = checked_float("dropout_p", dropout_p), checked_flag("is_causal", is_causal)
        is_dropped = checked_flag("training", training) and share > 0
        if is_dropped and causal:
            raise InvalidValue("dropout_p with is_causal is not supported: give the causal mask as attn_mask, which can be dropped from")
    mask = attn_mask
    if mask is not None and mask.dtype == "bool":
        # As the operator's own: far below any score, and finite, so that a row of which all is forbidden is not nan.
        mask = (1.0 - mask.astype(q.dtype)) * -1e30
    if not is_dropped:
        return emitted("flash_attn", [q, k, v, None, mask], name, causal=causal)  # type: ignore[no-any-return]
    q, k, v = (heads.transpose(0, 2, 1, 3) for heads in (q, k, v))
    if q.shape[3] < 1:
        raise ShapeError(f"layers.scaled_dot_product_attention: the width of query is not known, {query!r}")
    scores = q @ k.transpose(0, 1, 3, 2) * q.shape[3] ** -0.5
    weights = dropout((scores if mask is None else scores + mask).softmax(-1), p=share)
    return named((weights @ v).transpose(0, 2, 1, 3), name)


@layer
def lp_pool2d(
    x: Variable,
    norm_type: float,
    kernel_size: Window,
    stride: Window | None = None,
    padding: object = 0,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The p-th roots of the sums of p-th powers in windows: sums for p = 1, near the largest elements for large p.

    Args:
        x: images of numbers from 0 where ``norm_type`` is not even.
        norm_type: p, above 0; infinity takes the largest.
        kernel_size, stride, padding, ceil_mode, data_format: those of ``avg_pool2d``.
    """
    p = checked_float("layers.lp_pool2d: norm_type", norm_type)
    if not p > 0:
        raise InvalidValue(f"layers.lp_pool2d: norm_type is above 0, not {norm_type!r}")
    images = checked_input("lp_pool2d", x)
    options = (kernel_size, kernel_size if stride is None else stride, padding)
    if p == float("inf"):
        return named(pool2d(images, options[0], "max", *options[1:], ceil_mode=ceil_mode, data_format=data_format), name)
    height, width = kernel_size if isinstance(kernel_size, list | tuple) else (kernel_size, kernel_size)
    # A mean that counts padding, times the size of the window, is the sum.
    means = pool2d(images.pow(p), options[0], "avg", *options[1:], ceil_mode=ceil_mode, exclusive=False, data_format=data_format)
    return named((means * float(height * width)).pow(1.0 / p), name)
