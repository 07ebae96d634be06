"""The work of a call, counted and not timed: lines, instructions, or calls of functions written in Python."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

Work = Callable[[], object]


def calls(work: Work) -> int:
    """The functions that it calls."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def lines(work: Work) -> int:
    """The lines that it runs."""
    return _traced(work, "line")


def instructions(work: Work) -> int:
    """The instructions of bytecode that it takes, the collector's finalizers left out."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _traced(work, "opcode")
    finally:
        if was_enabled:
            gc.enable()


def _traced(work: Work, counted: str) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = counted == "opcode", counted == "line"
        count += event == counted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
