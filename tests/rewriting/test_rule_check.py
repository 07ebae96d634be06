"""Rules are tried on hard inputs when they are defined: a wrong one is refused with the input that shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from graphad import ops
from graphad.errors import InvalidValue
from graphad.rewriting import PatternRule, compute, constant, is_float, rewrite, several
from graphad.rewriting.rule_inputs import BOOL_CONTENTS, DTYPES, FLOAT_CONTENTS, INT_CONTENTS, SHAPES
from tests.source_tree import ROOT


def wrong_scale(x: Any, *, a: Any, b: Any) -> Any:
    return ops.scale(ops.scale(x, scale=a), scale=b), ops.scale(x, scale=a + b), is_float(x)


def forgotten_bias(x: Any, *, a: Any, b: Any) -> Any:
    return ops.scale(x, scale=a, bias=b), ops.scale(x, scale=a), is_float(x)


def wrong_condition(x: Any, *, c: Any) -> Any:
    return ops.elementwise_mul(x, constant(c)), x, c != 0


def wrong_number(x: Any) -> Any:
    return ops.elementwise_add(x, constant(1.0)), x


def lost_list(xs: Any = several, ys: Any = several) -> Any:
    return ops.sum([*xs, ops.sum(ys)]), ops.sum(xs)


def swapped_results(x: Any) -> Any:
    return (ops.sin(x), ops.cos(x)), (ops.cos(x), ops.sin(x))


def wrong_half(x: Any) -> Any:
    a, b = ops.split(x, num=2, axis=0)[:2]
    return ops.concat([b, a], axis=0), x


def truncated(x: Any) -> Any:
    """True of floats only."""
    return ops.scale(ops.scale(x, scale=0.5), scale=2.0), x


def only_positive(x: Any) -> Any:
    return ops.sqrt(ops.square(x)), x


def wrong_axis(x: Any) -> Any:
    return ops.reduce_sum(x, dim=[0]), ops.reduce_sum(x, dim=[-1])


def same_axes_only(x: Any) -> Any:
    return ops.transpose(x, axis=[1, 0]), x


def shared_operand(x: Any, y: Any) -> Any:
    return ops.elementwise_sub(x, y), ops.elementwise_sub(y, x)


WRONG: dict[str, Any] = {
    "attributes": wrong_scale,
    "an attribute forgotten": forgotten_bias,
    "a condition": wrong_condition,
    "a number": wrong_number,
    "a list": lost_list,
    "results": swapped_results,
    "outputs": wrong_half,
    "integers": truncated,
    "a sign": only_positive,
    "an axis": wrong_axis,
    "an order of axes": same_axes_only,
    "an order of operands": shared_operand,
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_rule_is_refused(kind: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        rewrite(WRONG[kind])
    first, *shown = str(raised.value).split("\n")
    name = WRONG[kind].__name__.replace("_", "-")
    assert first.startswith(f"rule {name} is wrong: ")
    assert " ⇒ " in first
    assert shown[0] == f"  defined at {__file__}:{WRONG[kind].__code__.co_firstlineno}"
    before, after = shown[-2:]
    assert before.startswith("  before: ")
    assert after.startswith("  after:  ")
    assert before.removeprefix("  before: ") != after.removeprefix("  after:  ")
    assert len(shown) >= 4, "the inputs are shown"


def test_the_inputs_that_are_shown_show_it() -> None:
    with pytest.raises(InvalidValue) as raised:
        rewrite(only_positive)
    _, _, given, before, after = str(raised.value).split("\n")
    name, _, text = given.strip().partition(" = ")
    dtype, _, numbers = text.partition("] ")
    dtype += "]"
    x = np.array(eval(numbers), dtype.split("[")[0])
    assert name == "x"
    assert before == f"  before: {dtype} {np.sqrt(np.square(x)).tolist()}"
    assert after == f"  after:  {dtype} {x.tolist()}"


def test_attributes_are_shown_too() -> None:
    with pytest.raises(InvalidValue, match=r"\n  a = .*\n|\n  b = .*\n"):
        rewrite(wrong_scale)


def test_the_same_rule_is_refused_with_the_same_inputs_whatever_the_hash_seed() -> None:
    code = "\n".join(
        [
            "from graphad import rewrite; from tests.rewriting.test_rule_check import WRONG",
            "for function in WRONG.values():",
            "    try: rewrite(function)",
            "    except ValueError as error: print(error)",
        ]
    )
    runs = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True)
        runs.append(done.stdout)
    assert runs[0] == runs[1]
    assert runs[0].count("is wrong") == len(WRONG)


# -- what nothing could try ------------------------------------------------------------------------


def never(x: Any) -> Any:
    return ops.relu(x), x, x.ndim == 9


def always_another_shape(x: Any) -> Any:
    return ops.unsqueeze(ops.exp(x), axes=[0]), ops.exp(x)


def picked(x: Any) -> Any:
    return ops.relu(x), x, x.shape[0] == 17


@pytest.mark.parametrize("function", [never, always_another_shape, picked])
def test_a_rule_that_nothing_could_try_is_refused(function: Any) -> None:
    with pytest.raises(InvalidValue, match=r"so nothing was tried: .*\n  defined at .*\n  give @rewrite\(example="):
        rewrite(function)


def test_an_example_says_what_it_applies_to_and_narrows_no_claim() -> None:
    def right(x: Any) -> Any:
        return ops.relu(ops.relu(x)), ops.relu(x), x.shape[0] == 17

    def positive(rng: np.random.Generator) -> dict[str, Any]:
        return {"x": rng.random(17)}

    rule = rewrite(example=positive)(right)
    assert rule.evidence is not None
    assert set(rule.evidence.shapes) == {(17,)}
    with pytest.raises(InvalidValue, match="rule picked is wrong"):
        rewrite(example=positive)(picked)


def test_an_example_of_attributes_and_lists() -> None:
    def conv(x: Any, w: Any, *, a: Any) -> Any:
        before = ops.conv2d(x, ops.scale(w, scale=a))
        return before, ops.scale(ops.conv2d(x, w), scale=a), is_float(x)

    def images(rng: np.random.Generator) -> dict[str, Any]:
        return {"x": rng.normal(size=(1, 2, 5, 5)), "w": rng.normal(size=(3, 2, 3, 3)), "a": float(rng.integers(1, 4))}

    assert isinstance(rewrite(example=images)(conv), PatternRule)


def test_a_rule_need_not_be_verified() -> None:
    assert rewrite(verify=False)(wrong_number).name == "wrong-number"
    assert rewrite(verify=False)(never).name == "never"


# -- how exact -------------------------------------------------------------------------------------


def rounds(x: Any, y: Any) -> Any:
    return ops.elementwise_sub(ops.elementwise_add(x, y), y), x, is_float(x), is_float(y)


def nan_is_lost(x: Any) -> Any:
    return ops.elementwise_sub(x, x), ops.fill_any_like(x, value=0.0), is_float(x)


def exact(x: Any) -> Any:
    return ops.relu(ops.relu(x)), ops.relu(x)


def test_a_fast_rule_may_round_and_forget_what_is_not_finite() -> None:
    for function in (rounds, nan_is_lost, exact):
        assert rewrite(fast=True)(function).before


def test_an_exact_rule_keeps_every_bit() -> None:
    assert rewrite(fast=False)(exact).before
    for function in (rounds, nan_is_lost):
        with pytest.raises(InvalidValue, match=r"allows differences by rounding, and where something is not finite$"):
            rewrite(fast=False)(function)


def test_what_is_not_finite_is_among_the_inputs_of_an_exact_rule() -> None:
    with pytest.raises(InvalidValue, match=r"nan|inf"):
        rewrite(fast=False)(nan_is_lost)


# -- what it is held against ------------------------------------------------------------------------


def test_a_rule_whose_replacement_fails_is_wrong() -> None:
    def divided(a: float) -> float:
        return 1 / (a - a)

    def fails(x: Any, *, a: Any) -> Any:
        return ops.scale(x, scale=a), ops.scale(x, scale=compute(divided, a))

    # Python 3.14 says no "float".
    with pytest.raises(InvalidValue, match=r"rule fails is wrong: what comes after fails, (float )?division by zero"):
        rewrite(fails)


def test_the_evidence_says_what_was_tried() -> None:
    evidence = rewrite(fast=False)(kept).evidence
    assert evidence is not None
    assert set(evidence.dtypes) == {"float64", "float32", "int64", "int32", "bool"}
    assert {(2, 3), (3, 3), (), (0,), (0, 3), (1,), (2, 3, 4), (2, 1, 3, 5)} <= set(evidence.shapes)
    assert {*FLOAT_CONTENTS, *INT_CONTENTS, *BOOL_CONTENTS} == set(evidence.contents)
    assert (evidence.compared, evidence.gradients) == (sum(evidence.dtypes.values()), evidence.gradients)
    assert evidence.gradients > 10
    assert str(evidence).startswith(f"{evidence.compared} inputs, ")


def kept(x: Any) -> Any:
    return ops.assign(ops.assign(x)), x


def test_the_evidence_counts_attributes_and_what_was_not_computed() -> None:
    def scaled(x: Any, *, a: Any) -> Any:
        return ops.scale(ops.scale(x, scale=a), scale=1.0), ops.scale(x, scale=a)

    evidence = rewrite(fast=False)(scaled).evidence
    assert evidence is not None
    assert {"0.0", "-0.0", "1.0", "-1.0", "2.5", "inf", "nan", repr(1 / 3)} <= set(evidence.attributes["a"])
    assert any("cannot convert float" in text for text in evidence.failed), "integers times infinity"


def test_a_rule_that_was_not_tried_has_no_evidence() -> None:
    assert rewrite(verify=False)(kept).evidence is None


def test_every_dtype_meets_every_content_and_every_shape() -> None:
    pairs = set()

    def note(shape: Any, dtype: Any) -> bool:
        pairs.add((shape, dtype))
        return True

    def watched(x: Any) -> Any:
        return ops.assign(ops.assign(x)), x, compute(note, x.shape, x.dtype)

    rewrite(watched)
    assert pairs == {(shape, dtype) for shape in SHAPES for dtype in DTYPES}


# -- gradients -----------------------------------------------------------------------------------


def maximum_with_zero(x: Any) -> Any:
    """Equal, but for the gradient at 0, which elementwise_max gives to its second operand."""
    return ops.elementwise_max(constant(0), x), ops.relu(x), is_float(x)


def test_gradients_at_kinks_are_compared() -> None:
    with pytest.raises(InvalidValue, match=r'the gradient of x, .*\n.*\n  @rewrite\(gradients="smooth"\) allows'):
        rewrite(maximum_with_zero)
    assert rewrite(gradients="smooth")(maximum_with_zero).evidence is not None


def test_gradients_are_all_or_smooth() -> None:
    with pytest.raises(InvalidValue, match='gradients=\'none\': "all" or "smooth" is expected'):
        rewrite(gradients="none")(kept)  # type: ignore[call-overload]


# -- attributes that are not carried over -----------------------------------------------------------


def test_an_attribute_that_the_same_operator_gets_by_default_after_is_refused() -> None:
    def dropped(x: Any, y: Any, *, a: Any) -> Any:
        return ops.relu(ops.concat([x, y], axis=a)), ops.concat([ops.relu(x), ops.relu(y)])

    with pytest.raises(InvalidValue, match=r"axis=a of concat before may be anything, but concat after has the default\n  pass axis=a on"):
        rewrite(dropped)


def test_operands_are_broadcast() -> None:
    """It is right for two operands of one shape."""

    def mean_of_one(x: Any, y: Any) -> Any:
        total = ops.reduce_sum(ops.elementwise_add(x, y), reduce_all=True)
        return total, ops.elementwise_add(ops.reduce_sum(x, reduce_all=True), ops.reduce_sum(y, reduce_all=True)), is_float(x)

    with pytest.raises(InvalidValue, match="rule mean-of-one is wrong"):
        rewrite(mean_of_one)
