"""Analyses: computed on demand, kept until the graph changes, preserved where a pass says so; false claims are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import graphad as ga
from graphad.errors import PassError
from graphad.rewriting import Analysis, claims_checked
from tests.graphs import diamond, op
from tests.rewriting.samples import body, looping
from tests.scratch import Swap, passes


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Forget the passes that a test defines after it, and start without cached results."""
    Sines.computed = 0
    with passes(Swap):
        yield


@dataclass(frozen=True)
class Sines(Analysis):
    """How many sines there are."""

    count: int
    computed: ClassVar[int] = 0

    @classmethod
    def compute(cls, graph: ga.Graph) -> Sines:
        cls.computed += 1
        return cls(sum(each.type == "sin" for each in graph.ops))


@dataclass(frozen=True)
class Names(Analysis):
    """The names of the values, in order."""

    names: tuple[str, ...]

    @classmethod
    def compute(cls, graph: ga.Graph) -> Names:
        return cls(tuple(value.name for value in graph.values))


@dataclass(frozen=True)
class Plain:
    """A result that a pass leaves, which is no analysis."""

    text: str


def doing(function: Any, **claims: Any) -> ga.Pass:
    """A pass named ``test-pass`` that calls a function."""
    members = {"name": "test-pass", "apply": lambda self, graph: bool(function(graph)), "__str__": lambda self: self.name, **claims}
    return type("Doing", (ga.Pass,), members)()  # type: ignore[no-any-return]


def one_value_more(graph: ga.Graph) -> bool:
    return bool(graph.add_value("more", (2,), "float64"))


def test_it_is_computed_on_demand_and_once() -> None:
    graph = diamond()
    assert Sines.computed == 0
    assert [Sines.of(graph).count, Sines.of(graph).count] == [1, 1]
    assert Sines.of(graph) is Sines.of(graph)
    assert Sines.computed == 1


def test_each_graph_has_its_own() -> None:
    graph = looping()
    assert Sines.of(graph) is not Sines.of(body(graph))
    assert Sines.of(graph) is Sines.of(graph)
    assert Sines.computed == 2


@pytest.mark.parametrize(
    "edit",
    [
        lambda g: g.remove_op(op(g, "elementwise_add")),
        lambda g: g.add_op("sin", {"X": [g.value("y")]}, {"Out": [g.add_value("z", (2,), "float64")]}),
        lambda g: g.set_attr(op(g, "sin"), "k", 1),
        lambda g: g.set_type(g.value("y"), (2,), "float32"),
        lambda g: g.rename(g.value("y"), "z"),
        lambda g: g.replace(g.value("a"), g.value("b")),
        lambda g: g.add_value("z", (2,), "float64"),
        lambda g: g.add_input("z", (2,), "float64"),
    ],
    ids=["remove_op", "add_op", "set_attr", "set_type", "rename", "replace", "add_value", "add_input"],
)
def test_any_edit_drops_it(edit: Any) -> None:
    graph = diamond()
    Sines.of(graph)
    edit(graph)
    assert Sines.of(graph) == Sines.compute(graph)
    assert Sines.computed == 3


def test_a_pass_that_changes_drops_it_and_one_that_does_not_keeps_it() -> None:
    graph = diamond()
    first = Sines.of(graph)
    Swap(old="relu").run(graph)
    assert Sines.of(graph) is first
    Swap().run(graph)
    assert Sines not in graph.analyses
    assert Sines.of(graph) == Sines(0)


def test_what_a_pass_preserves_is_kept_without_computing_it_again() -> None:
    graph = diamond()
    first = Sines.of(graph)
    doing(one_value_more, preserves=(Sines,)).run(graph)
    assert Sines.of(graph) is first
    doing(one_value_more, preserves=(Names,)).run(graph)
    assert Sines.of(graph) is not first


def test_a_result_is_kept_and_dropped_like_an_analysis() -> None:
    graph = diamond()
    graph.analyses[Plain] = Plain("kept")
    doing(one_value_more, preserves=(Plain,)).run(graph)
    assert graph.analyses[Plain] == Plain("kept")
    doing(one_value_more).run(graph)
    assert Plain not in graph.analyses


def test_what_was_outgrown_before_a_pass_cannot_be_preserved() -> None:
    graph = diamond()
    Sines.of(graph)
    graph.add_op("sin", {"X": [graph.value("y")]}, {"Out": [graph.add_value("z", (2,), "float64")]})
    doing(one_value_more, preserves=(Sines,)).run(graph)
    assert Sines.of(graph) == Sines(2)


def test_what_a_pass_asks_for_meanwhile_is_preserved_too() -> None:
    graph = diamond()
    doing(lambda g: Sines.of(g) and one_value_more(g), preserves=(Sines,)).run(graph)
    assert Sines.computed == 1
    assert Sines.of(graph) == Sines(1)
    assert Sines.computed == 1


def test_a_lie_is_found_where_claims_are_checked() -> None:
    liar = doing(lambda g: Swap(old="exp", new="sin").apply(g), preserves=(Sines,))
    graph = diamond()
    Sines.of(graph)
    message = r"pass test-pass says it preserves Sines, but that is not what it was:\n  before Sines\(count=1\)\n  after  Sines\(count=2\)"
    with claims_checked(), pytest.raises(PassError, match=message):
        liar.run(graph)


def test_who_tells_the_truth_is_not_troubled() -> None:
    graph = diamond()
    Sines.of(graph)
    with claims_checked():
        assert doing(one_value_more, preserves=(Sines, Names)).run(graph)
        with claims_checked(False):
            assert doing(lambda g: Swap(old="exp", new="sin").apply(g), preserves=(Sines,)).run(graph)
    assert Sines.of(graph) == Sines(1), "not computed again"


def test_a_lie_about_what_was_not_requested_does_no_harm() -> None:
    with claims_checked():
        assert doing(lambda g: Swap(old="exp", new="sin").apply(g), preserves=(Sines,)).run(diamond())


def test_a_pass_may_require_an_analysis_which_is_made_when_requested() -> None:
    graph = diamond()
    assert not doing(lambda g: Sines.of(g).count == 3, requires=(Sines,)).run(graph)
    assert Sines.computed == 1


def test_a_change_in_a_nested_graph_drops_those_of_the_graph_around() -> None:
    graph = looping()
    outer, inner = Sines.of(graph), Sines.of(body(graph))
    ga.nested(Swap(old="tanh", new="sin")).run(graph)
    assert Sines.of(graph) is not outer
    assert Sines.of(body(graph)) == Sines(2) != inner


def test_a_pass_that_fails_keeps_nothing_that_is_not_true() -> None:
    graph = diamond()
    Sines.of(graph)
    with pytest.raises(ZeroDivisionError):
        doing(lambda g: Swap().apply(g) and 1 // 0, preserves=(Sines,)).run(graph)
    assert Sines.of(graph) == Sines(0)
