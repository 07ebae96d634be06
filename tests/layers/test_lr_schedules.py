"""Learning-rate schedules against the stored lists, step by step, and what they do to programs."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.layers.learning_rate_scheduler import COUNTER
from graphad.optimizer import SGD, ClipByGlobalNorm
from tests.conformance.loading import HERE
from tests.execution.test_executor import run
from tests.optimizer.test_optimizer import FEED, W0, Line, raw_gradients

L = ga.layers
STORED: dict[str, list[float]] = json.loads((HERE / "lr_schedules.json").read_text())
EXACT: dict[str, Any] = {"dtype": "float64"}
Build = Callable[[], ga.Variable]


def one_cycle(step: Any, first: float = 0.04, top: float = 1.0, last: float = 0.0001, total: int = 12, rising: float = 0.3) -> Any:
    """Half a cosine up in the first steps, half a cosine down in the others."""
    peak = rising * total - 1
    up = (1.0 - L.cos(step * (math.pi / peak))) * ((top - first) / 2) + first
    down = (L.cos((step - peak) * (math.pi / (total - 1 - peak))) + 1.0) * ((top - last) / 2) + last
    return L.where(step <= peak, up, down)


def triangles(step: Any, low: float, high: float, half: int) -> Any:
    """Up in ``half`` steps and down in as many, over and over."""
    cycle = L.floor(step / (2.0 * half) + 1.0)
    return L.relu(1.0 - L.abs(step / float(half) - cycle * 2.0 + 1.0)) * (high - low) + low


# Paddle 2's classes count from step 0, and change the rate at ``scheduler.step()``: here that is the next run. A gamma a step is
# Fluid's decay rate with decay_steps 1. The rate inside LinearWarmup starts counting after the warm-up; Fluid's counts from 0.
BUILDS: dict[str, Build] = {
    "PiecewiseDecay([3, 6, 9], [0.1, 0.2, 0.3, 0.4])": lambda: L.piecewise_decay([3, 6, 9], [0.1, 0.2, 0.3, 0.4], **EXACT),
    "NaturalExpDecay(0.5, gamma=0.1)": lambda: L.natural_exp_decay(0.5, 1, 0.1, **EXACT),
    "InverseTimeDecay(0.5, gamma=0.1)": lambda: L.inverse_time_decay(0.5, 1, 0.1, **EXACT),
    "PolynomialDecay(0.5, decay_steps=10, end_lr=0.01, power=2.0)": lambda: L.polynomial_decay(0.5, 10, 0.01, 2.0, **EXACT),
    "PolynomialDecay(0.5, decay_steps=10, end_lr=0.01, power=2.0, cycle=True)": lambda: L.polynomial_decay(
        0.5, 10, 0.01, 2.0, True, **EXACT
    ),
    "LinearWarmup(0.5, warmup_steps=5, start_lr=0.0, end_lr=0.5)": lambda: L.linear_lr_warmup(0.5, 5, 0.0, 0.5, **EXACT),
    "LinearWarmup(ExponentialDecay(0.5,0.9), warmup_steps=5, start_lr=0.0, end_lr=0.5)": lambda: L.linear_lr_warmup(
        L.exponential_decay(0.5 / 0.9**5, 1, 0.9, **EXACT), 5, 0.0, 0.5, **EXACT
    ),
    "ExponentialDecay(0.5, gamma=0.9)": lambda: L.exponential_decay(0.5, 1, 0.9, **EXACT),
    "MultiStepDecay(0.5, [3, 7], gamma=0.25)": lambda: L.piecewise_decay([3, 7], [0.5 * 0.25**i for i in range(3)], **EXACT),
    "StepDecay(0.5, step_size=3, gamma=0.5)": lambda: L.exponential_decay(0.5, 3, 0.5, staircase=True, **EXACT),
    "LambdaDecay(0.5, lambda x: 0.95**x)": lambda: L.lambda_decay(0.5, lambda step: 0.95**step, **EXACT),
    "MultiplicativeDecay(0.5, lambda x: 0.95)": lambda: L.exponential_decay(0.5, 1, 0.95, **EXACT),
    "CosineAnnealingDecay(0.5, T_max=10, eta_min=0.05)": lambda: L.cosine_decay(0.5 - 0.05, 1, 10, **EXACT) + 0.05,
    "OneCycleLR(max_learning_rate=1.0, total_steps=12)": lambda: L.lambda_decay(1.0, one_cycle, **EXACT),
    "CyclicLR(base_learning_rate=0.5, max_learning_rate=1.0, step_size_up=4)": lambda: L.lambda_decay(
        1.0, lambda step: triangles(step, 0.5, 1.0, 4), **EXACT
    ),
    "fluid: piecewise_decay([3, 6, 9], [0.1, 0.2, 0.3, 0.4])": lambda: L.piecewise_decay([3, 6, 9], [0.1, 0.2, 0.3, 0.4], **EXACT),
    "fluid: polynomial_decay(lr=1.0, decay_steps=5, end=0.0001, power=1)": lambda: L.polynomial_decay(1.0, 5, **EXACT),
    "fluid: polynomial_decay(lr=1.0, decay_steps=5, end=0.0001, power=1, cycle)": lambda: L.polynomial_decay(1.0, 5, cycle=True, **EXACT),
    "fluid: exponential_decay(lr=1.0, decay_steps=5, decay_rate=0.5)": lambda: L.exponential_decay(1.0, 5, 0.5, **EXACT),
    "fluid: exponential_decay(lr=1.0, decay_steps=5, decay_rate=0.5, staircase)": lambda: L.exponential_decay(1.0, 5, 0.5, True, **EXACT),
    "fluid: natural_exp_decay(lr=1.0, decay_steps=5, decay_rate=0.5)": lambda: L.natural_exp_decay(1.0, 5, 0.5, **EXACT),
    "fluid: natural_exp_decay(lr=1.0, decay_steps=5, decay_rate=0.5, staircase)": lambda: L.natural_exp_decay(1.0, 5, 0.5, True, **EXACT),
    "fluid: inverse_time_decay(lr=1.0, decay_steps=5, decay_rate=0.5)": lambda: L.inverse_time_decay(1.0, 5, 0.5, **EXACT),
    "fluid: inverse_time_decay(lr=1.0, decay_steps=5, decay_rate=0.5, staircase)": lambda: L.inverse_time_decay(1.0, 5, 0.5, True, **EXACT),
}
NOAM = "NoamDecay(d_model=16, warmup_steps=10, learning_rate=1.0)"


def rates(build: Build, feed: dict[str, Any] | None = None) -> Iterator[float]:
    """The learning rate of a schedule in each run."""
    main, startup, scope = ga.Program(), ga.Program(), ga.Scope()
    with ga.program_guard(main, startup):
        rate = build()
    run(startup, scope=scope)
    while True:
        yield float(run(main, feed, [rate], scope)[0][0])


def taken(build: Build, count: int, feed: dict[str, Any] | None = None) -> list[float]:
    return [rate for rate, _ in zip(rates(build, feed), range(count), strict=False)]


def test_every_list_is_tested() -> None:
    assert {*BUILDS, NOAM} == set(STORED)


@pytest.mark.parametrize("name", BUILDS)
def test_the_rates_are_those_stored(name: str) -> None:
    expected = STORED[name]
    np.testing.assert_allclose(taken(BUILDS[name], len(expected)), expected, rtol=1e-7, atol=0)


def test_noam_counts_from_one() -> None:
    """The list's first entry is Paddle 2's step 0, in which its rate is 0."""
    expected = STORED[NOAM][1:]
    np.testing.assert_allclose(taken(lambda: L.noam_decay(16, 10, **EXACT), len(expected)), expected, rtol=1e-7, atol=0)


@pytest.mark.parametrize("noam_first", [True, False])
def test_noams_counter_is_paddles(noam_first: bool) -> None:
    """Paddle's is 1 in the first run where ``noam_decay`` is the first schedule, so a checkpoint after n runs holds n."""
    builds: list[Build] = [lambda: L.noam_decay(16, 10, **EXACT), lambda: L.exponential_decay(1.0, 1, 0.5, **EXACT)]
    main, startup, scope = ga.Program(), ga.Program(), ga.Scope()
    with ga.program_guard(main, startup):
        rates = [build() for build in (builds if noam_first else builds[::-1])]
    run(startup, scope=scope)
    for step in range(3):
        got = [float(rate[0]) for rate in run(main, {}, rates, scope)]
        expected = [STORED[NOAM][step + 1], 0.5**step]
        np.testing.assert_allclose(got if noam_first else got[::-1], expected, rtol=1e-7)
        assert scope.get(COUNTER).tolist() == [step + noam_first]


