"""Whether everything holds that has to hold of a pass on a case, one check each, in the order in which they are tried."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from graphad.errors import GraphadError, InvalidGraph, NoGradient, ParseError, PassError, Refused
from graphad.ir import Graph, schedule
from graphad.ir.verify import verify
from graphad.ops import REGISTRY
from graphad.ops.linalg import NoSolution
from graphad.program import EMPTY, RANDOM_STREAM, Program
from graphad.rewriting import Pass
from graphad.rewriting.passes import take_as_verified
from graphad.testing.cases import FLOAT16, NARROW, WIDE, Case, completed
from graphad.testing.derivatives import (
    ROUNDED,
    ROUNDED_UNITS,
    differenced,
    gradient_values,
    has_whole_ties,
    is_double,
    is_forward,
    is_in_range,
    is_normal,
    keeping_ties,
    overflows_float16,
    rounding_noise,
    roundings,
)
from graphad.testing.equivalence import (
    LEAST,
    Observed,
    Stepwise,
    difference,
    extents_hold_on_ranks,
    has_shape,
    observe,
    observe_each_rank,
    observed_difference,
    seeded,
)
from graphad.testing.lawful import is_lawful
from graphad.testing.reach import Arc, Reach
from graphad.testing.trial import (
    IN_FLOAT16,
    Finding,
    HiddenChange,
    RefusedLate,
    Subject,
    Trial,
    Unfit,
    finished,
    program_of,
    quietly,
    request_gradients,
    run_requesting_gradients,
    scheduled,
)
from graphad.testing.watched import is_marked, run_reusing
from graphad.types import Array

# -- naming ----------------------------------------------------------------------------------------
# The same program with other names, in the same order: a pass that follows the hashes of names makes something else of it.


def free_prefix(case: Case) -> str:
    """A prefix that is in none of a case's names."""
    program = case.program
    names = {name for block in program.blocks for op in block.ops for name in (*op.input_names(), *op.output_names())}
    names.update(*(block.vars for block in program.blocks), case.feeds, case.params)
    # In none of the names, so that no name becomes another one's, or a gradient's.
    candidates = (f"renamed{number or ''}." for number in itertools.count())
    return next(prefix for prefix in candidates if not any(prefix in name for name in names))


def renamed_case(case: Case, prefix: str) -> Case:
    """A case whose variables all have a prefix, so that their order stays."""

    def prefixed(name: str) -> str:
        return name if name == EMPTY else prefix + name

    names = {name for block in case.program.blocks for name in block.vars}
    feeds, params = ({prefixed(name): array for name, array in arrays.items()} for arrays in (case.feeds, case.params))
    loss = prefixed(case.loss_name) if case.loss_name else ""
    program = case.program.clone()
    _rename(program, names, prefixed)
    return replace(case, program=program, loss_name=loss, feeds=feeds, params=params, requested=tuple(map(prefixed, case.requested)))


def restored(program: Program, prefix: str) -> Program:
    """The program without the prefixes; it is changed."""
    names = {name for block in program.blocks for name in block.vars}
    _rename(program, names, lambda name: name.replace(prefix, ""))
    return program


def _rename(program: Program, known: set[str], rename: Callable[[str], str]) -> None:
    for block in program.blocks:
        for var in block.vars.values():
            var.name = rename(var.name)
        block.vars = {var.name: var for var in block.vars.values()}
        for op in block.ops:
            op.inputs = {slot: [rename(name) for name in names] for slot, names in op.inputs.items()}
            op.outputs = {slot: [rename(name) for name in names] for slot, names in op.outputs.items()}
            op.attrs.update({name: _renamed_names(value, known, rename) for name, value in op.attrs.items() if isinstance(value, list)})
            if RANDOM_STREAM in op.attrs:  # streams are called after what operators write
                op.attrs[RANDOM_STREAM] = rename(op.attrs[RANDOM_STREAM])


def _renamed_names(values: list[object], known: set[str], rename: Callable[[str], str]) -> list[object]:
    """The elements of an attribute, those that are names of variables renamed as well."""
    return [rename(value) if isinstance(value, str) and value in known else value for value in values]


# -- checks ----------------------------------------------------------------------------------------
# What has to hold of a pass on a case, one check each; ``CHECKS`` lists them in the order in which they are tried.

