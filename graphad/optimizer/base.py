"""The base of optimizers: ``minimize`` appends the backward, then clips, decays and applies the gradients; all of it passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypedDict, TypeVar, cast

from graphad.backward import Callback, Named, append_backward, build_backward
from graphad.errors import InvalidType, InvalidValue
from graphad.initializer import Constant
from graphad.ir import Graph, Value, lower, write_back
from graphad.layers.helper import declare_in
from graphad.ops import GRAD
from graphad.passes.optimization import ClipGradients, DecayWeights, OptimizeParameters, Updates, accumulator_name, accumulators
from graphad.program import (
    BACKWARD,
    OPTIMIZE,
    Block,
    Operator,
    Parameter,
    Program,
    Regularizer,
    Variable,
    default_startup_program,
    located,
    name_in,
    rewrite_gradients,
)
from graphad.program.clipping import Clip, ClipByGlobalNorm, ClipByValue, is_number, number
from graphad.program.variable import L2Decay
from graphad.rewriting import Pass, Pipeline, diagnoses_only
from graphad.types import element_count, joined_shape

# -- checks ----------------------------------------------------------------------------------------
# Which numbers optimizers take.

F = TypeVar("F", bound=Callable[..., object])


def fraction(what: str, value: object) -> float:
    """The value as a float; ValueError unless it is in [0, 1)."""
    result = number(what, value)
    if not 0 <= result < 1:
        raise InvalidValue(f"{what} is from 0 on and below 1, not {value!r}")
    return result


def at_least_zero(what: str, value: object) -> float:
    """The value as a float; ValueError if it is negative."""
    result = number(what, value)
    if result < 0:
        raise InvalidValue(f"{what} is 0 or more, not {value!r}")
    return result


def flag(what: str, value: object) -> bool:
    """The value; TypeError unless it is True or False."""
    if not isinstance(value, bool):
        raise InvalidType(f"{what} is True or False, not {value!r}")
    return value


def function(what: str, value: F | None) -> F | None:
    """The value; TypeError unless it is None or can be called."""
    if value is not None and not callable(value):
        raise InvalidType(f"{what} is a function or None, not {value!r}")
    return value


# -- base ------------------------------------------------------------------------------------------
# The base of optimizers: ``minimize`` appends the backward, then clips, decays and applies the gradients; all of it passes.

LearningRate = float | Variable
Pairs = list[tuple[Parameter, Variable]]
_SEEDS = ("fill_constant", "fill_any_like")  # what a backward starts with


class CommonOptions(TypedDict, total=False):
    """The options that every optimizer takes besides its own attributes."""

    regularization: Regularizer | None
    grad_clip: Clip | None
    parameter_list: Named | None
    name: str | None
    parameters: Named | None


class Options(CommonOptions, total=False):
    """The options of an optimizer without a decay of its own."""

    weight_decay: float | Regularizer | None


def _as_decay(decay: float | Regularizer | None) -> Regularizer | None:
    """Paddle 2's ``weight_decay``, of which a number is the coefficient of an L2Decay."""
    return L2Decay(float(decay)) if isinstance(decay, float | int) and is_number(decay) else cast("Regularizer | None", decay)


def _check_one(name: str, value: object, other_name: str, other: object) -> None:
    """ValueError if an argument is given under both of its names."""
    if value is not None and other is not None:
        raise InvalidValue(f"{name} and {other_name} are two names of one argument: give one of them")


