"""Fan-out, fan-in and names that are written again and again: work is counted, and grows as the number of edges does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest

import graphad as ga
from graphad.ir.verify import verify
from graphad.rewriting import verification
from tests.counting import instructions
from tests.shares import one_in

SMALL, LARGE = 40, 160
Make = Callable[[int], ga.Program]


def fan_out(n: int) -> ga.Program:
    """A parameter that n operators read, and a sum that reads what they write."""
    block = ga.Program().global_block()
    block.create_parameter("w", [4])
    for i in range(n):
        block.append_op("tanh", {"X": "w"}, {"Out": f"y{i}"})
    block.append_op("sum", {"X": [f"y{i}" for i in range(n)]}, {"Out": "t"})
    return block.program


def one_name(n: int) -> ga.Program:
    """A name that n operators write, each of them reading what was there."""
    block = ga.Program().global_block()
    block.create_parameter("w", [4])
    block.append_op("assign", {"X": "w"}, {"Out": "t"})
    for _ in range(n):
        block.append_op("elementwise_mul", {"X": "t", "Y": "w"}, {"Out": "t"})
    return block.program


def overwritten(n: int) -> ga.Program:
    """A name that n operators write, each time read by another one."""
    block = ga.Program().global_block()
    block.create_parameter("w", [4])
    for i in range(n):
        block.append_op("scale", {"X": "w"}, {"Out": "x"}, {"scale": float(i)})
        block.append_op("tanh", {"X": "x"}, {"Out": f"y{i}"})
    block.append_op("sum", {"X": [f"y{i}" for i in range(n)]}, {"Out": "t"})
    return block.program


def lowered(program: ga.Program, backward: bool = False) -> ga.Graph:
    graph = ga.lower(program, ["t"])
    if backward:
        with verification(False):
            ga.backward_pipeline(("t",)).run(graph)
    return graph


def turned(graph: ga.Graph) -> ga.Graph:
    """The graph with its last operator first, so that its order has to be found."""
    last = graph.ops.last
    assert last is not None
    graph.ops.unlink(last)
    graph.ops.insert(last, graph.ops.first)
    return graph


def differentiated(program: ga.Program) -> ga.Graph:
    return lowered(program, backward=True)


WORK: dict[str, tuple[Callable[[ga.Program], Any], Callable[[Any], object]]] = {
    "lower": (lambda program: program, ga.lower),
    "backward": (lowered, ga.backward_pipeline(("t",)).run),
    "verify": (differentiated, verify),
    "schedule": (differentiated, ga.schedule),
    "clone": (differentiated, ga.Graph.clone),
    "text": (differentiated, str),
    "order": (lambda program: turned(differentiated(program)), ga.Graph.ordered_ops),
    "networkx": (differentiated, nx.MultiDiGraph),
    **{
        name: (lowered, ga.Pipeline.parse(name).run)
        for name in ("dead-code", "cse", "simplify", "constant-folding", "fuse-elementwise", "in-place")
    },
}


@pytest.mark.parametrize("work", one_in(2, WORK))
@pytest.mark.parametrize("make", [fan_out, one_name, overwritten])
def test_work_grows_with_the_number_of_edges(make: Make, work: str) -> None:
    prepare, act = WORK[work]

    def steps(n: int) -> int:
        subject = prepare(make(n))
        return instructions(lambda: act(subject))

    # What is computed once per process; and Python 3.14 misses steps of code that is traced for the first time.
    steps(20)
    small, large = steps(SMALL), steps(LARGE)
    assert large < 1.25 * LARGE / SMALL * small + 500, f"{small} steps for {SMALL} operators, {large} for {LARGE}"


def test_a_value_replaced_in_a_wide_slot_is_replaced_everywhere() -> None:
    graph = lowered(fan_out(100))
    (total,) = [op for op in graph.ops if op.type == "sum"]
    graph.set_inputs(total, "X", [*total.inputs["X"], *total.inputs["X"][:3]])
    values = list(total.inputs["X"])
    for old, new in ((values[0], values[5]), (values[5], values[7]), (values[50], values[7]), (values[7], values[2])):
        graph.replace(old, new)
        values = [new if v is old else v for v in values]
        assert list(total.inputs["X"]) == values
    graph.set_inputs(total, "X", values[::-1])
    graph.replace(values[2], values[99])
    assert list(total.inputs["X"]) == [values[99] if v is values[2] else v for v in values[::-1]]
    verify(graph)


def test_versions_of_a_name_are_numbered_through_changes() -> None:
    graph = lowered(one_name(5))
    versions = graph.versions("t")
    assert [repr(v) for v in versions] == [f"t#{i}" for i in range(6)]
    graph.replace(versions[3], versions[1])
    writer = versions[3].writers[0]
    graph.remove_op(writer)
    left = [v for v in versions if v is not versions[3]]
    assert list(graph.versions("t")) == left
    assert [v.version for v in left] == list(range(5))
    assert graph.value("t") is graph.values.last("t") is left[-1]
    assert graph.value("t#0") is graph.values.first("t") is left[0]


def test_a_further_version_of_a_name_copies_none_of_the_others() -> None:
    graph = lowered(one_name(5))
    versions = graph.values.by_name["t"]
    added = graph.add_version("t")
    assert graph.values.by_name["t"] is versions
    graph.values.discard(added)
    assert graph.values.by_name["t"] is versions
