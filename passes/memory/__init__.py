"""Passes that trade memory: buffers used again, values computed again, batches run in parts.

Here belong passes that keep what is computed and change how much memory that takes, of loops as well (``checkpoint-while``). How much
that is, is estimated in ``graphad.passes.analyses``; which residuals a gradient needs at all is decided in ``graphad.passes.backward``.
"""

from graphad.passes.memory.checkpoint_while import CheckpointWhile
from graphad.passes.memory.gradient_accumulation import GradientAccumulation
from graphad.passes.memory.in_place import InPlace
from graphad.passes.memory.recompute import Recompute, Recomputed
from graphad.passes.memory.reorder import Reorder, Reordered

__all__ = ["CheckpointWhile", "GradientAccumulation", "InPlace", "Recompute", "Recomputed", "Reorder", "Reordered"]
