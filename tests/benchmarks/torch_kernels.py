"""Times torch's kernels on one thread: cases as JSON on standard input, seconds as JSON on standard output.

Runs in whatever environment has torch, so it imports nothing of this project.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

Work = Callable[[], Any]

SAMPLE = 1e-4  # seconds


def works(torch: Any, case: dict[str, Any]) -> dict[str, Work]:
    """The functions to time for a case, by the name of the measurement."""
    functional, shapes = torch.nn.functional, case["shapes"]
    x = torch.randn(shapes[0])
    if case["kind"] == "conv2d":
        return convolutions(torch, x, torch.randn(shapes[1]), case["attrs"])
    forward: Callable[..., Any] | None = None
    if case["kind"] == "pool2d":
        attrs = case["attrs"]
        pool = functional.max_pool2d if attrs["pooling_type"] == "max" else functional.avg_pool2d
        forward, inputs = lambda x: pool(x, attrs["ksize"], attrs["strides"], attrs["paddings"]), [x]
    if case["kind"] == "batch_norm":
        c = shapes[0][1]
        mean, variance = torch.zeros(c), torch.ones(c)
        forward = lambda x, scale, bias: functional.batch_norm(x, mean, variance, scale, bias, training=True)  # noqa: E731
        inputs = [x, torch.ones(c), torch.zeros(c)]
    if case["kind"] == "layer_norm":
        width = shapes[0][-1]
        forward, inputs = lambda x, *vectors: functional.layer_norm(x, [width], *vectors), [x, torch.ones(width), torch.zeros(width)]
    if case["kind"] == "softmax":
        forward, inputs = lambda x: torch.softmax(x, -1), [x]
    if forward is not None:
        return {"forward": lambda: forward(*inputs), "backward": backward(torch, forward, inputs)}
    y = torch.randn(shapes[1])
    return {"forward": lambda: x @ y}


def backward(torch: Any, forward: Callable[..., Any], inputs: list[Any]) -> Work:
    """The gradients of all inputs, the forward part not timed."""
    leaves = [each.clone().requires_grad_() for each in inputs]
    with torch.enable_grad():
        result = forward(*leaves)
    cotangent = torch.randn(result.shape)
    return lambda: torch.autograd.grad(result, leaves, cotangent, retain_graph=True)


def convolutions(torch: Any, x: Any, w: Any, attrs: dict[str, Any]) -> dict[str, Work]:
    """A convolution and the two cotangents, each alone."""
    s, p, groups = attrs["strides"], attrs["paddings"], attrs.get("groups", 1)
    d = torch.randn(torch.nn.functional.conv2d(x, w, None, s, p, 1, groups).shape)

    def backward(mask: list[bool]) -> Any:
        return torch.ops.aten.convolution_backward(d, x, w, None, s, p, [1, 1], False, [0, 0], groups, mask)

    return {
        "forward": lambda: torch.nn.functional.conv2d(x, w, None, s, p, 1, groups),
        "dInput": lambda: backward([True, False, False]),
        "dFilter": lambda: backward([False, True, False]),
    }


def quickest(work: Work, seconds: float) -> float:
    """Processor time of a run on this thread, which does all the work, in the quickest of the samples that fit into the time.

    A sample is as many runs as take ``SAMPLE``: of a few microseconds the clock of a thread says anything, and sometimes 0.
    """
    count = 1
    while _sample(work, count) < SAMPLE:
        count *= 2
    best, samples, end = float("inf"), 0, time.perf_counter() + seconds
    while samples < 5 or time.perf_counter() < end:
        best, samples = min(best, _sample(work, count)), samples + 1
    return best / count


def _sample(work: Work, count: int) -> float:
    start = time.thread_time()
    for _ in range(count):
        work()
    return time.thread_time() - start


def main() -> None:
    """Read the cases, write the seconds of each."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    given = json.load(sys.stdin)
    with torch.no_grad():
        found = [{name: quickest(work, given["seconds"]) for name, work in works(torch, case).items()} for case in given["cases"]]
    json.dump({"version": torch.__version__, "seconds": found}, sys.stdout)


if __name__ == "__main__":
    main()
