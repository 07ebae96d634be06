"""Printing from XLA, by a callback in the order of the program; functions of Python are not called."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

from graphad.errors import NotLowered
from graphad.jax.registry import replaces
from graphad.ops import callbacks
from graphad.types import Tensor


@replaces(callbacks.print_.kernel)
def _print(In: Tensor, Counter: Tensor = None, **attrs: Any) -> Tensor:
    operands = [In] if Counter is None else [In, Counter]
    jax.debug.callback(partial(_printed, attrs), *operands, ordered=True)
    return In


def _printed(attrs: dict[str, Any], *operands: Tensor) -> None:
    callbacks.print_.kernel(*map(np.asarray, operands), **attrs)


@replaces(callbacks.py_func.kernel)
def _py_func(X: list[Tensor] | None = None, *, function: str, **_: object) -> list[Tensor]:
    raise NotLowered(f"it calls the function {function!r} of Python, which XLA cannot: run the program with Executor")
