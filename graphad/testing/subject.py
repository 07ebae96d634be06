"""What is tried out: a pass or a pipeline, what runs before it, what it is compared with, and how exact it has to be."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from graphad.errors import InvalidValue, NoGradient, PassError, Refused
from graphad.graph import SINGLE_WRITER, Graph, lower, schedule
from graphad.graph.verify import verify
from graphad.passes import AccumulateGrads, CreateGradOps, CreateGradVars, ExpandGradOps, FindOpPath, PruneNoGrad
from graphad.passes.backward import GradOps
from graphad.program import Program
from graphad.rewriting import PASSES, Pass, Pipeline, claims_checked, verification
from graphad.rewriting.running import check_order
from graphad.testing.cases import Case
from graphad.testing.derivatives import gradients_in, is_forward, roundings
from graphad.types import TENSOR

LOSS = "$loss"  # in the text of a pipeline: the name of the case's loss
_PATH = f"find-op-path{{targets=[{LOSS}]}}"
BACKWARD = (_PATH, "expand-grad-ops", _PATH, "create-grad-ops", "prune-no-grad", "accumulate-grads", "create-grad-vars")
_FINISHING: tuple[Pass, ...] = (PruneNoGrad(), AccumulateGrads(), CreateGradVars())
Expectation = Callable[[Program, Program], Any]


@dataclass(frozen=True)
class Subject:
    """A pass on trial.

    Args:
        what: a pass, or the text of a pipeline, in which ``$loss`` stands for the name of the loss.
        prepare: a pipeline, or its text, that runs before it and is not on trial.
        tolerance: by how much values may differ, relatively; None: as the pass says.
        gradients: whether gradients of what it makes are compared.
        reference: a pipeline, or its text, that makes of the same graph what ``what`` should be equivalent to; None: nothing runs.
        expect: what has to hold of the programs before and after besides; False, or an exception, says that it does not.
    """

    what: Pass | str
    prepare: Pass | str = ""
    tolerance: float | None = None
    gradients: bool = True
    reference: Pass | str | None = None
    expect: Expectation | None = None

    def passes(self, case: Case) -> Pass:
        """The pass on trial, for a case."""
        return as_pass(self.what, case.loss_name)

    def prepared(self, case: Case) -> Graph:
        """The graph of a case that the pass gets; gradients that the preparation makes are among its targets.

        Raises:
            InvalidGraph: the preparation leaves a graph that breaks a rule.
        """
        graph = lower(case.program, case.targets)
        if self.prepare:
            with verification(False), claims_checked(False):
                as_pass(self.prepare, case.loss_name).run(graph)
            verify(graph)
            request_gradients(graph, case)
        return graph

    def resolved(self, case: Case) -> Subject:
        """The same for one case, with passes in the place of texts, and nothing that runs only here."""
        prepare = as_pass(self.prepare, case.loss_name) if self.prepare else ""
        return replace(self, what=self.passes(case), prepare=prepare, expect=None, reference=None)

    def before(self, case: Case, prepared: Graph) -> Program:
        """The program that the pass gets, or the reference makes; if that cannot be run yet, the case's own."""
        if self.reference is not None:
            return program_of(self.referred(case), case)
        return schedule(prepared) if self.prepare and SINGLE_WRITER in prepared.properties else case.program

    def referred(self, case: Case) -> Graph:
        """The graph that the reference makes."""
        assert self.reference is not None
        graph = self.prepared(case)
        run_requesting_gradients(as_pass(self.reference, case.loss_name), graph, case)
        return graph

    def names_variables(self, case: Case) -> bool:
        """Whether names of a case's variables mean something to the passes: to their options, beside ``$loss``, or always."""
        if any(each.on_trial.goes_by_names for each in inner_passes(self.passes(case))):
            return True
        options = f"{self.what} {self.prepare}"
        words = set(re.findall(r"[^\s,{}()=\[\]'\"]+", options.replace(LOSS, "")))
        return any(name in words for block in case.program.blocks for name in block.vars)

    def check_fits(self, case: Case) -> None:
        """Raise ValueError if the passes need what a case has not: a loss where a text names it, types where gradients get them."""
        if not case.loss_name and any(isinstance(text, str) and LOSS in text for text in (self.what, self.prepare, self.reference)):
            raise InvalidValue(f"{self} needs a loss")
        if self.is_backward and any(var.type == TENSOR and var.declared[1] is None for var in case.program.list_vars()):
            raise InvalidValue("a tensor of the program has no type, so that its gradient can have none")

    def allowed(self, case: Case, is_prepared: bool = True) -> float:
        """The tolerance: the largest one that the passes need, if none is given; what may round rounds more in float32.

        Where a program has no gradients yet, there is nothing that expanding them could round.

        Args:
            case: its passes, and the narrowest of its dtypes.
            is_prepared: whether results are compared with those of the prepared program; else what prepares it may round as well.
        """
        if self.tolerance is not None:
            return self.tolerance
        others = [] if self.reference is None else [self.reference]
        others += [self.prepare] if self.prepare and not is_prepared else []
        passes = [self.passes(case), *(as_pass(other, case.loss_name) for other in others)]
        found = [each for one in passes for each in inner_passes(one) if not (isinstance(each, ExpandGradOps) and is_forward(case.program))]
        claimed = max((each.tolerance for each in found), default=0.0)
        return max(claimed, roundings(case.program)) if claimed else claimed

    @property
    def is_analysis(self) -> bool:
        """Whether no pass on trial is meant to change graphs."""
        return all(each.is_analysis for each in inner_passes(as_pass(self.what, "loss")))

    @cached_property
    def is_backward(self) -> bool:
        """Whether a backward is built, by the passes on trial or before them."""
        passes = [each for what in (self.prepare, self.what) if what for each in inner_passes(as_pass(what, "loss"))]
        return any(isinstance(each, FindOpPath) for each in passes)

    @cached_property
    def is_after_backward(self) -> bool:
        """Whether the backward is there before the passes on trial run."""
        return bool(self.prepare) and any(isinstance(each, CreateGradOps) for each in inner_passes(as_pass(self.prepare, "loss")))

    def differentiates(self, case: Case) -> bool:
        """Whether the passes build the whole backward of the case's loss: no input chosen, none left out."""
        passes = [each for what in (self.prepare, self.what) if what for each in inner_passes(as_pass(what, case.loss_name))]
        paths = {(each.targets, each.inputs, each.no_grad) for each in passes if isinstance(each, FindOpPath)}
        return paths == {((case.loss_name,), (), ())} and any(isinstance(each, CreateGradOps) for each in passes)

    def __str__(self) -> str:
        against = "" if self.reference is None else f", compared with {self.reference or 'nothing'}"
        return str(self.what) + (f" after {self.prepare}" if self.prepare else "") + against


