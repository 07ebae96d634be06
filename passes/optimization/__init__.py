"""The optimization part of a graph: from gradients to updated parameters, in three passes.

Here belongs what comes after the gradients in a training program. The classes that users make are in ``graphad.optimizer``, the
updates are operators in ``graphad.ops.optimizer``.

clip-gradients | decay-weights | optimize-parameters

And ``checkpoint-while``, which trades the memory of loops for time.
"""

from graphad.passes.optimization.checkpoint_while import CheckpointWhile
from graphad.passes.optimization.clip_gradients import ClipGradients
from graphad.passes.optimization.decay_weights import DecayWeights
from graphad.passes.optimization.optimize_parameters import (
    OptimizeParameters,
    Updates,
    accumulator_name,
    accumulators,
    optimizers,
    updates_of,
)

__all__ = [
    "CheckpointWhile",
    "ClipGradients",
    "DecayWeights",
    "OptimizeParameters",
    "Updates",
    "accumulator_name",
    "accumulators",
    "optimizers",
    "updates_of",
]
