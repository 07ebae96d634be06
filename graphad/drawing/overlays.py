"""Numbers by node, shown as colors: given by the user, estimated from types, or found in what a run left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, log10

import numpy as np

from graphad.drawing.folding import Folding
from graphad.drawing.options import Measured, Options, keys_of
from graphad.errors import InvalidType, InvalidValue
from graphad.ir import Graph, Node
from graphad.ops.mesh import used_axes
from graphad.ops.rings import travels
from graphad.passes.analyses import Cost, Liveness, Sharding, estimated
from graphad.passes.analyses.cost import bytes_of, extents
from graphad.types import Sizes

TITLES = {
    "flops": "floating-point operations",
    "bytes": "bytes moved, bytes of values",
    "liveness": "bytes alive at each operator",
    "parts": "ranks that share a value",
    "sent": "bytes that a rank passes into collectives",
    "time": "seconds",
    "range": "greatest magnitude",
    "nan": "share of nan and infinities",
}
MANY_DECADES = 3.0  # from a thousandfold on, colors follow the logarithm


@dataclass(frozen=True)
class Overlay:
    """Numbers by node, with what they are; of copies drawn once the sum, or for sizes and ranges the greatest."""

    numbers: Mapping[Node, float]
    title: str

    @property
    def low(self) -> float:
        """The least finite number."""
        return min((x for x in self.numbers.values() if isfinite(x)), default=0.0)

    @property
    def high(self) -> float:
        """The greatest finite number."""
        return max((x for x in self.numbers.values() if isfinite(x)), default=0.0)

    @property
    def is_logarithmic(self) -> bool:
        """Whether colors follow the logarithm: nothing is below 0, and the numbers differ by more than a thousand."""
        least = min((x for x in self.numbers.values() if isfinite(x) and x > 0), default=0.0)
        return self.low >= 0 and least > 0 and log10(self.high / least) > MANY_DECADES

    def share(self, node: Node) -> float | None:
        """Where on the scale a node is, from 0 to 1; None for one without a number. What is not finite is at the upper end."""
        number = self.numbers.get(node)
        if number is None:
            return None
        low, high = self.low, self.high
        if not isfinite(number):
            return 1.0
        if self.is_logarithmic:
            least = min(x for x in self.numbers.values() if isfinite(x) and x > 0)
            return log10(max(number, least) / least) / log10(high / least)
        return (number - low) / (high - low) if high > low else 0.5

    def text(self, number: float) -> str:
        """A number in three digits, with a prefix for thousands."""
        if number == 0 or not isfinite(number) or 1e-3 <= abs(number) < 1e3:
            return f"{number:.3g}"
        for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(number) >= factor:
                return f"{number / factor:.3g}{prefix}"
        return f"{number / 1e-6:.3g}µ" if abs(number) >= 1e-6 else f"{number:.2e}"


def overlay_of(graph: Graph, folding: Folding, options: Options) -> Overlay | None:
    """The overlay that options request.

    Raises:
        TypeError: a number is none; what has to be measured was not given.
        ValueError: no node of the graph is among those given.
    """
    if options.overlay is None:
        return None
    name = ""
    if isinstance(options.overlay, str):
        name = options.overlay
        numbers = _named(graph, name, options)
    else:
        numbers = numbers_by_node(graph, options.overlay, "overlay")
    combine = sum if name in ("flops", "time") or not name else max
    title = options.overlay_title or TITLES.get(name, "overlay")
    return Overlay(_folded(numbers, folding, combine), title)


def _folded(numbers: Mapping[Node, float], folding: Folding, combine: Callable[[list[float]], float]) -> dict[Node, float]:
    numbers_by_node: dict[Node, list[float]] = {}
    for node, number in numbers.items():
        numbers_by_node.setdefault(folding.of(node), []).append(number)
    return {node: item[0] if len(item) == 1 else float(combine(item)) for node, item in numbers_by_node.items()}


def _named(graph: Graph, name: str, options: Options) -> dict[Node, float]:
    if name in ("flops", "bytes"):
        return _costs(graph, name, options.batch)
    if name == "liveness":
        return _alive(graph, options.batch)
    if name == "parts":
        return _parts(graph)
    if name == "sent":
        return _sent(graph, options.batch)
    if options.measured is None:
        expected_values = "seconds by operator" if name == "time" else "arrays by the names of values, as a run fetched them"
        raise InvalidType(f"overlay={name!r} shows what was measured: give it as measured=, {expected_values}")
    if name == "time":
        return numbers_by_node(graph, options.measured, "measured")
    look = _greatest if name == "range" else _share_not_finite
    return numbers_by_node(graph, {key: look(array) for key, array in options.measured.items()}, "measured")


def _costs(graph: Graph, name: str, batch: Sizes) -> dict[Node, float]:
    costs: dict[Node, float] = {}
    stack: list[Cost] = [estimated(graph, batch)]
    while stack:
        cost = stack.pop()
        stack += cost.nested.values()
        costs.update({op: float(op_cost.flops if name == "flops" else op_cost.moved) for op, op_cost in cost.ops.items()})
        if name == "bytes":
            costs.update({value: float(size) for value, size in cost.sizes.items() if size})
    return costs


def _parts(graph: Graph) -> dict[Node, float]:
    """Into how many parts annotations cut each value, and each operator by its results."""
    sharding = Sharding.of(graph)
    if sharding.mesh is None:
        raise InvalidValue("overlay='parts' shows what annotations make of values, but nothing is annotated: shard{mesh=..., spec=[...]}")
    values = [value for subgraph in graph.tree() for value in subgraph.values if value.shape is not None]
    parts: dict[Node, float] = {value: float(sharding.mesh.parts(used_axes(sharding[value]))) for value in values}
    for op in (op for subgraph in graph.tree() for op in subgraph.ops):
        parts[op] = max((parts.get(value, 1.0) for value in op.writes()), default=1.0)
    return parts


def _sent(graph: Graph, batch: Sizes) -> dict[Node, float]:
    """The bytes that each collective is passed, in nested graphs too, at it and at what it reads."""
    shapes, bytes_by_node = extents(graph, batch), dict[Node, float]()
    for op in (op for subgraph in graph.tree() for op in subgraph.ops if op.definition is not None and op.definition.ordered):
        if travels(op.type, 1.0, 2).messages:  # a slice of what every rank has sends nothing
            size = float(sum(bytes_of(value, shapes) for value in op.reads()))
            bytes_by_node.update(dict.fromkeys((op, *op.reads()), size))
    return bytes_by_node


def _alive(graph: Graph, batch: Sizes) -> dict[Node, float]:
    sizes, liveness = estimated(graph, batch).sizes, Liveness.of(graph)
    places = {op: place for place, op in enumerate(liveness.order)}
    decreases: dict[int, int] = {}
    increases: dict[int, int] = {}
    for value, end in liveness.last.items():
        if value not in liveness.owner:
            start = places[value.writers[0]] if value.writers else 0
            increases[start] = increases.get(start, 0) + sizes.get(value, 0)
            decreases[end + 1] = decreases.get(end + 1, 0) + sizes.get(value, 0)
    times: dict[Node, float] = {}
    total = 0
    for place, op in enumerate(liveness.order):
        total += increases.get(place, 0) - decreases.get(place, 0)
        times[op] = float(total)
    return times


def numbers_by_node(graph: Graph, numbers: Measured, what: str = "overlay") -> dict[Node, float]:
    """Numbers by the nodes they are meant for: a node, its operator or variable in the program, the name of a value.

    Raises:
        TypeError: a number is none.
        ValueError: no node of the graph is among those given.
    """
    keys = {key if isinstance(key, str) else id(key): number for key, number in numbers.items()}
    result: dict[Node, float] = {}
    for node in (node for subgraph in graph.tree() for node in (*subgraph.ops, *subgraph.values)):
        number = next((keys[key] for key in keys_of(node) if key in keys), None)
        if number is not None:
            result[node] = _number(number, what)
    if not result and keys:
        raise InvalidValue(f"{what} has no operator or value of this graph, but {', '.join(map(repr, list(numbers)[:3]))}")
    return result


def _number(value: object, what: str) -> float:
    if isinstance(value, str | bytes) or not isinstance(value, int | float | np.number | np.ndarray):
        raise InvalidType(f"{what} has numbers by node, not {value!r}")
    if np.size(value) != 1:
        raise InvalidType(f"{what} has one number for each node, not an array of shape {list(np.shape(value))}")
    return float(np.asarray(value).reshape(())) if np.ndim(value) == 0 else float(np.asarray(value).reshape(-1)[0])


def _greatest(array: object) -> float:
    numbers = np.append(np.abs(np.asarray(array, np.float64)), 0.0)
    finite = numbers[np.isfinite(numbers)]
    return float(finite.max()) if finite.size == numbers.size else float("nan")


def _share_not_finite(array: object) -> float:
    numbers = np.asarray(array)
    if not np.issubdtype(numbers.dtype, np.inexact) or not numbers.size:
        return 0.0
    return float(np.mean(~np.isfinite(numbers)))
