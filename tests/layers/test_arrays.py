"""Arrays of tensors as layers, in and out of loops; nested structures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import graphad as ga
from graphad.errors import ExecutionError
from graphad.layers import nest
from tests.control import built, layers, ops, ran, write
from tests.execution.test_executor import run

X = np.arange(6, dtype="float32").reshape(3, 2)


def test_arrays_are_created_written_and_read() -> None:
    program, (_, array) = built(lambda x: [layers.array_read(layers.array_write(x, 0), 0), layers.array_write(x, 1)], x=X)
    assert ops(program.block(0)) == [
        "fill_constant() -> (Out=array_write_0.index_0)",
        "create_array() -> (Out=array_write_0.out_0)",
        "write_to_array(X=x, I=array_write_0.index_0) -> (Out=array_write_0.out_0)",
        "fill_constant() -> (Out=array_read_0.index_0)",
        "read_from_array(X=array_write_0.out_0, I=array_read_0.index_0) -> (Out=array_read_0.tmp_0)",
        "fill_constant() -> (Out=array_write_1.index_0)",
        "create_array() -> (Out=array_write_1.out_0)",
        "write_to_array(X=x, I=array_write_1.index_0) -> (Out=array_write_1.out_0)",
    ]
    assert (array.type, array.shape, array.dtype) == ("LOD_TENSOR_ARRAY", (3, 2), "float32")


def test_an_array_without_elements_has_none() -> None:
    program, array = built(lambda: layers.create_array("int32"))
    assert (array.type, array.declared) == ("LOD_TENSOR_ARRAY", (None, "int32"))
    assert ran(lambda: layers.array_length(layers.create_array("float32"))).tolist() == [0]
    assert program.block(0).ops[0].attrs == {"dtype": "int32"}


def test_an_array_may_start_with_elements() -> None:
    def build(x: Any) -> Any:
        array = layers.create_array("float32", [x, x * 2.0])
        whole, _ = layers.tensor_array_to_tensor(array, axis=0, use_stack=True)
        return [layers.array_length(array), layers.array_read(array, np.int32(1)), whole]

    length, last, whole = ran(build, x=X)
    assert length.tolist() == [2]
    np.testing.assert_array_equal(last, X * 2)
    np.testing.assert_array_equal(whole, [X, X * 2])


@pytest.mark.parametrize(
    ("parts", "how", "expected"),
    [
        ([(2, 3), (2, 1)], {}, [3, 1]),
        ([(2, 3), (1, 3), (4, 3)], {"axis": 0}, [2, 1, 4]),
        ([(2, 3), (2, 1)], {"axis": -1}, [3, 1]),
        ([(2, 3), (2, 3)], {"use_stack": True}, [3, 3]),  # Fluid's documentation: the elements' own extents
        ([(2,), (2,), (2,)], {"axis": 1, "use_stack": True}, [1, 1, 1]),
    ],
)
def test_the_elements_are_joined_and_the_extent_of_each_is_told(parts: list[Any], how: dict[str, Any], expected: list[int]) -> None:
    """As in Fluid two results; the tensor alone would be taken apart by ``whole, extents = ...``."""
    arrays = [np.arange(1.0, np.prod(shape) + 1).reshape(shape).astype("float32") for shape in parts]

    def build(**elements: Any) -> Any:
        array = layers.create_array("float32", list(elements.values()))
        whole, extents = layers.tensor_array_to_tensor(array, name="whole", **how)
        assert (whole.name.split(".")[0], extents.dtype, extents.stop_gradient) == ("whole", "int32", True)
        return [whole, extents, *ga.gradients(layers.reduce_sum(whole * whole), list(elements.values()))]

    feeds: Any = {f"part{i}": array for i, array in enumerate(arrays)}
    whole, extents, *gradients = ran(build, **feeds)
    axis = how.get("axis", 1)
    np.testing.assert_array_equal(whole, np.stack(arrays, axis) if how.get("use_stack") else np.concatenate(arrays, axis))
    np.testing.assert_array_equal(extents, expected)
    for gradient, array in zip(gradients, arrays, strict=True):
        np.testing.assert_array_equal(gradient, 2 * array)


def test_what_is_no_array_is_not_joined() -> None:
    with pytest.raises(TypeError, match="array is an array of tensors, not Variable"):
        built(lambda x: layers.tensor_array_to_tensor(x), x=X)
    with pytest.raises(TypeError, match="use_stack is True or False, not 'yes'"):
        built(lambda x: layers.tensor_array_to_tensor(layers.array_write(x, 0), 0, use_stack="yes"), x=X)


def test_an_empty_place_cannot_be_read() -> None:
    program, x = built(lambda x: layers.array_read(layers.array_write(x, 2), 1), x=X)
    with pytest.raises(ExecutionError, match="the array has nothing at index 1"):
        run(program, {"x": X}, [x])


def test_an_array_may_be_a_loop_variable() -> None:
    """The array that the loop started from keeps its one element."""

    def build(x: Any) -> Any:
        start = layers.array_write(x, 0)

        def body(i: Any, array: Any) -> Any:
            return [i + 1, layers.array_write(layers.array_read(array, i) * 2.0, i + 1, array)]

        _, array = layers.while_loop(lambda i, array: i < 3, body, [0, start])
        return [layers.array_length(start), layers.array_length(array), layers.array_read(array, 3)]

    before, after, last = ran(build, x=X)
    assert (before.tolist(), after.tolist()) == ([1], [4])
    np.testing.assert_array_equal(last, X * 8)
    program, _ = built(build, x=X)
    loop = next(op for op in program.block(0).ops if op.type == "while")
    assert loop.input("X") == ["while_loop_0.tmp_0", "while_loop_0.tmp_1"]
    assert loop.output("Out") == ["while_loop_0.tmp_0", "while_loop_0.tmp_1", "less_than_0.tmp_0"]


def test_a_loop_may_fill_an_array_of_unknown_elements() -> None:
    def build(x: Any) -> Any:
        def body(i: Any, array: Any, y: Any) -> Any:
            layers.array_write(y, i, array)
            return [i + 1, array, y + 1.0]

        _, array, _ = layers.while_loop(lambda i, *_: i < 3, body, [0, layers.create_array("float32"), x])
        return layers.tensor_array_to_tensor(array, axis=0, use_stack=True)[0]

    np.testing.assert_array_equal(ran(build, x=X), [X, X + 1, X + 2])


def test_a_loop_may_write_an_array_around_it() -> None:
    def build(x: Any) -> Any:
        array = layers.array_write(x, 0)

        def body(i: Any) -> Any:
            layers.array_write(x * 2.0, i, array)
            return i + 1

        layers.while_loop(lambda i: i < 4, body, [1])
        return layers.array_length(array)

    program, _ = built(build, x=X)
    loop = next(op for op in program.block(0).ops if op.type == "while")
    assert loop.input("X") == ["x", "while_loop_0.tmp_0", "array_write_0.out_0"]
    assert loop.output("Out")[1] == "array_write_0.out_0"
    assert ran(build, x=X).tolist() == [4]


def test_arrays_change_places_in_a_loop() -> None:
    def build(x: Any) -> Any:
        one, two = layers.create_array("float32", [x]), layers.create_array("float32", [x, x])
        _, a, b = layers.while_loop(lambda i, a, b: i < 3, lambda i, a, b: [i + 1, b, a], [0, one, two])
        return [layers.array_length(a), layers.array_length(b)]

    assert [v.tolist() for v in ran(build, x=X)] == [[2], [1]]


@pytest.mark.parametrize("p", [True, False])
def test_a_branch_may_give_an_array(p: bool) -> None:
    def build(p: Any, x: Any) -> Any:
        start = layers.array_write(x, 0)
        array = layers.cond(p, lambda: start, lambda: layers.create_array("float32", [x, x]))
        other = layers.cond(p, lambda: layers.create_array("float32"), lambda: start)
        assert [array.type, other.type, other.shape] == ["LOD_TENSOR_ARRAY", "LOD_TENSOR_ARRAY", (3, 2)]
        return [layers.array_length(array), layers.array_length(other)]

    assert [v.tolist() for v in ran(build, p=p, x=X)] == ([[1], [0]] if p else [[2], [1]])


def test_reading_before_the_loop_is_what_was_there() -> None:
    def build(x: Any) -> Any:
        array = layers.array_write(x, 0)
        first = layers.array_read(array, 0)
        write("write_to_array", array, X=x * 2.0, I=layers.array_length(array) - 1)
        return [first, layers.array_read(array, 0)]

    first, second = ran(build, x=X)
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, X * 2)


# -- nested structures ---------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two things."""

    left: Any
    right: Any


