"""``graphad run``: run a program on arrays."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphad.cli.arguments import add_fetch, add_format, add_program, arrays, count, source
from graphad.distribution import LocalGroup, MpiExecutor, declared_parts, launched_ranks, split_arrays, split_feed
from graphad.errors import InvalidValue
from graphad.execution import Executor, Scope
from graphad.ir import lower
from graphad.program import Program
from graphad.types import Array


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    text = (
        "Run a program. Data and parameters come from .npz files; the requested variables are printed, or written to one. Under mpiexec"
        " (pip install 'graphad[mpi]') each process runs it on its part of the data, and the first one prints."
    )
    parser = commands.add_parser("run", help="run a program on arrays", description=text)
    add_program(parser)
    parser.add_argument("--feed", type=Path, metavar="NPZ", help="data by the names of variables")
    parser.add_argument("--params", type=Path, metavar="NPZ", help="parameters and other persistable variables by name")
    parser.add_argument("-o", "--output", type=Path, metavar="NPZ", help="write the requested variables there instead of printing them")
    parser.add_argument("--ranks", type=count, default=1, metavar="N", help="simulate N ranks, each with its part of the data")
    add_fetch(parser)
    add_format(parser)
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    feed, own = arrays(args.feed), arrays(args.params)
    program, parameters, fetch, inputs = source(args, feed)
    if inputs:
        # Inputs whose elements decided how the program looks are no inputs of it any more.
        feed = {name: array for name, array in feed.items() if name in inputs}
        _check_fed(args.program, program, [name for name in inputs if name not in feed and name not in own])
    # Without a list: what nothing in the program reads.
    names = fetch or [value.name for value in lower(program).targets]
    try:
        outcome = _computed(program, feed, names, {**parameters, **own}, args.ranks)
    except InvalidValue as error:
        # After the run and not before it: a branch that is not taken needs no value of what it reads.
        raise InvalidValue(f"{error}{_hint(program, names, {*feed, *parameters, *own})}") from None
    if outcome is None:
        return 0
    results = dict(zip(names, outcome, strict=True))
    if args.output is None:
        for name, value in results.items():
            print(f"{name} =\n{value}")
    else:
        np.savez(args.output, allow_pickle=False, **results)
    return 0


def _check_fed(path: str, program: Program, missing: Sequence[str]) -> None:
    """InvalidValue for inputs of a model that are not fed, with their types."""
    if missing:
        declarations = ", ".join(repr(program.global_block().var(name)).removeprefix("Variable ") for name in missing)
        raise InvalidValue(f"{path} is not fed {declarations}; --feed FILE.npz holds arrays by the names of inputs")


def _hint(program: Program, names: Sequence[str], known: set[str]) -> str:
    """The options that give missing values by files, with the names of all values that are missing."""
    missing = [value for value in lower(program, names).inputs if value.name not in known]
    lines = [
        (f"{option} FILE.npz gives {what}", [value.name for value in missing if value.persistable == persistable])
        for option, what, persistable in (("--feed", "data", False), ("--params", "parameters", True))
    ]
    return "".join(f"\n  {text}; missing: {', '.join(map(repr, names_missing))}" for text, names_missing in lines if names_missing)


def _computed(
    program: Program, feed: Mapping[str, Array], names: Sequence[str], parameters: Mapping[str, Array], ranks: int
) -> list[Array] | None:
    """The requested values, in one process or on ranks; None on all ranks of MPI but the first."""
    if launched_ranks() > 1:
        return _on_mpi(MpiExecutor(), program, feed, names, parameters)
    if ranks == 1:
        return Executor().run(program, feed, list(names), _filled(Scope(), parameters))
    group = LocalGroup(ranks)
    # Of a partitioned parameter a rank gets its part, of all others the whole.
    for scope, part in zip(group.scopes, split_arrays(program, parameters, ranks), strict=True):
        _filled(scope, part)
    return group.run(program, _parts(program, feed, ranks), list(names))[0]


def _parts(program: Program, feed: Mapping[str, Array], ranks: int) -> list[dict[str, Any]]:
    """The feeds of each rank: its parts of variables that a partitioned program declares in parts, else its rows."""
    return split_arrays(program, feed, ranks) if declared_parts(program) else split_feed(feed, ranks)


def _on_mpi(
    executor: MpiExecutor, program: Program, feed: Mapping[str, Array], names: Sequence[str], parameters: Mapping[str, Array]
) -> list[Array] | None:
    try:
        part = _parts(program, feed, executor.size)[executor.rank]
        rank_parameters = split_arrays(program, parameters, executor.size)[executor.rank]
        results = executor.run(program, part, list(names), _filled(Scope(), rank_parameters))
    # One rank that fails alone would leave the others waiting in a collective for ever.
    except Exception as error:
        executor.abort(error)
        raise
    # All ranks have the results; one of them prints.
    return None if executor.rank else results


def _filled(scope: Scope, parameters: Mapping[str, Any]) -> Scope:
    for name, array in parameters.items():
        scope.set(name, array)
    return scope
