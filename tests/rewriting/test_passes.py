"""Passes and pipelines: how they are run, and what is checked while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import graphad as ga
from graphad.errors import InvalidGraph, InvalidType, InvalidValue, PassError
from graphad.ir import SINGLE_WRITER
from graphad.rewriting import PASSES, Step, observing, run_pass, verification
from tests.graphs import diamond, op, types
from tests.scratch import Swap, passes


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Forget the passes that a test defines after it."""
    with passes(Swap):
        yield


# -- pipelines -----------------------------------------------------------------------------------


def test_pipelines_are_flat() -> None:
    a, b, c = (Swap(new=new) for new in ("a", "b", "c"))
    assert (a | b | c).passes == (a | (b | c)).passes == ga.Pipeline(a, ga.Pipeline(b, c)).passes == (a, b, c)
    assert str(a | b) == "swap{new=a}, swap{new=b}"
    assert a | b == ga.Pipeline.parse("swap{new=a}, swap{new=b}")
    assert a | b != b | a


@pytest.mark.parametrize("each", [Swap(), Swap() | Swap(), ga.Pipeline(), ga.fixpoint(Swap()), ga.nested(Swap())])
def test_a_pass_runs_on_a_graph_and_not_on_its_program(each: ga.Pass) -> None:
    program: Any = ga.Program()
    with pytest.raises(InvalidType, match=r"runs on a Graph, not <Program.*; graphad.lower\(program\) makes one"):
        each.run(program)


@pytest.mark.parametrize("other", [3, "swap", None, ga.Pipeline])
def test_a_pipeline_is_made_of_passes(other: Any) -> None:
    with pytest.raises(InvalidType, match="a pipeline is made of passes"):
        Swap() | other


def test_a_pipeline_runs_all_and_tells_whether_one_changed_something() -> None:
    graph = diamond()
    assert not (Swap(old="relu") | Swap(old="elu")).run(graph)
    assert (Swap() | Swap(old="exp", new="relu") | Swap(old="elu")).run(graph)
    assert types(graph) == ["tanh", "cos", "relu", "elementwise_add"]


def test_fixpoint_runs_until_nothing_changes() -> None:
    graph = diamond()
    assert ga.fixpoint(Swap(old="a", new="b"), Swap(old="exp", new="a"), Swap(old="sin", new="exp")).run(graph)
    assert types(graph) == ["tanh", "b", "b", "elementwise_add"]
    assert not ga.fixpoint(Swap()).run(graph)


def test_fixpoint_gives_up() -> None:
    endless = ga.fixpoint(Swap() | Swap(old="cos", new="sin"), limit=7)
    with pytest.raises(PassError, match=r"fixpoint{limit=7}\(swap, swap{old=cos, new=sin}\) still changes the graph after 7 rounds"):
        endless.run(diamond())


# -- running -------------------------------------------------------------------------------------


def doing(function: Callable[[ga.Graph], Any], **claims: Any) -> ga.Pass:
    """A pass named ``test-pass`` that calls a function."""

    class Doing(ga.Pass):
        name = "test-pass"

        def apply(self, graph: ga.Graph) -> bool:
            return bool(function(graph))

        def __str__(self) -> str:
            return self.name

    for claim, value in claims.items():
        setattr(Doing, claim, value)
    return Doing()


def test_a_pass_of_ones_own_works() -> None:
    graph = diamond()
    line = op(graph, "sin").source
    assert Swap().run(graph)
    assert types(graph) == ["tanh", "cos", "exp", "elementwise_add"]
    assert (op(graph, "cos").made_by, op(graph, "cos").source) == ("swap", line)
    assert ga.Pipeline.parse("swap{old=exp, new=tanh}").run(graph)
    assert Swap.summary() == "Put operators of one type in the place of those of another."
    assert graph.journal.author is None


def test_two_passes_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"two passes are named 'swap': tests.scratch.Swap and .*Other"):
        type("Other", (ga.Pass,), {"name": "swap", "apply": lambda self, graph: False})
    assert PASSES["swap"] is Swap


def test_a_pass_without_apply_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="apply"):
        type("Idle", (ga.Pass,), {"name": "idle"})()


