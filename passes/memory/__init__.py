"""Passes that trade memory: buffers used again, values computed again, batches run in parts."""

from graphad.passes.memory.gradient_accumulation import GradientAccumulation
from graphad.passes.memory.in_place import InPlace
from graphad.passes.memory.recompute import Recompute, Recomputed

__all__ = ["GradientAccumulation", "InPlace", "Recompute", "Recomputed"]
