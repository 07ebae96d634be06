"""Context variables that have a value for a while.

What a ``with`` statement changes for the code inside it, such as the default programs, settings or observers, is a context variable:
threads and asyncio tasks do not see each other's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def binding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Within it, a context variable has a value: in this thread or asyncio task, and in tasks that it starts.

    >>> depth = ContextVar("depth", default=0)
    >>> with binding(depth, 1):
    ...     depth.get()
    1
    >>> depth.get()
    0
    """
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)
