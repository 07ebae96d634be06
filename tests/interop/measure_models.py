"""The measurements of the real networks in docs/interop.md: sizes, seconds and differences, on one thread.

GRAPHAD_MODELS=FOLDER OPENBLAS_NUM_THREADS=1 python -m tests.interop.measure_models
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnxruntime

import graphad as ga
from graphad.interop.paddle.models import load_inference_model
from tests.interop.models import MODELS, Model, shown

PIPELINES = ("fixpoint(simplify, constant-folding, cse, dead-code)", "fold-batch-norm", "fuse-elementwise")


def timed(work: Callable[[], Any], times: int = 5) -> tuple[float, Any]:
    """The least seconds of some runs, and what the last one gave."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def runner(model: Model, program: ga.Program) -> Callable[[], Any]:
    """A function that runs a program of the network on what it is shown, by one executor."""
    exe, scope, feed = ga.Executor(), model.scope(), {model.loaded.feed_names[0]: shown()[model.name]}
    return lambda: exe.run(program, feed, model.loaded.fetch_names, scope)[0]


def measure(model: Model) -> None:
    """Print the lines of one network."""
    loading, _ = timed(lambda: load_inference_model(model.folder))
    seconds, found = timed(runner(model, model.loaded.program))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.onnx_file, options, providers=["CPUExecutionProvider"])
    other, wanted = timed(lambda: session.run(None, {session.get_inputs()[0].name: shown()[model.name]})[0])
    size = sum(array.size for array in model.loaded.parameters.values())
    print(
        f"{model.name}: {model.operators} operators of {model.types} types, {size:,} numbers in {len(model.loaded.parameters)} parameters"
    )
    print(
        f"  loads in {loading:.3f} s; runs in {seconds:.3f} s, onnxruntime in {other:.3f} s; differs by {np.abs(found - wanted).max():.1e}"
    )
    for text in PIPELINES:
        graph = ga.lower(model.loaded.program)
        spent, _ = timed(partial(ga.Pipeline.parse(text).run, graph), 1)
        program = ga.schedule(graph)
        seconds, given = timed(runner(model, program))
        count, apart = len(program.global_block().ops), np.abs(given - found).max()
        print(f"  {text}: {count} operators in {spent:.3f} s; runs in {seconds:.3f} s; differs by {apart:.1e}")
    backward(model)


def backward(model: Model) -> None:
    """Print how long the backward takes to build and, on what is shown, to run."""
    program = model.loaded.program.clone()
    with ga.program_guard(program):
        loss = ga.layers.mean(program.global_block().var(model.loaded.fetch_names[0]))
    spent, pairs = timed(lambda: ga.append_backward(loss, model.weights), 1)
    exe, scope, feed = ga.Executor(), model.scope(), {model.loaded.feed_names[0]: shown()[model.name]}
    seconds, _ = timed(lambda: exe.run(program, feed, [g.name for _, g in pairs], scope), 3)
    count = len(program.global_block().ops)
    print(f"  backward of {len(pairs)} weights: {count} operators in {spent:.3f} s; runs in {seconds:.3f} s")


if __name__ == "__main__":
    for each in MODELS:
        measure(each)
