"""Wrong passes as strangers write them, from what they know of other compilers: each is nearly right."""

from __future__ import annotations

from dataclasses import dataclass

from graphad import edit, ops
from graphad.ir import Graph, Op, Value
from graphad.program import BACKWARD
from graphad.rewriting import Pass
from tests.mutants.corpus import Check, UserPass
from tests.mutants.kit import attribute, is_typed, operators, written_as
from tests.mutants.witness import BACKWARD as DIFFERENTIATED
from tests.mutants.witness import Witness
from tests.scratch import passes

with passes():

    @dataclass(frozen=True)
    class SinksFromLoops(Pass):
        """A call on a carried value, of which only the last iteration's result is read, sinks out of the loop: but reads the next
        iteration's value there."""

        name = "stranger-sinks-from-loops"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in edit.loops(graph):
                loop = edit.LoopLike.of(op)
                if loop is None:
                    continue
                carried = list(zip(loop.results, loop.arguments("sub_block"), loop.yielded("sub_block"), strict=False))
                for result, argument, value in carried[:-1]:
                    writer, sources = value.writer, {argument: result for result, argument, _ in carried}
                    if writer is None or writer.type not in ("tanh", "scale", "square", "exp", "sin") or argument.readers:
                        continue
                    source = sources.get(writer.input("X"))
                    if source is None or not result.readers or source.type != result.type or result.type is None:
                        continue
                    after = op.graph.add_value(f"{result.name}@SUNK", result.shape, result.dtype)
                    op.graph.add_op(writer.type, {"X": [source]}, {"Out": [after]}, writer.attrs, before=op.next, role=op.role)
                    for reader in [reader for reader in result.readers if after not in reader.writes()]:
                        for slot, values in list(reader.inputs.items()):
                            op.graph.set_inputs(reader, slot, [after if v is result else v for v in values])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ForgetsNegatedConditions(Pass):
        """A branch on what is not so is the other branch, but these have to change places then."""

        name = "stranger-forgets-negated-conditions"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "if_else")):
                test = op.inputs["Cond"][0].writer
                if test is not None and test.type == "logical_not" and test.input("X").type == op.inputs["Cond"][0].type:
                    op.graph.set_inputs(op, "Cond", [test.input("X")])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class LeavesPaddingOut(Pass):
        """An average over a window counts its padding, or does not."""

        name = "stranger-leaves-padding-out"

        def apply(self, graph: Graph) -> bool:
            pools = [op for op in operators(graph, "pool2d") if attribute(op, "pooling_type") == "avg" and not attribute(op, "exclusive")]
            for op in pools:
                op.graph.set_attr(op, "exclusive", True)
            return bool(pools)

    @dataclass(frozen=True)
    class HoistsRandomNumbers(Pass):
        """An operator that reads only invariants is hoisted out of the loop, to run once; random numbers as well."""

        name = "stranger-hoists-random-numbers"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for loop in edit.loops(graph):
                body = loop.graphs["sub_block"]
                for op in [op for op in body.ops if op.type in ("uniform_random", "gaussian_random") and not op.inputs]:
                    out = op.output("Out")
                    before = loop.graph.add_value(out.name, out.shape, out.dtype)
                    loop.graph.add_op(op.type, {}, {"Out": [before]}, op.attrs, before=loop, role=loop.role)
                    argument = edit.add_operand(loop, before)[0]
                    body.replace(out, argument)
                    body.remove_op(op)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class SharesPowers(Pass):
        """All updates by adam have the same powers of its decays, but those that the first one leaves are of the next step."""

        name = "stranger-shares-powers"

        def apply(self, graph: Graph) -> bool:
            updates = [op for op in graph.ordered_ops() if op.type == "adam" and {"Beta1PowOut", "Beta2PowOut"} <= op.outputs.keys()]
            for op in updates[1:]:
                for slot in ("Beta1Pow", "Beta2Pow"):
                    graph.set_inputs(op, slot, [updates[0].output(f"{slot}Out")])
            return len(updates) > 1

    @dataclass(frozen=True)
    class ForgetsToTranspose(Pass):
        """Writes the gradient of a product of square matrices out as products, of which one lacks a transposition."""

        name = "stranger-forgets-to-transpose"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "matmul_v2_grad", "mul_grad")):
                x, y, cotangent, out = op.input("X"), op.input("Y"), op.input("Out@GRAD"), op.outputs.get("X@GRAD", ())
                square = is_typed(op) and len({x.shape, y.shape, cotangent.shape}) == 1 and len(x.shape or ()) == 2
                if square and out and not any(attribute(op, n) is True for n in ("trans_x", "trans_y") if n in op.attrs):
                    op.graph.add_op("matmul_v2", {"X": [cotangent], "Y": [y]}, {"Out": out}, before=op, role=op.role)
                    op.graph.set_outputs(op, "X@GRAD", ())
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ForgetsTheDivisor(Pass):
        """Writes the gradient of a quotient for the divisor as -g * out."""

        name = "stranger-forgets-the-divisor"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "elementwise_div_grad")):
                out, g, found = op.inputs.get("Out", ()), op.input("Out@GRAD"), op.outputs.get("Y@GRAD", ())
                if out and found and out[0].type == g.type == found[0].type and g.type is not None:
                    product = _like(op.graph, g)
                    op.graph.add_op("elementwise_mul", {"X": [g], "Y": out}, {"Out": [product]}, before=op, role=op.role)
                    op.graph.add_op("scale", {"X": [product]}, {"Out": found}, {"scale": -1.0}, before=op, role=op.role)
                    op.graph.set_outputs(op, "Y@GRAD", ())
                    changed = True
            return changed

    @dataclass(frozen=True)
    class KeepsInFloat32(Pass):
        """Keeps for the backward what is float64 as float32, which takes half of the memory."""

        name = "stranger-keeps-in-float32"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for value in list(graph.values):
                readers = [op for op in value.readers if op.role == BACKWARD]
                writer = value.writer
                if value.dtype != "float64" or writer is None or writer.role == BACKWARD or not readers or value.name.endswith("@WIDE"):
                    continue
                narrow = graph.add_value(f"{value.name}@KEPT", value.shape, "float32")
                wide = graph.add_value(f"{value.name}@WIDE", value.shape, "float64")
                graph.add_op("cast", {"X": [value]}, {"Out": [narrow]}, {"out_dtype": "float32"}, before=writer.next, role=writer.role)
                graph.add_op("cast", {"X": [narrow]}, {"Out": [wide]}, {"out_dtype": "float64"}, before=readers[0], role=BACKWARD)
                for reader in readers:
                    for slot, values in list(reader.inputs.items()):
                        graph.set_inputs(reader, slot, [wide if v is value else v for v in values])
                changed = True
            return changed

    @dataclass(frozen=True)
    class RootOfSquare(Pass):
        """The root of a square is the absolute value, but squares overflow."""

        name = "stranger-takes-the-root-of-a-square"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            roots = [op for op in operators(graph, "abs") if is_typed(op) and op.input("X").dtype in ("float32", "float64")]
            return any([written_as(op, lambda x: ops.sqrt(ops.square(x))) for op in roots])

    @dataclass(frozen=True)
    class TakesTheLastMaximum(Pass):
        """Where the greatest element of a row is, counted from the other end: of equal ones it is the last."""

        name = "stranger-takes-the-last-maximum"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "arg_max")):
                shape = op.input("X").shape or ()
                if len(shape) == 1 and shape[0] > 1 and not attribute(op, "keepdims") and attribute(op, "dtype") == "int64":
                    changed |= written_as(op, lambda x, n=shape[0]: ops.scale(ops.arg_max(ops.flip(x, axis=[0])), scale=-1.0, bias=n - 1.0))
            return changed

    @dataclass(frozen=True)
    class JoinsCasts(Pass):
        """A cast of a cast is one cast; not where the type between is the narrowest."""

        name = "stranger-joins-casts"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "cast"):
                inner = op.input("X").writer
                if inner is not None and inner.type == "cast" and inner.input("X").dtype != op.input("X").dtype:
                    op.graph.set_inputs(op, "X", [inner.input("X")])
                    op.graph.set_attr(op, "in_dtype", inner.input("X").dtype or "")
                    changed = True
            return changed

    @dataclass(frozen=True)
    class CancelsTurns(Pass):
        """Transposing twice by one permutation changes nothing; not where three axes go round."""

        name = "stranger-cancels-turns"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "transpose2", "transpose"):
                inner = op.input("X").writer
                if inner is None or inner.type != op.type or inner.attrs["axis"] != op.attrs["axis"]:
                    continue
                source, out = inner.input("X"), op.output("Out")
                if source.type == out.type and out.readers and source.type is not None and not source.stop_gradient:
                    op.graph.replace(out, source)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class AddsInInt32(Pass):
        """Adds integers of 64 bits with 32."""

        name = "stranger-adds-in-int32"

        def apply(self, graph: Graph) -> bool:
            def added(x: object, y: object) -> object:
                return ops.cast(ops.elementwise_add(ops.cast(x, out_dtype="int32"), ops.cast(y, out_dtype="int32")), out_dtype="int64")

            sums = [op for op in operators(graph, "elementwise_add") if is_typed(op) and {v.dtype for v in op.reads()} == {"int64"}]
            return any([written_as(op, added) for op in sums])

    @dataclass(frozen=True)
    class MergesWithStopped(Pass):
        """Of two equal operators one is enough, but one of them may stop gradients."""

        name = "stranger-merges-with-stopped"

        def apply(self, graph: Graph) -> bool:
            changed = False
            known: dict[object, Op] = {}
            for op in [op for op in graph.ordered_ops() if op.type in ("tanh", "square", "exp", "assign", "scale", "sin") and is_typed(op)]:
                first = known.setdefault((op.type, op.input("X"), repr(sorted(op.attrs.items())), op.output("Out").type), op)
                out = op.output("Out")
                if first is not op and out.readers:
                    graph.replace(out, first.output("Out"))
                    changed = True
            return changed

    @dataclass(frozen=True)
    class RemovesUnreadEffects(Pass):
        """Operators with unused results are removed, whatever effects they have."""

        name = "stranger-removes-unread-effects"

        def apply(self, graph: Graph) -> bool:
            unread = [op for op in graph.ordered_ops()[::-1] if not any(v.readers or v in graph.targets for v in op.writes())]
            unread = [op for op in unread if not op.graphs and not any(v.persistable for v in op.writes())]
            for op in unread:
                graph.remove_op(op)
            return bool(unread)

    @dataclass(frozen=True)
    class ReadsByName(Pass):
        """A copy is read where it was copied from, by the name: whatever that holds in the end."""

        name = "stranger-reads-by-name"

        def apply(self, graph: Graph) -> bool:
            changed = False
            order = {op: i for i, op in enumerate(graph.ordered_ops())}
            for op in list(operators(graph, "assign")):
                x, out = op.input("X"), op.output("Out")
                latest = op.graph.versions(x.name)[-1]
                if op.graph is not graph or latest is x or latest.type != out.type or not latest.writers:
                    continue
                late = [reader for reader in out.readers if order.get(reader, -1) > order.get(latest.writers[0], len(order))]
                for reader in late:
                    for slot, values in list(reader.inputs.items()):
                        graph.set_inputs(reader, slot, [latest if v is out else v for v in values])
                changed |= bool(late)
            return changed


