"""A pass being tried on one case: what is tried, what went in, what came out, and what is wrong with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from graphad.distribution import declared_parts, split_arrays, split_feed
from graphad.errors import GraphadError, InvalidValue, PassError, Refused
from graphad.ir import SINGLE_WRITER, Graph, lower, schedule
from graphad.ir.verify import verify
from graphad.ops import REGISTRY, GradOpDef
from graphad.ops.callbacks import silent
from graphad.ops.definition import GRAD
from graphad.passes import AccumulateGrads, CreateGradOps, CreateGradVars, FindOpPath, PruneNoGrad
from graphad.passes.analyses.sharding import ANNOTATION
from graphad.passes.backward import GradOps
from graphad.program import Program
from graphad.rewriting import PASSES, Pass, Pipeline, claims_checked, verification
from graphad.rewriting.passes import check_order
from graphad.settings import changed_settings
from graphad.testing.cases import Case
from graphad.testing.derivatives import can_difference, gradients_in, is_forward, roundings, slope
from graphad.testing.equivalence import Observed, Stepwise, observe, observe_on_ranks
from graphad.types import TENSOR, Array

# -- subject ---------------------------------------------------------------------------------------
# What is tried out: a pass or a pipeline, what runs before it, what it is compared with, and how exact it has to be.

IN_FLOAT16 = 1e-3  # a pass with this tolerance may compute in float16, to which large and tiny numbers are infinite and zero
PRINT = "print"
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
        """The graph of a case that the pass gets, not verified; gradients that the preparation makes are among its targets."""
        graph = lower(case.program, case.targets)
        if self.prepare:
            # Not what is on trial: its own mistakes would be found again and again.
            with verification(False), claims_checked(False):
                _prepare(as_pass(self.prepare, case.loss_name), graph)
            request_gradients(graph, case)
        return graph

    def resolved(self, case: Case) -> Subject:
        """The same for one case, with passes in the place of texts, and nothing that runs only here."""
        prepare = as_pass(self.prepare, case.loss_name) if self.prepare else ""
        return replace(self, what=self.passes(case), prepare=prepare, expect=None, reference=None)

    def before(self, case: Case, prepared: Graph) -> Program:
        """The program that the pass gets, or the reference makes; the case's own if that cannot be run yet, or is the same."""
        if self.reference is not None:
            return program_of(self.referred(case), case)
        # The reference program; where a graph cannot be a program yet, the case itself means the same.
        return schedule(prepared) if prepared.journal.rewrites and SINGLE_WRITER in prepared.properties else case.program

    def referred(self, case: Case) -> Graph:
        """The graph that the reference makes."""
        assert self.reference is not None
        graph = self.prepared(case)
        if self.reference:  # an empty one leaves the program as it is
            run_requesting_gradients(as_pass(self.reference, case.loss_name), graph, case)
        return graph

    def names_variables(self, case: Case) -> bool:
        """Whether names of a case's variables mean something to the passes: to their options, beside ``$loss``, or always."""
        # Names that a pass goes by may not be changed while a case is made smaller.
        if any(pass_.on_trial.goes_by_names for pass_ in inner_passes(self.passes(case))):
            return True
        options = f"{self.what} {self.prepare}"
        words = set(re.findall(r"[^\s,{}()=\[\]'\"]+", options.replace(LOSS, "")))
        return any(name in words for block in case.program.blocks for name in block.vars)

    def check_fits(self, case: Case) -> None:
        """Raise ValueError if the passes need what a case has not: a loss where a text names it, types where gradients get them."""
        if not case.loss_name and self.names_loss:
            raise InvalidValue(f"{self} needs a loss")
        if self.names_loss_later and case.loss_name not in case.targets:
            raise InvalidValue(f"{self} names the loss {case.loss_name!r}, which a pass before may remove: it is not requested")
        if self.is_backward and any(var.type == TENSOR and var.declared[1] is None for var in case.program.list_vars()):
            raise InvalidValue("a tensor of the program has no type, so that its gradient can have none")

    @cached_property
    def may_be_in_float16(self) -> bool:
        """Whether it may compute in float16."""
        tolerance = claimed_tolerance(as_pass(self.what, "loss")) if self.tolerance is None else self.tolerance
        return tolerance >= IN_FLOAT16

    @cached_property
    def names_loss(self) -> bool:
        """Whether a text names the loss, so that only programs with one are of use."""
        return any(isinstance(text, str) and LOSS in text for text in (self.what, self.prepare, self.reference))

    @cached_property
    def names_loss_later(self) -> bool:
        """Whether another pass runs before the first one that names the loss."""
        texts = [str(role) for role in (self.prepare, self.what) if role]
        before, match, _ = ", ".join(texts).partition(LOSS)
        return bool(match) and "," in before

    def allowed(self, case: Case, is_prepared: bool = True) -> float:
        """The tolerance: the largest one that the passes need, if none is given; what may round rounds more in float32.

        Where a program has no gradients yet, there is nothing that expanding them could round.

        Args:
            case: its passes, and the narrowest of its dtypes.
            is_prepared: whether results are compared with those of the prepared program; else what prepares it may round as well.
        """
        if self.tolerance is not None:
            return self.tolerance
        pass_texts = [self.reference] if self.reference else []
        pass_texts += [self.prepare] if self.prepare and not is_prepared else []
        passes = [self.passes(case), *(as_pass(item, case.loss_name) for item in pass_texts)]
        # What only gradients are rounded by does not count on a program that has none.
        inner = [
            pass_ for outer in passes for pass_ in inner_passes(outer) if not (pass_.on_trial.rounds_gradients and is_forward(case.program))
        ]
        tolerance = max((pass_.tolerance for pass_ in inner), default=0.0)
        return max(tolerance, roundings(case.program)) if tolerance else tolerance

    @property
    def is_analysis(self) -> bool:
        """Whether no pass on trial is meant to change graphs."""
        return all(pass_.is_analysis for pass_ in inner_passes(as_pass(self.what, "loss")))

    @cached_property
    def is_backward(self) -> bool:
        """Whether a backward is built, by the passes on trial or before them."""
        passes = [pass_ for text in (self.prepare, self.what) if text for pass_ in inner_passes(as_pass(text, "loss"))]
        return any(isinstance(pass_, FindOpPath) for pass_ in passes)

    @cached_property
    def is_after_backward(self) -> bool:
        """Whether the backward is there before the passes on trial run."""
        return bool(self.prepare) and any(isinstance(pass_, CreateGradOps) for pass_ in inner_passes(as_pass(self.prepare, "loss")))

    @cached_property
    def is_standard_backward(self) -> bool:
        """Whether the passes are those of the standard backward, up to one of them: then it would be compared with itself."""
        passes = [pass_ for what in (self.prepare, self.what) if what for pass_ in inner_passes(as_pass(what, "loss"))]
        standard = [type(pass_) for pass_ in Pipeline.parse(", ".join(BACKWARD).replace(LOSS, "loss")).passes]
        return [type(pass_) for pass_ in passes] == standard[: len(passes)]

    @cached_property
    def is_after_standard_backward(self) -> bool:
        """Whether what prepares it is the whole standard backward."""
        return self.prepare == ", ".join(BACKWARD)

    def differentiates(self, case: Case) -> bool:
        """Whether the passes build the whole backward of the case's loss: no input chosen, none left out."""
        passes = [pass_ for text in (self.prepare, self.what) if text for pass_ in inner_passes(as_pass(text, case.loss_name))]
        paths = {(pass_.targets, pass_.inputs, pass_.no_grad) for pass_ in passes if isinstance(pass_, FindOpPath)}
        return paths == {((case.loss_name,), (), ())} and any(isinstance(pass_, CreateGradOps) for pass_ in passes)

    def __str__(self) -> str:
        against = "" if self.reference is None else f", compared with {self.reference or 'the program as it is'}"
        return str(self.what) + (f" after {self.prepare}" if self.prepare else "") + against


