"""Branches known to be taken are taken, at once; those that are not are gone."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad.passes.control_flow import FoldBranches
from graphad.testing import Case, check_case, check_pass
from tests.graphs import types
from tests.passes.control_flow.programs import differentiated_program, ops_of, rewritten, same, values, with_gradients

FOLD = "fold-branches"
X = np.array([0.5, -0.75])


def choice(one: str, other: str, condition: str, out: str = "y", kind: str = "if_else", also: str = "") -> ga.Program:
    """An operator with two branches over x, and the mean of y."""
    attrs = "{true_block=block(1), false_block=block(2)}" if kind == "if_else" else "{sub_block=block(1)}"
    last = f"block 2 in 0 {{\n {other} }}" if kind == "if_else" else ""
    slot = "X" if kind == "if_else" else "Input"
    return ga.Program.parse(f"""program {{
  block 0 {{
    var x: float64[2]
    var q: bool[1] stop_gradient
    var c: bool[1] stop_gradient
    var y: float64[2]
    var z: float64[2]
    var loss: float64[]
    {also}
    {condition}
    {kind}(Cond=c, {slot}=x) -> (Out=[{out}]) {attrs}
    mean(X=y) -> (Out=loss)
  }}
  block 1 in 0 {{
    {one}
  }}
  {last}
}}""")


KNOWN = 'fill_constant() -> (Out=c) {shape=[1], value=%s, dtype="bool"}'
COMPUTED = """fill_constant() -> (Out=k) {shape=[1], value=%s, dtype="int64"}
    increment(X=k) -> (Out=k)
    fill_constant() -> (Out=two) {shape=[1], value=2.0, dtype="int64"}
    equal(X=k, Y=two) -> (Out=c)"""
OPEN = "assign(X=q) -> (Out=c)"


@pytest.mark.parametrize("condition", [KNOWN, COMPUTED], ids=["given", "computed"])
@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("kind", ["if_else", "conditional_block"])
def test_a_known_condition(condition: str, taken: bool, kind: str) -> None:
    also = "var k: int64[1]\n var two: int64[1]\n" + ("" if kind == "if_else" else "assign(X=x) -> (Out=y)")
    program = choice("tanh(X=x) -> (Out=y)", "sin(X=x) -> (Out=y)", condition % f"{float(taken)}", kind=kind, also=also)
    graph = rewritten(program, FOLD)
    assert not graph.controls
    assert types(graph)[-2:] == ["tanh" if taken else "sin" if kind == "if_else" else "assign", "mean"]
    assert same(program, graph, ["loss", "y"], x=X)
    assert not FoldBranches().run(graph)


def test_targets_keep_their_names_also_where_a_branch_hands_on_what_it_got() -> None:
    program = choice(
        "sin(X=x) -> (Out=z)", "tanh(X=x) -> (Out=y)", KNOWN % "1.0", out="y, z", also="tanh(X=x) -> (Out=y)\n exp(X=x) -> (Out=z)"
    )
    graph = rewritten(program, FOLD, ["y", "z", "loss"])
    assert not graph.controls
    assert same(program, graph, ["y", "z", "loss"], x=X)


@pytest.mark.parametrize("shape", [[0, 3], [2, 3]])
def test_a_branch_that_runs_where_there_are_elements(shape: list[int]) -> None:
    text = f"program {{\n block 0 {{\n var x: float64{shape}\n var y: float64[2]\n conditional_block(Cond=x, Input=y) -> (Out=y)"
    program = ga.Program.parse(text + " {sub_block=block(1), is_scalar_condition=false}\n }\n block 1 in 0 {\n tanh(X=y) -> (Out=y)\n }\n}")
    graph = rewritten(program, FOLD)
    assert types(graph) == (["tanh"] if shape[0] else [])  # what y was is y already
    assert same(program, graph, ["y"], x=np.ones(shape), y=X)


def test_branches_that_do_the_same() -> None:
    one = "var %s: float64[2]\n tanh(X=x) -> (Out=%s)\n square(X=%s) -> (Out=y)"
    program = choice(one % (("a",) * 3), one % (("b",) * 3), OPEN)
    graph = rewritten(program, FOLD)
    assert types(graph) == ["tanh", "square", "mean"]
    assert same(program, graph, ["loss"], x=X, q=np.array([True]))


@pytest.mark.parametrize("mark", ["stop_gradient", "error_clip=[-0.01, 0.01]"])
def test_branches_one_of_which_stops_or_clips_gradients(mark: str) -> None:
    one = "var %s: float64[2] %s\n tanh(X=x) -> (Out=%s)\n square(X=%s) -> (Out=y)"
    program = choice(one % ("a", mark, "a", "a"), one % ("b", "", "b", "b"), OPEN)
    assert ops_of(rewritten(program, FOLD), "if_else")
    assert types(rewritten(choice(one % ("a", mark, "a", "a"), one % ("b", mark, "b", "b"), OPEN), FOLD)) == ["tanh", "square", "mean"]


@pytest.mark.parametrize(
    "other", ["tanh(X=x) -> (Out=y)\n tanh(X=y) -> (Out=y)", "sin(X=x) -> (Out=y)", "scale(X=x) -> (Out=y) {scale=2.0}"]
)
def test_branches_that_do_not(other: str) -> None:
    graph = rewritten(choice("scale(X=x) -> (Out=y) {scale=3.0}", other, OPEN), FOLD)
    assert ops_of(graph, "if_else")


def test_what_comes_out_as_it_went_in() -> None:
    program = choice("assign(X=x) -> (Out=y)\n sin(X=x) -> (Out=z)", "assign(X=x) -> (Out=y)\n cos(X=x) -> (Out=z)", OPEN, out="y, z")
    graph = rewritten(program, FOLD)
    (branch,) = ops_of(graph, "if_else")
    assert [value.name for value in branch.outputs["Out"]] == ["z"]
    assert same(program, graph, ["loss", "z"], x=X, q=np.array([False]))


def loop(also: str = "") -> ga.Program:
    return ga.Program.parse(f"""program {{
  block 0 {{
    var x: float64[2]
    var c: bool[1] stop_gradient
    var loss: float64[]
    fill_constant() -> (Out=c) {{shape=[1], value=0.0, dtype="bool"}}
    while(X=x, Condition=c) -> (Out=[x, c]) {{sub_block=block(1)}}
    mean(X=x) -> (Out=loss)
  }}
  block 1 in 0 {{
    {also}
    tanh(X=x) -> (Out=x)
    logical_not(X=c) -> (Out=c)
  }}
}}""")


def test_a_loop_that_never_runs() -> None:
    program = loop()
    graph = rewritten(program, FOLD, ["loss", "x"])
    assert "while" not in types(graph)
    assert same(program, graph, ["loss", "x"], x=X)


def test_a_loop_that_never_runs_stays_with_its_gradient() -> None:
    program = loop()
    (name,) = with_gradients(["x"], program)
    before = values(program, [name], x=X)
    graph = rewritten(program, FOLD, ["loss", name])
    assert "while_grad" in types(graph)
    np.testing.assert_array_equal(values(ga.schedule(graph), [name], x=X), before)


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_goes_together_with_its_gradient(taken: bool) -> None:
    one = "var t: float64[2]\n tanh(X=x) -> (Out=t)\n elementwise_mul(X=t, Y=x) -> (Out=y)"
    program = choice(one, "sin(X=x) -> (Out=y)", KNOWN % f"{float(taken)}")
    (name,) = with_gradients(["x"], program)
    graph = rewritten(program, FOLD, ["loss", name])
    assert not graph.controls
    assert same(program, graph, ["loss", name], x=X)


def test_a_branch_in_a_loop_goes_together_with_its_gradient() -> None:
    """Here the gradient's graph reads what an iteration left of the branch."""
    program = ga.Program.parse("""program {
  block 0 {
    var x: float64[2]
    var n: int64[1] stop_gradient
    var i: int64[1] stop_gradient
    var more: bool[1] stop_gradient
    var yes: bool[1] stop_gradient
    var loss: float64[]
    fill_constant() -> (Out=yes) {shape=[1], value=1.0, dtype="bool"}
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
    less_than(X=i, Y=n) -> (Out=more)
    while(X=[x, n, i, yes], Condition=more) -> (Out=[x, i, more]) {sub_block=block(1)}
    mean(X=x) -> (Out=loss)
  }
  block 1 in 0 {
    if_else(Cond=yes, X=x) -> (Out=x) {true_block=block(2), false_block=block(3)}
    increment(X=i) -> (Out=i)
    less_than(X=i, Y=n) -> (Out=more)
  }
  block 2 in 1 {
    var t: float64[2]
    tanh(X=x) -> (Out=t)
    elementwise_mul(X=t, Y=x) -> (Out=x)
  }
  block 3 in 1 {
    sin(X=x) -> (Out=x)
  }
}""")
    (name,) = with_gradients(["x"], program)
    graph = rewritten(program, FOLD, ["loss", name])
    assert not ops_of(graph, "if_else")
    assert not ops_of(graph, "if_else_grad")
    assert same(program, graph, ["loss", name], x=X, n=np.array([3]))


