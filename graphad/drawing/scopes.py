"""Groups of operators: the scopes of names they were written in, and repetitions; open as frames, or closed to one box.

with ga.name_scope("encoder"): ...      ⇒      ┌ encoder ─────────┐      or      ┌─────────────┐
                                               │ mul ─▶ add ─▶ …  │              │ encoder [+] │
                                               └──────────────────┘              └─────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from graphad.drawing.folding import Folding, Repeat
from graphad.drawing.nesting import Nesting
from graphad.ir import Graph, Node, Op, Value
from graphad.program import BACKWARD, FORWARD, OPTIMIZE
from graphad.program.source import NAMESCOPE, with_scope

TIMES = "\N{MULTIPLICATION SIGN}"
OF_ROLE = {BACKWARD: ": gradient", OPTIMIZE: ": update"}


@dataclass(eq=False)
class Group:
    """Operators of one graph and one part of the program with a frame around them.

    Attributes:
        graph: the graph.
        role: the part of the program.
        label: what is above it.
        around: the group it is in.
        repeat: the repetition that it is the drawn copy of.
        column: the place from left to right of a group that is all of a role and order.
    """

    graph: Graph
    role: str
    label: str
    around: Group | None = None
    repeat: Repeat | None = None
    column: int | None = None


def scope_of(op: Op) -> tuple[str, ...]:
    """The names of the scopes that an operator was written in, the outermost first."""
    scope = with_scope(op.attrs, op.source).get(NAMESCOPE, "")
    return tuple(part for part in str(scope).split("/") if part)


# -- closed ----------------------------------------------------------------------------------------


def closed_ops(
    ops: Iterable[Op], role: Mapping[Op, str], closed: Collection[str], folding: Folding
) -> dict[tuple[str, ...], dict[str, Op]]:
    """Let one operator stand for those of each closed scope and part of the program; return them by scope and part."""
    scopes = {tuple(part for part in name.split("/") if part) for name in closed}
    ops_by_scope: dict[tuple[str, ...], dict[str, Op]] = {}
    ops = list(ops)
    for op in ops:
        scope = scope_of(op)
        # The outermost closed scope: what is inside of it is hidden with it.
        prefix = next((scope[:n] for n in range(1, len(scope) + 1) if scope[:n] in scopes), None)
        if prefix is not None and op not in folding.representatives:
            box = ops_by_scope.setdefault(prefix, {}).get(role[op])
            if box is None:
                box = ops_by_scope[prefix][role[op]] = Op(op.graph, prefix[-1], {}, {}, {})
                box.role, box.source = op.role, op.source
            folding.representatives[op] = box
            folding.closed[box] = folding.closed.get(box, 0) + 1
    hide_inside(ops, folding)
    return ops_by_scope


def hide_inside(ops: Iterable[Op], folding: Folding) -> None:
    """Hide the values that are only seen inside of closed boxes."""
    for op in ops:
        folding.hidden.update(value for value in (*op.reads(), *op.writes()) if _is_inside(value, folding))


def _is_inside(value: Value, folding: Folding) -> bool:
    ends = {folding.of(op) for op in (*value.writers, *value.readers)}
    return len(ends) == 1 and next(iter(ends)) in folding.closed


def _shared_scope(scopes: Iterable[tuple[str, ...]]) -> int:
    """How many names scopes begin with in common."""
    scopes = list(scopes)
    count = 0
    for names in zip(*scopes, strict=False):
        if any(name != names[0] for name in names):
            break
        count += 1
    return count


# -- open ------------------------------------------------------------------------------------------


class Groups:
    """The groups of some nodes, each made when the first node in it is found."""

    def __init__(self, nesting: Nesting, folding: Folding, scopes: bool, column: Callable[[Op], int | None]) -> None:
        self.nesting = nesting
        self.folding = folding
        self.scopes = scopes
        self.column = column
        self._made: dict[tuple[object, ...], Group] = {}

    def of(self, nodes: Iterable[Node]) -> dict[Node, Group]:
        """The innermost group of each node that is in one; a value is where it is written, or where all its readers are."""
        nodes = list(nodes)
        groups: dict[Node, Group] = {}
        for op in (node for node in nodes if isinstance(node, Op)):
            group = self._group(op)
            if group is not None:
                groups[op] = group
        for value in (node for node in nodes if isinstance(node, Value)):
            group = self._home(value, groups)
            if group is not None:
                groups[value] = group
        return groups

    def _home(self, value: Value, groups: Mapping[Node, Group]) -> Group | None:
        if value.writers and value not in self.folding.given:
            return groups.get(self.folding.of(value.writers[0]))
        # A parameter belongs where the forward reads it; the backward and the updates read it as well.
        has_all_readers = value.graph.owner is not None or any(op.role != FORWARD for op in value.writers)
        around = [groups.get(self.folding.of(op)) for op in value.readers if has_all_readers or op.role == FORWARD] or [None]
        group = around[0]
        return group if group is not None and group.graph is value.graph and all(member is group for member in around) else None

    def _group(self, op: Op) -> Group | None:
        group: Group | None = None
        role = self.nesting.role(op)
        # The backward of a scope is a group of its own.
        key: tuple[object, ...] = (op.graph, role)
        column = self.column(op) if self.scopes and op.graph is self.nesting.root else None
        if column is not None:
            key = (*key, column)
            if key not in self._made:
                look = f"{role}{min(column, 3)}" if column > 1 else role
                self._made[key] = Group(op.graph, look, f"{role} of order {column}" if column else role, column=column)
            group = self._made[key]
        for name, label, repeat in self._parts(op):
            key = (*key, name)
            if key not in self._made:
                self._made[key] = Group(op.graph, role, label + OF_ROLE.get(role, ""), group, repeat)
            group = self._made[key]
        return group

    def _parts(self, op: Op) -> list[tuple[object, str, Repeat | None]]:
        """The scopes and repetitions around an operator, from outside in: what tells them apart, the label, the repetition."""
        scope = scope_of(op)
        owner = op.graph.owner
        start = 0 if owner is None else _shared_scope([scope_of(owner), scope])
        # A box stands for its innermost scope, and has that as its text: no frame of the same name around it.
        is_closed = op in self.folding.closed
        parts: list[tuple[object, str, Repeat | None]] = [(name, name, None) for name in scope[: len(scope) - is_closed]]
        parts = parts if self.scopes else []
        for repeat in reversed(self.folding.repeats_of.get(op, [])):
            scopes = [scope_of(member) for copy in repeat.copies for member in copy]
            common = _shared_scope(scopes) if self.scopes else 0
            names = list(dict.fromkeys(item[common] for item in scopes if len(item) > common)) if self.scopes else []
            # Copies under scopes of their own, as layer_0 and layer_1: one frame says both the names and the count.
            if len(names) > 1 and len(parts) > common:
                parts[common] = (id(repeat), f"{names[0]} … {names[-1]} {TIMES} {repeat.count}", repeat)
            else:
                parts.insert(min(common, len(parts)), (id(repeat), f"{TIMES} {repeat.count}", repeat))
        return parts[start:]
