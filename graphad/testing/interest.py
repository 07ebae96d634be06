"""What a pass on trial looks at: random programs lean to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interest:
    """Names that the code of a pass mentions: operator types, and attributes."""

    types: tuple[str, ...] = ()
    attrs: tuple[str, ...] = ()