def _prepare(passes: Pass, graph: Graph) -> None:
    """Run passes; an analysis only once as long as no pass changes the graph."""
    parts = passes.passes if type(passes) is Pipeline else (passes,)
    check_order(parts, graph)
    passes_before: list[Pass] = []
    for part in parts:
        if part in passes_before:
            continue
        if part.run(graph):
            passes_before.clear()
        elif part.is_analysis:
            passes_before.append(part)


def as_pass(what: Pass | str, loss: str) -> Pass:
    """A pass, or what a text says, with the loss's name put in."""
    return what if isinstance(what, Pass) else _parsed(what.replace(LOSS, loss), PASSES.changes)


@lru_cache
def _parsed(text: str, changes: int) -> Pass:
    """The passes of a text, kept until a name gets another pass: one that is defined again is another one."""
    pipeline = Pipeline.parse(text)
    return pipeline.passes[0] if len(pipeline.passes) == 1 else pipeline


def inner_passes(pass_: Any) -> list[Pass]:
    """The passes that a pass runs: those of a pipeline or a fixpoint, or itself."""
    inner = getattr(pass_, "passes", None) or getattr(getattr(pass_, "inner", None), "passes", None)
    return [pass_] if inner is None else [innermost for part in inner for innermost in inner_passes(part)]


