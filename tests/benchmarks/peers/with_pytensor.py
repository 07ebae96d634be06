"""PyTensor: MergeOptimizer, constant_folding, and the ten rules as node rewriters, one an operator, driven to equilibrium.

Making a FunctionGraph of the targets drops the dead code, so that is the stage "dead code". Two variants: ``patterns``, the ten
rules as PatternNodeRewriters; ``canonicalize``, PyTensor's own rules instead of the ten, by the query merge + canonicalize, which do more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Constant
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import EquilibriumGraphRewriter, MergeOptimizer, PatternNodeRewriter, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.tensor.rewriting.basic import topo_constant_folding

from tests.benchmarks.peers.protocol import Peer, Stages, main, versions
from tests.benchmarks.peers.workload import SHAPE, Node, Workload

OPS: dict[str, Any] = {
    "add": pt.add,
    "sub": pt.sub,
    "mul": pt.mul,
    "div": pt.true_div,
    "max": pt.maximum,
    "pow": pt.pow,
    "neg": pt.neg,
    "abs": pt.abs,
    "exp": pt.exp,
    "tanh": pt.tanh,
}
KINDS = {op: kind for kind, op in OPS.items()}


def constant(value: float) -> Any:
    return pt.constant(np.full(SHAPE, value, np.float32))


def build(work: Workload) -> Any:
    """The inputs and the targets."""
    made: list[Any] = []
    for node in work.nodes:
        args = [made[a] for a in node.args]
        if node.kind == "input":
            made.append(pt.tensor(dtype="float32", shape=SHAPE))
        elif node.kind == "const":
            made.append(constant(node.value))
        elif node.kind == "relu":
            made.append(pt.maximum(args[0], constant(0.0)))
        else:
            made.append(OPS[node.kind](*args))
    inputs = [value for value, node in zip(made, work.nodes, strict=True) if node.kind == "input"]
    return inputs, [made[target] for target in work.targets]


def rewrite(rewriter: Any) -> Any:
    def stage(graph: Any) -> Any:
        rewriter.rewrite(graph)
        return graph

    return stage


# -- the rules -----------------------------------------------------------------------------------


def is_constant(value: Any, number: float) -> bool:
    return isinstance(value, Constant) and bool((value.data == number).all())


def keep_other(number: float, either: bool) -> Any:
    """A rewrite to the other argument, where one is the constant."""

    def rewrite_node(graph: Any, node: Any) -> Any:
        x, y = node.inputs
        if is_constant(y, number):
            return [x]
        return [y] if either and is_constant(x, number) else None

    return rewrite_node


def negative_twice(graph: Any, node: Any) -> Any:
    inner = node.inputs[0].owner
    return inner.inputs if inner is not None and inner.op == pt.neg else None


def abs_twice(graph: Any, node: Any) -> Any:
    inner = node.inputs[0].owner
    return node.inputs if inner is not None and inner.op == pt.abs else None


def relu_twice(graph: Any, node: Any) -> Any:
    x, y = node.inputs
    inner = x.owner
    twice = is_constant(y, 0.0) and inner is not None and inner.op == pt.maximum and is_constant(inner.inputs[1], 0.0)
    return [x] if twice else None


UNITS: list[tuple[Any, float, bool]] = [(pt.add, 0.0, True), (pt.mul, 1.0, True), (pt.sub, 0.0, False), (pt.true_div, 1.0, False)]
LOCAL = [node_rewriter([op])(keep_other(number, either)) for op, number, either in [*UNITS, (pt.pow, 1.0, False)]]
LOCAL += [node_rewriter([op])(twice) for op, twice in ((pt.neg, negative_twice), (pt.abs, abs_twice), (pt.maximum, relu_twice))]


def first_input(graph: Any, node: Any, found: Any) -> Any:
    return node.inputs[0]


ZERO, ONE = constant(0.0), constant(1.0)
PATTERNS: list[tuple[Any, Any]] = [
    ((pt.add, "x", ZERO), "x"),
    ((pt.add, ZERO, "x"), "x"),
    ((pt.mul, "x", ONE), "x"),
    ((pt.mul, ONE, "x"), "x"),
    ((pt.sub, "x", ZERO), "x"),
    ((pt.true_div, "x", ONE), "x"),
    ((pt.pow, "x", ONE), "x"),
    ((pt.neg, (pt.neg, "x")), "x"),
    ((pt.abs, (pt.abs, "x")), first_input),
    ((pt.maximum, (pt.maximum, "x", ZERO), ZERO), first_input),
]


def equilibrium(rewriters: list[Any]) -> Any:
    return rewrite(EquilibriumGraphRewriter(rewriters, max_use_ratio=10))


# -- the stages ----------------------------------------------------------------------------------


def live_graph(inputs_and_targets: Any) -> Any:
    return FunctionGraph(*inputs_and_targets, clone=False)


def read_back(graph: Any) -> Workload:
    nodes = [Node("input", ()) for _ in graph.inputs]
    numbers: dict[Any, int] = {value: i for i, value in enumerate(graph.inputs)}
    for apply in graph.toposort():
        for arg in apply.inputs:
            if arg not in numbers and isinstance(arg, Constant):
                numbers[arg] = len(nodes)
                nodes.append(Node("const", (), float(np.ravel(arg.data)[0])))
        numbers[apply.outputs[0]] = len(nodes)
        nodes.append(Node(KINDS.get(apply.op, str(apply.op)), tuple(numbers[arg] for arg in apply.inputs)))
    return Workload(tuple(nodes), tuple(numbers[each] for each in graph.outputs))


STAGES: Stages = {
    "dead code": live_graph,
    "rules": equilibrium(LOCAL),
    "folding": rewrite(topo_constant_folding),
    "cse": rewrite(MergeOptimizer()),
}
PATTERNED: Stages = STAGES | {"rules": equilibrium([PatternNodeRewriter(*rule, allow_multiple_clients=True) for rule in PATTERNS])}
CANONICAL: Stages = {"dead code": live_graph, "query": rewrite(optdb.query(RewriteDatabaseQuery(include=["merge", "canonicalize"])))}
PEER = Peer("PyTensor", versions("pytensor"), build, STAGES, read_back, {"patterns": PATTERNED, "canonicalize": CANONICAL})

if __name__ == "__main__":
    main(PEER)
