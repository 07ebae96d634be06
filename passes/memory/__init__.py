"""Passes that trade memory: buffers used again, values computed again, batches run in parts.

Here belong passes that keep what is computed and change how much memory that takes. Keeping less of a loop is
``checkpoint-while``, in ``graphad.passes.optimization``.
"""

from graphad.passes.memory.gradient_accumulation import GradientAccumulation
from graphad.passes.memory.in_place import InPlace
from graphad.passes.memory.recompute import Recompute, Recomputed
from graphad.passes.memory.reorder import Reorder, Reordered

__all__ = ["GradientAccumulation", "InPlace", "Recompute", "Recomputed", "Reorder", "Reordered"]
