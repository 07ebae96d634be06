"""``graphad run``: run a program on arrays."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from graphad.cli.arguments import add_fetch, add_format, add_program, arrays, source
from graphad.execution import Executor, Scope
from graphad.ir import lower


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = "Run a program. Data and parameters come from .npz files; the requested variables are printed, or written to one."
    parser = commands.add_parser("run", help="run a program on arrays", description=text)
    add_program(parser)
    parser.add_argument("--feed", type=Path, metavar="NPZ", help="data by the names of variables")
    parser.add_argument("--params", type=Path, metavar="NPZ", help="parameters and other persistable variables by name")
    parser.add_argument("-o", "--output", type=Path, metavar="NPZ", help="write the requested variables there instead of printing them")
    add_fetch(parser)
    add_format(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    program, parameters, fetch = source(args)
    names = fetch or [value.name for value in lower(program).targets]
    scope = Scope()
    for name, array in {**parameters, **arrays(args.params)}.items():
        scope.set(name, array)
    results = dict(zip(names, Executor().run(program, arrays(args.feed), names, scope), strict=True))
    if args.output is None:
        for name, value in results.items():
            print(f"{name} =\n{value}")
    else:
        np.savez(args.output, allow_pickle=False, **results)
    return 0
