"""The operator table: ``ops.tanh(x)`` computes on arrays and records itself on symbols.

One definition an operator (``graphad.ops.definition``), in files by kind. Every registered operator,
graphad's own or another package's, is an attribute of this module by its type.

Here belong the chapters of operators, by what they do (``docs/operators.md`` lists them), and what they are made of: definitions with
their traits, formulas and inference, symbols with their methods, windows, rows and dimensions that chapters share. Samples to test them on
are in ``graphad.testing.samples``, in files of the same names. What asks for a trait is in ``graphad.passes``, what runs a kernel in
``graphad.execution``.
"""

from __future__ import annotations

import warnings
from types import ModuleType

from graphad.ops import (
    activation,
    attention,
    callbacks,
    casting,
    collective,
    comparison,
    control_flow,
    conv,
    creation,
    crf,
    ctc,
    definition,
    elementwise,
    embedding,
    factorization,
    feeding,
    indexing,
    joining,
    like,
    linalg,
    loss,
    loss_scaling,
    matching,
    metric,
    normalization,
    optimizer,
    padding,
    pooling,
    proposals,
    random,
    reduction,
    rnn,
    roi,
    roi_pooling,
    scan,
    second_stage,
    selection,
    shapes,
    slicing,
    sort,
    special,
    suppression,
    tensor_array,
    vision,
)
from graphad.ops.control_flow import BranchDef, CallDef, ControlDef, LoopDef, region_operator
from graphad.ops.definition import GRAD, GradOpDef, OpDef, Slot, did_you_mean, find, grad_kernel, lookup, operator
from graphad.ops.double_gradients import DoubleGradOpDef
from graphad.ops.registry import REGISTRY
from graphad.ops.sample import Sample
from graphad.ops.symbol import Symbol

CHAPTERS = (
    creation,
    like,
    casting,
    elementwise,
    special,
    comparison,
    activation,
    reduction,
    scan,
    sort,
    selection,
    indexing,
    embedding,
    slicing,
    shapes,
    joining,
    padding,
    linalg,
    factorization,
    conv,
    pooling,
    normalization,
    attention,
    rnn,
    loss,
    crf,
    ctc,
    metric,
    vision,
    roi,
    roi_pooling,
    suppression,
    proposals,
    matching,
    second_stage,
    random,
    optimizer,
    loss_scaling,
    control_flow,
    tensor_array,
    feeding,
    callbacks,
    collective,
    definition,
)

__all__ = [
    "CHAPTERS",
    "GRAD",
    "REGISTRY",
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


def __getattr__(name: str) -> OpDef | tuple[ModuleType, ...]:
    if name == "ROWS":
        warnings.warn("ops.ROWS is deprecated and goes in the next minor version: use CHAPTERS", DeprecationWarning, stacklevel=2)
        return CHAPTERS
    definition = None if name.startswith("__") else find(name)
    if definition is not None:
        return definition
    raise AttributeError(f"no operator is named {name!r}{did_you_mean(name, REGISTRY)}")


def __dir__() -> list[str]:
    return sorted(
        {*__all__, *(name for name, definition in REGISTRY.items() if name.isidentifier() and not isinstance(definition, GradOpDef))}
    )
