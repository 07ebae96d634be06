"""What a graph keeps of its own: the order of its operators, and its values by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphad.graph.nodes import Op, Value


class OpList:
    """The operators of a graph in order; the one being looked at may be removed, others inserted, meanwhile."""

    def __init__(self) -> None:
        self.first: Op | None = None
        self.last: Op | None = None
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Op]:
        op = self.first
        while op is not None:
            following = op.next
            yield op
            op = following

    def __reversed__(self) -> Iterator[Op]:
        op = self.last
        while op is not None:
            following = op.previous
            yield op
            op = following

    def insert(self, op: Op, before: Op | None) -> None:
        """Link an operator in before another one, or last."""
        previous = self.last if before is None else before.previous
        op.previous, op.next = previous, before
        if previous is None:
            self.first = op
        else:
            previous.next = op
        if before is None:
            self.last = op
        else:
            before.previous = op
        self.count += 1

    def unlink(self, op: Op) -> None:
        """Take an operator out."""
        if op.previous is None:
            self.first = op.next
        else:
            op.previous.next = op.next
        if op.next is None:
            self.last = op.previous
        else:
            op.next.previous = op.previous
        self.count -= 1


class ValueTable:
    """The values of a graph, by name; a name may have several, its versions, the last of which is its final value.

    ``contested`` holds the names that have, or had, several. ``reserved`` holds names that are taken although no value has them:
    those that the graph's block declares.
    """

    def __init__(self, reserved: Mapping[str, object]) -> None:
        self.reserved = reserved
        self.by_name: dict[str, Value | tuple[Value, ...]] = {}
        self.count = 0
        self.contested: dict[str, None] = {}
        self.suffixes: dict[str, int] = {}

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Value]:
        for found in self.by_name.values():
            if isinstance(found, Value):
                yield found
            else:
                yield from found

    def versions(self, name: str) -> tuple[Value, ...]:
        """All values of a name, oldest first."""
        found = self.by_name.get(name, ())
        return (found,) if isinstance(found, Value) else found

    def add(self, value: Value) -> None:
        """Make the value the last version of its name."""
        name = value.name
        if name in self.by_name:
            self.by_name[name] = (*self.versions(name), value)
            self.contested[name] = None
        else:
            self.by_name[name] = value
        self.count += 1

    def add_first(self, value: Value) -> None:
        """Make the value the first version of its name."""
        later = self.versions(value.name)
        if not later:
            return self.add(value)
        self.by_name[value.name] = (value, *later)
        self.contested[value.name] = None
        self.count += 1

    def exchange(self, old: Value, new: Value) -> None:
        """Put a value that has no name in the place of another one."""
        found = tuple(new if v is old else v for v in self.versions(old.name))
        self.by_name[old.name] = found[0] if len(found) == 1 else found

    def discard(self, value: Value) -> None:
        """Forget a value."""
        self.count -= 1
        if self.by_name[value.name] is value:
            del self.by_name[value.name]
            return
        left = tuple(v for v in self.versions(value.name) if v is not value)
        if left:
            self.by_name[value.name] = left[0] if len(left) == 1 else left
        else:
            del self.by_name[value.name]

    def taken(self, name: str) -> bool:
        """Whether a value has the name, or the block declares it."""
        return name in self.by_name or name in self.reserved

    def fresh(self, stem: str, pattern: str = "{}_{}") -> str:
        """A name no value has: the stem, or the stem with the next number."""
        if not self.taken(stem):
            return stem
        return self.numbered(stem, pattern)

    def numbered(self, stem: str, pattern: str) -> str:
        """A name no value has, made of the stem and the next number."""
        n = self.suffixes.get(pattern.format(stem, ""), 0)
        while self.taken(name := pattern.format(stem, n)):
            n += 1
        self.suffixes[pattern.format(stem, "")] = n + 1
        return name
