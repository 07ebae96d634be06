"""Fluid's names, so that an old script runs with ``import graphad as fluid``, or ``import graphad.fluid as fluid``.

Here belongs what only scripts written for Fluid use: names that are elsewhere in graphad, parameters in Fluid's order, and for what is
not here what takes its place. What computes something belongs in the packages it is made of: layers in ``graphad.layers``, formats in
``graphad.interop``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from graphad import initializer, layers, metrics, nets, optimizer
from graphad.fluid.namespaces import average, clip, compiler, contrib, core, io, regularizer
from graphad.fluid.top import (
    ParallelExecutor,
    cpu_places,
    data,
    device_guard,
    embedding,
    get_flags,
    in_dygraph_mode,
    is_compiled_with_cuda,
    one_hot,
    require_version,
    set_flags,
)

__all__ = [
    "ParallelExecutor",
    "average",
    "clip",
    "compiler",
    "contrib",
    "core",
    "cpu_places",
    "data",
    "device_guard",
    "embedding",
    "get_flags",
    "in_dygraph_mode",
    "io",
    "is_compiled_with_cuda",
    "one_hot",
    "regularizer",
    "require_version",
    "set_flags",
]

# ``import graphad.fluid.layers as layers`` and ``from graphad.fluid.regularizer import L2Decay``, as scripts have them: Python's import
# looks in sys.modules first, so that these names of modules need no files.
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
        """Look up names that Fluid has at its top in graphad: many port an old script by ``import graphad.fluid as fluid`` alone."""
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(sys.modules["graphad"], name)
