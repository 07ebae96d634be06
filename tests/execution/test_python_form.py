"""Compiled programs as Python modules: they compute what the executor computes, and say what they are for."""

from __future__ import annotations

import ast
import dis
from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.backward.test_gradients_control_layers import loop
from tests.benchmarks import training_steps
from tests.differences import Model

L: Any = ga.layers


def names_of(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, "<written>", "exec"), names)
    return names


def made(text: str) -> Any:
    return names_of(text)["make"]()


def arguments(text: str) -> tuple[list[str], list[str]]:
    """The function's arguments, and the variables whose new values it returns, as the first lines of the module say."""
    said = ast.get_docstring(ast.parse(text)) or ""
    taken = [line.split(":")[0].strip() for line in said.splitlines() if line.startswith("    ")]
    kept = said.rsplit("the new values of ", 1)[1]
    return taken, [] if kept == "nothing" else kept.split(", ")


@pytest.mark.parametrize("make", training_steps.WORKLOADS)
def test_a_training_step_gives_the_same_numbers(make: Any) -> None:
    work = make()
    scope, executor = ga.Scope(), ga.Executor(mode="interpreted")
    executor.run(work.startup, scope=scope)
    text = ga.to_python(work.main, [work.loss], work.feeds, scope)
    taken, kept = arguments(text)
    (loss,), new = made(text)(*(work.feeds[name] if name in work.feeds else scope.get(name) for name in taken))
    (wanted,) = executor.run(work.main, work.feeds, [work.loss], scope)
    np.testing.assert_array_equal(loss, wanted)
    assert len(kept) == len(new) >= work.gradients * len(work.parameters(scope))
    for name, value in zip(kept, new, strict=True):
        np.testing.assert_array_equal(value, scope.get(name), err_msg=name)


def test_an_elementwise_program_needs_numpy_alone() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = L.data("x", [3], "float64", append_batch_size=False)
        y = L.softmax(L.tanh(x) * 2.0)
    text = ga.to_python(program, [y])
    assert {node.names[0].name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)} == {"numpy"}
    x_ = np.array([0.5, -1.0, 2.0])
    ((got,), _) = made(text)(x_)
    np.testing.assert_array_equal(got, ga.Executor(mode="interpreted").run(program, {"x": x_}, [y])[0])


def test_loops_become_loops() -> None:
    model = Model(lambda x: loop(3, lambda i, y: L.tanh(y), x), x=np.array([0.4, -0.7]))
    gradient = model.gradients()["x"]
    text = ga.to_python(model.program, [gradient], model.feed)
    assert "    while " in text
    ((got,), _) = made(text)(*model.feed.values())
    np.testing.assert_array_equal(got, model.run([gradient])[0])


def test_random_numbers_are_those_of_the_first_run() -> None:
    program = ga.Program()
    program.random_seed = 3
    with ga.program_guard(program):
        y = L.uniform_random([4])
    ((got,), _) = made(ga.to_python(program, [y]))()
    np.testing.assert_array_equal(got, ga.Executor().run(program, fetch_list=[y], scope=ga.Scope())[0])


def test_one_text_for_one_program() -> None:
    work = training_steps.lstm()
    assert ga.to_python(work.main, [work.loss], work.feeds) == ga.to_python(work.main, [work.loss], work.feeds)


def test_unknown_extents_need_an_example() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = L.data("x", [3])
        y = L.tanh(x)
    with pytest.raises(ValueError, match=r"'x' is declared with float32\[-1, 3\]: give an example in feed"):
        ga.to_python(program, [y])
    assert "x: float32[2, 3]" in ga.to_python(program, [y], {"x": np.ones((2, 3), "float32")})


def test_a_function_of_many_arrays_is_not_compiled_in_quadratic_time() -> None:
    """CPython makes each cell at the beginning of the first basic block, and moves the rest of the block: it has to end early."""
    texts = []
    for count in (10, 1100):
        program = ga.Program()
        with ga.program_guard(program):
            total = x = L.data("x", [4], append_batch_size=False)
            for _ in range(count // 2):
                total = L.elementwise_add(L.tanh(total), x)
        texts.append(ga.to_python(program, [total]))
        np.testing.assert_array_equal(
            made(texts[-1])(np.ones(4, "float32"))[0][0], ga.Executor().run(program, {"x": np.ones(4, "float32")}, [total])[0]
        )
    small, large = ([each.opname for each in dis.get_instructions(names_of(text)["make"])] for text in texts)
    assert "FOR_ITER" not in small
    assert large.index("FOR_ITER") < large.index("STORE_DEREF")
    assert large.count("STORE_DEREF") > 1000
