"""``check_pass``: a pass against many random programs; the first on which it is wrong is made small and shown.

The search is guided by coverage: a program on which the pass's own code ran a new way, or made a new rewrite, is drawn again with
a few of its choices changed (R. Padhye and others, Semantic fuzzing with Zest, ISSTA 2019).
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path

from graphad.errors import InvalidType, InvalidValue
from graphad.ops.callbacks import silent
from graphad.program import Program
from graphad.program.gc_pause import young_only
from graphad.rewriting import Pass, PatternRule, claims_checked, rules_of, verification
from graphad.testing.calls import Interest
from graphad.testing.cases import KINDS as NUMBERS
from graphad.testing.cases import MIXED, NON_FINITE, SHORT, Case, Choices, RandomChoices, random_case, renumbered_case, requested_names
from graphad.testing.checks import ALL, after_pass, tried
from graphad.testing.mentions import interest_of
from graphad.testing.neighbours import Drawn, Neighbourhood
from graphad.testing.planted import TURNS, planted_with_all
from graphad.testing.programs import KINDS, differentiated
from graphad.testing.reach import Arc, Reach
from graphad.testing.report import Checked, Counterexample
from graphad.testing.shrinking import smallest
from graphad.testing.sweeps import drawn
from graphad.testing.trial import (
    Expectation,
    Finding,
    Subject,
    Trial,
    Unfit,
    as_pass,
    followed,
    inner_passes,
    standard_preparation,
)
from graphad.types import FLOATS, TENSOR

EXAMPLES = 100
OF_GRADIENTS, ABOUT_GRADIENTS = (3, 4), (1, 3)  # so many of so many are differentiated where a pass names gradient operators, or gradients
OF_RULES = 5  # of so many programs all but one contain what a rule looks for, if the pass has rules
ANY = "any"  # among the kinds of programs that a pass names: all kinds
PATIENCE = 10  # times as many programs as requested are tried until the pass changes one
UNFIT = 20  # programs that may be unfit for each one that is not, before the check gives up
# Checks that are made on one program in so many: of those on which the pass did something new, and of the others.
SELDOM = {
    "text": (8, 24),
    "types": (4, 12),
    "idempotent": (3, 9),
    "deterministic": (8, 32),
    "compiled": (3, 12),
    "gradients": (3, 4),
    "standard": (8, 12),
}
CHANGED = 4  # and on one in so many the pass is watched while it runs: whether it changes what it says it does not
MUTATED, CHANGES = 4, (1, 1, 2, 4)  # one program in so many is a mutated one; how many choices differ
RENUMBERED = 3  # of so many mutated programs one has the same operators, on other numbers
# One program in so many differs in little from one that the pass changed; more where it changes less than one drawn in FEW, fewer where
# rules are planted, each time over other values.
BESIDE, BESIDE_FEW, BESIDE_RULES, FEW = 4, 2, 8, 16
DRAWN = 3  # of so many programs that could be mutated the smallest is: one of 200 operators costs as much as ten small ones
_QUOTED = re.compile(r"'[^']*'|\d+")
Programs = Sequence[Program | Case] | Callable[[Choices], Case]


class Vacuous(AssertionError):
    """A check that checked nothing: the pass changed none of the programs, or what it made of them cannot run.

    Attributes:
        checked: what was tried.
    """

    def __init__(self, subject: Subject, checked: Checked) -> None:
        self.checked = checked
        reason = f"it changed none of {checked.examples} programs, so that nothing was checked"
        if checked.changed:
            reason = (
                f"none of {checked.changed} programs that it changed can run after it, so that nothing was compared: their backward is not "
                "finished, and cannot be since the pass does not preserve GradOps; list that in preserves, or prepare the whole backward"
            )
        super().__init__(f"{subject}: {reason}\n{checked}")


def check_pass(
    what: Pass | str,
    examples: int | None = None,
    *,
    seconds: float | None = None,
    seed: int = 0,
    prepare: Pass | str = "",
    reference: Pass | str | None = None,
    programs: Programs | None = None,
    tolerance: float | None = None,
    gradients: bool = True,
    expect: Expectation | None = None,
    folder: str | Path | None = None,
) -> Checked:
    """Try a pass on random programs.

    On each: the verifier holds after it; targets and persistable variables are what they were, step by step and compiled; gradients
    that it finds, or that it makes, are those of the standard backward and central differences, others are what they were; a second
    run changes nothing if the pass says so; it makes the same program again, also where names have other hashes; it says truly
    whether it changed anything, and what it preserves.

    Args:
        what: a pass, or a pipeline, or the text of one, in which ``$loss`` stands for the name of the loss.
        examples: how many programs, and up to ten times as many until the pass changes one; 100 if there is no limit in seconds
            either.
        seconds: of processor time, after which no further program is tried.
        seed: the same programs for the same seed.
        prepare: a pipeline, or its text, that makes what the pass requires, and is not on trial; where it is left out, the passes of
            the standard backward that the pass requires.
        reference: a pipeline, or its text, that ``what`` has to be equivalent to; an empty one is the program as it is.
        programs: where programs come from: a list of them (or of cases, with arrays of their own), each tried with several arrays, or
            a function of ``Choices``; None: programs of every kind, such as the pass looks for, and what is beside those it changed.
        tolerance: by how much values may differ, relatively; None: as the pass says, 0: not in the last bit. Where values may
            differ, they may be anything where they were nan or infinite.
        gradients: whether to compare gradients: before 1e-9, relatively, where all is float64.
        expect: called with the programs before and after the pass; False, or an exception, is a finding.
        folder: where to draw the counterexample; None, or where it cannot be written: a temporary folder.

    Returns:
        What was tried; ``str`` of it is a report.

    Raises:
        Counterexample: the pass is wrong; the program it is shown on was made as small as possible.
        Vacuous: the pass changed no program, and is no analysis; or nothing that it changed can run.
        ValueError: a text is no pipeline, or hardly any program is fit for the pass.
        KeyboardInterrupt: the check was interrupted; its text says what was tried, and its ``checked`` holds that.

    >>> check_pass("dead-code", examples=20).examples
    20
    """
    home = None if folder is None else Path(folder)
    subject = Subject(followed(what), prepare or standard_preparation(what), tolerance, gradients, reference, expect)
    search = _Search(subject, _source(subject, programs), seed, _neighbourhood(subject) if programs is None else None)
    case_and_finding = search.run(EXAMPLES if examples is None and seconds is None else examples, seconds)
    if case_and_finding is None:
        if search.checked.changed == search.checked.unfinished and not subject.is_analysis:
            raise Vacuous(subject, search.checked)
        return search.checked
    case, finding = smallest(subject, *case_and_finding)
    raise Counterexample(subject, finding, case, after_pass(subject, case), home, search.checked.examples)


# -- where programs come from --------------------------------------------------------------------


def _source(subject: Subject, programs: Programs | None) -> Callable[[Choices], Case]:
    for other in (subject.prepare, subject.reference):
        if other:
            as_pass(other, "loss")  # a mistake in it is the caller's, and not one that a program is unfit for
    if programs is None:
        suitable = _suitable(subject)
        return lambda choices: _written_nowhere(suitable(choices))
    if callable(programs):
        return programs
    if isinstance(programs, Program | Case) or not all(isinstance(program, Program | Case) for program in programs):
        raise InvalidType(f"programs are a list of Programs or Cases, or a function of Choices, not {programs!r}")
    if not programs:
        raise InvalidValue("programs is empty: there is nothing to try the pass on")
    candidates = list(programs)
    return lambda choices: _with_arrays(candidates[choices.below(len(candidates))], choices)


def _written_nowhere(case: Case) -> Case:
    """The case, whose operators no line of the user's has written."""
    for block in case.program.blocks:
        for op in block.ops:
            op.source = None
    return case


