"""The streams that random operators draw from, each its own.

    dropout(X=x) -> (Out=d, Mask=m)                                draws from "d", after what it writes
    dropout(X=y) -> (Out=d, Mask=m)                                writes the same name: "d#1"
    dropout(X=x) -> (Out=e, Mask=m) {random_stream="d"}            says it itself

A pass may rename, move or remove operators: the attribute then keeps what each of them draws as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from graphad.errors import InvalidValue
from graphad.ops import REGISTRY
from graphad.program.operator import RANDOM_STREAM, Operator
from graphad.program.source import located

if TYPE_CHECKING:
    from graphad.program.program import Program


def random_streams(program: Program) -> dict[Operator, str]:
    """The stream of every random operator of a program.

    Raises:
        ValueError: an operator's ``random_stream`` is not a name, or that of another one.
    """
    counts: Counter[str] = Counter()
    streams: dict[Operator, str] = {}
    owners: dict[str, Operator] = {}
    for op in _random_operators(program):
        stream = op.attrs.get(RANDOM_STREAM)
        if stream is None:
            # Named after what it writes and not after its place: passes that insert or remove operators do not change what others draw.
            stream = _after_output(op, counts)
            counts[_written_name(op)] += 1
        if not isinstance(stream, str) or not stream:
            raise InvalidValue(located(f"operator {op.type!r}: {RANDOM_STREAM} is a name, not {stream!r}", op.source))
        owner = owners.setdefault(stream, op)
        if owner is not op:
            raise InvalidValue(located(f"{op!r} and {owner!r} would both draw from the random stream {stream!r}", op.source))
        streams[op] = stream
    return streams


def settle_streams(program: Program, streams: Mapping[Operator, str | None]) -> None:
    """Let operators draw from the streams that are wanted, those without one (None) from new ones.

    The attribute is set where the name that an operator writes says something else.
    """
    names = {stream for stream in streams.values() if stream is not None}
    counts: Counter[str] = Counter()
    for op in _random_operators(program):
        default, stream = _after_output(op, counts), streams.get(op)
        # The name that it would have by itself is taken by an operator that moved.
        if stream is None and default in names:
            stream = _fresh(op, names)
        # An operator that says nothing draws from the stream of its name: texts stay as they were where nothing has moved.
        if stream is not None and (stream != default or RANDOM_STREAM in op.attrs):
            op.attrs = {**op.attrs, RANDOM_STREAM: stream}
        else:
            counts[_written_name(op)] += 1
        names.add(stream or default)


def _random_operators(program: Program) -> Iterator[Operator]:
    for block in program.blocks:
        for op in block.ops:
            definition = REGISTRY.get(op.type)
            if definition is not None and definition.random:
                yield op


def _written_name(op: Operator) -> str:
    return next(iter(op.output_names()), op.type)


def _after_output(op: Operator, unsaid: Counter[str]) -> str:
    """The stream of an operator that does not say it, given how many before it that write its name do not either."""
    name = _written_name(op)
    return f"{name}#{unsaid[name]}" if unsaid[name] else name


def _fresh(op: Operator, reserved: set[str]) -> str:
    name, number = _written_name(op), 1
    while f"{name}#{number}" in reserved:
        number += 1
    return f"{name}#{number}"
