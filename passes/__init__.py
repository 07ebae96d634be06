"""The passes that ship with graphad, one a file; ``graphad passes`` lists them."""

if __name__ != "graphad.passes":
    raise ImportError("import this package as graphad.passes, not as passes: else every pass would exist twice")

from graphad.passes.backward import AccumulateGrads, CreateGradOps, CreateGradVars, ExpandGradOps, FindOpPath, PruneNoGrad
from graphad.passes.optimization import CheckpointWhile, ClipGradients, DecayWeights, OptimizeParameters

__all__ = [
    "AccumulateGrads",
    "CheckpointWhile",
    "ClipGradients",
    "CreateGradOps",
    "CreateGradVars",
    "DecayWeights",
    "ExpandGradOps",
    "FindOpPath",
    "OptimizeParameters",
    "PruneNoGrad",
]
