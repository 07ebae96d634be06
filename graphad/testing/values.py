"""Values that are arrays or made of arrays: what is in them, the same with other arrays in it, their types, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from graphad.ops.aggregates import Aggregate, Tape, TensorArray, zeros_like
from graphad.ops.sample import Value
from graphad.types import FLOATS, STEP_SCOPES, TENSOR, TENSOR_ARRAY, Array, TensorType

# -- array text ------------------------------------------------------------------------------------
# Arrays as text: whole, as Python that makes them again, or just so much of them as a reader takes in.

MOST, EDGE = 12, 5


def array_text(array: Array) -> str:
    """A Python expression over ``array``, ``full``, ``inf`` and ``nan`` of numpy, with the same dtype, shape and bits.

    >>> print(array_text(np.array([0.1, 2.0], "float32")), array_text(np.zeros((0, 3))), array_text(np.ones((9, 9))))
    array([0.1, 2.0], 'float32') full((0, 3), 0.0, 'float64') full((9, 9), 1.0, 'float64')
    """
    dtype = repr(array.dtype.name)
    if not array.size or (array.size > MOST and array.tobytes() == array.flat[:1].tobytes() * array.size):
        value = number(array.flat[0]) if array.size else number(np.zeros((), array.dtype)[()])
        return f"full({array.shape!r}, {value}, {dtype})"
    return f"array({_listed(array)}, {dtype})"


def _listed(array: Array) -> str:
    return number(array[()]) if array.ndim == 0 else f"[{', '.join(map(_listed, array))}]"


def number(value: object) -> str:
    """The shortest text that gives a number back in its dtype; nan and infinities are names.

    >>> number(np.float32(0.1)), number(np.int64(3)), number(-np.inf)
    ('0.1', '3', '-inf')
    """
    return str(value) if isinstance(value, np.floating) else repr(value.item() if isinstance(value, np.generic) else value)


def short_text(array: Array) -> str:
    """An array for a reader: all of it if it has at most 12 elements, else its first and last ones.

    >>> print(short_text(np.arange(4).reshape(2, 2)), short_text(np.arange(100.0)))
    [[0, 1], [2, 3]] [0.0, 1.0, 2.0, 3.0, 4.0, ... 90 more ..., 95.0, 96.0, 97.0, 98.0, 99.0]
    >>> print(short_text(np.zeros(0)), short_text(np.zeros((10**9, 0))))
    [] nothing, of shape [1000000000, 0]
    """
    if not array.size and array.ndim > 1:
        return f"nothing, of shape {list(array.shape)}"
    if array.size <= MOST:
        return _listed(array)
    first, last = (", ".join(map(number, part)) for part in (array.flat[:EDGE], array.flat[-EDGE:]))
    return f"[{first}, ... {array.size - 2 * EDGE} more ..., {last}]"


# -- values ----------------------------------------------------------------------------------------
# Values that are arrays or made of arrays: what is in them, the same with other arrays in it, and their types.

STANDS_IN = TensorType((), "float32")  # the type of what has no shape: a tape, an array without elements


def arrays(value: Value) -> list[Array]:
    """The arrays in a value, in order; none if there is no value."""
    if isinstance(value, Aggregate):
        return [array for part in value.parts() for array in arrays(part)]
    return [] if value is None else [value]


def remade(value: Value, others: Iterable[Array]) -> Value:
    """The value with other arrays in it, given in the order of ``arrays``."""
    return _remade(value, iter(others))


def _remade(value: Value, others: Iterator[Array]) -> Value:
    if isinstance(value, TensorArray):
        array = value.zeros_like()
        for index, item in value.items():
            array = array.write(index, _remade(item, others))
        return array
    if isinstance(value, Tape):
        tape = Tape()
        for entry in value.entries():
            tape = tape.push([_remade(item, others) for item in entry])
        return tape
    return next(others)


def filled(gradient: Value, like: Value) -> list[Array]:
    """The arrays of a gradient with respect to ``like``, in the order of its arrays: zeros where an array of tensors has nothing."""
    gradient = zeros_like(like) if gradient is None else gradient
    if isinstance(like, TensorArray):
        entries = dict(gradient.items())
        return [array for index, item in like.items() for array in filled(entries.get(index), item)]
    if isinstance(like, Tape):
        pairs = zip(gradient.parts(), like.parts(), strict=True)
        return [array for part, item in pairs for array in filled(part, item)]
    return [gradient]


def is_float(value: Value) -> bool:
    """Whether there is a value, and all its arrays are of floating point."""
    return value is not None and all(array.dtype.name in FLOATS for array in arrays(value))


_NAMES: dict[np.dtype[np.generic], str] = {}


def name_of(dtype: np.dtype[np.generic]) -> str:
    """The name of a dtype; numpy takes long to make it."""
    name = _NAMES.get(dtype)
    if name is None:
        name = _NAMES[dtype] = dtype.name
    return name


def type_of(value: Value) -> TensorType:
    """The type of a tensor; for an array of tensors what holds for all of them."""
    if not isinstance(value, Aggregate):
        return TensorType(value.shape, name_of(value.dtype))
    elements = arrays(value)
    if isinstance(value, Tape) or not elements:
        return STANDS_IN
    extents = zip(*(array.shape for array in elements), strict=True)
    return TensorType(tuple(e[0] if len(set(e)) == 1 else -1 for e in extents), elements[0].dtype.name)


def kind_of(value: Value) -> str:
    """The kind of variable that holds the value."""
    return TENSOR_ARRAY if isinstance(value, TensorArray) else STEP_SCOPES if isinstance(value, Aggregate) else TENSOR


def random_like(value: Value, rng: np.random.Generator) -> Value:
    """A value made like this one of random arrays."""
    return remade(value, [np.asarray(rng.uniform(-1, 1, array.shape)) for array in arrays(value)])
