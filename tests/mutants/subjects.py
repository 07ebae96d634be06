"""Passes through which the checker meets parts of graphad that are no passes of their own, and what they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphad.ir import Builder, Graph, Value
from graphad.ops import lookup
from graphad.passes.backward import AccumulateGrads, CreateGradOps, CreateGradVars, ExpandGradOps, FindOpPath, GradOps, OpPath, PruneNoGrad
from graphad.passes.differentiation import Jvp
from graphad.passes.differentiation.jvp import has_known_extents, is_needed
from graphad.passes.optimization import ClipGradients, DecayWeights, OptimizeParameters
from graphad.program import OPTIMIZE, Program
from graphad.rewriting import Pass, Pipeline
from graphad.testing.cases import random_case
from graphad.testing.equivalence import observe, observed_difference
from tests.scratch import passes

GRADIENT = "@GRAD"
_RATE, _BOUND, _DECAY = 0.3, 0.1, 0.7


def requested_gradients(graph: Graph) -> list[Value]:
    """The targets of a graph that are gradients."""
    return [value for value in graph.targets if GRADIENT in value.name]


with passes():

    @dataclass(frozen=True)
    class ExpandGradients(Pass):
        """Write out the grad operators that lead to requested gradients: second derivatives begin so."""

        name = "expand-gradients"

        def apply(self, graph: Graph) -> bool:
            names = tuple(value.name for value in requested_gradients(graph))
            if not names:
                return False
            FindOpPath(names).apply(graph)
            return ExpandGradOps().apply(graph)

    @dataclass(frozen=True)
    class RenameValues(Pass):
        """Give other names to values whose names are known inside alone: it leads the checker through almost every program."""

        name = "rename-values"

        def apply(self, graph: Graph) -> bool:
            values = [(each, value) for each in graph.tree() for op in each.ops for value in op.writes()]
            inner = [(each, value) for each, value in values if not value.persistable and not each.is_observed(value)]
            for each, value in inner:
                each.rename(value, each.values.numbered(value.name, "{}@NEW@{}"))
            return bool(inner)

    @dataclass(frozen=True)
    class PropagateCopies(Pass):
        """Uses of a copy become uses of the original, also where names then have to be found anew."""

        name = "propagate-copies"

        def apply(self, graph: Graph) -> bool:
            copies = [op for each in graph.tree() for op in each.ops if op.type == "assign" and not op.output("Out").persistable]
            for op in copies:
                op.graph.substitute(op.output("Out"), op.input("X"))
            return bool(copies)

    @dataclass(frozen=True)
    class TangentOfLoss(Pass):
        """The tangent of a value along ones, forwards."""

        name = "tangent-of-loss"
        tolerance = 1e-9  # the products are added up in another order
        loss: str = "loss"

        def apply(self, graph: Graph) -> bool:
            return Jvp((self.loss,)).apply(graph)

    @dataclass(frozen=True)
    class TangentByGradients(Pass):
        """The same as the sum of all elements of the gradients, made by the backward passes."""

        name = "tangent-by-gradients"
        loss: str = "loss"

        def apply(self, graph: Graph) -> bool:
            find = FindOpPath((self.loss,))
            Pipeline(find, CreateGradOps(), PruneNoGrad(), AccumulateGrads(), CreateGradVars()).run(graph)
            grad_ops, path = graph.analyses[GradOps], graph.analyses[OpPath]
            # By default a value of unknown extents that blocks only pass through does not move.
            sources = [value for value in path.sources if is_needed(value) or has_known_extents(value)]
            candidates = [grad_ops.gradient.get(source) for source in sources]
            gradients = [gradient for gradient in candidates if gradient is not None and gradient.writers]
            target = graph.value(self.loss)
            build = Builder(graph, f"{self.loss}@TANGENT@BY")
            like = build.symbol(target)
            whole = [lookup("cast")(lookup("reduce_sum")(build.symbol(gradient)), out_dtype=target.dtype) for gradient in gradients]
            sums = [lookup("sum_like")(each, like) for each in whole]
            # Not finite where the loss is not: the tangent of a mean of nothing is none, its gradient has no elements.
            total = lookup("sum")([lookup("scale")(like, scale=0.0), *sums])
            named = graph.add_value(f"{self.loss}@TANGENT", target.shape, target.dtype)
            graph.add_op("assign", {"X": [total.value]}, {"Out": [named]})
            graph.targets = {target: None, named: None}
            return True

    @dataclass(frozen=True)
    class UpdateAll(Pass):
        """Clip and decay the requested gradients and apply them, by the passes that ``minimize`` uses.

        Args:
            clip: the kind of clipping; empty for none.
            decay: the kind of decay; empty for none.
            factor: on the learning rate.
            low: for clipping by value the smallest element.
        """

        name = "update-all"
        tolerance = 1e-9  # by hand, clipping and updates round otherwise
        clip: str = ""
        decay: str = ""
        factor: float = 1.0
        low: float | None = None

        def apply(self, graph: Graph) -> bool:
            names = _parameters(graph)
            if not names:
                return False
            rate = graph.add_value("update@RATE", (1,), graph.value(names[0]).dtype)
            graph.add_op("fill_constant", {}, {"Out": [rate]}, {"shape": [1], "value": _RATE, "dtype": rate.dtype})
            if self.clip:
                ClipGradients(self.clip, _BOUND, names, self.low).apply(graph)
            if self.decay:
                DecayWeights(self.decay, _DECAY, names).apply(graph)
            return OptimizeParameters("sgd", names, rate.name, (self.factor,) * len(names)).apply(graph)

    @dataclass(frozen=True)
    class UpdateByHand(Pass):
        """The same written out in arithmetic."""

        name = "update-by-hand"
        clip: str = ""
        decay: str = ""
        factor: float = 1.0
        low: float | None = None

        def apply(self, graph: Graph) -> bool:
            names = _parameters(graph)
            build = Builder(graph, "update", role=OPTIMIZE)
            gradients = {name: build.symbol(graph.value(f"{name}{GRADIENT}")) for name in names}
            gradients = self._clipped(gradients)
            for name in names:
                old = graph.value(name)
                weight, step = build.symbol(old), gradients[name]
                if self.decay:
                    step = step + (weight if self.decay == "l2" else lookup("sign")(weight)) * _DECAY
                new = weight - step * (_RATE * self.factor)
                graph.add_op("assign", {"X": [new.value]}, {"Out": [graph.add_version(name, old.shape, old.dtype, old.var)]}, role=OPTIMIZE)
            return bool(names)

        def _clipped(self, gradients: dict[str, Any]) -> dict[str, Any]:
            if not self.clip:
                return gradients
            if self.clip == "value":
                low = -_BOUND if self.low is None else self.low
                return {name: lookup("relu")(g - low) + low - lookup("relu")(g - _BOUND) for name, g in gradients.items()}
            squares = {name: lookup("reduce_sum")(g * g) for name, g in gradients.items()}
            total = lookup("sum")(list(squares.values()))
            return {name: g * _factor(total if self.clip == "global-norm" else squares[name]) for name, g in gradients.items()}


def can_fetch_all(before: Program, after: Program) -> bool:
    """Whether every name of a program that a pass has left can be fetched with the others, and is what it was."""
    case = random_case(before)
    names = [name for op in before.global_block().ops for name in op.output_names() if after.global_block().has_var(name)]
    return not observed_difference(observe(before, case, names), observe(after, case, names))


def _factor(squares: Any) -> Any:
    """The bound over the norm, at most 1."""
    return lookup("clip")(lookup("rsqrt")(squares) * _BOUND, min=0.0, max=1.0)


def _parameters(graph: Graph) -> tuple[str, ...]:
    """The parameters whose gradients are requested."""
    names = (value.name.removesuffix(GRADIENT) for value in requested_gradients(graph) if value.name.endswith(GRADIENT))
    return tuple(name for name in names if graph.versions(name) and graph.value(name).persistable and graph.value(name).given)


SUBJECTS: tuple[type[Pass], ...] = (
    ExpandGradients,
    RenameValues,
    PropagateCopies,
    TangentOfLoss,
    TangentByGradients,
    UpdateAll,
    UpdateByHand,
)
