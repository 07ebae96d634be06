"""An operator with nested graphs is what its definition says: a loop, a branch or a call of a plugin is treated as graphad's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import edit
from graphad.errors import InvalidValue
from graphad.ir.regions import BranchLike, CallLike, LoopLike
from graphad.ir.verify import verify
from graphad.ops import REGISTRY, BranchDef, CallDef, LoopDef, region_operator
from graphad.rewriting.dataflow import Dataflow
from tests.graphs import op, types

# The loop of the plugin has names of its own for all that a while has, and an attribute more.
TEXT = """program {
  block 0 {
    var h: float64[2]
    var w: float64[2]
    var i: int64[1] stop_gradient
    var n: int64[1] stop_gradient
    var more: bool[1] stop_gradient
    var unused: float64[2]
    var start: float64[2]
    var loss: float64[]
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
    LIMIT
    less_than(X=i, Y=n) -> (Out=more)
    repeat_until(Reads=[h, w, i, n, unused], Go=more) -> (Writes=[h, unused, i, more], Kept=scopes) {body=block(1), label="mine"}
    mean(X=h) -> (Out=loss)
    var scopes: ?[?] STEP_SCOPES
  }
  block 1 in 0 {
    var t: float64[2]
    var s: float64[2]
    var r: float64[2]
    tanh(X=w) -> (Out=t)
    tanh(X=w) -> (Out=s)
    elementwise_mul(X=t, Y=s) -> (Out=r)
    elementwise_mul(X=h, Y=r) -> (Out=h)
    square(X=unused) -> (Out=unused)
    increment(X=i) -> (Out=i)
    less_than(X=i, Y=n) -> (Out=more)
  }
}"""
FEED: dict[str, Any] = {"h": np.array([0.5, -0.25]), "w": np.array([0.9, 1.2]), "n": np.array([3]), "unused": np.array([1.0, 2.0])}
NAMES = {"repeat_until(": "while(", "Reads=": "X=", "Go=": "Condition=", "Writes=": "Out=", "Kept=": "StepScopes=", "body=": "sub_block="}


@pytest.fixture(autouse=True)
def plugin() -> Iterator[None]:
    slots = {"operands": "Reads", "results": "Writes", "condition": "Go", "scopes": "Kept"}

    @region_operator("Reads*? Go -> Writes*? Kept?", LoopDef, "repeat_until", **slots, blocks=("body",), gradient="while_grad")
    def repeat_until(Reads: Any, Go: Any, *, body: Block, label: str = "") -> Any:  # type: ignore[name-defined] # noqa: F821
        """Run the body while Go holds."""

    yield
    del REGISTRY["repeat_until"]


def program(limit: int | None = None, own: bool = True) -> ga.Program:
    """The program; with its loop a ``while``, if it is not the plugin's ``own``."""
    text = TEXT.replace("LIMIT\n", "\n" if limit is None else f'fill_constant() -> (Out=n) {{shape=[1], value={limit}.0, dtype="int64"}}\n')
    text = text.replace("    var scopes: ?[?] STEP_SCOPES\n", "").replace("    var loss", "    var scopes: ?[?] STEP_SCOPES\n    var loss")
    if not own:
        text = text.replace(', label="mine"', "")
        for name, other in NAMES.items():
            text = text.replace(name, other)
    return ga.Program.parse(text)


def run(p: ga.Program, *names: str) -> list[Any]:
    feed = {name: value for name, value in FEED.items() if name in p.global_block().vars}
    return ga.Executor().run(p, feed=feed, fetch_list=list(names))


def passed(passes: str, limit: int | None = None) -> ga.Graph:
    """The graph after some passes; it computes what the program with a ``while`` does."""
    graph = ga.lower(program(limit), ["loss", "i"])
    ga.Pipeline.parse(passes).run(graph)
    verify(graph)
    for one, other in zip(run(ga.schedule(graph), "loss", "i"), run(program(limit, own=False), "loss", "i"), strict=True):
        np.testing.assert_array_equal(one, other)
    return graph


def test_it_says_what_is_what() -> None:
    graph = ga.lower(program())
    loop = LoopLike.of(op(graph, "repeat_until"))
    assert loop is not None
    assert BranchLike.of(loop.op) is None
    assert CallLike.of(loop.op) is None
    assert [value.name for value in loop.carried] == ["h", "unused", "i", "more"]
    assert [value.name for value in loop.captured] == ["w", "n"]
    assert [value.name for value in loop.results] == ["h", "unused", "i", "more"]
    assert [value.name for value in loop.arguments("body")] == ["h", "unused", "i", "more", "w", "n"]
    assert [value.name for value in loop.yielded("body")] == ["h", "unused", "i", "more"]
    assert loop.condition == loop.carried[-1:]
    assert loop.residuals is not None
    assert loop.residuals.name == "scopes"
    assert edit.loops(graph) == [loop.op]