def claimed_tolerance(pass_: Pass) -> float:
    """The largest tolerance that a pass, or one that it runs, needs."""
    return max(inner.tolerance for inner in inner_passes(pass_))


# -- passes of the backward ----------------------------------------------------------------------


def followed(what: Pass | str) -> Pass | str:
    """A pass with those after it that let what it does show; others, and pipelines, as they are."""
    followers = as_pass(what, "loss").on_trial.followed_by
    if not followers:
        return what
    return f"{what}, {followers}" if isinstance(what, str) else Pipeline(what, Pipeline.parse(followers))


def standard_preparation(what: Pass | str) -> str:
    """The passes of the standard backward that have to run before a pass, as text; empty if it works on a program as it is.

    That is what the pass requires, or all of them if it says that it is tried after the backward, and none after it builds one; or if
    none of them could follow the pass, since it does not preserve what they go by: then what it made would not become a program.

    >>> standard_preparation("create-grad-ops")
    'find-op-path{targets=[$loss]}, expand-grad-ops, find-op-path{targets=[$loss]}'
    """
    passes = as_pass(what, "loss").parts()
    if passes and passes[0].on_trial.after_backward and not any(isinstance(pass_, FindOpPath) for pass_ in passes):
        return ", ".join(BACKWARD)
    names = [text.partition("{")[0] for text in BACKWARD]
    first = passes[0].name
    shortest = names.index(first) if first in names else 0
    # The shortest part of the backward after which all that the passes require holds.
    for count in range(shortest, len(BACKWARD) + 1):
        before = Pipeline.parse(", ".join(BACKWARD[:count])).parts() if count else ()
        try:
            check_order((*before, *passes), Graph())
        except PassError:
            continue
        is_whole = "create-grad-ops" in names[:count] and not _can_be_followed(passes)
        return ", ".join(BACKWARD if is_whole else BACKWARD[:count])
    return ""


def _can_be_followed(passes: Sequence[Pass]) -> bool:
    """Whether the backward can be completed after passes, or is as far complete as it has to be."""
    if any(SINGLE_WRITER in pass_.establishes for pass_ in passes):
        return True
    return all(pass_.is_analysis or GradOps in (*pass_.preserves, *pass_.establishes) for pass_ in passes)


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
    has_changed = False
    for part in parts:
        before = str(graph) if watched else ""
        try:
            did = bool(part.run(graph))
        except Refused as error:
            # A refusal has to come before the first change. That a rule has no gradient for a call shows only where it is applied.
            if before and str(graph) != before:
                raise RefusedLate from error
            raise
        # With a change that is not reported, analyses would be kept that hold no more.
        if not did and before and str(graph) != before:
            raise HiddenChange(str(part))
        has_changed |= did
        request_gradients(graph, case)
    return has_changed


def request_gradients(graph: Graph, case: Case) -> dict[str, str]:
    """Make the gradients that a graph has of the case's sources targets of it, and return their names by the sources'.

    A target keeps its name: what was found once is found by that, although a pass since then forgot which value it is.
    """
    if SINGLE_WRITER not in graph.properties or not case.loss_name:
        return {}
    # Kept with the graph: the next pass may drop ``grad_of``, by which they were found.
    names: dict[str, str] = graph.journal.memory.setdefault(request_gradients, {})
    gradients = gradients_in(graph, case.sources)
    graph.targets.update(dict.fromkeys(gradients.values()))
    names.update({source: value.name for source, value in gradients.items()})
    return {source: name for source, name in names.items() if graph.versions(name)}


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
        types = {type(past) for past in graph.journal.history}
        with verification(False), claims_checked(False):
            for pass_ in _FINISHING:
                if type(pass_) not in types:
                    pass_.run(graph)
        verify(graph)
    return SINGLE_WRITER in graph.properties


