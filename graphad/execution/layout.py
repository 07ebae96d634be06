"""Where a block finds its names, and which residuals it keeps: facts about blocks, found before they run.

A block runs on frames, innermost first: its own variables, those of the block around it, and so on. The block of a gradient has
two: its own, and the residuals of an iteration of the forward block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from graphad.errors import InvalidValue
from graphad.ops import REGISTRY, ControlDef, LoopDef
from graphad.program import EMPTY, Block, Operator, Program, located

Layout = tuple[Collection[str], ...]  # the names of each frame, innermost first


def depth(layout: Layout, name: str) -> int:
    """The frame that holds a name; the outermost one if it is undeclared."""
    last = len(layout) - 1
    for i in range(last):
        if name in layout[i]:
            return i
    return last


def home(layout: Layout, name: str) -> int:
    """The frame a name is written to: that of the block that declares it, else the innermost."""
    if len(layout) > 1:
        for i, names in enumerate(layout):
            if name in names:
                return i
    return 0


def control(op: Operator) -> ControlDef | None:
    """The definition of an operator that holds blocks, None for any other."""
    row = REGISTRY.get(op.type)
    return row if isinstance(row, ControlDef) else None


def blocks_of(op: Operator) -> list[Block]:
    """The blocks an operator holds."""
    row = control(op)
    return [] if row is None else [op.attrs[name] for name in row.blocks]


def touched(op: Operator) -> set[str]:
    """Every name that an operator, or one in its blocks, reads or writes."""
    names = {*op.input_names(), *op.output_names()}
    blocks = blocks_of(op)
    return names.union(*(touched(inner) for block in blocks for inner in block.ops)) if blocks else names


def last_uses(block: Block, keep: Collection[str]) -> list[list[str]]:
    """For each operator of a block, the names that are dead after it."""
    last = {name: i for i, op in enumerate(block.ops) for name in touched(op)}
    free: list[list[str]] = [[] for _ in block.ops]
    for name in sorted(last):
        if name not in keep and name != EMPTY:
            free[last[name]].append(name)
    return free


def written(op: Operator) -> set[str]:
    """Every name that an operator, or one in its blocks, writes."""
    return set(op.output_names()).union(*(written(inner) for block in blocks_of(op) for inner in block.ops))


def saved_names(program: Program) -> dict[int, frozenset[str]]:
    """For each block that has gradients, by its index, the names that they read of it."""
    saved: dict[int, frozenset[str]] = {}
    for op, row in _controls(program):
        if row.is_grad:
            for i, block in enumerate(blocks_of(op)):
                found = _free(block).difference(argument_names(op, i))
                saved[block.parent_idx] = saved.get(block.parent_idx, frozenset()) | found
    return saved


def checkpointed(program: Program) -> dict[int, int]:
    """For each loop's block whose gradient wants checkpoints, by its index, how far they are apart; 0 if there is to be one alone."""
    every: dict[int, int] = {}
    plain: set[int] = set()
    for op, row in _controls(program):
        if isinstance(row, LoopDef) and row.is_grad:
            home = op.attrs[row.blocks[0]].parent_idx
            apart = op.attrs.get("checkpoint_every", 0)
            if op.attrs.get("recursive"):
                every.setdefault(home, 0)
            elif apart:
                every[home] = min(apart, every.get(home) or apart)
            else:
                plain.add(home)
    return {home: apart for home, apart in every.items() if home not in plain}


def names_around(block: Block, saved: Mapping[int, frozenset[str]]) -> list[str]:
    """The names of blocks around that a block, or one in it, touches, or that is ``saved`` of it for a gradient although it does not."""
    return sorted(_names_in(block, saved).difference(block.vars) - {EMPTY})


def _names_in(block: Block, saved: Mapping[int, frozenset[str]]) -> set[str]:
    names = set(saved.get(block.idx, ()))
    for op in block.ops:
        names.update(op.input_names(), op.output_names(), *(_names_in(inner, saved) for inner in blocks_of(op)))
    return names


def argument_names(op: Operator, which: int) -> list[str]:
    """The names that the operands of a gradient operator have in one of its blocks."""
    return nth(op, "original_input", which, len(op.input("X"))) + nth(op, "original_output_grad", which, len(op.input("Out@GRAD")))


def nth(op: Operator, attr: str, which: int, count: int) -> list[str]:
    """The names for one of the blocks; ValueError if the operator, which was read from a file, does not have them."""
    names = op.attrs.get(attr)
    if not isinstance(names, list):
        raise InvalidValue(
            located(f"operator {op.type!r}: attribute {attr!r} is a list of names inside its blocks, not {names!r}", op.source)
        )
    return list(names[which * count : (which + 1) * count])


def _controls(program: Program) -> Iterator[tuple[Operator, ControlDef]]:
    for block in program.blocks if len(program.blocks) > 1 else ():
        for op in block.ops:
            row = control(op)
            if row is not None:
                yield op, row


def _free(block: Block) -> frozenset[str]:
    """The names that a block reads and does not declare."""
    names: set[str] = set()
    for op in block.ops:
        names.update(op.input_names())
        row = control(op)
        if row is not None and not row.is_grad:
            names.update(*map(_free, blocks_of(op)))
    return frozenset(names.difference(block.vars) - {EMPTY})


# -- whether a program is still the same ----------------------------------------------------------

Facts = list[tuple[list[Operator], list[tuple[object, ...]], list[tuple[object, ...]]]]


def facts(program: Program) -> Facts:
    """Everything about a program that decides how it is run."""
    return [(list(b.ops), [_operator_facts(op, copy=True) for op in b.ops], _variable_facts(b)) for b in program.blocks]


def unchanged(program: Program, known: Facts) -> bool:
    """Whether these are the facts of the program."""
    if len(program.blocks) != len(known):
        return False
    for block, (ops, operators, variables) in zip(program.blocks, known, strict=True):
        if block.ops != ops or _variable_facts(block) != variables:
            return False
        if any(_operator_facts(op) != then for op, then in zip(ops, operators, strict=True)):
            return False
    return True


def _operator_facts(op: Operator, copy: bool = False) -> tuple[object, ...]:
    if not copy:
        return op.type, op.inputs, op.outputs, op.attrs
    slots = [{slot: list(names) for slot, names in side.items()} for side in (op.inputs, op.outputs)]
    return op.type, *slots, {name: list(value) if isinstance(value, list) else value for name, value in op.attrs.items()}


def _variable_facts(block: Block) -> list[tuple[object, ...]]:
    return [(name, var._shape, var._dtype, var.persistable, var.type) for name, var in block.vars.items()]
