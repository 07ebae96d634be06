"""Equality of results, and programs that do not end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidValue, TooManyIterations
from graphad.ops import REGISTRY
from graphad.testing import Case, assert_equivalent, check_case
from graphad.testing.cases import completed, fitted, random_case
from graphad.testing.checks import _is_unstable, against_differences
from graphad.testing.derivatives import frozen, gradient_values, has_whole_ties, is_in_range, overflows_float16, rounding_noise, slope
from graphad.testing.equivalence import difference, observe, observed_difference
from graphad.testing.trial import Subject, Trial
from tests.nested_programs import add, constant, do, nested, while_

_PATH = "find-op-path{targets=[$loss]}"
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "same"),
    [
        ([1.0, NAN], [1.0, NAN], 0.0, True),
        ([0.0], [-0.0], 0.0, True),
        ([INF], [-INF], 0.0, False),
        ([1.0], [1.0 + 1e-15], 0.0, False),
        ([1.0], [1.0 + 1e-15], 1e-12, True),
        ([1e6, 0.0], [1e6, 1e-7], 1e-12, True),
        ([1.0, 0.0], [1.0, 1e-7], 1e-12, False),
        ([INF, 1.0], [INF, 1.0], 1e-3, True),
        ([1.0], [[1.0]], 0.0, False),
        ([1], [1.0], 0.0, False),
        ([True], [False], 0.5, False),
    ],
)
def test_what_is_the_same(one: Any, other: Any, tolerance: float, same: bool) -> None:
    assert (difference(np.asarray(one), np.asarray(other), tolerance) == "") is same


def test_a_difference_shows_both_sides() -> None:
    assert difference(np.zeros(2, "float32"), np.zeros(2)) == "float32[2] before, float64[2] after"
    assert difference(np.ones(1), np.full(1, 2.0)) == "1.0 before, 2.0 after, 1 apart"
    assert difference([np.ones(1)], [np.ones(1), np.ones(1)]) == "a list of 1 before, a list of 2 after"
    assert difference([np.ones(1)] * 2, [np.ones(1), np.zeros(1)]).startswith("array 1 of the list: 1.0 before, 0.0 after")


def test_a_difference_names_the_first_element_and_shows_large_arrays_in_part() -> None:
    one = np.zeros((10, 10))
    other = one.copy()
    other[2, 3] = other[4, 4] = 0.25
    first, before, after = difference(one, other, 1e-3).splitlines()
    assert first == "at [2, 3]: 0.0 before, 0.25 after, 0.25 apart, tolerance 0.001; 2 of 100 elements differ"
    assert before == "    before: [0.0, 0.0, 0.0, 0.0, 0.0, ... 90 more ..., 0.0, 0.0, 0.0, 0.0, 0.0]"
    assert len(after) < 120
    assert difference(np.array(1), np.array(2)) == "1 before, 2 after"
    assert difference(np.array([NAN, 1.0]), np.array([1.0, 1.0])).startswith(
        "at [0]: nan before, 1.0 after, nan apart; 1 of 2 elements differs"
    )
    assert difference(np.zeros((0, 2)), np.zeros((0, 2))) == ""


def program() -> ga.Program:
    rows = "sin(X=x) -> (Out=y) scale(X=s) -> (Out=s) {scale=2.0} "
    return ga.Program.parse("program { block 0 { var x: float64[2] var y: float64[2] var s: float64[1] persistable " + rows + " } }")


def test_targets_and_state_are_compared() -> None:
    p = completed(program())
    case = random_case(p)
    assert_equivalent(p, p.clone(), case)
    assert_equivalent(p, p.clone(), case, compiled=True)
    for index, attrs in ((0, None), (1, {"scale": 3.0})):
        other = p.clone()
        op = other.global_block().ops[index]
        if attrs is None:
            op.type = "cos"
        else:
            op.attrs.update(attrs)
        with pytest.raises(AssertionError, match=r"before, .* after"):
            assert_equivalent(p, other, case)


def endless() -> ga.Program:
    always = do("assign", {"X": "c"}, "c")
    return nested(constant("c", 1, "bool"), while_("c", add("y", "x", "y"), always), x=[1], y=[1])


def test_a_program_that_does_not_end_is_an_error() -> None:
    with pytest.raises(TooManyIterations, match="max_iterations=2000"):
        observe(endless(), random_case(endless()), ["y"])


def test_a_number_without_axes_stays_one() -> None:
    program = ga.Program.parse("program { block 0 { var x: float64[] var y: float64[] sin(X=x) -> (Out=y) } }")
    assert fitted(Case(program, feeds={"x": np.array(2.0)}), program).feeds["x"].shape == ()


def test_arrays_are_kept_as_far_as_they_fit() -> None:
    rows = "sin(X=x) -> (Out=y) assign(X=z) -> (Out=t)"
    text = "program { block 0 { var x: float64[%s] var z: int64[2] var y: float64[%s] var t: int64[2] " + rows + " } }"
    case = Case(ga.Program.parse(text % ("3", "3")), feeds={"x": np.array([1.0, 2.0, 3.0])})
    smaller = fitted(case, ga.Program.parse(text % ("2", "2")))
    assert smaller.feeds["x"].tolist() == [1.0, 2.0]
    assert smaller.feeds["z"].dtype == "int64"
    larger = fitted(case, ga.Program.parse(text % ("4", "4")))
    assert larger.feeds["x"].shape == (4,)
    assert larger.feeds["x"].tolist() == fitted(case, ga.Program.parse(text % ("4", "4"))).feeds["x"].tolist()


def test_what_a_block_that_does_not_run_would_have_written_stays_missing() -> None:
    text = """program {{ block 0 {{ var x: float64[2] var u: float64[2] var c: bool[1] var y: float64[2] {more}
    conditional_block(Cond=c, Input=x) -> (Out=u) {{sub_block=block(1)}} assign(X=u) -> (Out=y) }}
    block 1 in 0 {{ tanh(X=x) -> (Out=u) }} }}"""
    case = Case(ga.Program.parse(text.format(more="sin(X=x) -> (Out=y)")), feeds={"x": np.ones(2), "c": np.array([False])})
    smaller = fitted(case, ga.Program.parse(text.format(more="")))
    assert sorted(smaller.feeds) == ["c", "x"]


def test_a_stopped_value_stays_while_what_it_is_computed_from_moves() -> None:
    text = """program { block 0 { var x: float64[1] var a: float64[1] stop_gradient var y: float64[1] var loss: float64[1]
    square(X=x) -> (Out=a) elementwise_mul(X=x, Y=a) -> (Out=y) assign(X=y) -> (Out=loss) } }"""
    case = Case(ga.Program.parse(text), "loss", {"x": np.array([3.0])})
    assert slope(case, {"x": np.ones(1)}) == pytest.approx(27.0)  # of x cubed
    assert slope(frozen(case), {"x": np.ones(1)}) == pytest.approx(9.0)  # of 9 x
    assert str(frozen(case).program.blocks[0].ops[0]) == str(case.program.blocks[0].ops[0])


def test_a_gradient_that_is_missing_is_held_against_differences() -> None:
    text = "program { block 0 { var x: float64[2] var y: float64[2] var loss: float64[] tanh(X=x) -> (Out=y) mean(X=y) -> (Out=loss) } }"
    case = Case(ga.Program.parse(text), "loss", {"x": np.array([0.5, 1.0])})
    trial = Trial(Subject("find-op-path{targets=[$loss]}, create-grad-ops"), case, case.program, after=case.program)
    found = against_differences(trial)
    assert found is not None
    assert "the gradients say 0" in found.text


BACKWARD = "find-op-path{targets=[$loss]}, create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars"


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_gradient_that_is_rounded_to_zero_is_not_held_against_differences(is_nested: bool) -> None:
    """That of a matrix inverted twice is 1; at 1e-300 it is computed as the square of that."""
    twice = "inverse(Input=x) -> (Output=a) inverse(Input=a) -> (Output=y)"
    run = "net(X=x) -> (Out=y) {sub_block=block(1)}" if is_nested else twice
    text = "program { block 0 { var x: float64[1, 1] var a: float64[1, 1] var y: float64[1, 1] var loss: float64[] "
    text += run + " reduce_sum(X=y) -> (Out=loss) } " + ("block 1 in 0 { " + twice + " } }" if is_nested else "}")
    small, one = (Case(ga.Program.parse(text), "loss", {"x": np.array([[x]])}) for x in (1e-300, 1.0))
    assert slope(small, {"x": np.ones((1, 1))}) == pytest.approx(1.0)
    assert gradient_values(small.program, small, ["x"])["x"].item() == 0.0
    assert [is_in_range(case) for case in (small, one)] == [False, True]
    for case in (small, one):
        check_case(BACKWARD, case)


QUOTIENT = "elementwise_div(X=x, Y=w) -> (Out=a) elementwise_mul(X=a, Y=w) -> (Out=y)"  # its gradient for w is 0: x / w - x / w**2 * w
CLIPPED = "assign(X=w) -> (Out=a) clip(X=a) -> (Out=y) {min=-2.0, max=1.0}"


def _over(operators: str, w: list[float], dtype: str = "float64") -> Case:
    names = " ".join(f"var {name}: {dtype}[{len(w)}]" for name in "xway")
    text = f"program {{ block 0 {{ {names} var loss: {dtype}[] {operators} mean(X=y) -> (Out=loss) }} }}"
    return Case(ga.Program.parse(text), "loss", {"x": -np.ones(len(w), dtype), "w": np.array(w, dtype)})


@pytest.mark.parametrize(
    ("w", "dtype"),
    [([1e-300, -1e-8, 1e-20, 0.001, -1e-40] * 3, "float64"), ([1e-12, 2.3e-12, 5.1e-12], "float64"), ([1e-9, 2.3e-9, 3.7e-9], "float32")],
)
def test_what_terms_that_cancel_leave_of_a_gradient_is_no_finding(w: list[float], dtype: str) -> None:
    case = _over(QUOTIENT, w, dtype)
    assert np.abs(gradient_values(case.program, case, ["w"])["w"]).max() > 0.0
    check_case("simplify{fast=true}", case)


def test_a_gradient_at_a_kink_is_told_from_one_that_consists_of_rounding_errors() -> None:
    quotient = _over(QUOTIENT, [1e-300, -1e-8, 1e-20, 0.001, -1e-40])
    clipped, zero = _over(CLIPPED, [1.0]), _over("relu(X=w) -> (Out=y)", [0.0])
    assert min(rounding_noise(quotient.program, quotient, "w")) > 0.0
    assert [sorted(rounding_noise(case.program, case, "w")) for case in (clipped, zero)] == [[0.0, 1.0], [0.0, 0.0]]


def test_numbers_that_move_in_different_ways_show_the_rounding_that_one_way_does_not() -> None:
    """The gradient of a sum of softmax is 0: by chance it is that, too, of arrays that all move away from zero."""
    text = """
        var x: float32[-1, 1, 1, 1] param w: float32[1, 1, 1, 1] var c: float32[-1, 1, 1, 1] param scale: float32[1] param bias: float32[1]
        var mean: float32[1] persistable stop_gradient var variance: float32[1] persistable stop_gradient var n: float32[-1, 1, 1, 1]
        var m: float32[1] stop_gradient var v: float32[1] stop_gradient var r: float32[-1, 1] var s: float32[-1, 1] var y: float32[-1, 1]
        param f: float32[1, 1] var loss: float32[] conv2d(Input=x, Filter=w) -> (Output=c)
        batch_norm(X=c, Scale=scale, Bias=bias, Mean=mean, Variance=variance)
            -> (Y=n, SavedMean=m, SavedVariance=v, MeanOut=mean, VarianceOut=variance) {is_test=true}
        reshape(X=n) -> (Out=r) {shape=[-1, 1]} softmax(X=r) -> (Out=s) {axis=0} mul(X=s, Y=f) -> (Out=y) mean(X=y) -> (Out=loss)
    """
    numbers = {"scale": 10001.0, "bias": 1.0, "mean": 10001.0, "variance": 10000.0}
    params = {name: np.array([number], "float32") for name, number in numbers.items()}
    params |= {"w": np.full((1, 1, 1, 1), 0.465, "float32"), "f": np.full((1, 1), 11.0, "float32")}
    feeds = {"x": np.array([-0.105731994, 0.0], "float32").reshape(2, 1, 1, 1)}
    case = Case(ga.Program.parse(f"program {{ block 0 {{ {' '.join(text.split())} }} }}"), "loss", feeds, params)
    noise = [min(rounding_noise(case.program, case, "x", pattern=pattern)) for pattern in range(4)]
    assert noise[0] == 0.0
    assert max(noise) > 1e-6
    for mean in (10001.0, 10001.002, 9999.0, 10000.0):
        case.params["mean"][0] = mean
        check_case("fold-batch-norm", case)
    clipped = _over(CLIPPED, [1.0])
    assert [min(rounding_noise(clipped.program, clipped, "w", pattern=pattern)) for pattern in range(4)] == [0.0] * 4


def test_gradients_that_a_preparation_computes_in_float16_are_held_against_differences_as_such() -> None:
    text = """var x: float32[-1, 2] param w: float32[2, 1] var y: float32[-1, 1] var l: float32[] persistable
        mul(X=x, Y=w) -> (Out=y) mean(X=y) -> (Out=l)"""
    x = np.zeros((6, 2), "float32")
    x[1, 0] = -0.91764224
    case = Case(ga.Program.parse(f"program {{ block 0 {{ {text} }} }}"), "l", {"x": x}, {"w": -np.ones((2, 1), "float32")})
    check_case("simplify{fast=true}", case, f"mixed-precision, {_PATH}, create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars")


def test_a_gradient_where_the_program_stops_it_is_no_rounding() -> None:
    stopped = _over(QUOTIENT, [1e-300, -1e-8, 1e-20, 0.001, -1e-40])
    stopped.program.global_block().var("y").stop_gradient = True
    assert list(rounding_noise(stopped.program, stopped, "w")) == [0.0]


def test_an_operator_without_a_gradient_in_the_shape_that_it_meets_is_no_finding() -> None:
    """The vectors of a matrix that is not square, beyond those of its singular values: the gradient operator says so when it runs."""
    text = """program { block 0 {
        var x: float64[2, 1] var u: float64[2, 2] var s: float64[1] var v: float64[1, 1] var loss: float64[]
        svd(X=x) -> (U=u, S=s, VH=v) {full_matrices=true}
        reduce_sum(X=v) -> (Out=loss)
    } }"""
    prepare = "find-op-path{targets=[$loss]}, expand-grad-ops, find-op-path{targets=[$loss]}"
    check_case("create-grad-ops", Case(ga.Program.parse(text), "loss", {"x": np.ones((2, 1))}), prepare=prepare)
    # Nor where it says so on one of several ranks.
    text = text.replace("X=v", "X=u").replace("svd(", "c_allreduce_max(X=x) -> (Out=m) svd(").replace("var u", "var m: float64[2, 1] var u")
    check_case("prune-no-grad", Case(ga.Program.parse(text), "loss", {"x": np.ones((2, 1))}), prepare=f"{prepare}, create-grad-ops")


def test_a_gradient_that_has_no_solution_is_no_finding() -> None:
    text = "var x: float64[3, 1, 1] var t: float64[3] var l: float64[] determinant(Input=x) -> (Out=t) reduce_sum(X=t) -> (Out=l)"
    program = ga.Program.parse(f"program {{ block 0 {{ {text} }} }}")
    case = Case(program, "l", {"x": np.zeros((3, 1, 1))})
    check_case("create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars", case, _PATH)


def test_elements_that_tie_and_move_together_are_not_held_against_differences() -> None:
    """Along any direction the loss is smooth, while each of the copies has the whole cotangent, as Paddle has it."""
    text = """program { block 0 {
        var x: float64[1] var copies: float64[3] var l: float64[]
        expand(X=x) -> (Out=copies) {expand_times=[3]} OPERATOR(X=copies) -> (Out=l) {reduce_all=true}
    } }"""
    ends = ("reduce_max {reduce_all=true}", True), ("reduce_amax {reduce_all=true}", False), ("p_norm {porder=-inf}", True)
    for end, has_ties in (*ends, ("p_norm {porder=1.0}", False)):
        op_type, attrs = end.split(" ")
        whole = text.replace("OPERATOR", op_type).replace("{reduce_all=true}", attrs)
        case = Case(ga.Program.parse(whole), "l", {"x": np.array([-2.0])})
        assert has_whole_ties(case) is has_ties
        check_case("create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars", case, _PATH)


def test_a_gradient_that_goes_straight_through_is_not_held_against_differences() -> None:
    text = "var x: float64[1] var t: float64[1] var l: float64[] rint(X=x) -> (Out=t) {straight_through=true} mean(X=t) -> (Out=l)"
    program = ga.Program.parse(f"program {{ block 0 {{ {text} }} }}")
    check_case("create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars", Case(program, "l", {"x": np.ones(1)}), _PATH)


def test_a_gradient_that_is_divided_by_the_steps_is_not_held_against_differences() -> None:
    text = "var x: float64[2, 1, 2] var y: int64[1, 1] stop_gradient var t: float64[1, 1] var l: float64[] "
    text += "warpctc(Logits=x, Label=y) -> (Loss=t) {norm_by_times=true} mean(X=t) -> (Out=l)"
    feeds = {"x": np.ones((2, 1, 2)), "y": np.ones((1, 1), np.int64)}
    check_case(BACKWARD, Case(ga.Program.parse(f"program {{ block 0 {{ {text} }} }}"), "l", feeds))


def test_a_seed_below_zero_is_refused() -> None:
    with pytest.raises(InvalidValue, match="a seed is 0 or more, not -1"):
        random_case(ga.Program.parse("program { block 0 { var x: float64[2] var y: float64[2] tanh(X=x) -> (Out=y) } }"), seed=-1)


def test_what_fetch_writes_may_get_another_name() -> None:
    text = (
        "program {{ block 0 {{ var x: float64[2] var {y}: float64[2] var z: float64[2] fetch(X=x) -> (Out={y}) tanh(X={y}) -> (Out=z) }} }}"
    )
    before, after = (ga.Program.parse(text.format(y=name)) for name in ("y", "other"))
    trial = Trial(Subject("dead-code"), Case(before, "", {"x": np.ones(2)}, requested=("z",)), before, after=after)
    assert sorted(trial.expected.values) == ["y", "z"]
    assert trial.got.values["y"].tolist() == [1.0, 1.0]


def test_numbers_that_float16_holds_with_a_few_bits_decide_nothing() -> None:
    text = (
        "program { block 0 { var x: float32[256, 256] var k: float32[256, 256] var y: float32[256, 256] var s: float32[] "
        "fill_constant() -> (Out=k) {shape=[256, 256], value=1e-7} matmul_v2(X=x, Y=k) -> (Out=y) "
        "reduce_sum(X=y) -> (Out=s) {reduce_all=true} } }"
    )
    check_case("mixed-precision", Case(ga.Program.parse(text), "", {"x": np.full((256, 256), -1.0, "float32")}, requested=("s",)))


def test_a_gradient_that_float16_does_not_hold_decides_nothing() -> None:
    """The products are 30000 each, their sum over eight rows, which is the gradient of w, is 240000."""
    text = "program { block 0 { var x: float32[8, 1] var w: float32[1, 1] var y: float32[8, 1] var loss: float32[] "
    text += "matmul_v2(X=x, Y=w) -> (Out=y) reduce_sum(X=y) -> (Out=loss) {reduce_all=true} } }"
    check_case(
        "mixed-precision",
        Case(ga.Program.parse(text), "loss", {"x": np.full((8, 1), 3e4, "float32"), "w": np.full((1, 1), 1.0, "float32")}),
    )


def test_elements_that_cancel_decide_nothing() -> None:
    """Of 1000 and 1000.03 float32 holds the difference to one part in five hundred: their variance is no more exact."""
    text = "program { block 0 { var x: float32[2] var m: float32[] var d: float32[2] var s: float32[2] var v: float32[] "
    text += "mean(X=x) -> (Out=m) elementwise_sub(X=x, Y=m) -> (Out=d) square(X=d) -> (Out=s) mean(X=s) -> (Out=v) } }"
    case = Case(ga.Program.parse(text), "v", {"x": np.array([1000.0, 1000.03], "float32")})
    trial = Trial(Subject("dead-code"), case, case.program)
    assert _is_unstable(trial, 1e-4)
    spread = replace(case, feeds={"x": np.array([1000.0, -1000.1], "float32")})
    assert not _is_unstable(Trial(Subject("dead-code"), spread, spread.program), 1e-4)


def test_a_product_that_float16_does_not_hold_decides_nothing() -> None:
    text = "program { block 0 { var x: float32[1, 2] var w: float32[2, 1] var y: float32[1, 1] matmul_v2(X=x, Y=w) -> (Out=y) } }"
    feeds = {"x": np.full((1, 2), 192.0, "float32"), "w": np.full((2, 1), 192.0, "float32")}
    case = Case(ga.Program.parse(text), "", feeds)
    assert overflows_float16(case)
    check_case("mixed-precision", case)
    # What cannot be narrow is too large first.
    text = "program { block 0 { var x: float32[1, 1] var e: float32[1, 1] var y: float32[1, 1] exp(X=x) -> (Out=e) relu(X=e) -> (Out=y) } }"
    assert not overflows_float16(Case(ga.Program.parse(text), "", {"x": np.full((1, 1), 12.0, "float32")}))


def test_a_gradient_of_a_product_that_float16_does_not_hold_decides_nothing() -> None:
    """Gradient operators are as narrow as the operators that they are the gradients of."""
    text = "program { block 0 { var x: float32[1, 1] var w: float32[1, 1] var g: float32[1, 1] var d: float32[1, 1] OP } }"
    arrays = {name: np.full((1, 1), 300.0, "float32") for name in "xwg"}
    product = ga.Program.parse(text.replace("OP", "mul_grad(X=x, Y=w, Out@GRAD=g) -> (Y@GRAD=d) backward"))
    assert overflows_float16(Case(product, "", arrays))
    # exp must not be narrow, nor its gradient: a pass that narrows them anyway is wrong.
    other = ga.Program.parse(text.replace("OP", "exp_grad(Out=w, Out@GRAD=g) -> (X@GRAD=d) backward"))
    assert not overflows_float16(Case(other, "", arrays))


@pytest.mark.parametrize(("number", "is_excused"), [(12.0, False), (300.0, True)])
def test_what_one_operator_makes_of_small_numbers_decides_whatever_its_definition_says(
    number: float, is_excused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A definition that says of a steep function that it may be narrow is what is wrong, and no excuse."""
    monkeypatch.setitem(REGISTRY, "exp", replace(REGISTRY["exp"], narrow="follows"))
    declared = "var x: float64[1] var y: float64[1] var z: float64[1]"
    text = f"program {{ block 0 {{ {declared} exp(X=x) -> (Out=y) elementwise_mul(X=x, Y=x) -> (Out=z) }} }}"
    assert overflows_float16(Case(ga.Program.parse(text), "", {"x": np.array([number])})) == is_excused


