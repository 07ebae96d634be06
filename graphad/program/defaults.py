"""The programs that layers write into, and guards that change them for a while.

The two default programs are those of the process, as in Paddle: outside of every guard, all threads write into the same. A guard
holds in its own thread or asyncio task, and in tasks started within it. A thread started within it begins outside of every guard;
``Thread(target=contextvars.copy_context().run, args=(function,))`` takes it along.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graphad.errors import InvalidType
from graphad.program import guards
from graphad.program.naming import UniqueNames
from graphad.program.program import Program

_main, _startup = Program(), Program()
_main.identity.title, _startup.identity.title = "the default main program", "the default startup program"


def default_main_program() -> Program:
    """The program that layers append to."""
    return guards.MAIN.get() or _main


def default_startup_program() -> Program:
    """The program that layers append initialization operators to."""
    return guards.STARTUP.get() or _startup


@contextmanager
def program_guard(main: Program, startup: Program | None = None) -> Iterator[None]:
    """Within it, and in this thread or asyncio task, layers write into these programs (a fresh startup program if None is given).

    Raises:
        TypeError: something other than a Program is given.
    """
    for what, program in (("main", main), ("startup", startup)):
        if not isinstance(program, Program | None) or (what == "main" and program is None):
            raise InvalidType(f"program_guard takes Programs; {what} is {program!r}")
    before = guards.MAIN.set(main), guards.STARTUP.set(Program() if startup is None else startup)
    try:
        yield
    finally:
        guards.MAIN.reset(before[0])
        guards.STARTUP.reset(before[1])


class unique_name:  # a namespace, spelt as Fluid spells it
    """``unique_name.generate(key)`` counts per program; ``unique_name.guard(prefix)`` starts counting anew."""

    @staticmethod
    def generate(key: str) -> str:
        """``key_<n>``, unique in the current main program."""
        return default_main_program().names.generate(key)

    @staticmethod
    @contextmanager
    def guard(prefix: str = "") -> Iterator[None]:
        """Within it, names of the current main program count from 0, after ``prefix``."""
        program = default_main_program()
        outer, program.names = program.names, UniqueNames(prefix, program.declares)
        try:
            yield
        finally:
            program.names = outer
