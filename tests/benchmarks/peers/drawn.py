"""Drawings of a network by other libraries: python tests/benchmarks/peers/drawn.py torchviz LAYERS FILE

The network is fully connected: ``tanh(h @ w + b)`` for each layer, then the mean, and the gradients of all parameters. A line that is
printed is JSON: seconds of the drawing, processor time with that of Graphviz, from the library's own graph on.
``tests.benchmarks.drawing_peers`` runs this with the interpreter that has the peers; each is imported by the function that draws with it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

WIDTH, BATCH = 8, 4
LIMIT = 60  # seconds of processor time that a drawing may take, and that Graphviz may


def spent() -> float:
    """Seconds of processor time of this process and of those it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def graphviz(dot: str, path: Path) -> None:
    """An SVG by Graphviz, as the library has it made."""
    subprocess.run(["dot", "-Tsvg", "-o", str(path)], input=dot.encode(), check=True)


def torch_network(layers: int) -> Any:
    """The parameters, and the network as a function of them and its input."""
    torch = import_module("torch")

    parameters = {}
    for i in range(layers):
        parameters[f"fc_{i}.w"] = torch.full((WIDTH, WIDTH), 0.1, requires_grad=True)
        parameters[f"fc_{i}.b"] = torch.zeros(WIDTH, requires_grad=True)

    def network(x: Any, *values: Any) -> Any:
        for i in range(layers):
            x = torch.tanh(x @ values[2 * i] + values[2 * i + 1])
        return x.mean()

    return parameters, network, torch.ones(BATCH, WIDTH)


def torchviz(layers: int, path: Path) -> float:
    """The graph of autograd, as torchviz draws it: the backward."""
    make_dot = import_module("torchviz").make_dot

    parameters, network, x = torch_network(layers)
    loss = network(x, *parameters.values())
    sys.setrecursionlimit(100_000)
    start = spent()
    graphviz(make_dot(loss, params=parameters).source, path)
    return spent() - start


def torch_fx(layers: int, path: Path) -> float:
    """Forward and backward, traced to one graph, as torch.fx's drawer draws it."""
    torch = import_module("torch")
    make_fx = import_module("torch.fx.experimental.proxy_tensor").make_fx
    FxGraphDrawer = import_module("torch.fx.passes.graph_drawer").FxGraphDrawer

    parameters, network, x = torch_network(layers)

    def gradients(x: Any, *values: Any) -> Any:
        loss = network(x, *values)
        return loss, *torch.autograd.grad(loss, values)

    module = make_fx(gradients)(x, *parameters.values())
    start = spent()
    graphviz(FxGraphDrawer(module, "network").get_dot_graph().to_string(), path)
    return spent() - start


def d3viz(layers: int, path: Path) -> float:
    """Forward and backward, as PyTensor's d3viz writes them into a page."""
    pt = import_module("pytensor.tensor")
    write = import_module("pytensor.d3viz").d3viz

    x, parameters = pt.matrix("x"), []
    sys.setrecursionlimit(100_000)
    h = x
    for i in range(layers):
        w, b = pt.matrix(f"fc_{i}.w"), pt.vector(f"fc_{i}.b")
        parameters += [w, b]
        h = pt.tanh(pt.dot(h, w) + b)
    loss = h.mean()
    grad = import_module("pytensor").grad
    FunctionGraph = import_module("pytensor.graph").FunctionGraph

    graph = FunctionGraph([x, *parameters], [loss, *grad(loss, parameters)], clone=True)
    start = spent()
    write(graph, str(path))
    return spent() - start


def netron(layers: int, path: Path) -> float:
    """The forward as an ONNX file, which Netron shows."""
    onnx = import_module("onnx")
    TensorProto = import_module("onnx").TensorProto
    helper = import_module("onnx").helper

    nodes, weights, h = [], [], "x"
    for i in range(layers):
        weights += [
            helper.make_tensor(f"fc_{i}.w", TensorProto.FLOAT, [WIDTH, WIDTH], [0.1] * WIDTH**2),
            helper.make_tensor(f"fc_{i}.b", TensorProto.FLOAT, [WIDTH], [0.0] * WIDTH),
        ]
        nodes += [
            helper.make_node("MatMul", [h, f"fc_{i}.w"], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", f"fc_{i}.b"], [f"a{i}"]),
            helper.make_node("Tanh", [f"a{i}"], [f"h{i}"]),
        ]
        h = f"h{i}"
    nodes.append(helper.make_node("ReduceMean", [h], ["loss"], keepdims=0))
    x, loss = (
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, WIDTH]),
        helper.make_tensor_value_info("loss", TensorProto.FLOAT, []),
    )
    onnx.save(helper.make_model(helper.make_graph(nodes, "network", [x], [loss], weights)), path)
    return 0.0


def tinygrad(layers: int, path: Path) -> float:
    """Forward and backward as tinygrad's VIZ records them, before they are scheduled."""
    os.environ |= {"VIZ": "-1", "DEV": "NULL"}  # records, and starts no server
    Tensor = import_module("tinygrad").Tensor

    x, parameters = Tensor.empty(BATCH, WIDTH), []
    sys.setrecursionlimit(100_000)
    h = x
    for _ in range(layers):
        w, b = Tensor.empty(WIDTH, WIDTH), Tensor.empty(WIDTH)
        parameters += [w, b]
        h = (h @ w + b).tanh()
    gradients = h.mean().gradient(*parameters)
    start = spent()
    gradients[0].schedule_linear(*gradients[1:])
    return spent() - start


PEERS: dict[str, Callable[[int, Path], float]] = {
    "torchviz": torchviz,
    "torch.fx": torch_fx,
    "d3viz": d3viz,
    "Netron": netron,
    "tinygrad": tinygrad,
}

if __name__ == "__main__":
    kind, layers, path = sys.argv[1:4]
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))  # also of Graphviz
    print(json.dumps({"seconds": PEERS[kind](int(layers), Path(path))}))
