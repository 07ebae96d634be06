"""Tests of passes: random programs, ``check_pass``, ``reduce_program`` and ``bisect``.

Here belong generators of programs (``programs`` and what it draws from), sweeps, the checks of a pass (``trial``, ``checks``,
``check``), shrinking, and reports. Tests of graphad itself are in ``tests``, and what
holds of a graph at all is verified by ``graphad.ir.verify``.

    from graphad.testing import check_pass

    def test_my_pass():
        check_pass(MyPass(), examples=200)          # AssertionError with the smallest program on which it is wrong

``check_pass`` draws its programs itself; the strategies of random programs, for tests of your own, need hypothesis (the extra
``testing``).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphad.errors import GraphadError

if TYPE_CHECKING:
    from graphad.testing.analysis_check import check_analysis as check_analysis
    from graphad.testing.bisection import Culprit as Culprit
    from graphad.testing.bisection import bisect as bisect
    from graphad.testing.cases import Case as Case
    from graphad.testing.cases import Choices as Choices
    from graphad.testing.check import Vacuous as Vacuous
    from graphad.testing.check import check_pass as check_pass
    from graphad.testing.checks import check_case as check_case
    from graphad.testing.equivalence import assert_equivalent as assert_equivalent
    from graphad.testing.operator_check import check_operator as check_operator
    from graphad.testing.report import Checked as Checked
    from graphad.testing.report import Counterexample as Counterexample
    from graphad.testing.shrinking import reduce_program as reduce_program
    from graphad.testing.strategies import nested_programs as nested_programs
    from graphad.testing.strategies import optimizable_programs as optimizable_programs
    from graphad.testing.strategies import planted_programs as planted_programs
    from graphad.testing.strategies import straight_line_programs as straight_line_programs
    from graphad.testing.strategies import training_programs as training_programs

_HOMES = {
    "Case": "cases",
    "Checked": "report",
    "Choices": "cases",
    "Counterexample": "report",
    "Culprit": "bisection",
    "Vacuous": "check",
    "assert_equivalent": "equivalence",
    "bisect": "bisection",
    "check_analysis": "analysis_check",
    "check_case": "checks",
    "check_operator": "operator_check",
    "check_pass": "check",
    "nested_programs": "strategies",
    "optimizable_programs": "strategies",
    "planted_programs": "strategies",
    "reduce_program": "shrinking",
    "straight_line_programs": "strategies",
    "training_programs": "strategies",
}
__all__ = [*sorted(_HOMES), "MissingHypothesis"]


class MissingHypothesis(GraphadError, ImportError):
    """Random programs were requested, and hypothesis is not installed."""


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that ``import graphad.testing`` does not need hypothesis."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
