"""Wrong passes as guests write them who know compilers of other systems: what held there fails at one end of graphad's semantics."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from graphad import edit, ops
from graphad.ir import Graph, Op, Value
from graphad.passes.backward import GradOps
from graphad.rewriting import Pass
from graphad.types import FLOATS
from tests.mutants.corpus import Check, UserPass
from tests.mutants.kit import attribute, is_typed, operators, written_as
from tests.mutants.witness import BACKWARD, Witness
from tests.scratch import passes

UNARY = ("tanh", "exp", "log", "sqrt", "square", "sin", "sigmoid", "relu", "abs", "reciprocal")
COMPARISONS = ("less_equal", "greater_equal")


def _only_unary(graph: Graph, at: int) -> Op | None:
    """The one operator that computes a result of a branch from an argument; None if it is computed in another way."""
    writer = graph.results[at].writer
    if writer is None or writer.type not in UNARY or writer.graph is not graph or writer.input("X") not in graph.inputs:
        return None
    return writer


def _with_difference(x: Any, y: Any, op_type: str) -> Any:
    difference = ops.elementwise_sub(x, y)
    return getattr(ops, op_type)(difference, ops.fill_zeros_like(difference))


def _root(epsilon: float, param: Any, grad: Any, moment: Any, rate: Any) -> tuple[Any, Any]:
    new = ops.elementwise_add(moment, ops.square(grad))
    below = ops.sqrt(ops.scale(new, scale=1.0, bias=epsilon))  # not sqrt(new) + epsilon
    step = ops.elementwise_mul(ops.elementwise_div(grad, below), rate)
    return ops.elementwise_sub(param, step), new


def _counted(op: Op) -> tuple[Value, Value] | None:
    """The start and the bound of a loop that goes on while i < n, and adds one each time; None of another one."""
    loop = edit.LoopLike.of(op)
    if loop is None or loop.is_gradient or edit.has_gradient(op) or len(loop.condition) != 1:
        return None
    first, (body,) = loop.condition[0].writer, op.graphs.values()
    again = body.results[loop.carried.index(loop.condition[0])].writer if loop.condition[0] in loop.carried else None
    if first is None or again is None or {first.type, again.type} != {"less_than"} or again.graph is not body:
        return None
    start, bound = first.input("X"), first.input("Y")
    if start not in loop.carried or bound not in loop.captured or start.type != bound.type or start.dtype != "int64":
        return None
    at = loop.carried.index(start)
    step, limit = body.results[at].writer, body.inputs[len(loop.carried) + loop.captured.index(bound)]
    is_plain = step is not None and step.type == "increment" and step.attrs.get("step", 1.0) == 1.0 and step.input("X") is body.inputs[at]
    return (start, bound) if is_plain and (again.input("X"), again.input("Y")) == (body.results[at], limit) else None


def _added(op: Op, at: int) -> Value | None:
    """The value that a loop adds to a carried value in each iteration, if it is loop-invariant and the only change; None otherwise."""
    loop, (body,) = edit.LoopLike.of(op), op.graphs.values()
    writer = body.results[at].writer
    if loop is None or writer is None or writer.type != "elementwise_add" or writer.input("X") is not body.inputs[at]:
        return None
    captured = dict(zip(body.inputs[len(loop.carried) :], loop.captured, strict=False))
    value = captured.get(writer.input("Y"))
    return value if value is not None and value.type == body.inputs[at].type and value.dtype in FLOATS else None


def _same_call(op: Op, other: Op, operands: dict[Value, Value]) -> bool:
    """Whether operators of two branches are of one type, with equal attributes, over the same values: their order is not looked at."""
    if op.type != other.type or op.attrs != other.attrs or op.definition is None or op.definition.random or op.graphs:
        return False
    outside, others = ([operands.get(value) for value in each.reads()] for each in (op, other))
    return None not in (*outside, *others) and set(outside) == set(others) and len(outside) == len(others)


with passes():

    @dataclass(frozen=True)
    class CountsToTheBound(Pass):
        """After a loop that goes on while i < n, the counter is n: but steps may miss it, and it may start beyond."""

        name = "guest-counts-to-the-bound"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in edit.loops(graph):
                loop = edit.LoopLike.of(op)
                test = None if loop is None or loop.is_gradient else loop.condition[0].writer
                if loop is None or test is None or test.type != "less_than" or test.graph is not op.graph:
                    continue
                start, bound = test.input("X"), test.input("Y")
                if start not in loop.carried or bound not in loop.captured or start.type != bound.type:
                    continue
                result = loop.results[loop.carried.index(start)]
                if result.readers:
                    op.graph.replace(result, bound)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class BlendsBranches(Pass):
        """Two short branches are both computed, and added with the weights 1 and 0: but 0 * inf is nan."""

        name = "guest-blends-branches"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "if_else")):
                condition = op.input("Cond")
                for at, out in enumerate(op.outputs.get("Out", ())):
                    parts = [(inner, _only_unary(inner, at)) for inner in op.graphs.values()]
                    if condition.shape != (1,) or not out.shape or out.dtype not in FLOATS or not out.readers:
                        continue
                    if any(each is None or each.output("Out").type != out.type for _, each in parts):
                        continue
                    values = [self._computed(op, inner, each) for inner, each in parts if each is not None]
                    op.graph.replace(out, self._blended(op, condition, values))
                    changed = True
            return changed

        def _computed(self, op: Op, inner: Graph, each: Op) -> Value:
            operand, like = op.inputs["X"][inner.inputs.index(each.input("X"))], each.output("Out")
            value = op.graph.add_value("both", like.shape, like.dtype)
            op.graph.add_op(each.type, {"X": [operand]}, {"Out": [value]}, each.attrs, before=op, role=op.role)
            return value

        def _blended(self, op: Op, condition: Value, values: list[Value]) -> Value:
            build = edit.Builder(op.graph, "blend", before=op, role=op.role)
            first, second = (build.symbol(value) for value in values)
            weight = ops.cast(build.symbol(condition), out_dtype=values[0].dtype)
            rest = ops.scale(weight, scale=-1.0, bias=1.0)
            total: Value = ops.elementwise_add(ops.elementwise_mul(first, weight), ops.elementwise_mul(second, rest)).value
            return total

    @dataclass(frozen=True)
    class MovesEpsilonUnderTheRoot(Pass):
        """Adagrad in operators, its epsilon added before the root is taken and not after it."""

        name = "guest-moves-epsilon-under-the-root"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "adagrad")):
                reads = [op.input(slot) for slot in ("Param", "Grad", "Moment", "LearningRate")]
                param, moment = op.output("ParamOut"), op.output("MomentOut")
                if not is_typed(op) or reads[3].shape != (1,) or reads[0].shape != reads[1].shape:
                    continue
                build = edit.Builder(op.graph, "adagrad", before=op, role=op.role)
                results = _root(attribute(op, "epsilon"), *(build.symbol(value) for value in reads))
                # For a moment each has two writers. The new moment is read as well.
                for old, new in zip((param, moment), results, strict=True):
                    op.graph.replace(new.value, old)
                    op.graph.replace_output(new.value.writer, new.value, old)
                op.graph.remove_op(op)
                changed = True
            return changed

    @dataclass(frozen=True)
    class AveragesOverKnownExtents(Pass):
        """The gradient of a mean as a constant, the cotangent over the number of elements: an open extent counts as one."""

        name = "guest-averages-over-known-extents"

        def apply(self, graph: Graph) -> bool:
            def spread(x: Any, cotangent: Any) -> Any:
                count = prod(extent if extent > 0 else 1 for extent in x.shape)
                return ops.elementwise_mul(ops.fill_any_like(x, value=1.0 / count), ops.reshape(cotangent, shape=[1] * len(x.shape)))

            return any([written_as(op, spread) for op in operators(graph, "mean_grad") if list(op.inputs) == ["X", "Out@GRAD"]])

    @dataclass(frozen=True)
    class ComparesDifferences(Pass):
        """x <= y as x - y <= 0: integers overflow, and inf - inf is nan."""

        name = "guest-compares-differences"

        def apply(self, graph: Graph) -> bool:
            found = [
                op for op in operators(graph, *COMPARISONS) if op.input("X").type == op.input("Y").type and op.input("X").dtype != "bool"
            ]
            return any([written_as(op, lambda x, y, of=op.type: _with_difference(x, y, of)) for op in found])

    @dataclass(frozen=True)
    class MergesScalesOfIntegers(Pass):
        """scale(scale(x, a), c) as scale(x, a * c): of integers each step cuts its result."""

        name = "guest-merges-scales-of-integers"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "scale")):
                first = op.input("X").writer if list(op.inputs) == ["X"] else None
                if first is None or first.type != "scale" or list(first.inputs) != ["X"] or first.graph is not op.graph:
                    continue
                stops = op.input("X").stop_gradient and op.input("X").dtype in FLOATS
                if any(attribute(each, "bias") for each in (first, op)) or stops:
                    continue
                factor = attribute(first, "scale") * attribute(op, "scale")
                op.graph.set_inputs(op, "X", [first.input("X")])
                op.graph.set_attr(op, "scale", factor)
                changed = True
            return changed

    @dataclass(frozen=True)
    class WritesRandomOperatorsAnew(Pass):
        """A random operator is written again over values of its own: a new one, which draws from a stream of its own, too."""

        name = "guest-writes-random-operators-anew"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for inner in list(graph.tree()) for op in inner.ops]:
                is_anew = any(value.name.endswith("@ANEW") for value in op.writes())
                if op.definition is None or not op.definition.random or is_anew or any(map(op.graph.is_observed, op.writes())):
                    continue
                new = {slot: [self._fresh(value) for value in values] for slot, values in op.outputs.items()}
                op.graph.add_op(op.type, op.inputs, new, op.attrs, before=op, forward=op, role=op.role)
                for slot, values in op.outputs.items():
                    for old, value in zip(values, new[slot], strict=True):
                        op.graph.replace(old, value)
                op.graph.remove_op(op)
                changed = True
            return changed

        def _fresh(self, value: Value) -> Value:
            new = value.graph.add_value(f"{value.name}@ANEW", value.shape, value.dtype)
            new.kind = value.kind
            return new

    @dataclass(frozen=True)
    class RemovesBranchesThatNobodyReads(Pass):
        """A branch goes if no operator reads what it writes, and it is not requested: state that outlives the run is forgotten."""

        name = "guest-removes-branches-that-nobody-reads"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for op in operators(graph, "conditional_block", "if_else") if op.graph is graph]:
                inner = [each for subgraph in op.graphs.values() for member in subgraph.tree() for each in member.ops]
                has_effects = any(each.definition is None or each.definition.side_effect for each in inner)
                if not has_effects and not any(value.readers or value in graph.targets for value in op.writes()):
                    graph.remove_op(op)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ExpandsFromTheRight(Pass):
        """The smaller operand of an elementwise operator is expanded beforehand, as numpy would: ``axis`` is forgotten."""

        name = "guest-expands-from-the-right"

        def apply(self, graph: Graph) -> bool:
            def expanded(x: Any, y: Any, of: str) -> Any:
                return getattr(ops, of)(x, ops.expand_v2(y, shape=list(x.shape)))

            found = [op for op in operators(graph, "elementwise_add", "elementwise_mul", "elementwise_sub") if is_typed(op)]
            return any([written_as(op, lambda x, y, of=op.type: expanded(x, y, of)) for op in found if self._fits(op)])

        def _fits(self, op: Op) -> bool:
            x, y = op.input("X").shape or (), op.input("Y").shape or ()
            tail = x[len(x) - len(y) :]
            return 0 < len(y) < len(x) and -1 not in (*x, *y) and all(b in (a, 1) for a, b in zip(tail, y, strict=True))

    @dataclass(frozen=True)
    class SumsInClosedForm(Pass):
        """A loop that adds a term while i < n adds n - i times the term: but if it starts beyond its bound, it adds nothing."""

        name = "guest-sums-in-closed-form"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for inner in list(graph.tree()) for op in edit.loops(inner)]:
                counted, loop = _counted(op), edit.LoopLike.of(op)
                if counted is None or loop is None:
                    continue
                for at, out in enumerate(loop.results):
                    term = _added(op, at)
                    if term is None or not out.readers or out.type != term.type:
                        continue
                    build = edit.Builder(op.graph, "closed", before=op, role=op.role)
                    start, bound = (build.symbol(value) for value in counted)
                    count = ops.reshape(ops.cast(ops.elementwise_sub(bound, start), out_dtype=out.dtype), shape=[1] * len(out.shape or ()))
                    total = ops.elementwise_add(build.symbol(loop.carried[at]), ops.elementwise_mul(build.symbol(term), count))
                    op.graph.replace(out, total.value)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ComputesBeforeTheBranch(Pass):
        """A call that both branches make on the same operands is made before them: but the operands may be in another order."""

        name = "guest-computes-before-the-branch"

        def apply(self, graph: Graph) -> bool:
            return any([self._moved(op) for op in list(operators(graph, "if_else")) if not edit.has_gradient(op) and len(op.graphs) == 2])

        def _moved(self, op: Op) -> bool:
            first, second = op.graphs.values()
            given = op.inputs.get("X", ())
            operands = {inside: value for inner in (first, second) for inside, value in zip(inner.inputs, given, strict=False)}
            pairs = [(one, other) for one in first.ops for other in second.ops if _same_call(one, other, operands)]
            if not pairs or not op.graph.allows("before", op):
                return False
            one, other = pairs[0]
            like = next(one.writes())
            if len(list(one.writes())) != 1 or like.type != next(other.writes()).type:
                return False
            value = op.graph.add_value("before", like.shape, like.dtype)
            inputs = {slot: [operands[v] for v in values] for slot, values in one.inputs.items()}
            op.graph.add_op(one.type, inputs, {"Out": [value]}, one.attrs, before=op, role=op.role)
            for each, inside in zip((one, other), edit.add_operand(op, value), strict=True):
                each.graph.substitute(next(each.writes()), inside)
                each.graph.remove_op(each)
            return True

    @dataclass(frozen=True)
    class CopiesThroughScales(Pass):
        """The gradient of a scale is copied: its factor is forgotten. The pass keeps nothing that the others of the backward go by."""

        name = "guest-copies-through-scales"
        requires = (GradOps,)

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "scale_grad")):
                outputs = list(op.writes())
                if len(outputs) == 1 and attribute(op, "scale") != 1.0:
                    op.graph.add_op("assign", {"X": op.inputs["Out@GRAD"]}, {"Out": outputs}, before=op, role=op.role)
                    op.graph.remove_op(op)
                    changed = True
            return changed


def _trying(family: str, pass_type: type[Pass], text: str, prepare: str = "", check: Check | None = None, **options: object) -> UserPass:
    return UserPass(family, pass_type, Witness(text, pass_type, prepare, **options), check)  # type: ignore[arg-type]


_COUNTING = """
h: float64[1]
n: int64[1]
fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
less_than(X=i, Y=n) -> (Out=more)
while(X=[h, i, n], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
scale(X=i) -> (Out=y) {scale=2.0}
block 1 in 0:
tanh(X=h) -> (Out=h)
increment(X=i) -> (Out=i) {step=2.0}
less_than(X=i, Y=n) -> (Out=more)
"""
_ROOTS = """
c: bool[1]
x: float64[2]
y: float64[2]
if_else(Cond=c, X=x) -> (Out=y) {true_block=block(1), false_block=block(2)}
scale(X=y) -> (Out=z) {scale=2.0}
block 1 in 0:
log(X=x) -> (Out=y)
block 2 in 0:
tanh(X=x) -> (Out=y)
"""
_ADAGRAD = """
param p: float64[2]
m: float64[2] persistable
g: float64[2]
r: float64[1]
adagrad(Param=p, Grad=g, Moment=m, LearningRate=r) -> (ParamOut=p, MomentOut=m) {epsilon=0.1}
"""
_STATE = """
s: float64[1] persistable
c: bool[1]
x: float64[1]
conditional_block(Cond=c, Input=x) -> (Out=s) {sub_block=block(1)}
tanh(X=x) -> (Out=y)
block 1 in 0:
exp(X=x) -> (Out=s)
"""
_SUMMING = """
i: int64[1]
n: int64[1]
h: float64[2]
c: float64[2]
less_than(X=i, Y=n) -> (Out=more)
while(X=[h, i, n, c], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
scale(X=h) -> (Out=y) {scale=2.0}
block 1 in 0:
elementwise_add(X=h, Y=c) -> (Out=h)
increment(X=i) -> (Out=i)
less_than(X=i, Y=n) -> (Out=more)
"""
_TURNED = """
c: bool[1]
x: float64[2]
y: float64[2]
z: float64[2]
if_else(Cond=c, X=[x, y]) -> (Out=z) {true_block=block(1), false_block=block(2)}
block 1 in 0:
elementwise_sub(X=x, Y=y) -> (Out=a)
tanh(X=a) -> (Out=z)
block 2 in 0:
elementwise_sub(X=y, Y=x) -> (Out=a)
exp(X=a) -> (Out=z)
"""

WRONG: tuple[UserPass, ...] = (
    _trying("loops", CountsToTheBound, _COUNTING, feeds={"n": [3]}),
    _trying("branches", BlendsBranches, _ROOTS, feeds={"c": [False], "x": [0.0, 1.0]}),
    _trying("state", MovesEpsilonUnderTheRoot, _ADAGRAD),
    _trying("gradients", AveragesOverKnownExtents, "x: float64[-1, 2]\nmean(X=x) -> (Out=loss)", BACKWARD),
    _trying(
        "ends of the range",
        ComparesDifferences,
        "x: int64[1]\ny: int64[1]\nless_equal(X=x, Y=y) -> (Out=z)",
        feeds={"x": [-(2**63)], "y": [1]},
    ),
    _trying(
        "dtypes",
        MergesScalesOfIntegers,
        "x: int64[1]\nscale(X=x) -> (Out=a) {scale=0.5}\nscale(X=a) -> (Out=y) {scale=4.0}",
        feeds={"x": [3]},
    ),
    _trying(
        "effects and random numbers",
        WritesRandomOperatorsAnew,
        'uniform_random() -> (Out=a) {shape=[4], min=0.5, max=2.0, dtype="float64"}\ntanh(X=a) -> (Out=y)',
    ),
    _trying("state", RemovesBranchesThatNobodyReads, _STATE, feeds={"c": [True]}, targets=("y",), fetch=("s",)),
    _trying("broadcasting", ExpandsFromTheRight, "x: float64[3, 3]\ny: float64[3]\nelementwise_add(X=x, Y=y) -> (Out=z) {axis=0}"),
    _trying("loops", SumsInClosedForm, _SUMMING, feeds={"i": [5], "n": [3]}),
    _trying("branches", ComputesBeforeTheBranch, _TURNED, feeds={"c": [False]}),
    _trying(
        "gradients",
        CopiesThroughScales,
        "x: float64[2]\nscale(X=x) -> (Out=y) {scale=2.5}\nmean(X=y) -> (Out=loss)",
        BACKWARD,
        Check(CopiesThroughScales),
    ),
)
