"""One case against one pass: whether everything holds that has to hold of a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np

from graphad.backward import gradients
from graphad.errors import GraphadError, InvalidGraph, PassError
from graphad.graph import SINGLE_WRITER, Graph, schedule
from graphad.knobs import KNOBS
from graphad.program import FORWARD, Program
from graphad.rewriting import Pass, claims_checked, verification
from graphad.testing.cases import Array, Case
from graphad.testing.equivalence import Observed, difference, observe, observed_difference
from graphad.testing.fitted import completed
from graphad.testing.subject import Subject
from graphad.testing.twin import Twin

EXACT, ROUNDED = 1e-9, 1e-4  # tolerances of gradients: all of it float64, or something narrower in it


@dataclass(frozen=True)
class Finding:
    """What is wrong with a pass: the kind (``values``, ``verifier``, ...), and the details."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{_SAID[self.kind]}: {self.text}"


_SAID = {
    "raises": "the pass raises",
    "verifier": "the graph behind the pass breaks a rule",
    "claims": "what the pass claims is not true",
    "changed": "the pass says it changed nothing, and did",
    "schedule": "the graph behind the pass cannot be written as a program",
    "text": "the text of the program behind the pass does not read back",
    "types": "the program behind the pass declares what its operators do not give",
    "values": "the results differ",
    "compiled": "the results differ when the program runs as functions over numpy",
    "deterministic": "the pass makes another program of the same one",
    "idempotent": "the pass says it is idempotent, but a second run changes the graph",
    "gradients": "the gradients differ",
}


@dataclass
class Trial:
    """A case being examined: the graph it becomes, the program behind the pass, and what the one before gave."""

    subject: Subject
    case: Case
    twin: Twin | None = None
    targets: list[str] = field(default_factory=list)
    before: Program = field(default_factory=Program)
    expected: Observed = field(default_factory=lambda: Observed({}, {}))
    graph: Graph = field(default_factory=Graph)
    after: Program | None = None

    @property
    def passes(self) -> Pass:
        return self.subject.passes(self.case)


def behind(subject: Subject, case: Case) -> Graph:
    """The graph of a case behind the pass, or as far as the pass got."""
    graph = subject.prepared(case, case.targets)
    with _quietly(), suppress(Exception):
        subject.passes(case).run(graph)
    return graph


def examine(subject: Subject, case: Case, twin: Twin | None = None, only: str = "", changes: list[bool] | None = None) -> Finding | None:
    """The first thing that is wrong with a pass on a case, None if nothing is.

    Args:
        subject: the pass.
        case: the program to run it on.
        twin: another process, to compare what the pass makes there.
        only: the kind of finding that is looked for; the others are not tried.
        changes: gets whether the pass says that it changed the graph.

    Raises:
        GraphadError: the case itself does not run.
    """
    trial = Trial(subject, case, twin, case.targets)
    with _quietly():
        trial.before = subject.before(case, trial.targets)
        trial.expected = observe(trial.before, case, trial.targets)
        trial.graph = subject.prepared(case, trial.targets)
        found = _applied(trial, [] if changes is None else changes)
        if found is not None or trial.after is None:
            return found
        same = str(trial.after) == str(trial.before)
        for kind, check in CHECKS.items():
            if only in ("", kind) and not (same and kind in OF_RESULTS) and (found := check(trial)) is not None:
                return found
    return None


def check_case(what: Pass | str, case: Case, prepare: str = "", tolerance: float | None = None) -> None:
    """Try a pass on one case; see ``check_pass``.

    Raises:
        AssertionError: something that has to hold of a pass does not.

    >>> from graphad.program import Program
    >>> program = Program.parse("program { block 0 { var y: float32[1] fill_constant() -> (Out=y) {shape=[1], value=2.0} } }")
    >>> check_case("find-op-path{targets=[y]}", Case(program))
    """
    with Twin() as twin:
        found = examine(Subject(what, prepare, tolerance), case, twin)
    if found is not None:
        raise AssertionError(str(found))


@contextmanager
def _quietly() -> Iterator[None]:
    """Within it, everything a pass claims is checked, and a pass that fails leaves no files."""
    folder, KNOBS.reproducers = KNOBS.reproducers, ""
    try:
        with verification(True), claims_checked():
            yield
    finally:
        KNOBS.reproducers = folder


# -- what is checked -----------------------------------------------------------------------------


def _applied(trial: Trial, changes: list[bool]) -> Finding | None:
    """Run the pass, and make the program behind it; None there if it cannot be one yet."""
    before = str(trial.graph)
    try:
        changed = trial.passes.run(trial.graph)
        changes.append(changed)
    except InvalidGraph as error:
        return Finding("verifier", str(error))
    except PassError as error:
        return Finding("claims", str(error))
    except Exception as error:
        return Finding("raises", f"{type(error).__name__}: {error}")
    if not changed and str(trial.graph) != before:
        return Finding("changed", "")
    if SINGLE_WRITER not in trial.graph.properties:
        return None
    try:
        trial.after = schedule(trial.graph)
    except Exception as error:
        return Finding("schedule", f"{type(error).__name__}: {error}")
    return None