def _with_arrays(program: Program | Case, choices: Choices) -> Case:
    if isinstance(program, Case):
        return program
    losses = [
        v.name
        for v in program.global_block().vars.values()
        if v.shape in ((), (1,)) and any(v.name in op.output_names() for op in program.global_block().ops)
    ]
    return random_case(program, choices.below(1000), losses[-1] if losses else "")


def _suitable(subject: Subject) -> Callable[[Choices], Case]:
    """Programs of the kinds that all passes on trial have something to do on."""
    any_kind, kinds_by_pass = _every_kind(subject), [pass_.on_trial.programs for pass_ in inner_passes(as_pass(subject.what, "loss"))]
    # A pipeline is tried on what all its passes have something to do on.
    common = [name for name in kinds_by_pass[0] if all(name in names for names in kinds_by_pass)] if kinds_by_pass else []
    if not common and all(kinds_by_pass):
        # What the later ones need is made by those before them.
        common = list(kinds_by_pass[0])
    kinds = [KINDS[name][1] for name in common if name != ANY]
    if not kinds:
        return any_kind

    def program(choices: Choices) -> Case:
        if ANY in common and choices.boolean():
            return any_kind(choices)
        return choices.one_of(kinds)(choices, Interest())

    return program


def _every_kind(subject: Subject) -> Callable[[Choices], Case]:
    """Most programs sweep through the operators; if the pass has rules, four fifths of all contain what one looks for, in turn."""
    passes = inner_passes(as_pass(subject.what, "loss"))
    rules = [rule for pass_ in passes for rule in rules_of(pass_) if isinstance(rule, PatternRule)]
    interest = _interest(subject)
    is_exact = all(rule.exact for rule in rules)
    is_about_gradients = interest.backward and not subject.is_backward
    some, of_all = OF_GRADIENTS if interest.gradients else ABOUT_GRADIENTS
    # Rules of one file are alike: not in their order, and in another one for each dtype.
    orders = [random.Random(f"rules {turn}").sample(rules, len(rules)) for turn in range(len(TURNS))]
    other_programs = drawn(interest, subject.is_backward or subject.names_loss, subject.is_after_backward)
    turns = itertools.count()

    def program(choices: Choices) -> Case:
        if rules and not choices.chance(OF_RULES):
            # Each time through all rules they are planted in another dtype, the first time on the hardest numbers.
            count = len(rules) * len(TURNS)
            turn, place = divmod(choices.in_turn(count, next(turns) % count), len(rules))
            case = planted_with_all(choices, [(orders[turn][place], TURNS[turn])], is_exact, hard=not turn)
        else:
            case = other_programs(choices)
        if is_about_gradients and case.forward is None and choices.below(of_all) < some:
            case = differentiated(choices, case) or case
        return case if case.requested else replace(case, requested=requested_names(choices, case))

    return program


