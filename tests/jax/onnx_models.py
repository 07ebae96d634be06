"""ONNX models and Paddle's networks on XLA, compared with numpy.

    python -m tests.jax.onnx_models --every 4        every fourth node test of the onnx package that passes on numpy
    python -m tests.jax.onnx_models --networks       RapidOCR's three networks, as Paddle and as ONNX have them (tests.interop.models)

Outputs are compared within 1e-4 of the largest entry (float32), 1e-6 (float64), others exactly. Inputs on which the program depends (axes,
shapes, counts) are bound when the model is read, as ``load(path, bind={...})`` does; if XLA needs more, so are single numbers and lists of
integers.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from graphad.errors import ExecutionError, GraphadError, NotLowered
from graphad.interop import onnx as ours
from graphad.interop.onnx.model import Undecided
from tests.interop import onnx_nodes
from tests.interop.models import MODELS, Model, shown
from tests.jax.agreement import MAX_TRIPS
from tests.jax.programs import assert_close, on_xla


def on_both(data: bytes, feeds: Mapping[str, Any]) -> tuple[list[Any], list[Any], list[str]]:
    """The results of a model on XLA and on numpy, and the names of its outputs."""
    model = ours.load(data)
    bound: dict[str, Any] = {}
    expected = list(model.run(dict(feeds)))
    if isinstance(model, Undecided):
        model = model.decided(feeds)
        bound.update({name: feeds[name] for name in feeds if name not in model.feed_names})
    try:
        return run(model, feeds, bound), expected, model.fetch_names
    except NotLowered:
        bound.update({name: array for name, array in feeds.items() if np.ndim(array) < 1 + (np.asarray(array).dtype.kind == "i")})
        return run(ours.load(data, bind=bound), feeds, bound), expected, model.fetch_names


def run(model: ours.OnnxModel, feeds: Mapping[str, Any], bound: Mapping[str, Any]) -> list[Any]:
    """The outputs on XLA."""
    rest = {name: array for name, array in feeds.items() if name not in bound}
    return on_xla(model.program, rest, model.parameters, model.fetch_names, max_trips=MAX_TRIPS)[0]


def compared(data: bytes, feeds: Mapping[str, Any]) -> tuple[str, str]:
    """The outcome of comparing a model on both, and its reason."""
    try:
        got, expected, names = on_both(data, feeds)
        for name, one, other in zip(names, got, expected, strict=True):
            assert_close(one, other, name, 1e-2 if np.asarray(other).dtype == "float16" else None)
    except (NotLowered, ExecutionError) as error:
        return "not lowered", re.sub(r"'[^']*'", "'...'", str(error).splitlines()[0]) if "\n" in str(error) else str(error)
    except AssertionError as error:
        return "differs", " ".join(str(error).split())[:200]
    except Exception as error:  # whatever tracing makes of a program is a finding
        return "differs", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return "agrees", ""


def nodes(every: int, first: int = 0) -> Iterator[tuple[str, str, str]]:
    """Node tests: the name, what became of it, and why."""
    for case in onnx_nodes.cases()[first::every]:
        if onnx_nodes.reason_of(case.name) is not None:
            continue
        names = [info.name for info in case.model.graph.input]
        inputs, _ = case.data_sets[0]
        feeds = dict(zip(names, map(onnx_nodes.numbers, inputs), strict=False))
        try:
            ours.load(case.model.SerializeToString()).run(feeds)
        except GraphadError:
            continue
        yield (case.name, *compared(case.model.SerializeToString(), feeds))


def off(model: Model) -> tuple[float, float]:
    """How far a network is from numpy on XLA, as Paddle and as ONNX have it: of the largest entry."""
    x = shown()[model.name]
    expected = model.run(model.loaded.program, x)
    (one,), _ = on_xla(model.loaded.program, {model.loaded.feed_names[0]: x}, model.loaded.parameters, model.loaded.fetch_names)
    onnx_form = ours.load(model.onnx_file)
    (other,), _ = on_xla(onnx_form.program, {onnx_form.feed_names[0]: x}, onnx_form.parameters, onnx_form.fetch_names)
    size = float(np.abs(expected).max())
    return float(np.abs(one - expected).max()) / size, float(np.abs(other - expected).max()) / size


def networks() -> int:
    """The three networks; 1 if one is off by more than 1e-4."""
    wrong = 0
    for model in MODELS:
        start = time.process_time()
        paddle, onnx = off(model)
        wrong += max(paddle, onnx) > 1e-4
        print(f"{model.name}: off by {paddle:.1e} (Paddle's), {onnx:.1e} (ONNX), {time.process_time() - start:.0f} s", flush=True)
    return int(wrong > 0)


def main() -> int:
    """Compare; 1 if anything differed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--networks", action="store_true")
    args = parser.parse_args()
    if args.networks:
        return networks()
    kinds: collections.Counter[str] = collections.Counter()
    start = time.process_time()
    for name, kind, why in nodes(args.every, args.first):
        kinds[kind] += 1
        if kind != "agrees":
            print(f"{name}: {kind}: {why}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())), f"{time.process_time() - start:.0f} s of processor time")
    return 1 if kinds["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
