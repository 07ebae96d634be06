"""Operators as steps: functions of the frames they run on, prepared once for all the times a block runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphad.errors import ExecutionError, GraphadError, InvalidValue, NoValue
from graphad.ops import REGISTRY, ControlDef, LoopDef, OpDef
from graphad.ops.aggregates import Aggregate
from graphad.program import EMPTY, Block, Operator, Program, located
from graphad.types import Tensor

# -- layout ----------------------------------------------------------------------------------------
# Where a block finds its names, and which residuals it keeps: facts about blocks, found before they run.
#
# A block runs on frames, innermost first: its own variables, those of the block around it, and so on. The block of a gradient has
# two: its own, and the residuals of an iteration of the forward block.

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
    """For each operator of a block, the names that are dead after it."""
    # Written names count too: a value that nothing reads is dead right after its writer.
    last: dict[str, int] = {}
    alone = len(block.program.blocks) == 1  # so that no operator has blocks
    for i, op in enumerate(block.ops):
        for names in (*op.inputs.values(), *op.outputs.values()) if alone else (touched(op),):
            for name in names:
                last[name] = i
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


# -- whether a program is still the same ----------------------------------------------------------

_of_operator = attrgetter("type", "inputs", "outputs", "attrs")
_of_variable = attrgetter("_shape", "_dtype", "persistable", "type")


class Facts(NamedTuple):
    """Everything about a block that decides how it is run."""

    ops: list[Operator]
    operators: list[tuple[object, ...]]
    names: list[str]
    variables: list[tuple[object, ...]]


def facts(program: Program) -> list[Facts]:
    """Everything about a program that decides how it is run."""
    return [
        Facts(list(b.ops), list(map(_operator_facts, b.ops)), list(b.vars), list(map(_of_variable, b.vars.values())))
        for b in program.blocks
    ]


def unchanged(program: Program, known: list[Facts]) -> bool:
    """Whether these are the facts of the program. Each run asks that, so that lists are compared whole."""
    if len(program.blocks) != len(known):
        return False
    for block, record in zip(program.blocks, known, strict=True):
        if block.ops != record.ops or list(map(_of_operator, block.ops)) != record.operators:
            return False
        # Whole lists are compared in C, which for programs of thousands of operators takes a fraction of a loop in Python.
        if list(map(_of_variable, block.vars.values())) != record.variables or list(block.vars) != record.names:
            return False
    return True


def _operator_facts(op: Operator) -> tuple[object, ...]:
    slots = [{slot: list(names) for slot, names in side.items()} for side in (op.inputs, op.outputs)]
    return op.type, *slots, {name: list(value) if isinstance(value, list) else value for name, value in op.attrs.items()}


# -- steps -----------------------------------------------------------------------------------------
# Operators as steps: functions of the frames they run on, prepared once for all the times a block runs.

Frame = dict[str, Any]
Frames = tuple[Frame, ...]
Step = Callable[[Frames], None]
Place = tuple[int, str]  # a frame, and a name in it


class Reader(Protocol):
    """The run that a step belongs to."""

    check_finite: bool

    def fetch(self, frames: Frames, place: Place, op: Operator) -> Tensor:
        """The value of a name that its frame does not hold: the scope's, or an error."""

    def generator(self, op: Operator) -> np.random.Generator:
        """The random numbers of an operator."""


def settled(value: Tensor) -> Tensor:
    """The result of a kernel, as an array or an aggregate."""
    return value if isinstance(value, np.ndarray | Aggregate) else np.asarray(value)


