"""The facts of the library's own analyses hold in runs of random programs; a forgotten edge is noticed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import GraphadError
from graphad.ir.regions import BACK, BYPASS, EXIT, Edge
from graphad.passes.analyses import TripCounts
from graphad.passes.analyses.batch_dependence import MEAN, ROWS, TOTAL, WHOLE, BatchDependence
from graphad.passes.analyses.known_values import Constants, KnownValues
from graphad.passes.analyses.uninitialized import _There
from graphad.program import FORWARD
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.testing import analysis_check
from graphad.testing.analysis_check import WrongFact, check_analysis
from graphad.testing.cases import Case, RandomChoices
from graphad.testing.nested import nested_program
from graphad.testing.training import trainable_program
from graphad.testing.watched import watch
from graphad.types import FLOATS

LOOP = """program { block 0 {
  var i: int64[1] var n: int64[1] var more: bool[1] var y: int64[1] var w: int64[1]
  fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
  fill_constant() -> (Out=n) {shape=[1], value=LIMIT, dtype="int64"}
  fill_constant() -> (Out=y) {shape=[1], value=7.0, dtype="int64"}
  less_than(X=i, Y=n) -> (Out=more)
  while(X=[i, y, n], Condition=more) -> (Out=[i, y, more]) {sub_block=block(1)}
  elementwise_add(X=y, Y=y) -> (Out=w)
} block 1 in 0 {
  elementwise_add(X=n, Y=n) -> (Out=y) increment(X=i) -> (Out=i) {step=1.0} less_than(X=i, Y=n) -> (Out=more)
} }"""
BRANCHES = """program { block 0 {
  var x: int64[1] var one: int64[1] var two: int64[1] var c: bool[1] var d: bool[1] var y: int64[1] var z: int64[1] var w: int64[1]
  fill_constant() -> (Out=one) {shape=[1], value=1.0, dtype="int64"}
  fill_constant() -> (Out=two) {shape=[1], value=2.0, dtype="int64"}
  less_than(X=one, Y=two) -> (Out=c)
  if_else(Cond=c, X=[one, x]) -> (Out=y) {true_block=block(1), false_block=block(2)}
  equal(X=y, Y=two) -> (Out=d)
  if_else(Cond=d, X=[two, x]) -> (Out=z) {true_block=block(3), false_block=block(4)}
  elementwise_add(X=z, Y=x) -> (Out=w)
} block 1 in 0 { elementwise_add(X=one, Y=one) -> (Out=y) }
  block 2 in 0 { assign(X=x) -> (Out=y) }
  block 3 in 0 { elementwise_add(X=two, Y=two) -> (Out=z) }
  block 4 in 0 { assign(X=x) -> (Out=z) }
}"""


def looped(limit: float) -> ga.Program:
    return ga.Program.parse(LOOP.replace("LIMIT", str(limit)))


@dataclass(frozen=True)
class Forgetful(Constants):
    """It does not follow one kind of way."""

    without: str = ""

    def follows(self, edge: Edge, facts: Facts[Any]) -> bool:
        return edge.kind != self.without and super().follows(edge, facts)


@pytest.mark.parametrize("analysis", [Constants(), _There()], ids=str)
def test_on_random_programs(analysis: Dataflow[Any]) -> None:
    checked = check_analysis(analysis, 30, seed=1)
    assert checked.told > 20


@pytest.mark.parametrize(("limit", "y", "w"), [(3.0, 6, 12), (0.0, 7, 14)])
def test_a_loop_with_a_known_start(limit: float, y: int, w: int) -> None:
    """The value after an iteration where the first one is known to run, else the initial value."""
    graph = ga.lower(looped(limit))
    known = KnownValues(graph)
    arrays = [known.array(graph.value(name)) for name in ("y", "w", "i")]
    assert [None if array is None else array.item() for array in arrays] == [y, w, None if limit else 0]
    check_analysis(Constants(), 1, programs=[looped(limit)])


def test_a_branch_that_is_known_to_be_taken_decides_the_next_one() -> None:
    program = ga.Program.parse(BRANCHES)
    graph = ga.lower(program, ["w"])
    known = KnownValues(graph)
    found = known.array(graph.value("z"))
    assert found is not None
    assert found.item() == 4
    check_analysis(Constants(), 2, programs=[program])
    assert ga.Pipeline.parse("fold-branches").run(graph)
    assert not graph.controls
    assert known.array(graph.value("w")) is None, "x is given from outside"


@pytest.mark.parametrize(("way", "limit"), [(BACK, 3.0), (EXIT, 3.0), (BYPASS, 0.0)])
def test_a_forgotten_way_is_noticed(way: str, limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis_check, "SECONDS", 0.0)
    with pytest.raises(WrongFact):
        check_analysis(Forgetful(way), 1, programs=[Case(looped(limit))])


def test_trip_counts_are_those_of_runs() -> None:
    """Of loops of random programs that are not nested: those ran as often as some loop did."""
    seen = 0
    for number in range(60):
        case = nested_program(RandomChoices(f"trips {number}"), 2, max_statements=3, max_nested=1)
        graph = ga.lower(case.program)
        counts = {count for op, count in TripCounts.of(graph).counts.items() if op.graph is graph}
        scope, executor = ga.Scope(), ga.Executor()
        for name, array in case.params.items():
            scope.set(name, array)
        with suppress(GraphadError):
            executor.run(case.program, case.feeds, [], scope)
            assert counts <= executor.trips
            seen += len(counts)
    assert seen > 10


def test_new_operators_are_looked_at_with_what_was_known_before() -> None:
    graph = ga.lower(looped(3.0))
    known = KnownValues(graph)
    n = graph.value("n")
    assert known.array(n) is not None
    given = graph.add_input("new", (1,), "int64")
    made = [graph.add_value(name, (1,), "int64") for name in ("sum", "other")]
    ops = [graph.add_op("elementwise_add", {"X": [n], "Y": [y]}, {"Out": [out]}) for y, out in zip((n, given), made, strict=True)]
    assert known.array(made[0]) is None, "nothing is said of what it was not told of"
    known.note(ops)
    arrays = [known.array(value) for value in made]
    assert [None if array is None else array.item() for array in arrays] == [6, None]


# -- batch dependence: runs on a batch and on its parts ----------------------------------------------


def arrays_of(graph: ga.Graph, case: Case, feeds: dict[str, Any]) -> dict[ga.ir.Value, Any]:
    """The array of every value of a graph in a run on other data."""
    found: dict[ga.ir.Value, Any] = {}
    watch(graph, replace(case, feeds=feeds), lambda value, array: found.setdefault(value, np.array(array)))
    return found


def of_parts(kind: str, first: Any, second: Any) -> Any:
    """The value for a batch, computed from those of its two halves by the value's kind."""
    if kind == ROWS:
        return np.concatenate([first, second])
    return {WHOLE: first, MEAN: (first + second) / 2 if kind == MEAN else None, TOTAL: first + second if kind == TOTAL else None}[kind]


