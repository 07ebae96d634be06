"""Random programs as strategies of hypothesis, for tests with ``@given``; the extra ``testing`` installs it.

    @given(nested_programs(max_depth=2))
    def test_mine(case: Case) -> None: ...

``check_pass`` draws from the same generators without hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec

from graphad.rewriting import Rule
from graphad.testing import MissingHypothesis
from graphad.testing.cases import Case, Choices, Generator
from graphad.testing.nested import nested_program
from graphad.testing.optimizable import optimizable_program
from graphad.testing.planted import planted_program
from graphad.testing.straight_line import straight_line_program
from graphad.testing.training import training_program

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ModuleNotFoundError:
    message = "graphad.testing.strategies draws random programs with hypothesis, which is not installed: pip install 'graphad[testing]'"
    raise MissingHypothesis(message) from None

P = ParamSpec("P")


class _Drawn(Choices):
    """Choices that hypothesis takes, and shrinks."""

    def __init__(self, draw: Callable[[SearchStrategy[int]], int]) -> None:
        self.draw = draw

    def below(self, count: int) -> int:
        return self.draw(st.integers(0, count - 1))


def as_strategy(generator: Generator[P], *args: P.args, **kwargs: P.kwargs) -> SearchStrategy[Case]:
    """The programs of a generator, as a strategy of hypothesis."""

    @st.composite
    def programs(draw: Callable[[SearchStrategy[int]], int]) -> Case:
        return generator(_Drawn(draw), *args, **kwargs)

    return programs()


def nested_programs(
    max_depth: int = 3, max_statements: int = 3, max_nested: int = 5, stops: bool = True, arrays: bool = True
) -> SearchStrategy[Case]:
    """Programs with loops, branches and nets; see ``graphad.testing.nested.nested_program``."""
    return as_strategy(nested_program, max_depth, max_statements, max_nested, stops, arrays)


def optimizable_programs(blocks: bool = True, specials: bool = True, max_statements: int = 5) -> SearchStrategy[Case]:
    """Programs that give optimizations something to do; see ``graphad.testing.optimizable.optimizable_program``."""
    return as_strategy(optimizable_program, blocks, specials, max_statements)


def planted_programs(rules: Sequence[Rule]) -> SearchStrategy[Case]:
    """Programs with what one of the rules looks for; see ``graphad.testing.planted.planted_program``."""
    return as_strategy(planted_program, rules)


def straight_line_programs(max_ops: int = 12) -> SearchStrategy[Case]:
    """Programs without blocks; see ``graphad.testing.straight_line.straight_line_program``."""
    return as_strategy(straight_line_program, max_ops)


def training_programs(max_layers: int = 2, smooth: bool = True) -> SearchStrategy[Case]:
    """Small networks with their backward and updates; see ``graphad.testing.training.training_program``."""
    return as_strategy(training_program, max_layers, smooth)
