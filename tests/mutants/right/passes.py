"""Right passes: kinks, rounding within a claim, copies, orders, names, loops, branches and gradients, all kept as they should."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from graphad import ops
from graphad.ir import Graph, Op, Value
from graphad.ir.residuals import gradient_ops
from graphad.rewriting import Pass
from graphad.types import FLOATS, TENSOR
from tests.mutants.kit import attribute, is_typed, number, operators, written_as
from tests.scratch import passes


def _negated(x: Any) -> Any:
    return ops.scale(x, scale=-1.0)


def _is_float(op: Op) -> bool:
    return all(value.dtype in FLOATS for value in op.reads())


def _copies(value: Value) -> bool:
    """Whether a value may be read through a copy: a tensor of a known type whose gradient passes as it is."""
    return value.type is not None and value.kind == TENSOR and not value.stop_gradient and value.error_clip is None


with passes():

    @dataclass(frozen=True)
    class RectifiesByMaximum(Pass):
        """relu(x) as max(x, 0): at 0 the gradient goes to the constant, as relu has it."""

        name = "right-rectifies-by-maximum"

        def apply(self, graph: Graph) -> bool:
            return any([written_as(op, lambda x: ops.elementwise_max(x, ops.fill_zeros_like(x))) for op in operators(graph, "relu")])

    @dataclass(frozen=True)
    class SubtractsByAdding(Pass):
        """x - y as x + (-y), which floating-point numbers agree on to the last bit."""

        name = "right-subtracts-by-adding"

        def apply(self, graph: Graph) -> bool:
            found = [op for op in operators(graph, "elementwise_sub") if _is_float(op) and op.input("X").shape == op.input("Y").shape]
            return any([written_as(op, lambda x, y: ops.elementwise_add(x, _negated(y))) for op in found])

    @dataclass(frozen=True)
    class SquaresByMultiplying(Pass):
        """x² as x * x."""

        name = "right-squares-by-multiplying"

        def apply(self, graph: Graph) -> bool:
            return any([written_as(op, lambda x: ops.elementwise_mul(x, x)) for op in operators(graph, "square")])

    @dataclass(frozen=True)
    class SwapsFactors(Pass):
        """x * y as y * x where both have one shape."""

        name = "right-swaps-factors"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "elementwise_mul", "elementwise_add"):
                x, y = op.input("X"), op.input("Y")
                if x is not y and x.type is not None and x.type == y.type and -1 not in x.type.shape:
                    op.graph.set_inputs(op, "X", [y])
                    op.graph.set_inputs(op, "Y", [x])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class AddsFromTheRight(Pass):
        """a + b + c as a + (b + c), which differs by rounding."""

        name = "right-adds-from-the-right"
        tolerance = 1e-4

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "sum"):
                terms = op.inputs["X"]
                if len(terms) == 3 and all(v.dtype == "float64" and v.type == terms[0].type for v in terms):
                    changed |= written_as(op, lambda a, b, c: ops.sum([a, ops.sum([b, c])]))
            return changed

    @dataclass(frozen=True)
    class SumsAxisByAxis(Pass):
        """A sum over two axes as two sums."""

        name = "right-sums-axis-by-axis"
        tolerance = 1e-4

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "reduce_sum"):
                dims, keep = attribute(op, "dim"), attribute(op, "keep_dim")
                if len(dims) != 2 or not keep or op.input("X").dtype not in FLOATS or len(op.attrs.keys() - {"dim", "keep_dim"}):
                    continue
                changed |= written_as(
                    op,
                    lambda x, first=dims[0], last=dims[1]: ops.reduce_sum(
                        ops.reduce_sum(x, dim=[first], keep_dim=True), dim=[last], keep_dim=True
                    ),
                )
            return changed

    @dataclass(frozen=True)
    class MeansBySums(Pass):
        """A mean as a sum over the number of elements, 0 / 0 where there are none."""

        name = "right-means-by-sums"
        tolerance = 1e-4

        def apply(self, graph: Graph) -> bool:
            found = [op for op in operators(graph, "mean") if op.input("X").dtype == "float64"]
            return any([written_as(op, _mean) for op in found])

    @dataclass(frozen=True)
    class WritesSoftmaxOut(Pass):
        """softmax as exponentials of what is left without the maximum, over their sum."""

        name = "right-writes-softmax-out"
        tolerance = 1e-4

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "softmax"):
                shape = op.input("X").shape
                if shape and 0 not in shape and -1 not in shape and op.input("X").dtype == "float64":
                    changed |= written_as(op, partial(_softmax, axis=attribute(op, "axis")))
            return changed

    @dataclass(frozen=True)
    class ClipsByBounds(Pass):
        """max(min(x, b), a) around what is already between the two: nothing changes, kinks neither."""

        name = "right-clips-by-bounds"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "sigmoid"):
                out = op.output("Out")
                if is_typed(op) and all(reader.type != "relu" for reader in out.readers) and out.readers and graph.allows("relu", op):
                    again = op.graph.add_version(f"{op.graph.values.fresh(out.name + '_relu')}", out.shape, out.dtype, None)
                    readers = [reader for reader in out.readers if not reader.type.endswith("_grad")]
                    if not readers or out.stop_gradient:
                        continue
                    op.graph.add_op("relu", {"X": [out]}, {"Out": [again]}, before=op.next, role=op.role)
                    for reader in readers:
                        reader.graph.replace_input(reader, out, again)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ComputesForEachReader(Pass):
        """The opposite of cse: each reader gets what it reads computed for itself."""

        name = "right-computes-for-each-reader"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "tanh", "exp", "sin", "scale")):
                out = op.output("Out")
                if op.input("X").name == out.name or not _copies(out) or "inplace" in op.attrs:
                    continue
                for reader in [each for each in list(out.readers)[1:] if each.role == op.role and not each.graphs]:
                    again = op.graph.add_value(f"{out.name}_again", out.shape, out.dtype)
                    op.graph.add_op(op.type, op.inputs, {"Out": [again]}, op.attrs, before=op.next, role=op.role)
                    reader.graph.replace_input(reader, out, again)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class RenamesLocals(Pass):
        """Gives values that are not requested other names."""

        name = "right-renames-locals"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(graph.ops):
                for value in op.writes():
                    single = (
                        len(graph.versions(value.name)) == 1
                        and value.kind == TENSOR
                        and op.definition is not None
                        and not op.definition.random
                    )
                    free = not (graph.is_observed(value) or value.persistable or value.stop_gradient or op.graphs or "@" in value.name)
                    if single and free and value.readers and not value.name.startswith("local_"):
                        graph.rename(value, graph.values.fresh(f"local_{value.name}"))
                        changed = True
            return changed

    @dataclass(frozen=True)
    class RunsLateWhatCanWait(Pass):
        """Puts operators directly before their first reader."""

        name = "right-runs-late-what-can-wait"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for op in graph.ordered_ops() if op.type in ("tanh", "exp", "fill_constant", "elementwise_mul")][::-1]:
                out = next(op.writes())
                order = {each: i for i, each in enumerate(graph.ops)}
                first = min(out.readers, key=lambda reader: order[reader], default=None)
                if first is None or first is op.next or len(graph.versions(out.name)) > 1 or order[first] < order[op] or op.graphs:
                    continue
                if any(len(graph.versions(value.name)) > 1 for value in op.reads()):
                    continue
                moved = graph.add_op(op.type, op.inputs, op.outputs, op.attrs, before=first, role=op.role, forward=op.forward)
                moved.source = op.source
                graph.remove_op(op)
                changed = True
            return changed

    @dataclass(frozen=True)
    class ReadsThroughCopies(Pass):
        """Lets operators in graphs of any depth read copies of what they read."""

        name = "right-reads-through-copies"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "tanh", "exp", "square", "sigmoid")):
                x = op.input("X")
                if not _copies(x) or (x.writer is not None and x.writer.type == "assign") or op.input("X") is op.output("Out"):
                    continue
                copy = op.graph.add_value(f"{x.name}_copy", x.shape, x.dtype)
                op.graph.add_op("assign", {"X": [x]}, {"Out": [copy]}, before=op, role=op.role)
                op.graph.set_inputs(op, "X", [copy])
                changed = True
            return changed

    @dataclass(frozen=True)
    class NegatesTwice(Pass):
        """tanh(x) as tanh(-(-x)): signs are exact."""

        name = "right-negates-twice"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "tanh", "sin")):
                x = op.input("X")
                if x.writer is None or x.writer.type != "scale":
                    changed |= written_as(op, lambda v, kind=op.type: ops.lookup(kind)(_negated(_negated(v))))
            return changed

    @dataclass(frozen=True)
    class TurnsAndTurnsBack(Pass):
        """exp of a matrix as that of its transpose, transposed."""

        name = "right-turns-and-turns-back"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            found = [op for op in operators(graph, "exp") if len(op.input("X").shape or ()) == 2]
            fresh = [op for op in found if (writer := op.input("X").writer) is None or writer.type != "transpose"]
            return any([written_as(op, lambda x: _turned(ops.exp(_turned(x)))) for op in fresh])

    @dataclass(frozen=True)
    class CutsAndJoins(Pass):
        """relu of a whole as relu of two halves."""

        name = "right-cuts-and-joins"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "relu")):
                shape, writer = op.input("X").shape, op.input("X").writer
                if shape and shape[0] > 0 and shape[0] % 2 == 0 and (writer is None or writer.type != "split"):
                    changed |= written_as(op, lambda x: ops.concat([ops.relu(part) for part in ops.split(x, num=2, axis=0)], axis=0))
            return changed

    @dataclass(frozen=True)
    class ExchangesBranches(Pass):
        """if c { A } else { B } as if not c { B } else { A }."""

        name = "right-exchanges-branches"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "if_else")):
                condition = op.input("Cond")
                kept = op.outputs.get("Scope", ())
                negated = condition.writer is not None and condition.writer.type == "logical_not"
                scalar = op.attrs.get("is_scalar_condition", True)
                if condition.type is None or not scalar or kept or negated or gradient_ops(op):
                    continue
                other = op.graph.add_value(f"{condition.name}_not", condition.shape, condition.dtype)
                op.graph.add_op("logical_not", {"X": [condition]}, {"Out": [other]}, before=op, role=op.role)
                op.graph.set_inputs(op, "Cond", [other])
                first, second = op.graphs
                op.graphs = {first: op.graphs[second], second: op.graphs[first]}
                changed = True
            return changed

    @dataclass(frozen=True)
    class DifferentiatesTanhByHand(Pass):
        """The gradient of tanh in arithmetic."""

        name = "right-differentiates-tanh-by-hand"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "tanh_grad")):
                if [*op.inputs] == ["Out", "Out@GRAD"] and op.input("Out").dtype == "float64":
                    changed |= written_as(op, lambda out, d: ops.elementwise_mul(d, 1.0 - ops.elementwise_mul(out, out)))
            return changed

    @dataclass(frozen=True)
    class SumsGradientsBackwards(Pass):
        """Adds up the parts of a gradient from the last one on."""

        name = "right-sums-gradients-backwards"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "sum"):
                parts = list(op.inputs["X"])
                plain = all(v.dtype == "float64" and v.kind == TENSOR and "@RENAME@" in v.name for v in parts)
                if op.role == "backward" and len(parts) > 1 and plain and parts == sorted(parts, key=lambda v: v.name):
                    op.graph.set_inputs(op, "X", parts[::-1])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ListsConstants(Pass):
        """A constant of few elements element by element."""

        name = "right-lists-constants"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for op in graph.ops if op.type == "fill_constant" and not op.inputs]:
                out, value = op.output("Out"), number(op.output("Out"))
                if out.shape is None or out.dtype != "float64" or not 0 < _count(out.shape) <= 8 or value is None or "run_once" in op.attrs:
                    continue
                attrs = {"shape": list(out.shape), "dtype": "float64", "fp64_values": [value] * _count(out.shape)}
                graph.add_op("assign_value", {}, {"Out": [out]}, attrs, before=op, role=op.role, forward=op.forward)
                graph.remove_op(op)
                changed = True
            return changed


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _mean(x: Any) -> Any:
    total = ops.reduce_sum(x, reduce_all=True)
    return ops.elementwise_div(total, ops.cast(ops.size(x), out_dtype="float64"))


def _softmax(x: Any, axis: int) -> Any:
    powers = ops.exp(ops.elementwise_sub(x, ops.reduce_max(x, dim=[axis], keep_dim=True)))
    return ops.elementwise_div(powers, ops.reduce_sum(powers, dim=[axis], keep_dim=True))


def _turned(x: Any) -> Any:
    return ops.transpose(x, axis=[1, 0])


with passes():

    @dataclass(frozen=True)
    class ComparesInTwoSteps(Pass):
        """x <= y as x < y or x = y, which holds for nan, infinities and integers alike."""

        name = "right-compares-in-two-steps"

        def apply(self, graph: Graph) -> bool:
            found = [op for op in operators(graph, "less_equal") if op.input("X").type == op.input("Y").type]
            return any([written_as(op, lambda x, y: ops.logical_or(ops.less_than(x, y), ops.equal(x, y))) for op in found])

    @dataclass(frozen=True)
    class ExpandsBeforehand(Pass):
        """The smaller operand of a product is expanded, where it has the axes of the other one already."""

        name = "right-expands-beforehand"
        tolerance = 1e-9

        def apply(self, graph: Graph) -> bool:
            def expanded(x: Any, y: Any) -> Any:
                return ops.elementwise_mul(x, ops.expand_v2(y, shape=list(x.shape)))

            return any([written_as(op, expanded) for op in operators(graph, "elementwise_mul") if self._fits(op)])

        def _fits(self, op: Op) -> bool:
            x, y = op.input("X").shape, op.input("Y").shape
            if not is_typed(op) or x is None or y is None or len(x) != len(y) or x == y or -1 in (*x, *y) or 0 in x:
                return False
            return all(b in (a, 1) for a, b in zip(x, y, strict=True))

    @dataclass(frozen=True)
    class WidensForAMoment(Pass):
        """tanh(x) in float32 is cast to float64 and back, which keeps every number."""

        name = "right-widens-for-a-moment"

        def apply(self, graph: Graph) -> bool:
            def widened(x: Any) -> Any:
                return ops.cast(ops.cast(ops.tanh(x), out_dtype="float64"), out_dtype="float32")

            found = [op for op in operators(graph, "tanh") if op.input("X").dtype == "float32"]
            # What it made itself is left alone, or it would never end.
            return any([written_as(op, widened) for op in found if not any(each.type == "cast" for each in op.output("Out").readers)])

    @dataclass(frozen=True)
    class ChoosesByTheNegation(Pass):
        """where(c, x, y) as where(not c, y, x)."""

        name = "right-chooses-by-the-negation"

        def apply(self, graph: Graph) -> bool:
            def turned(c: Any, x: Any, y: Any) -> Any:
                return ops.where(ops.logical_not(c), y, x)

            found = [op for op in operators(graph, "where") if list(op.inputs) == ["Condition", "X", "Y"]]
            negated = {op for op in found if (writer := op.input("Condition").writer) is not None and writer.type == "logical_not"}
            return any([written_as(op, turned) for op in found if op not in negated])
