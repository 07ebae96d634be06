"""Samples of sorting, picking and scattering, and of the elementwise operators beyond arithmetic."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Array, Sample, away_from_zero, uniform


def _of(x: Array, **attrs: object) -> Sample:
    return Sample({"X": x}, attrs)


def _pair(x: Array, y: Array, **attrs: object) -> Sample:
    return Sample({"X": x, "Y": y}, attrs)


def _apart(*shape: int, seed: int = 0) -> Array:
    """Values of which any two differ by a tenth."""
    count = int(np.prod(shape))
    return np.asarray(np.random.default_rng(seed).permutation(count).reshape(shape) / 10.0 - count / 20.0 + 0.03)


TWICE = np.array([[2, 0, 2], [1, 1, 0]])
MASK = np.array([[True, False, True], [False, False, True]])
INTS, BITS = np.array([[5, -3], [12, 7]]), np.array([6, 1])
X, ROWS = uniform(2, 3), uniform(4, 3)
REPEATED = np.array([2, 0, 2])
NUMBERS = np.array([3.0, 1.0, 3.0, 2.0, 1.0])
POSITIVE = np.array([0.3, 1.0, 2.0, 5.5, 30.0])
ANYWHERE = np.array([-0.5, -1.3, -2.7, 0.7, 4.2])

SAMPLES: dict[str, list[Sample]] = {
    "argsort": [
        _of(_apart(2, 3)),
        _of(_apart(2, 3), axis=0, descending=True),
        _of(_apart(3, 2, 2), axis=-2),
        _of(uniform()),
        _of(uniform(0, 2), axis=0),
    ],
    "unique": [
        _of(NUMBERS),
        _of(NUMBERS, is_sorted=True, return_index=True, return_inverse=True, return_counts=True, dtype="int32"),
        _of(np.array([[1, 2], [1, 2], [0, 2]]), axis=[0], is_sorted=True),
        _of(np.array([], "int64")),
    ],
    "maxout": [_of(_apart(2, 4, 2), groups=2), _of(_apart(2, 3, 4), groups=4, axis=-1), _of(uniform(0, 4), groups=2)],
    "maxout_index": [_of(_apart(2, 4, 2), groups=2), _of(_apart(2, 3, 4), groups=2, axis=-1)],
    "where_index": [
        Sample({"Condition": MASK}),
        Sample({"Condition": np.array([0.0, 2.0])}),
        Sample({"Condition": np.array(True)}),
        Sample({"Condition": np.zeros((0, 2), bool)}),
    ],
    "masked_select": [
        Sample({"X": X, "Mask": MASK}),
        Sample({"X": X, "Mask": MASK[0]}),
        Sample({"X": uniform(3), "Mask": MASK}),
        Sample({"X": X, "Mask": np.zeros((2, 3), bool)}),
        Sample({"X": uniform(), "Mask": np.array(True)}),
    ],
    "multiplex": [
        Sample({"Ids": np.array([[1], [0], [1]]), "X": [uniform(3, 2), uniform(3, 2, seed=1)]}),
        Sample({"Ids": np.array([[0], [2]], "int32"), "X": [uniform(2, 2, 2, seed=i) for i in range(3)]}),
    ],
    "index_sample": [Sample({"X": X, "Index": TWICE}), Sample({"X": X, "Index": np.zeros((2, 0), "int64")})],
    "scatter": [
        Sample({"X": ROWS, "Ids": np.array([3, 1]), "Updates": uniform(2, 3, seed=1)}),
        Sample({"X": ROWS, "Ids": REPEATED, "Updates": uniform(3, 3, seed=1)}),
        Sample({"X": ROWS, "Ids": REPEATED[:, None], "Updates": uniform(3, 3, seed=1)}, {"overwrite": False}),
        Sample({"X": uniform(4), "Ids": REPEATED, "Updates": uniform(3, seed=1)}),
        Sample({"X": ROWS, "Ids": np.array([], "int64"), "Updates": uniform(0, 3)}),
    ],
    "put_along_axis": [
        *(
            Sample({"Input": X, "Index": TWICE, "Value": uniform(2, 3, seed=1)}, {"Axis": 1, "Reduce": reduce})
            for reduce in ("assign", "add", "mul", "multiply")
        ),
        Sample({"Input": X, "Index": TWICE, "Value": np.array([[0.0, 2.0, 0.5], [0.0, 0.0, 1.0]])}, {"Axis": -1, "Reduce": "mul"}),
        Sample({"Input": X, "Index": np.array([[1, 0, 1], [1, 1, 0]]), "Value": uniform(2, 3, seed=1)}, {"Axis": 0, "Reduce": "mul"}),
        Sample({"Input": X, "Index": np.array([[1, 0, 1], [1, 1, 0]]), "Value": uniform(2, 3, seed=1)}, {"Axis": 0}),
    ],
    "last_of_each": [_of(TWICE, axis=1), _of(TWICE, axis=0), _of(REPEATED, axis=0), _of(np.zeros((2, 0), "int64"), axis=-1)],
    "logcumsumexp": [
        _of(uniform(2, 3)),
        _of(uniform(2, 3) * 30.0, axis=0, reverse=True),
        _of(uniform(2, 2, 2), flatten=True),
        _of(uniform(2, 3), flatten=True, reverse=True),
        _of(uniform()),
        _of(uniform(0, 2)),
    ],
    "norm": [
        _of(away_from_zero(2, 3), axis=1),
        _of(away_from_zero(2, 3, 2), axis=-2, epsilon=0.1),
        Sample({"X": away_from_zero(2, 3)}, {"axis": 0}, outputs=("Out", "Norm")),
        _of(uniform(0, 2), axis=1),
    ],
    "trunc": [_of(np.array([-1.7, -0.2, 0.4, 2.9])), _of(np.array([1, -2]))],
    "clip": [
        Sample({"X": ROWS, "Min": np.array([-0.25]), "Max": np.array(0.5)}, {"min": 0.0, "max": 0.0}),
        Sample({"X": ROWS, "Min": np.array(-0.25)}, {"min": 9.0, "max": 0.5}),
        Sample({"X": ROWS, "Max": np.array([0.25])}, {"min": -0.5, "max": 0.0}),
        Sample({"X": uniform(), "Min": np.array([2.0])}, {"min": 0.0, "max": 3.0}),
        Sample({"X": ROWS, "Min": np.array(0.7), "Max": np.array([0.25])}, {"min": 0.0, "max": 0.0}),
    ],
    **{
        op: [_pair(INTS, INTS[::-1].copy()), _pair(INTS, BITS), _pair(MASK, MASK[0])] for op in ("bitwise_and", "bitwise_or", "bitwise_xor")
    },
    "bitwise_not": [_of(INTS), _of(MASK), _of(np.array(7, "uint8"))],
    **{
        op: [
            _pair(_apart(2, 3), _apart(2, 3, seed=1) + 0.05),
            _pair(_apart(2, 3), _apart(2, seed=1) + 0.05, axis=0),
            _pair(uniform(0, 2), uniform(2)),
        ]
        for op in ("elementwise_fmax", "elementwise_fmin")
    },
    "elementwise_heaviside": [
        _pair(away_from_zero(2, 3), uniform(3)),
        Sample({"X": np.array([[0.0, -1.0], [2.0, 0.0]]), "Y": uniform(2)}, {"axis": 0}, differentiate=("Y",)),
    ],
    "atan2": [
        Sample({"X1": away_from_zero(2, 3), "X2": away_from_zero(2, 3, seed=1)}),
        Sample({"X1": away_from_zero(3), "X2": away_from_zero(2, 1, seed=1)}),
    ],
    "lerp": [
        Sample({"X": uniform(2, 3), "Y": uniform(2, 3, seed=1), "Weight": uniform(2, 3, seed=2)}),
        Sample({"X": uniform(2, 3), "Y": uniform(3, seed=1), "Weight": uniform()}),
    ],
    **{
        op: [
            Sample({"Input": uniform(2, 3), "Other": uniform(2, 3) + 1e-6}, {"rtol": "1e-4"}),
            Sample({"Input": np.array([np.nan, 1.0]), "Other": np.array([np.nan, 1.0])}, {"equal_nan": True}),
            Sample({"Input": uniform(2), "Other": uniform(2) + 0.5, "Rtol": np.array([0.0]), "Atol": np.array(1.0)}),
        ]
        for op in ("isclose", "allclose")
    },
    "equal_all": [_pair(INTS, INTS), _pair(INTS, BITS), _pair(uniform(), uniform())],
    "linspace": [
        Sample({"Start": np.array(0.5), "Stop": np.array([2.0]), "Num": np.array(5)}, {"dtype": "float64"}),
        Sample({"Start": np.array([1.0]), "Stop": np.array([2.0]), "Num": np.array([1], "int32")}, {"dtype": "float64"}),
        Sample({"Start": np.array(0), "Stop": np.array(10), "Num": np.array(4)}, {"dtype": "int64"}),
    ],
    "meshgrid": [
        Sample({"X": [uniform(2), uniform(3, seed=1)]}),
        Sample({"X": [uniform(2), uniform(1), uniform(2, seed=1)]}),
        Sample({"X": [uniform(2)]}),
        Sample({"X": [uniform(2), uniform()]}),
    ],
    "lgamma": [_of(POSITIVE), _of(ANYWHERE), _of(uniform(0))],
    "digamma": [_of(POSITIVE), _of(ANYWHERE), _of(uniform())],
    "polygamma": [Sample({"x": POSITIVE[1:]}, {"n": n}) for n in (0, 1, 3)] + [Sample({"x": ANYWHERE[1:]}, {"n": 2})],
}
