"""Tensors made of numbers, and layers that may write into a Variable there is: assignment, counting, comparisons, logic, sums."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue
from graphad.layers.checks import checked_flag
from graphad.layers.helper import LayerHelper, layer
from graphad.layers.values import constant, is_literal, known, literal_type, stopped_unless_float, write_literal
from graphad.program import TENSOR_ARRAY, Block, Variable, default_main_program
from graphad.program.source import at_users_line
from graphad.types import FLOATS, TensorType, as_float, checked_shape, dtype_name

# -- fluid -----------------------------------------------------------------------------------------
# Layers that may write into a Variable there is: assignment, counting, comparisons, logic, sums.
#
#     i = fill_constant([1], "int64", 0)          i = 0
#     go = less_than(i, n)                        go = i < n
#     with While(go).block():                     while(go) {
#         increment(i)                       ⇒        i = i + 1
#         less_than(i, n, cond=go)                    go = i < n }
#
# A name that is written again is a new value under the old name: gradients are those of what ran.


def checked_target(what: str, value: object, block: Block) -> Variable:
    """A Variable that a block can overwrite; TypeError if it is none, ValueError if neither the block nor one around it has it."""
    if not isinstance(value, Variable):
        raise InvalidType(f"{what} is a Variable to write into, not {value!r}")
    if not block.has_var_recursive(value.name):
        raise InvalidValue(f"{what} is {value.name!r}, which neither block {block.idx} nor one around it declares")
    return value


def _append(
    op_type: str,
    inputs: Mapping[str, object],
    out: Variable | None,
    attrs: Mapping[str, object] | None = None,
    what: str = "out",
    name: str | None = None,
) -> Variable:
    """Append an operator whose result is a Variable there is, or a new one."""
    helper = LayerHelper(op_type, name)
    if out is None:
        return stopped_unless_float(helper.append(op_type, inputs, attrs))
    block = helper.main.current_block()
    with at_users_line(f"layers.{op_type}"):
        target = checked_target(what, out, block)
    block.append_op(op_type, inputs, {"Out": target}, attrs)
    return target


def _tensor(what: str, value: object) -> Variable:
    if not isinstance(value, Variable) or value.type == TENSOR_ARRAY:
        raise InvalidType(f"{what} is a tensor Variable, not {value!r}")
    return value


# -- copies and counts ---------------------------------------------------------------------------


@layer
def assign(input: object, output: Variable | None = None) -> Variable:
    """Give a Variable the value of another one, of a number, of a list of numbers or of a numpy array.

    Args:
        input: a Variable (also an array of tensors), a number, a list of numbers (also nested) or a numpy array. A number takes the dtype
            of ``output``, and its shape where that has one element; an array keeps its own. A list takes the dtype of ``output``; without
            one it is float32, int64 or bool, as its numbers are.
        output: a Variable to overwrite; a new one if None.

    Returns:
        ``output``, or the new one.

    Raises:
        TypeError: ``input`` is something else, or ``output`` no Variable.
        ShapeError: ``output`` has another shape or dtype.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2], append_batch_size=False)
    ...     y = ga.layers.assign(x)
    ...     _ = ga.layers.assign(y * 2.0, y)
    >>> ga.Executor().run(program, feed={"x": [1.0, 2.0]}, fetch_list=[x, y])
    [array([1., 2.], dtype=float32), array([2., 4.], dtype=float32)]
    """
    with at_users_line("layers.assign"):
        if isinstance(input, list | tuple):
            input = _listed(input, output)
        if not isinstance(input, Variable) and not is_literal(input):
            raise InvalidType(f"input is a Variable, a number or an array, not {input!r}")
    if isinstance(input, Variable):
        return _append("assign", {"X": input}, output, what="output")
    helper = LayerHelper("assign")
    block = helper.main.current_block()
    if output is None:
        return constant(block, f"{helper.name}.tmp", input)
    with at_users_line("layers.assign"):
        target = checked_target("output", output, block)
        write_literal(block, target.name, input, literal_type(input, target.tensor_type))
    return target


def _listed(numbers: Sequence[object], output: object) -> object:
    """A list of numbers as an array; the list itself if it is none."""
    try:
        array = np.array(numbers)
    except ValueError:  # rows of different lengths
        return numbers
    if array.dtype.kind not in "bif":
        return numbers
    if isinstance(output, Variable):
        return array.astype(output.dtype)
    return array.astype("float32") if array.dtype.kind == "f" and not isinstance(numbers[0], np.generic) else array


@layer
def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """Add a number to every element, in place unless told otherwise.

    Args:
        x: a counter, say; its dtype is kept.
        value: the number to add.
        in_place: whether x itself is overwritten and returned; else it stays as it is, and a new Variable is returned.

    Raises:
        TypeError: x is not a Variable, or ``value`` is not a number.
        ValueError: x holds integers, and ``value`` is not a whole number.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     i = ga.layers.fill_constant([1], "int64", 3)
    ...     j = ga.layers.increment(i, in_place=False)
    ...     i is ga.layers.increment(i, 4)
    True
    >>> ga.Executor().run(program, fetch_list=[i, j])
    [array([7]), array([4])]
    """
    with at_users_line("layers.increment"):
        _tensor("x", x)
        if not is_literal(value) or isinstance(value, bool):
            raise InvalidType(f"value is a number, not {value!r}")
        if x.dtype not in FLOATS and value != int(value):
            raise InvalidValue(f"{x.name!r} holds {x.dtype}, to which {value!r}, no whole number, cannot be added")
        step = as_float(value)
    return _append("increment", {"X": x}, x if in_place else None, {"step": step}, "x")


@layer
def sums(input: Variable | Sequence[Variable], out: Variable | None = None) -> Variable:
    """The elementwise sum of tensors of one shape and dtype.

    Args:
        input: a Variable or a list of them.
        out: a Variable to overwrite, which may be one of them; a new one if None.

    Raises:
        TypeError: one of them is not a Variable.
        ValueError: there is none.
        ShapeError: they have different shapes or dtypes, or ``out`` has another one.
    """
    with at_users_line("layers.sums"):
        terms = list(input) if isinstance(input, list | tuple) else [input]
        if not terms:
            raise InvalidValue("input is empty; at least one Variable is expected")
        for i, term in enumerate(terms):
            if not isinstance(term, Variable) or term.type == TENSOR_ARRAY:  # a name for each of thousands takes longer than the rest
                _tensor(f"input[{i}]" if isinstance(input, list | tuple) else "input", term)
    return _append("sum", {"X": terms}, out)


# -- comparisons ---------------------------------------------------------------------------------


def _binary(op_type: str, x: object, y: object, out: Variable | None, what: str, axis: int, name: str | None = None) -> Variable:
    with at_users_line(f"layers.{op_type}"):
        inputs = _operands(op_type, x, y)
    return _append(op_type, inputs, out, {"axis": axis}, what, name)


def _operands(op_type: str, x: object, y: object) -> dict[str, Variable]:
    """Two operands, of which one may be a number or an array; a number takes the dtype and the one element of the other."""
    for name, value in (("x", x), ("y", y)):
        if not is_literal(value):
            _tensor(name, value)
    like = x if isinstance(x, Variable) else y
    if not isinstance(like, Variable):
        raise InvalidType(f"x is {x!r} and y is {y!r}; at least one of them is a Variable")
    block = default_main_program().current_block()
    pairs = (("X", x), ("Y", y))
    return {slot: v if isinstance(v, Variable) else constant(block, f"{op_type}.number", v, like.tensor_type) for slot, v in pairs}


@layer
def less_than(x: object, y: object, force_cpu: object = None, cond: Variable | None = None, *, axis: int = -1) -> Variable:
    """Whether ``x < y``, elementwise.

    Args:
        x, y: tensors of one dtype whose shapes broadcast; one of them may be a number or an array.
        force_cpu: a hint without effect; a Variable in its place is taken as ``cond``.
        cond: a boolean Variable to overwrite, the condition of a loop, say; a new one if None.
        axis: where the first axis of y is in x; -1 aligns the last ones.

    Returns:
        ``cond``, or the new one.

    Raises:
        TypeError: an operand is something else, or ``cond`` no Variable.
        ShapeError: shapes or dtypes do not fit, or ``cond`` has another one.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     i = ga.layers.fill_constant([1], "int64", 0)
    ...     go = ga.layers.less_than(i, 10)
    ...     with ga.layers.While(go).block():
    ...         _ = ga.layers.increment(i, 4)
    ...         _ = ga.layers.less_than(i, 10, cond=go)
    >>> ga.Executor().run(program, fetch_list=[i, go])
    [array([12]), array([False])]
    """
    # Scripts also pass ``cond`` by position, in the place of ``force_cpu``.
    if isinstance(force_cpu, Variable) and cond is None:
        force_cpu, cond = None, force_cpu
    with at_users_line("layers.less_than"):
        if force_cpu is not None and not isinstance(force_cpu, bool):
            raise InvalidType(f"force_cpu is a hint, True or False, not {force_cpu!r}; give the Variable to overwrite as cond=")
    return _binary("less_than", x, y, cond, "cond", axis)


@layer
def less_equal(x: object, y: object, cond: Variable | None = None, *, axis: int = -1) -> Variable:
    """Whether ``x <= y``, elementwise; arguments and errors as ``less_than``."""
    return _binary("less_equal", x, y, cond, "cond", axis)


@layer
def greater_than(x: object, y: object, cond: Variable | None = None, *, axis: int = -1) -> Variable:
    """Whether ``x > y``, elementwise; arguments and errors as ``less_than``."""
    return _binary("greater_than", x, y, cond, "cond", axis)


@layer
def greater_equal(x: object, y: object, cond: Variable | None = None, *, axis: int = -1) -> Variable:
    """Whether ``x >= y``, elementwise; arguments and errors as ``less_than``."""
    return _binary("greater_equal", x, y, cond, "cond", axis)


@layer
def equal(x: object, y: object, cond: Variable | None = None, *, axis: int = -1) -> Variable:
    """Whether ``x == y``, elementwise; arguments and errors as ``less_than``."""
    return _binary("equal", x, y, cond, "cond", axis)


@layer
def not_equal(x: object, y: object, cond: Variable | None = None, *, axis: int = -1) -> Variable:
    """Whether ``x != y``, elementwise; arguments and errors as ``less_than``."""
    return _binary("not_equal", x, y, cond, "cond", axis)


# -- logic ---------------------------------------------------------------------------------------


@layer
def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Whether x does not hold, elementwise; ``out`` is a boolean Variable to overwrite, which may be x."""
    with at_users_line("layers.logical_not"):
        _tensor("x", x)
    return _append("logical_not", {"X": x}, out, name=name)


