"""Which lines of a pass's own code ran: the same, although the tracer waits outside where none of that code can run."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import pytest

from graphad.ir import Graph, Op
from graphad.rewriting import Analysis, Pass, Rule, RuleSet, rewrite_greedily
from graphad.testing import reach
from graphad.testing.cases import RandomChoices
from graphad.testing.checks import examine
from graphad.testing.programs import any_program
from graphad.testing.reach import Arc, Reach
from graphad.testing.trial import Subject, Unfit, as_pass, inner_passes, standard_preparation
from tests.scratch import passes

PASSES = ("simplify", "cse", "fold-branches", "hoist-invariants", "recompute", "jvp{targets=[$loss]}", "constant-folding, dead-code")


@dataclass(frozen=True)
class Tanhs(Analysis):
    """How many there are."""

    count: int

    @classmethod
    def compute(cls, graph: Graph) -> Self:
        return cls(sum(op.type == "tanh" for op in graph.ops))


class Never(Rule):
    """Looks at every operator."""

    name = "never"

    def rewrite(self, op: Op) -> bool:
        return op.type == ""


with passes():

    @dataclass(frozen=True)
    class LooksByOthers(Pass):
        """All of its own that runs is called by the library."""

        name = "looks-by-others"

        def apply(self, graph: Graph) -> bool:
            return rewrite_greedily(graph, RuleSet(Never()), self) or Tanhs.of(graph).count < 0


def arcs_of(what: Pass | str, count: int = 8) -> set[Arc]:
    """The arcs of a pass that ran on some programs."""
    reach = Reach.of(inner_passes(as_pass(what, "loss")))
    for number in range(count):
        with suppress(Unfit):
            examine(Subject(what, standard_preparation(what)), any_program(RandomChoices(f"reach {number}")), (), reach)
    return reach.arcs


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger, or a coverage tool, is at work, and check_pass does not trace")
@pytest.mark.parametrize("what", [*PASSES, LooksByOthers()], ids=str)
def test_the_same_lines_run_where_the_tracer_is_never_off(what: Pass | str, monkeypatch: pytest.MonkeyPatch) -> None:
    arcs_of(what, count=1)  # what is made once is made
    arcs = arcs_of(what)
    monkeypatch.setattr(reach, "MODULES", "what nothing looks for")
    assert arcs
    assert arcs == arcs_of(what)


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger, or a coverage tool, is at work, and check_pass does not trace")
def test_rules_and_analyses_of_the_passs_own_module_are_traced() -> None:
    names = {code.co_qualname: number for number, (code, _) in Reach.of([LooksByOthers()]).codes.items()}
    ran = {code for code, _, _ in arcs_of(LooksByOthers(), count=2)}
    assert ran == {names[name] for name in ("LooksByOthers.apply", "Never.rewrite", "Tanhs.compute", "Tanhs.compute.<locals>.<genexpr>")}
