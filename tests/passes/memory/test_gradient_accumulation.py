"""Gradient accumulation: training in parts of the batch is training on the whole batch, in less memory, or it is refused."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidValue, PassError
from graphad.passes.memory.gradient_accumulation import GradientAccumulation
from graphad.passes.memory.recompute import Recompute
from graphad.testing import Case, Choices, check_pass
from graphad.testing.training import training_program

layers: Any = ga.layers
ROWS = 12
RNG = np.random.default_rng(0)
FEED = {"x": RNG.normal(size=(ROWS, 8)), "y": RNG.integers(0, 4, (ROWS, 1))}


def classifier(x: Any, y: Any) -> Any:
    hidden = layers.layer_norm(layers.fc(x, size=16, act="tanh"))
    return layers.mean(layers.softmax_with_cross_entropy(layers.fc(hidden, size=4), y))


class Training:
    """A program that trains on x and y."""

    def __init__(self, loss: Callable[[Any, Any], Any] = classifier, optimizer: Any = None, batch: int = -1) -> None:
        self.main, self.startup = ga.Program(), ga.Program()
        self.startup.random_seed = 3
        with ga.program_guard(self.main, self.startup):
            x = layers.data("x", shape=[batch, 8], dtype="float64", append_batch_size=False)
            y = layers.data("y", shape=[batch, 1], dtype="int64", append_batch_size=False)
            self.loss = loss(x, y)
            (optimizer or ga.optimizer.SGD(0.1)).minimize(self.loss)

    def in_parts(self, count: int, *targets: str, **options: Any) -> ga.Program:
        graph = ga.lower(self.main, targets or [self.loss.name])
        assert GradientAccumulation(count, **options).run(graph) == (count > 1)
        return ga.schedule(graph)

    def run(self, program: ga.Program, steps: int = 4) -> tuple[list[float], dict[str, Any]]:
        """The losses of some steps, and what the scope holds then."""
        scope, executor = ga.Scope(), ga.Executor(mode="interpreted")
        executor.run(self.startup, scope=scope)
        losses = [float(executor.run(program, FEED, [self.loss.name], scope)[0].item()) for _ in range(steps)]
        return losses, {name: scope.get(name) for name in scope.names()}


def same(one: Training, program: ga.Program) -> None:
    losses, scope = one.run(one.main)
    got, after = one.run(program)
    np.testing.assert_allclose(got, losses, rtol=1e-12)
    assert list(after) == list(scope)
    for name, array in scope.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("batch", [-1, ROWS])
@pytest.mark.parametrize("count", [2, 3, 12])
def test_parts_train_as_the_whole_batch(batch: int, count: int) -> None:
    one = Training(batch=batch)
    same(one, one.in_parts(count))


@pytest.mark.parametrize(
    "optimizer",
    [
        ga.optimizer.Adam(0.01, grad_clip=ga.optimizer.ClipByGlobalNorm(0.1)),
        ga.optimizer.Momentum(0.1, momentum=0.9, regularization=ga.optimizer.L2Decay(0.1)),
        ga.optimizer.RMSProp(0.01, grad_clip=ga.optimizer.ClipByValue(0.01)),
    ],
)
def test_the_optimizer_runs_once_on_the_mean(optimizer: Any) -> None:
    one = Training(optimizer=optimizer)
    program = one.in_parts(4)
    same(one, program)
    updates = [op.type for block in program.blocks for op in block.ops if op.role == "optimize" and "Param" in op.inputs]
    assert len(updates) == 6
    assert not any("Param" in op.inputs for op in program.blocks[1].ops)


def total(x: Any, y: Any) -> Any:
    return layers.reduce_sum(layers.square(layers.fc(x, size=1))) * 0.5


def penalized(x: Any, y: Any) -> Any:
    hidden = layers.fc(x, size=3, bias_attr=False)
    (weight,) = x.block.program.all_parameters()
    return layers.mean(layers.tanh(hidden)) * 3.0 + layers.reduce_sum(layers.square(weight)) * 0.01


def convolution(x: Any, y: Any) -> Any:
    image = layers.reshape(x, shape=[-1, 1, 2, 4])
    found = layers.conv2d(image, num_filters=2, filter_size=2, act="relu")
    return layers.reduce_mean(layers.reduce_sum(layers.transpose(found, axis=[0, 2, 3, 1]), dim=[1, 2]))


@pytest.mark.parametrize("loss", [total, penalized, convolution])
def test_losses_that_are_means_or_sums(loss: Callable[[Any, Any], Any]) -> None:
    one = Training(loss)
    same(one, one.in_parts(3))


# -- operators with blocks -------------------------------------------------------------------------


def weight(x: Any) -> Any:
    return layers.create_parameter([8, 8], "float64", attr=layers.ParamAttr("u", ga.initializer.Uniform(-0.5, 0.5, seed=5)))


def repeated(x: Any, y: Any) -> Any:
    u = weight(x)
    _, h = layers.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, layers.tanh(h @ u + x)], [0, x])
    return layers.mean(layers.softmax_with_cross_entropy(layers.fc(h, size=4), y))


def a_loss_each_time(x: Any, y: Any) -> Any:
    u = weight(x)

    def body(i: Any, h: Any, loss: Any) -> list[Any]:
        h = layers.sigmoid(h @ u)
        return [i + 1, h, loss + layers.mean(layers.square(h - x))]

    return layers.while_loop(lambda i, h, loss: i < 4, body, [0, x, layers.zeros([], "float64")])[-1]


def in_a_branch(x: Any, y: Any) -> Any:
    u = weight(x)
    h = layers.cond(layers.reduce_sum(u) < 0.0, lambda: layers.tanh(x @ u), lambda: layers.square(x @ u))
    return layers.mean(h)


def a_branch_in_a_loop(x: Any, y: Any) -> Any:
    u = weight(x)

    def body(i: Any, h: Any) -> list[Any]:
        return [i + 1, layers.cond(i < 1, lambda: layers.tanh(h @ u), lambda: h * x)]

    return layers.mean(layers.while_loop(lambda i, h: i < 3, body, [0, x])[1])


def loops_in_loops(x: Any, y: Any) -> Any:
    u = weight(x)

    def body(i: Any, h: Any) -> list[Any]:
        _, h = layers.while_loop(lambda j, h: j < 2, lambda j, h: [j + 1, layers.tanh(h @ u)], [0, h])
        return [i + 1, h + x]

    return layers.mean(layers.while_loop(lambda i, h: i < 2, body, [0, x])[1])


BLOCKS = [repeated, a_loss_each_time, in_a_branch, a_branch_in_a_loop, loops_in_loops]


@pytest.mark.parametrize("loss", BLOCKS)
@pytest.mark.parametrize("batch", [-1, ROWS])
def test_operators_with_blocks_run_once_for_each_part(loss: Callable[[Any, Any], Any], batch: int) -> None:
    one = Training(loss, batch=batch)
    program = one.in_parts(3)
    same(one, program)
    results = []
    for mode in ("compiled", "interpreted"):
        scope, executor = ga.Scope(), ga.Executor(mode=mode)
        executor.run(one.startup, scope=scope)
        results.append([executor.run(program, FEED, [one.loss.name, "u"], scope) for _ in range(3)])
    for compiled, interpreted in zip(*results, strict=True):
        np.testing.assert_equal(compiled, interpreted)


def as_long_as_the_batch_says(x: Any, y: Any) -> Any:
    _, h = layers.while_loop(lambda i, h: layers.reduce_sum(layers.square(h)) > 1.0, lambda i, h: [i + 1, h * 0.5], [0, x])
    return layers.mean(layers.fc(h, size=1))


def as_the_batch_says(x: Any, y: Any) -> Any:
    return layers.mean(layers.fc(layers.cond(layers.mean(x) > 0.0, lambda: x, lambda: x * 2.0), size=1))


def dropped_in_a_loop(x: Any, y: Any) -> Any:
    _, h = layers.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, layers.dropout(h, 0.5)], [0, layers.fc(x, size=3)])
    return layers.mean(h)


def largest(x: Any, y: Any) -> Any:
    return layers.reduce_max(layers.fc(x, size=1))


def square_of_mean(x: Any, y: Any) -> Any:
    return layers.square(layers.mean(layers.fc(x, size=1)))


def normalized(x: Any, y: Any) -> Any:
    return layers.mean(layers.square(layers.batch_norm(layers.fc(x, size=3))))


def dropped(x: Any, y: Any) -> Any:
    return layers.mean(layers.dropout(layers.fc(x, size=3), 0.5))


def across_rows(x: Any, y: Any) -> Any:
    return layers.mean(layers.softmax(layers.fc(x, size=3), axis=0))


@pytest.mark.parametrize(
    ("loss", "says"),
    [
        (largest, "neither a mean nor a sum over the batch: reduce_max"),
        (square_of_mean, "neither a mean nor a sum over the batch: square"),
        (normalized, "batch_norm.*uses statistics of the batch"),
        (dropped, "operator 'dropout' draws random numbers"),
        (across_rows, "neither a mean nor a sum over the batch: softmax"),
        (as_long_as_the_batch_says, "neither a mean nor a sum over the batch: greater_than"),
        (as_the_batch_says, "neither a mean nor a sum over the batch: greater_than"),
        (dropped_in_a_loop, "operator 'dropout' draws random numbers"),
    ],
)
def test_losses_that_are_refused(loss: Callable[[Any, Any], Any], says: str) -> None:
    one = Training(loss)
    with pytest.raises(PassError, match=says):
        one.in_parts(3)


def test_other_refusals() -> None:
    one = Training()
    hidden = one.main.global_block().ops[0].output("Out")[0]
    with pytest.raises(PassError, match=f"'{hidden}' is requested, which is neither a mean nor a sum over the batch"):
        one.in_parts(3, hidden)
    with pytest.raises(PassError, match=f"'{hidden}@GRAD' is requested, which is not the gradient of a parameter"):
        one.in_parts(3, one.loss.name, f"{hidden}@GRAD")
    with pytest.raises(PassError, match="'x' has 12 rows, which do not make 5 parts of one size"):
        Training(batch=ROWS).in_parts(5)
    with pytest.raises(PassError, match="the graph has no backward part"):
        GradientAccumulation(2).run(ga.lower(Training().main.clone(for_test=True)))
    with pytest.raises(ValueError, match="not into 0"):
        GradientAccumulation(0)


def test_it_runs_before_recompute_and_after_it() -> None:
    one = Training(batch=ROWS)
    for passes in ((GradientAccumulation(3), Recompute()), (Recompute(), GradientAccumulation(3))):
        graph = ga.lower(one.main, [one.loss.name])
        for each in passes:
            each.run(graph)
        same(one, ga.schedule(graph))


def test_a_constant_with_the_rows_of_the_batch_of_which_nothing_is_known_is_refused() -> None:
    graph = ga.lower(Training(batch=ROWS).main)
    assert Recompute().run(graph)
    placeholders = [op.output("Out") for op in graph.ops if op.type == "stand_in"]
    assert placeholders
    for i, value in enumerate(placeholders):
        graph.rename(value, f"something{i}")
    with pytest.raises(PassError, match="has the 12 rows of the batch: run this pass before the one that made it"):
        GradientAccumulation(3).run(graph)


def test_what_is_refused_stays_as_it_was() -> None:
    graph = ga.lower(Training(normalized).main)
    text = str(graph)
    with pytest.raises(PassError):
        GradientAccumulation(2).run(graph)
    assert str(graph) == text


def test_it_needs_the_memory_of_one_part() -> None:
    peaks = []
    one = Training(lambda x, y: layers.mean(layers.square(layers.fc(layers.fc(x, size=64, act="tanh"), size=64, act="tanh"))))
    feed = {"x": np.ones((960, 8)), "y": np.zeros((960, 1), "int64")}
    for program in (one.main, one.in_parts(8)):
        scope, executor = ga.Scope(), ga.Executor(mode="interpreted")
        executor.run(one.startup, scope=scope)
        for _ in range(3):
            executor.run(program, feed, [one.loss.name], scope)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        executor.run(program, feed, [one.loss.name], scope)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()
    assert peaks[1] < peaks[0] / 3


def even_training_program(choices: Choices) -> Case:
    """A training program whose batch can be cut into two parts; others are refused when they are drawn."""
    case = training_program(choices)
    if any(array.shape[0] % 2 for array in case.feeds.values()):
        raise InvalidValue("the batch is odd")
    return case


def test_random_training_programs() -> None:
    checked = check_pass(GradientAccumulation(2), examples=12, programs=even_training_program, tolerance=1e-4)
    assert checked.changed == checked.examples
