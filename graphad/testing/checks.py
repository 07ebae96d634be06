"""What has to hold of a pass on a case, one check each; ``CHECKS`` lists them in the order in which they are tried."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from graphad.errors import GraphadError
from graphad.program import Program
from graphad.testing.cases import Array
from graphad.testing.derivatives import can_difference, frozen, gradient_values, is_forward, is_in_range, roundings, slope
from graphad.testing.equivalence import LEAST, Observed, bounded_executor, difference, observe, observed_difference
from graphad.testing.fitted import completed
from graphad.testing.naming import free_prefix, renamed_case, restored
from graphad.testing.subject import run_requesting_gradients, scheduled
from graphad.testing.trial import Finding, Trial

EXACT = 1e-9  # tolerance of gradients where all is float64
UNSTABLE = 10  # how many times as much as arrays results may move within a tolerance
UNSTABLE_AT_ENDS = 25  # and where the pass makes something nan or infinite: exponentials move by more, and still are finite
OF_TERMS = 0.1  # in float32, gradients that are smaller may be what is left of terms that cancel
REORDERED = 1e-6  # by how much results may differ in float64 where numbers are added up in another order
DIFFERENCED = 1e-4  # and of gradients held against central differences

Check = Callable[[Trial], Finding | None]


def _readable(trial: Trial) -> Finding | None:
    """The program's text reads back as the same program."""
    text = str(trial.after)
    try:
        again = str(Program.parse(text))
    except Exception as error:
        return Finding("text", f"{type(error).__name__}: {error}")
    return None if again == text else Finding("text", f"written\n{text}read\n{again}")


def _typed(trial: Trial) -> Finding | None:
    """What is declared is what the operators give, if it is that before the pass."""
    assert trial.after is not None
    try:
        completed(trial.after)
    except GraphadError as error:
        return Finding("types", str(error)) if _is_typed(trial.before) else None
    return None


def _is_typed(program: Program) -> bool:
    try:
        completed(program)
    except GraphadError:
        return False
    return True


def _values(trial: Trial, compiled: bool = False) -> Finding | None:
    kind, kept, allowed = "compiled" if compiled else "values", trial.expected.without(trial.intended), trial.allowed
    try:
        got = trial.observed_after(compiled=True) if compiled else trial.got
    except Exception as error:
        return Finding(kind, f"the program after the pass does not run: {type(error).__name__}: {error}", type(error).__name__)
    text = observed_difference(kept, got, allowed)
    if text and allowed and _is_unstable(trial, allowed, UNSTABLE if _is_finite(got) else UNSTABLE_AT_ENDS):
        return None
    text = text or observed_difference(trial.intended, got, _tolerance(trial), ("intended", "after"))
    return Finding(kind, text, "differ") if text else None


def _is_finite(found: Observed) -> bool:
    """Whether no result is nan or infinite."""
    return all(
        np.isfinite(a).all()
        for each in (found.values, found.scope)
        for a in each.values()
        if isinstance(a, np.ndarray) and a.dtype.kind == "f"
    )


def _is_unstable(trial: Trial, tolerance: float, most: float = UNSTABLE) -> bool:
    """Whether the results before the pass differ much more than arrays that differ within the tolerance: at a jump, or a pole.

    All arrays are moved up or down; or every second one the other way, which shows where large numbers cancel.
    """
    case, executor = trial.case, bounded_executor()
    for up, other in ((tolerance, tolerance), (-tolerance, -tolerance), (tolerance, -tolerance)):
        ways = itertools.cycle((up, other))
        feeds, params = ({name: _moved(array, next(ways)) for name, array in each.items()} for each in (case.feeds, case.params))
        try:
            moved = observe(trial.before, replace(case, feeds=feeds, params=params), list(trial.expected.values), executor=executor)
        except GraphadError:
            return True
        if observed_difference(Observed(trial.expected.values, {}), moved, most * tolerance):
            return True
    return False


def _moved(array: Array, by: float) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(array + by * np.maximum(np.abs(array), LEAST), array.dtype) if array.dtype.kind == "f" else array


