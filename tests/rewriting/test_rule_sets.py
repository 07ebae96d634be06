"""A set of rules is a value: listed, joined, taken from, timed, drawn."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import pytest

import graphad as ga
from graphad import ops
from graphad.drawing import draw_rule
from graphad.errors import InvalidType, InvalidValue
from graphad.rewriting import RuleSet, rewrite, rewrite_greedily, timing_rules
from graphad.rewriting.rewriter import RuleTime
from tests.rewriting.samples import Counting, add_zero, filled, log_exp, lowered, relu_twice, type_names

RULES = RuleSet(log_exp, add_zero, relu_twice)


def graph() -> ga.Graph:
    lines = filled("c", 0.0), ("exp", "x", "a"), ("log", "a", "b"), ("elementwise_add", ("b", "c"), "s")
    return lowered(*lines, ("relu", "s", "r"), ("relu", "r", "t"), ("sin", "t", "y"))


def test_it_is_a_sequence() -> None:
    assert list(RULES) == [log_exp, add_zero, relu_twice]
    assert (len(RULES), RULES[0], RULES[-1]) == (3, log_exp, relu_twice)
    assert list(RULES[1:]) == [add_zero, relu_twice]  # type: ignore[call-overload]
    assert log_exp in RULES
    assert Counting() not in RULES
    assert not RuleSet()


def test_a_rule_is_found_by_its_name() -> None:
    assert RULES["add-zero"] is add_zero
    with pytest.raises(InvalidValue, match="no rule is named 'add-one'; did you mean 'add-zero'"):
        RULES["add-one"]


def test_sets_are_joined_and_taken_from() -> None:
    assert list(RuleSet(log_exp) + RuleSet(add_zero, relu_twice)) == list(RULES)
    assert list(RuleSet([log_exp, add_zero], relu_twice)) == list(RULES)
    assert list(RuleSet(log_exp) + [add_zero]) == [log_exp, add_zero]  # noqa: RUF005
    assert list(RULES.without("add-zero")) == [log_exp, relu_twice]
    assert len(RULES) == 3, "they are values"


@pytest.mark.parametrize("wrong", [3, "log-exp", None, [3], ga.Pipeline()])
def test_it_is_made_of_rules(wrong: Any) -> None:
    with pytest.raises(InvalidType, match="a set of rules is made of rules, not of"):
        RuleSet(log_exp, wrong)


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidValue, match="two rules are named 'log-exp'"):
        RuleSet(log_exp, add_zero, log_exp)
    with pytest.raises(InvalidValue, match="two rules are named 'log-exp'"):
        RULES + [log_exp]  # noqa: RUF005


def test_it_is_listed() -> None:
    assert str(RULES + [Counting()]).split("\n") == [  # noqa: RUF005
        "log-exp     log(exp(x)) ⇒ x",
        "add-zero    elementwise_add(x, constant(c)) ⇒ x where (c == 0)",
        "relu-twice  relu(relu(x)) ⇒ relu(x)",
        "counting    Remembers what it is asked about, and does nothing.",
    ]
    assert str(RuleSet()) == ""


def test_rules_by_the_type_they_start_at() -> None:
    everywhere = Counting()
    rules = RULES + [everywhere]  # noqa: RUF005
    assert rules.for_type("log") == (log_exp, everywhere)
    assert rules.for_type("elementwise_add") == (add_zero, everywhere)
    assert rules.for_type("sin") == (everywhere,)


def test_how_far_it_looks() -> None:
    assert (RULES.depth, RULES.multi_root) == (2, False)
    assert (RuleSet().depth, RuleSet(Counting(depth=7)).depth) == (1, 7)
    beside = rewrite(sin_and_cos)
    assert (RULES + [beside]).multi_root  # noqa: RUF005


def sin_and_cos(x: Any) -> Any:
    return (ops.sin(x), ops.cos(x)), (ops.sin(ops.assign(x)), ops.cos(ops.assign(x)))


def double_as_scale(x: Any) -> Any:
    return ops.elementwise_add(x, x), ops.scale(x, scale=2.0)


def double_as_sum(x: Any) -> Any:
    return ops.elementwise_add(x, x), ops.sum([x, x])


def test_the_first_that_applies_is_taken() -> None:
    scale, total = rewrite(double_as_scale), rewrite(double_as_sum)
    for rules, expected in (((scale, total), "scale"), ((total, scale), "sum")):
        made = lowered(("elementwise_add", ("x", "x"), "y"))
        rewrite_greedily(made, RuleSet(log_exp, *rules), "test")
        assert type_names(made) == [expected]


# -- times ---------------------------------------------------------------------------------------


def test_rules_are_timed() -> None:
    with timing_rules() as times:
        assert rewrite_greedily(graph(), RULES, "test")
    assert set(times) == {"log-exp", "add-zero", "relu-twice"}
    assert [times[name].applied for name in ("log-exp", "add-zero", "relu-twice")] == [1, 1, 1]
    assert [times[name].tried for name in ("log-exp", "add-zero", "relu-twice")] == [1, 1, 1], "a rule is tried where it can apply"
    assert all(time.seconds > 0 for time in times.values())


def test_times_are_a_table_with_the_slowest_first() -> None:
    with timing_rules() as times:
        pass
    times["quick"], times["slow"] = RuleTime(10, 2, 0.001), RuleTime(3, 0, 1.5)
    assert str(times).split("\n") == [
        "      time     tried   applied  rule",
        "1500.00 ms         3         0  slow",
        "   1.00 ms        10         2  quick",
    ]


def test_clocks_nest() -> None:
    with timing_rules() as outer:
        with timing_rules() as inner:
            rewrite_greedily(graph(), RULES, "test")
        rewrite_greedily(graph(), RULES, "test")
    rewrite_greedily(graph(), RULES, "test")
    assert outer["log-exp"].tried == 2 * inner["log-exp"].tried == 2


def test_a_clock_inside_that_saw_nothing_leaves_the_one_outside_running() -> None:
    with timing_rules() as outer:
        with timing_rules() as inner:
            pass
        rewrite_greedily(graph(), RULES, "test")
    assert outer
    assert not inner


def test_a_clock_stops_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), timing_rules() as times:
        raise ZeroDivisionError
    rewrite_greedily(graph(), RULES, "test")
    assert not times


def test_timing_changes_nothing() -> None:
    timed, plain = graph(), graph()
    with timing_rules():
        rewrite_greedily(timed, RULES, "test")
    rewrite_greedily(plain, RULES, "test")
    assert str(timed) == str(plain)


# -- drawings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_drawn(rule: Any, tmp_path: Path) -> None:
    text = draw_rule(rule, tmp_path / "rule.svg").read_text()
    assert rule.name in unescape(text)
    assert draw_rule(rule, tmp_path / "again.svg").read_text() == text


def test_a_rule_without_two_sides_is_not_drawn(tmp_path: Path) -> None:
    with pytest.raises(InvalidType, match="has two sides"):
        draw_rule(Counting(), tmp_path / "rule.svg")  # type: ignore[arg-type]
