"""Running programs: what is fed and fetched, what is kept, what is freed, and what is said when something fails."""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad.errors import ExecutionError
from graphad.ops import REGISTRY

Array = NDArray[Any]
Row = tuple[str, dict[str, Any], str]


def doubled(dtype: str = "float32") -> tuple[ga.Program, ga.Variable]:
    """y = 2 x, for x of [-1, 3]."""
    program = ga.Program()
    return program, program.global_block().create_var("x", [-1, 3], dtype) * 2.0


def run(program: ga.Program, feed: Any = None, fetch: Any = None, scope: ga.Scope | None = None, **options: Any) -> list[Array]:
    return ga.Executor().run(program, feed, fetch, ga.Scope() if scope is None else scope, **options)


def written(*ops: Row, **variables: list[int]) -> ga.Program:
    """float32 variables, then operators (type, inputs, the name they write)."""
    program = ga.Program()
    for name, shape in variables.items():
        program.global_block().create_var(name, shape, "float32")
    for op_type, inputs, output in ops:
        program.global_block().append_op(op_type, inputs, {"Out": output})
    return program


def layer() -> tuple[ga.Program, ga.Program, ga.Variable]:
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        return main, startup, ga.layers.fc(ga.layers.data("x", [4]), 3)


def placed(program: ga.Program, index: int = 0) -> str:
    """The pattern of the line on which an operator was written."""
    return re.escape(f"written at {program.global_block().ops[index].source}")


# -- feeding and fetching ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_run_computes_in_the_dtype_declared(dtype: str) -> None:
    program, y = doubled(dtype)
    (got,) = run(program, {"x": np.array([[1, 2, 3]], dtype)}, [y])
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, [[2, 4, 6]])


def test_lists_become_arrays_of_the_dtype_declared() -> None:
    program, y = doubled("float64")
    assert run(program, {"x": [[1, 2, 3]]}, [y])[0].dtype == "float64"


def test_fetches_come_in_order_by_name_or_variable_and_again() -> None:
    program, y = doubled()
    x = np.ones((1, 3), "float32")
    first, second, third = run(program, {"x": x}, [y.name, "x", y])
    np.testing.assert_array_equal(first, 2 * x)
    np.testing.assert_array_equal(second, x)
    np.testing.assert_array_equal(third, 2 * x)
    assert run(program, {"x": x}) == []


def test_what_is_fetched_is_the_callers_own() -> None:
    program = written(("assign", {"X": "x"}, "y"), x=[2])
    program.global_block().var("y").persistable = True
    x, scope = np.ones(2, "float32"), ga.Scope()
    for fetched in run(program, {"x": x}, ["x", "y", "y"], scope):
        fetched += 5
    np.testing.assert_array_equal(x, 1)
    np.testing.assert_array_equal(scope.get("y"), 1)


def test_an_operator_in_place_leaves_the_fed_array_alone() -> None:
    program = written(("increment", {"X": "x"}, "x"), x=[2])
    x = np.ones(2, "float32")
    np.testing.assert_array_equal(run(program, {"x": x}, ["x"])[0], 2)
    np.testing.assert_array_equal(x, 1)


