"""The IR of passes: graphs of single-assignment values, lowered from programs and scheduled back.

Here belongs what every pass works on: nodes, graphs, regions and their edits, lowering, scheduling, verifying and printing. What
decides whether and where to change a graph is in ``graphad.rewriting`` and ``graphad.passes``; names, blocks and text of programs
are in ``graphad.program``.
"""

from graphad.ir.builder import Builder, GraphSymbol
from graphad.ir.graph import SINGLE_WRITER, TYPED, Graph
from graphad.ir.lower import lower
from graphad.ir.nodes import Node, Op, Value
from graphad.ir.printer import print_graph
from graphad.ir.schedule import check_graph, schedule, write_back
from graphad.program.gc_pause import paused_collector

__all__ = [
    "SINGLE_WRITER",
    "TYPED",
    "Builder",
    "Graph",
    "GraphSymbol",
    "Node",
    "Op",
    "Value",
    "check_graph",
    "lower",
    "paused_collector",
    "print_graph",
    "schedule",
    "write_back",
]
