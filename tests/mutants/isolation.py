"""A function run in a process of its own, a fork of this one, so that nothing it leaves behind is seen by the next."""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple


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


def isolated(function: Callable[[], Any], limit: float) -> Ended:
    """Run a function in a fork of this process.

    Args:
        function: what to run; its result is pickled.
        limit: the seconds after which the process is ended.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(reading)
        _run(function, writing)
    os.close(writing)
    data, complete = _read(reading, limit)
    os.close(reading)
    if not complete:
        _end(child)
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    if not complete:
        return Ended(None, f"not done after {limit:g} s", seconds)
    if not data:
        return Ended(None, f"the process ended with status {status}", seconds)
    result, error = pickle.loads(data)
    return Ended(result, error, seconds)


def _run(function: Callable[[], Any], writing: int) -> None:
    """What the child does."""
    result, error = None, ""
    try:
        result = function()
    except BaseException as wrong:
        error = f"{type(wrong).__name__}: {wrong}"
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps((result, error)))
    finally:
        os._exit(0)


def _read(pipe: int, limit: float) -> tuple[bytes, bool]:
    """What a pipe gives until it is closed, and whether it was closed in time."""
    parts, end = [], time.monotonic() + limit
    while (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select([pipe], [], [], left)
        if not ready:
            break
        part = os.read(pipe, 1 << 16)
        if not part:
            return b"".join(parts), True
        parts.append(part)
    return b"".join(parts), False


def _end(child: int) -> None:
    """End a process, and those that it started."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)