def step_of(run: Reader, op: Operator, definition: OpDef, layout: Layout) -> Step:
    """The step of an operator without blocks.

    A partial one gets None for names without a value, and a result that is None is not written.
    """
    reads, writes = _places(op, layout)
    if writes_old_array(op):
        reads = reads | {"Array": [(depth(layout, n), n) for n in op.output("Out")]}
    attrs = definition.own_attrs(op.attrs)
    partial = definition.partial or writes_old_array(op)
    slots = list(writes)
    compute, random = definition.run, definition.random

    def value(frames: Frames, place: Place) -> Any:
        frame, name = frames[place[0]], place[1]
        if name in frame:
            return frame[name]
        # A partial operator takes None for what a branch left without a value; any other error is one for it, too.
        with suppress(NoValue) if partial else nullcontext():
            return run.fetch(frames, place, op)

    def step(frames: Frames) -> None:
        inputs = {slot: [value(frames, place) for place in places] for slot, places in reads.items()}
        options = {**attrs, "rng": run.generator(op)} if random else attrs
        try:
            outputs = compute(inputs, options, slots)
        except Exception as error:
            arrays_by_name = {n: a for slot, arrays in inputs.items() for (_, n), a in zip(reads[slot], arrays, strict=True)}
            raise failure(op, arrays_by_name, error) from error
        for slot, places in writes.items():
            for place, result in zip(places, outputs[slot], strict=True):
                if place is not None:
                    _write(run, op, frames, place, result, inputs)

    return step


def writes_old_array(op: Operator) -> bool:
    """Whether an operator adds to the array of tensors that it writes, if there is one."""
    return op.type == "write_to_array" and "Array" not in op.inputs and not op.attrs.get("fresh")


def _places(op: Operator, layout: Layout) -> tuple[dict[str, list[Place]], dict[str, list[Place | None]]]:
    """Where an operator finds what it reads and leaves what it writes, by slot."""
    # Block 0 has one frame, so nothing has to be looked up there.
    if len(layout) == 1:
        reads = {slot: [(0, n) for n in names if n != EMPTY] for slot, names in op.inputs.items()}
        writes = {slot: [None if n == EMPTY else (0, n) for n in names] for slot, names in op.outputs.items()}
    else:
        reads = {slot: [(depth(layout, n), n) for n in names if n != EMPTY] for slot, names in op.inputs.items()}
        writes = {slot: [None if n == EMPTY else (home(layout, n), n) for n in names] for slot, names in op.outputs.items()}
    return reads, {slot: places for slot, places in writes.items() if any(places)}


def _write(run: Reader, op: Operator, frames: Frames, place: Place, result: Any, inputs: Mapping[str, Sequence[Any]]) -> None:
    at, name = place
    if result is None:
        frames[at].pop(name, None)
        return
    result = frames[at][name] = settled(result)
    if run.check_finite and isinstance(result, np.ndarray) and result.dtype.kind == "f" and not np.isfinite(result).all():
        bad = "nan" if np.isnan(result).any() else "an infinity"
        arrays_by_name = {n: a for slot, arrays in inputs.items() for n, a in zip(op.input(slot), arrays, strict=False)}
        raise ExecutionError(located(f"operator {op.type!r} made {bad} in {name!r}\n{_inputs_text(op, arrays_by_name)}", op.source))


def failure(op: Operator, inputs: Mapping[str, object], error: Exception) -> ExecutionError:
    """The error of an operator that failed: its reason, inputs and attributes, and the user's line."""
    reason = str(error) if isinstance(error, GraphadError) else f"{type(error).__name__}: {error}"
    return ExecutionError(located(f"operator {op.type!r} failed: {reason}\n{_inputs_text(op, inputs)}", op.source))


def _inputs_text(op: Operator, inputs: Mapping[str, object]) -> str:
    slot_of = {name: slot for slots in (op.outputs, op.inputs) for slot, names in slots.items() for name in names}
    lines = [f"  {slot_of.get(name, '')} = {name}: {_described(value)}" for name, value in inputs.items()]
    attrs = ", ".join(f"{k}={v!r}" for k, v in op.attrs.items())
    return "\n".join([*lines, *([f"  attributes: {attrs}"] if attrs else [])])


def _described(value: object) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)


__all__ = ["Frame", "Frames", "Place", "Reader", "Step", "failure", "settled", "step_of"]
