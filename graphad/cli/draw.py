"""``graphad draw``: draw a program."""

from __future__ import annotations

import argparse
from pathlib import Path

from graphad.cli.arguments import add_fetch, add_format, add_pipeline, add_program, lowered, read
from graphad.drawing import draw


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("draw", help="draw a program", description="Draw a program as SVG, PNG or DOT.")
    add_program(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="where to draw it: .svg, .png or .dot")
    add_pipeline(parser, required=False)
    add_format(parser)
    add_fetch(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.pipeline is None:
        draw(read(args), args.output)
    else:
        graph = lowered(args)
        args.pipeline.run(graph)
        draw(graph, args.output)
    print(f"drawn: {args.output}")
    return 0
