"""How long values live."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad.ops import REGISTRY
from graphad.ops.sample import Sample
from graphad.passes.analyses import Liveness
from graphad.passes.memory.in_place import makes_own
from graphad.testing.samples import SAMPLES
from tests.ops.check import on_samples


def graph_of(text: str, targets: list[str] | None = None) -> ga.Graph:
    return ga.lower(ga.Program.parse(f"program {{ block 0 {{ {text} }} }}"), targets)


CHAIN = """
var x: float32[2] var a: float32[2] var b: float32[2] var c: float32[2] var d: float32[2]
tanh(X=x) -> (Out=a) assign(X=a) -> (Out=b) exp(X=b) -> (Out=c) exp(X=c) -> (Out=d)
"""


def test_a_value_lives_until_its_last_reader_and_through_its_views() -> None:
    graph = graph_of(CHAIN)
    live = Liveness.of(graph)
    places = {value.name: place for value, place in live.last.items()}
    assert places == {"x": 4, "a": 2, "b": 2, "c": 3, "d": 4}
    assert {v.name: o.name for v, o in live.owner.items()} == {"b": "a"}
    assert [v.name for v in live.live_at(2)] == ["x", "a", "c"]


def test_a_view_lives_as_long_as_the_views_of_it() -> None:
    views = "tanh(X=x) -> (Out=a) assign(X=a) -> (Out=b) assign(X=b) -> (Out=c) exp(X=c) -> (Out=d)"
    live = Liveness.of(graph_of(CHAIN.partition("tanh")[0] + views))
    assert {value.name: place for value, place in live.last.items()} == {"x": 4, "a": 3, "b": 3, "c": 3, "d": 4}
    assert {v.name: o.name for v, o in live.owner.items()} == {"b": "a", "c": "a"}, "the memory of both is a's"


def test_what_is_requested_lives_to_the_end() -> None:
    live = Liveness.of(graph_of(CHAIN, ["c"]))
    assert {v.name for v, place in live.last.items() if place == 4} == {"x", "c"}


def test_it_is_kept_until_the_graph_changes() -> None:
    graph = graph_of(CHAIN)
    first = Liveness.of(graph)
    assert Liveness.of(graph) is first
    graph.add_op("exp", {"X": [graph.value("d")]}, {"Out": [graph.add_value("e", (2,), "float32")]})
    assert Liveness.of(graph) is not first


def shares(type: str, sample: Sample) -> bool:
    """Whether an output of an operator lies in the memory of an input."""
    definition, slots = REGISTRY[type], sample.slots()
    if definition.random:
        return False
    outputs = definition.run(slots, sample.attrs, tuple(definition.outputs))
    arrays = [a for given in slots.values() for a in given if isinstance(a, np.ndarray)]
    return any(isinstance(out, np.ndarray) and np.shares_memory(out, a) for outs in outputs.values() for out in outs for a in arrays)


# They return memory of an input in some cases only.
SOMETIMES = ("adam", "batch_norm", "clip_by_norm", "pad", "select_input", "softmax_with_cross_entropy", "sum", "sum_like")


@pytest.mark.parametrize("type", sorted(SAMPLES))
def test_what_shares_memory_is_known(type: str) -> None:
    on_samples(check_memory, type)


def check_memory(type: str, sample: Sample) -> None:
    """An operator that is said to make memory of its own does; one that does not is a view, or one of the few others."""
    if shares(type, sample):
        assert not owns(type, sample)
        assert REGISTRY[type].view or type in SOMETIMES


def owns(type: str, sample: Sample) -> bool:
    graph = ga.Graph()
    slots = {slot: [graph.add_input(f"{slot}{i}", (2,), "float32") for i in range(len(v))] for slot, v in sample.slots().items()}
    return makes_own(graph.add_op(type, slots, {"Out": [graph.add_value("z", (2,), "float32")]}))


def test_the_check_can_fail() -> None:
    sample = Sample({"X": [np.ones(2), np.ones(2)]})
    assert owns("sum", sample)
    assert not owns("sum", Sample({"X": [np.ones(2)]}))
    assert shares("sum", Sample({"X": [np.ones(2)]}))
