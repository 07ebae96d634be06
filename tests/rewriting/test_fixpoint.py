"""Passes repeated until nothing changes: the limit, and what comes back again and again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import graphad as ga
from graphad.errors import InvalidValue, ParseError, PassError
from graphad.rewriting import observing
from tests.graphs import diamond, types
from tests.rewriting.samples import Apply, body, looping, lowered
from tests.scratch import Swap, passes


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with passes(Swap, Apply):
        yield


def growing() -> ga.Pass:
    """A pass that always adds an operator."""

    def grow(self: ga.Pass, graph: ga.Graph) -> bool:
        graph.add_op("sin", {"X": [graph.value("x")]}, {"Out": [graph.add_value("more", (2,), "float64")]})
        return True

    return type("Growing", (ga.Pass,), {"name": "growing", "apply": grow, "__str__": lambda self: "growing"})()  # type: ignore[no-any-return]


def test_it_stops_after_the_first_round_without_a_change() -> None:
    rounds: list[str] = []
    with observing(lambda each, graph, step: rounds.append(step.text)):
        assert ga.fixpoint(Swap(old="exp", new="sin"), Swap()).run(diamond())
    assert rounds == ["swap{old=exp, new=sin}", "swap", "swap{old=exp, new=sin}", "swap", "fixpoint(swap{old=exp, new=sin}, swap)"]


def test_where_nothing_changes_it_says_so() -> None:
    assert not ga.fixpoint(Swap(old="relu")).run(diamond())


def test_as_many_rounds_as_the_limit_are_too_many() -> None:
    """The last round has to be one without a change."""
    assert ga.fixpoint(Swap(), limit=2).run(diamond())
    with pytest.raises(PassError, match="after 1 rounds"):
        ga.fixpoint(Swap(), limit=1).run(diamond())


def test_a_cycle_is_shown() -> None:
    with pytest.raises(PassError) as raised:
        ga.fixpoint(Swap(), Swap(old="cos", new="sin"), limit=5).run(diamond())
    endless, cycle = str(raised.value).split(": ")
    assert endless == "fixpoint{limit=5}(swap, swap{old=cos, new=sin}) still changes the graph after 5 rounds"
    changed = "swap (rule swap on the graph), then swap{old=cos, new=sin} (rule swap on the graph)"
    assert cycle == f"the same graph comes back every round, changed by {changed}"


def test_a_cycle_of_several_rounds_is_shown() -> None:
    turn = [Swap(old="a", new="b"), Swap(old="sin", new="a"), Swap(old="b", new="sin")]
    with pytest.raises(PassError, match="the same graph comes back every 2 rounds, changed by "):
        ga.fixpoint(*turn, limit=4).run(diamond())


def test_what_only_grows_has_no_cycle() -> None:
    with pytest.raises(PassError, match=r"after 3 rounds: it has 15 operators, and the last round was changed by growing"):
        ga.fixpoint(growing(), limit=3).run(diamond())


def test_the_rule_that_changed_something_last_is_named() -> None:
    graph = lowered(("exp", "x", "a"), ("log", "a", "y"))

    def undo(self: ga.Pass, g: ga.Graph) -> bool:
        for kind, name in (("exp", "a"), ("log", "y")):
            fresh = g.add_value(name, (2, 3), "float64")
            g.add_op(kind, {"X": [g.targets.popitem()[0]]}, {"Out": [fresh]})
            g.targets[fresh] = None
        return True

    undoing = type("Undoing", (ga.Pass,), {"name": "undoing", "apply": undo, "__str__": lambda self: "undoing"})()
    with pytest.raises(PassError, match=r"changed by undoing \(rule undoing on the graph\), apply \(rule log-exp on log -> "):
        ga.fixpoint(undoing, Apply(), limit=2).run(graph)


def test_fixpoints_nest() -> None:
    graph = diamond()
    assert ga.fixpoint(ga.fixpoint(Swap()), Swap(old="exp", new="sin")).run(graph)
    assert types(graph) == ["tanh", "cos", "cos", "elementwise_add"]


def test_it_runs_on_nested_graphs() -> None:
    graph = looping()
    assert ga.nested(ga.fixpoint(Swap(old="tanh"), Swap(old="cos", new="exp"))).run(graph)
    assert types(body(graph)).count("exp") == 2


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_without_a_round_is_refused(limit: int) -> None:
    with pytest.raises(InvalidValue, match=f"the limit of a fixpoint is at least 1, not {limit}"):
        ga.fixpoint(Swap(), limit=limit)
    with pytest.raises(ParseError, match="at least 1"):
        ga.Pipeline.parse(f"fixpoint{{limit={limit}}}(swap)")


@pytest.mark.parametrize("limit", ["true", "1.5", "many"])
def test_a_limit_is_a_whole_number(limit: str) -> None:
    with pytest.raises(ParseError, match="a whole number as its limit"):
        ga.Pipeline.parse(f"fixpoint{{limit={limit}}}(swap)")