class Optimizer:
    """Base of the optimizers.

    A subclass names its operator in ``type``, gives that its attributes in ``attrs``, and says in ``starts`` which of its own
    attributes an accumulator starts from (by slot; 0 where it says nothing).

    Args:
        learning_rate: a number, kept in the persistable variable ``learning_rate_0``, or a variable of one element, such as
            one of the schedules in ``graphad.layers`` gives.
        regularization: L1Decay or L2Decay for the parameters that have none of their own.
        grad_clip: ClipByValue, ClipByNorm or ClipByGlobalNorm, for the parameters that have ``need_clip``.
        parameter_list: the parameters to update, where ``minimize`` is not told; all that are trainable if None. Paddle 2 calls it
            ``parameters``.
        weight_decay: Paddle 2's word for ``regularization``; a number is the coefficient of an L2Decay.
        name: a hint of Fluid's, without effect: what an optimizer keeps is named after its parameters.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()):
    ...     x = ga.layers.data("x", shape=[2])
    ...     cost = ga.layers.mean(ga.layers.fc(x, size=1, param_attr="w", bias_attr=False))
    ...     rate = ga.layers.exponential_decay(0.1, decay_steps=100, decay_rate=0.5)
    ...     ga.optimizer.Adagrad(rate, grad_clip=ga.optimizer.ClipByNorm(1.0)).minimize(cost)[1]
    [(Parameter w: float32[2, 1], Variable w@GRAD: float32[2, 1])]
    """

    type: ClassVar[str] = ""
    starts: ClassVar[dict[str, str]] = {}

    def __init__(
        self,
        learning_rate: LearningRate,
        regularization: Regularizer | None = None,
        grad_clip: Clip | None = None,
        parameter_list: Named | None = None,
        name: str | None = None,
        *,
        weight_decay: float | Regularizer | None = None,
        parameters: Named | None = None,
    ) -> None:
        _check_one("regularization", regularization, "weight_decay", weight_decay)
        _check_one("parameter_list", parameter_list, "parameters", parameters)
        regularization = _as_decay(weight_decay) if regularization is None else regularization
        parameter_list = parameters if parameter_list is None else parameter_list
        if not isinstance(learning_rate, Variable) and not is_number(learning_rate):
            raise InvalidType(f"learning_rate is a number or a Variable, not {learning_rate!r}")
        if isinstance(learning_rate, Variable) and element_count(learning_rate.shape) != 1:
            raise InvalidValue(f"learning_rate has one element, not the shape of {learning_rate!r}")
        if not isinstance(regularization, Regularizer | None):
            raise InvalidType(f"regularization is an L1Decay or L2Decay, not {regularization!r}")
        if not isinstance(grad_clip, Clip | None):
            raise InvalidType(f"grad_clip is a ClipByValue, ClipByNorm or ClipByGlobalNorm, not {grad_clip!r}")
        self.learning_rate = learning_rate if isinstance(learning_rate, Variable) else number("learning_rate", learning_rate)
        self.regularization = regularization
        self.grad_clip = grad_clip
        self.parameter_list = parameter_list

    def __repr__(self) -> str:
        options = (f"{name}={value!r}" for name, value in vars(self).items() if value is not None and not name.startswith("_"))
        return f"{type(self).__name__}({', '.join(options)})"

    def attrs(self) -> dict[str, object]:
        """The attributes of the optimization operators."""
        return {}

    def own_attrs(self, param: Parameter) -> dict[str, object]:
        """The attributes in which one parameter differs from the others."""
        return {}

    def minimize(
        self, loss: Variable, startup_program: Program | None = None, parameter_list: Named | None = None, no_grad_set: Named | None = None
    ) -> tuple[list[Operator], Pairs]:
        """Append the backward and the updates to the program of ``loss``; initialize their state in the startup program.

        Returns:
            The optimization operators, one a parameter, and the (parameter, gradient) pairs; a gradient is the raw one,
            before clipping and decay.

        Raises:
            ValueError: as ``append_backward``; if no parameter reaches the loss; and if one of the parameters is updated for this
                loss already.
        """
        if not isinstance(loss, Variable):
            raise InvalidType(f"loss is a Variable, not {loss!r}")
        program = loss.block.program
        startup = startup_program or program.startup or default_startup_program()
        if not isinstance(startup, Program):
            raise InvalidType(f"startup_program is a Program, not {startup_program!r}")
        parameters = self.parameter_list if parameter_list is None else parameter_list
        rewrite_gradients(program)
        # An error in either leaves both programs as they were.
        with program.atomic(), startup.atomic():
            return self._minimize(program, startup, loss, parameters, no_grad_set)

    def _minimize(
        self, program: Program, startup: Program, loss: Variable, parameter_list: Named | None, no_grad_set: Named | None
    ) -> tuple[list[Operator], Pairs]:
        graph, block = lower(program), program.global_block()
        # Looked up first, since the new updates would be found as well.
        updates_before = _updates_for(block, loss)
        gradients = build_backward(graph, loss, parameter_list, no_grad_set)
        # A parameter that is named twice is updated once.
        pairs = list({param.name: (param, gradient) for param, gradient in gradients}.values())
        parameters = [param for param, _ in pairs]
        if not pairs:
            raise InvalidValue(f"nothing to optimize: no trainable parameter reaches the loss {loss.name!r}")
        for param in parameters:
            if not isinstance(param, Parameter):
                raise InvalidValue(f"{param!r} is no parameter: only those can be optimized")
        _check_updated_once(updates_before, loss, parameters)
        updates = self._update(program, startup, graph, pairs, loss.dtype)
        return updates, [(param, block.var(gradient.name)) for param, gradient in pairs]

    def _update(
        self, program: Program, startup: Program, graph: Graph, pairs: Sequence[tuple[Parameter, Value]], dtype: str
    ) -> list[Operator]:
        """Clip, decay and apply the gradients, in the graph and then in its program; the operators that update."""
        block, parameters = program.global_block(), [param for param, _ in pairs]
        program.startup = startup
        instance = self._free_instance(block, parameters)
        # The state outlives a run: it is declared in both programs before a pass makes the updates that read it.
        rate = self._declare_state(block, startup.global_block(), parameters, dtype, instance)
        graph.analyses[Updates] = Updates({param.name: gradient for param, gradient in pairs})
        with diagnoses_only():
            self.pipeline(parameters, rate, instance).run(graph)
        write_back(graph)
        # The last ones: the program may have updates of an earlier ``minimize``.
        return [op for op in block.ops if op.role == OPTIMIZE and op.type == self.type][-len(pairs) :]

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Named | None = None,
        no_grad_set: Named | None = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> Pairs:
        """The first half of ``minimize``: append the backward, as ``append_backward`` does.

        Args:
            loss: a variable of one element.
            startup_program: where ``apply_gradients`` initializes the state; that of the program if None.
            parameter_list: the parameters, or their names; those of the optimizer if None.
            no_grad_set: variables, or their names, without gradient.
            callbacks: called for each operator of the backward, as ``append_backward`` does.

        Returns:
            (parameter, gradient) pairs. The gradients may be replaced by variables computed from them.
        """
        parameters = self.parameter_list if parameter_list is None else parameter_list
        pairs = append_backward(loss, parameters, no_grad_set, callbacks)
        if startup_program is not None:
            loss.block.program.startup = startup_program
        return pairs

    def apply_gradients(self, params_grads: Sequence[tuple[Parameter, Variable | None]]) -> list[Operator]:
        """The second half of ``minimize``: clip, decay and apply gradients; initialize the state in the startup program.

        Args:
            params_grads: (parameter, gradient) pairs of one program, each gradient of the shape and dtype of its parameter. Those without
                gradient (None) are left out.

        Returns:
            The optimization operators, one a parameter.

        Raises:
            TypeError: what is not such a pair.
            ValueError: the variables are of several programs or do not fit their parameters; a parameter comes twice, or is updated
                with this gradient already.

        >>> import graphad as ga
        >>> with ga.program_guard(ga.Program(), ga.Program()):
        ...     cost = ga.layers.mean(ga.layers.fc(ga.layers.data("x", shape=[2]), size=1, param_attr="w", bias_attr=False))
        ...     sgd = ga.optimizer.SGD(0.1)
        ...     sgd.apply_gradients([(w, gradient * 0.5) for w, gradient in sgd.backward(cost)])
        [sgd(Param=w, Grad=scale_0.tmp_0, LearningRate=learning_rate_0) -> (ParamOut=w)]
        """
        pairs = [(param, gradient) for param, gradient in map(_checked_pair, params_grads) if gradient is not None]
        if not pairs:
            return []
        program = pairs[0][0].block.program
        startup = program.startup or default_startup_program()
        _check_pairs(program, pairs)
        rewrite_gradients(program)
        with program.atomic(), startup.atomic():
            graph = lower(program)
            return self._update(program, startup, graph, [(param, graph.given(grad.name)) for param, grad in pairs], pairs[0][0].dtype)

    def _free_instance(self, block: Block, parameters: Sequence[Parameter]) -> int:
        """The first number that no accumulator of these parameters has."""
        instance = 0
        # Two optimizers of one parameter have their own accumulators: ``w_moment1_0``, ``w_moment1_1``.
        while any(block.has_var(accumulator_name(p.name, a, instance)) for p in parameters for a in accumulators(self.type).values()):
            instance += 1
        return instance

    def pipeline(self, parameters: Sequence[Parameter], learning_rate: str, instance: int = 0) -> Pipeline:
        """The passes that turn gradients into updates: clip, decay, optimize."""
        names, factors = tuple(p.name for p in parameters), tuple(p.learning_rate for p in parameters)
        own_attrs = tuple((p.name, attr, value) for p in parameters for attr, value in self.own_attrs(p).items())
        update = OptimizeParameters(self.type, names, learning_rate, factors, tuple(self.attrs().items()), instance, own_attrs)
        return Pipeline(*self._clip_passes(parameters), *self._decay_passes(parameters), update)

    def _clip_passes(self, parameters: Sequence[Parameter]) -> list[Pass]:
        groups: dict[Clip, list[str]] = {}
        for param in parameters:
            # As in Fluid: what the optimizer says counts for all, and without it what set_gradient_clip has said of each.
            clip = self.grad_clip or param.gradient_clip
            if clip is not None and param.need_clip:
                groups.setdefault(clip, []).append(param.name)
        _check_groups(groups)
        return [
            ClipGradients(clip.kind, clip.bound, tuple(names), clip.min if isinstance(clip, ClipByValue) else None)
            for clip, names in groups.items()
        ]

    def _decay_passes(self, parameters: Sequence[Parameter]) -> list[Pass]:
        groups: dict[Regularizer, list[str]] = {}
        for param in parameters:
            decay = param.regularizer or self.regularization
            if decay is not None and decay.coefficient:
                # One pass for each decay there is, not for each parameter.
                groups.setdefault(decay, []).append(param.name)
        return [DecayWeights(decay.kind, decay.coefficient, tuple(names)) for decay, names in groups.items()]

    def _declare_state(self, block: Block, startup: Block, parameters: Sequence[Parameter], dtype: str, instance: int) -> str:
        """Declare the learning rate and the accumulators, and initialize them; return the learning rate's name."""
        rate = self.learning_rate
        if not isinstance(rate, Variable):
            rate = declare_state(block, startup, block.program.names.generate("learning_rate"), [1], dtype, float(rate))
        for param in parameters:
            for slot, accumulator in accumulators(self.type).items():
                # Powers of the decays, by which Adam corrects its bias, are the same for all elements of a parameter.
                shape = [1] if slot.endswith("Pow") else list(param.shape)
                start = float(getattr(self, self.starts[slot])) if slot in self.starts else 0.0
                declare_state(block, startup, accumulator_name(param.name, accumulator, instance), shape, param.dtype, start)
        return name_in("learning_rate", block, rate)


