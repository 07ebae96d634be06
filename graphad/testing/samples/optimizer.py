"""Samples of the operators in ``graphad.ops.optimizer``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.types import Array

BASE: dict[str, Array | list[Array]] = {"Param": uniform(2, 3), "Grad": uniform(2, 3, seed=1), "LearningRate": np.array([0.1])}
POWERS = {"Beta1Pow": np.array([0.9]), "Beta2Pow": np.array([0.999])}


def states(*names: str) -> dict[str, Array]:
    """Accumulators, none of them negative."""
    return {name: uniform(2, 3, low=0.0, high=1.0, seed=i) for i, name in enumerate(names)}


def sample(*names: str, inputs: dict[str, Array] | None = None, **attrs: object) -> Sample:
    """An update of a 2 x 3 parameter."""
    return Sample({**BASE, **states(*names), **(inputs or {})}, attrs)


SAMPLES: dict[str, list[Sample]] = {
    "sgd": [
        sample(),
        Sample({"Param": uniform(), "Grad": uniform(seed=1), "LearningRate": np.array(0.1)}),
        sample(inputs={"SkipUpdate": np.array([True])}),
    ],
    "momentum": [
        sample("Velocity", mu=0.9),
        sample("Velocity", mu=0.9, use_nesterov=True, rescale_grad=0.5, regularization_method="l2_decay", regularization_coeff=0.1),
    ],
    "lars_momentum": [
        sample("Velocity", mu=0.9, lars_coeff=0.1, lars_weight_decay=0.2),
        sample("Velocity", mu=0.9, lars_weight_decay=0.0, epsilon=0.1),
    ],
    "adam": [
        sample("Moment1", "Moment2", inputs=POWERS),
        sample("Moment1", "Moment2", inputs=POWERS, beta1=0.8, use_global_beta_pow=True),
        sample("Moment1", "Moment2", inputs={**POWERS, "SkipUpdate": np.array([True])}),
    ],
    "adamax": [sample("Moment", "InfNorm", inputs={"Beta1Pow": np.array([0.9])})],
    "adamw": [
        sample("Moment1", "Moment2", inputs=POWERS),
        sample("Moment1", "Moment2", inputs=POWERS, with_decay=True, coeff=0.5, lr_ratio=0.25, beta2=0.9),
    ],
    "lamb": [
        sample("Moment1", "Moment2", inputs=POWERS, weight_decay=0.1),
        sample("Moment1", "Moment2", inputs=POWERS, weight_decay=0.0, always_adapt=True),
        sample("Moment1", "Moment2", inputs={**POWERS, "Param": np.zeros((2, 3))}, weight_decay=0.1),  # a norm of 0: the trust ratio is 1
    ],
    "adagrad": [sample("Moment")],
    "decayed_adagrad": [sample("Moment", decay=0.75)],
    "ftrl": [
        sample("SquaredAccumulator", "LinearAccumulator", l1=0.5, l2=0.25),
        # -0.5 has a square root in the place of the power.
        sample("SquaredAccumulator", "LinearAccumulator", lr_power=-0.75),
    ],
    "proximal_gd": [sample(l1=0.5, l2=0.25), sample()],
    "proximal_adagrad": [sample("Moment", l1=0.5, l2=0.25), sample(inputs={"Moment": np.zeros((2, 3)), "Grad": np.zeros((2, 3))})],
    "adadelta": [
        sample("AvgSquaredGrad", "AvgSquaredUpdate"),
        Sample({k: v for k, v in {**BASE, **states("AvgSquaredGrad", "AvgSquaredUpdate")}.items() if k != "LearningRate"}),
    ],
    "rmsprop": [
        sample("MeanSquare", "Moment", momentum=0.5),
        # Above the square of the mean, so that the variance under the root is positive.
        sample("MeanSquare", "MeanGrad", "Moment", inputs={"MeanSquare": uniform(2, 3, low=1.5, high=2.0)}, centered=True),
    ],
    "clip_by_norm": [Sample({"X": uniform(2, 3)}, {"max_norm": 0.5}), Sample({"X": uniform(2, 3)}, {"max_norm": 50.0})],
}
