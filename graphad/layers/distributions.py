"""Distributions as Fluid 1.8 has them: samples, densities, entropies and divergences, all of operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphad.errors import InvalidType, ShapeError
from graphad.layers.helper import checked_input, emitted
from graphad.layers.tensor import assign
from graphad.program import Variable


def _tensor(what: str, value: object) -> Variable:
    """A parameter of a distribution: a Variable, a number, a list or an array of numbers."""
    if isinstance(value, Variable):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | list | tuple | np.ndarray | np.generic):
        raise InvalidType(f"{what} is a Variable, a number or an array, not {value!r}")
    # Python's numbers are float64 to numpy; only an array that is of float64 itself is meant so.
    array = np.asarray(value)
    return assign(array.astype(array.dtype if array.dtype in (np.float32, np.float64) and isinstance(value, np.ndarray) else "float32"))


def _drawn(op: str, shape: Sequence[int], like: Variable, seed: int, **attrs: float) -> Variable:
    """Random numbers of a shape before that of the parameters."""
    if -1 in like.shape:
        raise ShapeError(f"the shape of {like!r} is known when samples are drawn of it")
    sample: Variable = emitted(op, [], shape=[*shape, *like.shape], seed=seed, dtype=like.dtype, **attrs)
    sample.stop_gradient = True
    return sample


class Uniform:
    """The uniform distribution of [low, high).

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as guard:
    ...     entropy = ga.layers.Uniform(0.0, 2.0).entropy()
    ...     print(ga.Executor().run(ga.default_main_program(), {}, [entropy])[0].round(4))
    0.6931
    """

    def __init__(self, low: object, high: object) -> None:
        self.low, self.high = _tensor("layers.Uniform: low", low), _tensor("layers.Uniform: high", high)

    def sample(self, shape: Sequence[int], seed: int = 0) -> Variable:
        """Numbers of shape ``[*shape, *low.shape]``."""
        width = self.high - self.low
        return _drawn("uniform_random", shape, width, seed, min=0.0, max=1.0) * width + self.low

    def log_prob(self, value: Variable) -> Variable:
        """The logarithm of the density, -inf outside."""
        x = checked_input("Uniform.log_prob", value)
        # log(0) is -inf.
        inside = ((x > self.low) & (x < self.high)).astype(x.dtype)
        return inside.log() - (self.high - self.low).log()

    def entropy(self) -> Variable:
        """The entropy in nats."""
        return (self.high - self.low).log()


class Normal:
    """The normal distribution of a mean and a standard deviation."""

    def __init__(self, loc: object, scale: object) -> None:
        self.loc, self.scale = _tensor("layers.Normal: loc", loc), _tensor("layers.Normal: scale", scale)

    def sample(self, shape: Sequence[int], seed: int = 0) -> Variable:
        """Numbers of shape ``[*shape, *loc.shape]``."""
        like = self.loc + self.scale
        # The noise alone is drawn, so that gradients reach both parameters (D. P. Kingma and M. Welling, 2014).
        return _drawn("gaussian_random", shape, like, seed, mean=0.0, std=1.0) * self.scale + self.loc

    def entropy(self) -> Variable:
        """The entropy in nats."""
        # In the shape that both parameters are broadcast to.
        return (self.loc * 0.0 + self.scale).log() + (0.5 + 0.5 * math.log(2.0 * math.pi))

    def log_prob(self, value: Variable) -> Variable:
        """The logarithm of the density."""
        away = (checked_input("Normal.log_prob", value) - self.loc) / self.scale
        return away.square() * -0.5 - self.scale.log() - 0.5 * math.log(2.0 * math.pi)

    def kl_divergence(self, other: Normal) -> Variable:
        """The Kullback-Leibler divergence of the distribution from another normal distribution, in nats."""
        if not isinstance(other, Normal):
            raise InvalidType(f"Normal.kl_divergence takes another Normal, not {other!r}")
        # (s1^2 / s2^2 + (m1 - m2)^2 / s2^2 - 1 - log(s1^2 / s2^2)) / 2.
        ratio = (self.scale / other.scale).square()
        away = ((self.loc - other.loc) / other.scale).square()
        return (ratio + away - 1.0 - ratio.log()) * 0.5


class Categorical:
    """The distribution over classes of unnormalized logarithms ``[..., classes]``."""

    def __init__(self, logits: object) -> None:
        self.logits = _tensor("layers.Categorical: logits", logits)

    def _log_probabilities(self) -> Variable:
        return emitted("log_softmax", [self.logits], axis=-1)  # type: ignore[no-any-return]

    def entropy(self) -> Variable:
        """The entropy in nats, ``[..., 1]``."""
        likely = self._log_probabilities()
        return -(likely.exp() * likely).sum(-1, keepdims=True)

    def kl_divergence(self, other: Categorical) -> Variable:
        """The Kullback-Leibler divergence of the distribution from another distribution over the same classes, in nats, ``[..., 1]``."""
        if not isinstance(other, Categorical):
            raise InvalidType(f"Categorical.kl_divergence takes another Categorical, not {other!r}")
        likely = self._log_probabilities()
        return (likely.exp() * (likely - other._log_probabilities())).sum(-1, keepdims=True)


class MultivariateNormalDiag:
    """The normal distribution of a mean ``[n]`` and a diagonal matrix of variances ``[n, n]``."""

    def __init__(self, loc: object, scale: object) -> None:
        self.loc = _tensor("layers.MultivariateNormalDiag: loc", loc)
        self.scale = _tensor("layers.MultivariateNormalDiag: scale", scale)
        if self.scale.ndim != 2 or self.scale.shape[0] != self.scale.shape[1] or self.scale.shape[0] < 1:
            raise ShapeError(f"layers.MultivariateNormalDiag: scale is a square matrix of known extent, not {self.scale!r}")
        self.width = self.scale.shape[0]

    def _variances(self) -> Variable:
        return emitted("diagonal", [self.scale], offset=0, axis1=0, axis2=1)  # type: ignore[no-any-return]

    def entropy(self) -> Variable:
        """The entropy in nats."""
        return (self._variances().log().sum() + self.width * (1.0 + math.log(2.0 * math.pi))) * 0.5

    def kl_divergence(self, other: MultivariateNormalDiag) -> Variable:
        """The Kullback-Leibler divergence of the distribution from another distribution, in nats."""
        if not isinstance(other, MultivariateNormalDiag):
            raise InvalidType(f"MultivariateNormalDiag.kl_divergence takes another one, not {other!r}")
        variances, other_variances = self._variances(), other._variances()
        away = other.loc - self.loc
        # The trace and the distance of the means; below, the width and the logarithms of the determinants, which are sums along diagonals.
        parts = (variances / other_variances).sum() + (away.square() / other_variances).sum()
        return (parts - float(self.width) + other_variances.log().sum() - variances.log().sum()) * 0.5