def test_noam_goes_on_from_a_paddle_checkpoint() -> None:
    """After 5 steps its counter is 5, and the next rate is the one of step 6."""
    main, startup, scope = ga.Program(), ga.Program(), ga.Scope()
    with ga.program_guard(main, startup):
        rate = L.noam_decay(16, 10, **EXACT)
    scope.set(COUNTER, np.array([5]))
    run(startup, scope=scope)
    np.testing.assert_allclose(run(main, {}, [rate], scope)[0], STORED[NOAM][6], rtol=1e-7)


def test_cosine_decay_changes_once_an_epoch() -> None:
    expected = [0.5 * 0.3 * (math.cos((i // 4) * math.pi / 5) + 1) for i in range(20)]
    np.testing.assert_allclose(taken(lambda: L.cosine_decay(0.3, 4, 5, **EXACT), 20), expected, rtol=1e-12)


def test_one_value_needs_no_boundary() -> None:
    assert taken(lambda: L.piecewise_decay([], [0.25]), 2) == [0.25, 0.25]


ON_A_VARIABLE: dict[str, tuple[Callable[[ga.Variable], ga.Variable], list[float]]] = {
    "exponential": (lambda base: L.exponential_decay(base, 1, 0.5), [0.5, 0.25]),
    "natural_exp": (lambda base: L.natural_exp_decay(base, 1, math.log(2.0)), [0.5, 0.25]),
    "inverse_time": (lambda base: L.inverse_time_decay(base, 1, 1.0), [0.5, 0.25]),
    "polynomial": (lambda base: L.polynomial_decay(base, 2, 0.0), [0.5, 0.25]),
    "cosine": (lambda base: L.cosine_decay(base, 1, 2), [0.5, 0.25]),
    "noam": (lambda base: L.noam_decay(1, 1, base), [0.5, 0.5 / math.sqrt(2.0)]),
    "warmup": (lambda base: L.linear_lr_warmup(base, 1, 0.125, 0.25), [0.125, 0.5]),
    "lambda": (lambda base: L.lambda_decay(base, lambda step: step + 1.0), [0.5, 1.0]),
}


@pytest.mark.parametrize("shape", [[1], [], [1, 1]], ids=str)
@pytest.mark.parametrize("name", ON_A_VARIABLE)
def test_the_rate_may_be_a_variable(name: str, shape: list[int]) -> None:
    build, expected = ON_A_VARIABLE[name]
    for dtype in ("float32", "float64"):
        got = taken(partial(on_data, build, shape, dtype), 2, {"base": np.full(shape, 0.5, dtype)})
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def on_data(build: Callable[[ga.Variable], ga.Variable], shape: list[int], dtype: str) -> ga.Variable:
    rate = build(L.data("base", shape, dtype, append_batch_size=False))
    assert (rate.shape, rate.dtype) == ((1,), "float32")
    return rate


def test_the_dtype_is_what_is_requested() -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        assert str(L.exponential_decay(0.1, 1, 0.5)).endswith("float32[1]")
        assert L.noam_decay(16, 10, dtype="float64").dtype == "float64"
        assert L.piecewise_decay([1], [0.1, 0.2], dtype=np.float16).dtype == "float16"


# -- in a program ----------------------------------------------------------------------------------


def scheduled(line: Line, build: Build) -> ga.Variable:
    with ga.program_guard(line.main, line.startup):
        return build()


def halving() -> ga.Variable:
    return L.exponential_decay(0.5, 1, 0.5, **EXACT)


def test_an_optimizer_takes_the_rate_of_its_step() -> None:
    line = Line()
    SGD(scheduled(line, halving)).minimize(line.cost)
    w, b = W0, np.zeros(1)
    for step in range(4):
        line.step()
        gw, gb = raw_gradients(w, float(b[0]))
        w, b = w - 0.5**step * 0.5 * gw, b - 0.5**step * 0.5 * gb
        np.testing.assert_allclose(line.scope.get("w"), w)
        np.testing.assert_allclose(line.scope.get("b"), b)
        assert line.scope.get(COUNTER).tolist() == [step]


def test_training_goes_on_where_a_scope_was_saved() -> None:
    whole, parts = Line(), Line()
    for line in (whole, parts):
        SGD(scheduled(line, halving)).minimize(line.cost)
    for _ in range(5):
        whole.step()
    for _ in range(2):
        parts.step()
    saved, parts.scope = parts.scope, ga.Scope()
    for name, value in saved.arrays.items():
        parts.scope.set(name, value)
    for _ in range(3):
        parts.step()
    np.testing.assert_array_equal(parts.scope.get("w"), whole.scope.get("w"))


def test_all_schedules_of_a_program_count_together() -> None:
    def both() -> ga.Variable:
        return L.sums([L.noam_decay(1, 10, **EXACT), L.exponential_decay(1.0, 1, 0.5, **EXACT)])

    line = Line()
    rate = scheduled(line, both)
    assert sum(op.type == "increment" for op in line.block.ops) == 1
    run(line.startup, scope=line.scope)
    got = [float(line.step([rate])[0][0]) for _ in range(3)]
    np.testing.assert_allclose(got, [(i + 1) * 10**-1.5 + 0.5**i for i in range(3)])


def test_a_test_program_neither_counts_nor_computes_the_rate() -> None:
    line = Line()
    SGD(scheduled(line, halving)).minimize(line.cost)
    tested = line.main.clone(for_test=True)
    assert not any("LR_DECAY" in name or op.role == "optimize" for op in tested.global_block().ops for name in op.output_names())
    line.step()
    for _ in range(3):
        run(tested, FEED, [line.cost.name], line.scope)
    assert line.scope.get(COUNTER).tolist() == [0]


def test_what_reads_a_counter_runs_in_a_test_program() -> None:
    line = Line()
    with ga.program_guard(line.main, line.startup):
        counter = L.autoincreased_step_counter("steps", begin=10, step=5)
        shown = counter * 1.0
        again = L.autoincreased_step_counter("steps")
    assert again is counter
    assert [line.step([shown])[0].tolist() for _ in range(2)] == [[10], [15]]
    tested = line.main.clone(for_test=True)
    assert run(tested, FEED, [shown.name], line.scope)[0].tolist() == [15]


def test_the_backward_leaves_a_schedule_alone() -> None:
    line = Line()
    rate = scheduled(line, halving)
    ga.append_backward(line.cost)
    assert rate.stop_gradient
    assert not any("@LR_DECAY_COUNTER@@GRAD" in op.output_names() for op in line.block.ops)
    assert ga.gradients(line.cost, [rate]) == [None]


def test_a_schedule_is_computed_once_for_all_parts_of_a_batch() -> None:
    plain, cut = Line(), Line()
    for line in (plain, cut):
        SGD(scheduled(line, halving), grad_clip=ClipByGlobalNorm(0.5)).minimize(line.cost)
    graph = ga.lower(cut.main)
    ga.Pipeline.parse("gradient-accumulation{micro_batches=2}").run(graph)
    program = ga.schedule(graph)
    for _ in range(3):
        plain.step()
        run(cut.startup, scope=cut.scope)
        run(program, FEED, None, cut.scope)
    np.testing.assert_allclose(cut.scope.get("w"), plain.scope.get("w"))
    assert cut.scope.get(COUNTER).tolist() == [2]


@pytest.mark.parametrize("build", [b for k, b in BUILDS.items() if k.startswith("fluid")], ids=[k for k in BUILDS if k.startswith("fluid")])
def test_schedules_go_through_text_and_graph(build: Build) -> None:
    main = ga.Program()
    with ga.program_guard(main, ga.Program()):
        build()
    assert str(ga.Program.parse(str(main))) == str(main)
    assert str(ga.schedule(ga.lower(main))) == str(main)


# -- refusals --------------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: L.exponential_decay("a", 1, 0.5), TypeError, "layers.exponential_decay: learning_rate is a number, not 'a'"),
    (lambda: L.exponential_decay(0.1, 0, 0.5), ValueError, "decay_steps is above 0, not 0"),
    (lambda: L.exponential_decay(0.1, 5, -0.5), ValueError, "decay_rate is above 0, not -0.5"),
    (lambda: L.exponential_decay(0.1, 5, math.nan), ValueError, "decay_rate is a finite number, not nan"),
    (
        lambda: L.exponential_decay(L.data("x", [3]), 5, 0.5),
        ValueError,
        "a Variable of one element, not Variable x: float32[-1, 3]",
    ),
    (lambda: L.exponential_decay(0.1, 5, 0.5, dtype="int64"), ValueError, "a learning rate is floating-point, not int64"),
    (lambda: L.natural_exp_decay(0.1, True, 0.5), TypeError, "decay_steps is a number, not True"),
    (lambda: L.inverse_time_decay(0.1, 5, None), TypeError, "decay_rate is a number, not None"),  # type: ignore[arg-type]
    (lambda: L.polynomial_decay(0.1, 5, power="2"), TypeError, "power is a number, not '2'"),  # type: ignore[arg-type]
    (lambda: L.piecewise_decay([1, 2], [0.1, 0.2]), ValueError, "2 boundaries take 3 values, not 2"),
    (lambda: L.piecewise_decay([2, 2], [0.1, 0.2, 0.3]), ValueError, "boundaries rise from each to the next, unlike [2, 2]"),
    (lambda: L.piecewise_decay(3, [0.1, 0.2]), TypeError, "boundaries is a list of numbers, not 3"),  # type: ignore[arg-type]
    (lambda: L.piecewise_decay([3], [0.1, "a"]), TypeError, "values[1] is a number, not 'a'"),  # type: ignore[list-item]
    (lambda: L.cosine_decay(0.1, 0, 5), ValueError, "step_each_epoch is above 0, not 0"),
    (lambda: L.noam_decay(0, 5), ValueError, "d_model is above 0, not 0"),
    (lambda: L.linear_lr_warmup(0.1, 0, 0.0, 0.1), ValueError, "warmup_steps is above 0, not 0"),
    (lambda: L.lambda_decay(0.1, 2.0), TypeError, "lr_lambda is a function of the step, not 2.0"),  # type: ignore[arg-type]
    (lambda: L.lambda_decay(0.1, lambda step: 2.0), TypeError, "lr_lambda gives a Variable, not 2.0"),
    (lambda: L.autoincreased_step_counter(begin=0.5), TypeError, "begin is a whole number, not 0.5"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_what_is_wrong_is_said_and_nothing_is_appended(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        L.data("x", [3])
        before = str(main), str(startup)
        with pytest.raises(error, match=re.escape(message)):
            call()
    assert (str(main), str(startup)) == before


def test_a_schedule_in_a_loop_is_refused() -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        going = L.fill_constant([1], "bool", True)
        with pytest.raises(ValueError, match="a learning rate is computed once a run, in block 0, not in block 1"), L.While(going).block():
            halving()


def test_a_counter_that_is_another_variable_is_refused() -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        L.data(COUNTER, [3])
        with pytest.raises(ValueError, match="is declared with shape"):
            halving()


def test_the_module_of_schedules_is_there_before_anything_imports_it() -> None:
    script = "import graphad as ga; print(ga.layers.learning_rate_scheduler.noam_decay is ga.layers.noam_decay)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "True\n"
