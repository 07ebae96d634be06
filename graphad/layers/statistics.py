"""Statistics under Paddle 2's names, which are numpy's: quantiles, covariances, counts in bins; and ``rot90``.

What the operators ``histogram`` and ``bincount`` are is in ``graphad.ops.sort``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.helper import checked_input, emitted, layer
from graphad.layers.numpy_names import moveaxis
from graphad.layers.tensor import assign
from graphad.program import Variable
from graphad.program.source import at_users_line

Axes = int | Sequence[int] | None
_BETWEEN = ("linear", "lower", "higher", "midpoint", "nearest")


def _named(result: Variable, name: str | None) -> Variable:
    return result if name is None else emitted("assign", [result], name)


# -- order ---------------------------------------------------------------------------------------


@layer
def quantile(
    x: Variable,
    q: float | Sequence[float],
    axis: Axes = None,
    keepdim: bool = False,
    interpolation: str = "linear",
    name: str | None = None,
) -> Variable:
    """The quantiles of ``q`` along axes, at the place ``q * (n - 1)`` among n sorted elements.

    Args:
        x: a tensor; integers count as float32.
        q: from 0 to 1, or a list of such; a list is the first axis of the result.
        axis: the axes to reduce, of known extents; all of them if None.
        keepdim: whether reduced axes stay, with the extent 1.
        interpolation: what is between two elements: "linear", "lower", "higher", "midpoint" or "nearest".

    Raises:
        ValueError: ``q`` is not between 0 and 1, the interpolation is not one of those, or an extent is unknown.
        TypeError: ``q`` is a Variable, or no number.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     quartiles = ga.layers.quantile(ga.layers.assign([4.0, 1.0, 3.0, 2.0]), [0.25, 0.5])
    >>> ga.Executor().run(program, fetch_list=[quartiles])[0].tolist()
    [1.75, 2.5]
    """
    tensor = checked_input("quantile", x)._floating()
    with at_users_line("layers.quantile"):
        shares = _shares(q)
        if interpolation not in _BETWEEN:
            raise InvalidValue(f"interpolation is {', '.join(map(repr, _BETWEEN))}, not {interpolation!r}")
        axes = sorted(_axes("layers.quantile: axis", axis, tensor.ndim))
        extents = [tensor.shape[at] for at in axes]
        if min(extents, default=1) < 1:
            raise ShapeError(f"the elements along axis={axis} of {tensor!r} are counted: their extents are known, and no 0")
    rest = [at for at in range(tensor.ndim) if at not in axes]
    # The reduced axes last and as one, so that they can be sorted together.
    rows = tensor.transpose(*rest, *axes).flatten(len(rest), -1) if axes else tensor.unsqueeze(tensor.ndim)
    count = int(np.prod(extents)) if extents else 1
    low, high, weights = _places(shares, count, interpolation)
    sorted_rows = rows.sort(-1)
    before, after = sorted_rows.take(low, -1), sorted_rows.take(high, -1)
    # Exact at elements: nothing is interpolated where all weights are 0, which keeps infinities.
    values = before if not weights.any() else before + (after - before) * assign(weights.astype(tensor.dtype))
    values = moveaxis(values, -1, 0) if np.ndim(q) else values.squeeze(-1)
    if keepdim and axes:
        values = values.unsqueeze([at + np.ndim(q) for at in axes])
    return _named(values, name)


def _shares(q: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The shares as a vector; TypeError for what is no number, ValueError for one that is not between 0 and 1."""
    if isinstance(q, Variable):
        raise InvalidType(f"q is a number or a list of numbers, which the program is built with, not {q!r}")
    numbers = [checked_float("q", item) for item in (q if isinstance(q, list | tuple | np.ndarray) else [q])]
    if not numbers or not all(0 <= number <= 1 for number in numbers):
        raise InvalidValue(f"q is between 0 and 1, not {q!r}")
    return np.array(numbers)