def _interest(subject: Subject) -> Interest:
    """What the passes on trial look at, besides what the patterns of their rules say."""
    passes = inner_passes(as_pass(subject.what, "loss"))
    rules = (rule for pass_ in passes for rule in rules_of(pass_) if not isinstance(rule, PatternRule))
    interest = replace(interest_of(passes, rules), clips=not subject.is_backward)
    return replace(interest, kinds=SHORT) if subject.may_be_in_float16 else interest


def _neighbourhood(subject: Subject) -> Neighbourhood | None:
    """What is tried beside programs that the pass changed.

    Nothing where only programs of some kinds are fit for it, nor where differences alone judge the gradients: not those beside them.
    """
    passes = inner_passes(as_pass(subject.what, "loss"))
    needs_kinds = any(pass_.on_trial.programs and ANY not in pass_.on_trial.programs for pass_ in passes)
    if needs_kinds or subject.is_standard_backward:
        return None
    has_patterns = any(isinstance(rule, PatternRule) for pass_ in passes for rule in rules_of(pass_))
    return Neighbourhood(_interest(subject), BESIDE_RULES if has_patterns else BESIDE)


def _numbers(subject: Subject) -> Sequence[str]:
    """The kinds of numbers on which a program may run that was drawn for others."""
    return SHORT if subject.may_be_in_float16 else (*NUMBERS, NON_FINITE, MIXED)


