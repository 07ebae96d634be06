"""Give every parameter an operator that applies its gradient.

    w, w@GRAD, learning_rate_0, w_velocity_0 ─▶ momentum ─▶ w (new), w_velocity_0 (new)

The new values are the next versions of the old names, so the program reads as an update in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphad.errors import InvalidValue
from graphad.graph import Builder, Graph, Value
from graphad.ops import lookup
from graphad.program import OPTIMIZE
from graphad.rewriting import Pass

# optimizer -> slot of an accumulator -> its name (``<parameter>_<name>_0``)
_MOMENTS = {"Moment1": "moment1", "Moment2": "moment2", "Beta1Pow": "beta1_pow_acc", "Beta2Pow": "beta2_pow_acc"}
ACCUMULATORS: dict[str, dict[str, str]] = {
    "sgd": {},
    "momentum": {"Velocity": "velocity"},
    "adagrad": {"Moment": "moment"},
    "decayed_adagrad": {"Moment": "moment"},
    "adadelta": {"AvgSquaredGrad": "_avg_squared_grad", "AvgSquaredUpdate": "_avg_squared_update"},
    "rmsprop": {"MeanSquare": "mean_square", "MeanGrad": "mean_grad", "Moment": "momentum"},
    "adam": _MOMENTS,
    "adamw": _MOMENTS,
    "lamb": _MOMENTS,
    "adamax": {"Moment": "moment", "InfNorm": "inf_norm", "Beta1Pow": "beta1_pow_acc"},
    "ftrl": {"SquaredAccumulator": "squared", "LinearAccumulator": "linear"},
    "proximal_gd": {},
    "proximal_adagrad": {"Moment": "moment"},
}
# slots whose new value is in another slot than ``<slot>Out``
_OUTPUTS = {"SquaredAccumulator": "SquaredAccumOut", "LinearAccumulator": "LinearAccumOut"}
# optimizer -> an accumulator that its operator only reads, and the attribute it is multiplied with after each step
_ADVANCED = {"adamax": ("Beta1Pow", "beta1")}


def accumulator_name(parameter: str, accumulator: str, instance: int = 0) -> str:
    """What Fluid calls the state that an optimizer keeps for a parameter: ``w_moment1_0``."""
    return f"{parameter}_{accumulator}_{instance}"


@dataclass
class Updates:
    """Which gradient each parameter is updated with: the passes before ``optimize-parameters`` replace it."""

    gradient: dict[str, Value]


def updates_of(graph: Graph, parameters: tuple[str, ...]) -> Updates:
    """The updates of a graph; at first each parameter's gradient is ``<parameter>@GRAD``."""
    found: Updates | None = graph.analyses.get(Updates)
    if found is None:
        found = graph.analyses[Updates] = Updates({})
    for name in parameters:
        if name not in found.gradient:
            found.gradient[name] = graph.value(f"{name}@GRAD")
    return found


@dataclass(frozen=True)
class OptimizeParameters(Pass):
    """Append one optimization operator a parameter; for Adamax also the ``scale`` that advances the power of beta1.

    Args:
        type: the operator: sgd, momentum, adam, ...; all are in ``ACCUMULATORS``.
        parameters: their names.
        learning_rate: the learning rate's name.
        factors: for each parameter a factor on the learning rate; empty means 1.
        attrs: the operator's attributes, as (name, value) pairs.
        instance: which of several optimizers of the same parameters this is; accumulators end in it.
        own: attributes of single parameters, as (parameter, name, value); they come before ``attrs``.
    """

    name = "optimize-parameters"
    type: str = "sgd"
    parameters: tuple[str, ...] = ()
    learning_rate: str = "learning_rate_0"
    factors: tuple[float, ...] = ()
    attrs: tuple[tuple[str, Any], ...] = ()
    instance: int = 0
    own: tuple[tuple[str, str, Any], ...] = ()

    def apply(self, graph: Graph) -> bool:
        if self.type not in ACCUMULATORS:
            raise InvalidValue(f"no optimizer is called {self.type!r}; known are {', '.join(ACCUMULATORS)}")
        factors = self.factors or (1.0,) * len(self.parameters)
        if len(factors) != len(self.parameters):
            raise InvalidValue(f"{len(factors)} learning-rate factors are given for {len(self.parameters)} parameters")
        strangers = [parameter for parameter, _, _ in self.own if parameter not in self.parameters]
        if strangers:
            raise InvalidValue(f"attributes are given for {strangers[0]!r}, which is none of the parameters {', '.join(self.parameters)}")
        updates = updates_of(graph, self.parameters)
        for name, factor in zip(self.parameters, factors, strict=True):
            self._update(graph, name, factor, updates.gradient[name])
        return bool(self.parameters)

    def _update(self, graph: Graph, name: str, factor: float, gradient: Value) -> None:
        state = {"Param": graph.versions(name)[-1]}
        for slot, accumulator in ACCUMULATORS[self.type].items():
            state[slot] = graph.given(accumulator_name(name, accumulator, self.instance))
        rate = self._rate(graph, name, factor, gradient)
        inputs = {**{s: [v] for s, v in state.items()}, "Grad": [gradient], "LearningRate": [rate]}
        read, factor_name = _ADVANCED.get(self.type, (None, ""))
        outputs = {_OUTPUTS.get(s, f"{s}Out"): [_next(graph, v)] for s, v in state.items() if s != read}
        attrs = {**dict(self.attrs), **{attr: value for parameter, attr, value in self.own if parameter == name}}
        graph.add_op(self.type, inputs, outputs, attrs, role=OPTIMIZE, forward=gradient.writer)
        if read is not None:
            power, by = state[read], {"scale": attrs.get(factor_name, lookup(self.type).attrs[factor_name].default)}
            graph.add_op("scale", {"X": [power]}, {"Out": [_next(graph, power)]}, by, role=OPTIMIZE, forward=gradient.writer)

    def _rate(self, graph: Graph, name: str, factor: float, gradient: Value) -> Value:
        rate = graph.given(self.learning_rate)
        if factor == 1.0:
            return rate
        build = Builder(graph, f"{name}@LEARNING_RATE", role=OPTIMIZE, forward=gradient.writer)
        return (build.symbol(rate) * factor).value  # type: ignore[no-any-return]


def _next(graph: Graph, value: Value) -> Value:
    return graph.add_version(value.name, value.shape, value.dtype, value.var)
