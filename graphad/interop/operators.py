"""Operators of Paddle's programs: protobuf messages and ``Operator``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from graphad.errors import ParseError
from graphad.interop.attributes import canonical, is_single, shown, single, value_of, write_value
from graphad.interop.schema import message, text
from graphad.ops import find
from graphad.program import BACKWARD, FORWARD, OPTIMIZE, Block, Operator, Program, SourceLine, check_distinct
from graphad.program.text import print_value

Attrs = dict[str, Any]

_ROLE, _ROLE_BITS = "op_role", {FORWARD: 0, BACKWARD: 1, OPTIMIZE: 2}
_FRAME = re.compile(r'\s*File "(.+)", line (\d{1,9})')
_WHOLE = re.compile(r"\s*[-+]?\d{1,400}\s*")


def read_operator(block: Block, desc: Any) -> Operator:
    """The operator of a message; its type need not be known."""
    attrs = _values(desc, block.program)
    inputs, outputs = _slots("input", desc.inputs), _slots("output", desc.outputs)
    op_type, source = text(desc.type), _source(attrs.get("op_callstack"))
    op = Operator(block, op_type, inputs, outputs, _shown(op_type, attrs), _role(attrs), source, stored=desc.SerializeToString())
    check_distinct(op)
    return op


def _values(desc: Any, program: Program) -> Attrs:
    """The attributes by name. Paddle writes some twice; they have to agree."""
    attrs: Attrs = {}
    for attr in desc.attrs:
        name, value = text(attr.name), value_of(attr, program)
        if repr(attrs.setdefault(name, value)) != repr(value):
            raise ParseError(f"attribute {name!r} is given twice, as {attrs[name]!r} and as {value!r}")
    return attrs


def _slots(side: str, messages: Iterable[Any]) -> dict[str, list[str]]:
    """Names by slot; a slot with nothing in it is as one that is not there."""
    slots: dict[str, list[str]] = {}
    for each in messages:
        slot, names = text(each.parameter), [text(name) for name in each.arguments]
        if slot in slots:
            raise ParseError(f"{side} slot {slot!r} is given twice")
        if not all(names):
            raise ParseError(f"{side} slot {slot!r} has an empty name in it")
        if names:
            slots[slot] = names
    return slots


def _shown(op_type: str, attrs: Attrs) -> Attrs:
    row = find(op_type)
    attrs = {name: canonical(row, name, value) for name, value in attrs.items()}
    if op_type == "fill_constant":
        attrs = _with_exact_value(attrs)
    return {name: value for name, value in attrs.items() if shown(row, name, value)}


def _with_exact_value(attrs: Attrs) -> Attrs:
    """``fill_constant`` has its value as a float32, and may have it as a string, which counts; a float64 may not hold that either."""
    written = attrs.get("str_value", "")
    try:
        value = float(written)
        exact = not _WHOLE.fullmatch(written) or int(written) == value
    except (TypeError, ValueError, OverflowError):
        return attrs
    return {**attrs, "value": value, "str_value": ""} if exact else attrs


def _with_text(attrs: Attrs, has_text: bool) -> Attrs:
    """The other way round: the string is written where a float32 does not do, or to replace the one that was there."""
    value = attrs.get("value")
    if not isinstance(value, float) or (is_single(value) and not has_text):
        return attrs
    return {**attrs, "value": single(value), "str_value": "" if is_single(value) else repr(value)}


def _role(attrs: Mapping[str, Any]) -> str:
    bits = attrs.get(_ROLE, 0)
    bits = bits if isinstance(bits, int) else 0
    if bits & _ROLE_BITS[BACKWARD]:
        return BACKWARD
    return OPTIMIZE if bits & _ROLE_BITS[OPTIMIZE] else FORWARD


def _source(callstack: Any) -> SourceLine | None:
    """The innermost line of a call stack that is not Paddle's own."""
    for line in reversed(callstack if isinstance(callstack, list) else []):
        match = _FRAME.match(line) if isinstance(line, str) else None
        if match and "/paddle/" not in match[1].replace("\\", "/"):
            return SourceLine(match[1], int(match[2]))
    return None


# -- writing -------------------------------------------------------------------------------------


def write_operator(desc: Any, op: Operator) -> None:
    """Fill a message from an operator; where it was read from one, only what has changed is written anew."""
    check_distinct(op)
    if op.stored is not None:
        desc.CopyFrom(message("OpDesc").FromString(op.stored))
    if not desc.HasField("type") or desc.type != op.type:
        desc.type = op.type
    for slots, messages in ((op.inputs, desc.inputs), (op.outputs, desc.outputs)):
        if {each.parameter: list(each.arguments) for each in messages if each.arguments} != {s: n for s, n in slots.items() if n}:
            del messages[:]
            for slot, names in slots.items():
                messages.add(parameter=slot, arguments=names)
    _write_attrs(desc, op)


def _write_attrs(desc: Any, op: Operator) -> None:
    row = find(op.type)
    raw = _values(desc, op.block.program)
    was = _shown(op.type, raw)
    now = {name: list(value) if isinstance(value, tuple) else value for name, value in op.attrs.items()}
    same = {name for name, value in was.items() if name in now and print_value(now[name]) == print_value(value)}
    if op.type == "fill_constant" and "value" not in same:
        now = _with_text(now, "str_value" in raw)
    if op.role != _role(raw) or (op.stored is None and _ROLE not in now):
        now = {**now, _ROLE: _ROLE_BITS[op.role]}
    for name in (name for name in now if name not in same):
        for attr in [attr for attr in desc.attrs if attr.name == name] or [desc.attrs.add(name=name)]:
            write_value(attr, now[name], row)
    _remove(desc.attrs, {name for name in was if name not in now})


def _remove(attrs: Any, names: set[str]) -> None:
    for i in reversed(range(len(attrs) if names else 0)):
        if attrs[i].name in names:
            del attrs[i]
