"""Which names operators read and write, those with blocks around these, and which nothing reads at the end."""

from __future__ import annotations

from graphad.execution.layout import blocks_of, control
from graphad.program import EMPTY, Block, Operator, Program
from graphad.types import STEP_SCOPES


def reads(op: Operator) -> list[str]:
    """The names that an operator reads, in order; an array is written in place."""
    old = op.output("Out") if op.type == "write_to_array" and "Array" not in op.inputs else []
    return [*op.input_names(), *old]


def always_written(op: Operator) -> set[str]:
    """The names that an operator writes whatever happens."""
    inner = [set().union(*map(always_written, block.ops)) - set(block.vars) for block in blocks_of(op)]
    if not inner:
        return set(op.output_names())
    row = control(op)
    return set() if row is not None and row.may_skip else set.intersection(*inner)


def unread(program: Program) -> list[str]:
    """The names of block 0 whose last value no operator reads, in the order in which they get it: the targets of ``lower``."""
    block, later, found = program.global_block(), set[str](), dict[str, bool]()
    for op in reversed(block.ops):
        for name in reversed(op.output_names()):
            if name not in found:
                found[name] = name not in later and name != EMPTY and block.var_recursive(name).type != STEP_SCOPES
        later.update(reads(op))
    return [name for name, is_unread in reversed(found.items()) if is_unread]


def outside_reads(*blocks: Block) -> list[str]:
    """The names around some blocks that they read before they write them."""
    found: dict[str, None] = {}
    for block in blocks:
        written = set(block.vars)
        for op in block.ops:
            found.update(dict.fromkeys(name for name in reads(op) if name not in written))
            written |= always_written(op)
    return list(found)


def outside_writes(*blocks: Block) -> list[str]:
    """The names around some blocks that they write."""
    return list(dict.fromkeys(name for block in blocks for op in block.ops for name in op.output_names() if name not in block.vars))