def _marks_gradients(case: Case) -> bool:
    """Whether a program with a loss stops or clips the gradient of something that an operator writes and another one reads."""
    if not case.loss_name:
        return False
    ops, variables = case.program.global_block().ops, case.program.global_block().vars
    results = {name: variables[name] for op in ops for name in op.output_names() if name in variables}
    floats = {name: var for name, var in results.items() if var.type == TENSOR and var.declared[1] in FLOATS}
    marked = {name for name, var in floats.items() if var.stop_gradient or var.error_clip is not None}
    return bool(marked) and any(name in marked for op in ops for name in op.input_names())


# -- the search ----------------------------------------------------------------------------------


@dataclass
class _Search:
    """A run of ``check_pass``: what was tried so far, and the choices of the programs that showed something new."""

    subject: Subject
    source: Callable[[Choices], Case]
    seed: int
    beside: Neighbourhood | None = None  # of the programs that the pass changed; None: nothing beside them is tried
    checked: Checked = field(default_factory=Checked)
    corpus: list[tuple[int, list[int]]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    reach: Reach = field(default_factory=Reach)
    reasons: Counter[str] = field(default_factory=Counter)  # why programs were unfit
    reason_texts: dict[str, str] = field(default_factory=dict)  # each as it was said first
    counts: Counter[bool] = field(default_factory=Counter)  # of programs on which the pass did something new, and of others

    def run(self, examples: int | None, seconds: float | None) -> tuple[Case, Finding] | None:
        """Draw programs until something is found, or as many were tried, or so much time was spent, as there should."""
        start = time.process_time()  # a clock that is slow to read: without a limit only at the end
        self.reach = Reach.of(inner_passes(as_pass(self.subject.what, "loss")))
        try:
            with young_only():
                for drawn_case in self._cases():
                    finding = self._try(drawn_case)
                    if finding is not None:
                        return drawn_case.case, finding
                    if self._is_enough(examples) or (seconds is not None and time.process_time() - start >= seconds):
                        break
        except KeyboardInterrupt as interrupt:
            self.checked.interrupted, self.checked.seconds = True, time.process_time() - start
            interrupt.checked = self.checked  # type: ignore[attr-defined]
            interrupt.args = (f"{self.subject}: {self.checked}",)
            raise
        finally:
            self.checked.seconds = time.process_time() - start
            self.checked.unreached = self.reach.unreached()
        return None

    def _is_enough(self, examples: int | None) -> bool:
        """Whether there were as many programs as there should; ten times as many while the pass has changed none."""
        report = self.checked
        if examples is None or report.examples < examples:
            return False
        return bool(report.changed) or self.subject.is_analysis or report.examples >= PATIENCE * examples

    def _cases(self) -> Iterator[Drawn]:
        for number in itertools.count():
            beside = self._beside(number)
            if beside is not None:
                yield beside
                continue
            choices, keeps_program = self._choices(number)
            try:
                with verification(False), claims_checked(False), silent():
                    case = self.source(choices)
                    if keeps_program:
                        # Other integers may be extents that are not the declared ones.
                        case = replace(renumbered_case(choices, case, _numbers(self.subject)), altered=True)
            except Exception as error:  # a program that could not be drawn, whatever the reason, says nothing about the pass
                self._unfit(error)
                continue
            yield Drawn(case, number, choices)

    def _beside(self, number: int) -> Drawn | None:
        """A case beside one that the pass changed, now and then."""
        if self.beside is None:
            return None
        text = f"{self.seed} {number} beside"
        # Where the pass changes few of the programs that are drawn, the others say little.
        often = BESIDE_FEW if self.beside.changed * FEW < self.checked.examples else self.beside.often
        if random.Random(text).randrange(often):
            return None
        try:
            with verification(False), claims_checked(False), silent():
                return self.beside.drawn(RandomChoices(text))
        except Exception:  # as where a program cannot be drawn
            return None

    def _choices(self, number: int) -> tuple[RandomChoices, bool]:
        """New choices; or those of a program that showed something new, some of them changed or the last ones forgotten.

        Or all of them as they were, which gives the same program again; it is to run on other numbers then.
        """
        rng = random.Random(f"{self.seed} {number} mutation")
        text = f"{self.seed} {number}"
        # Greybox fuzzing (M. Zalewski, AFL): programs that reached something new are changed a little.
        if not self.corpus or rng.randrange(MUTATED):
            return RandomChoices(text), False
        # The smaller of a few: small programs are tried faster, and found mistakes are shorter.
        _, choices = min((self.corpus[rng.randrange(len(self.corpus))] for _ in range(DRAWN)), key=itemgetter(0))
        # Programs under a loss were drawn with numbers at which differences tell the slope; of others that is not known: two may be equal.
        if not (self.subject.names_loss or self.subject.is_backward or rng.randrange(RENUMBERED)):
            return RandomChoices(text, choices), True
        numbers = list(choices)
        for _ in range(rng.choice(CHANGES)):
            numbers[rng.randrange(len(numbers))] = rng.randrange(1 << 16)
        return RandomChoices(text, numbers if rng.randrange(3) else numbers[: rng.randrange(len(numbers)) + 1]), False

    def _try(self, drawn_case: Drawn) -> Finding | None:
        case, origin, choices = drawn_case
        arcs: set[Arc] = set()
        is_new = False

        def seldom(trial: Trial) -> set[str]:
            nonlocal is_new
            is_new = self._is_new(trial) or bool(arcs)
            return self._seldom(case, is_new)

        always = {kind for kind in ALL if kind not in SELDOM and (kind != "changed" or self.checked.examples % CHANGED == 0)}
        try:
            trial, finding = tried(self.subject, case, always, self.reach, arcs, seldom)
        except Unfit as error:
            if choices is not None:
                self._unfit(error)
            return None
        self.checked.count(trial)
        if finding is None and self.beside is not None and (trial.changed or is_new) and trial.after is not None:
            self.beside.note(origin, case, trial.before, trial.after)
            self.beside.changed += trial.changed and choices is not None
        if finding is None and is_new and choices is not None and choices.numbers:
            size = sum(len(block.ops) for block in case.program.blocks)
            self.corpus.append((size, choices.numbers))
        return finding

    def _seldom(self, case: Case, is_new: bool) -> set[str]:
        """The expensive checks to make on a program, all on the first one; gradients wherever it marks some, which shows in them alone."""
        # Counted apart, so that each check gets its share of the programs on which something new happened.
        count = self.counts[is_new]
        self.counts[is_new] += 1
        # By chance: sweeps go round in circles as well, and in step with them a check would always be made on the same of their programs.
        rng = random.Random(f"{self.seed} {is_new} {count}")
        made = {kind for kind, (new, often) in SELDOM.items() if rng.randrange(new if is_new else often) == 0 or not count}
        has_to = self.subject.is_backward or _marks_gradients(case)
        return made | {"gradients"} if has_to else made

    def _is_new(self, trial: Trial) -> bool:
        count = len(self.seen)
        if trial.changed:
            ops = (op for graph in trial.graph.tree() for op in graph.ops if op.made_by is not None)
            # What is new: a rule that had not fired, or an operator that a rule had not made.
            self.seen |= {f"{op.made_by} {op.origin.rule if op.origin is not None else ''} {op.type}" for op in ops}
            self.seen |= trial.fired
        return len(self.seen) > count

    def _unfit(self, reason: Exception) -> None:
        self.checked.unfit += 1
        # Counted without what is quoted, and numbers, which differ from one program to the next; shown with them.
        text = _QUOTED.sub("", str(reason))
        self.reasons[text] += 1
        self.reason_texts.setdefault(text, str(reason))
        if self.checked.unfit > UNFIT * (self.checked.examples + UNFIT):
            ((most, count),) = self.reasons.most_common(1)
            raise InvalidValue(
                f"{self.subject} cannot be tried: {self.checked.unfit} programs are unfit for it, and {self.checked.examples} are not; "
                f"{count} of them as this one: {self.reason_texts[most]}"
            )
