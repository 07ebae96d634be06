"""Rules written as before and after: what matches, and what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphad import ops
from graphad.errors import InvalidType, InvalidValue
from graphad.rewriting import constant, is_float, rewrite, several
from tests.rewriting.samples import add_zero, applied, filled, greedily, log_exp, lowered, only, scales, type_names

# -- operators and attributes --------------------------------------------------------------------


@rewrite
def double_transpose(x: Any) -> Any:
    return ops.transpose(ops.transpose(x, axis=(1, 0)), axis=[1, 0]), x


@rewrite
def same_swap(x: Any, *, a: Any, b: Any) -> Any:
    return ops.transpose(ops.transpose(x, axis=[a, b]), axis=[a, b]), x


@rewrite
def same_scale(x: Any, *, a: Any) -> Any:
    return ops.scale(ops.scale(x, scale=a), scale=a), ops.scale(x, scale=a * a), is_float(x)


@rewrite
def twice_the_scale(x: Any, *, a: Any) -> Any:
    return ops.scale(ops.scale(x, scale=a), scale=a * 2), ops.scale(x, scale=a * a * 2), is_float(x)


def test_an_attribute_that_is_said() -> None:
    turned = lowered(("transpose", "x", "a", {"axis": [1, 0]}), ("transpose", "a", "b", {"axis": [1, 0]}), ("sin", "b", "y"))
    assert applied(double_transpose, turned) == ["sin"]
    kept = lowered(("transpose", "x", "a", {"axis": [0, 1]}), ("transpose", "a", "y", {"axis": [1, 0]}))
    assert not greedily(kept, double_transpose)


def test_attributes_in_a_list() -> None:
    turned = lowered(("transpose", "x", "a", {"axis": [1, 0]}), ("transpose", "a", "b", {"axis": [1, 0]}), ("sin", "b", "y"))
    assert applied(same_swap, turned) == ["sin"]
    mixed = lowered(("transpose", "x", "a", {"axis": [1, 0]}), ("transpose", "a", "b", {"axis": [0, 1]}), ("sin", "b", "y"))
    assert not greedily(mixed, same_swap)
    longer = [("transpose", "x", "a", {"axis": [1, 0, 2]}), ("transpose", "a", "y", {"axis": [1, 0, 2]})]
    assert not greedily(lowered(*longer, shapes={"x": (2, 3, 4)}), same_swap)


def test_one_attribute_in_two_places() -> None:
    assert applied(same_scale, scales({"scale": 3.0}, {"scale": 3.0})) == ["scale"]
    assert not greedily(scales({"scale": 3.0}, {"scale": 2.0}), same_scale)


def test_an_attribute_that_an_expression_says() -> None:
    graph = scales({"scale": 3.0}, {"scale": 6.0})
    assert applied(twice_the_scale, graph) == ["scale"]
    assert only(graph, "scale").attrs == {"scale": 18.0}
    assert not greedily(scales({"scale": 6.0}, {"scale": 3.0}), twice_the_scale)


def test_attributes_that_are_not_named_have_their_defaults() -> None:
    assert not greedily(scales({"scale": 3.0, "bias": 1.0}, {"scale": 3.0}), same_scale)
    assert not greedily(scales({"scale": 3.0}, {"scale": 3.0, "bias_after_scale": False}), same_scale)
    assert greedily(scales({"scale": 3.0, "bias": 0.0}, {"scale": 3.0}), same_scale)


def test_a_default_that_is_left_out_counts() -> None:
    assert applied(same_scale, scales({}, {"scale": 1.0})) == ["scale"]


def test_one_tensor_in_two_places() -> None:
    rule = rewrite(lambda_rule)
    assert applied(rule, lowered(("elementwise_add", ("x", "x"), "y"))) == ["scale"]
    assert not greedily(lowered(("elementwise_add", ("x", "z"), "y")), rule)


def lambda_rule(x: Any) -> Any:
    return ops.elementwise_add(x, x), ops.scale(x, scale=2.0)


def test_one_operator_in_two_places() -> None:
    """An operator of the pattern that is used twice is one operator; two that look the same may be one or two."""

    @rewrite
    def same(x: Any) -> Any:
        h = ops.exp(x)
        return ops.elementwise_sub(h, h), ops.elementwise_sub(x, x), is_float(x), h.uses == 1

    @rewrite
    def alike(x: Any) -> Any:
        return ops.elementwise_sub(ops.exp(x), ops.exp(x)), ops.elementwise_sub(x, x), is_float(x)

    one = ("exp", "x", "a"), ("elementwise_sub", ("a", "a"), "y")
    two = ("exp", "x", "a"), ("exp", "x", "b"), ("elementwise_sub", ("a", "b"), "y")
    assert greedily(lowered(*one), same)
    assert not greedily(lowered(*two), same)
    assert greedily(lowered(*one), alike)
    assert greedily(lowered(*two), alike)


# -- commutative operators -----------------------------------------------------------------------


@rewrite
def factor(x: Any, y: Any, z: Any) -> Any:
    product = ops.elementwise_mul
    return ops.elementwise_add(product(x, y), product(x, z)), product(x, ops.elementwise_add(y, z))


@pytest.mark.parametrize("first", [("x", "y"), ("y", "x")])
@pytest.mark.parametrize("second", [("x", "z"), ("z", "x")])
@pytest.mark.parametrize("sum_of", [("a", "b"), ("b", "a")])
def test_inputs_match_in_both_orders(first: tuple[str, str], second: tuple[str, str], sum_of: tuple[str, str]) -> None:
    graph = lowered(("elementwise_mul", first, "a"), ("elementwise_mul", second, "b"), ("elementwise_add", sum_of, "r"))
    assert applied(factor, graph) == ["elementwise_add", "elementwise_mul"]


def test_an_operator_with_an_axis_keeps_its_order() -> None:
    lines = ("exp", "x", "e"), ("elementwise_add", ("x", "e"), "y", {"axis": 0})

    @rewrite
    def with_exp(x: Any) -> Any:
        return ops.elementwise_add(ops.exp(x), x), ops.elementwise_add(x, ops.exp(x))

    assert with_exp.match(lowered(*lines).value("y").writers[0]) is None
    assert with_exp.match(lowered(lines[0], (*lines[1][:3], {})).value("y").writers[0]) is not None


def test_other_operators_match_in_one_order() -> None:
    @rewrite
    def minus(x: Any) -> Any:
        return ops.elementwise_sub(ops.exp(x), x), ops.scale(ops.elementwise_sub(x, ops.exp(x)), scale=-1.0), is_float(x)

    assert greedily(lowered(("exp", "x", "e"), ("elementwise_sub", ("e", "x"), "y")), minus)
    assert not greedily(lowered(("exp", "x", "e"), ("elementwise_sub", ("x", "e"), "y")), minus)


# -- constants -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("x", "c"), ("c", "x")])
def test_a_number_that_a_condition_is_about(order: tuple[str, str]) -> None:
    assert applied(add_zero, lowered(filled("c", 0.0), ("elementwise_add", order, "s"), ("sin", "s", "y"))) == ["sin"]
    assert not greedily(lowered(filled("c", 0.5), ("elementwise_add", order, "y")), add_zero)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_number_is_compared_as_it_is_stored(dtype: str) -> None:
    @rewrite
    def tenth(x: Any) -> Any:
        return ops.elementwise_mul(x, constant(0.1)), ops.scale(x, scale=0.1)

    graph = lowered(filled("c", 0.1, dtype), ("elementwise_mul", ("x", "c"), "y"), dtype=dtype)
    assert greedily(graph, tenth)
    assert type_names(graph) == ["scale"]


def test_a_number_that_no_integer_can_be() -> None:
    @rewrite
    def half(x: Any) -> Any:
        return ops.elementwise_mul(x, constant(0.5)), ops.scale(x, scale=0.5)

    zeros = lowered(filled("c", 0, "int64"), ("elementwise_mul", ("x", "c"), "y"), dtype="int64")
    assert not greedily(zeros, half)


def test_numbers_from_other_tensors() -> None:
    graph = lowered(("exp", "x", "e"), ("fill_zeros_like", "e", "z"), ("elementwise_add", ("x", "z"), "s"), ("sin", "s", "y"))
    assert applied(add_zero, graph) == ["sin"]
    graph = lowered(("fill_any_like", "x", "z", {"value": 0.0}), ("elementwise_add", ("x", "z"), "s"), ("sin", "s", "y"))
    assert applied(add_zero, graph) == ["sin"]


def test_a_constant_that_makes_the_result_larger_stays() -> None:
    graph = lowered(filled("c", 0.0, shape=(4, 2, 3)), ("elementwise_add", ("x", "c"), "y"))
    assert not greedily(graph, add_zero)
    small = lowered(filled("c", 0.0, shape=(3,)), ("elementwise_add", ("x", "c"), "s"), ("sin", "s", "y"))
    assert applied(add_zero, small) == ["sin"]


def test_a_number_after() -> None:
    @rewrite
    def add_twice(x: Any, *, a: Any, b: Any) -> Any:
        add = ops.elementwise_add
        return add(add(x, constant(a)), constant(b)), add(x, constant(a + b)), is_float(x)

    lines = filled("a", 1.5), filled("b", 2.0), ("elementwise_add", ("x", "a"), "h"), ("elementwise_add", ("h", "b"), "y")
    graph = lowered(*lines)
    assert applied(add_twice, graph) == ["fill_constant", "elementwise_add"]
    assert only(graph, "fill_constant").attrs["value"] == 3.5


# -- lists ---------------------------------------------------------------------------------------


@rewrite
def flat_sum(xs: Any = several, ys: Any = several, zs: Any = several) -> Any:
    return ops.sum([*xs, ops.sum(ys), *zs]), ops.sum([*xs, *ys, *zs])


@rewrite
def sum_without_zeros(xs: Any = several, ys: Any = several, *, c: Any) -> Any:
    return ops.sum([*xs, constant(c), *ys]), ops.sum([*xs, *ys]), c == 0


@pytest.mark.parametrize("outer", [["a", "s"], ["s", "a"], ["a", "s", "b"], ["s"], ["a", "b", "c", "s"]])
def test_a_list_around_an_operator(outer: list[str]) -> None:
    graph = lowered(("sum", ["u", "v", "w"], "s"), ("sum", outer, "y"))
    assert applied(flat_sum, graph) == ["sum"]
    read = [value.name for value in only(graph, "sum").inputs["X"]]
    assert read == [inner for name in outer for inner in (["u", "v", "w"] if name == "s" else [name])]


def test_a_list_is_tried_until_the_conditions_hold() -> None:
    """The first number in the list is not the one that the rule is about."""
    lines = filled("one", 1.0), filled("two", 2.0), filled("zero", 0.0)
    graph = lowered(*lines, ("sum", ["x", "one", "two", "zero", "z"], "y"))
    assert applied(sum_without_zeros, graph).count("fill_constant") == 2
    assert [value.name for value in only(graph, "sum").inputs["X"]] == ["x", "one", "two", "z"]
    assert not greedily(graph, sum_without_zeros)


def test_several_of_a_kind_go_one_after_the_other() -> None:
    graph = lowered(("sum", ["a", "b"], "s"), ("sum", ["c", "d"], "t"), ("sum", ["s", "x", "t"], "y"))
    assert applied(flat_sum, graph) == ["sum"]
    assert [value.name for value in only(graph, "sum").inputs["X"]] == ["a", "b", "x", "c", "d"]


def test_the_same_list_twice() -> None:
    @rewrite
    def twice(xs: Any = several) -> Any:
        total = ops.sum(xs)
        return ops.elementwise_add(total, ops.sum(xs)), ops.scale(total, scale=2.0), is_float(total)

    alike = lowered(("sum", ["a", "b"], "s"), ("sum", ["a", "b"], "t"), ("elementwise_add", ("s", "t"), "y"))
    assert applied(twice, alike) == ["sum", "scale"]
    other = lowered(("sum", ["a", "b"], "s"), ("sum", ["b", "a"], "t"), ("elementwise_add", ("s", "t"), "y"))
    assert not greedily(other, twice)


# -- how rules are written -------------------------------------------------------------------------


def test_rules_can_be_written_with_arithmetic() -> None:
    @rewrite
    def line(x: Any, *, a: Any, b: Any) -> Any:
        return (x * a) * b, x * (a * b), is_float(x)

    assert line.text == "scale(scale(x, scale=a), scale=b) ⇒ scale(x, scale=(a * b)) where is_float(x)"
    assert applied(line, scales({"scale": 2.0}, {"scale": 3.0})) == ["scale"]


@rewrite
def sin_and_cos(x: Any) -> Any:
    h = ops.assign(x)
    return (ops.sin(x), ops.cos(x)), (ops.sin(h), ops.cos(h))


def test_a_rule_says_what_it_is() -> None:
    assert repr(log_exp) == "<rule log-exp: log(exp(x)) ⇒ x>"
    assert log_exp.__doc__ == "Log undoes exp."
    assert (log_exp.types, log_exp.depth, log_exp.multi_root) == (frozenset({"log"}), 2, False)
    assert (sin_and_cos.types, sin_and_cos.multi_root) == (frozenset({"sin"}), True)
    assert add_zero.depth == 2, "the operator that fills a constant counts"


def attribute_nowhere(x: Any, *, c: Any) -> Any:
    return ops.sin(x), ops.scale(x, scale=c)


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "no after": (lambda x: ops.exp(x), InvalidType, "returns before, after and perhaps conditions"),
    "before a number": (lambda x: (3, x), InvalidType, "before of rule .* is a tensor of the pattern, or several, not 3"),
    "before a tensor": (lambda x: (x, ops.exp(x)), InvalidValue, "starts from x, which no operator computes"),
    "unequal numbers": (lambda x: ((ops.exp(x), ops.sin(x)), x), InvalidValue, "has 2 results before and 1 after"),
    "unknown on the right": (
        lambda x, y: (ops.exp(x), ops.exp(y)),
        InvalidValue,
        "uses y on its right-hand side, which does not occur in its pattern",
    ),
    "a condition on something else": (
        lambda x: (ops.sin(x), ops.sin(x), is_float(ops.exp(x))),
        InvalidValue,
        r"a condition on exp\(x\), which",
    ),
    "an attribute that is nowhere": (attribute_nowhere, InvalidValue, "needs c, which is no attribute and no number of an operator before"),
    "constant alone": (lambda x: (ops.elementwise_sub(x, x), constant(0.0)), InvalidValue, "does not say its shape: ops.fill_any_like"),
    "a truth": (lambda x: (ops.log(ops.exp(x)), x, True), InvalidType, "is made of attributes, shapes and dtypes, not True"),
    "a branch": (lambda x: (ops.exp(x), x) if x.ndim == 2 else (ops.sin(x), x), InvalidType, "not known before the rule matches"),
    "an attribute there is not": (
        lambda x: (ops.exp(ops.relu(x), slope=2), x),
        InvalidType,
        "operator exp has no attribute slope; it has none",
    ),
    "an array": (lambda x: (ops.elementwise_add(x, np.ones(3)), x), InvalidType, "reads tensors of the pattern or numbers, not array"),
}


def test_an_attribute_is_not_iterated_over() -> None:
    with pytest.raises(InvalidType, match="a has no elements before the rule matches"):
        rewrite(lambda x, *, a, b: (ops.transpose(ops.transpose(x, axis=b), axis=a), ops.transpose(x, axis=[b[i] for i in a])))
    with pytest.raises(InvalidType, match="what a has in it is not known before the rule matches"):
        rewrite(lambda x, *, a: (ops.transpose(x, axis=a), x, 0 in a))


@pytest.mark.parametrize("take", [iter, reversed, lambda parts: parts[:], lambda parts: parts[1:]])
def test_results_whose_number_is_not_known_are_not_iterated_over(take: Any) -> None:
    with pytest.raises(InvalidType, match=r"how many results .* has is not known"):
        rewrite(lambda x: (list(take(ops.split(x, num=2))), x))


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_rule_is_refused(case: str) -> None:
    function, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        rewrite(function)
