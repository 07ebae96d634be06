"""ONNX files said in other ways: later operator sets, weights as constants or inputs, all of it in an If or a Loop.

Each gives the same outputs, and the same gradients, as the file that it is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

Proto = Any
Variant = Callable[[Proto], Proto]


def _copy(model: Proto) -> Proto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    return made


def version(model: Proto) -> int:
    """The operator set of the default domain."""
    return next((int(item.version) for item in model.opset_import if item.domain in ("", "ai.onnx")), 1)


def later(model: Proto) -> Proto:
    """In a later operator set."""
    return version_converter.convert_version(_copy(model), 21 if version(model) < 21 else version(model) + 1)


def with_constants(model: Proto) -> Proto:
    """Initializers as Constant nodes."""
    made = _copy(model)
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in made.graph.initializer]
    rest = list(made.graph.node)
    del made.graph.node[:], made.graph.initializer[:]
    made.graph.node.extend([*nodes, *rest])
    return made


def with_listed_inputs(model: Proto) -> Proto:
    """Initializers among the inputs as well, as files before version 4 of the format have them."""
    made = _copy(model)
    made.graph.input.extend(helper.make_tensor_value_info(each.name, each.data_type, list(each.dims)) for each in made.graph.initializer)
    return made


def in_if(model: Proto) -> Proto:
    """All nodes in both branches of an If that an input chooses."""
    made = _copy(model)
    branches = []
    for name in ("then", "else"):
        nodes, results = _nodes(made, f"{name}.inner.", f"{name}.")
        branches.append(helper.make_graph(nodes, name, [], results))
    node = helper.make_node("If", ["which"], [each.name for each in made.graph.output], then_branch=branches[0], else_branch=branches[1])
    made.graph.input.append(helper.make_tensor_value_info("which", TensorProto.BOOL, []))
    return _with_nodes(made, [node])


def in_loop(model: Proto) -> Proto:
    """All nodes in the body of a Loop of one iteration, whose outputs are stacked."""
    made = _copy(model)
    nodes, results = _nodes(made, "inner.", "scan.")
    inputs = [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, [])]
    outputs = [helper.make_tensor_value_info("goes", TensorProto.BOOL, []), *results]
    body = helper.make_graph([*nodes, helper.make_node("Identity", ["go"], ["goes"])], "body", inputs, outputs)
    for name, value in (("loop.count", 1), ("loop.first", [0])):
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(value, "int64"), name))
    stacked = [f"stacked.{each.name}" for each in made.graph.output]
    loop = helper.make_node("Loop", ["loop.count", ""], stacked, body=body)
    pairs = zip(stacked, made.graph.output, strict=True)
    return _with_nodes(made, [loop, *(helper.make_node("Squeeze", [name, "loop.first"], [each.name]) for name, each in pairs)])


def _nodes(model: Proto, prefix: str, result: str) -> tuple[list[Proto], list[Proto]]:
    """The nodes of a model for a nested graph, what they make under other names, and its outputs."""
    made = {output for node in model.graph.node for output in node.output if output}
    ends = [(prefix + each.name if each.name in made else each.name, each) for each in model.graph.output]
    copies = [helper.make_node("Identity", [name], [result + each.name]) for name, each in ends]
    results = [helper.make_tensor_value_info(result + each.name, each.type.tensor_type.elem_type, None) for _, each in ends]
    return [*(_with_names(node, made, prefix) for node in model.graph.node), *copies], results


def _with_nodes(model: Proto, nodes: list[Proto]) -> Proto:
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.extend(nodes)
    return model


def _with_names(node: Proto, made: set[str], prefix: str) -> Proto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [prefix + name if name in made else name for name in node.input]
    copy.output[:] = [prefix + name if name in made else name for name in node.output]
    for attribute in copy.attribute:
        for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
            inner = [_with_names(each, made, prefix) for each in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
            for info in graph.output:
                info.name = prefix + info.name if info.name in made else info.name
    return copy


VARIANTS: dict[str, Variant] = {
    "a later operator set": later,
    "weights as constants": with_constants,
    "weights among the inputs": with_listed_inputs,
    "in an If": in_if,
    "in a Loop": in_loop,
}
