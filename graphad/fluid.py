"""The names of Fluid's top level that are elsewhere here, so that an old script runs with ``import graphad as fluid``.

``import graphad.fluid as fluid`` and ``import graphad.fluid.layers as layers`` find the rest of graphad as well.

``fluid.data``, ``fluid.embedding``, ``fluid.DataFeeder``, ``fluid.io``, ``fluid.regularizer``, ``fluid.clip``; and for what is not here,
what takes its place.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from graphad import fluid_contrib, fluid_io, fluid_readers, initializer, layers, metrics, nets, optimizer
from graphad.data_feeder import DataFeeder as DataFeeder
from graphad.errors import EndOfData, InvalidType, InvalidValue
from graphad.execution.executor import Executor
from graphad.execution.scope import Scope
from graphad.execution.strategies import BuildStrategy, CompiledProgram, ExecutionStrategy, check_strategy
from graphad.interop import saving
from graphad.layers.helper import AttrLike, checked_input, layer
from graphad.ops.definition import did_you_mean
from graphad.optimizer.wrapped import extend_with_decoupled_weight_decay
from graphad.places import CPUPlace
from graphad.program import OPTIMIZE, Parameter, Program, Variable, default_main_program, located, name_in
from graphad.program.clipping import Clip, ClipByGlobalNorm, ClipByNorm, ClipByValue, ErrorClipByValue
from graphad.program.variable import L1Decay, L2Decay
from graphad.types import DTYPES, Array

INSTEAD = {
    "DistributeTranspiler": "graphad.LocalGroup and graphad.MpiExecutor run a program on several ranks, and passes split it",
    "debugger": "graphad.draw, graphad.view, and print(program)",
    "memory_optimize": "an Executor frees and reuses memory by itself; the passes recompute, checkpoint-while and in-place need less",
    "net_drawer": "graphad.draw(program, path)",
    "release_memory": "an Executor frees and reuses memory by itself; the passes recompute, checkpoint-while and in-place need less",
    "dygraph": "there is no eager mode: layers append operators to a program",
    "dataset": "feed arrays: train(cost, reader=...), or Executor.run(program, feed)",
    "create_lod_tensor": "sequences are padded here, [batch, time, ...], with layers.sequence_mask",
    "create_random_int_lodtensor": "sequences are padded here, [batch, time, ...], with layers.sequence_mask",
    "cuda_places": "an Executor computes with numpy",
    "disable_dygraph": "there is no eager mode: layers append operators to a program",
    "disable_imperative": "there is no eager mode: layers append operators to a program",
    "enable_imperative": "there is no eager mode: layers append operators to a program",
    "imperative": "there is no eager mode: layers append operators to a program",
    "DistributeTranspilerConfig": "graphad.LocalGroup and graphad.MpiExecutor run a program on several ranks, and passes split it",
    "incubate": "graphad.LocalGroup and graphad.MpiExecutor take the place of its fleet: passes split a program, they run its parts",
    "install_check": "graphad demo on the command line shows that all works",
    "load_op_library": "an operator of one's own is Python: @graphad.operator",
    "memory_usage": "graphad.memory_plan(program, feed) says how much memory a run takes",
    "enable_dygraph": "there is no eager mode: layers append operators to a program",
    "profiler": "Executor(profile=True) measures each operator",
    "transpiler": "graphad.LocalGroup and graphad.MpiExecutor run a program on several ranks, and passes split it",
}


def data(name: str, shape: Sequence[int | str | None], dtype: object = "float32", lod_level: int = 0) -> Variable:
    """A variable to feed, of just this shape: ``layers.data`` without a batch in front.

    Args:
        name: what it is fed as.
        shape: its extents; None or -1 is any, ``"batch"`` any of that name.
        dtype: its dtype.
        lod_level: 0; sequences of different lengths (LoD) are not here.

    Raises:
        ValueError: ``lod_level`` is not 0.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()):
    ...     fluid.data("x", [None, 3])
    Variable x: float32[-1, 3]
    """
    if lod_level:
        raise InvalidValue(f"data: lod_level={lod_level}: sequences are padded here, [batch, time, ...], with layers.sequence_mask")
    extents = [-1 if extent is None else extent for extent in shape]
    return layers.data(name, extents, dtype=dtype, append_batch_size=False)


@layer
def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: AttrLike = None,
    dtype: object = "float32",
) -> Variable:
    """``layers.embedding`` for which a last axis of extent 1 is an axis as any other: ids ``[..., 1]`` give rows ``[..., 1, width]``.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program(), fluid.Program()):
    ...     fluid.embedding(fluid.data("ids", [None, 1], "int64"), size=[10, 4]).shape
    (-1, 1, 4)
    """
    ids = checked_input("embedding", input)
    has_unit_axis = len(ids.shape) > 1 and ids.shape[-1] == 1
    return layers.embedding(ids.unsqueeze(-1) if has_unit_axis else ids, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)


@layer
def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """``layers.one_hot`` for which a last axis of extent 1 is an axis as any other.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()):
    ...     fluid.one_hot(fluid.data("label", [None, 1], "int64"), depth=10).shape
    (-1, 1, 10)
    """
    labels = checked_input("one_hot", input)
    has_unit_axis = len(labels.shape) > 1 and labels.shape[-1] == 1
    return layers.one_hot(labels.unsqueeze(-1) if has_unit_axis else labels, depth, allow_out_of_range)


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """As many names for the CPU, one unless told otherwise."""
    return [CPUPlace()] * (device_count or 1)


def is_compiled_with_cuda() -> bool:
    """False: an Executor computes with numpy."""
    return False


def in_dygraph_mode() -> bool:
    """False: layers append operators to a program."""
    return False


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Within it operators are of the device ``"cpu"``, as everywhere; ValueError for another.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()), fluid.device_guard("cpu"):
    ...     fluid.layers.fill_constant([1], "float32", 0.0).shape
    (1,)
    """
    if device not in (None, "cpu"):
        raise InvalidValue(f"device_guard: an Executor computes with numpy, on 'cpu', not on {device!r}")
    yield


