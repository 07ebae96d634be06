"""Make a program smaller while it stays bad.

Delta debugging: A. Zeller and R. Hildebrandt, Simplifying and isolating failure-inducing input, IEEE Transactions on Software
Engineering 28(2), 2002. The parts left out are operators of all blocks; then blocks are inlined, operators bypassed, numbers made
simpler, operands and extents fewer, until none of it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from graphad.execution.layout import blocks_of
from graphad.program import Program
from graphad.testing.edits import (
    Edit,
    Place,
    bypasses,
    edited,
    fewer_operands,
    fewer_variables,
    inlined,
    places,
    simpler_attrs,
    smaller_extents,
    without,
)
from graphad.testing.fitted import completed

IsBad = Callable[[Program], bool]
TRIES = 3000


class _Search:
    """The smallest bad program so far, and how many more may be tried."""

    def __init__(self, program: Program, is_bad: IsBad, tries: int) -> None:
        self.program = program
        self.is_bad = is_bad
        self.left = tries
        self.seen = {str(program)}

    def take(self, edit: Edit) -> bool:
        """Whether an edit leaves the program bad; it is then the one to go on from."""
        found = edited(self.program, edit) if self.left > 0 else None
        if found is None or (text := str(found)) in self.seen:
            return False
        self.seen.add(text)
        self.left -= 1
        if self.is_bad(found):
            self.program = found
            return True
        return False


def reduce_program(program: Program, is_bad: IsBad, tries: int = TRIES) -> Program:
    """A smaller program that is still bad, to which no single step of those tried can be done any more.

    Args:
        program: one that is bad; it stays as it is.
        is_bad: told of each smaller program whether it is still bad. What reads a name that nothing writes any more takes it from
            outside; a program need not run, and ``is_bad`` is to say False if it does not.
        tries: how many programs may be tried.

    Returns:
        A program of its own, the same for the same arguments.

    >>> rows = "tanh(X=x) -> (Out=y) sin(X=y) -> (Out=z) tanh(X=z) -> (Out=o)"
    >>> program = Program.parse("program { block 0 { var x: float64[3] " + rows + " } }")
    >>> print(reduce_program(program, lambda smaller: "sin(" in str(smaller)))
    program {
      block 0 {
        var y: float64[1]
        var z: float64[1]
        sin(X=y) -> (Out=z)
      }
    }
    <BLANKLINE>
    """
    search = _Search(completed(program), is_bad, tries)
    while search.left > 0:
        before = str(search.program)
        _fewer_ops(search)
        _fewer_blocks(search)
        for edits in (fewer_variables, bypasses, simpler_attrs, fewer_operands, smaller_extents):
            _simpler(search, edits)
        if str(search.program) == before:
            break
    return search.program


def _fewer_ops(search: _Search) -> None:
    """Leave out parts of the operators, of half their number first; smaller parts when none of a size goes."""
    size = max(len(places(search.program)) // 2, 1)
    while True:
        gone = _one_round(search, size)
        if not gone and size == 1:
            return
        size = max(min(size, len(places(search.program))) // 2, 1) if not gone or size > 1 else 1


def _one_round(search: _Search, size: int) -> bool:
    """Try each part of a size once, the last first: readers go before what they read."""
    end, gone = len(places(search.program)), False
    while end > 0:
        all_places = places(search.program)
        end = min(end, len(all_places))
        part = set(all_places[max(end - size, 0) : end])
        gone |= search.take(without(part))
        end -= size
    return gone


def _fewer_blocks(search: _Search) -> None:
    while any(search.take(edit) for edit in list(_inlinings(search.program))):
        pass


def _inlinings(program: Program) -> Iterator[Edit]:
    for place in places(program):
        yield from (inlined(place, which) for which in range(len(_held(program, place))))


def _held(program: Program, place: Place) -> list[object]:
    return [*blocks_of(program.blocks[place[0]].ops[place[1]])]


def _simpler(search: _Search, edits: Callable[[Program], Iterator[Edit]]) -> None:
    """Take each edit that goes; those that are left are found anew, since an edit moves what follows it."""
    while any(search.take(edit) for edit in list(edits(search.program))):
        pass
