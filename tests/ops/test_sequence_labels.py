"""CTC, linear-chain CRFs and distances of labels against sums over all paths, all labellings, and the definition by recursion."""

from __future__ import annotations

from functools import cache
from itertools import groupby, pairwise, product

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.ops import GRAD, GradOpDef, lookup
from graphad.types import Array

RNG = np.random.default_rng(7)


def log_softmax(x: Array) -> Array:
    return np.asarray(x - np.log(np.exp(x).sum(-1, keepdims=True)))


def spelled(path: tuple[int, ...], blank: int) -> list[int]:
    return [label for label, _ in groupby(path) if label != blank]


def ctc_by_enumeration(log_probs: Array, labels: list[int], blank: int) -> float:
    """The negative logarithm of the sum over all paths that spell the labels; 0 if there is none."""
    steps, classes = log_probs.shape
    paths = [path for path in product(range(classes), repeat=steps) if spelled(path, blank) == labels]
    total = sum(np.exp(sum(log_probs[t, label] for t, label in enumerate(path))) for path in paths)
    return float(-np.log(total)) if paths else 0.0


@pytest.mark.parametrize("blank", [0, 1])
@pytest.mark.parametrize(("steps", "count"), [(1, 0), (1, 1), (2, 2), (4, 2), (5, 3)])
def test_ctc_is_the_sum_over_all_paths(steps: int, count: int, blank: int) -> None:
    batch, classes = 6, 3
    logits = RNG.normal(size=(steps, batch, classes))
    labels = RNG.choice([label for label in range(classes) if label != blank], size=(batch, count))
    lengths, counts = RNG.integers(1, steps + 1, batch), RNG.integers(0, count + 1, batch)
    grad, loss = lookup("warpctc").kernel(logits, labels, lengths, counts, blank=blank)
    expected = [ctc_by_enumeration(log_softmax(logits[: lengths[n], n]), labels[n, : counts[n]].tolist(), blank) for n in range(batch)]
    np.testing.assert_allclose(loss[:, 0], expected, atol=1e-12)
    assert not grad[:, np.array(expected) == 0.0].any()


def test_ctc_of_large_scores_has_exact_gradients_of_both_orders() -> None:
    """No sum over paths underflows, and no scale overflows: one label is 10^300 times as likely as the one that counts."""
    logits = np.zeros((3, 1, 3))
    logits[:, 0, 1] = 700.0
    inputs = {"Logits": [logits], "Label": [np.array([[2]])]}
    grad, loss = lookup("warpctc").kernel(logits, np.array([[2]]))
    definition = lookup("warpctc_grad")
    assert isinstance(definition, GradOpDef)
    by_rule = definition.meaning({**inputs, "Loss" + GRAD: [np.ones((1, 1))]}, {"blank": 0, "norm_by_times": False}, ["Logits" + GRAD])
    np.testing.assert_allclose(loss, [[2100.0 - np.log(6.0)]])  # 6 paths: 2 at one, two or three steps that follow each other
    np.testing.assert_allclose(by_rule["Logits" + GRAD][0], grad, atol=1e-12)
    np.testing.assert_allclose(grad.sum(2), 0.0, atol=1e-12)


def test_norm_by_times_divides_gradients_and_not_losses() -> None:
    logits, label, lengths = RNG.normal(size=(4, 2, 3)), np.array([[1, 2], [2, 0]]), np.array([4, 2])
    found = []
    for norm in (False, True):
        with ga.program_guard(ga.Program()) as program:
            x = L.data("x", [4, 2, 3], append_batch_size=False, dtype="float64", stop_gradient=False)
            loss = L.warpctc(x, L.assign(label), 0, norm, L.assign(lengths), L.assign(np.array([2, 1])))
            found.append(ga.Executor().run(program, {"x": logits}, [loss, *ga.gradients(loss, [x])]))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[1][1], found[0][1] / lengths[None, :, None])


@pytest.mark.parametrize(("steps", "tags"), [(1, 2), (2, 3), (4, 2)])
def test_a_chain_is_the_sum_over_all_labellings_and_its_path_the_best_one(steps: int, tags: int) -> None:
    batch = 5
    scores, moves = RNG.normal(size=(batch, steps, tags)), RNG.normal(size=(tags + 2, tags))
    labels, lengths = RNG.integers(0, tags, (batch, steps)), RNG.integers(1, steps + 1, batch)

    def score(n: int, path: tuple[int, ...]) -> float:
        between = sum(moves[2 + a, b] for a, b in pairwise(path))
        return float(moves[0, path[0]] + moves[1, path[-1]] + between + sum(scores[n, t, tag] for t, tag in enumerate(path)))

    cost = lookup("linear_chain_crf").kernel(scores, moves, labels, lengths)[-1]
    path = lookup("crf_decoding").kernel(scores, moves, None, lengths)
    for n in range(batch):
        every = {tags_: score(n, tags_) for tags_ in product(range(tags), repeat=lengths[n])}
        own = every[tuple(labels[n, : lengths[n]].tolist())]
        np.testing.assert_allclose(cost[n, 0], np.log(sum(map(np.exp, every.values()))) - own)
        assert tuple(path[n, : lengths[n]]) == max(every, key=lambda key: every[key])
        assert not path[n, lengths[n] :].any()


