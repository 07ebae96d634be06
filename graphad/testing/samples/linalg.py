"""Samples of the operators in ``graphad.ops.linalg``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.types import Array


def _sum(equation: str, *shapes: tuple[int, ...]) -> Sample:
    return Sample({"Operands": [uniform(*s, seed=i) for i, s in enumerate(shapes)]}, {"equation": equation})


def _algebra_pair(x: Array, y: Array, **attrs: object) -> Sample:
    return Sample({"X": x, "Y": y}, attrs)


def _diagonally(*batch: int, size: int = 3, seed: int = 0) -> Array:
    """Matrices that have an inverse."""
    return uniform(*batch, size, size, seed=seed) + 2.0 * np.eye(size)


def _positive(*batch: int) -> Array:
    """Symmetric positive definite matrices."""
    factor = uniform(*batch, 3, 3, seed=4)
    return factor @ factor.swapaxes(-1, -2) + np.eye(3)


CUBE = uniform(3, 2, 4)
TRIANGLES = [
    _algebra_pair(_diagonally(), uniform(3, 2)),
    _algebra_pair(_diagonally(), uniform(3, 2), transpose=True),
    _algebra_pair(_diagonally(), uniform(3, 2), upper=False),
    _algebra_pair(_diagonally(), uniform(3, 2), upper=False, transpose=True, unitriangular=True),
    _algebra_pair(_diagonally(), uniform(3, 1), unitriangular=True),
    _algebra_pair(_diagonally(2, 1, size=2), uniform(2, 2, 1)),  # batches [2, 1] and [2]
    _algebra_pair(_diagonally(size=2), uniform(2, 2, 1)),  # one matrix for a batch of right sides
]


def _linalg_pair(x: tuple[int, ...], y: tuple[int, ...], **attrs: object) -> Sample:
    return Sample({"X": uniform(*x), "Y": uniform(*y, seed=1)}, attrs)


SAMPLES: dict[str, list[Sample]] = {
    "einsum": [
        _sum("ij,jk->ik", (2, 3), (3, 4)),
        _sum("bij, bjk -> bik", (2, 2, 3), (2, 3, 2)),
        _sum("ij,jk", (2, 3), (3, 2)),  # no result is said: the labels that occur once, in alphabetical order
        _sum("i,i->", (3,), (3,)),
        _sum("i,j->ij", (2,), (3,)),
        _sum("ij,ij->ij", (2, 3), (2, 3)),
        _sum("ij->ji", (2, 3)),
        _sum("ij->j", (2, 3)),
        _sum("ij->", (2, 3)),
        _sum("ii->i", (3, 3)),  # a diagonal
        _sum("iji->j", (2, 3, 2)),  # of a diagonal the sum
        _sum("ii", (2, 2)),
        _sum("iij,jk->k", (2, 2, 3), (3, 2)),
        _sum("...ij,...jk->...ik", (2, 2, 3), (3, 2)),
        _sum("i...,i...->...", (2, 1, 2), (2, 3, 1)),  # what the dots stand for is broadcast
        _sum("ij,jk,kl->il", (2, 3), (3, 2), (2, 2)),
        _sum("ij,ik,il->jkl", (2, 2), (2, 3), (2, 2)),
        _sum("ij,kj->ik", (2, 1), (2, 3)),  # one element of j meets three
        _sum("ij,j->i", (2, 3), (1,)),
        _sum("ij,k->i", (2, 3), (2,)),  # j and k are summed in one operand alone
        _sum("ij,jk->ik", (0, 3), (3, 2)),
        _sum("ij,jk->ik", (2, 0), (0, 3)),  # sums over nothing are zeros
        _sum(",i->i", (), (2,)),
        _sum("ij,jk,jl->ikl", (2, 3), (1, 2), (3, 2)),
        _sum("bij,bij->b", (2, 1, 3), (2, 2, 1)),
    ],
    "diagonal": [
        Sample({"Input": CUBE}),
        Sample({"Input": CUBE}, {"offset": 1, "axis1": -1, "axis2": 0}),
        Sample({"Input": CUBE}, {"offset": -2}),
        Sample({"Input": CUBE}, {"offset": 9}),  # beyond the last diagonal: no elements
        Sample({"Input": uniform(0, 3)}),
    ],
    "undiagonal": [
        Sample({"X": uniform(4, 2), "Like": CUBE}),
        Sample({"X": uniform(2, 3), "Like": CUBE}, {"offset": -1, "axis1": 2, "axis2": 0}),
    ],
    "diag_embed": [
        Sample({"Input": uniform(2, 3)}),
        Sample({"Input": uniform(2, 3)}, {"offset": -1, "dim1": 0, "dim2": 2}),
        Sample({"Input": uniform(2)}, {"offset": 1, "dim1": -1, "dim2": 0}),
        Sample({"Input": uniform(2, 0)}),
    ],
    "diag_v2": [
        Sample({"X": uniform(3)}),
        Sample({"X": uniform(2)}, {"offset": -1, "padding_value": 0.5}),
        Sample({"X": uniform(3, 4)}, {"offset": 2}),
        Sample({"X": uniform(3, 4)}, {"offset": -1}),
        Sample({"X": uniform(0)}, {"offset": 1, "padding_value": 2.0}),
    ],
    "diag": [Sample({"Diagonal": uniform(3)}), Sample({"Diagonal": uniform(0)})],
    "trace": [
        Sample({"Input": uniform(3, 4)}),
        Sample({"Input": CUBE}, {"offset": 1, "axis1": 1, "axis2": -1}),
        Sample({"Input": uniform(2, 2)}, {"offset": 5}),
    ],
    "kron": [
        _algebra_pair(uniform(2, 3), uniform(3, 2)),
        _algebra_pair(uniform(2), uniform(3, 2)),
        _algebra_pair(uniform(2, 1, 2), uniform(2, 2)),
        _algebra_pair(uniform(), uniform(2)),
        _algebra_pair(uniform(), uniform()),
        _algebra_pair(uniform(0, 2), uniform(1, 2)),
    ],
    "mv": [Sample({"X": uniform(2, 3), "Vec": uniform(3)}), Sample({"X": uniform(2, 0), "Vec": uniform(0)})],
    "determinant": [Sample({"Input": _diagonally()}), Sample({"Input": _diagonally(2, size=2)}), Sample({"Input": uniform(3, 2, 2)})],
    "inverse": [Sample({"Input": _diagonally()}), Sample({"Input": _diagonally(2, size=2)}), Sample({"Input": uniform(0, 2, 2)})],
    "matrix_power": [Sample({"X": _diagonally(2, size=2)}, {"n": n}) for n in (-2, -1, 0, 1, 2, 3)]
    + [Sample({"X": _diagonally()}, {"n": 4})],
    "triangular_solve": TRIANGLES,
    "cholesky": [
        Sample({"X": _positive()}),
        Sample({"X": _positive(2)}, {"upper": True}),
        Sample({"X": uniform(0, 2, 2)}),
        Sample({"X": _positive() + np.triu(uniform(3, 3, seed=8), 1) * 0.1}),  # not symmetric: only the lower triangle is read
    ],
    "solve": [
        _algebra_pair(_diagonally(), uniform(3, 2)),
        _algebra_pair(_diagonally(), uniform(3)),
        _algebra_pair(_diagonally(2, size=2), uniform(2)),
        _algebra_pair(_diagonally(2, size=2), uniform(2, 1)),
        _algebra_pair(_diagonally(size=2), uniform(2, 2, 1)),
    ],
    "cholesky_solve": [
        _algebra_pair(uniform(3, 2), np.linalg.cholesky(_positive())),
        _algebra_pair(uniform(3, 1), np.linalg.cholesky(_positive()).T.copy(), upper=True),
        _algebra_pair(uniform(2, 3, 1), np.linalg.cholesky(_positive())),
    ],
    "mul": [
        _linalg_pair((2, 3), (3, 4)),
        _linalg_pair((2, 3, 4), (4, 5), x_num_col_dims=2),
        _linalg_pair((2, 3, 4), (2, 6, 5), y_num_col_dims=2),
        _linalg_pair((2, 2, 3, 4), (6, 2, 3, 1), x_num_col_dims=2, y_num_col_dims=2),  # as matrices: [4, 12] by [12, 3]
        _linalg_pair((0, 3), (3, 4)),
    ],
    "matmul_v2": [
        _linalg_pair((2, 3), (3, 4)),
        _linalg_pair((3, 2), (3, 4), trans_x=True),
        _linalg_pair((2, 3), (4, 3), trans_y=True),
        _linalg_pair((3, 2), (4, 3), trans_x=True, trans_y=True),
        _linalg_pair((2, 3, 4), (4, 5)),
        _linalg_pair((2, 3, 4), (5, 4), trans_y=True),
        _linalg_pair((2, 4, 3), (4, 5), trans_x=True),
        _linalg_pair((2, 4, 3), (5, 4), trans_x=True, trans_y=True),
        _linalg_pair((2, 1, 2, 3), (3, 3, 4)),  # batches [2, 1] and [3]
        _linalg_pair((2, 3), (2, 3, 4)),
        _linalg_pair((3, 2), (2, 4, 3), trans_x=True, trans_y=True),
        _linalg_pair((3,), (3,)),
        _linalg_pair((3,), (3, 4)),
        _linalg_pair((3,), (4, 3), trans_y=True),
        _linalg_pair((3,), (2, 3, 4)),
        _linalg_pair((2, 3), (3,)),
        _linalg_pair((3, 2), (3,), trans_x=True),
        _linalg_pair((2, 2, 3), (3,)),
        _linalg_pair((2, 3, 2), (3,), trans_x=True),
        _linalg_pair((2, 0), (0, 3)),
        _linalg_pair((0, 2, 3), (3, 4)),
    ],
    "matmul": [
        _linalg_pair((2, 3), (3, 4), alpha=2.0),
        _linalg_pair((2, 3, 2), (2, 4, 3), transpose_X=True, transpose_Y=True),
        _linalg_pair((3,), (3,), alpha=0.5),
        _linalg_pair((2, 3), (3,)),
    ],
    "bmm": [_linalg_pair((2, 3, 4), (2, 4, 5)), _linalg_pair((0, 3, 4), (0, 4, 5))],
    "dot": [_linalg_pair((3,), (3,)), _linalg_pair((2, 3), (2, 3))],
    "addmm": [
        Sample({"Input": uniform(2, 4), "X": uniform(2, 3), "Y": uniform(3, 4)}),
        Sample({"Input": uniform(4), "X": uniform(2, 3), "Y": uniform(3, 4)}, {"Alpha": 2.0, "Beta": 0.5}),
    ],
}
