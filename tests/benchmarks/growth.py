"""How everyday work grows with a program: microseconds an operator for one number of operators, and for four times as many.

    python -m tests.benchmarks.growth [5000]
    python -m tests.benchmarks.growth 1500 --passes

Networks of ``fc`` layers, two parameters each, so that the parameters grow as well. What is linear takes as long for an operator of the
larger program, or up to half as long again, since that is in no cache; what is quadratic takes four times as long. Processor time of one
call each, after one on a small network. With ``--passes`` all passes that can be given without options, on the network with its backward.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import graphad as ga
from graphad import layers as L
from graphad.errors import GraphadError, Refused
from graphad.interop import onnx
from graphad.rewriting.passes import PASSES

TIMES, SMALL = 4, 60
Act = Callable[[], object]


@dataclass(frozen=True)
class Network:
    """A network, its startup program and its loss; a scope for its parameters, and a batch."""

    main: ga.Program
    startup: ga.Program
    loss: ga.Variable
    scope: ga.Scope
    executor: ga.Executor

    def run(self) -> object:
        """One run, whichever it is."""
        return self.executor.run(self.main, {"x": BATCH}, [self.loss], self.scope)

    def started(self) -> Network:
        """The network, its parameters initialized."""
        self.executor.run(self.startup, scope=self.scope)
        return self


BATCH = np.ones((2, 4), "float32")


def network(operators: int, optimizer: Callable[[], ga.optimizer.Optimizer] | None = None) -> Network:
    """A network of about so many forward operators."""
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        hidden = L.data("x", [4])
        for _ in range(operators // 3):
            hidden = L.fc(hidden, 4, act="tanh")
        loss = L.mean(hidden)
        if optimizer is not None:
            optimizer().minimize(loss)
    return Network(main, startup, loss, ga.Scope(), ga.Executor())


def minimize(make: Callable[[], ga.optimizer.Optimizer]) -> Callable[[int], Act]:
    """The work of an optimizer's ``minimize``."""

    def prepare(operators: int) -> Act:
        net = network(operators)

        def act() -> None:
            with ga.program_guard(net.main, net.startup):
                make().minimize(net.loss)

        return act

    return prepare


def run(number: int, optimizer: Callable[[], ga.optimizer.Optimizer] | None = None) -> Callable[[int], Act]:
    """The work of a run: the first is interpreted, the second compiles, the third has a look at what may change."""

    def prepare(operators: int) -> Act:
        net = network(operators, optimizer).started()
        for _ in range(number - 1):
            net.run()
        return net.run

    return prepare


def second_order(operators: int) -> Act:
    """The work of the gradient of a gradient."""
    net = network(operators)
    x = net.main.global_block().var("x")
    x.stop_gradient = False

    def act() -> None:
        with ga.program_guard(net.main, net.startup):
            (first,) = ga.gradients(net.loss, x)
            ga.gradients(L.reduce_sum(first), x)  # type: ignore[arg-type]  # x reaches the loss

    return act


def saved(write: Callable[[Network, Path], object]) -> Callable[[int], Act]:
    """The work of writing files into a folder of their own."""

    def prepare(operators: int) -> Act:
        net = network(operators).started()

        def act() -> None:
            with tempfile.TemporaryDirectory() as folder:
                write(net, Path(folder))

        return act

    return prepare


def inference_model(net: Network, folder: Path) -> None:
    """Write a model for inference, each parameter in a file of its own."""
    with ga.scope_guard(net.scope):
        ga.io.save_inference_model(folder, ["x"], [net.loss], net.executor, net.main)


def of(act: Callable[[Network], object]) -> Callable[[int], Act]:
    """Work on a network whose parameters are initialized."""

    def prepare(operators: int) -> Act:
        net = network(operators).started()
        return lambda: act(net)

    return prepare


WORK: dict[str, Callable[[int], Act]] = {
    "minimize, SGD": minimize(lambda: ga.optimizer.SGD(0.1)),
    "minimize, Adam and a norm": minimize(lambda: ga.optimizer.Adam(0.1, grad_clip=ga.clip.GradientClipByGlobalNorm(1.0))),
    "gradients of gradients": second_order,
    "clone for test": of(lambda net: net.main.clone(for_test=True)),
    "prune": of(lambda net: net.main.prune([net.loss.name])),
    "startup program": of(lambda net: net.executor.run(net.startup, scope=net.scope)),
    "first run": run(1),
    "second run, compiled": run(2),
    "third run": run(3),
    "second run, with SGD": run(2, lambda: ga.optimizer.SGD(0.1)),
    "to_python": of(lambda net: ga.to_python(net.main, [net.loss], {"x": BATCH})),
    "freeze": of(lambda net: ga.freeze(net.main, [net.loss], net.scope)),
    "save, Paddle's format": saved(lambda net, folder: ga.save(net.main, folder / "net.pdmodel", net.scope)),
    "save, JSON": saved(lambda net, folder: ga.save(net.main, folder / "net.json", net.scope)),
    "save_inference_model": saved(inference_model),
    "ONNX": saved(lambda net, folder: onnx.save(net.main, folder / "net.onnx", feed_names=["x"], fetch_list=[net.loss], scope=net.scope)),
}


def of_pass(name: str) -> Callable[[int], Act]:
    """The work of a pass on a network with its backward."""
    pipeline = ga.Pipeline.parse(name)

    def prepare(operators: int) -> Act:
        net = network(operators)
        gradients = ga.append_backward(net.loss)
        graph = ga.lower(net.main, [net.loss, *(gradient for _, gradient in gradients)])
        return lambda: pipeline.run(graph)

    return prepare


def passes() -> dict[str, Callable[[int], Act]]:
    """The passes that run without options and refuse nothing."""
    found = {}
    for name in sorted(PASSES):
        try:
            work = of_pass(name)
            work(SMALL)()
        except (GraphadError, Refused):
            continue
        found[name] = work
    return found


def spent(prepare: Callable[[int], Act], operators: int) -> float:
    """Microseconds of processor time an operator."""
    act = prepare(operators)
    start = time.process_time()
    act()
    return (time.process_time() - start) / operators * 1e6


def main(given: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("operators", type=int, nargs="?", default=5000)
    parser.add_argument("--passes", action="store_true")
    args = parser.parse_args(given)
    sizes = args.operators, TIMES * args.operators
    shown = Table("work", *(f"{size:,}" for size in sizes), "times", title="µs of processor time an operator")
    for name, prepare in (passes() if args.passes else WORK).items():
        prepare(SMALL)()  # what is imported and remembered once costs no operator
        small, large = (spent(prepare, size) for size in sizes)
        shown.add_row(name, f"{small:.1f}", f"{large:.1f}", f"{large / small:.1f}")
    Console(width=100).print(shown)


if __name__ == "__main__":
    main()
