"""Every operator on XLA: its samples under jit, values and gradients, against numpy's kernels."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="jax, on which programs run as XLA programs, is not installed: pip install 'graphad[jax]'")

import jax
import numpy as np

from graphad.jax.operators import run
from graphad.ops import OpDef, lookup
from tests.jax.lowered import checked, operators

# How many elements there are, or which of them are read, depends on values, and XLA compiles for shapes.
BOXES = {"roi_align", "roi_align_spread", "roi_pool"}
MATCHES = {"bipartite_match", "generate_mask_labels", "mine_hard_examples", "retinanet_target_assign"}
PROPOSALS = {"generate_proposals", "generate_proposals_v2", "distribute_fpn_proposals", "collect_fpn_proposals"}
DETECTED = {"retinanet_detection_output", "locality_aware_nms", "hash", "similarity_focus"}
NOT_LOWERED = BOXES | PROPOSALS | DETECTED | MATCHES | {"bincount", "matrix_nms", "multiclass_nms3", "py_func"}
PARTS, ALWAYS = 32, 4  # of operators that are compiled together; and how many of these parts make test tries

LOWERED = [definition for definition in operators() if definition.type not in NOT_LOWERED]


def test_most_operators_are_lowered() -> None:
    assert len(LOWERED) >= 380
    assert len(NOT_LOWERED) <= 19  # docs/jax.md says so
    assert {definition.type for definition in operators()} >= NOT_LOWERED


@pytest.mark.parametrize("part", range(0, PARTS, PARTS // ALWAYS))
def test_one_sample_of_each_operator_in_eight(part: int) -> None:
    """With make test-all, all samples of each operator."""
    with jax.enable_x64(True):
        rows = checked(LOWERED[part::PARTS], most=1, quick=True)
    assert not [(row.op, row.why) for row in rows if row.why]
    assert sum(row.values for row in rows) >= len(rows)


@pytest.mark.long
@pytest.mark.parametrize("definition", LOWERED, ids=lambda definition: definition.type)
def test_all_samples(definition: OpDef) -> None:
    with jax.enable_x64(True):
        (row,) = checked([definition])
    assert not row.why


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_a_sample_of_each_operator_in_float32(part: int) -> None:
    """Some kernels add up in another dtype than they are given."""
    with jax.enable_x64(True):
        rows = checked(LOWERED[part::PARTS], most=1, quick=True, dtype="float32")
    assert not [(row.op, row.why) for row in rows if row.why]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_numbers_too_large_for_a_type_become_what_numpy_makes_of_them(source: str, dtype: str) -> None:
    x = np.array([0.0, -1.5, 2.7, 300.0, 2.0**31, -(2.0**31), 2.0**62, 2.0**63, -(2.0**63)], source)
    with np.errstate(all="ignore"), jax.enable_x64(True):
        (found,) = jax.jit(lambda x: run(lookup("cast"), {"X": [x]}, {"out_dtype": dtype, "in_dtype": ""}, ["Out"])["Out"])(x)
        np.testing.assert_array_equal(found, x.astype(dtype))
