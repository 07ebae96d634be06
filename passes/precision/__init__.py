"""Passes about the precision that operators compute in."""

from graphad.passes.precision.mixed_precision import MixedPrecision

__all__ = ["MixedPrecision"]
