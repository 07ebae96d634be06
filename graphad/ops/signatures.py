"""The slots that a signature names: ``X Y? -> Out*``."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from graphad.errors import InvalidValue


class Slot(NamedTuple):
    """A named place for inputs or outputs."""

    name: str
    variadic: bool = False
    optional: bool = False


@cache
def slots_of(signature: str) -> tuple[dict[str, Slot], dict[str, Slot]]:
    """The input and output slots that a signature names: ``X Y? -> Out*``."""
    left, arrow, right = signature.partition("->")
    if not arrow:
        raise InvalidValue(f"operator signature {signature!r} has no '->'")
    return {s.name: s for s in map(_slot, left.split())}, {s.name: s for s in map(_slot, right.split())}


def _slot(word: str) -> Slot:
    name = word.rstrip("*?")
    marks = word[len(name) :]
    return shared_slot(name, "*" in marks, "?" in marks)


@cache
def shared_slot(name: str, variadic: bool, optional: bool) -> Slot:
    """One object for all slots that are alike: there are thousands."""
    return Slot(name, variadic, optional)
