"""Optimizers: the backward, then one operator a parameter that applies its gradient; all of it passes.

Here belong the classes that users make, and their ``minimize``. The passes that it runs are in ``graphad.passes.optimization``,
the updates themselves are operators, in ``graphad.ops.optimizer``.
"""

from typing import TYPE_CHECKING, NoReturn

from graphad.ops.definition import absent
from graphad.optimizer.averages import ExponentialMovingAverage, ModelAverage
from graphad.optimizer.base import Optimizer
from graphad.optimizer.lookahead import LookaheadOptimizer
from graphad.optimizer.methods import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    DecayedAdagrad,
    Ftrl,
    Lamb,
    LarsMomentum,
    Momentum,
    ProximalAdagrad,
    ProximalGD,
    RMSProp,
    optimize,
)
from graphad.optimizer.precision import MixedPrecisionOptimizer, decorate
from graphad.optimizer.wrapped import GradientMergeOptimizer, RecomputeOptimizer
from graphad.program import L1Decay, L2Decay
from graphad.program.clipping import ClipByGlobalNorm, ClipByNorm, ClipByValue

# Fluid has each under both names.
SGDOptimizer, MomentumOptimizer, RMSPropOptimizer = SGD, Momentum, RMSProp
AdagradOptimizer, DecayedAdagradOptimizer, AdadeltaOptimizer = Adagrad, DecayedAdagrad, Adadelta
AdamOptimizer, AdamaxOptimizer, LambOptimizer, FtrlOptimizer, LarsMomentumOptimizer = Adam, Adamax, Lamb, Ftrl, LarsMomentum

__all__ = [
    "SGD",
    "Adadelta",
    "AdadeltaOptimizer",
    "Adagrad",
    "AdagradOptimizer",
    "Adam",
    "AdamOptimizer",
    "AdamW",
    "Adamax",
    "AdamaxOptimizer",
    "ClipByGlobalNorm",
    "ClipByNorm",
    "ClipByValue",
    "DecayedAdagrad",
    "DecayedAdagradOptimizer",
    "ExponentialMovingAverage",
    "Ftrl",
    "FtrlOptimizer",
    "GradientMergeOptimizer",
    "L1Decay",
    "L2Decay",
    "Lamb",
    "LambOptimizer",
    "LarsMomentum",
    "LarsMomentumOptimizer",
    "LookaheadOptimizer",
    "MixedPrecisionOptimizer",
    "ModelAverage",
    "Momentum",
    "MomentumOptimizer",
    "Optimizer",
    "ProximalAdagrad",
    "ProximalGD",
    "RMSProp",
    "RMSPropOptimizer",
    "RecomputeOptimizer",
    "SGDOptimizer",
    "decorate",
    "optimize",
]

# What Fluid and Paddle have and this has not.
_INSTEAD = {
    "DGCMomentumOptimizer": "Momentum, and the pass bucket-all-reduce",
    "Dpsgd": "SGD: apply_gradients(pairs) of backward(loss), clipped and with layers.gaussian_random added",
    "DpsgdOptimizer": "SGD: apply_gradients(pairs) of backward(loss), clipped and with layers.gaussian_random added",
    "lr": "learning_rate= takes what layers.piecewise_decay, noam_decay and others return: the program counts its steps",
    "PipelineOptimizer": "the pass pipeline-split, on a graphad.LocalGroup or MpiExecutor",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of the module's

    def __getattr__(name: str) -> NoReturn:
        """Say what takes the place of an optimizer of Fluid's that is not here."""
        raise absent(__name__, name, __all__, _INSTEAD, "Paddle" if name == "lr" else "Fluid")


def __dir__() -> list[str]:
    return sorted(__all__)
