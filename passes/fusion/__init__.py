"""Passes that make one operator of several."""

from graphad.passes.fusion.fold_batch_norm import FoldBatchNorm
from graphad.passes.fusion.fuse_elementwise import FuseElementwise

__all__ = ["FoldBatchNorm", "FuseElementwise"]
