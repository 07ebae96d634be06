"""Shared by layers with blocks: writing a block, finding its captures and its writes to outer variables, appending its operator.

with atomic():                              everything is taken back if something fails
    with new_block(program) as block:       layers write into the block
        ...
    append_holder(around, "while", ...)     X and Out are found by looking at the block
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from graphad.errors import InvalidValue
from graphad.layers.values import copied
from graphad.ops import REGISTRY, ControlDef, LoopDef
from graphad.program import EMPTY, Block, Operator, Program, Variable, default_main_program, default_startup_program, located, user_line


@contextmanager
def atomic() -> Iterator[None]:
    """Within it, an error leaves the programs as they were."""
    with default_main_program().appending(), default_startup_program().appending():
        yield


@contextmanager
def new_block(program: Program) -> Iterator[Block]:
    """Within it, layers write into a new block inside the current one."""
    block = program.create_block()
    yield block
    if program.current_block() is not block:
        raise InvalidValue(located(f"block {program.current_block().idx} was begun inside and is still open: call rollback", user_line()))
    program.rollback()


# -- what a block reads and writes ---------------------------------------------------------------


class Touched(NamedTuple):
    """Names in the order in which they come first; the values are empty."""

    reads: dict[str, None]
    writes: dict[str, None]


def touched_outside(blocks: Sequence[Block]) -> Touched:
    """The names around that blocks, and the blocks in them, read and write."""
    names = Touched({}, {})
    for block in blocks:
        for op in block.ops:
            _touch(op, block, names)
    return names


def _touch(op: Operator, block: Block, touched: Touched) -> None:
    local = block.vars
    reads, writes = op.input_names(), op.output_names()
    if op.type == "write_to_array" and "Array" not in op.inputs and not op.attrs.get("fresh"):
        reads = reads + op.output("Out")
    # What nested blocks touch outside of themselves counts here as well, unless it is this block's own.
    inner = touched_outside([value for value in op.attrs.values() if isinstance(value, Block)])
    touched.reads.update((name, None) for name in (*reads, *inner.reads) if name not in local and name != EMPTY)
    touched.writes.update((name, None) for name in (*writes, *inner.writes) if name not in local and name != EMPTY)


def _has_value(block: Block, name: str) -> bool:
    """Whether a name has a value where the block ends: it outlives runs, or an operator wrote it."""
    # From the inside out; the nearest block that declares the name decides.
    for ancestor in block.chain():
        if any(name in op.output_names() for op in reversed(ancestor.ops)):
            return True
        if name in ancestor.vars:
            return ancestor.vars[name].persistable
    return False


# -- the operator that holds blocks --------------------------------------------------------------


def append_holder(
    around: Block,
    op_type: str,
    condition: Sequence[Variable],
    blocks: Mapping[str, Block],
    results: Sequence[str] = (),
    fresh: Collection[str] = (),
    attrs: Mapping[str, object] | None = None,
) -> Operator:
    """Append the operator that runs blocks.

    Its operands are the names that the blocks read, in the order of the first read, then those that they write and that have a
    value before, since the write may not be reached. Its results are the names that they write: ``results`` first, then others,
    and for a loop the condition. ``fresh`` names have no value before.
    """
    definition = REGISTRY[op_type]
    assert isinstance(definition, ControlDef)
    names = touched_outside([*blocks.values()])
    tests = dict.fromkeys(var.name for var in condition) if isinstance(definition, LoopDef) else {}
    result_names = [*(name for name in results if name in names.writes), *(name for name in names.writes if name not in results)]
    result_names = [*(name for name in result_names if name not in tests), *tests]
    reads = [name for name in names.reads if name not in tests]
    # A block that may not run, or stop early, leaves the old value: it has to be passed in to be the result.
    reads += [n for n in result_names if n not in names.reads and n not in tests and n not in fresh and _has_value(around, n)]
    inputs = {definition.condition: list(condition), **({definition.operands: reads} if reads else {})}
    outputs = {
        **({definition.results: result_names} if result_names else {}),
        definition.scopes: [around.program.names.generate("_generated_var")],
    }
    return around.append_op(op_type, inputs, outputs, {**blocks, **(attrs or {})})


# -- values that change places at once -----------------------------------------------------------


def overwrite(block: Block, key: str, moves: Sequence[tuple[Variable, Variable]]) -> None:
    """Append what gives each first variable the value of its second one, all at once: nothing is read after it was overwritten.

    One copy a pair in an order that needs no other; where values change places in a ring, one of them is put aside.
    """
    sources = {target.name: source.name for target, source in moves if target.name != source.name}
    while sources:
        target = next((name for name in sources if name not in sources.values()), None)
        # Every target is read by another move, so they form cycles: one value moves aside, which opens its cycle.
        if target is None:
            target = next(iter(sources))
            aside = copied(block, key, block.var_recursive(target)).name
            sources = {name: aside if source == target else source for name, source in sources.items()}
        block.append_op("assign", {"X": sources.pop(target)}, {"Out": target})
