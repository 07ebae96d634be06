"""Python's cyclic garbage collector and large graphs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Hold the collector while many nodes are made: it would walk all of them again and again, and find nothing.

    What was made meanwhile then goes straight to the oldest generation, which is walked least (``gc.freeze`` and
    ``gc.unfreeze`` move objects without looking at them); else the collector would walk it all when it wakes.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        gc.enable()