def _like(graph: Graph, value: Value) -> Value:
    return graph.add_value(f"{value.name}@NEW", value.shape, value.dtype)


_COUNTING = """
h: float64[1]
k: float64[1]
n: int64[1]
fill_constant() -> (Out=i) {{shape=[1], value=0.0, dtype="int64"}}
less_than(X=i, Y=n) -> (Out=more)
while(X=[{names}, i, n], Condition=more) -> (Out=[{names}, i, more]) {{sub_block=block(1)}}
{after}
block 1 in 0:
{body}
increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more)
"""
_ADAM = """
param {w}: float64[2]
{w}m: float64[2] persistable
{w}v: float64[2] persistable
{w}1: float64[1] persistable
{w}2: float64[1] persistable
adam(Param={w}, Grad={w}, LearningRate=rate, Moment1={w}m, Moment2={w}v, Beta1Pow={w}1, Beta2Pow={w}2) -> \
(ParamOut={w}, Moment1Out={w}m, Moment2Out={w}v, Beta1PowOut={w}1, Beta2PowOut={w}2) optimize
"""
_SQUARE = "x: float64[2, 2]\ny: float64[2, 2]\nmatmul_v2(X=x, Y=y) -> (Out=z)\nmean(X=z) -> (Out=loss)"


def _trying(family: str, pass_type: type[Pass], text: str, prepare: str = "", **options: object) -> UserPass:
    return UserPass(family, pass_type, Witness(text, pass_type, prepare, **options))  # type: ignore[arg-type]


