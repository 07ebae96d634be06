"""Time of a training step of a recurrent network, against the same written by hand in numpy.

    h = 0;  for each step t:  h = tanh(x[t] @ U + h @ W + b);  loss = mean(h * h);  SGD

Target: 1.5 times the hand-written time at 50 steps (hidden 64, batch 32, input 16, float32), and linear in the steps.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import graphad as ga
from graphad import layers

Array = NDArray[Any]
Params = dict[str, Array]
Build = Callable[[ga.Variable, Any], ga.Variable]

STEPS = (50, 100, 200, 400)
HIDDEN, BATCH, INPUT = 64, 32, 16
RATE = np.float32(0.1)
TARGET = 1.5
SHAPES = {"U": [INPUT, HIDDEN], "W": [HIDDEN, HIDDEN], "b": [HIDDEN]}


# -- three ways to write it ----------------------------------------------------------------------


def next_state(x: ga.Variable, h: ga.Variable, p: Any) -> ga.Variable:
    found: ga.Variable = layers.tanh(x @ p["U"] + h @ p["W"] + p["b"])
    return found


def while_loop(x: ga.Variable, p: Any) -> ga.Variable:
    """The last state, by a loop over functions."""
    parts = layers.tensor_to_tensor_array(x)
    steps = layers.fill_constant([1], "int64", x.shape[0])

    def body(i: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
        h = next_state(layers.array_read(parts, i), h, p)
        return [layers.increment(i), h]

    start = [layers.zeros([1], "int64"), layers.zeros([BATCH, HIDDEN], "float32")]
    last: ga.Variable = layers.while_loop(lambda i, h: layers.less_than(i, steps), body, start)[1]
    return last


def static_rnn(x: ga.Variable, p: Any) -> ga.Variable:
    """The last state, by a network that is run for each step."""
    rnn = layers.StaticRNN()
    with rnn.step():
        part = rnn.step_input(x)
        h = rnn.memory(shape=[BATCH, HIDDEN], batch_ref=x)
        new = next_state(part, h, p)
        rnn.update_memory(h, new)
        rnn.step_output(new)
    last: ga.Variable = layers.slice(rnn(), axes=[0], starts=[x.shape[0] - 1], ends=[x.shape[0]])
    return last


def by_hand(x: Array, p: Params) -> tuple[Array, Params]:
    """The loss and the parameters after one step of training."""
    U, W, b = p["U"], p["W"], p["b"]
    states = [np.zeros((BATCH, HIDDEN), "float32")]
    for part in x:
        states.append(np.tanh(part @ U + states[-1] @ W + b))
    loss = np.mean(states[-1] * states[-1])
    dh = states[-1] * np.float32(2 / states[-1].size)
    dU, dW, db = np.zeros_like(U), np.zeros_like(W), np.zeros_like(b)
    for t in reversed(range(len(x))):
        da = dh * (1 - states[t + 1] * states[t + 1])
        dU += x[t].T @ da
        dW += states[t].T @ da
        db += da.sum(0)
        dh = da @ W.T
    return loss, {"U": U - RATE * dU, "W": W - RATE * dW, "b": b - RATE * db}


# -- measured ------------------------------------------------------------------------------------


class Training(NamedTuple):
    """A program with forward, backward and SGD, and where it runs."""

    program: ga.Program
    loss: ga.Variable
    executor: ga.Executor
    scope: ga.Scope

    def step(self, x: Array, p: Params) -> tuple[Array, Params]:
        """As ``by_hand``."""
        for name, value in p.items():
            self.scope.set(name, value)
        (loss,) = self.executor.run(self.program, {"x": x}, [self.loss], self.scope)
        return loss, {name: self.scope.get(name) for name in p}


def training(build: Build, steps: int) -> Training:
    program, startup, scope = ga.Program(), ga.Program(), ga.Scope()
    with ga.program_guard(program, startup):
        x = layers.data("x", [steps, BATCH, INPUT], append_batch_size=False)
        p = {name: program.global_block().create_parameter(name, shape) for name, shape in SHAPES.items()}
        loss = layers.mean(layers.square(build(x, p)))
        ga.optimizer.SGD(float(RATE)).minimize(loss)
    executor = ga.Executor()
    executor.run(startup, scope=scope)
    return Training(program, loss, executor, scope)


def given(steps: int) -> tuple[Array, Params]:
    """The sequence and the parameters to start from."""
    rng = np.random.default_rng(0)
    drawn = {name: (rng.standard_normal(shape) * 0.1).astype("float32") for name, shape in SHAPES.items()}
    return rng.standard_normal((steps, BATCH, INPUT)).astype("float32"), drawn


def check(trained: Training, x: Array, p: Params) -> None:
    """The loss and the parameters are those computed by hand."""
    (loss, got), (expected, wanted) = trained.step(x, p), by_hand(x, p)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def milliseconds(ways: list[Callable[[], Any]], repeat: int) -> list[float]:
    """The quickest run of each, taken in turns so that a slow moment of the machine meets all of them."""
    best = [float("inf")] * len(ways)
    for _ in range(repeat):
        for i, way in enumerate(ways):
            start = time.perf_counter()
            way()
            best[i] = min(best[i], (time.perf_counter() - start) * 1e3)
    return best


def measured(steps: int, repeat: int) -> list[float]:
    """Milliseconds of a training step: by hand, ``while_loop``, ``StaticRNN``."""
    x, p = given(steps)
    trained = [training(build, steps) for build in (while_loop, static_rnn)]
    for each in trained:
        check(each, x, p)
    ways: list[Callable[[], Any]] = [lambda: by_hand(x, p), *(lambda each=each: each.step(x, p) for each in trained)]
    return milliseconds(ways, repeat)


def time_table(repeat: int) -> Table:
    table = Table(title=f"a training step of a recurrent network: milliseconds (times by hand; target {TARGET})")
    for column in ("steps", "by hand", "while_loop", "StaticRNN", "while_loop, µs a step"):
        table.add_column(column, justify="right")
    for steps in STEPS:
        hand, loop, static = measured(steps, repeat)
        shown = [f"{ms:.2f} ({ms / hand:.2f} x)" for ms in (loop, static)]
        table.add_row(f"{steps}", f"{hand:.2f}", *shown, f"{loop / steps * 1e3:.1f}")
    return table


def main(repeat: int = 100) -> None:
    """Print the table."""
    console = Console(width=160)
    console.print(f"Python {sys.version.split()[0]}, numpy {np.__version__}")
    console.print(time_table(repeat))


if __name__ == "__main__":
    main()
