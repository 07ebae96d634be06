"""Metrics over many minibatches, as Fluid 1.8 has them: each adds up what was fetched, in numpy.

A metric is updated with arrays after each run, and evaluated when the minibatches are over; ``layers.accuracy`` and others compute what one
minibatch has.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from graphad.errors import InvalidType, InvalidValue
from graphad.ops.definition import absent
from graphad.types import Array

__all__ = ["Accuracy", "Auc", "ChunkEvaluator", "CompositeMetric", "EditDistance", "MetricBase", "Precision", "Recall"]


class MetricBase:
    """Base of the metrics: a subclass has ``update`` and ``eval``, and keeps its sums in attributes without underscore.

    Args:
        name: what it is called; the class's name if None.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = type(self).__name__ if name is None else name

    def __str__(self) -> str:
        return self._name

    def get_config(self) -> dict[str, object]:
        """The sums by name."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def reset(self) -> None:
        """Set the sums to zero, for the next epoch."""
        for name, value in self.get_config().items():
            # Any number becomes 0 of its type, any array zeros of its shape.
            setattr(self, name, np.zeros_like(value) if isinstance(value, np.ndarray) else type(value)())

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add what was fetched of one minibatch."""
        raise NotImplementedError

    def eval(self) -> object:
        """The metric over all that was added."""
        raise NotImplementedError


class CompositeMetric(MetricBase):
    """Several metrics that are updated with the same arrays.

    >>> both = CompositeMetric()
    >>> both.add_metric(Precision())
    >>> both.add_metric(Recall())
    >>> both.update([[0.9], [0.2], [0.8]], [[1], [1], [1]])
    >>> [float(value) for value in both.eval()]
    [1.0, 0.6666666666666666]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._metrics: list[MetricBase] = []

    def add_metric(self, metric: MetricBase) -> None:
        """Add one; TypeError for what is no metric."""
        if not isinstance(metric, MetricBase):
            raise InvalidType(f"add_metric takes a metric, such as Precision(), not {metric!r}")
        self._metrics.append(metric)

    def reset(self) -> None:
        for metric in self._metrics:
            metric.reset()

    def update(self, preds: ArrayLike, labels: ArrayLike) -> None:
        """Update each with the same predictions and labels."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[object]:
        """The values, in the order of adding."""
        return [metric.eval() for metric in self._metrics]


class Accuracy(MetricBase):
    """The mean of the accuracies of minibatches, weighted by their sizes.

    >>> accuracy = Accuracy()
    >>> accuracy.update(value=0.5, weight=2)
    >>> accuracy.update(value=1.0, weight=6)
    >>> float(accuracy.eval())
    0.875
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.value = 0.0
        self.weight = 0.0

    def update(self, value: ArrayLike, weight: float) -> None:
        """Add the accuracy of a minibatch (a number, or what ``layers.accuracy`` was fetched as) of ``weight`` samples.

        Raises:
            ValueError: the accuracy is not one number, or the weight is negative.
        """
        accuracy = np.asarray(value, dtype="float64")
        if accuracy.size != 1:
            raise InvalidValue(f"the accuracy of a minibatch is one number, not of shape {list(accuracy.shape)}")
        if weight < 0:
            raise InvalidValue(f"a weight is 0 or more, not {weight!r}")
        # The mean of minibatches of unlike sizes is that of their sums.
        self.value += accuracy.item() * float(weight)
        self.weight += float(weight)

    def eval(self) -> float:
        """The weighted mean; ValueError if nothing was added."""
        if not self.weight:
            raise InvalidValue("no accuracy was added: call update(value, weight) with what layers.accuracy was fetched as")
        return self.value / self.weight


class Precision(MetricBase):
    """The share of ones among what is predicted as 1: predictions are probabilities, of which 0.5 and less is rounded to 0.

    >>> precision = Precision()
    >>> precision.update([[0.1], [0.7], [0.8], [0.9]], [[0], [1], [1], [0]])
    >>> float(precision.eval())
    0.6666666666666666
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.tp = 0
        self.fp = 0

    def update(self, preds: ArrayLike, labels: ArrayLike) -> None:
        """Add probabilities ``[n, 1]`` and labels ``[n, 1]``, 0 or 1."""
        predicted, true = _binary(preds, labels)
        self.tp += int(np.sum(predicted & true))
        self.fp += int(np.sum(predicted & ~true))

    def eval(self) -> float:
        """True positives among the predicted ones; 0 if nothing was predicted as 1."""
        return _share(self.tp, self.fp)


