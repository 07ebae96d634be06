"""Every pass of the library under ``check_pass``, alone and after the standard backward: ``python -m tests.every_pass``.

A pass that is tried after the backward anyway, or builds it, has one row. Without names all are tried; with some, these alone, so that
a long run can be taken up where it ended.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphad.errors import PassError
from graphad.ir import Graph
from graphad.rewriting import Pipeline
from graphad.rewriting.passes import check_order
from graphad.testing import Counterexample, Vacuous, check_pass
from graphad.testing.trial import BACKWARD, standard_preparation
from tests.testing.test_library import ROWS, Row

HEADS = ("pass", "after", "programs", "changed", "seconds", "finding")
AFTER_BACKWARD = ", ".join(BACKWARD)


class Tried(NamedTuple):
    """The result of trying a pass: on how many programs, how many it changed, processor time, and the finding, empty if there is none."""

    examples: int
    changed: int
    seconds: float
    finding: str = ""


def trials(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pipelines to try, each with what prepares it: nothing, or the standard backward as well where it can stand after that.

    Raises:
        SystemExit: no row begins with one of the names; trying none of them would find nothing.
    """
    if unknown := [name for name in names if name not in set(map(_first, ROWS))]:
        sys.exit(f"no row begins with {', '.join(unknown)}; there are {', '.join(sorted(set(map(_first, ROWS))))}")
    for row in ROWS:
        if not names or _first(row) in names:
            yield row.pipeline, ""
            if not standard_preparation(row.pipeline) and _can_follow(row.pipeline):
                yield row.pipeline, AFTER_BACKWARD


def _first(row: Row) -> str:
    """The name of the first pass of a row."""
    return re.split(r"[^\w-]", row.pipeline, maxsplit=1)[0]


def _can_follow(pipeline: str) -> bool:
    try:
        check_order(Pipeline.parse(f"{AFTER_BACKWARD}, {pipeline}".replace("$loss", "loss")).parts(), Graph())
    except PassError:
        return False
    return True


def tried(pipeline: str, prepare: str, examples: int, seed: int) -> Tried:
    """Try one, and say what came of it; a counterexample is whole."""
    start = time.process_time()
    try:
        checked, finding = check_pass(pipeline, examples, seed=seed, prepare=prepare), ""
    except Vacuous as vacuous:
        checked, finding = vacuous.checked, "vacuous"
    except Counterexample as wrong:
        return Tried(wrong.examples, 0, time.process_time() - start, str(wrong))
    return Tried(checked.examples, checked.changed, time.process_time() - start, finding)


def main() -> int:
    """Try each, print a line of a table for each, then what was found; return 1 if something was."""
    parser = argparse.ArgumentParser(prog="python -m tests.every_pass", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="PASS", help="the first passes of rows; none: all")
    parser.add_argument("--examples", type=int, default=2000, help="programs for each (2000)")
    parser.add_argument("--seed", type=int, default=0, help="which programs (0)")
    options = parser.parse_args()
    chosen = list(trials(options.names))
    print("| " + " | ".join(HEADS) + " |\n|" + " --- |" * len(HEADS), flush=True)
    found = []
    for pipeline, prepare in chosen:
        one = tried(pipeline, prepare, options.examples, options.seed)
        where = "the backward" if prepare else ""
        finding = one.finding.partition("\n")[0]
        print(f"| `{pipeline}` | {where} | {one.examples} | {one.changed} | {one.seconds:.1f} | {finding} |", flush=True)
        found += [f"{pipeline} {where}\n{one.finding}"] if one.finding else []
    print("\n" + "\n\n".join(found) if found else "\nnothing found")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