def test_a_chain_may_forbid_steps() -> None:
    """With the weight of a step -inf, what it would have led to is left out, in gradients as well."""
    scores, moves = RNG.normal(size=(1, 3, 2)), np.zeros((4, 2))
    moves[2:] = [[0.0, -np.inf], [0.0, 0.0]]  # never from 0 to 1
    label = np.array([[1, 1, 0]])
    allowed = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)]
    each = np.array([sum(scores[0, t, tag] for t, tag in enumerate(path)) for path in allowed])
    inputs = {"Emission": [scores], "Transition": [moves], "Label": [label]}
    with np.errstate(invalid="ignore"):
        cost = lookup("linear_chain_crf").kernel(scores, np.where(np.isfinite(moves), moves, -1e30), label)[-1]
    np.testing.assert_allclose(cost[0, 0], np.log(np.exp(each).sum()) - each[2])
    definition = lookup("linear_chain_crf_grad")
    assert isinstance(definition, GradOpDef)
    inputs["Transition"] = [np.where(np.isfinite(moves), moves, -1e30)]
    given = {**inputs, "LogLikelihood" + GRAD: [np.ones((1, 1))]}
    by_rule = definition.meaning(given, {}, ["Emission" + GRAD])["Emission" + GRAD][0]
    share = np.exp(each) / np.exp(each).sum()
    expected = [[sum(p for p, path in zip(share, allowed, strict=True) if path[t] == tag) for tag in range(2)] for t in range(3)]
    np.testing.assert_allclose(by_rule[0], np.array(expected) - (label[0][:, None] == np.arange(2)), atol=1e-9)


@cache
def distance(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    if not a or not b:
        return len(a) + len(b)
    return min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))


def test_a_distance_is_the_least_number_of_edits() -> None:
    hyps, refs = RNG.integers(0, 3, (40, 5)), RNG.integers(0, 3, (40, 4))
    first, second = RNG.integers(0, 6, 40), RNG.integers(0, 5, 40)
    _, found = lookup("edit_distance").kernel(hyps, refs, first, second)
    expected = [distance(tuple(hyps[n, : first[n]].tolist()), tuple(refs[n, : second[n]].tolist())) for n in range(40)]
    assert found[:, 0].tolist() == expected
    _, shares = lookup("edit_distance").kernel(hyps, refs, first, second, normalized=True)
    np.testing.assert_allclose(shares[:, 0], np.array(expected) / np.maximum(second, 1), rtol=1e-6)


def test_a_path_is_aligned_to_what_it_spells() -> None:
    paths, lengths = RNG.integers(0, 3, (40, 6)), RNG.integers(0, 7, 40)
    labels, counts = lookup("ctc_align").kernel(paths, lengths, blank=1, padding_value=9)
    for n in range(40):
        expected = spelled(tuple(paths[n, : lengths[n]].tolist()), 1)
        assert labels[n].tolist() == expected + [9] * (6 - len(expected))
        assert counts[n, 0] == len(expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, i: L.warpctc(x, i, blank=7), "blank=7 is none of them"),
        (lambda x, i: L.warpctc(x, x), "an integer dtype is expected"),
        (lambda x, i: L.warpctc(x, i, input_length=i), r"one length for each of 3 sequences is expected, \[N\] or \[N, 1\]"),
        (lambda x, i: L.linear_chain_crf(x, x), "an integer dtype is expected"),
        (lambda x, i: L.linear_chain_crf(x[0], i), r"input is \[batch, time, tags\] with a known number of tags"),
        (lambda x, i: L.crf_decoding(x, "weights"), "param_attr names the transitions of linear_chain_crf, not 'weights'"),
        (lambda x, i: L.edit_distance(i, i, ignored_tokens=[0]), r"ignored_tokens=\[0\] would shorten padded sequences"),
        (lambda x, i: L.ctc_greedy_decoder(x[0], 0), r"input is \[batch, time, classes\]"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(call: object, message: str) -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        x = L.data("x", [2, 3, 4], append_batch_size=False)
        i = L.data("i", [3, 2], append_batch_size=False, dtype="int64")
        with pytest.raises((TypeError, ValueError), match=message):
            call(x, i)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("lengths", "message"),
    [(np.array([3, 1]), "LogitsLength has a length that is not between 1 and the extent 2"), (None, r"Label\[0, 0\] is 9")],
)
def test_lengths_and_labels_are_checked_when_a_program_runs(lengths: Array | None, message: str) -> None:
    label = np.array([[1], [1]]) if lengths is not None else np.array([[9], [1]])
    with pytest.raises(ValueError, match=message):
        lookup("warpctc").kernel(np.zeros((2, 2, 3)), label, lengths)