def _readable(trial: Trial) -> Finding | None:
    """The program's text reads back as the same program."""
    text = str(trial.after)
    try:
        again = str(Program.parse(text))
    except Exception as error:
        return Finding("text", f"{type(error).__name__}: {error}")
    return None if again == text else Finding("text", f"written\n{text}read\n{again}")


def _typed(trial: Trial) -> Finding | None:
    """What is declared is what the operators give."""
    assert trial.after is not None
    try:
        completed(trial.after)
    except GraphadError as error:
        return Finding("types", str(error))
    return None


def _values(trial: Trial, compiled: bool = False) -> Finding | None:
    assert trial.after is not None
    kind = "compiled" if compiled else "values"
    try:
        got = observe(trial.after, trial.case, list(trial.expected.values), compiled)
    except Exception as error:
        return Finding(kind, f"behind the pass the program does not run: {type(error).__name__}: {error}")
    text = observed_difference(trial.expected, got, trial.subject.allowed(trial.case))
    return Finding(kind, text) if text else None


def _compiled(trial: Trial) -> Finding | None:
    """Blocks as functions; skipped where the program before does not give the same bits that way."""
    plain = observe(trial.before, trial.case, list(trial.expected.values), compiled=True)
    return None if observed_difference(trial.expected, plain) else _values(trial, compiled=True)


def _deterministic(trial: Trial) -> Finding | None:
    """Once more here, where everything lies elsewhere in memory, and in a process whose strings have other hashes."""
    text = str(trial.after)
    again = trial.subject.prepared(trial.case, trial.targets)
    trial.passes.run(again)
    texts = [str(schedule(again))]
    if trial.twin is not None and text != str(trial.before):
        texts += trial.twin.text(trial.subject, trial.case, trial.targets)
    other = next((each for each in texts if each != text), None)
    return None if other is None else Finding("deterministic", f"first\n{text}then\n{other}")


def _idempotent(trial: Trial) -> Finding | None:
    if not getattr(trial.passes, "idempotent", False):
        return None
    text = str(trial.graph)
    changed = trial.passes.run(trial.graph)
    if not changed and str(trial.graph) == text:
        return None
    return Finding("idempotent", "it says so itself" if str(trial.graph) == text else f"it is now\n{trial.graph}")


def _gradients(trial: Trial) -> Finding | None:
    """Gradients of the loss behind the pass are those before it, where all of those are finite."""
    case, after = trial.case, trial.after
    wanted = [name for name in case.sources if after is not None and case.loss_name]
    if after is None or not wanted or not trial.subject.gradients or not (_is_forward(trial.before) and _is_forward(after)):
        return None
    try:
        expected = gradient_values(trial.before, case, wanted)
    except GraphadError:
        return None
    if not all(np.isfinite(array).all() for array in expected.values()):
        return None
    try:
        got = gradient_values(after, case, wanted)
    except Exception as error:
        return Finding("gradients", f"behind the pass there is none: {type(error).__name__}: {error}")
    tolerance = max(EXACT if _is_double(trial.before) else ROUNDED, trial.subject.allowed(case))
    for name, array in expected.items():
        if text := difference(array, got[name], tolerance):
            return Finding("gradients", f"of {name}: {text}")
    return None


CHECKS: dict[str, Callable[[Trial], Finding | None]] = {
    "text": _readable,
    "types": _typed,
    "values": _values,
    "idempotent": _idempotent,
    "deterministic": _deterministic,
    "gradients": _gradients,
    "compiled": _compiled,
}


OF_RESULTS = ("text", "types", "values", "gradients", "compiled")  # these hold where the pass left the program as it was


def gradient_values(program: Program, case: Case, sources: list[str]) -> dict[str, Array]:
    """The gradients of the loss with respect to some names, zeros where there is none; the program stays as it is."""
    twin = program.clone()
    block, arrays = twin.global_block(), {**case.feeds, **case.params}
    given = Case(program, case.loss_name, case.feeds, case.params).sources
    there = [name for name in sources if block.has_var(name) and name in given]
    found = gradients([block.var(case.loss_name)], [block.var(name) for name in there])
    names = {source: g.name for source, g in zip(there, found, strict=True) if g is not None}
    values = observe(twin, case, list(names.values())).values
    return {name: values[names[name]] if name in names else np.zeros_like(arrays[name]) for name in sources}


def _is_forward(program: Program) -> bool:
    return all(op.role == FORWARD for block in program.blocks for op in block.ops)


def _is_double(program: Program) -> bool:
    return not any(var.dtype in ("float16", "bfloat16", "float32") for var in program.list_vars() if var.type == "LOD_TENSOR")
