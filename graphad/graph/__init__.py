"""Deprecated: the graphs are in ``graphad.ir``; this name goes with the next minor version."""

from __future__ import annotations

import warnings
from typing import Any

from graphad import ir

__all__ = list(ir.__all__)


def __getattr__(name: str) -> Any:
    """A public name of ``graphad.ir``, with a warning."""
    if name not in ir.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"graphad.graph.{name} is graphad.ir.{name} now", DeprecationWarning, stacklevel=2)
    return getattr(ir, name)
