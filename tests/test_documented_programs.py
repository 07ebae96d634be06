"""Programs as Fluid 1.8's documentation has them: optimizers, schedules, files, readers, metrics, what is asked of a program.

Each was written from the documentation, without a look at graphad, with what it is to give. ``documented_programs.txt`` has them, each
under a line with ``###``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad

fluid: Any = graphad
TEXT = Path(__file__).with_name("documented_programs.txt").read_text(encoding="utf-8")
PROGRAMS = [part.partition("\n")[::2] for part in TEXT.split("### ")[1:]]


def close(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(np.ravel(found), np.broadcast_to(np.ravel(expected), np.ravel(found).shape), rtol=tolerance, atol=1e-6)


def value(name: str) -> Any:
    return np.array(fluid.global_scope().find_var(name).get_tensor())


@contextmanager
def fresh() -> Iterator[None]:
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program()):
        yield


@pytest.mark.parametrize("text", [text for _, text in PROGRAMS], ids=[title for title, _ in PROGRAMS])
def test_a_documented_program(text: str) -> None:
    names = {
        "fluid": fluid,
        "exe": fluid.Executor(fluid.CPUPlace()),
        "get": value,
        "close": close,
        "np": np,
        "os": os,
        "tempfile": tempfile,
    }
    with fresh():
        exec(compile(text, "documented_programs.txt", "exec"), names)


def test_there_are_many() -> None:
    assert len(PROGRAMS) >= 65
    assert len({title for title, _ in PROGRAMS}) == len(PROGRAMS)
