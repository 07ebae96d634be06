"""The optimization part of a graph: from gradients to updated parameters, in three passes.

Here belongs what comes after the gradients in a training program. The classes that users make are in ``graphad.optimizer``, the
updates are operators in ``graphad.ops.optimizer``.

clip-gradients | decay-weights | optimize-parameters
"""

import warnings

from graphad.passes.memory import CheckpointWhile as _CheckpointWhile
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
    "ClipGradients",
    "DecayWeights",
    "OptimizeParameters",
    "Updates",
    "accumulator_name",
    "accumulators",
    "optimizers",
    "updates_of",
]


def __getattr__(name: str) -> object:
    if name != "CheckpointWhile":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message = (
        "graphad.passes.optimization.CheckpointWhile is deprecated and goes in the next minor version: use graphad.passes.CheckpointWhile"
    )
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return _CheckpointWhile
