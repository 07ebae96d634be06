"""One operator over jax's arrays: its kernel, or the rules of its gradient, run over another numpy.

What is known while a program is lowered is computed by numpy's kernels at once, so that shapes, counters and axes stay known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graphad.jax import forms as forms
from graphad.jax.bounded import applied, has_bounded
from graphad.jax.rebinding import Rebinder
from graphad.jax.registry import FORMS, is_traced, plain
from graphad.jax.xla_array import XlaArray, wrapped
from graphad.ops.aggregates import Aggregate
from graphad.ops.communication import Alone, current
from graphad.ops.definition import GradOpDef, Inputs, OpDef, Outputs
from graphad.ops.formulas import converted, filled, like, raised
from graphad.ops.rings import communicates
from graphad.types import Function, Tensor

KNOWN = 1 << 16  # elements of inputs up to which what is known is computed at once
WRITTEN_OUT = 1 << 10  # elements of a constant that is not one value everywhere


def run(definition: OpDef, inputs: Inputs, attrs: Mapping[str, Tensor], wanted: Sequence[str]) -> Outputs:
    """Compute the output slots from arrays of numpy's or jax's."""
    values = [value for group in inputs.values() for value in group]
    # Shapes, counters and the like are computed with numpy while tracing, so that they stay numbers for reshapes and slices.
    if not is_traced(values) and _few(values) and (not definition.ordered or _may_be_known(definition)):
        with np.errstate(all="ignore"):
            results = definition.run(inputs, attrs, wanted)
        return {slot: [_constant(value) for value in results[slot]] for slot in wanted}
    if isinstance(definition, GradOpDef):
        return _gradient(definition, inputs, attrs, wanted)
    if has_bounded(values):
        results = applied(definition, inputs, attrs, lambda data: kernel_run(definition, data, attrs, wanted))
        return {slot: results[slot] for slot in wanted}
    return kernel_run(definition, inputs, attrs, wanted)


def _may_be_known(definition: OpDef) -> bool:
    """Whether an effect may be had once, while tracing: a collective's in a process that is alone. What prints, prints in each run."""
    return type(current()) is Alone and communicates(definition.type)


def kernel_run(definition: OpDef, inputs: Inputs, attrs: Mapping[str, Tensor], wanted: Sequence[str]) -> Outputs:
    """Compute the output slots by the kernel over jax's arrays."""
    operands = {slot: list(map(_lifted, values)) for slot, values in inputs.items()}
    with np.errstate(all="ignore"):  # as of numpy's kernels: a mean over no elements is nan
        result = REBIND(definition.kernel)(*definition.arguments(operands), **attrs)
    results = result if len(definition.outputs) > 1 else (result,)
    slots = zip(definition.outputs.values(), results, strict=True)
    return {slot.name: list(map(_settled, value if slot.variadic else [value])) for slot, value in slots if slot.name in wanted}


def _gradient(definition: GradOpDef, inputs: Inputs, attrs: Mapping[str, Tensor], wanted: Sequence[str]) -> Outputs:
    assert definition.forward is not None and definition.forward.grads is not None
    result: Outputs = {}
    for name in wanted:
        rule = definition.forward.grads[name.removesuffix("@GRAD")]
        args = [_argument(definition, slot, inputs.get(slot)) for slot in rule.reads]
        with np.errstate(all="ignore"):
            value = REBIND(rule.function)(*args, **{a: definition.attr(a, attrs) for a in rule.attrs})
        result[name] = list(map(_settled, value)) if isinstance(value, list | tuple) else [_settled(value)]
    return result


def _argument(definition: OpDef, slot: str, values: Sequence[Tensor] | None) -> Tensor:
    if not values:
        return None
    return list(map(_lifted, values)) if definition.inputs[slot].variadic else _lifted(values[0])


def _lifted(value: Tensor) -> Tensor:
    return wrapped(value) if isinstance(value, np.ndarray | jax.Array) else value


def _settled(value: Tensor) -> Tensor:
    """A result as an array or an aggregate."""
    value = plain(value)
    if value is None or isinstance(value, Aggregate | jax.Array):
        return value
    return np.asarray(value)


def _few(values: Sequence[Tensor]) -> bool:
    return sum(int(leaf.size) for leaf in jax.tree.leaves(list(values)) if hasattr(leaf, "size")) <= KNOWN


def _constant(value: Tensor) -> Tensor:
    """A constant; one that is large and the same everywhere is not written out."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    value = np.asarray(value)
    # XLA has constants in the text of its program: a large one makes it slow to compile.
    if value.size > WRITTEN_OUT and (value == value.flat[0]).all():
        return jnp.full(value.shape, value.flat[0], value.dtype)
    return value


def _call(definition: OpDef, inputs: tuple[Tensor, ...], attrs: dict[str, Tensor]) -> Tensor:
    """Apply an operator that a kernel or a gradient rule calls."""
    if len(inputs) < definition.required["input"]:
        raise TypeError(f"operator {definition.type!r} takes {', '.join(definition.inputs)}; got {len(inputs)} inputs")
    # A rule may apply operators to numbers, as a graph's tensors allow.
    operands = [_lifted(np.asarray(x)) if isinstance(x, np.generic | int | float) else _lifted(x) for x in inputs]
    if has_bounded([value for x in operands for value in (x if isinstance(x, list) else [x])]):
        return _call_on_bounded(definition, operands, attrs)
    return definition.without_optional(REBIND(definition.kernel)(*operands, **attrs))


def _call_on_bounded(definition: OpDef, operands: Sequence[Tensor], attrs: dict[str, Tensor]) -> Tensor:
    slots = zip(definition.inputs, operands, strict=False)
    by_slot = {name: list(map(plain, x)) if isinstance(x, list) else [plain(x)] for name, x in slots if x is not None}
    output_slots = list(definition.outputs)
    complete = {name: definition.attr(name, attrs) for name in definition.attrs}
    results = applied(definition, by_slot, complete, lambda data: kernel_run(definition, data, complete, output_slots))
    values = [results[slot.name] if slot.variadic else results[slot.name][0] for slot in definition.outputs.values()]
    return _lifted(values[0]) if len(values) == 1 else definition.without_optional(tuple(map(_lifted, values)))


PRIMITIVES = (converted, filled, raised, like)  # of formulas: they ask what they are given, and XlaArray answers
REBIND = Rebinder({**FORMS, **{function: function for function in PRIMITIVES}}, _call)

# -- operators that need more than their inputs ----------------------------------------------------

Lowered = Callable[[Tensor, Tensor, Inputs, Mapping[str, Tensor]], Outputs]
LOWERED: dict[str, Lowered] = {}


def lowers(*types: str) -> Callable[[Function], Function]:
    """Lower operators by a function of the lowering, the operator, its inputs by slot and its attributes, which gives the outputs by slot.

    It is for what a kernel does not see: random streams, the operator's names.
    """

    def add(function: Function) -> Function:
        LOWERED.update(dict.fromkeys(types, function))
        return function

    return add


__all__ = ["LOWERED", "REBIND", "XlaArray", "lowers", "run"]
