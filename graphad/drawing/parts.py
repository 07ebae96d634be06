"""Parts of what does not repeat: a long sequence of operators is cut where the fewest values go across, and each part is one box.

    a ─▶ b ─▶ c ─▶ d ─▶ e ─▶ f ─▶ …      ⇒      ┌ a … d [+] ┐ ─▶ ┌ e … h [+] ┐ ─▶ …

What the backward and the optimizer made of the operators of a part is a box beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from math import isqrt

from graphad.drawing.folding import Folding, followers_of
from graphad.drawing.nesting import Nesting
from graphad.drawing.pairs import Pairs
from graphad.drawing.scopes import hide_inside
from graphad.ir import Graph, Op
from graphad.program import FORWARD

LEAST, MOST = 25, 80  # operators of a part, about
SLACK = 4  # a cut may be moved by a part of so many


def closed_parts(
    graph: Graph, roles: Mapping[Op, str], pairs: Pairs, nesting: Nesting, folding: Folding
) -> dict[tuple[str, ...], dict[str, Op]]:
    """Let one operator stand for those of each part that do not repeat; return them by part and role."""
    ops = [op for op in graph.ordered_ops() if op not in folding.representatives and op not in folding.repeats_of]
    main = [op for op in ops if roles[op] == FORWARD]
    bounds = cuts(main)
    if not bounds:
        return {}
    followers = followers_of(main, ops, pairs, nesting)
    boxes: dict[tuple[str, ...], dict[str, Op]] = {}
    for start, end in pairwise([0, *bounds, len(main)]):
        part = main[start:end]
        # The backward and the updates of a part are closed with it, each as a box of its own.
        members = [*part, *(follower for op in part for _, follower in followers.get(op, ()))]
        boxes["part", str(start)] = _closed(members, roles, folding)
    hide_inside(ops, folding)
    return boxes


def _closed(members: Iterable[Op], roles: Mapping[Op, str], folding: Folding) -> dict[str, Op]:
    """A box for each role among the members of a part."""
    ops_by_role: dict[str, list[Op]] = {}
    for op in members:
        ops_by_role.setdefault(roles[op], []).append(op)
    boxes: dict[str, Op] = {}
    for role, ops in ops_by_role.items():
        # A box is an operator in no list of a graph: it stands for the part in this drawing alone.
        box = boxes[role] = Op(ops[0].graph, "part", {}, {}, {})
        folding.contents[box] = ops
        box.role = ops[0].role
        folding.representatives.update(dict.fromkeys(ops, box))
        folding.closed[box] = len(ops)
    return boxes


def cuts(ops: Sequence[Op]) -> list[int]:
    """The places at which to cut a sequence into parts of about equal size; empty if it is too short.

    >>> graph = Graph()
    >>> value = graph.add_input("x", (2,), "float32")
    >>> for i in range(100):
    ...     result = graph.add_value(f"y{i}", (2,), "float32")
    ...     op = graph.add_op("tanh", {"X": [value]}, {"Out": [result]})
    ...     value = result
    >>> cuts(list(graph.ops))
    [25, 50, 75]
    """
    size = min(max(isqrt(len(ops)), LEAST), MOST)
    crossing = _crossings(ops)
    bounds: list[int] = []
    at = size
    while at < len(ops) - size // 2:
        slack = size // SLACK
        near = [place for off in range(slack + 1) for place in (at - off, at + off) if place < len(ops)]  # the first of the best is taken
        bounds.append(min(near, key=crossing.__getitem__))
        at = bounds[-1] + size
    return bounds


def _crossings(ops: Sequence[Op]) -> list[int]:
    """The number of operators before each place whose results are used from there on."""
    index = {op: i for i, op in enumerate(ops)}
    changes = [0] * (len(ops) + 1)
    for i, op in enumerate(ops):
        last = max((index.get(reader, i) for value in op.writes() for reader in value.readers), default=i)
        if last > i:
            # A difference array: between a writer and its last reader the value crosses each place.
            changes[i + 1] += 1
            changes[last + 1] -= 1
    return list(accumulate(changes))
