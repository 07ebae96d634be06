"""Wrong passes about what operators compute: kinks and ties, ends of the range, dtypes, attributes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from graphad import ops
from graphad.ir import Builder, Graph
from graphad.rewriting import Pass
from tests.mutants.corpus import UserPass
from tests.mutants.kit import attribute, number, operators, written_as
from tests.mutants.witness import Witness
from tests.scratch import passes

with passes():

    @dataclass(frozen=True)
    class AbsoluteAsMaximum(Pass):
        """|x| is max(x, -x), but not its gradient at 0."""

        name = "user-absolute-as-maximum"

        def apply(self, graph: Graph) -> bool:
            return any([written_as(op, lambda x: ops.elementwise_max(x, ops.scale(x, scale=-1.0))) for op in operators(graph, "abs")])

    @dataclass(frozen=True)
    class RectifiesFromZeroOn(Pass):
        """relu(x) is x where x >= 0, but its gradient at 0 is 0."""

        name = "user-rectifies-from-zero-on"

        def apply(self, graph: Graph) -> bool:
            def chosen(x: object) -> object:
                zeros = ops.fill_zeros_like(x)
                return ops.where(ops.greater_equal(x, zeros), x, zeros)

            return any([written_as(op, chosen) for op in operators(graph, "relu")])

    @dataclass(frozen=True)
    class MaximumAsFirst(Pass):
        """The greatest element is the first of the sorted ones, but at ties reduce_max gives each of them a gradient."""

        name = "user-maximum-as-first"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "reduce_max"):
                rank = len(op.input("X").shape or ())
                if rank == 1 and attribute(op, "keep_dim"):
                    changed |= written_as(op, lambda x: ops.top_k_v2(x, k=1)[0])
            return changed

    @dataclass(frozen=True)
    class RoundsUp(Pass):
        """round(x) is floor(x + 1/2), but not for negative halves."""

        name = "user-rounds-up"

        def apply(self, graph: Graph) -> bool:
            return any([written_as(op, lambda x: ops.floor(ops.scale(x, bias=0.5))) for op in operators(graph, "round")])

    @dataclass(frozen=True)
    class SumsExponentials(Pass):
        """logsumexp as it is defined, which overflows."""

        name = "user-sums-exponentials"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "logsumexp"):
                dim, keep, everything = (attribute(op, name) for name in ("axis", "keepdim", "reduce_all"))
                changed |= written_as(
                    op, lambda x, d=dim, k=keep, a=everything: ops.log(ops.reduce_sum(ops.exp(x), dim=list(d), keep_dim=k, reduce_all=a))
                )
            return changed

    @dataclass(frozen=True)
    class MeanOfNothing(Pass):
        """A mean is a sum over a count, which was kept from being 0."""

        name = "user-mean-of-nothing"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "mean"):
                shape = op.input("X").shape or ()
                if -1 not in shape:
                    changed |= written_as(op, partial(_mean_of, count=max(prod(shape), 1)))
            return changed

    @dataclass(frozen=True)
    class DividesByItself(Pass):
        """x / x is 1, but not at 0."""

        name = "user-divides-by-itself"

        def apply(self, graph: Graph) -> bool:
            found = [op for op in operators(graph, "elementwise_div") if op.input("X") is op.input("Y")]
            return any([written_as(op, lambda x, y: ops.fill_any_like(x, value=1.0)) for op in found])

    @dataclass(frozen=True)
    class DividesIntegers(Pass):
        """Dividing by a number is multiplying by its inverse, but not for integers."""

        name = "user-divides-integers"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "elementwise_div"):
                divisor = number(op.input("Y"))
                if divisor:
                    changed |= written_as(op, lambda x, y, c=divisor: ops.scale(x, scale=1.0 / c))
            return changed

    @dataclass(frozen=True)
    class ComparesNarrow(Pass):
        """Compares integers as float32, in which large ones are equal."""

        name = "user-compares-narrow"

        def apply(self, graph: Graph) -> bool:
            def compared(x: object, y: object) -> object:
                return ops.equal(ops.cast(x, out_dtype="float32"), ops.cast(y, out_dtype="float32"))

            found = [op for op in operators(graph, "equal") if op.input("X").dtype == "int64" and attribute(op, "axis") == -1]
            return any([written_as(op, compared) for op in found])

    @dataclass(frozen=True)
    class WidensTheSum(Pass):
        """Adds integers up before it makes them wider, when they have overflowed."""

        name = "user-widens-the-sum"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "elementwise_add"):
                casts = [op.input(slot).writer for slot in ("X", "Y")]
                given = [cast.input("X") for cast in casts if cast is not None and cast.type == "cast" and cast.graph is op.graph]
                if len(given) == 2 and all(value.dtype == "int32" for value in given):
                    build = Builder(op.graph, op.output("Out").name, before=op, role=op.role)
                    total = ops.elementwise_add(*map(build.symbol, given), axis=attribute(op, "axis"))
                    wide = ops.cast(total, in_dtype="int32", out_dtype=op.output("Out").dtype)
                    op.graph.substitute(op.output("Out"), wide.value)
                    op.graph.remove_op(op)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class SlicesTheFirstPart(Pass):
        """A slice that begins in the first part of a concatenation is one of that part, but it may end in the next one."""

        name = "user-slices-the-first-part"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "slice"):
                joined, axes, starts = op.input("Input").writer, attribute(op, "axes"), attribute(op, "starts")
                if joined is None or joined.type != "concat" or list(op.inputs) != ["Input"] or joined.graph is not op.graph:
                    continue
                first = joined.inputs["X"][0]
                if first.shape and axes == [attribute(joined, "axis")] and 0 <= starts[0] < first.shape[axes[0]]:
                    op.graph.set_inputs(op, "Input", [first])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class SumsTransposed(Pass):
        """A sum does not care about the order of axes, if it is over all of them."""

        name = "user-sums-transposed"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "reduce_sum"):
                writer = op.input("X").writer
                if writer is not None and writer.type == "transpose2" and writer.input("X").type == op.input("X").type:
                    op.graph.set_inputs(op, "X", [writer.input("X")])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class NormalizesAlongAnyAxis(Pass):
        """The softmax of a log-softmax is the softmax, but only along the same axis."""

        name = "user-normalizes-along-any-axis"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "softmax"):
                inner = op.input("X").writer
                if inner is not None and inner.type == "log_softmax":
                    op.graph.set_inputs(op, "X", [inner.input("X")])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ClipsAsRelu6(Pass):
        """A clip to 6 is relu6, but not if it begins elsewhere than at 0."""

        name = "user-clips-as-relu6"

        def apply(self, graph: Graph) -> bool:
            found = [op for op in operators(graph, "clip") if list(op.inputs) == ["X"]]
            found = [op for op in found if attribute(op, "max") == 6.0]
            return any([written_as(op, ops.relu6) for op in found if str(op.input("X").dtype).startswith("float")])

    @dataclass(frozen=True)
    class ReshapesAtOnce(Pass):
        """The second of two reshapes says the shape, but a 0 in it stands for an extent of what the first one gave."""

        name = "user-reshapes-at-once"

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "reshape", "reshape2"):
                inner = op.input("X").writer
                if inner is not None and inner.type in ("reshape", "reshape2") and inner.graph is op.graph:
                    op.graph.set_inputs(op, "X", [inner.input("X")])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class ShiftsAlongTheAxis(Pass):
        """A softmax stays what it is if a number is added, but not if that varies along its axis."""

        name = "user-shifts-along-the-axis"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "softmax"):
                inner = op.input("X").writer
                if inner is None or inner.type != "elementwise_add" or inner.graph is not op.graph:
                    continue
                shape, other = inner.input("X").shape, inner.input("Y").shape
                if shape is not None and other is not None and len(other) < len(shape) and shape == op.input("X").shape:
                    op.graph.set_inputs(op, "X", [inner.input("X")])
                    changed = True
            return changed

    @dataclass(frozen=True)
    class LeaksTwice(Pass):
        """Two leaky rectifiers are one with the product of their slopes, but not if the first one is negative."""

        name = "user-leaks-twice"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "leaky_relu"):
                inner = op.input("X").writer
                if inner is not None and inner.type == "leaky_relu" and inner.graph is op.graph:
                    slope = attribute(op, "alpha") * attribute(inner, "alpha")
                    op.graph.set_inputs(op, "X", [inner.input("X")])
                    op.graph.set_attr(op, "alpha", slope)
                    changed = True
            return changed

    @dataclass(frozen=True)
    class NormalizesByDefault(Pass):
        """Writes a normalization out, with the epsilon that it usually has."""

        name = "user-normalizes-by-default"
        tolerance = 1e-6

        def apply(self, graph: Graph) -> bool:
            changed = False
            for op in operators(graph, "instance_norm"):
                used = [value for value in op.writes() if value.readers or op.graph.is_observed(value)]
                if len(op.inputs) > 1 or used != [op.output("Y")] or len(op.input("X").shape or ()) != 3:
                    continue
                for slot in [slot for slot in op.outputs if slot != "Y"]:
                    op.graph.set_outputs(op, slot, ())
                changed |= written_as(op, _normalized)
            return changed


def _mean_of(x: object, count: int) -> object:
    return ops.scale(ops.reduce_sum(x, reduce_all=True), scale=1.0 / count)


def _normalized(x: object) -> object:
    mean = ops.reduce_mean(x, dim=[2], keep_dim=True)
    centered = ops.elementwise_sub(x, mean)
    variance = ops.reduce_mean(ops.square(centered), dim=[2], keep_dim=True)
    return ops.elementwise_mul(centered, ops.rsqrt(ops.scale(variance, bias=1e-5)))


def _witness(pass_type: type[Pass], text: str, **options: object) -> Witness:
    return Witness(text, pass_type, **options)  # type: ignore[arg-type]


WRONG = (
    UserPass(
        "kinks and ties",
        AbsoluteAsMaximum,
        _witness(AbsoluteAsMaximum, "x: float64[1]\nabs(X=x) -> (Out=y)\nmean(X=y) -> (Out=loss)", feeds={"x": [0.0]}, sources=("x",)),
    ),
    UserPass(
        "kinks and ties",
        RectifiesFromZeroOn,
        _witness(RectifiesFromZeroOn, "x: float64[1]\nrelu(X=x) -> (Out=y)\nmean(X=y) -> (Out=loss)", feeds={"x": [0.0]}, sources=("x",)),
    ),
    UserPass(
        "kinks and ties",
        MaximumAsFirst,
        _witness(
            MaximumAsFirst,
            "x: float64[2]\nreduce_max(X=x) -> (Out=y) {keep_dim=true}\nmean(X=y) -> (Out=loss)",
            feeds={"x": [1.0, 1.0]},
            sources=("x",),
        ),
    ),
    UserPass("kinks and ties", RoundsUp, _witness(RoundsUp, "x: float64[1]\nround(X=x) -> (Out=y)", feeds={"x": [-0.5]})),
    UserPass(
        "ends of the range",
        SumsExponentials,
        _witness(SumsExponentials, "x: float64[2]\nlogsumexp(X=x) -> (Out=y)", feeds={"x": [800.0, 0.0]}),
    ),
    UserPass("ends of the range", MeanOfNothing, _witness(MeanOfNothing, "x: float64[0]\nmean(X=x) -> (Out=y)")),
    UserPass(
        "ends of the range",
        DividesByItself,
        _witness(DividesByItself, "x: float64[1]\nelementwise_div(X=x, Y=x) -> (Out=y)", feeds={"x": [0.0]}),
    ),
    UserPass(
        "dtypes",
        DividesIntegers,
        _witness(
            DividesIntegers,
            'x: int64[2]\nfill_constant() -> (Out=c) {shape=[2], value=3.0, dtype="int64"}\nelementwise_div(X=x, Y=c) -> (Out=y)',
            feeds={"x": [7, -7]},
        ),
    ),
    UserPass(
        "dtypes",
        ComparesNarrow,
        _witness(
            ComparesNarrow,
            "x: int64[1]\ny: int64[1]\nequal(X=x, Y=y) -> (Out=z)",
            feeds={"x": [16777217], "y": [16777216]},
        ),
    ),
    UserPass(
        "dtypes",
        WidensTheSum,
        _witness(
            WidensTheSum,
            'x: int32[1]\ncast(X=x) -> (Out=a) {in_dtype="int32", out_dtype="int64"}\nelementwise_add(X=a, Y=a) -> (Out=y)',
            feeds={"x": [2**31 - 1]},
        ),
    ),
    UserPass(
        "attributes",
        SlicesTheFirstPart,
        _witness(
            SlicesTheFirstPart,
            "x: float64[2]\ny: float64[2]\nconcat(X=[x, y]) -> (Out=z)\nslice(Input=z) -> (Out=s) {axes=[0], starts=[1], ends=[3]}",
        ),
    ),
    UserPass(
        "attributes",
        SumsTransposed,
        _witness(SumsTransposed, "x: float64[2, 2]\ntranspose2(X=x) -> (Out=t) {axis=[1, 0]}\nreduce_sum(X=t) -> (Out=y) {dim=[0]}"),
    ),
    UserPass(
        "attributes",
        NormalizesAlongAnyAxis,
        _witness(
            NormalizesAlongAnyAxis,
            "x: float64[2, 2]\nlog_softmax(X=x) -> (Out=t) {axis=0}\nsoftmax(X=t) -> (Out=y)",
        ),
    ),
    UserPass(
        "attributes",
        ClipsAsRelu6,
        _witness(ClipsAsRelu6, "x: float64[1]\nclip(X=x) -> (Out=y) {min=-1.0, max=6.0}", feeds={"x": [-0.5]}),
    ),
    UserPass(
        "attributes",
        ReshapesAtOnce,
        _witness(
            ReshapesAtOnce,
            "x: float64[2, 3]\nreshape(X=x) -> (Out=y) {shape=[3, 2]}\nreshape(X=y) -> (Out=z) {shape=[0, 2]}",
        ),
    ),
    UserPass(
        "attributes",
        ShiftsAlongTheAxis,
        _witness(
            ShiftsAlongTheAxis,
            "x: float64[2, 3]\nb: float64[3]\nelementwise_add(X=x, Y=b) -> (Out=y)\nsoftmax(X=y) -> (Out=z)",
        ),
    ),
    UserPass(
        "attributes",
        LeaksTwice,
        _witness(
            LeaksTwice,
            "x: float64[1]\nleaky_relu(X=x) -> (Out=y) {alpha=-0.5}\nleaky_relu(X=y) -> (Out=z) {alpha=-0.5}",
            feeds={"x": [-1.0]},
        ),
    ),
    UserPass(
        "attributes",
        NormalizesByDefault,
        _witness(
            NormalizesByDefault,
            "x: float64[1, 1, 3]\ninstance_norm(X=x) -> (Y=y, SavedMean=m, SavedVariance=v) {epsilon=0.5}",
            targets=("y",),
        ),
    ),
)
