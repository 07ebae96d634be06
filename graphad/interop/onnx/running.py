"""Running a model: a copy of its program in which what follows from its weights alone is computed once.

    transpose(w) -> v;  matmul_v2(x, v);  conv2d(x, f), batch_norm        ⇒        matmul_v2(x, v@KNOWN);  conv2d(x, f * k) + b

The model's own program keeps its weights as they were shipped, so that gradients and passes see them; only ``run`` computes with the copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphad.errors import GraphadError
from graphad.execution import Executor, Scope
from graphad.freezing import with_known_values
from graphad.program import Program
from graphad.program.snapshot import Snapshot
from graphad.types import Array


def prepared(
    program: Program, feeds: Sequence[str], fetches: Sequence[str], parameters: Mapping[str, Array]
) -> tuple[Program, dict[str, Array]]:
    """A program that gives the same outputs, up to rounding, and the values of its parameters.

    The program itself where the passes refuse it.
    """
    try:
        copy, values = with_known_values(program, fetches, parameters)
    except GraphadError:
        return program, dict(parameters)
    for name in feeds:  # also those that nothing reads
        if not copy.global_block().has_var(name):
            shape, dtype = program.global_block().var(name).declared
            copy.global_block().create_var(name=name, shape=shape, dtype=dtype)
    return copy, values


class Running:
    """A model prepared to run, valid as long as its program does not change."""

    def __init__(self, program: Program, feeds: Sequence[str], fetches: Sequence[str], parameters: Mapping[str, Array]) -> None:
        self.snapshot, self.fetches = Snapshot(program), list(fetches)
        self.program, values = prepared(program, feeds, fetches, parameters)
        self.executor, self.scope = Executor(), scope_of(values)

    def run(self, feeds: Mapping[str, object], executor: Executor | None = None) -> list[Array]:
        return (executor or self.executor).run(self.program, feed=dict(feeds), fetch_list=self.fetches, scope=self.scope)


def scope_of(parameters: Mapping[str, Array]) -> Scope:
    """A new scope with the values of parameters."""
    scope = Scope()
    for name, array in parameters.items():
        scope.set(name, array)
    return scope
