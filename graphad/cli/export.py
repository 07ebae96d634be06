"""``graphad export``: a program for other compilers, as StableHLO."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import graphad.jax
from graphad.cli.arguments import add_fetch, add_format, add_program, arrays, count, source
from graphad.errors import InvalidValue
from graphad.execution import Scope
from graphad.interop.files import write_bytes
from graphad.ir import lower
from graphad.types import TENSOR

TEXT = ".mlir"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = (
        "Write a program as StableHLO, a function of the data and of the variables that persist (pip install 'graphad[jax]'). A file that"
        f" ends in {TEXT} is text; any other is what jax.export.deserialize reads."
    )
    parser = commands.add_parser("export", help="write a program as StableHLO", description=text)
    add_program(parser)
    parser.add_argument("--to", choices=("stablehlo",), required=True, help="what to write")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help=f"the file to write; text if it ends in {TEXT}")
    parser.add_argument("--feed", type=Path, metavar="NPZ", help="data by the names of variables, whose shapes and dtypes are taken")
    parser.add_argument("--params", type=Path, metavar="NPZ", help="parameters and other persistable variables by name")
    parser.add_argument("--batch", type=count, metavar="N", help="the extent of what is declared as -1")
    add_fetch(parser)
    add_format(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    program, parameters, fetch, _ = source(args)
    graph, scope = lower(program), Scope()
    names = fetch or [value.name for value in graph.targets]
    for name, array in {**parameters, **arrays(args.params)}.items():
        scope.set(name, array)
    for value in graph.inputs:
        if not value.persistable or value.kind != TENSOR or value.name in scope.names():
            continue
        if value.shape is None or value.dtype is None or -1 in value.shape:
            raise InvalidValue(f"{value.name!r}, which persists, has no known shape: give it with --params")
        scope.set(value.name, np.zeros(value.shape, value.dtype))  # the function takes it; only its type counts
    function = graphad.jax.exported(program, names, scope=scope, feeds=arrays(args.feed), batch=args.batch)
    write_bytes(args.output, function.mlir_module().encode() if args.output.suffix == TEXT else function.serialize())
    print(f"{args.output}: {', '.join(names)}", file=sys.stderr)
    return 0
