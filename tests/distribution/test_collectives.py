"""Collectives on simulated ranks, against numpy and against central differences of the sum over all ranks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import graphad as ga
from graphad.distribution import LocalGroup
from graphad.errors import ExecutionError, InvalidValue
from graphad.ir import lower, schedule
from graphad.ops import REGISTRY
from graphad.ops.rings import communicates
from graphad.rewriting import Pipeline
from graphad.types import Array
from tests.distribution.ranks import MODES, numbers, parsed, run

Rule = Callable[[Sequence[Array], int], Array]


def _total(xs: Sequence[Array]) -> Array:
    return np.asarray(np.sum(xs, axis=0))


# What rank r has, by type: (attributes, rule).
RULES: dict[str, tuple[str, Rule]] = {
    "c_allreduce_sum": ("", lambda xs, r: _total(xs)),
    "c_allreduce_max": ("", lambda xs, r: np.max(xs, axis=0)),
    "c_allreduce_min": ("", lambda xs, r: np.min(xs, axis=0)),
    "c_allreduce_prod": ("", lambda xs, r: np.prod(xs, axis=0)),
    "c_reduce_sum": ("root_id=1", lambda xs, r: _total(xs) * (r == 1)),
    "c_broadcast": ("root=1", lambda xs, r: xs[1]),
    "c_allgather": ("nranks=$n, axis=1", lambda xs, r: np.concatenate(xs, axis=1)),
    "c_reducescatter": ("nranks=$n", lambda xs, r: np.split(_total(xs), len(xs))[r]),
    "c_concat": ("nranks=$n", lambda xs, r: np.concatenate(xs, axis=-1)),
    "c_split": ("nranks=$n, axis=0", lambda xs, r: np.split(xs[r], len(xs))[r]),
    "c_alltoall": ("", lambda xs, r: np.concatenate([np.split(x, len(xs))[r] for x in xs])),
    "alltoall": ("", lambda xs, r: np.concatenate([np.split(x, len(xs))[r] for x in xs])),
    "c_recut": (
        "split_axis=0, concat_axis=1, nranks=$n",
        lambda xs, r: np.concatenate([np.split(x, len(xs))[r] for x in xs], axis=1),
    ),
    "c_clear_padding": (
        "axis=1, extent=7, nranks=$n",
        lambda xs, r: np.where(np.arange(xs[r].shape[1]) + r * xs[r].shape[1] < 7, xs[r], 0.0),
    ),
    "c_identity": ("", lambda xs, r: xs[r]),
    "barrier": ("", lambda xs, r: xs[r]),
}
REPLICATED = {"c_concat", "c_split", "c_identity"}  # whose gradients are of a loss that all ranks compute alike


def test_every_collective_is_tried() -> None:
    collectives = {type for type in REGISTRY if communicates(type) and not type.endswith("_grad")}
    assert collectives == {*RULES, "send_v2", "recv_v2", "c_shard", "c_unshard"}


def program_of(type: str, ranks: int, shape: Sequence[int]) -> ga.Program:
    attrs = RULES[type][0].replace("$n", str(ranks))
    return parsed(f"var x: float64{list(shape)} var y: float64{[-1] * len(shape)} {type}(X=x) -> (Out=y) {{{attrs}}}")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("type", RULES)
def test_values(type: str, ranks: int, mode: str) -> None:
    group, program = LocalGroup(ranks, mode=mode), program_of(type, ranks, (12, 3))
    for step in range(3):  # the second run and those after it are compiled
        xs = numbers(ranks, 12, 3, seed=step)
        for rank, (y,) in enumerate(run(group, program, ["y"], x=xs)):
            np.testing.assert_array_equal(y, RULES[type][1](xs, rank))


@pytest.mark.parametrize("type", sorted(set(RULES) - REPLICATED))
def test_gradients_are_central_differences_of_the_sum_over_the_ranks(type: str) -> None:
    """The loss of rank r is the sum of w_r y_r²; that of all is their sum."""
    ranks, shape, step = 3, (6, 2), 1e-6
    program = ga.Program.parse(str(program_of(type, ranks, shape)))
    block = program.global_block()
    with ga.program_guard(program):
        w = ga.layers.data("w", shape=[], dtype="float64", append_batch_size=False)
        loss = ga.layers.reduce_sum(block.var("y") * block.var("y")) * w
        (gradient,) = ga.gradients(loss, [block.var("x")])
    xs, group = numbers(ranks, *shape), LocalGroup(ranks, mode="interpreted")
    weights = [np.asarray(1.0 + rank) for rank in range(ranks)]

    def total(at: Sequence[Array]) -> float:
        return float(sum(each[0] for each in run(group, program, [loss.name], x=at, w=weights)))

    assert gradient is not None
    found = [each[0] for each in run(group, program, [gradient.name], x=xs, w=weights)]
    for rank, place in [(0, (0, 1)), (1, (3, 0)), (2, (5, 1))]:
        up, down = ([x.copy() for x in xs] for _ in range(2))
        up[rank][place] += step
        down[rank][place] -= step
        assert found[rank][place] == pytest.approx((total(up) - total(down)) / (2 * step), rel=1e-7, abs=1e-8)


def test_the_gradient_of_a_product_with_a_zero() -> None:
    program = parsed(
        "var x: float64[2] var y: float64[2] var g: float64[2] var d: float64[2] c_allreduce_prod(X=x) -> (Out=y)"
        " c_allreduce_prod_grad(X=x, Out=y, Out@GRAD=d) -> (X@GRAD=g)"
    )
    xs = [np.array([0.0, 2.0]), np.array([3.0, 0.0]), np.array([5.0, 0.0])]
    found = run(LocalGroup(3), program, ["g"], x=xs, d=[np.array([1.0, 1.0]), np.zeros(2), np.zeros(2)])
    assert [each[0].tolist() for each in found] == [[15.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


TENSOR_PARALLEL = """
    var x: float64[5, 4] var w1: float64[4, {h}] var w2: float64[{h}, 3] var i: float64[5, 4] var a: float64[5, {h}] var t: float64[5, {h}]
    var p: float64[5, 3] var y: float64[5, 3] var s: float64[5, 3] var loss: float64[]
    c_identity(X=x) -> (Out=i) mul(X=i, Y=w1) -> (Out=a) tanh(X=a) -> (Out=t) mul(X=t, Y=w2) -> (Out=p)
    c_allreduce_sum(X=p) -> (Out=y) {{use_model_parallel=true}} square(X=y) -> (Out=s) mean(X=s) -> (Out=loss)