@layer
def logical_and(x: object, y: object, out: Variable | None = None, name: str | None = None, *, axis: int = -1) -> Variable:
    """Whether x and y hold, elementwise; arguments and errors as ``less_than``, with ``out`` for ``cond``."""
    return _binary("logical_and", x, y, out, "out", axis, name)


@layer
def logical_or(x: object, y: object, out: Variable | None = None, name: str | None = None, *, axis: int = -1) -> Variable:
    """Whether x or y holds, elementwise; arguments and errors as ``less_than``, with ``out`` for ``cond``."""
    return _binary("logical_or", x, y, out, "out", axis, name)


@layer
def logical_xor(x: object, y: object, out: Variable | None = None, name: str | None = None, *, axis: int = -1) -> Variable:
    """Whether one of x and y holds, elementwise; arguments and errors as ``less_than``, with ``out`` for ``cond``."""
    return _binary("logical_xor", x, y, out, "out", axis, name)


# -- creation --------------------------------------------------------------------------------------
# Tensors made of nothing but numbers: constants, ranges, random numbers.
#
# No Variable among the arguments says where they belong: they are recorded in the current block of the default main program.

_EXACT = 1 << 53  # up to here every whole number is a float


# -- constants -----------------------------------------------------------------------------------


@layer
def fill_constant(shape: Sequence[int], dtype: object, value: float, force_cpu: bool = False, out: Variable | None = None) -> Variable:
    """A tensor of one value.

    Gradients reach it if it is floating-point, so what it is overwritten with in a loop is trained.

    Args:
        shape: its extents; none is unknown. A tensor of them, or tensors among them, say so when the program runs.
        dtype: its dtype, by name, as a numpy dtype or as Fluid's number.
        value: a number, or a tensor of one.
        force_cpu: a hint without effect; a Variable in its place is taken as ``out``.
        out: a Variable to overwrite; a new one if None.

    Raises:
        TypeError: ``value`` is not a number, ``shape`` not a list of ints, ``dtype`` not a dtype, or ``out`` not a Variable.
        ValueError: an extent is not known, or ``dtype`` cannot hold the value.
        ShapeError: ``out`` has another shape or dtype.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.fill_constant([2], "int64", 7)
    ...     y = ga.layers.fill_constant(value=0.5, shape=[1], dtype="float32")
    >>> ga.Executor().run(program, fetch_list=[x, y])
    [array([7, 7]), array([0.5], dtype=float32)]
    """
    # Scripts also pass ``out`` by position, in the place of ``force_cpu``.
    if isinstance(force_cpu, Variable) and out is None:
        force_cpu, out = False, force_cpu
    helper = LayerHelper("fill_constant")
    block = helper.main.current_block()
    with at_users_line("layers.fill_constant"):
        checked_flag("force_cpu", force_cpu)
        value = known(value)
        if isinstance(value, Variable) and any(extent not in (1, -1) for extent in value.shape):
            raise InvalidType(f"value is a number, not {value!r}, which has more elements than one")
        if out is None and (_holds_variable(shape) or isinstance(value, Variable)):
            return _filled(shape, dtype_name(dtype), value)
        type = TensorType(_known_shape(shape), dtype_name(dtype))
        if not is_literal(value) or np.ndim(value):
            raise InvalidType(f"value is a number, not {value!r}")
        target = None if out is None else checked_target("out", out, block)
        name = helper.main.names.generate(f"{helper.name}.tmp") if target is None else target.name
        # The attribute is a float: larger integers are written element by element.
        exact = not isinstance(value, int | np.integer) or abs(int(value)) <= _EXACT
        write_literal(block, name, value if exact else _repeated(value, type), type)
    return stopped_unless_float(block.var(name)) if target is None else target


