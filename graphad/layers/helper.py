"""Shared by layers: parameters with their initialization, operators with generated names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Signature, signature
from typing import Any, ParamSpec, TypeVar

from graphad.errors import GraphadError, InvalidType, InvalidValue
from graphad.initializer import Constant, Initializer, usual_bias, usual_weight
from graphad.layers.synonyms import SYNONYMS, renamed, synonym
from graphad.ops import REGISTRY, find, lookup
from graphad.ops.definition import did_you_mean
from graphad.program import (
    Block,
    Operator,
    Parameter,
    Regularizer,
    Variable,
    default_main_program,
    default_startup_program,
    located,
    program_guard,
    user_line,
)
from graphad.program.clipping import Clip

P = ParamSpec("P")
R = TypeVar("R")
_ACTIVATIONS = frozenset(
    {"brelu", "elu", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "linear", "log_softmax", "logsigmoid", "mish", "prelu", "relu"}
    | {"relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softsign", "swish", "tanh"}
)


@dataclass(frozen=True)
class ParamAttr:
    """How a layer's parameter is made: its name, its start, how it is trained."""

    name: str | None = None
    initializer: Initializer | None = None
    learning_rate: float = 1.0
    regularizer: Regularizer | None = None
    trainable: bool = True
    need_clip: bool = True
    gradient_clip: Clip | None = None  # as set_gradient_clip says it: where the optimizer has no grad_clip
    do_model_average: bool = True  # whether a ModelAverage averages it

    def __post_init__(self) -> None:
        if not isinstance(self.initializer, Initializer | None):
            hint = f"; {self.initializer.__name__}(...) makes one" if isinstance(self.initializer, type) else ""
            raise InvalidType(f"ParamAttr: initializer is an Initializer, such as Constant(0.1), or None, not {self.initializer!r}{hint}")

    def named(self, name: str) -> ParamAttr:
        """The same under another name."""
        return replace(self, name=name)


@dataclass(frozen=True, init=False)
class WeightNormParamAttr(ParamAttr):
    """A parameter of a length and a direction, which are trained: ``w = g * v / |v|`` (T. Salimans and D. P. Kingma, "Weight
    normalization", 2016).

    The parameters are ``<name>_v``, which starts as the initializer says, and ``<name>_g``, which starts as its length: so ``w`` starts
    as ``v`` does. ``dim`` is an axis each of whose slices has a length of its own, ``g`` of shape ``[shape[dim]]``; None for one length
    of all elements, ``[1]``.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program(), ga.Program()) as program:
    ...     x = ga.layers.data("x", shape=[4])
    ...     _ = ga.layers.fc(x, 3, param_attr=ga.WeightNormParamAttr(dim=1, name="w"), bias_attr=False)
    >>> program.all_parameters()
    [Parameter w_v: float32[4, 3], Parameter w_g: float32[3]]
    """

    dim: int | None = None

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Regularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = False,
        need_clip: bool = True,
        gradient_clip: Clip | None = None,
    ) -> None:
        super().__init__(name, initializer, learning_rate, regularizer, trainable, need_clip, gradient_clip, do_model_average)
        if dim is not None and (isinstance(dim, bool) or not isinstance(dim, int)):
            raise InvalidType(f"WeightNormParamAttr: dim is an axis or None, not {dim!r}")
        object.__setattr__(self, "dim", dim)

    def part(self, name: str, initializer: Initializer | None) -> ParamAttr:
        """How the length or the direction is made."""
        options = (self.learning_rate, self.regularizer, self.trainable, self.need_clip, self.gradient_clip, self.do_model_average)
        return ParamAttr(name, initializer, *options)


_USUAL = ParamAttr()  # which cannot be changed: one is enough
AttrLike = ParamAttr | Initializer | str | bool | None  # a name, a start, True and None for what is usual, False for no parameter


@dataclass(frozen=True)
class _LengthOf(Initializer):
    """The length of another parameter, whose initialization comes before."""

    name: str
    axis: int | None

    def append(self, block: Block, var: Variable) -> Operator:
        with program_guard(block.program):
            start = emitted("reshape", [_length(block.var(self.name), self.axis)], shape=list(var.shape))
        return block.append_op("assign", {"X": start}, {"Out": var}, {"run_once": True})


