"""The operator table: ``ops.tanh(x)`` computes on arrays and records itself on symbols.

One row an operator (``graphad.ops.definition``), in files by kind. Every registered operator,
graphad's own or another package's, is an attribute of this module by its type.
"""

from __future__ import annotations

from graphad.ops import (
    activation,
    along,
    arrays,
    assignment,
    attention,
    basic,
    batch_normalization,
    cells,
    choice,
    class_losses,
    comparing,
    contraction,
    control,
    conv,
    conv_transpose,
    creation,
    decay_updates,
    decompositions,
    diagonals,
    elementwise,
    entropy,
    feeding,
    fused,
    gamma,
    grids,
    index,
    joining,
    linalg,
    local_response,
    loss,
    max_index,
    metric,
    normalization,
    optimize,
    order,
    padding,
    pair_losses,
    picking,
    places,
    pool,
    power,
    randoms,
    rearrange,
    reduce,
    repeats,
    resize,
    running,
    sampling,
    scan,
    shapes,
    slicing,
    tapes,
    unary,
)
from graphad.ops.control import BranchDef, CallDef, ControlDef, LoopDef, region_operator
from graphad.ops.definition import GRAD, GradOpDef, OpDef, Slot, did_you_mean, find, grad_kernel, lookup, operator
from graphad.ops.double_gradients import DoubleGradOpDef
from graphad.ops.sample import Sample
from graphad.ops.symbol import REGISTRY, Symbol

ROWS = (
    basic,
    elementwise,
    unary,
    conv,
    conv_transpose,
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
    decay_updates,
    randoms,
    feeding,
    fused,
    arrays,
    choice,
    tapes,
    control,
    comparing,
    decompositions,
    diagonals,
    contraction,
    gamma,
    grids,
    joining,
    order,
    padding,
    picking,
    places,
    repeats,
    running,
    assignment,
    attention,
    cells,
    class_losses,
    local_response,
    max_index,
    pair_losses,
    rearrange,
    resize,
    sampling,
)

__all__ = [
    "GRAD",
    "REGISTRY",
    "ROWS",
    "BranchDef",
    "CallDef",
    "ControlDef",
    "DoubleGradOpDef",
    "GradOpDef",
    "LoopDef",
    "OpDef",
    "Sample",
    "Slot",
    "Symbol",
    "find",
    "grad_kernel",
    "lookup",
    "operator",
    "region_operator",
]


def __getattr__(name: str) -> OpDef:
    row = None if name.startswith("__") else find(name)
    if row is not None:
        return row
    raise AttributeError(f"no operator is named {name!r}{did_you_mean(name, REGISTRY)}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name, row in REGISTRY.items() if name.isidentifier() and not isinstance(row, GradOpDef))})
