"""Checks of the blocks of every program that is read: they nest, and operators hold blocks without cycles."""

from __future__ import annotations

from collections.abc import Iterator

from graphad.errors import InvalidValue, ParseError
from graphad.ops import ControlDef, find
from graphad.program import Block, Operator, Program
from graphad.program.block import MAX_DEPTH
from graphad.program.control import check_control


def add_block(program: Program, depths: list[int], parent: int) -> Block:
    """The next block of a program that is being read, inside an earlier one; ``depths`` are those of the blocks so far."""
    idx = len(depths)
    if (parent == -1) != (idx == 0) or not -1 <= parent < max(idx, 1):
        raise ParseError(f"the parent of block {idx} is block {parent}; that of block 0 is -1, that of every other one is an earlier block")
    depths.append(depths[parent] + 1 if idx else 0)
    if depths[idx] > MAX_DEPTH:
        raise ParseError(f"block {idx} is nested {depths[idx]} deep; at most {MAX_DEPTH} are read")
    if idx:
        program.add_block(parent)
    return program.blocks[idx]


def check_blocks(program: Program) -> None:
    """Refuse operators that hold a block around them, or each other's blocks; and known ones without the blocks they need."""
    held: list[list[int]] = [[] for _ in program.blocks]
    for block in program.blocks:
        around: set[int] = set()
        for op in block.ops:
            row = find(op.type)
            if isinstance(row, ControlDef):
                _at_reading(op, row)
            for inner in blocks_of(op):
                around = around or {each.idx for each in block.chain()}
                if inner.idx in around:
                    raise ParseError(f"operator {op.type!r} in block {block.idx} holds block {inner.idx}, which it is in")
                held[block.idx].append(inner.idx)
    _check_acyclic(held)


def blocks_of(op: Operator) -> Iterator[Block]:
    """The blocks that an operator's attributes hold."""
    for value in op.attrs.values():
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Block):
                yield item


def _at_reading(op: Operator, row: ControlDef) -> None:
    try:
        check_control(op, row)
    except InvalidValue as error:
        raise ParseError(str(error)) from None


def _check_acyclic(held: list[list[int]]) -> None:
    """Take away blocks that hold none that are left, until none is left (Kahn's algorithm)."""
    holders: list[list[int]] = [[] for _ in held]
    for idx, inner in enumerate(held):
        for each in inner:
            holders[each].append(idx)
    left = [len(inner) for inner in held]
    ready = [idx for idx, count in enumerate(left) if not count]
    for idx in ready:
        for holder in holders[idx]:
            left[holder] -= 1
            if not left[holder]:
                ready.append(holder)
    if len(ready) < len(held):
        knot = [idx for idx, count in enumerate(left) if count]
        raise ParseError(f"blocks {knot} hold each other in a circle, through the attributes of their operators")
