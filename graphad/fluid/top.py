"""Fluid's top-level names that graphad has elsewhere or in another form: ``fluid.data``, ``fluid.embedding``, flags, versions, places.

``INSTEAD`` says of names that are not here what takes their place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from graphad import layers
from graphad.errors import InvalidType, InvalidValue
from graphad.execution.executor import Executor
from graphad.execution.scope import Scope
from graphad.execution.strategies import BuildStrategy, ExecutionStrategy, check_strategy
from graphad.layers.helper import AttrLike, checked_input, layer
from graphad.places import CPUPlace
from graphad.program import Program, Variable, default_main_program
from graphad.types import Array

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

# What Paddle 2 has at its top and Fluid has not.
INSTEAD_OF_PADDLE = {
    "Model": "layers append operators to a program; graphad.train(cost, reader) runs it over minibatches",
    "Tensor": "a Variable is a value of a program; values of runs are numpy arrays",
    "disable_static": "there is no eager mode: layers append operators to a program",
    "enable_static": "programs are all there is, nothing has to be enabled",
    "grad": "graphad.gradients(targets, inputs)",
    "in_dynamic_mode": "programs are all there is: it would be False",
    "jit": "layers append operators to a program; graphad.lower(program) is its graph",
    "linalg": "its functions are layers: graphad.layers.norm, inverse, det, svd",
    "nn": "nn.functional.relu is graphad.layers.relu; there are no modules with state, parameters are made by layers.fc and others",
    "no_grad": "variable.stop_gradient = True, or no_grad_set= of graphad.append_backward",
    "seed": "program.random_seed = 1, of the startup program and of the main one",
    "static": "its names are at the top, as graphad.data and graphad.Executor, and its layers, as fc, in graphad.layers",
    "tensor": "its functions are graphad.layers",
    "to_tensor": "feed an array to graphad.data(name, shape), or graphad.layers.assign(array) makes a constant of it",
    "vision": "layers.conv2d, layers.pool2d and others; models are read by graphad.interop",
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
        raise InvalidValue(
            f"data: lod_level={lod_level}: sequences are padded here, [batch, time, ...], and layers take their lengths, length="
        )
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
    """The values of flags by name, as ``set_flags`` has set them; ValueError for a flag that has not been set.

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