@pytest.mark.parametrize(
    ("feed", "error", "message"),
    [
        ({"y": np.ones((1, 3))}, ValueError, r"feed has 'y', which the program does not declare"),
        ({"xx": [[1.0, 2.0, 3.0]]}, ValueError, r"'xx', which the program does not declare; did you mean 'x'\?"),
        ({3: [[1.0, 2.0, 3.0]]}, ValueError, r"feed has 3, which the program does not declare"),
        ({"x": np.ones((2, 4), "float32")}, ValueError, r"feed 'x' has shape \[2, 4\], but the variable is declared \[-1, 3\]"),
        ({"x": np.ones(3, "float32")}, ValueError, r"feed 'x' has shape \[3\], but .* \[-1, 3\]"),
        ({"x": None}, ValueError, r"feed 'x' has shape \[\], but .* \[-1, 3\]"),
        ({"x": np.ones((2, 3))}, ValueError, r"feed 'x' is float64, but the variable is declared float32; .*astype\('float32'\)"),
        ({"x": np.ones((2, 3), int)}, ValueError, r"feed 'x' is int64, but the variable is declared float32"),
        ({"x": np.full((2, 3), None)}, ValueError, r"feed 'x' is object"),
        ({"x": "abc"}, TypeError, r"feed 'x' cannot become an array of float32"),
        ({"x": [[1.0], [2.0, 3.0]]}, TypeError, r"feed 'x' cannot become an array of float32"),
        ([np.ones((1, 3))], TypeError, r"feed is a dict from name to array"),
        ({"x": [["1", "2", "3"]]}, TypeError, r"feed 'x' cannot become an array of float32: it holds <U1, like '1'"),
        ({"x": [[1.0, None, 2.0]]}, TypeError, r"feed 'x' cannot become an array of float32: it holds None"),
        ({"x": [[1j, 0, 0]]}, TypeError, r"feed 'x' cannot become an array of float32: it holds complex128"),
        ({"x": [[1e39, 0, 0]]}, ValueError, r"feed 'x' holds 1e\+39, but the variable is declared float32"),
        ({"x": [[10**400, 0, 0]]}, ValueError, r"feed 'x' holds 10+\.\.\. \(401 characters\), but the variable is declared float32"),
        ({"x": np.ma.masked_equal(np.ones((1, 3), "float32"), 1)}, ValueError, r"feed 'x' has masked elements.*\.filled"),
        ({"x": [np.ma.masked_equal([1.0, 2.0, 3.0], 1.0)]}, ValueError, r"feed 'x' has masked elements.*\.filled"),
        ({"x": [[1.0, np.ma.masked, 3.0]]}, ValueError, r"feed 'x' has masked elements.*\.filled"),
    ],
)
def test_a_wrong_feed_is_refused(feed: Any, error: type[Exception], message: str) -> None:
    program, y = doubled()
    with pytest.raises(error, match=message):
        run(program, feed, [y])


@pytest.mark.parametrize(
    ("dtype", "value", "error", "message"),
    [
        ("int64", [10**5000], ValueError, "feed 'x' holds an integer of 16610 bits, but the variable is declared int64"),
        ("int64", [2**70], ValueError, rf"feed 'x' holds {2**70}, but the variable is declared int64, which has no such number"),
        ("int64", [2**63], ValueError, rf"feed 'x' holds {2**63}, but the variable is declared int64"),
        ("int64", [1, -(2**64)], ValueError, rf"holds -{2**64}, but the variable is declared int64"),
        ("int64", [1.7], ValueError, r"feed 'x' holds 1.7, but the variable is declared int64"),
        ("int64", [np.nan], ValueError, r"feed 'x' holds nan, but the variable is declared int64"),
        ("int64", [np.inf], ValueError, r"feed 'x' holds inf, but the variable is declared int64"),
        ("int64", ["1"], TypeError, r"feed 'x' cannot become an array of int64: it holds <U1, like '1'"),
        ("int8", [300], ValueError, r"feed 'x' holds 300, but the variable is declared int8"),
        ("uint8", [-1], ValueError, r"feed 'x' holds -1, but the variable is declared uint8"),
        ("bool", [2], ValueError, r"feed 'x' holds 2, but the variable is declared bool"),
        ("bool", [0.5], ValueError, r"feed 'x' holds 0.5, but the variable is declared bool"),
        ("bool", ["True"], TypeError, r"feed 'x' cannot become an array of bool"),
        ("float16", [7e4], ValueError, r"feed 'x' holds 70000.0, but the variable is declared float16"),
    ],
)
def test_a_number_that_the_dtype_does_not_hold_is_refused(dtype: str, value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fed(dtype, value)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int64", [1.0, -2.0], [1, -2]),
        ("int64", [2**63 - 1], [2**63 - 1]),
        ("int64", [True, False], [1, 0]),
        ("int64", [], []),
        ("float32", [1, 2**70], [1.0, 2.0**70]),
        ("float32", [True], [1.0]),
        ("float32", [np.inf, -np.inf], [np.inf, -np.inf]),
        ("float64", [0.1], [0.1]),
        ("bool", [1, 0.0], [True, False]),
        ("bool", [], []),
        ("float32", np.ma.array([1.0, 2.0], "float32", mask=False), [1.0, 2.0]),
    ],
)
def test_numbers_that_the_dtype_holds_are_converted(dtype: str, value: Any, expected: list[Any]) -> None:
    got = fed(dtype, value)
    assert got.dtype == dtype
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, expected)


