"""Passes with one mistake each, such as people make: ``check_pass`` has to catch them all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from graphad.ir import Graph, Op, Value
from graphad.rewriting import Analysis, Pass
from tests.scratch import passes


def found(graph: Graph, *types: str) -> Iterator[Op]:
    """The operators of some types in a graph and those nested in it."""
    for each in list(graph.tree()):
        yield from [op for op in each.ops if op.type in types]


def constant(value: Value) -> float | None:
    """The number a value is filled with, None if it is no constant."""
    writer = value.writer
    return writer.attrs.get("value", 0.0) if writer is not None and writer.type == "fill_constant" and not writer.inputs else None


def merged(graph: Graph, key: Any) -> bool:
    """Put the first of the operators with the same key in the place of the others."""
    first: dict[Any, Op] = {}
    changed = False
    for op in list(graph.ops):
        if list(op.outputs) != ["Out"] or len(op.outputs["Out"]) > 1 or op.graphs or (its := key(op)) is None:
            continue
        other = first.setdefault(its, op)
        if other is not op and other.output("Out").type == op.output("Out").type:
            changed |= bool(op.output("Out").readers)
            graph.replace(op.output("Out"), other.output("Out"))
    return changed


with passes():

    @dataclass(frozen=True)
    class SwapsSubtraction(Pass):
        """Takes subtraction for commutative."""

        name = "wrong-swaps-subtraction"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in found(graph, "elementwise_sub"):
                x, y = op.input("X"), op.input("Y")
                if x.type == y.type and x.name > y.name:
                    op.graph.set_inputs(op, "X", [y])
                    op.graph.set_inputs(op, "Y", [x])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class DropsCapture(Pass):
        """Takes two captured values of a loop for one because they have one type."""

        name = "wrong-drops-capture"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in found(graph, "while"):
                body = op.graphs["sub_block"]
                captured = [value for value in body.inputs[len(body.results) :] if value.readers]
                for one, other in combinations(captured, 2):
                    if one.type == other.type:
                        body.replace(other, one)
                        changed = True
            return changed

    @dataclass(frozen=True)
    class FoldsNan(Pass):
        """x - x is 0, but not where x is nan or infinite."""

        name = "wrong-folds-nan"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in found(graph, "elementwise_sub"):
                out = op.output("Out")
                if op.input("X") is op.input("Y") and out.shape is not None and -1 not in out.shape:
                    fill(op, out)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class FoldsZeroTimes(Pass):
        """x * 0 is 0, but not where x is nan or infinite."""

        name = "wrong-folds-zero-times"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in found(graph, "elementwise_mul"):
                out = op.output("Out")
                if 0.0 in (constant(op.input("X")), constant(op.input("Y"))) and out.shape is not None and -1 not in out.shape:
                    fill(op, out)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class HoistsFromLoop(Pass):
        """A value assigned in every iteration is hoisted as the loop's result, but not if there is no iteration."""

        name = "wrong-hoists-from-loop"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(graph.controls):
                body = op.graphs.get("sub_block")
                for i, result in enumerate(body.results[:-1] if op.type == "while" and body is not None else []):
                    writer = result.writer
                    if body is None or writer is None or list(writer.outputs) != ["Out"] or writer.graphs:
                        continue
                    given = dict(zip(body.inputs, op.inputs["X"], strict=False))
                    captured = body.inputs[len(body.results) :]
                    out = op.outputs["Out"][i]
                    if not out.readers or not all(value in given and value in captured for value in writer.reads()):
                        continue
                    value = graph.add_value(f"{out.name}_hoisted", out.shape, out.dtype)
                    inputs = {slot: [given[v] for v in values] for slot, values in writer.inputs.items()}
                    graph.add_op(writer.type, inputs, {"Out": [value]}, writer.attrs, before=op)
                    graph.replace(out, value)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ForgetsDtype(Pass):
        """A cast there and back is nothing, but not if something is lost on the way."""

        name = "wrong-forgets-dtype"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in found(graph, "cast"):
                inner = op.input("X").writer
                if inner is not None and inner.type == "cast" and inner.input("X").type == op.output("Out").type:
                    op.graph.set_inputs(op, "X", [inner.input("X")])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class FoldsInWrongDtype(Pass):
        """Makes every constant a floating-point number."""

        name = "wrong-folds-in-wrong-dtype"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in found(graph, "fill_constant"):
                out = op.output("Out")
                if out.dtype != "float64" and out.shape and -1 not in out.shape:
                    op.graph.set_attr(op, "dtype", "float64")
                    changed = True
            return changed

    @dataclass(frozen=True)
    class IgnoresAliasing(Pass):
        """Takes what a name holds before it is overwritten for what it holds after that."""

        name = "wrong-ignores-aliasing"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(graph.ops):
                if op.type in ("increment", "scale") and op.input("X").name == op.output("Out").name and op.output("Out").readers:
                    graph.replace(op.output("Out"), op.input("X"))
                    changed = True
            return changed

    @dataclass(frozen=True)
    class MergesIgnoringAttributes(Pass):
        """Common subexpressions are those of the same operator and operands, whatever their attributes."""

        name = "wrong-merges-ignoring-attributes"

        def apply(self, graph: Graph) -> bool:
            def key(op: Op) -> Any:
                return (op.type, *(tuple(v) for v in op.inputs.values())) if op.inputs else None

            return merged(graph, key)

    @dataclass(frozen=True)
    class MergesRandom(Pass):
        """Two operators that draw random numbers of one shape draw the same ones."""

        name = "wrong-merges-random"

        def apply(self, graph: Graph) -> bool:
            return merged(graph, lambda op: str(op.attrs["shape"]) if op.type == "uniform_random" else None)

    @dataclass(frozen=True)
    class DropsState(Pass):
        """An operator with an unused result is dead, persistable or not."""

        name = "wrong-drops-state"

        def apply(self, graph: Graph) -> bool:
            dead = [op for op in graph.ops if all(v.persistable and not v.readers for v in op.writes()) and not op.graphs]
            for op in dead:
                graph.remove_op(op)
            return bool(dead)

    @dataclass(frozen=True)
    class DropsCounter(Pass):
        """A value that only the condition of a loop reads is dead."""

        name = "wrong-drops-counter"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in found(graph, "increment"):
                inside = op.graph.parent is not None and op.input("X") in op.graph.inputs
                if inside and all(reader.type == "less_than" for reader in op.output("Out").readers):
                    op.graph.replace(op.output("Out"), op.input("X"))
                    op.graph.remove_op(op)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class TakesWrongBranch(Pass):
        """Folds a known condition the wrong way round."""

        name = "wrong-takes-wrong-branch"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in found(graph, "if_else", "conditional_block"):
                value = constant(op.inputs["Cond"][0])
                if value is not None:
                    writer = op.inputs["Cond"][0].writer
                    assert writer is not None
                    op.graph.set_attr(writer, "value", 1.0 - value)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class IsNotIdempotent(Pass):
        """Says it is idempotent, and copies again what it copied before."""

        name = "wrong-is-not-idempotent"
        idempotent = True

        def apply(self, graph: Graph) -> bool:
            op = next(found(graph, "tanh", "sin"), None)
            if op is None:
                return False
            x = op.input("X")
            copy = op.graph.add_value(f"{x.name}_copy", x.shape, x.dtype)
            op.graph.add_op("assign", {"X": [x]}, {"Out": [copy]}, before=op)
            op.graph.set_inputs(op, "X", [copy])
            return True

    @dataclass(frozen=True)
    class FollowsHashes(Pass):
        """Goes through a set of names."""

        name = "wrong-follows-hashes"

        def apply(self, graph: Graph) -> bool:
            names = {value.name for value in graph.inputs if value.dtype == "float64"}
            for name in names:
                value = graph.versions(name)[0]
                copy = graph.add_value(f"{name}_copy", value.shape, value.dtype)
                graph.add_op("assign", {"X": [value]}, {"Out": [copy]})
            return bool(names)

    @dataclass(frozen=True)
    class PreservesNothing(Pass):
        """Says that the count of operators stays as it is, and adds one."""

        name = "wrong-preserves-nothing"

        def apply(self, graph: Graph) -> bool:
            count = OpCount.of(graph).count
            value = graph.add_value("one_more", (1,), "float64")
            graph.add_op("fill_constant", {}, {"Out": [value]}, {"shape": [1], "value": float(count), "dtype": "float64"})
            return True

    @dataclass(frozen=True)
    class LeavesWrongType(Pass):
        """Puts a mean in the place of a tanh, and leaves the type."""

        name = "wrong-leaves-wrong-type"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in found(graph, "tanh"):
                op.graph.add_op("mean", op.inputs, op.outputs, before=op)
                op.graph.remove_op(op)
                changed = True
            return changed

    @dataclass(frozen=True)
    class SaysNothingChanged(Pass):
        """Changes a constant, and says that it changed nothing."""

        name = "wrong-says-nothing-changed"

        def apply(self, graph: Graph) -> bool:
            for op in found(graph, "assign"):
                op.graph.replace(op.output("Out"), op.input("X"))
            return False

    @dataclass(frozen=True)
    class ForgetsStopGradient(Pass):
        """A copy is what was copied, but not where gradients stop at it."""

        name = "wrong-forgets-stop-gradient"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(graph.ops):
                if op.type == "assign" and op.output("Out").readers:
                    graph.replace(op.output("Out"), op.input("X"))
                    changed = True
            return changed

    @dataclass(frozen=True)
    class Stumbles(Pass):
        """Thinks that every operator has an input."""

        name = "wrong-stumbles"

        def apply(self, graph: Graph) -> bool:
            return any(op.input("X").shape is None for op in graph.ops if op.type.startswith("fill"))


