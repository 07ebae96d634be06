"""The kinds of entries in the corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from graphad.rewriting import Pass
from tests.mutants.patching import Patch
from tests.mutants.witness import Witness


@dataclass(frozen=True)
class Check:
    """How ``check_pass`` is called for an entry.

    Args:
        what: the pass or pipeline; what makes one if it is neither.
        prepare: what runs before it.
        reference: the pipeline that it is compared with, if not with the program itself.
        options: further arguments.
    """

    what: str | Pass | Callable[[], Pass]
    prepare: str = ""
    reference: str | Pass | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Mutant:
    """A mistake planted in graphad.

    Args:
        name: says in a few words what the mistake is.
        family: where it is.
        patch: the change.
        witness: what shows that the change is wrong.
        check: how the checker may find it; None: by what the witness tries.
    """

    name: str
    family: str
    patch: Patch
    witness: Witness
    check: Check | None = None

    @property
    def checked(self) -> Check:
        """How the checker may find it."""
        return self.check or Check(self.witness.what, self.witness.prepare)


@dataclass(frozen=True, eq=False)
class UserPass:
    """A pass of a user, wrong or right, with a witness of that."""

    family: str
    pass_type: type[Pass]
    witness: Witness
    check: Check | None = None

    @property
    def name(self) -> str:
        """The pass's own name."""
        return self.pass_type.name

    @property
    def checked(self) -> Check:
        """How the checker may find it."""
        return self.check or Check(self.pass_type, self.witness.prepare)
