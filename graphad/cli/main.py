"""The command line: one file a command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import graphad.passes  # noqa: F401 - the passes register themselves
from graphad.cli import bisect, check, completion, diff, draw, export, grad, listing, opt, reduce, run, verify, view, why
from graphad.cli.arguments import positive
from graphad.cli.demo import run_demo
from graphad.errors import GraphadError
from graphad.ops.definition import did_you_mean

DESCRIPTION = """\
Programs of operators as graphs: rewritten by passes, differentiated by passes, drawn, and run.

  graphad demo                                  train a convolutional net on handwritten digits, drawing its graphs
  graphad draw model.txt -o m.svg               draw a program
  graphad opt model.txt -p 'cse, dead-code'     run passes on a program
  graphad grad model.onnx -o grad.onnx          write an ONNX model with its gradients
  graphad export model.txt --to stablehlo -o m  write it for other compilers
  graphad verify model.txt                      say what is wrong with it
  graphad passes                                list the passes

Each command says more with --help.
"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in a line of its own, without the usage that hides it."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            # argparse says "invalid choice" of a command; the closest name helps more.
            near = did_you_mean(str(value), action.choices)
            if isinstance(action, argparse._SubParsersAction):
                self.error(f"there is no command {value!r}{near}")
            raise argparse.ArgumentError(action, f"invalid choice: {value!r} (choose from {', '.join(map(str, action.choices))}){near}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # Of a command's parser argparse would hand the rest up, and the root knows none of the command's options.
        known, rest = super().parse_known_args(args, namespace)
        for word in rest:
            if word.startswith("-"):
                option = word.partition("=")[0]
                self.error(f"there is no option {option!r}{did_you_mean(option, self._option_string_actions)}")
        if rest:
            self.error(f"not expected: {' '.join(rest)}")
        return known, rest

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n{self.prog} --help shows how it is used\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0, 1 for a failure, 2 for a wrong command line. Without a command it is the help."""
    args = _parser().parse_args(_asked(sys.argv[1:] if argv is None else list(argv)))
    try:
        status = int(args.command(args))
        if sys.stdout is not None:
            sys.stdout.flush()  # what cannot be written is an error here, not at the interpreter's exit
        return status
    except GraphadError as error:
        print(f"graphad: {error}", file=sys.stderr)
    except UnicodeEncodeError as error:
        character = error.object[error.start : error.end]
        # A lone surrogate has no form in UTF-8.
        encoding = "utf-8:backslashreplace" if "\ud800" <= character[0] <= "\udfff" else "utf-8"
        message = f"standard output is {error.encoding}, which has no {character!r}; PYTHONIOENCODING={encoding} changes it"
        print(f"graphad: {message}", file=sys.stderr)
    # Before OSError, of which it is one.
    except BrokenPipeError:  # who reads the output has seen enough
        _forget_output()
    except OSError as error:
        print(f"graphad: {error.filename or 'standard input or output'}: {error.strerror or error}", file=sys.stderr)
        _forget_output()
    return 1


def _asked(words: list[str]) -> list[str]:
    """``graphad help draw`` as ``graphad draw --help``."""
    return [*words[1:], "--help"] if words[:1] == ["help"] else words


def _help(parser: argparse.ArgumentParser, _: argparse.Namespace) -> int:
    parser.print_help()
    return 0


def _forget_output() -> None:
    """Discard the buffer of standard output, so that the interpreter reports no error at its exit."""
    output = sys.__stdout__
    if output is not None and output is sys.stdout:
        # What is still buffered is written at the interpreter's exit, and then goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="graphad", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(command=partial(_help, parser))
    parser.add_argument("-V", "--version", action="version", version=f"graphad {import_module('graphad').__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    demo = commands.add_parser("demo", help="train a convolutional net on handwritten digits, drawing its graphs")
    demo.add_argument("-o", "--output", type=Path, default=Path("demo"), metavar="DIR", help="folder for the drawings (default: demo)")
    demo.add_argument("--epochs", type=positive, default=15, metavar="N", help="times to go through the training images (default: 15)")
    demo.set_defaults(command=lambda args: run_demo(args.output, args.epochs))

    for command in (draw, run, opt, grad, export, view, verify, diff, why, check, bisect, reduce, listing):
        command.add_parser(commands)
    completion.add_parser(commands, _parser)
    return parser
