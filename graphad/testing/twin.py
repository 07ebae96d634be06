"""Another Python process, in which strings have other hashes: what a pass makes there has to be what it makes here.

A pass that goes through a set of strings gives the same order all day long in one process.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from types import TracebackType
from typing import IO, Any

from graphad.graph import schedule
from graphad.program import Program
from graphad.testing.cases import Case
from graphad.testing.subject import Subject

HASH_SEED = "20731"


class Twin:
    """The other process; it starts when something is asked of it, and ends with the ``with`` block."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._able = True

    def __enter__(self) -> Twin:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.communicate()

    def text(self, subject: Subject, case: Case, targets: list[str]) -> list[str]:
        """The program that the pass makes of a case there; nothing if the pass is not of an importable module."""
        if not self._able:
            return []
        try:
            message = pickle.dumps((subject.resolved(case), str(case.program), case.loss_name, targets))
        except (pickle.PicklingError, AttributeError, TypeError):
            self._able = False
            return []
        answer = self._asked(message)
        self._able = answer is not None
        return [] if answer is None else [answer]

    def _asked(self, message: bytes) -> str | None:
        process = self._process = self._process or _started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(message, process.stdin)
            process.stdin.flush()
            answer: str | None = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            return None
        return answer


def _started() -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED, "PYTHONPATH": path}
    command = [sys.executable, "-c", "from graphad.testing.twin import serve; serve()"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)


def serve() -> None:
    """Answer until the input ends; what passes print goes nowhere."""
    answers, sys.stdout = sys.stdout.buffer, io.StringIO()
    while (message := _next(sys.stdin.buffer)) is not None:
        pickle.dump(_answer(message), answers)
        answers.flush()


def _next(stream: IO[bytes]) -> Any:
    try:
        return pickle.load(stream)
    except EOFError:
        return None


def _answer(message: bytes) -> str | None:
    try:
        subject, text, loss, targets = pickle.loads(message)
    except (ImportError, AttributeError, pickle.UnpicklingError):
        return None
    case = Case(Program.parse(text), loss)
    try:
        graph = subject.prepared(case, targets)
        subject.passes(case).run(graph)
        return str(schedule(graph))
    except Exception as error:
        return f"{type(error).__name__}: {error}\n"
