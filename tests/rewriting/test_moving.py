"""The solver's model of moved elements agrees with the kernels."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from graphad import ops
from graphad.ops import REGISTRY, lookup, operator
from graphad.rewriting import prove, rewrite
from graphad.rewriting.moving import MOVES, REDUCTIONS, Grid, element_sort, is_of_one, keeps_elements, move_of, padding_of
from graphad.types import TensorType, element_count
from tests.scratch import operators

z3 = pytest.importorskip("z3", reason="z3-solver is not installed: pip install 'graphad[proof]'")

REDUCED = [op_type for op_type, definition in REGISTRY.items() if definition.reduction in REDUCTIONS]
SHAPES = ((), (3,), (2, 3), (1, 4), (2, 1, 3), (0, 2))
CASES: dict[str, tuple[dict[str, Any], ...]] = {
    "assign": ({},),
    "transpose": tuple({"axis": axis} for axis in ([], [0], [1, 0], [-1, 0], [2, 0, 1], [0, 2, 1], [1, 2, 0])),
    "transpose2": tuple({"axis": axis} for axis in ([1, 0], [2, 0, 1], [-2, -1, 0])),
    "flip": tuple({"axis": axis} for axis in ([0], [1], [-1], [0, 1], [0, -1])),
    "concat": tuple({"axis": axis} for axis in (0, 1, -1)),
    "split": (
        {"num": 2, "axis": 0},
        {"num": 3, "axis": -1},
        {"num": 1, "axis": 0},
        {"sections": [1, 2], "axis": 1},
        {"sections": [2, -1], "axis": 1},
    ),
    "stack": tuple({"axis": axis} for axis in (0, 1, -1)),
    "unstack": ({"num": 2, "axis": 0}, {"num": 3, "axis": -1}),
    "unsqueeze": tuple({"axes": axes} for axes in ([0], [1], [-1], [], [0, 1], [1, 0], [-1, 0], [0, -1])),
    "pad": tuple({"paddings": list(p), "pad_value": 7.0} for p in ((), (1, 2), (0, 1, 2, 0), (0, 0, 1, 1, 0, 2))),
    "expand_v2": tuple({"shape": shape} for shape in ([3], [2, 3], [4, 2, 3], [5, 4], [-1, 4], [2, 2, 3])),
    "slice": (
        {"axes": [0], "starts": [1], "ends": [9]},
        {"axes": [1], "starts": [-2], "ends": [-1]},
        {"axes": [0, 1], "starts": [0, 2], "ends": [1, 1]},
        {"axes": [], "starts": [], "ends": []},
    ),
    "expand_like": ({}, {"axis": 0}, {"axis": 1}),
    "sum_like": ({}, {"axis": 0}, {"axis": 1}),
    "roll": (
        {"shifts": [1], "axis": [0]},
        {"shifts": [-4], "axis": [-1]},
        {"shifts": [1, 2], "axis": [0, 1]},
        {"shifts": [1, 1], "axis": [0, 0]},
        {"shifts": [0], "axis": []},
    ),
    "mean": ({},),
    **dict.fromkeys(
        REDUCED, ({"dim": [0]}, {"dim": [-1], "keep_dim": True}, {"dim": [1], "keep_dim": True}, {"dim": [], "keep_dim": True})
    ),
}
LIKE = {
    "expand_like": ((3,), (2,), (2, 1), (2, 3)),
    "sum_like": ((3,), (2, 3), (1, 3), (3, 2)),
}  # shapes of a tensor, for results of (2, 3) and (3,)


def grid_of(name: str, array: Any, facts: list[Any], elements: dict[float, Any]) -> Grid:
    """An array as a grid: of each element is known where it is."""
    extents = tuple(z3.IntVal(extent) for extent in array.shape)
    for value in array.ravel():
        elements.setdefault(float(value), z3.Const(f"element {value}", element_sort()))
    if not array.ndim:
        return Grid((), lambda places: elements[float(array)])
    element = z3.Function(name, *([z3.IntSort()] * array.ndim), element_sort())
    facts += [element(*map(z3.IntVal, place)) == elements[float(array[place])] for place in np.ndindex(array.shape)]
    return Grid(extents, lambda places: element(*places))


@pytest.mark.parametrize("op_type", [*MOVES, "assign", *REDUCED])
def test_a_move_is_what_the_kernel_does(op_type: str) -> None:
    definition, compared = lookup(op_type), 0
    for attrs, shapes in product(CASES[op_type], shapes_for(op_type)):
        arrays = [np.arange(np.prod(shape), dtype=float).reshape(shape) + 100 * i for i, shape in enumerate(shapes)]
        slots = list(definition.inputs)
        inputs = {"X": arrays[:1], "Like": arrays[1:]} if op_type in LIKE else {slots[0]: arrays}
        types = {slot: [TensorType(array.shape, "float64") for array in listed] for slot, listed in inputs.items()}
        try:
            definition.infer_types(types, attrs)
            out = definition.run(inputs, attrs, tuple(definition.outputs))[next(iter(definition.outputs))]
        except (ValueError, IndexError):
            continue
        if is_of_one(definition) and out[0].size != arrays[0].size:
            continue  # of several elements: what comes of them is left open
        compared += 1
        compare(op_type, arrays, attrs, out)
    assert compared


def shapes_for(op_type: str) -> list[tuple[tuple[int, ...], ...]]:
    """The shapes of the inputs to compare an operator on."""
    if op_type in LIKE:
        return [(shape, like) for shape in LIKE[op_type] for like in ((2, 3), (3,))]
    return [(shape,) * (2 if op_type in ("concat", "stack") else 1) for shape in SHAPES]


def compare(op_type: str, arrays: list[Any], attrs: dict[str, Any], out: list[Any]) -> None:
    """Every element of the kernel's results is the one that the solver puts there."""
    facts: list[Any] = []
    elements: dict[float, Any] = {7.0: padding_of(7.0)} if op_type == "pad" else {}
    arrays = [array + 10 for array in arrays] if op_type == "pad" else arrays
    out = [np.where(array == 7.0, 7.0, array + 10) if op_type == "pad" else array for array in out]
    grids = [grid_of(f"x{i}", array, facts, elements) for i, array in enumerate(arrays)]
    symbolic = {
        name: [z3.IntVal(n) for n in value] if name in ("paddings", "shape", "starts", "ends", "shifts") else value
        for name, value in attrs.items()
    }
    move = move_of(lookup(op_type))
    assert move is not None
    results = move(facts, *grids, **symbolic)
    solver = z3.Solver()
    solver.add(*facts, z3.Distinct(*elements.values()) if len(elements) > 1 else True)
    if "sections" in attrs:  # parts of any extents are allowed; among them those of the kernel
        solver.add(*(a == b for grid, array in zip(results, out, strict=True) for a, b in zip(grid.extents, array.shape, strict=True)))
    assert solver.check() == z3.sat
    model = solver.model()
    assert len(results) == len(out)
    for grid, array in zip(results, out, strict=True):
        assert tuple(model.eval(z3.IntVal(0) + e).as_long() for e in grid.extents) == array.shape
        for place in np.ndindex(array.shape):
            element = elements[float(array[place])]
            assert z3.is_true(model.eval(grid.at([z3.IntVal(p) for p in place]) == element, model_completion=True)), (op_type, attrs, place)


def test_what_is_not_so_of_several_elements_is_not_proved() -> None:
    """The maximum of one element is its sum; two elements have two."""

    @rewrite(verify=False)
    def sum_is_maximum(x: Any, *, d: Any) -> Any:
        return ops.reduce_sum(x, dim=d, keep_dim=True), ops.reduce_max(x, dim=d, keep_dim=True)

    @rewrite(verify=False)
    def rolled_the_other_way(x: Any, *, s: Any, a: Any) -> Any:
        return ops.roll(ops.roll(x, shifts=s, axis=a), shifts=s, axis=a), x

    assert prove(sum_is_maximum).status == prove(rolled_the_other_way, timeout=3.0).status == "unknown"


def test_a_change_of_shape_in_another_package_is_proved_with_the_others() -> None:
    """Its definition says that it keeps the elements in order."""
    with operators():

        @operator("X -> Out", infer=lambda X: TensorType((element_count(X.shape),), X.dtype), grad={}, in_order=True)
        def as_one_line(X: Any) -> Any:
            return X.reshape(-1)

        @rewrite
        def line_of_line(x: Any) -> Any:
            return as_one_line(as_one_line(x)), as_one_line(x)

        assert keeps_elements(line_of_line) == ()
