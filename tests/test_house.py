"""The figures of ``tests/house.py``, of a module small enough to count by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house import figures, sources

TEXT = '''"""A module."""

import os
from typing import Any


# -- a section --------------------------------------
def public(x: Any) -> Any:
    # Why it is so.
    found = _helper(x)
    return found  # the reason


def _helper(x: int) -> int:
    """What "tanh exp" are for."""
    return x if x != "tanh exp" else 0  # noqa: PLR2004


def _twice(x: int) -> int:
    return _twice(x) + _twice(x)
'''


def test_a_module_counted_by_hand(tmp_path: Path) -> None:
    (tmp_path / "graphad" / "passes").mkdir(parents=True)
    (tmp_path / "graphad" / "passes" / "module.py").write_text(TEXT)
    lines = TEXT.count("\n")
    assert figures(sources(tmp_path)) == {
        "files": 1,
        "lines": lines,
        "functions": 3,
        "lines of a function, median": 3,
        "lines of a function, 95th percentile": 4,
        "private functions, %": pytest.approx(200 / 3),
        "private functions with one client, % of those of modules": 50,
        "lines with comments, for 100": pytest.approx(200 / lines),
        "lines of imports, %": pytest.approx(200 / lines),
        "Any, for 1000 lines": pytest.approx(3000 / lines),
        "locals that are bare participles, %": 100,
        "names of operators in passes": 2,
    }
