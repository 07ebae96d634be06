"""Elementwise operators as compiled loops: the same to the last bit as numpy, kept on disk, and a message where numba is missing."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.execution import native, planning
from graphad.execution.compiled import FIRST, CompiledFunction
from graphad.execution.native import MissingNumba, folder, function_of
from graphad.testing.cases import RandomChoices
from graphad.testing.programs import any_program
from tests.benchmarks import training_steps
from tests.execution.test_compiled import alike, outcomes

needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed: pip install 'graphad[numba]'")


@pytest.fixture(autouse=True)
def from_the_first_run_on(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GRAPHAD_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "loops"))
    function_of.cache_clear()
    before = FIRST.set(1)
    yield
    FIRST.reset(before)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are made of small arrays too."""
    monkeypatch.setattr(planning, "NATIVE", 1)


def functions(executor: ga.Executor) -> list[CompiledFunction]:
    found = [each for idle in executor._idle.values() for run in idle for each in run.functions.values()]
    assert not any(each.reason for each in found), [each.reason for each in found]
    return [function for each in found for function in each.functions]


def every_operation(dtype: str) -> tuple[ga.Program, list[ga.Variable]]:
    """Each operation that is compiled, in chains."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x, y = (L.data(name, [-1], dtype, append_batch_size=False) for name in "xy")
        s = L.data("s", [1], dtype, append_batch_size=False)
        a = L.elementwise_max(x * y + 0.3, y) - L.elementwise_min(x / y, 0.7 - x)
        b = L.sqrt(L.abs(a)) + L.square(y) - L.floor(x) * L.ceil(y) + s
        c = L.where(L.logical_and(L.greater_than(a, b), L.logical_not(L.less_than(x, y))), a, b)
        d = L.relu(c) * L.leaky_relu(x, 0.1) - L.clip(y, -0.5, 0.5) - c
    return program, [a, b, c, d]


def hard_numbers(dtype: str) -> dict[str, Any]:
    tiny, large = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    found = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, tiny, -tiny, large, -large, 0.1, 1 / 3, 1e-20], dtype)
    rest = np.random.default_rng(0).standard_normal(91).astype(dtype)
    x, y = np.meshgrid(np.concatenate([found, rest]), np.concatenate([found, rest]))
    return {"x": x.ravel(), "y": y.ravel(), "s": np.array([0.25], dtype)}


@needs_numba
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_operation_gives_the_same_to_the_last_bit(dtype: str) -> None:
    """Also of nan, infinities, both zeros, and subnormal numbers."""
    (program, fetch), feeds = every_operation(dtype), hard_numbers(dtype)
    executor = ga.Executor(numba=True)
    for one, other in zip(executor.run(program, feeds, fetch), ga.Executor(mode="interpreted").run(program, feeds, fetch), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one[~np.isnan(one)]), np.signbit(other[~np.isnan(other)]))
    assert "loop" in functions(executor)[0].source.text


@needs_numba
def test_the_chain_is_one_loop_without_memory() -> None:
    work = training_steps.chain()
    executor = ga.Executor(numba=True)
    wanted = ga.Executor().run(work.main, work.feeds, [work.loss])
    np.testing.assert_array_equal(executor.run(work.main, work.feeds, [work.loss])[0], wanted[0])
    (function,) = functions(executor)
    assert function.plan.size == 0
    assert function.source.text.count("loop(") == 1


@needs_numba
@pytest.mark.parametrize("size", [4_096, 5_003])
def test_a_long_chain_goes_over_four_parts_at_once(size: int) -> None:
    """With a number that all parts read, nan and both zeros, and lengths that four does not divide."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x, s = L.data("x", [size], append_batch_size=False), L.data("s", [1], append_batch_size=False)
        y = x
        for _ in range(12):
            y = L.elementwise_max(y * s - x, x) + s
    feed = {"x": np.resize(hard_numbers("float32")["x"], size), "s": np.array([0.75], "float32")}
    executor = ga.Executor(numba=True)
    (wanted,) = ga.Executor(mode="interpreted").run(program, feed, [y])
    for _ in range(3):
        (found,) = executor.run(program, feed, [y])
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[~np.isnan(found)]), np.signbit(wanted[~np.isnan(wanted)]))
    (function,) = functions(executor)
    (loop,) = (item for name, item in function.source.objects.items() if name.startswith("loop"))
    assert "4 * part" in inspect.getsource(getattr(loop, "py_func"))  # noqa: B009 - of numba's functions


@needs_numba
def test_loops_take_the_longest_vectors_where_the_clock_stays() -> None:
    if not import_module("llvmlite.binding").get_host_cpu_features().get("avx512vbmi2", False):
        pytest.skip("the processor has no vectors of 512 bits, or lowers its clock for them")
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = L.data("x", [5_000], append_batch_size=False)
        y = x * x - x
    executor = ga.Executor(numba=True)
    executor.run(program, {"x": np.ones(5_000, "float32")}, [y])
    (loop,) = (item for name, item in functions(executor)[0].source.objects.items() if name.startswith("loop"))
    names: dict[str, Any] = {}  # compiled anew: what comes from the disk has no assembly
    exec(inspect.getsource(sys.modules[loop.__module__]).replace("cache=True", "cache=False"), names)
    assert "zmm" in "".join(names["loop"].inspect_asm().values())


