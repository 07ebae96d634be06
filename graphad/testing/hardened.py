"""Other dtypes, extents and numbers for programs that were drawn with smooth numbers in float64."""

from __future__ import annotations

import math

import numpy as np

from graphad.ops import lookup
from graphad.program import Operator, Program
from graphad.testing.call_writer import type_checks
from graphad.testing.cases import Array, Case
from graphad.testing.choices import Choices
from graphad.testing.number_pools import KINKS, array_of
from graphad.types import Shape

WIDE, NARROW = "float64", "float32"
LARGEST = 1.0  # numbers stay in [-1, 1], which keeps loops from making anything large
EXTENT = 3  # of the axes that get another extent


def hardened(choices: Choices, case: Case, extents: bool = False) -> Case:
    """The case in float32 in half of all cases; with equal elements, kinks or zeros of both signs fed in a third.

    Args:
        choices: where the decisions come from.
        case: a program in float64; it is changed.
        extents: whether axes of extent 3 may get the extent 1 or 5. No operator of the program may name the number otherwise
            than in ``shape``.
    """
    extent = choices.one_of((EXTENT, EXTENT, 1, 5)) if extents else EXTENT
    if extent != EXTENT:
        case = _resized(case, extent)
    if choices.chance(3):
        kind = choices.one_of(("ties", "kinks", "zeros"))
        case.feeds.update((name, _numbers(choices, array, kind)) for name, array in case.feeds.items() if array.dtype == WIDE)
    return in_float32(case) if choices.boolean() else case


def _numbers(choices: Choices, array: Array, kind: str) -> Array:
    largest = LARGEST if kind != "ties" else max(KINKS)
    drawn = array_of(choices, array.shape, WIDE, kind)
    return np.where(np.abs(drawn) <= largest, drawn, 0.5) * (0.5 if kind == "ties" else 1.0)


# -- dtypes --------------------------------------------------------------------------------------


def in_float32(case: Case) -> Case:
    """The case with float32 in the place of float64; it is changed."""
    for var in case.program.list_vars():
        shape, dtype = var.declared
        if dtype == WIDE:
            var.declare(shape, NARROW)
    for op in _operators(case.program):
        op.attrs.update({name: NARROW for name, value in op.attrs.items() if value == WIDE})
        op.attrs.update({name: NARROW for name in _dtype_attrs(op) if name not in op.attrs})
    for arrays in (case.feeds, case.params):
        arrays.update({name: array.astype(NARROW) for name, array in arrays.items() if array.dtype == WIDE})
    return case


def _dtype_attrs(op: Operator) -> list[str]:
    return [attr.name for attr in lookup(op.type).attrs.values() if attr.kind == "DType" and attr.default == WIDE]


def _operators(program: Program) -> list[Operator]:
    return [op for block in program.blocks for op in block.ops]


# -- extents -------------------------------------------------------------------------------------


def _resized(case: Case, extent: int) -> Case:
    """The case with another extent for the axes of extent 3; as it was if its types do not fit then."""
    program = case.program.clone()
    for var in program.list_vars():
        shape, dtype = var.declared
        if shape is not None and dtype != "bool":
            var.declare(_shape(shape, extent), dtype)
    for op in _operators(program):
        if "shape" in op.attrs:
            op.attrs["shape"] = list(_shape(tuple(op.attrs["shape"]), extent))
    if not type_checks(program):
        return case
    feeds, params = ({name: _recut(array, extent) for name, array in arrays.items()} for arrays in (case.feeds, case.params))
    return Case(program, case.loss_name, feeds, params)


def _shape(shape: Shape, extent: int) -> Shape:
    return tuple(extent if e == EXTENT else e for e in shape)


def _recut(array: Array, extent: int) -> Array:
    """The array with its axes of extent 3 repeated or cut; a matrix made wider is made smaller, so that products do not grow."""
    for axis in (axis for axis, e in enumerate(array.shape) if e == EXTENT):
        array = np.take(array, np.arange(extent) % EXTENT, axis)
    return array * math.sqrt(EXTENT / extent) if array.dtype == WIDE and extent > EXTENT and array.ndim == 2 else array
