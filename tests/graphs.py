"""Small graphs to try things on, and whether a graph's books are in order."""

from __future__ import annotations

from typing import Any

import networkx as nx

import graphad as ga
from graphad.ir import Op
from graphad.ir.verify import in_graph, linked


def diamond() -> ga.Graph:
    """tanh(x) -> h, sin(h) -> a, exp(h) -> b, elementwise_add(a, b) -> y."""
    program = ga.Program()
    block = program.global_block()
    block.create_var(name="x", shape=[2], dtype="float64")
    for op_type, x, out in (("tanh", "x", "h"), ("sin", "h", "a"), ("exp", "h", "b")):
        block.append_op(type=op_type, inputs={"X": x}, outputs={"Out": out})
    block.append_op(type="elementwise_add", inputs={"X": "a", "Y": "b"}, outputs={"Out": "y"})
    return ga.lower(program)


def written_over() -> ga.Graph:
    """x = x + 1, twice; tanh(x) -> y."""
    program = ga.Program()
    block = program.global_block()
    block.create_var(name="x", shape=[2], dtype="float64")
    for _ in range(2):
        block.append_op(type="increment", inputs={"X": "x"}, outputs={"Out": "x"})
    block.append_op(type="tanh", inputs={"X": "x"}, outputs={"Out": "y"})
    return ga.lower(program)


def op(graph: ga.Graph, type: str) -> Op:
    (found,) = [each for each in graph.ops if each.type == type]
    return found


def types(graph: ga.Graph) -> list[str]:
    return [each.type for each in graph.ops]


def sound(graph: ga.Graph) -> bool:
    """Whether operators, values and networkx's tables agree with each other."""
    forwards, backwards = list(graph.ops), list(reversed(graph.ops))
    ends = [(v, each) for each in forwards for v in each.reads()] + [(each, v) for each in forwards for v in each.writes()]
    plain: nx.MultiDiGraph[Any] = nx.MultiDiGraph(graph)
    return (
        not list(linked(graph))
        and not list(in_graph(graph))
        and forwards == backwards[::-1]
        and len(graph.ops) == len(forwards)
        and len(graph.values) == len(list(graph.values)) == sum(len(graph.versions(name)) for name in graph.values.by_name)
        and sorted(map(repr, plain.edges())) == sorted(map(repr, ends))
        and set(plain) == {*forwards, *graph.values}
    )
