"""``graphad draw``: draw a program."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from graphad.cli.arguments import SIZES, add_fetch, add_format, add_pipeline, add_program, arrays, count, lowered, names, read, sizes
from graphad.drawing import draw, draw_diff
from graphad.drawing.options import CHOICES, MEASURES, Options
from graphad.drawing.pictures import FORMATS
from graphad.drawing.theme import THEMES
from graphad.errors import InvalidValue

_HELP = {
    "title": "a line above the drawing",
    "highlight": "operators and values to outline: names of values, with commas",
    "highlight_means": "what the legend says that an outline means",
    "values": "which values are drawn",
    "parameters": "parameters as nodes, or inside their operators",
    "links": "dashed lines from gradients to what they are gradients of",
    "nested": "which graphs of loops and branches are drawn",
    "fold": "layers that repeat once, or each",
    "scopes": "name scopes as frames, as boxes, or not",
    "closed": "name scopes to draw as one box each: names, with commas",
    "focus": "only what is so many operators from a value (1 unless given)",
    "path": "only what is on a way from one value to another",
    "around": "and so many operators around that, pale",
    "overlay": "colors for numbers; time, range and nan need --measured",
    "overlay_title": "what the color bar says that the numbers are",
    "measured": "the arrays of values that a run fetched",
    "batch": "the number of samples that costs are estimated for",
    "theme": "the colors",
    "columns": "cut a long drawing into so many columns",
    "limit": "how many nodes are drawn at most",
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
    parser.add_argument("--diff", action="store_true", help="draw what the passes added, removed and changed")
    group = parser.add_argument_group("how to draw", "The options of graphad.draw.")
    for option in fields(Options):
        if option.default is not MISSING:
            _add_option(group, option)
    parser.set_defaults(command=run)


def _focus(text: str) -> tuple[str, int]:
    """A name, and a radius after the last colon; 1 unless given."""
    # At the last colon: names of variables may have colons too.
    name, colon, radius = text.rpartition(":")
    return (name, int(radius)) if colon and radius.isdecimal() else (text, 1)


def _way(text: str) -> tuple[str, str]:
    """Two names with a comma between."""
    start, comma, end = text.partition(",")
    if not comma:
        raise argparse.ArgumentTypeError(f"it is two names, FROM,TO, not {text!r}")
    return start.strip(), end.strip()


# Options that are neither of the kind of their default nor one of some choices.
_KINDS: dict[str, dict[str, Any]] = {
    "focus": {"type": _focus, "metavar": "NAME[:RADIUS]"},
    "path": {"type": _way, "metavar": "FROM,TO"},
    "around": {"type": count, "metavar": "N"},
    "columns": {"type": count, "metavar": "N"},
    "batch": {"type": sizes, "metavar": SIZES},
    "overlay": {"choices": MEASURES, "metavar": "|".join(MEASURES)},
    "measured": {"type": Path, "metavar": "NPZ"},
    "theme": {"choices": sorted(THEMES), "metavar": "|".join(sorted(THEMES))},
}


def _add_option(group: argparse._ArgumentGroup, option: Field[Any]) -> None:
    """A command-line option for one of the drawing: of the kind that its default has."""
    flag, default, help_text = f"--{option.name.replace('_', '-')}", option.default, _HELP.get(option.name, "")
    # Suppressed where they are not given, so that ``graphad.draw`` has the defaults, and only it.
    common_options: dict[str, Any] = {"dest": f"draw_{option.name}", "default": argparse.SUPPRESS}
    if option.name in _KINDS:
        group.add_argument(flag, help=help_text, **_KINDS[option.name], **common_options)
    # bool before int: in Python a bool is an int.
    elif isinstance(default, bool):
        group.add_argument(
            flag, action=argparse.BooleanOptionalAction, help=f"{help_text} (default: {'yes' if default else 'no'})", **common_options
        )
    elif option.name in CHOICES:
        choices = [choice for choice in CHOICES[option.name] if isinstance(choice, str)]
        group.add_argument(flag, choices=choices, metavar="|".join(choices), help=f"{help_text} (default: {default})", **common_options)
    elif isinstance(default, int | float):
        group.add_argument(flag, type=type(default), metavar="N", help=f"{help_text} (default: {default:g})", **common_options)
    elif isinstance(default, tuple):
        group.add_argument(flag, type=names, metavar="NAMES", help=help_text, **common_options)
    elif isinstance(default, str | None):
        group.add_argument(flag, metavar="TEXT", help=help_text, **common_options)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    options = {name.removeprefix("draw_"): value for name, value in vars(args).items() if name.startswith("draw_")}
    if "measured" in options:
        options["measured"] = arrays(options["measured"])
    if args.pipeline is None:
        if args.diff:
            raise InvalidValue("--diff draws what passes do: name them with -p")
        draw(read(args), args.output, **options)
    else:
        graph = lowered(args)
        before = graph.clone()
        args.pipeline.run(graph)
        draw_diff(before, graph, args.output, **options) if args.diff else draw(graph, args.output, **options)
    print(f"drawn: {args.output}")
    return 0
