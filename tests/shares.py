"""Which of many cases ``make test`` runs: a share, spread over all of them. ``make test-all`` runs every one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(share: int, cases: Iterable[Any]) -> list[Any]:
    """The cases as parameters, each but the first of so many marked ``long``.

    Args:
        share: of how many cases one runs with ``make test``.
        cases: values of one parameter, tuples of several, or what ``pytest.param`` gives.
    """
    return [case if i % share == 0 else later(case) for i, case in enumerate(cases)]


def later(case: Any) -> Any:
    """The case, for ``make test-all`` alone."""
    if hasattr(case, "marks"):
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.long])
    return pytest.param(*(case if type(case) is tuple else (case,)), marks=pytest.mark.long)
