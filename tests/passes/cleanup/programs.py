"""Programs for the tests of cleaning passes, as text in and text out."""

from __future__ import annotations

import graphad as ga


def graph_of(operators: str, declared: str = "x y: float32[3]", targets: list[str] | None = None, more: str = "") -> ga.Graph:
    """The graph of a block of operators, one a line; ``declared`` says the types of some names, ``more`` are blocks after it."""
    lines = [line.strip() for line in operators.strip().splitlines()]
    variables = [f"var {name}: {kind}" for part in declared.split(";") for names, kind in [part.split(":")] for name in names.split()]
    text = "program {\n  block 0 {\n" + "".join(f"    {line}\n" for line in [*variables, *lines]) + "  }\n" + more + "}\n"
    return ga.lower(ga.Program.parse(text), targets)


def operators(graph: ga.Graph) -> list[str]:
    """The operators of a graph as text, without the types."""
    return [repr(op) for op in graph.ops]


def types(graph: ga.Graph) -> list[str]:
    """The types of a graph's operators."""
    return [op.type for op in graph.ops]


LOOP = """\
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
    fill_constant() -> (Out=n) {shape=[1], value=3.0, dtype="int64"}
    less_than(X=i, Y=n) -> (Out=more)
    while(X=[h, k, x, i, n], Condition=more) -> (Out=[h, k, i, more], StepScopes=scopes) {sub_block=block(1)}
    mean(X=h) -> (Out=loss)"""
LOOP_TYPES = "x h k: float32[3]; i n: int64[1]; more: bool[1]; loss: float32[]; scopes: ?[?] STEP_SCOPES"


def body(statements: str) -> str:
    """A loop's block that counts to n besides."""
    given = (line.strip() for line in statements.strip().splitlines())
    lines = ["var t: float32[3]", *given, "increment(X=i) -> (Out=i)", "less_than(X=i, Y=n) -> (Out=more)"]
    return "  block 1 in 0 {\n" + "".join(f"    {line}\n" for line in lines) + "  }\n"


def loop_graph(statements: str, before: str = "") -> tuple[ga.Graph, ga.Graph]:
    """The graph of a loop over h and k, of which only h is requested, and the graph nested in it."""
    graph = graph_of(before + LOOP, LOOP_TYPES, ["loss"], body(statements))
    (loop,) = graph.controls
    (inner,) = loop.graphs.values()
    return graph, inner
