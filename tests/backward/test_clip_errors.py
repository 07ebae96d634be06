"""``error_clip``: the gradients of variables bounded in the backward itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.program.clipping import ErrorClipByValue
from graphad.types import Array

X = np.array([[0.3, -2.0, 5.0], [-0.1, 0.7, 1.5]])


def trained(build: Callable[[Any, Any], Any], clip: ErrorClipByValue | None, fetch: list[str]) -> list[Array]:
    """The fetched values of the backward of ``build(x, w)``, with h clipped."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.data("x", [2, 3], "float64")
        x.stop_gradient = False
        w = program.global_block().create_parameter("w", [3], "float64")
        loss = build(x, w)
        for block in program.blocks:
            if "h" in block.vars:
                block.vars["h"].error_clip = clip
        ga.append_backward(loss)
    scope = ga.Scope()
    scope.set("w", np.array([0.5, 2.0, -1.0]))
    return ga.Executor().run(ga.Program.parse(str(program)), {"x": X}, fetch, scope=scope)


def named(name: str, value: Any) -> Any:
    return ga.layers.assign(value, value.block.create_var(name, value.shape, value.dtype))


def shared(x: Any, w: Any) -> Any:
    """h is read twice, so that its gradient is a sum."""
    h = named("h", x * w)
    return ga.layers.reduce_sum(h * h + 3.0 * h)


def test_the_complete_gradient_is_clipped_and_what_follows_starts_from_it() -> None:
    clip = ErrorClipByValue(max=4.0, min=-1.5)
    raw, clipped = (trained(shared, each, ["h@GRAD", "x@GRAD", "w@GRAD"]) for each in (None, clip))
    expected = raw[0].clip(-1.5, 4.0)
    assert (expected != raw[0]).any()
    assert (expected == raw[0]).any()
    np.testing.assert_array_equal(clipped[0], expected)
    np.testing.assert_allclose(clipped[1], expected * [0.5, 2.0, -1.0])
    np.testing.assert_allclose(clipped[2], (expected * X).sum(0))


def test_the_clip_is_right_after_what_completes_the_gradient() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.data("x", [2, 3])
        x.stop_gradient = False
        h = named("h", x * 2.0)
        h.error_clip = ErrorClipByValue(1.0)
        ga.append_backward(ga.layers.reduce_sum(h * h + h))
    types = [op.type for op in program.global_block().ops]
    at = types.index("clip")
    clip = program.global_block().ops[at]
    assert types[at - 1] == "sum"
    assert program.global_block().ops[at - 1].output("Out") == clip.input("X")
    assert clip.output("Out") == ["h@GRAD"]
    assert clip.attrs == {"min": -1.0, "max": 1.0}
    assert clip.role == "backward"


def looped(x: Any, w: Any) -> Any:
    """A state of a loop that is multiplied by w in three iterations; each of its gradients is clipped."""
    h = named("h", ga.layers.assign(x))
    i = ga.layers.fill_constant([1], "int64", 0)
    limit = ga.layers.fill_constant([1], "int64", 3)
    cond = ga.layers.less_than(i, limit)
    loop = ga.layers.While(cond)
    with loop.block():
        ga.layers.assign(h * w, h)
        ga.layers.increment(i)
        ga.layers.less_than(i, limit, cond=cond)
    return ga.layers.reduce_sum(h * 3.0)


def test_in_a_loop_the_gradient_of_each_iteration_is_clipped() -> None:
    values, w = [X], np.array([0.5, 2.0, -1.0])
    for _ in range(3):
        values.append(values[-1] * w)
    gradient, of_w = np.full_like(X, 3.0).clip(-2.0, 2.0), np.zeros(3)
    for value in reversed(values[:-1]):
        of_w += (gradient * value).sum(0)
        gradient = (gradient * w).clip(-2.0, 2.0)
    got = trained(looped, ErrorClipByValue(2.0), ["x@GRAD", "w@GRAD"])
    np.testing.assert_allclose(got[0], gradient)
    np.testing.assert_allclose(got[1], of_w)


def branched(x: Any, w: Any) -> Any:
    """h is read in a branch and after it: what is clipped is the sum."""
    h = named("h", x * w)
    taken = ga.layers.reduce_sum(x) > -100.0
    y = ga.layers.cond(taken, lambda: h * 5.0, lambda: h * 7.0)
    return ga.layers.reduce_sum(y - 4.0 * h)


