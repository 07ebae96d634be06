"""Tensors made of nothing but numbers: constants, ranges, random numbers.

No Variable among the arguments says where they belong: they are recorded in the current block of the default main program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue
from graphad.layers.checks import checked_flag
from graphad.layers.fluid import checked_target
from graphad.layers.helper import LayerHelper, layer
from graphad.layers.values import constant, is_literal, stopped_unless_float, write_literal
from graphad.program import Variable
from graphad.program.source import at_users_line
from graphad.types import TensorType, checked_shape, dtype_name

_EXACT = 1 << 53  # up to here every whole number is a float


# -- constants -----------------------------------------------------------------------------------


@layer
def fill_constant(shape: Sequence[int], dtype: Any, value: Any, force_cpu: Any = False, out: Variable | None = None) -> Variable:
    """A tensor of one value.

    Gradients reach it if it is floating-point, so what it is overwritten with in a loop is trained.

    Args:
        shape: its extents; none is unknown.
        dtype: its dtype, by name, as a numpy dtype or as Fluid's number.
        value: a number.
        force_cpu: a hint without effect; a Variable in its place is taken as ``out``.
        out: a Variable to overwrite; a new one if None.

    Raises:
        TypeError: ``value`` is no number, ``shape`` no list of ints, ``dtype`` no dtype, ``out`` no Variable.
        ValueError: an extent is not known, or ``dtype`` cannot hold the value.
        ShapeError: ``out`` has another shape or dtype.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.fill_constant([2], "int64", 7)
    ...     y = ga.layers.fill_constant(value=0.5, shape=[1], dtype="float32")
    >>> ga.Executor().run(program, fetch_list=[x, y])
    [array([7, 7]), array([0.5], dtype=float32)]
    """
    if isinstance(force_cpu, Variable) and out is None:
        force_cpu, out = False, force_cpu
    helper = LayerHelper("fill_constant")
    block = helper.main.current_block()
    with at_users_line("layers.fill_constant"):
        checked_flag("force_cpu", force_cpu)
        found = TensorType(_known_shape(shape), dtype_name(dtype))
        if not is_literal(value) or np.ndim(value):
            raise InvalidType(f"value is a number, not {value!r}")
        target = None if out is None else checked_target("out", out, block)
        name = helper.main.names.generate(f"{helper.name}.tmp") if target is None else target.name
        exact = not isinstance(value, int | np.integer) or abs(int(value)) <= _EXACT
        write_literal(block, name, value if exact else _repeated(value, found), found)
    return stopped_unless_float(block.var(name)) if target is None else target


def _repeated(value: Any, type: TensorType) -> Any:
    try:
        return np.full(type.shape, value, type.dtype)
    except OverflowError:
        raise InvalidValue(f"{value!r} does not fit into {type.dtype}") from None


def _known_shape(shape: Any) -> tuple[int, ...]:
    extents = checked_shape(shape)
    if -1 in extents:
        raise InvalidValue(f"the shape {list(extents)} has an unknown extent; the extents of a constant are known")
    return extents


@layer
def zeros(shape: Sequence[int], dtype: Any = "float32", force_cpu: bool = False) -> Variable:
    """A tensor of zeros; errors as ``fill_constant``."""
    return fill_constant(shape, dtype, 0, force_cpu)


@layer
def ones(shape: Sequence[int], dtype: Any = "float32", force_cpu: bool = False) -> Variable:
    """A tensor of ones; errors as ``fill_constant``."""
    return fill_constant(shape, dtype, 1, force_cpu)


@layer
def eye(num_rows: int, num_columns: int | None = None, batch_shape: Any = None, dtype: Any = "float32") -> Variable:
    """A matrix with ones on its diagonal and zeros elsewhere, square unless ``num_columns`` is given.

    Args:
        batch_shape: extents before those of the matrix, which is repeated; a dtype in its place is taken as one, as in Paddle 2.
    """
    with at_users_line("layers.eye"):
        if batch_shape is not None and not isinstance(batch_shape, list | tuple):
            batch_shape, dtype = None, batch_shape
        attrs = {"num_rows": num_rows, "num_columns": -1 if num_columns is None else num_columns, "dtype": dtype_name(dtype)}
    helper = LayerHelper("eye")
    out = stopped_unless_float(helper.append("eye", {}, attrs))
    if not batch_shape:
        return out
    flat = helper.append("unsqueeze", {"X": out}, {"axes": list(range(len(batch_shape)))})
    return stopped_unless_float(helper.append("expand", {"X": flat}, {"expand_times": [*batch_shape, 1, 1]}))


@layer
def range_(start: Any, end: Any, step: Any, dtype: Any) -> Variable:
    """The numbers from ``start`` up to ``end`` (left out) in steps of ``step``: ``layers.range``.

    Args:
        start, end, step: numbers, or Variables of one element, which are cast to ``dtype``.

    Returns:
        A tensor of one axis, whose extent is known if all three are numbers.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.range(1, 10, 3, "int64")
    >>> x.shape, ga.Executor().run(program, fetch_list=[x])
    ((3,), [array([1, 4, 7])])
    """
    helper = LayerHelper("range")
    bounds = {"Start": start, "End": end, "Step": step}
    with at_users_line("layers.range"):
        dtype = dtype_name(dtype)
        for what, value in bounds.items():
            if not isinstance(value, Variable) and (not is_literal(value) or np.size(value) != 1):
                raise InvalidType(f"{what.lower()} is a number or a Variable of one element, not {value!r}")
        inputs = {slot: _bound(helper, value, dtype) for slot, value in bounds.items()}
        length = None if any(isinstance(v, Variable) for v in bounds.values()) else _length(start, end, step, dtype)
    out = stopped_unless_float(helper.append("range", inputs))
    if length is not None:
        out.declare((length,), dtype)
    return out


def _bound(helper: LayerHelper, value: Any, dtype: str) -> Variable:
    if not isinstance(value, Variable):
        return constant(helper.main.current_block(), f"{helper.name}.tmp", np.full([1], value, dtype))
    return value if value.dtype == dtype else helper.append("cast", {"X": value}, {"in_dtype": value.dtype, "out_dtype": dtype})


def _length(start: Any, end: Any, step: Any, dtype: str) -> int:
    first, last, by = (float(np.full([1], value, dtype)[0]) for value in (start, end, step))
    if not by:
        raise InvalidValue(f"step is {step!r}, which is 0 as {dtype}; it leads nowhere")
    return max(0, math.ceil((last - first) / by))


# -- random numbers ------------------------------------------------------------------------------


@layer
def uniform_random(shape: Sequence[int], dtype: Any = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0) -> Variable:
    """Numbers spread evenly over [min, max), the same in every run if a seed is given."""
    attrs = {"shape": shape, "dtype": dtype, "min": min, "max": max, "seed": seed}
    return LayerHelper("uniform_random").append("uniform_random", {}, attrs)


@layer
def gaussian_random(shape: Sequence[int], mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = "float32") -> Variable:
    """Normally distributed numbers, the same in every run if a seed is given."""
    attrs = {"shape": shape, "mean": mean, "std": std, "seed": seed, "dtype": dtype}
    return LayerHelper("gaussian_random").append("gaussian_random", {}, attrs)
