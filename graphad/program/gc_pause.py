"""Python's cyclic garbage collector, and large programs and graphs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock


@dataclass
class _Book:
    """Objects moved to the oldest generation since the last full collection, and those that survived it (estimates)."""

    moved: int = 0  # of graphs, and of what was made beside them: garbage as soon as the graph is
    written: int = 0  # of programs that grow: these stay
    survived: int = 0
    collections: int = 0


_book = _Book()
_lock = RLock()  # a finalizer may make graphs
_pauses: set[object] = set()
_LARGE = 1000  # operators
GROWTH = 32  # operators of a large program after which the collector is told: fewer than those whose objects it would look at
_YOUNG = 5_000  # new objects at which those of small graphs are collected: more of them are in no near cache by then
_OBJECTS = 12  # of an operator with its names, its variables and those of a startup program
_FEW, _MANY = 200_000, 4_000_000  # objects; many are half a gigabyte, and to look through them takes 0.4 µs for each


@contextmanager
def paused_collector(operators: int) -> Iterator[None]:
    """Hold the collector while the nodes of many operators are made: it would walk all of them again and again, and find nothing.

    Graphs are cycles of references. Those of a few operators are left to the young generations, which free them cheaply. Of
    large ones, what was made meanwhile goes straight to the oldest generation (``gc.freeze`` and ``gc.unfreeze`` move objects without
    looking at them); else the collector would walk it all when it wakes. Python does not count what is moved like this,
    so it is counted here; ``collect_if_due`` is called where a new graph is begun, when the last one may be garbage.

    The collector belongs to the process. It wakes when the last of the threads that hold it is through, and where it was off before the
    first of them, it is left alone.
    """
    if operators < _LARGE:
        yield
        return
    # While the collector is held garbage only grows: what is due is collected before.
    _collect_above(_book.moved, _MANY, growth=4.0)
    pause = object()
    try:
        _hold(pause)
        yield
    finally:
        _let_go(pause)


def _hold(pause: object) -> None:
    with _lock:
        if _pauses or gc.isenabled():
            _pauses.add(pause)  # first, so that an interruption here does not leave the collector off
            gc.disable()


def _let_go(pause: object) -> None:
    with _lock:
        if pause not in _pauses:
            return
        # The last pause, of all threads, lets the collector go on.
        if len(_pauses) == 1:
            _move_what_was_made()
            gc.enable()
        _pauses.discard(pause)


def _move_what_was_made() -> None:
    if gc.get_freeze_count() == 0:
        _book.moved += gc.get_count()[0]
        gc.freeze()
        gc.unfreeze()


def settle(count: int) -> None:
    """Tell the collector that a program has grown to so many operators, ``GROWTH`` more than when it was told last, which stay.

    What is young goes to the oldest generation, and is looked at when very much was made and several times what survived the last time:
    while a large program grows, Python's own rule would look twice at each of its objects while they are young, and through all of it
    whenever it has grown by a quarter. Graphs that come and go are collected by ``collect_if_due``, which does not wait for so long.
    """
    if count < _LARGE:
        return
    with _lock:
        if _pauses or not gc.isenabled() or gc.get_freeze_count():
            return
        _book.written += _OBJECTS * GROWTH
        gc.freeze()
        gc.unfreeze()
    _collect_above(_book.moved + _book.written, _MANY, growth=4.0)


@contextmanager
def young_only() -> Iterator[None]:
    """Within it, the collector leaves alone what there was before, and waits longer: for work that makes many small graphs and frees them.

    Where something is frozen already, by another thread or by the user, nothing is done.
    """
    # Objects that are frozen already are another caller's, who unfreezes them.
    free, thresholds = gc.get_freeze_count() == 0, gc.get_threshold()
    try:
        if free:
            gc.freeze()
            # A graph of a few operators is a thousand objects: with a threshold of 700 it is looked through while it is still needed.
            gc.set_threshold(thresholds[0] and max(_YOUNG, thresholds[0]), *thresholds[1:])
        yield
    finally:
        if free:
            gc.unfreeze()
            gc.set_threshold(*thresholds)


def collect_if_due() -> None:
    """Collect by a rule like Python's own: when the objects of graphs are a quarter of those that survived the last collection.

    What was written of programs does not count here: one that has just been built would be looked through, in vain, before its first graph.
    """
    _collect_above(_book.moved, _FEW, growth=0.25)


def _collect_above(objects: int, least: int, growth: float) -> None:
    if not gc.isenabled():
        return
    # Python has collected all generations by itself meanwhile: counting begins again.
    if _full_collections() != _book.collections:
        _start_counting(survived=_book.moved + _book.written)
    elif objects > least + growth * _book.survived:
        _collect()


def _collect() -> None:
    count = gc.collect()
    _start_counting(survived=max(_book.survived + _book.moved + _book.written - count, 0))


def _start_counting(survived: int) -> None:
    """A full collection has taken place: nothing that was moved before it needs another."""
    _book.moved = _book.written = 0
    _book.survived, _book.collections = survived, _full_collections()


def _full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])
