"""The same program with other names, in the same order: a pass that follows the hashes of names makes something else of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from graphad.program import EMPTY, RANDOM_STREAM, Program
from graphad.testing.cases import Case


def free_prefix(case: Case) -> str:
    """A prefix that is in none of a case's names."""
    program = case.program
    names = {name for block in program.blocks for op in block.ops for name in (*op.input_names(), *op.output_names())}
    names.update(*(block.vars for block in program.blocks), case.feeds, case.params)
    candidates = (f"renamed{number or ''}." for number in itertools.count())
    return next(prefix for prefix in candidates if not any(prefix in name for name in names))


def renamed_case(case: Case, prefix: str) -> Case:
    """A case whose variables all have a prefix, so that their order stays."""

    def prefixed(name: str) -> str:
        return name if name == EMPTY else prefix + name

    known = {name for block in case.program.blocks for name in block.vars}
    feeds, params = ({prefixed(name): array for name, array in arrays.items()} for arrays in (case.feeds, case.params))
    loss = prefixed(case.loss_name) if case.loss_name else ""
    program = case.program.clone()
    _rename(program, known, prefixed)
    return replace(case, program=program, loss_name=loss, feeds=feeds, params=params, requested=tuple(map(prefixed, case.requested)))


def restored(program: Program, prefix: str) -> Program:
    """The program without the prefixes; it is changed."""
    known = {name for block in program.blocks for name in block.vars}
    _rename(program, known, lambda name: name.replace(prefix, ""))
    return program


def _rename(program: Program, known: set[str], rename: Callable[[str], str]) -> None:
    for block in program.blocks:
        for var in block.vars.values():
            var.name = rename(var.name)
        block.vars = {var.name: var for var in block.vars.values()}
        for op in block.ops:
            op.inputs = {slot: [rename(name) for name in names] for slot, names in op.inputs.items()}
            op.outputs = {slot: [rename(name) for name in names] for slot, names in op.outputs.items()}
            op.attrs.update({name: _renamed_names(value, known, rename) for name, value in op.attrs.items() if isinstance(value, list)})
            if RANDOM_STREAM in op.attrs:  # streams are called after what operators write
                op.attrs[RANDOM_STREAM] = rename(op.attrs[RANDOM_STREAM])


def _renamed_names(values: list[Any], known: set[str], rename: Callable[[str], str]) -> list[Any]:
    """The elements of an attribute, those that are names of variables renamed as well."""
    return [rename(value) if isinstance(value, str) and value in known else value for value in values]
