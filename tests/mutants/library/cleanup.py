"""Mistakes in the other passes that clean up: dead-code, constant-folding, canonical-order."""

from __future__ import annotations

from typing import Any

from tests.mutants.corpus import Mutant
from tests.mutants.patching import Patch
from tests.mutants.witness import Witness

DEAD = "graphad.passes.cleanup.dead_code"
FOLDING = "graphad.passes.cleanup.constant_folding"
GRAPH = "graphad.ir.graph"

_TRAINED = """
x: float64[2, 2]
param w: float64[2, 1]
rate: float64[1] persistable
mul(X=x, Y=w) -> (Out=h)
mean(X=h) -> (Out=loss)
fill_constant() -> (Out=loss@GRAD) {shape=[], value=1.0, dtype="float64"} backward
mean_grad(X=h, Out@GRAD=loss@GRAD) -> (X@GRAD=h@GRAD) backward
mul_grad(X=x, Y=w, Out@GRAD=h@GRAD) -> (Y@GRAD=w@GRAD) backward
sgd(Param=w, Grad=w@GRAD, LearningRate=rate) -> (ParamOut=w) optimize
"""
_LOOP = """
h: float64[1]
k: float64[1]
n: int64[1]
fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
less_than(X=i, Y=n) -> (Out=more)
while(X=[h, k, i, n], Condition=more) -> (Out=[h, k, i, more]) {sub_block=block(1)}
scale(X=h) -> (Out=y) {scale=3.0}
block 1 in 0:
elementwise_add(X=h, Y=k) -> (Out=h)
scale(X=k) -> (Out=k) {scale=2.0}
increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more)
"""


