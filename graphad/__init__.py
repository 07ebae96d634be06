"""graphad: a graph-IR pass framework on networkx.

Programs of operators and variables are lowered into bipartite graphs, rewritten by passes (backward construction is a
pipeline of them), drawn with Graphviz, and scheduled back into ordered operators that a numpy executor runs.
"""

from graphad import errors, initializer, layers, ops, optimizer, passes, program
from graphad.backward import append_backward, backward_pipeline, gradients
from graphad.drawing import draw, repr_svg
from graphad.execution import Executor, Scope, global_scope, scope_guard
from graphad.graph import Graph, lower, schedule
from graphad.optimizer import optimize
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
from graphad.rewriting import Pass, Pipeline, fixpoint
from graphad.training import train

# Notebooks show the drawing; it is hooked in here because drawing is a later layer than both.
Graph._repr_svg_ = repr_svg  # type: ignore[attr-defined]
Program._repr_svg_ = repr_svg  # type: ignore[attr-defined]

layer = layers  # the specification writes layer.data, layer.fc

__version__ = "0.1.0"

__all__ = [
    "Block",
    "Executor",
    "Graph",
    "Operator",
    "Parameter",
    "Pass",
    "Pipeline",
    "Program",
    "Scope",
    "Variable",
    "append_backward",
    "backward_pipeline",
    "default_main_program",
    "default_startup_program",
    "draw",
    "errors",
    "fixpoint",
    "global_scope",
    "gradients",
    "initializer",
    "layer",
    "layers",
    "lower",
    "ops",
    "optimize",
    "optimizer",
    "passes",
    "program",
    "program_guard",
    "schedule",
    "scope_guard",
    "train",
    "unique_name",
]
