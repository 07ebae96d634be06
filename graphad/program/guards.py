"""The programs that the innermost ``program_guard`` has made current in this thread or asyncio task; None outside of every guard."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphad.program.program import Program

MAIN: ContextVar[Program | None] = ContextVar("main program", default=None)
STARTUP: ContextVar[Program | None] = ContextVar("startup program", default=None)
