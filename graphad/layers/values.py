"""Values that layers take besides variables: Python numbers and numpy arrays become constants; parameters and generated names."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.program import TENSOR, TENSOR_ARRAY, Block, Operator, Variable, default_main_program
from graphad.types import FLOATS, INTS, TensorType, dtype_name, element_count

_VALUES = {"bool": "bool_values", "float64": "fp64_values", "int32": "int32_values", "int64": "int64_values"}
_EXACT = 1 << 53  # up to here every whole number is a float


def is_literal(value: object) -> bool:
    """Whether a value is a number or an array, which a constant stands for."""
    return isinstance(value, bool | int | float | np.generic | np.ndarray)


def checked_values(what: str, values: list[object]) -> None:
    """TypeError unless each is a variable, a number or an array."""
    for value in values:
        if not isinstance(value, Variable) and not is_literal(value):
            raise InvalidType(f"{what} holds {value!r}; a Variable, a number or an array is expected")


def literal_type(value: object, like: TensorType | None = None) -> TensorType:
    """Shape and dtype of the constant for a number or an array.

    An array keeps its own. A number takes those of ``like`` where that has one element and numbers of its kind; else it is a
    scalar of dtype bool, int64 or float32.
    """
    if isinstance(value, np.ndarray):
        return TensorType(value.shape, dtype_name(value.dtype))
    shape = like.shape if like is not None and element_count(like.shape) == 1 else ()
    return TensorType(shape, _number_dtype(value, None if like is None else like.dtype))


def _number_dtype(value: object, like: str | None) -> str:
    if isinstance(value, bool | np.bool_):
        return "bool"
    is_integer = isinstance(value, int | np.integer)
    # A number takes the dtype of the tensor beside it, if that can hold it.
    if like is not None and (like in FLOATS or (is_integer and like in INTS and like != "bool")):
        return like
    return "int64" if is_integer else "float32"


def value_type(value: object, like: TensorType | None = None) -> TensorType | None:
    """Shape and dtype of a variable, a number or an array; None where the shape is not known."""
    return value.tensor_type if isinstance(value, Variable) else literal_type(value, like)


def value_dtype(value: object, like: TensorType | None = None) -> str | None:
    """The dtype of a variable, a number or an array; None where it is not known."""
    return value.declared[1] if isinstance(value, Variable) else literal_type(value, like).dtype


def write_literal(block: Block, name: str, value: object, type: TensorType) -> None:
    """Append the operator that gives a name the value of a number or an array; ValueError if the dtype cannot hold it."""
    attrs: dict[str, object] = {"shape": list(type.shape), "dtype": type.dtype}
    values, number = _values(value, type.dtype), _repeated(value)
    # One number for all elements, instead of a list of them.
    if number is not None:
        block.append_op("fill_constant", {}, {"Out": name}, {**attrs, "value": number})
        return
    slot = _VALUES.get(type.dtype, "fp32_values" if type.dtype in FLOATS else "int32_values")
    block.append_op("assign_value", {}, {"Out": name}, {**attrs, slot: values})


def _values(value: object, dtype: str) -> list[object]:
    try:
        with np.errstate(all="ignore"):
            values: list[Any] = np.asarray(value, dtype).ravel().tolist()
    except OverflowError:
        raise InvalidValue(f"{value!r} does not fit into {dtype}") from None
    # The operator has booleans as integers.
    return [*map(int, values)] if dtype == "bool" else values


def _repeated(value: Any) -> float | None:
    """The number that is everywhere in a literal, None if there are several or a float cannot hold it."""
    if isinstance(value, np.ndarray):
        # By bytes: 0.0 and -0.0 are equal, nan is not equal to itself.
        if not value.size or value.tobytes() != value.flat[0].tobytes() * value.size:
            return None
        value = value.flat[0]
    if isinstance(value, int | np.integer) and abs(int(value)) > _EXACT:
        return None
    return float(value)


def constant(block: Block, key: str, value: object, like: TensorType | None = None) -> Variable:
    """A fresh variable with the value of a number or an array."""
    name = block.program.names.generate(key)
    write_literal(block, name, value, literal_type(value, like))
    return stopped_unless_float(block.var(name))


def copied(block: Block, key: str, var: Variable) -> Variable:
    """A fresh variable with the value of another one."""
    name = block.program.names.generate(key)
    block.append_op("assign", {"X": var}, {"Out": name})
    return stopped_unless_float(block.var(name))


def stopped_unless_float(var: Variable) -> Variable:
    """The variable; gradients stop at one whose dtype is known and not floating-point."""
    dtype = var.declared[1]
    var.stop_gradient = dtype is not None and dtype not in FLOATS
    return var


def described(var: Variable) -> str:
    """The type of a variable in words."""
    shape, dtype = var.declared
    extents = "?" if shape is None else ", ".join(map(str, shape))
    return f"{'an array of ' if var.type == TENSOR_ARRAY else ''}{dtype or 'float32'}[{extents}]"


# -- constants where numbers are expected --------------------------------------------------------
# Fluid takes a tensor of one number for an axis, a number of elements or an extent. Where the operator has no operand for it, a tensor
# whose value is known as the program is written is that number.


def known(value: Any) -> Any:
    """The numbers that a constant holds, and a list with such constants in it; anything else as it is.

    A constant is what ``layers.fill_constant`` and ``layers.assign`` of an array wrote last in the block that is being written.
    """
    if isinstance(value, list | tuple):
        return [known(item) for item in value] if any(isinstance(item, Variable) for item in value) else value
    # What a block around has written may have changed by the time that this one runs.
    if not isinstance(value, Variable) or value.block is not default_main_program().current_block():
        return value
    writer = value.op
    if writer is None or writer.type not in ("fill_constant", "assign_value") or any(writer.inputs.values()):
        return value
    numbers = _constant_numbers(writer)
    return numbers[0] if len(numbers) == 1 else numbers


def _constant_numbers(op: Operator) -> list[Any]:
    """The elements that the operator of a constant writes, in order."""
    dtype = str(op.attrs["dtype"])
    if op.type == "fill_constant":
        return np.full(element_count(tuple(op.attrs["shape"])), op.attrs["value"], dtype).tolist()
    return np.asarray(op.attrs[_VALUES.get(dtype, "fp32_values" if dtype in FLOATS else "int32_values")], dtype).tolist()  # type: ignore[no-any-return]


def one_boolean(what: str, value: object) -> Variable:
    """A condition; TypeError if it is not a variable, ShapeError if it cannot be one boolean."""
    if not isinstance(value, Variable):
        raise InvalidType(f"{what} {value!r}; a boolean Variable of one element is expected")
    shape, dtype = value.declared
    if value.type != TENSOR or dtype != "bool" or any(extent not in (1, -1) for extent in shape or ()):
        raise ShapeError(f"{what} {value.name!r}, {described(value)}; a boolean Variable of one element is expected")
    return value