def fed(dtype: str, value: Any) -> Any:
    """The array that a program reads when a value is fed for a vector."""
    program = ga.Program()
    program.global_block().create_var("x", [-1], dtype)
    program.global_block().append_op("assign", {"X": "x"}, {"Out": "y"})
    return run(program, {"x": value}, ["y"])[0]


def test_a_missing_feed_is_named_with_its_reader() -> None:
    program, y = doubled()
    with pytest.raises(ValueError, match=r"operator 'scale' reads 'x', which is not fed and no operator writes\n.*" + placed(program)):
        run(program, {}, [y])


@pytest.mark.parametrize(
    ("fetch", "error", "message"),
    [
        (["nope"], ValueError, r"cannot fetch 'nope': the program has no such variable"),
        (["scale_0.tmp_1"], ValueError, r"did you mean 'scale_0.tmp_0'\?"),
        ([3], TypeError, r"fetch_list holds variables or their names, not 3"),
        ([ga.Program().global_block().create_var("z")], ValueError, r"cannot fetch: Variable z: float32\[\?\] is of another program"),
    ],
)
def test_a_wrong_fetch_is_refused(fetch: Any, error: type[Exception], message: str) -> None:
    program, _ = doubled()
    with pytest.raises(error, match=message):
        run(program, {"x": np.ones((1, 3), "float32")}, fetch)


@pytest.mark.parametrize("as_name", [False, True])
def test_one_fetch_needs_no_list(as_name: bool) -> None:
    program, y = doubled()
    (got,) = run(program, {"x": np.ones((1, 3), "float32")}, y.name if as_name else y)
    np.testing.assert_array_equal(got, [[2, 2, 2]])


def test_a_fetch_of_a_copy_stands_for_the_variable_declared_like_it() -> None:
    program, y = doubled()
    (got,) = run(program.clone(), {"x": np.ones((1, 3), "float32")}, [y])
    np.testing.assert_array_equal(got, [[2, 2, 2]])
    other = ga.Program().global_block().create_var("x", [9], "float32")
    with pytest.raises(ValueError, match=r"cannot fetch: Variable x: float32\[9\] is of another program"):
        run(program, {"x": np.ones((1, 3), "float32")}, [other])


def test_programs_and_scopes_are_wanted() -> None:
    with pytest.raises(TypeError, match="run takes a Program and a Scope, not 'p'"):
        run("p")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"run takes a Program and a Scope, .* 's'"):
        run(ga.Program(), scope="s")  # type: ignore[arg-type]


# -- what fails while it runs --------------------------------------------------------------------


def test_a_value_that_was_not_written_is_named() -> None:
    program = written(("tanh", {"X": "q"}, "y"), ("tanh", {"X": "y"}, "q"), q=[2], never=[2])
    with pytest.raises(ValueError, match=r"operator 'tanh' reads 'q' before any operator wrote it\n.*" + placed(program)):
        run(program, fetch=["y"])
    with pytest.raises(ValueError, match=r"the fetch list has 'never', which is not fed and no operator writes"):
        run(program, {"q": [1, 2]}, ["never"])


def test_a_parameter_without_value_says_how_to_get_one() -> None:
    main, _, y = layer()
    with pytest.raises(ValueError, match=r"operator 'mul' reads 'fc_0.w_0', which has no value in this scope: run the startup program"):
        run(main, {"x": np.ones((1, 4), "float32")}, [y])


def test_a_parameter_without_value_is_placed() -> None:
    main, _, y = layer()
    with pytest.raises(ValueError, match=placed(main)):
        run(main, {"x": np.ones((1, 4), "float32")}, [y])


def test_an_operator_that_fails_shows_its_inputs_and_its_line() -> None:
    program = written(("elementwise_add", {"X": "a", "Y": "b"}, "y"), a=[-1, 3], b=[-1, 3])
    inputs = r"  X = a: float32\[2, 3\]\n  Y = b: float32\[4, 3\]\n  " + placed(program)
    with pytest.raises(ExecutionError, match=r"operator 'elementwise_add' failed: (.|\n)*" + inputs) as caught:
        run(program, {"a": np.ones((2, 3), "float32"), "b": np.ones((4, 3), "float32")}, ["y"])
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.__cause__ is not None


