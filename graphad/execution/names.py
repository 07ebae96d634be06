"""Static facts about the names in blocks: in which frame each is found, after which operator it is dead, and which are residuals.

A block runs on frames, innermost first: its own variables, those of the block around it, and so on. The block of a gradient has two:
its own, and the residuals of an iteration of the forward block.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from graphad.errors import InvalidValue
from graphad.ops import REGISTRY, ControlDef, LoopDef
from graphad.program import EMPTY, Block, Operator, Program, located

V = TypeVar("V")
Frame = dict[str, Any]
Frames = tuple[Frame, ...]
Step = Callable[[Frames], None]  # an operator, prepared once for all the times that its block runs
Place = tuple[int, str]  # a frame, and a name in it
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
    definition = REGISTRY.get(op.type)
    return definition if isinstance(definition, ControlDef) else None


def blocks_of(op: Operator) -> list[Block]:
    """The blocks an operator holds."""
    definition = control(op)
    return [] if definition is None else [op.attrs[name] for name in definition.blocks]


def touched(op: Operator) -> set[str]:
    """Every name that an operator, or one in its blocks, reads or writes."""
    names = {*op.input_names(), *op.output_names()}
    blocks = blocks_of(op)
    return names.union(*(touched(inner) for block in blocks for inner in block.ops)) if blocks else names


def last_uses(block: Block, keep: Collection[str]) -> list[list[str]]:
    """The names that are dead after each operator of a block."""
    # Written names count too: a value that nothing reads is dead right after its writer.
    last: dict[str, int] = {}
    alone = len(block.program.blocks) == 1  # so that no operator has blocks
    for i, op in enumerate(block.ops):
        for names in (*op.inputs.values(), *op.outputs.values()) if alone or not control(op) else (touched(op),):
            for name in names:
                last[name] = i
    free: list[list[str]] = [[] for _ in block.ops]
    for name in sorted(last):
        if name not in keep and name != EMPTY:
            free[last[name]].append(name)
    return free


def dead_names(block: Block, layout: Layout, keep: Collection[str]) -> list[list[str]]:
    """The names of its innermost frame that are dead after each operator of a block."""
    free = last_uses(block, keep)
    has_blocks = len(block.program.blocks) > 1 and any(map(control, block.ops))
    if len(layout) == 1 and not has_blocks:
        return free
    # A name is freed in the block that declares it; in block 0 every name is.
    own_names = set(block.vars)
    if len(layout) == 1:
        own_names.update(n for op in block.ops for n in (*op.input_names(), *op.output_names()))
    return [[n for n in names if n in own_names] for names in free]


def written(op: Operator) -> set[str]:
    """Every name that an operator, or one in its blocks, writes."""
    return set(op.output_names()).union(*(written(inner) for block in blocks_of(op) for inner in block.ops))


def saved_names(program: Program) -> dict[int, frozenset[str]]:
    """The names that gradients read of each block that has any, by the block's index."""
    names_by_block: dict[int, frozenset[str]] = {}
    for op, definition in controls(program):
        if definition.is_grad:
            for i, block in enumerate(blocks_of(op)):
                names = _free(block).difference(argument_names(op, i))
                names_by_block[block.parent_idx] = names_by_block.get(block.parent_idx, frozenset()) | names
    return names_by_block


def checkpointed(program: Program) -> dict[int, int]:
    """For each loop's block whose gradient wants checkpoints, by its index, how far they are apart; 0 if there is to be one alone."""
    intervals: dict[int, int] = {}
    plain_places: set[int] = set()
    for op, definition in controls(program):
        if isinstance(definition, LoopDef) and definition.is_grad:
            home = op.attrs[definition.blocks[0]].parent_idx
            interval = op.attrs.get("checkpoint_every", 0)
            if op.attrs.get("recursive"):
                intervals.setdefault(home, 0)
            elif interval:
                # Several gradients of one loop: the closest checkpoints serve all; one that wants every iteration turns them off.
                intervals[home] = min(interval, intervals.get(home) or interval)
            else:
                plain_places.add(home)
    return {home: interval for home, interval in intervals.items() if home not in plain_places}


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