STRUCTURES: list[tuple[Any, list[Any]]] = [
    (1, [1]),
    (None, []),
    ([], []),
    ([1, (2, [3])], [1, 2, 3]),
    ({"b": 1, "a": [2, None]}, [1, 2]),
    (Pair(1, {"x": Pair(2, 3)}), [1, 2, 3]),
    ("text", ["text"]),
]


@pytest.mark.parametrize(("structure", "leaves"), STRUCTURES)
def test_leaves_come_out_in_order_and_go_back(structure: Any, leaves: list[Any]) -> None:
    assert nest.flatten(structure) == leaves
    assert nest.pack(structure, leaves) == structure
    assert type(nest.pack(structure, leaves)) is type(structure)
    assert nest.difference(structure, structure) is None
    assert [(a, b) for _, a, b in nest.paired(structure, structure)] == [(leaf, leaf) for leaf in leaves]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2], (3, 4), None),
        ({"a": 1, "b": 2}, {"b": 3, "a": 4}, None),
        (Pair(1, 2), [3, 4], None),
        ([1, 2], [1], ((), "a list of 2", "a list of 1")),
        ([1, None], [1, 2], ((1,), "None", "2")),
        ([1, {"a": (1,)}], [1, {"a": {}}], ((1, "a"), "a tuple of 1", "a dict of nothing")),
        ([[]], [None], ((0,), "a list of 0", "None")),
    ],
)
def test_structures_differ_somewhere(first: Any, second: Any, expected: Any) -> None:
    assert nest.difference(first, second) == expected


def test_pairs_go_by_key() -> None:
    assert list(nest.paired({"a": 1, "b": [2]}, {"b": (20,), "a": 10})) == [(("a",), 1, 10), (("b", 0), 2, 20)]
    assert nest.subscripts((1, "a")) == "[1]['a']"


def test_the_program_of_an_array_reads_back() -> None:
    program, _ = built(lambda x: layers.create_array("float32", [x]), x=X)
    assert "var create_array_0.out_0: float32[3, 2] LOD_TENSOR_ARRAY" in str(program)
    assert str(ga.Program.parse(str(program))) == str(program)
