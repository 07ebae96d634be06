"""Passes that make one operator of several.

Here belong passes that need fewer, larger operators. Rules that make one operator simpler are in ``graphad.passes.cleanup``; how
a fused block runs is in ``graphad.execution``.
"""

from graphad.passes.fusion.fold_batch_norm import FoldBatchNorm
from graphad.passes.fusion.fuse_elementwise import FuseElementwise

__all__ = ["FoldBatchNorm", "FuseElementwise"]
