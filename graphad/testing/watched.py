"""Watched runs: what every value of a graph is, step by step, in every iteration of its loops; and runs that reuse memory as marked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from graphad.errors import GraphadError
from graphad.execution import Scope
from graphad.execution.feeds import fed_array
from graphad.execution.interpreter import Interpreter, RunOptions
from graphad.execution.names import Frames, Layout, Step, depth
from graphad.execution.runtime import own
from graphad.ir import Graph, Op, Value
from graphad.ops.out_kernels import INPLACE
from graphad.program import EMPTY, Operator, Program
from graphad.testing.cases import Case
from graphad.types import Array

See = Callable[[Value, Any], None]
ITERATIONS = 500  # of the loops of a run, all together


def watch(graph: Graph, case: Case, see: See) -> None:
    """Run the program that a graph was lowered from on the arrays of a case, step by step.

    ``see`` is called with a value and its array: for what is given first of all, then for what an operator reads, before it runs, and
    for what it writes, after it; None is for no value. The array is the run's own, which may be overwritten later. A run that fails
    ends there, as it does with what ``see`` raises.
    """
    assert graph.block is not None
    scope, variables = Scope(), graph.block.vars
    for name, array in case.params.items():
        scope.set(name, array)
    feeds = {name: fed_array(name, array, *variables[name].declared) for name, array in case.feeds.items() if name in variables}
    for value in graph.inputs:
        initial = feeds.get(value.name, case.params.get(value.name))
        if initial is not None:
            see(value, initial)
    run = _Watched(graph, see)
    run.begin(dict(feeds), scope)
    # What was seen up to an error counts; the run itself is not on trial.
    with np.errstate(all="ignore"), suppress(GraphadError, ArithmeticError, RecursionError):
        run.operators()


class _Watched(Interpreter):
    """A program whose steps are looked at."""

    def __init__(self, graph: Graph, see: See) -> None:
        assert graph.block is not None
        self.see = see
        # The interpreter runs operators of the program; facts are about those of the graph.
        self.lowered = {op.operator: op for subgraph in graph.tree() for op in subgraph.ops if op.operator is not None}
        super().__init__(graph.block.program, (), RunOptions(max_iterations=ITERATIONS))

    def step(self, op: Operator, layout: Layout, freed: Collection[str]) -> Step:
        step, node = super().step(op, layout, freed), self.lowered.get(op)
        return step if node is None else self._looking(node, layout, step)

    def _looking(self, op: Op, layout: Layout, step: Step) -> Step:
        reads, writes = _places(op.reads(), layout), _places(op.writes(), layout)

        def look(frames: Frames, places: list[tuple[Value, int]]) -> None:
            for value, at in places:
                self.see(value, frames[at].get(value.name))

        def looking(frames: Frames) -> None:
            look(frames, reads)
            step(frames)
            look(frames, writes)

        return looking


# -- perturbed results -----------------------------------------------------------------------------


def run_perturbed(program: Program, case: Case, names: Iterable[str], perturb: Callable[[Array], Array]) -> dict[str, Any]:
    """The values of the names in a run, step by step, in which every number that an operator computes is another one.

    Numbers that an operator passes on, as a copy, a maximum or a selection does, stay what they are, and so do zeros.

    Raises:
        GraphadError: the program does not run.
    """
    names = list(names)
    run = _Perturbed(program, names, perturb)
    _run_all(run, program, case)
    return _fetched(run, names)


def _run_all(run: Interpreter, program: Program, case: Case) -> Scope:
    """Run all operators of a program on a case's arrays; the scope, to which nothing is committed yet."""
    scope, variables = Scope(), program.global_block().vars
    for name, array in case.params.items():
        scope.set(name, array)
    run.begin({n: fed_array(n, array, *variables[n].declared) for n, array in case.feeds.items() if n in variables}, scope)
    with np.errstate(all="ignore"):
        run.operators()
    return scope


def _fetched(run: Interpreter, names: Iterable[str]) -> dict[str, Any]:
    return {name: own(run.fetch((run.env,), (0, name), None)) for name in names}


class _Perturbed(Interpreter):
    """A program whose operators give other results than they compute."""

    def __init__(self, program: Program, names: list[str], perturb: Callable[[Array], Array]) -> None:
        self.perturb = perturb
        super().__init__(program, names, RunOptions(max_iterations=ITERATIONS))

    def step(self, op: Operator, layout: Layout, freed: Collection[str]) -> Step:
        step = super().step(op, layout, freed)
        reads, writes = (
            [(name, depth(layout, name)) for name in dict.fromkeys(all_names) if name != EMPTY]
            for all_names in (op.input_names(), op.output_names())
        )

        def perturbing(frames: Frames) -> None:
            # Before the step, which may let go of the name.
            operands = [array for name, at in reads if isinstance(array := frames[at].get(name), np.ndarray) and array.dtype.kind == "f"]
            step(frames)
            for name, at in writes:
                result = frames[at].get(name)
                if isinstance(result, np.ndarray) and result.dtype.kind == "f":
                    passed_on = np.isin(result, np.concatenate([array.reshape(-1) for array in operands])) if operands else True
                    frames[at][name] = np.where(passed_on, result, self.perturb(result))

        return perturbing


# -- reused memory ---------------------------------------------------------------------------------


def is_marked(program: Program) -> bool:
    """Whether an operator of a program may compute into the memory of an input, as the pass ``in-place`` marks it."""
    return any(INPLACE in op.attrs for block in program.blocks for op in block.ops)


def run_reusing(program: Program, case: Case, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Run a program step by step, every marked operator into the memory of the input that its mark names.

    Returns:
        The values of the names, and what the scope then holds.

    Raises:
        Exception: the program does not run, or may not write there.
    """
    names = list(names)
    run = _Reusing(program, names, RunOptions(max_iterations=ITERATIONS))
    scope = _run_all(run, program, case)
    run.commit()
    return _fetched(run, names), dict(scope.arrays)


class _Reusing(Interpreter):
    """A program in which marked operators overwrite an input with their output."""

    def step(self, op: Operator, layout: Layout, freed: Collection[str]) -> Step:
        step = super().step(op, layout, freed)
        pairs = [mark.split(":") for mark in op.attrs.get(INPLACE, ())]
        names = [(op.output(out)[0], op.input(slot)[0]) for out, slot in pairs]
        places = [(out, depth(layout, out), x, depth(layout, x)) for out, x in names]
        return self._reusing(step, places) if places else step

    def _reusing(self, step: Step, places: list[tuple[str, Any, str, Any]]) -> Step:
        def reusing(frames: Frames) -> None:
            # Before the step, which may let go of the name.
            arrays = [frames[at].get(x) for _, _, x, at in places]
            step(frames)
            for (out, at, _, _), array in zip(places, arrays, strict=True):
                result = frames[at].get(out)
                if isinstance(array, np.ndarray) and isinstance(result, np.ndarray) and array is not result:
                    # A mark that pairs arrays of two types raises here.
                    np.copyto(array, result, casting="no")
                    frames[at][out] = array

        return reusing


def _places(values: Iterable[Value], layout: Layout) -> list[tuple[Value, Any]]:
    return [(value, depth(layout, value.name)) for value in dict.fromkeys(values) if value.name != EMPTY]