class LayerHelper:
    """Names everything in a layer after its kind: ``fc_0.w_0``, ``fc_0.b_0``, ``fc_0.tmp_0``."""

    def __init__(self, kind: str, name: str | None = None) -> None:
        if name is not None and not isinstance(name, str):
            raise InvalidType(located(f"layers.{kind}: name is a string, not {name!r}", user_line()))
        self.main = default_main_program()
        self.name = self.main.names.generate(kind) if name is None else name

    def parameter(self, attr: AttrLike, suffix: str, shape: list[int], dtype: str, default: Initializer | None = None) -> Parameter:
        """A parameter, initialized in the startup program; one that exists by its given name is shared."""
        attr = as_param_attr(attr)
        name = attr.name or self.main.names.generate(f"{self.name}.{suffix}")
        if isinstance(attr, WeightNormParamAttr):
            return self._normalized(attr, name, shape, dtype, default)  # type: ignore[return-value]  # layers read it, as a parameter
        block = self.main.global_block()
        exists = block.has_var(name)
        param = block.create_parameter(name, shape, dtype, attr.trainable, attr.learning_rate, attr.regularizer, attr.need_clip)
        # Of a shared parameter the first layer says how it starts.
        if not exists:
            param.do_model_average = attr.do_model_average
            if attr.gradient_clip is not None:
                param.gradient_clip = attr.gradient_clip
            self.initialize(param, attr.initializer or default or usual_weight())
        return param

    def _normalized(self, attr: WeightNormParamAttr, name: str, shape: list[int], dtype: str, default: Initializer | None) -> Variable:
        """A direction times a length; the length starts as the direction's, in the startup program."""
        axis = attr.dim if attr.dim is None or attr.dim >= 0 else attr.dim + len(shape)
        if axis is not None and not 0 <= axis < len(shape):
            raise InvalidValue(located(f"WeightNormParamAttr: dim={attr.dim} is no axis of a parameter {shape}", user_line()))
        direction = self.parameter(attr.part(f"{name}_v", attr.initializer), "w", shape, dtype, default)
        lengths = [1] if axis is None else [shape[axis]]
        length = self.parameter(attr.part(f"{name}_g", _LengthOf(direction.name, axis)), "w", lengths, dtype)
        # Along the other axes the length is broadcast.
        along = [1 if place != axis else shape[axis] for place in range(len(shape))]
        return direction / _length(direction, axis) * emitted("reshape", [length], shape=along)  # type: ignore[no-any-return]

    def bias(self, attr: AttrLike, shape: list[int], dtype: str) -> Parameter | None:
        """A bias that starts at zero; None if ``attr`` is False."""
        return None if attr is False else self.parameter(attr, "b", shape, dtype, usual_bias())

    def persistable(self, suffix: str, shape: list[int], dtype: str, start: float, name: str | None = None) -> Variable:
        """A variable that outlives a run without being trained, such as running statistics; one of that name is shared."""
        if name is not None and self.main.global_block().has_var(name):
            return self.main.global_block().create_var(name, shape, dtype, persistable=True)
        name = name or self.main.names.generate(f"{self.name}.{suffix}")
        var = self.main.global_block().create_var(name, shape, dtype, persistable=True, stop_gradient=True)
        self.initialize(var, Constant(start))
        return var

    def initialize(self, var: Variable, initializer: Initializer) -> None:
        """Append the initialization operator to the startup program."""
        startup = default_startup_program()
        self.main.startup = startup
        initializer.append(startup.global_block(), declare_in(startup.global_block(), var))

    def append(self, type: str, inputs: Mapping[str, object], attrs: Mapping[str, object] | None = None, out: str = "Out") -> Variable:
        """Append an operator with one fresh output; return that."""
        (result,) = self.append_all(type, inputs, (out,), attrs)
        return result

    def append_all(
        self,
        type: str,
        inputs: Mapping[str, object],
        outputs: Sequence[str],
        attrs: Mapping[str, object] | None = None,
        written: Mapping[str, object] | None = None,
        stopped: Sequence[str] = (),
    ) -> list[Variable]:
        """Append an operator with fresh outputs and return those.

        ``written`` are outputs that exist already, ``stopped`` those of ``outputs`` that no gradient flows through.
        """
        block = self.main.current_block()
        names = {slot: self.main.names.generate(f"{self.name}.tmp") for slot in outputs}
        # ``written`` are outputs that there are already, such as running statistics.
        block.append_op(type, inputs, {**names, **written} if written else names, attrs)
        for slot in stopped:
            block.vars[names[slot]].stop_gradient = True
        return [block.vars[name] for name in names.values()]

    def activate(self, x: Variable, act: str | None) -> Variable:
        """Apply an activation by its operator's type."""
        return x if act is None else self.append(checked_activation(act), {"X": x})


