"""``check_pass``: a pass against many random programs; the first on which it is wrong is made small and shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from graphad.program import Program
from graphad.rewriting import Pass, PatternRule, Pipeline, rules_of
from graphad.testing.cases import Case
from graphad.testing.counterexample import Counterexample
from graphad.testing.examine import Finding, behind, examine
from graphad.testing.smallest import smallest
from graphad.testing.strategies import nested_programs, optimizable_programs, planted_programs, straight_line_programs, training_programs
from graphad.testing.subject import LOSS, Subject, inner_passes
from graphad.testing.twin import Twin


def any_programs() -> SearchStrategy[Case]:
    """Programs of every kind, mostly such as give passes something to do."""
    return st.one_of(*[optimizable_programs()] * 7, straight_line_programs(), nested_programs(), training_programs())


def programs_for(what: Pass | str) -> SearchStrategy[Case]:
    """Programs of every kind; every second one has something in it that a rule of the pass looks for, if it has rules."""
    passes = inner_passes(what if isinstance(what, Pass) else Pipeline.parse(what.replace(LOSS, "loss")))
    rules = [rule for each in passes for rule in rules_of(each) if isinstance(rule, PatternRule)]
    return any_programs() | planted_programs(rules) if rules else any_programs()


@dataclass
class Checked:
    """What a check that found nothing has done: programs tried, and how many of them the pass changed."""

    examples: int = 0
    changed: int = 0


@dataclass
class _Search:
    subject: Subject
    twin: Twin
    checked: Checked = field(default_factory=Checked)
    found: tuple[Case, Finding] | None = None

    def try_one(self, drawn: Case) -> None:
        """Remember what is wrong on a program, and fail."""
        case = Case(Program.parse(str(drawn.program)), drawn.loss_name, drawn.feeds, drawn.params)
        changes: list[bool] = []
        finding = examine(self.subject, case, self.twin, changes=changes)
        self.checked.examples += 1
        self.checked.changed += any(changes)
        if finding is not None:
            self.found = case, finding
            raise _Found(finding.kind)


class _Found(Exception):
    """What hypothesis stops at."""


def check_pass(
    what: Pass | str,
    examples: int = 100,
    strategy: SearchStrategy[Case] | None = None,
    tolerance: float | None = None,
    gradients: bool = True,
    seed: int = 0,
    prepare: str = "",
    folder: Path | None = None,
) -> Checked:
    """Try a pass on random programs.

    On each: the verifier holds behind it; targets and persistable variables are what they were, step by step and compiled;
    gradients are what they were; a second run changes nothing if the pass says so; it makes the same program again, also in a
    process with other string hashes; it says truly whether it changed anything, and what it preserves.

    Args:
        what: a pass, or a pipeline, or the text of one, in which ``$loss`` stands for the name of the loss.
        examples: how many programs.
        strategy: where they come from; None: ``programs_for(what)``.
        tolerance: by how much values may differ, relatively; None: as the pass says, 0: not in the last bit.
        gradients: whether to compare gradients: before 1e-9, relatively, where all is float64.
        seed: the same programs for the same seed.
        prepare: the text of a pipeline that makes what the pass requires.
        folder: where to draw the counterexample; None: a temporary folder.

    Raises:
        Counterexample: the pass is wrong; the program it is shown on was made as small as possible.

    >>> check_pass("find-op-path{targets=[$loss]}", examples=3)
    Checked(examples=3, changed=0)
    """
    with Twin() as twin:
        search = _Search(Subject(what, prepare, tolerance, gradients), twin)
        _look(search, programs_for(what) if strategy is None else strategy, examples, seed)
        if search.found is None:
            return search.checked
        case, finding = smallest(search.subject, *search.found, twin)
    raise Counterexample(search.subject, finding, case, behind(search.subject, case), folder, search.checked.examples)


def _look(search: _Search, strategy: SearchStrategy[Case], examples: int, seed: int) -> None:
    """Draw programs until something is found; shrinking is done on programs, not on what they were drawn from."""
    options: Any = {
        "max_examples": examples,
        "database": None,
        "deadline": None,
        "derandomize": False,
        "phases": (Phase.generate,),
        "suppress_health_check": list(HealthCheck),
        "verbosity": Verbosity.quiet,
        "print_blob": False,
        "report_multiple_bugs": False,
    }

    @hypothesis.seed(seed)
    @settings(**options)
    @given(strategy)
    def try_one(case: Case) -> None:
        search.try_one(case)

    run: Callable[[], None] = try_one
    try:
        run()
    except Exception:
        if search.found is None:
            raise