# -- trial -----------------------------------------------------------------------------------------
# A pass being tried on one case: what went in, what came out, and what is wrong with it.


@dataclass(frozen=True)
class Finding:
    """A defect of a pass that a check has found.

    Args:
        kind: one word for it: ``values``, ``verifier``, ...
        text: the details.
        mark: what stays the same while the program is made smaller, so that another mistake is not taken for this one.
    """

    kind: str
    text: str
    mark: str = ""

    def __str__(self) -> str:
        return f"{HEADLINES[self.kind]}: {self.text}" if self.text else HEADLINES[self.kind]


HEADLINES = {
    "raises": "the pass raises",
    "verifier": "the graph after the pass breaks a rule",
    "claims": "what the pass claims is not true",
    "refused": "the pass refuses the graph, and has changed it",
    "changed": "the pass says it changed nothing, and did",
    "schedule": "the graph after the pass cannot be written as a program",
    "text": "the text of the program after the pass does not read back",
    "types": "the program after the pass declares what its operators do not give",
    "values": "the results differ",
    "compiled": "the results differ when the program runs as functions over numpy",
    "marks": "the results differ where operators compute into the memory of the inputs that are marked",
    "ranks": "the results differ on two ranks that have other numbers each",
    "deterministic": "the pass makes another program of the same one",
    "idempotent": "the pass says it is idempotent, but a second run changes the graph",
    "gradients": "the gradients differ",
    "expect": "what was expected after the pass does not hold",
}


class Unfit(GraphadError, ValueError):
    """A case that a pass cannot be tried on: it does not run, or what prepares it refuses it."""