def test_extents_that_follow_numbers_need_not_hold_on_ranks_with_other_numbers() -> None:
    text = (
        "program { block 0 { var x: float64[2] var half: float64[2] var far: bool[2] var y: float64[2] var z: float64[2] "
        'fill_constant() -> (Out=half) {shape=[2], value=0.75, dtype="float64"} greater_than(X=x, Y=half) -> (Out=far) '
        "masked_select(X=x, Mask=far) -> (Y=y) c_allreduce_sum(X=x) -> (Out=z) {ring_id=0} } }"
    )
    # On rank 1 nothing is above 0.75: the smallest of no elements is an error, which the declared extent rules out.
    check_case("probe-numerics", Case(ga.Program.parse(text), "", {"x": np.ones(2)}))


def test_an_operator_moved_out_of_a_loop_that_does_not_run_may_have_nan_for_a_gradient_at_nan() -> None:
    """The gradient through the loop is 0, after the move it is 0 times that of abs at nan; at other numbers both are 0."""
    text = """program { block 0 { var go: bool[1] var x: float64[2] var y: float64[2] var loss: float64[]
        while(Condition=go, X=x) -> (Out=[y, go]) {sub_block=block(1)} mean(X=y) -> (Out=loss) }
        block 1 in 0 { var a: float64[2] abs(X=x) -> (Out=a) assign(X=a) -> (Out=y) } }"""
    feeds = {"go": np.array([False]), "y": np.zeros(2), "x": np.array([np.nan, 2.0])}
    check_case("hoist-invariants, " + BACKWARD, Case(ga.Program.parse(text), "loss", feeds))