class Recall(MetricBase):
    """The share that is predicted as 1, among what is 1.

    >>> recall = Recall()
    >>> recall.update([[0.1], [0.7], [0.8], [0.9]], [[1], [1], [1], [0]])
    >>> float(recall.eval())
    0.6666666666666666
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.tp = 0
        self.fn = 0

    def update(self, preds: ArrayLike, labels: ArrayLike) -> None:
        """Add probabilities ``[n, 1]`` and labels ``[n, 1]``, 0 or 1."""
        predicted, true = _binary(preds, labels)
        self.tp += int(np.sum(predicted & true))
        self.fn += int(np.sum(~predicted & true))

    def eval(self) -> float:
        """True positives among those that are 1; 0 if there are none."""
        return _share(self.tp, self.fn)


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 of chunks, from the counts that ``layers.chunk_eval`` gives.

    >>> chunks = ChunkEvaluator()
    >>> chunks.update(num_infer_chunks=10, num_label_chunks=9, num_correct_chunks=8)
    >>> [round(value, 4) for value in chunks.eval()]
    [0.8, 0.8889, 0.8421]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.num_infer_chunks = 0
        self.num_label_chunks = 0
        self.num_correct_chunks = 0

    def update(self, num_infer_chunks: ArrayLike, num_label_chunks: ArrayLike, num_correct_chunks: ArrayLike) -> None:
        """Add the chunks that were inferred, those that there are, and those that are right."""
        self.num_infer_chunks += _count("num_infer_chunks", num_infer_chunks)
        self.num_label_chunks += _count("num_label_chunks", num_label_chunks)
        self.num_correct_chunks += _count("num_correct_chunks", num_correct_chunks)

    def eval(self) -> tuple[float, float, float]:
        """Precision, recall and their harmonic mean, each 0 where nothing is right."""
        precision = self.num_correct_chunks / self.num_infer_chunks if self.num_infer_chunks else 0.0
        recall = self.num_correct_chunks / self.num_label_chunks if self.num_label_chunks else 0.0
        # The harmonic mean.
        f1 = 2 * precision * recall / (precision + recall) if self.num_correct_chunks else 0.0
        return precision, recall, f1


class EditDistance(MetricBase):
    """The mean edit distance of sequences, and the share of those that have any, from what ``layers.edit_distance`` gives.

    >>> distance = EditDistance("words")
    >>> distance.update(distances=[[3.0], [0.0]], seq_num=2)
    >>> distance.eval()
    (1.5, 0.5)
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.total_distance = 0.0
        self.seq_num = 0
        self.instance_error = 0

    def update(self, distances: ArrayLike, seq_num: ArrayLike) -> None:
        """Add the distances ``[n, 1]`` of ``seq_num`` sequences."""
        array = np.asarray(distances, dtype="float64")
        count = _count("seq_num", seq_num)
        self.total_distance += float(array.sum())
        self.seq_num += count
        # Sequences that are not right in full.
        self.instance_error += count - int(np.sum(array == 0))

    def eval(self) -> tuple[float, float]:
        """The mean distance, and the share of sequences with one above 0; ValueError if nothing was added."""
        if not self.seq_num:
            raise InvalidValue("no distance was added: call update(distances, seq_num) with what layers.edit_distance was fetched as")
        return self.total_distance / self.seq_num, self.instance_error / self.seq_num


class Auc(MetricBase):
    """The area under the ROC curve, from histograms of the probabilities of the two classes (T. Fawcett, 2006).

    Args:
        name: what it is called.
        curve: ``"ROC"``.
        num_thresholds: how finely probabilities are told apart.

    >>> auc = Auc("auc")
    >>> auc.update([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]], [[0], [1], [1], [0]])
    >>> auc.eval()
    1.0
    """

    def __init__(self, name: str | None = None, curve: str = "ROC", num_thresholds: int = 4095) -> None:
        super().__init__(name)
        if curve != "ROC":
            raise InvalidValue(f"curve is 'ROC', not {curve!r}")
        # With an underscore, as options are: ``reset`` sets to zero what has none.
        self._num_thresholds = num_thresholds
        self.positives = np.zeros(num_thresholds + 1, "int64")
        self.negatives = np.zeros(num_thresholds + 1, "int64")

    def update(self, preds: ArrayLike, labels: ArrayLike) -> None:
        """Add the probabilities ``[n, 2]`` of the classes 0 and 1, and labels ``[n, 1]``, 0 or 1.

        Raises:
            ValueError: they are of other shapes, or a probability is outside of [0, 1].
        """
        probabilities, true = np.asarray(preds, dtype="float64"), np.asarray(labels).reshape(-1).astype(bool)
        if probabilities.shape != (len(true), 2):
            raise InvalidValue(f"preds are [n, 2] and labels [n, 1], not {list(probabilities.shape)} and {list(np.shape(labels))}")
        if not np.all((probabilities[:, 1] >= 0) & (probabilities[:, 1] <= 1)):
            raise InvalidValue("preds are probabilities, from 0 to 1: apply layers.softmax before")
        # Rounded down; a probability of exactly 1 has a bin of its own, the last.
        bins = (probabilities[:, 1] * self._num_thresholds).astype("int64")
        np.add.at(self.positives, bins[true], 1)
        np.add.at(self.negatives, bins[~true], 1)

    def eval(self) -> float:
        """The area, 0 if one of the classes has no sample."""
        # From the highest probability down: how many of each class are above each threshold.
        positives, negatives = (np.concatenate([[0], np.cumsum(counts[::-1])]) for counts in (self.positives, self.negatives))
        if not positives[-1] or not negatives[-1]:
            return 0.0
        # The trapezoids under true positives over false positives, from the highest threshold to the lowest.
        area = np.sum(np.diff(negatives) * (positives[1:] + positives[:-1]) / 2)
        return float(area / positives[-1] / negatives[-1])


def _binary(preds: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    # Halves are rounded to the even number, so that 0.5 is 0, as in Fluid.
    predicted, true = np.rint(np.asarray(preds, dtype="float64")).reshape(-1), np.asarray(labels).reshape(-1)
    if predicted.shape != true.shape:
        raise InvalidValue(f"preds and labels have as many elements, not {predicted.size} and {true.size}")
    if not np.all((true == 0) | (true == 1)):
        raise InvalidValue("labels are 0 or 1")
    return predicted == 1, true == 1


def _share(right: int, wrong: int) -> float:
    return right / (right + wrong) if right + wrong else 0.0


def _count(what: str, value: ArrayLike) -> int:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iuf" or array.item() < 0:
        raise InvalidValue(f"{what} is one number, 0 or more, not {value!r}")
    return int(array.item())


_INSTEAD = {"DetectionMAP": "average precision needs as many boxes as each image has: compute it in numpy from fetched boxes"}


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__, _INSTEAD)


def __dir__() -> list[str]:
    return sorted(__all__)