def _check_groups(clips: Mapping[Clip, Sequence[str]]) -> None:
    """Refuse a group of parameters whose norm has two bounds."""
    by_group: dict[str, tuple[Clip, str]] = {}
    for clip, names in clips.items():
        if not isinstance(clip, ClipByGlobalNorm):
            continue
        # The first of a group says the bound that the others are held against.
        other, name = by_group.setdefault(clip.group_name, (clip, names[0]))
        if other != clip:
            raise InvalidValue(
                f"All parameters' 'clip_norm' of a same group should be the same: in group {clip.group_name!r} it is "
                f"{other.bound!r} of {name!r} and {clip.bound!r} of {names[0]!r}"
            )


def _updates_for(block: Block, loss: Variable) -> dict[str, Operator]:
    """The operators that update parameters, by the parameter; none if nothing starts a backward at the loss."""
    seed = [op for op in block.ops if op.type in _SEEDS and op.role == BACKWARD and op.output("Out") == [loss.name + GRAD]]
    return {name: op for op in block.ops if op.role == OPTIMIZE for name in op.input("Param")} if seed else {}


def _check_updated_once(known: Mapping[str, Operator], loss: Variable, parameters: Sequence[Parameter]) -> None:
    names = [param.name for param in parameters if param.name in known]
    if names:
        update = known[names[0]]
        message = f"minimize was called for {loss.name!r} before, and {update.type!r} updates {', '.join(names)} already"
        raise InvalidValue(located(f"{message}: every step would update twice; minimize once, or other parameters", update.source))


