"""``graphad reduce PROGRAM --pipeline ...``: the smallest program on which a pipeline still goes wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from graphad.cli.arguments import DIFFERENT, FINE, Commands, add_program_options, program_case, refused, written_lines
from graphad.errors import GraphadError
from graphad.rewriting import Pipeline
from graphad.testing.checks import examine
from graphad.testing.shrinking import smallest
from graphad.testing.trial import LOSS, Subject


def add_parser(commands: Commands) -> None:
    """Add the command to those of graphad."""
    text = "Make a program smaller while a pipeline changes its results on random arrays, or fails on it; print the smallest one."
    parser = commands.add_parser("reduce", help="shrink a program on which a pipeline is wrong", description=text)
    add_program_options(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="where to write it (default: standard output)")
    parser.set_defaults(command=run_reduce)


def run_reduce(args: argparse.Namespace) -> int:
    """0 if nothing is wrong, 1 with the smaller program, 2 where there is nothing to run."""
    try:
        case = program_case(args)
        # Only to refuse a mistake in the text before anything runs.
        Pipeline.parse(args.pipeline.replace(LOSS, args.loss))
        subject = Subject(args.pipeline, args.prepare, args.tolerance, gradients=bool(args.loss))
        finding = examine(subject, case)
    except (GraphadError, OSError) as error:
        return refused(error)
    if finding is None:
        print(f"{args.pipeline}: the results are the same", file=sys.stderr)
        return FINE
    small, finding_ = smallest(subject, case, finding)
    if args.output is None:
        print(small.program, end="")
    else:
        args.output.write_text(str(small.program), encoding="utf-8")
    print(f"{args.pipeline}: {finding_}\n{written_lines(small.program, case.program)}", end="", file=sys.stderr)
    return DIFFERENT
