"""Every sample of every operator as an ONNX model of its own, run by onnxruntime, and what cannot be written.

python -m tests.onnx_written       tries all of them, and writes the table in docs/onnx.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import graphad as ga
from graphad.interop import onnx
from graphad.interop.onnx.saving import as_message
from graphad.ops import REGISTRY, ControlDef, GradOpDef, OpDef
from graphad.ops.aggregates import Aggregate
from graphad.ops.definition import AS_INPUT
from graphad.ops.sample import Sample
from graphad.testing.samples import samples_of
from graphad.types import Array, TensorType
from tests.sections import Section

try:
    import onnxruntime
    from onnx import checker
except ImportError:  # the test says so
    onnxruntime = None

PAGE = Path(__file__).parents[1] / "docs" / "onnx.md"
SECTION = Section(PAGE, "<!-- what is not written: python -m tests.onnx_written -->")
OPSET = 18
# A kernel that onnxruntime 1.32 has for float32 and not for float64: the sample is tried in float32.
NO_KERNEL = "NOT_IMPLEMENTED"


class Tried(NamedTuple):
    """The outcome of writing a sample: ``fine``, ``single`` (in float32 only), or why it is not written."""

    operator: str
    number: int
    outcome: str


class Written(NamedTuple):
    """A sample as a model, and what it is fed with."""

    model: onnx.OnnxModel
    feeds: Mapping[str, Array]


class NotAlone(ValueError):
    """An operator that has no tensors alone going in and out."""


def operators() -> list[OpDef]:
    """All that samples show: not gradients, which are expanded, nor those with blocks."""
    return [each for each in REGISTRY.values() if not isinstance(each, GradOpDef | ControlDef)]


def as_model(op: OpDef, sample: Sample, opened: bool = False) -> Written:
    """A model of the one operator; ``opened`` leaves the extents of its inputs open, but for those of integers."""
    program, feeds, inputs = ga.Program(), dict[str, Array](), dict[str, list[str]]()
    block = program.global_block()
    given = {slot: values for slot, values in sample.slots().items() if any(value is not None for value in values)}
    if op.type == "undefined":
        raise NotAlone("nothing: what reads it does without")
    holds = any(isinstance(value, Aggregate) for values in given.values() for value in values)
    if holds or not set(op.kinds.values()) <= {AS_INPUT}:
        raise NotAlone("arrays and tapes are written inside of models; a model has tensors as inputs and outputs")
    for slot, values in given.items():
        inputs[slot] = [f"{slot}{i}" for i in range(len(values))]
        for name, value in zip(inputs[slot], map(np.asarray, values), strict=True):
            shape = tuple(-1 for _ in value.shape) if opened and value.dtype.kind == "f" else value.shape
            block.create_var(name=name, shape=shape, dtype=value.dtype.name)
            feeds[name] = value
    types = {slot: [TensorType(np.shape(v), np.asarray(v).dtype.name) for v in values] for slot, values in given.items()}
    results = op.infer_types(types, sample.attrs)
    outputs = {slot: [f"{slot}_out{i}" for i in range(len(results[slot]))] for slot in op.outputs if not slot.startswith("InnerCache")}
    if op.type == "einsum":
        outputs = {"Out": ["Out_out0"]}
    block.append_op(op.type, inputs, outputs, dict(sample.attrs))
    names = [name for slot in outputs.values() for name in slot]
    return Written(onnx.from_program(program, list(feeds), names), feeds)


def compared(op: OpDef, sample: Sample, opened: bool = False) -> str:
    """Nothing if onnxruntime computes what graphad does, else what is wrong."""
    written = as_model(op, sample, opened)
    data = as_message(written.model, OPSET).SerializeToString(deterministic=True)
    checker.check_model(data, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    got = session.run(None, dict(written.feeds))
    for name, one, other in zip(written.model.fetch_names, got, written.model.run(written.feeds), strict=True):
        tolerance = {"float16": 1e-2, "float32": 1e-4}.get(other.dtype.name, 1e-5)
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"{name} is {one.dtype}{list(one.shape)} instead of {other.dtype}{list(other.shape)}"
        drawn = op.random and not sample.attrs.get("is_test")
        if not drawn and not np.allclose(one.astype("float64"), other.astype("float64"), tolerance, tolerance, equal_nan=True):
            return f"{name} is {one.ravel()[:4]} instead of {other.ravel()[:4]}"
    return ""


def in_single(sample: Sample) -> Sample:
    """The sample in float32."""

    def single(value: object) -> object:
        if isinstance(value, list):
            return [single(each) for each in value]
        return value.astype("float32") if isinstance(value, np.ndarray) and value.dtype == "float64" else value

    attrs = {name: "float32" if value == "float64" else value for name, value in sample.attrs.items()}
    return replace(sample, inputs={slot: single(value) for slot, value in sample.inputs.items()}, attrs=attrs)


def outcome(op: OpDef, sample: Sample, opened: bool = False) -> str:
    """Write a sample, and run it; the outcome."""
    try:
        return compared(op, sample, opened) or "fine"
    except onnx.CannotWrite as error:
        return re.sub(r" \(written at .*", "", str(error).splitlines()[1].strip().partition(": ")[2])
    except NotAlone as error:
        return str(error)
    except Exception as error:
        if NO_KERNEL not in str(error):
            raise
    return compared(op, in_single(sample), opened) or "single"


def tried(only: tuple[str, ...] = ()) -> Iterator[Tried]:
    """Every sample, one after the other; those of some operators alone."""
    for op in operators():
        if not only or op.type in only:
            for number, sample in enumerate(samples_of(op.type)):
                yield Tried(op.type, number, outcome(op, sample))


def table(found: list[Tried]) -> str:
    """The operators of which some samples are not written, by reason; and how many are."""
    names = dict.fromkeys(each.operator for each in found)
    whole = [name for name in names if all(each.outcome in ("fine", "single") for each in found if each.operator == name)]
    single = [name for name in names if any(each.outcome == "single" for each in found if each.operator == name)]
    reasons: dict[str, dict[str, None]] = {}
    for each in found:
        if each.outcome not in ("fine", "single"):
            reasons.setdefault(each.outcome, {})[each.operator] = None
    samples = sum(each.outcome in ("fine", "single") for each in found)
    lines = [
        f"Of {len(names)} operators that are no loops or branches, {len(whole)} are written whatever their attributes are, as far as their",
        f"{len(found)} samples show ({samples} are), and computed by onnxruntime as by graphad. It has no kernels in float64 for",
        f"{', '.join(f'`{name}`' for name in single)}: there the samples are in float32.",
        "",
        "| not written | why |",
        "| --- | --- |",
        *(f"| {', '.join(f'`{name}`' for name in operators)} | {reason} |" for reason, operators in sorted(reasons.items())),
    ]
    return "\n".join(lines)


def main() -> None:
    """Write the table."""
    SECTION.write(table(list(tried())))


if __name__ == "__main__":
    main()
