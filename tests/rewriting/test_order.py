"""Pipelines whose order cannot work are refused before any pass runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import graphad as ga
from graphad.errors import PassError
from graphad.ir import SINGLE_WRITER
from graphad.passes import AccumulateGrads, CreateGradOps, FindOpPath
from graphad.rewriting import Analysis
from tests.graphs import diamond
from tests.scratch import Swap, passes


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with passes(Swap):
        yield


class Facts(Analysis):
    """Nothing."""

    @classmethod
    def compute(cls, graph: ga.Graph) -> Facts:
        return cls()


class Result:
    """The result of a pass."""


def claiming(name: str, **claims: Any) -> ga.Pass:
    """A pass that says something of itself, and notes that it ran."""
    members = {"name": name, "apply": lambda self, graph: graph.analyses.setdefault(Result, []) is None, "__str__": lambda self: name}
    return type("Claiming", (ga.Pass,), {**members, **claims})()  # type: ignore[no-any-return]


def refused(pipeline: ga.Pass, graph: ga.Graph | None = None) -> str:
    """The message with which a pipeline is refused; nothing has run."""
    graph = diamond() if graph is None else graph
    before = str(graph)
    with pytest.raises(PassError) as raised:
        pipeline.run(graph)
    assert (str(graph), graph.journal.history, graph.journal.rewrites) == (before, [], 0)
    return str(raised.value)


def test_a_result_that_nothing_leaves() -> None:
    message = refused(Swap() | CreateGradOps())
    assert message == (
        "create-grad-ops, pass 2 of the 2 in the pipeline, requires OpPath, which the graph does not have and no pass before it establishes"
    )


def test_a_pass_that_comes_too_late_is_named() -> None:
    assert refused(Swap() | CreateGradOps() | FindOpPath(("y",))).endswith("; find-op-path, which does, comes after it")


def test_a_property_that_a_pass_before_takes_away() -> None:
    taking, needing = claiming("taking", clears=(SINGLE_WRITER,)), claiming("needing", requires=(SINGLE_WRITER,))
    assert "needing, pass 3 of the 3 in the pipeline, requires single_writer" in refused(Swap() | taking | needing)
    assert not (needing | taking).run(diamond())
    giving = claiming("giving", establishes=(SINGLE_WRITER,))
    assert not (taking | giving | needing).run(diamond())


def test_what_the_graph_has_already_is_enough() -> None:
    graph = diamond()
    FindOpPath(("y",)).run(graph)
    assert (CreateGradOps() | AccumulateGrads()).run(graph)


def test_an_unknown_property_is_never_there() -> None:
    assert "requires fast" in refused(ga.Pipeline(claiming("needing", requires=("fast",))))


def test_an_analysis_is_made_when_requested() -> None:
    assert not ga.Pipeline(claiming("needing", requires=(Facts,))).run(diamond())


def test_what_is_repeated_is_looked_at_too() -> None:
    assert "create-grad-ops, pass 3 of the 3" in refused(Swap() | ga.fixpoint(Swap(old="exp"), CreateGradOps()))
    assert "create-grad-ops, pass 1 of the 1" in refused(ga.fixpoint(CreateGradOps()))
    assert "create-grad-ops, pass 2 of the 3" in refused(ga.fixpoint(ga.fixpoint(Swap(), CreateGradOps()), Swap()))


def test_what_a_repeated_pass_establishes_counts() -> None:
    taking = claiming("taking", clears=(SINGLE_WRITER,))
    giving, needing = claiming("giving", establishes=(SINGLE_WRITER,)), claiming("needing", requires=(SINGLE_WRITER,))
    assert not (taking | ga.fixpoint(giving) | needing).run(diamond())


def test_a_pass_alone_is_checked_when_it_runs() -> None:
    with pytest.raises(PassError, match="pass create-grad-ops requires OpPath, which the graph does not have"):
        CreateGradOps().run(diamond())


def test_what_a_pass_before_drops_is_found_when_it_is_missing() -> None:
    graph = diamond()
    with pytest.raises(PassError, match="pass create-grad-ops requires OpPath, which the graph does not have"):
        (FindOpPath(("y",)) | Swap() | CreateGradOps()).run(graph)
    assert [str(each) for each in graph.journal.history] == ["find-op-path{targets=[y]}", "swap"]
    assert (FindOpPath(("y",)) | Swap(old="relu") | CreateGradOps()).run(diamond()), "a pass that changes nothing drops nothing"


def test_the_backward_in_any_wrong_order_is_refused() -> None:
    steps = ga.backward_pipeline(("y",)).passes
    for i in range(len(steps) - 1):
        wrong = [*steps[:i], steps[i + 1], steps[i], *steps[i + 2 :]]
        if steps[i].establishes and set(steps[i].establishes) & set(steps[i + 1].requires):
            refused(ga.Pipeline(*wrong))
