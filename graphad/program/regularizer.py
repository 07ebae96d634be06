"""Weight decay, as parameters and optimizers name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class L1Decay:
    """Adds ``coefficient * sign(w)`` to the gradient."""

    coefficient: float = 0.0
    kind: ClassVar[str] = "l1"


@dataclass(frozen=True)
class L2Decay:
    """Adds ``coefficient * w`` to the gradient."""

    coefficient: float = 0.0
    kind: ClassVar[str] = "l2"


Regularizer = L1Decay | L2Decay
