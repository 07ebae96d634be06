"""``check_analysis``: what is wrong is found and made small, wherever in a program it is; what cannot be checked is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidType, InvalidValue
from graphad.ir.regions import BACK, BYPASS, EXIT, Edge
from graphad.rewriting.constants import uniform_number
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.testing import analysis_check
from graphad.testing.analysis_check import WrongFact, check_analysis
from graphad.testing.cases import Case

TURNING = """program {
  block 0 {
    var i: float64[1]
    var n: float64[1]
    var h: float64[1]
    var c: bool[1]
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="float64"}
    fill_constant() -> (Out=h) {shape=[1], value=1.0, dtype="float64"}
    less_than(X=i, Y=n) -> (Out=c)
    while(X=[i, h, n], Condition=c) -> (Out=[i, h, c]) {sub_block=block(1)}
    assign(X=h) -> (Out=after)
  }
  block 1 in 0 {
    assign(X=h) -> (Out=seen)
    fill_constant() -> (Out=h) {shape=[1], value=2.0, dtype="float64"}
    increment(X=i) -> (Out=i) {step=1.0}
    less_than(X=i, Y=n) -> (Out=c)
  }
}"""


@dataclass(frozen=True)
class Numbers(Dataflow[Any]):
    """The numbers that a value may be filled with; ``without`` is a kind of way that is forgotten."""

    without: str = ""
    bottom: ClassVar[Any] = frozenset()
    top: ClassVar[Any] = "any"

    def join(self, a: Any, b: Any) -> Any:
        return "any" if "any" in (a, b) else a | b

    def transfer(self, op: ga.ir.Op, facts: Facts[Any]) -> Mapping[Any, Any]:
        number = uniform_number(op.output("Out")) if op.type == "fill_constant" else None
        if number is not None and number == number:
            return {op.output("Out"): frozenset({number})}
        return {op.output("Out"): facts[op.input("X")]} if op.type == "assign" else {}

    def along(self, edge: Edge, fact: Any) -> Any:
        return self.bottom if edge.kind == self.without else super().along(edge, fact)

    def holds(self, fact: Any, array: Any, run: dict[Any, Any]) -> bool:
        return fact == "any" or all(number in fact for number in array.ravel().tolist())


def cases(trips: float) -> list[Case]:
    return [Case(ga.Program.parse(TURNING), feeds={"n": np.array([trips])})]


@pytest.mark.parametrize(("way", "trips"), [(BYPASS, 0.0), (BACK, 2.0), (EXIT, 1.0)])
def test_a_forgotten_way_is_found(way: str, trips: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis_check, "SECONDS", 0.0)
    checked = check_analysis(Numbers(), 1, programs=cases(trips))
    assert 0 < checked.told < checked.arrays
    with pytest.raises(WrongFact, match=r"but it is \[[12]\.0\]"):
        check_analysis(Numbers(way), 1, programs=cases(trips))


def test_the_smallest_program_is_shown() -> None:
    @dataclass(frozen=True)
    class Positive(Numbers):
        def transfer(self, op: ga.ir.Op, facts: Facts[Any]) -> Mapping[Any, Any]:
            return dict.fromkeys(op.writes(), "positive" if op.type == "tanh" else "any")

        def holds(self, fact: Any, array: Any, run: dict[Any, Any]) -> bool:
            return fact == "any" or bool((array > 0).all())

    program = ga.Program.parse("program { block 0 { var x: float64[3] sin(X=x) -> (Out=y) tanh(X=y) -> (Out=z) exp(X=z) -> (Out=w) } }")
    with pytest.raises(WrongFact) as found:
        check_analysis(Positive(), programs=[program])
    assert [op.type for op in found.value.case.program.global_block().ops] == ["tanh"]
    assert (found.value.fact, found.value.array.tolist()) == ("positive", [0.0])
    assert str(found.value).startswith(
        "test_the_smallest_program_is_shown.<locals>.Positive(without='') says of z 'positive', but it is [0.0]"
    )


def test_what_is_taken_for_granted_of_inputs_is_not_tried() -> None:
    class OfOnes(Numbers):
        def boundary(self, value: ga.ir.Value) -> Any:
            return frozenset({1.0})

    text = ga.Program.parse("program { block 0 { var x: float64[1] assign(X=x) -> (Out=y) } }")
    ones, twos = (Case(text, feeds={"x": np.array([number])}) for number in (1.0, 2.0))
    assert check_analysis(OfOnes(), 2, programs=[twos, ones]).unfit == 2
    with pytest.raises(InvalidValue, match="inputs of 21 programs are not what it takes them to be"):
        check_analysis(OfOnes(), 1, programs=[twos])


def test_what_checks_nothing_is_refused() -> None:
    @dataclass(frozen=True)
    class Silent(Numbers):
        def transfer(self, op: ga.ir.Op, facts: Facts[Any]) -> Mapping[Any, Any]:
            return {}

    class Backwards(Numbers):
        backward = True

    with pytest.raises(InvalidValue, match="says nothing of any of"):
        check_analysis(Silent(), 1, programs=cases(1.0))
    with pytest.raises(InvalidType, match="takes a forward Dataflow"):
        check_analysis(Backwards())


def test_it_draws_programs_by_itself() -> None:
    checked = check_analysis(Numbers(), 12)
    assert checked.examples == 12
    assert f"{checked.arrays} arrays" in str(checked)
