"""Shared by commands: programs in and out, the requested variables, pipelines."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from graphad.graph import Graph, lower
from graphad.interop.formats import FORMATS, read_program
from graphad.program import Program
from graphad.rewriting import Pipeline

PROGRAM = "a program as text, JSON or protobuf, told by the end of its name or its first bytes; - reads standard input"


def add_program(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """The program a command works on; where it is optional, standard input if not given."""
    more: dict[str, str] = {"nargs": "?", "default": "-"} if optional else {}
    parser.add_argument("program", metavar="PROGRAM", help=PROGRAM, **more)  # type: ignore[arg-type]


def add_format(parser: argparse.ArgumentParser) -> None:
    """The options for the form of the program, and for unknown operators in it."""
    parser.add_argument(
        "--from", dest="source_format", choices=sorted(FORMATS), metavar="FORMAT", help=f"read {' | '.join(sorted(FORMATS))}"
    )
    add_allow_unknown(parser)


def add_allow_unknown(parser: argparse.ArgumentParser) -> None:
    """Whether a text may have what no registered operator has."""
    parser.add_argument(
        "--allow-unknown", action="store_true", help="keep operators, slots and attributes that are not registered, which else are errors"
    )


def add_fetch(parser: argparse.ArgumentParser) -> None:
    """The requested variables."""
    parser.add_argument("--fetch", type=names, metavar="NAMES", help="requested variables, with commas; else those that no operator reads")


def add_pipeline(parser: argparse.ArgumentParser, required: bool) -> None:
    """The passes to run."""
    parser.add_argument(
        "-p", "--pipeline", type=pipeline, required=required, metavar="PASSES", help="for instance 'fixpoint(cse, dead-code)'"
    )


def names(text: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def count(text: str) -> int:
    """A number from 0 on."""
    if not text.lstrip("-").isdecimal():
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}")
    if int(text) < 0:
        raise argparse.ArgumentTypeError(f"it is 0 or more, not {text}")
    return int(text)


def number(text: str) -> float:
    """A number; nan, which is in no range, where the text is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def pipeline(text: str) -> Pipeline:
    """The pipeline of a text, or of a file that ``@file`` names."""
    try:
        return Pipeline.parse(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def read(args: argparse.Namespace) -> Program:
    """The program that the command line names."""
    return read_program(args.program, getattr(args, "source_format", None), allow_unknown=args.allow_unknown)


def lowered(args: argparse.Namespace) -> Graph:
    """The graph of the program that the command line names, with the requested variables as targets."""
    return lower(read(args), args.fetch)