def test_it_reads_back_and_runs() -> None:
    p = program()
    assert str(ga.Program.parse(str(p))) == str(p)
    assert str(ga.schedule(ga.lower(p))) == str(p)
    for one, other in zip(run(p, "loss", "h", "i"), run(program(own=False), "loss", "h", "i"), strict=True):
        np.testing.assert_array_equal(one, other)


def test_dead_code_takes_what_it_carries_for_no_one() -> None:
    graph = passed("dead-code")
    loop = op(graph, "repeat_until")
    assert [value.name for value in loop.outputs["Writes"]] == ["h", "i", "more"]
    assert "square" not in types(loop.graphs["body"])


def test_cse_merges_in_it() -> None:
    assert types(op(passed("cse"), "repeat_until").graphs["body"]).count("tanh") == 1


def test_invariants_are_hoisted_out_of_it() -> None:
    graph = passed("hoist-invariants")
    assert types(graph).count("tanh") == 2
    assert "tanh" not in types(op(graph, "repeat_until").graphs["body"])


def test_it_is_unrolled_and_folded() -> None:
    assert "repeat_until" not in types(passed("unroll-while", limit=3))
    assert len(op(passed("unroll-while{limit=1, factor=2}", limit=4), "repeat_until").graphs["body"].ops) == 14
    assert "repeat_until" not in types(passed("fold-branches", limit=0))


def test_it_has_a_gradient() -> None:
    found = []
    for own in (True, False):
        p = program(own=own)
        block = p.global_block()
        ga.gradients([block.var("loss")], [block.var("w"), block.var("h")])
        ga.Pipeline.parse("checkpoint-while{every=2}").run(graph := ga.lower(p))
        found.append(run(ga.schedule(graph), "w@GRAD", "h@GRAD"))
    np.testing.assert_array_equal(found[0], found[1])


def test_edits_take_it() -> None:
    expected = run(program(own=False), "loss")
    for change in (edit.peel, lambda loop: edit.split_loop(loop, 2), lambda loop: edit.unroll(loop, 3)):
        graph = ga.lower(program(), ["loss"])
        change(op(graph, "repeat_until"))
        verify(graph)
        np.testing.assert_array_equal(run(ga.schedule(graph), "loss"), expected)


@dataclass(frozen=True)
class Constants(Dataflow[bool]):
    """Which values depend on constants alone."""

    bottom, top = None, False

    def join(self, a: bool, b: bool) -> bool:
        return a and b

    def transfer(self, op: ga.ir.Op, facts: Any) -> dict[Any, bool]:
        return dict.fromkeys(op.writes(), all(facts[value] for value in op.reads()))


def test_dataflow_follows_values_round_it() -> None:
    graph = ga.lower(program(limit=3))
    facts = Constants().of(graph)
    loop = op(graph, "repeat_until")
    assert [facts[value] for value in loop.outputs["Writes"]] == [False, False, True, True]
    body = loop.graphs["body"]
    assert [facts[value] for value in body.inputs] == [False, False, True, True, False, True]


# -- definitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (LoopDef, {"scopes": "Kept", "operands": "Y"}, "says operands='Y', which is no slot there; it has X"),
        (CallDef, {"scopes": "Scope"}, "says scopes='Scope', which is no slot there; it has Out, Kept"),
        (BranchDef, {"scopes": "Kept", "blocks": ("other",)}, "says that 'other' holds a block, but its attributes are body"),
        (LoopDef, {"scopes": "Kept", "blocks": ("body",)}, "is a loop: it has one block and a condition"),
    ],
)
def test_a_definition_that_does_not_fit_is_refused(kind: Any, fields: dict[str, Any], message: str) -> None:
    def wrong(X: Any, *, body: Block) -> Any:  # type: ignore[name-defined] # noqa: F821
        """Nothing."""

    with pytest.raises(InvalidValue, match=message):
        region_operator("X*? -> Out*? Kept?", kind, "wrong", **fields)(wrong)
    assert "wrong" not in REGISTRY
    with pytest.raises(InvalidValue, match="'while' is defined twice"):
        region_operator("X*? -> Out*? Kept?", kind, "while", **fields)(wrong)