def _about_gradients(family: str, pass_type: type[Pass], text: str, **options: object) -> UserPass:
    """The user says nothing of a backward: programs have to come with gradients."""
    return UserPass(family, pass_type, Witness(text, pass_type, DIFFERENTIATED, **options), Check(pass_type))  # type: ignore[arg-type]


WRONG: tuple[UserPass, ...] = (
    _trying(
        "attributes",
        LeavesPaddingOut,
        """
        x: float64[1, 1, 2, 2]
        pool2d(X=x) -> (Out=y) {pooling_type="avg", ksize=[2, 2], strides=[1, 1], paddings=[1, 1], exclusive=false}
        """,
        feeds={"x": [[[[1.0, 2.0], [3.0, 4.0]]]]},
    ),
    _trying(
        "loops",
        SinksFromLoops,
        _COUNTING.format(names="h, k", body="tanh(X=h) -> (Out=k)\nscale(X=h) -> (Out=h) {scale=0.5}", after="mean(X=k) -> (Out=y)"),
        feeds={"n": [2]},
    ),
    _trying(
        "branches",
        ForgetsNegatedConditions,
        """
        x: float64[1]
        c: bool[1]
        y: float64[1]
        logical_not(X=c) -> (Out=d)
        if_else(Cond=d, X=x) -> (Out=y) {true_block=block(1), false_block=block(2)}
        scale(X=y) -> (Out=z) {scale=2.0}
        block 1 in 0:
        exp(X=x) -> (Out=y)
        block 2 in 0:
        tanh(X=x) -> (Out=y)
        """,
        feeds={"c": [True]},
    ),
    _trying(
        "effects and random numbers",
        HoistsRandomNumbers,
        _COUNTING.format(
            names="h",
            body='uniform_random() -> (Out=r) {shape=[1], dtype="float64"}\nelementwise_add(X=h, Y=r) -> (Out=h)',
            after="scale(X=h) -> (Out=y) {scale=2.0}",
        ).replace("k: float64[1]\n", ""),
        feeds={"n": [2]},
    ),
    _trying(
        "state",
        SharesPowers,
        "rate: float64[1] persistable\n" + _ADAM.format(w="w") + _ADAM.format(w="b"),
    ),
    _about_gradients("gradients", ForgetsToTranspose, _SQUARE),
    _about_gradients(
        "gradients",
        ForgetsTheDivisor,
        "x: float64[2]\ny: float64[2]\nelementwise_div(X=x, Y=y) -> (Out=z)\nmean(X=z) -> (Out=loss)",
        feeds={"y": [2.0, 3.0]},
    ),
    _about_gradients("memory", KeepsInFloat32, "x: float64[1]\nexp(X=x) -> (Out=y)\nmean(X=y) -> (Out=loss)", feeds={"x": [100.0]}),
    _trying("ends of the range", RootOfSquare, "x: float64[2]\nabs(X=x) -> (Out=y)", feeds={"x": [1e200, -1.0]}),
    _trying("kinks and ties", TakesTheLastMaximum, "x: float64[3]\narg_max(X=x) -> (Out=y)", feeds={"x": [1.0, 1.0, 0.0]}),
    _trying(
        "dtypes",
        JoinsCasts,
        'x: float64[2]\ncast(X=x) -> (Out=a) {out_dtype="int32"}\ncast(X=a) -> (Out=y) {out_dtype="float64"}',
        feeds={"x": [1.5, -0.5]},
    ),
    _trying(
        "attributes",
        CancelsTurns,
        "x: float64[2, 2, 2]\ntranspose(X=x) -> (Out=a) {axis=[1, 2, 0]}\ntranspose(X=a) -> (Out=b) {axis=[1, 2, 0]}\n"
        "scale(X=b) -> (Out=y) {scale=2.0}",
    ),
    _trying("dtypes", AddsInInt32, "x: int64[1]\ny: int64[1]\nelementwise_add(X=x, Y=y) -> (Out=z)", feeds={"x": [2**31], "y": [1]}),
    _trying(
        "gradients",
        MergesWithStopped,
        "x: float64[1]\nb: float64[1] stop_gradient\ntanh(X=x) -> (Out=a)\ntanh(X=x) -> (Out=b)\nelementwise_mul(X=a, Y=b) -> (Out=z)\n"
        "mean(X=z) -> (Out=loss)",
        sources=("x",),
    ),
    _trying(
        "effects and random numbers",
        RemovesUnreadEffects,
        "x: float64[1]\ntanh(X=x) -> (Out=y)\nfetch(X=x) -> (Out=f)",
        targets=("y",),
        fetch=("f",),
    ),
    _trying(
        "names",
        ReadsByName,
        "x: float64[1]\nassign(X=x) -> (Out=a)\ntanh(X=x) -> (Out=x)\nelementwise_mul(X=a, Y=x) -> (Out=y)",
    ),
)
