"""The passes that ship with graphad, one a file; ``graphad passes`` lists them.

Here belongs what transforms or reports on a graph, in folders by purpose. What any pass may use is in ``graphad.rewriting``, edits of
graphs are in ``graphad.ir.edits``, and what an operator promises to passes is in ``graphad.ops.traits``.
"""

if __name__ != "graphad.passes":
    raise ImportError("import this package as graphad.passes, not as passes: else every pass would exist twice")

from typing import TYPE_CHECKING, NoReturn

from graphad.ops.definition import absent
from graphad.passes.backward import AccumulateGrads, ClipErrors, CreateGradOps, CreateGradVars, ExpandGradOps, FindOpPath, PruneNoGrad
from graphad.passes.cleanup import CanonicalOrder, ConstantFolding, Cse, DeadCode, Simplify
from graphad.passes.control_flow import FoldBranches, HoistInvariants, InlineNet, OutlineRepeated, UnrollWhile
from graphad.passes.differentiation import Jvp
from graphad.passes.distribution import BucketAllReduce, DataParallel, Partition, PipelineSplit, Shard, ShardOptimizer
from graphad.passes.fusion import FoldBatchNorm, FuseElementwise
from graphad.passes.inspection import AnnotateCost, ProbeNumerics
from graphad.passes.memory import CheckpointWhile, GradientAccumulation, InPlace, Recompute, Reorder
from graphad.passes.optimization import ClipGradients, DecayWeights, OptimizeParameters
from graphad.passes.precision import MixedPrecision

__all__ = [
    "AccumulateGrads",
    "AnnotateCost",
    "BucketAllReduce",
    "CanonicalOrder",
    "CheckpointWhile",
    "ClipErrors",
    "ClipGradients",
    "ConstantFolding",
    "CreateGradOps",
    "CreateGradVars",
    "Cse",
    "DataParallel",
    "DeadCode",
    "DecayWeights",
    "ExpandGradOps",
    "FindOpPath",
    "FoldBatchNorm",
    "FoldBranches",
    "FuseElementwise",
    "GradientAccumulation",
    "HoistInvariants",
    "InPlace",
    "InlineNet",
    "Jvp",
    "MixedPrecision",
    "OptimizeParameters",
    "OutlineRepeated",
    "Partition",
    "PipelineSplit",
    "ProbeNumerics",
    "PruneNoGrad",
    "Recompute",
    "Reorder",
    "Shard",
    "ShardOptimizer",
    "Simplify",
    "UnrollWhile",
]


if not TYPE_CHECKING:  # a type checker would take any name for one of the module's

    def __getattr__(name: str) -> NoReturn:
        """Say which pass may be meant."""
        raise absent(__name__, name, __all__)
