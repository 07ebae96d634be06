"""Gradients three ways: those that a graph holds, those of the standard backward, and central differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from graphad.backward import gradients
from graphad.errors import GraphadError
from graphad.execution import Executor
from graphad.graph import Graph, Value, lower
from graphad.ops import ControlDef, OpDef, lookup
from graphad.ops.definition import GRAD
from graphad.passes.backward import GradOps
from graphad.passes.backward.find_op_path import source_value
from graphad.program import FORWARD, Block, Operator, Program
from graphad.rewriting import claims_checked, verification
from graphad.testing.cases import Array, Case
from graphad.testing.equivalence import bounded_executor, observe
from graphad.testing.watched import watch
from graphad.types import FLOATS, TENSOR

STEP = 1e-5  # of a difference; the error of a central one is about STEP ** 2
SMOOTH = 1e-4  # by how much the slopes to the left and to the right may differ where a function is taken for smooth
STEADY = 1e-6  # and those of two steps
FAR = 1e50  # a gradient multiplies numbers of a program: with larger ones, or smaller than 1 / FAR, it may be 0 where it should not


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
    """By how much results may differ at least where they may be rounded: what the narrowest of a program's dtypes needs."""
    return max((ROUNDED.get(str(var.dtype), 0.0) for var in program.list_vars() if var.type == TENSOR), default=0.0)


def is_double(program: Program) -> bool:
    """Whether all floating-point tensors of a program are float64."""
    return not any(var.dtype in ("float16", "bfloat16", "float32") for var in program.list_vars() if var.type == TENSOR)


# -- differences ---------------------------------------------------------------------------------


def can_difference(program: Program) -> bool:
    """Whether the loss's gradient is what differences give: all in float64, and no gradient stopped in a block or defined otherwise.

    Values of block 0 may be stopped: see ``frozen``.
    """
    if not is_forward(program) or not is_double(program):
        return False
    return all(_can_difference(block, op) for block in program.blocks for op in block.ops)


def _can_difference(block: Block, op: Operator) -> bool:
    definition, stopped = lookup(op.type), _stopped(block, op)
    if stopped and (block.idx or any(block.var(name).type != TENSOR for name in stopped)):
        return False
    if isinstance(definition, ControlDef):
        return True
    if definition.grads is None:
        return False
    without = (name for slot in op.inputs if not has_slope(definition, slot) for name in op.input(slot) if _is_float(block, name))
    return all(block.var_recursive(name).stop_gradient for name in without) or not any(_is_float(block, n) for n in op.output_names())


def has_slope(definition: OpDef, slot: str) -> bool:
    """Whether an operator has a gradient with respect to an input, or reads nothing but its shape."""
    return slot in (definition.grads or ()) or slot in definition.shapes


def _is_float(block: Block, name: str) -> bool:
    return block.has_var_recursive(name) and getattr(block.var_recursive(name), "dtype", None) in FLOATS


def _stopped(block: Block, op: Operator) -> list[str]:
    """The floating-point results of an operator that stop gradients."""
    names = [name for name in op.output_names() if _is_float(block, name)]
    return [name for name in names if block.var_recursive(name).stop_gradient]


def frozen(case: Case) -> Case:
    """The case with the values of block 0 that stop gradients kept as they are, whatever they are computed from.

    Raises:
        GraphadError: it does not run.
    """
    block = case.program.global_block()
    if not any(_stopped(block, op) for op in block.ops):
        return case
    noted, names = _with_each_stopped(case.program, noting=True)
    values = observe(noted, case, names).values
    return replace(case, program=_with_each_stopped(case.program, noting=False)[0], feeds={**case.feeds, **values})


def _with_each_stopped(program: Program, noting: bool) -> tuple[Program, list[str]]:
    """A copy in which each stopped value of block 0 is noted under a name of its own, or taken from that name; and these names."""
    twin = program.clone()
    block, names = twin.global_block(), list[str]()
    for op in list(block.ops):
        for name in _stopped(block, op):
            var = block.var(name)
            names.append(block.create_var(name=f"{name}@STOPPED@{len(names)}", shape=var.shape, dtype=var.dtype).name)
            x, out = (name, names[-1]) if noting else (names[-1], name)
            block.ops.insert(block.ops.index(op) + 1, Operator(block, "assign", {"X": [x]}, {"Out": [out]}, {}))
    return twin, names


def slope(case: Case, direction: dict[str, Array], agrees: Callable[[float], bool] = lambda central: False) -> float | None:
    """The derivative of the loss along a direction by central differences; None where it is not smooth, or not finite.

    The differences to both sides, and those with twice the step, have to agree: at a kink, or where rounding prevails, they don't.
    A difference that ``agrees`` with what was expected is taken as it is: only a disagreement may be due to a kink.
    """
    executor = bounded_executor()
    behind, ahead = (_loss_at(executor, case, direction, n * STEP) for n in (-1, 1))
    central = (ahead - behind) / (2 * STEP)
    if agrees(central):
        return central
    back, middle, beyond = (_loss_at(executor, case, direction, n * STEP) for n in (-2, 0, 2))
    right, left, wide = (ahead - middle) / STEP, (middle - behind) / STEP, (beyond - back) / (4 * STEP)
    scale = 1 + abs(central)
    if not np.isfinite([right, left, wide]).all() or abs(right - left) > SMOOTH * scale or abs(wide - central) > STEADY * scale:
        return None
    return float(central)


def is_in_range(case: Case) -> bool:
    """Whether products of a few numbers that a program computes, in its blocks too, are neither infinite nor rounded to 0.

    The gradient of ``1 / (1 / x)`` is 1; at 1e-300 it is computed as 0, and a difference, whose step is larger, does not see that.
    """
    seen = [True]

    def see(value: Value, array: object) -> None:
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            size = np.abs(array[np.isfinite(array) & (array != 0)])
            seen[0] &= bool(((size <= FAR) & (size >= 1 / FAR)).all())

    watch(lower(case.program), case, see)
    return seen[0]


def _loss_at(executor: Executor, case: Case, direction: dict[str, Array], distance: float) -> float:
    moved = {name: array + distance * direction[name] for name, array in {**case.feeds, **case.params}.items() if name in direction}
    there = Case(
        case.program,
        case.loss_name,
        {**case.feeds, **{n: a for n, a in moved.items() if n in case.feeds}},
        {**case.params, **{n: a for n, a in moved.items() if n in case.params}},
    )
    try:
        value = observe(case.program, there, [case.loss_name], executor=executor).values.get(case.loss_name)
    except GraphadError:  # what was moved is a label, or another number that has to be one of a few
        return float("nan")
    return float("nan") if value is None else float(np.sum(value))
