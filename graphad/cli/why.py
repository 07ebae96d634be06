"""``graphad why``: where a value comes from."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphad.cli.arguments import add_fetch, add_format, add_pipeline, add_program, lowered
from graphad.errors import InvalidValue


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "Say where a value comes from: the passes and rules that made it, and the operators they started from."
    parser = commands.add_parser("why", help="say where a value comes from", description=text)
    parser.add_argument("value", metavar="VALUE", help="the name of a variable, followed by #n for its n-th value")
    add_program(parser, optional=True)
    add_pipeline(parser, required=False)
    add_format(parser)
    add_fetch(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.program == "-" and Path(args.value).is_file():
        raise InvalidValue(f"{args.value!r} is a file: the variable comes first, graphad why VALUE {args.value}")
    graph = lowered(args)
    if args.pipeline is not None:
        args.pipeline.run(graph)
    print(graph.why(args.value))
    return 0
