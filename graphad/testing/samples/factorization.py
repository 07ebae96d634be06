"""Samples of the operators in ``graphad.ops.factorization``: singular values and eigenvalues are well apart."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.types import Array


def _with_values(rows: int, columns: int, *batch: int) -> Array:
    """Matrices with the singular values 1, 2, 3 ..., of random vectors."""
    least = min(rows, columns)
    left, right = (np.linalg.qr(uniform(*batch, extent, least, seed=extent))[0] for extent in (rows, columns))
    return np.asarray((left * np.arange(1.0, least + 1)) @ right.swapaxes(-1, -2))


def _symmetric(size: int, *batch: int) -> Array:
    """Symmetric matrices with the eigenvalues -1, 0.5, 2 ..."""
    vectors = np.linalg.qr(uniform(*batch, size, size, seed=5))[0]
    return np.asarray((vectors * np.linspace(-1.0, 1.5 * size - 2.5, size)) @ vectors.swapaxes(-1, -2))


NO_EXTENT = np.zeros((0, 2, 2))

SAMPLES: dict[str, list[Sample]] = {
    "svd": [
        Sample({"X": _with_values(3, 3)}),
        Sample({"X": _with_values(4, 2)}),
        Sample({"X": _with_values(2, 3, 2)}),
        # Further vectors of a matrix that is not square have no gradient: random programs have to do without.
        Sample({"X": _with_values(2, 2)}, {"full_matrices": True}),
        Sample({"X": NO_EXTENT}),
    ],
    "eigh": [
        Sample({"X": _symmetric(3)}),
        Sample({"X": _symmetric(2, 2)}, {"UPLO": "U"}),
        # What the other triangle holds is not read.
        Sample({"X": _symmetric(3) + np.triu(uniform(3, 3, seed=8), 1)}),
        Sample({"X": NO_EXTENT}),
    ],
    "qr": [
        Sample({"X": _with_values(3, 3)}),
        Sample({"X": _with_values(4, 2)}),
        Sample({"X": _with_values(2, 3, 2)}),
        Sample({"X": _with_values(3, 2)}, {"mode": "r"}),
        Sample({"X": _with_values(2, 3)}, {"mode": "complete"}),
    ],
}