def test_the_gradient_of_data_is_put_together_from_those_of_the_ranks() -> None:
    text = "program { block 0 { var x: float64[3, 2] param p: float64[1] var a: float64[] var b: float64[] var loss: float64[] "
    text += "var unread: float64[3] mean(X=x) -> (Out=a) mean(X=p) -> (Out=b) sum(X=[a, b]) -> (Out=loss) } }"
    feeds = {"x": np.arange(6.0).reshape(3, 2), "unread": np.ones(3)}
    case = Case(ga.Program.parse(text), "loss", feeds, {"p": np.ones(1)})
    check_case("data-parallel", case, prepare=BACKWARD)


def test_what_float16_leaves_of_a_gradient_whose_terms_cancel_is_no_finding() -> None:
    """Both rows add to the gradient of w terms of about 1 of opposite signs; a thousandth of them is left."""
    text = """program { block 0 {
        var x: float32[2, 1] stop_gradient param w: float32[1] param b: float32[1] param v: float32[1, 1] var y: float32[2, 1] stop_gradient
        var mean: float32[1] persistable stop_gradient var variance: float32[1] persistable stop_gradient var h: float32[2, 1]
        var saved: float32[1] stop_gradient var deviation: float32[1] stop_gradient var o: float32[2, 1]
        var e: float32[2, 1] var loss: float32[]
        batch_norm(X=x, Scale=w, Bias=b, Mean=mean, Variance=variance)
            -> (Y=h, SavedMean=saved, SavedVariance=deviation, MeanOut=mean, VarianceOut=variance)
        mul(X=h, Y=v) -> (Out=o)
        square_error_cost(X=o, Y=y) -> (Out=e)
        mean(X=e) -> (Out=loss)
    } }"""
    feeds = {"x": np.array([[2.0], [4.0]], "float32"), "y": np.array([[-0.442], [0.837]], "float32")}
    ones = {name: np.ones(1, "float32") for name in ("b", "mean", "variance")}
    params = {**ones, "w": np.array([-0.477], "float32"), "v": np.array([[-1.338]], "float32")}
    check_case(f"mixed-precision, {BACKWARD}", Case(ga.Program.parse(text), "loss", feeds, params))