def test_an_operator_that_fails_shows_its_attributes() -> None:
    program = ga.Program()
    program.global_block().create_var("x", [-1], "float32")
    program.global_block().append_op("reshape2", {"X": "x"}, {"Out": "y"}, {"shape": [2, 2]})
    with pytest.raises(ExecutionError, match=r"'reshape2' failed(.|\n)*attributes: shape=\[2, 2\]"):
        run(program, {"x": np.ones(5, "float32")}, ["y"])


def test_an_unregistered_operator_cannot_run() -> None:
    program = ga.Program.parse("program { block 0 { var x: float32[2] foo(X=x) -> (Out=y) } }")
    with pytest.raises(ExecutionError, match=r"operator 'foo' is not registered, so it cannot run.*: foo\(X=x\) -> \(Out=y\)"):
        run(program, {"x": [1, 2]})


def test_a_run_that_fails_leaves_the_scope_as_it_was() -> None:
    program = written(a=[-1, 3], b=[-1, 3])
    w = program.global_block().create_parameter("w", [1])
    program.global_block().append_op("increment", {"X": w}, {"Out": w})
    program.global_block().append_op("elementwise_add", {"X": "a", "Y": "b"}, {"Out": "y"})
    scope = ga.Scope()
    scope.set("w", np.ones(1, "float32"))
    with pytest.raises(ExecutionError, match="elementwise_add"):
        run(program, {"a": np.ones((2, 3), "float32"), "b": np.ones((4, 3), "float32")}, scope=scope)
    assert (float(scope.get("w")[0]), scope.runs) == (1.0, 0)


@pytest.mark.parametrize(("x", "what"), [(-1.0, "nan"), (0.0, "an infinity")])
def test_check_finite_names_the_first_operator(x: float, what: str) -> None:
    program = written(("tanh", {"X": "x"}, "a"), ("log", {"X": "x"}, "b"), ("sqrt", {"X": "x"}, "c"), ("exp", {"X": "b"}, "d"), x=[2])
    with pytest.raises(ExecutionError, match=rf"operator 'log' made {what} in 'b'\n  X = x: float32\[2\]\n.*" + placed(program, 1)):
        ga.Executor(check_finite=True).run(program, {"x": [x, 1.0]}, scope=ga.Scope())
    assert not np.isfinite(run(program, {"x": [x, 1.0]}, ["b"])[0][0])


def test_check_finite_lets_integers_and_finite_numbers_pass() -> None:
    program, y = doubled("int64")
    assert ga.Executor(check_finite=True).run(program, {"x": [[1, 2, 3]]}, [y], ga.Scope())[0].dtype == "int64"


# -- memory --------------------------------------------------------------------------------------


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, op_type: str) -> Iterator[list[int]]:
    """How many results of an operator are alive whenever it runs."""
    definition, results, alive = REGISTRY[op_type], list[weakref.ref[Array]](), list[int]()

    def kernel(*inputs: Any, **attrs: Any) -> Any:
        alive.append(sum(ref() is not None for ref in results))
        array = np.array(definition.kernel(*inputs, **attrs))
        results.append(weakref.ref(array))
        return array

    with monkeypatch.context() as patch:
        patch.setitem(REGISTRY, op_type, replace(definition, kernel=kernel))
        yield alive
        alive.append(sum(ref() is not None for ref in results))


def test_a_value_is_freed_after_its_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["x", *(f"h{i}" for i in range(6))]
    program = written(*(("tanh", {"X": a}, b) for a, b in itertools.pairwise(names)), x=[8])
    with watched(monkeypatch, "tanh") as alive:
        run(program, {"x": np.ones(8, "float32")})
    assert alive == [0, 1, 1, 1, 1, 1, 0]


def test_a_value_lives_until_its_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    ops: list[Row] = [("tanh", {"X": "x"}, "a"), ("tanh", {"X": "a"}, "b"), ("tanh", {"X": "b"}, "c"), ("sum", {"X": ["a", "c"]}, "y")]
    program = written(*ops, ("tanh", {"X": "y"}, "unread"), ("tanh", {"X": "y"}, "z"), x=[8])
    with watched(monkeypatch, "tanh") as alive:
        (z,) = run(program, {"x": np.ones(8, "float32")}, ["z"])
    assert alive == [0, 1, 2, 0, 0, 0]
    a = np.tanh(np.ones(8))
    np.testing.assert_allclose(z, np.tanh(a + np.tanh(np.tanh(a))), rtol=1e-6)