def _holds_variable(shape: object) -> bool:
    return isinstance(shape, Variable) or (isinstance(shape, list | tuple) and any(isinstance(item, Variable) for item in shape))


def _filled(shape: Any, dtype: str, value: Any) -> Variable:
    """A constant whose value is a tensor, or whose extents are, or some of them."""
    inputs: dict[str, object] = {"ShapeTensor": shape}
    attrs: dict[str, object] = {"shape": [], "dtype": dtype, "value": float(value) if not isinstance(value, Variable) else 0.0}
    helper = LayerHelper("fill_constant")
    if not isinstance(shape, Variable):
        attrs["shape"] = [-1 if isinstance(item, Variable) else item for item in shape]
        inputs = {}
    if isinstance(shape, list | tuple) and _holds_variable(shape):
        block = helper.main.current_block()
        # Paddle's form: a tensor for each extent, and -1 in the attribute where only the tensor knows it.
        extents = [item if isinstance(item, Variable) else constant(block, "number", np.array([item], "int32")) for item in shape]
        inputs["ShapeTensorList"] = extents
    if isinstance(value, Variable):
        inputs["ValueTensor"] = value
    return stopped_unless_float(helper.append("fill_constant", inputs, attrs))


def _repeated(value: object, type: TensorType) -> Any:
    try:
        return np.full(type.shape, value, type.dtype)
    except OverflowError:
        raise InvalidValue(f"{value!r} does not fit into {type.dtype}") from None