def test_what_float16_leaves_of_a_parameter_that_its_step_cancels_is_no_finding() -> None:
    """Of b, 0.019, a step of 0.0185 is taken; float16 rounds the products to which b is added, which moves the step by 0.0001."""
    text = """program { block 0 {
        var x: float32[3, 1] stop_gradient param w: float32[1, 1] param b: float32[1] var y: float32[3, 1] stop_gradient
        var learning_rate_0: float32[1] persistable stop_gradient var h: float32[3, 1] var o: float32[3, 1]
        var e: float32[3, 1] var loss: float32[]
        mul(X=x, Y=w) -> (Out=h)
        elementwise_add(X=h, Y=b) -> (Out=o)
        square_error_cost(X=o, Y=y) -> (Out=e)
        mean(X=e) -> (Out=loss)
    } }"""
    feeds = {"x": np.array([[1.1], [2.2], [-3.3]], "float32"), "y": np.array([[1.1], [2.2], [-3.52]], "float32")}
    params = {"w": np.ones((1, 1), "float32"), "b": np.array([0.019], "float32"), "learning_rate_0": np.array([0.1], "float32")}
    case = Case(ga.Program.parse(text), "loss", feeds, params)
    check_case("optimize-parameters, mixed-precision{loss_scale=8.0}", case, prepare=BACKWARD)


