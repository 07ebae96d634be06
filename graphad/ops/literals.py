"""Values of attributes: what the widest integer is, and how messages show a value."""

from __future__ import annotations

from typing import Any


def fits_64_bits(value: int) -> bool:
    """Whether an integer is one of int64, the widest kind of attribute that Paddle's format has."""
    return -(1 << 63) <= value < 1 << 63


def shortened(value: Any) -> str:
    """The value as Python writes it, cut where that is long."""
    text = _written(value)
    return text if len(text) <= 100 else f"{text[:80]}... ({len(text)} characters)"


def _written(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no integers of more than 4300 digits
        return f"an integer of {value.bit_length()} bits"
