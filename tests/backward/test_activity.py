"""Activity analysis: what goes through all operators at once is what goes through them one by one."""

from __future__ import annotations

import graphad as ga
from graphad import layers as L
from graphad.ir import Graph, Value
from graphad.passes.backward.find_op_path import Useful, Varied
from graphad.rewriting.dataflow import Dataflow, Facts


def lowered() -> Graph:
    """Operators with several outputs, of which not all depend on each input, without rules, and values at which gradients stop."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = L.data("x", [3, 8, 8])
        h = L.batch_norm(L.conv2d(x, 4, 3))
        kept = L.dropout(L.tanh(h), 0.5)
        kept.stop_gradient = True
        values, places = L.topk(L.fc(h, 5), 2)
        L.mean(L.sums([L.reduce_mean(h), L.reduce_mean(kept), L.reduce_mean(values), L.reduce_mean(L.cast(places, "float32"))]))
    return ga.lower(program)


def test_facts_go_through_all_operators_at_once_as_one_by_one() -> None:
    graph = lowered()
    ops, sources = graph.ordered_ops(), [value for value in graph.inputs if not value.stop_gradient]
    (loss,) = (value for value in graph.targets if value.name.startswith("mean"))
    varied = Varied(frozenset(sources))
    forward = [_facts(sources), _facts(sources)]
    varied.sweep(ops, forward[0])
    Dataflow.sweep(varied, ops, forward[1])
    assert forward[0] == forward[1]
    assert len(sources) < len(forward[0]) < len(graph.values)
    useful = Useful(forward[0], (loss,))
    backward = [_facts([loss]), _facts([loss])]
    useful.sweep(ops[::-1], backward[0])
    Dataflow.sweep(useful, ops[::-1], backward[1])
    assert backward[0] == backward[1]
    assert 1 < len(backward[0]) < len(forward[0])


def _facts(values: list[Value]) -> Facts[bool]:
    facts: Facts[bool] = Facts(False)
    facts.update(dict.fromkeys(values, True))
    return facts
