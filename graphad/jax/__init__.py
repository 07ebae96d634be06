"""Programs on XLA, through JAX: on CPUs, GPUs and TPUs, and sharded over many of them. JAX comes with ``pip install 'graphad[jax]'``.

    ga.JaxExecutor().run(program, feed, fetch_list, scope)      as Executor's
    ga.to_jax(program, fetch_list)                              a pure function (feeds, state) -> (fetches, state)

Here belongs what needs JAX: ``lowering`` of a program's blocks, which runs an operator's kernel, written over numpy, on ``XlaArray``
(``xla_array``, ``rebinding``), or a form of its own where XLA cannot do so (``forms``). What a program means is said by the interpreter of
``graphad.execution``; rewrites that suit XLA are passes.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from graphad.errors import GraphadError

if TYPE_CHECKING:
    from graphad.jax.bounded import Bounded as Bounded
    from graphad.jax.devices import ShardedFunction as ShardedFunction
    from graphad.jax.devices import sharded as sharded
    from graphad.jax.executor import JaxExecutor as JaxExecutor
    from graphad.jax.executor import JaxFunction as JaxFunction
    from graphad.jax.executor import to_jax as to_jax
    from graphad.jax.exporting import exported as exported
    from graphad.jax.operators import lowers as lowers
    from graphad.jax.pipelines import PipelinedFunction as PipelinedFunction
    from graphad.jax.pipelines import pipelined as pipelined
    from graphad.jax.processes import connect as connect
    from graphad.jax.registry import replaces as replaces

_HOMES = {
    "Bounded": "bounded",
    "JaxExecutor": "executor",
    "JaxFunction": "executor",
    "connect": "processes",
    "exported": "exporting",
    "lowers": "operators",
    "PipelinedFunction": "pipelines",
    "pipelined": "pipelines",
    "replaces": "registry",
    "ShardedFunction": "devices",
    "sharded": "devices",
    "to_jax": "executor",
}


class MissingJax(GraphadError, ImportError):
    """Something runs on JAX, which is not installed."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a name on first use: JAX takes a second to import."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if find_spec("jax") is None:
            raise MissingJax(f"{name} runs programs on XLA by JAX, which is not installed: pip install 'graphad[jax]'")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value


__all__ = [
    "Bounded",
    "JaxExecutor",
    "JaxFunction",
    "MissingJax",
    "PipelinedFunction",
    "ShardedFunction",
    "connect",
    "exported",
    "lowers",
    "pipelined",
    "replaces",
    "sharded",
    "to_jax",
]
