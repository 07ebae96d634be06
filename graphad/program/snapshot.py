"""Snapshots of all that decides how a program runs: whether what was compiled or prepared from it is still valid."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

from graphad.program.block import Block
from graphad.program.operator import Operator
from graphad.program.program import Program
from graphad.program.watching import latest, watch

_of_operator = attrgetter("type", "inputs", "outputs", "attrs")
_of_variable = attrgetter("_shape", "_dtype", "persistable", "type")


class _Facts(NamedTuple):
    """Everything about a block that decides how it is run."""

    ops: list[Operator]
    operators: list[tuple[object, ...]]
    names: list[str]
    variables: list[tuple[object, ...]]


class Snapshot:
    """A program as it is now.

    >>> program = Program()
    >>> _ = program.global_block().create_var("x", [2], "float32")
    >>> op = program.global_block().append_op(type="scale", inputs={"X": "x"}, outputs={"Out": "y"}, attrs={"scale": 2.0})
    >>> snapshot = Snapshot(program)
    >>> snapshot.is_current()
    True
    >>> op.attrs["scale"] = 3.0
    >>> snapshot.is_current()
    False
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._blocks = [_facts(block) for block in program.blocks]
        self._mark: object = None  # of the last change that any watched program had when this one was compared last
        self._comparisons = 0
        self._unwatched: list[Any] = []  # the lists and dicts of it that cannot be watched, and copies of them
        self._copies: list[Any] = []

    def is_current(self, watching: bool = False) -> bool:
        """Whether the program is still what it was.

        It is compared as a whole. With ``watching``, for one that runs again and again, it is watched, and compared only if it may have
        changed.
        """
        # No watched program has changed since: nothing to compare, which matters for programs of thousands of operators.
        if self._mark is latest[0] and self._unwatched == self._copies:
            return True
        self._comparisons += 1
        # What cannot be watched once may never be: tried at comparisons 1, 2, 4, 8 ..., so that the trials cost little in all.
        rarely = not self._comparisons & (self._comparisons - 1)
        leftovers = watch(self.program) if watching and (rarely or self._mark is not None) else None
        mark = latest[0]  # before it is compared: a change of another thread in between is seen by the next run
        is_unchanged = self._is_unchanged()
        if is_unchanged and leftovers is not None:
            self._mark, self._unwatched, self._copies = mark, [item for item, _ in leftovers], [copy for _, copy in leftovers]
        return is_unchanged

    def _is_unchanged(self) -> bool:
        if len(self.program.blocks) != len(self._blocks):
            return False
        for block, facts in zip(self.program.blocks, self._blocks, strict=True):
            if block.ops != facts.ops or list(map(_of_operator, block.ops)) != facts.operators:
                return False
            # Whole lists are compared in C, which for programs of thousands of operators takes a fraction of a loop in Python.
            if list(map(_of_variable, block.vars.values())) != facts.variables or list(block.vars) != facts.names:
                return False
        return True


def _facts(block: Block) -> _Facts:
    operators, variables = map(_operator_facts, block.ops), map(_of_variable, block.vars.values())
    return _Facts(list(block.ops), list(operators), list(block.vars), list(variables))


def _operator_facts(op: Operator) -> tuple[object, ...]:
    slots = [{slot: list(names) for slot, names in side.items()} for side in (op.inputs, op.outputs)]
    return op.type, *slots, {name: list(value) if isinstance(value, list) else value for name, value in op.attrs.items()}
