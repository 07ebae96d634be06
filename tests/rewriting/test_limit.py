"""Rewrites are counted, and can be stopped after the n-th, to find the one at fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import graphad as ga
from graphad.ir.verify import verify
from graphad.rewriting import run_pass
from tests.rewriting.samples import Apply, filled, looping, lowered, type_names
from tests.scratch import Swap, passes


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with passes(Swap, Apply):
        yield


def graph(limit: int | None = None) -> ga.Graph:
    """Three times exp and log, a zero added, and a sine."""
    pairs = [line for i in range(3) for line in (("exp", f"x{i}", f"e{i}"), ("log", f"e{i}", f"x{i + 1}"))]
    made = lowered(*pairs, filled("zero", 0.0), ("elementwise_add", ("x3", "zero"), "s"), ("sin", "s", "y"))
    made.journal.limit = limit
    return made


def pipeline() -> ga.Pipeline:
    return Swap(old="sin", new="cos") | Apply() | Swap(old="cos", new="tanh")


def test_every_rewrite_counts() -> None:
    made = graph()
    pipeline().run(made)
    assert made.journal.rewrites == 1 + 4 + 1
    assert type_names(made) == ["tanh"]


def test_each_stops_one_rewrite_later_than_the_one_before() -> None:
    counts, texts = [], []
    for limit in range(8):
        made = graph(limit)
        pipeline().run(made)
        verify(made)
        assert made.journal.rewrites == min(limit, 6)
        counts.append(len(made.ops))
        texts.append(str(made))
    assert counts == [9, 9, 7, 5, 3, 1, 1, 1]
    assert len(set(texts)) == 7
    assert texts[0] == str(graph())
    full = graph()
    pipeline().run(full)
    assert texts[6] == texts[7] == str(full)


@pytest.mark.parametrize(
    ("limit", "rule", "ancestors"),
    [(1, "swap", []), (2, "log-exp", ["log -> x1", "exp -> e0"]), (5, "add-zero", ["elementwise_add -> s"]), (6, "swap", [])],
)
def test_the_last_rewrite_is_known(limit: int, rule: str, ancestors: list[str]) -> None:
    made = graph(limit)
    pipeline().run(made)
    assert made.journal.origin is not None
    assert (made.journal.origin.rule, [a.text for a in made.journal.origin.ancestors]) == (rule, ancestors)


def test_after_the_limit_nothing_runs() -> None:
    made = graph(0)
    assert not pipeline().run(made)
    assert not run_pass(ga.passes.CreateGradOps(), made), "not even what would fail"
    assert made.journal.history == []
    assert str(made) == str(graph())


def test_a_fixpoint_ends_at_the_limit() -> None:
    made = graph(3)
    assert ga.fixpoint(Swap(), Swap(old="cos", new="sin")).run(made)
    assert made.journal.rewrites == 3


def test_rewrites_in_nested_graphs_count() -> None:
    made = looping()
    made.journal.limit = 1
    (ga.nested(Swap(old="tanh", new="exp"), Swap(old="exp", new="sin")) | Swap(old="assign", new="tanh")).run(made)
    assert made.journal.rewrites == 1
    assert "exp(" in str(made)
    assert "sin(" not in str(made)


def test_a_limit_can_be_lifted() -> None:
    made = graph(2)
    pipeline().run(made)
    made.journal.limit = None
    pipeline().run(made)
    assert type_names(made) == ["tanh"]


def test_every_graph_on_the_way_of_the_backward_is_sound() -> None:
    texts = set()
    for limit in range(12):
        made = lowered(("sin", "x", "a"), ("exp", "a", "b"), ("elementwise_mul", ("a", "b"), "y"))
        made.block.vars["x"].stop_gradient = False  # type: ignore[union-attr]
        made.journal.limit = limit
        ga.backward_pipeline(("y",), inputs=("x",)).run(made)
        verify(made)
        texts.add(str(ga.schedule(made)))
    assert len(texts) > 3
