"""``graphad diff``: two programs compared up to renaming."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphad.cli.arguments import add_allow_unknown
from graphad.difference import compare
from graphad.drawing import draw_pair
from graphad.interop.formats import read_program


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "Compare two programs up to the names of their variables. The exit status is 0 if they are the same, 1 if not."
    parser = commands.add_parser("diff", help="compare two programs up to renaming", description=text)
    parser.add_argument("before", metavar="A", help="a program as text, JSON or protobuf")
    parser.add_argument("after", metavar="B", help="another one")
    parser.add_argument("--draw", type=Path, metavar="OUT", help="draw both beside each other, what differs outlined: .svg")
    add_allow_unknown(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    found = compare(*(read_program(path, allow_unknown=args.allow_unknown) for path in (args.before, args.after)))
    print(found.text(args.before, args.after), end="")
    if args.draw is not None:
        draw_pair(found.before, found.after, args.draw, titles=(args.before, args.after), highlight=[*found.removed, *found.added])
    return 0 if found.is_empty else 1
