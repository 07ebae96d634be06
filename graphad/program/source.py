"""The user's line: where an operator was written, for errors and drawings."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from graphad.errors import GraphadError

_PACKAGE = Path(__file__).resolve().parent.parent
_OURS = (_PACKAGE, (_PACKAGE / "passes").resolve(), Path(contextlib.__file__).resolve())


class SourceLine(NamedTuple):
    """A file and a line in it."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@lru_cache(maxsize=4096)
def _is_ours(file: str) -> bool:
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in _OURS)


@lru_cache(maxsize=65536)
def _shared(file: str, line: int) -> SourceLine:
    return SourceLine(file, line)


def user_line() -> SourceLine | None:
    """The nearest line on the stack outside graphad; None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else _shared(frame.f_code.co_filename, frame.f_lineno)


@contextmanager
def at_users_line(what: str = "") -> Iterator[None]:
    """Within it, an error that graphad raises on purpose says what it is about, and shows the user's line."""
    try:
        yield
    except GraphadError as error:
        message = str(error)
        if "written at" in message:
            raise
        prefix = "" if not what or what in message else f"{what}: "
        raise type(error)(located(prefix + message, user_line())) from None


def located(message: str, source: SourceLine | None) -> str:
    """The message followed by the user's line."""
    return message if source is None else f"{message}\n  written at {source}"
