"""Counts of n-grams: the sequences of tokens in a pool, counted in each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from graphad.errors import ParseError
from graphad.interop.onnx.handlers.handler import TO_THE_END, Node, handles
from graphad.interop.onnx.operands import Value
from graphad.types import Array


@dataclass(frozen=True)
class _Grams:
    """The n-grams of one length that count: tokens ``[grams, length]``, and the column of the output for each."""

    tokens: Array
    columns: Array


@handles("TfIdfVectorizer")
def _tf_idf(node: Node) -> Value:
    x, ops, mode = node[0], node.ops, str(node.required("mode"))
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ParseError(f"mode={mode!r} is none of TF, IDF, TFIDF")
    rows = ops.unsqueeze(x, axes=[0]) if x.rank == 1 else x
    width = max(int(item) for item in node.required("ngram_indexes")) + 1
    parts = list(_counted(node, rows, width))
    if not parts:
        raise ParseError("no n-gram of its pool is as long as min_gram_length and max_gram_length say")
    # Each length of n-grams fills columns of its own, so that sums join them.
    counts = reduce(ops.elementwise_add, parts)
    if mode == "IDF":
        counts = ops.cast(ops.greater_than(counts, ops.like(0.0, counts)), out_dtype="float32")
    weights = node.attr("weights") or []
    if mode != "TF" and len(weights):
        counts = ops.elementwise_mul(counts, Value(np.asarray(weights, "float32")[:width]))
    return ops.reshape(counts, shape=[-1]) if x.rank == 1 else counts


def _counted(node: Node, rows: Value, width: int) -> Iterator[Value]:
    """For each length of n-grams, and each distance between their tokens, how often each occurs in each row: ``[rows, width]``."""
    for grams in _pool(node):
        length = grams.tokens.shape[1]
        # Tokens that are skipped make no difference to single ones, which are counted once.
        for distance in range(1, int(node.required("max_skip_count")) + 2 if length > 1 else 2):
            yield _occurrences(node, rows, grams, distance, width)


def _pool(node: Node) -> Iterator[_Grams]:
    strings = node.attr("pool_strings")
    pool = node.reader.ends.text.encode(strings) if strings else np.asarray(node.required("pool_int64s"), "int64")
    tokens, columns = pool, np.asarray(node.required("ngram_indexes"), "int64")
    shortest, longest, first = int(node.required("min_gram_length")), int(node.required("max_gram_length")), 0
    bounds = [*(int(item) for item in node.required("ngram_counts")), len(tokens)]
    # The pool has all 1-grams, then all 2-grams ...; ``ngram_counts`` says where each length begins. Columns are numbered through over all
    # of them, those of lengths that are not wanted included.
    for length, (start, end) in enumerate(pairwise(bounds), 1):
        count = (end - start) // length
        if count and shortest <= length <= longest:
            yield _Grams(tokens[start : start + count * length].reshape(count, length), columns[first : first + count])
        first += count


def _occurrences(node: Node, rows: Value, grams: _Grams, distance: int, width: int) -> Value:
    ops, (count, length) = node.ops, grams.tokens.shape
    hits = []
    for i in range(length):
        rest = (length - 1 - i) * distance  # tokens after this one
        part = ops.slice(rows, axes=[1], starts=[i * distance], ends=[-rest if rest else TO_THE_END])
        wide = Value(grams.tokens[:, i].astype(rows.dtype).reshape(1, 1, count))
        hits.append(ops.equal(ops.unsqueeze(part, axes=[2]), wide))
    counts = ops.reduce_sum(ops.cast(reduce(ops.logical_and, hits), out_dtype="float32"), dim=[1])
    columns = np.zeros((count, width), "float32")
    columns[np.arange(count), grams.columns] = 1.0
    return ops.matmul_v2(counts, Value(columns))
