"""``append_backward`` and ``gradients``: names and places of what they append, values, and what they refuse to do silently."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import NoGradient
from tests.execution.test_executor import Array, Row

X = np.array([0.3, -0.5, 0.8])


class Net:
    """loss = mean(tanh(x @ w) * v): two parameters on the path, one beside it."""

    def __init__(self) -> None:
        self.program = ga.Program()
        block = self.program.global_block()
        with ga.program_guard(self.program):
            self.x = ga.layers.data("x", [4, 3], "float64", append_batch_size=False)
            self.w, self.v, self.unused = (block.create_parameter(n, s, "float64") for n, s in [("w", [3, 2]), ("v", [2]), ("unused", [2])])
            self.hidden = ga.layers.tanh(self.x @ self.w)
            self.product = self.hidden * self.v
            self.loss = ga.layers.mean(self.product)

    def values(self, fetch: list[Any]) -> list[Array]:
        scope, rng = ga.Scope(), np.random.default_rng(0)
        for p in self.program.all_parameters():
            scope.set(p.name, rng.normal(size=p.shape))
        return ga.Executor().run(self.program, {"x": rng.normal(size=(4, 3))}, fetch, scope)


def names(pairs: list[tuple[ga.Parameter, ga.Variable]]) -> list[tuple[str, str]]:
    return [(p.name, g.name) for p, g in pairs]


def backward(program: ga.Program) -> list[str]:
    return [repr(op) for op in program.global_block().ops if op.role == "backward"]


def vector(*ops: Row, **more: list[int]) -> ga.Program:
    """x of three float64, and operators (type, inputs, the name they write); sums have reduce_all."""
    program = ga.Program()
    for name, shape in {"x": [3], **more}.items():
        program.global_block().create_var(name, shape, "float64")
    for op_type, inputs, output in ops:
        attrs = {"reduce_all": True} if op_type == "reduce_sum" else {}
        program.global_block().append_op(op_type, inputs, {"Out": output}, attrs)
    return program


def evaluated(program: ga.Program, fetch: list[Any], **feed: Any) -> list[Array]:
    return ga.Executor().run(program, {"x": X, **feed}, fetch, ga.Scope())


# -- append_backward: what it appends ------------------------------------------------------------


def test_pairs_are_in_parameter_order_and_the_program_is_extended() -> None:
    net = Net()
    forward = list(net.program.global_block().ops)
    pairs = ga.append_backward(net.loss)
    assert [p for p, _ in pairs] == [net.w, net.v]
    assert names(pairs) == [("w", "w@GRAD"), ("v", "v@GRAD")]
    assert [(g.shape, g.dtype) for _, g in pairs] == [((3, 2), "float64"), ((2,), "float64")]
    assert all(g is net.program.global_block().var(g.name) for _, g in pairs)
    ops = net.program.global_block().ops
    assert ops[: len(forward)] == forward
    assert {op.role for op in ops[len(forward) :]} == {"backward"}


def test_the_operators_are_those_of_the_path_in_reverse() -> None:
    net = Net()
    ga.append_backward(net.loss)
    loss, product, hidden, z = (f"{op}_0.tmp_0" for op in ("mean", "elementwise_mul", "tanh", "matmul_v2"))
    assert backward(net.program) == [
        f"fill_constant() -> (Out={loss}@GRAD)",
        f"mean_grad(X={product}, Out@GRAD={loss}@GRAD) -> (X@GRAD={product}@GRAD)",
        f"elementwise_mul_grad(X={hidden}, Y=v, Out@GRAD={product}@GRAD) -> (X@GRAD={hidden}@GRAD, Y@GRAD=v@GRAD)",
        f"tanh_grad(Out={hidden}, Out@GRAD={hidden}@GRAD) -> (X@GRAD={z}@GRAD)",
        f"matmul_v2_grad(X=x, Y=w, Out@GRAD={z}@GRAD) -> (Y@GRAD=w@GRAD)",
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [[], [1], [1, 1]])
def test_the_gradient_of_the_loss_is_a_constant_one(shape: list[int], dtype: str) -> None:
    program = ga.Program()
    with ga.program_guard(program):
        loss = ga.layers.exp(program.global_block().create_var("x", shape, dtype))
    ga.append_backward(loss)
    seed = next(op for op in program.global_block().ops if op.role == "backward")
    assert seed.type == "fill_constant"
    assert seed.attrs == {"shape": shape, "value": 1.0, "dtype": dtype}


def test_a_shared_parameter_has_a_sum_at_the_end() -> None:
    program = ga.Program()
    w = program.global_block().create_parameter("w", [2], "float64")
    with ga.program_guard(program):
        loss = ga.layers.mean(ga.layers.exp(w) * w)
    ga.append_backward(loss)
    assert backward(program)[-1] == "sum(X=[w@GRAD@RENAME@0, w@GRAD@RENAME@1]) -> (Out=w@GRAD)"


def test_a_shared_value_has_a_sum_directly_before_its_first_reader() -> None:
    """loss = tanh(v) exp(y) sin(y) with y = x²: the gradient of tanh does not wait, and yet comes later."""
    shared: list[Row] = [("tanh", {"X": "v"}, "t"), ("square", {"X": "x"}, "y"), ("exp", {"X": "y"}, "a"), ("sin", {"X": "y"}, "b")]
    product: list[Row] = [("elementwise_mul", {"X": "a", "Y": "b"}, "c"), ("elementwise_mul", {"X": "c", "Y": "t"}, "d")]
    program = vector(*shared, *product, ("mean", {"X": "d"}, "loss"), v=[3])
    ga.append_backward(program.global_block().var("loss"))
    assert [text.partition("(")[0] for text in backward(program)][-5:] == ["sin_grad", "exp_grad", "sum", "square_grad", "tanh_grad"]
    assert backward(program)[-3] == "sum(X=[y@GRAD@RENAME@0, y@GRAD@RENAME@1]) -> (Out=y@GRAD)"


def test_an_unused_output_is_filled_with_zeros_before_its_reader() -> None:
    program = ga.Program()
    program.global_block().create_var("m", [4], "float64")
    program.global_block().append_op("split", {"X": "m"}, {"Out": ["a", "b"]}, {"num": 2, "axis": 0})
    program.global_block().append_op("reduce_sum", {"X": "a"}, {"Out": "loss"}, {"reduce_all": True})
    (g,) = ga.gradients(program.global_block().var("loss"), program.global_block().var("m"))
    assert backward(program)[-2:] == [
        "fill_zeros_like(X=b) -> (Out=b@GRAD)",
        "split_grad(Out@GRAD=[a@GRAD, b@GRAD]) -> (X@GRAD=m@GRAD)",
    ]
    np.testing.assert_array_equal(ga.Executor().run(program, {"m": np.ones(4)}, [g], ga.Scope())[0], [1, 1, 0, 0])


def test_the_program_of_the_loss_is_extended_not_the_default_one() -> None:
    net, other = Net(), ga.Program()
    with ga.program_guard(other):
        ga.append_backward(net.loss)
    assert backward(net.program)
    assert not other.global_block().ops


def test_a_second_call_keeps_the_names_of_the_first() -> None:
    net = Net()
    with ga.program_guard(net.program):
        other = ga.layers.mean(ga.layers.exp(net.product))
    first = ga.append_backward(net.loss)
    operators, before = list(net.program.global_block().ops), net.values([g for _, g in first])
    second = ga.append_backward(other)
    assert names(first) == [("w", "w@GRAD"), ("v", "v@GRAD")]
    assert names(second) == [("w", "w@GRAD_0"), ("v", "v@GRAD_0")]
    assert net.program.global_block().ops[: len(operators)] == operators
    for was, now in zip(before, net.values([g for _, g in first]), strict=True):
        np.testing.assert_array_equal(now, was)


def test_a_call_on_a_program_read_back_takes_free_names() -> None:
    net = Net()
    ga.append_backward(net.loss)
    parsed = ga.Program.parse(str(net.program))
    assert names(ga.append_backward(parsed.global_block().var(net.loss.name))) == [("w", "w@GRAD_0"), ("v", "v@GRAD_0")]


def test_a_declared_name_is_not_taken_for_a_gradient() -> None:
    net = Net()
    mine = net.program.global_block().create_var("w@GRAD", [7], "int64")
    (_, gradient), _ = ga.append_backward(net.loss)
    assert gradient is not mine
    assert gradient.shape == (3, 2)


# -- append_backward: which parameters -----------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (lambda net: None, ["w", "v"]),
        (lambda net: [net.v, net.w], ["v", "w"]),
        (lambda net: ("v", net.w), ["v", "w"]),
        (lambda net: {"w"}, ["w"]),
        (lambda net: [net.v, "v"], ["v", "v"]),
        (lambda net: [], []),
        (lambda net: [net.hidden], ["tanh_0.tmp_0"]),
    ],
    ids=["None", "list", "tuple", "set", "repeated", "empty", "intermediate"],
)
def test_parameter_list_says_which_and_in_which_order(chosen: Callable[[Net], Any], expected: list[str]) -> None:
    net = Net()
    assert names(ga.append_backward(net.loss, chosen(net))) == [(name, f"{name}@GRAD") for name in expected]


def test_a_parameter_that_is_not_trained_has_no_pair() -> None:
    net = Net()
    net.w.trainable, net.w.stop_gradient = False, True
    assert names(ga.append_backward(net.loss)) == [("v", "v@GRAD")]
    assert not net.program.global_block().has_var("w@GRAD")


@pytest.mark.parametrize("given", [{"w"}, ["w"], ("w",), frozenset({"w"})], ids=lambda given: type(given).__name__)
def test_no_grad_set_leaves_out_and_is_left_alone(given: Any) -> None:
    net, before = Net(), repr(given)
    assert names(ga.append_backward(net.loss, no_grad_set=given)) == [("v", "v@GRAD")]
    assert repr(given) == before
    assert [text.partition("(")[0] for text in backward(net.program)] == ["fill_constant", "mean_grad", "elementwise_mul_grad"]


def test_no_grad_set_comes_besides_stop_gradient() -> None:
    net = Net()
    net.v.stop_gradient = True
    assert ga.append_backward(net.loss, no_grad_set={net.unused})[0][0] is net.w
    assert not net.program.global_block().has_var("v@GRAD")


def test_a_cut_value_cuts_what_comes_after_it_only() -> None:
    net = Net()
    net.hidden.stop_gradient = True
    assert names(ga.append_backward(net.loss)) == [("v", "v@GRAD")]


# -- append_backward: what it refuses ------------------------------------------------------------


def sum_of(net: Net, *ops: tuple[str, dict[str, Any]]) -> ga.Variable:
    """The sum over operators applied to the hidden layer one after the other."""
    value = net.hidden
    with ga.program_guard(net.program):
        for op_type, attrs in ops:
            value = getattr(ga.layers, op_type)(value, **attrs)
        return ga.layers.reduce_sum(value, reduce_all=True)


def stopped(var: ga.Variable) -> ga.Variable:
    var.stop_gradient = True
    return var


def after(net: Net, var: ga.Variable) -> ga.Variable:
    """The loss, with a variable before it stopped."""
    stopped(var)
    return net.loss


ARGMAX = (("arg_max", {"axis": 1}), ("cast", {"out_dtype": "float64"}))
NO_WAY = "parameter 'w' has no gradient: "
REFUSED: list[tuple[Callable[[Net], Any], type[Exception], str]] = [
    (lambda net: (net.product,), ValueError, "loss is a scalar, but 'elementwise_mul_0.tmp_0' has shape [4, 2]"),
    (lambda net: (net.program.global_block().create_var("u", [-1], "float64"),), ValueError, "scalar, but 'u' has shape [-1]"),
    (lambda net: (net.program.global_block().create_var("u"),), ValueError, "shape of variable 'u' is not known"),
    (lambda net: ("loss",), TypeError, "loss is a Variable, not 'loss'"),
    (lambda net: (None,), TypeError, "loss is a Variable, not None"),
    (lambda net: (net.program.global_block().create_var("d", [1], "float64"),), ValueError, "no operator makes the loss 'd': it is data"),
    (lambda net: (net.program.global_block().create_parameter("p", [1]),), ValueError, "no operator makes the loss 'p': it is a parameter"),
    (lambda net: (stopped(net.loss),), NoGradient, "the loss 'mean_0.tmp_0' has stop_gradient set"),
    (lambda net: (net.loss, "w"), TypeError, "parameter_list is a list of variables or their names, not 'w'"),
    (lambda net: (net.loss, net.w), TypeError, "parameter_list is a list of variables or their names, not Parameter w"),
    (lambda net: (net.loss, [3]), TypeError, "parameter_list holds variables or their names, not 3"),
    (lambda net: (net.loss, ["nope"]), ValueError, "no variable 'nope'"),
    (lambda net: (net.loss, [net.w, net.unused]), NoGradient, "parameter 'unused' has no gradient: no operator reads it"),
    (lambda net: (sum_of(net), [net.v]), NoGradient, "'v' has no gradient: it is not on the path: no operator that reads it leads to"),
    (lambda net: (net.loss, [stopped(net.w)]), NoGradient, NO_WAY + "stop_gradient of 'w'"),
    (lambda net: (net.loss, ["x"]), NoGradient, "'x' has no gradient: stop_gradient of 'x'"),
    (
        lambda net: (after(net, net.hidden), ["w"]),
        NoGradient,
        NO_WAY + "the way to the loss is cut by stop_gradient of 'tanh_0.tmp_0'",
    ),
    (
        lambda net: (sum_of(net, *ARGMAX), ["w"]),
        NoGradient,
        NO_WAY + "the way to the loss is cut by operator 'arg_max', which has no gradient",
    ),
    (lambda net: (net.loss, ["w"], {"w"}), NoGradient, NO_WAY + "no_grad_set, which holds 'w'"),
    (lambda net: (net.loss, ["w"], [net.hidden]), NoGradient, "cut by no_grad_set, which holds 'tanh_0.tmp_0'"),
    (lambda net: (net.loss, None, "w"), TypeError, "no_grad_set is a list of variables or their names, not 'w'"),
    (lambda net: (net.loss, None, [3]), TypeError, "no_grad_set holds variables or their names, not 3"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_what_is_wrong_is_said_and_the_program_stays(arguments: Callable[[Net], Any], error: type[Exception], message: str) -> None:
    net = Net()
    given = arguments(net)
    before = str(net.program)
    with pytest.raises(error, match=re.escape(message)):
        ga.append_backward(*given)
    assert str(net.program) == before


def test_an_operator_that_cuts_is_placed() -> None:
    net = Net()
    loss = sum_of(net, *ARGMAX)
    line = next(op.source for op in net.program.global_block().ops if op.type == "arg_max")
    with pytest.raises(NoGradient, match=re.escape(f"with respect to X\n  written at {line}")):
        ga.append_backward(loss, ["w"])


def test_an_operator_on_the_way_without_a_rule_is_named() -> None:
    operators = "foo(X=w) -> (Out=y) mean(X=y) -> (Out=l)"
    program = ga.Program.parse(f"program {{ block 0 {{ param w: float64[2] var y: float64[2] var l: float64[] {operators} }} }}")
    before = str(program)
    with pytest.raises(NoGradient, match=r"operator 'foo' is on the way to the target but is not registered: foo\(X=w\)"):
        ga.append_backward(program.global_block().var("l"))
    assert str(program) == before


def test_the_cut_that_is_named_is_on_the_way() -> None:
    program = ga.Program()
    w = program.global_block().create_parameter("w", [3, 2], "float64")
    with ga.program_guard(program):
        ga.layers.arg_max(w, axis=1)
        loss = ga.layers.mean(stopped(ga.layers.tanh(w)))
    with pytest.raises(NoGradient, match=r"cut by stop_gradient of 'tanh_0.tmp_0'"):
        ga.append_backward(loss, [w])


@pytest.mark.parametrize("how", ["all parameters stopped", "an integer loss"])
def test_a_loss_that_no_parameter_reaches_has_no_gradients(how: str) -> None:
    net = Net()
    loss = net.loss
    if how == "an integer loss":
        with ga.program_guard(net.program):
            loss = ga.layers.cast(net.loss, out_dtype="int64")
    else:
        stopped(net.w)
        stopped(net.v)
    before = str(net.program)
    with pytest.raises(ValueError, match="nothing to optimize"):
        ga.optimizer.SGD(0.1).minimize(loss)
    assert str(net.program) == before
    assert ga.append_backward(loss) == []


def test_an_unknown_name_in_no_grad_set_is_ignored() -> None:
    net, again = Net(), Net()
    ga.append_backward(net.loss, no_grad_set={"ww"})
    ga.append_backward(again.loss)
    assert str(net.program) == str(again.program)


def test_a_loss_in_an_inner_block_is_refused_for_what_it_is() -> None:
    net = Net()
    net.program.create_block()
    with ga.program_guard(net.program):
        loss = ga.layers.mean(net.product)
    with pytest.raises(ValueError, match="block 1"):
        ga.append_backward(loss)
