"""How gradients are bounded before they are applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphad.errors import InvalidValue
from graphad.optimizer.checks import number


@dataclass(frozen=True)
class ClipByValue:
    """Bounds each element of the gradients to [min, bound]; ``min`` is ``-bound`` if not given.

    Raises:
        ValueError: ``min`` is above ``bound``.
    """

    bound: float
    min: float | None = None
    kind: ClassVar[str] = "value"

    def __post_init__(self) -> None:
        bound = number("the bound of ClipByValue", self.bound)
        low = -bound if self.min is None else number("min of ClipByValue", self.min)
        if low > bound:
            raise InvalidValue(f"ClipByValue bounds to [{low!r}, {bound!r}], which is empty")


@dataclass(frozen=True)
class ClipByNorm:
    """Bounds the norm of each gradient."""

    bound: float
    kind: ClassVar[str] = "norm"

    def __post_init__(self) -> None:
        _check_norm("ClipByNorm", self.bound)


@dataclass(frozen=True)
class ClipByGlobalNorm:
    """Bounds the norm of all gradients together."""

    bound: float
    kind: ClassVar[str] = "global-norm"

    def __post_init__(self) -> None:
        _check_norm("ClipByGlobalNorm", self.bound)


def _check_norm(kind: str, bound: float) -> None:
    if number(f"the bound of {kind}", bound) <= 0:
        raise InvalidValue(f"the bound of {kind} is a norm above 0, not {bound!r}")


Clip = ClipByValue | ClipByNorm | ClipByGlobalNorm
