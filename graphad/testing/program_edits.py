"""Edits of a program: each gives a new one, or None where that would be no valid program; the one that it is made from stays as it is."""

from __future__ import annotations

from collections.abc import Callable

from graphad.errors import GraphadError
from graphad.execution.names import blocks_of
from graphad.ir import lower
from graphad.ir.verify import verify
from graphad.ops import REGISTRY, ControlDef, LoopDef
from graphad.program import EMPTY, Block, Operator, Program
from graphad.testing.cases import always_written, completed, outside_reads, outside_writes, reads
from graphad.types import TENSOR

Place = tuple[int, int]  # a block's index, and an operator's in it
Edit = Callable[[Program], None]


def places(program: Program) -> list[Place]:
    """The places of the operators, those of inner blocks after those of outer ones."""
    return [(block.idx, i) for block in program.blocks for i in range(len(block.ops))]


def edited(program: Program, edit: Edit, keeps_types: bool = False) -> Program | None:
    """A copy of a program after an edit, repaired where operators or variables are gone; None if that is no valid program.

    What operators write is declared again, with the types inferred from the inputs, since after an edit it may have another shape; unless
    ``keeps_types``, for edits that change no shape: what is declared may say more than what is inferred, and the finding depend on it.
    Where nothing is inferred, as for the gradients of a loop, what was declared stays.
    """
    copy = program.clone()
    try:
        edit(copy)
        _mend(copy)
        declared = [(block.idx, var.name, var.declared) for block in copy.blocks for var in block.vars.values()]
        if not keeps_types:
            undeclare_written(copy)
        copy = completed(copy)
        for index, name, (shape, dtype) in declared:
            var = copy.blocks[index].vars[name]
            if var.type == TENSOR and var.declared[1] is None:
                var.declare(shape, dtype)
        verify(lower(copy))
    except (GraphadError, KeyError, IndexError):
        return None
    return copy


def undeclare_written(program: Program) -> None:
    """Forget the shapes and dtypes of tensors that are not given from outside, nor kept."""
    outside = {value.name for value in lower(program).inputs}
    for block in program.blocks:
        for var in block.vars.values():
            if var.type == TENSOR and not var.persistable and not (block.idx == 0 and var.name in outside):
                var.declare(None, None)


# -- mending -------------------------------------------------------------------------------------


def _mend(program: Program) -> None:
    while indices := _unheld(program):
        program.drop_blocks(indices)
    # Inner blocks come after outer ones: from the last block on, what one needs from outside is known before the blocks around are mended.
    for block in program.blocks[:0:-1]:
        _hand_in(block)
    for block in program.blocks[::-1]:
        for op in block.ops:
            _mend_slots(op)
    _drop_unused(program)


def _unheld(program: Program) -> set[int]:
    """The blocks that no operator holds, and those inside them."""
    inner_indices = {inner.idx for block in program.blocks for op in block.ops for inner in blocks_of(op)}
    free = {block.idx for block in program.blocks if block.idx and block.idx not in inner_indices}
    return {block.idx for block in program.blocks if any(around.idx in free for around in block.chain())}


def _hand_in(block: Block) -> None:
    """Declare outside, as data, what a block declares itself and reads before anything writes it."""
    written_names: set[str] = set()
    for op in block.ops:
        for name in reads(op):
            if name in block.vars and name not in written_names and name != EMPTY:
                _declare_outside(block, name)
        written_names |= always_written(op)


def _declare_outside(block: Block, name: str) -> None:
    root, var = block.program.global_block(), block.vars[name]
    if not root.has_var(name):
        root.vars[name] = var.copy_to(root)
        del block.vars[name]


def _mend_slots(op: Operator) -> None:
    """Set the operands and results of an operator with blocks to the reads and writes of its blocks as they are now."""
    definition = REGISTRY.get(op.type)
    if not isinstance(definition, ControlDef) or definition.is_grad:
        return
    blocks = blocks_of(op)
    # A loop's condition is carried; a branch reads its own as any other value.
    condition_names = op.input(definition.condition) if isinstance(definition, LoopDef) else []
    _fill(op.inputs, definition.operands, [name for name in outside_reads(*blocks) if name not in condition_names])
    _fill(
        op.outputs,
        definition.results,
        list(dict.fromkeys([*(n for n in outside_writes(*blocks) if n not in condition_names), *condition_names])),
    )


def _fill(slots: dict[str, list[str]], slot: str, names: list[str]) -> None:
    slots.pop(slot, None)
    if names:
        slots[slot] = names


def _drop_unused(program: Program) -> None:
    """Forget variables that no operator touches, except for what persists: a pass may go by its name."""
    used = used_names(program)
    for block in program.blocks:
        block.vars = {name: var for name, var in block.vars.items() if name in used or var.persistable}


def used_names(program: Program) -> set[str]:
    """The names that operators read or write."""
    return {name for block in program.blocks for op in block.ops for name in (*op.input_names(), *op.output_names())}


def renamed(slots: dict[str, list[str]], names: dict[str, str]) -> dict[str, list[str]]:
    """The names in slots, some of them replaced."""
    return {slot: [names.get(name, name) for name in item] for slot, item in slots.items()}
