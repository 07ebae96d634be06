"""Evaluate operators with constant inputs before the program runs.

    fill_constant 2 ─▶ a ─┐
    fill_constant 3 ─▶ b ─┴▶ elementwise_mul ─▶ c      ⇒      fill_constant 6 ─▶ c

    x [2, 3] ─▶ shape ─▶ s                             ⇒      assign_value [2, 3] ─▶ s

An operator all of whose inputs are constants is run by its own kernel. Its result becomes a ``fill_constant`` if all elements
are one number, else an ``assign_value``. Operators stay if their results cannot be held exactly by those, or if the kernel raises an
error: the program fails when it runs, as before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.ir import Graph, Op, Value
from graphad.ops import ControlDef, OpDef, lookup
from graphad.ops.out_kernels import filling, takes_required
from graphad.passes.cleanup.constant_arrays import constant_for, element_count, is_source, known_array
from graphad.rewriting import Pass, Rule, RuleSet, erase_if_dead, rewrite_greedily
from graphad.rewriting.constants import LISTED, uniform_number
from graphad.types import TENSOR, Array, Shape

Arrays = dict[str, list[Array]]


@dataclass(frozen=True)
class ConstantFolding(Pass):
    """Replace operators whose inputs are constants, or that read nothing but static shapes, by their results.

    Args:
        limit: how many elements a constant may have that is not filled with one number, from 0 on; more are not read either.

    Operators that draw random numbers, have effects or nested graphs stay.
    """

    name = "constant-folding"
    idempotent = True
    limit: int = 4096

    def apply(self, graph: Graph) -> bool:
        return rewrite_greedily(graph, RuleSet(Fold(self.limit)), self)


class Fold(Rule):
    """An operator over constants ⇒ a constant."""

    name = "fold"
    depth = 2

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def rewrite(self, op: Op) -> bool:
        if is_source(op):
            return op.type == LISTED and self._made_uniform(op)  # what fills with one number already says so
        for values in op.inputs.values():
            for value in values:
                # Not all constant. What reads only shapes (``shape``, ``fill_zeros_like``) may be known all the same.
                if not (value.writers and is_source(value.writers[0])):
                    return op.definition is not None and op.definition.of_shape and self._folded_by_shape(op, op.definition)
        definition = op.definition
        if definition is None or definition.random or definition.side_effect or isinstance(definition, ControlDef) or not op.inputs:
            return False
        results = self._computed(op, definition)
        return results is not None and _replaced(op, results)

    def _made_uniform(self, op: Op) -> bool:
        """An ``assign_value`` of equal elements becomes a ``fill_constant``."""
        (value,) = op.outputs["Out"]
        array = known_array(value)
        constant = None if array is None or array.size < 2 else constant_for(array, array.shape)
        return constant is not None and constant[0] == "fill_constant" and _replaced(op, {value: constant})

    def _folded_by_shape(self, op: Op, definition: OpDef) -> bool:
        values, (result, *rest) = list(op.reads()), list(op.writes())
        if (
            rest
            or not takes_required(definition, op.inputs)
            or any(v.kind != TENSOR or v.type is None or -1 in v.type.shape for v in values)
        ):
            return False
        # ``zeros_like`` of an input that is not constant itself: its shape is enough.
        number = filling(definition, [value.dtype for value in values], op.attrs)
        if number is not None:
            (value,) = values
            constant = ("fill_constant", {"shape": list(value.shape or ()), "value": float(number.value), "dtype": number.dtype})
            return _replaced(op, {result: constant})
        count = element_count(result.shape)
        if count is None or count > self.limit:
            return False
        return self._replaced_by_run(op, definition, result)

    def _replaced_by_run(self, op: Op, definition: OpDef, result: Value) -> bool:
        """Run an operator on zeros of its inputs' shapes, which take no memory."""
        inputs = {
            slot: [lookup("stand_in").kernel(None, shape=v.shape, dtype=v.dtype) for v in values] for slot, values in op.inputs.items()
        }
        outputs = _run(op, definition, inputs)
        if outputs is None:
            return False
        ((array,),) = outputs.values()
        constant = constant_for(array, array.shape)
        return constant is not None and _replaced(op, {result: constant})

    def _computed(self, op: Op, definition: OpDef) -> dict[Value, tuple[str, dict[str, object]]] | None:
        """The constants that an operator's outputs are, None if one cannot be written as such."""
        # An output that is unused need not be a constant that can be written down.
        places = {
            value: (slot, i)
            for slot, values in op.outputs.items()
            for i, value in enumerate(values)
            if bool(value.readers) or value.graph.is_observed(value)
        }
        if any(value.kind != TENSOR for value in places):
            return None
        counts = [element_count(value.shape) for value in op.reads()] + _written_counts(op, definition, places)
        # Too large to run: but if all inputs are filled with one number each and the operator gives equal elements for equal ones, one
        # element says it.
        small = any(count is None or count > self.limit for count in counts)
        if small and (not definition.uniform or None in counts or any(uniform_number(v) is None for v in op.reads())):
            return None
        inputs = {slot: [known_array(value, small) for value in values] for slot, values in op.inputs.items()}
        if any(array is None for arrays in inputs.values() for array in arrays):
            return None
        outputs = _run(op, definition, inputs)
        if outputs is None:
            return None
        shapes = _written_shapes(op, definition, places) if small else {}
        constants = {value: _constant(outputs[slot][i], value, shapes.get(value)) for value, (slot, i) in places.items()}
        return None if None in constants.values() else constants  # type: ignore[return-value]