def test_what_a_branch_reads_is_clipped_where_its_gradient_is_complete() -> None:
    (kept,) = trained(branched, ErrorClipByValue(2.0), ["x@GRAD"])
    np.testing.assert_allclose(kept, np.broadcast_to([0.5, 2.0, -1.0], (2, 3)))  # 5 - 4 is within the bound, 5 alone is not


def test_minimize_clips_and_gradients_does_not() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.data("x", [2, 3])
        h = named("h", ga.layers.fc(x, 3, param_attr="w", bias_attr=False))
        h.error_clip = ErrorClipByValue(0.25)
        loss = ga.layers.reduce_sum(h * h)
        (gradient,) = ga.gradients([loss], [h])
        assert gradient is not None
        assert "clip" not in [op.type for op in gradient.block.ops]
        ga.optimizer.SGD(0.1).minimize(loss)
    assert [op.output("Out") for op in program.global_block().ops if op.type == "clip"] != []


def test_a_clip_is_a_part_of_the_program() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.data("x", [3])
        x.error_clip = ErrorClipByValue(2.0, 0.5)
    for copy in (program.clone(), ga.Program.parse(str(program)), ga.schedule(ga.lower(program, [x.name]))):
        assert copy.global_block().var("x").error_clip == ErrorClipByValue(2.0, 0.5)
    stored = ga.interop.paddle.load_program(ga.interop.paddle.dump_program(program))
    assert stored.global_block().var("x").error_clip == ErrorClipByValue(2.0, 0.5)
    assert "error_clip=[0.5, 2.0]" in str(stored)


@pytest.mark.parametrize("rule", ["simplify", "cse", "fixpoint(simplify, cse, dead-code)"])
def test_cleanup_before_the_backward_keeps_what_is_clipped(rule: str) -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.data("x", [3])
        x.stop_gradient = False
        h = x * 1.0
        h.error_clip = ErrorClipByValue(1.0)
        g, k = ga.layers.tanh(h), ga.layers.tanh(h)
        k.error_clip = ErrorClipByValue(0.5)
        loss = ga.layers.reduce_sum(g * 7.0 + k * 9.0)
    graph = ga.lower(program, [loss.name])
    ga.Pipeline.parse(rule).run(graph)
    results = []
    for each in (program, ga.schedule(graph)):
        ga.append_backward(each.global_block().var(loss.name))
        results += ga.Executor().run(each, {"x": [0.1, -2.0, 0.0]}, ["x@GRAD"])
    np.testing.assert_array_equal(results[1], results[0])


def test_what_is_no_clip_is_refused_where_it_is_set() -> None:
    with ga.program_guard(ga.Program()):
        x = ga.data("x", [3])
        with pytest.raises(TypeError, match="error_clip is an ErrorClipByValue"):
            x.error_clip = 1.0  # type: ignore[assignment]
    with pytest.raises(ValueError, match="empty"):
        ErrorClipByValue(max=1.0, min=2.0)
    with pytest.raises(ga.errors.ParseError, match="error_clip of 'x'"):
        ga.Program.parse("program { block 0 { var x: float32[2] error_clip=[1.0] } }")


@pytest.mark.parametrize("go", [True, False])
def test_what_only_a_branch_writes_is_clipped_in_its_gradient_and_may_be_missing(go: bool) -> None:
    """Without the branch there is no h, nor a gradient of it; what is selected then is w."""
    text = """program { block 0 {
        var go: bool[1] var which: int32[1] param w: float64[1] var h: float64[1] error_clip=[-0.125, 0.125] var scope: ?[?] STEP_SCOPES
        var y: float64[1] var loss: float64[]
        conditional_block(Cond=go, Input=w) -> (Scope=scope, Out=h) {sub_block=block(1)}
        select_input(X=[h, w], Mask=which) -> (Out=y)
        mean(X=y) -> (Out=loss)
    } block 1 in 0 { sigmoid(X=w) -> (Out=h) } }"""
    program, scope = ga.Program.parse(text), ga.Scope()
    ga.append_backward(program.global_block().var("loss"))
    scope.set("w", np.array([0.4]))
    feed = {"go": np.array([go]), "which": np.array([0 if go else 1], "int32")}
    (of_w,) = ga.Executor().run(program, feed, ["w@GRAD"], scope=scope)
    s = 1 / (1 + np.exp(-0.4))
    np.testing.assert_allclose(of_w, [0.125 * s * (1 - s)] if go else [1.0])