def _compiled(trial: Trial) -> Finding | None:
    """Blocks as functions over numpy: the program before gives what it gives step by step, and the one after the same.

    Numbers may be added up in another order there; where they are, the bits of the two programs are not compared.
    """
    if _compiled_after(trial):
        return None
    names = list(trial.expected.values)
    try:
        plain = observe(trial.before, trial.case, names, compiled=True)
    except Exception as error:
        return Finding("compiled", f"before the pass already, it does not run: {type(error).__name__}: {error}", type(error).__name__)
    if not observed_difference(trial.expected, plain):
        return _values(trial, compiled=True)
    tolerance = max(REORDERED, roundings(trial.before))
    text = observed_difference(trial.expected, plain, tolerance, ("step by step", "as functions"))
    return None if not text or _is_unstable(trial, tolerance) else Finding("compiled", f"before the pass already, {text}", "before")


def _compiled_after(trial: Trial) -> bool:
    """Whether the program after the pass, as functions over numpy, gives what the one before gives step by step: then both are right."""
    try:
        got = trial.observed_after(compiled=True)
    except Exception:
        return False
    return not trial.intended.values and not trial.intended.scope and not observed_difference(trial.expected, got, trial.allowed)


def _expected(trial: Trial) -> Finding | None:
    """The user's own condition."""
    if trial.subject.expect is None or trial.after is None:
        return None
    try:
        holds = trial.subject.expect(trial.before, trial.after)
    except Exception as error:
        return Finding("expect", f"{type(error).__name__}: {error}", type(error).__name__)
    return Finding("expect", "it is False") if holds is False else None


# -- the same again ------------------------------------------------------------------------------


def _deterministic(trial: Trial) -> Finding | None:
    """Once more, where everything lies elsewhere in memory; and with other names in the same order, which have other hashes."""
    text = str(trial.after)
    prefix = free_prefix(trial.case)
    cases = [trial.case] if trial.subject.names_variables(trial.case) else [trial.case, renamed_case(trial.case, prefix)]
    for case in cases:
        graph = trial.subject.prepared(case)
        try:
            run_requesting_gradients(trial.subject.passes(case), graph, case)
            program = scheduled(graph, case)
            other = text if program is None else str(restored(program, prefix))
        except Exception as error:
            other = f"{type(error).__name__}: {error}\n"
        if other != text:
            return Finding("deterministic", f"first\n{text}then\n{other}")
    return None


def _idempotent(trial: Trial) -> Finding | None:
    if not getattr(trial.passes, "idempotent", False):
        return None
    text = str(trial.graph)
    changed = trial.passes.run(trial.graph)
    if not changed and str(trial.graph) == text:
        return None
    return Finding("idempotent", "it says so itself" if str(trial.graph) == text else f"it is now\n{trial.graph}")


# -- gradients -----------------------------------------------------------------------------------


def _gradients(trial: Trial) -> Finding | None:
    """What is wrong with gradients; nothing is where the loss is not a finite number, which has none."""
    if not trial.subject.gradients or trial.after is None or not trial.case.loss_name:
        return None
    finding = _of_gradients(trial)
    return None if finding is not None and not _is_loss_finite(trial) else finding


def _is_loss_finite(trial: Trial) -> bool:
    loss = observe(trial.case.program, trial.case, [trial.case.loss_name]).values.get(trial.case.loss_name)
    return loss is not None and bool(np.isfinite(loss).all())


def _of_gradients(trial: Trial) -> Finding | None:
    """Gradients that passes made are those of the standard backward, and central differences; without any, those of what was made."""
    if trial.made or (trial.subject.differentiates(trial.case) and is_forward(trial.before)):
        finding = against_differences(trial)
        if finding is None and trial.slope_agrees and not trial.is_thorough:
            return None
        return _made_gradients(trial) or finding
    return _gradients_after(trial)


