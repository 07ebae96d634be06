"""``graphad completion``: the script with which a shell completes commands, options and files."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from graphad.errors import InvalidValue
from graphad.showing import installed

SHELLS = ("bash", "zsh", "tcsh")
EPILOG = """\
  graphad completion bash > ~/.local/share/bash-completion/completions/graphad
  graphad completion zsh > ~/.zfunc/_graphad        # with ~/.zfunc in fpath
"""


def add_parser(commands: argparse._SubParsersAction[Any], root: Callable[[], argparse.ArgumentParser]) -> None:
    """Add the command; ``root`` gives the parser of all commands."""
    parser = commands.add_parser(
        "completion",
        help="print the script with which a shell completes commands",
        description="Print the script with which a shell completes commands and options: pip install 'graphad[completion]'",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(command=lambda args: run(args, root()))


def run(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Run the command."""
    try:
        shtab = installed("shtab", "completion")
    except TypeError:
        raise InvalidValue("completion needs shtab, which is not installed: pip install 'graphad[completion]'") from None
    print(shtab.complete(parser, args.shell))
    return 0
