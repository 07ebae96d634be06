"""Operators as steps: functions of the frames they run on, prepared once for all the times a block runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from graphad.errors import ExecutionError, GraphadError, InvalidValue, NoValue
from graphad.ops import REGISTRY, ControlDef, GradOpDef, LoopDef, OpDef
from graphad.ops.aggregates import Aggregate
from graphad.ops.definition import GRAD
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
    last: dict[str, int] = {}
    for i, op in enumerate(block.ops):
        blocks = blocks_of(op)
        for names in (touched(op),) if blocks else (*op.inputs.values(), *op.outputs.values()):
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
    saved: dict[int, frozenset[str]] = {}
    for op, definition in _controls(program):
        if definition.is_grad:
            for i, block in enumerate(blocks_of(op)):
                names = _free(block).difference(argument_names(op, i))
                saved[block.parent_idx] = saved.get(block.parent_idx, frozenset()) | names
    return saved


def checkpointed(program: Program) -> dict[int, int]:
    """For each loop's block whose gradient wants checkpoints, by its index, how far they are apart; 0 if there is to be one alone."""
    every: dict[int, int] = {}
    plain: set[int] = set()
    for op, definition in _controls(program):
        if isinstance(definition, LoopDef) and definition.is_grad:
            home = op.attrs[definition.blocks[0]].parent_idx
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
            definition = control(op)
            if definition is not None:
                yield op, definition


def _free(block: Block) -> frozenset[str]:
    """The names that a block reads and does not declare."""
    names: set[str] = set()
    for op in block.ops:
        names.update(op.input_names())
        definition = control(op)
        if definition is not None and not definition.is_grad:
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
    """The step of an operator without blocks."""
    attrs = {k: v for k, v in op.attrs.items() if k in definition.attrs}
    is_plain = definition.is_plain and not run.check_finite and op.type != "write_to_array"
    if is_plain and (places := _plain_places(op, definition, layout)) is not None:
        return _plain(run, op, definition.function, *places, attrs)
    reads, writes = _places(op, layout)
    if op.type == "write_to_array" and "Array" not in op.inputs and not op.attrs.get("fresh"):
        return _general(
            run, op, definition, reads | {"Array": [(depth(layout, n), n) for n in op.output("Out")]}, writes, attrs, partial=True
        )
    if definition.partial and not run.check_finite and not isinstance(definition, GradOpDef):
        return _complete(run, op, definition, reads, writes, attrs)
    if run.check_finite or definition.random or definition.partial:
        return _general(run, op, definition, reads, writes, attrs, definition.partial)
    if isinstance(definition, GradOpDef):
        return _gradient(run, op, definition, reads, writes, attrs)
    return _general(run, op, definition, reads, writes, attrs, False)


def _plain_places(op: Operator, definition: OpDef, layout: Layout) -> tuple[list[Place], Place] | None:
    """Where an operator finds one value for each of its first slots, and leaves the one that it writes; None if it is not that simple."""
    reads: list[Place] = []
    for (slot, names), known in zip(op.inputs.items(), definition.inputs.values(), strict=False):
        if slot != known.name or known.variadic or len(names) != 1 or names[0] == EMPTY:
            return None
        reads.append((depth(layout, names[0]), names[0]))
    written = [name for names in op.outputs.values() for name in names]
    if len(reads) != len(op.inputs) or len(written) != 1 or written[0] == EMPTY:
        return None
    return reads, (home(layout, written[0]), written[0])


def _places(op: Operator, layout: Layout) -> tuple[dict[str, list[Place]], dict[str, list[Place | None]]]:
    """Where an operator finds what it reads and leaves what it writes, by slot."""
    if len(layout) == 1:
        reads = {slot: [(0, n) for n in names if n != EMPTY] for slot, names in op.inputs.items()}
        writes = {slot: [None if n == EMPTY else (0, n) for n in names] for slot, names in op.outputs.items()}
    else:
        reads = {slot: [(depth(layout, n), n) for n in names if n != EMPTY] for slot, names in op.inputs.items()}
        writes = {slot: [None if n == EMPTY else (home(layout, n), n) for n in names] for slot, names in op.outputs.items()}
    return reads, {slot: places for slot, places in writes.items() if any(places)}


def _plain(run: Reader, op: Operator, kernel: Callable[..., object], reads: list[Place], place: Place, attrs: Mapping[str, object]) -> Step:
    """An operator of one value a slot and one output."""
    at, name = place

    def step(frames: Frames) -> None:
        try:
            args = [frames[d][n] for d, n in reads]
        except KeyError:
            args = [run.fetch(frames, place, op) for place in reads]
        try:
            result = kernel(*args, **attrs)
        except Exception as error:
            raise failure(op, {n: a for (_, n), a in zip(reads, args, strict=True)}, error) from error
        frames[at][name] = result if type(result) is np.ndarray else settled(result)

    return step


