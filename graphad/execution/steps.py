"""Operators as steps: functions of the frames they run on, prepared once for all the times a block runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from graphad.errors import ExecutionError, GraphadError, NoValue
from graphad.execution.layout import Layout, depth, home
from graphad.ops import GradOpDef, OpDef
from graphad.ops.aggregates import Aggregate
from graphad.ops.definition import GRAD
from graphad.program import EMPTY, Operator, located

Frame = dict[str, Any]
Frames = tuple[Frame, ...]
Step = Callable[[Frames], None]
Place = tuple[int, str]  # a frame, and a name in it


class Reader(Protocol):
    """The run that a step belongs to."""

    check_finite: bool

    def fetch(self, frames: Frames, place: Place, op: Operator) -> Any:
        """The value of a name that its frame does not hold: the scope's, or an error."""

    def generator(self, op: Operator) -> np.random.Generator:
        """The random numbers of an operator."""


def settled(value: Any) -> Any:
    """The result of a kernel, as an array or an aggregate."""
    return value if isinstance(value, np.ndarray | Aggregate) else np.asarray(value)


def step_of(run: Reader, op: Operator, row: OpDef, layout: Layout) -> Step:
    """The step of an operator without blocks."""
    reads, writes = _places(op, layout)
    attrs = {k: v for k, v in op.attrs.items() if k in row.attrs}
    if op.type == "write_to_array" and "Array" not in op.inputs and not op.attrs.get("fresh"):
        return _general(run, op, row, reads | {"Array": [(depth(layout, n), n) for n in op.output("Out")]}, writes, attrs, partial=True)
    if row.partial and not run.check_finite and not isinstance(row, GradOpDef):
        return _complete(run, op, row, reads, writes, attrs)
    if run.check_finite or row.random or row.partial:
        return _general(run, op, row, reads, writes, attrs, row.partial)
    if isinstance(row, GradOpDef):
        return _gradient(run, op, row, reads, writes, attrs)
    if any(len(places) != 1 or row.inputs[slot].variadic for slot, places in reads.items()) or len(row.outputs) > 1:
        return _general(run, op, row, reads, writes, attrs, False)
    if [*reads] != [*row.inputs][: len(reads)] or len(writes) != 1 or row.outputs[next(iter(writes))].variadic:
        return _general(run, op, row, reads, writes, attrs, False)
    ((place,),) = writes.values()
    assert place is not None
    return _plain(run, op, row.function, [places[0] for places in reads.values()], place, attrs)


def _places(op: Operator, layout: Layout) -> tuple[dict[str, list[Place]], dict[str, list[Place | None]]]:
    """Where an operator finds what it reads and leaves what it writes, by slot."""
    if len(layout) == 1:
        reads = {slot: [(0, n) for n in names if n != EMPTY] for slot, names in op.inputs.items()}
        writes = {slot: [None if n == EMPTY else (0, n) for n in names] for slot, names in op.outputs.items()}
    else:
        reads = {slot: [(depth(layout, n), n) for n in names if n != EMPTY] for slot, names in op.inputs.items()}
        writes = {slot: [None if n == EMPTY else (home(layout, n), n) for n in names] for slot, names in op.outputs.items()}
    return reads, {slot: places for slot, places in writes.items() if any(places)}


def _plain(run: Reader, op: Operator, kernel: Callable[..., Any], reads: list[Place], place: Place, attrs: Mapping[str, Any]) -> Step:
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
    run: Reader, op: Operator, row: OpDef, reads: dict[str, list[Place]], writes: dict[str, list[Place | None]], attrs: dict[str, Any]
) -> Step:
    """A partial operator of one input slot and one output: the short way if all it reads has a value."""
    general = _general(run, op, row, reads, writes, attrs, True)
    slots, homes = list(reads), [place for places in writes.values() for place in places if place is not None]
    if len(slots) != 1 or len(homes) != 1 or row.outputs[next(iter(writes))].variadic:
        return general
    places = reads[slots[0]]
    kernel = (lambda *items, **options: row.kernel(list(items), **options)) if row.inputs[slots[0]].variadic else row.kernel
    plain = _plain(run, op, kernel, places, homes[0], attrs)

    def step(frames: Frames) -> None:
        for at, name in places:
            if name not in frames[at]:
                return general(frames)
        return plain(frames)

    return step


