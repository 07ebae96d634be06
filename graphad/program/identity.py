"""The identity of a program: a number and the user's line for messages, and the family of a program and its clones."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from graphad.program.source import SourceLine

_numbers = count(1)


class Family:
    """The family of a program and its clones: variables of one may be used by name in another.

    Compared by identity, so a deep copy of a program stays in its family.
    """

    def __deepcopy__(self, memo: object) -> Family:
        return self


@dataclass
class Identity:
    """The number of a program (in the order of creation), where it was created, and what it was copied from.

    ``title`` takes the place of all that for the two default programs.
    """

    source: SourceLine | None = None
    family: Family = field(default_factory=Family)
    original: int | None = None
    title: str | None = None
    number: int = field(default_factory=lambda: next(_numbers))

    def copy(self, source: SourceLine | None) -> Identity:
        """The identity of a copy: another number, the same family."""
        return Identity(source, self.family, self.number)

    def __str__(self) -> str:
        if self.title is not None:
            return self.title
        origin = "" if self.original is None else f", a copy of program {self.original}"
        return f"program {self.number}{origin}" + ("" if self.source is None else f" (created at {self.source})")