def test_random_operators_draw_what_they_drew() -> None:
    """The second of two random operators of one name is the first one left, and still draws as the second."""
    draw = 'uniform_random() -> (Out=d) {shape=[2], min=0.0, max=1.0, seed=0, dtype="float64"}\n elementwise_mul(X=x, Y=d) -> (Out=y)'
    for other in (draw.replace("=d", "=e"), draw):
        program = choice("var d: float64[2]\n var e: float64[2]\n" + draw, "var d: float64[2]\n var e: float64[2]\n" + other, KNOWN % "0.0")
        program.random_seed = 5
        graph = rewritten(program, FOLD)
        assert not graph.controls
        assert same(program, graph, ["loss"], x=X)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("cast(X=c) -> (Out=m) {out_dtype='int32'}\n select_input(X=[x, z], Mask=m) -> (Out=y)", "exp"),
        ("merge_lod_tensor(Mask=both, InTrue=x, InFalse=none) -> (Out=y)", "assign"),
        ("where(Condition=both, X=x, Y=z) -> (Out=y)", "assign"),
        ("cast(X=c) -> (Out=m) {out_dtype='int32'}\n select_output(X=x, Mask=m, Like=[z, z]) -> (Out=[v, y])", "assign"),
    ],
    ids=["select_input", "merge_lod_tensor", "where", "select_output"],
)
def test_a_known_choice(text: str, left: str) -> None:
    program = ga.Program.parse(
        """program {
  block 0 {
    var x: float64[2]
    var z: float64[2]
    var y: float64[2]
    var v: float64[2]
    var c: bool[1]
    var both: bool[2]
    var none: float64[0]
    var m: int32[1]
    exp(X=x) -> (Out=z)
    fill_constant() -> (Out=c) {shape=[1], value=1.0, dtype="bool"}
    fill_constant() -> (Out=none) {shape=[0], value=1.0, dtype="float64"}
    fill_constant() -> (Out=both) {shape=[2], value=1.0, dtype="bool"}
    """
        + text.replace("'", '"')
        + "\n }\n}"
    )
    graph = rewritten(program, FOLD, ["y"])
    writer = graph.value("y").writer
    assert writer is not None
    assert writer.type == left
    assert same(program, graph, ["y"], x=X)


