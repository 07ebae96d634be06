"""Loops that keep some of their iterations for the gradient, and run the others again: the same gradients, less memory."""

from __future__ import annotations

import tracemalloc
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import graphad as ga
from graphad.execution.iterations import advance
from graphad.testing import Case, nested_programs
from tests.test_random_nested import SLOW
from tests.test_random_programs import differentiated, run

layers: Any = ga.layers
STRATEGIES = ["checkpoint-while{every=1}", "checkpoint-while{every=3}", "checkpoint-while{every=100}", "checkpoint-while{recursive=true}"]
HIDDEN, ROWS = 16, 64


def recurrent(steps: int, dropout: float = 0.0) -> tuple[ga.Program, ga.Variable, list[str]]:
    """h = tanh(h W + h0), ``steps`` times; the mean of its square, and the names of the gradients of W and h0."""
    program = ga.Program()
    program.random_seed = 7
    with ga.program_guard(program, ga.Program()):
        block = program.global_block()
        w = block.create_parameter("w", [HIDDEN, HIDDEN], "float64")
        h0 = layers.data("h0", shape=[ROWS, HIDDEN], append_batch_size=False, dtype="float64")
        h0.stop_gradient = False
        n = layers.data("n", shape=[1], append_batch_size=False, dtype="int64")

        def body(i: Any, h: Any) -> list[Any]:
            new = layers.tanh(layers.matmul_v2(h, w) + h0)
            return [i + 1, layers.dropout(new, dropout) if dropout else new]

        _, h = layers.while_loop(lambda i, h: layers.less_than(i, n), body, [n - n, h0])
        loss = layers.mean(layers.square(h))
        found = ga.gradients(loss, [w, h0])
    assert all(g is not None for g in found)
    return program, loss, [g.name for g in found if g is not None]


def ran(program: ga.Program, fetch: list[str], steps: int) -> list[Any]:
    rng, scope = np.random.default_rng(0), ga.Scope()
    scope.set("w", rng.standard_normal((HIDDEN, HIDDEN)) * 0.2)
    feed = {"h0": rng.standard_normal((ROWS, HIDDEN)), "n": np.array([steps])}
    return ga.Executor().run(program, feed=feed, fetch_list=fetch, scope=scope)


def rewritten(program: ga.Program, pipeline: str) -> ga.Program:
    graph = ga.lower(program)
    ga.Pipeline.parse(pipeline).run(graph)
    return ga.schedule(graph)


