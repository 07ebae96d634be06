"""A graph is a networkx MultiDiGraph: its algorithms run on it, and its ways of changing are refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
from networkx.algorithms import bipartite

import graphad as ga
from graphad.errors import InvalidGraph
from graphad.ir import Node, Op, Value
from graphad.ir.verify import verify
from tests.graphs import diamond, op, sound


def squares() -> ga.Graph:
    """elementwise_mul(x, x) -> y, concat([y, x, y]) -> z, mean(z) -> loss."""
    program = ga.Program()
    block = program.global_block()
    block.create_var(name="x", shape=[2, 3], dtype="float64")
    block.append_op(type="elementwise_mul", inputs={"X": "x", "Y": "x"}, outputs={"Out": "y"})
    block.append_op(type="concat", inputs={"X": ["y", "x", "y"]}, outputs={"Out": "z"}, attrs={"axis": 0})
    block.append_op(type="mean", inputs={"X": "z"}, outputs={"Out": "loss"})
    return ga.lower(program)


def names(nodes: Any) -> list[str]:
    return [n.type if isinstance(n, Op) else repr(n) for n in nodes]


# -- nodes and edges -----------------------------------------------------------------------------


def test_nodes_are_values_and_operators() -> None:
    graph = squares()
    assert isinstance(graph, nx.MultiDiGraph)
    assert names(graph) == ["x", "y", "z", "loss", "elementwise_mul", "concat", "mean"]
    assert (len(graph), graph.order(), graph.size()) == (7, 7, 9)
    assert {n: d["bipartite"] for n, d in graph.nodes(data=True)} == {n: 0 if isinstance(n, Op) else 1 for n in graph}
    assert "x" not in graph
    assert squares().value("x") not in graph


def test_an_edge_has_slot_and_index() -> None:
    graph = squares()
    concat, mean = op(graph, "concat"), op(graph, "mean")
    assert set(graph.in_edges(concat, keys=True)) == {
        (graph.value("y"), concat, ("X", 0)),
        (graph.value("x"), concat, ("X", 1)),
        (graph.value("y"), concat, ("X", 2)),
    }
    assert list(graph.out_edges(mean, keys=True, data=True)) == [(mean, graph.value("loss"), ("Out", 0), {"slot": "Out", "index": 0})]
    assert graph.has_edge(graph.value("y"), concat, key=("X", 2))
    assert not graph.has_edge(graph.value("y"), concat, key=("X", 1))


def test_a_value_read_twice_is_two_edges() -> None:
    graph = squares()
    mul, x, y = op(graph, "elementwise_mul"), graph.value("x"), graph.value("y")
    assert graph.number_of_edges(x, mul) == 2
    assert graph.get_edge_data(x, mul) == {("X", 0): {"slot": "X", "index": 0}, ("Y", 0): {"slot": "Y", "index": 0}}
    assert graph.get_edge_data(y, op(graph, "concat")).keys() == {("X", 0), ("X", 2)}
    assert (graph.in_degree(mul), graph.out_degree(x), graph.degree(y)) == (2, 3, 3)


def test_neighbors() -> None:
    graph = squares()
    assert names(graph.successors(graph.value("x"))) == ["elementwise_mul", "concat"]
    assert names(graph.predecessors(op(graph, "concat"))) == ["y", "x"]
    with pytest.raises(nx.NetworkXError):
        list(graph.successors(squares().value("x")))


def test_nodes_take_attributes() -> None:
    graph = squares()
    nx.set_node_attributes(graph, dict(enumerate("ab")) | {graph.value("x"): "red"}, "color")
    assert graph.nodes[graph.value("x")] == {"bipartite": 1, "color": "red"}


# -- algorithms ----------------------------------------------------------------------------------


def test_order_and_reach() -> None:
    graph = diamond()
    x, h, y = (graph.value(name) for name in "xhy")
    assert nx.is_directed_acyclic_graph(graph)
    place = {n: i for i, n in enumerate(nx.topological_sort(graph))}
    assert all(place[a] < place[b] for a, b, _ in graph.edges)
    assert [set(names(g)) for g in nx.topological_generations(graph)][2:4] == [{"h"}, {"sin", "exp"}]
    assert set(names(nx.ancestors(graph, h))) == {"x", "tanh"}
    assert set(names(nx.descendants(graph, op(graph, "sin")))) == {"a", "elementwise_add", "y"}
    assert nx.has_path(graph, x, y)
    assert not nx.has_path(graph, y, x)


def test_paths() -> None:
    graph = diamond()
    x, y = graph.value("x"), graph.value("y")
    assert names(nx.shortest_path(graph, x, graph.value("a"))) == ["x", "tanh", "h", "sin", "a"]
    assert len(nx.dag_longest_path(graph)) == 7
    assert sorted(names(path)[3] for path in nx.all_simple_paths(graph, x, y)) == ["exp", "sin"]


def test_dominators() -> None:
    graph = diamond()
    dominator = nx.immediate_dominators(graph, graph.value("x"))
    assert dominator[op(graph, "elementwise_add")] is graph.value("h")
    assert dominator[graph.value("a")] is op(graph, "sin")


def test_parts() -> None:
    graph = diamond()
    graph.add_op("fill_constant", {}, {"Out": [graph.add_value("alone")]}, {"shape": [1]})
    assert sorted(map(len, nx.weakly_connected_components(graph))) == [2, 9]
    assert all(len(part) == 1 for part in nx.strongly_connected_components(graph))


def test_bipartite() -> None:
    graph = diamond()
    assert bipartite.is_bipartite(graph)
    assert bipartite.is_bipartite_node_set(nx.Graph(graph), list(graph.ops))
    projected = bipartite.projected_graph(nx.DiGraph(graph), list(graph.ops))
    assert {(a.type, b.type) for a, b in projected.edges} == {
        ("tanh", "sin"),
        ("tanh", "exp"),
        ("sin", "elementwise_add"),
        ("exp", "elementwise_add"),
    }


def test_algorithms_see_the_graph_as_it_is_now() -> None:
    graph = diamond()
    assert nx.has_path(graph, graph.value("x"), graph.value("b"))
    graph.remove_op(op(graph, "exp"))
    assert not nx.has_path(graph, graph.value("x"), graph.value("b"))
    assert "exp" not in names(graph)


# -- other graphs made of one --------------------------------------------------------------------

PLAIN: dict[str, Callable[[ga.Graph], Any]] = {
    "MultiDiGraph": nx.MultiDiGraph,
    "to_undirected": lambda g: g.to_undirected(),
    "to_directed": lambda g: g.to_directed(),
    "reverse": lambda g: g.reverse(),
    "relabel_nodes": lambda g: nx.relabel_nodes(g, {n: repr(n) for n in g}),
    "convert_node_labels_to_integers": nx.convert_node_labels_to_integers,
    "subgraph": lambda g: g.subgraph(list(g)),
    "subgraph copy": lambda g: g.subgraph(list(g)).copy(),
    "ego_graph": lambda g: nx.ego_graph(g, g.value("y"), radius=9, undirected=True),
    "compose": lambda g: nx.compose(g, g),
    "node_link": lambda g: nx.node_link_graph(nx.node_link_data(g)),
}


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_what_networkx_makes_of_it_is_a_plain_graph(make: Callable[[ga.Graph], Any]) -> None:
    graph = squares()
    before = str(graph)
    plain = make(graph)
    assert not isinstance(plain, ga.Graph)
    assert (len(plain), plain.number_of_edges()) == (7, 9)
    assert sorted(key for *_, key in plain.edges(keys=True)) == sorted(key for *_, key in graph.edges(keys=True))
    assert {d["bipartite"] for _, d in plain.nodes(data=True)} == {0, 1}
    if not nx.is_frozen(plain):
        plain.add_edge("a", "b")
    assert (str(graph), len(graph)) == (before, 7)


def test_simple_graphs_have_one_edge_a_pair() -> None:
    assert (nx.DiGraph(squares()).number_of_edges(), nx.Graph(squares()).number_of_edges()) == (7, 7)
    assert nx.transitive_reduction(squares()).number_of_edges() == 6


def test_a_subgraph_is_a_view() -> None:
    graph = diamond()
    view = graph.subgraph([graph.value("h"), op(graph, "sin"), graph.value("a")])
    assert view.number_of_edges() == 2
    graph.remove_op(op(graph, "sin"))
    assert view.number_of_edges() == 0


def test_reading_views() -> None:
    graph: Any = diamond()
    assert nx.reverse_view(graph).out_degree(graph.value("h")) == 1
    assert len(nx.restricted_view(graph, [graph.value("h")], [])) == len(graph) - 1
    assert graph.edge_subgraph(list(graph.out_edges(graph.value("h"), keys=True))).number_of_edges() == 2


def test_a_copy_is_a_graph_of_its_own() -> None:
    graph = squares()
    clone = graph.clone()
    assert isinstance(clone, ga.Graph)
    assert set(clone).isdisjoint(graph)
    assert (str(clone), clone.inputs[0].given, clone.properties) == (str(graph), True, graph.properties)
    assert [(a.role, a.source, a.made_by) for a in clone.ops] == [(b.role, b.source, b.made_by) for b in graph.ops]
    clone.remove_op(op(clone, "mean"))
    assert len(list(graph.ops)) == 3
    assert sound(graph)
    assert sound(clone)


def test_a_copy_of_a_backward_keeps_what_gradients_belong_to() -> None:
    graph = squares()
    ga.backward_pipeline(("loss",)).run(graph)
    clone = graph.clone()
    verify(clone)
    pairs = {(repr(v), repr(v.grad_of)) for v in clone.values if v.grad_of is not None}
    assert pairs == {(repr(v), repr(v.grad_of)) for v in graph.values if v.grad_of is not None}
    assert ("x@GRAD", "x") in pairs
    assert [repr(each.forward) for each in clone.ops] == [repr(each.forward) for each in graph.ops]


def test_a_small_graph_pickles() -> None:
    for restored in (pickle.loads(pickle.dumps(squares())), copy.deepcopy(squares())):
        verify(restored)
        assert str(restored) == str(squares())


@pytest.mark.parametrize("algorithm", [nx.transitive_closure, nx.transitive_closure_dag, lambda g: list(nx.antichains(g))])
def test_algorithms_that_work_on_a_copy(algorithm: Callable[[nx.MultiDiGraph[Node]], Any]) -> None:
    assert algorithm(diamond())


def test_views_are_plain_graphs() -> None:
    graph: Any = diamond()
    view = nx.reverse_view(graph)
    assert len(view.copy()) == len(graph)


# -- refusing ------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[ga.Graph, Value, Op], object]] = {
    "add_node": lambda g, x, o: g.add_node("n"),
    "add_nodes_from": lambda g, x, o: g.add_nodes_from(["n"]),
    "add_edge": lambda g, x, o: g.add_edge(x, o),
    "add_edges_from": lambda g, x, o: g.add_edges_from([(x, o)]),
    "add_weighted_edges_from": lambda g, x, o: g.add_weighted_edges_from([(x, o, 1.0)]),
    "remove_node": lambda g, x, o: g.remove_node(o),
    "remove_nodes_from": lambda g, x, o: g.remove_nodes_from([o]),
    "remove_edge": lambda g, x, o: g.remove_edge(x, o),
    "remove_edges_from": lambda g, x, o: g.remove_edges_from([(x, o)]),
    "clear": lambda g, x, o: g.clear(),
    "clear_edges": lambda g, x, o: g.clear_edges(),
    "update": lambda g, x, o: g.update(edges=[(x, o)]),
    "add_path": lambda g, x, o: nx.add_path(g, [x, o]),
    "relabel_nodes in place": lambda g, x, o: nx.relabel_nodes(g, {x: "n"}, copy=False),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changing_it_through_networkx_is_refused(change: Callable[[ga.Graph, Value, Op], object]) -> None:
    graph = squares()
    with pytest.raises(InvalidGraph, match=r"is changed by add_op, .*nx.MultiDiGraph\(graph\) is a plain copy to edit"):
        change(graph, graph.value("x"), op(graph, "concat"))
    assert (type(graph), str(graph)) == (ga.Graph, str(squares()))
    assert sound(graph)
