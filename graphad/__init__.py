"""graphad: a graph-IR pass framework on networkx.

Programs of operators and variables are lowered into bipartite graphs, rewritten by passes (backward construction is a
pipeline of them), drawn with Graphviz, and scheduled back into ordered operators that a numpy executor runs.

Here belong the names that users type, as ``ga.lower``, each imported from its package on first use. Code belongs in the packages;
modules beside them are features that need several (``backward``, ``training``, ``experiments``, ``edit``).
"""

from __future__ import annotations

import gc
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

_collects = gc.isenabled()
gc.disable()
# What an import makes stays: looking for garbage in it would be a fifth of its time.
try:
    from graphad import errors, initializer, layers, ops, program
    from graphad.ir import Graph, lower, schedule
    from graphad.ops import operator
    from graphad.ops.definition import did_you_mean
    from graphad.plugins import load_plugins
    from graphad.program import (
        Block,
        Operator,
        Parameter,
        Program,
        Variable,
        default_main_program,
        default_startup_program,
        name_scope,
        program_guard,
        unique_name,
    )
finally:
    if _collects:
        gc.enable()

if TYPE_CHECKING:
    from graphad import distribution as distribution
    from graphad import drawing as drawing
    from graphad import edit as edit
    from graphad import interop, optimizer, passes
    from graphad import metrics as metrics
    from graphad import nets as nets
    from graphad import rewriting as rewriting
    from graphad.backward import append_backward, backward_pipeline, gradients
    from graphad.distribution import LocalGroup, MpiExecutor
    from graphad.drawing import draw, draw_diff, draw_pair, draw_rule, draw_steps
    from graphad.execution import Executor, Scope, global_scope, memory_plan, scope_guard, to_python
    from graphad.execution.strategies import BuildStrategy, CompiledProgram, ExecutionStrategy
    from graphad.experiments import experiment
    from graphad.fluid import (
        ParallelExecutor,
        average,
        clip,
        compiler,
        contrib,
        core,
        cpu_places,
        data,
        device_guard,
        embedding,
        get_flags,
        in_dygraph_mode,
        io,
        is_compiled_with_cuda,
        one_hot,
        regularizer,
        require_version,
        set_flags,
    )
    from graphad.fluid.files import load_program_state, set_program_state
    from graphad.freezing import freeze
    from graphad.initializer import set_global_initializer
    from graphad.interop import load, save
    from graphad.jax import JaxExecutor, to_jax
    from graphad.layers import ParamAttr, WeightNormParamAttr
    from graphad.optimizer import optimize
    from graphad.places import CPUPlace, CUDAPlace
    from graphad.readers import DataFeeder
    from graphad.rewriting import (
        Pass,
        Pipeline,
        Rule,
        RulePass,
        RuleSet,
        constant,
        explain,
        fixpoint,
        nested,
        rewrite,
        rewrite_greedily,
        several,
    )
    from graphad.training import train
    from graphad.viewing import view

if not Path(__file__).with_name("passes").is_dir():  # a checkout without symbolic links: the link is a file, the passes are beside graphad
    __path__.append(str(Path(__file__).parents[1]))

_PARTS = (
    "backward",
    "distribution",
    "drawing",
    "edit",
    "execution",
    "experiments",
    "fluid",
    "graph",
    "interop",
    "jax",
    "metrics",
    "nets",
    "optimizer",
    "passes",
    "rewriting",
    "training",
    "viewing",
)
_HOMES = {
    "BuildStrategy": "execution.strategies",
    "CPUPlace": "places",
    "CUDAPlace": "places",
    "CompiledProgram": "execution.strategies",
    "DataFeeder": "readers",
    "ExecutionStrategy": "execution.strategies",
    "Executor": "execution",
    "JaxExecutor": "jax",
    "LocalGroup": "distribution",
    "MpiExecutor": "distribution",
    "ParallelExecutor": "fluid",
    "ParamAttr": "layers",
    "Pass": "rewriting",
    "Pipeline": "rewriting",
    "Rule": "rewriting",
    "RulePass": "rewriting",
    "RuleSet": "rewriting",
    "Scope": "execution",
    "WeightNormParamAttr": "layers",
    "append_backward": "backward",
    "average": "fluid",
    "backward_pipeline": "backward",
    "clip": "fluid",
    "compiler": "fluid",
    "constant": "rewriting",
    "contrib": "fluid",
    "core": "fluid",
    "cpu_places": "fluid",
    "data": "fluid",
    "device_guard": "fluid",
    "draw": "drawing",
    "draw_diff": "drawing",
    "draw_pair": "drawing",
    "draw_rule": "drawing",
    "draw_steps": "drawing",
    "embedding": "fluid",
    "experiment": "experiments",
    "explain": "rewriting",
    "fixpoint": "rewriting",
    "freeze": "freezing",
    "get_flags": "fluid",
    "global_scope": "execution",
    "gradients": "backward",
    "in_dygraph_mode": "fluid",
    "io": "fluid",
    "is_compiled_with_cuda": "fluid",
    "load": "interop",
    "load_program_state": "fluid.files",
    "memory_plan": "execution",
    "nested": "rewriting",
    "one_hot": "fluid",
    "optimize": "optimizer",
    "regularizer": "fluid",
    "require_version": "fluid",
    "rewrite": "rewriting",
    "rewrite_greedily": "rewriting",
    "save": "interop",
    "scope_guard": "execution",
    "set_flags": "fluid",
    "set_global_initializer": "initializer",
    "set_program_state": "fluid.files",
    "several": "rewriting",
    "to_jax": "jax",
    "to_python": "execution",
    "train": "training",
    "view": "viewing",
}

