"""Arrays as text: whole, as Python that makes them anew, or just so much of them as a reader takes in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST, EDGE = 12, 5
Array = NDArray[Any]


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


def number(value: Any) -> str:
    """The shortest text that gives a number back in its dtype; nan and infinities are names.

    >>> number(np.float32(0.1)), number(np.int64(3)), number(-np.inf)
    ('0.1', '3', '-inf')
    """
    return str(value) if isinstance(value, np.floating) else repr(value.item() if isinstance(value, np.generic) else value)


def short_text(array: Array) -> str:
    """An array for a reader: all of it if it has at most 12 elements, else its first and last ones.

    >>> print(short_text(np.arange(4).reshape(2, 2)), short_text(np.arange(100.0)))
    [[0, 1], [2, 3]] [0.0, 1.0, 2.0, 3.0, 4.0, ... 90 more ..., 95.0, 96.0, 97.0, 98.0, 99.0]
    """
    if array.size <= MOST:
        return _listed(array)
    first, last = (", ".join(map(number, part)) for part in (array.flat[:EDGE], array.flat[-EDGE:]))
    return f"[{first}, ... {array.size - 2 * EDGE} more ..., {last}]"
