"""Time of training steps on XLA: a program through ``to_jax`` under jit, beside the same network written directly in JAX (``by_jax``).

    python -m tests.benchmarks.jax_steps            all three; words choose by a part of their names
    python -m tests.benchmarks.jax_steps --write    and write the table into docs/jax.md

Losses of three steps are compared first, and of small networks the parameters after them. Both are jitted, donate their state and run in
turns, on one core and one thread; processor time is measured, and the ratio is the median of the ratios of the pairs. Compiling is the
time from a function to what runs: tracing, and XLA.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphad as ga
from tests.benchmarks import by_jax, training_steps
from tests.benchmarks.by_hand import RATE
from tests.benchmarks.page import markdown
from tests.benchmarks.training_steps import Workload
from tests.sections import Section

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"  # XLA reads it, and how many cores there are, when it starts
TARGET = 1.1
SECTION = Section(
    Path(__file__).resolve().parents[2] / "docs" / "jax.md", "<!-- written by python -m tests.benchmarks.jax_steps --write -->"
)

# Sizes in which parameters are compared. Where one side rounds a relu's input to below zero and the other to above, their slopes differ:
# of thousands none is so near to zero, of a million some are.
SMALL: dict[Callable[..., Workload], dict[str, int]] = {
    training_steps.lenet: {"batch": 2},
    training_steps.lstm: {"steps": 5, "batch": 4},
    training_steps.transformer: {"batch": 2, "length": 8, "width": 32},
}


@dataclass
class Side:
    """One of the two: the jitted step, its arguments, and how long compiling took.

    Attributes:
        step: ``(feeds, state) -> (loss, state)``.
        parameters: those in a state, by name.
    """

    step: Callable[..., Any]
    feeds: Any
    state: Any
    parameters: Callable[[Any], dict[str, Any]]
    traced: float
    compiled: float

    def run(self) -> Any:
        loss, self.state = self.step(self.feeds, self.state)
        return loss

    def ended(self) -> None:
        jax.block_until_ready(self.state)


def compiled(function: Callable[..., Any], feeds: Any, state: Any, parameters: Callable[[Any], dict[str, Any]]) -> Side:
    feeds, state = (jax.tree.map(jnp.array, each) for each in (feeds, state))
    start = time.process_time()
    lowered = jax.jit(function, donate_argnums=1).lower(feeds, state)
    between = time.process_time()
    step = lowered.compile()
    return Side(step, feeds, state, parameters, between - start, time.process_time() - between)


def of_program(work: Workload, scope: ga.Scope) -> Side:
    function = ga.to_jax(work.main, [work.loss])
    names = list(work.parameters(scope))

    def step(feeds: Any, state: Any) -> Any:
        (loss,), state = function(feeds, state)
        return loss, state

    return compiled(step, work.feeds, function.state(scope), lambda state: {name: state[name] for name in names})


def direct(make: Callable[..., Workload], work: Workload, scope: ga.Scope) -> Side:
    loss: by_jax.Loss = getattr(by_jax, make.__name__)
    p = {name: jnp.array(value) for name, value in work.parameters(scope).items()}
    # JAX's own dtypes: labels are int32 there.
    feeds = [jnp.array(value.astype("int32") if value.dtype == "int64" else value) for value in work.feeds.values()]
    if make is training_steps.transformer:
        return compiled(by_jax.adam(loss), feeds, by_jax.with_moments(p), lambda state: dict(state[0]))
    return compiled(by_jax.descent(loss), feeds, p, dict)


def check_losses(one: Side, other: Side, steps: int = 3) -> None:
    """The losses of some steps are the same."""
    for _ in range(steps):
        np.testing.assert_allclose(one.run(), other.run(), rtol=1e-4)


def check(make: Callable[..., Workload]) -> None:
    """Losses and all parameters are the same, of the small network."""
    one, other = sides(make, **SMALL[make])
    check_losses(one, other)
    parameters = other.parameters(other.state)
    for name, value in one.parameters(one.state).items():
        training_steps.close(np.asarray(value), np.asarray(parameters[name]), name, float(RATE) / 100)


@dataclass
class Measured:
    """Milliseconds of a step, and the median ratio of the pairs."""

    direct: float
    program: float
    ratio: float


def seconds(side: Side, times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        side.run()
    side.ended()
    return (time.process_time() - start) / times


def measured(one: Side, other: Side, pairs: int, at_least: float = 0.2) -> Measured:
    """Run both in turns."""
    times = max(3, int(at_least / max(seconds(one, 3), 1e-6)))
    found = [(seconds(one, times), seconds(other, times)) for _ in range(pairs)]
    by_jax_, graphad_ = (min(times_) * 1e3 for times_ in zip(*found, strict=True))
    return Measured(by_jax_, graphad_, statistics.median(b / a for a, b in found))


def sides(make: Callable[..., Workload], **sizes: int) -> tuple[Side, Side]:
    """Directly in JAX, and the program."""
    work, scope = make(**sizes), ga.Scope()
    ga.Executor().run(work.startup, scope=scope)
    one = direct(make, work, scope)
    with jax.enable_x64(True):
        return one, of_program(work, scope)


def rows(words: Sequence[str] = (), pairs: int = 9) -> Iterator[list[str]]:
    """Rows of figures, the heads first."""
    yield ["step", "direct, ms", "program, ms", "ratio", "target", "compiling, direct, s", "compiling, program, s"]
    for make in SMALL:
        if words and not any(word in make.__name__ for word in words):
            continue
        check(make)
        one, other = sides(make)
        check_losses(one, other)
        found = measured(one, other, pairs)
        compiling = [f"{side.traced:.2f} + {side.compiled:.2f}" for side in (one, other)]
        yield [make().name, f"{found.direct:.2f}", f"{found.program:.2f}", f"{found.ratio:.2f}", f"{TARGET}", *compiling]


def main(arguments: Sequence[str]) -> None:
    """Print the table, and write it."""
    table = markdown(list(rows([word for word in arguments if not word.startswith("-")])))
    busy = f", load {os.getloadavg()[0]:.0f}" if hasattr(os, "getloadavg") else ""
    versions = f"jax {jax.__version__}, Python {platform.python_version()}, {platform.machine()}, one core, one thread{busy}."
    print(versions, table, sep="\n\n")
    if "--write" in arguments:
        SECTION.write(f"{versions}\n\n{table}")


if __name__ == "__main__":
    flags = os.environ.get("XLA_FLAGS", "")
    if ONE_THREAD not in flags:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        os.environ["XLA_FLAGS"] = f"{flags} {ONE_THREAD}"
        os.execv(sys.executable, [sys.executable, "-m", "tests.benchmarks.jax_steps", *sys.argv[1:]])
    main(sys.argv[1:])
