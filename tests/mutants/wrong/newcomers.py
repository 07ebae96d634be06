"""Wrong passes as newcomers write them who know numpy and mathematics, but not yet where floats, blocks, state and attributes differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import networkx

from graphad import edit, ops
from graphad.ir import Graph, Op, Value
from graphad.passes import AccumulateGrads
from graphad.program import BACKWARD, OPTIMIZE
from graphad.rewriting import Pass
from graphad.types import FLOATS
from tests.mutants.corpus import Check, UserPass
from tests.mutants.kit import attribute, is_typed, operators, takes_over, written_as
from tests.mutants.witness import BACKWARD as DIFFERENTIATED
from tests.mutants.witness import Witness
from tests.scratch import passes

with passes():

    @dataclass(frozen=True)
    class SharesWithTheBody(Pass):
        """A call in a loop's body is replaced by the same call before the loop, but its operand may differ in each iteration."""

        name = "newcomer-shares-with-the-body"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in edit.loops(graph):
                loop = edit.LoopLike.of(op)
                if loop is None or loop.is_gradient:
                    continue
                body = op.graphs["sub_block"]
                for operand, argument in list(zip(loop.operands, body.inputs, strict=False)):
                    known = {each.type: each for each in operand.readers if each.type in ("tanh", "exp", "square", "sin")}
                    for inner in [each for each in argument.readers if each.type in known]:
                        before = known[inner.type].output("Out")
                        if inner.graph is body and before.type == inner.output("Out").type:
                            body.replace(inner.output("Out"), edit.add_operand(op, before)[0])
                            changed = True
            return changed

    @dataclass(frozen=True)
    class TakesBranchesForEqual(Pass):
        """A call that both branches make on one value is made before them, whatever the attributes."""

        name = "newcomer-takes-branches-for-equal"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "if_else")):
                first, second = op.graphs.values()
                for out, one, other in zip(op.outputs.get("Out", ()), first.results, second.results, strict=True):
                    a, b = one.writer, other.writer
                    if a is None or b is None or a.type != b.type or list(a.inputs) != ["X"] or len(a.inputs["X"]) != 1:
                        continue
                    x, y = a.input("X"), b.input("X")
                    if x not in first.inputs or y not in second.inputs or first.inputs.index(x) != second.inputs.index(y) or a.graphs:
                        continue
                    operand = op.inputs["X"][first.inputs.index(x)]
                    if out.readers and one.type == out.type == other.type and operand.type == x.type and len(a.outputs) == 1:
                        value = op.graph.add_value(f"{out.name}@COMMON", out.shape, out.dtype)
                        op.graph.add_op(a.type, {"X": [operand]}, {"Out": [value]}, a.attrs, before=op, role=op.role)
                        op.graph.replace(out, value)
                        changed = True
            return changed

    @dataclass(frozen=True)
    class ScalesTheRate(Pass):
        """A gradient that is scaled before a step of sgd is a rate that is scaled; the bias of the scale is forgotten."""

        name = "newcomer-scales-the-rate"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "sgd")):
                scaled, rate = op.input("Grad").writer, op.input("LearningRate")
                if scaled is None or scaled.type != "scale" or list(scaled.inputs) != ["X"] or scaled.graph is not op.graph:
                    continue
                factor = attribute(scaled, "scale")
                slower = op.graph.add_value(f"{rate.name}@SCALED", rate.shape, rate.dtype)
                op.graph.add_op("scale", {"X": [rate]}, {"Out": [slower]}, {"scale": factor}, before=op, role=OPTIMIZE)
                op.graph.set_inputs(op, "Grad", [scaled.input("X")])
                op.graph.set_inputs(op, "LearningRate", [slower])
                changed = True
            return changed

    @dataclass(frozen=True)
    class CountsAWriterOnce(AccumulateGrads):
        """Adds gradients up, of those that one operator writes the first alone: what it reads twice has two."""

        name = "newcomer-counts-a-writer-once"

        def apply(self, graph: Graph) -> bool:
            changed = super().apply(graph)
            for op in [op for op in operators(graph, "sum") if op.role == BACKWARD]:
                by_writer = {value.writer: value for value in reversed(op.inputs["X"])}
                op.graph.set_inputs(op, "X", [value for value in op.inputs["X"] if value in by_writer.values()])
            return changed

    @dataclass(frozen=True)
    class InvertsInsteadOfKeeping(Pass):
        """The operand of exp need not be kept for the backward: it is the logarithm of the result, as long as that is finite."""

        name = "newcomer-inverts-instead-of-keeping"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for op in graph.ops if op.type == "exp" and op.role != BACKWARD and is_typed(op)]:
                x = op.input("X")
                readers = [reader for reader in x.readers if reader.role == BACKWARD]
                if not readers:
                    continue
                again = graph.add_value(f"{x.name}@AGAIN", x.shape, x.dtype)
                graph.add_op("log", {"X": [op.output("Out")]}, {"Out": [again]}, before=readers[0], role=BACKWARD)
                for reader in readers:
                    for slot, values in list(reader.inputs.items()):
                        graph.set_inputs(reader, slot, [again if value is x else value for value in values])
                changed = True
            return changed

    @dataclass(frozen=True)
    class MaximumByDifference(Pass):
        """max(x, y) is half of x + y + |x - y|: not its gradient at ties, nor where one is infinite."""

        name = "newcomer-maximum-by-difference"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            found = [op for op in operators(graph, "elementwise_max") if is_typed(op) and op.input("X").type == op.input("Y").type]
            found = [op for op in found if op.input("X").dtype in FLOATS]
            return any([written_as(op, lambda x, y: ops.scale(x + y + ops.abs(x - y), scale=0.5)) for op in found])

    @dataclass(frozen=True)
    class AllAsMinimum(Pass):
        """All are true where the least of them is; but of no elements there is no least one."""

        name = "newcomer-all-as-minimum"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for op in operators(graph, "reduce_all") if 0 not in (op.input("X").shape or ())]:
                dim, keep, everything = (attribute(op, name) for name in ("dim", "keep_dim", "reduce_all"))
                changed |= written_as(
                    op,
                    lambda x, d=dim, k=keep, a=everything: ops.cast(
                        ops.reduce_min(ops.cast(x, out_dtype="int32"), dim=list(d), keep_dim=k, reduce_all=a), out_dtype="bool"
                    ),
                )
            return changed

    @dataclass(frozen=True)
    class SigmoidOverflows(Pass):
        """sigmoid(x) is exp(x) / (1 + exp(x)), as long as exp(x) is finite."""

        name = "newcomer-sigmoid-overflows"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            return any([written_as(op, lambda x: ops.exp(x) / ops.scale(ops.exp(x), bias=1.0)) for op in operators(graph, "sigmoid")])

    @dataclass(frozen=True)
    class AddsUpInFloat64(Pass):
        """Adds integers up as float64, which has 53 bits of them."""

        name = "newcomer-adds-up-in-float64"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for op in operators(graph, "reduce_sum") if op.input("X").dtype == op.output("Out").dtype == "int64"]:
                dim, keep, everything = (attribute(op, name) for name in ("dim", "keep_dim", "reduce_all"))
                changed |= written_as(
                    op,
                    lambda x, d=dim, k=keep, a=everything: ops.cast(
                        ops.reduce_sum(ops.cast(x, out_dtype="float64"), dim=list(d), keep_dim=k, reduce_all=a), out_dtype="int64"
                    ),
                )
            return changed

    @dataclass(frozen=True)
    class DropsOutOnce(Pass):
        """Dropping out twice is dropping out once, more: the numbers drawn are others."""

        name = "newcomer-drops-out-once"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "dropout")):
                inner = op.input("X").writer
                if inner is not None and inner.type == "dropout" and inner.graph is op.graph:
                    keep = (1 - attribute(op, "dropout_prob")) * (1 - attribute(inner, "dropout_prob"))
                    op.graph.set_inputs(op, "X", [inner.input("X")])
                    op.graph.set_attr(op, "dropout_prob", 1 - keep)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ReadsTheNewState(Pass):
        """A persistable variable is read after its update, whichever value of it was read before."""

        name = "newcomer-reads-the-new-state"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for value in [value for value in graph.inputs if value.persistable]:
                last = graph.versions(value.name)[-1]
                if last is value or last.writer is None or last.type != value.type:
                    continue
                needed = networkx.ancestors(graph, last.writer)
                for reader in [reader for reader in value.readers if reader is not last.writer and reader not in needed]:
                    for slot, values in list(reader.inputs.items()):
                        graph.set_inputs(reader, slot, [last if each is value else each for each in values])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class SumsBackwards(Pass):
        """Turned around, summed up and turned around again is summed up from the end, if the sum is inclusive."""

        name = "newcomer-sums-backwards"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "flip")):
                total = op.input("X").writer
                turned = None if total is None or total.type != "cumsum" else total.input("X").writer
                if total is None or turned is None or turned.type != "flip" or attribute(total, "flatten") or attribute(total, "reverse"):
                    continue
                axis = [attribute(total, "axis")]
                if attribute(op, "axis") == attribute(turned, "axis") == axis and op.graph is total.graph is turned.graph and is_typed(op):
                    _becomes(op, "cumsum", {"X": [turned.input("X")]}, axis=axis[0], reverse=True)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class CountsAxesFromTheInput(Pass):
        """A new axis is counted from the end of what there was, not of what there will be."""

        name = "newcomer-counts-axes-from-the-input"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "unsqueeze2", "unsqueeze")):
                axes, shape = attribute(op, "axes"), op.input("X").shape
                if list(op.inputs) == ["X"] and shape is not None and len(axes) == 1 and -len(shape) <= axes[0] < 0:
                    op.graph.set_attr(op, "axes", [axes[0] + len(shape)])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class RemainderByDivision(Pass):
        """x mod c is x - (x / c) c, where division rounds as the remainder does."""

        name = "newcomer-remainder-by-division"

        def apply(self, graph: Graph) -> bool:
            found = [op for op in operators(graph, "elementwise_mod") if is_typed(op) and op.input("X").dtype in ("int32", "int64")]
            return any(
                [written_as(op, lambda x, y: x - ops.elementwise_div(x, y) * y) for op in found if op.input("X").type == op.input("Y").type]
            )

    @dataclass(frozen=True)
    class SplitsSums(Pass):
        """The sum of a sum is the sum of the sums, unless one of them is broadcast."""

        name = "newcomer-splits-sums"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "reduce_sum")):
                inner = op.input("X").writer
                if inner is None or inner.type != "elementwise_add" or not attribute(op, "reduce_all") or inner.graph is not op.graph:
                    continue
                if is_typed(inner) and is_typed(op) and inner.input("X").dtype == inner.input("Y").dtype == op.output("Out").dtype:
                    sums = [_before(op, "reduce_sum", {"X": [inner.input(slot)]}, op.attrs, op.output("Out")) for slot in ("X", "Y")]
                    _becomes(op, "elementwise_add", {"X": sums[:1], "Y": sums[1:]})
                    changed = True
            return changed

    @dataclass(frozen=True)
    class OverwritesTargets(Pass):
        """Lets operators overwrite what nothing else in the graph reads: not where it is requested, or is state."""

        name = "newcomer-overwrites-targets"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for op in graph.ordered_ops() if op.type in ("exp", "tanh", "scale", "square") and "inplace" not in op.attrs]:
                x = op.input("X")
                if (
                    x.writers
                    and list(x.readers) == [op]
                    and x.type == op.output("Out").type
                    and x.writers[0].type not in ("reshape", "assign")
                ):
                    graph.set_attr(op, "inplace", ["Out:X"])
                    changed = True
            return changed


