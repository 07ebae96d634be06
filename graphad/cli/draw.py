"""``graphad draw``: draw a program."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from graphad.cli.arguments import add_fetch, add_format, add_pipeline, add_program, lowered, names, read
from graphad.drawing import draw
from graphad.drawing.pictures import FORMATS
from graphad.drawing.plan import CHOICES, Options

_HELP = {
    "title": "a line above the drawing",
    "highlight": "operators and values to outline: names of values, with commas",
    "highlight_means": "what the legend says that an outline means",
    "values": "which values are drawn",
    "links": "dashed lines from gradients to what they are gradients of",
    "nested": "which graphs of loops and branches are drawn",
    "rankdir": "from top to bottom, or from left to right",
    "attributes": "whether operators show their attributes",
    "legend": "whether kinds of nodes are explained",
    "prefix": "what ids in an SVG begin with",
    "dpi": "the resolution of a PNG",
    "timeout": "seconds that laying out may take",
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command: what ``graphad.draw`` takes, each option under its name."""
    kinds = ", ".join(FORMATS)
    parser = commands.add_parser("draw", help="draw a program", description=f"Draw a program as {kinds}.")
    add_program(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help=f"where to draw it: {kinds}")
    add_pipeline(parser, required=False)
    add_format(parser)
    add_fetch(parser)
    group = parser.add_argument_group("how to draw", "The options of graphad.draw.")
    for each in fields(Options):
        if each.default is not MISSING:
            _add_option(group, each)
    parser.set_defaults(command=run)


def _add_option(group: argparse._ArgumentGroup, each: Field[Any]) -> None:
    """A command-line option for one of the drawing: of the kind that its default has."""
    flag, default, said = f"--{each.name.replace('_', '-')}", each.default, _HELP.get(each.name, "")
    common: dict[str, Any] = {"dest": f"draw_{each.name}", "default": argparse.SUPPRESS}
    if isinstance(default, bool):
        group.add_argument(flag, action=argparse.BooleanOptionalAction, help=f"{said} (default: {'yes' if default else 'no'})", **common)
    elif each.name in CHOICES:
        choices = [choice for choice in CHOICES[each.name] if isinstance(choice, str)]
        group.add_argument(flag, choices=choices, metavar="|".join(choices), help=f"{said} (default: {default})", **common)
    elif isinstance(default, int | float):
        group.add_argument(flag, type=type(default), metavar="N", help=f"{said} (default: {default:g})", **common)
    elif isinstance(default, tuple):
        group.add_argument(flag, type=names, metavar="NAMES", help=said, **common)
    elif isinstance(default, str | None):
        group.add_argument(flag, metavar="TEXT", help=said, **common)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    options = {name.removeprefix("draw_"): value for name, value in vars(args).items() if name.startswith("draw_")}
    if args.pipeline is None:
        draw(read(args), args.output, **options)
    else:
        graph = lowered(args)
        args.pipeline.run(graph)
        draw(graph, args.output, **options)
    print(f"drawn: {args.output}")
    return 0
