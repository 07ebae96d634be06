"""Factors of matrices: what they multiply to, and gradients that no one value determines are refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers
from graphad.errors import ExecutionError, InvalidValue, ShapeError
from tests.source_tree import ROOT

L: Any = layers
X = np.random.default_rng(3).normal(size=(4, 3))


@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_factors_multiply_to_the_matrix(mode: str) -> None:
    with ga.program_guard(ga.Program()) as program:
        x = L.assign(X)
        q, r = L.qr(x, mode=mode)
        u, s, vh = L.svd(x, full_matrices=mode == "complete")
        values, vectors = L.eigh(x.T @ x)
    q, r, u, s, vh, values, vectors = ga.Executor().run(program, fetch_list=[q, r, u, s, vh, values, vectors])
    np.testing.assert_allclose(q @ r, X, atol=1e-12)
    assert q.shape == u.shape == ((4, 4) if mode == "complete" else (4, 3))
    np.testing.assert_allclose((u[:, :3] * s) @ vh, X, atol=1e-12)
    np.testing.assert_allclose((vectors * values) @ vectors.T, X.T @ X, atol=1e-12)


def slope_of(part: Any) -> Any:
    """The gradient of the sum of one factor."""
    with ga.program_guard(ga.Program()) as program:
        x = L.data("x", [4, 3], append_batch_size=False, dtype="float64", stop_gradient=False)
        (slope,) = ga.gradients(L.reduce_sum(part(x)), x)
    return ga.Executor().run(program, {"x": X}, [slope])[0]


@pytest.mark.parametrize("shape", [(4, 3), (3, 3), (2, 3)])
@pytest.mark.parametrize("mode", ["reduced", "r"])
def test_slopes_of_slopes_where_rows_are_not_known(shape: tuple[int, int], mode: str) -> None:
    """Whether a matrix is tall or wide only the run knows: the same numbers as where it is known."""

    def slopes(rows: int) -> list[Any]:
        with ga.program_guard(ga.Program()) as program:
            x = L.data("x", [rows, 3], append_batch_size=False, dtype="float64", stop_gradient=False)
            parts = [L.qr(x, mode="r")] if mode == "r" else L.qr(x)
            (first,) = ga.gradients(sum(L.reduce_sum(L.sin(part)) for part in parts), x)
            (second,) = ga.gradients(L.reduce_sum(L.sin(first)), x)
        return ga.Executor().run(program, {"x": X[: shape[0]]}, [first, second])

    for unknown, known in zip(slopes(-1), slopes(shape[0]), strict=True):
        np.testing.assert_allclose(unknown, known, rtol=1e-9)
        assert np.abs(known).max() > 1e-3


@pytest.mark.parametrize("part", [lambda x: L.svd(x, full_matrices=True)[0], lambda x: L.qr(x, mode="complete")[0]])
def test_what_has_no_gradient_says_so(part: Any) -> None:
    """The vectors beyond those of the singular values, and beyond the columns, may be turned at will."""
    with pytest.raises(ExecutionError, match="further vectors have no gradient"):
        slope_of(part)


def test_singular_values_alone_have_one() -> None:
    """That of their sum is the product of the vectors."""
    left, _, right = np.linalg.svd(X, full_matrices=False)
    np.testing.assert_allclose(slope_of(lambda x: L.svd(x, full_matrices=True)[1]), left @ right, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: L.qr(x, mode="full"), InvalidValue, "mode='full'"),
        (lambda x: L.eigh(x), ShapeError, "square matrices are expected"),
        (lambda x: L.eigh(L.matmul(x, x, transpose_y=True), UPLO="D"), InvalidValue, "'L' or 'U'"),
        (lambda x: L.svd(x[0, 0]), ShapeError, "matrices"),
        (lambda x: L.svd(L.cast(x, "int64")), ShapeError, "float32 or float64"),
        (lambda x: L.matrix_norm(x, p=3), InvalidValue, "'nuc'"),
        (lambda x: L.index_add(x, x), TypeError, "value is missing"),
        (lambda x: L.lp_pool2d(x, 0, 2), InvalidValue, "above 0"),
        (lambda x: L.cummax(x, 5), ShapeError, "axis"),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with ga.program_guard(ga.Program()):
        x = L.data("x", [4, 3], append_batch_size=False)
        with pytest.raises(error, match=message):
            call(x)


def test_vectors_of_a_singular_square_matrix_have_a_finite_slope() -> None:
    """U of a square matrix spans everything, so that nothing is divided by the singular value that is 0."""
    x = -np.ones((2, 2))
    with ga.program_guard(ga.Program()) as program:
        data = L.data("x", [2, 2], append_batch_size=False, dtype="float64", stop_gradient=False)
        (slope,) = ga.gradients(L.reduce_sum(L.svd(data)[0]), data)
    (found,) = ga.Executor().run(program, {"x": x}, [slope])
    u, s, vh = np.linalg.svd(x)
    v = vh.T
    # dU = U (F * (U' dX V S + S V' dX' U)), F[i, j] = 1 / (s_j^2 - s_i^2): of each element of X in turn.
    factor = np.array([[0.0, 1.0], [-1.0, 0.0]]) / (s[1] ** 2 - s[0] ** 2)

    def along(way: np.ndarray) -> float:
        turned = u.T @ way @ v * s
        return float((u @ (factor * (turned + turned.T))).sum())

    expected = [[along(np.outer(row, column)) for column in np.eye(2)] for row in np.eye(2)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_orthogonal_factor_of_a_singular_square_matrix_has_a_finite_slope() -> None:
    """Nothing is divided by the last element of R, which is 0 but for rounding: a difference tells the slope."""
    x, step = np.array([[2.0, 4.0], [1.0, np.nextafter(2.0, 3.0)]]), 1e-6
    with ga.program_guard(ga.Program()) as program:
        data = L.data("x", [2, 2], append_batch_size=False, dtype="float64", stop_gradient=False)
        q, r = L.qr(data)
        (slope,) = ga.gradients(L.reduce_sum(q) + L.reduce_sum(r), data)
    (found,) = ga.Executor().run(program, {"x": x}, [slope])

    def loss(moved: np.ndarray) -> float:
        return float(sum(factor.sum() for factor in np.linalg.qr(moved)))

    ways = [np.outer(row, column) * step for row in np.eye(2) for column in np.eye(2)]
    expected = np.reshape([(loss(x + way) - loss(x - way)) / (2 * step) for way in ways], (2, 2))
    np.testing.assert_allclose(found, expected, atol=1e-8)


INFINITE = """
import numpy as np
from graphad.errors import InvalidValue
from graphad.ops import lookup

try:
    lookup("svd").run({"X": [np.array([[np.inf] * 3, [1.0] * 3, [1.0] * 3])]}, {}, ("U", "S", "VH"))
except InvalidValue as error:
    print(error)
"""


def test_infinities_end_the_iteration() -> None:
    """LAPACK's search for singular values went on for ever, so this is a process of its own."""
    done = subprocess.run([sys.executable, "-c", INFINITE], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "there is no solution: svd did not converge\n"