def test_what_holds_a_shape_alone_is_put_together_along_the_rows_that_it_tells() -> None:
    text = "program { block 0 { var x: float64[4, 1, 2] param p: float64[1] var loss: float64[]"
    text += " var y: float64[4, 2] var of: float64[0, 4, 1, 2] mean(X=p) -> (Out=loss)"
    text += " reshape2(X=x) -> (Out=y, XShape=of) {shape=[0, -1]} } }"
    case = Case(ga.Program.parse(text), "loss", {"x": np.arange(8.0).reshape(4, 1, 2)}, {"p": np.ones(1)})
    check_case("data-parallel", case, prepare=BACKWARD)


def test_what_is_fed_and_written_before_it_is_read_is_not_shared_out() -> None:
    text = "program { block 0 { var x: float64[3] var y: float64[3] var z: float64[3] param p: float64[3] var loss: float64[]"
    text += " tanh(X=y) -> (Out=z) mean(X=p) -> (Out=loss) scale(X=p) -> (Out=x) {scale=2.0} } }"
    case = Case(ga.Program.parse(text), "loss", {"x": np.zeros(3), "y": np.zeros(3)}, {"p": np.ones(3)})
    check_case("data-parallel", case, prepare=BACKWARD)


def test_float16_rounds_terms_whose_sum_is_zero_and_the_slope_of_a_loss() -> None:
    """The gradient of v is 0.3 + 0.4 - 0.7; float16 makes 0.0002 of that. Only in double precision are slopes right to four digits."""
    twice = "mixed-precision{dtype=float32}, mixed-precision"
    text = "program { block 0 { param v: float64[1] var w: float64[3, 1] stop_gradient var h: float64[1, 3] var y: float64[1, 1]"
    text += " var loss: float64[] expand_v2(X=v) -> (Out=h) {shape=[1, 3]} mul(X=h, Y=w) -> (Out=y) reduce_sum(X=y) -> (Out=loss) } }"
    case = Case(ga.Program.parse(text), "loss", {"w": np.array([[0.3], [0.4], [-0.7]])}, {"v": np.ones(1)})
    check_case(twice, case, prepare=BACKWARD)
    text = "program { block 0 { var x: float64[-1, 1] param w: float64[1, 1] var y: float64[-1, 1] var loss: float64[]"
    text += " mul(X=x, Y=w) -> (Out=y) reduce_sum(X=y) -> (Out=loss) } }"
    check_case(twice, Case(ga.Program.parse(text), "loss", {"x": np.zeros((4, 1))}, {"w": np.array([[-1.102]])}), prepare=BACKWARD)


