"""Operators that are dead once a model is read: those of shapes that turned out to be known, and of integers whose floats alone are used.

shape(x) -> s; cast(s) -> t; reshape(x, shape=[-1, 4]) -> y        ⇒        reshape(x, shape=[-1, 4]) -> y
"""

from __future__ import annotations

from collections.abc import Collection

from graphad.ops import REGISTRY
from graphad.program import Block, Operator, Program


def drop_dead(program: Program, requested: Collection[str], keep: Collection[str]) -> None:
    """Drop operators that nothing wanted depends on, and variables that no operator touches any more, except those to keep."""
    _swept(program.global_block(), set(requested))
    # A block whose operator is gone is reached from nowhere.
    nested_indices = {sub.idx for block in _blocks(program.global_block()) for op in block.ops for sub in _subs(op)}
    program.drop_blocks({block.idx for block in program.blocks[1:]} - nested_indices)
    names = {name for block in program.blocks for op in block.ops for name in (*op.input_names(), *op.output_names())}
    for block in program.blocks:
        block.vars = {name: variable for name, variable in block.vars.items() if name in names or name in requested or name in keep}


def _subs(op: Operator) -> list[Block]:
    return [value for value in op.attrs.values() if isinstance(value, Block)]


def _blocks(block: Block) -> list[Block]:
    return [block, *(ancestor for op in block.ops for sub in _subs(op) for ancestor in _blocks(sub))]


def _swept(block: Block, needed: set[str]) -> None:
    """Drop the dead operators of a block; ``needed`` becomes what is read in it as well.

    In a nested block whatever it writes of the blocks around is live: a loop's next values, a branch's results.
    """
    survivors = []
    # Backwards, a use is seen before what it uses. Everything that a nested block reads counts as needed, whether or not that is live
    # there: of a loop, what is read is read in the next iteration too.
    for op in reversed(block.ops):
        outputs, definition = op.output_names(), REGISTRY.get(op.type)
        effects = definition is None or definition.side_effect or op.type == "write_to_array" or not outputs
        if not effects and needed.isdisjoint(outputs) and all(name in block.vars for name in outputs):
            continue
        survivors.append(op)
        needed.update(op.input_names())
        for sub in _subs(op):
            _swept(sub, needed)
            needed.update(name for ancestor in _blocks(sub) for inner in ancestor.ops for name in inner.input_names())
    block.ops = survivors[::-1]
