"""Losses of Paddle 2's ``nn.functional`` that Fluid does not have: margins between embeddings and scores, likelihoods.

Each is made of operators, with Paddle 2's signature; ``reduction`` is "mean", "sum" or "none", as in ``functional``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from graphad.errors import InvalidValue
from graphad.layers.checks import checked_flag, checked_float
from graphad.layers.functional import cosine_similarity, reduced
from graphad.layers.helper import checked_input, emitted, layer
from graphad.program import Variable
from graphad.program.source import at_users_line

Distance = Callable[[Variable, Variable], Variable]


def _tensors(what: str, *inputs: object) -> list[Variable]:
    return [checked_input(what, item) for item in inputs]


def _above_zero(x: Variable) -> Variable:
    return x.maximum(0.0)


# -- margins -------------------------------------------------------------------------------------


@layer
def cosine_embedding_loss(
    input1: Variable, input2: Variable, label: Variable, margin: float = 0.0, reduction: str = "mean", name: str | None = None
) -> Variable:
    """One less the cosine of pairs of vectors ``[N, M]`` where the label is 1, and the cosine's excess over ``margin`` where it is -1.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     x, y = ga.layers.assign([[1.0, 0.0], [1.0, 0.0]]), ga.layers.assign([[0.0, 2.0], [3.0, 0.0]])
    ...     loss = ga.layers.cosine_embedding_loss(x, y, ga.layers.assign([1, -1]), reduction="none")
    >>> ga.Executor().run(program, fetch_list=[loss])[0].tolist()
    [1.0, 1.0]
    """
    first, second, labels = _tensors("cosine_embedding_loss", input1, input2, label)
    cosines = cosine_similarity(first, second, axis=-1)
    same = (labels == 1).astype(first.dtype)
    apart = _above_zero(cosines - checked_float("layers.cosine_embedding_loss: margin", margin))
    return reduced("cosine_embedding_loss", (1.0 - cosines) * same + apart * (1.0 - same), reduction, name)


@layer
def triplet_margin_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    margin: float = 1.0,
    p: float = 2.0,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The excess of the distance to a positive example, plus ``margin``, over that to a negative one (V. Balntas et al., 2016), by the norm
    ``p``."""
    order, small = checked_float("p", p), checked_float("epsilon", epsilon)
    anchor, near, far = _tensors("triplet_margin_loss", input, positive, negative)
    return _triplet("triplet_margin_loss", anchor, near, far, lambda x, y: (x - y + small).norm(order, -1), margin, swap, reduction, name)