_flags: dict[str, object] = {}
_FLUID = (1, 8, 5)  # the version of Fluid whose names these are


def set_flags(flags: Mapping[str, object]) -> None:
    """Take flags of Paddle's (``FLAGS_...``), which have no effect; TypeError for what is no dict, ValueError for another name."""
    if not isinstance(flags, Mapping):
        raise InvalidType(f"set_flags takes a dict from FLAGS_... to a value, not {flags!r}")
    if unknown := [name for name in flags if not str(name).startswith("FLAGS_")]:
        raise InvalidValue(f"the names of flags begin with FLAGS_, not {unknown}")
    _flags.update(flags)


def get_flags(flags: str | Sequence[str]) -> dict[str, object]:
    """What ``set_flags`` has taken, by name; ValueError for a flag that it has not.

    >>> import graphad as fluid
    >>> fluid.set_flags({"FLAGS_eager_delete_tensor_gb": 1.0})
    >>> fluid.get_flags("FLAGS_eager_delete_tensor_gb")
    {'FLAGS_eager_delete_tensor_gb': 1.0}
    """
    names = [flags] if isinstance(flags, str) else list(flags)
    if unknown := [name for name in names if name not in _flags]:
        raise InvalidValue(f"{unknown}: these flags have not been set; flags of Paddle's have no effect here")
    return {name: _flags[name] for name in names}


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Return if scripts for these versions of Paddle find Fluid 1.8.5's names; ValueError otherwise.

    >>> import graphad as fluid
    >>> fluid.require_version("1.7.0")
    """
    bounds = {"min_version": min_version, "max_version": max_version or "999"}
    for name, text in bounds.items():
        if not isinstance(text, str) or not re.fullmatch(r"\d+(\.\d+){0,3}", text):
            raise InvalidType(f"{name} is a version such as '1.7.0', not {text!r}")
    low, high = (tuple(map(int, text.split("."))) for text in bounds.values())
    # A version says as many numbers as count: 1.8 is up to all of 1.8.
    if not (low <= _FLUID and _FLUID[: len(high)] <= high):
        raise InvalidValue(f"the script wants Paddle {min_version} to {max_version or 'any'}; these are the names of Fluid 1.8.5")


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


class ParallelExecutor:
    """Fluid's older ``CompiledProgram``: an Executor for one program, on one CPU.

    Args:
        use_cuda: False.
        loss_name, share_vars_from, exec_strategy, build_strategy, num_trainers, trainer_id: without effect.
        main_program: the program; the default main program if None.
        scope: where its variables are; the global scope if None.

    Raises:
        ValueError: ``use_cuda`` is set.
    """

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: ParallelExecutor | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Scope | None = None,
    ) -> None:
        if use_cuda:
            raise InvalidValue("ParallelExecutor: an Executor computes with numpy, on the CPU: give use_cuda=False")
        check_strategy("exec_strategy", exec_strategy, ExecutionStrategy)
        check_strategy("build_strategy", build_strategy, BuildStrategy)
        self._program = default_main_program() if main_program is None else main_program
        self._scope, self._executor = scope, Executor()
        self.device_count = 1

    def run(
        self, fetch_list: Sequence[Variable | str], feed: object = None, feed_dict: object = None, return_numpy: bool = True
    ) -> list[Array]:
        """Run the program: ``Executor.run`` with the fetches first. A list of one dict stands for that dict, as for one device.

        Raises:
            ValueError: there are several dicts.
        """
        fed = feed_dict if feed is None else feed
        if isinstance(fed, list | tuple):
            if len(fed) != 1:
                raise InvalidValue(f"feed has a dict for each device, and there is one; it has {len(fed)}")
            (fed,) = fed
        return self._executor.run(self._program, fed, list(fetch_list), scope=self._scope)  # type: ignore[arg-type]


# -- namespaces, spelt as Fluid spells them ------------------------------------------------------


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

    _instead = fluid_contrib.INSTEAD


_mixed_precision = _Namespace(decorate=fluid_contrib.decorate, AutoMixedPrecisionLists=fluid_contrib.AutoMixedPrecisionLists)
contrib = _Contrib(
    extend_with_decoupled_weight_decay=extend_with_decoupled_weight_decay,
    mixed_precision=_mixed_precision,
    op_freq_statistic=fluid_contrib.op_freq_statistic,
)
average = _Namespace(WeightedAverage=WeightedAverage)

io = _Namespace(
    DataLoader=fluid_readers.DataLoader,
    PyReader=fluid_readers.PyReader,
    batch=fluid_readers.batch,
    buffered=fluid_readers.buffered,
    cache=fluid_readers.cache,
    chain=fluid_readers.chain,
    compose=fluid_readers.compose,
    firstn=fluid_readers.firstn,
    get_program_parameter=fluid_io.get_program_parameter,
    get_program_persistable_vars=fluid_io.get_program_persistable_vars,
    load=saving.load,
    load_inference_model=fluid_io.load_inference_model,
    load_params=fluid_io.load_params,
    load_persistables=fluid_io.load_persistables,
    load_program_state=fluid_io.load_program_state,
    load_vars=fluid_io.load_vars,
    map_readers=fluid_readers.map_readers,
    save=saving.save,
    save_inference_model=fluid_io.save_inference_model,
    save_params=fluid_io.save_params,
    save_persistables=fluid_io.save_persistables,
    save_vars=fluid_io.save_vars,
    set_program_state=fluid_io.set_program_state,
    shuffle=fluid_readers.shuffle,
    xmap_readers=fluid_readers.xmap_readers,
)


# ``import graphad.fluid.layers as layers`` and ``from graphad.fluid.regularizer import L2Decay``, as scripts have them: Python's import
# looks here first, so that the names of modules inside of this one need no files.
for _name, _module in {
    "average": average,
    "clip": clip,
    "contrib": contrib,
    "core": core,
    "initializer": initializer,
    "io": io,
    "layers": layers,
    "metrics": metrics,
    "nets": nets,
    "optimizer": optimizer,
    "regularizer": regularizer,
}.items():
    sys.modules[f"{__name__}.{_name}"] = _module  # type: ignore[assignment]


if not TYPE_CHECKING:  # a type checker would take any name for one of the module's

    def __getattr__(name: str) -> object:
        """What Fluid has at its top and graphad too: ``import graphad.fluid as fluid`` is how many edit an old script."""
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(sys.modules["graphad"], name)
