"""The same program with other names, in the same order: a pass that follows the hashes of names makes something else of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphad.program import EMPTY
from graphad.testing.cases import Case

PREFIX = "q."


def renamed_case(case: Case) -> tuple[Case, Callable[[str], str]]:
    """A case whose variables all have a prefix, and how to take it away from a text."""
    program = case.program.clone()
    known = {name for block in program.blocks for name in block.vars}
    for block in program.blocks:
        for var in block.vars.values():
            var.name = _prefixed(var.name)
        block.vars = {_prefixed(name): var for name, var in block.vars.items()}
        for op in block.ops:
            op.inputs = {slot: [_prefixed(name) for name in names] for slot, names in op.inputs.items()}
            op.outputs = {slot: [_prefixed(name) for name in names] for slot, names in op.outputs.items()}
            op.attrs.update({name: _renamed_names(value, known) for name, value in op.attrs.items() if isinstance(value, list)})
    feeds = {_prefixed(name): array for name, array in case.feeds.items()}
    params = {_prefixed(name): array for name, array in case.params.items()}
    loss = _prefixed(case.loss_name) if case.loss_name else ""
    return Case(program, loss, feeds, params, tuple(map(_prefixed, case.requested))), restored


def _renamed_names(values: list[Any], known: set[str]) -> list[Any]:
    """The elements of an attribute, those that are names of variables renamed as well."""
    return [_prefixed(value) if isinstance(value, str) and value in known else value for value in values]


def _prefixed(name: str) -> str:
    return name if name == EMPTY else PREFIX + name


def restored(text: str) -> str:
    """A text without the prefix."""
    return text.replace(PREFIX, "")
