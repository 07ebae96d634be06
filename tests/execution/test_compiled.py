"""Programs run as Python functions over numpy: what they give is what the interpreter gives, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import graphad as ga
from graphad.errors import ExecutionError, GraphadError
from graphad.execution.compiled import FIRST, CompiledFunction
from graphad.ops.aggregates import Aggregate
from graphad.testing import Case, nested_programs
from graphad.testing.cases import RandomChoices
from graphad.testing.programs import any_program
from tests.test_random_nested import SLOW
from tests.test_random_programs import differentiated

layers: Any = ga.layers


@pytest.fixture(scope="module", autouse=True)
def from_the_first_run_on() -> Iterator[None]:
    """Blocks become functions at their first run, so that these tests run functions."""
    before = FIRST.set(1)
    yield
    FIRST.reset(before)


def functions(executor: ga.Executor) -> list[CompiledFunction]:
    """The functions that an executor has made."""
    found = [each for idle in executor._idle.values() for run in idle for each in run.functions.values()]
    assert not any(each.reason for each in found), [each.reason for each in found]
    return [function for each in found for function in each.functions]


def test_programs_do_become_functions() -> None:
    program, s = counting()
    executor = ga.Executor()
    assert run(executor, program, s) == [15.0, 15.0]
    (function,) = functions(executor)
    assert "while" in function.source.text


def test_narrow_integers_stay_narrow_where_they_are_added_up() -> None:
    operators = "sum_like(X=x, Like=y) -> (Out=z)"
    program = ga.Program.parse(f"program {{ block 0 {{ var x: int32[2, 3] var y: int32[3] var z: int32[3] {operators} }} }}")
    feeds = {"x": np.ones((2, 3), "int32"), "y": np.ones(3, "int32")}
    (z,) = ga.Executor().run(program, feeds, ["z"])
    assert (z.dtype, z.tolist()) == (np.dtype("int32"), [2, 2, 2])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_choice_between_arrays_keeps_every_bit(dtype: str) -> None:
    """Of floats it is made of their bits: nan, infinities and the sign of zero included."""
    operators = "where(Condition=c, X=x, Y=y) -> (Out=z) scale(X=z) -> (Out=w) {scale=1.5}"
    kinds = f"var c: bool[50, 40] var x: {dtype}[50, 40] var y: {dtype}[50, 40] var z: {dtype}[50, 40] var w: {dtype}[50, 40]"
    program = ga.Program.parse(f"program {{ block 0 {{ {kinds} {operators} }} }}")
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-9, 9, (50, 40)).astype(dtype) for _ in range(2))
    if x.dtype.kind == "f":
        x.flat[::7], y.flat[::5], x.flat[1::11], y.flat[2::13] = np.nan, np.inf, -0.0, -np.inf
    feeds = {"c": rng.random((50, 40)) > 0.5, "x": x, "y": y}
    executor = ga.Executor()
    results = [executor.run(program, feeds, ["w"])[0] for _ in range(2)]
    assert ("bitwise_xor" in functions(executor)[0].source.text) == (dtype != "int32")
    (wanted,) = ga.Executor(mode="interpreted").run(program, feeds, ["w"])
    assert [each.tobytes() for each in results] == [wanted.tobytes()] * 2


def test_a_shape_that_is_computed_is_read_in_every_run() -> None:
    """A view is made once, with the memory that it lies in; not where the numbers of another array say what it shows."""
    operators = (
        "scale(X=s) -> (Out=t) {scale=2.0} tanh(X=x) -> (Out=h) reshape(X=h, Shape=t) -> (Out=y) {shape=[-1, -1]} tanh(X=y) -> (Out=z)"
    )
    variables = "var x: float32[-1, 4] var s: int64[2] var t: int64[2] var h: float32[-1, 4] var y: float32[-1, -1] var z: float32[-1, -1]"
    program, executor = ga.Program.parse(f"program {{ block 0 {{ {variables} {operators} }} }}"), ga.Executor()
    x = np.ones((3, 4), "float32")
    for shape in ([1, 3], [3, 1], [1, 3]):
        (z,) = executor.run(program, {"x": x, "s": np.array(shape)}, ["z"])
        assert z.shape == (2 * shape[0], 2 * shape[1])
    functions(executor)


def test_a_constant_that_is_not_declared_is_made() -> None:
    operators = ['fill_constant() -> (Out=a) {shape=[2], value=1.5, dtype="float32"}', "scale(X=a) -> (Out=b) {scale=2.0}"]
    text = "program { block 0 { var b: float32[2] " + " ".join(operators) + " } }"
    (b,) = ga.Executor().run(ga.Program.parse(text), fetch_list=["b"], scope=ga.Scope())
    assert b.tolist() == [3.0, 3.0]


def values(executor: ga.Executor, p: Case, fetch: list[str]) -> list[Any]:
    scope = ga.Scope()
    for name, array in p.params.items():
        scope.set(name, array)
    return executor.run(p.program, feed=dict(p.feeds), fetch_list=fetch, scope=scope)


@settings(max_examples=max(40, settings().max_examples), suppress_health_check=SLOW)
@given(nested_programs(max_statements=2))
def test_the_same_to_the_last_bit_as_step_by_step(p: Case) -> None:
    found = [p.loss.name, *differentiated(p, [p.loss.name], p.sources).values()]
    by_steps, at_once = values(ga.Executor(check_finite=True), p, found), values(ga.Executor(), p, found)
    for name, one, other in zip(found, at_once, by_steps, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


def counting(limit: int = 3) -> tuple[ga.Program, ga.Variable]:
    """s doubled and one added, ``limit`` times."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        s = layers.data("s", shape=[2], append_batch_size=False, dtype="float64")
        n = layers.data("n", shape=[1], append_batch_size=False, dtype="int64")
        _, s = layers.while_loop(lambda i, s: layers.less_than(i, n), lambda i, s: [i + 1, s * 2.0 + 1.0], [n - n, s])
    return program, s


