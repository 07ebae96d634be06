"""Refusals of optimizers; a refused ``minimize`` leaves the programs as they were."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import graphad as ga
from graphad.optimizer import SGD, Adam, Momentum
from tests.optimizer.test_optimizer import Line


def stopped(line: Line) -> ga.Variable:
    for p in line.main.all_parameters():
        p.stop_gradient = True
    return line.cost


def rate(shape: list[int]) -> ga.Variable:
    """A variable of another program."""
    return ga.Program().global_block().create_var("rate", shape, "float64")


REFUSED: list[tuple[Callable[[Line], Any], type[Exception], str]] = [
    (lambda line: SGD("0.1"), TypeError, "learning_rate is a number or a Variable, not '0.1'"),  # type: ignore[arg-type]
    (lambda line: SGD(None), TypeError, "learning_rate is a number or a Variable, not None"),  # type: ignore[arg-type]
    (lambda line: SGD(True), TypeError, "learning_rate is a number or a Variable, not True"),
    (lambda line: SGD(float("nan")), ValueError, "learning_rate is a finite number, not nan"),
    (lambda line: SGD(rate([3, 1])), ValueError, "learning_rate has one element, not the shape of Variable rate: float64[3, 1]"),
    (lambda line: SGD(rate([1])).minimize(line.cost), ValueError, "learning_rate: Variable rate: float64[1] is of another program"),
    (lambda line: SGD(0.1, momentum=0.9), TypeError, "momentum"),  # type: ignore[call-arg]
    (lambda line: SGD(0.1, regularization=0.1), TypeError, "regularization is an L1Decay or L2Decay, not 0.1"),  # type: ignore[arg-type]
    (lambda line: SGD(0.1, grad_clip=0.1), TypeError, "grad_clip is a ClipByValue, ClipByNorm or ClipByGlobalNorm, not 0.1"),  # type: ignore[arg-type]
    (lambda line: SGD(0.1).minimize("cost"), TypeError, "loss is a Variable, not 'cost'"),  # type: ignore[arg-type]
    (lambda line: SGD(0.1).minimize(line.block.var("fc_0.tmp_1")), ValueError, "loss is a scalar, but 'fc_0.tmp_1' has shape [-1, 1]"),
    (lambda line: SGD(0.1).minimize(stopped(line)), ValueError, "nothing to optimize: no trainable parameter reaches the loss"),
    (lambda line: SGD(0.1).minimize(line.cost, "startup"), TypeError, "startup_program is a Program, not 'startup'"),  # type: ignore[arg-type]
    (lambda line: SGD(0.1).minimize(line.cost, parameter_list=["nope"]), ValueError, "no variable 'nope'"),
    (
        lambda line: SGD(0.1).minimize(line.cost, parameter_list=[line.block.var("fc_0.tmp_1")]),
        ValueError,
        "Variable fc_0.tmp_1: float64[-1, 1] is no parameter: only those can be optimized",
    ),
    (lambda line: SGD(0.1).minimize(line.cost, no_grad_set="w"), TypeError, "no_grad_set is a list"),
    (
        lambda line: SGD(0.1).apply_gradients([line.cost]),  # type: ignore[list-item]
        TypeError,
        "pairs of a Parameter and its gradient, a Variable, not Variable mean_0",
    ),
    (lambda line: SGD(0.1).apply_gradients([(line.block.var("w"), rate([1]))]), ValueError, "they differ in shape or dtype"),  # type: ignore[list-item]
    (
        lambda line: SGD(0.1).apply_gradients([(line.block.var("b"), rate([1]))]),  # type: ignore[list-item]
        ValueError,
        "params_grads: Variable rate: float64[1] is of another program",
    ),
    (
        lambda line: SGD(0.1).apply_gradients([(line.block.var("b"), line.block.var("b"))] * 2),  # type: ignore[list-item]
        ValueError,
        "'b' has 2 gradients in params_grads; add them up",
    ),
    (lambda line: ga.optimize(line.cost, "sgd"), TypeError, "optimizer is an Optimizer, not 'sgd'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_what_is_wrong_is_said(call: Callable[[Line], Any], error: type[Exception], message: str) -> None:
    line = Line()
    with pytest.raises(error, match=re.escape(message)):
        call(line)


def test_a_decay_that_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match="beta1"):
        Adam(0.1, beta1="a").minimize(Line().cost)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [r[0] for r in REFUSED if "nothing" not in r[2]], ids=[r[2] for r in REFUSED if "nothing" not in r[2]])
def test_a_minimize_that_is_refused_leaves_both_programs(call: Callable[[Line], Any]) -> None:
    line = Line()
    before = str(line.main), str(line.startup)
    with pytest.raises((TypeError, ValueError)):
        call(line)
    assert (str(line.main), str(line.startup)) == before


def test_one_gradient_is_not_applied_twice() -> None:
    line = Line()
    sgd = SGD(0.1)
    pairs = sgd.backward(line.cost)
    sgd.apply_gradients(pairs)
    before = str(line.main)
    with pytest.raises(ValueError, match=r"'sgd' updates 'w' with 'w@GRAD' already: every step would update twice"):
        sgd.apply_gradients(pairs)
    assert str(line.main) == before


def test_the_state_takes_names_that_are_free() -> None:
    line = Line()
    taken = line.block.create_var("w_velocity_0", [7], "float64")
    ops, _ = Momentum(0.1).minimize(line.cost)
    assert [op.input("Velocity") for op in ops] == [["w_velocity_1"], ["b_velocity_1"]]
    assert taken.shape == (7,)
    assert not any(op.output("Out") == [taken.name] for op in line.startup.global_block().ops)
