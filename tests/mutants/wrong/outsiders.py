"""Wrong passes written from the documentation alone, which were missed at first: programs seldom had both things that had to meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphad import edit, ops
from graphad.ir import Graph, Op, Value
from graphad.rewriting import Pass
from graphad.types import FLOATS
from tests.mutants.corpus import UserPass
from tests.mutants.kit import attribute, operators
from tests.mutants.witness import BACKWARD, Witness
from tests.scratch import passes

BITS = {"int32": 32, "float32": 32, "int64": 64, "float64": 64}


def _cast_before(op: Op) -> Op | None:
    """The cast whose result a cast reads, if that is in the same graph."""
    writer = op.input("X").writer
    return writer if writer is not None and writer.type == "cast" and writer.graph is op.graph else None


def _copied(value: Value) -> Value:
    """The original of a value that may be a copy."""
    while value.writer is not None and value.writer.type == "assign":
        value = value.writer.input("X")
    return value


def _removed_if_dead(op: Op) -> None:
    if op.graph.is_dead(op):
        op.graph.remove_op(op)


def _built(op: Op, out: Value, make: Any, *values: Value) -> None:
    """Let what is built of values before an operator take the place of one of its results."""
    build = edit.Builder(op.graph, before=op, role=op.role)
    new = make(*map(build.symbol, values)).value
    new.grad_of = out.grad_of
    op.graph.substitute(out, new)


with passes():

    @dataclass(frozen=True)
    class TakesCastsForExact(Pass):
        """A cast to as many bits and back is nothing: but float64 does not hold every int64."""

        name = "outsider-takes-casts-for-exact"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "cast")):
                first = _cast_before(op)
                if first is None or first.input("X").dtype != op.output("Out").dtype:
                    continue
                x, between = first.input("X"), first.output("Out")
                if x.dtype in ("int32", "int64") and BITS.get(between.dtype or "", 0) >= BITS[x.dtype] and graph.allows("nothing", op):
                    op.graph.substitute(op.output("Out"), x)
                    _removed_if_dead(op)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class TruncatesByCasts(Pass):
        """A cast of floats to int64 and back cuts off the fraction: but not of large numbers, and nan has no integer."""

        name = "outsider-truncates-by-casts"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "cast")):
                first = _cast_before(op)
                x = None if first is None else first.input("X")
                if first is None or x is None or x.dtype not in FLOATS[1:] or x.dtype != op.output("Out").dtype:
                    continue
                if first.output("Out").dtype == "int64" and graph.allows("trunc", op):
                    _built(op, op.output("Out"), ops.trunc, x)
                    _removed_if_dead(op)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ComputesBothBranches(Pass):
        """Operators that may always run leave a branch, and a choice is between their results: but 0 times an infinite slope is nan."""

        name = "outsider-computes-both-branches"

        def apply(self, graph: Graph) -> bool:
            for op in list(operators(graph, "if_else")):
                inner = [each for nested in op.graphs.values() for each in nested.ops]
                is_free = all(each.definition is not None and each.definition.speculatable == "always" for each in inner)
                is_known = all(value.type is not None for value in op.writes())
                if not is_free or not is_known or edit.has_gradient(op) or op.input("Cond").shape != (1,) or not op.outputs.get("Out"):
                    continue
                self._convert(op)
                return True
            return False

        def _convert(self, op: Op) -> None:
            results = []
            for nested in op.graphs.values():
                values = edit.ValueMap(dict(zip(nested.inputs, op.inputs.get("X", ()), strict=True)))
                copies = edit.clone_ops(list(nested.ops), op.graph, values, before=op)
                results.append([copies.values.get(result, result) for result in nested.results])
            mask = op.input("Cond")
            for out, there, otherwise in zip(op.outputs["Out"], *results, strict=True):
                _built(op, out, lambda no, yes, mask: ops.select_input([no, yes], mask), otherwise, there, mask)
            _removed_if_dead(op)

    @dataclass(frozen=True)
    class KnowsBothConjuncts(Pass):
        """Where a and b holds, a does; where it does not, a does not: but b may be what does not."""

        name = "outsider-knows-both-conjuncts"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "if_else")):
                test = op.input("Cond").writer
                if test is None or test.type != "logical_and":
                    continue
                for holds, nested in zip((1.0, 0.0), op.graphs.values(), strict=True):
                    for argument, value in zip(nested.inputs, op.inputs.get("X", ()), strict=True):
                        if value in test.reads() and argument.readers and argument.shape == (1,) and graph.allows("known", op):
                            known = nested.add_value("known", (1,), "bool")
                            attrs = {"shape": [1], "value": holds, "dtype": "bool"}
                            nested.add_op("fill_constant", {}, {"Out": [known]}, attrs, before=nested.ops.first)
                            nested.replace(argument, known)
                            changed = True
            return changed

    @dataclass(frozen=True)
    class MultipliesByDeclaredExtents(Pass):
        """The gradient of a product of tensors that are declared alike is a product: but an extent that is not known may be 1 in one."""

        name = "outsider-multiplies-by-declared-extents"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "elementwise_mul_grad")):
                x, y = op.input("X"), op.input("Y")
                if x.shape is None or x.shape != y.shape or attribute(op, "axis") != -1:
                    continue
                for slot, other in (("X@GRAD", y), ("Y@GRAD", x)):
                    out = next(iter(op.outputs.get(slot, ())), None)
                    if out is not None and out.name != "@EMPTY@" and graph.allows("product", op):
                        _built(op, out, ops.elementwise_mul, op.input("Out@GRAD"), other)
                        changed = True
                _removed_if_dead(op)
            return changed

    @dataclass(frozen=True)
    class BoundsRootsFromBelow(Pass):
        """The gradient of a root divides by no less than 0.01: but roots may be smaller."""

        name = "outsider-bounds-roots-from-below"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            def gradient(root: Any, cotangent: Any) -> Any:
                return ops.scale(cotangent, scale=0.5) / ops.clip(root, min=0.01, max=1e30)

            changed = False
            for op in list(operators(graph, "sqrt_grad")):
                if op.outputs.get("X@GRAD") and graph.allows("bounded", op):
                    _built(op, op.output("X@GRAD"), gradient, op.input("Out"), op.input("Out@GRAD"))
                    _removed_if_dead(op)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class DrawsInsideOfLoops(Pass):
        """An operator without operands moves into the loop that alone reads its result: but random numbers are drawn anew there."""

        name = "outsider-draws-inside-of-loops"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for inner in list(graph.tree()):
                for op in list(inner.ops):
                    changed |= op.definition is not None and not op.graphs and not list(op.reads()) and self._moved(op)
            return changed

        def _moved(self, op: Op) -> bool:
            (out, *others), graph = list(op.writes()), op.graph
            if others or len(out.readers) != 1 or graph.is_observed(out) or out.persistable:
                return False
            (reader,) = out.readers
            loop = edit.LoopLike.of(reader)
            if (
                loop is None
                or loop.is_gradient
                or edit.has_gradient(reader)
                or list(reader.reads()).count(out) != 1
                or out not in loop.captured
            ):
                return False
            argument, body = loop.arguments(loop.name)[loop.operands.index(out)], reader.graphs[loop.name]
            if argument in body.results or not argument.readers or not graph.allows("sink", op):
                return False
            body.replace(argument, edit.clone_ops([op], body, before=body.ops.first).values[out])
            return True

    @dataclass(frozen=True)
    class TakesWhatEveryIterationGives(Pass):
        """A result of a loop to which each iteration copies a captured value is that value: but there may be no iteration."""

        name = "outsider-takes-what-every-iteration-gives"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for inner in list(graph.tree()) for op in edit.loops(inner)]:
                loop = edit.LoopLike.of(op)
                if loop is None or loop.is_gradient:
                    continue
                captured = dict(zip(loop.arguments(loop.name)[len(loop.carried) :], loop.captured, strict=True))
                for result, given in zip(loop.results, map(_copied, loop.yielded(loop.name)), strict=True):
                    value = captured.get(given)
                    if value is not None and result.readers and result.type == value.type and graph.allows("captured", op):
                        op.graph.replace(result, value)
                        changed = True
            return changed


def _trying(family: str, pass_type: type[Pass], text: str, prepare: str = "", **options: object) -> UserPass:
    return UserPass(family, pass_type, Witness(text, pass_type, prepare, **options))  # type: ignore[arg-type]


_ROOT = """
c: bool[1]
x: float64[2]
y: float64[2]
if_else(Cond=c, X=x) -> (Out=y) {true_block=block(1), false_block=block(2)}
mean(X=y) -> (Out=loss)
block 1 in 0:
sqrt(X=x) -> (Out=y)
block 2 in 0:
tanh(X=x) -> (Out=y)
"""
_CONJUNCT = """
a: bool[1]
b: bool[1]
y: float64[1]
logical_and(X=a, Y=b) -> (Out=c)
if_else(Cond=c, X=a) -> (Out=y) {true_block=block(1), false_block=block(2)}
block 1 in 0:
cast(X=a) -> (Out=y) {out_dtype="float64"}
block 2 in 0:
cast(X=a) -> (Out=y) {out_dtype="float64"}
"""
_NOISE = """
h: float64[2]
i: int64[1]
n: int64[1]
uniform_random() -> (Out=w) {shape=[2], min=0.5, max=2.0, dtype="float64"}
less_than(X=i, Y=n) -> (Out=more)
while(X=[h, i, n, w], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
block 1 in 0:
elementwise_mul(X=h, Y=w) -> (Out=h)
increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more)
"""
_COPYING = """
h: float64[2]
w: float64[2]
i: int64[1]
n: int64[1]
less_than(X=i, Y=n) -> (Out=more)
while(X=[h, i, n, w], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
scale(X=h) -> (Out=y) {scale=2.0}
block 1 in 0:
assign(X=w) -> (Out=h)
increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more)
"""

WRONG: tuple[UserPass, ...] = (
    _trying(
        "dtypes",
        TakesCastsForExact,
        'x: int64[1]\ncast(X=x) -> (Out=a) {out_dtype="float64"}\ncast(X=a) -> (Out=y) {out_dtype="int64"}',
        feeds={"x": [2**53 + 1]},
    ),
    _trying(
        "dtypes",
        TruncatesByCasts,
        'x: float64[1]\ncast(X=x) -> (Out=a) {out_dtype="int64"}\ncast(X=a) -> (Out=y) {out_dtype="float64"}',
        feeds={"x": [float("inf")]},
    ),
    _trying("branches", ComputesBothBranches, _ROOT, feeds={"c": [False], "x": [0.0, 1.0]}, sources=("x",)),
    _trying("branches", KnowsBothConjuncts, _CONJUNCT, feeds={"a": [True], "b": [False]}),
    _trying(
        "broadcasting",
        MultipliesByDeclaredExtents,
        "x: float64[-1, 2]\ny: float64[-1, 2]\nelementwise_mul(X=x, Y=y) -> (Out=z)\nmean(X=z) -> (Out=loss)",
        BACKWARD,
        feeds={"y": [[1.0, 2.0]]},
        fetch=("y@GRAD",),
    ),
    _trying(
        "gradients",
        BoundsRootsFromBelow,
        "x: float64[2]\nsqrt(X=x) -> (Out=y)\nmean(X=y) -> (Out=loss)",
        BACKWARD,
        feeds={"x": [1e-6, 1.0]},
        fetch=("x@GRAD",),
    ),
    _trying("effects and random numbers", DrawsInsideOfLoops, _NOISE, feeds={"i": [0], "n": [2]}),
    _trying("loops", TakesWhatEveryIterationGives, _COPYING, feeds={"i": [0], "n": [0]}),
)
