"""Indices checked against the extent they point into: which one is wrong, where it is, and what would be right.

``from_either_end`` counts negative indices from the end, as Paddle's gathers do. ``from_front`` refuses them, as Paddle's tables of
embeddings, scatters and labels do.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from graphad.errors import InvalidValue
from graphad.types import Array


def from_either_end(name: str, index: Array, extent: int) -> Array:
    """The indices counted from the front; InvalidValue for one outside of ``[-extent, extent)``.

    >>> from_either_end("Index", np.array([0, -1]), 3)
    array([0, 2])
    """
    if not index.size:
        return index
    lowest = index.min()
    if lowest < -extent or index.max() >= extent:
        refuse(name, index, -extent, extent)
    # Without negative indices, nearly always, the array itself.
    return np.where(index < 0, index + extent, index) if lowest < 0 else index


def from_front(name: str, index: Array, extent: int, but: int | None = None) -> Array:
    """The indices, 0 in place of those that are ``but``; InvalidValue for another one outside of ``[0, extent)``.

    >>> from_front("Ids", np.array([2, 9, 0]), 3, but=9)
    array([2, 0, 0])
    """
    # ``but`` is the index that is left out, such as padding: it points nowhere, and 0 is always there to be read.
    checked_index = index if but is None else np.where(index == but, 0, index)
    if index.size and (checked_index.min() < 0 or checked_index.max() >= extent):
        refuse(name, checked_index, 0, extent, "" if but is None else f", or {but}")
    return checked_index


def require(holds: Array, message: str) -> None:
    """InvalidValue with the message unless all of a condition holds."""
    if not holds.all():
        raise InvalidValue(message)


def refuse(name: str, index: Array, low: int, extent: int, otherwise: str = "") -> NoReturn:
    """InvalidValue for the first index outside of ``[low, extent)``."""
    wrong = (index < low) | (index >= extent)
    place = [int(axis[0]) for axis in np.nonzero(np.atleast_1d(wrong))] if index.ndim else []
    value = np.atleast_1d(index)[tuple(place)] if place else index
    place_name = f"{name}[{', '.join(map(str, place))}]" if place else name
    raise InvalidValue(
        f"{place_name} is {int(value)}, but the extent it points into is {extent}: [{low}, {extent}) is the range{otherwise}"
    )
