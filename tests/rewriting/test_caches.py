"""Cached facts hold for the current definitions: operators and passes are defined anew in notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

import graphad as ga
from graphad.ir import Graph
from graphad.ops import REGISTRY, OpDef
from graphad.passes import CanonicalOrder, Cse
from graphad.rewriting import ChangeCursor, Follower, Rule, sweep
from graphad.testing.operator_programs import operators
from graphad.testing.trial import as_pass
from tests.scratch import passes

ADD = """
program { block 0 {
  var x: float64[2]
  var y: float64[2]
  var a: float64[2]
  var b: float64[2]
  elementwise_add(X=y, Y=x) -> (Out=a)
  elementwise_add(X=x, Y=y) -> (Out=b)
} }
"""


@contextmanager
def defined(op_type: str, definition: OpDef) -> Iterator[None]:
    """Within it, an operator is another one."""
    before = REGISTRY[op_type]
    REGISTRY[op_type] = definition
    try:
        yield
    finally:
        REGISTRY[op_type] = before


def test_a_commutative_operator_is_defined_anew() -> None:
    assert CanonicalOrder().run(ga.lower(ga.Program.parse(ADD)))
    with defined("elementwise_add", replace(REGISTRY["elementwise_add"], commutative=False)):
        assert not CanonicalOrder().run(ga.lower(ga.Program.parse(ADD)))


def test_an_operator_without_samples_is_not_drawn_any_more() -> None:
    assert "elementwise_add" in operators()
    with defined("elementwise_add", replace(REGISTRY["elementwise_add"], type="elementwise_sub")):
        assert "elementwise_add" not in operators()


def test_a_pass_is_defined_anew() -> None:
    def define() -> type[ga.Pass]:
        @dataclass(frozen=True)
        class Anew(ga.Pass):
            name = "anew"

            def apply(self, graph: Graph) -> bool:
                return False

        return Anew

    with passes():
        first = define()
        assert type(as_pass("anew", "")) is first
        second = define()
        assert type(as_pass("anew", "")) is second


def test_what_a_pass_keeps_goes_with_the_list_of_what_was_touched() -> None:
    graph = ga.lower(ga.Program.parse(ADD))
    Cse().run(graph)
    assert graph.journal.kept
    graph.journal.touched = None
    ChangeCursor("another", graph)
    assert not graph.journal.kept
    assert not Cse().run(graph)


def test_old_names_are_deprecated() -> None:
    graph = ga.lower(ga.Program.parse("program { block 0 { var x: float64[2] tanh(X=x) -> (Out=y) } }"))
    with pytest.warns(DeprecationWarning, match="use ChangeCursor"):
        cursor = Follower(test_old_names_are_deprecated, graph)
    assert cursor.fresh() is None
    assert cursor.fresh() == []
    with pytest.warns(DeprecationWarning, match="use erase_if_dead"):
        sweep(next(iter(graph.ops)))
    with pytest.warns(DeprecationWarning, match="Beside.aside is deprecated .* call it multi_root"):

        class Beside(Rule):
            aside = True

    assert Beside.multi_root
