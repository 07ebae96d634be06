"""Fluid's modules, as namespaces of what is elsewhere here: ``fluid.io``, ``fluid.regularizer``, ``fluid.clip``, ``fluid.contrib`` …"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from graphad import readers
from graphad.errors import EndOfData, InvalidType, InvalidValue
from graphad.execution.strategies import BuildStrategy, CompiledProgram, ExecutionStrategy
from graphad.fluid import contributed, files
from graphad.fluid.top import is_compiled_with_cuda
from graphad.interop import saving
from graphad.ops.definition import did_you_mean
from graphad.optimizer.wrapped import extend_with_decoupled_weight_decay
from graphad.places import CPUPlace
from graphad.program import OPTIMIZE, Parameter, Program, Variable, default_main_program, located, name_in
from graphad.program.clipping import Clip, ClipByGlobalNorm, ClipByNorm, ClipByValue, ErrorClipByValue
from graphad.program.variable import L1Decay, L2Decay
from graphad.types import DTYPES, Array


class WeightedAverage:
    """``fluid.average``: the mean of numbers or arrays, by weight.

    >>> import graphad as fluid
    >>> cost = fluid.average.WeightedAverage()
    >>> cost.add(value=2.0, weight=1)
    >>> cost.add(value=4.0, weight=3)
    >>> float(cost.eval())
    3.5
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget what was added."""
        self._total: Array = np.zeros(())
        self._weight = 0.0

    def add(self, value: ArrayLike, weight: float) -> None:
        """Add a number or an array, all of one shape, with its weight."""
        self._total = self._total + np.asarray(value, "float64") * float(weight)
        self._weight += float(weight)

    def eval(self) -> Array:
        """The mean; ValueError if nothing was added."""
        if not self._weight:
            raise InvalidValue("there is no average: call add(value, weight) first")
        return np.asarray(self._total / self._weight)


class _Namespace(SimpleNamespace):
    """Names of Fluid's, one of which is suggested for one that is mistyped."""

    _instead: Mapping[str, str] = MappingProxyType({})  # of names that are not here

    def __dir__(self) -> list[str]:
        return sorted(vars(self))

    if not TYPE_CHECKING:  # a type checker would take any name for one of these

        def __getattr__(self, name: str) -> NoReturn:
            hint = f", which Fluid has: {self._instead[name]}" if name in self._instead else did_you_mean(name, vars(self))
            hint = "" if name.startswith("_") else hint
            raise AttributeError(f"there is no {name!r} here{hint}", name=name, obj=self)


def _l1_decay(regularization_coeff: float = 0.0) -> L1Decay:
    return L1Decay(regularization_coeff)


def _l2_decay(regularization_coeff: float = 0.0) -> L2Decay:
    return L2Decay(regularization_coeff)


def _clip_by_value(max: float, min: float | None = None) -> ClipByValue:
    return ClipByValue(max, min)


def _clip_by_norm(clip_norm: float) -> ClipByNorm:
    return ClipByNorm(clip_norm)


def _clip_by_global_norm(clip_norm: float, group_name: str = "default_group") -> ClipByGlobalNorm:
    return ClipByGlobalNorm(clip_norm, group_name)


