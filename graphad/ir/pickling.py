"""Graphs as pickles: flat records of nodes by number, so that a chain of any length is as deep as an empty graph.

    mul(X=x, Y=w) -> (Out=h)        ("mul", {"X": (0,), "Y": (1,)}, {"Out": (2,)}, ...)

By itself pickle follows values to their operators and those to the next values, and recurses as often as there are operators in a chain.
Here a graph with all that is nested in it is one record. Unpickling makes all its nodes first, empty, so that whatever else is in the
pickle and refers to one of them (a list of operators, an analysis) finds it by its number.

A pickled graph is what ``clone`` gives, and keeps besides the results of passes (``OpPath``) and the attributes that a user gave to nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphad.ir.nodes import Op, Slots, Value

if TYPE_CHECKING:
    from graphad.ir.graph import Graph

Node = Op | Value
Sizes = list[tuple[int, int]]
_Numbers = dict[str, tuple[int, ...]]
_Reduced = tuple[object, ...]


@dataclass
class _Numbering:
    """The graphs of a tree and all their nodes, each at its number; true while the graphs are not edited."""

    edits: int
    graphs: list[Graph]
    nodes: list[Node]
    numbers: dict[Graph | Node, int]


def reduced_graph(graph: Graph) -> _Reduced:
    """Pickle a graph; a nested one as its number in the outermost graph."""
    root = graph
    while root.parent is not None:
        root = root.parent
    numbering = _numbering(root)
    if graph is not root:
        return _graph_at, (root, numbering.numbers[graph])
    sizes = [(len(member.values), len(member.ops)) for member in numbering.graphs]
    return _blank, (type(graph), sizes), _state(numbering)


def reduced_node(node: Node) -> _Reduced:
    """Pickle an operator or a value as its number in the graph; a removed one as its name alone."""
    root = node.graph
    while root.parent is not None:
        root = root.parent
    number = _numbering(root).numbers.get(node)
    if number is not None:
        return _node_at, (root, number)
    # Made again from its own parts: nothing in the graph refers to it any more.
    return (Op, (root, node.type, {}, {}, node.attrs)) if isinstance(node, Op) else (Value, (root, node.name, node.shape, node.dtype, None))


def _numbering(root: Graph) -> _Numbering:
    numbering = root.journal.memory.get(_Numbering)
    # Nodes refer to each other by number, so that pickling is not recursive: a chain of thousands of operators would be too deep.
    if numbering is None or numbering.edits != root.journal.edits:
        graphs = list(root.tree())
        nodes = [node for graph in graphs for part in (graph.values, graph.ops) for node in part]
        numbering = root.journal.memory[_Numbering] = _numbered(root.journal.edits, graphs, nodes)
    return numbering


def _numbered(edits: int, graphs: list[Graph], nodes: list[Node]) -> _Numbering:
    numbers: dict[Graph | Node, int] = {node: number for number, node in enumerate(nodes)}
    numbers.update((graph, number) for number, graph in enumerate(graphs))
    return _Numbering(edits, graphs, nodes, numbers)


def _graph_at(root: Graph, number: int) -> Graph:
    return _numbering(root).graphs[number]


def _node_at(root: Graph, number: int) -> Node:
    return _numbering(root).nodes[number]


# -- writing ---------------------------------------------------------------------------------------


def _state(numbering: _Numbering) -> tuple[object, ...]:
    root, numbers = numbering.graphs[0], numbering.numbers
    journal = root.journal
    records = [_graph_record(graph, numbers) for graph in numbering.graphs]
    return records, (set(journal.properties), list(journal.history), journal.requested, journal.edits, journal.typings)


def _graph_record(graph: Graph, numbers: Mapping[Graph | Node, int]) -> dict[str, Any]:
    def several(values: Any) -> list[int]:
        return [numbers[value] for value in values]

    return {
        "block": graph.block,
        "values": [_value_record(value, numbers) for value in graph.values],
        "ops": [_op_record(op, numbers) for op in graph.ops],
        "inputs": several(graph.inputs),
        "targets": several(graph.targets),
        "results": several(graph.results),
        "residuals": several(graph.residuals),
        "redeclared": graph.redeclared,
        "lost_operators": graph.lost_operators,
        # ``marked`` is a moment, as a number of edits: a copy has it if nothing was edited since.
        "marked": graph.marked == graph.journal.edits,
        # Results of passes are kept under their class; what is cached under another key is computed again.
        "analyses": {kind: result for kind, result in graph.analyses.items() if type(result) is kind},
        "graph": graph.graph,
        # Every node has one attribute of its own, its kind; what there is besides a user gave.
        "attributes": {numbers[node]: attributes for node, attributes in graph._node.attributes.items() if len(attributes) > 1},
    }


def _value_record(value: Value, numbers: Mapping[Graph | Node, int]) -> tuple[object, ...]:
    gradient_of = None if value.grad_of is None else numbers.get(value.grad_of)
    return value.name, value.shape, value.dtype, value.var, value.kind, value.given, gradient_of


def _op_record(op: Op, numbers: Mapping[Graph | Node, int]) -> tuple[object, ...]:
    forward = None if op.forward is None else numbers.get(op.forward)
    graphs = {name: numbers[graph] for name, graph in op.graphs.items()}
    notes = (op.role, op.made_by, op.source, op.operator, op.origin, op.stream)
    return op.type, _by_number(op.inputs, numbers), _by_number(op.outputs, numbers), op.attrs, graphs, forward, notes


def _by_number(slots: Slots, numbers: Mapping[Graph | Node, int]) -> _Numbers:
    return {slot: tuple([numbers[value] for value in values]) for slot, values in slots.items()}


# -- reading ---------------------------------------------------------------------------------------


def _blank(kind: type[Graph], sizes: Sizes) -> Graph:
    """A graph with the graphs nested in it, and nodes that are filled later."""
    root = kind()
    graphs = [root, *(root.nested() for _ in sizes[1:])]
    nodes = [node for values, ops in sizes for node in _blank_nodes(values, ops)]
    root.journal.memory[_Numbering] = _numbered(root.journal.edits, graphs, nodes)
    return root


def _blank_nodes(values: int, ops: int) -> Iterator[Node]:
    for _ in range(values):
        yield Value.__new__(Value)
    for _ in range(ops):
        yield Op.__new__(Op)


def fill(root: Graph, state: Any) -> None:
    """Fill the graph that ``_blank`` made."""
    records, (properties, history, request, edits, typings) = state
    journal = root.journal
    numbering: _Numbering = journal.memory[_Numbering]
    journal.properties, journal.history, journal.requested = properties, history, request
    rest = iter(numbering.nodes)
    # All values of all graphs before the first operator, since operators read values of other graphs' numbers.
    ops_by_graph = [_fill_values(graph, record, rest, numbering) for graph, record in zip(numbering.graphs, records, strict=True)]
    for graph, record, ops in zip(numbering.graphs, records, ops_by_graph, strict=True):
        for op, fields in zip(ops, record["ops"], strict=True):
            _fill_op(graph, op, fields, numbering)
    journal.edits, journal.typings = edits, typings
    for graph, record in zip(numbering.graphs, records, strict=True):
        graph.marked = edits if record["marked"] else -1
    numbering.edits = edits


def _fill_values(graph: Graph, record: Mapping[str, Any], rest: Iterator[Any], numbering: _Numbering) -> list[Op]:
    """Fill a graph's values, and what else it has but its operators; those are returned."""
    nodes: list[Any] = numbering.nodes

    def several(numbers: Iterable[int]) -> list[Any]:
        return [nodes[number] for number in numbers]

    graph.block = record["block"]
    graph.values.reserved = {} if graph.block is None else graph.block.vars
    for name, shape, dtype, var, kind, is_given, gradient_of in record["values"]:
        value: Value = next(rest)
        # The nodes are there already, made without __init__, so that references between them resolve whichever comes first.
        Value.__init__(value, graph, name, shape, dtype, var)
        value.kind, value.given = kind, is_given
        value.grad_of = None if gradient_of is None else nodes[gradient_of]
        graph.values.add(value)
    graph.inputs, graph.results, graph.residuals = (several(record[part]) for part in ("inputs", "results", "residuals"))
    graph.targets = dict.fromkeys(several(record["targets"]))
    graph.redeclared, graph.lost_operators = record["redeclared"], record["lost_operators"]
    graph.analyses = record["analyses"]
    graph.graph.update(record["graph"])
    graph._node.attributes.update((nodes[number], is_given) for number, is_given in record["attributes"].items())
    return [next(rest) for _ in record["ops"]]


def _fill_op(graph: Graph, op: Op, fields: Any, numbering: _Numbering) -> None:
    type_, inputs, outputs, attrs, graphs, forward, notes = fields
    nodes: list[Any] = numbering.nodes

    def slots(side: _Numbers) -> Slots:
        return {slot: tuple([nodes[number] for number in numbers]) for slot, numbers in side.items()}

    Op.__init__(op, graph, type_, slots(inputs), slots(outputs), attrs)
    op.role, op.made_by, op.source, op.operator, op.origin, op.stream = notes
    op.forward = None if forward is None else nodes[forward]
    if graphs:
        op.graphs = {name: numbering.graphs[number] for name, number in graphs.items()}
    graph.link(op)