EXACT = 1e-9  # tolerance of gradients where all is float64
UNSTABLE = 10  # how many times as much as arrays results may move within a tolerance
UNSTABLE_AT_ENDS = 25  # and where the pass makes something nan or infinite: exponentials move by more, and still are finite
NORMAL = 2.0**-14  # the least number that float16 holds in full
CANCELED = 10.0  # as many times what rounding makes of a gradient may be wrong with it
PATTERNS = 4  # in which numbers move, to find out how much that is
OF_TERMS = 0.1  # in float32, gradients that are smaller may be what is left of terms that cancel
OF_NARROW_TERMS = 1.0  # and in float16, where a gradient that is 0 by its terms has what they are rounded by
REORDERED = 1e-6  # by how much results may differ in float64 where numbers are added up in another order
DIFFERENCED = 1e-4  # and of gradients held against central differences

Check = Callable[[Trial], Finding | None]


def _readable(trial: Trial) -> Finding | None:
    """The program's text reads back as the same program."""
    text = "the program"
    try:
        text = str(trial.after)
        second_text = str(Program.parse(text))
    except Exception as error:
        return Finding("text", f"{type(error).__name__}: {error}")
    return None if second_text == text else Finding("text", f"written\n{text}read\n{second_text}")


def _typed(trial: Trial) -> Finding | None:
    """A finding if operators do not give the declared types, unless that was so before the pass."""
    assert trial.after is not None
    try:
        completed(trial.after)
    except GraphadError as error:
        return Finding("types", str(error)) if _is_typed(trial) else None
    return None


def _is_typed(trial: Trial) -> bool:
    """Whether operators give the declared types before the pass, and the run what is inferred from them.

    A block that does not run may add one row to an unknown number of them, from which one row follows for what has more.
    """
    try:
        program = completed(trial.before)
    except GraphadError:
        return False
    variables = program.global_block().vars
    arrays = {name: value for name, value in trial.expected.values.items() if isinstance(value, np.ndarray) and name in variables}
    return all(has_shape(array, variables[name].shape) for name, array in arrays.items())


def _values(trial: Trial, compiled: bool = False) -> Finding | None:
    # One run answers two checks: if the functions give what is expected, so does the interpreter, which they are held against elsewhere.
    if trial.runs_compiled and not compiled and _compiled_after(trial):
        return None
    kind, expected, tolerance = "compiled" if compiled else "values", trial.expected.without(trial.intended), trial.allowed
    try:
        results = trial.got_compiled if compiled else trial.got
    except Exception as error:
        return _not_running(kind, "the program after the pass does not run", error)
    text = observed_difference(expected, results, tolerance, least=OF_TERMS if roundings(trial.before) else LEAST)
    # Only once they differ: it takes three runs more.
    if text and tolerance and _is_unstable(trial, tolerance, UNSTABLE if _is_finite(results) else UNSTABLE_AT_ENDS):
        return None
    text = text or _intended_difference(trial, results)
    return Finding(kind, text, "differ") if text else None


def _intended_difference(trial: Trial, results: Observed) -> str:
    """The difference between the intended results of a pass and its results; empty if there is none.

    An update is a value less a step. Where the two cancel, what is left is no more exact than the value was, which is why the tolerance is
    relative to the value before the run too.
    """
    labels, tolerance = ("intended", "after"), _tolerance(trial)
    text = observed_difference(replace(trial.intended, scope={}), results, tolerance, labels)
    for name, array in trial.intended.scope.items():
        before = np.abs(np.asarray(trial.case.params.get(name, 0.0), float))
        least = max(LEAST, float(before.max(initial=0.0, where=np.isfinite(before))))
        text = text or observed_difference(Observed({}, {name: array}), results, tolerance, labels, least)
    return text


