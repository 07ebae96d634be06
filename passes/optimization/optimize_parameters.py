"""Give every parameter an operator that applies its gradient.

    w, w@GRAD, learning_rate_0, w_velocity_0 ─▶ momentum ─▶ w (new), w_velocity_0 (new)

The new values are the next versions of the old names, so the program reads as an update in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from graphad.errors import InvalidValue, Refused
from graphad.ir import Builder, Graph, Value
from graphad.ops import GRAD, REGISTRY, lookup
from graphad.program import OPTIMIZE, Parameter, Program
from graphad.rewriting import OnTrial, Pass


def optimizers() -> list[str]:
    """The types of the operators that update parameters: their definitions say what they keep (``Traits.state``)."""
    return list(_optimizers(len(REGISTRY)))


@lru_cache(maxsize=1)
def _optimizers(known: int) -> tuple[str, ...]:
    """The same; there are so many operators, to which others may be added."""
    return tuple(type for type, definition in REGISTRY.items() if definition.state is not None)


def accumulators(type: str) -> dict[str, str]:
    """The names of an optimizer's accumulators for a parameter, by the operator's slots; see ``accumulator_name``."""
    return {state.slot: state.name for state in lookup(type).state or ()}


def accumulator_name(parameter: str, accumulator: str, instance: int = 0) -> str:
    """Fluid's name for the state that an optimizer keeps for a parameter: ``w_moment1_0``."""
    return f"{parameter}_{accumulator}_{instance}"


@dataclass
class Updates:
    """The gradient that each parameter is updated with: the passes before ``optimize-parameters`` replace it."""

    gradient: dict[str, Value]