"""


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_two_products_cut_as_in_megatron(ranks: int) -> None:
    """The first by columns, the second by rows: values and gradients are parts of those of one process (Shoeybi et al. 2019)."""

    def gradients(program: ga.Program) -> list[str]:
        block = program.global_block()
        with ga.program_guard(program):
            found = ga.gradients(block.var("loss"), [block.var(name) for name in ("x", "w1", "w2")])
        return ["loss", *(each.name for each in found if each is not None)]

    (x,), (w1,), (w2,) = numbers(1, 5, 4), numbers(1, 4, 12), numbers(1, 12, 3)
    whole, part = parsed(TENSOR_PARALLEL.format(h=12)), parsed(TENSOR_PARALLEL.format(h=12 // ranks))
    loss, dx, dw1, dw2 = ga.Executor().run(whole, {"x": x, "w1": w1, "w2": w2}, gradients(whole))
    found = run(LocalGroup(ranks), part, gradients(part), x=[x] * ranks, w1=np.split(w1, ranks, 1), w2=np.split(w2, ranks, 0))
    for rank in range(ranks):
        np.testing.assert_allclose(found[rank][0], loss, rtol=1e-12)
        np.testing.assert_allclose(found[rank][1], dx, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(np.concatenate([each[2] for each in found], 1), dw1, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(np.concatenate([each[3] for each in found], 0), dw2, rtol=1e-10, atol=1e-14)


def test_rings_are_groups_within_the_group() -> None:
    program = parsed("var x: float64[1] var y: float64[1] c_allreduce_sum(X=x) -> (Out=y) {ring_id=1}")
    group = LocalGroup(4, rings={1: [[0, 2], [1, 3]]})
    found = run(group, program, ["y"], x=[np.array([10.0**rank]) for rank in range(4)])
    assert [each[0].tolist() for each in found] == [[101.0], [1010.0], [101.0], [1010.0]]


def test_what_is_sent_is_received_in_its_order() -> None:
    send = parsed("var x: float64[2] send_v2(X=x) -> () {peer=1} send_v2(X=x) -> () {peer=1}")
    take = "recv_v2() -> (Out={}) {{peer=0, out_shape=[-1], dtype='float64'}}".replace("'", '"')
    receive = parsed(f"var y: float64[-1] var z: float64[-1] {take.format('y')} {take.format('z')}")
    x = np.array([1.0, 2.0])
    group = LocalGroup(2)
    assert [each.tolist() for each in group.run([send, receive], [{"x": x}, {}], [[], ["y", "z"]])[1]] == [[1.0, 2.0], [1.0, 2.0]]
    assert group.traffic[0].counts() == {"send_v2": 2}
    assert group.traffic[1].bytes() == {"recv_v2": 32}


# -- a process that is alone, and errors ---------------------------------------------------------


def test_an_operator_made_for_more_ranks_does_not_run_alone() -> None:
    with pytest.raises(ExecutionError, match=r"c_allgather is made for nranks=2, but ring 0 has 1 rank: this process is alone"):
        ga.Executor().run(program_of("c_allgather", 2, (4, 2)), {"x": np.ones((4, 2))}, ["y"])


def test_ranks_that_disagree_end_with_what_each_was_about_to_do() -> None:
    with pytest.raises(ExecutionError) as caught:
        run(LocalGroup(2), [program_of("c_allreduce_sum", 2, (2,)), program_of("barrier", 2, (2,))], ["y"], x=numbers(2, 2))
    text = str(caught.value)
    assert "rank 0 is at c_allreduce_sum(float64[2], ring 0)\n  rank 1 is at barrier(float64[2], ring 0)" in text
    assert text.startswith("on rank 1: operator 'barrier' failed")
    assert "on rank 0: operator 'c_allreduce_sum' failed" in text


def test_shapes_that_differ_are_named() -> None:
    with pytest.raises(ExecutionError, match=r"rank 0 is at c_allreduce_sum\(float64\[3\], ring 0\)\n  rank 1 is at .*float64\[2\]"):
        run(LocalGroup(2), program_of("c_allreduce_sum", 2, (-1,)), ["y"], x=[np.ones(3), np.ones(2)])


@pytest.mark.parametrize("type", ["c_split", "c_reducescatter", "alltoall"])
def test_extents_that_the_ranks_cannot_share_are_named(type: str) -> None:
    with pytest.raises(ExecutionError, match=r"X has the shape \[3\]: the 3 places of axis -?\d cannot be shared out to 2 ranks"):
        run(LocalGroup(2), program_of(type, 2, (-1,)), ["y"], x=[np.ones(3), np.ones(3)])


@pytest.mark.parametrize(
    ("other", "where"),
    [("scale(X=x) -> (Out=y)", "rank 1 has ended"), ("recv_v2() -> (Out=y) {peer=0, out_shape=[2]}", "rank 1 waits at recv_v2")],
)
def test_ranks_that_would_wait_forever_end(other: str, where: str) -> None:
    programs = [program_of("c_allreduce_sum", 2, (2,)), parsed(f"var x: float64[2] var y: float64[2] {other}")]
    with pytest.raises(ExecutionError, match="none can go on:\n  rank 0 waits at c_allreduce_sum") as caught:
        run(LocalGroup(2), programs, ["y"], x=numbers(2, 2))
    assert where in str(caught.value)


def test_a_rank_that_fails_ends_all_with_its_error_and_line_and_the_scopes_stay() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", shape=[2], dtype="float64")
        state = program.global_block().create_var(name="state", shape=[-1, 2], dtype="float64", persistable=True)
        program.global_block().append_op(type="c_allreduce_sum", inputs={"X": [x]}, outputs={"Out": [state]})
        z = ga.layers.data("z", shape=[2], dtype="float64")
        y = ga.layers.reshape(z, shape=[4])
        program.global_block().append_op(type="barrier", inputs={"X": [y]}, outputs={"Out": [y]})
    group = LocalGroup(3)
    with pytest.raises(ExecutionError, match=r"on rank 1: operator 'reshape.*") as caught:
        run(group, program, [y.name], x=[np.ones((1, 2))] * 3, z=[np.ones((2, 2)), np.ones((1, 2)), np.ones((2, 2))])
    assert "on rank 0" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ExecutionError)
    assert f"on rank 1: {caught.value.__cause__}" == str(caught.value)
    assert "test_collectives.py" in str(caught.value)
    assert [scope.names() for scope in group.scopes] == [[], [], []]


INTERRUPTED = """
import os, signal, time
import numpy as np
import graphad as ga
from graphad.distribution import LocalGroup

