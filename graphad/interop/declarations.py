"""Variables as plain fields, and the checks of blocks that every program passes when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from graphad.errors import InvalidType, InvalidValue, ParseError
from graphad.ops import ControlDef, find
from graphad.program import Block, L1Decay, L2Decay, Operator, Parameter, Program, Variable
from graphad.program.block import MAX_DEPTH, check_control
from graphad.program.clipping import bounds, error_clip, listed, unlisted
from graphad.types import DTYPES, KINDS, TENSOR, Extent

# -- structure -------------------------------------------------------------------------------------
# Checks of the blocks of every program that is read: they nest, and operators hold blocks without cycles.


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
    inner_blocks: list[list[int]] = [[] for _ in program.blocks]
    for block in program.blocks:
        around: set[int] = set()
        for op in block.ops:
            definition = find(op.type)
            if isinstance(definition, ControlDef):
                _at_reading(op, definition)
            for inner in blocks_of(op):
                # Walked up only for operators that hold blocks: most blocks have none.
                around = around or {ancestor.idx for ancestor in block.chain()}
                if inner.idx in around:
                    raise ParseError(f"operator {op.type!r} in block {block.idx} holds block {inner.idx}, which it is in")
                inner_blocks[block.idx].append(inner.idx)
    _check_acyclic(inner_blocks)


def blocks_of(op: Operator) -> Iterator[Block]:
    """The blocks that an operator's attributes hold."""
    for value in op.attrs.values():
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Block):
                yield item


def _at_reading(op: Operator, definition: ControlDef) -> None:
    try:
        check_control(op, definition)
    except InvalidValue as error:
        raise ParseError(str(error)) from None


def _check_acyclic(nested: list[list[int]]) -> None:
    """Take away blocks that hold none that are left, until none is left (Kahn's algorithm)."""
    holders: list[list[int]] = [[] for _ in nested]
    for idx, inner in enumerate(nested):
        for number in inner:
            holders[number].append(idx)
    counts = [len(inner) for inner in nested]
    ready = [idx for idx, count in enumerate(counts) if not count]
    for idx in ready:
        for holder in holders[idx]:
            counts[holder] -= 1
            if not counts[holder]:
                ready.append(holder)
    # Blocks that were never ready hold one another.
    if len(ready) < len(nested):
        knot = [idx for idx, count in enumerate(counts) if count]
        raise ParseError(f"blocks {knot} hold each other in a circle, through the attributes of their operators")


# -- declarations ----------------------------------------------------------------------------------
# Variables as plain fields, which JSON holds as they are, and Paddle's format where it has no field of its own.

Fields = dict[str, Any]
C = TypeVar("C")

DEFAULTS: Mapping[str, Any] = {
    "type": TENSOR,
    "shape": None,
    "dtype": None,
    "persistable": False,
    "stop_gradient": False,
    "parameter": False,
    "trainable": True,
    "learning_rate": 1.0,
    "decay": None,
    "need_clip": True,
    "gradient_clip": None,
    "error_clip": None,
}
_DECAYS = {decay.kind: decay for decay in (L1Decay, L2Decay)}


def fields_of(var: Variable) -> Fields:
    """Everything a variable says but its name: a value for each of ``DEFAULTS``.

    ``decay`` is [kind, coefficient], ``gradient_clip`` [kind, bound, ...], ``error_clip`` [min, max].
    """
    shape, dtype = var.declared
    fields = {
        **DEFAULTS,
        "type": var.type,
        "shape": None if shape is None else [extent.name if isinstance(extent, Extent) else extent for extent in shape],
        "dtype": dtype,
        "persistable": var.persistable,
        "stop_gradient": var.stop_gradient,
        "error_clip": None if var.error_clip is None else bounds(var.error_clip),
    }
    if isinstance(var, Parameter):
        decay = None if var.regularizer is None else [var.regularizer.kind, float(var.regularizer.coefficient)]
        fields |= {"parameter": True, "trainable": var.trainable, "learning_rate": var.learning_rate}
        clip = None if var.gradient_clip is None else listed(var.gradient_clip)
        fields |= {"decay": decay, "need_clip": var.need_clip, "gradient_clip": clip}
    return fields


def declare(block: Block, name: str, details: Mapping[str, object]) -> Variable:
    """Declare a variable from its fields; those left out have their defaults. ParseError for what is not a field or of the wrong kind."""
    if name in block.vars:
        raise ParseError(f"variable {name!r} is declared twice")
    fields = {**DEFAULTS, **details}
    _check(fields)
    var = _parameter(block, name, fields) if fields["parameter"] else Variable(block, name, fields["shape"], fields["dtype"])
    var.type, var.persistable, var.stop_gradient = fields["type"], fields["persistable"], fields["stop_gradient"]
    var.error_clip = _clip("error_clip", fields, error_clip)
    block.vars[name] = var
    return var


def _clip(key: str, fields: Fields, made_of: Callable[[object], C]) -> C | None:
    try:
        return None if fields[key] is None else made_of(fields[key])
    except (InvalidType, InvalidValue) as error:
        raise ParseError(str(error)) from None


def _parameter(block: Block, name: str, fields: Fields) -> Parameter:
    decay = fields["decay"]
    regularizer = None if decay is None else _DECAYS[decay[0]](float(decay[1]))
    options = (fields["trainable"], fields["learning_rate"], regularizer, fields["need_clip"], _clip("gradient_clip", fields, unlisted))
    return Parameter(block, name, fields["shape"], fields["dtype"], *options)


def _check(fields: Fields) -> None:
    for key, value in fields.items():
        if key not in DEFAULTS:
            raise ParseError(f"a variable has no field {key!r}; its fields are {', '.join(DEFAULTS)}")
        if isinstance(DEFAULTS[key], bool) and not isinstance(value, bool):
            raise ParseError(f"{key} is true or false, not {value!r}")
    if fields["type"] not in KINDS:
        raise ParseError(f"type is one of {', '.join(KINDS)}, not {fields['type']!r}")
    if fields["dtype"] is not None and fields["dtype"] not in DTYPES:
        raise ParseError(f"dtype is one of {', '.join(DTYPES)}, not {fields['dtype']!r}")
    if not _is_number(fields["learning_rate"]):
        raise ParseError(f"learning_rate is a number, not {fields['learning_rate']!r}")
    match fields["decay"]:
        case None:
            pass
        case [kind, coefficient] if isinstance(kind, str) and kind in _DECAYS and _is_number(coefficient):
            pass
        case other:
            raise ParseError(f"decay is [kind, coefficient] with a kind of {', '.join(_DECAYS)}, not {other!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def differing(fields: Fields, others: Fields) -> Fields:
    """The fields whose values are not those of ``others``; a nan is itself."""
    return {key: value for key, value in fields.items() if repr(value) != repr(others[key])}


def names_in(what: str, slots: object) -> dict[str, list[str]]:
    """Names by slot, checked: a dict from slot to a list of names that are not empty."""
    if not isinstance(slots, Mapping):
        raise ParseError(f"{what} is an object from slot to names, not {slots!r}")
    for slot, names in slots.items():
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise ParseError(f"{what} slot {slot!r} holds a list of names, not {names!r}")
    return {slot: list(names) for slot, names in slots.items()}
