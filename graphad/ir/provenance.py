"""Provenance of operators: immutable records that the operators of one rewrite share, and the chain they make down to the user's line.

    sum(X=[w@GRAD@RENAME@0, ...]) -> (Out=w@GRAD)     made by accumulate-grads
      mul(X=x, Y=w) -> (Out=h)                        net.py:12

A rule that rewrites its own result adds nothing to the chain: the new operators have the ancestors of the old ones. A record has a
bounded size: of many ancestors the first are kept, and of a long chain the last steps and the user's lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from graphad.errors import InvalidType
from graphad.ir.nodes import Node, Op, Value
from graphad.ir.printer import print_op, print_value
from graphad.program import SourceLine

if TYPE_CHECKING:
    from graphad.ir.graph import Graph

_INDENT = "  "
_MOST_ANCESTORS, _MOST_STEPS = 16, 32
Seen = set[int]


class Ancestor(NamedTuple):
    """The record of an operator that another one was made from."""

    text: str
    source: SourceLine | None
    made_by: str | None
    origin: Origin | None


class Origin(NamedTuple):
    """One rewrite: the rule of the pass, the operators it saw, and the length of the chain of rewrites up to it."""

    rule: str
    ancestors: tuple[Ancestor, ...]
    steps: int = 1


def origin_of(author: str | None, rule: str, ops: Sequence[Op]) -> Origin:
    """The record of a rewrite of some operators; operators made by the same rule are replaced by their ancestors."""
    if len(ops) == 1:
        return _made_by_same(ops[0], author, rule) or _from([_ancestor(ops[0])], rule)
    ancestors: dict[object, Ancestor] = {}
    for op in ops:
        origin = _made_by_same(op, author, rule)
        # A rule that rewrites its own results again and again would otherwise be a chain as long as its work.
        for ancestor in [_ancestor(op)] if origin is None else origin.ancestors:
            ancestors.setdefault((ancestor.text, ancestor.made_by, id(ancestor.origin)), ancestor)
    return _from(list(ancestors.values())[:_MOST_ANCESTORS], rule)


@contextmanager
def recorded(graph: Graph, rule: str, *ops: Op) -> Iterator[None]:
    """Record what is made meanwhile as made from some operators by an edit, unless a pass has begun a rewrite: then by that.

    Who made it is the author at work (``made_by``), else the edit itself.
    """
    journal = graph.journal
    # An edit called by a pass belongs to the rewrite that the pass began; called by a user, it is a rewrite itself.
    before = author, origin = journal.author, journal.origin
    if author is None or origin is None:
        journal.author = author or rule
        journal.origin = origin_of(journal.author, rule, ops)
    try:
        yield
    finally:
        journal.author, journal.origin = before


def note(ops: Iterable[Op]) -> list[Op]:
    """Record of copies who made them, and from what; return them."""
    copies = list(ops)
    for op in copies:
        op.made_by, op.origin = op.graph.journal.author, op.graph.journal.origin
    return copies


def _from(ancestors: Sequence[Ancestor], rule: str) -> Origin:
    return Origin(rule, tuple(ancestors), 1 + max([a.origin.steps for a in ancestors if a.origin is not None], default=0))


def _made_by_same(op: Op, author: str | None, rule: str) -> Origin | None:
    origin = op.origin
    return origin if origin is not None and (op.made_by, origin.rule) == (author, rule) else None


def _ancestor(op: Op) -> Ancestor:
    # The chain is cut where it gets too long: the user's line is kept at each step, so ``why`` still ends there.
    origin = op.origin if op.origin is None or op.origin.steps < _MOST_STEPS else None
    return Ancestor(
        f"{op.type} -> {', '.join([v.name for values in op.outputs.values() for v in values][:3])}", op.source, op.made_by, origin
    )


def chain(node: Node) -> str:
    """The passes, rules and operators that an operator, or the writer of a value, comes from, one a line; each rewrite once."""
    if not isinstance(node, Op | Value):
        raise InvalidType(f"an operator or a value comes from somewhere, {node!r} is neither")
    return "\n".join(_lines(node))


def _lines(node: Node) -> Iterator[str]:
    origins: Seen = set()
    if isinstance(node, Value):
        yield from _value_lines(node)
        for writer in node.writers:
            yield from (_INDENT + line for line in _op_lines(writer, origins))
    else:
        yield from _op_lines(node, origins)


def _value_lines(value: Value) -> Iterator[str]:
    of = f", the gradient of {value.grad_of!r}" if value.grad_of is not None else ""
    suffix = ", given from outside" if value.given else ", which nothing writes" if not value.writers else ""
    yield f"{print_value(value)}{of}{suffix}"


def _op_lines(op: Op, seen: Seen) -> Iterator[str]:
    yield print_op(op)
    yield from (_INDENT + line for line in _made(op.made_by, op.origin, op.source, seen))
    forward = op.forward
    # A gradient is explained by its forward operator as well, unless the rewrite names that among what it saw.
    if forward is not None and (op.origin is None or forward.type not in {a.text.split(" ")[0] for a in op.origin.ancestors}):
        yield f"{_INDENT}for {_ancestor(forward).text}"
        yield from (2 * _INDENT + line for line in _made(forward.made_by, forward.origin, forward.source, seen))


def _made(made_by: str | None, origin: Origin | None, source: SourceLine | None, seen: Seen) -> Iterator[str]:
    is_repeat = id(origin) in seen
    if made_by is not None:
        yield f"made by {made_by}" + (f", rule {origin.rule}" if origin is not None else "") + (", as above" if is_repeat else "")
    if origin is None and source:
        yield f"written at {source}"
    if origin is None or is_repeat:
        return
    # Origins are shared: told once each, the text grows with their number and not with that of the ways to them.
    seen.add(id(origin))
    for ancestor in origin.ancestors:
        yield f"from {ancestor.text}"
        yield from (_INDENT + line for line in _made(ancestor.made_by, ancestor.origin, ancestor.source, seen))
