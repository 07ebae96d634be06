"""Fluid's ``CompiledProgram``: a program that runs as it is, since an ``Executor`` compiles programs by itself.

The strategies say how Fluid builds and runs a program. Their settings are taken, under Fluid's names, and have no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import ClassVar

from graphad.errors import InvalidType, InvalidValue
from graphad.ops.definition import did_you_mean
from graphad.program import Program


class _Strategy:
    """Settings under Fluid's names, without effect."""

    settings: ClassVar[tuple[str, ...]] = ()

    # Fluid's own classes refuse a name that they do not have, too: a misspelt setting is no setting.
    def __setattr__(self, name: str, value: object) -> None:
        if name not in self.settings:
            raise AttributeError(f"{type(self).__name__} has no setting {name!r}{did_you_mean(name, self.settings)}")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        if name in self.settings:
            return None
        raise AttributeError(f"{type(self).__name__} has no setting {name!r}{did_you_mean(name, self.settings)}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.settings})


class BuildStrategy(_Strategy):
    """How Fluid builds a graph. All of it is without effect: ``Executor(passes=...)`` says which passes run.

    >>> import graphad as fluid
    >>> strategy = fluid.BuildStrategy()
    >>> strategy.fuse_elewise_add_act_ops = True
    >>> strategy.enable_inplaces = True
    Traceback (most recent call last):
    AttributeError: BuildStrategy has no setting 'enable_inplaces'; did you mean 'enable_inplace'?
    """

    ReduceStrategy = SimpleNamespace(AllReduce=0, Reduce=1)
    GradientScaleStrategy = SimpleNamespace(CoeffNumDevice=0, One=1, Customized=2)
    settings = (
        "reduce_strategy",
        "gradient_scale_strategy",
        "debug_graphviz_path",
        "enable_sequential_execution",
        "remove_unnecessary_lock",
        "num_trainers",
        "trainer_id",
        "trainers_endpoints",
        "fuse_elewise_add_act_ops",
        "fuse_bn_act_ops",
        "enable_auto_fusion",
        "fuse_relu_depthwise_conv",
        "fuse_broadcast_ops",
        "fuse_all_optimizer_ops",
        "fuse_all_reduce_ops",
        "sync_batch_norm",
        "memory_optimize",
        "enable_inplace",
        "cache_runtime_context",
        "enable_backward_optimizer_op_deps",
        "mkldnn_enabled_op_types",
        "nccl_comm_num",
        "use_hierarchical_allreduce",
        "hierarchical_allreduce_inter_nranks",
        "is_distribution",
        "async_mode",
    )


class ExecutionStrategy(_Strategy):
    """How Fluid runs a graph. All of it is without effect: ``Executor(threads=...)`` says how many threads there are."""

    ExecutorType = SimpleNamespace(Default=0, Experimental=1)
    settings = (
        "num_threads",
        "num_iteration_per_drop_scope",
        "num_iteration_per_run",
        "use_experimental_executor",
        "use_thread_barrier",
        "allow_op_delay",
        "dry_run",
    )


class CompiledProgram:
    """A program for ``Executor.run``, which compiles all programs by itself: it runs as the program does.

    Args:
        program_or_graph: a Program.
        build_strategy: a BuildStrategy or None; without effect.

    Raises:
        TypeError: it is no Program.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()) as program:
    ...     loss = fluid.layers.mean(fluid.data("x", [None, 2]))
    >>> compiled = fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name)
    >>> fluid.Executor(fluid.CPUPlace()).run(compiled, feed={"x": [[1.0, 2.0]]}, fetch_list=[loss])
    [array(1.5, dtype=float32)]
    """

    def __init__(self, program_or_graph: Program, build_strategy: BuildStrategy | None = None) -> None:
        if not isinstance(program_or_graph, Program):
            raise InvalidType(f"CompiledProgram takes a Program, not {program_or_graph!r}")
        check_strategy("build_strategy", build_strategy, BuildStrategy)
        self.program = program_or_graph

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: CompiledProgram | None = None,
        places: Sequence[object] | None = None,
    ) -> CompiledProgram:
        """The same, on the one CPU that an Executor has.

        Raises:
            ValueError: there are several places; ``graphad.LocalGroup`` runs a program on several ranks.
        """
        check_strategy("build_strategy", build_strategy, BuildStrategy)
        check_strategy("exec_strategy", exec_strategy, ExecutionStrategy)
        if places is not None and len(places) > 1:
            raise InvalidValue(
                f"with_data_parallel: an Executor runs on one CPU, not on {len(places)} places: the pass data-parallel splits a batch, "
                "and graphad.LocalGroup or MpiExecutor runs its parts"
            )
        return self


def check_strategy(what: str, strategy: object, kind: type) -> None:
    """TypeError unless it is a strategy of that kind, or None."""
    if strategy is not None and not isinstance(strategy, kind):
        raise InvalidType(f"{what} is a {kind.__name__} or None, not {strategy!r}")
