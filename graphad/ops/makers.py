"""Makers of elementwise operators from numpy functions: of one input, or of two with Fluid's ``axis`` broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Unpack

import numpy as np

from graphad.ops.definition import OpDef, operator
from graphad.ops.formulas import kernel_of, over_axis
from graphad.ops.inference import broadcast, same_float
from graphad.ops.traits import ELEMENTWISE, FUNCTION, Declared

# Where X and Y tie, maximum and minimum give the cotangent to one of them: they are not among these.
_SYMMETRIC = (np.add, np.multiply, np.equal, np.not_equal, np.logical_and, np.logical_or, np.logical_xor)


def binary(
    name: str,
    function: Callable[..., object],
    grad: Mapping[str, Callable[..., object]],
    infer: Callable[..., object] = broadcast,
    shapes: str = "",
    **traits: Unpack[Declared],
) -> OpDef:
    all_traits: Declared = {**ELEMENTWISE, "commutative": function in _SYMMETRIC, **traits}
    return operator("X Y -> Out", name=name, infer=infer, grad=grad, shapes=shapes, **all_traits)(
        kernel_of(over_axis(function), module=__name__)
    )


def unary(
    name: str,
    function: Callable[..., object],
    grad: Callable[..., object] | None,
    infer: Callable[..., object] = same_float,
    **traits: Unpack[Declared],
) -> OpDef:
    all_traits: Declared = {**FUNCTION, **traits}
    kernel = kernel_of(function, "X", module=__name__)
    return operator("X -> Out", name=name, infer=infer, grad={} if grad is None else {"X": grad}, **all_traits)(kernel)
