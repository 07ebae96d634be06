"""Arrays of tensors: made, written, read and measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphad.errors import InvalidType, InvalidValue
from graphad.layers.helper import LayerHelper, layer
from graphad.layers.values import constant, described
from graphad.program import TENSOR_ARRAY, Block, Variable
from graphad.program.source import at_users_line
from graphad.types import dtype_name


@layer
def create_array(dtype: object, initialized_list: Sequence[Variable] | None = None) -> Variable:
    """An array of tensors without elements, or with those of a list.

    Args:
        dtype: what its elements are.
        initialized_list: variables of that dtype and of one rank.

    Raises:
        TypeError: ``initialized_list`` is not a list of variables, or ``dtype`` is not a dtype.
        ValueError: a variable has another dtype.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()):
    ...     ga.layers.create_array("float32")
    Variable create_array_0.out_0: float32[?]
    """
    helper = LayerHelper("create_array")
    with at_users_line("layers.create_array"):
        dtype, items = dtype_name(dtype), _checked_list(initialized_list, dtype_name(dtype))
    array = _fresh(helper.main.current_block(), f"{helper.name}.out", None, dtype)
    for i, item in enumerate(items):
        array_write(item, i, array)
    return array


def _checked_list(items: object, dtype: str) -> list[Variable]:
    if not isinstance(items, list | tuple | None) or not all(isinstance(item, Variable) for item in items or ()):
        raise InvalidType(f"initialized_list is a list of Variables, not {items!r}")
    for i, item in enumerate(items or ()):
        if item.dtype != dtype:
            raise InvalidValue(f"the array is of {dtype}, but initialized_list[{i}] is {described(item)}")
    return list(items or ())


def _fresh(block: Block, key: str, shape: Sequence[int] | None, dtype: str) -> Variable:
    """An array without elements; their shape stays open where it is not known."""
    attrs = {"dtype": dtype} if shape is None else {"shape": list(shape), "dtype": dtype}
    name = block.program.names.generate(key)
    block.append_op("create_array", {}, {"Out": name}, attrs)
    block.var(name).declare(None if shape is None else tuple(shape), dtype)
    return block.var(name)


def fresh_array(block: Block, key: str, element: Variable) -> Variable:
    """An array without elements for tensors like the given one."""
    return _fresh(block, key, element.declared[0], element.dtype)


@layer
def array_write(x: Variable, i: Variable | int, array: Variable | None = None) -> Variable:
    """Write a tensor into an array at an index, in place; the array grows as far as needed.

    Args:
        x: the tensor.
        i: one int32 or int64 element, or a number, from 0 on.
        array: the array to write to; a new one if None.

    Returns:
        The array.

    Raises:
        TypeError: one of them is something else.
        ShapeError: x has another rank or dtype than the array's elements, or i is not an index.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2], append_batch_size=False)
    ...     array = ga.layers.array_write(x, 0)
    ...     length = ga.layers.array_length(ga.layers.array_write(x * 2.0, 1, array))
    ...     last = ga.layers.array_read(array, 1)
    >>> ga.Executor().run(program, feed={"x": [1.0, 2.0]}, fetch_list=[length, last])
    [array([2]), array([2., 4.], dtype=float32)]
    """
    with at_users_line("layers.array_write"):
        if not isinstance(x, Variable):
            raise InvalidType(f"x is a Variable, not {x!r}")
        if array is not None:
            checked_array(array)
        _checked_index(i)
    helper = LayerHelper("array_write")
    block = helper.main.current_block()
    at = _index(helper, i)
    out = fresh_array(block, f"{helper.name}.out", x) if array is None else array
    # The array is no input: as Paddle's, the operator changes the one that its output names.
    block.append_op("write_to_array", {"X": x, "I": at}, {"Out": out})
    return out


@layer
def array_read(array: Variable, i: Variable | int) -> Variable:
    """The tensor at an index of an array.

    Args:
        array: of elements of one rank and dtype, which the result has.
        i: one int32 or int64 element, or a number; the run fails if nothing is there.

    Raises:
        TypeError: one of them is something else.
        ShapeError: i is not an index.
    """
    with at_users_line("layers.array_read"):
        checked_array(array)
        _checked_index(i)
    helper = LayerHelper("array_read")
    return helper.append("read_from_array", {"X": array, "I": _index(helper, i)})


@layer
def array_length(array: Variable) -> Variable:
    """How many elements an array has, as an int64 of shape [1]; TypeError if it is not an array."""
    with at_users_line("layers.array_length"):
        checked_array(array)
    length = LayerHelper("array_length").append("lod_array_length", {"X": array})
    length.stop_gradient = True
    return length


def checked_array(array: object) -> None:
    """TypeError if it is no array."""
    if not isinstance(array, Variable) or array.type != TENSOR_ARRAY:
        raise InvalidType(f"array is an array of tensors, not {array!r}")


def _checked_index(i: object) -> None:
    if not isinstance(i, Variable | int | np.integer) or isinstance(i, bool):
        raise InvalidType(f"i is an integer Variable of one element or a number, not {i!r}")
    if not isinstance(i, Variable) and i < 0:
        raise InvalidValue(f"i is an index from 0 on, not {i}")


def _index(helper: LayerHelper, i: object) -> Variable:
    return i if isinstance(i, Variable) else constant(helper.main.current_block(), f"{helper.name}.index", i)
