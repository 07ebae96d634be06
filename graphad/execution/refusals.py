"""The errors of runs: why an operator cannot run, or failed, with its operands and the user's line."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphad.errors import ExecutionError, GraphadError, InvalidValue, NoValue
from graphad.execution.names import control
from graphad.ops import REGISTRY, GradOpDef, OpDef
from graphad.ops.definition import GRAD_SUFFIX, Slot, checked_attr, did_you_mean
from graphad.program import Block, Operator, check_distinct, located
from graphad.program.operator import COMMON_ATTRS
from graphad.types import FLOATS, Array

_PADDLES = " (graphad makes gradients of its own: read the program without its backward, and call append_backward or gradients)"

# -- before a run ----------------------------------------------------------------------------------


def unregistered(op: Operator) -> str:
    """The error for an operator that is not registered."""
    # A gradient of Paddle's may have no counterpart here: its name says so.
    hint = _PADDLES if op.type.endswith(GRAD_SUFFIX) else did_you_mean(op.type, REGISTRY)
    return located(f"operator {op.type!r} is not registered, so it cannot run{hint}: {op!r}", op.source)


def why_not(op: Operator, definition: OpDef) -> str:
    """Why an operator that was read from a file cannot run; empty if it can."""
    if not _fits(op, definition) and (misfit := _misfit(op, definition)):
        return f"operator {op.type!r} {misfit}, so it cannot run: {op!r}"
    if unfit := _unfit(op, definition):
        return f"operator {op.type!r} cannot run: {unfit}"
    try:
        check_distinct(op)
    except InvalidValue as error:
        return str(error)
    return ""


def _unfit(op: Operator, definition: OpDef) -> str:
    """The message about an attribute from a file that the operator does not accept; empty if it is fine."""
    try:
        for name, value in op.attrs.items():
            if name in definition.attrs:
                checked_attr(definition.attrs[name], value)
    except GraphadError as error:
        return str(error)
    return ""


def _fits(op: Operator, definition: OpDef) -> bool:
    """Whether slots and attributes are just those of the definition; if not, ``_misfit`` says what is wrong, if anything."""
    if not (_has_slots(op.inputs, definition.inputs) and _has_slots(op.outputs, definition.outputs)):
        return False
    return op.attrs.keys() <= definition.attrs.keys() and all(map(op.inputs.get, definition.single))


def _has_slots(names_by_slot: Mapping[str, list[str]], slots: Mapping[str, Slot]) -> bool:
    return all([slot in slots and (len(names) < 2 or slots[slot].variadic) for slot, names in names_by_slot.items()])


def _misfit(op: Operator, definition: OpDef) -> str:
    """How an operator that was read from a file does not fit its definition: a slot, the number of names in one, or an attribute.

    Paddle's grad operators have more inputs than graphad's; the additional ones are ignored.
    """
    is_grad = isinstance(definition, GradOpDef)
    for side, slots, names_by_slot in (("input", definition.inputs, op.inputs), ("output", definition.outputs, op.outputs)):
        for slot, names in names_by_slot.items():
            slot_definition = slots.get(slot)
            if slot_definition is None:
                if names and not (is_grad and side == "input"):
                    return f"has an {side} slot {slot}, which its definition does not have"
            elif len(names) > 1 and not slot_definition.variadic:
                return f"has {len(names)} names in its {side} slot {slot}, which takes one"
    # An empty slot that has to be filled would fail in the kernel, far from the cause.
    for slot in definition.single:
        if not op.inputs.get(slot):
            return f"has nothing in its input slot {slot}"
    if is_grad or op.attrs.keys() <= definition.attrs.keys():
        return ""
    unknown = (name for name in op.attrs if name not in definition.attrs and name not in COMMON_ATTRS)
    return next((f"has an attribute {name}, which its definition does not have" for name in unknown), "")


# -- during a run ----------------------------------------------------------------------------------


def missing_value(block: Block, name: str, op: Operator | None) -> InvalidValue | NoValue:
    """The error for a name without a value, which an operator reads or, if None, the caller of block 0 fetches."""
    reader = f"operator {op.type!r} reads" if op else "the fetch list has"
    source = op.source if op else None
    if name in block.vars and block.vars[name].persistable:
        return InvalidValue(located(f"{reader} {name!r}, which has no value in this scope: run the startup program, or set it", source))
    # Looked up only for the message: which of the reasons for a missing value it is.
    writers = [writer for inner in block.program.blocks for writer in inner.ops if name in writer.output_names()]
    # Written in a block that did not run, or by an operator that may write nothing: known in the run alone.
    if any(control(writer) or writer.block.idx or _may_write_nothing(writer) for writer in writers):
        return NoValue(located(f"{reader} {name!r} before any operator wrote it: no block that writes it has run", source))
    if writers:
        return InvalidValue(located(f"{reader} {name!r} before any operator wrote it", source))
    hint = _narrowed(block, name) or _unread(block, name)
    return InvalidValue(located(f"{reader} {name!r}, which is not fed and no operator writes{hint}", source))


def _unread(block: Block, name: str) -> str:
    """A hint, if a reader has values for a variable and has not been started."""
    readers = block.program.identity.family.readers
    return "; its reader is not started: call reader.start() first" if any(name in reader.names for reader in readers) else ""


def _narrowed(block: Block, name: str) -> str:
    """A hint, if ``mixed-precision`` has left a variable in another type only."""
    # mixed-precision names narrow copies so.
    narrow_name = next((variant for dtype in FLOATS if (variant := f"{name}@{dtype.upper()}") in block.vars), None)
    return "" if narrow_name is None else f"; in mixed precision there is {narrow_name!r}, and keep=[{name!r}] leaves it as wide as it was"


def _may_write_nothing(op: Operator) -> bool:
    definition = REGISTRY.get(op.type)
    return definition is not None and (definition.partial or definition.extends != "")


def not_finite(op: Operator, name: str, result: Array, inputs: Mapping[str, object]) -> ExecutionError:
    """The error of an operator that made a nan or an infinity."""
    bad = "nan" if np.isnan(result).any() else "an infinity"
    return ExecutionError(located(f"operator {op.type!r} made {bad} in {name!r}\n{_inputs_text(op, inputs)}", op.source))


def failure(op: Operator, inputs: Mapping[str, object], error: Exception) -> ExecutionError:
    """The error of an operator that failed: its reason, inputs and attributes, and the user's line."""
    reason = str(error) if isinstance(error, GraphadError) else f"{type(error).__name__}: {error}"
    return ExecutionError(located(f"operator {op.type!r} failed: {reason}\n{_inputs_text(op, inputs)}", op.source))


def _inputs_text(op: Operator, inputs: Mapping[str, object]) -> str:
    slot_of = {name: slot for slots in (op.outputs, op.inputs) for slot, names in slots.items() for name in names}
    lines = [f"  {slot_of.get(name, '')} = {name}: {_described(value)}" for name, value in inputs.items()]
    attrs = ", ".join(f"{k}={v!r}" for k, v in op.attrs.items())
    return "\n".join([*lines, *([f"  attributes: {attrs}"] if attrs else [])])


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    # Of what JAX traces the repr says how.
    return f"{getattr(value, 'dtype', '')}{list(getattr(value, 'shape', ()))}" if hasattr(value, "__jax_array__") else repr(value)
