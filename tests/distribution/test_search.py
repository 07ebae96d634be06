"""Costs on a mesh, against closed forms and what simulated ranks send; and the search for annotations, against all that there are."""

from __future__ import annotations

from itertools import product

import pytest

import graphad as ga
from graphad.distribution import LocalGroup, split_arrays
from graphad.distribution.cost import Mesh, communication, predicted
from graphad.distribution.search import _candidates, _groups, cheapest
from graphad.errors import InvalidValue, Refused
from graphad.ops.mesh import ProcessMesh
from graphad.passes import AnnotateCost, Partition
from graphad.testing import check_pass
from tests.distribution.test_data_parallel import network
from tests.distribution.test_partition import BATCH, LAYERS, LENGTH, MEGATRON, NETWORKS, WIDTH, alone, begin, feeds


def test_a_rank_sends_what_is_predicted() -> None:
    """On 2 x 2 ranks: the bytes passed in are those of the simulated ranks."""
    made, axes = NETWORKS["transformer"](), "data=2,model=2"
    graph = ga.lower(made[0], [made[2].name])
    Partition(axes, ("ids: data -", *MEGATRON)).run(graph)
    program, group = ga.schedule(graph), LocalGroup(4)
    group.run(made[1])
    begin(group, program, alone("transformer")[1])
    group.run(program, split_arrays(program, feeds("transformer")[0], 4), [made[2].name])
    sent, passed_in = group.traffic[0].bytes(), communication(graph, Mesh.of(axes)).passed_in
    assert {type: passed_in[type] for type in sent} == sent


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_tensor_parallel_sends_the_closed_form(ranks: int) -> None:
    """Four all-reduces of the activations a layer, each of 2 (n - 1) / n of the bytes in 2 (n - 1) messages (Megatron, section 3)."""
    graph = ga.lower(NETWORKS["transformer"]()[0])
    Partition(f"model={ranks}", ("up?.w_0: - model", "down?.w_0: model -")).run(graph)
    mesh = Mesh.of(f"model={ranks}")
    AnnotateCost(mesh=mesh.axes).run(graph)
    size, count = BATCH * LENGTH * WIDTH * 4, 2 * LAYERS
    assert graph.graph["messages"] == count * 2 * (ranks - 1)
    assert graph.graph["bytes_sent"] == pytest.approx(count * 2 * (ranks - 1) / ranks * size)
    seconds = graph.graph["messages"] * mesh.alpha + graph.graph["bytes_sent"] / mesh.beta
    assert graph.graph["communicate"] == pytest.approx(seconds)
    reduced = next(op for op in graph.ops if op.type == "c_allreduce_sum")
    assert graph.nodes[reduced]["bytes_sent"] == pytest.approx(2 * (ranks - 1) / ranks * size)
    assert graph.graph["compute"] == pytest.approx(predicted(graph, mesh, 1).compute)


def test_annotate_cost_refuses_what_is_no_mesh() -> None:
    with pytest.raises(InvalidValue, match="written as data=2,model=4"):
        AnnotateCost(mesh="2x2")
    with pytest.raises(InvalidValue, match="has 4 ranks, not 3"):
        Mesh(3, axes="data=2,model=2")


def test_annotate_cost_with_a_mesh_changes_nothing() -> None:
    check_pass('annotate-cost{mesh="data=4"}', examples=3)


# -- search --------------------------------------------------------------------------------------

SLOW = Mesh.of("data=2,model=2", alpha=0.0, beta=1e9, flops=1e12, memory=1e12)


def test_the_search_finds_the_best_of_all() -> None:
    """A beam as wide as all states is an exhaustive search; one of three finds as cheap a step."""
    graph = ga.lower(network(rows=64)[0])
    groups = _groups(graph, 2)
    assert list(groups) == ["fc_*.w_*"]
    found = cheapest(graph, SLOW)
    every = [()] + [entry for pattern, value in groups.items() for entry in _candidates(pattern, value, ProcessMesh.parse(SLOW.axes))]
    prices = []
    for entry, _ in product(every, [0]):
        copy = graph.clone()
        Partition(SLOW.axes, ("x: data -", "y: data -", *entry)).apply(copy)
        prices.append(predicted(copy, SLOW, 1).seconds())
    assert found.step.seconds() == pytest.approx(min(prices))
    assert found.tried == len(prices)
    assert len(list(graph.ops)) == len(list(ga.lower(network(rows=64)[0]).ops))  # the graph stays as it is


def test_less_memory_cuts_more() -> None:
    graph = ga.lower(network(rows=8)[0])
    mesh = Mesh.of("data=2,model=2", alpha=1.0)  # each message is dear: it is cheapest to cut nothing but the batch
    free = cheapest(graph, mesh)
    tight = cheapest(graph, mesh, memory=free.step.peak - 1)
    assert tight.step.peak < free.step.peak
    assert tight.step.seconds() >= free.step.seconds()
    with pytest.raises(Refused, match="no annotation that was tried fits"):
        cheapest(graph, mesh, memory=10)
    with pytest.raises(InvalidValue, match="needs the axes"):
        cheapest(graph, Mesh(4))