PRINTING = """program {
  block 0 {
    var x: float32[2]
    var y: float32[2]
    var a: float32[2]
    var b: float32[2]
    var z: float32[2]
    print(In=x) -> (Out=a) {message="x"}
    print(In=y) -> (Out=b) {message="y"}
    elementwise_add(X=x, Y=y) -> (Out=z)
  }
}
"""


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_printed_is_compared_as_often_and_in_its_order(compiled: bool) -> None:
    program = ga.Program.parse(PRINTING)
    x, y, add_ = program.global_block().ops
    case = Case(program, feeds={"x": np.array([1, 2], "float32"), "y": np.array([3, 4], "float32")}, requested=("z",))
    other = {"x": np.array([3, 4], "float32"), "y": np.array([1, 2], "float32")}  # the sum is the same, and what is printed is not
    expected = observe(program, case, ["z"], compiled)
    assert observed_difference(expected, observe(program, case, ["z"], compiled)) == ""
    assert observed_difference(expected, observe(program, replace(case, feeds=other), ["z"])).startswith("print number 1: at [0]: 1.0")
    for ops, text in (([y, x], "'x' and 'y'"), ([x], "'y' [3.0, 4.0] before, nothing after"), ([x, y, y], "nothing before, 'y' [3.0")):
        changed = program.clone()
        changed.global_block().ops[:] = [*ops, add_]
        assert text in observed_difference(expected, observe(changed, case, ["z"], compiled))


