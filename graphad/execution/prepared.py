"""A program prepared to run many times: the interpreter's steps of it, and the functions that it was compiled to."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from graphad.execution.interpreter import AS_USUAL, Interpreter, RunOptions
from graphad.execution.names import Layout, Step, controls
from graphad.execution.parallel import Threads
from graphad.execution.profiling import Costs, Profile
from graphad.ir import lower, schedule
from graphad.ops import LoopDef
from graphad.program import Operator, Program, in_own_form
from graphad.program.snapshot import Snapshot

if TYPE_CHECKING:  # rewriting is only imported by executors that run passes
    from graphad.rewriting import Pipeline


class Prepared(Interpreter):
    """A program as an executor keeps it. One that ``lasts`` remembers what the program was like, so that it is run again only as that."""

    def __init__(
        self,
        program: Program,
        fetched: Collection[str],
        options: RunOptions = AS_USUAL,
        *,
        lasts: bool = True,
        profile: Profile | None = None,
        passes: Pipeline | None = None,
        threads: Threads | None = None,
        numba: bool = False,
    ) -> None:
        self.snapshot = Snapshot(program) if lasts else None
        rewritten = program if passes is None else _rewritten(in_own_form(program), passes, fetched)
        super().__init__(rewritten, fetched, options)
        self.written = program
        self.profile, self.threads, self.numba = profile, threads, numba
        self.costs: dict[int, Costs] = {}  # of its operators, by the size of the batch
        self.functions: dict[tuple[Any, ...], Any] = {}  # compiled, by the types that they are for
        self.last: tuple[tuple[str, ...], Any] | None = None  # what was fetched last, and the function that did it
        self.runs = 0
        self.has_loops = any(isinstance(definition, LoopDef) for _, definition in controls(self.block.program))

    def is_up_to_date(self) -> bool:
        """Whether the program is still as it was prepared. One that runs by a function again and again is watched."""
        return self.snapshot is not None and self.snapshot.is_current(watching=self.last is not None)

    def step(self, op: Operator, layout: Layout, freed: Collection[str]) -> Step:
        """The step of an operator, whose time is noted if there is a profile."""
        step = super().step(op, layout, freed)
        return step if self.profile is None else self.profile.timed(op, step)


def _rewritten(program: Program, passes: Pipeline, fetched: Collection[str]) -> Program:
    """A copy of a program after a pipeline, which leaves what is fetched and what outlives a run; the program is as it was."""
    block = program.global_block()
    written_names = {name for inner in program.blocks for op in inner.ops for name in op.output_names()}
    graph = lower(program, sorted(name for name in fetched if name in block.vars and name in written_names))
    passes.run(graph)
    return schedule(graph)
