"""Tapes: what the iterations of a loop hand to its gradient. Pushing and popping are each other's gradient.

Loops get them when a gradient of a loop is differentiated again (``expand-grad-ops``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.ops.aggregates import Tape
from graphad.ops.definition import Array, operator
from graphad.types import STEP_SCOPES, TensorType

_TAPE = {"Out": STEP_SCOPES}
_TAPE_TYPE = TensorType((), "float32")  # a placeholder: a tape has no shape


@operator("-> Out", infer=lambda: _TAPE_TYPE, grad={}, kinds=_TAPE, flops=0)
def create_tape() -> Tape:
    """An empty tape."""
    return Tape()


@operator(
    "Scopes X* -> Out",
    infer=lambda Scopes, X, *, count: Scopes,
    grad={
        "Scopes": lambda dOut, *, count: pop_tape(dOut, count=count)[0],
        "X": lambda dOut, *, count: pop_tape(dOut, count=count)[1],
    },
    partial=True,
    kinds=_TAPE,
    linear="Scopes X",
    flops=0,
)
def push_tape(Scopes: Tape, X: list[Any], *, count: int) -> Tape:
    """The tape with one more entry, the ``count`` values in X; one of them may be missing."""
    return Scopes.push(X)


@operator(
    "Scopes -> Out X*",
    infer=lambda Scopes, *, count: (Scopes, [None] * count),
    grad={"Scopes": lambda dOut, dX, *, count: push_tape(dOut, dX, count=count)},
    partial=True,
    kinds=_TAPE,
    linear="Scopes",
    flops=0,
)
def pop_tape(Scopes: Tape, *, count: int) -> tuple[Tape, list[Any]]:
    """The tape without its last entry, and the ``count`` tensors of that."""
    return Scopes.pop()


@operator("Scopes -> Out", infer=lambda Scopes: TensorType((1,), "bool"), grad={}, flops=0)
def tape_has_more(Scopes: Tape) -> Array:
    """Whether the tape has an entry left."""
    return np.array([len(Scopes) > 0])