def interrupt(x):
    if x[0] == WHO[0]:
        os.kill(os.getpid(), signal.SIGINT)  # the caller's thread gets it
        time.sleep(0.2)
    return x

with ga.program_guard(ga.Program()) as program:
    x = ga.layers.data("x", shape=[1], append_batch_size=False)
    block = program.global_block()
    y = ga.layers.py_func(interrupt, x, block.create_var(name="y", shape=[1], dtype="float32"))
    state = block.create_var(name="state", shape=[1], dtype="float32", persistable=True)
    for _ in range(3):
        block.append_op(type="c_allreduce_sum", inputs={"X": [y]}, outputs={"Out": [state]})
group = LocalGroup(3)
try:
    group.run(program, [{"x": [float(rank)]} for rank in range(3)])
except KeyboardInterrupt:
    print("interrupted", [scope.names() for scope in group.scopes])
WHO[0] = -1
print(group.run(program, [{"x": [float(rank)]} for rank in range(3)], ["state"]))
"""


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_an_interruption_ends_all_ranks_and_leaves_the_scopes(rank: int) -> None:
    """Of the rank that runs in the caller's thread, or while that waits for another one."""
    done = subprocess.run([sys.executable, "-c", f"WHO = [{rank}]\n{INTERRUPTED}"], capture_output=True, text=True, timeout=60, check=True)
    threes = [[np.array([3.0], "float32")]] * 3
    assert done.stdout == f"interrupted [[], [], []]\n{threes}\n"


