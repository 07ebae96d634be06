"""The agreement of graphad's backward of a conformance case with Paddle's own, operator by operator.

Both are read as trees of ``Step``. They are compared as they are, then without what may differ on purpose (``parity_reasons``): as few
reasons as explain every difference are looked for. What differs and has no reason fails a test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from graphad.program import Block, Operator
from tests.conformance.loading import Case, differentiated, program_of
from tests.conformance.parity_reasons import OTHER, REASONS, Names, Reason, Step, Steps
from tests.conformance.test_stored import variables

# -- reading -------------------------------------------------------------------------------------


def paddles(case: Case) -> Steps:
    """The steps that Paddle's append_backward (or gradients) appended to a case's program."""
    blocks = case.doc["after_backward"]["blocks"]

    def steps(ops: Iterable[Mapping[str, Any]]) -> Steps:
        return tuple(step(op) for op in ops if op["type"] not in ("feed", "fetch"))

    def step(op: Mapping[str, Any]) -> Step:
        inner = () if op.get("sub_block") is None else (steps(blocks[op["sub_block"]]["ops"]),)
        attrs = {name: "" if name.endswith("dtype") and value == -1 else value for name, value in op["attrs"].items()}
        return Step(op["type"], _names(op["inputs"]), _names(op["outputs"]), attrs, inner)

    forward = [op for op in blocks[0]["ops"] if op["type"] not in ("feed", "fetch")]
    return steps(forward[case.doc["n_forward_ops"][0] :])


def graphads(case: Case) -> Steps:
    """The steps that graphad appended: to block 0, and those that it put into the forward's other blocks, these last."""
    program = program_of(case.doc["forward"])
    blocks = list(program.blocks)
    differentiated(case, program.global_block().var(case.doc["loss"]), variables(program, case))
    added = ((block, op) for block in blocks for op in block.ops if op.role == "backward")
    return tuple(replace(_step(op), inserted=block is not program.global_block()) for block, op in added)


def _step(op: Operator) -> Step:
    blocks = tuple(tuple(map(_step, value.ops)) for value in op.attrs.values() if isinstance(value, Block))
    attrs = {name: value for name, value in op.attrs.items() if not isinstance(value, Block)}
    return Step(op.type, _names(op.inputs), _names(op.outputs), attrs, blocks)


def _names(slots: Mapping[str, Iterable[Any]]) -> Names:
    found = {slot: tuple(re.sub(r"@RENAME@block\d+@", "@RENAME@", str(n)) for n in names) for slot, names in slots.items()}
    return {slot: found[slot] for slot in sorted(found) if found[slot]}


# -- comparing -----------------------------------------------------------------------------------


def reasons(case: Case) -> list[Reason] | None:
    """As few reasons as explain all that differs, none for what is the same; None if all of them do not."""
    if case.name in OTHER:
        return [OTHER[case.name]]
    sides = paddles(case), graphads(case)
    kept = list(REASONS)
    if not _agree(*sides, kept):
        return None
    for reason in REASONS:
        rest = [r for r in kept if r is not reason]
        if _agree(*sides, rest):
            kept = rest
    return kept


def _agree(theirs: Steps, ours: Steps, left_out: Sequence[Reason]) -> bool:
    return _without(theirs, left_out) == _without(ours, left_out)


def _without(steps: Steps, left_out: Sequence[Reason]) -> Steps:
    """The operators without what the reasons are about: in the order of REASONS, turned round."""
    return reduce(lambda left, reason: reason.leave_out(left), reversed(left_out), steps)


def count(steps: Steps) -> int:
    """How many operators there are, those in blocks included."""
    return sum(1 + sum(map(count, s.blocks)) for s in steps)