with passes():

    @dataclass(frozen=True)
    class RewritesOneByOne(Pass):
        """Takes subtraction for commutative, and counts what it does."""

        name = "wrong-rewrites-one-by-one"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(found(graph, "elementwise_sub")):
                if not graph.allows("swap", op):
                    break
                x, y = op.input("X"), op.input("Y")
                graph.set_inputs(op, "X", [y])
                graph.set_inputs(op, "Y", [x])
                changed = True
            return changed


@dataclass(frozen=True)
class OpCount(Analysis):
    """How many operators a graph has."""

    count: int

    @classmethod
    def compute(cls, graph: Graph) -> OpCount:
        return cls(len(graph.ops))


PreservesNothing.preserves = (OpCount,)


def fill(op: Op, out: Value) -> None:
    """Put zeros in the place of what an operator gives."""
    attrs = {"shape": list(out.shape or ()), "value": 0.0, "dtype": out.dtype}
    op.graph.add_op("fill_constant", {}, {"Out": [out]}, attrs, before=op)
    op.graph.remove_op(op)


@dataclass(frozen=True)
class ReducesBeforeTheBias(Pass):
    """The sum over ranks of what is scaled is the scaled sum, but a bias is added on each rank: with one rank there is no difference."""

    name = "wrong-reduces-before-the-bias"
    tolerance = 1e-6

    def apply(self, graph: Graph) -> bool:
        changed = False
        for op in [op for op in graph.ops if op.type == "c_allreduce_sum"]:
            inner, out = op.input("X").writer, op.output("Out")
            if inner is not None and inner.type == "scale" and list(inner.inputs) == ["X"]:
                total = graph.add_value(f"{out.name}@TOTAL", out.shape, out.dtype)
                graph.add_op("c_allreduce_sum", {"X": [inner.input("X")]}, {"Out": [total]}, op.attrs, before=op)
                # Written twice for a moment: a value neither written nor requested would go.
                graph.add_op("scale", {"X": [total]}, {"Out": [out]}, inner.attrs, before=op)
                graph.remove_op(op)
                changed = True
        return changed


# Each with the kinds of finding that it may be caught by.
WRONG: dict[type[Pass], tuple[str, ...]] = {
    SwapsSubtraction: ("values",),
    DropsCapture: ("values", "gradients"),
    FoldsNan: ("values",),
    FoldsZeroTimes: ("values",),
    HoistsFromLoop: ("values", "gradients"),
    ForgetsDtype: ("values",),
    FoldsInWrongDtype: ("verifier", "types", "values"),
    IgnoresAliasing: ("values",),
    MergesIgnoringAttributes: ("values", "gradients"),
    MergesRandom: ("values",),
    DropsState: ("values",),
    DropsCounter: ("values",),
    TakesWrongBranch: ("values",),
    IsNotIdempotent: ("claims", "idempotent"),
    FollowsHashes: ("deterministic",),
    PreservesNothing: ("claims",),
    LeavesWrongType: ("verifier", "types", "values"),
    SaysNothingChanged: ("changed",),
    ForgetsStopGradient: ("gradients",),
    Stumbles: ("raises",),
    ReducesBeforeTheBias: ("ranks",),
}
