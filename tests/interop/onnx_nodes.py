"""The node tests that come with the ``onnx`` package: every operator of the default domain, on the dtypes that graphad has.

    python -m tests.interop.onnx_nodes      runs them, and writes the table of those that do not pass in docs/onnx.md

Inputs that decide how the program looks (axes, shapes, counts) are fed, as the tests give them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_tests
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from graphad.errors import GraphadError
from graphad.interop import onnx as ours
from graphad.types import DTYPES
from tests.sections import Section

SECTION = Section(
    Path(__file__).parents[2] / "docs" / "onnx.md", "<!-- node tests that do not pass: python -m tests.interop.onnx_nodes -->"
)

VERSION = f"onnx {onnx.__version__}"
# Why cases do not pass, by how their names begin.
RANDOM = "other random numbers"
REASONS = {
    "test_affine_grid_3d_align_corners_expanded": "branches of an `If` differ in rank, and what is computed of them too",
    "test_bernoulli": RANDOM,
    "test_dft_inverse": "where 0 is right, a rounding error is expected that is larger than the tolerance",
    "test_image_decoder": "files of images are not decoded",
    "test_linear_attention_fp16": "sums in float16 are rounded in another order",
    "test_scan_sum": "`Scan` of operator set 8, which has a batch",
    "test_training_dropout": RANDOM,
}


def reason_of(name: str) -> str | None:
    """Why a case does not pass; None where no reason is known."""
    if "zero_ratio" in name:  # nothing is drawn
        return None
    return next((reason for start, reason in REASONS.items() if name.startswith(start)), None)


def numbers(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value)


CONVERTED = ("pytorch-converted", "pytorch-operator")  # models that PyTorch's exporter wrote, with inputs and outputs


@cache
def converted(kind: str) -> list[TestCase]:
    """The models of a kind, with their inputs and outputs."""
    return [_loaded(case) for case in sorted(load_model_tests(kind=kind), key=lambda case: str(case.name))]


def _loaded(case: TestCase) -> TestCase:
    folder = Path(str(case.model_dir))

    def tensors(data: Path, what: str) -> list[Any]:
        """In the order of their numbers."""
        paths = sorted(data.glob(f"{what}_*.pb"), key=lambda path: int(path.stem.rpartition("_")[2]))
        return [onnx.TensorProto.FromString(path.read_bytes()) for path in paths]

    case.model = onnx.load(str(folder / "model.onnx"))
    case.data_sets = [(tensors(data, "input"), tensors(data, "output")) for data in sorted(folder.glob("test_data_set_*"))]
    return case


def _graph(case: Any) -> Any:
    return case.model.graph


def _dtypes(model: Any) -> set[str]:
    infos = [*model.graph.input, *model.graph.output]
    kinds = [info.type.tensor_type.elem_type if info.type.HasField("tensor_type") else 0 for info in infos]
    return {ours.arrays.DTYPES.get(kind, "none of ours") for kind in kinds}


@cache
def cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = node_tests.collect_testcases("")
    own = [case for case in collected if all(node.domain in ("", "ai.onnx") for node in _graph(case).node)]
    return [case for case in own if _dtypes(case.model) <= set(DTYPES)]


def fails(case: Any) -> str:
    """The first fault of a case; empty if it passes."""
    for inputs, outputs in case.data_sets:
        names = [info.name for info in case.model.graph.input]
        try:
            got = ours.load(case.model.SerializeToString()).run(dict(zip(names, map(numbers, inputs), strict=False)))
        except GraphadError as error:
            return f"{type(error).__name__}: {error}"
        for array, expected in zip(got, map(numbers, outputs), strict=True):
            if (array.shape, array.dtype) != (expected.shape, expected.dtype):
                return f"{array.dtype}{array.shape} instead of {expected.dtype}{expected.shape}"
            if not np.allclose(array.astype("float64"), expected.astype("float64"), case.rtol, case.atol, equal_nan=True):
                return f"{array} instead of {expected}"
    return ""


def failures() -> dict[str, str]:
    """The fault of each case that does not pass."""
    return {case.name: wrong for case in cases() if (wrong := fails(case))}


def converted_text() -> str:
    """How many models of PyTorch's exporter pass, of how many."""
    counts = {kind: sum(not fails(case) for case in converted(kind)) for kind in CONVERTED}
    return " and ".join(f"{counts[kind]} of {len(converted(kind))} `{kind}`" for kind in CONVERTED)


def table(failed: Mapping[str, str]) -> str:
    """The cases that do not pass, by reason. Those whose numbers are random are not compared: they may pass by chance."""
    listed: dict[str, list[str]] = {}
    for name in sorted(case.name for case in cases()):
        reason = reason_of(name)
        if reason is not None and (name in failed or reason == RANDOM):
            listed.setdefault(reason, []).append(name)
    count = sum(map(len, listed.values()))
    lines = [
        f"Of the {len(cases()):,} node tests that come with {VERSION} (default domain, dtypes that graphad has)",
        f"{len(cases()) - count:,} pass, and of the models with inputs and outputs that PyTorch's exporter wrote",
        f"{converted_text()}. The others:",
        "",
        "| not passed | | why |",
        "| --- | --- | --- |",
        *(f"| {', '.join(f'`{name}`' for name in names)} | {len(names)} | {reason} |" for reason, names in sorted(listed.items())),
    ]
    return "\n".join(lines)


def main() -> None:
    """Write the table."""
    SECTION.write(table(failures()))


if __name__ == "__main__":
    main()
