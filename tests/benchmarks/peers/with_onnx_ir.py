"""onnx-ir: its passes for unused nodes and common subexpressions, with the rewriter and constant folder of onnxscript.

Constants are initializers, scalars that broadcast, which is what the rewriter's patterns match. The variant ``optimize`` is what
``onnxscript.optimizer.optimize`` does as it comes, with rules of its own instead of the ten.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import PassManager, Sequential
from onnx_ir.passes.common import CommonSubexpressionEliminationPass, RemoveUnusedNodesPass
from onnxscript import optimizer
from onnxscript.rewriter import RewritePass, RewriteRule, RewriteRuleSet

from tests.benchmarks.peers.protocol import Peer, Stages, main, versions
from tests.benchmarks.peers.workload import SHAPE, Node, Workload

OPS = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "max": "Max",
    "pow": "Pow",
    "neg": "Neg",
    "abs": "Abs",
    "exp": "Exp",
    "tanh": "Tanh",
    "relu": "Relu",
}
KINDS = {op: kind for kind, op in OPS.items()}
FLOAT = ir.TensorType(ir.DataType.FLOAT)


def build(work: Workload) -> Any:
    made: list[Any] = []
    nodes: list[Any] = []
    for i, node in enumerate(work.nodes):
        if node.kind == "input":
            made.append(ir.val(f"x{i}", shape=SHAPE, type=FLOAT))
        elif node.kind == "const":
            value = ir.tensor(np.array(node.value, np.float32), name=f"c{i}")
            made.append(ir.val(f"c{i}", shape=(), type=FLOAT, const_value=value))
        else:
            constant = all(work.nodes[a].kind == "const" for a in node.args)
            result = ir.val(f"v{i}", shape=() if constant else SHAPE, type=FLOAT)
            nodes.append(ir.Node("", OPS[node.kind], [made[a] for a in node.args], outputs=[result], name=f"n{i}"))
            made.append(result)
    inputs = [value for value, node in zip(made, work.nodes, strict=True) if node.kind == "input"]
    constants = [value for value, node in zip(made, work.nodes, strict=True) if node.kind == "const"]
    targets = [made[target] for target in work.targets]
    graph = ir.Graph(inputs, targets, nodes=nodes, initializers=constants, opset_imports={"": 20}, name="main")
    return ir.Model(graph, ir_version=10)


# -- the rules -----------------------------------------------------------------------------------


def same(op: Any, x: Any) -> Any:
    return x


PATTERNS: list[tuple[Any, Any]] = [
    (lambda op, x: op.Add(x, 0.0), same),
    (lambda op, x: op.Add(0.0, x), same),
    (lambda op, x: op.Mul(x, 1.0), same),
    (lambda op, x: op.Mul(1.0, x), same),
    (lambda op, x: op.Sub(x, 0.0), same),
    (lambda op, x: op.Div(x, 1.0), same),
    (lambda op, x: op.Pow(x, 1.0), same),
    (lambda op, x: op.Neg(op.Neg(x)), same),
    (lambda op, x: op.Abs(op.Abs(x)), lambda op, x: op.Abs(x)),
    (lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(x)),
]
RULES = RewriteRuleSet([RewriteRule(before, after, remove_nodes=False) for before, after in PATTERNS])


# -- the stages ----------------------------------------------------------------------------------


def run(each: Any) -> Any:
    return lambda model: each(model).model


def fold(model: Any) -> Any:
    optimizer.fold_constants(model)
    return model


def optimize(model: Any) -> Any:
    return optimizer.optimize(model, num_iterations=10)


def read_back(model: Any) -> Workload:
    graph = model.graph
    nodes = [Node("input", ()) for _ in graph.inputs]
    numbers: dict[Any, int] = {value: i for i, value in enumerate(graph.inputs)}
    for value in graph.initializers.values():
        numbers[value] = len(nodes)
        nodes.append(Node("const", (), float(value.const_value.numpy())))
    for node in graph:
        numbers[node.outputs[0]] = len(nodes)
        nodes.append(Node(KINDS[node.op_type], tuple(numbers[arg] for arg in node.inputs)))
    return Workload(tuple(nodes), tuple(numbers[each] for each in graph.outputs))


STAGES: Stages = {
    "dead code": run(RemoveUnusedNodesPass()),
    "rules": run(PassManager([RewritePass(RULES)], steps=20, early_stop=True)),
    "cse": run(CommonSubexpressionEliminationPass()),
    "folding": fold,
    "dead code again": run(Sequential(RemoveUnusedNodesPass())),
}
PEER = Peer("onnx-ir", versions("onnx-ir", "onnxscript"), build, STAGES, read_back, {"optimize": {"optimize": optimize}})

if __name__ == "__main__":
    main(PEER)
