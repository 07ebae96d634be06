"""``graphad bisect --pipeline ... PROGRAM``: the first rewrite after which a program computes something else."""

from __future__ import annotations

import argparse
import secrets
import tempfile
from pathlib import Path

from graphad.cli.arguments import DIFFERENT, FINE, Commands, add_program_options, program_case, refused
from graphad.errors import GraphadError
from graphad.rewriting import Pipeline
from graphad.testing.bisection import Culprit, bisect
from graphad.testing.trial import LOSS


def add_parser(commands: Commands) -> None:
    """Add the command to those of graphad."""
    text = "Name the pass, and the single rewrite of it, after which a program computes something else, on random arrays."
    parser = commands.add_parser("bisect", help="find the rewrite that changes results", description=text)
    add_program_options(parser)
    where = "where to write the page that shows the rewrite (default: a temporary folder)"
    parser.add_argument("-o", "--output", type=Path, metavar="HTML", help=where)
    parser.set_defaults(command=run_bisect)


def run_bisect(args: argparse.Namespace) -> int:
    """0 if nothing differs, 1 with the rewrite, 2 where there is nothing to run."""
    try:
        case = program_case(args)
        pipeline = Pipeline.parse(args.pipeline.replace(LOSS, args.loss))
        page = args.output or Path(tempfile.gettempdir()) / f"graphad-{secrets.token_hex(4)}.html"
        culprit = bisect(case, pipeline, args.prepare, args.tolerance, page)
    except (GraphadError, OSError) as error:
        return refused(error)
    if culprit is None:
        print(f"{args.pipeline}: the results are the same")
        return FINE
    print(culprit)
    print(_lines(str(case.program), culprit), end="")
    return DIFFERENT


def _lines(text: str, culprit: Culprit) -> str:
    """The lines of the printed program with the operators that the rewrite saw, where these come from no line of a file."""
    # Operators of a parsed text have no line of a file, so they are found in the printed program by what they write.
    ancestors = [ancestor for ancestor in culprit.origin.ancestors if not ancestor.source] if culprit.origin is not None else []
    parts = [ancestor.text.partition(" -> ") for ancestor in ancestors]
    rows = [(i, row.strip()) for i, row in enumerate(text.splitlines(), 1)]
    lines = [
        f"  line {i} of the program as printed: {row}\n" for kind, _, out in parts for i, row in rows if _writes(row, kind, out.split(", "))
    ]
    return "".join(dict.fromkeys(lines))


def _writes(row: str, kind: str, names: list[str]) -> bool:
    head, arrow, tail = row.partition(" -> ")
    return bool(arrow) and head.startswith(f"{kind}(") and all(name in tail for name in names)
