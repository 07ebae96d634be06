"""graphad: a graph-IR pass framework on networkx.

Programs of operators and variables are lowered into bipartite graphs, rewritten by passes (backward construction is a
pipeline of them), drawn with Graphviz, and scheduled back into ordered operators that a numpy executor runs.
"""

from graphad import errors, initializer, interop, layers, ops, optimizer, passes, program
from graphad.backward import append_backward, backward_pipeline, gradients
from graphad.drawing import draw, draw_pair, draw_rule, repr_svg
from graphad.execution import Executor, Scope, global_scope, scope_guard
from graphad.graph import Graph, lower, schedule
from graphad.interop import load, save
from graphad.optimizer import optimize
from graphad.plugins import load_plugins
from graphad.program import (
    Block,
    Operator,
    Parameter,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    program_guard,
    unique_name,
)
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

# Notebooks show the drawing; it is hooked in here because drawing is a later layer than both.
Graph._repr_svg_ = repr_svg  # type: ignore[attr-defined]
Program._repr_svg_ = repr_svg  # type: ignore[attr-defined]

layer = layers  # the specification writes layer.data, layer.fc

__version__ = "0.1.0"

load_plugins()

__all__ = [
    "Block",
    "Executor",
    "Graph",
    "Operator",
    "Parameter",
    "Pass",
    "Pipeline",
    "Program",
    "Rule",
    "RulePass",
    "RuleSet",
    "Scope",
    "Variable",
    "append_backward",
    "backward_pipeline",
    "constant",
    "default_main_program",
    "default_startup_program",
    "draw",
    "draw_pair",
    "draw_rule",
    "errors",
    "explain",
    "fixpoint",
    "global_scope",
    "gradients",
    "initializer",
    "interop",
    "layer",
    "layers",
    "load",
    "lower",
    "nested",
    "ops",
    "optimize",
    "optimizer",
    "passes",
    "program",
    "program_guard",
    "rewrite",
    "rewrite_greedily",
    "save",
    "schedule",
    "scope_guard",
    "several",
    "train",
    "unique_name",
]