def test_a_feed_that_only_the_other_branch_overwrites_is_kept() -> None:
    """Nothing reads z, so the graph does not know that it is fed; the branch that is taken leaves it as it was."""
    program = choice("assign(X=x) -> (Out=z)", "", 'fill_constant() -> (Out=c) {shape=[1], dtype="bool", value=0.0}', out="z")
    program = ga.Program.parse(str(program).replace("    mean(X=y) -> (Out=loss)\n", ""))
    graph = ga.lower(program, ["z"])
    assert ga.Pipeline.parse(FOLD).run(graph)
    folded = ga.schedule(graph)
    for mode in ("interpreted", "compiled"):
        (before,) = ga.Executor(mode=mode).run(program, {"x": X, "z": 2 * X}, ["z"], scope=ga.Scope())
        (after,) = ga.Executor(mode=mode).run(folded, {"z": 2 * X}, ["z"], scope=ga.Scope())
        np.testing.assert_array_equal(before, 2 * X)
        np.testing.assert_array_equal(after, 2 * X)
    with pytest.raises(ga.errors.InvalidValue, match="'z', which is not fed and no operator writes"):
        ga.Executor().run(folded, {}, ["z"], scope=ga.Scope())


def test_a_branch_not_taken_stays_where_it_alone_may_write_what_is_read_lazily() -> None:
    """``select_input`` makes do without what it does not choose, but a name that no operator may write is an error."""
    text = """program { block 0 { var x: float32[1] var c: bool[1] var y: float32[1] var n: int32[1] var z: float32[1]
    var loss: float32[] mean(X=x) -> (Out=loss) fill_constant() -> (Out=c) {shape=[1], value=0.0, dtype="bool"}
    conditional_block(Cond=c, Input=x) -> (Out=y) {sub_block=block(1)} select_input(X=[y, x], Mask=n) -> (Out=z) }
    block 1 in 0 { tanh(X=x) -> (Out=y) } }"""
    feeds = {"x": np.ones(1, "float32"), "n": np.ones(1, "int32")}
    check_case("fold-branches", Case(ga.Program.parse(text), "loss", feeds, requested=("z",)))


def test_random_programs() -> None:
    assert check_pass(FoldBranches(), examples=60, seed=1).changed


def test_random_programs_with_gradients() -> None:
    assert check_pass(FoldBranches(), examples=20, programs=differentiated_program, seed=3).changed
