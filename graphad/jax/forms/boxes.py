"""Non-maximum suppression in XLA: boxes chosen one after the other, with room for as many as there may be."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from graphad.errors import NotLowered
from graphad.jax.bounded import LEAST, Bounded
from graphad.jax.forms.indices import held
from graphad.jax.registry import replaces, rounded
from graphad.ops import embedding, matching, proposals, second_stage, sort, suppression, vision
from graphad.types import Tensor


@replaces(vision.non_max_suppression.kernel)
def _non_max_suppression(
    Boxes: Tensor, Scores: Tensor, *, most: int, iou_threshold: float = 0.0, score_threshold: float = -math.inf, center: bool = False
) -> Bounded:
    """Rows of image, class and box: for each class ``most`` steps, in which its best box that is left goes, or none."""
    corners, scores = _corners(jnp.asarray(Boxes), center), jnp.asarray(Scores)
    images, classes, count = scores.shape
    steps = min(most, count)
    if not images * classes * steps:
        return Bounded(jnp.zeros((LEAST, 3), jnp.int64), jnp.zeros((), jnp.int64), 0)

    def of_class(boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        order = jnp.argsort(-scores, stable=True)
        ranked = boxes[order]

        def step(left: Tensor, _: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            # In the order of the scores, so the first that is left is the best.
            best, there_is = jnp.argmax(left), left.any()
            survives = ~(_overlaps(ranked[best], ranked) > iou_threshold)
            return left & survives & (jnp.arange(count) != best), (order[best], there_is)

        return lax.scan(step, scores[order] > score_threshold, length=steps)[1]

    places, are_there = jax.vmap(jax.vmap(of_class, (None, 0)), (0, 0))(corners, scores)
    image, label, _ = jnp.indices(places.shape)
    rows = jnp.stack([image, label, places], axis=-1).reshape(-1, 3).astype(jnp.int64)
    at, number = held(are_there)
    return Bounded.first(jnp.take(rows, at, 0, mode="clip"), number, 0)


@replaces(
    suppression.multiclass_nms3.kernel,
    suppression.matrix_nms.kernel,
    proposals.generate_proposals.kernel,
    proposals.generate_proposals_v2.kernel,
    proposals.distribute_fpn_proposals.kernel,
    proposals.collect_fpn_proposals.kernel,
    proposals.retinanet_detection_output.kernel,
    proposals.locality_aware_nms.kernel,
)
def _suppressed(*_: object, **__: object) -> Tensor:
    raise NotLowered("how many boxes stay is known only as it runs: use layers.non_max_suppression, or fetch boxes and scores")


@replaces(
    matching.bipartite_match.kernel,
    matching.mine_hard_examples.kernel,
    matching.rpn_target_assign.kernel,
    matching.retinanet_target_assign.kernel,
    second_stage.generate_proposal_labels.kernel,
    second_stage.generate_mask_labels.kernel,
)
def _matched(*_: object, **__: object) -> Tensor:
    raise NotLowered("which boxes match is chosen one after the other in numpy: run the program with Executor, or feed the matches")


@replaces(embedding.hash_.kernel, sort.similarity_focus.kernel)
def _by_bytes(*_: object, **__: object) -> Tensor:
    raise NotLowered("it goes through bytes, or from element to element, in numpy: compute it before, and feed the result")


def _corners(boxes: Tensor, center: bool) -> Tensor:
    """Boxes as their lower corners and their upper corners."""
    a, b = boxes[..., :2], boxes[..., 2:]
    first, second = (a - b / 2, a + b / 2) if center else (a, b)
    return jnp.concatenate([jnp.minimum(first, second), jnp.maximum(first, second)], axis=-1)


def _overlaps(box: Tensor, others: Tensor) -> Tensor:
    """Intersections over unions, in double precision as the thresholds are; rounded as numpy's, since they are compared with them."""
    inner = rounded(jnp.maximum(jnp.minimum(box[2:], others[:, 2:]) - jnp.maximum(box[:2], others[:, :2]), 0).prod(axis=-1))
    areas, area = rounded((others[:, 2:] - others[:, :2]).prod(axis=-1)), rounded((box[2:] - box[:2]).prod())
    union = area + areas - inner
    return jnp.where(union > 0, inner / jnp.where(union > 0, union, 1), 0).astype(jnp.float64)
