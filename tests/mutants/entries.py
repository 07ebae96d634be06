"""All entries of the corpus, and whether their witnesses show what they should."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from typing import NamedTuple

from graphad.ir import lower, schedule
from graphad.passes.cleanup.rules import Library, claims
from graphad.rewriting import PASSES
from tests.mutants.corpus import Mutant, UserPass
from tests.mutants.isolation import Ended, isolated, run_all
from tests.mutants.library import arrangement, backward, cleanup, control_flow, lowering, memory, merging, nets, operators, rules
from tests.mutants.patching import Patch, functions_by_module
from tests.mutants.right.witnesses import CONTROLS
from tests.mutants.subjects import SUBJECTS
from tests.mutants.witness import Trial, Values, difference, judged
from tests.mutants.wrong import algebra, guests, idioms, newcomers, outsiders, regions, strangers, witnesses

_TOPICS = (merging, cleanup, rules, arrangement, control_flow, nets, backward, memory, lowering, operators)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for topic in _TOPICS for mutant in topic.MUTANTS)
_FILES = (algebra, witnesses, strangers, newcomers, guests, outsiders, idioms, regions)
WRONG: tuple[UserPass, ...] = tuple(entry for file in _FILES for entry in file.WRONG)
UNORDERED: tuple[UserPass, ...] = witnesses.NONDETERMINISTIC
"""Wrong passes that make other programs where strings have other hashes: a single process does not show it."""
RIGHT: tuple[UserPass, ...] = CONTROLS
Entry = Mutant | UserPass
_LIMIT = 120.0  # seconds for a witness


def register() -> None:
    """Make the passes of the corpus known by their names, for the rest of this process."""
    tried = [*SUBJECTS, *(entry.pass_type for entry in (*WRONG, *UNORDERED, *RIGHT))]
    PASSES.update({each.name: each for each in tried})


def planted(mutant: Mutant, function: Callable[[], object]) -> object:
    """Call a function while a mistake is planted."""
    with mutant.patch.applied():
        _forget_rules(mutant.patch)
        return function()


def _forget_rules(patch: Patch) -> None:
    """Make the rules of a topic again when they are next used: a rule is traced once, from its function as it was then."""
    library = getattr(importlib.import_module(patch.where.partition(":")[0]), "library", None)
    if isinstance(library, Library):
        vars(library).pop("claims", None)
        claims.cache_clear()


# -- witnesses -----------------------------------------------------------------------------------


class Judged(NamedTuple):
    """The results of a witness without any mistake in graphad: values, or why there are none, and what is wrong with them."""

    values: Values
    wrong: str
    changed: bool


def faults(jobs: int = 1, names: Collection[str] = ()) -> dict[str, str]:
    """The fault of each witness, by the name of its entry; empty if it shows what it should. Names restrict it to these entries."""
    register()
    claims()  # traced once for all witnesses, and again where a rule is changed
    functions_by_module()
    mutants = [entry for entry in MUTANTS if not names or entry.name in names]
    wrong, right = ([entry for entry in kind if not names or entry.name in names] for kind in (WRONG, RIGHT))
    entries: list[Entry] = [*mutants, *wrong, *right]
    trials = {entry: Trial.of(entry.witness) for entry in entries}
    ended = isolated(lambda: [_judged(trial) for trial in trials.values()], _LIMIT)
    if ended.error:
        return {"all": ended.error}
    results: dict[Entry, Judged] = dict(zip(trials, ended.result, strict=True))
    planting = [lambda m=m: planted(m, trials[m].outcome) for m in mutants]
    verdicts = {mutants[i].name: _fault_of_mutant(mutants[i], results[mutants[i]], ended) for i, ended in run_all(planting, _LIMIT, jobs)}
    verdicts |= {entry.name: "" if results[entry].wrong else "nothing is wrong with it" for entry in wrong}
    for entry in right:
        fault = results[entry].wrong or ("" if results[entry].changed else "the pass changes nothing in it")
        verdicts[entry.name] = verdicts.get(entry.name) or fault
    return verdicts


def _judged(trial: Trial) -> Judged:
    try:
        values, wrong = judged(trial)
    except Exception as error:
        return Judged({}, f"{type(error).__name__}: {error}", any(trial.changed))
    return Judged(values, wrong, any(trial.changed))


def _fault_of_mutant(mutant: Mutant, right: Judged, wrong: Ended) -> str:
    if right.wrong:
        return f"without the mistake it is wrong as well: {right.wrong}"
    if wrong.error:
        return f"the mistake cannot be planted: {wrong.error}" if wrong.error.startswith("PatchError") else ""
    tolerance, one, other = mutant.witness.tolerance, right.values, wrong.result
    return "" if difference(one, other, tolerance) or difference(other, one, tolerance) else "with the mistake it is right as well"


def texts() -> dict[str, str]:
    """The programs that the unordered passes make, in this process."""
    register()
    programs = {}
    for entry in UNORDERED:
        graph = lower(entry.witness.program())
        entry.witness.passes().run(graph)
        programs[entry.name] = str(schedule(graph))
    return programs