def test_results_of_effects_may_be_renamed_where_one_of_them_was_printed_into_its_own_name() -> None:
    program = ga.Program.parse("""program {
  block 0 {
    var x: float32[1]
    var s: float32[1] persistable
    var t: float32[1]
    var y: float32[1]
    assign(X=x) -> (Out=t)
    fetch(X=s) -> (Out=y)
    print(In=t) -> (Out=t)
  }
}
""")

    class Renames(ga.Pass):
        name = "renames-what-is-not-requested"

        def apply(self, graph: ga.Graph) -> bool:
            values = [value for value in graph.values if value.writers and not value.persistable and not graph.is_observed(value)]
            for value in values:
                graph.rename(value, graph.values.numbered(value.name, "{}@NEW@{}"))
            return bool(values)

    case = Case(program, feeds={"x": np.ones(1, "float32")}, params={"s": np.ones(1, "float32")}, requested=("s",))
    check_case(Renames(), case)
    # Also where what is fed had the name of what ranks exchange.
    exchange = ga.Program.parse(
        "program { block 0 { var x: float32[1] var y: float32[1] c_reduce_sum(X=x) -> (Out=x) c_reduce_sum(X=x) -> (Out=y) } }"
    )
    check_case(Renames(), Case(exchange, feeds={"x": np.ones(1, "float32")}))


def test_a_gradient_is_compared_as_it_is_clipped_on_its_way() -> None:
    """A pass that takes a copy away takes what clips its gradient with it, which shows in gradients alone."""
    text = """program {
  block 0 {
    var x: float64[2]
    var t: float64[2] error_clip=[-0.01, 0.01]
    var loss: float64[]
    assign(X=x) -> (Out=t)
    mean(X=t) -> (Out=loss)
  }
}
"""

    class Forgets(ga.Pass):
        name = "forgets-what-clips"

        def apply(self, graph: ga.Graph) -> bool:
            (copy,) = [op for op in graph.ops if op.type == "assign"]
            graph.replace(copy.output("Out"), copy.input("X"))
            graph.remove_op(copy)
            return True

    case = Case(ga.Program.parse(text), "loss", {"x": np.array([1.0, 2.0])})
    with pytest.raises(AssertionError, match=r"the gradients differ: of x: at \[0\]: 0.01 before, 0.5 after"):
        check_case(Forgets(), case)
