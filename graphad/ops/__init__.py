"""The operator table: ``ops.tanh(x)`` computes on arrays and records itself on symbols.

One row an operator (``graphad.ops.definition``), in files by kind. Every registered operator,
graphad's own or another package's, is an attribute of this module by its type.
"""

from __future__ import annotations

from graphad.ops import (
    activation,
    along,
    arrays,
    basic,
    batch_normalization,
    choice,
    control,
    conv,
    creation,
    elementwise,
    entropy,
    feed,
    index,
    linalg,
    loss,
    metric,
    normalization,
    optimize,
    pool,
    power,
    randoms,
    reduce,
    scan,
    shapes,
    slicing,
    tapes,
    unary,
)
from graphad.ops.control import ControlDef
from graphad.ops.definition import GRAD, GradOpDef, OpDef, Slot, grad_kernel, lookup, operator
from graphad.ops.symbol import REGISTRY, Symbol

ROWS = (
    basic,
    elementwise,
    unary,
    conv,
    pool,
    activation,
    index,
    linalg,
    power,
    reduce,
    scan,
    shapes,
    slicing,
    creation,
    along,
    batch_normalization,
    normalization,
    entropy,
    loss,
    metric,
    optimize,
    randoms,
    feed,
    arrays,
    choice,
    tapes,
    control,
)

__all__ = ["GRAD", "REGISTRY", "ROWS", "ControlDef", "GradOpDef", "OpDef", "Slot", "Symbol", "grad_kernel", "lookup", "operator"]


def __getattr__(name: str) -> OpDef:
    if name in REGISTRY:
        return REGISTRY[name]
    raise AttributeError(f"no operator is named {name!r}")