@pytest.mark.parametrize("pipeline", STRATEGIES)
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 7, 12, 33])
def test_gradients_are_equal_to_the_last_bit(pipeline: str, steps: int) -> None:
    program, _, found = recurrent(steps)
    for got, expected in zip(ran(rewritten(program, pipeline), found, steps), ran(program, found, steps), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("pipeline", STRATEGIES)
def test_random_operators_draw_the_same_again(pipeline: str) -> None:
    program, _, found = recurrent(9, dropout=0.3)
    for got, expected in zip(ran(rewritten(program, pipeline), found, 9), ran(program, found, 9), strict=True):
        np.testing.assert_array_equal(got, expected)
    program.random_seed = 0
    checkpointed = rewritten(program, pipeline)
    (once,) = ran(checkpointed, found[:1], 9)
    assert np.isfinite(once).all()


@pytest.mark.parametrize("pipeline", STRATEGIES)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_iterations_are_run_again_in_compiled_programs(pipeline: str, dropout: float) -> None:
    """They give what the interpreter gives, for other trip counts than that of the first run, too."""
    program, loss, names = recurrent(5, dropout)
    again, fetched = rewritten(program, pipeline), [loss.name, *names]
    assert "in replayed(" in ga.to_python(again, fetched, {"h0": np.ones((ROWS, HIDDEN)), "n": np.array([5])})
    results = []
    for mode in ("compiled", "interpreted"):
        executor, scope = ga.Executor(mode=mode), ga.Scope()
        rng = np.random.default_rng(0)
        scope.set("w", rng.standard_normal((HIDDEN, HIDDEN)) * 0.2)
        h0 = rng.standard_normal((ROWS, HIDDEN))
        results.append([executor.run(again, {"h0": h0, "n": np.array([n])}, fetched, scope=scope) for n in (4, 0, 1, 11)])
    for compiled, interpreted in zip(*results, strict=True):
        for one, other in zip(compiled, interpreted, strict=True):
            np.testing.assert_array_equal(one, other)


@settings(max_examples=max(30, settings().max_examples), suppress_health_check=SLOW)
@given(nested_programs(max_statements=2))
@pytest.mark.parametrize("pipeline", [STRATEGIES[1], STRATEGIES[3]])
def test_random_programs_have_the_same_gradients(pipeline: str, p: Case) -> None:
    found = list(differentiated(p, [p.loss.name], p.sources).values())
    checkpointed = Case(rewritten(p.program, pipeline), p.loss_name, p.feeds, p.params)
    expected = run(p, found)
    for name, got in run(checkpointed, found).items():
        np.testing.assert_array_equal(got, expected[name], err_msg=name)


def test_a_gradient_of_checkpointed_loops_can_be_differentiated() -> None:
    program, _, found = recurrent(5)
    checkpointed = rewritten(program, STRATEGIES[1])
    values = []
    for each in (program, checkpointed):
        block = each.global_block()
        (second,) = ga.gradients(layers_sum(each, found[0]), [block.var("w")])
        assert second is not None
        values.append(ran(each, [second.name], 5)[0])
    np.testing.assert_allclose(values[1], values[0], rtol=1e-12)


def layers_sum(program: ga.Program, name: str) -> ga.Variable:
    with ga.program_guard(program, ga.Program()):
        return layers.reduce_sum(layers.square(program.global_block().var(name)))  # type: ignore[no-any-return]


# -- memory --------------------------------------------------------------------------------------


def peak(program: ga.Program, fetch: list[str], steps: int) -> int:
    """Bytes of arrays at the worst moment of a run, above those before it; the second run, when all is prepared."""
    ran(program, fetch, steps)
    tracemalloc.start()
    ran(program, fetch, steps)
    _, highest = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return highest


def test_memory_falls_to_what_the_strategy_keeps() -> None:
    steps, state = 400, ROWS * HIDDEN * 8
    program, _, found = recurrent(steps)
    everything = peak(program, found, steps)
    assert everything > steps * state
    some, few = (peak(rewritten(program, pipeline), found, steps) for pipeline in ("checkpoint-while{every=20}", STRATEGIES[3]))
    assert some < everything / 4
    assert few < everything / 5


def test_the_recursive_schedule_needs_a_logarithm_of_states() -> None:
    peaks = []
    for steps in (100, 1000):
        program, _, found = recurrent(steps)
        peaks.append(peak(rewritten(program, STRATEGIES[3]), found, steps))
    assert peaks[1] < 2 * peaks[0]


def test_the_schedule_is_within_what_checkpoints_can_reverse() -> None:
    for free in range(1, 12):
        for count in range(2, 300):
            ahead = advance(count, free)
            assert 1 <= ahead < count
            times = next(t for t in range(1, 300) if comb(free + t, t) >= count)
            assert count - ahead <= comb(free + times - 1, times)
            assert ahead == 1 or ahead <= comb(free + times - 1, times - 1)


# -- the pass ------------------------------------------------------------------------------------


def test_the_pass_marks_gradients_of_loops_once() -> None:
    program, _, _ = recurrent(2)
    graph = ga.lower(program)
    checkpoint = ga.passes.CheckpointWhile(every=4)
    assert checkpoint.run(graph)
    assert not checkpoint.run(graph)
    (op,) = [op for op in graph.ops if op.type == "while_grad"]
    assert op.attrs["checkpoint_every"] == 4
    assert "recursive" not in op.attrs
    text = str(ga.schedule(graph))
    assert str(ga.Program.parse(text)) == text
    assert str(ga.schedule(ga.lower(ga.Program.parse(text)))) == text


@pytest.mark.parametrize("every", [0, -1])
def test_distances_that_make_no_sense_are_refused(every: int) -> None:
    with pytest.raises(ValueError, match="checkpoint-while keeps every k-th state, k from 1 on"):
        ga.passes.CheckpointWhile(every=every)


def test_a_name_around_the_loop_that_its_body_writes_first_is_there_again() -> None:
    """Nothing has written ``o`` before the loop, so the first checkpoint has no value of it."""
    program = ga.Program.parse("""program { block 0 {
      var h: float64[3] var i: int64[1] var n: int64[1] var more: bool[1] var o: float64[3] var x: float64[3] var loss: float64[]
      assign(X=x) -> (Out=h)
      fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
      less_than(X=i, Y=n) -> (Out=more)
      while(X=[h, i, n], Condition=more) -> (Out=[h, i, o, more]) {sub_block=block(1)}
      mean(X=h) -> (Out=loss)
    } block 1 in 0 {
      square(X=h) -> (Out=o) elementwise_add(X=o, Y=h) -> (Out=h) tanh(X=h) -> (Out=h)
      increment(X=i) -> (Out=i) less_than(X=i, Y=n) -> (Out=more)
    } }""")
    (gradient,) = ga.gradients(program.global_block().var("loss"), [program.global_block().var("x")])
    assert gradient is not None
    feed = {"x": np.array([0.1, 0.2, 0.3]), "n": np.array([5])}
    (expected,) = ga.Executor().run(program, feed, [gradient])
    for pipeline in STRATEGIES:
        np.testing.assert_array_equal(ga.Executor().run(rewritten(program, pipeline), feed, [gradient.name])[0], expected)


def nested_loops(step: Any) -> Any:
    """A loop of three iterations of a loop of two, whose body is ``step``."""

    def inner(x: Any, w: Any) -> Any:
        return layers.while_loop(lambda j, k: j < 2, lambda j, k: [j + 1, step(k, w)], [0, x])[1]

    return lambda x, w: layers.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, inner(h, w)], [0, x])[1]


