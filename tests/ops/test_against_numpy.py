"""Values of operators against numpy's and Python's own, and against values known by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graphad import ops
from graphad.errors import InvalidValue
from graphad.ops import lookup
from graphad.ops.sample import uniform

LABELS = "abcd"


def random_equation(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]]]:
    """An equation over one to three operands, labels repeated and left out, and the operands' shapes."""
    extents = {c: int(rng.integers(1, 4)) for c in LABELS}
    terms = ["".join(rng.choice(list(LABELS), rng.integers(0, 4))) for _ in range(rng.integers(1, 4))]
    used = sorted(set("".join(terms)))
    kept = "".join(rng.permutation(used)[: rng.integers(0, len(used) + 1)]) if used else ""
    return f"{','.join(terms)}->{kept}", [tuple(extents[c] for c in t) for t in terms]


@pytest.mark.parametrize("seed", range(60))
def test_einsum_is_numpys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    equation, shapes = random_equation(rng)
    operands = [rng.normal(size=shape) for shape in shapes]
    np.testing.assert_allclose(ops.einsum(operands, equation=equation), np.einsum(equation, *operands), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("index", "attrs", "value"),
    [
        ((slice(1, 3),), {"axes": [0], "starts": [1], "ends": [3], "steps": [1]}, (4, 5)),
        ((slice(None, None, -2),), {"axes": [0], "starts": [-1], "ends": [-9], "steps": [-2]}, (1, 5)),
        ((1,), {"axes": [0], "starts": [1], "ends": [2], "steps": [1], "decrease_axes": [0]}, (4, 5)),
        ((1, slice(None), 2), {"axes": [0, 2], "starts": [1, 2], "ends": [2, 3], "steps": [1, 1], "decrease_axes": [0, 2]}, (4,)),
        ((None, slice(0, 2)), {"axes": [0], "starts": [0], "ends": [2], "steps": [1], "none_axes": [0]}, (1, 2, 4, 5)),
        ((1, None), {"axes": [0], "starts": [1], "ends": [2], "steps": [1], "decrease_axes": [0], "none_axes": [1]}, (1, 4, 5)),
        (
            (slice(0, 2), slice(None), slice(None), None),
            {"axes": [0], "starts": [0], "ends": [2], "steps": [1], "none_axes": [3]},
            (2, 4, 5, 1),
        ),
    ],
)
def test_set_value_is_assignment_to_an_index(index: tuple[Any, ...], attrs: dict[str, Any], value: tuple[int, ...]) -> None:
    given, new = uniform(3, 4, 5), uniform(*value, seed=1)
    expected = given.copy()
    expected[index] = new
    np.testing.assert_array_equal(lookup("set_value").kernel(given, new, **attrs), expected)


@pytest.mark.parametrize(("mode", "name"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap"), ("constant", "constant")])
def test_pad3d_starts_at_the_last_axis(mode: str, name: Any) -> None:
    x = uniform(1, 2, 3, 4, 5)
    expected = np.pad(x, [(0, 0), (0, 0), (1, 0), (2, 1), (3, 2)], name)
    np.testing.assert_array_equal(ops.pad3d(x, paddings=[3, 2, 2, 1, 1, 0], mode=mode), expected)


def test_pad2d_starts_at_the_first_axis() -> None:
    x = uniform(1, 2, 3, 4)
    np.testing.assert_array_equal(
        ops.pad2d(x, paddings=[2, 1, 3, 0], mode="reflect"), np.pad(x, [(0, 0), (0, 0), (2, 1), (3, 0)], "reflect")
    )


def test_scatter_overwrites_with_the_last_or_replaces_by_the_sum() -> None:
    x, ids, updates = np.full((3, 1), 9.0), np.array([1, 0, 1]), np.array([[1.0], [2.0], [3.0]])
    np.testing.assert_array_equal(ops.scatter(x, ids, updates), [[2.0], [3.0], [9.0]])
    np.testing.assert_array_equal(ops.scatter(x, ids, updates, overwrite=False), [[2.0], [4.0], [9.0]])


def test_equal_elements_keep_their_order_in_both_directions_and_nan_is_greatest() -> None:
    x = np.array([1.0, np.nan, 0.0, 1.0])
    assert ops.argsort(x)[1].tolist() == [2, 0, 3, 1]
    assert ops.argsort(x, descending=True)[1].tolist() == [1, 0, 3, 2]


def test_distinct_values_come_in_their_first_order_or_sorted() -> None:
    kernel, x = lookup("unique").kernel, np.array([3, 1, 3, 2])
    assert [part.tolist() for part in kernel(x)] == [[3, 1, 2], [0, 1, 3], [0, 1, 0, 2], [2, 1, 1]]
    assert [part.tolist() for part in kernel(x, is_sorted=True)] == [[1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2]]


def test_maxout_takes_neighbors_and_of_equal_ones_the_first() -> None:
    x = np.array([[1.0, 1.0, 0.0, 5.0]])
    assert ops.maxout(x, groups=2).tolist() == [[1.0, 5.0]]
    assert ops.maxout_index(x, groups=2).tolist() == [[0, 3]]


def test_gamma_functions_are_known_ones() -> None:
    x = np.array([-4.5, -0.3, 1e-6, 0.5, 1.0, 2.0, 7.25, 150.0, 1e10])
    np.testing.assert_allclose(ops.lgamma(x), [math.lgamma(v) for v in x], rtol=1e-13, atol=1e-13)
    euler = 0.57721566490153286
    np.testing.assert_allclose(
        ops.digamma(np.array([1.0, 0.5, -0.5])), [-euler, -euler - 2 * math.log(2), 2 - euler - 2 * math.log(2)], rtol=1e-13
    )
    np.testing.assert_allclose(
        ops.polygamma(np.array([1.0, 0.5, -0.5]), n=1), [math.pi**2 / 6, math.pi**2 / 2, math.pi**2 / 2 + 4], rtol=1e-13
    )
    assert np.isinf(ops.lgamma(np.array([0.0, -2.0]))).all()
    assert np.isnan(ops.digamma(np.array([-1.0, np.nan]))).all()


def test_logcumsumexp_does_not_overflow() -> None:
    x = np.array([-1e4, 0.0, 1e4, 1e4])
    np.testing.assert_allclose(ops.logcumsumexp(x), [-1e4, 0.0, 1e4, 1e4 + math.log(2)])


def test_fmax_passes_over_nan() -> None:
    x, y = np.array([np.nan, 1.0, np.nan]), np.array([2.0, np.nan, np.nan])
    np.testing.assert_array_equal(ops.elementwise_fmax(x, y), [2.0, 1.0, np.nan])
    np.testing.assert_array_equal(ops.elementwise_fmin(x, y), [2.0, 1.0, np.nan])


@pytest.mark.parametrize("op", ["inverse", "cholesky"])
def test_matrices_without_a_solution_are_refused(op: str) -> None:
    with pytest.raises(InvalidValue, match="there is no solution"):
        lookup(op).kernel(np.zeros((2, 2)))


def test_grids_and_distances() -> None:
    rows, columns = ops.meshgrid([np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])])
    assert (rows.tolist(), columns.tolist()) == ([[1.0] * 3, [2.0] * 3], [[3.0, 4.0, 5.0]] * 2)
    assert ops.linspace(np.array(0), np.array(10), np.array(4), dtype="int32").tolist() == [0, 3, 6, 10]
