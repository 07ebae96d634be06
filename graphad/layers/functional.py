"""Functions of Paddle 2's ``nn.functional`` and tensors that Fluid has under no name of the same meaning, with Paddle 2's signatures.

Those that are one operator each are in ``numpy_signatures``; where Fluid has the same name, Fluid's meaning holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_float, checked_int
from graphad.layers.helper import checked_input, emitted, layer
from graphad.layers.images import Window, pool2d
from graphad.program import Variable
from graphad.program.source import at_users_line

Axes = int | Sequence[int] | None
_REDUCTIONS = ("mean", "sum", "none")


def named(result: Variable, name: str | None) -> Variable:
    """The result of methods under a name, if one is given."""
    return result if name is None else emitted("assign", [result], name)


def reduced(what: str, loss: Variable, reduction: str, name: str | None = None) -> Variable:
    """The mean or the sum of losses, or the losses."""
    with at_users_line(f"layers.{what}"):
        if reduction not in _REDUCTIONS:
            raise InvalidValue(f"reduction is {' or '.join(map(repr, _REDUCTIONS))}, not {reduction!r}")
    return named(loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum(), name)


def _weighted(loss: Variable, weight: Variable | None) -> Variable:
    return loss if weight is None else loss * weight


# -- activations and layers ----------------------------------------------------------------------


@layer
def hardtanh(x: Variable, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Variable:
    """The elements, at least ``min`` and at most ``max``."""
    low, high = checked_float("layers.hardtanh: min", min), checked_float("layers.hardtanh: max", max)
    return emitted("brelu", [checked_input("hardtanh", x)], name, t_min=low, t_max=high)  # type: ignore[no-any-return]


@layer
def hardsigmoid(x: Variable, slope: float = 1 / 6, offset: float = 0.5, name: str | None = None) -> Variable:
    """``slope * x + offset`` between 0 and 1: Fluid's ``hard_sigmoid`` with Paddle 2's slope."""
    slope, offset = checked_float("layers.hardsigmoid: slope", slope), checked_float("layers.hardsigmoid: offset", offset)
    return emitted("hard_sigmoid", [checked_input("hardsigmoid", x)], name, slope=slope, offset=offset)  # type: ignore[no-any-return]


@layer
def glu(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """The first half along an axis, times the sigmoid of the second (Dauphin et al., 2017).

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     gated = ga.layers.glu(ga.layers.assign([[2.0, 0.0]]))
    >>> ga.Executor().run(program, fetch_list=[gated])[0].tolist()
    [[1.0]]
    """
    first, second = checked_input("glu", x).split(2, checked_int("layers.glu: axis", axis))
    return named(first * second.sigmoid(), name)


@layer
def linear(x: Variable, weight: Variable, bias: Variable | None = None, name: str | None = None) -> Variable:
    """``x @ weight + bias`` with parameters that exist; ``layers.fc`` makes its own."""
    product = checked_input("linear", x) @ checked_input("linear", weight)
    return named(product if bias is None else product + bias, name)


@layer
def normalize(x: Variable, p: float = 2, axis: int = 1, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """The vectors along an axis over their length, or over ``epsilon`` where that is more."""
    tensor = checked_input("normalize", x)
    lengths = tensor.norm(checked_float("layers.normalize: p", p), checked_int("layers.normalize: axis", axis), keepdim=True)
    return named(tensor / lengths.maximum(epsilon), name)


@layer
def cosine_similarity(x1: Variable, x2: Variable, axis: int = 1, eps: float = 1e-8) -> Variable:
    """The cosines of the angles between vectors along an axis; lengths count as ``eps`` where they are less."""
    first, second = checked_input("cosine_similarity", x1), checked_input("cosine_similarity", x2)
    along = checked_int("layers.cosine_similarity: axis", axis)
    lengths = first.norm(2, along) * second.norm(2, along)
    return (first * second).sum(along) / lengths.maximum(checked_float("layers.cosine_similarity: eps", eps))


def _pooled(
    what: str, kind: str, x: Variable, size: Window, stride: Window | None, padding: object, ceil_mode: bool, layout: str
) -> Variable:
    return pool2d(checked_input(what, x), size, kind, size if stride is None else stride, padding, ceil_mode=ceil_mode, data_format=layout)


@layer
def max_pool2d(
    x: Variable,
    kernel_size: Window,
    stride: Window | None = None,
    padding: object = 0,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The largest elements of windows: ``pool2d`` whose stride is the size of the window unless told otherwise."""
    return named(_pooled("max_pool2d", "max", x, kernel_size, stride, padding, ceil_mode, data_format), name)