@dataclass
class Trial:
    """A case on trial.

    Attributes:
        before: the program that the pass gets; the case's own where that cannot be one yet, or is the same.
        is_prepared: whether it is what the pass gets.
        referred: the names of the targets that a reference leaves.
        graph: the graph after the pass.
        after: the program after the pass, None if the graph cannot be one yet.
        made: the gradients that passes made, by the source's name: the names they have in ``after``.
        prepared: those that the standard backward made before the passes, all of it: the names they have in ``before``; else None.
        changed: whether the pass says that it changed the graph.
        fired: the passes and rules that rewrote something, also those that make no operator.
        is_thorough: whether gradients are compared with the standard backward where differences agree with them, too.
        slope_agrees: whether differences agree with the gradients.
        runs_compiled: whether ``after`` runs as functions over numpy first, and step by step only if that is not what is expected.
        ran_compiled: whether what it gave that way is what is expected.
    """

    subject: Subject
    case: Case
    before: Program = field(default_factory=Program)
    is_prepared: bool = False
    referred: list[str] = field(default_factory=list)
    graph: Graph = field(default_factory=Graph)
    after: Program | None = None
    made: dict[str, str] = field(default_factory=dict)
    prepared: dict[str, str] | None = None
    changed: bool = False
    fired: set[str] = field(default_factory=set)
    is_thorough: bool = True
    slope_agrees: bool = False
    runs_compiled: bool = False
    ran_compiled: bool = False
    _failure: Exception | None = field(default=None, init=False)

    @cached_property
    def random(self) -> np.random.Generator:
        """A new generator for random directions, with a fixed seed."""
        return np.random.default_rng(len(self.case.feeds) + 7)

    @cached_property
    def expected(self) -> Observed:
        """The results of ``before``; gradients only where they are requested.

        Raises:
            Unfit: it does not run.
        """
        return replace(self._given, values={name: self._given.values[name] for name in self._names_before if name in self._given.values})

    def prepared_gradients(self, sources: Iterable[str]) -> dict[str, Array]:
        """The gradients that are ``prepared``, in the run that gave what is ``expected``; zeros where there is none.

        Raises:
            Unfit: it does not run.
        """
        arrays, values, names = {**self.case.feeds, **self.case.params}, self._given.values, self.prepared or {}
        return {source: values.get(names.get(source, ""), np.zeros_like(arrays[source])) for source in sources}

    @cached_property
    def _given(self) -> Observed:
        """The results of ``before``, with the gradients in it."""
        try:
            return observe(self.before, self.case, self._all_before) if self._steps is None else self._steps.run(self.case)
        except Exception as error:  # a kernel may raise anything
            raise Unfit(f"{type(error).__name__}: {error}") from error

    @cached_property
    def _names_before(self) -> list[str]:
        effects = self._fetched_before if self.subject.reference is None else []  # a reference may have others
        return [*self.case.targets, *effects, *self._requested_by_both()]

    @cached_property
    def can_difference(self) -> bool:
        """Whether gradients of the case's loss can be held against differences."""
        return not self.case.altered and self.subject.differentiates(self.case) and can_difference(self.case.program)

    @cached_property
    def _steps(self) -> Stepwise | None:
        """``before``, prepared to be run, where that is the program that differences are taken of, too."""
        return Stepwise(self.before, self._all_before) if self.before is self.case.program and self.can_difference else None

    @cached_property
    def _all_before(self) -> list[str]:
        return list(dict.fromkeys((*self._names_before, *(self.prepared or {}).values())))

    def slope(self, case: Case, direction: dict[str, Array], agrees: Callable[[float], bool]) -> float | None:
        """See ``slope``; of the program of ``expected``, which is prepared, if that is the case's."""
        is_known = self._steps is not None and case.program is self.before and case.loss_name in self._given.values
        return slope(case, direction, agrees, self._steps if is_known else None)

    @cached_property
    def got(self) -> Observed:
        """The results of ``after``, with the gradients that passes made; see ``observed_after``."""
        return self.observed_after(list(self.made.values()))

    @cached_property
    def got_compiled(self) -> Observed:
        """The same where blocks run as functions over numpy.

        Raises:
            GraphadError, or whatever else a kernel raises: it does not run; it is not tried again.
        """
        if self._failure is None:
            try:
                return self.observed_after(list(self.made.values()), compiled=True)
            except Exception as error:
                self._failure = error
        raise self._failure

    def observed_after(self, names: Sequence[str] = (), compiled: bool = False) -> Observed:
        """The results of ``after``: the expected names, and ``names``. Results of operators with effects may have been renamed.

        Raises:
            GraphadError, or whatever else a kernel raises: it does not run.
        """
        assert self.after is not None
        new, ranks = self.new_names, self.ranks
        names_to_read = list(dict.fromkeys([*(new.get(n, n) for n in self.expected.values), *names]))
        if ranks > 1 and self.changed:
            results = observe_on_ranks(self.after, self.case, names_to_read, self._whole, ranks, compiled)
        else:
            results = observe(self.after, self.case, names_to_read, compiled)
        values = {**results.values, **{old: results.values[name] for old, name in new.items() if name in results.values}}
        return replace(results, values=values)

    @property
    def _whole(self) -> Observed:
        """The expected results, and arrays in the shapes of gradients that ``before`` does not have: the arrays that these belong to."""
        arrays = {**self.case.feeds, **self.case.params}
        return replace(self.expected, values={**{name_made: arrays[name] for name, name_made in self.made.items()}, **self.expected.values})

    def check_rows(self) -> None:
        """Raise Unfit where what is fed cannot be shared out to the ranks: too few rows, unlike numbers of them, or parts already.

        So it is where the program after the pass is that of one rank of several, which have others: one stage of a pipeline.
        """
        ranks, after = self.ranks, self.after
        if after is not None and self.changed and _has_peers(after) and not _has_peers(self.before):
            raise Unfit(
                "the program after the pass is one of several that differ, and waits for the others: options may leave one rank all"
            )
        if ranks == 1 or not self.changed or after is None:
            return
        # In a block as well, from which a pass may take them out.
        ops = (op for block in self.before.blocks for op in block.ops)
        if any(op.type == ANNOTATION and op.attrs.get("shape") is not None for op in ops):
            raise Unfit("the program is one of a rank already: it declares parts")
        feeds = {name: array for name, array in self.case.feeds.items() if name in after.global_block().vars}
        try:
            if declared_parts(after):
                split_arrays(after, {**self.case.params, **self.case.feeds}, ranks)
            else:
                split_feed(feeds, ranks)
        except InvalidValue as error:
            raise Unfit(str(error)) from error

    @cached_property
    def ranks(self) -> int:
        """How many ranks run ``after``: as the passes say, or the mesh that the program declares parts for."""
        parts = {} if self.after is None else declared_parts(self.after)
        return max(self.passes.group, *(part.mesh.size for part in parts.values()), 1)

    @cached_property
    def _fetched_before(self) -> list[str]:
        return _fetched(self.before)

    @cached_property
    def new_names(self) -> dict[str, str]:
        """The new names of what operators with effects write, by the old ones, where these are not requested, nor on both sides."""
        assert self.after is not None
        if not self._fetched_before:
            return {}
        before, after = ({n for b in p.blocks for op in b.ops for n in op.output_names()} for p in (self.before, self.after))
        # By their order, which no pass may change among operators with ordered effects. The new name may be that of a requested value,
        # which the effect's result is now, too.
        old, new = _written_by_effects(self.before), _written_by_effects(self.after)
        if len(old) != len(new):
            old, new = [name for name in self._fetched_before if name not in after], [n for n in _fetched(self.after) if n not in before]
        pairs = zip(old, new, strict=True) if len(old) == len(new) else ()
        known = set(self._fetched_before).difference(self.case.targets, after)
        return {old_name: new_name for old_name, new_name in pairs if old_name in known}

    def _requested_by_both(self) -> list[str]:
        """The targets that the reference adds to the case's, and the pass too."""
        new_names = {value.name for value in self.graph.targets}.difference(self.case.targets)
        return [name for name in self.referred if name in new_names]

    @cached_property
    def intended(self) -> Observed:
        """The results of ``before`` that the passes are there to change, with the values that they say these get."""
        program, case = self.before, self.case
        if all(type(pass_).intended is Pass.intended for pass_ in inner_passes(self.passes)):
            return Observed({}, {})
        gradients = [f"{p.name}{GRAD}" for p in program.all_parameters() if program.global_block().has_var(f"{p.name}{GRAD}")]
        observation = observe(program, case, [*self.expected.values, *gradients])
        results = self.passes.intended(program, {**observation.scope, **observation.values})
        return Observed(
            {n: a for n, a in results.items() if n in observation.values}, {n: a for n, a in results.items() if n in observation.scope}
        )

    @cached_property
    def allowed(self) -> float:
        """By how much results may differ, relatively."""
        return self.subject.allowed(self.case, self.is_prepared)

    @property
    def trips(self) -> frozenset[int]:
        """How often the loops of ``before`` ran; none where it was not run, as where the pass changed nothing."""
        return self.expected.trips if "expected" in vars(self) else frozenset()

    @cached_property
    def passes(self) -> Pass:
        return self.subject.passes(self.case)