def test_what_values_are_of_a_batch_is_so_for_its_halves() -> None:
    told = {kind: 0 for kind in (WHOLE, ROWS, MEAN, TOTAL)}
    for number in range(120):
        case = trainable_program(RandomChoices(f"batch {number}"))
        rows = {len(array) for array in case.feeds.values()}
        if len(rows) != 1 or (half := rows.pop() // 2) < 1 or 2 * half != len(next(iter(case.feeds.values()))):
            continue
        graph = ga.lower(case.program)
        facts = BatchDependence(frozenset(graph.given(name) for name in case.feeds), in_blocks=number % 2 > 0).of(graph)
        whole = arrays_of(graph, case, case.feeds)
        halves = [arrays_of(graph, case, {n: a[part] for n, a in case.feeds.items()}) for part in (slice(half), slice(half, None))]
        for op in graph.ordered_ops():
            for value in op.writes() if op.role == FORWARD else ():
                if facts[value] in told and all(value in each for each in (whole, *halves)) and value.dtype in FLOATS:
                    expected = of_parts(facts[value], *(each[value] for each in halves))
                    np.testing.assert_allclose(whole[value], expected, rtol=1e-4, atol=1e-4, err_msg=f"{value} is {facts[value]}")
                    told[facts[value]] += 1
    assert min(told.values()) > 5, told