def _complete(
    run: Reader,
    op: Operator,
    definition: OpDef,
    reads: dict[str, list[Place]],
    writes: dict[str, list[Place | None]],
    attrs: dict[str, object],
) -> Step:
    """A partial operator of one input slot and one output: the short way if all it reads has a value."""
    general = _general(run, op, definition, reads, writes, attrs, True)
    slots, homes = list(reads), [place for places in writes.values() for place in places if place is not None]
    if len(slots) != 1 or len(homes) != 1 or definition.outputs[next(iter(writes))].variadic:
        return general
    places = reads[slots[0]]
    kernel = (
        (lambda *items, **options: definition.kernel(list(items), **options)) if definition.inputs[slots[0]].variadic else definition.kernel
    )
    plain = _plain(run, op, kernel, places, homes[0], attrs)

    def step(frames: Frames) -> None:
        for at, name in places:
            if name not in frames[at]:
                return general(frames)
        return plain(frames)

    return step


def _gradient(
    run: Reader,
    op: Operator,
    definition: GradOpDef,
    reads: dict[str, list[Place]],
    writes: dict[str, list[Place | None]],
    attrs: dict[str, object],
) -> Step:
    """A grad operator that has no kernel of its own: its rules, each run for its cotangent."""
    forward = definition.forward
    in_place = len(writes) > 1 and not set(op.input_names()).isdisjoint(op.output_names())
    if definition.fast is not None or forward is None or forward.grads is None or in_place:
        return _general(run, op, definition, reads, writes, attrs, False)
    rules = []
    for slot, places in writes.items():
        rule = forward.grads[slot.removesuffix(GRAD)]
        given = [(definition.inputs[read], reads.get(read, [])) for read in rule.reads]
        if definition.outputs[slot].variadic or any(len(p) != 1 or s.variadic for s, p in given):
            return _general(run, op, definition, reads, writes, attrs, False)
        (place,) = places
        assert place is not None
        options = {a: definition.attr(a, attrs) for a in rule.attrs}
        rules.append(_plain(run, op, rule.function, [p[0] for _, p in given], place, options))
    return rules[0] if len(rules) == 1 else _all(rules)


def _all(steps: Sequence[Step]) -> Step:
    def step(frames: Frames) -> None:
        for each in steps:
            each(frames)

    return step


def _general(
    run: Reader,
    op: Operator,
    definition: OpDef,
    reads: dict[str, list[Place]],
    writes: dict[str, list[Place | None]],
    attrs: dict[str, object],
    partial: bool,
) -> Step:
    """Any operator. A partial one gets None for names without a value, and a result that is None is not written."""
    wanted = list(writes)
    names = {slot: [n for _, n in places] for slot, places in reads.items()}

    def value(frames: Frames, place: Place) -> Tensor:
        frame, name = frames[place[0]], place[1]
        if name in frame:
            return frame[name]
        if not partial:
            return run.fetch(frames, place, op)
        try:
            return run.fetch(frames, place, op)
        except NoValue:
            return None

    def step(frames: Frames) -> None:
        inputs = {slot: [value(frames, place) for place in places] for slot, places in reads.items()}
        options = {**attrs, "rng": run.generator(op)} if definition.random else attrs
        try:
            outputs = definition.run(inputs, options, wanted)
        except Exception as error:
            given = {n: a for slot, arrays in inputs.items() for n, a in zip(names[slot], arrays, strict=True)}
            raise failure(op, given, error) from error
        for slot, places in writes.items():
            for place, result in zip(places, outputs[slot], strict=True):
                if place is not None:
                    _write(run, op, frames, place, result, inputs)

    return step


def _write(run: Reader, op: Operator, frames: Frames, place: Place, result: object, inputs: Mapping[str, Sequence[object]]) -> None:
    at, name = place
    if result is None:
        frames[at].pop(name, None)
        return
    result = frames[at][name] = settled(result)
    if run.check_finite and isinstance(result, np.ndarray) and result.dtype.kind == "f" and not np.isfinite(result).all():
        bad = "nan" if np.isnan(result).any() else "an infinity"
        given = {n: a for slot, arrays in inputs.items() for n, a in zip(op.input(slot), arrays, strict=False)}
        raise ExecutionError(located(f"operator {op.type!r} made {bad} in {name!r}\n{_inputs_text(op, given)}", op.source))


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
