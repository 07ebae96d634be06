"""Mixed precision: where casts stand, and that programs compute the same but for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import PassError
from graphad.ir import Graph
from graphad.passes.precision import MixedPrecision
from graphad.testing import Case, check_case, check_pass
from graphad.testing.cases import random_case
from graphad.testing.programs import case_with_gradients
from tests.graphs import types

layers: Any = ga.layers
RNG = np.random.default_rng(0)
FEED = {"x": RNG.normal(size=(12, 8)).astype("float32"), "y": RNG.integers(0, 4, (12, 1))}

CHAIN = """program {
  block 0 {
    var x: float32[4, 3]
    param w: float32[3, 3]
    param b: float32[3]
    var h: float32[4, 3]
    var s: float32[4, 3]
    var r: float32[4, 3]
    var z: float32[4, 3]
    var e: float32[4, 3]
    mul(X=x, Y=w) -> (Out=h)
    elementwise_add(X=h, Y=b) -> (Out=s)
    relu(X=s) -> (Out=r)
    mul(X=r, Y=w) -> (Out=z)
    exp(X=z) -> (Out=e)
  }
}"""


def narrowed(text: str, *targets: str, **options: Any) -> Graph:
    graph = ga.lower(ga.Program.parse(text), targets or None)
    MixedPrecision(**options).run(graph)
    return graph


def dtypes(graph: Graph) -> dict[str, set[str | None]]:
    """By operator type, the floating-point dtypes that it reads and writes."""
    found: dict[str, set[str | None]] = {}
    for op in graph.ops:
        found.setdefault(op.type, set()).update(v.dtype for v in (*op.reads(), *op.writes()) if v.dtype != "int64")
    return found


def test_products_and_what_follows_them_are_narrow() -> None:
    graph = narrowed(CHAIN)
    assert types(graph) == ["cast", "cast", "mul", "cast", "elementwise_add", "relu", "mul", "cast", "exp"]
    found = dtypes(graph)
    assert found["mul"] == found["elementwise_add"] == found["relu"] == {"float16"}
    assert found["exp"] == {"float32"}


def test_what_is_requested_stays_wide_and_keeps_its_name() -> None:
    graph = narrowed(CHAIN, "r", "e")
    assert [(v.name, v.dtype) for v in graph.targets] == [("r", "float32"), ("e", "float32")]
    assert graph.value("r").writers[0].type == "cast"


def test_what_is_kept_stays_wide() -> None:
    assert dtypes(narrowed(CHAIN, keep=("relu",)))["relu"] == {"float32"}
    assert "cast" not in dtypes(narrowed(CHAIN, keep=("mul",)))
    assert types(narrowed(CHAIN, keep=("h",)))[:2] == ["mul", "elementwise_add"]


def test_casts_that_are_there_already_cancel() -> None:
    text = CHAIN.replace("    exp(X=z) -> (Out=e)", '    cast(X=z) -> (Out=z16) {out_dtype="float16"}')
    text = text.replace("var e: float32[4, 3]", "var z16: float16[4, 3]")
    graph = narrowed(text, "z16")
    assert types(graph)[-3:] == ["mul", "cast", "cast"]
    again = narrowed(str(ga.schedule(graph)), "z16")
    assert types(again) == types(graph)


def test_a_sum_with_something_wide_stays_wide() -> None:
    text = CHAIN.replace("elementwise_add(X=h, Y=b)", "elementwise_add(X=h, Y=x)")
    assert dtypes(narrowed(text))["elementwise_add"] == {"float32"}


def test_gradients_stop_where_they_stopped() -> None:
    graph = narrowed(CHAIN.replace("var h: float32[4, 3]", "var h: float32[4, 3] stop_gradient"))
    mul = next(op for op in graph.ops if op.type == "mul")
    (cast,) = mul.output("Out").readers
    assert cast.output("Out").stop_gradient
    assert dtypes(graph)["elementwise_add"] == {"float32"}


def test_gradients_are_clipped_where_they_were() -> None:
    graph = narrowed(CHAIN.replace("var h: float32[4, 3]", "var h: float32[4, 3] error_clip=[-0.01, 0.01]"))
    mul = next(op for op in graph.ops if op.type == "mul")
    (cast,) = mul.output("Out").readers
    assert cast.output("Out").error_clip is not None
    assert dtypes(graph)["elementwise_add"] == {"float32"}


class Training:
    """A classifier with its backward and sgd."""

    def __init__(self) -> None:
        self.main, self.startup = ga.Program(), ga.Program()
        self.startup.random_seed = 3
        with ga.program_guard(self.main, self.startup):
            x = layers.data("x", shape=[12, 8], append_batch_size=False)
            y = layers.data("y", shape=[12, 1], dtype="int64", append_batch_size=False)
            hidden = layers.layer_norm(layers.fc(x, size=16, act="tanh"))
            self.loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(hidden, size=4), y))
            ga.optimizer.SGD(0.5).minimize(self.loss)

    def narrowed(self, **options: Any) -> Graph:
        graph = ga.lower(self.main, [self.loss.name])
        assert MixedPrecision(**options).run(graph)
        return graph

    def run(self, program: ga.Program, steps: int = 5) -> tuple[list[float], dict[str, Any]]:
        scope, executor = ga.Scope(), ga.Executor()
        executor.run(self.startup, scope=scope)
        losses = [float(executor.run(program, FEED, [self.loss.name], scope)[0]) for _ in range(steps)]
        return losses, {name: scope.get(name) for name in scope.names()}


@pytest.mark.parametrize("loss_scale", [1.0, 1024.0])
def test_training_in_float16(loss_scale: float) -> None:
    one = Training()
    graph = one.narrowed(loss_scale=loss_scale)
    found = dtypes(graph)
    assert found["mul"] == found["mul_grad"] == {"float16"}
    assert found["sgd"] == found["layer_norm"] == found["softmax_with_cross_entropy"] == {"float32"}
    losses, scope = one.run(one.main)
    got, after = one.run(ga.schedule(graph))
    np.testing.assert_allclose(got, losses, rtol=2e-3)
    for name, array in scope.items():
        assert after[name].dtype == array.dtype == np.float32
        np.testing.assert_allclose(after[name], array, rtol=0, atol=2e-3 * max(1e-3, float(np.abs(array).max())), err_msg=name)


def test_the_backward_of_a_narrow_forward_part() -> None:
    main, startup = ga.Program(), ga.Program()
    startup.random_seed = 3
    with ga.program_guard(main, startup):
        x = layers.data("x", shape=[12, 8], append_batch_size=False)
        loss = layers.mean(layers.square(layers.fc(x, size=4)))
    graph = ga.lower(main, [loss.name])
    MixedPrecision().run(graph)
    ga.Pipeline.parse(f"find-op-path{{targets=[{loss.name}]}}, create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars").run(
        graph
    )
    gradients = [graph.value(f"{p.name}@GRAD") for p in main.all_parameters()]
    assert [(g.dtype, g.shape) for g in gradients] == [(p.dtype, p.shape) for p in main.all_parameters()]
    assert dtypes(graph)["mul_grad"] == {"float16"}


SMALL = """program {
  block 0 {
    var x: float32[1, 1]
    param w: float32[1, 1]
    var h: float32[1, 1]
    var s: float32[1, 1]
    var loss: float32[]
    mul(X=x, Y=w) -> (Out=h)
    scale(X=h) -> (Out=s) {scale=1e-09}
    mean(X=s) -> (Out=loss)
  }
}"""


@pytest.mark.parametrize(("loss_scale", "expected"), [(1.0, 0.0), (2.0**20, 3e-9)])
def test_a_scaled_loss_keeps_small_gradients(loss_scale: float, expected: float) -> None:
    program = ga.Program.parse(SMALL)
    ga.append_backward(program.global_block().var("loss"))
    graph = ga.lower(program, ["w@GRAD"])
    MixedPrecision(loss_scale=loss_scale).run(graph)
    assert not MixedPrecision(loss_scale=loss_scale).run(graph)
    scope = ga.Scope()
    scope.set("w", np.ones((1, 1), "float32"))
    (got,) = ga.Executor().run(ga.schedule(graph), {"x": np.full((1, 1), 3.0, "float32")}, ["w@GRAD"], scope)
    np.testing.assert_allclose(got, [[expected]], rtol=1e-3)


def test_a_gradient_of_the_loss_that_is_requested_is_not_scaled() -> None:
    program = ga.Program.parse(SMALL)
    ga.append_backward(program.global_block().var("loss"))
    graph = ga.lower(program, ["loss@GRAD", "w@GRAD"])
    MixedPrecision(loss_scale=8.0).run(graph)
    assert not MixedPrecision(loss_scale=8.0).run(graph)
    scope = ga.Scope()
    scope.set("w", np.ones((1, 1), "float32"))
    (got,) = ga.Executor().run(ga.schedule(graph), {"x": np.ones((1, 1), "float32")}, ["loss@GRAD"], scope)
    assert got == 1.0


def test_what_does_not_scale_with_the_loss_is_not_divided() -> None:
    """The number of elements of a gradient is requested beside it."""
    program = ga.Program.parse(
        """program { block 0 { var x: float32[3] var g@GRAD: float32[3] var gx@GRAD: float32[3] var n@GRAD: int64[]
        fill_any_like(X=x) -> (Out=g@GRAD) {value=1.0} backward size(Input=g@GRAD) -> (Out=n@GRAD) backward
        relu_grad(Out=x, Out@GRAD=g@GRAD) -> (X@GRAD=gx@GRAD) backward } }"""
    )
    graph = ga.lower(program, ["n@GRAD", "gx@GRAD"])
    MixedPrecision(loss_scale=8.0).run(graph)
    count, gradient = ga.Executor().run(ga.schedule(graph), {"x": np.array([-1.0, 2.0, 3.0], "float32")}, ["n@GRAD", "gx@GRAD"])
    assert count == 3
    assert gradient.tolist() == [0.0, 1.0, 1.0]


def test_a_gradient_of_a_gradient_is_not_scaled_twice_nor_left_scaled() -> None:
    """``square_grad`` is linear in its X too, which is a gradient here, and another cotangent comes from outside."""
    program = ga.Program.parse(
        """program { block 0 { var x: float32[3] var h@GRAD: float32[3] var g@GRAD: float32[3] var p@GRAD: float32[3]
        var gx@GRAD: float32[3] fill_any_like(X=x) -> (Out=g@GRAD) {value=1.0} backward
        square_grad(X=g@GRAD, Out@GRAD=h@GRAD) -> (X@GRAD=gx@GRAD) backward
        elementwise_mul(X=g@GRAD, Y=g@GRAD) -> (Out=p@GRAD) backward } }"""
    )
    graph = ga.lower(program, ["gx@GRAD", "p@GRAD"])
    MixedPrecision(loss_scale=8.0).run(graph)
    feed = {"x": np.ones(3, "float32"), "h@GRAD": np.array([1.0, 2.0, 3.0], "float32")}
    gradient, product = ga.Executor().run(ga.schedule(graph), feed, ["gx@GRAD", "p@GRAD"])
    assert gradient.tolist() == [2.0, 4.0, 6.0]
    assert product.tolist() == [1.0, 1.0, 1.0]


BRANCH = """program { block 0 { param w: float32[2] param b: float32[2] var c: bool[1] var h: float32[2] var loss: float32[]
if_else(Cond=c, X=[w, b]) -> (Out=h) {true_block=block(1), false_block=block(2)} tanh(X=h) -> (Out=h) mean(X=h) -> (Out=loss) }
block 1 in 0 { elementwise_mul(X=w, Y=b) -> (Out=h) } block 2 in 0 { assign(X=w) -> (Out=h) } }"""

LOOP = """program { block 0 { param w: float32[2] var h: float32[2] var i: float32[1] var n: float32[1] var c: bool[1] var loss: float32[]
fill_constant() -> (Out=i) {shape=[1], value=0.0} fill_constant() -> (Out=n) {shape=[1], value=3.0}
elementwise_mul(X=w, Y=w) -> (Out=h) less_than(X=i, Y=n) -> (Out=c)
while(X=[h, i, c, w, n], Condition=c) -> (Out=[h, i, c]) {sub_block=block(1)} mean(X=h) -> (Out=loss) }
block 1 in 0 { elementwise_mul(X=h, Y=w) -> (Out=h) sin(X=h) -> (Out=h)
increment(X=i) -> (Out=i) {step=1.0} less_than(X=i, Y=n) -> (Out=c) } }"""


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("text", [BRANCH, LOOP], ids=["branch", "loop"])
def test_gradients_of_loops_and_branches_are_scaled_where_they_are_linear(text: str, order: int) -> None:
    """The factors of second-order gradients are residuals of the first backward, which is not scaled then."""
    case = random_case(ga.Program.parse(text), loss_name="loss")
    differentiated = case_with_gradients(case, order)
    assert differentiated is not None
    check_case("mixed-precision{loss_scale=8.0}", differentiated)
    graph = ga.lower(differentiated.program, differentiated.targets)
    MixedPrecision(loss_scale=8.0).run(graph)
    assert any("@SCALED" in value.name for value in graph.values)


def test_the_first_backward_of_a_loop_reads_scaled_gradients() -> None:
    program = ga.Program.parse(LOOP)
    with ga.program_guard(program):
        ga.append_backward(program.global_block().var("loss"))
    graph = ga.lower(program, ["w@GRAD"])
    MixedPrecision(loss_scale=8.0).run(graph)
    (scale,) = (op for op in graph.ops if op.type == "scale")
    assert [value.name for value in scale.reads()] == ["w@GRAD@SCALED"]


@pytest.mark.parametrize(("runs", "expected"), [(False, [1.0, 1.0]), (True, [0.0, 0.0])])
def test_what_a_loop_without_iterations_leaves_is_scaled(runs: bool, expected: list[float]) -> None:
    """The body makes zeros, which may pass for scaled; what the loop starts from is scaled."""
    program = ga.Program.parse(
        """program { block 0 { var x: float32[2] var c: bool[1] var t@GRAD: float32[2]
        fill_any_like(X=x) -> (Out=t@GRAD) {value=1.0} backward
        while(X=t@GRAD, Condition=c) -> (Out=[t@GRAD, c]) {sub_block=block(1)} backward }
        block 1 in 0 { fill_constant() -> (Out=t@GRAD) {shape=[2], value=0.0} backward
        fill_constant() -> (Out=c) {shape=[1], value=0.0, dtype="bool"} backward } }"""
    )
    graph = ga.lower(program, ["t@GRAD"])
    MixedPrecision(loss_scale=8.0).run(graph)
    (gradient,) = ga.Executor().run(ga.schedule(graph), {"x": np.ones(2, "float32"), "c": np.array([runs])}, ["t@GRAD"])
    assert gradient.tolist() == expected


def test_what_may_have_no_value_is_not_divided() -> None:
    """``select_output`` writes nothing where ``Like`` has none: here what the branch not taken leaves as it was."""
    program = ga.Program.parse(
        """program { block 0 { var x: float32[1] var c: bool[1] var y: float32[1] var n: int32[1]
        var t@GRAD: float32[1] var a@GRAD: float32[1] var y@GRAD: float32[1]
        if_else(Cond=c, X=x) -> (Out=y) {true_block=block(1), false_block=block(2)}
        fill_any_like(X=x) -> (Out=t@GRAD) {value=1.0} backward
        select_output(X=t@GRAD, Mask=n, Like=[x, y]) -> (Out=[a@GRAD, y@GRAD]) backward }
        block 1 in 0 { assign(X=x) -> (Out=y) } block 2 in 0 { } }"""
    )
    graph = ga.lower(program, ["a@GRAD", "y@GRAD"])
    MixedPrecision(loss_scale=8.0).run(graph)
    feed = {"x": np.ones(1, "float32"), "c": np.array([False]), "n": np.zeros(1, "int32")}
    (gradient,) = ga.Executor().run(ga.schedule(graph), feed, ["a@GRAD"])
    assert gradient.tolist() == [1.0]


def test_refusals() -> None:
    with pytest.raises(ValueError, match="knows the narrow types float16, float32, not int8"):
        MixedPrecision("int8")
    with pytest.raises(ValueError, match="scaled by a number above 0, not by -1"):
        MixedPrecision(loss_scale=-1.0)
    with pytest.raises(PassError, match="the graph has no backward part"):
        narrowed(CHAIN, loss_scale=8.0)
    graph = Training().narrowed(loss_scale=8.0)
    with pytest.raises(PassError, match=r"by 16\.0: its gradient starts from 8\.0, not from 1"):
        MixedPrecision(loss_scale=16.0).run(graph)


def test_random_programs_in_single_precision() -> None:
    checked = check_pass(MixedPrecision("float32"), examples=60, tolerance=1e-3)
    assert checked.changed > 5


COLLECTIVE = """program { block 0 {
    var x: float64[1] var y: float64[1] var loss: float64[]
    var loss@GRAD: float64[] var x@GRAD: float64[1] var z@GRAD: float64[1] var w@GRAD: float64[1] var y@GRAD: float64[1]
    reduce_sum(X=x) -> (Out=loss) {reduce_all=true}
    fill_constant() -> (Out=loss@GRAD) {shape=[], value=1.0, dtype="float64"} backward
    reduce_sum_grad(X=x, Out@GRAD=loss@GRAD) -> (X@GRAD=x@GRAD) {reduce_all=true} backward
    c_identity_grad(Out@GRAD=x@GRAD) -> (X@GRAD=z@GRAD) {ring_id=0} backward
    elementwise_add_grad(X=x, Y=y, Out@GRAD=z@GRAD) -> (X@GRAD=w@GRAD, Y@GRAD=y@GRAD) backward
} }"""


def test_cotangents_that_a_collective_exchanges_may_be_scaled() -> None:
    """As those that no collective exchanges: only what is requested is as large as without a scale."""
    check_case("mixed-precision{loss_scale=8.0}", Case(ga.Program.parse(COLLECTIVE), "loss", {"x": np.ones(1), "y": np.ones(1)}))
