"""``graphad diff``: two programs compared up to renaming."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphad.cli.arguments import DIFFERENT, FINE, add_allow_unknown, program_in, refused
from graphad.difference import compare
from graphad.drawing import draw_diff
from graphad.errors import GraphadError


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "Compare two programs up to the names of their variables."
    statuses = "The exit status is 0 if they are the same, 1 if not, 2 if one of them is no program."
    parser = commands.add_parser("diff", help="compare two programs up to renaming", description=text, epilog=statuses)
    parser.add_argument("before", metavar="A", help="a program as text, JSON or protobuf, or an ONNX model")
    parser.add_argument("after", metavar="B", help="another one")
    parser.add_argument("--draw", type=Path, metavar="OUT", help="draw both as one: added outlined, removed as ghosts, changed marked")
    add_allow_unknown(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    try:
        difference = compare(*(program_in(path, allow_unknown=args.allow_unknown) for path in (args.before, args.after)))
    except (GraphadError, OSError) as error:
        return refused(error)
    print(difference.text(args.before, args.after), end="")
    if args.draw is not None:
        draw_diff(difference.before, difference.after, args.draw, title=f"from {args.before} to {args.after}")
    return FINE if difference.is_empty else DIFFERENT