@layer
def triplet_margin_with_distance_loss(
    input: Variable,
    positive: Variable,
    negative: Variable,
    distance_function: Distance | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """``triplet_margin_loss`` with a function of two tensors as its distance; Euclid's if it is None."""
    what = "triplet_margin_with_distance_loss"
    anchor, near, far = _tensors(what, input, positive, negative)
    return _triplet(what, anchor, near, far, distance_function or (lambda x, y: (x - y).norm(2.0, -1)), margin, swap, reduction, name)


def _triplet(
    what: str,
    anchor: Variable,
    near: Variable,
    far: Variable,
    distance: Distance,
    margin: float,
    swap: bool,
    reduction: str,
    name: str | None,
) -> Variable:
    apart = distance(anchor, far)
    if checked_flag(f"layers.{what}: swap", swap):
        apart = apart.minimum(distance(near, far))
    # max(0, d(a, p) - d(a, n) + margin), where ``swap`` takes d(p, n) for d(a, n) if it is less.
    return reduced(what, _above_zero(distance(anchor, near) - apart + checked_float(f"layers.{what}: margin", margin)), reduction, name)


@layer
def margin_ranking_loss(
    input: Variable, other: Variable, label: Variable, margin: float = 0.0, reduction: str = "mean", name: str | None = None
) -> Variable:
    """``max(0, -label * (input - other) + margin)``: Fluid's ``margin_rank_loss`` with its tensors in another order, and reduced."""
    first, second, labels = _tensors("margin_ranking_loss", input, other, label)
    losses = _above_zero(labels * (second - first) + checked_float("layers.margin_ranking_loss: margin", margin))
    return reduced("margin_ranking_loss", losses, reduction, name)


@layer
def hinge_embedding_loss(
    input: Variable, label: Variable, margin: float = 1.0, reduction: str = "mean", name: str | None = None
) -> Variable:
    """A distance where the label is 1, and what is missing from it to ``margin`` where the label is -1."""
    distances, labels = _tensors("hinge_embedding_loss", input, label)
    same = (labels == 1).astype(distances.dtype)
    missing = _above_zero(checked_float("layers.hinge_embedding_loss: margin", margin) - distances)
    return reduced("hinge_embedding_loss", distances * same + missing * (1.0 - same), reduction, name)


@layer
def multi_margin_loss(
    input: Variable,
    label: Variable,
    p: int = 1,
    margin: float = 1.0,
    weight: Variable | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The mean over other classes of ``max(0, margin - score of the label + score)**p``: scores ``[N, C]``, labels ``[N]``."""
    scores, labels = _tensors("multi_margin_loss", input, label)
    with at_users_line("layers.multi_margin_loss"):
        if p not in (1, 2):
            raise InvalidValue(f"p is 1 or 2, not {p!r}")
    column = labels.reshape(-1, 1)
    limit, classes = checked_float("layers.multi_margin_loss: margin", margin), scores.shape[1]
    losses = _above_zero(scores - emitted("take_along_axis", [scores, column], Axis=1) + limit)
    # The class of the label itself is at a distance of just ``margin``: its share is taken out.
    share = losses if p == 1 else losses.square()
    if weight is not None:
        share = share * weight.gather(labels.reshape(-1)).reshape(-1, 1)
        return reduced(
            "multi_margin_loss", (share.sum(1) - emitted("take_along_axis", [share, column], Axis=1).sum(1)) / classes, reduction, name
        )
    return reduced("multi_margin_loss", (share.sum(1) - limit**p) / classes, reduction, name)


# -- likelihoods ---------------------------------------------------------------------------------


@layer
def soft_margin_loss(input: Variable, label: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """``log(1 + exp(-label * input))``, labels -1 or 1."""
    logits, labels = _tensors("soft_margin_loss", input, label)
    return reduced("soft_margin_loss", -emitted("logsigmoid", [labels.astype(logits.dtype) * logits]), reduction, name)


@layer
def multi_label_soft_margin_loss(
    input: Variable, label: Variable, weight: Variable | None = None, reduction: str = "mean", name: str | None = None
) -> Variable:
    """The mean over classes of the logistic loss of each: logits ``[N, C]``, labels 0 or 1."""
    logits, labels = _tensors("multi_label_soft_margin_loss", input, label)
    losses = -(labels * emitted("logsigmoid", [logits]) + (1.0 - labels) * emitted("logsigmoid", [-logits]))
    return reduced("multi_label_soft_margin_loss", (losses if weight is None else losses * weight).mean(-1), reduction, name)


@layer
def poisson_nll_loss(
    input: Variable,
    label: Variable,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The negative likelihood of counts, less the logarithm of their factorial, of which ``full`` adds Stirling's approximation.

    Args:
        input: the rates, their logarithms unless ``log_input`` is False.
        epsilon: what is added to rates before their logarithm.
    """
    rates, counts = _tensors("poisson_nll_loss", input, label)
    in_logs, small = checked_flag("layers.poisson_nll_loss: log_input", log_input), checked_float("epsilon", epsilon)
    losses = rates.exp() - counts * rates if in_logs else rates - counts * (rates + small).log()
    if checked_flag("layers.poisson_nll_loss: full", full):
        # Of counts up to 1 the approximation is left out, as in Paddle; they are 1 inside the logarithms.
        large = (counts > 1).astype(rates.dtype)
        safe = counts * large + (1.0 - large)
        losses = losses + large * (safe * safe.log() - safe + (safe * (2 * math.pi)).log() * 0.5)
    return reduced("poisson_nll_loss", losses, reduction, name)


@layer
def gaussian_nll_loss(
    input: Variable,
    label: Variable,
    variance: Variable,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "mean",
    name: str | None = None,
) -> Variable:
    """The negative likelihood of samples under normal distributions of these means and variances; ``full`` adds the constant of it.

    Variances count as ``epsilon`` where they are less, which gradients do not see.
    """
    means, samples, spread = _tensors("gaussian_nll_loss", input, label, variance)
    least = checked_float("layers.gaussian_nll_loss: epsilon", epsilon)
    # What lifts a variance to the least one is a constant: gradients reach variances below it as well.
    below = _above_zero(least - spread)
    below.stop_gradient = True
    bounded = spread + below
    losses = (bounded.log() + (means - samples).square() / bounded) * 0.5
    if checked_flag("layers.gaussian_nll_loss: full", full):
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced("gaussian_nll_loss", losses, reduction, name)


# -- what Fluid has under the same name with another meaning -------------------------------------


@layer
def smooth_l1_loss(input: Variable, label: Variable, reduction: str = "mean", delta: float = 1.0, name: str | None = None) -> Variable:
    """Half the square of differences up to ``delta``, and a line beyond.

    It is what ``layers.smooth_l1_loss`` does with ``reduction`` or ``delta``.
    """
    tensors = _tensors("smooth_l1_loss", input, label)
    _, losses = emitted("huber_loss", tensors, delta=checked_float("layers.smooth_l1_loss: delta", delta))
    return reduced("smooth_l1_loss", losses, reduction, name)


@layer
def sigmoid_focal_loss(
    logit: Variable,
    label: Variable,
    normalizer: Variable | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Variable:
    """The focal loss (T.-Y. Lin et al., 2017) of labels 0 and 1 in the logits' shape, over a normalizer.

    It is what ``layers.sigmoid_focal_loss`` does with ``reduction``, ``logit`` or ``normalizer``.
    """
    logits, labels = _tensors("sigmoid_focal_loss", logit, label)
    share, power = checked_float("layers.sigmoid_focal_loss: alpha", alpha), checked_float("layers.sigmoid_focal_loss: gamma", gamma)
    losses = emitted("sigmoid_cross_entropy_with_logits", [logits, labels])
    likely = logits.sigmoid()
    missing = likely + labels - 2.0 * likely * labels  # one less the likelihood of the label
    # -alpha_t (1 - p_t)^gamma log(p_t) (T.-Y. Lin et al., 2017, eq. 5).
    weighted = (labels * share + (1.0 - labels) * (1.0 - share)) * losses * missing**power
    return reduced("sigmoid_focal_loss", weighted if normalizer is None else weighted / normalizer, reduction, name)
