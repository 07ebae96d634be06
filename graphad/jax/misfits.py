"""Why an operator is not lowered: whether its operands fit it, wherever it would run, and the texts that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphad.errors import GraphadError
from graphad.ops import OpDef
from graphad.ops.aggregates import Aggregate, TensorArray
from graphad.program import Operator, located
from graphad.types import Tensor, TensorType


def named(op: Operator, inputs: Mapping[str, Sequence[Tensor]]) -> dict[str, Tensor]:
    """The operands of an operator by name."""
    return {n: a for slot, values in inputs.items() for n, a in zip(op.inputs.get(slot, op.outputs.get("Out", ())), values, strict=False)}


def result_types(definition: OpDef, inputs: Mapping[str, Sequence[Tensor]], attrs: Mapping[str, Tensor]) -> dict[str, list[TensorType]]:
    """The types of the results by slot, none where something is no tensor; ShapeError where the inputs do not fit."""
    if any(value is None or isinstance(value, Aggregate) for group in inputs.values() for value in group):
        return {}
    types = {slot: [TensorType(tuple(value.shape), np.dtype(value.dtype).name) for value in group] for slot, group in inputs.items()}
    return definition.infer_types(types, attrs)


def misfit(definition: OpDef, inputs: Mapping[str, Sequence[Tensor]], attrs: Mapping[str, Tensor]) -> GraphadError | None:
    """Why types do not fit an operator, wherever it would run; None if they do."""
    try:
        result_types(definition, inputs, attrs)
    except GraphadError as error:
        return error
    return None


def why_not_lowered(op: Operator, inputs: Mapping[str, Sequence[Tensor]], reason: str, line: Tensor) -> str:
    """The text of a ``NotLowered``: the operator, the reason, what it reads, and the user's line."""
    values = "\n".join(f"  {name}: {described(value) if value is not None else 'no value'}" for name, value in named(op, inputs).items())
    return located(f"operator {op.type!r} cannot be lowered to XLA: {reason}\n{values}", line)


def described(value: Tensor) -> str:
    """The type of a value."""
    if isinstance(value, TensorArray):  # which would show its tensors
        return f"<TensorArray of {len(value)}>"
    return repr(value) if isinstance(value, Aggregate) else f"{value.dtype}{list(value.shape)}"
