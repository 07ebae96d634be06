"""The page of the specification names tests that are there; and what the specification promises and no other test holds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import graphad as ga
from graphad.interop.paddle.program_desc import load_program
from graphad.ops import lookup
from graphad.types import Array
from tests.source_tree import ROOT

layers = ga.layers
ROWS = [line for line in (ROOT / "docs/specification.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_each_row_names_tests_that_are_there() -> None:
    rows = [row for row in ROWS if not re.match(r"\| (---|promise|in Paddle) \|", row)]
    assert len(rows) > 40
    assert [row for row in rows if not NAMED.search(row)] == []
    missing = []
    for path, name in set(NAMED.findall("\n".join(rows))):
        if not re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE):
            missing.append(f"{path}::{name}")
    assert missing == []


@pytest.fixture
def main() -> ga.Program:
    return ga.Program()


def test_the_block_of_a_gradient_is_inside_the_forward_block(main: ga.Program) -> None:
    with ga.program_guard(main):
        x = layers.data("x", [2], "float64", append_batch_size=False, stop_gradient=False)
        _, y = layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, layers.tanh(y * x)], [0, x])
        z = layers.cond(layers.mean(y) < 1.0, lambda: layers.sin(y), lambda: layers.cos(y))
        ga.gradients(layers.mean(z), x)
    ops = {op.type: op for op in main.global_block().ops}
    for forward, blocks in {"while": ["sub_block"], "if_else": ["true_block", "false_block"]}.items():
        of, grad = ops[forward].attrs, ops[f"{forward}_grad"].attrs
        assert [grad[name].parent_idx for name in blocks] == [of[name].idx for name in blocks]


def test_the_empty_variable_is_no_variable(main: ga.Program) -> None:
    block = main.global_block()
    for name in ("x", "dx"):
        block.create_var(name, [2], "float64")
    slots = {"X@GRAD": "dx", "Y@GRAD": "@EMPTY@"}
    block.append_op("elementwise_add_grad", {"X": "x", "Y": "x", "Out@GRAD": "x"}, slots)
    assert not block.has_var("@EMPTY@")
    (dx,) = ga.Executor().run(main, {"x": np.array([1.0, 2.0])}, ["dx"])
    np.testing.assert_array_equal(dx, [1.0, 2.0])


def test_a_definition_registers_its_gradient(main: ga.Program) -> None:
    definition = lookup("leaky_relu_grad")
    assert set(definition.inputs) <= {"X", "Out", "Out@GRAD"}
    assert set(definition.outputs) == {"X@GRAD"}
    with ga.program_guard(main):
        x = layers.data("x", [2], "float64", append_batch_size=False, stop_gradient=False)
        ga.gradients(layers.mean(layers.leaky_relu(x, alpha=0.25)), x)
    (op,) = (op for op in main.global_block().ops if op.type == "leaky_relu_grad")
    assert op.attrs["alpha"] == 0.25


def test_feed_operators_are_in_saved_models_alone(main: ga.Program, tmp_path: Path) -> None:
    with ga.program_guard(main):
        x = layers.data("x", [2])
        y = layers.tanh(x)
    assert [op.type for op in main.global_block().ops] == ["tanh"]
    ga.io.save_inference_model(tmp_path, [x.name], [y], ga.Executor(), main)
    stored = load_program((tmp_path / "__model__").read_bytes())
    assert [op.type for op in stored.global_block().ops] == ["feed", "tanh", "fetch"]


# -- wrong in Paddle, and held by no other test --------------------------------------------------------


def slopes(program: ga.Program, loss: ga.Variable, given: dict[str, list[float]]) -> None:
    """The gradients of a scalar with respect to what is fed or set, against central differences."""
    block, arrays = program.global_block(), {name: np.array(value) for name, value in given.items()}
    gradients = ga.gradients([loss], [block.var(name) for name in arrays])
    params = {param.name for param in program.all_parameters()}

    def run(fetch: list[ga.Variable], changed: dict[str, Array]) -> list[Array]:
        now, scope = arrays | changed, ga.Scope()
        for name in params:
            scope.set(name, now[name])
        return ga.Executor().run(program, {name: value for name, value in now.items() if name not in params}, fetch, scope=scope)

    assert all(gradient is not None for gradient in gradients)
    for (name, value), gradient in zip(arrays.items(), run([g for g in gradients if g is not None], {}), strict=True):
        for i in range(value.size):
            step = np.zeros_like(value)
            step[i] = 1e-6
            low, high = (float(run([loss], {name: value + sign * step})[0].sum()) for sign in (-1, 1))
            assert gradient[i] == pytest.approx((high - low) / 2e-6, rel=1e-6, abs=1e-8), (name, i)


def data(name: str) -> ga.Variable:
    return layers.data(name, [2], "float64", append_batch_size=False, stop_gradient=False)


def test_one_initial_value_for_two_loop_variables(main: ga.Program) -> None:
    with ga.program_guard(main):
        x, w = data("x"), data("w")
        _, a, b = layers.while_loop(lambda i, a, b: i < 3, lambda i, a, b: [i + 1, layers.sin(a) * w, a + b * b], [0, x, x])
        loss = layers.reduce_sum(a * b + x)
    slopes(main, loss, {"x": [0.3, -0.7], "w": [1.1, 0.4]})


def test_a_body_that_reads_the_initial_value_besides_the_loop_variable(main: ga.Program) -> None:
    with ga.program_guard(main):
        x = data("x")
        _, a = layers.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, layers.sin(a) * x], [0, x])
        loss = layers.reduce_sum(a + x * x)
    slopes(main, loss, {"x": [0.3, -0.7]})


def test_a_parameter_as_loop_variable_keeps_its_value(main: ga.Program) -> None:
    with ga.program_guard(main):
        w = main.global_block().create_parameter("w", [2], "float64")
        _, a = layers.while_loop(lambda i, a: i < 2, lambda i, a: [i + 1, a * a], [0, w])
        loss = layers.reduce_sum(a * w)
    slopes(main, loss, {"w": [0.3, -0.7]})
    scope = ga.Scope()
    scope.set("w", np.array([2.0, 3.0]))
    (total,) = ga.Executor().run(main, {}, [loss], scope=scope)
    assert total == 2.0**5 + 3.0**5
    np.testing.assert_array_equal(scope.get("w"), [2.0, 3.0])


def test_an_output_of_a_recurrent_network_that_is_not_its_last_operator(main: ga.Program) -> None:
    with ga.program_guard(main):
        x, w = layers.assign(np.array([[1.0, -0.5], [0.25, 2.0], [0.75, 1.5]])), data("w")
        rnn = layers.StaticRNN()
        with rnn.step():
            step = rnn.step_input(x)
            state = rnn.memory(init=w)
            product = state * step * w  # a memory that is multiplied
            rnn.step_output(product)
            rnn.update_memory(state, layers.tanh(product + state))
        loss = layers.reduce_sum(rnn())
    slopes(main, loss, {"w": [0.3, -0.7]})


def test_labels_and_masks_need_no_stop_gradient(main: ga.Program) -> None:
    with ga.program_guard(main, ga.Program()):
        x = layers.data("x", [3], "float64")
        label = layers.data("label", [1], "int64", stop_gradient=False)
        mask = layers.cast(layers.greater_than(x, layers.zeros_like(x)), "float64")
        loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(x * mask, 3, param_attr="w"), label))
        pairs = ga.append_backward(loss)
    assert [param.name for param, _ in pairs] == ["w", "fc_0.b_0"]
    assert not main.global_block().has_var("label@GRAD")


def test_a_clone_for_test_keeps_stop_gradient_and_can_be_differentiated(main: ga.Program) -> None:
    with ga.program_guard(main):
        x = data("x")
        held = layers.tanh(x)
        held.stop_gradient = True
        loss = layers.reduce_sum(layers.dropout(x * held, 0.5))
    test = main.clone(for_test=True)
    block = test.global_block()
    assert block.var(held.name).stop_gradient
    (gradient,) = ga.gradients([block.var(loss.name)], [block.var("x")])
    assert gradient is not None
    first, again = (ga.Executor().run(test, {"x": [0.5, 2.0]}, [gradient])[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, 0.5 * np.tanh([0.5, 2.0]))  # Fluid's dropout is scaled down in a test


def test_products_with_zeros_and_ties_have_the_right_slope(main: ga.Program) -> None:
    with ga.program_guard(main):
        x = data("x")
        of_product, of_extremum = (ga.gradients([f(x)], [x])[0] for f in (layers.reduce_prod, layers.reduce_amax))
    assert of_product is not None
    assert of_extremum is not None
    run = ga.Executor().run
    for value, slope in (([0.0, 3.0], [3.0, 0.0]), ([0.0, 0.0], [0.0, 0.0]), ([2.0, 5.0], [5.0, 2.0])):
        np.testing.assert_array_equal(run(main, {"x": value}, [of_product])[0], slope)
    np.testing.assert_array_equal(run(main, {"x": [2.0, 2.0]}, [of_extremum])[0], [0.5, 0.5])


def test_an_empty_batch_trains(main: ga.Program) -> None:
    startup = ga.Program()
    with ga.program_guard(main, startup):
        x = layers.data("x", [3], "float64")
        loss = layers.reduce_sum(layers.clip_by_norm(layers.fc(x, 2, param_attr="w", bias_attr=False), 1.0))
        ga.optimizer.Ftrl(0.1).minimize(loss, startup)
    scope = ga.Scope()
    ga.Executor().run(startup, scope=scope)
    before = scope.get("w").copy()
    total, gradient = ga.Executor().run(main, {"x": np.zeros((0, 3))}, [loss, "w@GRAD"], scope=scope)
    assert total == 0.0
    np.testing.assert_array_equal(gradient, np.zeros((3, 2)))
    assert scope.get("w").shape == before.shape