def _not_running(kind: str, what: str, error: BaseException) -> Finding | None:
    """A finding that a program does not run; none where a linear system has no solution: the gradient of a determinant, say, at zeros.

    Nor where an operator has no gradient in the shape that it meets, which its gradient operator says only when it runs.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NoSolution | NoGradient):
            return None
        cause = cause.__cause__
    return Finding(kind, f"{what}: {type(error).__name__}: {error}", _mark(error))


def _is_finite(results: Observed) -> bool:
    """Whether no result is nan or infinite."""
    return all(
        np.isfinite(a).all()
        for arrays in (results.values, results.scope)
        for a in arrays.values()
        if isinstance(a, np.ndarray) and a.dtype.kind == "f"
    )


def _is_unstable(trial: Trial, tolerance: float, most: float = UNSTABLE) -> bool:
    """Whether the results before the pass differ much more than arrays that differ within the tolerance: at a jump, or a pole.

    All arrays are moved up or down; or every second one, or every second element, the other way, which shows where large numbers cancel,
    as a variance of numbers that are far from 0. With a tolerance of float16, numbers that it holds with a few bits only decide
    nothing, nor do products that are too large for it.
    """
    case, steps = trial.case, Stepwise(trial.before, trial.expected.values)
    if tolerance >= IN_FLOAT16 and (not is_in_range(case, least=NORMAL, most=np.inf) or overflows_float16(case)):
        return True
    # Inputs moved together, and against each other: a difference of two operands, or of two elements, shows only then.
    turns = np.array([tolerance, -tolerance])
    for up, down in ((tolerance, tolerance), (-tolerance, -tolerance), (tolerance, -tolerance), (turns, turns)):
        ways = itertools.cycle((up, down))
        feeds, params = ({name: _moved(array, next(ways)) for name, array in arrays.items()} for arrays in (case.feeds, case.params))
        try:
            results = steps.run(replace(case, feeds=feeds, params=params))
        except GraphadError:
            return True
        if observed_difference(Observed(trial.expected.values, {}), results, most * tolerance):
            return True
    return False


def _moved(array: Array, by: float | Array) -> Array:
    """The array with its numbers changed by a part of their size: one for all, or several in turns."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        return np.asarray(array + np.resize(by, array.shape) * np.maximum(np.abs(array), LEAST), array.dtype)


def _compiled(trial: Trial) -> Finding | None:
    """Blocks as functions over numpy: the program before gives what it gives step by step, and the one after the same.

    Numbers may be added up in another order there; where they are, the bits of the two programs are not compared.
    """
    if trial.ran_compiled or _compiled_after(trial):
        return None
    names = list(trial.expected.values)
    try:
        plain = observe(trial.before, trial.case, names, compiled=True)
    except Exception as error:
        return _not_running("compiled", "before the pass already, it does not run", error)
    # It was right before the pass, so whatever is wrong after it comes from the pass.
    if not observed_difference(trial.expected, plain):
        return _values(trial, compiled=True)
    # Functions may add up in another order.
    tolerance = max(REORDERED, roundings(trial.before))
    text = observed_difference(trial.expected, plain, tolerance, ("step by step", "as functions"))
    return None if not text or _is_unstable(trial, tolerance) else Finding("compiled", f"before the pass already, {text}", "before")


def _compiled_after(trial: Trial) -> bool:
    """Whether the program after the pass, as functions over numpy, gives what the one before gives step by step: then both are right.

    What it gave is then taken for what it gives, so that it does not run step by step as well.
    """
    try:
        results = trial.got_compiled
    except Exception:
        return False
    if observed_difference(trial.expected.without(trial.intended), results, trial.allowed) or _intended_difference(trial, results):
        return False
    trial.got, trial.ran_compiled = results, True
    return True


def _marked(trial: Trial) -> Finding | None:
    """The program after the pass gives what it gives, also where each marked operator overwrites the input that its mark names."""
    after = trial.after
    if after is None or not is_marked(after):
        return None
    temporary = _exchanged(after).difference(trial.case.targets)
    values = {name: value for name, value in trial.got.values.items() if after.global_block().has_var(name) and name not in temporary}
    try:
        with seeded():
            results = Observed(*run_reusing(after, trial.case, values))
    except Exception as error:
        return _not_running("marks", "the program after the pass does not run", error)
    tolerance = max(REORDERED, roundings(after))  # the other memory may be laid out in another way, so that sums are in another order
    text = observed_difference(replace(trial.got, values=values), results, tolerance, ("without the marks", "with them"))
    return None if not text or _is_unstable(trial, tolerance) else Finding("marks", text, "differ")


