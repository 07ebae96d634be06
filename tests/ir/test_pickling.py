"""Pickles of graphs and programs: as deep as an empty one whatever is in them, and what refers to a node finds it again."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import networkx as nx
import pytest

import graphad as ga
from graphad.errors import InvalidGraph
from graphad.ir.verify import verify
from graphad.passes.backward.find_op_path import OpPath

L = ga.layers


def nested(depth: int) -> tuple[ga.Program, ga.Variable]:
    """Branches in branches, and the sum of what comes out."""
    main = ga.Program()
    with ga.program_guard(main):
        x = L.data("x", [3], append_batch_size=False)

        def inner(left: int, value: ga.Variable) -> ga.Variable:
            if not left:
                return L.tanh(value)
            small = L.less_than(L.reduce_sum(value), L.fill_constant([], "float32", 100.0))
            result: ga.Variable = L.cond(small, lambda: inner(left - 1, L.scale(value, 0.9)), lambda: L.scale(value, 1.0))
            return result

        loss = L.reduce_sum(inner(depth, x))
    return main, loss


def chain(length: int) -> ga.Program:
    main = ga.Program()
    with ga.program_guard(main):
        value = L.data("x", [3])
        for _ in range(length):
            value = L.tanh(value)
    return main


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def test_chains_of_any_length() -> None:
    main = chain(5_000)
    graph = ga.lower(main)
    loaded = pickled(graph)
    assert (str(loaded), str(pickled(main))) == (str(graph), str(main))
    assert str(pickled(list(graph.ops)[-1])) == str(list(graph.ops)[-1])
    verify(loaded)


@pytest.mark.parametrize("depth", [2, 98])
def test_as_many_blocks_in_blocks_as_a_program_may_have(depth: int) -> None:
    main, loss = nested(depth)
    with ga.program_guard(main):
        ga.append_backward(loss)
    graph = ga.lower(main)
    loaded = pickled(graph)
    verify(loaded)
    assert (str(loaded), str(ga.schedule(loaded))) == (str(graph), str(ga.schedule(graph)))
    assert str(pickled(main)) == str(main)


def test_a_pickle_has_what_a_clone_has() -> None:
    main, loss = nested(3)
    graph = ga.lower(main, [loss])
    (ga.backward_pipeline((loss.name,)) | ga.passes.InPlace()).run(graph)
    loaded, other = pickled(graph), graph.clone()
    for a, b, c in zip(graph.tree(), loaded.tree(), other.tree(), strict=True):
        notes = [
            [(o.role, o.source, o.made_by, o.origin, o.stream, repr(o.forward), o.attrs.keys()) for o in each.ops] for each in (a, b, c)
        ]
        assert notes[0] == notes[1] == notes[2]
        values = [[(v.name, v.type, v.kind, v.given, repr(v.grad_of)) for v in each.values] for each in (a, b, c)]
        assert values[0] == values[1] == values[2]
        assert [[v.name for v in each.targets] for each in (b, c)] == [[v.name for v in a.targets]] * 2
    assert [str(step) for step in loaded.journal.history] == [str(step) for step in graph.journal.history]
    assert loaded.properties == graph.properties
    assert str(ga.schedule(loaded)) == str(ga.schedule(graph))


def test_what_is_pickled_together_stays_together() -> None:
    main, _ = nested(3)
    graph = ga.lower(main)
    inner = list(graph.tree())[2]
    ops, values, program, nest, loaded = pickled((list(graph.ops), list(inner.values), main, inner, graph))
    assert ops == list(loaded.ops)
    assert nest is list(loaded.tree())[2]
    assert values == list(nest.values)
    assert loaded.block is program.global_block()
    assert nx.is_directed_acyclic_graph(loaded)
    block, again = pickled((main.blocks[2], main))
    assert again.blocks[2] is block
    assert {op.block for op in block.ops} == {block}
    assert {var.block for var in block.vars.values()} == {block}
    assert again.names.generate("fc") == main.names.generate("fc")


def test_results_of_passes_are_kept() -> None:
    main, loss = nested(2)
    graph = ga.lower(main, [loss])
    steps = ga.backward_pipeline((loss.name,)).passes
    for step in steps:
        step.run(graph)
        kept = OpPath in graph.analyses
        graph = pickled(graph)
        assert (OpPath in graph.analyses) == kept
    with ga.program_guard(main):
        ga.append_backward(loss)
    assert str(ga.schedule(graph)) == str(main)


def test_marks_of_a_user_and_nodes_that_are_gone() -> None:
    graph = ga.lower(chain(3))
    first, *_, last = graph.ops
    graph.nodes[first]["color"] = "red"
    graph.remove_op(last)
    loaded, gone = pickled((graph, last))
    assert loaded.nodes[next(iter(loaded.ops))]["color"] == "red"
    assert (gone.type, len(loaded.ops)) == ("tanh", 2)
    with pytest.raises(InvalidGraph, match="not in this graph"):
        loaded.remove_op(gone)


def test_shallow_copies_are_of_their_own() -> None:
    main, _ = nested(2)
    loaded, block = copy.copy(main), copy.copy(main.blocks[1])
    assert (str(loaded), loaded.blocks[1] is main.blocks[1]) == (str(main), False)
    assert (block is main.blocks[1], block.ops is main.blocks[1].ops) == (False, True)