def as_pass(what: Pass | str, loss: str) -> Pass:
    """A pass, or what a text says, with the loss's name put in."""
    return what if isinstance(what, Pass) else _parsed(what.replace(LOSS, loss), tuple(PASSES.values()))


@lru_cache
def _parsed(text: str, known: tuple[type[Pass], ...]) -> Pass:
    """The passes of a text; ``known`` are those there are, since a pass that is defined anew is another one."""
    pipeline = Pipeline.parse(text)
    return pipeline.passes[0] if len(pipeline.passes) == 1 else pipeline


def inner_passes(each: Any) -> list[Pass]:
    """The passes that a pass runs: those of a pipeline or a fixpoint, or itself."""
    inner = getattr(each, "passes", None) or getattr(getattr(each, "inner", None), "passes", None)
    return [each] if inner is None else [found for one in inner for found in inner_passes(one)]


def claimed_tolerance(each: Pass) -> float:
    """The largest tolerance that a pass, or one that it runs, needs."""
    return max(found.tolerance for found in inner_passes(each))


# -- passes of the backward ----------------------------------------------------------------------


def followed(what: Pass | str) -> Pass | str:
    """A pass with those after it that let what it does show; others, and pipelines, as they are."""
    following = as_pass(what, "loss").on_trial.followed_by
    if not following:
        return what
    return f"{what}, {following}" if isinstance(what, str) else Pipeline(what, Pipeline.parse(following))


