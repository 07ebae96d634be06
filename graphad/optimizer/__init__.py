"""Optimizers: the backward, then one operator a parameter that applies its gradient; all of it passes.

Here belong the classes that users make, and their ``minimize``. The passes that it runs are in ``graphad.passes.optimization``,
the updates themselves are operators, in ``graphad.ops.optimizer``.
"""

from graphad.optimizer.base import Optimizer
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
    Momentum,
    ProximalAdagrad,
    ProximalGD,
    RMSProp,
    optimize,
)
from graphad.optimizer.precision import MixedPrecisionOptimizer, decorate
from graphad.program import L1Decay, L2Decay
from graphad.program.clipping import ClipByGlobalNorm, ClipByNorm, ClipByValue

# Fluid has each under both names.
SGDOptimizer, MomentumOptimizer, RMSPropOptimizer = SGD, Momentum, RMSProp
AdagradOptimizer, DecayedAdagradOptimizer, AdadeltaOptimizer = Adagrad, DecayedAdagrad, Adadelta
AdamOptimizer, AdamaxOptimizer, LambOptimizer, FtrlOptimizer = Adam, Adamax, Lamb, Ftrl

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
    "Ftrl",
    "FtrlOptimizer",
    "L1Decay",
    "L2Decay",
    "Lamb",
    "LambOptimizer",
    "MixedPrecisionOptimizer",
    "Momentum",
    "MomentumOptimizer",
    "Optimizer",
    "ProximalAdagrad",
    "ProximalGD",
    "RMSProp",
    "RMSPropOptimizer",
    "SGDOptimizer",
    "decorate",
    "optimize",
]
