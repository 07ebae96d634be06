"""Results and refusals of inference for operators whose extents, places or modes may be wrong, unknown, or in tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import ExecutionError, ShapeError
from graphad.ops import lookup
from graphad.ops.sample import Sample
from graphad.testing.samples import indexing, linalg, padding, slicing, sort
from graphad.types import TensorType, joined_shape
from tests.ops.check import run, typed

MODULES = (indexing, linalg, padding, slicing, sort)
CASES = [
    pytest.param(op, sample, id=f"{op}-{i}")
    for module in MODULES
    for op, samples in sorted(module.SAMPLES.items())
    for i, sample in enumerate(samples)
]

Slots = dict[str, list[TensorType]]


def unknown(types: Slots, slot: str, index: int, axis: int) -> Slots:
    """The types with one extent that is not known."""
    old = types[slot][index]
    new = TensorType((*old.shape[:axis], -1, *old.shape[axis + 1 :]), old.dtype)
    return {**types, slot: [*types[slot][:index], new, *types[slot][index + 1 :]]}


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_types_inferred_of_unknown_extents_fit_the_outputs(op: str, sample: Sample) -> None:
    definition, inputs = lookup(op), sample.slots()
    outputs = run(definition, inputs, sample.attrs)
    types = typed(inputs)
    for slot, found in types.items():
        for index, each in enumerate(found):
            for axis in range(len(each.shape)):
                _check_fits(op, unknown(types, slot, index, axis), sample.attrs, outputs, f"{slot}[{index}] along axis {axis}")


def _inferred(op: str, types: Slots, attrs: dict[str, Any]) -> dict[str, list[TensorType]] | str:
    """The output types, or what is wrong."""
    try:
        return lookup(op).infer_types(types, attrs)
    except ShapeError as error:
        return str(error)


def _check_fits(op: str, types: Slots, attrs: dict[str, Any], outputs: dict[str, list[Any]], what: str) -> None:
    """The types fit the outputs, or inference says that it has to know the extent."""
    inferred = _inferred(op, types, attrs)
    if isinstance(inferred, str):
        assert "known" in inferred, f"{what}: {inferred}"
        return
    for slot, values in outputs.items():
        for value, type_ in zip(values, inferred[slot], strict=True):
            assert joined_shape(value.shape, type_.shape) == value.shape, f"{what} unknown: {slot} is {value.shape}, inferred {type_}"


# -- what is known -------------------------------------------------------------------------------


def types_of(op: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> list[str]:
    """The inferred types of the first output slot; inputs are given as shapes (of float32), or as shapes followed by a dtype."""

    def type_(given: tuple[Any, ...]) -> TensorType:
        return TensorType(given[:-1], given[-1]) if given and isinstance(given[-1], str) else TensorType(given, "float32")

    slots = {s: [type_(g) for g in (v if isinstance(v, list) else [v])] for s, v in inputs.items()}
    return [str(t) for t in next(iter(lookup(op).infer_types(slots, attrs).values()))]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "expected"),
    [
        ("reshape2", {"X": (-1, 6), "Shape": (2, "int32")}, {}, "float32[-1, -1]"),
        ("reshape2", {"X": (-1, 6), "Shape": (2, "int32")}, {"shape": [0, 6]}, "float32[-1, 6]"),
        ("reshape2", {"X": (4, 6), "ShapeTensor": [(1, "int32"), ("int32",)]}, {"shape": [0, -1]}, "float32[4, -1]"),
        ("slice", {"Input": (4, 6), "StartsTensor": (1, "int32")}, {"axes": [1], "ends": [3]}, "float32[4, -1]"),
        (
            "slice",
            {"Input": (4, 6), "EndsTensorList": [(1, "int32"), (1, "int32")]},
            {"axes": [0, 1], "starts": [0, 0], "ends": [2, -1], "infer_flags": [1, -1]},
            "float32[2, -1]",
        ),
        ("expand_v2", {"X": (1, 6), "Shape": (3, "int64")}, {"shape": [-1, 4, 6]}, "float32[-1, 4, 6]"),
        ("tile", {"X": (2, -1), "RepeatTimes": (2, "int64")}, {"repeat_times": [3, 2]}, "float32[6, -1]"),
        ("fill_constant", {"ShapeTensor": (3, "int64")}, {}, "float32[-1, -1, -1]"),
        ("fill_constant", {"ShapeTensorList": [(1, "int64")] * 2}, {"shape": [-1, 4]}, "float32[-1, 4]"),
        ("gather", {"X": (4, 6), "Index": (3, "int64"), "Axis": (1, "int64")}, {}, "float32[-1, -1]"),
        ("masked_select", {"X": (4, 6), "Mask": (4, 6, "bool")}, {}, "float32[-1]"),
        ("where_index", {"Condition": (4, 6, "bool")}, {}, "int64[-1, 2]"),
        ("unique", {"X": (4, 6)}, {"axis": [1]}, "float32[4, -1]"),
        ("einsum", {"Operands": [(-1, 2, 3), (-1, 3, 4)]}, {"equation": "bij,bjk->bik"}, "float32[-1, 2, 4]"),
        ("einsum", {"Operands": [(5, 2, 3), (-1, 3, 4)]}, {"equation": "...ij,...jk"}, "float32[5, 2, 4]"),
        ("pad3d", {"X": (-1, 2, 3, 4, 5)}, {"paddings": [1, 2, 0, 0, 0, 1]}, "float32[-1, 2, 4, 4, 8]"),
        ("pad2d", {"X": (-1, 2, 4, 5), "Paddings": (4, "int32")}, {}, "float32[-1, 2, -1, -1]"),
        ("crop_tensor", {"X": (-1, 5)}, {"offsets": [1, 2], "shape": [3, -1]}, "float32[3, 3]"),
        ("diagonal", {"Input": (3, -1, 2)}, {}, "float32[2, -1]"),
        ("fill_constant_batch_size_like", {"Input": (-1, 2)}, {"shape": [7, 3]}, "float32[-1, 3]"),
    ],
)
def test_what_is_known_is_inferred(op: str, inputs: dict[str, Any], attrs: dict[str, Any], expected: str) -> None:
    assert types_of(op, inputs, attrs)[0] == expected


# -- what is refused -----------------------------------------------------------------------------

I1 = (1, "int32")
REFUSED = [
    ("reshape2", {"X": (4,), "Shape": (-1, "int32")}, {}, "how long it is has to be known"),
    ("reshape2", {"X": (4,), "Shape": (2,)}, {}, "integer dtype"),
    ("reshape2", {"X": (4,), "ShapeTensor": [(2, "int32")]}, {}, "one integer"),
    ("reshape2", {"X": (4,)}, {}, "attribute 'shape' (list[int]) is missing"),
    ("tile", {"X": (4,)}, {}, "attribute 'repeat_times' (list[int]) is missing"),
    ("expand", {"X": (4,)}, {}, "attribute 'expand_times' (list[int]) is missing"),
    ("fill_constant", {}, {}, "attribute 'shape' (list[int]) is missing"),
    ("slice", {"Input": (4, 6), "StartsTensor": (3, "int32")}, {"axes": [0], "ends": [1]}, "3 numbers for axes"),
    ("slice", {"Input": (4, 6)}, {"axes": [0], "ends": [1]}, "do not fit together"),
    ("expand_v2", {"X": (2, 3), "Shape": I1}, {}, "cannot be expanded"),
    ("expand", {"X": (2, 3)}, {"expand_times": [2]}, "one number for each axis"),
    ("fill_constant", {"ValueTensor": (2,)}, {"shape": [3]}, "one element"),
    ("fill_constant", {"ValueTensor": (1,)}, {"shape": [3], "dtype": "float64"}, "float64"),
    ("gather", {"X": (4,), "Index": (2, "int32"), "Axis": (1,)}, {}, "integer dtype"),
    ("clip", {"X": (4,), "Min": (2,)}, {"min": 0.0, "max": 1.0}, "one element"),
    ("clip", {"X": (4,), "Max": (1, "float64")}, {"min": 0.0, "max": 1.0}, "dtypes differ"),
    ("put_along_axis", {"Input": (4,), "Index": I1, "Value": (1,)}, {"Axis": 0, "Reduce": "median"}, "Reduce='median' is not one of"),
    ("scatter", {"X": (4, 3), "Ids": (2, "int32"), "Updates": (3, 3)}, {}, "must be"),
    ("scatter", {"X": (4, 3), "Ids": (2, 2, "int32"), "Updates": (2, 3)}, {}, "numbers of rows"),
    ("index_sample", {"X": (4, 3), "Index": (3, 2, "int64")}, {}, "as many rows"),
    ("masked_select", {"X": (4, 3), "Mask": (4, 3)}, {}, "bool is expected"),
    ("masked_select", {"X": (4, 3), "Mask": (4, 2, "bool")}, {}, "do not broadcast"),
    ("multiplex", {"Ids": (2, "int32"), "X": [(2, 3)]}, {}, "[rows, 1]"),
    ("multiplex", {"Ids": (2, 1, "int32"), "X": [(2, 3), (2, 4)]}, {}, "one shape"),
    ("maxout", {"X": (2, 5)}, {"groups": 2}, "groups=2"),
    ("unique", {"X": (2, 5)}, {"axis": [0, 1]}, "one axis"),
    ("split", {"X": (2, 3)}, {"sections": [-2, 5], "axis": 1}, "cannot be split"),
    ("logcumsumexp", {"X": (2, 5)}, {"exclusive": True}, "exclusive=True"),
    ("unbind", {"X": (2, -1)}, {"axis": 1}, "has to be known"),
    ("reverse", {"X": (2, 3)}, {"axis": [1, -1]}, "twice"),
    ("pad2d", {"X": (1, 2, 3, 4)}, {"paddings": [3, 0, 0, 0], "mode": "reflect"}, "along axis 2"),
    ("pad2d", {"X": (1, 2, 3, 4)}, {"mode": "circular"}, "circular"),
    ("pad2d", {"X": (1, 2, 3)}, {}, "are padded"),
    ("pad3d", {"X": (1, 2, 3, 4, 5)}, {"paddings": [1, 2]}, "6 paddings"),
    ("pad3d", {"X": (1, 2, 3, 4, 5)}, {"paddings": [0, 0, 0, 0, 0, -1]}, "along axis 2"),
    ("pad3d", {"X": (1, 2, 3, 4, 5)}, {"paddings": [6, 0, 0, 0, 0, 0], "mode": "circular"}, "along axis 4"),
    ("pad3d", {"X": (1, 2, 0, 4, 5)}, {"paddings": [0, 0, 0, 0, 1, 0], "mode": "replicate"}, "along axis 2"),
    ("crop_tensor", {"X": (3, 4)}, {"shape": [2, 4], "offsets": [2, 0]}, "are not within"),
    ("crop_tensor", {"X": (3, 4)}, {"shape": [2]}, "a number for each axis"),
    ("set_value", {"Input": (3, 4), "ValueTensor": (3,)}, {"axes": [0], "starts": [0], "ends": [1], "steps": [1]}, "does not broadcast"),
    ("set_value", {"Input": (3, 4)}, {"axes": [0], "starts": [0], "ends": [1], "steps": [1]}, "do not fill"),
    ("einsum", {"Operands": [(2, 3), (4, 5)]}, {"equation": "ij,jk->ik"}, "label 'j'"),
    ("einsum", {"Operands": [(2, 3)]}, {"equation": "ii->i"}, "label 'i'"),
    ("einsum", {"Operands": [(2, 3)]}, {"equation": "ij,jk->ik"}, "does not fit 1 operands"),
    ("einsum", {"Operands": [(2, 3)]}, {"equation": "ijk->i"}, "operands of [2] axes"),
    ("einsum", {"Operands": [(2, 3)]}, {"equation": "ij->ii"}, "labels of the result"),
    ("einsum", {"Operands": [(2, 3)]}, {"equation": "ij->k"}, "labels of the result"),
    ("einsum", {"Operands": [(2, 3)]}, {"equation": "i...->i"}, "ellipsis"),
    ("einsum", {"Operands": [(2, 3)]}, {"equation": "i1->i"}, "letters"),
    ("inverse", {"Input": (2, 3)}, {}, "square"),
    ("inverse", {"Input": (3, 3, "float16")}, {}, "float32 or float64"),
    ("cholesky", {"X": (3,)}, {}, "square"),
    ("triangular_solve", {"X": (3, 3), "Y": (2, 3)}, {}, "as many rows"),
    ("solve", {"X": (2, 3, 3), "Y": (4, 3, 1)}, {}, "do not broadcast"),
    ("diag_v2", {"X": (2, 2, 2)}, {}, "a vector or a matrix"),
    ("diagonal", {"Input": (2, 2)}, {"axis1": 1, "axis2": -1}, "one axis"),
    ("mv", {"X": (2, 3), "Vec": (2,)}, {}, "as long as its rows"),
    ("bitwise_and", {"X": (2,), "Y": (2,)}, {}, "integers or booleans"),
    ("atan2", {"X1": (2, "int64"), "X2": (2, "int64")}, {}, "floating-point"),
    ("isclose", {"Input": (2,), "Other": (2,)}, {"rtol": "small"}, "rtol='small'"),
    ("linspace", {"Start": (2,), "Stop": (1,), "Num": I1}, {}, "one element"),
    ("meshgrid", {"X": [(2, 2)]}, {}, "a vector"),
    ("polygamma", {"x": (2,)}, {"n": -1}, "not be negative"),
    ("fill_constant_batch_size_like", {"Input": (2,)}, {"shape": [-1, -1]}, "may leave out"),
    ("norm", {"X": ()}, {"axis": 0}, "at least one axis"),
]


@pytest.mark.parametrize(("op", "inputs", "attrs", "message"), REFUSED, ids=[f"{r[0]}-{i}" for i, r in enumerate(REFUSED)])
def test_what_cannot_be_computed_is_refused_beforehand(op: str, inputs: dict[str, Any], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError) as error:
        types_of(op, inputs, attrs)
    assert message in str(error.value)


# -- in programs ---------------------------------------------------------------------------------


def test_tensors_say_extents_of_a_program_that_runs_and_is_differentiated() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [-1, 4], "float64", append_batch_size=False, stop_gradient=False)
        rows = ga.ops.slice(ga.ops.shape(x), axes=[0], starts=[0], ends=[1])
        block = program.global_block()
        block.append_op(
            "reshape2", {"X": x, "ShapeTensor": [rows, block.create_var("two", [1], "int32"), "two"]}, {"Out": "y"}, {"shape": [-1, 2, -1]}
        )
        block.append_op("fill_constant", {"ShapeTensorList": [rows]}, {"Out": "ones"}, {"value": 1.0, "shape": [-1], "dtype": "float64"})
        assert block.var("y").shape == (-1, 2, -1)
        assert block.var("ones").shape == (-1,)
        loss = ga.ops.reduce_sum(block.var("y") * block.var("y"), reduce_all=True) + ga.ops.reduce_sum(block.var("ones"), reduce_all=True)
        (gradient,) = ga.gradients(loss, x)
    value = np.arange(18.0).reshape(3, 6)[:, :4]
    for rows_given in (2, 3):
        fed = np.ascontiguousarray(value[:rows_given])
        found = ga.Executor().run(program, feed={"x": fed, "two": np.array([2], "int32")}, fetch_list=[loss, gradient], scope=ga.Scope())
        np.testing.assert_allclose(found[0], np.sum(fed * fed) + rows_given)
        np.testing.assert_allclose(found[1], 2.0 * fed)


def test_bounds_of_clip_in_tensors_hold_wherever_it_is_computed() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [3], "float64", append_batch_size=False)
        low = ga.layers.data("low", [1], "float64", append_batch_size=False)
        out = ga.ops.clip(ga.ops.tanh(x) * 2.0, low, min=9.0, max=0.5) + 1.0
    feed = {"x": np.array([-3.0, 0.0, 3.0]), "low": np.array([-0.25])}
    (found,) = ga.Executor().run(program, feed=feed, fetch_list=[out], scope=ga.Scope())
    np.testing.assert_allclose(found, [0.75, 1.0, 1.5])


def test_what_is_chosen_to_be_written_has_the_rank_of_what_is_written() -> None:
    row, matrix = TensorType((3,), "float64"), TensorType((2, 3), "float64")
    slots = {"X": [matrix], "Mask": [TensorType((), "bool")]}
    assert lookup("select_output").infer_types({**slots, "Like": [matrix, matrix]}, {}) == {"Out": [matrix, matrix]}
    with pytest.raises(ShapeError, match=r"X is float64\[2, 3\] but Like\[1\] is float64\[3\]"):
        lookup("select_output").infer_types({**slots, "Like": [matrix, row]}, {})


def test_extents_that_may_be_those_of_what_is_written_or_of_zeros_are_unknown() -> None:
    """Else what reads them, and is read by nothing itself, would be left out of a compiled program although it fails."""
    types = {"X": [TensorType((0, 3), "float64")], "Mask": [TensorType((), "bool")], "Like": [TensorType((2, 3), "float64")] * 2}
    assert lookup("select_output").infer_types(types, {}) == {"Out": [TensorType((-1, 3), "float64")] * 2}
    with ga.program_guard(ga.Program()) as program:
        x, few = ga.layers.data("x", [2, 3], append_batch_size=False), ga.layers.data("few", [0, 3], append_batch_size=False)
        mask = ga.layers.data("mask", [], "bool", append_batch_size=False)
        out, _ = ga.ops.select_output(few, mask, [x, x])
        ga.ops.elementwise_add(x, out)
        loss = ga.ops.reduce_sum(x, reduce_all=True)
    feed = {"x": np.ones((2, 3), np.float32), "few": np.ones((0, 3), np.float32), "mask": np.array(False)}
    for mode in ("compiled", "interpreted"):
        executor = ga.Executor(mode=mode)
        for _ in range(3):  # compiled from the second run on
            with pytest.raises(ExecutionError, match="elementwise_add"):
                executor.run(program, feed=feed, fetch_list=[loss], scope=ga.Scope())
