"""Mistakes in the rules of simplify about shapes, axes, pieces, products of matrices and truth."""

from __future__ import annotations

from tests.mutants.library.rules import fast, rule

_ARRANGEMENT = (
    rule(
        "drops-a-narrowing-cast",
        "arrangement:cast_of_widened",
        "compute(holds, a, x.dtype)",
        'x.dtype != ""',
        """
        x: float64[2]
        cast(X=x) -> (Out=a) {out_dtype="int32", in_dtype="float64"}
        cast(X=a) -> (Out=y) {out_dtype="float32", in_dtype="int32"}
        """,
        feeds={"x": [1.5, 2.5]},
    ),
    rule(
        "composes-axes-the-wrong-way",
        "arrangement:transpose2_of_transpose2",
        "compute(composed, a, b)",
        "compute(composed, b, a)",
        """
        x: float64[2, 2, 2]
        transpose2(X=x) -> (Out=a) {axis=[1, 2, 0]}
        transpose2(X=a) -> (Out=y) {axis=[0, 2, 1]}
        """,
    ),
    rule(
        "takes-any-order-for-none",
        "arrangement:is_in_order",
        "[a % len(axis) for a in axis]",
        "sorted(a % len(axis) for a in axis)",
        """
        x: float64[2, 2]
        transpose2(X=x) -> (Out=y) {axis=[1, 0]}
        """,
    ),
    rule(
        "adds-up-rolls-once",
        "arrangement:added",
        "[a + b for a, b in",
        "[max(a, b) for a, b in",
        """
        x: float64[4]
        roll(X=x) -> (Out=a) {shifts=[1], axis=[0]}
        roll(X=a) -> (Out=y) {shifts=[1], axis=[0]}
        """,
    ),
    rule(
        "takes-one-flip-for-two",
        "arrangement:flip_of_flip",
        "axis=a), axis=a), x",
        "axis=a), axis=a), ops.flip(x, axis=a)",
        """
        x: float64[3]
        flip(X=x) -> (Out=a) {axis=[0]}
        flip(X=a) -> (Out=y) {axis=[0]}
        """,
    ),
    rule(
        "joins-pieces-turned-round",
        "pieces:split_of_concat_of_two",
        "return (parts[0], parts[1]), (x, y)",
        "return (parts[0], parts[1]), (y, x)",
        """
        x: float64[2]
        y: float64[2]
        concat(X=[x, y]) -> (Out=c)
        split(X=c) -> (Out=[a, b]) {num=2}
        """,
    ),
    rule(
        "turns-the-factor-always",
        "reductions:matmul_of_transposed",
        "trans_x=~s, trans_y=t), compute",
        "trans_x=True, trans_y=t), compute",
        """
        x: float64[2, 2]
        y: float64[2, 2]
        transpose2(X=x) -> (Out=a) {axis=[1, 0]}
        matmul_v2(X=a, Y=y) -> (Out=z) {trans_x=true}
        """,
    ),
    fast(
        "loses-the-bias-of-a-mean",
        "reductions:mean_of_scaled",
        "ops.scale(ops.mean(x), scale=a, bias=b)",
        "ops.scale(ops.mean(x), scale=a)",
        """
        x: float64[3]
        scale(X=x) -> (Out=a) {scale=2.0, bias=1.0}
        mean(X=a) -> (Out=y)
        """,
    ),
)

_LOGIC = (
    rule(
        "negates-comparisons-of-floats",
        "logic:not_less",
        "compute(is_whole, x.dtype)",
        'x.dtype != ""',
        """
        x: float64[2]
        y: float64[2]
        less_than(X=x, Y=y) -> (Out=a)
        logical_not(X=a) -> (Out=z)
        """,
        feeds={"x": ["nan", 1.0], "y": [1.0, 2.0]},
    ),
    rule(
        "takes-nan-for-equal",
        "logic:equal_to_itself",
        "compute(is_whole, x.dtype)",
        'x.dtype != ""',
        """
        x: float64[2]
        equal(X=x, Y=x) -> (Out=z)
        """,
        feeds={"x": ["nan", 1.0]},
    ),
    rule(
        "compares-strictly",
        "logic:not_greater",
        "ops.less_equal(x, y)",
        "ops.less_than(x, y)",
        """
        x: int64[2]
        y: int64[2]
        greater_than(X=x, Y=y) -> (Out=a)
        logical_not(X=a) -> (Out=z)
        """,
        feeds={"x": [1, 2], "y": [1, 3]},
    ),
    rule(
        "distributes-not-wrongly",
        "logic:and_of_nots",
        "ops.logical_not(ops.logical_or(x, y))",
        "ops.logical_not(ops.logical_and(x, y))",
        """
        x: bool[4]
        y: bool[4]
        logical_not(X=x) -> (Out=a)
        logical_not(X=y) -> (Out=b)
        logical_and(X=a, Y=b) -> (Out=z)
        """,
        feeds={"x": [True, True, False, False], "y": [True, False, True, False]},
    ),
    rule(
        "chooses-the-inner-other",
        "logic:choose_again",
        "ops.where(c, x, z)",
        "ops.where(c, y, z)",
        """
        c: bool[2]
        x: float64[2]
        y: float64[2]
        z: float64[2]
        where(Condition=c, X=x, Y=y) -> (Out=a)
        where(Condition=c, X=a, Y=z) -> (Out=b)
        """,
        feeds={"c": [True, False]},
    ),
)

MUTANTS = (*_ARRANGEMENT, *_LOGIC)
