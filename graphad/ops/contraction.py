"""Sums of products over labelled axes, computed pair by pair as products of matrices in the order that numpy's ``einsum_path`` finds."""

from __future__ import annotations

import string
from collections import Counter
from functools import lru_cache

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import fill_any_like, unbroadcast
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.diagonals import diagonal, undiagonal
from graphad.ops.inference import same_dtypes
from graphad.types import Shape, TensorType, broadcast_extent

# -- equations -----------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _terms(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """The labels of each operand and of the result, with new labels for the axes of an ellipsis."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    given = left.split(",")
    if len(given) != len(ranks) or any(c not in string.ascii_letters for t in (*given, right) for c in t.replace("...", "", 1)):
        raise ShapeError(f"equation {equation!r} does not fit {len(ranks)} operands: letters, '...' and ',' are expected, and '->' once")
    spare = [c for c in string.ascii_letters if c not in equation]
    counts = [rank - len(t.replace("...", "")) for t, rank in zip(given, ranks, strict=True)]
    if any(n < 0 or (n and "..." not in t) for t, n in zip(given, counts, strict=True)):
        raise ShapeError(f"equation {equation!r} does not fit operands of {list(ranks)} axes")
    rest = "".join(spare[: max(n for n in counts)])
    terms = tuple(t.replace("...", rest[len(rest) - n :]) for t, n in zip(given, counts, strict=True))
    return terms, _result(equation, terms, rest, right if arrow else None)


def _result(equation: str, terms: tuple[str, ...], rest: str, right: str | None) -> str:
    counted = Counter("".join(terms))
    if right is None:
        return rest + "".join(sorted(c for c, n in counted.items() if n == 1 and c not in rest))
    if rest and "..." not in right:
        raise ShapeError(f"equation {equation!r} has an ellipsis among the operands, but not in the result")
    result = right.replace("...", rest)
    if len(set(result)) < len(result) or any(c not in counted for c in result):
        raise ShapeError(f"equation {equation!r}: the labels of the result are different ones of the operands")
    return result


def _extents(equation: str, shapes: list[Shape]) -> tuple[dict[str, int], str]:
    """The extent of each label, and the labels of the result."""
    terms, result = _terms(equation, tuple(map(len, shapes)))
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        own: dict[str, int] = {}
        for label, extent in zip(term, shape, strict=True):
            joined = broadcast_extent(extents.get(label, 1), extent)
            if joined is None or (own.setdefault(label, extent) not in (extent, -1) and extent != -1):
                raise ShapeError(f"equation {equation!r} does not fit operands of the shapes {[list(s) for s in shapes]}: label {label!r}")
            extents[label] = joined
    return extents, result


# -- computing -----------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _order(equation: str, shapes: tuple[Shape, ...]) -> list[tuple[int, ...]]:
    """Which operands to contract one after the other: numpy's greedy choice."""
    if len(shapes) < 3:
        return [tuple(range(len(shapes)))]
    path = np.einsum_path(equation, *(np.broadcast_to(0.0, s) for s in shapes), optimize="greedy")[0]
    return [tuple(step) for step in path[1:]]


def _contracted(equation: str, terms: tuple[str, ...], arrays: list[Array], result: str) -> Array:
    operands = list(zip(terms, arrays, strict=True))
    for step in _order(f"{','.join(terms)}->{result}", tuple(a.shape for a in arrays)):
        chosen = [operands.pop(i) for i in sorted(step, reverse=True)][::-1]
        while len(chosen) > 1:
            kept = set(result).union(*(t for t, _ in operands), *(t for t, _ in chosen[2:]))
            chosen[:2] = [_pair(*chosen[0], *chosen[1], kept)]
        operands += chosen
    (term, array), *_ = operands
    return np.asarray(np.einsum(f"{term}->{result}", array))


def _alone(term: str, array: Array, kept: set[str]) -> tuple[str, Array]:
    """An operand with each label once, without those that nothing else has."""
    wanted = "".join(dict.fromkeys(c for c in term if c in kept))
    return wanted, array if wanted == term else np.asarray(np.einsum(f"{term}->{wanted}", array))


def _pair(term: str, array: Array, other_term: str, other: Array, kept: set[str]) -> tuple[str, Array]:
    """Two operands as one: a product of matrices over what both have and nothing else needs."""
    wide, other_wide = _wide(term, array), _wide(other_term, other)
    term, array = _dropped(term, array, other_wide - wide)
    other_term, other = _dropped(other_term, other, wide - other_wide)
    term, array = _alone(term, array, kept | set(other_term))
    other_term, other = _alone(other_term, other, kept | set(term))
    both = [c for c in term if c in other_term]
    batch, inner = [c for c in both if c in kept], [c for c in both if c not in kept]
    left, right = [c for c in term if c not in both], [c for c in other_term if c not in both]
    x, y = _arranged(term, array, batch, left, inner), _arranged(other_term, other, batch, inner, right)
    product = x @ y if inner else x * y
    extents = {**dict(zip(other_term, other.shape, strict=True)), **dict(zip(term, array.shape, strict=True))}
    labels = [*batch, *left, *right]
    return "".join(labels), product.reshape([extents[c] for c in labels])


