"""Derivatives besides the gradients of ``graphad.passes.backward``: forward mode, ``jvp``.

Here belong derivatives that are not backward. Gradients are in ``graphad.passes.backward``; the derivative of one operator is its
rule, in ``graphad.ops``.
"""

from graphad.passes.differentiation.jvp import Jvp, Tangents

__all__ = ["Jvp", "Tangents"]
