"""The forms of functions over ``jax.numpy``, and what they note about the values that they see."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphad.jax.xla_array import XlaArray, wrapped
from graphad.ops.aggregates import Aggregate
from graphad.types import Function, Tensor

ROOM = 16  # outside of a program
FORMS: dict[Function, Function] = {}


class Watcher(Protocol):
    """The lowering, as forms see it.

    Attributes:
        capacity: how many elements an array may have that is begun in a loop.
        sides: the sides of branches that are being lowered, the innermost last: 0 for true, 1 for false.
    """

    capacity: int
    sides: list[int]

    def note(self, wrong: Tensor, message: str) -> None:
        """If ``wrong`` holds when the program runs, the operator fails with the message."""


WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def replaces(*functions: Function) -> Callable[[Function], Function]:
    """Let a function over jax's arrays take the place of functions over numpy's, wherever kernels call them.

    Its arguments are arrays of numpy or of jax where the caller has ``XlaArray``; what it returns becomes one.
    """

    def add(form: Function) -> Function:
        @wraps(form)
        def call(*args: Tensor, **options: Tensor) -> Tensor:
            return _wrapped(form(*map(plain, args), **{name: plain(option) for name, option in options.items()}))

        for function in functions:
            FORMS[function] = call
        return form

    return add


def plain(value: Tensor) -> Tensor:
    """An argument of a kernel with XlaArrays unwrapped."""
    if isinstance(value, XlaArray):
        return value.value
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


def _wrapped(value: Tensor) -> Tensor:
    if type(value) in (list, tuple):
        return type(value)(map(_wrapped, value))
    return value if isinstance(value, Aggregate) else wrapped(value)


def refuse(wrong: Tensor, message: str) -> None:
    """Have the operator fail with a message if ``wrong`` holds: at once if that is known, else when the program runs."""
    watcher = WATCHER.get()
    if watcher is not None:
        watcher.note(wrong, message)


def room() -> int:
    """How many elements an array may have that is begun in a loop."""
    watcher = WATCHER.get()
    return ROOM if watcher is None else watcher.capacity


def side() -> int:
    """The side of the innermost branch that is being lowered."""
    watcher = WATCHER.get()
    assert watcher is not None
    return watcher.sides[-1]


def rounded(x: Tensor) -> Tensor:
    """The same numbers, which a sum after it cannot be computed together with."""
    # XLA multiplies and adds in one instruction where it can, which rounds once; numpy rounds twice. One of two neighbours is even, so
    # this changes no bit, which no compiler knows: a barrier of XLA's is gone before such instructions are chosen.
    word = np.dtype(f"int{8 * np.dtype(x.dtype).itemsize}").type
    bits = lax.bitcast_convert_type(x, word)
    return lax.bitcast_convert_type(bits ^ (bits * (bits + word(1)) & word(1)), x.dtype)


def is_traced(*values: Tensor) -> bool:
    """Whether one of the values is known only when the program runs."""
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(list(values)))


def like(x: Tensor) -> Tensor:
    """``jax.numpy`` for what is traced, else numpy: what is known stays known."""
    return jnp if is_traced(x) else np
