"""Forward mode: tangents against central differences, and against gradients, whose transpose they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import one_of

import graphad as ga
from graphad.errors import Refused
from graphad.ops.sample import Sample
from graphad.passes.differentiation import Jvp, Tangents
from graphad.testing import Case, nested_programs, optimizable_programs, straight_line_programs
from graphad.testing.derivatives import gradient_values
from graphad.testing.equivalence import observe
from graphad.types import Array
from tests.ops.test_higher_order import CASES, Derivatives
from tests.shares import one_in

STEP = 1e-5


def tangent_of(program: ga.Program, target: str, directions: dict[str, Array], **options: Any) -> ga.Program:
    """The program with the tangent of a target, ``target@TANGENT``; directions are fed as ``<input>.direction``."""
    graph = ga.lower(program)
    Jvp((target,), tuple(directions), tuple(f"{name}.direction" for name in directions), **options).run(graph)
    return ga.schedule(graph)


def run(program: ga.Program, feed: dict[str, Array], *fetch: str) -> list[Array]:
    return ga.Executor().run(program, feed=feed, fetch_list=list(fetch), scope=ga.Scope())


def fed(feed: dict[str, Array], directions: dict[str, Array]) -> dict[str, Array]:
    return {**feed, **{f"{name}.direction": v for name, v in directions.items()}}


# -- every operator ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "sample", "order"), one_in(3, [pytest.param(*c.values, 2 if str(c.id).endswith("-0") else 1, id=c.id) for c in CASES])
)
def test_tangents_of_operators_are_the_transpose_of_their_gradients(op: str, sample: Sample, order: int) -> None:
    """Of the gradients of each operator's first sample, too."""
    case = Derivatives(op, sample, order)
    for scalar, gradients in zip(case.scalars, case.gradients, strict=True):
        check_transpose(case, scalar, gradients)


def check_transpose(case: Derivatives, scalar: ga.Variable, gradients: list[ga.Variable | None]) -> None:
    found = [(v.name, g) for v, g in zip(case.inputs, gradients, strict=True)]
    names = [g.name for _, g in found if g is not None]
    values = dict(zip(names, run(case.program, case.feed, *names), strict=True))
    directions = {name: np.random.default_rng(i).normal(size=case.feed[name].shape) for i, (name, _) in enumerate(found)}
    program = tangent_of(case.program, scalar.name, directions)
    (got,) = run(program, fed(case.feed, directions), f"{scalar.name}@TANGENT")
    terms = [values[g.name] * directions[name] for name, g in found if g is not None]
    size = sum(float(np.abs(term).sum()) for term in terms)
    np.testing.assert_allclose(got, sum(float(term.sum()) for term in terms), rtol=0, atol=1e-10 * max(1.0, size))


# -- programs ------------------------------------------------------------------------------------


@given(one_of(straight_line_programs(), nested_programs(), optimizable_programs()))
def test_tangents_of_programs_are_the_transpose_of_their_gradients(case: Case) -> None:
    arrays, sources = {**case.feeds, **case.params}, [n for n in case.sources if case.program.global_block().has_var(n)]
    gradients = gradient_values(case.program, case, sources)
    if not sources or not all(np.isfinite(g).all() for g in gradients.values()):
        return
    rng = np.random.default_rng(1)
    directions = {name: rng.normal(size=arrays[name].shape).astype(arrays[name].dtype) for name in sources}
    program = tangent_of(case.program, case.loss_name, directions)
    assert str(ga.schedule(ga.lower(program))) == str(program)
    terms = [gradients[name].astype("float64") * directions[name] for name in sources]
    size = max(1.0, sum(float(np.abs(term).sum()) for term in terms))
    rounding = 1e-3 if any(var.dtype == "float32" for var in program.list_vars()) else 1e-9
    (loss,) = observe(case.program, case, [case.loss_name]).values.values()
    for compiled in (False, True):
        with_directions = Case(program, case.loss_name, fed(case.feeds, directions), case.params)
        got = observe(program, with_directions, [case.loss_name, f"{case.loss_name}@TANGENT"], compiled).values
        np.testing.assert_array_equal(got[case.loss_name], loss)
        assert abs(got[f"{case.loss_name}@TANGENT"].item() - sum(float(term.sum()) for term in terms)) <= rounding * size


LOOP = """program {
  block 0 {
    var x: float64[3]
    var w: float64[3]
    var h: float64[3]
    var n: int64[1]
    var i: int64[1]
    var more: bool[1]
    assign(X=x) -> (Out=h)
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
    less_than(X=i, Y=n) -> (Out=more)
    while(X=[h, i, n, w], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
  }
  block 1 in 0 {
    var a: float64[3]
    elementwise_mul(X=h, Y=w) -> (Out=a)
    sin(X=a) -> (Out=h)
    increment(X=i) -> (Out=i) {step=1.0}
    less_than(X=i, Y=n) -> (Out=more)
  }
}"""


@pytest.mark.parametrize("iterations", [0, 1, 4])
def test_a_loop_carries_the_tangent(iterations: int) -> None:
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=3), "w": rng.normal(size=3), "n": np.array([iterations])}
    directions = {"x": rng.normal(size=3), "w": rng.normal(size=3)}
    program = tangent_of(ga.Program.parse(LOOP), "h", directions)
    assert "tape" not in str(program)
    (got,) = run(program, fed(feed, directions), "h@TANGENT")
    ends = [run(program, fed({**feed, **_moved(feed, directions, s * STEP)}, directions), "h")[0] for s in (1, -1)]
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / (2 * STEP), rtol=1e-7, atol=1e-9)


