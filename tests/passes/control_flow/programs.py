"""Shared parts of the tests of these passes: programs from text, their results before and after a pass, and random ones with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphad as ga
import graphad.passes.control_flow
from graphad.ir import Op
from graphad.ir.verify import verify
from graphad.testing import Case, Choices
from graphad.testing.cases import completed
from graphad.testing.nested import nested_program
from graphad.testing.optimizable import optimizable_program

Array = Any


def counted(body: str, n: str = "n", declared: str = "", inside: str = "", around: str = "h, w", out: str = "h") -> ga.Program:
    """A loop of a counter ``i`` up to ``n`` over a body that works on h and w."""
    return ga.Program.parse(f"""program {{
  block 0 {{
    var h: float64[2]
    param w: float64[2]
    var n: int64[1] stop_gradient
    var i: int64[1] stop_gradient
    var more: bool[1] stop_gradient
    var loss: float64[]
    {declared}
    fill_constant() -> (Out=i) {{shape=[1], value=0.0, dtype="int64"}}
    less_than(X=i, Y={n}) -> (Out=more)
    while(X=[{around}, {n}, i], Condition=more) -> (Out=[{out}, i, more]) {{sub_block=block(1)}}
    mean(X=h) -> (Out=loss)
  }}
  block 1 in 0 {{
    {inside}
    {body}
    increment(X=i) -> (Out=i)
    less_than(X=i, Y={n}) -> (Out=more)
  }}
}}""")


def values(program: ga.Program, names: list[str], **feed: Array) -> list[Array]:
    """The results of a program; the parameter w is fed, too."""
    scope = ga.Scope()
    given = {"h": np.array([0.5, -0.75]), **feed}
    scope.set("w", np.array([0.9, 1.2]))
    declared = program.global_block().vars
    results: list[Array] = ga.Executor().run(
        program, feed={name: value for name, value in given.items() if name in declared}, fetch_list=names, scope=scope
    )
    return results


def rewritten(program: ga.Program, pipeline: str, targets: list[str] | None = None) -> ga.Graph:
    """The graph of a program after passes, which has been verified."""
    graph = ga.lower(program, targets)
    ga.Pipeline.parse(pipeline).run(graph)
    verify(graph)
    return graph


def same(program: ga.Program, graph: ga.Graph, names: list[str], **feed: Array) -> bool:
    """Whether a graph computes what a program does, to the last bit."""
    pairs = zip(values(program, names, **feed), values(ga.schedule(graph), names, **feed), strict=True)
    return all(np.array_equal(one, other, equal_nan=True) for one, other in pairs)


def ops_of(graph: ga.Graph, type: str) -> list[Op]:
    """The operators of a type, in the graph and those nested in it."""
    return [op for each in graph.tree() for op in each.ops if op.type == type]


def with_gradients(names: list[str], program: ga.Program, loss: str = "loss") -> list[str]:
    """Append the gradients of a loss; return their names."""
    block = program.global_block()
    found = ga.gradients([block.var(loss)], [block.var(name) for name in names])
    return [var.name for var in found if var is not None]


def differentiated_program(choices: Choices) -> Case:
    """A random program to which its gradients have been appended."""
    case: Case = nested_program(choices) if choices.boolean() else optimizable_program(choices)
    block = case.program.global_block()
    ga.gradients([block.var(case.loss_name)], [block.var(name) for name in case.sources])
    completed(case.program)
    return case