def _wide(term: str, array: Array) -> set[str]:
    return {c for c, extent in zip(term, array.shape, strict=True) if extent != 1}


def _dropped(term: str, array: Array, labels: set[str]) -> tuple[str, Array]:
    """Without the axes of labels that have one element here and more elsewhere."""
    axes = tuple(i for i, c in enumerate(term) if c in labels)
    return ("".join(c for c in term if c not in labels), array.squeeze(axes)) if axes else (term, array)


def _arranged(term: str, array: Array, batch: list[str], rows: list[str], columns: list[str]) -> Array:
    turned = array.transpose([term.index(c) for c in (*batch, *rows, *columns)])
    shape, n, m = turned.shape, len(batch), len(batch) + len(rows)
    return turned.reshape(*shape[:n], int(np.prod(shape[n:m])), int(np.prod(shape[m:])))


# -- the operator --------------------------------------------------------------------------------


def _einsum_type(Operands: list[TensorType], *, equation: str) -> tuple[TensorType, list[TensorType], list[TensorType]]:
    dtype = same_dtypes(**{f"Operands[{i}]": t for i, t in enumerate(Operands)})
    extents, result = _extents(equation, [t.shape for t in Operands])
    old = [TensorType((0, *t.shape), dtype) for t in Operands]
    return TensorType(tuple(extents[c] for c in result), dtype), [TensorType((0,), dtype)] * len(old), old


def _einsum_grad(Operands: list[Tensor], dOut: Tensor, *, equation: str) -> list[Tensor]:
    terms, result = _terms(equation, tuple(t.ndim for t in Operands))
    return [_operand_grad(i, Operands, terms, result, dOut) for i in range(len(Operands))]


def _operand_grad(i: int, operands: list[Tensor], terms: tuple[str, ...], result: str, dOut: Tensor) -> Tensor:
    """What the product over all other operands leaves of dOut; labels that occur twice are put back on the diagonal.

    Ones in the shape of the operand stand in for axes that all others lack, or may be broadcast along.
    """
    stages, own, term = _without_repeats(operands[i], terms[i])
    others = [(t, x) for k, (t, x) in enumerate(zip(terms, operands, strict=True)) if k != i]
    reads = [(result, dOut), *others]
    wide = {c for t, x in others for c, extent in zip(t, x.shape, strict=True) if extent not in (1, -1)}
    narrow = {c for c, extent in zip(term, own.shape, strict=True) if extent == 1}.intersection(c for t, _ in others for c in t)
    if set(term) - wide - narrow - set(result):
        reads.append((term, fill_any_like(own, value=1.0)))
    grad = unbroadcast(einsum([x for _, x in reads], equation=f"{','.join(t for t, _ in reads)}->{term}"), own)
    for whole, first, second in reversed(stages):
        grad = undiagonal(grad, whole, axis1=first, axis2=second)
    return grad


def _without_repeats(x: Tensor, term: str) -> tuple[list[tuple[Tensor, int, int]], Tensor, str]:
    """The operand's diagonal over each label that occurs twice, and the steps that led there."""
    stages: list[tuple[Tensor, int, int]] = []
    while len(set(term)) < len(term):
        label = next(c for c in term if term.count(c) > 1)
        first, second = [i for i, c in enumerate(term) if c == label][:2]
        stages.append((x, first, second))
        x = diagonal(x, axis1=first, axis2=second)
        term = "".join(c for i, c in enumerate(term) if i not in (first, second)) + label
    return stages, x, term


@operator("Operands* -> Out InnerCache*? XShape*?", infer=_einsum_type, grad={"Operands": _einsum_grad})
def einsum(Operands: list[Array], *, equation: str) -> tuple[Array, list[Array], list[Array]]:
    """Einstein's sum: ``ij,jk->ik`` is a product of matrices. Axes of one element are broadcast; ``...`` stands for the axes not named.

    A label that one operand has twice runs over the diagonal; without ``->`` the result has the labels that occur once, in their order.
    InnerCache is empty: nothing is kept for the gradient.
    """
    terms, result = _terms(equation, tuple(a.ndim for a in Operands))
    out = _contracted(equation, terms, Operands, result)
    empty = [np.empty((0,), out.dtype) for _ in Operands]
    old = [np.empty((0, *a.shape), a.dtype) for a in Operands]
    return out.copy() if len(Operands) == 1 and np.may_share_memory(out, Operands[0]) else out, empty, old
