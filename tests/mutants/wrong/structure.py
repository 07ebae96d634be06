"""Wrong passes about what runs when: loops, branches, state, gradients, memory, random numbers, and what passes claim."""

from __future__ import annotations

from dataclasses import dataclass

from graphad import edit, ops
from graphad.ir import SINGLE_WRITER, Builder, Graph, Op, Value
from graphad.passes.backward import GradOps, OpPath
from graphad.program import BACKWARD
from graphad.rewriting import Pass
from tests.mutants.kit import is_typed, number, operators
from tests.scratch import passes

with passes():

    @dataclass(frozen=True)
    class HandsOnTheStart(Pass):
        """A value that a loop's body only copies is what it was at the start, if it is copied from itself."""

        name = "user-passes-on-the-start"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "while")):
                body = op.graphs["sub_block"]
                for i, result in enumerate(body.results[:-1]):
                    writer = result.writer
                    out, start = op.outputs["Out"][i], op.inputs["X"][i]
                    if writer is not None and writer.type == "assign" and out.readers and out.type == start.type:
                        op.graph.replace(out, start)
                        changed = True
            return changed

    @dataclass(frozen=True)
    class TakesOneBranchForBoth(Pass):
        """A value that a branch passes through unchanged needs no branch."""

        name = "user-takes-one-branch-for-both"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "if_else")):
                first = next(iter(op.graphs.values()))
                for out, result in zip(op.outputs.get("Out", ()), first.results, strict=True):
                    copied = result.writer.input("X") if result.writer is not None and result.writer.type == "assign" else result
                    if copied in first.inputs and out.readers:
                        op.graph.replace(out, op.inputs["X"][first.inputs.index(copied)])
                        changed = True
            return changed

    @dataclass(frozen=True)
    class MergesIncrements(Pass):
        """Two steps of a counter are one step of both, but not where the value between them is kept or read."""

        name = "user-merges-increments"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "increment")):
                inner = op.input("X").writer
                if inner is not None and inner.type == "increment":
                    step = inner.attrs.get("step", 1.0)
                    op.graph.set_inputs(op, "X", [inner.input("X")])
                    op.graph.set_attr(op, "step", step)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ForgetsVelocity(Pass):
        """Momentum without a velocity is sgd, but the velocity was not zero."""

        name = "user-forgets-velocity"

        def apply(self, graph: Graph) -> bool:
            found = [op for op in graph.ops if op.type == "momentum"]
            for op in found:
                inputs = {slot: op.inputs[slot] for slot in ("Param", "Grad", "LearningRate")}
                graph.add_op("sgd", inputs, {"ParamOut": op.outputs["ParamOut"]}, before=op, role=op.role)
                graph.remove_op(op)
            return bool(found)

    @dataclass(frozen=True)
    class SumsFirstAndLast(Pass):
        """accumulate-grads, but of more than two gradients it adds up the first and the last."""

        name = "user-sums-first-and-last"
        requires = (GradOps,)
        establishes = (SINGLE_WRITER,)
        preserves = (OpPath, GradOps)

        def apply(self, graph: Graph) -> bool:
            shared = [value for inner in graph.tree() for value in inner.values if len(value.writers) > 1]
            for value in shared:
                writers, parts = list(dict.fromkeys(value.writers)), [_part(value.graph, value) for _ in value.writers]
                value.graph.add_op(
                    "sum", {"X": [parts[0], parts[-1]]}, {"Out": [value]}, role=BACKWARD, before=next(iter(value.readers), None)
                )
                unused = iter(parts)
                for op in writers:
                    for slot, values in list(op.outputs.items()):
                        value.graph.set_outputs(op, slot, [next(unused) if v is value else v for v in values])
            return bool(shared)

    @dataclass(frozen=True)
    class CountsEqualTermsOnce(Pass):
        """Takes the terms of a sum for a set."""

        name = "user-counts-equal-terms-once"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "sum"):
                terms = list(dict.fromkeys(op.inputs["X"]))
                if 1 < len(terms) < len(op.inputs["X"]) or (len(terms) == 1 < len(op.inputs["X"]) and terms[0].type is not None):
                    op.graph.set_inputs(op, "X", terms)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ForgetsTheSquare(Pass):
        """Writes the gradient of tanh out as that of the sigmoid."""

        name = "user-forgets-the-square"

        def apply(self, graph: Graph) -> bool:
            found = [op for op in operators(graph, "tanh_grad") if is_typed(op)]
            for op in found:
                op.graph.add_op("sigmoid_grad", op.inputs, op.outputs, before=op, role=op.role, forward=op.forward)
                op.graph.remove_op(op)
            return bool(found)

    @dataclass(frozen=True)
    class SwapsGradients(Pass):
        """Takes the two gradients of a product for each other, where they have one type."""

        name = "user-swaps-gradients"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "elementwise_mul_grad")):
                x, y = (op.outputs.get(slot, ()) for slot in ("X@GRAD", "Y@GRAD"))
                if x and y and x[0].type == y[0].type and x[0].type is not None and op.input("X") is not op.input("Y"):
                    swapped = {"X@GRAD": y, "Y@GRAD": x}
                    op.graph.add_op(op.type, op.inputs, swapped, op.attrs, before=op, role=op.role, forward=op.forward)
                    op.graph.remove_op(op)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class SlopesUpAtZero(Pass):
        """Writes the gradient of relu out as where its output is not below zero, which it is at zero, too."""

        name = "user-slopes-up-at-zero"

        def apply(self, graph: Graph) -> bool:
            return any([_chosen_by_sign(op) for op in list(operators(graph, "relu_grad")) if is_typed(op)])

    @dataclass(frozen=True)
    class ForgetsTheFactorInLoops(Pass):
        """Writes the gradient of a square out without the factor 2, in nested graphs alone."""

        name = "user-forgets-the-factor-in-loops"

        def apply(self, graph: Graph) -> bool:
            found = [op for op in operators(graph, "square_grad") if op.graph is not graph and is_typed(op)]
            for op in found:
                inputs = {"X": op.inputs["X"], "Y": op.inputs["Out@GRAD"]}
                op.graph.add_op("elementwise_mul", inputs, {"Out": op.outputs["X@GRAD"]}, before=op, role=op.role)
                op.graph.remove_op(op)
            return bool(found)

    @dataclass(frozen=True)
    class StopsOneEarly(Pass):
        """A loop that runs while its counter is at most a number runs while it is below it."""

        name = "user-stops-one-early"

        def apply(self, graph: Graph) -> bool:
            tests = [op.graphs["sub_block"].results[-1].writer for op in operators(graph, "while")]
            found = [test for test in tests if test is not None and test.type == "less_equal"]
            for op in found:
                op.graph.add_op("less_than", op.inputs, op.outputs, op.attrs, before=op, role=op.role)
                op.graph.remove_op(op)
            return bool(found)

    @dataclass(frozen=True)
    class DrawsAgain(Pass):
        """Computes forward values again where gradients read them, dropout as well."""

        name = "user-draws-again"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for op in graph.ops if op.type == "dropout"]:
                mask = op.output("Mask")
                readers = [reader for reader in mask.readers if reader.role == BACKWARD]
                if readers:
                    again = {slot: [_like(graph, v) for v in values] for slot, values in op.outputs.items()}
                    graph.add_op(op.type, op.inputs, again, op.attrs, before=readers[0], role=BACKWARD)
                    for reader in readers:
                        graph.set_inputs(reader, "Mask", again["Mask"])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ComputesAgainFromTheUpdate(Pass):
        """Computes a value again for its gradient, from what its input holds after it was overwritten."""

        name = "user-computes-again-from-the-update"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for op in graph.ops if op.type in ("scale", "tanh", "exp", "square") and op.role != BACKWARD]:
                x, out = op.input("X"), op.output("Out")
                readers = [reader for reader in out.readers if reader.role == BACKWARD]
                latest = graph.versions(x.name)[-1]
                if readers and latest is not x and latest.type == x.type and _comes_before(latest, readers):
                    again = _like(graph, out)
                    graph.add_op(op.type, {"X": [latest]}, {"Out": [again]}, op.attrs, before=readers[0], role=BACKWARD)
                    for reader in readers:
                        for slot, values in list(reader.inputs.items()):
                            graph.set_inputs(reader, slot, [again if v is out else v for v in values])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ReusesViews(Pass):
        """Lets operators overwrite their input where they are its last reader, views of it or not."""

        name = "user-reuses-views"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in [op for op in graph.ordered_ops() if op.type in ("exp", "tanh", "scale", "square") and "inplace" not in op.attrs]:
                x = op.input("X")
                if x.writers and not graph.is_observed(x) and list(x.readers)[-1:] == [op] and x.type == op.output("Out").type:
                    graph.set_attr(op, "inplace", ["Out:X"])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class RunsOnceIfTheLimitIsOne(Pass):
        """A loop to one runs once, wherever it begins."""

        name = "user-runs-once-if-the-limit-is-one"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in edit.loops(graph):
                test = op.input("Condition").writer
                if test is not None and test.type == "less_than" and number(test.input("Y")) == 1.0 and op.graph.allows("run-once", op):
                    edit.run_once(op)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ForgetsUnreadCarries(Pass):
        """A carried value that is unused after the loop is no longer carried, but the next iteration may read it."""

        name = "user-forgets-unread-carries"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in edit.loops(graph):
                loop = edit.LoopLike.of(op)
                if loop is None or loop.is_gradient:
                    continue
                triples = zip(loop.results, loop.arguments("sub_block"), loop.yielded("sub_block"), strict=False)
                for result, argument, value in list(triples)[:-1]:
                    if not result.readers and not op.graph.is_observed(result) and value is not argument:
                        edit.set_yielded(op, result, [argument])
                        changed = True
            return changed

    @dataclass(frozen=True)
    class SharesRates(Pass):
        """All updates have one learning rate, namely that of the first."""

        name = "user-shares-rates"

        def apply(self, graph: Graph) -> bool:
            updates = [op for op in graph.ops if "LearningRate" in op.inputs]
            others = [op for op in updates[1:] if op.input("LearningRate") is not updates[0].input("LearningRate")]
            for op in others:
                graph.set_inputs(op, "LearningRate", [updates[0].input("LearningRate")])
            return bool(others)

    @dataclass(frozen=True)
    class DrawsInPieces(Pass):
        """Draws a long row of random numbers as two short ones."""

        name = "user-draws-in-pieces"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in list(operators(graph, "uniform_random", "gaussian_random")):
                shape, out = list(op.attrs["shape"]), op.output("Out")
                if not shape or shape[0] < 2 or not graph.allows("draw-in-pieces", op):
                    continue
                parts = []
                for extent in (shape[0] // 2, shape[0] - shape[0] // 2):
                    part = op.graph.add_value(f"{out.name}_part", (extent, *shape[1:]), out.dtype)
                    op.graph.add_op(op.type, {}, {"Out": [part]}, {**op.attrs, "shape": [extent, *shape[1:]]}, before=op, role=op.role)
                    parts.append(part)
                op.graph.add_op("concat", {"X": parts}, {"Out": [out]}, {"axis": 0}, before=op, role=op.role)
                op.graph.remove_op(op)
                changed = True
            return changed

    @dataclass(frozen=True)
    class OrdersByHash(Pass):
        """Orders the terms of a sum by the hashes of their names."""

        name = "user-orders-by-hash"
        tolerance = 1e-5

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "sum"):
                terms = sorted(op.inputs["X"], key=lambda value: hash(value.name))
                if terms != list(op.inputs["X"]):
                    op.graph.set_inputs(op, "X", terms)
                    changed = True
            return changed


def _part(graph: Graph, value: Value) -> Value:
    part = graph.add_version(graph.values.numbered(value.name, "{}@PART@{}"))
    part.grad_of, part.kind = value.grad_of, value.kind
    return part


def _like(graph: Graph, value: Value) -> Value:
    return graph.add_value(f"{value.name}@AGAIN", value.shape, value.dtype)


def _comes_before(value: Value, readers: list[Op]) -> bool:
    graph = value.graph
    order = {op: i for i, op in enumerate(graph.ordered_ops())}
    return bool(value.writers) and order[value.writers[0]] < min(order[reader] for reader in readers)


def _chosen_by_sign(op: Op) -> bool:
    out, cotangent, (result,) = op.input("Out"), op.input("Out@GRAD"), op.writes()
    if out.type != cotangent.type:
        return False
    build = Builder(op.graph, result.name, before=op, role=op.role)
    zeros = ops.fill_zeros_like(build.symbol(out))
    chosen = ops.where(ops.greater_equal(build.symbol(out), zeros), build.symbol(cotangent), zeros)
    op.graph.substitute(result, chosen.value)
    op.graph.remove_op(op)
    return True