def test_groups_and_rings_that_make_no_sense() -> None:
    with pytest.raises(InvalidValue, match="1 rank at least"):
        LocalGroup(0)
    with pytest.raises(InvalidValue, match=r"ring 1 is \[\[0, 1\], \[1\]\]: each of the ranks 0 to 2"):
        LocalGroup(3, rings={1: [[0, 1], [1]]})
    with pytest.raises(ExecutionError, match="there is no ring 5; known are 0"):
        run(LocalGroup(2), parsed("var x: float64[1] var y: float64[1] barrier(X=x) -> (Out=y) {ring_id=5}"), ["y"], x=numbers(2, 1))
    with pytest.raises(InvalidValue, match="feeds are 1, for 2 ranks"):
        LocalGroup(2).run(ga.Program(), [{}])


# -- order ---------------------------------------------------------------------------------------

ORDERED = """
    var x: float64[2] var a: float64[2] var b: float64[2] var c: float64[2] var y: float64[2]
    c_allreduce_sum(X=x) -> (Out=a) c_allreduce_sum(X=x) -> (Out=b) c_allreduce_max(X=x) -> (Out=c) scale(X=x) -> (Out=y)
"""


def types(program: ga.Program) -> list[str]:
    return [op.type for op in program.global_block().ops if op.type.startswith("c_")]


def test_no_pass_removes_merges_or_reorders_them() -> None:
    """Although two are the same, and of none the result is requested."""
    graph = lower(parsed(ORDERED), ["y"])
    Pipeline.parse("fixpoint(canonical-order, simplify, constant-folding, cse, dead-code), fuse-elementwise, in-place").run(graph)
    assert types(schedule(graph)) == ["c_allreduce_sum", "c_allreduce_sum", "c_allreduce_max"]