def _known_shape(shape: Any) -> tuple[int, ...]:
    extents = checked_shape(shape)
    if -1 in extents:
        raise InvalidValue(f"the shape {list(extents)} has an unknown extent; the extents of a constant are known")
    return extents


@layer
def zeros(shape: Sequence[int], dtype: object = "float32", force_cpu: bool = False) -> Variable:
    """A tensor of zeros; errors as ``fill_constant``."""
    return fill_constant(shape, dtype, 0, force_cpu)


@layer
def ones(shape: Sequence[int], dtype: object = "float32", force_cpu: bool = False) -> Variable:
    """A tensor of ones; errors as ``fill_constant``."""
    return fill_constant(shape, dtype, 1, force_cpu)


@layer
def eye(num_rows: int, num_columns: int | None = None, batch_shape: object = None, dtype: object = "float32") -> Variable:
    """A matrix with ones on its diagonal and zeros elsewhere, square unless ``num_columns`` is given.

    Args:
        batch_shape: extents before those of the matrix, which is repeated; a dtype in its place is taken as one, as in Paddle 2.
    """
    with at_users_line("layers.eye"):
        # Scripts also pass the dtype by position, in the place of ``batch_shape``.
        if batch_shape is not None and not isinstance(batch_shape, list | tuple):
            batch_shape, dtype = None, batch_shape
        attrs = {"num_rows": num_rows, "num_columns": -1 if num_columns is None else num_columns, "dtype": dtype_name(dtype)}
    helper = LayerHelper("eye")
    out = stopped_unless_float(helper.append("eye", {}, attrs))
    if not batch_shape:
        return out
    flat = helper.append("unsqueeze", {"X": out}, {"axes": list(range(len(batch_shape)))})
    return stopped_unless_float(helper.append("expand", {"X": flat}, {"expand_times": [*batch_shape, 1, 1]}))