class GradientBlock(Generic[V]):
    """One block of a gradient operator that is compiled: what goes in and out, and its names inside.

    Args:
        op, definition, which: the operator, its definition, and the number of the block.
        frames, layout: the frames where the operator is, and their names.
        saved: the names that the forward keeps, by the number of the forward block.
        value: what a name has there.
        run: runs a block on frames, the innermost first.
    """

    def __init__(
        self,
        op: Operator,
        definition: ControlDef,
        which: int,
        frames: Sequence[dict[str, V]],
        layout: Layout,
        saved: Mapping[int, frozenset[str]],
        value: Callable[[str], V | None],
        run: Callable[[Block, tuple[dict[str, V], ...], Layout], None],
    ) -> None:
        self.frames, self.layout, self.run = frames, layout, run
        self.block: Block = op.attrs[definition.blocks[which]]
        names = argument_names(op, which)
        # What the block declares or is given hides what the forward kept under the same name.
        self.saved = saved.get(self.block.parent_idx, frozenset()) - {*self.block.vars, *names}
        self.outer = [value(name) for name in op.input("X")]
        self.cotangents = [value(name) for name in op.input("Out@GRAD")]
        (self.scopes,) = op.input(definition.scopes)
        self.kept = value(self.scopes)
        self.targets = op.output("X@GRAD")
        self.operand_names, self.cotangent_names = names[: len(self.outer)], names[len(self.outer) :]
        self.outputs = nth(op, "original_input_grad", which, len(self.targets))

    def results(self, kept: Mapping[str, V], cotangents: Sequence[V | None]) -> list[V | None]:
        """Run the block once, on what one run of the forward block kept."""
        local = {name: value for name, value in zip(self.operand_names, self.outer, strict=False) if value is not None}
        local.update({name: value for name, value in zip(self.cotangent_names, cotangents, strict=True) if value is not None})
        around = dict(kept)
        self.run(self.block, (local, around), (self.block.vars, self.saved))
        return [local.get(name, around.get(name)) for name in self.outputs]

    def write(self, results: Sequence[V | None], frames: Sequence[dict[str, V]] | None = None) -> None:
        """The results, under their names outside."""
        for name, value in zip(self.targets, results, strict=True):
            if name != EMPTY and value is not None:
                (self.frames if frames is None else frames)[depth(self.layout, name)][name] = value


def controls(program: Program) -> Iterator[tuple[Operator, ControlDef]]:
    """The operators with blocks of a program, and their definitions."""
    for block in program.blocks if len(program.blocks) > 1 else ():
        for op in block.ops:
            definition = control(op)
            if definition is not None:
                yield op, definition


def _free(block: Block) -> frozenset[str]:
    """The names that a block reads and does not declare."""
    names: set[str] = set()
    for op in block.ops:
        names.update(op.input_names())
        definition = control(op)
        # What a gradient's block reads are residuals of another block, not names of this one.
        if definition is not None and not definition.is_grad:
            names.update(*map(_free, blocks_of(op)))
    return frozenset(names.difference(block.vars) - {EMPTY})


def block_results(program: Program) -> dict[int, frozenset[str]]:
    """The results of blocks of gradients, by block; the operators that run these return them."""
    results: dict[int, frozenset[str]] = {}
    for op, definition in controls(program):
        names = op.attrs.get("original_input_grad")
        if definition.is_grad and isinstance(names, list):
            for block in blocks_of(op):
                results[block.idx] = results.get(block.idx, frozenset()).union(names)
    return results


def writes_old_array(op: Operator) -> bool:
    """Whether an operator adds to the array of tensors that it writes, if there is one."""
    definition = REGISTRY.get(op.type)
    return definition is not None and definition.extends_output(op.inputs, op.attrs)
