"""Samples of the products of matrices and vectors."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform


def _pair(x: tuple[int, ...], y: tuple[int, ...], **attrs: object) -> Sample:
    return Sample({"X": uniform(*x), "Y": uniform(*y, seed=1)}, attrs)


SAMPLES: dict[str, list[Sample]] = {
    "mul": [
        _pair((2, 3), (3, 4)),
        _pair((2, 3, 4), (4, 5), x_num_col_dims=2),
        _pair((2, 3, 4), (2, 6, 5), y_num_col_dims=2),
        _pair((2, 2, 3, 4), (6, 2, 3, 1), x_num_col_dims=2, y_num_col_dims=2),
        _pair((0, 3), (3, 4)),
    ],
    "matmul_v2": [
        _pair((2, 3), (3, 4)),
        _pair((3, 2), (3, 4), trans_x=True),
        _pair((2, 3), (4, 3), trans_y=True),
        _pair((3, 2), (4, 3), trans_x=True, trans_y=True),
        _pair((2, 3, 4), (4, 5)),
        _pair((2, 3, 4), (5, 4), trans_y=True),
        _pair((2, 4, 3), (4, 5), trans_x=True),
        _pair((2, 4, 3), (5, 4), trans_x=True, trans_y=True),
        _pair((2, 1, 2, 3), (3, 3, 4)),
        _pair((2, 3), (2, 3, 4)),
        _pair((3, 2), (2, 4, 3), trans_x=True, trans_y=True),
        _pair((3,), (3,)),
        _pair((3,), (3, 4)),
        _pair((3,), (4, 3), trans_y=True),
        _pair((3,), (2, 3, 4)),
        _pair((2, 3), (3,)),
        _pair((3, 2), (3,), trans_x=True),
        _pair((2, 2, 3), (3,)),
        _pair((2, 3, 2), (3,), trans_x=True),
        _pair((2, 0), (0, 3)),
        _pair((0, 2, 3), (3, 4)),
    ],
    "matmul": [
        _pair((2, 3), (3, 4), alpha=2.0),
        _pair((2, 3, 2), (2, 4, 3), transpose_X=True, transpose_Y=True),
        _pair((3,), (3,), alpha=0.5),
        _pair((2, 3), (3,)),
    ],
    "bmm": [_pair((2, 3, 4), (2, 4, 5)), _pair((0, 3, 4), (0, 4, 5))],
    "dot": [_pair((3,), (3,)), _pair((2, 3), (2, 3))],
    "addmm": [
        Sample({"Input": uniform(2, 4), "X": uniform(2, 3), "Y": uniform(3, 4)}),
        Sample({"Input": uniform(4), "X": uniform(2, 3), "Y": uniform(3, 4)}, {"Alpha": 2.0, "Beta": 0.5}),
    ],
}