def set_gradient_clip(clip: Clip, param_list: Sequence[Parameter | str] | None = None, program: Program | None = None) -> None:
    """Say how the gradients of parameters are clipped by optimizers that have no ``grad_clip`` of their own.

    Call it after the network is built and before ``minimize``. Parameters with ``need_clip=False`` are left out.
    ``GradientClipByGlobalNorm`` bounds the norm of all gradients of a ``group_name`` together.

    Args:
        clip: GradientClipByValue, GradientClipByNorm or GradientClipByGlobalNorm.
        param_list: parameters, or their names; all of the program if None.
        program: whose parameters; the default main program if None.

    Raises:
        TypeError: ``clip`` is none of these, or ``param_list`` holds what is no parameter.
        ValueError: a name is not there; or the updates of all these parameters are there already, so that it would have no effect.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program(), fluid.Program()):
    ...     cost = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 2]), 1, param_attr="w", bias_attr=False))
    ...     fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(1.0), param_list=["w"])
    ...     cost.block.program.all_parameters()[0].gradient_clip
    ClipByNorm(bound=1.0)
    """
    program = default_main_program() if program is None else program
    if not isinstance(clip, Clip):
        raise InvalidType(f"set_gradient_clip: clip is a GradientClipByValue, GradientClipByNorm or GradientClipByGlobalNorm, not {clip!r}")
    block = program.global_block()
    items = program.all_parameters() if param_list is None else param_list
    if not isinstance(items, list | tuple):
        raise InvalidType(f"set_gradient_clip: param_list is a list of parameters or their names, not {items!r}")
    parameters = [block.var(name_in("set_gradient_clip", block, item) if isinstance(item, Variable) else item) for item in items]
    for param in parameters:
        if not isinstance(param, Parameter):
            raise InvalidType(f"set_gradient_clip: {param!r} is no parameter")
    updates = {name: op for op in block.ops if op.role == OPTIMIZE for name in op.input("Param")}
    if parameters and all(param.name in updates for param in parameters):
        message = "set_gradient_clip has no effect after minimize, which was called for all these parameters: call it before"
        raise InvalidValue(located(message, updates[parameters[0].name].source))
    for param in parameters:
        param.gradient_clip = clip  # type: ignore[attr-defined]


regularizer = _Namespace(L1Decay=_l1_decay, L2Decay=_l2_decay, L1DecayRegularizer=_l1_decay, L2DecayRegularizer=_l2_decay)
clip = _Namespace(
    ErrorClipByValue=ErrorClipByValue,
    GradientClipByValue=_clip_by_value,
    GradientClipByNorm=_clip_by_norm,
    GradientClipByGlobalNorm=_clip_by_global_norm,
    set_gradient_clip=set_gradient_clip,
)

compiler = _Namespace(CompiledProgram=CompiledProgram, BuildStrategy=BuildStrategy, ExecutionStrategy=ExecutionStrategy)

_PADDLE_DTYPES = {"FP16": "float16", "FP32": "float32", "FP64": "float64"}
_var_types = _Namespace(**{name.upper(): name for name in DTYPES}, **_PADDLE_DTYPES)
core = _Namespace(  # dtypes are their names
    CPUPlace=CPUPlace, EOFException=EndOfData, VarDesc=_Namespace(VarType=_var_types), is_compiled_with_cuda=is_compiled_with_cuda
)


class _Contrib(_Namespace):
    """``fluid.contrib``."""

    _instead = contributed.INSTEAD


_mixed_precision = _Namespace(decorate=contributed.decorate, AutoMixedPrecisionLists=contributed.AutoMixedPrecisionLists)
contrib = _Contrib(
    extend_with_decoupled_weight_decay=extend_with_decoupled_weight_decay,
    mixed_precision=_mixed_precision,
    op_freq_statistic=contributed.op_freq_statistic,
)
average = _Namespace(WeightedAverage=WeightedAverage)

io = _Namespace(
    DataLoader=readers.DataLoader,
    PyReader=readers.PyReader,
    batch=readers.batch,
    buffered=readers.buffered,
    cache=readers.cache,
    chain=readers.chain,
    compose=readers.compose,
    firstn=readers.firstn,
    get_program_parameter=files.get_program_parameter,
    get_program_persistable_vars=files.get_program_persistable_vars,
    load=saving.load,
    load_inference_model=files.load_inference_model,
    load_params=files.load_params,
    load_persistables=files.load_persistables,
    load_program_state=files.load_program_state,
    load_vars=files.load_vars,
    map_readers=readers.map_readers,
    save=saving.save,
    save_inference_model=files.save_inference_model,
    save_params=files.save_params,
    save_persistables=files.save_persistables,
    save_vars=files.save_vars,
    set_program_state=files.set_program_state,
    shuffle=readers.shuffle,
    xmap_readers=readers.xmap_readers,
)