def _has_peers(program: Program) -> bool:
    """Whether an operator of a program sends to one other rank, or waits for what that sends."""
    return any("peer" in op.attrs for block in program.blocks for op in block.ops)


def _written_by_effects(program: Program) -> list[str]:
    """The results of operators with effects in their order, but for gradients, and what is printed.

    The gradient of a collective exchanges cotangents, which are inner results: ``mixed-precision`` scales them all. What is printed is
    compared by itself, whatever the result is called.
    """
    ops = program.global_block().ops
    effects = [op for op in ops if (definition := REGISTRY.get(op.type)) is not None and definition.side_effect and op.type != PRINT]
    return [name for op in effects if not isinstance(REGISTRY[op.type], GradOpDef) for name in op.output_names()]


def _fetched(program: Program) -> list[str]:
    """The results of operators with effects that no other operator writes: they are requested too, whatever the targets are."""
    names = _written_by_effects(program)
    if not names:
        return []
    writers = Counter(name for block in program.blocks for op in block.ops for name in op.output_names())
    return [name for name in names if writers[name] == 1]


@contextmanager
def quietly() -> Iterator[None]:
    """Within it, everything a pass claims is checked, a pass that fails leaves no files, and programs print nothing."""
    with changed_settings(verify=True, check_claims=True, reproducers=""), silent():
        yield