def _written_counts(op: Op, definition: OpDef, requested: Mapping[Value, tuple[str, int]]) -> list[int | None]:
    """The numbers of elements of the results; None for an unknown one."""
    # How many elements a range has depends on values, so that no inference of types says it.
    if op.type == "range":
        return [_range_length(op)]
    return [element_count(shape) for shape in _written_shapes(op, definition, requested).values()]


def _written_shapes(op: Op, definition: OpDef, requested: Mapping[Value, tuple[str, int]]) -> dict[Value, Shape | None]:
    """The shapes of outputs: those declared, or those inferred where that leaves an extent open."""
    declared_shapes = {value: value.shape for value in requested}
    if None not in map(element_count, declared_shapes.values()):
        return declared_shapes
    try:
        types = definition.infer_types(
            {slot: [value.type for value in values if value.type] for slot, values in op.inputs.items()}, definition.own_attrs(op.attrs)
        )
        return {value: types[slot][i].shape for value, (slot, i) in requested.items()}
    except Exception:
        return declared_shapes


def _range_length(op: Op) -> int | None:
    """The length of a range of constants; None if it has no end."""
    start, end, step = (_finite_number(known_array(op.input(slot))) for slot in ("Start", "End", "Step"))
    return max(0, math.ceil((end - start) / step)) if start is not None and end is not None and step else None


def _finite_number(array: Array | None) -> float | None:
    return float(array.item()) if array is not None and array.size == 1 and np.isfinite(array).all() else None


def _run(op: Op, definition: OpDef, inputs: Mapping[str, Sequence[Any]]) -> Any:
    """What an operator gives, None if its kernel raises an error: the operator may never run."""
    try:
        with np.errstate(all="ignore"):
            return definition.run(inputs, definition.own_attrs(op.attrs), tuple(op.outputs))
    except Exception:
        return None


def _constant(array: object, value: Value, shape: Shape | None) -> tuple[str, dict[str, object]] | None:
    """The constant that an array is; with ``shape`` it is one element of as many."""
    if not isinstance(array, np.ndarray | np.generic) or value.dtype not in (None, array.dtype.name):
        return None
    return constant_for(np.asarray(array), array.shape if shape is None else shape)


def _replaced(op: Op, results: Mapping[Value, tuple[str, dict[str, Any]]]) -> bool:
    """Let constants write what an operator wrote; return whether that was allowed."""
    graph = op.graph
    if not results or not graph.allows("fold", op):
        return False
    # The operands' writers, which may have lost their last reader once the operator is gone.
    before = [value.writers[0] for value in op.reads() if value.writers]
    for value, (op_type, attrs) in results.items():
        new_op = graph.add_op(op_type, {}, {"Out": [value]}, attrs, before=op, role=op.role)
        new_op.source, new_op.forward = op.source, op.forward
        graph.set_type(value, tuple(attrs["shape"]), attrs["dtype"])
    # For a moment each result has two writers: the constant that is linked already, and the operator that goes.
    for slot, values in list(op.outputs.items()):
        graph.set_outputs(op, slot, [value for value in values if value not in results])
    graph.remove_op(op)
    for writer in dict.fromkeys(before):
        erase_if_dead(writer)
    return True