def _before(op: Op, op_type: str, inputs: dict[str, list[Value]], attrs: Mapping[str, Any], like: Value) -> Value:
    """The result, of the type of another value, of a new operator before another one."""
    value = op.graph.add_value(f"{like.name}@NEW", like.shape, like.dtype)
    op.graph.add_op(op_type, inputs, {"Out": [value]}, attrs, before=op, role=op.role)
    return value


def _becomes(op: Op, op_type: str, inputs: dict[str, list[Value]], **attrs: object) -> None:
    """Let a new operator write what another one wrote."""
    takes_over(op, op.output("Out"), _before(op, op_type, inputs, attrs, op.output("Out")))


_LOOP = """
h: float64[1]
n: int64[1]
tanh(X=h) -> (Out=t)
fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
less_than(X=i, Y=n) -> (Out=more)
while(X=[h, i, n], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
elementwise_add(X=h, Y=t) -> (Out=y)
block 1 in 0:
tanh(X=h) -> (Out=h)
increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more)
"""
_BRANCHES = """
x: float64[1]
c: bool[1]
y: float64[1]
if_else(Cond=c, X=x) -> (Out=y) {true_block=block(1), false_block=block(2)}
scale(X=y) -> (Out=z) {scale=2.0}
block 1 in 0:
scale(X=x) -> (Out=y) {scale=2.0}
block 2 in 0:
scale(X=x) -> (Out=y) {scale=3.0}
"""
_SGD = """
param w: float64[2]
g: float64[2]
rate: float64[1] persistable
scale(X=g) -> (Out=s) {scale=2.0, bias=1.0}
sgd(Param=w, Grad=s, LearningRate=rate) -> (ParamOut=w) optimize
"""
_TWICE = "x: float64[2]\nelementwise_mul(X=x, Y=x) -> (Out=y)\nmean(X=y) -> (Out=loss)"
_FIRST = "find-op-path{targets=[$loss]}, create-grad-ops, prune-no-grad"


