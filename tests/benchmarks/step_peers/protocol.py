"""The protocol of the scripts of all peers: each has a function that makes a step, by the step's name, and ends in ``main``.

    python -m tests.benchmarks.step_peers.with_torch mlp arrays.npz

prints one line of JSON: the losses of three steps, and the processor time of one, the least of many.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Params = dict[str, Array]
Step = Callable[[], Any]
Make = Callable[[Params, list[Array]], Step]

RATE, EPSILON, BETA1, BETA2, HEADS = 0.01, 1e-4, 0.9, 0.999, 4  # as ``by_hand`` and ``training_steps`` have them
LOSSES, ROUNDS, ROUND = 3, 7, 0.1


def write(path: str, params: Mapping[str, Array], feeds: Mapping[str, Array]) -> None:
    """Keep what a step begins with."""
    arrays: dict[str, Any] = {f"param {name}": array for name, array in params.items()}
    arrays |= {f"feed {name}": array for name, array in feeds.items()}
    np.savez(path, **arrays)


def read(path: str) -> tuple[Params, list[Array]]:
    """The parameters by name, and the feeds in order."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    params = {name.removeprefix("param "): array for name, array in arrays.items() if name.startswith("param ")}
    return params, [array for name, array in arrays.items() if name.startswith("feed ")]


def loss(result: Any) -> float:
    """The loss as a number; of the chain, whose result is an array, the mean of its elements."""
    return float(np.asarray(result, "float64").mean())


def quickest(step: Step) -> float:
    """Seconds of processor time of a step, in the quickest of the rounds."""
    start = time.process_time()
    for _ in range(3):
        step()
    times = max(1, int(3 * ROUND / max(time.process_time() - start, 1e-6)))
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(times):
            step()
        best = min(best, (time.process_time() - start) / times)
    return best


def adam(p: Params) -> Callable[[Params], None]:
    """Adam (Kingma and Ba 2015) in plain numpy, for libraries that have no optimizers: updates the arrays from their gradients."""
    m, v = ({name: np.zeros_like(array) for name, array in p.items()} for _ in range(2))
    taken = 0

    def update(g: Params) -> None:
        nonlocal taken
        taken += 1
        for name, d in g.items():
            m[name] = BETA1 * m[name] + (1 - BETA1) * d
            v[name] = BETA2 * v[name] + (1 - BETA2) * d * d
            p[name] -= RATE * (m[name] / (1 - BETA1**taken)) / (np.sqrt(v[name] / (1 - BETA2**taken)) + EPSILON)

    return update


def descent(p: Params) -> Callable[[Params], None]:
    """Gradient descent in plain numpy."""

    def update(g: Params) -> None:
        for name, d in g.items():
            p[name] -= RATE * d

    return update


def main(makes: Mapping[str, Make], *distributions: str) -> None:
    """Measure the step that the command line names, and print what was found."""
    name, path = sys.argv[1:3]
    step = makes[name](*read(path))
    losses = [loss(step()) for _ in range(LOSSES)]
    found = {"losses": losses, "seconds": quickest(step), "version": ", ".join(f"{each} {version(each)}" for each in distributions)}
    print(json.dumps(found))