def _gradient(
    run: Reader, op: Operator, row: GradOpDef, reads: dict[str, list[Place]], writes: dict[str, list[Place | None]], attrs: dict[str, Any]
) -> Step:
    """A grad operator that has no kernel of its own: its rules, each run for its cotangent."""
    forward = row.forward
    in_place = len(writes) > 1 and not set(op.input_names()).isdisjoint(op.output_names())
    if row.fast is not None or forward is None or forward.grads is None or in_place:
        return _general(run, op, row, reads, writes, attrs, False)
    rules = []
    for slot, places in writes.items():
        rule = forward.grads[slot.removesuffix(GRAD)]
        given = [(row.inputs[read], reads.get(read, [])) for read in rule.reads]
        if row.outputs[slot].variadic or any(len(p) != 1 or s.variadic for s, p in given):
            return _general(run, op, row, reads, writes, attrs, False)
        (place,) = places
        assert place is not None
        options = {a: row.attr(a, attrs) for a in rule.attrs}
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
    row: OpDef,
    reads: dict[str, list[Place]],
    writes: dict[str, list[Place | None]],
    attrs: dict[str, Any],
    partial: bool,
) -> Step:
    """Any operator. A partial one gets None for names without a value, and a result that is None is not written."""
    wanted = list(writes)
    names = {slot: [n for _, n in places] for slot, places in reads.items()}

    def value(frames: Frames, place: Place) -> Any:
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
        options = {**attrs, "rng": run.generator(op)} if row.random else attrs
        try:
            outputs = row.run(inputs, options, wanted)
        except Exception as error:
            given = {n: a for slot, arrays in inputs.items() for n, a in zip(names[slot], arrays, strict=True)}
            raise failure(op, given, error) from error
        for slot, places in writes.items():
            for place, result in zip(places, outputs[slot], strict=True):
                if place is not None:
                    _write(run, op, frames, place, result, inputs)

    return step


def _write(run: Reader, op: Operator, frames: Frames, place: Place, result: Any, inputs: Mapping[str, Sequence[Any]]) -> None:
    at, name = place
    if result is None:
        frames[at].pop(name, None)
        return
    result = frames[at][name] = settled(result)
    if run.check_finite and isinstance(result, np.ndarray) and result.dtype.kind == "f" and not np.isfinite(result).all():
        bad = "nan" if np.isnan(result).any() else "an infinity"
        given = {n: a for slot, arrays in inputs.items() for n, a in zip(op.input(slot), arrays, strict=False)}
        raise ExecutionError(located(f"operator {op.type!r} made {bad} in {name!r}\n{_inputs_text(op, given)}", op.source))


def failure(op: Operator, inputs: Mapping[str, Any], error: Exception) -> ExecutionError:
    """The error of an operator that failed: its reason, inputs and attributes, and the user's line."""
    reason = str(error) if isinstance(error, GraphadError) else f"{type(error).__name__}: {error}"
    return ExecutionError(located(f"operator {op.type!r} failed: {reason}\n{_inputs_text(op, inputs)}", op.source))


def _inputs_text(op: Operator, inputs: Mapping[str, Any]) -> str:
    slot_of = {name: slot for slots in (op.outputs, op.inputs) for slot, names in slots.items() for name in names}
    lines = [f"  {slot_of.get(name, '')} = {name}: {_described(value)}" for name, value in inputs.items()]
    attrs = ", ".join(f"{k}={v!r}" for k, v in op.attrs.items())
    return "\n".join([*lines, *([f"  attributes: {attrs}"] if attrs else [])])


def _described(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)


__all__ = ["Frame", "Frames", "Place", "Reader", "Step", "failure", "settled", "step_of"]