def single_loop(step: Any) -> Any:
    return lambda x, w: layers.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, step(h, w)], [0, x])[1]


def branch(h: Any, w: Any) -> Any:
    return layers.cond(layers.reduce_sum(h) > 0.0, lambda: h + layers.tanh(w), lambda: layers.sin(w))


HOISTED = {
    "only what is hoisted": lambda h, w: layers.tanh(w),
    "what is hoisted and carried": lambda h, w: h * layers.tanh(w),
    "a branch": branch,
}


@pytest.mark.parametrize("around", [single_loop, nested_loops])
@pytest.mark.parametrize("step", HOISTED.values(), ids=list(HOISTED))
@pytest.mark.parametrize("strategy", [STRATEGIES[1], STRATEGIES[3]])
def test_what_was_hoisted_is_there_when_an_iteration_runs_again(around: Any, step: Any, strategy: str) -> None:
    """A gradient reads what is computed before the loop, although no operator of the loop's body does any more."""
    program = ga.Program()
    with ga.program_guard(program):
        x, w = (layers.data(name, [2], "float64", append_batch_size=False, stop_gradient=False) for name in "xw")
        names = [g.name for g in ga.gradients(layers.reduce_sum(around(step)(x, w)), [x, w]) if g is not None]
    feed = {"x": np.array([0.1, 0.2]), "w": np.array([0.5, 0.7])}
    expected = ga.Executor().run(program, feed, names)
    for pipeline in (f"hoist-invariants, {strategy}", f"{strategy}, hoist-invariants"):
        for got, value in zip(ga.Executor().run(rewritten(program, pipeline), feed, names), expected, strict=True):
            np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("prints", [False, True])
def test_a_loop_that_prints_stays_as_it_is(prints: bool, capsys: pytest.CaptureFixture[str]) -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = layers.data("x", shape=[1], append_batch_size=False, dtype="float64")
        x.stop_gradient = False
        zero, three = (layers.fill_constant([1], "int64", number) for number in (0, 3))

        def body(i: Any, h: Any) -> list[Any]:
            return [i + 1, layers.tanh(layers.Print(h, message="seen", print_phase="forward") if prints else h)]

        _, h = layers.while_loop(lambda i, h: layers.less_than(i, three), body, [zero, x])
        assert ga.gradients(layers.mean(h), x) != [None]
    graph = ga.lower(program, ["x@GRAD"])
    assert bool(ga.Pipeline.parse("checkpoint-while{every=2}").run(graph)) is not prints
    ga.Executor().run(ga.schedule(graph), {"x": np.array([0.5])}, ["x@GRAD"], ga.Scope())
    assert capsys.readouterr().out.count("seen") == 3 * prints
