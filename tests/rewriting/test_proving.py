"""Rules are proved, or refuted with an input that the kernels confirm; what is stored of the rules of simplify is current."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import graphad as ga
from graphad import ops
from graphad.errors import InvalidType, InvalidValue
from graphad.passes.cleanup.rules import claims
from graphad.rewriting import PatternRule, compute, constant, is_float, moving, prove, rewrite
from graphad.rewriting.proofs import recorded
from graphad.rewriting.proving import Proof
from graphad.rewriting.rewriter import RuleSet, rewrite_greedily
from graphad.rewriting.smt import Unsupported
from tests import proofs
from tests.rewriting.samples import Counting
from tests.rewriting.wrong_rules import RIGHT_AS_EXACT, WRONG, WRONG_AS_EXACT
from tests.shares import one_in
from tests.source_tree import ROOT

z3 = pytest.importorskip("z3", reason="z3-solver is not installed: pip install 'graphad[proof]'")

RULES = {claim.rule.name: claim.rule for claim in claims()}
QUICK = {
    "relu-of-relu": ("float64", "float32", "int64", "int32", "bool"),
    "not-less": ("int64", "int32", "bool"),
    "and-absorbs-or": ("bool",),
    "negate-scale": ("float64", "float32"),
    "subtract-negated": ("float64", "float32"),
    "cos-of-negated": ("float64", "float32"),
    "choose-by-not": ("float64", "float32", "int64", "int32", "bool"),
    "transpose-in-order": ("all",),
    "flip-of-flip": ("all",),
    "reshape2-of-squeeze2": ("all",),
}

RIGHT_IF_APPLIED = "relu of a list without the axis"
RIGHT_IN_VALUES = "sign times size, at zero"
NEVER_RIGHT = [name for name in (*WRONG, *WRONG_AS_EXACT) if name not in (RIGHT_IF_APPLIED, RIGHT_IN_VALUES)]


def untested(function: Any) -> PatternRule:
    return rewrite(fast=False, verify=False)(function)


@pytest.mark.parametrize("name", QUICK)
def test_a_rule_of_simplify_is_proved(name: str) -> None:
    proof = prove(RULES[name], timeout=60)
    assert (proof.status, set(proof.dtypes)) == ("proved", set(QUICK[name])), proof


REFUTED = (
    *("floor is not round", "relu6 is not relu", "sign at zero"),
    *("trunc is not floor", "a very wide clip", "a subtraction commutes"),
)


@pytest.mark.parametrize("name", REFUTED)
def test_a_wrong_rule_is_refuted_with_an_input(name: str) -> None:
    proof = prove(untested(WRONG[name]), timeout=30)
    assert proof.status == "refuted", proof
    assert proof.counterexample is not None
    assert "\n  before: " in proof.counterexample
    assert "\n  after:  " in proof.counterexample


@pytest.mark.parametrize("name", one_in(9, NEVER_RIGHT))
def test_no_wrong_rule_is_proved(name: str) -> None:
    """A wrong rule may be right for some dtypes; it is never proved for all that it applies to."""
    rule = untested({**WRONG, **WRONG_AS_EXACT}[name])
    proof = prove(rule, timeout=0.5)
    assert proof.status != "proved" or proof.open, proof


def test_a_rule_with_a_wrong_gradient_is_proved_and_refused() -> None:
    """At zero, where both sides are zero, the gradients are 0 and 1: proofs are about values, the gradients are tested."""
    function = WRONG_AS_EXACT[RIGHT_IN_VALUES]
    assert "float32" in prove(untested(function), timeout=60).dtypes
    with pytest.raises(InvalidValue, match="\n  the gradient of x, "):
        rewrite(fast=False)(function)


@pytest.mark.parametrize(("inputs", "is_applied"), [("x, y", False), ("a", True)])
def test_a_rule_that_forgets_an_axis_is_proved_because_it_is_applied_only_where_extents_agree(inputs: str, is_applied: bool) -> None:
    """Tensors that are joined along another axis have other extents, and then the rewriter leaves them: what is left are lists of one."""
    rule = untested({**WRONG, **WRONG_AS_EXACT}[RIGHT_IF_APPLIED])
    assert prove(rule, timeout=60).status == "proved"
    declared = "var x: float64[2, 2] var y: float64[2, 2] " + " ".join(f"var {name}: float64[2, 4]" for name in "abc")
    joined = f"concat(X=[{inputs}]) -> (Out=b) {{axis=1}} concat(X=b) -> (Out=c) {{axis=1}}"
    graph = ga.lower(ga.Program.parse(f"program {{ block 0 {{ {declared} {joined} }} }}"), ["c"])
    assert rewrite_greedily(graph, RuleSet([rule]), "a test") == is_applied


def test_a_right_rule_is_never_refuted() -> None:
    for function in list(RIGHT_AS_EXACT.values())[::3]:
        assert prove(untested(function), timeout=0.3).status != "refuted"


def test_small_differences_are_found() -> None:
    """A number that no test would try: the solver does."""

    def almost(x: Any) -> Any:
        return ops.where(ops.equal(x, constant(1234567.0)), ops.scale(x, scale=-1.0), x), x, x.dtype == "int32"

    assert rewrite(fast=False, verify=False)(almost).evidence is None
    proof = prove(untested(almost), timeout=20)
    assert proof.status == "refuted"
    assert "1234567" in str(proof)


def test_conditions_are_premises() -> None:
    def bounded(x: Any, *, t: Any) -> Any:
        return ops.relu(ops.relu6(x, threshold=t)), ops.relu6(x, threshold=t), t >= 0

    def unbounded(x: Any, *, t: Any) -> Any:
        return ops.relu(ops.relu6(x, threshold=t)), ops.relu6(x, threshold=t)

    assert prove(untested(bounded)).status == "proved"
    assert prove(untested(unbounded)).status == "refuted"


def test_a_condition_without_meaning_to_the_solver_refutes_nothing() -> None:
    def picked(x: Any, *, c: Any) -> Any:
        return ops.elementwise_mul(x, constant(c)), x, is_float(x) & compute(lambda c: c == 1, c)

    proof = prove(untested(picked), timeout=5)
    assert proof.status == "unknown"
    assert set(proof.open.values()) <= {"what the solver found is no counterexample", "time is over"}


def test_assumptions_are_listed() -> None:
    proof = prove(RULES["relu-of-exp"])
    assert proof.status == "proved"
    assert any(text.startswith("exp(x) >= 0") for text in proof.assumptions)
    assert str(proof).startswith("proved for float64, float32, ")
    assert "  assuming exp(x) >= 0" in str(proof)


def test_operands_that_are_broadcast_are_aligned_at_every_axis() -> None:
    """A rule proved where the last axes are aligned was said to be proved for all axes."""

    def anywhere(x: Any, y: Any, *, k: Any) -> Any:
        return ops.expand_like(x, y, axis=k), ops.expand_like(x, y)

    def passed_on(x: Any, y: Any, *, k: Any) -> Any:
        return ops.expand_like(ops.flip(ops.flip(x, axis=[0]), axis=[0]), y, axis=k), ops.expand_like(x, y, axis=k)

    proof = prove(untested(anywhere))
    assert (proof.status, proof.dtypes) == ("unknown", ())
    assert "an element comes from elsewhere, with k=0" in str(proof)
    assert prove(untested(passed_on)).dtypes == ("all",)


def test_what_is_not_known_of_one_choice_is_not_proved_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown_of_three_axes(facts: Any, x: Any, **_: Any) -> Any:
        if x.rank == 3:
            raise Unsupported("three axes")
        return [x]

    monkeypatch.setattr(moving, "MOVES", {**moving.MOVES, "flip": unknown_of_three_axes})
    proof = prove(untested(lambda x, *, a: (ops.flip(ops.flip(x, axis=a), axis=a), x)))
    assert (proof.status, proof.open) == ("unsupported", {"all": "unsupported: three axes"})


def test_attributes_in_lists_are_proved_as_attributes_are() -> None:
    def right(x: Any, *, m: Any, n: Any, a: Any) -> Any:
        return ops.roll(ops.roll(x, shifts=[m], axis=[a]), shifts=[n], axis=[a]), ops.roll(x, shifts=[m + n], axis=[a])

    def wrong(x: Any, *, m: Any, n: Any, a: Any) -> Any:
        return ops.roll(ops.roll(x, shifts=[m], axis=[a]), shifts=[n], axis=[a]), ops.roll(x, shifts=[m - n], axis=[a])

    def default(x: Any, *, a: Any) -> Any:
        return ops.reduce_max(ops.flip(ops.flip(x, axis=[a]), axis=[a])), ops.reduce_max(x)

    assert prove(untested(right)).dtypes == ("all",)
    assert "an element comes from elsewhere" in str(prove(untested(wrong)))
    assert prove(untested(default)).status == "unknown"  # nothing is known of what several elements are reduced to


def test_what_has_no_meaning_to_the_solver_is_unsupported() -> None:
    proof = prove(untested(lambda x: (ops.cumsum(ops.cumsum(x)), ops.cumsum(x))))
    assert proof.status == "unsupported"
    assert "cumsum" in str(proof)


def test_only_rules_with_two_sides_are_proved() -> None:
    with pytest.raises(InvalidType, match="a rule made with @rewrite is proved"):
        prove(Counting())  # type: ignore[arg-type]


def test_without_z3_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "z3.py").write_text("raise ImportError('none')")
    lines = ("@ga.rewrite", "def twice(x): return ga.ops.relu(ga.ops.relu(x)), ga.ops.relu(x)", "ga.rewriting.prove(twice)")
    code = "\n".join(["import graphad as ga", *lines])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "rules are proved with z3, which is not installed: pip install 'graphad[proof]'" in done.stderr


# -- what is stored --------------------------------------------------------------------------------


def test_what_is_stored_is_of_the_rules_as_they_are() -> None:
    stored = recorded()
    exact = {claim.rule.name: claim.rule.text for claim in claims() if claim.exact}
    assert {name: result["rule"] for name, result in stored.items()} == exact, "make proofs"


def test_at_least_ninety_rules_are_proved_and_none_is_refuted() -> None:
    results = recorded().values()
    useful = [result for result in results if {"float32", "int64", "all", "bool"} & set(result["dtypes"])]
    assert len(useful) >= 90
    assert not [result for result in results if result["status"] == "refuted"]


@pytest.mark.parametrize("name", list(QUICK)[:3])
def test_what_is_stored_is_what_is_proved(name: str) -> None:
    proof: Proof = prove(RULES[name], timeout=60)
    assert recorded()[name] == proofs.entry(RULES[name], proof)


def test_every_rule_says_what_it_is_proved_for_and_what_it_is_tested_for() -> None:
    assert all(rule.proved == tuple(recorded()[name]["dtypes"]) for name, rule in RULES.items() if name in recorded())
    only_in_part = RULES["cast-of-widened"]
    assert only_in_part.proved == ("int64",)
    assert {*only_in_part.tested} == {"float64", "float32", "int32", "bool"}
    assert RULES["assign-away"].tested == ()


def test_a_rule_of_the_same_name_and_text_is_not_taken_for_the_librarys() -> None:
    @rewrite(fast=False)
    def relu_of_relu(x: Any) -> Any:
        return ops.relu(ops.relu(x)), ops.relu(x)

    assert (relu_of_relu.name, relu_of_relu.text) == ("relu-of-relu", RULES["relu-of-relu"].text)
    assert relu_of_relu.proved == ()
    assert "float32" in relu_of_relu.tested
