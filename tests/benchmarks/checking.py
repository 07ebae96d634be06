"""Programs a second that ``check_pass`` tries, by pass, in processor time: ``python -m tests.benchmarks.checking``; rules: ``--rules``."""

from __future__ import annotations

import argparse
import time
from statistics import mean, median

from rich.console import Console
from rich.table import Table

from graphad.passes.cleanup.rules import claims
from graphad.rewriting.rule_check import check_rule
from graphad.testing import check_pass

PASSES = ("cse", "hoist-invariants", "dead-code", "in-place", "simplify", "create-grad-ops")
WARM_UP = 80  # programs before the clock starts: samples of operators are computed once


def speed(name: str, examples: int, seeds: int) -> tuple[float, float]:
    """Programs a second of processor time, and the share of them that the pass changed, over several seeds."""
    check_pass(name, examples=WARM_UP, seed=seeds)
    checked = [check_pass(name, examples=examples, seed=seed) for seed in range(seeds)]
    tried = sum(each.examples for each in checked)
    return tried / sum(each.seconds for each in checked), sum(each.changed for each in checked) / tried


def main(examples: int = 200, seeds: int = 3, names: tuple[str, ...] = PASSES) -> None:
    """Print the table."""
    table = Table(title="programs that check_pass tries a second of processor time")
    for column in ("pass", "programs a second", "changed"):
        table.add_column(column, justify="right")
    for name in names:
        rate, changed = speed(name, examples, seeds)
        table.add_row(name, f"{rate:.0f}", f"{changed:.0%}")
    Console(width=160).print(table)


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
    parser.add_argument("names", nargs="*", default=PASSES, metavar="PASS")
    parser.add_argument("--examples", type=int, default=200, help="programs for each seed (200)")
    parser.add_argument("--seeds", type=int, default=3, help="how many (3)")
    parser.add_argument("--rules", action="store_true", help="how long rules are tried when they are defined, instead")
    options = parser.parse_args()
    if options.rules:
        rule_trials()
    else:
        main(options.examples, options.seeds, tuple(options.names))
