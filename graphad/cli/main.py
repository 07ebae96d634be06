"""``graphad demo | draw | passes``: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import graphad.passes  # noqa: F401 - the passes register themselves
from graphad.cli.demo import run_demo
from graphad.drawing import draw
from graphad.errors import GraphadError
from graphad.program import Program
from graphad.rewriting import PASSES

DESCRIPTION = """\
Programs of operators as graphs: rewritten by passes, differentiated by passes, drawn, and run.

  graphad demo                       train a convolutional net on handwritten digits, drawing its graphs
  graphad draw model.txt -o m.svg    draw a program
  graphad passes                     list the passes
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0, 1 for a failure, 2 for a wrong command line."""
    args = _parser().parse_args(argv)
    try:
        return int(args.command(args))
    except GraphadError as error:
        print(f"graphad: {error}", file=sys.stderr)
    except OSError as error:
        print(f"graphad: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="graphad", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="train a convolutional net on handwritten digits, drawing its graphs")
    demo.add_argument("-o", "--output", type=Path, default=Path("demo"), metavar="DIR", help="folder for the drawings (default: demo)")
    demo.add_argument("--epochs", type=int, default=15, metavar="N", help="times to go through the training images (default: 15)")
    demo.set_defaults(command=lambda args: run_demo(args.output, args.epochs))

    drawing = commands.add_parser("draw", help="draw a program", description="Draw a program's text as SVG, PNG or DOT.")
    drawing.add_argument("program", metavar="FILE", help="a program's text, as str(program) prints it; - reads standard input")
    drawing.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="where to draw it: .svg, .png or .dot")
    drawing.set_defaults(command=_draw)

    listing = commands.add_parser("passes", help="list the passes", description="List the passes with one line each.")
    listing.set_defaults(command=lambda args: _passes())
    return parser


def _draw(args: argparse.Namespace) -> int:
    text = sys.stdin.read() if args.program == "-" else Path(args.program).read_text()
    draw(Program.parse(text), args.output)
    print(f"drawn: {args.output}")
    return 0


def _passes() -> int:
    width = max(map(len, PASSES))
    for name, kind in sorted(PASSES.items()):
        print(f"{name:{width}}  {kind.summary()}")
    return 0
