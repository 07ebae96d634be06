"""Numbers by node, shown as colors: given by the user, estimated from types, or found in what a run left; and groups of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite, log10

import numpy as np

from graphad.drawing.folding import Folding
from graphad.drawing.groups import Groups
from graphad.drawing.options import Measured, Options, keys_of
from graphad.drawing.theme import ink_on, scale_color
from graphad.errors import InvalidType, InvalidValue
from graphad.ir import Graph, Node, Op, Value
from graphad.ops.mesh import SPEC, UNCUT, ProcessMesh, spec_text, used_axes
from graphad.ops.rings import communicates, travels
from graphad.passes.analyses import Cost, Liveness, Sharding, estimated
from graphad.passes.analyses.cost import bytes_of, extents
from graphad.passes.analyses.sharding import ANNOTATION
from graphad.types import Shape, Sizes

TITLES = {
    "flops": "floating-point operations",
    "bytes": "bytes moved, bytes of values",
    "liveness": "bytes alive at each operator",
    "parts": "ranks that share a value",
    "sent": "bytes that a rank passes into collectives",
    "ranks": "cut along",
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
        """The place of a node on the scale, from 0 to 1; None for one without a number. Infinities and nan are at the upper end."""
        number = self.numbers.get(node)
        if number is None:
            return None
        low, high = self.low, self.high
        if not isfinite(number):
            return 1.0
        if self.is_logarithmic:
            # On a logarithmic scale zero and below are at the lower end.
            least = min(x for x in self.numbers.values() if isfinite(x) and x > 0)
            return log10(max(number, least) / least) / log10(high / least)
        # Numbers that are all equal are in the middle of the scale.
        return (number - low) / (high - low) if high > low else 0.5

    def color(self, node: Node) -> tuple[str, str] | None:
        """The color of a node, and that of text on it; None for one without a number."""
        share = self.share(node)
        return None if share is None else (scale_color(share), ink_on(share))

    def words(self, node: Node) -> str | None:
        """The tooltip of a node."""
        return f"{self.title}: {self.numbers[node]:g}" if node in self.numbers else None

    def text(self, number: float) -> str:
        """A number in three digits, with a prefix for thousands."""
        return short(number)


def short(number: float) -> str:
    """A number in three digits, with a prefix for thousands."""
    if number == 0 or not isfinite(number) or 1e-3 <= abs(number) < 1e3:
        return f"{number:.3g}"
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= factor:
            return f"{number / factor:.3g}{prefix}"
    return f"{number / 1e-6:.3g}µ" if abs(number) >= 1e-6 else f"{number:.2e}"


SEVERAL = "several"  # of copies drawn once that are in different groups


def overlay_of(graph: Graph, folding: Folding, options: Options) -> Overlay | Groups | None:
    """The overlay that options request.

    Raises:
        TypeError: a number is none; what has to be measured was not given.
        ValueError: no node of the graph is among those given.
    """
    if options.overlay is None:
        return None
    name = ""
    if isinstance(options.overlay, Groups):
        return _folded_groups(_between(graph, options.overlay, options.batch), folding)
    if options.overlay == "ranks":
        return _folded_groups(_ranks(graph, options.batch), folding)
    if isinstance(options.overlay, str):
        name = options.overlay
        numbers = _named(graph, name, options)
    else:
        numbers = numbers_by_node(graph, options.overlay, "overlay")
    # Costs of folded copies add up; of measures such as ranges the largest is shown.
    combine = sum if name in ("flops", "time") or not name else max
    title = options.overlay_title or TITLES.get(name, "overlay")
    return Overlay(_folded(numbers, folding, combine), title)


def _folded_groups(groups: Groups, folding: Folding) -> Groups:
    names: dict[Node, str] = {}
    for node, name in groups.names.items():
        drawn_node = folding.of(node)
        names[drawn_node] = name if names.get(drawn_node, name) == name else SEVERAL
    return replace(groups, names=names)


def _between(graph: Graph, groups: Groups, batch: Sizes) -> Groups:
    """Groups by nodes: a value is in that of its writer, unless it has one; and what goes from one to another."""
    # Names stay names; other keys are told apart by identity, since variables compare elementwise.
    keys = {key if isinstance(key, str) else id(key): str(name) for key, name in groups.names.items()}
    names: dict[Node, str] = {}
    for node in (node for subgraph in graph.tree() for node in (*subgraph.ops, *subgraph.values)):
        name = next((keys[key] for key in keys_of(node) if key in keys), None)
        if name is not None:
            names[node] = name
    if not names and keys:
        raise InvalidValue(f"overlay has no operator or value of this graph, but {', '.join(map(repr, list(groups.names)[:3]))}")
    ops = [op for subgraph in graph.tree() for op in subgraph.ops]
    for op in ops:  # operators are where they write, values where they are written
        name = names.get(op) or next((names[value] for value in op.writes() if value in names), None)
        if name is not None:
            names[op] = name
            for value in op.writes():
                names.setdefault(value, name)
    for value in graph.inputs:  # what is given is where it is read
        readers = {names.get(op, "") for op in value.readers}
        if len(readers) == 1 and readers != {""}:
            names.setdefault(value, readers.pop())
    return Groups(names, groups.title, _crossing(graph, names, batch))


def _crossing(graph: Graph, names: Mapping[Node, str], batch: Sizes) -> dict[tuple[Value, Op], str]:
    """The bytes that go from one group to another: a value goes there once, to the first of its readers."""
    # The batch says what unknown extents count as.
    shapes, first = extents(graph, batch), dict[tuple[Value, str], Op]()
    for op in (op for subgraph in graph.tree() for op in subgraph.ordered_ops() if op in names):
        for value in op.reads():
            if names.get(value, names[op]) != names[op]:
                # Each group gets a value once, however many of its operators read it.
                first.setdefault((value, names[op]), op)
    return {(value, op): _size(value, shapes) for (value, _), op in first.items()}


WHOLE, TERMS, COMMUNICATES = "nothing: whole on every rank", "nothing: terms of a sum", "communication"


def _ranks(graph: Graph, batch: Sizes) -> Groups:
    """How values lie on the mesh of annotations, or of a partition; collectives with what goes into them."""
    specs, shapes = _specs(graph), extents(graph, batch)
    names: dict[Node, str] = {value: _axes(spec) for value, spec in specs.items()}
    messages: dict[tuple[Value, Op], str] = {}
    ops = [op for subgraph in graph.tree() for op in subgraph.ops]
    mesh = next((ProcessMesh.parse(op.attrs["mesh"]) for op in ops if op.type == ANNOTATION), None)
    for op in ops:
        axes = [names[value] for value in op.writes() if value in specs]
        if axes:
            # An operator cuts as its most cut result.
            names[op] = max(axes, key=len)
        if op.definition is not None and op.definition.ordered and _sends(op):
            names[op] = COMMUNICATES
            messages.update({(value, op): f"{_size(value, shapes)}{_along(op, mesh)}" for value in op.reads()})
    if not specs and not messages:
        raise InvalidValue("overlay='ranks' shows how values lie on a mesh, but nothing is annotated: shard{mesh=..., spec=[...]}")
    # A partition leaves values of which a rank has a term, not a part: they are what goes into an all-reduce.
    terms = [value for value, _ in messages if specs and value not in specs]
    while terms:
        value = terms.pop()
        names.setdefault(value, TERMS)
        for op in (op for op in value.writers if op not in names):
            names[op] = TERMS
            terms += [operand for operand in op.reads() if operand not in names]
    order = {COMMUNICATES: 3, TERMS: 2, WHOLE: 1}
    title = TITLES["ranks"] if specs else "of ranks"
    return Groups(dict(sorted(names.items(), key=lambda item: (order.get(item[1], 0), item[1]))), title, messages)


def _specs(graph: Graph) -> dict[Value, str]:
    """How values lie: by annotations and what follows from them, or as ``partition`` left it."""
    sharding = Sharding.of(graph)
    values = [value for subgraph in graph.tree() for value in subgraph.values if value.shape is not None]
    if sharding.mesh is not None:
        return {value: spec_text(sharding[value]) for value in values}
    return {value: spec for value in values if (spec := value.graph.nodes[value].get(SPEC)) is not None}


def _size(value: Value, shapes: Mapping[Value, Shape]) -> str:
    number = short(bytes_of(value, shapes))
    return f"{number[:-1]} {number[-1]}B" if number[-1].isalpha() else f"{number} B"


def _along(op: Op, mesh: ProcessMesh | None) -> str:
    """The axes of a mesh that a collective goes along."""
    # A ring has a bit for each axis; ring 0 is all of them.
    ring = op.attrs.get("ring_id", 0)
    axes = () if mesh is None or "peer" in op.attrs else [name for i, name in enumerate(mesh.names) if not ring or ring >> i & 1]
    return f" along {', '.join(axes)}" if axes else ""


def _axes(spec: str) -> str:
    """The axes that cut a value, as the legend names them."""
    axes = dict.fromkeys(axis for dim in spec.split() for axis in dim.split("+") if axis != UNCUT)
    return ", ".join(sorted(axes)) or WHOLE


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
    # Arrays become one number each before nodes are looked up.
    look = _greatest if name == "range" else _share_not_finite
    return numbers_by_node(graph, {key: look(array) for key, array in options.measured.items()}, "measured")


def _costs(graph: Graph, name: str, batch: Sizes) -> dict[Node, float]:
    costs: dict[Node, float] = {}
    stack: list[Cost] = [estimated(graph, batch)]
    while stack:
        cost = stack.pop()
        # Operators of nested graphs have their own costs.
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


def _sends(op: Op) -> bool:
    return communicates(op.type) and travels(op.type.removesuffix("_grad"), 1.0, 2).messages > 0


def _sent(graph: Graph, batch: Sizes) -> dict[Node, float]:
    """The bytes that each collective is passed, in nested graphs too, at it and at what it reads."""
    shapes, bytes_by_node = extents(graph, batch), dict[Node, float]()
    for op in (op for subgraph in graph.tree() for op in subgraph.ops if op.definition is not None and op.definition.ordered):
        if _sends(op):  # a slice of what every rank has sends nothing
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
            # A difference array: what is added and given back at each place, whose running sum is what is alive.
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
        # What a node may be meant by, the most particular first.
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
    # With a 0, so that no elements have a greatest magnitude too.
    numbers = np.append(np.abs(np.asarray(array, np.float64)), 0.0)
    finite = numbers[np.isfinite(numbers)]
    return float(finite.max()) if finite.size == numbers.size else float("nan")


def _share_not_finite(array: object) -> float:
    numbers = np.asarray(array)
    # Integers are always finite.
    if not np.issubdtype(numbers.dtype, np.inexact) or not numbers.size:
        return 0.0
    return float(np.mean(~np.isfinite(numbers)))
