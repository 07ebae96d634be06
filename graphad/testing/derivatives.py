"""Gradients three ways: those that a graph holds, those of the standard backward, and central differences."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from graphad.backward import gradients
from graphad.errors import GraphadError
from graphad.graph import Graph, Value
from graphad.ops import ControlDef, lookup
from graphad.ops.definition import GRAD
from graphad.passes.backward import GradOps
from graphad.passes.backward.find_op_path import source_value
from graphad.program import FORWARD, Program
from graphad.rewriting import claims_checked, verification
from graphad.testing.cases import Array, Case
from graphad.testing.equivalence import observe
from graphad.types import FLOATS, TENSOR

STEP = 1e-5  # of a difference; the error of a central one is about STEP ** 2
SMOOTH = 1e-4  # by how much the slopes to the left and to the right may differ where a function is taken for smooth
STEADY = 1e-6  # and those of two steps


def gradients_in(graph: Graph, sources: Iterable[str]) -> dict[str, Value]:
    """The values that are the gradients of some names, as far as passes have made them; each is the only value of its name then."""
    found = {name: value for name in sources if (value := _gradient_in(graph, name)) is not None and value.writers}
    for value in found.values():
        for other in graph.versions(value.name):
            if other is not value:
                graph.rename(other, graph.values.numbered(value.name, "{}_{}"))
    return found


def _gradient_in(graph: Graph, name: str) -> Value | None:
    versions = graph.versions(name)
    if not versions:
        return None
    grad_ops: GradOps | None = graph.analyses.get(GradOps)
    if grad_ops is not None:
        return grad_ops.gradient.get(source_value(graph, name))
    named = graph.versions(f"{name}{GRAD}")
    is_declared = graph.block is not None and graph.block.has_var(f"{name}{GRAD}")
    alone = len(named) > 0 and len(versions) == 1 and named[-1].grad_of in (None, versions[0])  # not of one that is gone
    return named[-1] if alone and not is_declared else None


def gradient_values(program: Program, case: Case, sources: list[str]) -> dict[str, Array]:
    """The gradients of the loss by the standard backward, zeros where there is none; the program stays as it is."""
    twin = program.clone()
    block, arrays = twin.global_block(), {**case.feeds, **case.params}
    differentiable = Case(program, case.loss_name, case.feeds, case.params).sources
    there = [name for name in sources if block.has_var(name) and name in differentiable]
    with verification(False), claims_checked(False):
        results = gradients([block.var(case.loss_name)], [block.var(name) for name in there])
    names = {source: g.name for source, g in zip(there, results, strict=True) if g is not None}
    values = observe(twin, case, list(names.values())).values
    return {name: values.get(names.get(name, ""), np.zeros_like(arrays[name])) for name in sources}


def is_forward(program: Program) -> bool:
    """Whether a program has no backward and no updates."""
    return all(op.role == FORWARD for block in program.blocks for op in block.ops)


ROUNDED = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}  # by how much numbers may differ that are rounded in another way


def roundings(program: Program) -> float:
    """By how much results may differ at least where they may be rounded: what the narrowest of a program's dtypes asks for."""
    return max((ROUNDED.get(str(var.dtype), 0.0) for var in program.list_vars() if var.type == TENSOR), default=0.0)


def is_double(program: Program) -> bool:
    """Whether all floating-point tensors of a program are float64."""
    return not any(var.dtype in ("float16", "bfloat16", "float32") for var in program.list_vars() if var.type == TENSOR)


# -- differences ---------------------------------------------------------------------------------


def can_difference(case: Case) -> bool:
    """Whether the loss's gradient is what differences give: all in float64, and no gradient stopped or defined otherwise."""
    if not case.loss_name or not is_forward(case.program) or not is_double(case.program):
        return False
    for block in case.program.blocks:
        for op in block.ops:
            definition = lookup(op.type)
            has_rules = definition.grads is not None or isinstance(definition, ControlDef)
            if not has_rules or "padding_idx" in op.attrs or "ignore_index" in op.attrs:
                return False
            if any(_is_stopped(block.var_recursive(name)) for name in op.output_names() if block.has_var_recursive(name)):
                return False
    return True


def _is_stopped(variable: object) -> bool:
    return bool(getattr(variable, "stop_gradient", False)) and getattr(variable, "dtype", None) in FLOATS


def slope(case: Case, direction: dict[str, Array]) -> float | None:
    """The derivative of the loss along a direction by central differences; None where it is not smooth, or not finite.

    The differences to both sides, and those with twice the step, have to agree: at a kink, or where rounding prevails, they don't.
    """
    middle = _loss_at(case, direction, 0.0)
    ahead, behind = _loss_at(case, direction, STEP), _loss_at(case, direction, -STEP)
    right, left, central = (ahead - middle) / STEP, (middle - behind) / STEP, (ahead - behind) / (2 * STEP)
    wide = (_loss_at(case, direction, 2 * STEP) - _loss_at(case, direction, -2 * STEP)) / (4 * STEP)
    scale = 1 + abs(central)
    if not np.isfinite([right, left, wide]).all() or abs(right - left) > SMOOTH * scale or abs(wide - central) > STEADY * scale:
        return None
    return float(central)


def _loss_at(case: Case, direction: dict[str, Array], distance: float) -> float:
    moved = {name: array + distance * direction[name] for name, array in {**case.feeds, **case.params}.items() if name in direction}
    there = Case(
        case.program,
        case.loss_name,
        {**case.feeds, **{n: a for n, a in moved.items() if n in case.feeds}},
        {**case.params, **{n: a for n, a in moved.items() if n in case.params}},
    )
    try:
        value = observe(case.program, there, [case.loss_name]).values.get(case.loss_name)
    except GraphadError:  # what was moved is a label, or another number that has to be one of a few
        return float("nan")
    return float("nan") if value is None else float(np.sum(value))
