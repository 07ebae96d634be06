"""``graphad completion``: the script with which a shell completes commands, options and files."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from graphad.errors import InvalidValue
from graphad.rewriting import PASSES
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
    _mark(parser, shtab.FILE, shtab.DIRECTORY)
    names = " ".join(sorted(PASSES))
    print(shtab.complete(parser, args.shell, preamble={"bash": _BASH.replace("NAMES", names), "zsh": _ZSH.replace("NAMES", names)}))
    return 0


# What is completed is told by the word that stands for an argument in the help. shtab reads such marks from ``complete``; without one it
# completes nothing, not even the names of files that a shell completes by itself.
_FILES = {"PROGRAM", "MODEL", "OUT", "NPZ", "HTML", "FILE", "A", "B"}
_PIPELINES = {"PASS", "PASSES", "PIPELINE"}
# The last name of a pipeline is completed; a quote and the names before it are part of the word, all of which bash replaces.
_BASH = """\
_graphad_passes() {
  local word="${1#[\\'\\"]}"
  local last="${word##*[,({ ]}"
  compgen -P "${word%"$last"}" -W "NAMES" -- "$last"
}
"""


# zsh takes care of quotes by itself; compset leaves what is before the last name as it is.
_ZSH = """\
_graphad_passes() {
  compset -P '*[,\\(\\{ ]'
  compadd "$@" -- NAMES
}
"""


def _mark(parser: argparse.ArgumentParser, file: dict[str, str], folder: dict[str, str]) -> None:
    """Say of each argument of a parser, and of its commands, what completes it."""
    names = f"({' '.join(sorted(PASSES))})"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark(command, file, folder)
        elif action.metavar in _FILES:
            action.complete = file  # type: ignore[attr-defined]
        elif action.metavar == "DIR":
            action.complete = folder  # type: ignore[attr-defined]
        elif action.metavar in _PIPELINES:
            action.complete = {"bash": "_graphad_passes", "zsh": "_graphad_passes", "tcsh": names}  # type: ignore[attr-defined]