def _on_ranks(trial: Trial) -> Finding | None:
    """A finding if the results of exchanges differ where each rank has other numbers: alone, a sum over ranks is no sum."""
    before, after = trial.before, trial.after
    # Pipelines that take derivatives in two ways agree in the sum over ranks, not rank by rank.
    if trial.subject.reference is not None:
        return None
    if after is None or trial.ranks > 1 or not (_exchanged(before, is_read=False) or _exchanged(after, is_read=False)):
        return None
    shared_names = {op_name for op in after.global_block().ops for op_name in op.output_names()} | set(trial.case.feeds)
    # What an effect wrote under a name may have another one now, and the name mean what is fed.
    names = [name for name in trial.expected.values if name in shared_names and name not in trial.new_names]
    try:
        expected = observe_each_rank(before, trial.case, names)
    except Exception:  # it needs another number of ranks, say
        return None
    finding = _rank_by_rank(trial, expected, names)
    return finding if finding and extents_hold_on_ranks(before, trial.case) else None


def _rank_by_rank(trial: Trial, expected: Observed, names: list[str]) -> Finding | None:
    assert trial.after is not None
    try:
        results = observe_each_rank(trial.after, trial.case, names)
    except Exception as error:
        return _not_running("ranks", "the program after the pass does not run on two ranks", error)
    text = observed_difference(expected, results, trial.allowed)
    return None if not text or (trial.allowed and _is_unstable(trial, trial.allowed)) else Finding("ranks", text, "differ")


def _exchanged(program: Program, is_read: bool = True) -> set[str]:
    """The results of collectives that an operator reads: they are compared as written, and may be overwritten after the last use."""
    ops = program.global_block().ops
    results = {name for op in ops if (definition := REGISTRY.get(op.type)) is not None and definition.ordered for name in op.output_names()}
    return results.intersection(name for op in ops for name in op.input_names()) if is_read else results


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
    """Once more, where everything lies elsewhere in memory, with other names in the same order, which have other hashes."""
    text, prefix = str(trial.after), free_prefix(trial.case)
    # An option that names a variable would not find it under another name.
    case = trial.case if trial.subject.names_variables(trial.case) else renamed_case(trial.case, prefix)
    graph = trial.subject.prepared(case)
    try:
        run_requesting_gradients(trial.subject.passes(case), graph, case)
        program = scheduled(graph, case)
        second_text = text if program is None else str(restored(program, prefix))
    except Exception as error:
        second_text = f"{type(error).__name__}: {error}\n"
    return None if second_text == text else Finding("deterministic", f"first\n{text}then\n{second_text}")


def _idempotent(trial: Trial) -> Finding | None:
    if not getattr(trial.passes, "idempotent", False):
        return None
    text = str(trial.graph)
    has_changed = trial.passes.run(trial.graph)
    if not has_changed and str(trial.graph) == text:
        return None
    return Finding("idempotent", "it says so itself" if str(trial.graph) == text else f"it is now\n{trial.graph}")


# -- gradients -----------------------------------------------------------------------------------


def _gradients(trial: Trial) -> Finding | None:
    """A finding on gradients; none where the loss is not a finite number, which has no gradients."""
    if not trial.subject.gradients or trial.after is None or not trial.case.loss_name:
        return None
    finding = _of_gradients(trial)
    return None if finding is not None and not _is_loss_finite(trial) else finding


def _is_loss_finite(trial: Trial) -> bool:
    loss = observe(trial.case.program, trial.case, [trial.case.loss_name]).values.get(trial.case.loss_name)
    return loss is not None and bool(np.isfinite(loss).all())


def _of_gradients(trial: Trial) -> Finding | None:
    """Gradients that passes made are those of the standard backward, and central differences; without any, those of what was made.

    Where the standard backward was there before the passes, it is not on trial: each time its gradients have to stay as they are; in a
    thorough trial they are compared with differences, and with those of another run of it.
    """
    if trial.prepared is not None and not trial.is_thorough:
        return _made_gradients(trial)
    if trial.made or (trial.subject.differentiates(trial.case) and is_forward(trial.before)):
        finding = against_differences(trial)
        if finding is None and (trial.slope_agrees or trial.subject.is_standard_backward) and not trial.is_thorough:
            return None
        return _made_gradients(trial) or finding
    return _gradients_after(trial)


def _made_gradients(trial: Trial) -> Finding | None:
    """Every gradient that passes made; and one is missing where the standard backward has one that is not zero."""
    case = trial.case
    whole = trial.subject.differentiates(case)
    variables = case.program.global_block()
    sources = [name for name in case.sources if name in trial.made or (whole and not variables.var(name).stop_gradient)]
    is_known = trial.prepared is not None and not trial.is_thorough
    standard = _finite(lambda: trial.prepared_gradients(sources) if is_known else gradient_values(case.program, case, sources))
    if standard is None:
        return None
    try:
        values = trial.got.values
    except Exception as error:
        return _not_running("gradients", "the program with them does not run", error)
    # A gradient that is left out counts as zeros.
    zeros = {name: np.zeros_like(standard[name]) for name in sources if trial.made.get(name) not in values}
    gradients = {name: zeros[name] if name in zeros else values[trial.made[name]] for name in sources}
    return _compared(trial, case.program, standard, gradients, ("of the standard backward", "made here"))


