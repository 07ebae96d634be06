"""Every entry of the corpus against ``check_pass``: what is caught, in what time, and how small a program shows it."""

from __future__ import annotations

import inspect
import os
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from graphad.program import Program
from graphad.rewriting import Pass
from graphad.settings import SETTINGS
from graphad.testing import Case, Counterexample, check_case, check_pass
from tests.mutants.corpus import Check, Mutant, UserPass
from tests.mutants.entries import MUTANTS, RIGHT, UNORDERED, WRONG, Entry, planted, register
from tests.mutants.isolation import Ended, isolated, run_all

CAUGHT, MISSED, VACUOUS, FAILED, FALSE = "caught", "missed", "vacuous", "failed", "false"
_SHRINKING = 120.0  # seconds on the clock, beyond four times the budget, for making the program small
_BATCH = 100  # programs at a time, where check_pass has no budget of its own
_KINDS = ("mutants", "wrong", "right")
_OPTIONS = inspect.signature(check_pass).parameters


class Outcome(NamedTuple):
    """The checker's verdict on an entry.

    Attributes:
        verdict: caught, missed, vacuous (the pass changed no program), failed (the checker did), or false: what it found is wrong with
            graphad as it is too, so the mistake is not what was caught.
        finding: the kind of what it found, or why it failed.
        seconds: processor time, making the program small included.
        examples: how many programs it tried.
        size: how many operators the smallest program has.
        case: the smallest program and what belongs to it, as plain data.
    """

    verdict: str
    finding: str = ""
    seconds: float = 0.0
    examples: int = 0
    size: int = 0
    case: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    kind: str
    entry: Entry
    outcome: Outcome

    def cells(self) -> list[str]:
        """The columns: name, family, verdict, finding, seconds, programs, operators."""
        verdict, finding, seconds, examples, size, _ = self.outcome
        return [self.entry.name, self.entry.family, verdict, finding, f"{seconds:.1f}", str(examples or ""), str(size or "")]


HEADS = ("entry", "family", "verdict", "finding", "seconds", "programs", "operators")

# -- one entry -----------------------------------------------------------------------------------


def tried(entry: Entry, seconds: float, examples: int, seed: int) -> Outcome:
    """Give one entry to the checker, in this process."""
    SETTINGS.reproducers = ""
    register()
    if isinstance(entry, Mutant):
        return planted(entry, lambda: _checked(entry.checked, seconds, examples, seed))  # type: ignore[return-value]
    return _checked(entry.checked, seconds, examples, seed)


def _checked(check: Check, seconds: float, examples: int, seed: int) -> Outcome:
    what = check.what if isinstance(check.what, str | Pass) else check.what()
    done, start = 0, _processor_time()
    try:
        for options in _rounds(check, seconds, examples, seed):
            checked = check_pass(what, prepare=check.prepare, **options, **check.options)
            done += checked.examples
            if _processor_time() - start > seconds and not examples:
                break
    except Counterexample as wrong:
        size = sum(len(block.ops) for block in wrong.case.program.blocks)
        case = _packed(wrong.case)
        return Outcome(CAUGHT, wrong.finding.kind, _processor_time() - start, done + wrong.examples, size, case)
    except Exception as error:
        verdict = VACUOUS if type(error).__name__ == "Vacuous" else FAILED
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        return Outcome(verdict, "" if verdict == VACUOUS else said[:100], _processor_time() - start, done)
    return Outcome(MISSED, "", _processor_time() - start, done)


def _confirmed(entry: Entry, outcome: Outcome) -> Outcome:
    """A mistake is caught only if nothing is found on the smallest program where it is not planted."""
    if not isinstance(entry, Mutant) or outcome.verdict != CAUGHT:
        return outcome
    ended = isolated(partial(_is_accused, entry.checked, outcome.case), _SHRINKING)
    return outcome._replace(verdict=FALSE) if ended.result else outcome


def _packed(case: Case) -> tuple[Any, ...]:
    """A case as plain data, which processes can exchange."""
    forward = None if case.forward is None else _packed(case.forward)
    return str(case.program), case.loss_name, dict(case.feeds), dict(case.params), case.requested, forward, case.order


def _unpacked(data: tuple[Any, ...]) -> Case:
    """The case again."""
    text, loss, feeds, params, requested, forward, order = data
    return Case(Program.parse(text), loss, feeds, params, requested, None if forward is None else _unpacked(forward), order)


def _is_accused(check: Check, case: tuple[Any, ...]) -> bool:
    """Whether something is found on a program with graphad as it is."""
    SETTINGS.reproducers = ""
    register()
    what = check.what if isinstance(check.what, str | Pass) else check.what()
    try:
        check_case(what, _unpacked(case), check.prepare, reference=check.reference)
    except AssertionError:
        return True
    return False


