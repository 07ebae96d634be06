"""``chunk_eval`` beside the algorithm of Paddle's operator, step by step, over random tags of each scheme."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.errors import InvalidType, InvalidValue, ShapeError

# places, begin, inside, end, single; -1 where a scheme has none
SCHEMES = {"IOB": (2, 0, 1, -1, -1), "IOE": (2, -1, 0, 1, -1), "IOBES": (4, 0, 1, 2, 3), "plain": (1, -1, -1, -1, -1)}


def segments(tags: list[int], scheme: str, kinds: int) -> set[tuple[int, int, int]]:
    """First step, last step and kind of each chunk: a step ends one or begins one by its tag and the one before."""
    places, begin, inside, end, single = SCHEMES[scheme]
    chunks, first = set(), None
    tag, kind = -1, kinds
    for at, label in enumerate([*tags, kinds * places]):
        before, kind_before = tag, kind
        tag, kind = label % places, label // places
        ends = kind_before != kinds and (
            kind != kind_before or (before in (begin, inside) and tag in (begin, single)) or before in (end, single)
        )
        begins = kind != kinds and (kind != kind_before or tag in (begin, single) or (tag in (inside, end) and before in (end, single)))
        if first is not None and ends:
            chunks.add((first, at - 1, kind_before))
            first = None
        if begins:
            first = at
    return chunks


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("excluded", [None, [1]])
def test_random_tags(scheme: str, excluded: list[int] | None) -> None:
    kinds, rng = 3, np.random.default_rng(5)
    count = kinds * SCHEMES[scheme][0] + 1
    with ga.program_guard(ga.Program()) as program:
        tags, truth = ga.data("tags", [None, None], "int64"), ga.data("truth", [None, None, 1], "int64")
        lengths = ga.data("lengths", [None], "int64")
        results = L.chunk_eval(tags, truth, scheme, kinds, excluded, seq_length=lengths)
    executor = ga.Executor()
    for time in (1, 2, 5, 9):
        inferred = rng.integers(0, count, (40, time))
        true = np.where(rng.random((40, time)) < 0.8, inferred, rng.integers(0, count, (40, time)))
        ends = rng.integers(0, time + 1, 40)
        found = {(row, *chunk) for row in range(40) for chunk in segments(inferred[row, : ends[row]].tolist(), scheme, kinds)}
        right = {(row, *chunk) for row in range(40) for chunk in segments(true[row, : ends[row]].tolist(), scheme, kinds)}
        found, right = ({chunk for chunk in chunks if chunk[3] not in (excluded or ())} for chunks in (found, right))
        both = len(found & right)
        precision, recall = both / max(len(found), 1), both / max(len(right), 1)
        f1 = 2 * precision * recall / (precision + recall) if both else 0.0
        got = executor.run(program, {"tags": inferred, "truth": true[:, :, None], "lengths": ends}, list(results))
        np.testing.assert_allclose([item.item() for item in got], [precision, recall, f1, len(found), len(right), both], rtol=1e-6)


def test_the_metric_adds_them_up() -> None:
    with ga.program_guard(ga.Program()) as program:
        tags, truth = ga.data("tags", [None, 4], "int64"), ga.data("truth", [None, 4], "int64")
        counts = list(L.chunk_eval(tags, truth, "IOB", 2)[3:])
    chunks = ga.metrics.ChunkEvaluator()
    for row in ([0, 1, 4, 2], [4, 4, 4, 4]):
        chunks.update(*ga.Executor().run(program, {"tags": [row], "truth": [[0, 1, 4, 0]]}, counts))
    assert chunks.eval() == (1 / 2, 1 / 4, 1 / 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: L.chunk_eval(x, x, "BIO", 2), InvalidValue, "one of plain, IOB, IOE, IOBES, not 'BIO'"),
        (lambda x: L.chunk_eval(x, x, "IOB", 2, [2]), InvalidValue, "the kinds are 0 to 1"),
        (lambda x: L.chunk_eval(x, x, "IOB", 2, 1), InvalidType, "a list of kinds"),  # type: ignore[arg-type]
        (lambda x: L.chunk_eval(x[0], x, "IOB", 2), ShapeError, "pad sequences and say seq_length"),
    ],
)
def test_a_wrong_call_says_so(call: Callable[[ga.Variable], object], error: type[Exception], message: str) -> None:
    with ga.program_guard(ga.Program()), pytest.raises(error, match=message):
        call(ga.data("x", [None, 3], "int64"))