def run(executor: ga.Executor, program: ga.Program, fetch: ga.Variable, n: int = 3) -> list[float]:
    (value,) = executor.run(program, feed={"s": np.ones(2), "n": np.array([n])}, fetch_list=[fetch], scope=ga.Scope())
    return value.tolist()  # type: ignore[no-any-return]


def test_a_program_is_prepared_once_and_again_when_it_changes() -> None:
    program, s = counting()
    executor = ga.Executor()
    assert run(executor, program, s) == [15.0, 15.0]
    ((first,),) = executor._idle.values()
    assert run(executor, program, s, n=1) == [3.0, 3.0]
    assert list(executor._idle.values()) == [[first]]
    (scale,) = [op for op in program.block(1).ops if op.type == "scale" and op.attrs.get("scale") == 2.0]
    scale.attrs["scale"] = 3.0
    assert run(executor, program, s, n=1) == [4.0, 4.0]
    assert list(executor._idle.values()) != [[first]]


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.block(1).append_op("scale", {"X": p.block(1).ops[-3].output("Out")}, {"Out": "unused"}, {}),
        lambda p: p.global_block().create_var(name="more", shape=[1], dtype="float32"),
        lambda p: p.create_block(0),
        lambda p: p.global_block().ops[-1].attrs.update(is_test=True),
        lambda p: setattr(p.global_block().vars["s"], "persistable", True),
    ],
)
def test_every_change_that_matters_is_seen(change: Any) -> None:
    program, s = counting()
    executor = ga.Executor()
    before = run(executor, program, s)
    ((first,),) = executor._idle.values()
    change(program)
    program._current = 0
    assert not first.is_up_to_date()
    assert run(executor, program, s) == before


def test_an_executor_keeps_the_last_few_programs() -> None:
    executor = ga.Executor()
    for _ in range(12):
        program, s = counting()
        run(executor, program, s)
    assert len(executor._idle) == 8


def test_what_is_fed_and_made_is_let_go() -> None:
    program, s = counting()
    executor = ga.Executor()
    run(executor, program, s)
    ((first,),) = executor._idle.values()
    assert not first.env
    assert not first.given
    assert not first.fed


