"""The programs that ``program_guard`` has made current, the innermost last; empty outside of every guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphad.program.program import Program

MAIN: list[Program] = []
STARTUP: list[Program] = []
