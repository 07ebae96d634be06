"""Scopes: values that outlive a run, such as parameters, accumulators and counters, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from graphad.contexts import binding
from graphad.errors import InvalidType, InvalidValue
from graphad.showing import Table
from graphad.types import Array


class Stored:
    """A name in a scope, as Fluid's scopes return them: it and its tensor are this.

    >>> scope = Scope()
    >>> scope.set("w", [1.0, 2.0])
    >>> tensor = scope.find_var("w").get_tensor()
    >>> tensor.set([3.0, 4.0], None)
    >>> np.array(tensor), tensor.shape()
    (array([3., 4.]), [2])
    """

    def __init__(self, scope: Scope, name: str) -> None:
        self._scope, self.name = scope, name

    def get_tensor(self) -> Stored:
        """Its tensor: it holds one itself."""
        return self

    def set(self, array: object, place: object = None) -> None:
        """Store a copy of an array under the name."""
        self._scope.set(self.name, array)

    def shape(self) -> list[int]:
        """The extents of the array; ValueError if there is none."""
        return list(self._scope.get(self.name).shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        # A copy, so that whoever changes it does not change the parameter.
        return np.array(self._scope.get(self.name), dtype=dtype)

    def __repr__(self) -> str:
        return f"<{self.name!r} of a scope: {self._scope.arrays.get(self.name)!r}>"


class Scope:
    """Arrays by variable name.

    >>> scope = Scope()
    >>> scope.set("w", [1.0, 2.0])
    >>> scope.get("w")
    array([1., 2.])
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.runs = 0

    def __repr__(self) -> str:
        return f"<Scope of {len(self.arrays)} values>"

    def _repr_html_(self) -> str:
        """The values' names and types, for notebooks."""
        return self.table()._repr_html_()

    def table(self) -> Table:
        """A table of the values: name, dtype, shape, and bytes."""
        rows = tuple((name, str(array.dtype), str(list(array.shape)), array.nbytes) for name, array in self.arrays.items())
        return Table(("name", "dtype", "shape", "bytes"), rows)

    def set(self, name: str, array: object) -> None:
        """Store a copy of an array under a name; InvalidType unless it is of numbers, InvalidValue if some are masked."""
        if not isinstance(name, str):
            raise InvalidType(f"a scope stores arrays by name, not by {name!r}")
        if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
            raise InvalidValue(f"{name!r} has masked elements, and a tensor has no mask; say what they are with .filled(...)")
        copy = np.array(array)
        if copy.dtype.kind not in "biuf":
            raise InvalidType(f"a scope stores arrays of numbers, not of {copy.dtype} as for {name!r}")
        self.arrays[name] = copy

    def get(self, name: str) -> Array:
        """The array of a name, read-only (change it with ``set``); ValueError if there is none."""
        if name not in self.arrays:
            raise InvalidValue(f"the scope has no value for {name!r}; has the startup program been run in it?")
        # A view: reading a parameter must not take its memory a second time.
        view = self.arrays[name].view()
        view.flags.writeable = False
        return view

    def has(self, name: str) -> bool:
        """Whether the scope has a value for the name."""
        return name in self.arrays

    def find_var(self, name: str) -> Stored | None:
        """The variable of a name, None if the scope has none: ``scope.find_var(name).get_tensor()`` is the array, as in Fluid."""
        return Stored(self, name) if name in self.arrays else None

    def var(self, name: str) -> Stored:
        """A place for a name, which has a value once one is set: ``scope.var(name).get_tensor().set(array, place)``."""
        return Stored(self, name)

    def names(self) -> list[str]:
        """The names that have values, in the order they were first set."""
        return list(self.arrays)

    def erase(self, names: Any) -> None:
        """Forget the values of some names, so that initialization operators run for them again."""
        for name in [names] if isinstance(names, str) else list(names):
            self.arrays.pop(name, None)


# The default for all threads; guards are per context, since a ContextVar is.
_of_process = Scope()
_guarded: ContextVar[Scope | None] = ContextVar("scope", default=None)


def global_scope() -> Scope:
    """The scope that runs use if none is given: that of the innermost ``scope_guard``, else one for the whole process."""
    scope = _guarded.get()
    return _of_process if scope is None else scope


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Within it, ``scope`` is the global scope: in this thread or asyncio task, and in tasks started within it."""
    if not isinstance(scope, Scope):
        raise InvalidType(f"scope_guard takes a Scope, not {scope!r}")
    with binding(_guarded, scope):
        yield