def _trying(family: str, pass_type: type[Pass], text: str, prepare: str = "", **options: object) -> UserPass:
    return UserPass(family, pass_type, Witness(text, pass_type, prepare, **options))  # type: ignore[arg-type]


WRONG: tuple[UserPass, ...] = (
    _trying("loops", SharesWithTheBody, _LOOP, feeds={"n": [2]}),
    _trying("branches", TakesBranchesForEqual, _BRANCHES, feeds={"c": [False]}),
    _trying("state", ScalesTheRate, _SGD),
    UserPass(
        "gradients",
        CountsAWriterOnce,
        Witness(_TWICE, f"{_FIRST}, newcomer-counts-a-writer-once, create-grad-vars"),
        Check(CountsAWriterOnce),
    ),
    UserPass(
        "memory",
        InvertsInsteadOfKeeping,
        Witness(
            "x: float64[1]\nexp(X=x) -> (Out=y)\nsquare(X=x) -> (Out=z)\nelementwise_add(X=y, Y=z) -> (Out=s)\nmean(X=s) -> (Out=loss)",
            InvertsInsteadOfKeeping,
            DIFFERENTIATED,
            feeds={"x": [-800.0]},
        ),
        Check(InvertsInsteadOfKeeping),
    ),
    _trying(
        "kinks and ties",
        MaximumByDifference,
        "x: float64[1]\ny: float64[1]\nelementwise_max(X=x, Y=y) -> (Out=z)",
        feeds={"x": [1.0], "y": [-math.inf]},
    ),
    _trying("ends of the range", AllAsMinimum, "x: bool[-1]\nreduce_all(X=x) -> (Out=y)", feeds={"x": []}),
    _trying("ends of the range", SigmoidOverflows, "x: float64[1]\nsigmoid(X=x) -> (Out=y)", feeds={"x": [800.0]}),
    _trying("dtypes", AddsUpInFloat64, "x: int64[2]\nreduce_sum(X=x) -> (Out=y)", feeds={"x": [2**53, 1]}),
    _trying(
        "effects and random numbers",
        DropsOutOnce,
        "x: float64[4]\ndropout(X=x) -> (Out=y, Mask=m) {dropout_prob=0.3}\ndropout(X=y) -> (Out=z, Mask=k) {dropout_prob=0.2}",
        targets=("z",),
    ),
    _trying(
        "state",
        ReadsTheNewState,
        "s: float64[1] persistable\ntanh(X=s) -> (Out=y)\nsquare(X=s) -> (Out=s)",
    ),
    _trying(
        "attributes",
        SumsBackwards,
        "x: float64[3]\nflip(X=x) -> (Out=a) {axis=[0]}\ncumsum(X=a) -> (Out=b) {axis=0, exclusive=true}\nflip(X=b) -> (Out=y) {axis=[0]}",
    ),
    _trying("attributes", CountsAxesFromTheInput, "x: float64[2, 3]\nunsqueeze2(X=x) -> (Out=y) {axes=[-1]}"),
    _trying("dtypes", RemainderByDivision, "x: int64[1]\ny: int64[1]\nelementwise_mod(X=x, Y=y) -> (Out=z)", feeds={"x": [-7], "y": [3]}),
    _trying(
        "broadcasting",
        SplitsSums,
        "x: float64[2, 3]\ny: float64[3]\nelementwise_add(X=x, Y=y) -> (Out=z)\nreduce_sum(X=z) -> (Out=s) {reduce_all=true}",
    ),
    _trying(
        "memory",
        OverwritesTargets,
        "x: float64[2]\ntanh(X=x) -> (Out=a)\nexp(X=a) -> (Out=y)",
        targets=("a", "y"),
        fetch=("a",),
        marks=True,
    ),
)
