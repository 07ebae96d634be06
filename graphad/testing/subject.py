"""What is tried out: a pass or a pipeline, what runs before it, and how exact it has to be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from graphad.graph import SINGLE_WRITER, Graph, lower, schedule
from graphad.program import Program
from graphad.rewriting import Pass, Pipeline
from graphad.testing.cases import Case

LOSS = "$loss"  # in the text of a pipeline: the name of the case's loss


@dataclass(frozen=True)
class Subject:
    """A pass on trial.

    Args:
        what: a pass, or the text of a pipeline, in which ``$loss`` stands for the name of the loss.
        prepare: a pipeline, or its text, that runs before it and is not on trial.
        tolerance: by how much values may differ, relatively; None: as the pass says.
        gradients: whether gradients of what it makes are compared.
    """

    what: Pass | str
    prepare: Pass | str = ""
    tolerance: float | None = None
    gradients: bool = True

    def passes(self, case: Case) -> Pass:
        """The pass on trial, for a case."""
        return _pass(self.what, case)

    def prepared(self, case: Case, targets: list[str]) -> Graph:
        """The graph of a case that the pass gets."""
        graph = lower(case.program, targets)
        if self.prepare:
            _pass(self.prepare, case).run(graph)
        return graph

    def resolved(self, case: Case) -> Subject:
        """The same for one case, with passes in the place of texts."""
        return replace(self, what=self.passes(case), prepare=_pass(self.prepare, case) if self.prepare else "")

    def before(self, case: Case, targets: list[str]) -> Program:
        """The program that the pass gets, or if that cannot be run yet, the case's own."""
        if not self.prepare:
            return case.program
        graph = self.prepared(case, targets)
        return schedule(graph) if SINGLE_WRITER in graph.properties else case.program

    def allowed(self, case: Case) -> float:
        """The tolerance: the largest one that the passes ask for, if none is given."""
        return claimed_tolerance(self.passes(case)) if self.tolerance is None else self.tolerance

    def __str__(self) -> str:
        return str(self.what) + (f" behind {self.prepare}" if self.prepare else "")


def _pass(given: Pass | str, case: Case) -> Pass:
    if isinstance(given, Pass):
        return given
    pipeline = Pipeline.parse(given.replace(LOSS, case.loss_name))
    return pipeline.passes[0] if len(pipeline.passes) == 1 else pipeline


def inner_passes(each: Any) -> list[Pass]:
    """The passes that a pass runs: those of a pipeline or a fixpoint, or itself."""
    inner = getattr(each, "passes", None) or getattr(getattr(each, "inner", None), "passes", None)
    return [each] if inner is None else [found for one in inner for found in inner_passes(one)]


def claimed_tolerance(each: Pass) -> float:
    """The largest tolerance that a pass, or one that it runs, asks for."""
    return max(found.tolerance for found in inner_passes(each))
