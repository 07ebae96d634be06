"""``graphad check PASS``: a pass against random programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from graphad import testing
from graphad.cli.trial import DIFFERENT, FINE, add_trial_options, refused
from graphad.errors import GraphadError
from graphad.rewriting import Pipeline
from graphad.testing.counterexample import Counterexample
from graphad.testing.subject import LOSS


def add_parser(commands: Any) -> None:
    """Add the command to those of graphad."""
    text = "Run a pass, or a pipeline, on random programs, and check everything that has to hold of it: results, gradients, claims."
    parser: argparse.ArgumentParser = commands.add_parser("check", help="try a pass on random programs", description=text)
    parser.add_argument("pipeline", metavar="PASS", help="a pass or a pipeline, as text; $loss stands for the name of a program's loss")
    parser.add_argument("--examples", type=_count, default=100, metavar="N", help="how many programs (default: 100)")
    parser.add_argument("--no-gradients", action="store_true", help="do not compare gradients")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="where to draw a counterexample (default: a temporary folder)")
    add_trial_options(parser)
    parser.set_defaults(command=run_check)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"at least one example is tried, not {text}")
    return value


def run_check(args: argparse.Namespace) -> int:
    """0 if all is well, 1 with a counterexample, 2 for no pipeline."""
    try:
        for text in (args.pipeline, args.prepare):
            Pipeline.parse(text.replace(LOSS, "loss")) if text else None
    except GraphadError as error:
        return refused(error)
    try:
        checked = testing.check_pass(
            args.pipeline,
            examples=args.examples,
            tolerance=args.tolerance,
            gradients=not args.no_gradients,
            seed=args.seed,
            prepare=args.prepare,
            folder=args.output,
        )
    except Counterexample as found:
        print(found)
        return DIFFERENT
    doubt = "" if checked.changed else "; since it changed none of them, that says little"
    print(f"{args.pipeline}: nothing wrong on {checked.examples} programs, of which it changed {checked.changed}{doubt}")
    return FINE