def against_differences(trial: Trial) -> Finding | None:
    """The gradients along a direction are the slope of the loss, where that is smooth; one that is missing is zero.

    The direction is random. Where the loss bends along it, another one is taken along which equal elements stay equal: what a tie chooses
    between is the same all along it.
    """
    case = trial.case
    if not trial.can_difference:
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
        if np.shape(gradient := values.get(trial.made.get(name, ""), way)) != way.shape:
            return Finding("gradients", f"that of {name} is {list(np.shape(gradient))}, and {name} {list(way.shape)}", "shape")
    smooth = differenced(case)
    finding = _along(trial, smooth, direction, values)
    if finding is None and not trial.slope_agrees:
        ties = keeping_ties({name: arrays[name] for name in sources}, trial.random)
        return _along(trial, smooth, ties, values) if ties else None
    return finding


def _along(trial: Trial, smooth: Case, direction: dict[str, Array], values: Mapping[str, Any]) -> Finding | None:
    """A finding if the gradients along a direction differ from the slope there; ``slope_agrees`` says afterwards whether that is known not
    to."""
    case = trial.case
    # The slope along d is sum(gradient * d). Where its terms cancel, it is as exact as the terms are: hence ``scale``.
    terms = [values[trial.made[name]] * direction[name] for name in direction if trial.made.get(name) in values]
    total, scale = sum(float(np.sum(term)) for term in terms), sum(float(np.sum(np.abs(term))) for term in terms)
    if not np.isfinite(total):
        return None  # what is nan here and finite in the standard backward is found by comparing the two

    def agrees(expected: float) -> bool:
        return abs(total - expected) <= max(DIFFERENCED, _tolerance(trial)) * max(1.0, abs(expected), scale)

    expected = trial.slope(smooth, direction, agrees)
    trial.slope_agrees = expected is not None and agrees(expected)
    if expected is None or trial.slope_agrees or not is_in_range(case) or has_whole_ties(case):
        return None
    if not is_double(case.program) and not _is_same_in_float64(case, smooth, direction):
        return None
    along = ", ".join(f"{name} {array.tolist()}" for name, array in direction.items())
    return Finding("gradients", f"along {along} the loss changes by {expected:.6g}, and the gradients say {total:.6g}", "slope")


def _is_same_in_float64(case: Case, wide: Case, direction: dict[str, Array]) -> bool:
    """Whether a program's standard gradients are in float64 what they are in float32, so that no rounding tells them from a slope."""
    sources = list(direction)
    narrow, exact = (_finite(lambda c=c: gradient_values(c.program, c, sources)) for c in (case, wide))  # type: ignore[misc]
    if narrow is None or exact is None:
        return False
    return not any(difference(exact[name], np.asarray(narrow[name], WIDE), ROUNDED[NARROW], least=OF_TERMS) for name in sources)


def _gradients_after(trial: Trial) -> Finding | None:
    """The standard backward of the program after the pass gives what it gives before."""
    case, after = trial.case, trial.after
    assert after is not None
    variables = case.program.global_block()
    sources = [name for name in case.sources if not variables.var(name).stop_gradient]
    if not sources or trial.ranks > 1 or not (is_forward(trial.before) and is_forward(after)):
        return None  # the gradients of a rank's part are not those of the whole
    expected = _finite(lambda: gradient_values(trial.before, case, sources, clip_errors=True))
    if expected is None or (trial.allowed >= IN_FLOAT16 and any((np.abs(array) > FLOAT16).any() for array in expected.values())):
        return None
    try:
        gradients = gradient_values(after, case, sources, clip_errors=True)
    except Exception as error:
        return _not_running("gradients", "after the pass there is none", error)
    return _compared(trial, trial.before, expected, gradients, ("before", "after"))


