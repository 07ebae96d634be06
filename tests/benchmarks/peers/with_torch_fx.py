"""torch.fx: Inductor's pattern matcher and constant folder, AOTAutograd's common subexpressions, and Graph.eliminate_dead_code.

Constants are ``aten.full``, as traced programs have them. The variant ``CSEPass`` takes torch.fx's own pass for common subexpressions,
which also writes the module's Python anew; ``replace_pattern`` takes torch.fx's own subgraph rewriter for the rules.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.compile_utils import fx_graph_cse
from torch._inductor.constant_folding import ConstantFolder, replace_node_with_constant
from torch._inductor.pattern_matcher import MULTIPLE, CallFunction, Ignored, KeywordArg, PatternMatcherPass, register_graph_pattern
from torch.fx import Graph, GraphModule, subgraph_rewriter
from torch.fx.passes.dialect.common.cse_pass import CSEPass

from tests.benchmarks.peers.protocol import Peer, Stages, main, versions
from tests.benchmarks.peers.workload import SHAPE, Node, Workload

aten = torch.ops.aten

TARGETS = {
    "add": aten.add.Tensor,
    "sub": aten.sub.Tensor,
    "mul": aten.mul.Tensor,
    "div": aten.div.Tensor,
    "max": aten.maximum.default,
    "pow": aten.pow.Tensor_Scalar,
    "neg": aten.neg.default,
    "abs": aten.abs.default,
    "exp": aten.exp.default,
    "tanh": aten.tanh.default,
    "relu": aten.relu.default,
}
KINDS = {target: kind for kind, target in TARGETS.items()}


def build(work: Workload) -> Any:
    graph = Graph()
    made: list[Any] = []
    for i, node in enumerate(work.nodes):
        args = [made[a] for a in node.args]
        if node.kind == "input":
            made.append(graph.placeholder(f"x{i}"))
        elif node.kind == "const":
            made.append(graph.call_function(aten.full.default, (list(SHAPE), node.value)))
        elif node.kind == "pow":
            made.append(graph.call_function(TARGETS["pow"], (args[0], work.nodes[node.args[1]].value)))
        else:
            made.append(graph.call_function(TARGETS[node.kind], tuple(args)))
    graph.output([made[target] for target in work.targets])
    return GraphModule({}, graph)


# -- the rules -----------------------------------------------------------------------------------


def keep_x(match: Any, x: Any) -> None:
    match.output_node().replace_all_uses_with(x)
    match.erase_nodes()


def keep_inner(match: Any, x: Any) -> None:
    outer = match.output_node()
    outer.replace_all_uses_with(outer.args[0])
    match.graph.erase_node(outer)


def matcher() -> Any:
    """The ten rules for Inductor's pattern matcher."""
    rules = PatternMatcherPass(pass_name="ten rules")
    x = KeywordArg("x")
    zero, one = (CallFunction(aten.full.default, Ignored(), value, _users=MULTIPLE) for value in (0.0, 1.0))
    units = [("add", x, zero), ("add", zero, x), ("mul", x, one), ("mul", one, x), ("sub", x, zero), ("div", x, one), ("pow", x, 1.0)]
    for kind, *args in units:
        register_graph_pattern(CallFunction(TARGETS[kind], *args), pass_dict=rules)(keep_x)
    for kind, handler in (("neg", keep_x), ("abs", keep_inner), ("relu", keep_inner)):
        inner = CallFunction(TARGETS[kind], x, _users=MULTIPLE)
        register_graph_pattern(CallFunction(TARGETS[kind], inner), pass_dict=rules)(handler)
    return rules


def full(value: float) -> Any:
    return aten.full.default(list(SHAPE), value)


REPLACEMENTS: list[tuple[Any, Any]] = [
    (lambda x: aten.add.Tensor(x, full(0.0)), lambda x: x),
    (lambda x: aten.add.Tensor(full(0.0), x), lambda x: x),
    (lambda x: aten.mul.Tensor(x, full(1.0)), lambda x: x),
    (lambda x: aten.mul.Tensor(full(1.0), x), lambda x: x),
    (lambda x: aten.sub.Tensor(x, full(0.0)), lambda x: x),
    (lambda x: aten.div.Tensor(x, full(1.0)), lambda x: x),
    (lambda x: aten.pow.Tensor_Scalar(x, 1.0), lambda x: x),
    (lambda x: aten.neg.default(aten.neg.default(x)), lambda x: x),
    (lambda x: aten.abs.default(aten.abs.default(x)), lambda x: aten.abs.default(x)),
    (lambda x: aten.relu.default(aten.relu.default(x)), lambda x: aten.relu.default(x)),
]


# -- the stages ----------------------------------------------------------------------------------


def dead_code(module: Any) -> Any:
    module.graph.eliminate_dead_code()
    return module


def rules(module: Any) -> Any:
    while RULES.apply(module):
        pass
    return module


def replaced(module: Any) -> Any:
    while sum(len(subgraph_rewriter.replace_pattern(module, before, after)) for before, after in REPLACEMENTS):
        pass
    return module


def subexpressions(module: Any) -> Any:
    module.graph = fx_graph_cse(module.graph)
    return module


def subexpressions_pass(module: Any) -> Any:
    return CSEPass()(module).graph_module


def fold(module: Any) -> Any:
    folder = ConstantFolder(module)
    folder.run()
    for node, constant in folder.node_replacements.items():
        if node.target is not aten.full.default:
            replace_node_with_constant(module, node, constant)
    return module


def read_back(module: Any) -> Workload:
    numbers: dict[Any, int] = {}
    nodes: list[Node] = []
    for node in module.graph.nodes:
        if node.op == "output":
            return Workload(tuple(nodes), tuple(numbers[each] for each in node.args[0]))
        if node.op == "placeholder":
            nodes.append(Node("input", ()))
        elif node.op == "get_attr":
            nodes.append(Node("const", (), float(getattr(module, node.target)[0])))
        elif node.target is aten.full.default:
            nodes.append(Node("const", (), node.args[1]))
        elif node.target is aten.pow.Tensor_Scalar:
            nodes += [Node("const", (), node.args[1]), Node("pow", (numbers[node.args[0]], len(nodes)))]
        else:
            nodes.append(Node(KINDS[node.target], tuple(numbers[arg] for arg in node.args)))
        numbers[node] = len(nodes) - 1
    raise AssertionError("a graph ends in its output")


RULES = matcher()
STAGES: Stages = {"dead code": dead_code, "rules": rules, "cse": subexpressions, "folding": fold, "dead code again": dead_code}
VARIANTS: dict[str, Stages] = {"CSEPass": STAGES | {"cse": subexpressions_pass}, "replace_pattern": STAGES | {"rules": replaced}}
PEER = Peer("torch.fx", versions("torch"), build, STAGES, read_back, VARIANTS)

if __name__ == "__main__":
    main(PEER)