def _checked_pair(pair: object) -> tuple[Parameter, Variable | None]:
    """A pair of a parameter and its gradient, which fit each other."""
    match pair:
        case (Parameter() as param, (Variable() | None) as gradient):
            pass
        case _:
            raise InvalidType(f"params_grads has pairs of a Parameter and its gradient, a Variable, not {pair!r}")
    if gradient is not None and (gradient.dtype != param.dtype or joined_shape(param.shape, gradient.shape) is None):
        raise InvalidValue(f"{gradient!r} is no gradient of {param!r}: they differ in shape or dtype")
    return param, gradient


def _check_pairs(program: Program, pairs: Sequence[tuple[Parameter, Variable]]) -> None:
    block, times = program.global_block(), Counter(param.name for param, _ in pairs)
    # Both names count: a parameter may have updates by other gradients, and a gradient may update another parameter.
    updates = {(*op.input("Param"), "", *op.input("Grad")): op for op in reversed(block.ops) if op.role == OPTIMIZE}
    for param, gradient in pairs:
        name_in("params_grads", block, param)
        name = name_in("params_grads", block, gradient)
        if update := updates.get((param.name, "", name)):
            message = f"apply_gradients: {update.type!r} updates {param.name!r} with {name!r} already: every step would update twice"
            raise InvalidValue(located(message, update.source))
        if times[param.name] > 1:
            raise InvalidValue(f"apply_gradients: {param.name!r} has {times[param.name]} gradients in params_grads; add them up")


def declare_state(block: Block, startup: Block, name: str, shape: list[int], dtype: str, start: float) -> Variable:
    """Declare what is kept from step to step, and let the startup program begin with a number; one that is there stays."""
    exists = block.has_var(name)
    var = block.create_var(name, shape, dtype, persistable=True, stop_gradient=True)
    if not exists:
        Constant(start).append(startup, declare_in(startup, var))
    return var
