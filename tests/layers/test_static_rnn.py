"""``StaticRNN`` against recurrences written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.control import Given, Row, S, T, V, built, layers, ops, ran, refused
from tests.execution.test_executor import run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 2, 3)).astype("float32")
H = RNG.normal(size=(2, 3)).astype("float32")
W = RNG.normal(size=(3, 3)).astype("float32")


def recurrent(x: Any, h: Any, w: Any) -> Any:
    rnn = layers.StaticRNN()
    with rnn.step():
        part, before = rnn.step_input(x), rnn.memory(init=h)
        new = layers.tanh(part + before @ w)
        rnn.update_memory(before, new)
        rnn.output(new, before)
    return rnn()


def test_a_recurrence_is_computed_step_by_step() -> None:
    outs, before = ran(recurrent, x=X, h=H, w=W)
    states = [H]
    for part in X:
        states.append(np.tanh(part + states[-1] @ W))
    np.testing.assert_allclose(outs, states[1:], rtol=1e-5)
    np.testing.assert_allclose(before, states[:-1], rtol=1e-5)


def test_a_static_rnn_is_a_while_over_an_index() -> None:
    program, results = built(recurrent, x=X, h=H, w=W)
    assert ops(program.block(0)) == [
        "fill_constant() -> (Out=static_rnn_0.tmp_0)",
        "tensor_to_tensor_array(X=x) -> (Out=static_rnn_0.steps_0)",
        "assign(X=h) -> (Out=static_rnn_0.mem_0)",
        "create_array() -> (Out=static_rnn_0.out_0)",
        "create_array() -> (Out=static_rnn_0.out_1)",
        "fill_constant() -> (Out=static_rnn_0.tmp_2)",
        "less_than(X=static_rnn_0.tmp_0, Y=static_rnn_0.tmp_2) -> (Out=static_rnn_0.tmp_3)",
        "while(Condition=static_rnn_0.tmp_3, X=[static_rnn_0.steps_0, static_rnn_0.tmp_0, static_rnn_0.mem_0, w, "
        "static_rnn_0.out_0, static_rnn_0.out_1, static_rnn_0.tmp_2]) -> (Out=[static_rnn_0.mem_0, static_rnn_0.tmp_0, "
        "static_rnn_0.out_0, static_rnn_0.out_1, static_rnn_0.tmp_3], StepScopes=_generated_var_0)",
        "tensor_array_to_tensor(X=static_rnn_0.out_0) -> (Out=static_rnn_0.tmp_4)",
        "tensor_array_to_tensor(X=static_rnn_0.out_1) -> (Out=static_rnn_0.tmp_5)",
    ]
    assert [op.type for op in program.block(1).ops] == [
        *("read_from_array", "matmul_v2", "elementwise_add", "tanh"),
        *("write_to_array", "write_to_array", "assign", "increment", "less_than"),
    ]
    assert [out.shape for out in results] == [(4, 2, 3), (4, 2, 3)]


def test_memories_change_places() -> None:
    def build(x: Any, h: Any) -> Any:
        rnn, twice = layers.StaticRNN("swap"), h * 2.0
        with rnn.step():
            part = rnn.step_input(x)
            a, b = rnn.memory(h), rnn.memory(twice)
            rnn.update_memory(a, b)
            rnn.update_memory(b, a)
            rnn.step_output(part + a)
        return rnn()

    np.testing.assert_allclose(ran(build, x=X, h=H), X + np.stack([H, 2 * H, H, 2 * H]), rtol=1e-6)


def test_several_inputs_go_in_step() -> None:
    def build(x: Any, y: Any) -> Any:
        rnn = layers.StaticRNN()
        with rnn.step():
            rnn.step_output(rnn.step_input(x) * rnn.step_input(y))
        return rnn()

    y = np.arange(4, dtype="float32")
    np.testing.assert_allclose(ran(build, x=X, y=y), X * y[:, None, None])


def counted(shape: list[int], batch: int, **options: Any) -> ga.Program:
    """A memory made by shape that counts the steps."""
    program = ga.Program()
    with ga.program_guard(program):
        x = layers.data("x", [3, batch, 5], append_batch_size=False)
        rnn = layers.StaticRNN()
        with rnn.step():
            part = rnn.step_input(x)
            count = rnn.memory(shape=shape, batch_ref=part, **options)
            rnn.update_memory(count, count + 1.0)
            rnn.step_output(count)
        rnn()
    return program


@pytest.mark.parametrize(
    ("shape", "batch", "options", "expected"),
    [
        ([-1, 2], -1, {}, (3, 4, 2)),
        ([-1, 2], 4, {"init_value": 7.0}, (3, 4, 2)),
        ([6, -1], -1, {"init_batch_dim_idx": 1, "init_value": 0.5}, (3, 6, 4)),
        ([-1], -1, {}, (3, 4)),
        ([1, 2, 3], -1, {"ref_batch_dim_idx": 2}, (3, 5, 2, 3)),
    ],
)
def test_a_memory_may_start_as_one_value_a_row(shape: list[int], batch: int, options: dict[str, Any], expected: tuple[int, ...]) -> None:
    program = counted(shape, batch, **options)
    out = program.block(0).ops[-1].output("Out")[0]
    (got,) = run(program, {"x": np.zeros((3, 4, 5), "float32")}, [out])
    assert got.shape == expected
    start = options.get("init_value", 0.0)
    np.testing.assert_array_equal(got, np.broadcast_to(np.reshape([start, start + 1, start + 2], (3, *[1] * (got.ndim - 1))), got.shape))
    assert str(ga.Program.parse(str(program))) == str(program)


def test_a_memory_may_take_its_rows_from_outside() -> None:
    def build(x: Any, h: Any) -> Any:
        rnn = layers.StaticRNN()
        with rnn.step():
            part = rnn.step_input(x)
            total = rnn.memory(shape=[-1, 3], batch_ref=h, ref_batch_dim_idx=0)
            rnn.update_memory(total, total + part)
            rnn.step_output(total)
        return rnn()

    np.testing.assert_allclose(ran(build, x=X, h=H)[-1], X[:-1].sum(0), rtol=1e-6)


def test_layers_in_a_step_have_one_set_of_parameters() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        rnn = layers.StaticRNN()
        with rnn.step():
            rnn.step_output(layers.fc(rnn.step_input(layers.data("x", [4, 2, 3], append_batch_size=False)), 5))
        out = rnn()
    assert [p.name for p in program.all_parameters()] == ["fc_0.w_0", "fc_0.b_0"]
    assert out.shape == (4, 2, 5)


# -- what it refuses -----------------------------------------------------------------------------


def step(g: Given, build: Callable[[Any], Any], complete: bool = False) -> Any:
    rnn = layers.StaticRNN()
    with rnn.step():
        if complete:
            rnn.step_input(g.seq)
        build(rnn)
    return rnn()


def mem(g: Given, *updates: Any) -> Callable[[Any], None]:
    def build(rnn: Any) -> None:
        memory = rnn.memory(g.x)
        for value in updates:
            rnn.update_memory(memory, value)
        rnn.step_output(memory)

    return build


REFUSED: list[Row] = [
    (lambda g: step(g, lambda r: r.step_input(3)), T, r"layers.StaticRNN: step_input takes a Variable, not 3"),
    (
        lambda g: step(g, lambda r: r.step_input(layers.assign(g.x))),
        V,
        r"is made in the step; step_input takes a sequence that is made before it",
    ),
    (
        lambda g: step(g, lambda r: r.step_input(g.short), True),
        V,
        r"only take fix seq_len input: 'short' is float32\[4, 3\]; .* T = 5, as the",
    ),
    (
        lambda g: step(g, lambda r: r.step_input(layers.mean(g.x))),
        V,
        r"Static RNN only take fix seq_len input: 'mean_0.tmp_0' is float32\[\]",
    ),
    (lambda g: step(g, lambda r: r.step_output(g.x)), V, r"there is no step_input, so nothing says how many steps there are"),
    (lambda g: step(g, lambda r: None, True), V, r"RNN has no output"),
    (lambda g: step(g, lambda r: r.step_output(3), True), T, r"step_output takes a Variable, not 3"),
    (lambda g: step(g, lambda r: r.memory(), True), V, r"if init is None, memory at least need shape and batch_ref"),
    (lambda g: step(g, lambda r: r.memory(g.x * 2.0), True), V, r"reads 'scale_0.tmp_0', which no block here declares"),
    (lambda g: step(g, lambda r: r.memory(3), True), T, r"init is a Variable, not 3"),
    (
        lambda g: step(g, lambda r: r.memory(shape=[-1, -1], batch_ref=g.seq), True),
        V,
        r"the shape \[2, -1\] of a memory is known except for axis 0",
    ),
    (
        lambda g: step(g, lambda r: r.memory(shape=[], batch_ref=g.seq), True),
        V,
        r"axis 0 of the memory \[\] .* axis 1 of 'seq', .*there is none",
    ),
    (lambda g: step(g, lambda r: r.memory(shape="ab", batch_ref=g.seq), True), T, r"a shape is a list of ints, not 'ab'"),
    (lambda g: step(g, mem(g), True), V, r"no update_memory says what the memory 'static_rnn_0.mem_0' is in the next step"),
    (lambda g: step(g, mem(g, g.x, g.x), True), V, r"the memory 'static_rnn_0.mem_0' is updated twice"),
    (lambda g: step(g, mem(g, 3), True), T, r"update_memory takes two Variables, not Variable static_rnn_0.mem_0: .* and 3"),
    (lambda g: step(g, mem(g, g.double), True), S, r"'static_rnn_0.mem_0' is float32\[3\], but its next value 'double' is float64\[3\]"),
    (lambda g: step(g, lambda r: r.update_memory(g.x, g.x), True), V, r"'x' is no memory of this network"),
    (lambda g: step(g, lambda r: layers.cond(g.p, lambda: r.step_input(g.seq)), True), V, r"You must invoke step_input in rnn block"),
    (lambda g: step(g, lambda r: r(), True), V, r"RNN output can only be retrieved after rnn block"),
    (lambda g: step(g, lambda r: r.step().__enter__(), True), V, r"the network has its step already"),
    (lambda g: layers.StaticRNN().memory(g.x), V, r"You must invoke memory in rnn block"),
    (lambda g: layers.StaticRNN().update_memory(g.x, g.x), V, r"You must invoke update_memory in rnn block"),
    (lambda g: layers.StaticRNN().output(g.x), V, r"You must invoke step_output in rnn block"),
    (lambda g: layers.StaticRNN()(), V, r"RNN output can only be retrieved after rnn block"),
]


@pytest.mark.parametrize(("build", "error", "message"), REFUSED)
def test_what_makes_no_sense_is_refused(build: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    refused(build, error, message)


def test_a_step_that_failed_can_be_written_again() -> None:
    given = Given()
    with ga.program_guard(given.main):
        rnn = layers.StaticRNN()
        before = given.texts()
        with pytest.raises(V, match="nothing says how many steps"), rnn.step():
            rnn.step_output(given.x)
        assert given.texts() == before
        with rnn.step():
            rnn.step_output(rnn.step_input(given.seq))
        assert rnn().shape == (5, 2, 3)