def test_the_schedule_keeps_their_order_where_operators_have_to_move() -> None:
    """An operator put in late that an early collective reads: the collectives after it wait."""
    graph = lower(parsed(ORDERED))
    first = graph.ops.first
    assert first is not None
    late = graph.add_value("late", (2,), "float64")
    graph.add_op("scale", {"X": [graph.value("x")]}, {"Out": [late]}, {"scale": 2.0})
    graph.set_inputs(first, "X", [late])
    ordered = [op.type for op in graph.ordered_ops()]
    assert ordered == ["scale", "scale", "c_allreduce_sum", "c_allreduce_sum", "c_allreduce_max"]


def test_a_collective_in_a_loop_is_not_hoisted_nor_left_out() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", shape=[2], dtype="float64", append_batch_size=False)
        i = ga.layers.fill_constant([1], "int64", 0)
        n = ga.layers.fill_constant([1], "int64", 3)

        def body(i: ga.Variable, total: ga.Variable) -> list[ga.Variable]:
            summed = ga.default_main_program().current_block().create_var(name="s", shape=[2], dtype="float64")
            ga.default_main_program().current_block().append_op(type="c_allreduce_sum", inputs={"X": [x]}, outputs={"Out": [summed]})
            return [i + 1, total + summed]

        _, total = ga.layers.while_loop(lambda i, total: i < n, body, [i, x * 0.0])
    graph = lower(program, [total.name])
    Pipeline.parse("hoist-invariants, cse, dead-code").run(graph)
    group = LocalGroup(2)
    for _ in range(2):
        found = run(group, schedule(graph), [total.name], x=[np.array([1.0, 2.0]), np.array([10.0, 20.0])])
        assert [each[0].tolist() for each in found] == [[33.0, 66.0]] * 2
        assert group.traffic[0].counts() == {"c_allreduce_sum": 3}


# -- compiled programs that turn out not to fit --------------------------------------------------


def test_a_compiled_run_that_begins_anew_does_not_repeat_its_collectives() -> None:
    """On one rank the number of nonzero elements changes: it interprets the run from the start, while the other one has gone on."""
    program = parsed(
        "var x: float64[4] var y: float64[4] var i: int64[-1, 1] var z: float64[4] var c: float64[4]"
        " c_allreduce_sum(X=x) -> (Out=y) where_index(Condition=x) -> (Out=i) c_allreduce_max(X=y) -> (Out=z)"
        " barrier(X=z) -> (Out=c)"
    )
    group = LocalGroup(2)
    for zeros in (0, 0, 0, 2, 1, 0, 3):
        x0 = np.array([1.0, 2.0, 3.0, 4.0])
        x0[:zeros] = 0.0
        found = run(group, program, ["c", "i"], x=[x0, np.ones(4)])
        np.testing.assert_array_equal(found[0][0], x0 + 1.0)
        np.testing.assert_array_equal(found[1][0], x0 + 1.0)
        assert found[0][1].ravel().tolist() == list(range(zeros, 4))
        assert group.traffic[0].counts() == {"c_allreduce_sum": 1, "c_allreduce_max": 1, "barrier": 1}


def test_programs_with_collectives_are_compiled() -> None:
    group, program = LocalGroup(2), program_of("c_allreduce_sum", 2, (2, 2))
    for _ in range(3):
        run(group, program, ["y"], x=numbers(2, 2, 2))
    assert all(prepared.last for executor in group.executors for idle in executor._idle.values() for prepared in idle)


def test_parameters_are_drawn_alike_on_all_ranks() -> None:
    startup = parsed('var w: float64[3] persistable uniform_random() -> (Out=w) {shape=[3], dtype="float64", run_once=true}')
    group = LocalGroup(3)
    group.run(startup)
    first, *others = (scope.get("w") for scope in group.scopes)
    assert all(np.array_equal(first, other) for other in others)
