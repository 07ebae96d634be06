"""What a pass sees: graphs of single-assignment values, lowered from programs and scheduled back."""

from graphad.graph.builder import Builder, GraphSymbol
from graphad.graph.collector import paused_collector
from graphad.graph.graph import Graph
from graphad.graph.journal import SINGLE_WRITER, TYPED
from graphad.graph.lower import lower
from graphad.graph.nodes import Node, Op, Value
from graphad.graph.schedule import check_graph, schedule, write_back
from graphad.graph.text import print_graph

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