def _finite(values: Callable[[], dict[str, Array]]) -> dict[str, Array] | None:
    """Gradients, None where there are none or one is not finite."""
    try:
        arrays = values()
    except Exception:  # whatever the standard backward raises is no fault of the pass
        return None
    return arrays if all(np.isfinite(array).all() for array in arrays.values()) else None


def _tolerance(trial: Trial) -> float:
    return max(EXACT, roundings(trial.before), trial.allowed)


def _compared(trial: Trial, program: Program, expected: dict[str, Array], got: dict[str, Array], labels: tuple[str, str]) -> Finding | None:
    """The first gradient that differs from that of a program by more than rounding makes of it there."""
    tolerance, least = _tolerance(trial), OF_TERMS if roundings(trial.before) else LEAST
    least = OF_NARROW_TERMS if tolerance >= IN_FLOAT16 else least
    has_special = _has_special(trial.case)
    for name, array in expected.items():
        gradient = got[name]
        if has_special and np.shape(gradient) == array.shape:  # moved out of a branch that was not taken, 0 becomes 0 * nan
            gradient = np.where(np.isnan(gradient), array, gradient)
        text = difference(array, gradient, tolerance, labels, least)
        if text and not _is_rounding(program, trial.case, name, array, gradient, trial.allowed):
            return Finding("gradients", f"of {name}: {text}", "differ")
    return None


def _has_special(case: Case) -> bool:
    """Whether nan or infinities are among the inputs."""
    arrays = [np.asarray(array) for array in (*case.feeds.values(), *case.params.values())]
    return not all(np.isfinite(array).all() for array in arrays if array.dtype.kind == "f")


def _is_rounding(program: Program, case: Case, name: str, expected: Array, got: Array, allowed: float) -> bool:
    """Whether two gradients differ by no more than rounding does: both may be what is left of large terms that cancel.

    Where a pass may round, it may do so before or after a number loses its digits at the lower end of the range.
    """
    if expected.shape != got.shape or expected.dtype != got.dtype or not np.isfinite(got).all():
        return False
    if allowed and not is_normal(case):
        return True
    apart = float(np.abs(got - expected).max(initial=0.0))
    # Of a gradient of which nothing cancels, arrays that move by this unit make about what is allowed anyway.
    unit = allowed / (CANCELED * max(ROUNDED_UNITS))
    return any(
        all(apart <= CANCELED * noise for noise in rounding_noise(program, case, name, unit, pattern)) for pattern in range(PATTERNS)
    )


CHECKS: dict[str, Check] = {
    "expect": _expected,
    "text": _readable,
    "types": _typed,
    "values": _values,
    "marks": _marked,
    "ranks": _on_ranks,
    "idempotent": _idempotent,
    "deterministic": _deterministic,
    "gradients": _gradients,
    "compiled": _compiled,
}
OF_RESULTS = ("text", "types", "values", "marks", "ranks", "compiled")  # these hold where the pass left the program as it was

# -- examine ---------------------------------------------------------------------------------------
# One case against one pass: whether everything holds that has to hold of a pass.

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
    subject: Subject,
    case: Case,
    checks: Collection[str] = ALL,
    reach: Reach | None = None,
    arcs: set[Arc] | None = None,
    more: Callable[[Trial], Collection[str]] = lambda trial: (),
) -> tuple[Trial, Finding | None]:
    """Try a pass on a case: the trial, and the first thing that is wrong.

    Args:
        subject: the pass.
        case: the program to run it on.
        checks: the names of the checks to make, of those in ``CHECKS``; that the pass runs and leaves a valid graph is always checked.
        reach: notes which lines of the pass run.
        arcs: gets what is new to ``reach``.
        more: further checks to make; it is called once the pass has run.

    Raises:
        Unfit: the case itself does not run, or what prepares it refuses it.
    """
    trial = Trial(subject, case)
    with quietly():
        _give_program(trial)
        try:
            finding = _first_finding(trial, checks, Reach() if reach is None else reach, set() if arcs is None else arcs, more)
        except GraphadError:  # from a check that runs the program by itself
            _check_lawful(case)
            raise
        if finding is not None:
            _check_lawful(case)
        # Verified only now: what is wrong with the graph before is rare, and no fault of the pass.
        if finding is not None and (subject.prepare or finding.kind == "verifier"):
            _verify_given(trial)
    return trial, finding


def _check_lawful(case: Case) -> None:
    """Raise Unfit where a case that was made by a change is none on which a pass has to be right."""
    if case.altered and not is_lawful(case):
        raise Unfit("the program does not run, or its types do not hold")


