"""Recomputation: less memory, as estimated and as measured; every value the same to the last bit."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.ir import Graph
from graphad.passes.memory.recompute import Recompute, Recomputed, is_cheap
from graphad.program import BACKWARD
from graphad.testing import check_pass
from graphad.testing.nested import nested_program
from graphad.testing.straight_line import straight_line_program
from graphad.testing.training import training_program

layers: Any = ga.layers
WIDTH, BATCH = 32, 256
BACKWARD_OF_LOSS = "find-op-path{targets=[$loss]}, create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars"


@dataclass(frozen=True)
class AlwaysRecompute(Recompute):
    """Recompute in so many segments, whether it helps or not."""

    name = "always-recompute"
    segments: int = 0

    def _best(self, graph: Graph, before: int) -> tuple[int, Recomputed]:
        return self.segments, Recomputed(before, before, 0, 0)


class Net:
    """A deep net of fc layers with its backward."""

    def __init__(self, depth: int = 12, act: str = "gelu", batch: int = BATCH) -> None:
        self.main, self.startup = ga.Program(), ga.Program()
        self.startup.random_seed = 3
        with ga.program_guard(self.main, self.startup):
            hidden = layers.data("x", shape=[batch, WIDTH], append_batch_size=False)
            for _ in range(depth):
                hidden = layers.fc(hidden, size=WIDTH, act=act)
            loss = layers.mean(layers.square(hidden))
            gradients = ga.append_backward(loss)
        self.fetch = [loss.name, *(g.name for _, g in gradients)]
        self.feed = {"x": np.random.default_rng(0).normal(size=(BATCH, WIDTH)).astype("float32")}

    def lowered(self) -> Graph:
        return ga.lower(self.main, self.fetch)

    def run(self, program: ga.Program) -> tuple[list[Any], int]:
        """The fetched values, and the peak of the memory that numpy allocated meanwhile."""
        executor, scope = ga.Executor(mode="interpreted"), ga.Scope()
        executor.run(self.startup, scope=scope)
        for _ in range(3):
            executor.run(program, feed=self.feed, fetch_list=self.fetch, scope=scope)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            results = executor.run(program, feed=self.feed, fetch_list=self.fetch, scope=scope)
            return results, tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()


def test_it_needs_less_memory_and_computes_the_same() -> None:
    net, graph = Net(), Net().lowered()
    assert Recompute().run(graph)
    found: Recomputed = graph.analyses[Recomputed]
    expected, before = net.run(net.main)
    got, after = net.run(ga.schedule(graph))
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_array_equal(a, b)
    assert found.after < 0.6 * found.before
    assert after < 0.6 * before


def test_only_cheap_operators_run_again_without_a_budget() -> None:
    graph = Net().lowered()
    Recompute().run(graph)
    again = [op for op in graph.ops if op.role == BACKWARD and op.made_by == "recompute"]
    assert {op.type for op in again} <= {"elementwise_add", "gelu", "stand_in"}
    found: Recomputed = graph.analyses[Recomputed]
    assert found.ops == sum(op.type != "stand_in" for op in again)


@pytest.mark.parametrize("op_type", ["conv3d", "depthwise_conv2d_transpose", "addmm", "matmul_v2", "top_k_v2"])
def test_products_and_sorting_are_not_cheap(op_type: str) -> None:
    graph = Graph()
    assert not is_cheap(graph.add_op(op_type, {}, {}))
    assert is_cheap(graph.add_op("tanh", {}, {}))


def test_a_budget_is_kept() -> None:
    graph = Net().lowered()
    Recompute().run(graph)
    cheap: Recomputed = graph.analyses[Recomputed]
    graph = Net().lowered()
    budget = cheap.after * 4 // 5
    assert Recompute(budget).run(graph)
    found: Recomputed = graph.analyses[Recomputed]
    assert found.after <= budget < cheap.after
    assert any(op.type == "mul" and op.made_by == "recompute" for op in graph.ops)
    net = Net()
    expected, _ = net.run(net.main)
    got, _ = net.run(ga.schedule(graph))
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_budget_that_is_large_enough_changes_nothing() -> None:
    graph = Net().lowered()
    text = str(graph)
    assert not Recompute(10**9).run(graph)
    assert str(graph) == text


def test_a_budget_that_cannot_be_kept_is_refused() -> None:
    graph = Net().lowered()
    text = str(graph)
    with pytest.raises(ga.errors.PassError, match=r"with recompute \d+ at least: not the 1000 of the budget"):
        Recompute(1000).run(graph)
    assert str(graph) == text
    with pytest.raises(ValueError, match="a budget is a number of bytes, not -1"):
        Recompute(-1)


def test_a_graph_without_forward_operators_has_nothing_to_compute_again() -> None:
    graph = Net(depth=1).lowered()
    for op in graph.ops:
        op.role = BACKWARD
    assert not Recompute().run(graph)
    assert not Recompute(10**9).run(graph)
    with pytest.raises(ga.errors.PassError, match=r"with recompute \d+ at least: not the 1000 of the budget"):
        Recompute(1000).run(graph)


def test_a_batch_has_a_sample() -> None:
    with pytest.raises(ValueError, match="recompute takes a batch of 1 sample at least, not batch=0"):
        Recompute(batch=0)


def test_unknown_extents_are_the_batch() -> None:
    graph = Net(batch=-1).lowered()
    Recompute(batch=BATCH).run(graph)
    found: Recomputed = graph.analyses[Recomputed]
    known = Net().lowered()
    Recompute().run(known)
    assert found == known.analyses[Recomputed]


def test_a_second_run_finds_nothing() -> None:
    graph = Net().lowered()
    assert Recompute().run(graph)
    assert not Recompute().run(graph)


DROPPED = """program {
  block 0 {
    var x: float32[64]
    var d: float32[64]
    var m: uint8[64]
    var a: float32[64]
    var b: float32[64]
    var c: float32[64]
    var loss: float32[]
    dropout(X=x) -> (Out=d, Mask=m) {dropout_prob=0.5}
    exp(X=d) -> (Out=a)
    sin(X=a) -> (Out=b)
    exp(X=b) -> (Out=c)
    mean(X=c) -> (Out=loss)
  }
}"""


def test_what_draws_random_numbers_does_not_run_again() -> None:
    graph = ga.lower(ga.Program.parse(DROPPED), ["loss"])
    ga.Pipeline.parse(BACKWARD_OF_LOSS.replace("$loss", "loss")).run(graph)
    assert AlwaysRecompute(segments=1).run(graph)
    again = [op.type for op in graph.ops if op.made_by == "always-recompute"]
    assert sorted(again) == ["exp", "exp", "sin", "stand_in"]


@pytest.mark.parametrize("segments", [0, 1, 3])
@pytest.mark.parametrize("kind", ["training", "straight line", "nested"])
def test_random_programs(segments: int, kind: str) -> None:
    each = AlwaysRecompute(segments=segments)
    if kind == "training":
        checked = check_pass(each, examples=6, programs=training_program)
    else:
        programs = nested_program if kind == "nested" else straight_line_program
        checked = check_pass(each, examples=6, programs=programs, prepare=BACKWARD_OF_LOSS)
    assert checked.changed


def test_gradients_of_gradients_stop_where_those_of_the_values_do() -> None:
    """The gradient of y = x * x', where gradients stop at x' = x, is x'; its own gradient is none, also where x' was computed again."""
    program = ga.Program()
    with ga.program_guard(program):
        x = layers.data("x", shape=[2, 4], append_batch_size=False)
        x.stop_gradient = False
        stopped = layers.tanh(x)
        stopped.stop_gradient = True
        loss = layers.mean(layers.square(layers.tanh(x * stopped)))
        assert ga.gradients(loss, x) != [None]
    graph = ga.lower(program, ["x@GRAD"])
    assert AlwaysRecompute(segments=1).run(graph)
    copies = [value for value in graph.values if value.name.startswith(f"{stopped.name}@RECOMPUTE")]
    assert copies
    assert all(value.stop_gradient for value in copies)
