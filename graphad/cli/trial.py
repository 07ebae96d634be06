"""Shared by the commands check, bisect and reduce: a pipeline under test, and a program with random arrays to run it on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from graphad.cli.programs import add_format, add_program, count, number, read
from graphad.errors import GraphadError
from graphad.program import Operator, Program
from graphad.testing.cases import Case
from graphad.testing.fitted import random_case

FINE, DIFFERENT, WRONG_USE = 0, 1, 2


def add_trial_options(parser: argparse.ArgumentParser) -> None:
    """``--prepare``, ``--tolerance`` and ``--seed``."""
    parser.add_argument("--prepare", default="", metavar="PIPELINE", help="passes that run before, and are not under test")
    parser.add_argument(
        "--tolerance", type=_tolerance, metavar="T", help="the allowed relative difference of results (default: as the passes say)"
    )
    parser.add_argument("--seed", type=count, default=0, metavar="N", help="of the random arrays and programs (default: 0)")


def add_program_options(parser: argparse.ArgumentParser) -> None:
    """The program and the pipeline under test."""
    add_program(parser)
    add_format(parser)
    parser.add_argument("-p", "--pipeline", required=True, help="the passes under test, as text; $loss stands for --loss")
    parser.add_argument("--loss", default="", metavar="NAME", help="a scalar of the program whose gradients are compared as well")
    add_trial_options(parser)


def _tolerance(text: str) -> float:
    value = number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"a tolerance is a number from 0 to 1, not {text}")
    return value


def program_case(args: argparse.Namespace) -> Case:
    """The program with random arrays.

    Raises:
        ValueError: it is no program, or it has no variable of the name ``--loss``.
    """
    program = read(args)
    if args.loss:
        program.global_block().var(args.loss)
    return random_case(program, args.seed, args.loss)


def written_lines(program: Program, original: Program) -> str:
    """Where the operators of a program made from another one were written; those that are new were not."""
    sources = {key: op.source for op, key in _keyed(original)}
    lines = [f"  {op!r}, written at {sources[key]}\n" for op, key in _keyed(program) if sources.get(key) is not None]
    return "".join(lines)


def _keyed(program: Program) -> Iterator[tuple[Operator, tuple[str, ...]]]:
    """The operators, each with its type and its results, which edits keep."""
    for block in program.blocks:
        for op in block.ops:
            yield op, (op.type, *op.output_names())


def refused(error: GraphadError | OSError) -> int:
    """Report an error in the command line, or in a file or pass that it names."""
    print(f"graphad: {error}", file=sys.stderr)
    return WRONG_USE
