"""Operands of ONNX nodes while a graph is read: variables of the program, and arrays that are already known.

Operators over known arrays are computed at once, so that shapes, axes and paddings that a model computes of constants are numbers when
an operator asks for them as attributes. Of a small tensor of integers some elements may be known and others not: the shape of a
tensor with an unknown extent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeGuard

import numpy as np

from graphad.errors import GraphadError, ParseError
from graphad.ops import REGISTRY, OpDef
from graphad.program import TENSOR, Block, Program, Variable
from graphad.types import DTYPES, FLOATS, Array, Extent, Shape, TensorType

UNKNOWN = None  # an element of ``Value.elements`` that is not known
_FEW = 8  # elements: longer constants are variables that keep their values beside the program
_SMALL = 64  # elements of a shape
_NO_TENSOR = "a sequence, where a tensor is expected"
LEAST_ROOM = 1 << 27  # bytes of an array that is computed while a small file is read


class UnsupportedModel(GraphadError, NotImplementedError):
    """A model uses what graphad cannot say; the message names the node."""


class NotKnown(UnsupportedModel):
    """The model's operators depend on a value that is unknown before the model runs.

    Attributes:
        value: what is not known; None where it is an extent.
    """

    def __init__(self, message: str, value: Value | None = None) -> None:
        super().__init__(message)
        self.value = value


class TwoRanks(UnsupportedModel):
    """The rank of a result is decided when the model runs; what comes after it has to be read for both.

    Attributes:
        condition: chooses.
        branches: what it chooses of, the first where it holds: each reads the results, and may raise this error again.
        value: what is of unknown extents, if those choose.
    """

    def __init__(
        self, message: str, condition: Variable, branches: Sequence[Callable[[], list[Value]]], value: Value | None = None
    ) -> None:
        super().__init__(message)
        self.condition, self.branches, self.value = condition, branches, value


class Value:
    """A tensor of an ONNX graph.

    Attributes:
        array: its value where it is known and may be computed with while reading.
        variable: the variable of the program that has it; made when it is first needed where ``array`` is known.
        given: its value at load where it is a parameter, which may be trained: known, but not folded.
        follows: of a small tensor its value at load where it is computed of parameters alone; for settings of operators only.
        elements: of a small tensor of integers the elements, ``UNKNOWN`` where they are not known, or the name that they have as
            an extent.
        items: of a sequence of known length its tensors.
        item_dtype: of a sequence without tensors the dtype that they would have.
        is_text: whether it holds the numbers of strings.
        keys: what ZipMap makes maps of: the keys of the columns.
        real: of integers that floats were rounded to, the whole numbers as floats, which have gradients.
    """

    __slots__ = ("array", "elements", "follows", "given", "is_text", "item_dtype", "items", "keys", "real", "variable")

    def __init__(self, array: Array | None = None, variable: Variable | None = None, given: Array | None = None) -> None:
        self.array, self.variable, self.given = array, variable, given
        self.elements: Array | None = None
        self.follows: Array | None = None
        self.items: list[Value] | None = None
        self.item_dtype = "float32"
        self.is_text = False
        self.keys: Sequence[int | str] | None = None
        self.real: Value | None = None

    @property
    def shape(self) -> Shape:
        """Its extents, -1 where one is not known."""
        if self.array is not None:
            return self.array.shape
        return self._checked_variable().shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> str:
        if self.array is not None:
            return str(self.array.dtype)
        if self.items is not None:
            return self.items[0].dtype if self.items else self.item_dtype
        return self._checked_variable().dtype

    def _checked_variable(self) -> Variable:
        if self.variable is None or self.items is not None:
            raise ParseError(_NO_TENSOR)
        return self.variable

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def content(self) -> Array | None:
        """The array it has at load, parameter or not."""
        return self.array if self.array is not None else self.given

    def partly(self) -> Array | None:
        """Its elements as objects, ``UNKNOWN`` where they are not known; None where nothing is."""
        if self.elements is not None:
            return self.elements
        is_small = self.array is not None and self.array.dtype.kind in "iu" and self.array.size <= _SMALL
        return self.array.astype(object) if is_small and self.array is not None else None


Operand = Value | None


def text_of(numbers: Value) -> Value:
    """The value, marked as numbers of strings."""
    numbers.is_text = True
    return numbers


def is_known(element: object) -> bool:
    """Whether an element of ``Value.elements`` is a number."""
    return element is not UNKNOWN and not isinstance(element, Extent)


def all_known(elements: Array) -> bool:
    return all(map(is_known, elements.ravel()))


class Recorder:
    """Applies graphad's operators to values: ``recorder.tanh(x)``; known arrays are computed with, anything else is recorded.

    Args:
        program: what is recorded into.
        parameters: name -> array of the variables that have values beside the program; longer constants are added.

    Attributes:
        largest: bytes that an array may have which is computed while reading.
    """

    def __init__(self, program: Program, parameters: dict[str, Array]) -> None:
        self.program, self.parameters = program, parameters
        self.largest = LEAST_ROOM
        self.made: list[Value] = []  # values that got a variable, the newest last
        self.home: Block | None = None  # where short constants are written, if it is not the outermost block

    def __getattr__(self, type: str) -> Callable[..., Value]:
        if type not in REGISTRY:
            raise AttributeError(type)
        return partial(self.one, type)

    def one(self, type: str, *inputs: object, **attrs: object) -> Value:
        """The output of an operator that has one."""
        value: Value = self._applied(REGISTRY[type], *inputs, **attrs)
        return value

    def several(self, type: str, *inputs: object, **attrs: object) -> list[Value]:
        """The outputs of an operator that has more than one."""
        result = self._applied(REGISTRY[type], *inputs, **attrs)
        return list(result) if isinstance(result, tuple | list) else [result]

    def _applied(self, definition: OpDef, *inputs: object, **attrs: object) -> Any:
        arrays = [_array_of(value) for value in inputs]
        # Constants are folded while the model is read: whole subgraphs that compute shapes disappear.
        if all(array is not _NOT_KNOWN for array in arrays):
            self._has_room(definition, arrays, attrs)
            with np.errstate(all="ignore"):
                return _wrapped(definition(*arrays, **attrs), lambda array: Value(np.asarray(array)))
        result = _wrapped(definition(*map(self._symbol, inputs), **attrs), lambda variable: Value(variable=variable))
        if isinstance(result, Value):
            result.follows = _followed(definition, inputs, attrs)
        return result

    def _has_room(self, definition: OpDef, known: Sequence[object], attrs: Mapping[str, object]) -> None:
        """Refuse to compute what takes too much memory: a few bytes of a file may ask for any number of elements."""
        try:
            # Inference computes with types alone, so it costs nothing to ask before anything is allocated.
            result = definition.infer(*map(_type_of, known), **attrs)
        except (GraphadError, ValueError, TypeError):  # the operator itself says what is wrong
            return
        for output in [result] if isinstance(result, TensorType) else result:
            if isinstance(output, TensorType) and -1 not in output.shape:
                self.room(output.shape, output.dtype)

    def room(self, shape: Sequence[int], dtype: object) -> None:
        """ParseError where an array that is made while reading would be larger than ``largest``."""
        size = math.prod(max(int(extent), 0) for extent in shape) * np.dtype(str(dtype)).itemsize
        if size > self.largest:
            raise ParseError(f"{list(shape)} elements of {dtype} are {size:,} bytes; a constant of this file has at most {self.largest:,}")

    def recorded(self, type: str, attrs: dict[str, Any]) -> Value:
        """The output of an operator without inputs that runs with the program: one that draws random numbers."""
        return Value(variable=self.program.current_block().emit(REGISTRY[type], (), attrs))

    def _symbol(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self.variable(item) for item in value]
        return value if value is None else self.variable(value)

    def variable(self, value: Value) -> Variable:
        """The variable that has a value; constants are made in the outermost block, so that all blocks see them."""
        if value.variable is None:
            if value.array is None:
                raise ParseError(_NO_TENSOR)
            value.variable = self.constant(value.array)
            self.made.append(value)
        return value.variable

    def constant(self, array: Array) -> Variable:
        block = self.program.global_block()
        name = self.program.names.generate("constant")
        if str(array.dtype) not in DTYPES:
            raise UnsupportedModel(f"a tensor has elements of {array.dtype}; supported are {', '.join(DTYPES)}")
        # Small constants are operators, which the program's text shows; others are values beside it.
        if array.size > _FEW or array.size == 0 or array.dtype.name not in _WRITTEN:
            return self._kept(block, name, array)
        block = self.home or block
        _write(block, name, array)
        variable = block.var(name)
        variable.stop_gradient = True
        return variable

    def _kept(self, block: Block, name: str, array: Array) -> Variable:
        self.parameters[name] = array
        return block.create_var(name=name, shape=array.shape, dtype=array.dtype.name, persistable=True, stop_gradient=True)

    def like(self, number: float, value: Value) -> Value:
        """A number as a constant without axes, in the dtype of a value."""
        return Value(np.asarray(number, value.dtype))

    def forget(self, count: int) -> None:
        """Values that got a variable after the first ``count`` have none again: it was taken back."""
        # A variable that was taken back is in no block any more: where the value is needed next, it gets another one.
        for value in self.made[count:]:
            value.variable = None
        del self.made[count:]


def _followed(definition: OpDef, inputs: Sequence[object], attrs: Mapping[str, object]) -> Array | None:
    """The result of an operator at load, computed from the initial values of small parameters and of what follows from them; None for other
    operands."""
    arrays = [_array_of(value, lambda value: value.content if value.content is not None else value.follows) for value in inputs]
    if any(array is _NOT_KNOWN for array in arrays) or _elements_of(arrays) > _SMALL:
        return None
    try:
        with np.errstate(all="ignore"):
            return np.asarray(definition(*arrays, **attrs))
    except GraphadError:  # of the values, which may be others when the model runs
        return None


def _elements_of(known: Any) -> int:
    """How many elements arrays have, and lists of arrays."""
    return sum(map(_elements_of, known)) if isinstance(known, list) else 0 if known is None else int(known.size)


_NOT_KNOWN = object()
_WRITTEN = {"bool": "bool_values", "float32": "fp32_values", "float64": "fp64_values", "int32": "int32_values", "int64": "int64_values"}


def _type_of(known: object) -> object:
    if isinstance(known, list):
        return [_type_of(item) for item in known]
    return TensorType(known.shape, str(known.dtype)) if isinstance(known, np.ndarray) else known


def _array_of(value: Any, known: Callable[[Value], Array | None] = lambda value: value.array) -> Any:
    if isinstance(value, list | tuple):
        arrays = [_array_of(item, known) for item in value]
        return _NOT_KNOWN if any(array is _NOT_KNOWN for array in arrays) else arrays
    if value is None:
        return None
    array = known(value)
    return _NOT_KNOWN if array is None else array


def _wrapped(result: object, wrap: Callable[[Any], Value]) -> Any:
    if isinstance(result, tuple):
        return tuple(_wrapped(item, wrap) for item in result)
    return [wrap(item) for item in result] if isinstance(result, list) else wrap(result)


def _write(block: Block, name: str, array: Array) -> None:
    values = [int(element) for element in array.ravel()] if array.dtype.kind == "b" else array.ravel().tolist()
    attrs = {"shape": list(array.shape), "dtype": array.dtype.name, _WRITTEN[array.dtype.name]: values}
    block.append_op("assign_value", {}, {"Out": name}, attrs)


def is_tensor(value: Operand) -> TypeGuard[Value]:
    """Whether it is a tensor: not left out, and not a sequence."""
    return value is not None and value.items is None and (value.variable is None or value.variable.type == TENSOR)


def as_float(value: Value) -> Value:
    """The whole numbers that integers were rounded from, if they were; else the value."""
    return value if value.real is None else value.real


def integers(array: Array) -> list[int]:
    """The elements of an array as Python's."""
    return [int(element) for element in np.asarray(array).ravel()]


def known_integers(value: Value) -> Sequence[int | None] | None:
    """The elements of a small tensor of integers, None for those that are not known; None where nothing is."""
    elements = value.partly()
    return None if elements is None else [int(element) if is_known(element) else UNKNOWN for element in elements.ravel()]


def known_extents(value: Value) -> list[int] | None:
    """The elements of a small tensor of integers as extents: -1 or a name where they are not known; None where nothing is."""
    elements = value.partly()
    return (
        None
        if elements is None
        else [int(element) if is_known(element) else -1 if element is UNKNOWN else element for element in elements.ravel()]
    )
