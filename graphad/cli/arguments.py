"""Shared by commands: programs in and out, pipelines under test, the requested variables, random arrays."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from graphad.errors import GraphadError, InvalidValue
from graphad.interop import onnx
from graphad.interop.formats import FORMATS, read_program
from graphad.ir import Graph, lower
from graphad.program import Operator, Program
from graphad.rewriting import Pipeline
from graphad.testing.cases import Case, random_case
from graphad.types import Array, Sizes

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # what the parsers of commands are added to

# -- programs --------------------------------------------------------------------------------------
# Shared by commands: programs in and out, the requested variables, pipelines.

PASSES = "PASSES"
ONNX = ".onnx"  # ends the names of files with ONNX models
PROGRAM = "a program as text, JSON or protobuf, or an ONNX model, told by the end of its name or its first bytes; - reads standard input"


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
        "-p", "--pipeline", type=pipeline, required=required, metavar=PASSES, help="for instance 'fixpoint(cse, dead-code)'"
    )


def names(text: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def count(text: str) -> int:
    """A number from 0 on."""
    if not text.lstrip("-").isdecimal():
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}")
    # argparse would take -1 for an option.
    if int(text) < 0:
        raise argparse.ArgumentTypeError(f"it is 0 or more, not {text}")
    return int(text)


def positive(text: str) -> int:
    """A number from 1 on."""
    if count(text) < 1:
        raise argparse.ArgumentTypeError(f"it is 1 or more, not {text}")
    return int(text)


SIZES = "N|NAME=N,..."


def sizes(text: str) -> Sizes:
    """A number for all unknown extents, or numbers by their names: ``32`` or ``batch=32,sequence=128``."""
    if "=" not in text:
        return count(text)
    # The last "=" separates: names of extents may have any character.
    pairs = [item.rpartition("=") for item in text.split(",")]
    return {name.strip(): count(size.strip()) for name, _, size in pairs}


def number(text: str) -> float:
    """A number; nan, which is in no range, where the text is none."""
    try:
        return float(text)
    except ValueError:
        # Ranges are checked by the caller, where nan fails as well.
        return math.nan


def pipeline(text: str) -> Pipeline:
    """The pipeline of a text, or of a file that ``@file`` names."""
    try:
        return Pipeline.parse(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def arrays(path: Path | None) -> dict[str, Any]:
    """The arrays of a file by name; none if there is no file."""
    if path is None:
        return {}
    try:
        # Without pickles: a file of arrays from elsewhere must not run code.
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    except FileNotFoundError as error:
        # What looks like data, as ``x=1``, was taken for the name of a file.
        hint = "" if path.suffix in (".npz", ".npy") else "; arrays come from a file, as numpy.savez('feed.npz', x=...) writes it"
        raise FileNotFoundError(error.errno, f"{error.strerror}{hint}", os.fspath(path)) from None
    except ValueError as error:
        raise InvalidValue(f"{path} holds no arrays that can be read: {error}") from None


def read(args: argparse.Namespace) -> Program:
    """The program that the command line names."""
    return source(args).program


class Source(NamedTuple):
    """A program that was read.

    Attributes:
        program: it.
        parameters: the values that its file has: ONNX models have those of their parameters.
        fetch: the requested variables: those of ``--fetch``, else the outputs of an ONNX model, else None.
        inputs: the inputs of an ONNX model, by their order; () of other programs.
    """

    program: Program
    parameters: dict[str, Array]
    fetch: list[str] | None
    inputs: Sequence[str] = ()


def source(args: argparse.Namespace, feed: Mapping[str, Array] | None = None) -> Source:
    """The program that the command line names; of an ONNX model whose program depends on what it is fed, the one for that."""
    fetch = getattr(args, "fetch", None)
    if args.program.endswith(ONNX):
        model = onnx.load(args.program)
        model = model if feed is None else model.decided(feed)
        # An ONNX model says itself which values are its outputs.
        return Source(model.program, model.parameters, fetch or model.fetch_names, model.feed_names)
    return Source(read_program(args.program, getattr(args, "source_format", None), allow_unknown=args.allow_unknown), {}, fetch)


def program_in(path: str, format: str | None = None, *, allow_unknown: bool | None = None) -> Program:
    """The program of a file, ONNX models included, without the values of their parameters."""
    return onnx.load(path).program if path.endswith(ONNX) else read_program(path, format, allow_unknown=allow_unknown)


def lowered(args: argparse.Namespace) -> Graph:
    """The graph of the program that the command line names, with the requested variables as targets."""
    value = source(args)
    return lower(value.program, value.fetch)


# -- trial -----------------------------------------------------------------------------------------
# Shared by the commands check, bisect and reduce: a pipeline under test, and a program with random arrays to run it on.

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
    parser.add_argument("-p", "--pipeline", required=True, metavar=PASSES, help="the passes under test, as text; $loss stands for --loss")
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
    """The lines at which the operators of a program made from another one were written; new operators have none."""
    sources = {key: op.source for op, key in _keyed(original)}
    lines = [f"  {op!r}, written at {sources[key]}\n" for op, key in _keyed(program) if sources.get(key)]
    return "".join(lines)


def _keyed(program: Program) -> Iterator[tuple[Operator, tuple[str, ...]]]:
    """The operators, each with its type and its results, which edits keep."""
    for block in program.blocks:
        for op in block.ops:
            yield op, (op.type, *op.output_names())


def refused(error: GraphadError | OSError) -> int:
    """Report an error in the command line, or in a file or pass that it names."""
    message = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    print(f"graphad: {message}", file=sys.stderr)
    return WRONG_USE
