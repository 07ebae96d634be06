"""The facts that the passes on control flow use: which operators can fail, which values exist, which are constants."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import graphad as ga
from graphad.ir.regions import BYPASS, Edge
from graphad.ops import REGISTRY
from graphad.passes.analyses.known_values import KnownValues
from graphad.passes.analyses.speculation import may_run_early
from graphad.passes.analyses.uninitialized import Certain, _There
from graphad.testing import Case, analysis_check
from graphad.testing.analysis_check import WrongFact, check_analysis
from tests.passes.control_flow.programs import counted, ops_of

EXTREME = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300]
UNARY = sorted(type for type, definition in REGISTRY.items() if definition.speculatable == "always")
BINARY = sorted(type for type, definition in REGISTRY.items() if definition.speculatable == "types" and [*definition.inputs] == ["X", "Y"])


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_what_may_run_early_does_not_fail(name: str) -> None:
    """On nothing, on zeros, on what is nan or infinite: either it is refused beforehand, or it runs."""
    definition = REGISTRY[name]
    attrs = {key: value for key, value in {"value": 1.0, "out_dtype": "int32"}.items() if key in definition.attrs}
    dtypes = ("float64", "float32", "int64", "int32", "uint8", "bool")
    for dtype, shape in itertools.product(dtypes, ([0], [6], [], [2, 2], [0, 0])):
        graph = ga.lower(ga.Program.parse(f"program {{\n block 0 {{\n var x: {dtype}{shape}\n }}\n}}"))
        slots = [*definition.inputs] if name in BINARY else [*definition.inputs][:1]
        x = graph.given("x")
        op = graph.add_op(
            name, {slot: [x] for slot in slots}, {next(iter(definition.outputs)): [graph.add_value("out", x.shape, dtype)]}, attrs
        )
        if may_run_early(op):
            with np.errstate(all="ignore"):
                array = np.resize(np.array(EXTREME), shape).astype(dtype)
                definition.run({slot: [array] for slot in slots}, attrs, tuple(op.outputs))


def test_what_reads_its_extents_may_fail() -> None:
    text = "var x: float64[2, 3]\n var s: int32[2]\n var y: float64[-1, -1]\n"
    for reads, early in (("X=x", True), ("X=x, Shape=s", False)):
        program = ga.Program.parse(f"program {{ block 0 {{ {text} reshape2({reads}) -> (Out=y) {{shape=[3, 2]}} }} }}")
        assert [may_run_early(op) for op in ga.lower(program).ops] == [early]


def test_what_is_there() -> None:
    program = ga.Program.parse("""program {
  block 0 {
    var x: float64[2]
    var y: float64[2]
    var z: float64[2]
    var v: float64[2]
    var c: bool[1]
    conditional_block(Cond=c, Input=x) -> (Out=y) {sub_block=block(1)}
    if_else(Cond=c, X=[x, y]) -> (Out=[z, v]) {true_block=block(2), false_block=block(3)}
    assign(X=y) -> (Out=x)
  }
  block 1 in 0 {
    tanh(X=x) -> (Out=y)
  }
  block 2 in 0 {
    tanh(X=x) -> (Out=z)
    assign(X=y) -> (Out=v)
  }
  block 3 in 0 {
    sin(X=x) -> (Out=z)
    sin(X=x) -> (Out=v)
  }
}""")
    graph = ga.lower(program)
    certain = Certain.of(graph).values
    there = {repr(value): value in certain for value in graph.values}
    assert {"z": there["z"], "v": there["v"], "c": there["c"]} == {"z": True, "v": False, "c": True}
    assert graph.value("y") not in certain
    assert graph.value("x") not in certain


MAYBE_NEVER = """program {
  block 0 {
    var x: float64[2]
    var y: float64[2]
    var z: float64[2]
    var c: bool[1]
    var d: bool[1]
    while(X=x, Condition=c) -> (Out=[y, c]) {sub_block=block(1)}
    while(X=y, Condition=d) -> (Out=[z, d]) {sub_block=block(2)}
  }
  block 1 in 0 {
    tanh(X=x) -> (Out=y)
    logical_and(X=c, Y=d) -> (Out=c)
  }
  block 2 in 0 {
    var t: float64[2]
    tanh(X=y) -> (Out=t)
    sin(X=t) -> (Out=z)
    logical_xor(X=d, Y=d) -> (Out=d)
  }
}"""


def test_what_only_a_loop_writes_is_not_there_for_certain() -> None:
    """It may run no iteration; so nothing that reads it moves in front of another loop, which may run none either."""
    program, never = ga.Program.parse(MAYBE_NEVER), np.zeros(1, bool)
    graph = ga.lower(program, ["x"])
    assert graph.value("y") not in Certain.of(graph).values
    ga.Pipeline.parse("hoist-invariants").run(graph)
    feed = {"x": np.ones(2), "c": never, "d": never}
    assert [result.tolist() for result in ga.Executor().run(ga.schedule(graph), feed, ["x"])] == [[1.0, 1.0]]


def test_what_is_there_for_certain_is_there_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutBypass(_There):
        def along(self, edge: Edge, fact: bool) -> bool:
            return edge.kind == BYPASS or super().along(edge, fact)

    programs = [
        Case(ga.Program.parse(MAYBE_NEVER), feeds={"x": np.ones(2), "c": np.array([run], bool), "d": np.array([False])}) for run in (0, 1)
    ]
    assert check_analysis(_There(), 2, programs=programs).told
    assert check_analysis(_There(), 3).told
    monkeypatch.setattr(analysis_check, "SECONDS", 0.0)
    with pytest.raises(WrongFact, match="says of y#1 True, but it is not there"):
        check_analysis(WithoutBypass(), 2, programs=programs)


def test_constants_are_followed_into_loops_but_not_what_they_carry() -> None:
    program = counted("elementwise_add(X=n, Y=n) -> (Out=m)", declared='fill_constant() -> (Out=n) {shape=[1], value=3.0, dtype="int64"}')
    graph = ga.lower(program)
    known = KnownValues(graph)
    (loop,) = ops_of(graph, "while")
    body = loop.graphs["sub_block"]
    number = known.array(body.value("n"))
    assert number is not None
    assert number.tolist() == [3]
    assert known.array(body.inputs[loop.inputs["X"].index(graph.value("i#0"))]) is None
    assert known.iterations(loop, 3) == 3
    assert known.iterations(loop, 2) is None
