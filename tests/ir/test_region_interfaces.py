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
from graphad.ir import Op
from graphad.ir.regions import (
    BACK,
    BYPASS,
    ENTRY,
    EXIT,
    KEPT,
    SAVED,
    SUM,
    BranchLike,
    CallLike,
    LoopLike,
    added_count,
    carried_count,
    conditions,
    first_captured,
    has_effects,
    has_ordered_effects,
    region_edges,
    types_of,
)
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


def named_edges(operator: Op) -> dict[str, list[tuple[str, str]]]:
    """The ways of values in and out of an operator, by kind, as pairs of names."""
    found: dict[str, list[tuple[str, str]]] = {}
    for edge in region_edges(operator):
        found.setdefault(edge.kind, []).append((edge.source.name, edge.target.name))
    return found


def test_a_loop_and_its_gradient_say_where_values_go() -> None:
    """The gradient carries the cotangent of what the loop carries, adds up that of what stays, and reads what was kept."""
    p = program(own=False)
    block = p.global_block()
    ga.gradients([block.var("loss")], [block.var("w"), block.var("h")])
    graph = ga.lower(p)
    forward, backward = op(graph, "while"), op(graph, "while_grad")
    loop, gradient = LoopLike.of(forward), LoopLike.of(backward)
    assert loop is not None
    assert gradient is not None
    # Carried values come first in a loop, last in its gradient, where what stays precedes them.
    assert (loop.carried_at, gradient.carried_at) == (range(4), range(1, 2))
    assert [value.name for value in gradient.captured] == ["w"]
    assert gradient.carried == gradient.operands[-1:]
    assert [first_captured(forward), carried_count(forward), added_count(forward)] == [4, 4, 0]
    assert [first_captured(backward), carried_count(backward), added_count(backward)] == [0, 1, 1]
    # The loop asks its condition at the start, and its body's last result after each iteration; the gradient asks nothing.
    body = loop.arguments("sub_block")
    assert conditions(forward) == (*loop.condition, loop.goes_on)
    assert loop.goes_on is loop.yielded("sub_block")[-1] is not body[-1]
    assert conditions(backward) == ()
    assert types_of(LoopLike) == {"while", "repeat_until"}
    carried, kept = [(name, name) for name in ("h", "unused", "i", "more")], ("h@SAVED@0", "r", "t", "s")
    expected = {ENTRY: [*carried, ("w", "w"), ("n", "n")], EXIT: carried, BACK: carried, BYPASS: carried}
    assert named_edges(forward) == {**expected, KEPT: [(name, "scopes") for name in kept]}
    step = [("h@GRAD_0", "h@GRAD")]
    ways = {ENTRY: [("w", "w"), *step], EXIT: step, BACK: step, BYPASS: step, SUM: [("w@GRAD", "w@GRAD")]}
    assert named_edges(backward) == {**ways, SAVED: [(name, name) for name in kept]}


@pytest.mark.parametrize(("call", "has_effect", "is_ordered"), [("tanh", False, False), ("feed", True, False), ("print", True, True)])
def test_effects_are_seen_in_nested_graphs(call: str, has_effect: bool, is_ordered: bool) -> None:
    text = f"net(X=x) -> (Out=y) {{sub_block=block(1)}} }} block 1 in 0 {{ {call}({'In' if call == 'print' else 'X'}=x) -> (Out=y)"
    operator = op(ga.lower(ga.Program.parse(f"program {{ block 0 {{ var x: float64[2] var y: float64[2] {text} }} }}")), "net")
    assert (has_effects(operator), has_ordered_effects(operator)) == (has_effect, is_ordered)


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