def test_an_operator_that_fails_in_a_loop_is_named_with_its_line_and_inputs() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", shape=[-1, 2], append_batch_size=False, dtype="float64")
        y = layers.data("y", shape=[-1, 2], append_batch_size=False, dtype="float64")
        n = layers.data("n", shape=[1], append_batch_size=False, dtype="int64")
        _, z = layers.while_loop(lambda i, z: layers.less_than(i, n), lambda i, z: [i + 1, z + y], [n - n, x])
    feed = {"x": np.ones((2, 2)), "y": np.ones((3, 2)), "n": np.array([2])}
    with pytest.raises(
        ExecutionError,
        match=r"operator 'elementwise_add' failed: ValueError(.|\n)*float64\[2, 2\](.|\n)*float64\[3, 2\](.|\n)*test_compiled.py:",
    ):
        ga.Executor().run(program, feed=feed, fetch_list=[z])


def test_a_parameter_first_read_in_a_loop_comes_from_the_scope() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        w = program.global_block().create_parameter("w", [2], "float64")
        n = layers.data("n", shape=[1], append_batch_size=False, dtype="int64")
        s = layers.data("s", shape=[2], append_batch_size=False, dtype="float64")
        _, s = layers.while_loop(lambda i, s: layers.less_than(i, n), lambda i, s: [i + 1, s + w], [n - n, s])
    scope = ga.Scope()
    scope.set("w", np.array([1.0, 2.0]))
    (got,) = ga.Executor().run(program, feed={"s": np.zeros(2), "n": np.array([3])}, fetch_list=[s], scope=scope)
    assert got.tolist() == [3.0, 6.0]
    with pytest.raises(ValueError, match="'w', which has no value in this scope: run the startup program"):
        ga.Executor().run(program, feed={"s": np.zeros(2), "n": np.array([3])}, fetch_list=[s], scope=ga.Scope())


# -- both executors ------------------------------------------------------------------------------


def outcomes(p: Case, fetch: list[str], **options: Any) -> list[Any]:
    """The results of three runs on an executor, with other feeds from the second run on: values, the scope's, the trip counts; or the
    error."""
    limit = 300 if len(p.program.blocks) > 1 else None  # without one, and without random numbers, the third run goes the short way
    executor, scope, found = ga.Executor(**options, max_iterations=limit), ga.Scope(), list[Any]()
    for name, array in p.params.items():
        scope.set(name, array)
    feeds = dict(p.feeds)
    for turn in range(3):
        if turn == 1:
            feeds = {name: ~array if array.dtype == bool else -array if array.dtype.kind == "f" else array for name, array in feeds.items()}
        try:
            found.append((executor.run(p.program, feeds, fetch, scope), dict(scope.arrays), executor.trips))
        except GraphadError as error:
            found.append((type(error), str(error)))
    return found


