"""One case against one pass: whether everything holds that has to hold of a pass."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress

import numpy as np

from graphad.errors import GraphadError, InvalidGraph, NoGradient, PassError, Refused
from graphad.graph import Graph, schedule
from graphad.graph.verify import verify
from graphad.rewriting import Pass
from graphad.rewriting.running import take_as_verified
from graphad.testing.cases import Case
from graphad.testing.checks import CHECKS, OF_RESULTS
from graphad.testing.reach import Arc, Reach
from graphad.testing.subject import HiddenChange, RefusedLate, Subject, finished, program_of, request_gradients, run_requesting_gradients
from graphad.testing.trial import Finding, Trial, Unfit, quietly

ALL = frozenset({"changed", "standard", *CHECKS})


def after_pass(subject: Subject, case: Case) -> Graph:
    """The graph of a case after the pass, or as far as the pass got."""
    with quietly():
        graph = subject.prepared(case)
        with suppress(Exception):
            run_requesting_gradients(subject.passes(case), graph, case)
    return graph


def examine(
    subject: Subject, case: Case, checks: Collection[str] = ALL, reach: Reach | None = None, arcs: set[Arc] | None = None
) -> Finding | None:
    """The first thing that is wrong with a pass on a case, None if nothing is; see ``tried``.

    Raises:
        Unfit: the case itself does not run, or what prepares it refuses it.
    """
    return tried(subject, case, checks, reach, arcs)[1]


def tried(
    subject: Subject, case: Case, checks: Collection[str] = ALL, reach: Reach | None = None, arcs: set[Arc] | None = None
) -> tuple[Trial, Finding | None]:
    """Try a pass on a case: the trial, and the first thing that is wrong.

    Args:
        subject: the pass.
        case: the program to run it on.
        checks: the names of the checks to make, of those in ``CHECKS``; that the pass runs and leaves a valid graph is always checked.
        reach: notes which lines of the pass run.
        arcs: gets what is new to ``reach``.

    Raises:
        Unfit: the case itself does not run, or what prepares it refuses it.
    """
    trial = Trial(subject, case, is_thorough="standard" in checks, random=np.random.default_rng(len(case.feeds) + 7))
    with quietly():
        try:
            subject.check_fits(case)
            trial.graph = subject.prepared(case)
            if subject.reference is None:
                trial.before = subject.before(case, trial.graph)
            else:
                referred = subject.referred(case)
                trial.before, trial.referred = program_of(referred, case), [value.name for value in referred.targets]
        except (GraphadError, ArithmeticError) as error:
            raise Unfit(str(error)) from error
        finding = _applied(trial, checks, Reach() if reach is None else reach, set() if arcs is None else arcs)
        if finding is not None or trial.after is None:
            return trial, finding
        unchanged = not trial.changed and str(trial.after) == str(trial.before)
        for kind, check in CHECKS.items():
            skipped = kind not in checks or (unchanged and kind in OF_RESULTS) or (unchanged and kind == "gradients" and not trial.made)
            if not skipped and (finding := check(trial)) is not None:
                return trial, finding
    return trial, None


def check_case(
    what: Pass | str, case: Case, prepare: str = "", tolerance: float | None = None, reference: Pass | str | None = None
) -> None:
    """Try a pass on one case; see ``check_pass``.

    Raises:
        AssertionError: something that has to hold of a pass does not.

    >>> from graphad.program import Program
    >>> program = Program.parse("program { block 0 { var y: float32[1] fill_constant() -> (Out=y) {shape=[1], value=2.0} } }")
    >>> check_case("find-op-path{targets=[y]}", Case(program))
    """
    finding = examine(Subject(what, prepare, tolerance, reference=reference), case)
    if finding is not None:
        raise AssertionError(str(finding))


def _applied(trial: Trial, checks: Collection[str], reach: Reach, arcs: set[Arc]) -> Finding | None:
    """Run the pass, and make the program after it; None there if it cannot be one yet."""
    case, graph = trial.case, trial.graph
    take_as_verified(graph)  # one that is not valid is looked for when something is wrong
    try:
        with reach.traced() as new:
            trial.changed = run_requesting_gradients(trial.passes, graph, case, watched="changed" in checks)
        arcs |= new
    except (Refused, NoGradient) as error:
        raise Unfit(str(error)) from error
    except RefusedLate as late:
        return Finding("refused", str(late.__cause__), _mark(late.__cause__))
    except HiddenChange as error:
        return Finding("changed", str(error))
    except InvalidGraph as error:
        _verify_given(trial)
        return Finding("verifier", str(error), _mark(error))
    except PassError as error:
        return Finding("claims", str(error), _mark(error))
    except Exception as error:
        return Finding("raises", f"{type(error).__name__}: {error}", _mark(error))
    try:
        if not finished(graph):
            return None
        trial.made = request_gradients(graph, case)
        trial.after = schedule(graph)
    except Exception as error:
        return Finding("schedule", f"{type(error).__name__}: {error}", _mark(error))
    return None


def _verify_given(trial: Trial) -> None:
    """Raise Unfit if the graph was not valid before the pass."""
    try:
        verify(trial.subject.prepared(trial.case))
    except InvalidGraph as error:
        raise Unfit(str(error)) from error


_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[\w@.#]*\d[\w@.#]*")


def _mark(error: BaseException | None) -> str:
    """The kind of an error and its message without names and numbers, which change as the program gets smaller."""
    return f"{type(error).__name__}: {_NAMES.sub('', str(error).splitlines()[0] if str(error) else '')}"
