"""The user's line: where an operator was written, for errors and drawings."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

_PACKAGE = str(Path(__file__).resolve().parent.parent)
_PASSES = str(Path(__file__).resolve().parent.parent.parent / "passes")


class SourceLine(NamedTuple):
    """A file and a line in it."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@lru_cache(maxsize=4096)
def _is_ours(file: str) -> bool:
    path = str(Path(file).resolve())
    return path.startswith((_PACKAGE, _PASSES))


@lru_cache(maxsize=65536)
def _shared(file: str, line: int) -> SourceLine:
    return SourceLine(file, line)


def user_line() -> SourceLine | None:
    """The nearest line on the stack outside graphad; None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else _shared(frame.f_code.co_filename, frame.f_lineno)


def located(message: str, source: SourceLine | None) -> str:
    """The message with the user's line behind it."""
    return message if source is None else f"{message}\n  written at {source}"
