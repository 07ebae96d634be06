"""Training targets of detectors: which true box each prior box or anchor stands for, and which of them count.

Paddle holds the true boxes of all images one after the other, with levels of detail (LoD). Here they are padded, ``[images, boxes, ...]``,
and ``Length`` says how many of each image there are. No gradient goes through a choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import operator
from graphad.ops.inference import check_index, matched
from graphad.types import FLOATS, INTS, Array, TensorType


def check_counts(name: str, counts: TensorType | None, images: int) -> None:
    """Refuse numbers of boxes that are not one for each image; without them each image has as many as there is room for."""
    if counts is None:
        return
    check_index(name, counts)
    if len(counts.shape) != 1 or not matched(counts.shape[0], images):
        raise ShapeError(f"{name} is {counts}: a number of boxes for each of {images} images is expected")


def counts_of(Length: Array | None, images: int, most: int) -> list[int]:
    """How many boxes each image has; all of them without ``Length``."""
    if Length is None:
        return [most] * images
    if len(Length) != images or (Length < 0).any() or (Length > most).any():
        raise InvalidValue(f"Length is {Length.tolist()}: {images} numbers from 0 to {most} are expected")
    return [int(count) for count in Length]


# -- matches -------------------------------------------------------------------------------------


def _matched_types(
    DistMat: TensorType, Length: TensorType | None = None, *, match_type: str = "bipartite", dist_threshold: float = 0.5
) -> tuple[TensorType, TensorType]:
    if len(DistMat.shape) not in (2, 3) or DistMat.dtype not in FLOATS:
        raise ShapeError(f"DistMat is {DistMat}; floats [rows, columns] or [images, rows, columns] are expected")
    if match_type not in ("bipartite", "per_prediction"):
        raise InvalidValue(f"match_type={match_type!r}: 'bipartite' or 'per_prediction' is expected")
    images = DistMat.shape[0] if len(DistMat.shape) == 3 else 1
    check_counts("Length", Length, images)
    shape = (images, DistMat.shape[-1])
    return TensorType(shape, "int32"), TensorType(shape, DistMat.dtype)


EPSILON = 1e-6  # what a distance has to be above to be a match, Paddle's


def _best_pairs(distances: Array, rows: Array, best: Array) -> None:
    """The greatest distance of all, then the greatest among the rows and columns that are left, and so on."""
    # A copy, in which rows and columns that have a partner become -1.
    remaining = np.where(distances >= EPSILON, distances, -1.0)
    for _ in range(min(remaining.shape)):
        row, column = np.unravel_index(int(remaining.argmax()), remaining.shape)
        if remaining[row, column] < 0:
            return
        rows[column], best[column] = row, distances[row, column]
        # Below all that count: neither the row nor the column is taken again.
        remaining[row], remaining[:, column] = -1.0, -1.0


@operator("DistMat Length? -> ColToRowMatchIndices ColToRowMatchDist", infer=_matched_types, grad={}, costly=True)
def bipartite_match(
    DistMat: Array, Length: Array | None = None, *, match_type: str = "bipartite", dist_threshold: float = 0.5
) -> tuple[Array, Array]:
    """A row for each column, greedily, the greatest entry first; -1 and 0 where a column has none (Paddle's ``bipartite_match``).

    ``DistMat`` is ``[rows, columns]`` or ``[images, rows, columns]``, of which ``Length`` rows count. With "per_prediction" a column that
    is left over gets the row of its greatest entry, if that is ``dist_threshold`` or more.
    """
    matrices = DistMat if DistMat.ndim == 3 else DistMat[None]
    rows = np.full((len(matrices), DistMat.shape[-1]), -1, "int32")
    best = np.zeros(rows.shape, DistMat.dtype)
    for image, count in enumerate(counts_of(Length, len(matrices), matrices.shape[1])):
        part = matrices[image, :count]
        # An image without boxes matches nothing: argmax has no place in what is empty.
        if not part.size:
            continue
        _best_pairs(part, rows[image], best[image])
        if match_type == "per_prediction":
            # SSD's second step (W. Liu et al., 2016, section 2.2): a prior may be matched too that is not the best one of any box.
            most = part.max(0)
            free = (rows[image] == -1) & (most >= max(dist_threshold, EPSILON))
            rows[image, free], best[image, free] = part.argmax(0)[free], most[free]
    return rows, best


# -- targets -------------------------------------------------------------------------------------


def _check_matches(MatchIndices: TensorType, images: int) -> None:
    check_index("MatchIndices", MatchIndices)
    if len(MatchIndices.shape) != 2 or not matched(MatchIndices.shape[0], images):
        raise ShapeError(f"MatchIndices is {MatchIndices}: a row of places for each of {images} images is expected")


def _assigned_types(
    X: TensorType, MatchIndices: TensorType, NegIndices: TensorType | None = None, *, mismatch_value: int = 0
) -> tuple[TensorType, TensorType]:
    if len(X.shape) not in (3, 4):
        raise ShapeError(f"X is {X}; [images, boxes, width] or [images, boxes, places, width] is expected")
    _check_matches(MatchIndices, X.shape[0])
    if len(X.shape) == 4 and not (matched(X.shape[2], MatchIndices.shape[1]) or X.shape[2] == 1):
        raise ShapeError(f"X is {X} but MatchIndices is {MatchIndices}: as many places are expected")
    if NegIndices is not None:
        check_index("NegIndices", NegIndices)
        if len(NegIndices.shape) != 2 or not matched(NegIndices.shape[0], X.shape[0]):
            raise ShapeError(f"NegIndices is {NegIndices}: a row of places for each image is expected")
    images, places = MatchIndices.shape
    weight = X.dtype if X.dtype in FLOATS else "float32"
    return TensorType((images, places, X.shape[-1]), X.dtype), TensorType((images, places, 1), weight)


@operator("X MatchIndices NegIndices? -> Out OutWeight", infer=_assigned_types, grad={}, flops=0)
def target_assign(X: Array, MatchIndices: Array, NegIndices: Array | None = None, *, mismatch_value: int = 0) -> tuple[Array, Array]:
    """For each place the row of X that it is matched with and the weight 1; ``mismatch_value`` and the weight 0 where the match is -1.

    X is ``[N, G, K]``, or ``[N, G, M, K]`` where the rows differ by place; ``MatchIndices`` ``[N, M]``. Places that ``NegIndices`` names,
    ``[N, Q]`` filled up with -1, get ``mismatch_value`` with the weight 1.
    """
    images, places = MatchIndices.shape
    if MatchIndices.size and not -1 <= MatchIndices.min() <= MatchIndices.max() < X.shape[1]:
        raise InvalidValue(f"MatchIndices has numbers from {MatchIndices.min()} to {MatchIndices.max()}, but there are {X.shape[1]} boxes")
    has = MatchIndices >= 0
    # Row 0 in the place of none, which is written over below.
    at = np.where(has, MatchIndices, 0)
    image = np.arange(images)[:, None]
    if not X.shape[1]:
        rows = np.zeros((images, places, X.shape[-1]), X.dtype)
    elif X.ndim == 3:
        rows = X[image, at]
    else:
        # One row for each place, or one for all of them: modulo 1 every place is the first.
        rows = X[image, at, np.arange(places)[None] % X.shape[2]]
    out = np.where(has[..., None], rows, np.asarray(mismatch_value, X.dtype))
    # A place without a match counts for nothing in the loss, unless it is one of the negatives, which follow.
    weight = has[..., None].astype(X.dtype if X.dtype.kind == "f" else "float32")
    for number, row in enumerate(NegIndices if NegIndices is not None else ()):
        negatives = row[row >= 0]
        if negatives.size and negatives.max() >= places:
            raise InvalidValue(f"NegIndices has {negatives.max()}, but there are {places} places")
        out[number, negatives], weight[number, negatives] = mismatch_value, 1
    return out, weight


def _mined_types(
    ClsLoss: TensorType,
    MatchIndices: TensorType,
    MatchDist: TensorType,
    LocLoss: TensorType | None = None,
    *,
    mining_type: str = "max_negative",
    **_: object,
) -> tuple[TensorType, TensorType]:
    for name, tensor in (("MatchIndices", MatchIndices), ("MatchDist", MatchDist), ("LocLoss", LocLoss)):
        if tensor is not None and not (len(tensor.shape) == len(ClsLoss.shape) == 2 and all(map(matched, tensor.shape, ClsLoss.shape))):
            raise ShapeError(f"ClsLoss is {ClsLoss} but {name} is {tensor}: both are [images, priors]")
    if ClsLoss.dtype not in FLOATS or MatchDist.dtype not in FLOATS:
        raise ShapeError(f"ClsLoss is {ClsLoss} and MatchDist is {MatchDist}: floats are expected")
    if MatchIndices.dtype not in INTS or mining_type not in ("max_negative", "hard_example"):
        raise InvalidValue(
            f"MatchIndices is {MatchIndices}, mining_type is {mining_type!r}: integers, and 'max_negative' or 'hard_example'"
        )
    return TensorType(ClsLoss.shape, "int32"), MatchIndices


@operator("ClsLoss MatchIndices MatchDist LocLoss? -> NegIndices UpdatedMatchIndices", infer=_mined_types, grad={}, costly=True)
def mine_hard_examples(
    ClsLoss: Array,
    MatchIndices: Array,
    MatchDist: Array,
    LocLoss: Array | None = None,
    *,
    neg_pos_ratio: float = 1.0,
    neg_dist_threshold: float = 0.5,
    sample_size: int = 0,
    mining_type: str = "max_negative",
) -> tuple[Array, Array]:
    """The priors that count as background, those of the greatest loss: their places in each row, filled up with -1.

    "max_negative" takes ``neg_pos_ratio`` times as many as there are matches, of those without one whose distance is below
    ``neg_dist_threshold`` (W. Liu et al., SSD, 2016, section 2.2). "hard_example" takes ``sample_size`` of all; a match that is not among
    them becomes -1.
    """
    hard = mining_type == "hard_example"
    losses = ClsLoss + LocLoss if hard and LocLoss is not None else ClsLoss
    updated, places = MatchIndices.copy(), np.full(ClsLoss.shape, -1, "int32")
    for image, (matches, distances, loss) in enumerate(zip(MatchIndices, MatchDist, losses, strict=True)):
        free = matches == -1
        candidates = np.arange(len(matches)) if hard else np.flatnonzero(free & (distances < neg_dist_threshold))
        # float32, as Paddle multiplies: 1.1 times 10 is 11 or 10 by how it is rounded.
        count = sample_size if hard else int(np.float32((~free).sum()) * np.float32(neg_pos_ratio))
        # Stable: of equal losses the first prior counts, on every machine.
        hardest = candidates[np.argsort(-loss[candidates], kind="stable")][: max(count, 0)]
        if hard:
            updated[image, np.setdiff1d(np.flatnonzero(~free), hardest)] = -1
        # In the order of the priors, as Paddle lists them, and not of their losses.
        negatives = np.sort(hardest[free[hardest]])
        places[image, : len(negatives)] = negatives
    return places, updated


# -- anchors -------------------------------------------------------------------------------------


class Chosen(NamedTuple):
    """The anchors of one image that count: matched ones, of which boxes are learned, then all with a label."""

    boxes: Array
    weights: Array
    scored: Array
    labels: Array


def pixel_overlaps(boxes: Array, others: Array) -> Array:
    """Intersections over unions of boxes whose corners are pixels, ``[n, m]``: the last row and column belong to a box."""
    low, high = np.maximum(boxes[:, None, :2], others[None, :, :2]), np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    # A pixel is one wide, so corners that are equal enclose an area of one.
    inner = np.maximum(high - low + 1, 0).prod(-1)
    areas = [(corners[:, 2:] - corners[:, :2] + 1).prod(-1) for corners in (boxes, others)]
    return np.asarray(inner / (areas[0][:, None] + areas[1][None] - inner))


def encoded(anchors: Array, boxes: Array) -> Array:
    """Shifts of the centers in units of the anchors' extents, and logarithms of how much larger boxes are; corners are pixels."""
    # In double precision: the logarithm of nearly equal extents would lose its digits.
    a, b = anchors.astype("float64"), boxes.astype("float64")
    sizes, targets = a[:, 2:] - a[:, :2] + 1, b[:, 2:] - b[:, :2] + 1
    # Faster R-CNN (S. Ren et al., 2015), equation 2: t_x = (x - x_a) / w_a and t_w = log(w / w_a), of centers and extents.
    shifts = (b[:, :2] + targets * 0.5 - a[:, :2] - sizes * 0.5) / sizes
    return np.concatenate([shifts, np.log(targets / sizes)], 1).astype(anchors.dtype, copy=False)


def _sampled(places: Array, most: int, rng: np.random.Generator | None) -> Array:
    """At most so many of the places, the first ones, or those of a generator; a negative number takes all."""
    if most < 0 or len(places) <= most:
        return places
    return places[:most] if rng is None else rng.permutation(places)[:most]


def _scored(overlaps: Array, fg_most: int, batch: int, positive: float, negative: float, rng: np.random.Generator | None) -> Chosen:
    """S. Ren et al., Faster R-CNN (2015), section 3.1.2: positive are the best anchors of a box, and those above a share of one."""
    most = overlaps.max(1, initial=0.0)
    # Within 1e-5, as in Paddle: several anchors may be the best of one box.
    is_best = (np.abs(overlaps - overlaps.max(0, initial=0.0)[None]) < 1e-5).any(1)
    positives = _sampled(np.flatnonzero(is_best | (most >= positive)), fg_most, rng)
    negatives = _sampled(np.flatnonzero(most < negative), batch - len(positives) if batch >= 0 else -1, rng)
    # An anchor that is the best of a box may overlap it little. It then counts as background, and takes part in the boxes with weight
    # 0 under the first positive's place, as in Paddle's kernel.
    fakes = np.isin(negatives, positives).sum()
    # In ascending order: what is positive alone.
    foreground = np.setdiff1d(positives, negatives)
    boxes = np.concatenate([np.repeat(positives[:1], fakes), foreground])
    weights = np.repeat([0.0, 1.0], [fakes, len(foreground)])
    scored = np.concatenate([foreground, np.sort(negatives)])
    return Chosen(boxes, weights, scored, np.repeat([1, 0], [len(foreground), len(negatives)]))


class _Image(NamedTuple):
    """An image's anchors and true boxes."""

    inside: Array  # places of the anchors that count
    boxes: Array  # true boxes as large as the image is fed
    labels: Array | None
    overlaps: Array


def _images(
    Anchor: Array, GtBoxes: Array, IsCrowd: Array, ImInfo: Array, Length: Array | None, labels: Array | None, straddle: float
) -> Iterator[_Image]:
    anchors = Anchor.reshape(-1, 4)
    for image, count in enumerate(counts_of(Length, len(GtBoxes), GtBoxes.shape[1])):
        height, width, scale = ImInfo[image].tolist()
        fits = (anchors[:, :2] >= -straddle).all(1) & (anchors[:, 2] < width + straddle) & (anchors[:, 3] < height + straddle)
        inside = np.flatnonzero(fits) if straddle >= 0 else np.arange(len(anchors))
        # A crowd is one box around many objects: no anchor is to learn it.
        real = np.flatnonzero(IsCrowd[image, :count] == 0)
        boxes = GtBoxes[image, real] * GtBoxes.dtype.type(scale)  # as large as the image is fed
        yield _Image(inside, boxes, None if labels is None else labels[image, real], pixel_overlaps(anchors[inside], boxes))


def _check_anchors(
    Anchor: TensorType,
    GtBoxes: TensorType,
    IsCrowd: TensorType,
    ImInfo: TensorType,
    Length: TensorType | None,
    labels: TensorType | None = None,
) -> str:
    if not Anchor.shape or not matched(Anchor.shape[-1], 4):
        raise ShapeError(f"Anchor is {Anchor}: boxes [..., 4] are expected")
    if len(GtBoxes.shape) != 3 or not matched(GtBoxes.shape[2], 4) or GtBoxes.dtype != Anchor.dtype or Anchor.dtype not in FLOATS:
        raise ShapeError(f"Anchor is {Anchor} and GtBoxes is {GtBoxes}: floats [..., 4] and [images, boxes, 4] are expected")
    for name, tensor in (("IsCrowd", IsCrowd), ("GtLabels", labels)):
        if tensor is not None and not (len(tensor.shape) == 2 and all(map(matched, tensor.shape, GtBoxes.shape))):
            raise ShapeError(f"GtBoxes is {GtBoxes} but {name} is {tensor}: integers [images, boxes] are expected")
    fits = len(ImInfo.shape) == 2 and matched(ImInfo.shape[1], 3) and matched(ImInfo.shape[0], GtBoxes.shape[0])
    if not fits or ImInfo.dtype not in FLOATS:
        raise ShapeError(f"ImInfo is {ImInfo}: height, width and scale of each image, floats [images, 3], are expected")
    check_counts("Length", Length, GtBoxes.shape[0])
    return Anchor.dtype


def _anchored_types(
    Anchor: TensorType, GtBoxes: TensorType, IsCrowd: TensorType, ImInfo: TensorType, Length: TensorType | None = None, **_: object
) -> tuple[TensorType, ...]:
    dtype = _check_anchors(Anchor, GtBoxes, IsCrowd, ImInfo, Length)
    column = TensorType((-1,), "int32")
    return column, column, TensorType((-1, 4), dtype), TensorType((-1, 1), "int32"), TensorType((-1, 4), dtype)


@operator(
    "Anchor GtBoxes IsCrowd ImInfo Length? -> LocationIndex ScoreIndex TargetBBox TargetLabel BBoxInsideWeight",
    infer=_anchored_types,
    grad={},
    random=True,
    costly=True,
)
def rpn_target_assign(
    Anchor: Array,
    GtBoxes: Array,
    IsCrowd: Array,
    ImInfo: Array,
    Length: Array | None = None,
    *,
    rpn_batch_size_per_im: int = 256,
    rpn_straddle_thresh: float = 0.0,
    rpn_positive_overlap: float = 0.7,
    rpn_negative_overlap: float = 0.3,
    rpn_fg_fraction: float = 0.5,
    use_random: bool = True,
    rng: np.random.Generator,
) -> tuple[Array, ...]:
    """Sample the anchors that a region proposal network is trained on, and compute their targets (S. Ren et al., Faster R-CNN, 2015).

    ``Anchor`` ``[..., 4]`` holds for all images, ``GtBoxes`` ``[N, G, 4]`` are as large as the image was before its scale in ``ImInfo``
    (height, width, scale). An anchor is positive that overlaps a box most, or by ``rpn_positive_overlap``; negative below
    ``rpn_negative_overlap``; so many are drawn. Places count the anchors of all images: those of boxes, then those with a label.
    """
    anchors, parts = Anchor.reshape(-1, 4), []
    is_limited = rpn_fg_fraction > 0 and rpn_batch_size_per_im > 0
    limits = (int(rpn_fg_fraction * rpn_batch_size_per_im), rpn_batch_size_per_im) if is_limited else (-1, -1)
    for number, image in enumerate(_images(Anchor, GtBoxes, IsCrowd, ImInfo, Length, None, rpn_straddle_thresh)):
        labeled = _scored(image.overlaps, *limits, rpn_positive_overlap, rpn_negative_overlap, rng if use_random else None)
        parts.append(_told(anchors, image, labeled, number))
    return _joined(parts, Anchor.dtype)


def _told(anchors: Array, image: _Image, chosen: Chosen, number: int) -> tuple[Array, ...]:
    """Places among the anchors of all images, codes of the boxes, labels, weights."""
    places = image.inside[chosen.boxes]
    codes = np.zeros((0, 4), anchors.dtype)
    if len(places):
        codes = encoded(anchors[places], image.boxes[image.overlaps[chosen.boxes].argmax(1)])
    first = number * len(anchors)
    return places + first, image.inside[chosen.scored] + first, codes, chosen.labels[:, None], np.repeat(chosen.weights[:, None], 4, 1)


def _joined(parts: list[tuple[Array, ...]], dtype: np.dtype[np.generic]) -> tuple[Array, ...]:
    empty = (np.zeros(0), np.zeros(0), np.zeros((0, 4)), np.zeros((0, 1)), np.zeros((0, 4)))
    dtypes: tuple[Any, ...] = ("int32", "int32", dtype, "int32", dtype)
    columns = [np.concatenate(column) for column in zip(empty, *parts, strict=True)]
    return tuple(column.astype(kind) for column, kind in zip(columns, dtypes, strict=True))


def _retina_types(
    Anchor: TensorType,
    GtBoxes: TensorType,
    GtLabels: TensorType,
    IsCrowd: TensorType,
    ImInfo: TensorType,
    Length: TensorType | None = None,
    **_: object,
) -> tuple[TensorType, ...]:
    _check_anchors(Anchor, GtBoxes, IsCrowd, ImInfo, Length, GtLabels)
    return (*_anchored_types(Anchor, GtBoxes, IsCrowd, ImInfo, Length), TensorType((GtBoxes.shape[0], 1), "int32"))


@operator(
    "Anchor GtBoxes GtLabels IsCrowd ImInfo Length? -> LocationIndex ScoreIndex TargetBBox TargetLabel BBoxInsideWeight ForegroundNumber",
    infer=_retina_types,
    grad={},
    costly=True,
)
def retinanet_target_assign(
    Anchor: Array,
    GtBoxes: Array,
    GtLabels: Array,
    IsCrowd: Array,
    ImInfo: Array,
    Length: Array | None = None,
    *,
    positive_overlap: float = 0.5,
    negative_overlap: float = 0.4,
) -> tuple[Array, ...]:
    """As ``rpn_target_assign`` for all anchors, none of which is left out by chance, with classes (T.-Y. Lin et al., RetinaNet, 2017).

    The label of a positive anchor is that of its box, of ``GtLabels`` ``[N, G]`` from 1; ``ForegroundNumber`` is one more than the number
    of positive anchors of each image, so that it can be divided by.
    """
    anchors, parts, numbers = Anchor.reshape(-1, 4), [], []
    for number, image in enumerate(_images(Anchor, GtBoxes, IsCrowd, ImInfo, Length, GtLabels, -1.0)):
        labeled = _scored(image.overlaps, -1, -1, positive_overlap, negative_overlap, None)
        labels = labeled.labels.copy()
        # Positive anchors come first among those with a label, so that their classes go to the front.
        positive = labeled.scored[labels == 1]
        if len(positive) and image.labels is not None:
            labels[: len(positive)] = image.labels[image.overlaps[positive].argmax(1)]
        parts.append(_told(anchors, image, labeled._replace(labels=labels), number))
        numbers.append(len(positive) + 1)
    return (*_joined(parts, Anchor.dtype), np.asarray(numbers, "int32").reshape(-1, 1))
