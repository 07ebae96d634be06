"""Residuals of loops and branches: exactly the values that gradients read, kept no longer than needed, and none without gradients."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.execution.compiled import FIRST
from graphad.ops import REGISTRY
from graphad.ops.aggregates import StepScopes, Tape
from graphad.ops.definition import operator
from tests.backward.test_gradients_control import rows, tanh, times
from tests.backward.test_gradients_control_layers import loop
from tests.differences import Array, Model, layers
from tests.nested_programs import count_to, if_else, net, when

B, D, H, T = 2, 3, 4, 5  # batch, input, hidden state, iterations
X, W, Y = np.array([0.4, -0.7, 1.1]), np.array([0.9, 0.6, -0.8]), np.array([0.3, 0.5, 0.2])


def scopes_of(model: Model) -> list[Any]:
    """The residuals that the operators with blocks in block 0 kept, in order."""
    names = [op.output(slot)[0] for op in model.program.global_block().ops for slot in ("StepScopes", "Scope") if op.output(slot)]
    return model.run(names)


def held(value: Any) -> dict[int, int]:
    """The arrays that own the memory in an aggregate, and their bytes; what is there twice counts once."""
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        return {id(value): value.nbytes}
    return {at: size for part in value.parts() for at, size in held(part).items()}


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape)


def rnn(batch: int = B, test: bool = False) -> Model:
    """h = tanh(x_t w + h u + b), the x_t from a loop over an array."""

    def build(x: Any, h: Any, w: Any, u: Any, b: Any) -> Any:
        def body(i: Any, h: Any) -> Any:
            return [i + 1, layers.tanh(layers.matmul(layers.array_read(steps, i), w) + layers.matmul(h, u) + b)]

        x.stop_gradient = True
        steps = layers.tensor_to_tensor_array(x, axis=0, use_stack=True)
        return layers.while_loop(lambda i, h: i < T, body, [np.zeros(1, "int64"), h], is_test=test)[1]

    return Model(build, {"w": random(D, H), "u": random(H, H), "b": random(H)}, x=random(T, batch, D), h=random(batch, H))


# -- what is kept --------------------------------------------------------------------------------


def test_an_rnn_keeps_its_input_its_state_and_the_hyperbolic_tangent() -> None:
    model = rnn()
    ga.append_backward(model.loss)
    (scopes,) = scopes_of(model)
    assert scopes.count == len(scopes.steps) == T
    for step in scopes.steps:
        assert sorted(array.shape for array in step.values()) == [(B, D), (B, H), (B, H)]
    assert scopes.nbytes == 8 * T * (B * D + 2 * B * H)


def test_what_is_kept_twice_is_held_once() -> None:
    """The state of an iteration is the tangent of the one before, and the inputs are parts of one array."""
    model = rnn()
    ga.append_backward(model.loss)
    (scopes,) = scopes_of(model)
    assert sum(held(scopes).values()) <= 8 * (T * B * D + (T + 1) * B * H)


def reads_of_a_run(model: Model) -> set[str]:
    """The residuals that the blocks of the last gradient operator read."""
    op = [op for op in model.program.global_block().ops if op.type.endswith("_grad") and "original_input" in op.attrs][-1]
    blocks = [op.attrs[name] for name in ("sub_block", "true_block", "false_block") if name in op.attrs]
    return {name for block in blocks for inner in block.ops for name in inner.input_names() if name not in block.vars}


def elementwise(i: Any, y: Any, w: Any) -> Any:
    return [layers.exp(layers.sin(y) * w) + y, layers.tanh(w)]


MODELS = {
    "a loop": lambda: Model(lambda x, w, n: loop(n, elementwise, x, w), x=X, w=W, n=[3]),
    "a loop in place": lambda: Model(rows(*count_to("n", tanh("y", "a"), times("a", "w", "y"))), {"w": W}, y=Y, n=[3]),
    "a loop in a loop": lambda: Model(rows(*count_to("n", *count_to("n", times("y", "w", "y"), i="j"), tanh("y", "y"))), w=W, y=Y, n=[3]),
    "a branch": lambda: Model(rows(if_else("c", [times("y", "y", "y")], [tanh("y", "a"), times("a", "w", "y")])), w=W, y=Y, c=[False]),
    "a branch taken": lambda: Model(rows(when("c", times("y", "w", "y"), tanh("y", "y"))), w=W, y=Y, c=[True]),
    "a net": lambda: Model(rows(net(times("y", "w", "y"), tanh("y", "y"))), w=W, y=Y),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_kept_is_what_the_gradient_reads(name: str) -> None:
    model = MODELS[name]()
    assert [(scopes.nbytes, held(scopes)) for scopes in scopes_of(model)] == [(0, {})]
    model.gradients()
    (scopes,) = scopes_of(model)
    assert scopes.steps
    assert {kept for step in scopes.steps for kept in step} <= reads_of_a_run(model)
    if "branch" not in name:
        assert all(set(step) == reads_of_a_run(model) for step in scopes.steps)


def test_a_gradient_that_reads_nothing_of_an_iteration_keeps_nothing() -> None:
    model = Model(lambda x, w, n: loop(n, lambda i, y: layers.scale(y, scale=0.3) + w + layers.reduce_sum(y), x), x=X, w=W, n=[4])
    model.gradients(["x"])
    (scopes,) = scopes_of(model)
    assert (scopes.count, scopes.steps, scopes.nbytes) == (4, [], 0)
    np.testing.assert_allclose(model.run(["x@GRAD"])[0], model.differences("x"), rtol=1e-6)


def test_of_what_is_read_for_its_shape_only_the_shape_is_kept() -> None:
    """Rows are added to an array; the gradient of concat reads how many there were, not what they hold."""

    def grow(i: Any, rows: Any, y: Any) -> Any:
        return [layers.concat([rows, y], axis=0), layers.tanh(y)]

    model = Model(lambda x, n: loop(n, grow, x, x, shapes=[[-1, 3], [1, 3]]), x=X[None], n=[6])
    model.gradients()
    (scopes,) = scopes_of(model)
    assert sum(held(scopes).values()) <= 6 * (X.nbytes + 16)


def test_of_a_branch_only_the_one_taken_is_kept() -> None:
    model = Model(rows(if_else("c", [times("y", "w", "y"), times("y", "w", "y")], [tanh("y", "y")])), w=W, y=Y, c=[False])
    model.gradients()
    ((kept,),) = (scopes.steps for scopes in scopes_of(model))
    assert sum(array.nbytes for array in kept.values()) == Y.nbytes


def test_loops_in_loops_keep_what_every_inner_iteration_needs() -> None:
    model = Model(rows(*count_to("n", *count_to("m", tanh("y", "y"), i="j"))), y=Y, n=[3], m=[4])
    model.gradients()
    (scopes,) = scopes_of(model)
    inner = [part for step in scopes.steps for part in step.values()]
    assert [(type(each), each.count, each.nbytes) for each in inner] == [(StepScopes, 4, 4 * Y.nbytes)] * 3
    assert scopes.nbytes == 12 * Y.nbytes


# -- what is not ---------------------------------------------------------------------------------


@pytest.mark.parametrize("test", [True, False])
def test_without_a_gradient_nothing_is_kept(test: bool) -> None:
    (scopes,) = scopes_of(rnn(test=test))
    assert (scopes.count, scopes.nbytes, scopes.steps) == (T, 0, [])


def test_a_trained_program_cloned_for_a_test_keeps_nothing() -> None:
    model = rnn()
    before = model.run([model.loss])
    with ga.program_guard(model.program, ga.Program()):
        ga.optimizer.SGD(0.0).minimize(model.loss)
    model.program = model.program.clone(for_test=True)
    (scopes,) = scopes_of(model)
    assert (scopes.count, scopes.nbytes) == (T, 0)
    assert model.run([model.loss]) == before


def test_pruning_away_the_gradient_keeps_nothing() -> None:
    model = rnn()
    ga.append_backward(model.loss)
    model.program = model.program.prune(model.loss)
    assert [scopes.nbytes for scopes in scopes_of(model)] == [0]


# -- how long ------------------------------------------------------------------------------------


@pytest.fixture
def probe() -> Iterator[list[int]]:
    """An operator "probe" that copies X; each time its gradient runs, it notes how many of its results are alive."""
    results, alive = list[weakref.ref[Array]](), list[int]()

    def copied(X: Array) -> Array:
        result = np.array(X)
        results.append(weakref.ref(result))
        return result

    def counted(Out: Array, X: Array) -> Array:
        alive.append(sum(ref() is not None for ref in results))
        return np.array(X)

    back = operator("Out X -> Back", infer=lambda Out, X: X, grad=None, name="probe_back")(counted)
    operator("X -> Out", infer=lambda X: X, grad={"X": lambda Out, dOut: back(Out, dOut)}, name="probe")(copied)
    yield alive
    for name in ("probe", "probe_grad", "probe_back"):
        del REGISTRY[name]
    assert not any(ref() is not None for ref in results)


@pytest.fixture
def interpreted() -> Iterator[None]:
    """No function is made, so that kernels run just where the program runs them."""
    before = FIRST.set(0)
    yield
    FIRST.reset(before)


def probed(model: Model) -> None:
    """Run the backward of a model for what it does to memory."""
    model.run([g for g in model.gradients().values() if g is not None])


def probing(i: Any, y: Any) -> Any:
    program = ga.default_main_program()
    name = program.names.generate("probe")
    program.current_block().append_op("probe", {"X": y}, {"Out": name})
    return layers.scale(program.current_block().var(name), scale=0.5)


@pytest.mark.usefixtures("interpreted")
def test_the_backward_lets_go_of_each_iteration_as_it_is_done_with_it(probe: list[int]) -> None:
    probed(Model(lambda x: loop(6, probing, x), x=X))
    assert probe == [6, 5, 4, 3, 2, 1]


@pytest.mark.usefixtures("interpreted")
def test_with_an_iteration_of_a_loop_goes_what_the_loops_in_it_kept(probe: list[int]) -> None:
    probed(Model(lambda x: loop(2, lambda i, y: loop(3, probing, y), x), x=X))
    assert all(alive <= most for alive, most in zip(probe, [6, 6, 6, 3, 3, 3], strict=True))


@pytest.mark.usefixtures("interpreted")
def test_the_last_of_two_backwards_lets_go(probe: list[int]) -> None:
    model = Model(lambda x: loop(4, probing, x), x=X)
    model.gradients()
    probed(model)
    assert probe == [4, 4, 4, 4, 4, 3, 2, 1]


def peak(model: Model, fetch: list[Any]) -> int:
    """The most bytes that a run takes, beyond what is there before."""
    model.run(fetch)
    tracemalloc.start()
    try:
        model.run(fetch)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_running_the_backward_takes_no_more_than_the_forward_keeps_and_a_few_iterations() -> None:
    size, count = 1 << 16, 24
    model = Model(lambda x: loop(count, lambda i, y: layers.tanh(y), x), x=random(size // 8))
    forward = peak(model, [model.loss])
    gradient = model.gradients()["x"]
    assert forward < 4 * size
    assert peak(model, [gradient]) < (count + 6) * size


def test_gradients_of_steps_take_the_place_of_what_was_kept_of_them() -> None:
    """Unless it is referenced elsewhere: fetched values stay."""
    size, count = 1 << 16, 24

    def build(x: Any) -> Any:
        net = layers.StaticRNN()
        with net.step():
            net.output(layers.tanh(net.step_input(x)))
        return layers.reduce_sum(net(), reduce_all=True)

    model = Model(build, scalar=True, x=random(count, size // 8))
    forward = peak(model, [model.loss])
    gradient = model.gradients()["x"]
    scopes = [name for name, var in model.program.global_block().vars.items() if var.type == "STEP_SCOPES"]
    assert peak(model, [gradient]) < forward + 4 * size
    assert peak(model, [gradient, *scopes]) > forward + (count - 4) * size


# -- tapes ---------------------------------------------------------------------------------------


def test_a_tape_holds_what_the_gradient_of_an_iteration_pops() -> None:
    model = Model(lambda x, w: loop(T, lambda i, y: layers.tanh(y * w), x), x=X, w=W)
    model.gradient("x", model.gradient("x"))
    block = model.program.global_block()
    index, written = next((i, op.output("Out")) for i, op in enumerate(block.ops) if op.type == "while")
    (name,) = (n for n in written if block.var(n).type == "STEP_SCOPES")
    block.insert_op(index + 1, "assign", {"X": name}, {"Out": "pushed"})
    (tape,) = model.run(["pushed"])
    assert isinstance(tape, Tape)
    assert len(tape) == T
    assert {len(entry) for entry in tape.entries()} == {1}
    assert tape.nbytes == T * X.nbytes