def _give_program(trial: Trial) -> None:
    """Make the graph that the pass gets, and the program that what it makes is compared with; Unfit where that is refused."""
    subject, case = trial.subject, trial.case
    try:
        subject.check_fits(case)
        trial.graph = subject.prepared(case)
        if subject.reference is None:
            trial.before = subject.before(case, trial.graph)
            trial.is_prepared = trial.before is not case.program or not trial.graph.journal.rewrites
            if subject.is_after_standard_backward and trial.before is not case.program:
                trial.prepared = request_gradients(trial.graph, case)
        else:
            reference_graph = subject.referred(case)
            trial.before, trial.referred = program_of(reference_graph, case), [value.name for value in reference_graph.targets]
            trial.is_prepared = trial.before is not case.program
    except (GraphadError, ArithmeticError) as error:
        raise Unfit(str(error)) from error


def _first_finding(
    trial: Trial, checks: Collection[str], reach: Reach, arcs: set[Arc], more: Callable[[Trial], Collection[str]]
) -> Finding | None:
    """The first thing that is wrong, in the order of ``CHECKS``; see ``tried``."""
    finding = _applied(trial, checks, reach, arcs)
    if finding is not None or trial.after is None:
        return finding
    trial.check_rows()
    checks = {*checks, *more(trial)}
    trial.is_thorough, trial.runs_compiled = "standard" in checks, "compiled" in checks
    # What has not changed computes what it did.
    is_unchanged = not trial.changed and (trial.after is trial.before or str(trial.after) == str(trial.before))
    # Gradients that the passes made are on trial also then; those that were prepared are what they were, as any other result.
    of_results = OF_RESULTS if trial.made and (trial.prepared is None or trial.is_thorough) else (*OF_RESULTS, "gradients")
    with np.errstate(all="ignore"):  # gradients may be infinite, and what is made of them to compare them nan
        for kind, check in CHECKS.items():
            skips = kind not in checks or (is_unchanged and kind in of_results)
            if not skips and (finding := _checked(check, trial)) is not None:
                return finding
    return None


def _checked(check: Check, trial: Trial) -> Finding | None:
    """The finding of a check; if the program has no text, because of an attribute that cannot be written, the finding that says so."""
    try:
        return check(trial)
    except ParseError:
        return _readable(trial)


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
    state = graph.journal.edits, graph.journal.typings, frozenset(graph.properties)
    graph.journal.fired = trial.fired
    try:
        with reach.probing() as new:
            trial.changed = run_requesting_gradients(trial.passes, graph, case, watched="changed" in checks)
        arcs |= new
    except (Refused, NoGradient) as error:
        raise Unfit(str(error)) from error
    except RefusedLate as late:
        return Finding("refused", str(late.__cause__), _mark(late.__cause__))
    except HiddenChange as error:
        return Finding("changed", str(error))
    except InvalidGraph as error:
        return Finding("verifier", str(error), _mark(error))
    except PassError as error:
        return Finding("claims", str(error), _mark(error))
    except Exception as error:
        return Finding("raises", f"{type(error).__name__}: {error}", _mark(error))
    try:
        if not finished(graph):
            return None
        trial.made = request_gradients(graph, case)
        is_as_prepared = not trial.changed and state == (graph.journal.edits, graph.journal.typings, frozenset(graph.properties))
        # The graph before was scheduled; the program as it was written has to come out of its graph once more, now and then.
        is_known = is_as_prepared and trial.subject.reference is None and (trial.before is not case.program or "changed" not in checks)
        trial.after = trial.before if is_known else schedule(graph)
    except Exception as error:
        return Finding("schedule", f"{type(error).__name__}: {error}", _mark(error))
    return None


def _verify_given(trial: Trial) -> None:
    """Raise Unfit if the graph was not valid before the pass."""
    try:
        verify(trial.subject.prepared(trial.case))
    except InvalidGraph as error:
        raise Unfit(str(error)) from error


# What is quoted, lists, and words with a digit in them.
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[\w@.#]*\d[\w@.#]*")


def _mark(error: BaseException | None) -> str:
    """The kind of an error and its message without names and numbers, which change as the program gets smaller."""
    return f"{type(error).__name__}: {_NAMES.sub('', str(error).splitlines()[0] if str(error) else '')}"
