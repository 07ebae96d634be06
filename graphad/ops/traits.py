"""What an operator promises beyond its types: what passes ask of its row, so that they need not know it by name.

    @operator("X -> Out", infer=same_float, grad=..., elementwise=True)

A promise not made is no promise, so that a pass leaves alone what it knows nothing of. ``tests/ops/test_traits.py`` holds every promise
against the kernel, and looks for operators that could make one and do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict


class Declared(TypedDict, total=False):
    """The traits as they are written at an operator; names of slots are words in a text."""

    commutative: bool
    elementwise: bool


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Traits:
    """The traits of an operator. All are promises about any call that its inference accepts.

    Attributes:
        commutative: where all attributes have their defaults, its two inputs, or those of its one variadic slot, may change places:
            not a bit of the output changes, nor of the gradients.
        elementwise: each element of its one output is made of the elements at that place of the required inputs, and of nothing
            else. Inputs are of one shape, or of one element, which stands for as many as there are; two inputs may be broadcast,
            with ``axis`` where there is one. It draws no random numbers and has no effect.
    """

    commutative: bool = False
    elementwise: bool = False