@needs_numba
def test_loops_take_arrays_that_nobody_may_write() -> None:
    """Read-only arrays are fed, or are a loop's initial values: the run was left to the interpreter, which took four times as long."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = L.data("x", [5_000], append_batch_size=False)
        start, count = L.fill_constant([5_000], "float32", 0.5), L.fill_constant([1], "int64", 3)
        zero = L.zeros([1], "int64")
        _, y = L.while_loop(lambda i, h: L.less_than(i, count), lambda i, h: [L.increment(i), h * x - h], [zero, start])
        z = y * x + x
    feed = {"x": np.linspace(-1, 1, 5_000, dtype="float32")}
    feed["x"].flags.writeable = False
    executor = ga.Executor(numba=True)
    (wanted,) = ga.Executor(mode="interpreted").run(program, feed, [z])
    for _ in range(3):
        np.testing.assert_array_equal(executor.run(program, feed, [z])[0], wanted)
    (function,) = functions(executor)
    assert function.source.text.count("loop") > 1
    assert not any(each.failures for idle in executor._idle.values() for run in idle for each in run.functions.values())


@needs_numba
def test_what_is_not_compiled_stays_numpys_between_loops() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = L.data("x", [70_001], append_batch_size=False)
        y = L.tanh(x * x + 1.0) * x - 0.5
        z = y * y + x
    executor, feed = ga.Executor(numba=True), {"x": np.linspace(-3, 3, 70_001, dtype="float32")}
    for one, other in zip(executor.run(program, feed, [y, z]), ga.Executor(mode="interpreted").run(program, feed, [y, z]), strict=True):
        np.testing.assert_array_equal(one, other)
    (function,) = functions(executor)
    assert "np_tanh(" in function.source.text
    assert function.source.text.count("loop") == 2, "before and after it"


def compiled_text(build: Any, size: int = 70_001) -> str:
    """The source of a program of six arrays, whose results are the interpreter's."""
    program, names = ga.Program(), "abcdef"
    with ga.program_guard(program, ga.Program()):
        results = build(*(L.data(name, [size], append_batch_size=False) for name in names))
    rng = np.random.default_rng(0)
    feed, executor = {name: rng.standard_normal(size).astype("float32") for name in names}, ga.Executor(numba=True)
    for one, other in zip(executor.run(program, feed, results), ga.Executor(mode="interpreted").run(program, feed, results), strict=True):
        np.testing.assert_array_equal(one, other)
    (function,) = functions(executor)
    return function.source.text


@needs_numba
def test_what_no_loop_makes_cheaper_stays_as_it_is() -> None:
    """One loop over sums that share nothing took 1.1 to 1.4 times as long; a group that nothing is compiled of, up to 1.2 times."""
    assert "loop" not in compiled_text(lambda a, b, c, d, e, f: [a + b, c + d, e + f])
    assert "elementwise operations on" not in compiled_text(lambda a, b, c, d, e, f: [L.tanh(L.tanh(a))])


@needs_numba
def test_calls_that_share_no_array_are_loops_of_their_own() -> None:
    def build(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> list[Any]:
        t, u = a * b, c * d
        s = e + f
        return [t + a, u - d, s]

    text = compiled_text(build)
    assert len(re.findall(r"\bloop\w*\(", text)) == 2
    assert "np_add(e, f" in text
    # Two products that a sum joins are one loop, and the product that nothing joins is none.
    joined = compiled_text(lambda a, b, c, d, e, f: [(a * b) + (c * d), e * f])
    assert len(re.findall(r"\bloop\w*\(", joined)) == 1


@needs_numba
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(i, marks=pytest.mark.long) for i in range(4, 60))])
def test_random_programs_are_the_same_to_the_last_bit(small: None, seed: int) -> None:
    p = any_program(RandomChoices(f"loops {seed}"))
    p.program.random_seed = p.program.random_seed or 7
    wanted = outcomes(p, [p.loss_name], numba=True, mode="interpreted")
    assert alike(outcomes(p, [p.loss_name], numba=True, threads=1 + seed % 2), wanted)


@needs_numba
def test_loops_are_kept_on_disk_and_one_that_was_changed_is_written_again() -> None:
    work = training_steps.chain()
    (wanted,) = ga.Executor(numba=True).run(work.main, work.feeds, [work.loss])
    where = folder()
    assert where is not None
    files = {path: path.stat().st_mtime_ns for path in where.rglob("*.nb*")}
    assert files
    function_of.cache_clear()
    np.testing.assert_array_equal(ga.Executor(numba=True).run(work.main, work.feeds, [work.loss])[0], wanted)
    assert {path: path.stat().st_mtime_ns for path in where.rglob("*.nb*")} == files
    (module, *_) = where.glob("*.py")
    module.write_text("loop = None\n")
    function_of.cache_clear()
    np.testing.assert_array_equal(ga.Executor(numba=True).run(work.main, work.feeds, [work.loss])[0], wanted)


@needs_numba
def test_a_folder_that_cannot_be_written_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRAPHAD_CACHE_DIR", str(tmp_path / "file"))
    assert folder() is None
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = L.data("x", [5_000], append_batch_size=False)
        y = x * x - x
    (value,) = ga.Executor(numba=True).run(program, {"x": np.arange(5_000, dtype="float32")}, [y])
    assert value[:4].tolist() == [0.0, 0.0, 2.0, 6.0]


def test_a_missing_numba_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(native, "find_spec", lambda name: None)
    with pytest.raises(MissingNumba, match=r"pip install 'graphad\[numba\]'"):
        ga.Executor(numba=True)
    assert issubclass(MissingNumba, ImportError)
