"""The parts of a program that graphad cannot run: unknown operators, and unknown slots and attributes of known ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress

from graphad.errors import GraphadError
from graphad.ops import OpDef, Slot, find
from graphad.ops.definition import checked_attr
from graphad.ops.parameters import REQUIRED
from graphad.program import Operator, Program, in_own_form
from graphad.program.operator import COMMON_ATTRS


def unknown_operators(program: Program) -> dict[str, int]:
    """The operator types that are not registered, with how often each occurs; none are those that are brought into graphad's form.

    >>> import graphad as ga
    >>> unknown_operators(ga.Program.parse("program { block 0 { zork(X=x) -> (Out=y) zork(X=y) -> (Out=z) } }"))
    {'zork': 2}
    """
    with suppress(GraphadError):
        program = in_own_form(program)
    return _counted(op.type for block in program.blocks for op in block.ops if find(op.type) is None)


def refusals(program: Program) -> dict[str, int]:
    """Slots and attributes of known operators that their definitions do not have, and required ones that are missing, with counts.

    Paddle's gradients of loops and branches are none where they can be brought into graphad's form.

    >>> import graphad as ga
    >>> refusals(ga.Program.parse("program { block 0 { tanh(X=x, Y=y) -> (Out=z) {speed=3} } }"))
    {"tanh: no attribute 'speed'": 1, "tanh: no input slot 'Y'": 1}
    """
    with suppress(GraphadError):
        program = in_own_form(program)
    ops = ((op, find(op.type)) for block in program.blocks for op in block.ops)
    return _counted(f"{op.type}: {refusal}" for op, row in ops if row is not None for refusal in _refused(op, row))


def _counted(names: Iterator[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _refused(op: Operator, definition: OpDef) -> Iterator[str]:
    yield from _slots("input", op.inputs, definition.inputs)
    yield from _slots("output", op.outputs, definition.outputs)
    for name, value in op.attrs.items():
        if name in definition.attrs:
            try:
                checked_attr(definition.attrs[name], value)
            except GraphadError as error:
                yield str(error)
        elif name not in COMMON_ATTRS:
            yield f"no attribute {name!r}"
    yield from (f"attribute {a.name!r} is missing" for a in definition.attrs.values() if a.default is REQUIRED and a.name not in op.attrs)


def _slots(side: str, arguments: Mapping[str, list[str]], slots: Mapping[str, Slot]) -> Iterator[str]:
    for slot, names in arguments.items():
        if slot not in slots and names:
            yield f"no {side} slot {slot!r}"
        elif slot in slots and len(names) > 1 and not slots[slot].variadic:
            yield f"several names in {side} slot {slot!r}"
    yield from (f"{side} slot {slot.name!r} is empty" for slot in slots.values() if not slot.optional and not arguments.get(slot.name))
