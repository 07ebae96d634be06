"""``Print`` and ``py_func``: what is printed, when, and which gradients flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers
from graphad.errors import GraphadError, InvalidType, InvalidValue
from graphad.ops.callbacks import FUNCTIONS

L: Any = layers  # calls that type checkers refuse are made on purpose


def printed(capsys: pytest.CaptureFixture[str], runs: int = 1, **options: Any) -> list[str]:
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        x = L.data("x", [2], append_batch_size=False, stop_gradient=False)
        loss = L.mean(L.Print(x * 2.0, **options) * 3.0)
        (dx,) = ga.gradients(loss, x)
    scope, executor = ga.Scope(), ga.Executor()
    executor.run(startup, scope=scope)
    for _ in range(runs):
        (gradient,) = executor.run(main, {"x": [1.0, 0.25]}, [dx], scope=scope)
        assert gradient.tolist() == [3.0, 3.0]
    return capsys.readouterr().out.splitlines()


VALUES = ["Variable: scale_0.tmp_0", "  - shape: [2]", "  - dtype: float32", "  - data: [2 0.5]"]
SLOPES = ["Variable: scale_0.tmp_0@GRAD", "  - shape: [2]", "  - dtype: float32", "  - data: [1.5 1.5]"]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({}, VALUES + SLOPES),
        ({"print_phase": "forward"}, VALUES),
        ({"print_phase": "backward"}, SLOPES),
        (
            {"print_phase": "forward", "message": "here", "print_tensor_name": False, "print_tensor_shape": False, "summarize": 1},
            ["Variable", "  - message: here", "  - dtype: float32", "  - data: [2 ...]"],
        ),
        ({"print_phase": "forward", "print_tensor_type": False, "summarize": -1}, [VALUES[0], VALUES[1], VALUES[3]]),
    ],
)
def test_printed(capsys: pytest.CaptureFixture[str], options: dict[str, Any], lines: list[str]) -> None:
    assert [line.replace("elementwise_mul_0", "scale_0") for line in printed(capsys, **options)] == lines


def test_only_the_first_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(printed(capsys, runs=4, first_n=2)) == 2 * (len(VALUES) + len(SLOPES))


def test_printed_in_the_order_of_the_program_though_nothing_reads_it_and_in_each_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    with ga.program_guard(ga.Program()) as program:
        x = L.assign(np.array([1, 2]))
        L.Print(x, message="first")

        def body(i: Any) -> list[Any]:
            L.Print(i, message="loop")
            return [i + 1]

        L.while_loop(lambda i: i < 2, body, [0])
        L.Print(x, message="last")
    graph = ga.lower(program)
    ga.Pipeline.parse("dead-code, cse, hoist-invariants, canonical-order").run(graph)
    for mode in ("compiled", "interpreted"):
        for text in (program, ga.schedule(graph)):
            ga.Executor(mode=mode).run(text)
            lines = capsys.readouterr().out.splitlines()
            assert [line.split(": ")[1] for line in lines if "message" in line] == ["first", "loop", "loop", "last"]


def cubes(x: Any, y: Any) -> Any:
    return x**3 * y


def cubes_slopes(x: Any, y: Any, d: Any) -> Any:
    return 3 * x**2 * y * d, None


def call(backward: Any = None, skip: Any = None, function: Any = cubes, dtype: str = "float64") -> tuple[ga.Program, Any, Any, Any]:
    with ga.program_guard(ga.Program()) as program:
        x = L.data("x", [-1, 2], append_batch_size=False, dtype="float64", stop_gradient=False)
        y = L.data("y", [-1, 2], append_batch_size=False, dtype="float64")
        out = program.global_block().create_var("out", [-1, 2], dtype)
        assert L.py_func(function, [x, y], out, backward, skip) is out
    return program, x, y, out


X, Y = np.array([[1.0, -2.0], [0.5, 3.0]]), np.array([[2.0, 1.0], [4.0, -1.0]])


def test_a_function_with_its_gradient() -> None:
    program, x, _, out = call(cubes_slopes, "out")
    with ga.program_guard(program):
        (dx,) = ga.gradients(L.reduce_sum(out * out), x)
    value, slope = ga.Executor().run(program, {"x": X, "y": Y}, [out, dx])
    np.testing.assert_allclose(value, X**3 * Y)
    np.testing.assert_allclose(slope, 6 * X**5 * Y**2)


def test_several_results_and_none_to_read() -> None:
    with ga.program_guard(ga.Program()) as program:
        block = program.global_block()
        outs = [block.create_var("a", [2], "float32"), block.create_var("b", [1], "int64")]
        L.py_func(lambda: (np.ones(2), [7]), None, outs)
    a, b = ga.Executor().run(program, fetch_list=outs)
    assert a.dtype == np.float32
    assert a.tolist() == [1, 1]
    assert b.tolist() == [7]


def test_without_a_gradient_nothing_flows() -> None:
    program, x, _, out = call()
    with ga.program_guard(program):
        (dx,) = ga.gradients(L.reduce_sum(out * x), x)
    (slope,) = ga.Executor().run(program, {"x": X, "y": Y}, [dx])
    np.testing.assert_allclose(slope, X**3 * Y)


def test_the_program_is_text_that_another_process_cannot_run() -> None:
    text = str(call()[0])
    name = "tests.layers.test_callbacks.cubes"
    assert f'function="{name}"' in text
    function = FUNCTIONS.pop(name)
    try:
        with pytest.raises(GraphadError, match=f"'{name}' of Python, which only the process that wrote the program has"):
            ga.Executor().run(ga.Program.parse(text), {"x": X, "y": Y}, ["out"])
    finally:
        FUNCTIONS[name] = function


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y: x[0], r"gives float64\[2\] as result 0; float64\[-1, 2\] is declared"),
        (lambda x, y: (x, y), "gives 2 arrays; py_func writes 1"),
        (lambda x, y: x.nothing, "failed: AttributeError: .*nothing"),
        (lambda x, y: x + 1j, "as result 0; float64"),
        (lambda x, y: None, "gives 0 arrays"),
    ],
)
def test_a_function_that_gives_something_else(function: Callable[..., Any], message: str) -> None:
    program, *_, out = call(function=function)
    with pytest.raises(GraphadError, match=message):
        ga.Executor().run(program, {"x": X, "y": Y}, [out])


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (lambda x: L.Print(3), InvalidType, "layers.Print takes a Variable, not 3"),
        (lambda x: L.Print(x, print_phase="never"), InvalidValue, "print_phase is 'forward', 'backward' or 'both', not 'never'"),
        (lambda x: L.Print(x, 1, 2), InvalidType, "message is a string, not 2"),
        (lambda x: L.Print(x, "a"), InvalidType, "first_n is an int, not 'a'"),
        (lambda x: L.py_func(3, x, x), InvalidType, "func is a function, not 3"),
        (lambda x: L.py_func(abs, x, "y"), InvalidType, "out is a Variable or a list of Variables, not 'y'"),
        (lambda x: L.py_func(abs, x, x, abs, "z"), InvalidValue, "names z, neither in x nor in out: x, x"),
    ],
)
def test_refused(refused: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with ga.program_guard(ga.Program()):
        x = L.data("x", [2])
        with pytest.raises(error, match=message):
            refused(x)