layer = layers  # the specification writes layer.data, layer.fc

__version__ = "0.1.0"


if not TYPE_CHECKING:  # a type checker would take any name for one of the module's

    def __getattr__(name: str) -> Any:
        """Import the packages built on programs and graphs on first use: pydot, protobuf and rich double the time of the import."""
        if name in _PARTS:
            return import_module(f"{__name__}.{name}")
        if name not in _HOMES:
            hint = "" if name.startswith("_") else _instead(name) or did_you_mean(name, [*__all__, *_PARTS])
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        # Kept in the module, so that Python finds it next time without this function.
        attribute = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return attribute


def _instead(name: str) -> str:
    """The hint for a name of Fluid's or Paddle's that graphad does not have: what replaces it, or the module that has it; "" for other
    names."""
    fluid, top = (import_module(f"{__name__}.{module}") for module in ("fluid", "fluid.top"))
    for library, known in (("Fluid", top.INSTEAD), ("Paddle", top.INSTEAD_OF_PADDLE)):
        if name in known:
            return f", which {library} has: {known[name]}"
    for home, names in (("layers", layers), ("io", fluid.io)):
        if name in dir(names):
            return f": graphad.{home}.{name}"
    return ""


def __dir__() -> list[str]:
    # Completion offers what users type, and not what this file imports for itself.
    modules = {name for name, item in globals().items() if isinstance(item, ModuleType) and item.__name__.startswith(f"{__name__}.")}
    return sorted({*modules, *_PARTS, *__all__, *(name for name in globals() if name.startswith("__"))})


def _repr_svg_(shown: Any) -> str | None:
    """The drawing, for notebooks. It is attached here because drawing is a later layer than programs and graphs."""
    drawing = import_module(f"{__name__}.drawing")
    return drawing.repr_svg(shown)  # type: ignore[no-any-return]


def _write_page_(graph: Graph, passes: Any, path: Path) -> None:
    """Write the page that a failing pass leaves; ``passes`` end with it. Pages are a later layer than passes, too."""
    import_module(f"{__name__}.viewing").record(graph, passes, path, title=path.parent.name)


Graph._repr_svg_ = _repr_svg_  # type: ignore[attr-defined]
Graph._write_page_ = staticmethod(_write_page_)  # type: ignore[attr-defined]
Program._repr_svg_ = _repr_svg_  # type: ignore[attr-defined]

__all__ = [
    "Block",
    "BuildStrategy",
    "CPUPlace",
    "CUDAPlace",
    "CompiledProgram",
    "DataFeeder",
    "ExecutionStrategy",
    "Executor",
    "Graph",
    "JaxExecutor",
    "LocalGroup",
    "MpiExecutor",
    "Operator",
    "ParallelExecutor",
    "ParamAttr",
    "Parameter",
    "Pass",
    "Pipeline",
    "Program",
    "Rule",
    "RulePass",
    "RuleSet",
    "Scope",
    "Variable",
    "WeightNormParamAttr",
    "append_backward",
    "average",
    "backward_pipeline",
    "clip",
    "compiler",
    "constant",
    "contrib",
    "core",
    "cpu_places",
    "data",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "draw",
    "draw_diff",
    "draw_pair",
    "draw_rule",
    "draw_steps",
    "embedding",
    "errors",
    "experiment",
    "explain",
    "fixpoint",
    "freeze",
    "get_flags",
    "global_scope",
    "gradients",
    "in_dygraph_mode",
    "initializer",
    "interop",
    "io",
    "is_compiled_with_cuda",
    "layer",
    "layers",
    "load",
    "load_plugins",
    "load_program_state",
    "lower",
    "memory_plan",
    "name_scope",
    "nested",
    "one_hot",
    "operator",
    "ops",
    "optimize",
    "optimizer",
    "passes",
    "program",
    "program_guard",
    "regularizer",
    "require_version",
    "rewrite",
    "rewrite_greedily",
    "save",
    "schedule",
    "scope_guard",
    "set_flags",
    "set_global_initializer",
    "set_program_state",
    "several",
    "to_jax",
    "to_python",
    "train",
    "unique_name",
    "view",
]