def _length(x: Variable, axis: int | None) -> Variable:
    """The root of the sum of squares over all axes but one, which stay with extent 1."""
    # A vector that has a length for each element, along its only axis, has no axes to sum over: |x| is the root of x squared.
    axes = [place for place in range(x.ndim) if place != axis]
    squares = emitted("reduce_sum", [emitted("square", [x])], dim=axes, keep_dim=True) if axes else emitted("square", [x])
    return emitted("sqrt", [squares])  # type: ignore[no-any-return]


def checked_activation(act: object) -> str:
    """The type of an activation's operator; ValueError if there is no such activation."""
    definition = find(act) if isinstance(act, str) else None
    if definition is None or next(iter(definition.inputs), "") != "X" or definition.required["input"] != 1 or len(definition.outputs) != 1:
        raise InvalidValue(located(f"act is the type of an activation, such as 'relu', not {act!r}{_near(act)}", user_line()))
    return definition.type


def _near(act: object) -> str:
    return did_you_mean(act, REGISTRY) if isinstance(act, str) else ""


def layer(function: Callable[P, R]) -> Callable[P, R]:
    """A layer that, if it fails, leaves the programs as they were."""

    @wraps(function)
    def atomic(*args: P.args, **kwargs: P.kwargs) -> R:
        # A layer appends several operators and parameters: an error in the last one takes the first ones back.
        with default_main_program().appending(), default_startup_program().appending():
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                # Only an error of the call itself has no further frame: arguments that do not fit. Then Fluid's and Paddle 2's names are
                # tried.
                if isinstance(error, GraphadError) or error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
                options = renamed(kwargs, signature(function).parameters)
                if options is None:
                    raise InvalidType(located(_misfit(function, kwargs, error), user_line())) from None
            return atomic(*args, **options)

    return atomic


def _misfit(function: Callable[..., object], options: Mapping[str, object], error: TypeError) -> str:
    """The message about arguments that do not fit a layer's parameters."""
    parameters_of = signature(function)
    signature_text = str(
        parameters_of.replace(
            parameters=[p.replace(annotation=p.empty) for p in parameters_of.parameters.values()], return_annotation=Signature.empty
        )
    )
    unknown = [word for word in options if word not in parameters_of.parameters]
    hint = _nearest(unknown[0], parameters_of.parameters) if unknown else ""
    message = (str(error).partition("() ")[2] or str(error)).partition(". Did you mean ")[0]  # Python 3.13 has a hint of its own
    return f"layers.{function.__name__}{signature_text}: {message}{hint}"


def _nearest(word: str, parameters: Mapping[str, object]) -> str:
    """The parameter that was probably meant, by its own name or by one of its synonyms."""
    meant = {other: name for other in SYNONYMS if (name := synonym(other, parameters))}
    hint = did_you_mean(word, parameters)
    return hint or next((f"; did you mean {name!r}?" for other, name in meant.items() if did_you_mean(word, [other])), "")


def emitted(op: str, inputs: Sequence[object], name: str | None = None, /, **attrs: object) -> Any:
    """Append an operator to the current block by its inputs in order; return its required outputs."""
    return default_main_program().current_block().emit(lookup(op), inputs, attrs, name)


def declare_in(block: Any, var: Variable) -> Variable:
    """The variable of the same name in another block, declared there if needed."""
    if block.has_var(var.name):
        return block.var(var.name)  # type: ignore[no-any-return]
    block.vars[var.name] = var.copy_to(block)
    return block.vars[var.name]  # type: ignore[no-any-return]


def as_param_attr(attr: AttrLike) -> ParamAttr:
    """A ParamAttr from one, a name, an initializer, or None."""
    if attr is None or attr is True:
        return _USUAL
    if isinstance(attr, str):
        # Other libraries have the activation at this place; it would silently become a parameter's name.
        if attr in _ACTIVATIONS:
            raise InvalidValue(
                located(
                    f"an attr of a parameter is {attr!r}, an activation: give act={attr!r}, or ParamAttr(name={attr!r}) to name it so",
                    user_line(),
                )
            )
        return ParamAttr(name=attr)
    if isinstance(attr, Initializer):
        return ParamAttr(initializer=attr)
    if isinstance(attr, ParamAttr):
        return attr
    hint = f"; {attr.__name__}(...) makes one" if isinstance(attr, type) else ""
    raise InvalidType(f"param_attr is a ParamAttr, a name, an initializer, or None, not {attr!r}{hint}")


def checked_input(layer: str, x: object) -> Variable:
    """The input of a layer; TypeError if it is not a variable."""
    if not isinstance(x, Variable):
        raise InvalidType(f"layers.{layer} takes a Variable, not {x!r}")
    return x