def _moved(feed: dict[str, Array], directions: dict[str, Array], step: float) -> dict[str, Array]:
    return {name: feed[name] + step * v for name, v in directions.items()}


SQUARE = """program {
  block 0 {
    var x: float64[2]
    var k: int64[2]
    var y: float64[2]
    var z: float64[2]
    square(X=x) -> (Out=y)
    tanh(X=y) -> (Out=z)
  }
}"""


def test_an_input_on_the_way_moves_by_itself_as_well() -> None:
    x = np.array([0.3, -0.5])
    directions = {"x": np.array([1.0, 2.0]), "y": np.array([0.25, -4.0])}
    program = tangent_of(ga.Program.parse(SQUARE), "z", directions)
    (got,) = run(program, fed({"x": x}, directions), "z@TANGENT")
    np.testing.assert_allclose(got, (1 - np.tanh(x * x) ** 2) * (2 * x * directions["x"] + directions["y"]), rtol=1e-14)


def test_a_tangent_that_is_not_named_is_ones() -> None:
    graph = ga.lower(ga.Program.parse(SQUARE))
    Jvp(("z", "x"), ("x",)).run(graph)
    z, x = run(ga.schedule(graph), {"x": np.array([0.3, -0.5])}, "z@TANGENT", "x@TANGENT")
    np.testing.assert_allclose(z, (1 - np.tanh(np.array([0.09, 0.25])) ** 2) * np.array([0.6, -1.0]), rtol=1e-14)
    np.testing.assert_array_equal(x, [1.0, 1.0])


def test_what_does_not_move_has_a_tangent_of_zeros() -> None:
    graph = ga.lower(ga.Program.parse(SQUARE))
    Jvp(("y",), ("z",), ("v",)).run(graph)
    (got,) = run(ga.schedule(graph), {"x": np.array([0.3, -0.5]), "v": np.ones(2)}, "y@TANGENT")
    np.testing.assert_array_equal(got, [0.0, 0.0])


def test_a_value_is_printed_once_and_its_tangent_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    program = ga.Program.parse("""program { block 0 {
      var x: float64[1]
      var y: float64[1]
      var z: float64[1]
      print(In=x) -> (Out=y) {message="seen"}
      square(X=y) -> (Out=z)
    } }""")
    directions = {"x": np.array([2.0])}
    (got,) = run(tangent_of(program, "z", directions), fed({"x": np.array([3.0])}, directions), "z@TANGENT")
    assert got == [12.0]
    assert capsys.readouterr().out.count("seen") == 1


def test_the_analysis_knows_the_tangents() -> None:
    graph = ga.lower(ga.Program.parse(SQUARE))
    Jvp(("z",), ("x",), ("v",)).run(graph)
    made: Tangents = graph.analyses[Tangents]
    assert made.tangent[graph.value("x")] is graph.value("v")
    assert made.tangent[graph.value("z")] is graph.value("z@TANGENT")
    assert set(graph.targets) == {graph.value("z"), graph.value("z@TANGENT")}


def test_a_product_with_the_hessian_is_forward_over_reverse() -> None:
    program = ga.Program.parse(SQUARE)
    block = program.global_block()
    with ga.program_guard(program, ga.Program()):
        loss = ga.layers.reduce_sum(block.var("z"))
    block.var("x").stop_gradient = False
    (gradient,) = ga.gradients(loss, [block.var("x")])
    assert gradient is not None
    x, v = np.array([0.3, -0.5]), np.array([1.0, 2.0])
    (got,) = run(tangent_of(program, gradient.name, {"x": v}), fed({"x": x}, {"x": v}), f"{gradient.name}@TANGENT")
    t, slope = np.tanh(x * x), 1 - np.tanh(x * x) ** 2
    np.testing.assert_allclose(got, v * (2 * slope - 8 * x * x * t * slope), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jvp{targets=[z], inputs=[x], tangents=[a, b]}", "2 tangents are given for 1 inputs"),
        ("jvp{targets=[z], inputs=[x], tangents=[k]}", "input 'x' is float64, its tangent 'k' is int64"),
        ("jvp{targets=[q], inputs=[x]}", "the graph has no value 'q'"),
    ],
)
def test_refusals(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ga.Pipeline.parse(text).run(ga.lower(ga.Program.parse(SQUARE)))


@pytest.mark.parametrize("op", ["assign", "sum"])
def test_data_that_only_operators_read_which_can_do_without_has_a_tangent(op: str) -> None:
    text = f"program {{ block 0 {{ var x: float64[2] var y: float64[2] var l: float64[] {op}(X=x) -> (Out=y) mean(X=y) -> (Out=l) }} }}"
    graph = ga.lower(ga.Program.parse(text))
    Jvp(("l",)).run(graph)
    (got,) = run(ga.schedule(graph), {"x": np.ones(2)}, "l@TANGENT")
    assert got == 1.0


UNTYPED = """program { block 0 {
    var c: bool[1] var x: float64[3] var y: float64[3] var loss: float64[]
    conditional_block(Cond=c, Input=[x, y]) -> (Out=[y]) {sub_block=block(1)}
    mean(X=y) -> (Out=loss)
  }
  block 1 in 0 {
    var t: ?[?]
    square(X=x) -> (Out=t)
    elementwise_mul(X=t, Y=y) -> (Out=y)
  }
}"""


def test_a_value_without_a_type_is_refused_before_anything_changes() -> None:
    graph = ga.lower(ga.Program.parse(UNTYPED), ["loss"])
    text = str(graph)
    with pytest.raises(Refused, match="value t has no type, which its tangent needs"):
        Jvp(("loss",)).run(graph)
    assert str(graph) == text