def standard_preparation(what: Pass | str) -> str:
    """The passes of the standard backward that have to run before a pass, as text; empty if it works on a program as it is.

    That is what the pass requires, or all of them if it says that it is tried after the backward.

    >>> standard_preparation("create-grad-ops")
    'find-op-path{targets=[$loss]}, expand-grad-ops, find-op-path{targets=[$loss]}'
    """
    passes = as_pass(what, "loss").parts()
    if passes and passes[0].on_trial.after_backward:
        return ", ".join(BACKWARD)
    names = [text.partition("{")[0] for text in BACKWARD]
    first = passes[0].name
    shortest = names.index(first) if first in names else 0
    for count in range(shortest, len(BACKWARD) + 1):
        before = Pipeline.parse(", ".join(BACKWARD[:count])).parts() if count else ()
        try:
            check_order((*before, *passes), Graph())
        except PassError:
            continue
        return ", ".join(BACKWARD[:count])
    return ""


class HiddenChange(AssertionError):
    """A pass changed a graph and said that it did not."""


class RefusedLate(AssertionError):
    """A pass refused a graph, for the reason that is the cause, when it had changed it already."""


def run_requesting_gradients(passes: Pass, graph: Graph, case: Case, watched: bool = False) -> bool:
    """Run passes; gradients that they make are among the graph's targets as soon as they are complete.

    Raises:
        HiddenChange: a pass said that it changed nothing, and did, where that is ``watched``.
        RefusedLate: a pass refused the graph, and had changed it, where that is ``watched``.
    """
    parts = passes.passes if type(passes) is Pipeline else (passes,)
    if len(parts) > 1:
        check_order(parts, graph)
    changed = False
    for part in parts:
        before = str(graph) if watched else ""
        try:
            did = part.run(graph)
        except (Refused, NoGradient) as error:
            if before and str(graph) != before:
                raise RefusedLate from error
            raise
        if not did and before and str(graph) != before:
            raise HiddenChange(str(part))
        changed |= did
        request_gradients(graph, case)
    return changed


def request_gradients(graph: Graph, case: Case) -> dict[str, str]:
    """Make the gradients that a graph has of the case's sources targets of it, and return their names by the sources'.

    A target keeps its name: what was found once is found by that, although a pass since then forgot which value it is.
    """
    if SINGLE_WRITER not in graph.properties or not case.loss_name:
        return {}
    known: dict[str, str] = graph.journal.memory.setdefault(request_gradients, {})
    gradients = gradients_in(graph, case.sources)
    graph.targets.update(dict.fromkeys(gradients.values()))
    known.update({source: value.name for source, value in gradients.items()})
    return {source: name for source, name in known.items() if graph.versions(name)}


def scheduled(graph: Graph, case: Case) -> Program | None:
    """The program that a graph is, its backward completed where it is incomplete; None if it cannot be one."""
    if not finished(graph):
        return None
    request_gradients(graph, case)
    return schedule(graph)


def program_of(graph: Graph, case: Case) -> Program:
    """The program that a graph is, or if it cannot be one yet, the case's own."""
    return schedule(graph) if finished(graph) else case.program


def finished(graph: Graph) -> bool:
    """Whether a graph is one that can be scheduled; where the standard passes can complete its backward, they do it here."""
    if SINGLE_WRITER not in graph.properties and GradOps in graph.analyses:
        ran = {type(each) for each in graph.journal.history}
        for each in _FINISHING:
            if type(each) not in ran:
                each.run(graph)
    return SINGLE_WRITER in graph.properties