def _dead(name: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    return Mutant(f"dead-code-{name}", "dead-code", Patch(where, old, new), Witness(text, "dead-code", **options))


_DEAD = (
    _dead(
        "drops-effects",
        f"{GRAPH}:Graph.is_dead",
        " and not has_effects(op)",
        "",
        """
        x: float64[2]
        tanh(X=x) -> (Out=y)
        fetch(X=y) -> (Out=z) {col=0}
        """,
        targets=("y",),
        fetch=("z",),
        free=True,
    ),
    _dead(
        "drops-updates",
        f"{GRAPH}:Graph.is_observed",
        "value in self.targets or (value.persistable and bool(value.writers) and self.values.last(value.name) is value)",
        "value in self.targets",
        _TRAINED,
        targets=("loss",),
    ),
    _dead(
        "keeps-the-first-write",
        f"{GRAPH}:Graph.is_observed",
        "self.values.last(value.name) is value",
        "next(v for v in self.versions(value.name) if v.writers) is value",
        """
        count: float64[1] persistable
        increment(X=count) -> (Out=count)
        increment(X=count) -> (Out=count) {step=2.0}
        assign(X=count) -> (Out=loss)
        fill_constant() -> (Out=count) {shape=[1], value=7.0, dtype="float64"}
        """,
        targets=("loss",),
        runs=2,
    ),
    _dead(
        "forgets-what-a-carried-value-needs",
        f"{DEAD}:Needed._need_operand",
        "if place < first_captured(op):",
        "if place < 0:",
        _LOOP,
        targets=("y",),
        feeds={"n": [3]},
    ),
    _dead(
        "drops-results-that-are-read",
        f"{DEAD}:Needed._need_roots",
        "if value.readers or value.graph.is_observed(value))",
        "if value.graph.is_observed(value))",
        _LOOP,
        targets=("y",),
        feeds={"n": [3]},
    ),
    _dead(
        "takes-the-condition-for-dead",
        f"{DEAD}:Needed._run",
        "self._need_place(op, carried_count(op) - 1)",
        "self._need([operands(op)[carried_count(op) - 1]])",
        _LOOP,
        targets=("y",),
        feeds={"n": [3]},
    ),
    _dead(
        "drops-what-one-branch-reads",
        f"{DEAD}:Needed._kept",
        "any(g.inputs[i] in self.values for g in op.graphs.values())",
        "all(g.inputs[i] in self.values for g in op.graphs.values())",
        """
        c: bool[1]
        x: float64[1]
        z: float64[1]
        y: float64[1]
        if_else(Cond=c, X=[x, z]) -> (Out=y) {true_block=block(1), false_block=block(2)}
        block 1 in 0:
        tanh(X=x) -> (Out=y)
        block 2 in 0:
        sin(X=z) -> (Out=y)
        """,
    ),
)


def _folding(name: str, where: str, old: str, new: str, text: str, what: str = "constant-folding", **options: Any) -> Mutant:
    return Mutant(f"constant-folding-{name}", "constant-folding", Patch(where, old, new), Witness(text, what, **options))


_FOLDING = (
    _folding(
        "takes-the-dtype-of-x",
        f"{FOLDING}:Fold._folded_by_shape",
        '"dtype": number.dtype',
        '"dtype": value.dtype',
        """
        x: float64[2]
        fill_any_like(X=x) -> (Out=y) {value=1.0, dtype="int64"}
        """,
    ),
    _folding(
        "forgets-the-number",
        f"{FOLDING}:Fold._folded_by_shape",
        "float(number.value)",
        "0.0",
        """
        x: float64[2]
        fill_any_like(X=x) -> (Out=y) {value=1.0}
        """,
    ),
    _folding(
        "takes-one-element-for-all",
        f"{FOLDING}:Fold._computed",
        "not definition.uniform or None in counts",
        "None in counts",
        """
        fill_constant() -> (Out=a) {shape=[3, 3], value=2.0, dtype="float64"}
        reduce_sum(X=a) -> (Out=b)
        """,
        "constant-folding{limit=4}",
    ),
    _folding(
        "folds-unknown-extents",
        f"{FOLDING}:Fold._folded_by_shape",
        "v.type is None or -1 in v.type.shape",
        "v.type is None",
        """
        x: float64[-1, 3]
        shape(Input=x) -> (Out=s)
        """,
    ),
    _folding(
        "loses-an-extent",
        f"{FOLDING}:Fold._replaced_by_run",
        "shape=v.shape",
        "shape=v.shape[1:]",
        """
        x: float64[2, 3]
        size(Input=x) -> (Out=s)
        """,
    ),
    _folding(
        "cuts-the-number",
        f"{FOLDING}:Fold._folded_by_shape",
        "float(number.value)",
        "float(int(number.value))",
        """
        x: float64[2]
        fill_any_like(X=x) -> (Out=y) {value=1.5}
        """,
    ),
)


def _order(name: str, where: str, old: str, new: str, text: str, **options: Any) -> Mutant:
    return Mutant(f"canonical-order-{name}", "canonical-order", Patch(where, old, new), Witness(text, "canonical-order", **options))


_ORDER = (
    _order(
        "swaps-a-difference",
        "graphad.passes.cleanup.canonical_order:is_commutative",
        "definition is not None and definition.commutative",
        'definition is not None and (definition.commutative or op_type == "elementwise_sub")',
        """
        x: float64[2]
        y: float64[2]
        elementwise_add(X=x, Y=y) -> (Out=a)
        elementwise_sub(X=a, Y=x) -> (Out=b)
        """,
    ),
    _order(
        "swaps-a-maximum",
        "graphad.passes.cleanup.canonical_order:is_commutative",
        "definition is not None and definition.commutative",
        'definition is not None and (definition.commutative or op_type == "elementwise_max")',
        """
        y: float64[1]
        x: float64[1]
        sign(X=x) -> (Out=s)
        elementwise_max(X=y, Y=x) -> (Out=a)
        mean(X=a) -> (Out=loss)
        """,
        feeds={"x": [1.0], "y": [1.0]},
        sources=("x", "y"),
        free=True,
    ),
    _order(
        "swaps-along-an-axis",
        "graphad.passes.cleanup.canonical_order:_Order.put",
        "(op.attrs and _tells_inputs_apart(op)) or not",
        "not",
        """
        x: float64[2, 3]
        y: float64[2]
        tanh(X=y) -> (Out=z)
        elementwise_add(X=x, Y=y) -> (Out=a) {axis=0}
        """,
    ),
)

MUTANTS = (*_DEAD, *_FOLDING, *_ORDER)