@layer
def avg_pool2d(
    x: Variable,
    kernel_size: Window,
    stride: Window | None = None,
    padding: object = 0,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The means of windows, without padding: ``pool2d`` whose stride is the size of the window unless told otherwise."""
    return named(_pooled("avg_pool2d", "avg", x, kernel_size, stride, padding, ceil_mode, data_format), name)


# -- losses --------------------------------------------------------------------------------------


@layer
def l1_loss(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """The distance of each element from its label, and its mean or sum."""
    return reduced("l1_loss", (checked_input("l1_loss", input) - checked_input("l1_loss", label)).abs(), reduction, name)


@layer
def kl_div(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """``label * (log(label) - input)``, 0 where the label is 0, of ``input`` that are logarithms; Fluid's ``kldiv_loss``."""
    tensors = [checked_input("kl_div", input), checked_input("kl_div", label)]
    return emitted("kldiv_loss", tensors, name, reduction=reduction)  # type: ignore[no-any-return]


@layer
def binary_cross_entropy(
    input: Variable, label: Variable, weight: Variable | None = None, reduction: str = "mean", name: str | None = None
) -> Variable:
    """``-log`` of the probability that ``input`` gives to labels 0 and 1."""
    loss = emitted("bce_loss", [checked_input("binary_cross_entropy", input), checked_input("binary_cross_entropy", label)])
    return reduced("binary_cross_entropy", _weighted(loss, weight), reduction, name)


@layer
def binary_cross_entropy_with_logits(
    logit: Variable,
    label: Variable,
    weight: Variable | None = None,
    reduction: str = "mean",
    pos_weight: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """``-log`` of the probability that the sigmoid of ``logit`` gives to labels 0 and 1.

    Args:
        logit, label: tensors of one shape.
        weight: a factor on each loss.
        pos_weight: a factor on the part of labels that are 1.
        reduction: "mean", "sum" or "none".
    """
    layer_name = "binary_cross_entropy_with_logits"
    logit, label = checked_input(layer_name, logit), checked_input(layer_name, label)
    loss = emitted("sigmoid_cross_entropy_with_logits", [logit, label])
    if pos_weight is not None:
        # A factor of 1 for label 0 and of pos_weight for label 1.
        loss = loss * (label * (pos_weight - 1.0) + 1.0)
    return reduced(layer_name, _weighted(loss, weight), reduction, name)


# -- tensors -------------------------------------------------------------------------------------


@layer
def frac(x: Variable, name: str | None = None) -> Variable:
    """The fractional part ``x - trunc(x)`` of each element."""
    tensor = checked_input("frac", x)
    return named(tensor - emitted("trunc", [tensor]), name)


def _without_nan(what: str, x: Variable) -> tuple[Variable, Variable]:
    tensor = checked_input(what, x)
    is_nan = tensor.isnan()
    return emitted("where", [is_nan, emitted("fill_zeros_like", [tensor]), tensor]), ~is_nan


@layer
def nansum(x: Variable, axis: Axes = None, dtype: object = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The sum of the elements that are not nan, over all axes or those named; a boolean in the place of ``dtype`` is ``keepdim``."""
    flag = isinstance(dtype, bool)
    total = _without_nan("nansum", x)[0].sum(axis, bool(dtype) if flag else keepdim, dtype=None if flag else dtype)
    return named(total, name)


@layer
def nanmean(x: Variable, axis: Axes = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The mean of the elements that are not nan, over all axes or those named."""
    numbers, counts = _without_nan("nanmean", x)
    return named(numbers.sum(axis, keepdim) / counts.sum(axis, keepdim), name)


@layer
def searchsorted(
    sorted_sequence: Variable, values: Variable, out_int32: bool = False, right: bool = False, name: str | None = None
) -> Variable:
    """The insertion points of values in a sorted vector: how many of its elements are less (with ``right`` not more); every pair is
    compared.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     places = ga.layers.searchsorted(ga.layers.assign([1.0, 3.0, 5.0]), ga.layers.assign([3.0, 9.0]))
    >>> ga.Executor().run(program, fetch_list=[places])[0].tolist()
    [1, 3]

    Raises:
        ShapeError: the sequence is not one vector.
    """
    row, queries = checked_input("searchsorted", sorted_sequence), checked_input("searchsorted", values)
    with at_users_line("layers.searchsorted"):
        if row.ndim != 1:
            raise ShapeError(f"sorted_sequence is a vector, not {row!r}")
    # [..., 1] against [n]: in a sorted vector the number of lesser elements is the place.
    column = queries.unsqueeze(queries.ndim)
    counts = (row <= column if right else row < column).sum(-1)
    return named(counts.astype("int32") if out_int32 else counts, name)


@layer
def bucketize(x: Variable, sorted_sequence: Variable, out_int32: bool = False, right: bool = False, name: str | None = None) -> Variable:
    """``searchsorted`` with its tensors in the other order."""
    return searchsorted(sorted_sequence, x, out_int32, right, name)


@layer
def multi_dot(x: Sequence[Variable], name: str | None = None) -> Variable:
    """The product of several matrices, from the left."""
    with at_users_line("layers.multi_dot"):
        if not isinstance(x, list | tuple) or len(x) < 2:
            raise InvalidType(f"multi_dot takes a list of two matrices or more, not {x!r}")
    # Not in the cheapest order, which depends on extents that may be unknown.
    product = checked_input("multi_dot", x[0])
    for factor in x[1:]:
        product = product @ checked_input("multi_dot", factor)
    return named(product, name)