@layer
def range_(start: float | Variable, end: float | Variable, step: float | Variable, dtype: object) -> Variable:
    """The numbers from ``start`` up to ``end`` (left out) in steps of ``step``: ``layers.range``.

    Args:
        start, end, step: numbers, or Variables of one element, which are cast to ``dtype``.

    Returns:
        A tensor of one axis, whose extent is known if all three are numbers.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.range(1, 10, 3, "int64")
    >>> x.shape, ga.Executor().run(program, fetch_list=[x])
    ((3,), [array([1, 4, 7])])
    """
    helper = LayerHelper("range")
    bounds = {"Start": start, "End": end, "Step": step}
    with at_users_line("layers.range"):
        dtype = dtype_name(dtype)
        for slot_name, value in bounds.items():
            if not isinstance(value, Variable) and (not is_literal(value) or np.size(value) != 1):
                raise InvalidType(f"{slot_name.lower()} is a number or a Variable of one element, not {value!r}")
        inputs = {slot: _bound(helper, value, dtype) for slot, value in bounds.items()}
        length = None if any(isinstance(v, Variable) for v in bounds.values()) else _length(start, end, step, dtype)
    out = stopped_unless_float(helper.append("range", inputs))
    # Inference does not read values; of numbers the length is known here.
    if length is not None:
        out.declare((length,), dtype)
    return out


def _bound(helper: LayerHelper, value: object, dtype: str) -> Variable:
    if not isinstance(value, Variable):
        return constant(helper.main.current_block(), f"{helper.name}.tmp", np.full([1], value, dtype))
    return value if value.dtype == dtype else helper.append("cast", {"X": value}, {"in_dtype": value.dtype, "out_dtype": dtype})


def _length(start: object, end: object, step: object, dtype: str) -> int:
    first, last, by = (float(np.full([1], value, dtype)[0]) for value in (start, end, step))
    if not by:
        raise InvalidValue(f"step is {step!r}, which is 0 as {dtype}; it leads nowhere")
    return max(0, math.ceil((last - first) / by))


# -- random numbers ------------------------------------------------------------------------------


@layer
def uniform_random(shape: Sequence[int], dtype: object = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0) -> Variable:
    """Numbers spread evenly over [min, max), the same in every run if a seed is given."""
    attrs = {"shape": known(shape), "dtype": dtype, "min": min, "max": max, "seed": seed}
    return LayerHelper("uniform_random").append("uniform_random", {}, attrs)


@layer
def gaussian_random(shape: Sequence[int], mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: object = "float32") -> Variable:
    """Normally distributed numbers, the same in every run if a seed is given."""
    attrs = {"shape": known(shape), "mean": mean, "std": std, "seed": seed, "dtype": dtype}
    return LayerHelper("gaussian_random").append("gaussian_random", {}, attrs)
