"""graphad: a pipeline of its passes, given as text; by default those that do what the peers do, with the ten rules as a pass of their own.

    python -m tests.benchmarks.peers.with_graphad 10000 [--pipeline TEXT] [--variant verified]

Lowering is timed for itself and not counted: the peers' graphs are made untimed too. Nothing is verified between the passes, as with
the peers; the variant ``verified`` is what a user has who does not switch that off. Fluid has no neg: it is ``scale`` by -1.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import networkx as nx

import graphad as ga
from graphad import ops
from graphad.errors import InvalidValue
from graphad.ir import Op
from graphad.rewriting import verification
from tests.benchmarks.peers.protocol import Peer, Stages, main
from tests.benchmarks.peers.reference import FUNCTIONS
from tests.benchmarks.peers.workload import SHAPE, Node, Workload

PIPELINE = "fixpoint(dead-code, ten-rules, constant-folding, cse)"


@ga.rewrite(fast=False)
def negated_twice(x: Any) -> Any:
    return ops.scale(ops.scale(x, scale=-1.0), scale=-1.0), x


SHARED = "add-zero subtract-zero multiply-by-one divide-by-one pow-one absolute-of-absolute relu-of-relu"


@dataclass(frozen=True)
class TenRules(ga.RulePass):
    """The rules that all peers have, from those of simplify: two of them take their operands in either order."""

    name = "ten-rules"
    rules = ga.RuleSet([negated_twice, *(ga.passes.Simplify().rules()[name] for name in SHARED.split())])


BINARY = {
    "add": "elementwise_add",
    "sub": "elementwise_sub",
    "mul": "elementwise_mul",
    "div": "elementwise_div",
    "max": "elementwise_max",
}
KINDS = {op: kind for kind, op in BINARY.items()}


def build(work: Workload) -> Any:
    """A program, and the names of its targets."""
    program = ga.Program()
    block = program.global_block()
    for i, node in enumerate(work.nodes):
        if node.kind == "input":
            block.create_var(f"v{i}", list(SHAPE), "float32")
        else:
            type_, inputs, attrs = described(node, work)
            block.append_op(type_, inputs, {"Out": f"v{i}"}, attrs)
    return program, [f"v{target}" for target in work.targets]


def described(node: Node, work: Workload) -> tuple[str, dict[str, str], dict[str, Any]]:
    """The type, inputs and attributes of a node's operator."""
    args = [f"v{a}" for a in node.args]
    if node.kind == "const":
        return "fill_constant", {}, {"shape": list(SHAPE), "value": node.value, "dtype": "float32"}
    if node.kind in BINARY:
        return BINARY[node.kind], {"X": args[0], "Y": args[1]}, {}
    if node.kind == "pow":
        return "pow", {"X": args[0]}, {"factor": work.nodes[node.args[1]].value}
    return ("scale", {"X": args[0]}, {"scale": -1.0}) if node.kind == "neg" else (node.kind, {"X": args[0]}, {})


def lower(program_and_targets: Any) -> Any:
    program, targets = program_and_targets
    return ga.lower(program, targets)


def stages(pipeline: str, verified: bool = False) -> Stages:
    passes = ga.Pipeline.parse(pipeline)

    def optimize(graph: Any) -> Any:
        with verification(verified):
            passes.run(graph)
        return graph

    return {"pipeline": optimize}


def read_back(graph: Any) -> Workload:
    nodes: list[Node] = []
    numbers: dict[Any, int] = {}
    for value in sorted((value for value in graph.values if not value.writers), key=lambda value: int(value.name[1:])):
        numbers[value] = len(nodes)
        nodes.append(Node("input", ()))
    for op in graph.ops:
        nodes += read_op(op, numbers, len(nodes))
        numbers[op.output("Out")] = len(nodes) - 1
    return Workload(tuple(nodes), tuple(numbers[target] for target in graph.targets))


def read_op(op: Op, numbers: dict[Any, int], place: int) -> list[Node]:
    """An operator as a node, after the constant that is an attribute here; ValueError for an operator that the workload has not."""
    if op.type in ("fill_constant", "assign_value"):
        values = [values for name, values in op.attrs.items() if name.endswith("values") and len(values)]
        return [Node("const", (), float(values[0][0] if values else op.attrs.get("value", 0.0)))]
    x = numbers[op.input("X")]
    if op.type in KINDS:
        return [Node(KINDS[op.type], (x, numbers[op.input("Y")]))]
    if op.type == "pow":
        return [Node("const", (), op.attrs.get("factor", 1.0)), Node("pow", (x, place))]
    if op.type == "scale" and (op.attrs.get("scale", 1.0), op.attrs.get("bias", 0.0)) == (-1.0, 0.0):
        return [Node("neg", (x,))]
    if op.type in FUNCTIONS:
        return [Node(op.type, (x,))]
    raise InvalidValue(f"the workload has no operator {op.type} with {dict(op.attrs)}")


def peer(pipeline: str) -> Peer:
    variants = {"verified": stages(pipeline, verified=True)}
    return Peer(
        "graphad", f"graphad {ga.__version__}, networkx {nx.__version__}", build, stages(pipeline), read_back, variants, {"lower": lower}
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--pipeline", default=PIPELINE)
    own, rest = parser.parse_known_args()
    main(peer(own.pipeline), rest)
