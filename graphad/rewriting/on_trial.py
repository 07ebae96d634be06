"""What a pass says of how it is tested: which random programs give it something to do, and which passes it needs around it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OnTrial:
    """How ``check_pass`` tries a pass.

    Args:
        programs: kinds of random programs that give it something to do, of those in ``graphad.testing.programs.KINDS``, or
            any; none: all kinds.
        after_backward: whether the whole standard backward runs before it.
        goes_by_names: whether names of variables mean something to it, so that it does something else where they are others.
        followed_by: the text of passes that run after it, where nothing else reads what it makes.
    """

    programs: tuple[str, ...] = ()
    after_backward: bool = False
    goes_by_names: bool = False
    followed_by: str = ""
