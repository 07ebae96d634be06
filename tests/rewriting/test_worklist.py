"""The worklist: a second run costs about as much as what changed since, and misses nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import graphad as ga
from graphad import ops
from graphad.errors import PassError
from graphad.ir.verify import verify
from graphad.rewriting import Rule, RuleSet, erase_if_dead, is_float, rewrite_greedily
from tests.rewriting.samples import Counting, add_zero, body, filled, greedily, log_exp, looping, lowered, only, relu_twice, type_names
from tests.scratch import Swap

SIZE = 2000


def row(count: int) -> ga.Graph:
    """sin, cos, sin, cos...: one after the other."""
    return lowered(*(("sin" if i % 2 == 0 else "cos", f"x{i}", f"x{i + 1}") for i in range(count)))


def asked(graph: ga.Graph, rule: Counting) -> list[str]:
    """The types of the operators that a run asks the rule about."""
    rewrite_greedily(graph, RuleSet(rule), "test")
    return rule.take()


# -- what a run costs ----------------------------------------------------------------------------


def test_the_first_run_looks_at_every_operator_once() -> None:
    graph, rule = row(SIZE), Counting()
    assert len(asked(graph, rule)) == SIZE


def test_a_second_run_looks_at_nothing() -> None:
    graph, rule = row(SIZE), Counting(depth=3)
    asked(graph, rule)
    assert asked(graph, rule) == []


@pytest.mark.parametrize(("depth", "expected"), [(1, "tanh cos"), (2, "tanh cos cos"), (3, "tanh cos cos sin")])
def test_after_one_edit_a_run_looks_around_it(depth: int, expected: str) -> None:
    """At what was put there, at the writer of what the old one read, and at what reads it, as far as the rules look."""
    graph, rule = row(SIZE), Counting(depth)
    asked(graph, rule)
    put(graph, "x1001", "tanh")
    assert sorted(asked(graph, rule)) == sorted(expected.split())


def test_what_a_run_costs_does_not_depend_on_the_size_of_the_graph() -> None:
    costs = []
    for size in (100, SIZE):
        graph, rule = row(size), Counting(depth=2)
        asked(graph, rule)
        graph.set_attr(next(iter(graph.ops)), "k", 1)
        costs.append(len(asked(graph, rule)))
    assert costs[0] == costs[1] <= 3


def test_only_rules_that_start_at_a_type_are_asked() -> None:
    graph = row(10)
    sines, none = Counting(types=frozenset({"sin"})), Counting(types=frozenset({"tanh"}))
    none.name = "none"
    rewrite_greedily(graph, RuleSet(sines, none), "test")
    assert (len(sines.take()), none.take()) == (5, [])


def test_every_follower_has_a_place_of_its_own() -> None:
    graph, rule = row(10), Counting()
    for who in ("first", "second"):
        rewrite_greedily(graph, RuleSet(rule), who)
        assert len(rule.take()) == 10
    graph.set_attr(next(iter(graph.ops)), "k", 1)
    for who in ("first", "second", "second"):
        rewrite_greedily(graph, RuleSet(rule), who)
    assert rule.take() == ["sin", "sin"]


def test_an_operator_touched_many_times_is_looked_at_once() -> None:
    graph, rule = row(10), Counting()
    asked(graph, rule)
    for i in range(50):
        graph.set_attr(next(iter(graph.ops)), "k", i)
    assert asked(graph, rule) == ["sin"]


def test_what_is_remembered_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphad.rewriting.rewriter._REMEMBERED", 100)
    graph, rule = row(10), Counting()
    asked(graph, rule)
    for i in range(1000):
        graph.set_attr(next(iter(graph.ops)), "k", i)
    assert len(asked(graph, rule)) == 10, "it starts again"
    assert len(graph.journal.touched or []) == 0
    assert asked(graph, rule) == []


def test_a_graph_without_followers_remembers_nothing() -> None:
    graph = row(10)
    graph.set_attr(next(iter(graph.ops)), "k", 1)
    assert graph.journal.touched is None


# -- nothing is missed ---------------------------------------------------------------------------


def missed(graph: ga.Graph, rule: Rule, edit: Callable[[ga.Graph], Any]) -> bool:
    """Whether a rule that did not apply still does not after an edit that makes it apply."""
    assert not greedily(graph, rule)
    edit(graph)
    assert greedily(graph.clone(), rule), "the edit makes it apply"
    return not greedily(graph, rule)


def put(graph: ga.Graph, name: str, op_type: str) -> None:
    """Another operator in the place of the one that writes a value."""
    old = graph.value(name).writer
    assert old is not None
    graph.add_op(op_type, old.inputs, old.outputs, before=old)
    graph.remove_op(old)


@ga.rewrite
def three(x: Any) -> Any:
    return ops.tanh(ops.relu(ops.relu(ops.relu(x)))), ops.tanh(ops.relu(x))


@ga.rewrite
def used_once(x: Any) -> Any:
    return ops.relu(x), ops.elementwise_max(x, ops.fill_any_like(x, value=0.0)), x.uses == 1


@ga.rewrite
def inner_used_once(x: Any) -> Any:
    h = ops.relu(x)
    return ops.relu(h), h, h.uses == 1


@ga.rewrite
def sin_and_cos(x: Any) -> Any:
    return (ops.sin(x), ops.cos(x)), (ops.sin(ops.assign(x)), ops.cos(ops.assign(x)))


@ga.rewrite
def sin_and_deep_cos(x: Any) -> Any:
    return (ops.sin(x), ops.cos(ops.exp(ops.exp(x)))), (ops.sin(ops.assign(x)), ops.cos(ops.exp(ops.exp(x))))


@ga.rewrite
def and_its_reader(x: Any) -> Any:
    h = ops.exp(x)
    return (h, ops.sin(h)), (h, ops.sin(ops.assign(h)))


def deep(*types: str) -> ga.Graph:
    """Operators one after the other."""
    return lowered(*((each, f"v{i}", f"v{i + 1}") for i, each in enumerate(types)))


def test_the_operator_itself() -> None:
    assert not missed(deep("exp", "sin"), log_exp, lambda g: put(g, "v2", "log"))


def test_an_operator_deep_in_the_pattern() -> None:
    assert not missed(deep("sin", "relu", "relu", "tanh"), three, lambda g: put(g, "v1", "relu"))


def test_an_input_that_is_another() -> None:
    graph = lowered(("exp", "x", "a"), ("sin", "x", "b"), ("log", "b", "y"), targets=["a", "y"])
    assert not missed(graph, log_exp, lambda g: g.set_inputs(only(g, "log"), "X", [g.value("a")]))


def test_the_number_in_a_constant() -> None:
    graph = lowered(filled("c", 1.0), ("elementwise_add", ("x", "c"), "y"))
    assert not missed(graph, add_zero, lambda g: g.set_attr(only(g, "fill_constant"), "value", 0.0))


def test_a_reader_less() -> None:
    graph = lowered(("relu", "x", "h"), ("relu", "h", "y"), ("sin", "h", "z"))
    assert not missed(graph, inner_used_once, lambda g: g.remove_op(only(g, "sin")))


def test_a_reader_less_of_what_goes_in() -> None:
    graph = lowered(("exp", "x", "h"), ("relu", "h", "y"), ("sin", "h", "z"))
    assert not missed(graph, used_once, lambda g: g.remove_op(only(g, "sin")))


def test_an_operator_beside() -> None:
    graph = lowered(("sin", "x", "a"), ("exp", "x", "b"))
    assert not missed(graph, sin_and_cos, lambda g: put(g, "b", "cos"))


def test_an_operator_beside_and_above() -> None:
    graph = lowered(("sin", "x", "a"), ("exp", "x", "b"), ("relu", "b", "c"), ("cos", "c", "d"))
    assert not missed(graph, sin_and_deep_cos, lambda g: put(g, "c", "exp"))
    graph = lowered(("sin", "x", "a"), ("exp", "x", "b"), ("exp", "b", "c"), ("relu", "c", "d"))
    assert not missed(graph, sin_and_deep_cos, lambda g: put(g, "d", "cos"))


def test_an_operator_that_reads_the_result() -> None:
    graph = lowered(("exp", "x", "a"), ("cos", "a", "b"))
    assert not missed(graph, and_its_reader, lambda g: put(g, "b", "sin"))


def test_what_another_pass_did() -> None:
    graph = deep("exp", "sin", "tanh")
    assert not greedily(graph, log_exp)
    Swap(old="sin", new="log").run(graph)
    assert greedily(graph, log_exp)
    assert type_names(graph) == ["tanh"]


def test_what_other_rules_did_on_the_way() -> None:
    graph = lowered(filled("zero", 0.0), ("exp", "x", "a"), ("elementwise_add", ("a", "zero"), "b"), ("log", "b", "y"), ("sin", "y", "s"))
    greedily(graph, log_exp, add_zero)
    assert type_names(graph) == ["sin"]
    assert len(graph.values) == 2, "an unused constant is gone too"


# -- nested graphs -------------------------------------------------------------------------------


def test_nested_graphs_are_looked_at_with_the_whole() -> None:
    graph, rule = looping(), Counting()
    assert len(asked(graph, rule)) == sum(len(each.ops) for each in graph.tree())
    inner = body(graph)
    put(inner, "tanh_0.tmp_0", "sin")
    assert asked(graph, rule) == ["sin"]


def test_rules_apply_in_nested_graphs() -> None:
    graph = looping()
    Swap(old="tanh", new="relu").run(body(graph))
    assert greedily(graph, relu_twice)
    assert type_names(body(graph)).count("relu") == 1
    verify(graph)
    ga.schedule(graph)


def test_what_changes_inside_is_seen_later() -> None:
    graph = looping()
    assert not greedily(graph, relu_twice)
    Swap(old="tanh", new="relu").run(body(graph))
    assert greedily(graph, relu_twice)


# -- what is left --------------------------------------------------------------------------------


def test_what_a_rewrite_leaves_without_readers_goes() -> None:
    graph = lowered(("sin", "x", "s"), ("exp", "s", "a"), ("log", "a", "b"), ("tanh", "b", "y"))
    greedily(graph, log_exp)
    assert type_names(graph) == ["sin", "tanh"]


def test_what_somebody_else_reads_stays() -> None:
    graph = lowered(("exp", "x", "a"), ("log", "a", "b"), ("tanh", "b", "y"), ("cos", "a", "z"))
    greedily(graph, log_exp)
    assert type_names(graph) == ["exp", "tanh", "cos"]


def test_every_root_goes() -> None:
    graph = lowered(("sin", "x", "a"), ("cos", "x", "b"))
    greedily(graph, sin_and_cos)
    assert sorted(type_names(graph)) == ["assign", "assign", "cos", "sin"]
    assert sorted(value.name for value in graph.targets) == ["a", "b"]


def test_sweep_takes_what_dies_with_an_operator() -> None:
    graph = lowered(("exp", "x", "a"), ("log", "a", "b"), ("cos", "a", "z"), targets=["z"])
    erase_if_dead(only(graph, "cos"))
    assert len(graph.ops) == 3
    erase_if_dead(only(graph, "log"))
    assert type_names(graph) == ["exp", "cos"]


# -- no end --------------------------------------------------------------------------------------


@ga.rewrite
def turn_around(x: Any, y: Any) -> Any:
    return ops.elementwise_add(x, y), ops.elementwise_add(y, x)


@ga.rewrite
def half_again(x: Any, *, a: Any) -> Any:
    return ops.scale(x, scale=a), ops.scale(ops.scale(x, scale=a), scale=1.0), is_float(x)


@pytest.mark.parametrize("rule", [turn_around, half_again], ids=lambda rule: rule.name)
def test_rules_that_find_no_end_are_stopped_and_named(rule: Rule) -> None:
    graph = lowered(("elementwise_add", ("x", "y"), "z"), ("scale", "z", "s", {"scale": 2.0}))
    message = rf"rules still apply after \d+ rewrites of 2 operators, again and again: {rule.name}"
    with pytest.raises(PassError, match=message) as raised:
        greedily(graph, rule)
    assert f"{rule!r}, defined at {__file__}:" in str(raised.value)
    assert len(str(raised.value)) < 600
    verify(graph)


@ga.rewrite
def as_sum(x: Any) -> Any:
    return ops.scale(x, scale=2.0), ops.elementwise_add(x, x), is_float(x)


@ga.rewrite
def as_scale(x: Any) -> Any:
    return ops.elementwise_add(x, x), ops.scale(x, scale=2.0), is_float(x)


@ga.rewrite
def twice(x: Any) -> Any:
    return ops.relu(x), ops.relu(ops.relu(x))


CIRCLES = [([turn_around], "x +"), ([as_sum, as_scale], "scale"), ([twice], "relu")]


@pytest.mark.parametrize(("rules", "step"), CIRCLES, ids=["turn-around", "as-sum and as-scale", "twice"])
def test_rules_that_go_round_in_a_circle_are_found_after_few_rewrites_for_each_operator(rules: list[Rule], step: str) -> None:
    """Not after the fifty that a rule with an end may need: of 300 operators that would be 16,000."""
    kinds = {"x +": ("elementwise_add", ("x", None), {}), "scale": ("scale", None, {"scale": 2.0}), "relu": ("relu", None, {})}
    op_type, reads, attrs = kinds[step]
    names = ["x", *(f"v{i}" for i in range(300))]
    chain = [(op_type, ("x", before) if reads else before, after, attrs) for before, after in itertools.pairwise(names)]
    with pytest.raises(PassError, match="again and again") as raised:
        rewrite_greedily(lowered(*chain, targets=names[-1:]), RuleSet(*rules), "test")
    count = int(str(raised.value).split(" rewrites of 300 operators")[0].rsplit(" ", 1)[1])
    assert count < 1000 + 9 * 300
    assert all(rule.name in str(raised.value) for rule in rules)


@ga.rewrite
def sink(x: Any) -> Any:
    return ops.tanh(ops.relu(x)), ops.relu(ops.tanh(x))


def test_rules_that_move_operators_far_have_an_end() -> None:
    """30 operators sink below 50 others: 1,500 rewrites of 80 operators, each of them something new."""
    steps, name = [], "x"
    for i in range(80):
        steps.append(("relu" if i < 50 else "tanh", name, f"v{i}"))
        name = f"v{i}"
    graph = lowered(*steps, targets=[name])
    assert rewrite_greedily(graph, RuleSet(sink), "test")
    assert graph.journal.rewrites == 1500
    assert type_names(graph) == ["tanh"] * 30 + ["relu"] * 50


class Reading(Rule):
    """Let an operator of a type read what tanh writes, unless one does; tanh itself does not change."""

    types = frozenset({"tanh"})

    def __init__(self, reader: str) -> None:
        self.name = self.reader = reader

    def rewrite(self, op: ga.ir.Op) -> bool:
        graph, out = op.graph, op.output("Out")
        if any(reader.type == self.reader for reader in out.readers) or not graph.allows(self.name, op):
            return False
        graph.add_op(self.reader, {"X": [out]}, {"Out": [graph.add_value(self.reader, out.shape, out.dtype)]}, before=op.next)
        return True


def test_every_rule_that_applies_at_an_operator_does_although_the_operator_stays_as_it_is() -> None:
    graph = lowered(("tanh", "x", "y"))
    assert rewrite_greedily(graph, RuleSet(Reading("sin"), Reading("cos"), Reading("exp")), "test")
    assert sorted(type_names(graph)) == ["cos", "exp", "sin", "tanh"]
