"""Where operators come from: immutable records that the operators of one rewrite share, and the chain they make down to the user's line.

    sum(X=[w@GRAD@RENAME@0, ...]) -> (Out=w@GRAD)     made by accumulate-grads
      mul(X=x, Y=w) -> (Out=h)                        net.py:12

A rule that rewrites again what it made itself adds nothing to the chain, so it is as long as there were different rewrites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphad.graph.nodes import Node, Op, Value
from graphad.graph.text import print_op, print_value
from graphad.program import SourceLine

_INDENT = "  "


class Ancestor(NamedTuple):
    """What is remembered of an operator that another one was made from."""

    text: str
    source: SourceLine | None
    made_by: str | None
    origin: Origin | None


class Origin(NamedTuple):
    """One rewrite: the rule of the pass, and the operators it saw."""

    rule: str
    ancestors: tuple[Ancestor, ...]


def origin_of(author: str | None, rule: str, ops: Sequence[Op]) -> Origin:
    """The record of a rewrite of some operators; the same rule once more on what it made keeps the record it has."""
    if len(ops) == 1:
        made = ops[0].origin
        if made is not None and made.rule == rule and ops[0].made_by == author:
            return made
    return Origin(rule, tuple(map(_ancestor, ops)))


def _ancestor(op: Op) -> Ancestor:
    outputs = [value.name for values in op.outputs.values() for value in values]
    return Ancestor(f"{op.type} -> {', '.join(outputs[:3])}", op.source, op.made_by, op.origin)


def chain(node: Node) -> str:
    """The passes, rules and operators that an operator, or the writer of a value, comes from, one a line."""
    return "\n".join(_lines(node))


def _lines(node: Node) -> Iterator[str]:
    if isinstance(node, Value):
        yield from _value_lines(node)
        for writer in node.writers:
            yield from (_INDENT + line for line in _op_lines(writer))
    else:
        yield from _op_lines(node)


def _value_lines(value: Value) -> Iterator[str]:
    of = f", the gradient of {value.grad_of!r}" if value.grad_of is not None else ""
    where = ", given from outside" if value.given else ", which nothing writes" if not value.writers else ""
    yield f"{print_value(value)}{of}{where}"


def _op_lines(op: Op) -> Iterator[str]:
    yield print_op(op)
    yield from (_INDENT + line for line in _made(op.made_by, op.origin, op.source))
    forward = op.forward
    if forward is not None and (op.origin is None or forward.type not in {a.text.split(" ")[0] for a in op.origin.ancestors}):
        yield f"{_INDENT}for {_ancestor(forward).text}"
        yield from (2 * _INDENT + line for line in _made(forward.made_by, forward.origin, forward.source))


def _made(made_by: str | None, origin: Origin | None, source: SourceLine | None) -> Iterator[str]:
    if made_by is not None:
        yield f"made by {made_by}" + (f", rule {origin.rule}" if origin is not None else "")
    for ancestor in origin.ancestors if origin is not None else ():
        yield f"from {ancestor.text}"
        yield from (_INDENT + line for line in _made(ancestor.made_by, ancestor.origin, ancestor.source))
    if origin is None and source is not None:
        yield f"written at {source}"
