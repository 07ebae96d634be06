"""Python's cyclic garbage collector and large graphs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class _Book:
    """Objects moved to the oldest generation since the last full collection, and those that survived it (estimates)."""

    moved: int = 0
    survived: int = 0
    collections: int = 0


_book = _Book()
_LARGE = 1000  # operators
_FEW, _MANY = 200_000, 4_000_000  # objects


@contextmanager
def paused_collector(operators: int) -> Iterator[None]:
    """Hold the collector while the nodes of many operators are made: it would walk all of them again and again, and find nothing.

    Graphs are cycles of references. Those of a few operators are left to the young generations, which let go of them cheaply. Of
    large ones, what was made meanwhile goes straight to the oldest generation (``gc.freeze`` and ``gc.unfreeze`` move objects without
    looking at them); else the collector would walk it all when it wakes. Python does not count what is moved like this,
    so it is counted here; ``collect_if_due`` is called where a new graph is begun, when the last one may be garbage.
    """
    if operators < _LARGE or not gc.isenabled():
        yield
        return
    if _book.moved > _MANY + 4 * _book.survived:
        _collect()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            _book.moved += gc.get_count()[0]
            gc.freeze()
            gc.unfreeze()
        gc.enable()


@contextmanager
def young_only() -> Iterator[None]:
    """Within it, the collector leaves alone what there was before: for work that makes many small graphs and lets go of them."""
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def collect_if_due() -> None:
    """Collect by Python's own rule: when what may be garbage has grown to a quarter of what survived the last collection."""
    if not gc.isenabled():
        return
    if _full_collections() != _book.collections:
        _start_counting(survived=_book.moved)
    elif _book.moved > _FEW + _book.survived // 4:
        _collect()


def _collect() -> None:
    found = gc.collect()
    _start_counting(survived=max(_book.survived + _book.moved - found, 0))


def _start_counting(survived: int) -> None:
    """A full collection has taken place: nothing that was moved before it needs another."""
    _book.moved, _book.survived, _book.collections = 0, survived, _full_collections()


def _full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])
