"""Integers that say where or how many, out of range: a graphad error that names the number and the range, or Paddle's meaning."""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import GraphadError, ShapeError
from graphad.ops import lookup
from graphad.testing.samples import SAMPLES
from tests.ops.check import Slots, run

FAR = 10**5
X = np.arange(12.0).reshape(4, 3)
# Indices along an axis of four rows: the operator, its slot of indices, all of its inputs, its attributes.
FROM_EITHER_END: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gather": ("Index", {"X": X}, {}),
    "index_select": ("Index", {"X": X}, {}),
    "ungather": ("Index", {"X": np.ones((2, 3)), "Like": X}, {}),
    "index_add": ("Index", {"X": X, "AddValue": np.ones((2, 3))}, {}),
    "gather_nd": ("Index", {"X": X}, {}),
    "scatter_nd_add": ("Index", {"X": X, "Updates": np.ones((2, 3))}, {}),
    "take_along_axis": ("Index", {"Input": X[:, :1]}, {"Axis": 0}),
    "put_along_axis": ("Index", {"Input": X[:, :1], "Value": np.ones((2, 1))}, {"Axis": 0}),
}
FROM_FRONT: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "lookup_table": ("Ids", {"W": X}, {}),
    "lookup_table_v2": ("Ids", {"W": X}, {}),
    "embedding_scatter": ("Ids", {"X": np.ones((2, 3)), "Like": X}, {}),
    "scatter": ("Ids", {"X": X, "Updates": np.ones((2, 3))}, {}),
    "index_sample": ("Index", {"X": np.ones((2, 4))}, {}),
    "one_hot": ("X", {}, {"depth": 4}),
    "one_hot_v2": ("X", {}, {"depth": 4}),
    "cross_entropy": ("Label", {"X": np.full((2, 4), 0.25)}, {}),
    "cross_entropy2": ("Label", {"X": np.full((2, 4), 0.25)}, {}),
    "softmax_with_cross_entropy": ("Label", {"Logits": np.ones((2, 4))}, {}),
    "nll_loss": ("Label", {"X": np.ones((2, 4))}, {}),
    "bpr_loss": ("Label", {"X": np.ones((2, 4))}, {}),
    "multiplex": ("Ids", {"X": [np.ones((2, 3))] * 4}, {}),
}
FLAT = ("gather", "index_select", "ungather", "index_add", "lookup_table_v2", "embedding_scatter", "scatter", "one_hot_v2", "nll_loss")
EVERY = {**FROM_EITHER_END, **FROM_FRONT}


def results(op: str, indices: list[int], dtype: str = "int64") -> list[np.ndarray[Any, Any]]:
    """The results of the operator for two indices, run as a program."""
    slot, others, attrs = EVERY[op]
    index = np.array(indices, dtype)
    feed: dict[str, Any] = {slot: index if op in FLAT else index[:, None]}
    feed |= {f"{s}{i}": v for s, values in others.items() for i, v in enumerate(values if isinstance(values, list) else [values])}
    program = ga.Program()
    block = program.global_block()
    for name, value in feed.items():
        block.create_var(name, value.shape, value.dtype.name)
    inputs = {s: [f"{s}{i}" for i in range(len(v) if isinstance(v, list) else 1)] for s, v in others.items()}
    definition = lookup(op)
    outputs = {s: s for s in definition.outputs if not definition.outputs[s].optional}
    block.append_op(op, {**inputs, slot: slot}, {s: f"out.{s}" for s in outputs}, attrs)
    return ga.Executor().run(program, feed=feed, fetch_list=[f"out.{s}" for s in outputs])


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("bad", [4, FAR, -5, -FAR])
@pytest.mark.parametrize("op", EVERY)
def test_an_index_out_of_range_is_refused(op: str, bad: int, dtype: str) -> None:
    with pytest.raises(ga.errors.ExecutionError) as caught:
        results(op, [0, bad], dtype)
    message = str(caught.value)
    low = -4 if op in FROM_EITHER_END else 0
    for words in (f"is {bad}, but the extent it points into is 4: [{low}, 4)", re.escape(EVERY[op][0]), f"operator {op!r}", __file__):
        assert words in message or re.search(words, message), message
    assert "IndexError" not in message


@pytest.mark.parametrize("op", FROM_EITHER_END)
def test_a_negative_index_counts_from_the_end(op: str) -> None:
    for got, expected in zip(results(op, [-1, -4]), results(op, [3, 0]), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("op", FROM_FRONT)
def test_a_negative_number_of_a_row_is_refused(op: str) -> None:
    with pytest.raises(ga.errors.ExecutionError, match=re.escape("is -1, but the extent it points into is 4: [0, 4)")):
        results(op, [0, -1])


@pytest.mark.parametrize("padding", [9, -2])
@pytest.mark.parametrize("op", ["lookup_table_v2", "embedding_scatter"])
def test_padding_may_be_any_number(op: str, padding: int) -> None:
    inputs: Slots = {"W": [X]} if op == "lookup_table_v2" else {"X": [np.ones((2, 3))], "Like": [X]}
    ((got,),) = run(lookup(op), {**inputs, "Ids": [np.array([1, padding])]}, {"padding_idx": padding}).values()
    assert np.count_nonzero(got.any(axis=1)) == 1


def integers() -> list[Any]:
    """Every sample with one integer of one input far out of range."""
    found = []
    for op, samples in sorted(SAMPLES.items()):
        for number, sample in enumerate(samples):
            for slot, values in sample.slots().items():
                for i, value in enumerate(values):
                    if isinstance(value, np.ndarray) and value.dtype.kind == "i" and value.size:
                        found.append(pytest.param(op, sample, slot, i, id=f"{op}-{number}-{slot}{i}"))
    return found


@pytest.mark.parametrize(("op", "sample", "slot", "i"), integers())
def test_no_integer_makes_a_raw_error(op: str, sample: Any, slot: str, i: int) -> None:
    inputs = sample.slots()
    for bad in (FAR, -FAR, -1):
        changed = inputs[slot][i].copy()
        changed.reshape(-1)[0] = bad
        with warnings.catch_warnings(), suppress(GraphadError):
            warnings.simplefilter("ignore")
            run(lookup(op), {**inputs, slot: [changed if n == i else v for n, v in enumerate(inputs[slot])]}, sample.attrs)


@pytest.mark.parametrize("extents", [(1, 2), (2, 1), (3, 1)])
def test_slices_that_are_not_those_of_the_indices_are_refused_where_extents_are_known_only_then(extents: tuple[int, int]) -> None:
    """The axis is in a tensor, so that nothing is known of shapes before; numpy would drop a slice, or repeat one."""
    like, index, axis = np.ones((2, 2)), np.array([1]), np.array([1])
    kernel = lookup("ungather").kernel
    if extents == (2, 1):
        np.testing.assert_array_equal(kernel(np.ones(extents), index, like, axis), [[0.0, 1.0], [0.0, 1.0]])
        return
    with pytest.raises(ShapeError, match=r"X is \[2, 2\] and Index has 1 places along axis 1, but AddValue is \[\d, \d\]"):
        kernel(np.ones(extents), index, like, axis)
