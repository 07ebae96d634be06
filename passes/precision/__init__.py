"""Passes about the precision that operators compute in.

Here belongs what chooses dtypes for whole graphs. Which operators may compute in a narrower type is said by their traits, in
``graphad.ops``.
"""

from graphad.passes.precision.mixed_precision import MixedPrecision

__all__ = ["MixedPrecision"]
