"""Mistakes in the merging of common subexpressions."""

from __future__ import annotations

from typing import Any

from tests.mutants.corpus import Mutant
from tests.mutants.patching import Patch
from tests.mutants.witness import Witness

KEYS = "graphad.passes.cleanup.operator_keys"
CSE = "graphad.passes.cleanup.cse"


def _cse(name: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    return Mutant(f"cse-{name}", "cse", Patch(where, old, new), Witness(text, "cse", **options))


def _without(attribute: str) -> tuple[str, str, str]:
    """The change that makes operators equal that differ in one attribute."""
    call = "frozen_attrs(definition, op.attrs) if op.attrs else ()"
    return (
        f"{KEYS}:key_of",
        call,
        f"frozen_attrs(definition, {{n: v for n, v in op.attrs.items() if n != {attribute!r}}}) if op.attrs else ()",
    )


_EQUAL = (
    _cse(
        "ignores-all-attributes",
        f"{KEYS}:key_of",
        "frozen_attrs(definition, op.attrs) if op.attrs else ()",
        "()",
        """
        x: float64[2]
        scale(X=x) -> (Out=a) {scale=2.0}
        scale(X=x) -> (Out=b) {scale=3.0}
        """,
    ),
    _cse(
        "ignores-trans-y",
        *_without("trans_y"),
        """
        x: float64[2, 2]
        y: float64[2, 2]
        matmul_v2(X=x, Y=y) -> (Out=a)
        matmul_v2(X=x, Y=y) -> (Out=b) {trans_y=true}
        """,
    ),
    _cse(
        "ignores-dim",
        *_without("dim"),
        """
        x: float64[2, 2]
        reduce_sum(X=x) -> (Out=a) {dim=[0]}
        reduce_sum(X=x) -> (Out=b) {dim=[1]}
        """,
    ),
    _cse(
        "ignores-epsilon",
        *_without("epsilon"),
        """
        x: float64[2, 3]
        layer_norm(X=x) -> (Y=a, Mean=m, Variance=v) {epsilon=0.1}
        layer_norm(X=x) -> (Y=b, Mean=n, Variance=w) {epsilon=0.5}
        """,
    ),
    _cse(
        "ignores-bias",
        *_without("bias"),
        """
        x: float64[2]
        scale(X=x) -> (Out=a) {scale=2.0, bias=1.0}
        scale(X=x) -> (Out=b) {scale=2.0, bias=0.5}
        """,
    ),
    _cse(
        "ignores-axis",
        *_without("axis"),
        """
        x: float64[2, 2]
        softmax(X=x) -> (Out=a) {axis=0}
        softmax(X=x) -> (Out=b)
        """,
    ),
    _cse(
        "ignores-exclusive",
        *_without("exclusive"),
        """
        x: float64[3]
        cumsum(X=x) -> (Out=a)
        cumsum(X=x) -> (Out=b) {exclusive=true}
        """,
    ),
    _cse(
        "rounds-attributes",
        f"{KEYS}:frozen",
        'value.hex() if value == value else "nan", float',
        'round(value, 1) if value == value else "nan", float',
        """
        x: float64[2]
        scale(X=x) -> (Out=a) {scale=0.3}
        scale(X=x) -> (Out=b) {scale=0.31}
        """,
    ),
    _cse(
        "takes-minus-zero-for-zero",
        f"{KEYS}:frozen",
        'value.hex() if value == value else "nan", float',
        'value if value == value else "nan", float',
        """
        x: float64[2]
        fill_any_like(X=x) -> (Out=a) {value=0.0}
        fill_any_like(X=x) -> (Out=b) {value=-0.0}
        reciprocal(X=a) -> (Out=c)
        reciprocal(X=b) -> (Out=d)
        """,
    ),
    _cse(
        "merges-random",
        f"{KEYS}:_is_repeatable",
        "definition.random or definition.side_effect",
        "definition.side_effect",
        """
        uniform_random() -> (Out=a) {shape=[3]}
        uniform_random() -> (Out=b) {shape=[3]}
        """,
    ),
    _cse(
        "takes-difference-for-commutative",
        f"{KEYS}:key_of",
        "definition.commutative and not attrs",
        '(definition.commutative or op.type == "elementwise_sub") and not attrs',
        """
        x: float64[2]
        y: float64[2]
        elementwise_sub(X=x, Y=y) -> (Out=a)
        elementwise_sub(X=y, Y=x) -> (Out=b)
        """,
    ),
    _cse(
        "takes-maximum-for-commutative",
        f"{KEYS}:key_of",
        "definition.commutative and not attrs",
        '(definition.commutative or op.type == "elementwise_max") and not attrs',
        """
        x: float64[1]
        y: float64[1]
        elementwise_max(X=x, Y=y) -> (Out=a)
        elementwise_max(X=y, Y=x) -> (Out=b)
        elementwise_add(X=a, Y=b) -> (Out=c)
        mean(X=c) -> (Out=loss)
        """,
        feeds={"x": [1.0], "y": [1.0]},
        sources=("x",),
        free=True,
    ),
)

_PLACES = (
    _cse(
        "takes-carried-for-captured",
        "graphad.passes.cleanup.cse:Captures._around",
        "start = first_captured(owner)",
        "start = 0",
        """
        h: float64[1]
        n: int64[1]
        fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
        tanh(X=h) -> (Out=t)
        less_than(X=i, Y=n) -> (Out=more)
        while(X=[h, i, n], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
        elementwise_add(X=h, Y=t) -> (Out=y)
        block 1 in 0:
        tanh(X=h) -> (Out=u)
        elementwise_add(X=u, Y=u) -> (Out=h)
        increment(X=i) -> (Out=i)
        less_than(X=i, Y=n) -> (Out=more)
        """,
        feeds={"n": [2]},
    ),
    _cse(
        "captures-where-it-is-carried",
        "graphad.ir.edits:add_operands",
        "if i >= first_captured(op)}",
        "if i >= 0}",
        """
        x: float64[1]
        n: int64[1]
        fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
        tanh(X=x) -> (Out=h)
        less_than(X=i, Y=n) -> (Out=more)
        while(X=[h, i, n, x], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
        assign(X=h) -> (Out=y)
        block 1 in 0:
        tanh(X=x) -> (Out=u)
        elementwise_mul(X=h, Y=u) -> (Out=h)
        increment(X=i) -> (Out=i)
        less_than(X=i, Y=n) -> (Out=more)
        """,
        feeds={"n": [3]},
    ),
)

MUTANTS = (*_EQUAL, *_PLACES)
