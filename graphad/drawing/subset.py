"""A part of a drawing: what is near a node, or on the ways between two."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from graphad.drawing.nesting import Arrow
from graphad.drawing.options import Options, keys_of
from graphad.errors import InvalidValue
from graphad.ir import Node, Op, Value
from graphad.ops.definition import did_you_mean

MUCH_READ = 8  # readers: what so many operators read leads everywhere, so it is no way from one to another


class Ways:
    """The neighbors of each node along some arrows."""

    def __init__(self, nodes: Iterable[Node], arrows: Iterable[Arrow]) -> None:
        self.nodes = list(nodes)
        self.after: dict[Node, list[Node]] = {}
        self.before: dict[Node, list[Node]] = {}
        for arrow in arrows:
            self.after.setdefault(arrow.tail, []).append(arrow.head)
            self.before.setdefault(arrow.head, []).append(arrow.tail)

    def named(self, name: object) -> list[Node]:
        """The nodes that a user means: a node itself, values by name, operators by type.

        Raises:
            ValueError: there is none.
        """
        key = name if isinstance(name, str) else id(name)
        matches = [node for node in self.nodes if key in keys_of(node)]
        # A name that both a value and a type of operators have means the value.
        matches = matches or [node for node in self.nodes if isinstance(node, Op) and node.type == name]
        if not matches:
            names = [repr(node) for node in self.nodes if isinstance(node, Value)]
            hint = did_you_mean(name, names) if isinstance(name, str) else ""
            raise InvalidValue(f"no drawn value has the name {name!r}, and no operator that type{hint}")
        return matches

    def near(self, start: Collection[Node], radius: int, named: bool = True) -> set[Node]:
        """The nodes up to ``radius`` operators away, with the values that these operators read and write.

        No way leads through what very many operators read, unless it is ``named`` by the user, to start from.
        """
        nodes, border = set(start), set(start)
        # From an operator to the next are two steps, by the value between; from operators one more leads to the values around.
        steps = 2 * radius + all(isinstance(node, Op) for node in start)
        for step in range(steps):
            border = {
                neighbor for node in border if (named and step == 0) or self._leads_on(node) for neighbor in self._around(node)
            } - nodes
            nodes |= border
        ops = [node for node in nodes if isinstance(node, Op)]
        return nodes | {neighbor for op in ops for neighbor in self._around(op)}

    def between(self, start: Sequence[Node], end: Sequence[Node]) -> set[Node]:
        """The nodes on a path from one of some nodes to one of others."""
        return _reached(start, self.after) & _reached(end, self.before)

    def _leads_on(self, node: Node) -> bool:
        return isinstance(node, Op) or len(self.after.get(node, ())) <= MUCH_READ

    def _around(self, node: Node) -> list[Node]:
        return [*self.after.get(node, ()), *self.before.get(node, ())]


def ends_of(options: Options) -> tuple[object, ...]:
    """The nodes that say which part is drawn, as the user gave them."""
    if options.path is not None:
        return tuple(options.path)
    if options.focus is None:
        return ()
    return (options.focus[0] if isinstance(options.focus, tuple) else options.focus,)


def chosen_part(ways: Ways, options: Options) -> tuple[set[Node], set[Node]] | None:
    """The nodes to draw, and those of them that are only there as the surroundings; None if everything is drawn.

    Raises:
        ValueError: there is no such node, or no way between the two.
    """
    if options.focus is not None:
        node, radius = options.focus if isinstance(options.focus, tuple) else (options.focus, 1)
        inner = ways.near(ways.named(node), radius)
    elif options.path is not None:
        start, end = (ways.named(item) for item in options.path)
        inner = ways.between(start, end)
        if not inner:
            raise InvalidValue(f"no way leads from {options.path[0]!r} to {options.path[1]!r}")
    else:
        return None
    outer = ways.near(inner, options.around, named=False) if options.around else inner
    return outer, outer - inner


def _reached(start: Sequence[Node], edges: Mapping[Node, Sequence[Node]]) -> set[Node]:
    nodes, border = set(start), list(start)
    # A stack: in which order nodes are found does not matter for a set.
    while border:
        for neighbor in edges.get(border.pop(), ()):
            if neighbor not in nodes:
                nodes.add(neighbor)
                border.append(neighbor)
    return nodes