def _places(shares: np.ndarray, count: int, interpolation: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each share the elements before and after its place, and the weight of the second."""
    place = shares * (count - 1)
    low, high = np.floor(place).astype("int64"), np.ceil(place).astype("int64")
    if interpolation == "nearest":  # halves to the even place, as numpy has it
        low = high = np.rint(place).astype("int64")
    weight = {"linear": place - low, "lower": 0.0, "higher": 1.0, "midpoint": 0.5, "nearest": 0.0}[interpolation]
    return low, high, np.where(low == high, 0.0, weight)


def _axes(what: str, axis: object, rank: int) -> set[int]:
    """Axes from the front, without repetition; all of them if None."""
    items = range(rank) if axis is None else [checked_int(what, item) for item in (axis if isinstance(axis, list | tuple) else [axis])]
    for item in items:
        if not -rank <= item < rank:
            raise ShapeError(f"{what}={axis!r} is out of range for a tensor of {rank} axes")
    axes = {item % rank for item in items}
    if len(axes) != len(items):
        raise ShapeError(f"{what}={axis!r} names an axis twice")
    return axes


# -- covariance ----------------------------------------------------------------------------------


@layer
def cov(
    x: Variable,
    rowvar: bool = True,
    ddof: bool = True,
    fweights: Variable | None = None,
    aweights: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The covariances of variables.

    Args:
        x: ``[variables, observations]``, transposed if not ``rowvar``; or the observations of one variable.
        ddof: whether the sums are divided by one less than the number of observations.
        fweights: how often each observation counts, a vector of whole numbers.
        aweights: the weight of each observation, a vector.

    Returns:
        ``[variables, variables]``; one number for one variable.

    Raises:
        ShapeError: ``x`` has more than two axes, or weights are no vector.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     matrix = ga.layers.cov(ga.layers.assign([[1.0, 2.0, 3.0], [1.0, 0.0, 2.0]]))
    >>> ga.Executor().run(program, fetch_list=[matrix])[0].tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    tensor = checked_input("cov", x)._floating()
    with at_users_line("layers.cov"):
        checked_flag("rowvar", rowvar)
        checked_flag("ddof", ddof)
        if tensor.ndim not in (1, 2):
            raise ShapeError(f"x is a matrix or a vector, not {tensor!r}")
        factors = [checked_input("cov", vector).astype(tensor.dtype) for vector in (fweights, aweights) if vector is not None]
        for weights in factors:
            if weights.ndim != 1:
                raise ShapeError(f"fweights and aweights are vectors, not {weights!r}")
    is_single = tensor.ndim == 1
    rows = tensor.unsqueeze(0) if is_single else tensor if rowvar else tensor.T
    weight = factors[0] * factors[1] if len(factors) == 2 else factors[0] if factors else emitted("fill_any_like", [rows[0]], value=1.0)
    total = weight.sum()
    mean = (rows * weight).sum(1, keepdims=True) / total
    deviations = rows - mean
    # numpy's correction: what one observation counts, which with ``aweights`` is the mean of the weights, weighted by themselves.
    correction = 1.0 if aweights is None else (weight * factors[-1]).sum() / total
    matrix = (deviations * weight) @ deviations.T / (total - correction if ddof else total)
    return _named(matrix.reshape([]) if is_single else matrix, name)


@layer
def corrcoef(x: Variable, rowvar: bool = True, name: str | None = None) -> Variable:
    """The correlations of variables: their covariances over the deviations of both, from -1 to 1.

    Args:
        x: ``[variables, observations]``, transposed if not ``rowvar``; or the observations of one variable.

    Raises:
        ShapeError: ``x`` has more than two axes.
    """
    with at_users_line("layers.corrcoef"):
        if checked_input("corrcoef", x).ndim not in (1, 2):
            raise ShapeError(f"x is a matrix or a vector, not {x!r}")
    matrix = cov(x, rowvar)
    if not matrix.ndim:
        # A variable correlates with itself by 1; one that is constant by nan, as in numpy.
        return _named(matrix / matrix, name)
    deviation = matrix.diagonal().sqrt()
    # Rounding may bring a correlation beyond 1.
    return _named((matrix / deviation.unsqueeze(1) / deviation).clip(-1.0, 1.0), name)


# -- axes ----------------------------------------------------------------------------------------


@layer
def rot90(x: Variable, k: int = 1, axes: Sequence[int] = (0, 1), name: str | None = None) -> Variable:
    """The plane of two axes turned by ``k`` times 90 degrees, from the first axis towards the second.

    Raises:
        ShapeError: there are not two different axes.
    """
    tensor = checked_input("rot90", x)
    with at_users_line("layers.rot90"):
        turns = checked_int("k", k) % 4
        if not isinstance(axes, list | tuple) or len(axes) != 2:
            raise ShapeError(f"axes are two, not {axes!r}")
        _axes("axes", list(axes), tensor.ndim)
    first, second = (axis % tensor.ndim for axis in axes)
    if turns == 2:
        return emitted("flip", [tensor], name, axis=[first, second])  # type: ignore[no-any-return]
    if not turns:
        return emitted("assign", [tensor], name)  # type: ignore[no-any-return]
    order = list(range(tensor.ndim))
    order[first], order[second] = second, first
    # A quarter turn is a transpose and a flip; which comes first decides the direction.
    if turns == 1:
        return emitted("transpose", [emitted("flip", [tensor], axis=[second])], name, axis=order)  # type: ignore[no-any-return]
    return emitted("flip", [emitted("transpose", [tensor], axis=order)], name, axis=[second])  # type: ignore[no-any-return]
