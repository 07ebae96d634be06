"""The reference for optimized graphs: the fewest operators that the rules leave, and the values that numpy computes.

``fewest`` is value numbering over the neutral description, in one walk: every value is given the number of the first that equals it.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.peers.workload import SHAPE, Node, Workload

Array = NDArray[np.float32]

FUNCTIONS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "pow": np.power,
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, np.float32(0)),
}
_UNITS = {"add": (0.0, True), "mul": (1.0, True), "sub": (0.0, False), "div": (1.0, False), "pow": (1.0, False)}


def values(work: Workload) -> list[Array]:
    """The targets, computed in float32 from inputs that are always the same."""
    rng = np.random.default_rng(0)
    found: list[Array] = []
    for node in work.nodes:
        if node.kind == "input":
            found.append(rng.uniform(-1, 1, SHAPE).astype(np.float32))
        elif node.kind == "const":
            found.append(np.full(SHAPE, node.value, np.float32))
        else:
            args = [found[a] for a in node.args]
            found.append(reduce(FUNCTIONS[node.kind], args) if len(args) > 2 else FUNCTIONS[node.kind](*args))
    return [found[target] for target in work.targets]


def fewest(work: Workload) -> int:
    """How many operators are left when everything that can go is gone."""
    numbers: dict[Node, int] = {}
    kept: list[Node] = []
    stands: list[int] = []
    for i, node in enumerate(work.nodes):
        found = _simplified(Node(node.kind, tuple(stands[a] for a in node.args), i if node.kind == "input" else node.value), kept)
        if isinstance(found, Node):
            if found not in numbers:
                numbers[found] = len(kept)
                kept.append(found)
            found = numbers[found]
        stands.append(found)
    return _needed(kept, [stands[target] for target in work.targets])


def _simplified(node: Node, kept: list[Node]) -> Node | int:
    """The earlier value that equals a node, or what it becomes."""
    args = [kept[a] for a in node.args]
    if args and all(arg.kind == "const" for arg in args):
        return Node("const", (), float(FUNCTIONS[node.kind](*(np.float32(arg.value) for arg in args))))
    if node.kind in _UNITS:
        unit, either = _UNITS[node.kind]
        for place in (1, 0) if either else (1,):
            if args[place].kind == "const" and args[place].value == unit:
                return node.args[1 - place]
    if node.kind == "neg" and args[0].kind == "neg":
        return args[0].args[0]
    return node.args[0] if node.kind in ("abs", "relu") and args[0].kind == node.kind else node


def _needed(kept: list[Node], targets: list[int]) -> int:
    needed, stack = set(targets), list(targets)
    while stack:
        for arg in kept[stack.pop()].args:
            if arg not in needed:
                needed.add(arg)
                stack.append(arg)
    return sum(kept[number].is_operator for number in needed)
