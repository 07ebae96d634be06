"""Nested structures of lists, tuples, dicts and None: their leaves in order, and leaves put back into a structure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Path = tuple[Any, ...]  # the keys that lead to a place in a structure


def walk(structure: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every leaf with its path; None has no leaves, and whatever is not a list, tuple or dict is a leaf.

    >>> list(walk([1, {"a": (2,), "b": None}]))
    [((0,), 1), ((1, 'a', 0), 2)]
    """
    children = _children(structure)
    if children is None:
        yield path, structure
        return
    for key, child in children:
        yield from walk(child, (*path, key))


def flatten(structure: object) -> list[Any]:
    """The leaves in order."""
    return [leaf for _, leaf in walk(structure)]


def pack(structure: object, leaves: Iterable[object]) -> Any:
    """A structure like the given one with other leaves.

    >>> pack([1, {"a": (2,), "b": None}], "xy")
    ['x', {'a': ('y',), 'b': None}]
    """
    return _packed(structure, iter(leaves))


def _packed(structure: object, leaves: Iterator[object]) -> Any:
    if structure is None:
        return None
    if isinstance(structure, dict):
        return {key: _packed(child, leaves) for key, child in structure.items()}
    if not isinstance(structure, list | tuple):
        return next(leaves)
    items = [_packed(child, leaves) for child in structure]
    if isinstance(structure, list):
        return items
    # A named tuple takes its fields one by one.
    return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)


def difference(first: object, second: object, path: Path = ()) -> tuple[Path, str, str] | None:
    """The path of the first difference between two structures, and what each has there; None if they are the same. A list counts as a
    tuple.

    >>> difference([1, (2, 3)], (4, [5, 6]))
    >>> difference([1, (2, 3)], [4, 5])
    ((1,), 'a tuple of 2', '5')
    """
    first_children, second_children = _children(first), _children(second)
    # Keys are compared as sets: the order of a dict says nothing.
    if _kind(first) != _kind(second) or (
        first_children is not None
        and second_children is not None
        and {key for key, _ in first_children} != {key for key, _ in second_children}
    ):
        return path, describe(first), describe(second)
    pairs = dict(second_children or ())
    for key, child in first_children or ():
        inner = difference(child, pairs[key], (*path, key))
        if inner is not None:
            return inner
    return None


def paired(first: Any, second: Any) -> Iterator[tuple[Path, Any, Any]]:
    """The leaves of two structures that do not differ, by path, in the order of the first."""
    for path, leaf in walk(first):
        counterpart = second
        for key in path:
            counterpart = counterpart[key]
        yield path, leaf, counterpart


def describe(structure: object) -> str:
    """A short text for a part of a structure."""
    if isinstance(structure, dict):
        return f"a dict of {', '.join(map(repr, structure)) or 'nothing'}"
    if isinstance(structure, list | tuple):
        return f"a {'list' if isinstance(structure, list) else 'tuple'} of {len(structure)}"
    return repr(structure)


def subscripts(path: Path) -> str:
    """A path as one writes it: ``[1]['a']``."""
    return "".join(f"[{key!r}]" for key in path)


def _children(structure: object) -> list[tuple[object, object]] | None:
    if structure is None:
        return []
    if isinstance(structure, dict):
        return list(structure.items())
    return list(enumerate(structure)) if isinstance(structure, list | tuple) else None


def _kind(structure: object) -> str:
    if structure is None:
        return "nothing"
    if isinstance(structure, dict):
        return "dict"
    return "sequence" if isinstance(structure, list | tuple) else "leaf"