def _rounds(check: Check, seconds: float, examples: int, seed: int) -> Iterable[dict[str, Any]]:
    """The arguments of ``check_pass``: one call with a budget, or where it has none, many calls with other seeds."""
    fixed: dict[str, Any] = {"reference": check.reference} if check.reference is not None and "reference" in _OPTIONS else {}
    if examples:
        return [{**fixed, "examples": examples, "seed": seed}]
    if "seconds" in _OPTIONS:
        return [{**fixed, "seconds": seconds, "seed": seed}]
    return ({**fixed, "examples": _BATCH, "seed": seed + 1000 * i} for i in range(10_000))


def _processor_time() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _outcome(ended: Ended) -> Outcome:
    if isinstance(ended.result, Outcome):
        return ended.result
    late = ended.error.startswith("not done")
    return Outcome(MISSED if late else FAILED, ended.error.splitlines()[0][:100], ended.seconds)


# -- all -----------------------------------------------------------------------------------------


def chosen(names: Sequence[str]) -> list[tuple[str, Entry]]:
    """The entries that names, families or kinds stand for, each with its kind."""
    by_kind: dict[str, Sequence[Entry]] = dict(zip(_KINDS, (MUTANTS, (*WRONG, *UNORDERED), _each_once(RIGHT)), strict=True))
    pairs = [(kind, entry) for kind, entries in by_kind.items() for entry in entries]
    unknown = set(names) - set(_KINDS) - {word for _, entry in pairs for word in (entry.name, entry.family)}
    if unknown:
        raise SystemExit(f"no entry, family or kind is called {', '.join(sorted(unknown))}")
    return [(kind, entry) for kind, entry in pairs if not names or {kind, entry.name, entry.family}.intersection(names)]


def _each_once(entries: Sequence[UserPass]) -> tuple[UserPass, ...]:
    return tuple({entry.name: entry for entry in entries}.values())


def run(options: Namespace) -> int:
    """Try what the command line names, print the table, and write it where that is requested."""
    pairs = chosen(options.names)
    functions: list[Callable[[], Outcome]] = [
        partial(tried, entry, options.seconds, options.controls if kind == "right" else options.examples, options.seed)
        for kind, entry in pairs
    ]
    rows: list[Row] = []
    started = time.monotonic()
    for index, ended in run_all(functions, 4 * options.seconds + _SHRINKING + options.controls, options.jobs):
        rows.append(Row(*pairs[index], _confirmed(pairs[index][1], _outcome(ended))))
        print("{:60} {:22} {:8} {:14} {:>7} s {:>6} programs {:>3} operators".format(*rows[-1].cells()), flush=True)
    print(f"\n{summary(rows)}\n{time.monotonic() - started:.0f} s on the clock")
    if options.markdown:
        order = {entry.name: i for i, (_, entry) in enumerate(pairs)}
        rows.sort(key=lambda row: order[row.entry.name])
        Path(options.markdown).write_text(markdown(rows, options.seconds), encoding="utf-8")
    return int(any(row.kind == "right" and row.outcome.verdict in (CAUGHT, FAILED) for row in rows))


def summary(rows: Sequence[Row]) -> str:
    """The totals by family, the share that was caught, and the median size of programs and time to catch."""
    lines = []
    for kind in _KINDS:
        of_kind = [row for row in rows if row.kind == kind]
        for family in dict.fromkeys(row.entry.family for row in of_kind):
            lines.append(_total(f"{kind}: {family}", [row for row in of_kind if row.entry.family == family]))
        lines += [_total(f"{kind}: all", of_kind)] if of_kind else []
    return "\n".join(lines)


def _total(title: str, rows: Sequence[Row]) -> str:
    caught = [row.outcome for row in rows if row.outcome.verdict == CAUGHT]
    text = f"{title:40} {len(caught)} of {len(rows)} caught ({len(caught) / len(rows):.0%})"
    others = {verdict: sum(row.outcome.verdict == verdict for row in rows) for verdict in (VACUOUS, FAILED, FALSE)}
    text += "".join(f", {count} {verdict}" for verdict, count in others.items() if count)
    if caught:
        text += f", median {median(each.size for each in caught):g} operators, {median(each.seconds for each in caught):.1f} s"
    return text


def markdown(rows: Sequence[Row], seconds: float) -> str:
    """The table and its totals for docs/checking.md."""
    said = [f"Budget: {seconds:g} s of processor time for each entry.", "", "```text", summary(rows), "```", ""]
    table = ["| " + " | ".join(HEADS) + " |", "|" + " --- |" * len(HEADS)]
    table += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    return "\n".join([*said, *table, ""])


__all__ = ["HEADS", "Outcome", "Row", "chosen", "markdown", "run", "summary", "tried"]