def alike(one: Any, other: Any) -> bool:
    """Whether two results are the same, to the last bit."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, np.ndarray):
        kind = one.dtype.kind
        return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other, equal_nan=kind == "f")
    if isinstance(one, Aggregate):
        return type(one) is type(other) and alike(list(one.parts()), list(other.parts()))
    return bool(one == other)


@pytest.mark.parametrize("seed", range(60))
def test_programs_of_every_kind_give_the_same_or_the_same_error(seed: int) -> None:
    p = any_program(RandomChoices(f"both executors {seed}"))
    p.program.random_seed = p.program.random_seed or 7
    tensors = {name for name, var in p.program.global_block().vars.items() if var.type == "LOD_TENSOR"}
    written = [name for op in p.program.global_block().ops for name in op.output_names() if name in tensors]
    fetch = [p.loss_name, *dict.fromkeys(written)] if seed % 2 else [p.loss_name]
    assert alike(outcomes(p, fetch, mode="compiled"), outcomes(p, fetch, mode="interpreted"))


def test_an_array_of_another_type_than_the_examples_is_left_to_the_interpreter() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = layers.data("x", [6], "int64", append_batch_size=False)
        y = layers.cast(layers.nonzero(x), "float64") * 2.0
    executor = ga.Executor()
    for array in ([0, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 9], [0, 0, 0, 0, 0, 0]):
        (got,) = executor.run(program, {"x": array}, [y])
        np.testing.assert_array_equal(got, np.argwhere(array) * 2.0)


def test_an_error_of_what_nothing_reads_is_raised_all_the_same() -> None:
    text = """var x: float64[2, 3] var label: int64[2, 1] var y: float64[2, 3] var s: float64[2, 3] var l: float64[2, 1]
    softmax_with_cross_entropy(X=x) -> (Softmax=s) tanh(X=x) -> (Out=y)""".replace("(X=x) -> (S", "(Logits=x, Label=label) -> (Loss=l, S")
    program = ga.Program.parse(f"program {{ block 0 {{ {text} }} }}")
    executor = ga.Executor()
    executor.run(program, {"x": np.ones((2, 3)), "label": np.array([[0], [2]])}, ["y"])
    with pytest.raises(ExecutionError, match="Label"):
        executor.run(program, {"x": np.ones((2, 3)), "label": np.array([[0], [3]])}, ["y"])


def test_a_failed_run_leaves_the_scope_and_the_next_run_as_they_were() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        w = program.global_block().create_parameter("w", [3], "float64")
        at = layers.data("at", [2], "int64", append_batch_size=False)
        program.global_block().append_op("scale", {"X": "w"}, {"Out": "w"}, {"scale": 2.0})
        picked = layers.gather(w, at)
    scope, executor = ga.Scope(), ga.Executor()
    scope.set("w", np.ones(3))
    executor.run(program, {"at": [0, 1]}, [picked], scope)
    with pytest.raises(ExecutionError, match="gather"):
        executor.run(program, {"at": [0, 5]}, [picked], scope)
    assert scope.get("w").tolist() == [2, 2, 2]
    assert executor.run(program, {"at": [0, 1]}, [picked], scope)[0].tolist() == [4, 4]


@pytest.mark.parametrize("mode", ["eager", None])
def test_modes(mode: Any) -> None:
    with pytest.raises(ValueError, match="mode is one of compiled, interpreted, not"):
        ga.Executor(mode=mode)


@pytest.mark.parametrize("go", [False, True])
def test_a_name_that_both_branches_set_to_one_value_has_it_afterwards(go: bool) -> None:
    program = ga.Program.parse(
        """program { block 0 { var x: float64[3] var go: bool[1] var y: float64[3] var z: float64[3] var s: ?[?] STEP_SCOPES
        fill_constant() -> (Out=y) {shape=[3], value=0.5, dtype="float64"} tanh(X=x) -> (Out=z)
        if_else(Cond=go, X=z) -> (Out=y, Scope=s) {true_block=block(1), false_block=block(2)} }
        block 1 in 0 { assign(X=z) -> (Out=y) } block 2 in 0 { assign(X=z) -> (Out=y) } }"""
    )
    feed = {"x": np.array([0.2, -0.4, 1.0]), "go": np.array([go])}
    executor = ga.Executor()
    for _ in range(3):
        np.testing.assert_array_equal(executor.run(program, feed, ["y"])[0], np.tanh(feed["x"]))


@pytest.mark.parametrize("first", [0.01, 10.0])
def test_what_a_kernel_gives_back_in_one_run_is_not_kept_for_the_next(first: float) -> None:
    """``clip_by_norm`` gave X itself where it is short, which was taken for a view and made once: from memory that nothing had filled."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", [64, 32], append_batch_size=False)
        clipped = ga.layers.clip_by_norm(ga.layers.tanh(x) * 2.0, 5.0)
        y = ga.layers.reduce_sum(ga.layers.exp(ga.layers.tanh(clipped * 3.0)) * clipped, dim=1)
    compiled, interpreted = ga.Executor(), ga.Executor(mode="interpreted")
    for scale in (first, first, 0.01, 10.0, 0.01):
        feed = {"x": np.random.default_rng(0).standard_normal((64, 32)).astype("float32") * np.float32(scale)}
        (found,), (wanted,) = compiled.run(program, feed, [y]), interpreted.run(program, feed, [y])
        np.testing.assert_array_equal(found, wanted)