def _made_gradients(trial: Trial) -> Finding | None:
    """Every gradient that passes made; and one is missing where the standard backward has one that is not zero."""
    case = trial.case
    whole = trial.subject.differentiates(case)
    variables = case.program.global_block()
    wanted = [name for name in case.sources if name in trial.made or (whole and not variables.var(name).stop_gradient)]
    standard = _finite(lambda: gradient_values(case.program, case, wanted))
    if standard is None:
        return None
    try:
        values = trial.got.values
    except Exception as error:
        return Finding("gradients", f"the program with them does not run: {type(error).__name__}: {error}", type(error).__name__)
    missing = {name: np.zeros_like(standard[name]) for name in wanted if trial.made.get(name) not in values}
    got = {name: missing[name] if name in missing else values[trial.made[name]] for name in wanted}
    return _compared(trial, standard, got, "of the standard backward", "made here", _tolerance(trial))


def against_differences(trial: Trial) -> Finding | None:
    """The gradients along a random direction are the slope of the loss, where that is smooth; one that is missing is zero."""
    case = trial.case
    if not trial.subject.differentiates(case) or not can_difference(case.program):
        return None
    variables = case.program.global_block()
    sources = [name for name in case.sources if not variables.var(name).stop_gradient]
    arrays = {**case.feeds, **case.params}
    direction = {name: np.round(trial.random.uniform(-1, 1, arrays[name].shape), 3) for name in sources}
    if not direction:
        return None
    try:
        values = trial.got.values
    except Exception:  # the comparison with the standard backward says so, if that runs
        return None
    for name, way in direction.items():
        if np.shape(found := values.get(trial.made.get(name, ""), way)) != way.shape:
            return Finding("gradients", f"that of {name} is {list(np.shape(found))}, and {name} {list(way.shape)}", "shape")
    terms = [values[trial.made[name]] * direction[name] for name in sources if trial.made.get(name) in values]
    got, scale = sum(float(np.sum(term)) for term in terms), sum(float(np.sum(np.abs(term))) for term in terms)
    if not np.isfinite(got):
        return None  # what is nan here and finite in the standard backward is found by comparing the two

    def agrees(expected: float) -> bool:
        return abs(got - expected) <= DIFFERENCED * max(1.0, abs(expected), scale)

    expected = slope(frozen(case), direction, agrees)
    trial.slope_agrees = expected is not None and agrees(expected)
    if expected is None or trial.slope_agrees or not is_in_range(case):
        return None
    along = ", ".join(f"{name} {array.tolist()}" for name, array in direction.items())
    return Finding("gradients", f"along {along} the loss changes by {expected:.6g}, and the gradients say {got:.6g}", "slope")


def _gradients_after(trial: Trial) -> Finding | None:
    """The standard backward of the program after the pass gives what it gives before."""
    case, after = trial.case, trial.after
    assert after is not None
    variables = case.program.global_block()
    wanted = [name for name in case.sources if not variables.var(name).stop_gradient]
    if not wanted or not (is_forward(trial.before) and is_forward(after)):
        return None
    expected = _finite(lambda: gradient_values(trial.before, case, wanted))
    if expected is None:
        return None
    try:
        got = gradient_values(after, case, wanted)
    except Exception as error:
        return Finding("gradients", f"after the pass there is none: {type(error).__name__}: {error}", type(error).__name__)
    return _compared(trial, expected, got, "before", "after", _tolerance(trial))


def _finite(values: Callable[[], dict[str, Array]]) -> dict[str, Array] | None:
    """Gradients, None where there are none or one is not finite."""
    try:
        arrays = values()
    except Exception:  # whatever the standard backward raises is no fault of the pass
        return None
    return arrays if all(np.isfinite(array).all() for array in arrays.values()) else None


def _tolerance(trial: Trial) -> float:
    return max(EXACT, roundings(trial.before), trial.allowed)


def _compared(trial: Trial, expected: dict[str, Array], got: dict[str, Array], one: str, other: str, tolerance: float) -> Finding | None:
    least = OF_TERMS if roundings(trial.before) else LEAST
    for name, array in expected.items():
        if text := difference(array, got[name], tolerance, (one, other), least):
            return Finding("gradients", f"of {name}: {text}", "differ")
    return None


CHECKS: dict[str, Check] = {
    "expect": _expected,
    "text": _readable,
    "types": _typed,
    "values": _values,
    "idempotent": _idempotent,
    "deterministic": _deterministic,
    "gradients": _gradients,
    "compiled": _compiled,
}
OF_RESULTS = ("text", "types", "values", "compiled")  # these hold where the pass left the program as it was
