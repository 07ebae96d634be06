"""Smaller programs made from a program: operators left out, blocks inlined, numbers made simpler, extents made smaller.

Each edit gives a new program, or None where that would be none; the one it is made from stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

from graphad.errors import GraphadError
from graphad.execution.layout import blocks_of
from graphad.graph import lower
from graphad.graph.verify import verify
from graphad.ops import REGISTRY, ControlDef, LoopDef
from graphad.ops.definition import REQUIRED
from graphad.program import EMPTY, Block, Operator, Program
from graphad.testing.fitted import completed
from graphad.testing.names import always_written, outside_reads, outside_writes, reads
from graphad.types import TENSOR

Place = tuple[int, int]  # a block's index, and an operator's in it
Edit = Callable[[Program], None]


def places(program: Program) -> list[Place]:
    """Where the operators are, those of inner blocks after those of outer ones."""
    return [(block.idx, i) for block in program.blocks for i in range(len(block.ops))]


def edited(program: Program, edit: Edit) -> Program | None:
    """What an edit makes of a copy, mended where operators or variables are gone; None if that is no valid program.

    What operators write is declared anew, as it is inferred from what is given from outside: after an edit it may have another shape.
    """
    twin = program.clone()
    try:
        edit(twin)
        _mend(twin)
        _undeclare_written(twin)
        twin = completed(twin)
        verify(lower(twin))
    except (GraphadError, KeyError, IndexError):
        return None
    return twin


def _undeclare_written(program: Program) -> None:
    """Forget the shapes and dtypes of tensors that are not given from outside, nor kept."""
    outside = {value.name for value in lower(program).inputs}
    for block in program.blocks:
        for var in block.vars.values():
            if var.type == TENSOR and not var.persistable and not (block.idx == 0 and var.name in outside):
                var.declare(None, None)


# -- mending -------------------------------------------------------------------------------------


def _mend(program: Program) -> None:
    while unused := _unheld(program):
        program.drop_blocks(unused)
    for block in program.blocks[:0:-1]:
        _hand_in(block)
    for block in program.blocks[::-1]:
        for op in block.ops:
            _mend_slots(op)
    _drop_unused(program)


def _unheld(program: Program) -> set[int]:
    """The blocks that no operator holds, and those inside them."""
    held = {inner.idx for block in program.blocks for op in block.ops for inner in blocks_of(op)}
    free = {block.idx for block in program.blocks if block.idx and block.idx not in held}
    return {block.idx for block in program.blocks if any(around.idx in free for around in block.chain())}


def _hand_in(block: Block) -> None:
    """Declare outside, as data, what a block declares itself and reads before anything writes it."""
    written: set[str] = set()
    for op in block.ops:
        for name in reads(op):
            if name in block.vars and name not in written and name != EMPTY:
                _declare_outside(block, name)
        written |= always_written(op)


def _declare_outside(block: Block, name: str) -> None:
    root, var = block.program.global_block(), block.vars[name]
    if not root.has_var(name):
        root.vars[name] = var.copy_to(root)
        del block.vars[name]


def _mend_slots(op: Operator) -> None:
    """What an operator with blocks reads and writes outside, as its blocks are now."""
    row = REGISTRY.get(op.type)
    if not isinstance(row, ControlDef) or row.is_grad:
        return
    blocks, decides = blocks_of(op), op.input(row.condition)
    looped = decides if isinstance(row, LoopDef) else []
    _fill(op.inputs, row.operands, [name for name in outside_reads(*blocks) if name not in decides])
    _fill(op.outputs, row.results, list(dict.fromkeys([*(n for n in outside_writes(*blocks) if n not in looped), *looped])))


def _fill(slots: dict[str, list[str]], slot: str, names: list[str]) -> None:
    slots.pop(slot, None)
    if names:
        slots[slot] = names


def _drop_unused(program: Program) -> None:
    """Forget variables that no operator touches, but for what persists: a pass may go by its name."""
    used = _used(program)
    for block in program.blocks:
        block.vars = {name: var for name, var in block.vars.items() if name in used or var.persistable}


def _used(program: Program) -> set[str]:
    return {name for block in program.blocks for op in block.ops for name in (*op.input_names(), *op.output_names())}


# -- edits ---------------------------------------------------------------------------------------


def without(chosen: Collection[Place]) -> Edit:
    """Leave operators out, and the blocks they hold."""

    def edit(program: Program) -> None:
        for block in program.blocks:
            block.ops = [op for i, op in enumerate(block.ops) if (block.idx, i) not in chosen]

    return edit


def inlined(place: Place, which: int) -> Edit:
    """Put the operators of a block in the place of the operator that holds it."""

    def edit(program: Program) -> None:
        block, index = program.blocks[place[0]], place[1]
        inner = blocks_of(block.ops[index])[which]
        renamed = {name: _free_name(block, name) for name in inner.vars}
        for name, var in inner.vars.items():
            var.name = renamed[name]
            block.vars[var.name] = var.copy_to(block)
        for other in program.blocks:
            if inner in other.chain():
                for op in other.ops:
                    op.inputs, op.outputs = _renamed(op.inputs, renamed), _renamed(op.outputs, renamed)
        for op in inner.ops:
            op.block = block
            for sub in blocks_of(op):
                sub.parent_idx = block.idx
        block.ops[index : index + 1] = inner.ops
        inner.ops = []

    return edit


def _free_name(block: Block, name: str) -> str:
    if not any(name in each.vars for each in block.program.blocks if each is not block and block in each.chain()):
        name = name if not block.has_var_recursive(name) else f"{name}_"
    while block.has_var_recursive(name):
        name += "_"
    return name


def _renamed(slots: dict[str, list[str]], names: dict[str, str]) -> dict[str, list[str]]:
    return {slot: [names.get(name, name) for name in each] for slot, each in slots.items()}


def simpler_attrs(program: Program) -> Iterator[Edit]:
    """Attributes left to their defaults, and constants 0 or 1, or half as large."""
    for place in places(program):
        op = program.blocks[place[0]].ops[place[1]]
        row = REGISTRY.get(op.type)
        for name, value in op.attrs.items():
            if row is not None and name in row.attrs and row.attrs[name].kind != "Block" and row.attrs[name].default is not REQUIRED:
                yield _with_attr(place, name)
            if isinstance(value, float):
                yield from (_with_attr(place, name, simple) for simple in _simpler(value))


def _simpler(value: float) -> list[float]:
    known = [0.0, 1.0]
    if value in known:
        return known[: known.index(value)]
    return [*known, value // 2] if math.isfinite(value) and abs(value) > 3 and value == int(value) else known


def _with_attr(place: Place, name: str, value: Any = None) -> Edit:
    """Give an attribute another value, or take it away."""

    def edit(program: Program) -> None:
        attrs = program.blocks[place[0]].ops[place[1]].attrs
        if value is None:
            del attrs[name]
        else:
            attrs[name] = value

    return edit


def fewer_operands(program: Program) -> Iterator[Edit]:
    """One name less in a slot that takes several, or an optional slot left out."""
    for place in places(program):
        op = program.blocks[place[0]].ops[place[1]]
        if isinstance(REGISTRY.get(op.type), ControlDef):
            continue
        for slots in ("inputs", "outputs"):
            for slot, names in getattr(op, slots).items():
                for i in range(len(names)):
                    yield _without_name(place, slots, slot, i)


def _without_name(place: Place, slots: str, slot: str, index: int) -> Edit:
    def edit(program: Program) -> None:
        held: dict[str, list[str]] = getattr(program.blocks[place[0]].ops[place[1]], slots)
        del held[slot][index]
        if not held[slot]:
            del held[slot]

    return edit


def fewer_variables(program: Program) -> Iterator[Edit]:
    """Without the persistable variables that no operator touches: all of them, or one."""
    used = _used(program)
    unused = [name for name, var in program.global_block().vars.items() if var.persistable and name not in used]
    if unused:
        yield from map(_without_variables, (unused, *([name] for name in unused)))


def _without_variables(names: Collection[str]) -> Edit:
    def edit(program: Program) -> None:
        for name in names:
            del program.global_block().vars[name]

    return edit


def bypasses(program: Program) -> Iterator[Edit]:
    """An operator left out whose readers get one of its inputs, of the same type, in the place of its only output."""
    for place in places(program):
        block = program.blocks[place[0]]
        op = block.ops[place[1]]
        if isinstance(REGISTRY.get(op.type), ControlDef) or len(op.output_names()) != 1:
            continue
        for name in dict.fromkeys(op.input_names()):
            known = [each for each in (name, *op.output_names()) if block.has_var_recursive(each)]
            if len({*known}) == 2 and block.var_recursive(known[0]).declared == block.var_recursive(known[1]).declared:
                yield _bypassed(place, name)


def _bypassed(place: Place, name: str) -> Edit:
    def edit(program: Program) -> None:
        (written,) = program.blocks[place[0]].ops.pop(place[1]).output_names()
        for op in (op for block in program.blocks for op in block.ops):
            op.inputs = _renamed(op.inputs, {written: name})

    return edit


def smaller_extents(program: Program) -> Iterator[Edit]:
    """An extent, everywhere it occurs, made 1 or 2."""
    extents = {extent for var in program.list_vars() for extent in var.declared[0] or ()}
    for extent in sorted(extents, reverse=True):
        yield from (_with_extent(extent, new) for new in (1, 2) if new < extent)


def _with_extent(old: int, new: int) -> Edit:
    def edit(program: Program) -> None:
        for var in program.list_vars():
            shape, dtype = var.declared
            var.declare(None if shape is None else tuple(new if e == old else e for e in shape), dtype)
        for op in (op for block in program.blocks for op in block.ops):
            for name, value in op.attrs.items():
                if "shape" in name and isinstance(value, list):
                    op.attrs[name] = [new if e == old else e for e in value]

    return edit
