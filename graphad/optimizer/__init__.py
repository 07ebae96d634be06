"""Optimizers: the backward, then one operator a parameter that applies its gradient; all of it passes."""

from graphad.optimizer.adaptive import Adadelta, Adagrad, DecayedAdagrad, Ftrl, ProximalAdagrad, RMSProp
from graphad.optimizer.base import Optimizer
from graphad.optimizer.clipping import ClipByGlobalNorm, ClipByNorm, ClipByValue
from graphad.optimizer.descent import SGD, Momentum, ProximalGD, optimize
from graphad.optimizer.moments import Adam, Adamax, AdamW, Lamb
from graphad.program import L1Decay, L2Decay

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
    "Momentum",
    "MomentumOptimizer",
    "Optimizer",
    "ProximalAdagrad",
    "ProximalGD",
    "RMSProp",
    "RMSPropOptimizer",
    "SGDOptimizer",
    "optimize",
]
