"""The rules of ``simplify``: every one is proved here, and its gradients are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import GraphadError, InvalidValue
from graphad.ops import OpDef
from graphad.passes.cleanup import Simplify
from graphad.passes.cleanup.rules import TOPICS, Claim, claims
from graphad.passes.cleanup.rules.library import Library
from graphad.rewriting import constant
from graphad.rewriting.evaluation import Evaluation, Slots
from graphad.rewriting.proof import Drawn, _before, _draw, prove
from graphad.rewriting.terms import Constant, Several, Term
from graphad.types import FLOATS, TensorType

NAMES = [claim.rule.name for claim in claims()]
GRID = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0)  # where operators have kinks, and operands tie
TRIES, ENOUGH = 60, 4


@pytest.mark.parametrize("claim", claims(), ids=NAMES)
def test_a_rule_is_right(claim: Claim) -> None:
    prove(claim.rule, exact=claim.exact, example=claim.example)


def test_a_wrong_rule_would_be_found() -> None:
    library = Library()
    library.exact(_wrong_by_rounding)
    (claim,) = library.claims
    with pytest.raises(InvalidValue, match="wrong-by-rounding is wrong"):
        prove(claim.rule, exact=claim.exact)


def _wrong_by_rounding(x: Any, y: Any) -> Any:
    return ga.ops.elementwise_sub(ga.ops.elementwise_add(x, y), y), x


def test_there_are_many_rules_of_each_topic() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 200
    assert all(len(topic.library.claims) >= 10 for topic in TOPICS)


def test_exact_rules_are_among_the_fast() -> None:
    exact, all_rules = Simplify().rules(), Simplify(fast=True).rules()
    assert {rule.name for rule in exact} < {rule.name for rule in all_rules}
    assert "log-of-exp" not in str(exact)
    assert all_rules["add-zero"].text == "elementwise_add(x, constant(0)) ⇒ x"  # type: ignore[attr-defined]


# -- gradients -----------------------------------------------------------------------------------


class Recorded(Evaluation):
    """Terms as operators of a program."""

    def __init__(self, found: Drawn, leaves: Mapping[Term, Any]) -> None:
        super().__init__(found)
        self.leaves = leaves

    def leaf(self, term: Term) -> Any:
        return self.leaves[term]

    def apply(self, row: OpDef, inputs: Slots, attrs: Mapping[str, Any]) -> Slots:
        block = ga.default_main_program().global_block()
        types = row.infer_types({s: [TensorType(v.shape, v.dtype) for v in vs] for s, vs in inputs.items() if vs}, attrs)
        slots = {slot: found for slot, found in types.items() if not row.outputs[slot].optional}
        made = {
            slot: [block.create_var(name=ga.unique_name.generate("v"), shape=list(t.shape), dtype=t.dtype) for t in found]
            for slot, found in slots.items()
        }
        block.append_op(row.type, inputs={s: v for s, v in inputs.items() if v}, outputs=made, attrs=dict(attrs))
        return made

    def filled(self, number: Any, like: Any) -> Any:
        raise AssertionError("constants are leaves")


def gradients_of(terms: tuple[Any, ...], drawn: Drawn) -> dict[str, Any] | None:
    """The gradients of the mean of everything that terms give, with respect to the tensors in them; None if there are none."""
    arrays = {f"given_{i}": array for i, array in enumerate(_all_arrays(drawn))}
    program = ga.Program()
    with ga.program_guard(program):
        block, names = program.global_block(), iter(arrays)
        leaves: dict[Term, Any] = {t: _declared(block, next(names), a) for t, a in drawn.values.items()}
        leaves |= {t: [_declared(block, next(names), a) for a in found] for t, found in drawn.lists.items()}
        recorded = Recorded(drawn, leaves)
        results = [recorded.of(term) for term in terms]
        if any(result.dtype not in FLOATS for result in results):
            return None
        loss = ga.layers.sums([ga.layers.mean(ga.layers.square(ga.layers.scale(result, bias=0.375))) for result in results])
        wanted = [var for t, var in leaves.items() if not isinstance(t, Several | Constant) and var.dtype in FLOATS]
        found = ga.gradients([loss], wanted)
    fetched = [g.name for g in found if g is not None]
    values = dict(zip(fetched, ga.Executor().run(program, feed=arrays, fetch_list=fetched), strict=True)) if fetched else {}
    return {v.name: np.zeros(v.shape) if g is None else values[g.name] for v, g in zip(wanted, found, strict=True)}


def _declared(block: Any, name: str, array: Any) -> Any:
    return block.create_var(name=name, shape=list(array.shape), dtype=array.dtype.name, stop_gradient=False)


def _all_arrays(drawn: Drawn) -> list[Any]:
    return [*drawn.values.values(), *(array for arrays in drawn.lists.values() for array in arrays)]


def _on_grid(drawn: Drawn, rng: np.random.Generator) -> None:
    for term, array in drawn.values.items():
        if not isinstance(term, Constant) and array.dtype.kind == "f":
            drawn.values[term] = rng.choice(GRID, array.shape).astype(array.dtype)


@pytest.mark.parametrize("claim", claims(), ids=NAMES)
def test_a_rule_keeps_gradients(claim: Claim) -> None:
    """Exact rules at kinks and ties too, fast ones away from them; where the gradient before is finite."""
    rng = np.random.default_rng(7)
    compared = 0
    with np.errstate(all="ignore"):
        for attempt in range(TRIES):
            drawn = _draw(claim.rule, rng, claim.example, special=False)
            if claim.exact and attempt % 2:
                _on_grid(drawn, rng)
            if _before(claim.rule, drawn) is None or not _same_types(claim, drawn):
                continue
            compared += _compare(claim, drawn)
            if compared >= ENOUGH:
                return


def test_a_changed_gradient_would_be_found() -> None:
    library = Library()
    library.exact(_wrong_where_it_ties)
    with pytest.raises(AssertionError, match="wrong-where-it-ties"):
        test_a_rule_keeps_gradients(library.claims[0])


def _wrong_where_it_ties(x: Any) -> Any:
    return ga.ops.elementwise_max(constant(0), x), ga.ops.relu(x)


def _same_types(claim: Claim, drawn: Drawn) -> bool:
    assert drawn.results is not None
    try:
        pairs = [(drawn.results.of(a), drawn.results.of(b)) for a, b in zip(claim.rule.before, claim.rule.after, strict=True)]
    except GraphadError:
        return False
    return all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in pairs)


def _compare(claim: Claim, drawn: Drawn) -> bool:
    before = gradients_of(claim.rule.before, drawn)
    if before is None or not all(np.isfinite(array).all() for array in before.values()):
        return False
    after = gradients_of(claim.rule.after, drawn)
    assert after is not None
    for name, array in before.items():
        tolerance = 1e-4 if array.dtype != np.float64 else 1e-8
        np.testing.assert_allclose(after[name], array, rtol=tolerance, atol=tolerance, err_msg=f"{claim.rule!r}\n{drawn}")
    return True
