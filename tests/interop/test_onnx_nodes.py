"""The node tests that come with the ``onnx`` package: every operator of the default domain, on the dtypes that graphad has.

Inputs that decide how the program looks (axes, shapes, counts) are fed, as the tests give them.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

from graphad.errors import GraphadError
from graphad.interop import onnx as ours
from graphad.types import DTYPES

onnx = pytest.importorskip("onnx", reason="the onnx package, which has the node tests, is not installed: pip install 'graphad[onnx-tests]'")

# What is not read, and why. Each is a beginning of names; a case that passes although it is listed fails the test.
REFUSED = {
    "test_affine_grid_3d": "grids of volumes",
    "test_basic_deform_conv": "deformable convolution",
    "test_deform_conv": "deformable convolution",
    "test_gridsample_bicubic": "sampling with cubic weights",
    "test_gridsample_volumetric": "sampling of volumes",
    "test_image_decoder": "files of images",
    "test_roialign": "regions of interest",
    "test_scan_sum": "Scan of operator set 8, which has a batch",
    "test_tfidfvectorizer": "counts of n-grams",
}
DIFFERENT = {
    "test_causal_conv_with_state_silu_fp16": "silu in float16 rounds twice where the reference rounds once",
    "test_dft_inverse": "the expected value has rounding errors of its own, which are larger than the tolerance at zero",
    "test_gridsample_nearest": "halves between pixels go away from zero, as Paddle's do",
    "test_linear_attention_fp16": "sums in float16 are rounded in another order",
    "test_training_dropout": "other random numbers",
    "test_bernoulli": "other random numbers",
}


def _numbers(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value)


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
        found = pytest.importorskip("onnx.backend.test.case.node").collect_testcases("")
    own = [case for case in found if all(node.domain in ("", "ai.onnx") for node in _graph(case).node)]
    return [case for case in own if _dtypes(case.model) <= set(DTYPES)]


def _fails(case: Any) -> str:
    """What is wrong with a case, nothing if it passes."""
    for inputs, outputs in case.data_sets:
        names = [info.name for info in case.model.graph.input]
        try:
            got = ours.load(case.model.SerializeToString()).run(dict(zip(names, map(_numbers, inputs), strict=False)))
        except GraphadError as error:
            return f"{type(error).__name__}: {error}"
        for array, expected in zip(got, map(_numbers, outputs), strict=True):
            if (array.shape, array.dtype) != (expected.shape, expected.dtype):
                return f"{array.dtype}{array.shape} instead of {expected.dtype}{expected.shape}"
            if not np.allclose(array.astype("float64"), expected.astype("float64"), case.rtol, case.atol, equal_nan=True):
                return f"{array} instead of {expected}"
    return ""


def test_the_node_tests_pass() -> None:
    failed, unexpected = [], []
    for case in cases():
        reason = _fails(case)
        known = case.name.startswith((*REFUSED, *DIFFERENT))
        if reason and not known:
            failed.append(f"{case.name}: {reason}")
        if not reason and case.name.startswith(tuple(REFUSED)) and not case.name.endswith(("_expanded", "_expanded_ver18")):
            unexpected.append(case.name)
    assert not failed, f"{len(failed)} of {len(cases())}:\n" + "\n".join(failed[:20])
    assert not unexpected, f"these are read: take them from REFUSED: {', '.join(unexpected)}"
