"""Time of kernels on one thread, against straightforward numpy and, where an environment has it, torch.

    python -m tests.benchmarks.kernels                                      torch from this environment, if it is there
    python -m tests.benchmarks.kernels path/to/bin/python                   torch from that interpreter's environment
    python -m tests.benchmarks.kernels path/to/bin/python norm depthwise    only the cases with one of these words in their names

The shapes are those of LeNet (batch 64), ResNet-18 (batch 1 and 8), MobileNet (batch 1 and 8) and a transformer, float32. With numba
installed, *loops* are the kernels that ``Executor(numba=True)`` takes. Every figure is the processor time of the quickest of the runs, or
of short ones together, that fit into a quarter of a second. Target: at most 1.5 times torch's time.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from graphad.contexts import binding
from graphad.ops import lookup
from graphad.ops.loops import COMPILED
from tests.benchmarks.torch_kernels import Work, quickest

Array = NDArray[Any]
Times = list[dict[str, float]]

SECONDS = 0.25
TARGET = 1.5
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
BESIDE = Path(__file__).with_name("torch_kernels.py")


class Case(NamedTuple):
    """An operator on shapes, with its attributes."""

    name: str
    kind: str
    shapes: list[list[int]]
    attrs: dict[str, Any]


def conv(name: str, image: list[int], filter_: list[int], stride: int = 1, padding: int = 0, groups: int = 1) -> Case:
    """A convolution."""
    return Case(name, "conv2d", [image, filter_], {"strides": [stride] * 2, "paddings": [padding] * 2, "groups": groups})


def pool(name: str, image: list[int], kind: str, size: int, stride: int, padding: int = 0) -> Case:
    """A pooling."""
    attrs = {"pooling_type": kind, "ksize": [size] * 2, "strides": [stride] * 2, "paddings": [padding] * 2}
    return Case(name, "pool2d", [image], attrs)


def resnet(batch: int) -> list[Case]:
    """The convolutions of ResNet-18 that differ, its pooling and two of its normalizations."""
    n, of = batch, f"resnet18 x{batch}"
    return [
        conv(f"{of} conv1 7x7/2", [n, 3, 224, 224], [64, 3, 7, 7], 2, 3),
        conv(f"{of} layer1 3x3", [n, 64, 56, 56], [64, 64, 3, 3], 1, 1),
        conv(f"{of} layer2 3x3/2", [n, 64, 56, 56], [128, 64, 3, 3], 2, 1),
        conv(f"{of} layer2 1x1/2", [n, 64, 56, 56], [128, 64, 1, 1], 2, 0),
        conv(f"{of} layer2 3x3", [n, 128, 28, 28], [128, 128, 3, 3], 1, 1),
        conv(f"{of} layer3 3x3", [n, 256, 14, 14], [256, 256, 3, 3], 1, 1),
        conv(f"{of} layer4 3x3", [n, 512, 7, 7], [512, 512, 3, 3], 1, 1),
        pool(f"{of} max pool 3x3/2", [n, 64, 112, 112], "max", 3, 2, 1),
        Case(f"{of} batch_norm", "batch_norm", [[n, 64, 56, 56]], {}),
        Case(f"{of} batch_norm", "batch_norm", [[n, 512, 7, 7]], {}),
        Case(f"{of} fc", "matmul_v2", [[n, 512], [512, 1000]], {}),
        Case(f"{of} softmax", "softmax", [[n, 1000]], {}),
    ]


def mobilenet(batch: int) -> list[Case]:
    """Depthwise convolutions of MobileNet, and a normalization between them."""
    n, of = batch, f"mobilenet x{batch}"
    return [
        conv(f"{of} depthwise 3x3 of 32", [n, 32, 112, 112], [32, 1, 3, 3], 1, 1, 32),
        conv(f"{of} depthwise 3x3/2 of 96", [n, 96, 112, 112], [96, 1, 3, 3], 2, 1, 96),
        conv(f"{of} depthwise 3x3 of 192", [n, 192, 28, 28], [192, 1, 3, 3], 1, 1, 192),
        conv(f"{of} depthwise 5x5 of 240", [n, 240, 14, 14], [240, 1, 5, 5], 1, 2, 240),
        conv(f"{of} depthwise 3x3 of 960", [n, 960, 7, 7], [960, 1, 3, 3], 1, 1, 960),
        Case(f"{of} batch_norm", "batch_norm", [[n, 192, 28, 28]], {}),
        pool(f"{of} avg pool 7x7", [n, 1280, 7, 7], "avg", 7, 1),
    ]


def transformer() -> list[Case]:
    """The attention weights and the normalization of a block: 8 sequences of 128, 4 heads, width 256; and wider ones."""
    shapes = {"layer_norm": [[8, 128, 256], [8, 512, 768]], "softmax": [[8, 4, 128, 128], [8, 12, 128, 128]]}
    attrs: dict[str, dict[str, Any]] = {"layer_norm": {"begin_norm_axis": 2}, "softmax": {}}
    return [
        Case(f"transformer {kind} {' x '.join(map(str, shape))}", kind, [shape], attrs[kind])
        for kind, several in shapes.items()
        for shape in several
    ]


CASES = [
    conv("lenet x64 conv1 5x5", [64, 1, 28, 28], [6, 1, 5, 5]),
    pool("lenet x64 max pool 2x2", [64, 6, 24, 24], "max", 2, 2),
    conv("lenet x64 conv2 5x5", [64, 6, 12, 12], [16, 6, 5, 5]),
    pool("lenet x64 avg pool 2x2", [64, 16, 8, 8], "avg", 2, 2),
    Case("lenet x64 fc1", "matmul_v2", [[64, 256], [256, 120]], {}),
    Case("lenet x64 softmax", "softmax", [[64, 10]], {}),
    *resnet(1),
    *resnet(8),
    *mobilenet(1),
    *mobilenet(8),
    *transformer(),
    Case("matmul 512", "matmul_v2", [[512, 512], [512, 512]], {}),
    Case("softmax 4096 x 1000", "softmax", [[4096, 1000]], {}),
]


# -- this project's kernels ----------------------------------------------------------------------


def drawn(shape: list[int]) -> Array:
    """Repeatable float32 values."""
    return np.random.default_rng(shape).standard_normal(shape, np.float32)


def works(case: Case) -> dict[str, Work]:
    """The functions to time for a case, by the name of the measurement."""
    operands = [drawn(shape) for shape in case.shapes]
    if case.kind == "batch_norm":
        c = case.shapes[0][1]
        operands += [np.ones(c, np.float32), np.zeros(c, np.float32), np.zeros(c, np.float32), np.ones(c, np.float32)]
    if case.kind == "layer_norm":
        operands += [np.ones(case.shapes[0][-1], np.float32), np.zeros(case.shapes[0][-1], np.float32)]
    definition = lookup(case.kind)
    found: dict[str, Work] = {"forward": lambda: definition(*operands, **case.attrs)}
    if case.kind in ("softmax", "batch_norm", "layer_norm", "pool2d"):
        return {**found, "backward": backward(case, operands)}
    if case.kind != "conv2d":
        return found
    x, w = operands
    d = drawn(list(definition(x, w, **case.attrs).shape))
    to_input, to_filter = lookup("conv2d_backprop_input"), lookup("conv2d_backprop_filter")
    return {
        **found,
        "dInput": lambda: to_input(w, d, x, **case.attrs),
        "dFilter": lambda: to_filter(x, d, w, **case.attrs),
    }


def backward(case: Case, operands: list[Array]) -> Work:
    """The cotangents of all inputs, from that of the first output."""
    definition = lookup(case.kind)
    assert definition.grad is not None
    outputs = definition.run(dict(zip(definition.inputs, ([each] for each in operands), strict=False)), case.attrs, ())
    first, *_ = definition.outputs
    inputs = {**dict(zip(definition.inputs, ([each] for each in operands), strict=False)), **outputs}
    inputs[f"{first}@GRAD"] = [drawn(list(outputs[first][0].shape))]
    wanted = [f"{slot}@GRAD" for slot in ("X", "Scale", "Bias") if slot in definition.inputs]
    read = {slot: value for slot, value in inputs.items() if slot in definition.grad.inputs}
    return lambda: definition.grad.run(read, case.attrs, wanted)  # type: ignore[union-attr]


# -- straightforward numpy -----------------------------------------------------------------------


def plain(case: Case) -> dict[str, Work]:
    """The operator as it is usually first written in numpy."""
    operands = [drawn(shape) for shape in case.shapes]
    return {"forward": lambda: PLAIN[case.kind](*operands, **case.attrs)}


def plain_conv2d(x: Array, w: Array, *, strides: list[int], paddings: list[int], groups: int) -> Array:
    """A contraction for each element of the window."""
    x = np.pad(x, [(0, 0), (0, 0), (paddings[0],) * 2, (paddings[1],) * 2])
    (n, c, *_), (f, d, kh, kw) = x.shape, w.shape
    oh, ow = (x.shape[2] - kh) // strides[0] + 1, (x.shape[3] - kw) // strides[1] + 1
    x, w = x.reshape(n, groups, c // groups, *x.shape[2:]), w.reshape(groups, f // groups, d, kh, kw)
    out = np.zeros((n, groups, f // groups, oh, ow), x.dtype)
    for i in range(kh):
        for j in range(kw):
            part = x[:, :, :, i : i + strides[0] * oh : strides[0], j : j + strides[1] * ow : strides[1]]
            out += np.einsum("gfc,ngchw->ngfhw", w[..., i, j], part, optimize=True)
    return out.reshape(n, f, oh, ow)


def plain_pool2d(x: Array, *, pooling_type: str, ksize: list[int], strides: list[int], paddings: list[int]) -> Array:
    """A reduction over a view of the windows."""
    wide = np.pad(x, [(0, 0), (0, 0), (paddings[0],) * 2, (paddings[1],) * 2], constant_values=-np.inf if pooling_type == "max" else 0)
    view = np.lib.stride_tricks.sliding_window_view(wide, ksize, (2, 3))[:, :, :: strides[0], :: strides[1]]
    return np.asarray(view.max((4, 5)) if pooling_type == "max" else view.mean((4, 5)))


def plain_softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def plain_batch_norm(x: Array) -> Array:
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + 1e-5))


def plain_layer_norm(x: Array, *, begin_norm_axis: int) -> Array:
    mean, variance = x.mean(begin_norm_axis, keepdims=True), x.var(begin_norm_axis, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + 1e-5))


PLAIN: dict[str, Callable[..., Array]] = {
    "conv2d": plain_conv2d,
    "pool2d": plain_pool2d,
    "softmax": plain_softmax,
    "batch_norm": plain_batch_norm,
    "layer_norm": plain_layer_norm,
    "matmul_v2": np.matmul,
}


# -- measuring -----------------------------------------------------------------------------------


def measured(make: Callable[[Case], dict[str, Work]], cases: Sequence[Case]) -> Times:
    """Seconds of every measurement of every case."""
    return [{name: quickest(work, SECONDS) for name, work in make(case).items()} for case in cases]


def with_loops(cases: Sequence[Case]) -> Times:
    """Seconds of the same as compiled loops, of those kernels that can be; nothing without numba."""
    if importlib.util.find_spec("numba") is None:
        return [{} for _ in cases]
    with binding(COMPILED, True):
        return [measured(works, [case])[0] if can_loop(case) else {} for case in cases]


def can_loop(case: Case) -> bool:
    return case.kind in ("softmax", "batch_norm", "layer_norm", "pool2d") or case.attrs.get("groups", 1) > 1


def with_torch(interpreter: str, cases: Sequence[Case]) -> tuple[str, Times]:
    """torch's version and seconds, from the environment of an interpreter; an empty version if it has no torch."""
    given = json.dumps({"cases": [case._asdict() for case in cases], "seconds": SECONDS})
    done = subprocess.run([interpreter, str(BESIDE)], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{interpreter} does not run torch: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return "", [{} for _ in cases]
    found = json.loads(done.stdout)
    return found["version"], found["seconds"]


def ratio(mine: float, other: float | None) -> str:
    """How many times as long it takes as something else."""
    return "" if other is None else f"{mine / other:.2f}"


def table(cases: Sequence[Case], version: str, ours: Times, loops: Times, straightforward: Times, torch: Times) -> Table:
    """One line for each measurement."""
    result = Table(title="milliseconds on one thread, float32")
    for column in ("case", "what", "graphad", "loops", "numpy", f"torch {version}", "of numpy", "of torch", "loops"):
        result.add_column(column, justify="left" if column in ("case", "what") else "right")
    for case, mine, compiled, others, theirs in zip(cases, ours, loops, straightforward, torch, strict=True):
        for what, seconds in mine.items():
            other, their, loop = others.get(what), theirs.get(what), compiled.get(what)
            figures = ["" if s is None else f"{s * 1e3:.3f}" for s in (seconds, loop, other, their)]
            ratios = [ratio(seconds, other), ratio(seconds, their), "" if loop is None else ratio(loop, their)]
            over = their is not None and seconds > TARGET * their
            result.add_row(case.name, what, *figures, *ratios, style="red" if over else None)
    return result


def measure(interpreter: str, words: Sequence[str]) -> None:
    """Print the table; the number of threads is set already."""
    cases = [case for case in CASES if not words or any(word in case.name for word in words)]
    version, theirs = with_torch(interpreter, cases) if interpreter else ("", [{} for _ in cases])
    # One case after the other, in each way: on a busy machine all of them then meet the same load.
    ours = [(measured(works, [case])[0], with_loops([case])[0], measured(plain, [case])[0]) for case in cases]
    mine, loops, straightforward = (list(times) for times in zip(*ours, strict=True))
    Console(width=160).print(table(cases, version, mine, loops, straightforward, theirs))


def main(interpreter: str = "", *words: str) -> None:
    """Measure in a process of its own, in which libraries of linear algebra have one thread."""
    found = interpreter or (sys.executable if importlib.util.find_spec("torch") else "")
    command = [sys.executable, "-m", "tests.benchmarks.kernels", "--measure", found, *words]
    subprocess.run(command, env={**os.environ, **dict.fromkeys(THREADS, "1")}, check=True)


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure(sys.argv[2], sys.argv[3:])
    else:
        main(*sys.argv[1:])
