"""Functions run each in a process of its own, a fork of this one, so that no state is shared between them."""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_WAIT = 0.5  # seconds between two looks at the clock
_MEMORY = 4 << 30  # bytes


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
        result: what the function returned, None if it did not.
        error: why it did not, else empty.
        seconds: the processor time it used, its own processes included.
    """

    result: Any
    error: str
    seconds: float


@dataclass
class _Running:
    """A process, what it has written so far, and when it is ended."""

    child: int
    pipe: int
    end: float
    parts: list[bytes] = field(default_factory=list)


def isolated(function: Callable[[], Any], limit: float) -> Ended:
    """Run a function in a fork of this process.

    Args:
        function: what to run; its result is pickled.
        limit: the seconds after which the process is ended.
    """
    ((_, ended),) = run_all([function], limit)
    return ended


def run_all(functions: Iterable[Callable[[], Any]], limit: float, jobs: int = 1) -> Iterator[tuple[int, Ended]]:
    """Run functions, some at a time.

    Args:
        functions: what to run; their results are pickled.
        limit: the seconds after which a process is ended.
        jobs: how many run at a time.

    Yields:
        Which function it was and how it ended, as they end.
    """
    waiting, running = iter(enumerate(functions)), dict[int, tuple[int, _Running]]()
    while True:
        while len(running) < jobs and (following := next(waiting, None)) is not None:
            started = _started(following[1], limit)
            running[started.pipe] = following[0], started
        if not running:
            return
        ready, _, _ = select.select(list(running), [], [], _WAIT)
        for pipe, (index, each) in list(running.items()):
            complete = pipe in ready and not _read(each)
            if complete or time.monotonic() > each.end:
                del running[pipe]
                yield index, _ended(each, complete, limit)


def _started(function: Callable[[], Any], limit: float) -> _Running:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(reading)
        _run(function, writing)
    os.close(writing)
    return _Running(child, reading, time.monotonic() + limit)


def _run(function: Callable[[], Any], writing: int) -> None:
    """Run a function in the child process; a mistake that makes a loop endless is stopped before it has taken all memory."""
    result, error = None, ""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        result = function()
    except BaseException as wrong:
        error = f"{type(wrong).__name__}: {wrong}"
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps((result, error)))
    finally:
        os._exit(0)


def _read(running: _Running) -> bool:
    """Read what a process wrote; return whether there may be more."""
    part = os.read(running.pipe, 1 << 16)
    running.parts.append(part)
    return bool(part)


def _ended(running: _Running, complete: bool, limit: float) -> Ended:
    os.close(running.pipe)
    if not complete:
        _end(running.child)
    _, status, usage = os.wait4(running.child, 0)
    seconds, data = usage.ru_utime + usage.ru_stime, b"".join(running.parts)
    if not complete:
        return Ended(None, f"not done after {limit:g} s", seconds)
    if not data:
        return Ended(None, f"the process ended with status {status}", seconds)
    result, error = pickle.loads(data)
    return Ended(result, error, seconds)


def _end(child: int) -> None:
    """End a process, and those that it started."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)