def test_what_a_pass_requires_is_checked() -> None:
    with pytest.raises(PassError, match="pass create-grad-ops requires OpPath, which the graph does not have; it has single_writer, typed"):
        ga.passes.CreateGradOps().run(diamond())
    graph = diamond()
    graph.properties.clear()
    with pytest.raises(PassError, match="pass test-pass requires single_writer, which the graph does not have; it has nothing"):
        doing(lambda graph: True, requires=(SINGLE_WRITER,)).run(graph)


def test_a_pass_that_misses_something_is_not_run() -> None:
    calls: list[ga.Graph] = []
    with pytest.raises(PassError):
        doing(calls.append, requires=("fast",)).run(diamond())
    assert not calls


def second_writer(graph: ga.Graph) -> bool:
    graph.add_op("sin", {"X": [graph.value("x")]}, {"Out": [graph.value("h")]}, before=op(graph, "exp"))
    return True


def removing(type: str, by: str | None = None) -> Callable[[ga.Graph], bool]:
    def function(graph: ga.Graph) -> bool:
        graph.remove_op(next(each for each in graph.ops if each.type == type and each.made_by == by))
        return True

    return function


def test_properties_are_cleared_and_established() -> None:
    graph = diamond()
    assert doing(second_writer, clears=(SINGLE_WRITER,)).run(graph)
    assert graph.properties == {"typed"}
    assert doing(removing("sin", by="test-pass"), establishes=(SINGLE_WRITER,)).run(graph)
    assert graph.properties == {"typed", SINGLE_WRITER}


def test_a_property_that_does_not_hold_cannot_be_established() -> None:
    graph = diamond()
    graph.properties.discard(SINGLE_WRITER)
    with pytest.raises(InvalidGraph, match=r"^after pass test-pass: one_writer: value h: it is written 2 times"):
        doing(second_writer, establishes=(SINGLE_WRITER,)).run(graph)


def test_every_pass_is_verified_by_name() -> None:
    with pytest.raises(InvalidGraph, match=r"^after pass test-pass: one_writer: "):
        (Swap() | doing(second_writer) | Swap()).run(diamond())


def test_a_pass_that_hides_its_changes_is_verified_too() -> None:
    with pytest.raises(InvalidGraph, match=r"^after pass test-pass: "):
        doing(lambda graph: not second_writer(graph)).run(diamond())


def test_verification_can_be_switched_off_for_a_while() -> None:
    graph = diamond()
    with verification(False):
        assert run_pass(doing(second_writer), graph)
        with verification(True), pytest.raises(InvalidGraph):
            run_pass(doing(second_writer), graph)


def test_the_author_is_reset_after_an_error() -> None:
    graph = diamond()
    with pytest.raises(ZeroDivisionError):
        doing(lambda graph: 1 // 0).run(graph)
    assert graph.journal.author is None


def test_analyses_are_dropped_by_a_change_that_does_not_preserve_them() -> None:
    graph = diamond()
    graph.analyses |= {str: "kept", bytes: "dropped"}
    doing(lambda graph: False).run(graph)
    assert {str, bytes} <= set(graph.analyses)
    doing(lambda graph: graph.add_value("c", (2,), "float64"), preserves=(str,)).run(graph)
    assert str in graph.analyses
    assert bytes not in graph.analyses


def test_observers_are_told_of_every_pass() -> None:
    seen: list[tuple[str, Step]] = []
    graph = diamond()
    with observing(lambda each, graph, step: seen.append((str(each), step))):
        last = doing(removing("elementwise_add"))
        ga.Pipeline(Swap(), ga.fixpoint(Swap(old="exp", new="sin"), limit=3), last).run(graph)
    Swap().run(graph)
    names = [step.name for _, step in seen]
    assert names == ["swap", "swap", "swap", "fixpoint", "test-pass"]
    assert [step.changed for _, step in seen] == [True, True, False, True, True]
    first, *_, end = (step for _, step in seen)
    assert (first.text, first.ops, first.values) == ("swap", (4, 4), (5, 5))
    assert (end.ops, end.values) == ((4, 3), (5, 4))
    assert all(text == step.text and step.seconds >= 0 for text, step in seen)


def test_an_observer_sees_the_graph_after_the_pass() -> None:
    texts: list[str] = []
    graph = diamond()
    with observing(lambda each, graph, step: texts.append(str(graph))):
        Swap().run(graph)
    assert texts == [str(graph)]
