"""Wrong passes about idioms: an operator over another one's result and over what that one reads."""

from __future__ import annotations

from dataclasses import dataclass

from graphad import edit, ops
from graphad.ir import Graph, Op
from graphad.rewriting import Pass
from tests.mutants.corpus import UserPass
from tests.mutants.kit import number, operators, written_as
from tests.mutants.witness import Witness
from tests.scratch import passes


def _written_by(op: Op, slot: str, op_type: str) -> Op | None:
    """The operator of a type in the same graph that writes what an operator reads in a slot."""
    writer = op.input(slot).writer
    return writer if writer is not None and writer.type == op_type and writer.graph is op.graph else None


def _chosen(op: Op) -> bool:
    """Whether an operator chooses between the operands of the comparison that it goes by."""
    comparison = _written_by(op, "Condition", "greater_than")
    return comparison is not None and all(comparison.input(slot) is op.input(slot) for slot in ("X", "Y"))


with passes():

    @dataclass(frozen=True)
    class MaximumByChoice(Pass):
        """where(x > y, x, y) is the maximum: but where x is nan it is y."""

        name = "idiom-maximum-by-choice"

        def apply(self, graph: Graph) -> bool:
            choices = [op for op in operators(graph, "where") if _chosen(op)]
            return any([written_as(op, lambda condition, x, y: ops.elementwise_max(x, y)) for op in choices])

    @dataclass(frozen=True)
    class RectifiesByChoice(Pass):
        """where(x > 0, x, 0) is relu: but where x is nan it is 0."""

        name = "idiom-rectifies-by-choice"

        def apply(self, graph: Graph) -> bool:
            choices = [op for op in operators(graph, "where") if _chosen(op) and number(op.input("Y")) == 0.0]
            return any([written_as(op, lambda condition, x, y: ops.relu(x)) for op in choices])

    @dataclass(frozen=True)
    class ShiftsByTheLargest(Pass):
        """x less its maximum is x less the largest of all: but it may be the maximum of each row."""

        name = "idiom-shifts-by-the-largest"

        def apply(self, graph: Graph) -> bool:
            differences = [(op, _written_by(op, "Y", "reduce_max")) for op in operators(graph, "elementwise_sub")]
            shifts = [op for op, largest in differences if largest is not None and largest.input("X") is op.input("X")]
            return any([written_as(op, lambda x, largest: x - ops.reduce_max(x, reduce_all=True)) for op in shifts])

    @dataclass(frozen=True)
    class MultipliesByItsTranspose(Pass):
        """matmul(x, transpose(x)) is matmul(x, x) with trans_y: but the transposition may exchange other axes as well."""

        name = "idiom-multiplies-by-its-transpose"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "matmul_v2"):
                turn = _written_by(op, "Y", "transpose2")
                if turn is None or op.attrs.get("trans_y") or turn.input("X") is not op.input("X"):
                    continue
                if turn.attrs["axis"][-1] == len(turn.attrs["axis"]) - 2 and graph.allows("transpose", op):
                    op.graph.set_inputs(op, "Y", [turn.input("X")])
                    op.graph.set_attr(op, "trans_y", True)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class KnowsWhatEqualsItself(Pass):
        """x == x holds: but not for nan."""

        name = "idiom-knows-what-equals-itself"

        def apply(self, graph: Graph) -> bool:
            equalities = [op for op in operators(graph, "equal") if op.input("X") is op.input("Y")]
            return any([written_as(op, lambda x, y: ops.logical_or(x == y, x != y)) for op in equalities])

    @dataclass(frozen=True)
    class SumsWholeNumbers(Pass):
        """A sum that is cast to integers is a sum of integers: but fractions add up."""

        name = "idiom-sums-whole-numbers"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "cast")):
                total = _written_by(op, "X", "reduce_sum")
                if total is None or total.input("X").dtype != "float32" or op.output("Out").dtype != "int64":
                    continue
                if op.output("Out").type is not None and graph.allows("cast", op):
                    build = edit.Builder(op.graph, before=op, role=op.role)
                    attrs = {name: value for name, value in total.attrs.items() if name in ("dim", "keep_dim", "reduce_all")}
                    whole = ops.cast(build.symbol(total.input("X")), out_dtype="int64")
                    op.graph.substitute(op.output("Out"), ops.reduce_sum(whole, **attrs).value)
                    changed = True
            return changed


def _trying(family: str, pass_type: type[Pass], text: str, **options: object) -> UserPass:
    return UserPass(family, pass_type, Witness(text, pass_type, **options))  # type: ignore[arg-type]


_CHOICE = "greater_than(X=x, Y=y) -> (Out=c)\nwhere(Condition=c, X=x, Y=y) -> (Out=z)"
_NAN = {"x": [float("nan"), 1.0]}

WRONG: tuple[UserPass, ...] = (
    _trying("ends of the range", MaximumByChoice, f"x: float64[2]\ny: float64[2]\n{_CHOICE}", feeds=_NAN),
    _trying(
        "ends of the range",
        RectifiesByChoice,
        f'x: float64[2]\nfill_constant() -> (Out=y) {{shape=[2], value=0.0, dtype="float64"}}\n{_CHOICE}',
        feeds=_NAN,
    ),
    _trying(
        "broadcasting",
        ShiftsByTheLargest,
        "x: float64[2, 2]\nreduce_max(X=x) -> (Out=m) {dim=[1], keep_dim=true}\nelementwise_sub(X=x, Y=m) -> (Out=y)",
        feeds={"x": [[1.0, 2.0], [3.0, 4.0]]},
    ),
    _trying(
        "broadcasting",
        MultipliesByItsTranspose,
        "x: float64[2, 2, 2]\ntranspose2(X=x) -> (Out=t) {axis=[2, 0, 1]}\nmatmul_v2(X=x, Y=t) -> (Out=y)",
    ),
    _trying("ends of the range", KnowsWhatEqualsItself, "x: float64[2]\nequal(X=x, Y=x) -> (Out=y)", feeds=_NAN),
    _trying(
        "dtypes",
        SumsWholeNumbers,
        'x: float32[2]\nreduce_sum(X=x) -> (Out=s) {dim=[0]}\ncast(X=s) -> (Out=y) {out_dtype="int64"}',
        feeds={"x": [0.5, 0.5]},
    ),
)
