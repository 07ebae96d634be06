"""graphad, and the same by hand in numpy (``by_hand``): the programs of ``training_steps``, from the parameters in the file."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

import graphad as ga
from tests.benchmarks import training_steps
from tests.benchmarks.step_peers.protocol import Array, Make, Params, Step, main
from tests.benchmarks.training_steps import Workload

STEPS = {make.__name__: make for make in training_steps.WORKLOADS}


def with_executor(name: str, **options: Any) -> Make:
    def make(params: Params, feeds: list[Array]) -> Step:
        work: Workload = STEPS[name]()
        scope, executor = ga.Scope(), ga.Executor(**options)
        executor.run(work.startup, scope=scope)
        for parameter, array in params.items():
            scope.set(parameter, array)
        fed = dict(zip(work.feeds, feeds, strict=True))
        return lambda: executor.run(work.main, fed, [work.loss], scope)[0]

    return make


def by_hand(name: str) -> Make:
    def make(params: Params, feeds: list[Array]) -> Step:
        hand = STEPS[name]().hand(params)
        return lambda: np.asarray(hand.step(*feeds))

    return make


MAKES: dict[str, Make] = {name: with_executor(name) for name in STEPS}
MAKES |= {f"{name} by hand": by_hand(name) for name in STEPS}
if find_spec("numba") is not None:
    MAKES |= {f"{name} with numba": with_executor(name, numba=True) for name in STEPS}

if __name__ == "__main__":
    main(MAKES, "graphad", "numpy")