def trained(graph: Graph, parameters: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the parameters to update: those that are given, else all that are trainable and have a gradient."""
    return parameters or tuple(
        v.name for v in graph.inputs if isinstance(v.var, Parameter) and v.var.trainable and graph.versions(f"{v.name}{GRAD}")
    )


def applied(program: Program, values: Mapping[str, object], parameters: tuple[str, ...]) -> dict[str, Any]:
    """The gradients that parameters are updated with, by the parameter, of the values that a program computes; see ``Pass.intended``."""
    names = parameters or tuple(p.name for p in program.all_parameters() if p.trainable and f"{p.name}{GRAD}" in values)
    return {name: values[_applied(name)] if _applied(name) in values else values[f"{name}{GRAD}"] for name in names}


def as_applied(gradients: Mapping[str, object]) -> dict[str, Any]:
    """Gradients as ``applied`` finds them."""
    return {_applied(name): gradient for name, gradient in gradients.items()}


def _applied(name: str) -> str:
    return f"{name}{GRAD} as it is applied"


def updates_of(graph: Graph, parameters: tuple[str, ...]) -> Updates:
    """The updates of a graph; at first each parameter's gradient is ``<parameter>@GRAD``."""
    # Kept among the analyses: forgotten as soon as a pass changes the graph that does not preserve it.
    updates: Updates | None = graph.analyses.get(Updates)
    if updates is None:
        updates = graph.analyses[Updates] = Updates({})
    for name in parameters:
        if name not in updates.gradient:
            updates.gradient[name] = graph.value(f"{name}{GRAD}")
    return updates


@dataclass(frozen=True)
class OptimizeParameters(Pass):
    """Append one optimization operator a parameter; for Adamax also the ``scale`` that advances the power of beta1.

    Args:
        type: the operator: sgd, momentum, adam, ...; ``optimizers()`` lists all, those of other packages included.
        parameters: their names; empty: all that are trainable and have a gradient.
        learning_rate: the learning rate's name.
        factors: for each parameter a factor on the learning rate; empty means 1.
        attrs: the operator's attributes, as (name, value) pairs.
        instance: which of several optimizers of the same parameters this is; accumulators end in it.
        own: attributes of single parameters, as (parameter, name, value); they come before ``attrs``.

    Raises:
        Refused: the graph's program declares no learning rate, or not what the operator keeps for a parameter.
        ValueError: the operator, or a parameter's gradient, is not known, or options do not fit together.
    """

    name = "optimize-parameters"
    on_trial = OnTrial(programs=("trainable",), after_backward=True, goes_by_names=True)
    type: str = "sgd"
    parameters: tuple[str, ...] = ()
    learning_rate: str = "learning_rate_0"
    factors: tuple[float, ...] = ()
    attrs: tuple[tuple[str, Any], ...] = ()
    instance: int = 0
    own: tuple[tuple[str, str, Any], ...] = ()

    def apply(self, graph: Graph) -> bool:
        if self.type not in optimizers():
            raise InvalidValue(f"no optimizer is called {self.type!r}; known are {', '.join(optimizers())}")
        names = trained(graph, self.parameters)
        factors = self.factors or (1.0,) * len(names)
        if len(factors) != len(names):
            raise InvalidValue(f"{len(factors)} learning-rate factors are given for {len(names)} parameters")
        strangers = [parameter for parameter, _, _ in self.own if parameter not in names]
        if strangers:
            raise InvalidValue(f"attributes are given for {strangers[0]!r}, which is none of the parameters {', '.join(names)}")
        attr_names = [attr.name for attr in lookup(self.type).attrs.values() if not attr.has_default and attr.name not in dict(self.attrs)]
        if attr_names:
            raise InvalidValue(f"{self.type} needs a value for {', '.join(attr_names)}: attrs=[[{attr_names[0]}, ...]]")
        # All that can be refused is refused before the first update is added: a graph is changed as a whole, or not.
        self._check_state(graph, names)
        updates = updates_of(graph, names)
        for name, factor in zip(names, factors, strict=True):
            self._update(graph, name, factor, updates.gradient[name])
        return bool(names)

    def _state(self, name: str) -> dict[str, str]:
        """The state of a parameter: the names by the operator's slots."""
        return {slot: accumulator_name(name, word, self.instance) for slot, word in accumulators(self.type).items()}

    def _check_state(self, graph: Graph, names: tuple[str, ...]) -> None:
        expected = [(name, state) for name in names for state in (self.learning_rate, *self._state(name).values())]
        for name, state in expected:
            if not graph.versions(state) and (graph.block is None or not graph.block.has_var_recursive(state)):
                raise Refused(f"{self.type} cannot update {name!r}: the program declares no {state!r}; minimize declares what is needed")

    def intended(self, program: Program, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The operator's kernel, on what Fluid's names say it reads."""
        gradients = applied(program, values, self.parameters)
        factors = self.factors or (1.0,) * len(gradients)
        options: dict[str, Any] = {}
        for (name, gradient), factor in zip(gradients.items(), factors, strict=True):
            options.update(self._updated(name, gradient, np.asarray(values[self.learning_rate] * factor), values))
        return options

    def _updated(self, name: str, gradient: object, rate: object, values: Mapping[str, Any]) -> dict[str, object]:
        attrs = {**dict(self.attrs), **{attr: value for parameter, attr, value in self.own if parameter == name}}
        names, definition = {"Param": name, **self._state(name)}, lookup(self.type)
        state = {slot: [values[word]] for slot, word in names.items()}
        outputs = definition.run({**state, "Grad": [gradient], "LearningRate": [rate]}, attrs, list(definition.outputs))
        new_values = {name: outputs["ParamOut"][0]}
        # A state that the operator only reads (a power of beta) is advanced by a factor after the step.
        for slot, _, output, factor in definition.state or ():
            if factor:
                new_values[names[slot]] = values[names[slot]] * np.asarray(definition.attr(factor, attrs), values[names[slot]].dtype)
            elif output in outputs:
                new_values[names[slot]] = outputs[output][0]
        return new_values

    def _update(self, graph: Graph, name: str, factor: float, gradient: Value) -> None:
        state = {"Param": graph.versions(name)[-1]}
        state |= {slot: graph.given(word) for slot, word in self._state(name).items()}
        rate = self._rate(graph, name, factor, gradient)
        # Parameters and state are the last versions there are, so several optimizers of one parameter follow each other.
        inputs = {**{s: [v] for s, v in state.items()}, "Grad": [gradient], "LearningRate": [rate]}
        definition = lookup(self.type)
        state_inputs = definition.state or ()
        outputs = {"ParamOut": [_next(graph, state["Param"])]}
        # ``sgd`` and others write under the names that they read, so the new values are the next versions of these.
        outputs |= {element.output: [_next(graph, state[element.slot])] for element in state_inputs if element.output}
        attrs = {**dict(self.attrs), **{attr: value for parameter, attr, value in self.own if parameter == name}}
        graph.add_op(self.type, inputs, outputs, attrs, role=OPTIMIZE, forward=gradient.writer)
        # Adamax reads beta1^t and, as in Paddle, does not write it: it is advanced for the next step (Kingma and Ba 2015, algorithm 2).
        for item in [element for element in state_inputs if element.factor]:
            power, by = state[item.slot], {"scale": definition.attr(item.factor, attrs)}
            graph.add_op("scale", {"X": [power]}, {"Out": [_next(graph, power)]}, by, role=OPTIMIZE, forward=gradient.writer)

    def _rate(self, graph: Graph, name: str, factor: float, gradient: Value) -> Value:
        rate = graph.given(self.learning_rate)
        if factor == 1.0:
            return rate
        # A rate of the parameter's own (``ParamAttr.learning_rate``) multiplies the program's, which a schedule may change in each run.
        build = Builder(graph, f"{name}@LEARNING_RATE", role=OPTIMIZE, forward=gradient.writer)
        return (build.symbol(rate) * factor).value


def _next(graph: Graph, value: Value) -> Value:
    return graph.add_version(value.name, value.shape, value.dtype, value.var)
