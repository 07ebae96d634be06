"""Programs a second of processor time that ``check_pass`` tries, by pass: ``python -m tests.benchmarks.checking``.

``--all`` measures every row of ``tests.every_pass``, that is every pass of the library, alone and after the standard backward;
``--rules`` how long rules are tried when they are defined.

On a core that another thread of the machine shares, the same work takes up to twice the processor time. So each row is measured several
times, on the same programs, and as ``timeit`` does the best is taken: what slows a run down is something else. A loop is timed before
and after each run too; the last line says how fast it was, and what the mean of all runs is.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from statistics import mean, median

from graphad.passes.cleanup.rules import claims
from graphad.rewriting.rule_check import check_rule
from graphad.testing import check_pass
from tests.every_pass import trials

PASSES = ("cse", "hoist-invariants", "dead-code", "in-place", "simplify", "create-grad-ops")
WARM_UP = 80  # programs before the clock starts: samples of operators are computed once


def speed(pipeline: str, prepare: str, examples: int, seeds: int) -> tuple[float, float]:
    """Programs a second of processor time, and the share of them that the pass changed, over several seeds."""
    checked = [check_pass(pipeline, examples=examples, seed=seed, prepare=prepare) for seed in range(seeds)]
    tried = sum(each.examples for each in checked)
    return tried / sum(each.seconds for each in checked), sum(each.changed for each in checked) / tried


def pace() -> float:
    """Seconds that a loop of plain Python takes now: how fast the core is at the moment. The median of some, of a few ms each."""
    times = list[float]()
    for _ in range(9):
        start, total = time.perf_counter(), 0
        for i in range(40_000):
            total += i % 7
        times.append(time.perf_counter() - start)
    return median(times)


def main(rows: Iterable[tuple[str, str]] | None = None, examples: int = 100, seeds: int = 1, repeats: int = 5) -> None:
    """Print a line of a table for each row, a pipeline and what prepares it, as soon as it is measured; None: those of ``PASSES``."""
    rows = trials(PASSES) if rows is None else rows
    print("| pass | after | programs a second | changed |\n| --- | --- | ---: | ---: |", flush=True)
    rates, paces = list[list[float]](), [pace()]
    for pipeline, prepare in rows:
        check_pass(pipeline, examples=WARM_UP, seed=seeds, prepare=prepare)
        rates.append([])
        for _ in range(repeats):
            rate, changed = speed(pipeline, prepare, examples, seeds)
            rates[-1].append(rate)
            paces.append(pace())
        print(f"| `{pipeline}` | {'the backward' if prepare else ''} | {max(rates[-1]):.0f} | {changed:.0%} |", flush=True)
    best, all_runs = [max(row) for row in rates], [mean(row) for row in rates]
    of_all = f"of all runs {mean(all_runs):.0f} and {median(all_runs):.0f}"
    print(f"\nPython {sys.version.split()[0]}: the mean of the rows is {mean(best):.0f}, the median {median(best):.0f}; {of_all}")
    print(f"the loop took {min(paces) * 1e3:.1f} ms to {max(paces) * 1e3:.1f} ms")


def rule_trials(every: int = 5) -> None:
    """Print how long trying a rule takes when it is defined, over every fifth rule of simplify."""
    chosen, seconds = list(claims())[::every], list[float]()
    for claim in chosen:
        start = time.process_time()
        check_rule(claim.rule, exact=claim.exact, example=claim.rule.example)
        seconds.append(time.process_time() - start)
    print(f"{len(chosen)} rules: {1e3 * mean(seconds):.0f} ms each, median {1e3 * median(seconds):.0f} ms, of processor time")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.checking", description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="PASS", help=f"rows of the library's that begin with one of these passes ({' '.join(PASSES)})"
    )
    parser.add_argument("--all", action="store_true", help="every pass of the library")
    parser.add_argument("--alone", action="store_true", help="no pass after the standard backward as well")
    parser.add_argument("--examples", type=int, default=100, help="programs for each seed (100)")
    parser.add_argument("--seeds", type=int, default=1, help="how many (1)")
    parser.add_argument("--repeats", type=int, default=5, help="how often each row is measured (5)")
    parser.add_argument("--rules", action="store_true", help="how long rules are tried when they are defined, instead")
    options = parser.parse_args()
    if options.rules:
        rule_trials()
    else:
        chosen = list(trials(() if options.all else options.names or PASSES))
        main([row for row in chosen if not (options.alone and row[1])], options.examples, options.seeds, options.repeats)
