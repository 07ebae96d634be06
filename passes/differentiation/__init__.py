"""Derivatives besides the gradients of ``graphad.passes.backward``: forward mode, ``jvp``."""

from graphad.passes.differentiation.jvp import Jvp
from graphad.passes.differentiation.tangents import Tangents

__all__ = ["Jvp", "Tangents"]
