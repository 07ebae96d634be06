"""Mistakes of those who are new here: each is refused, with what was found, what was expected, and a hint where there is one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad
from graphad import layers
from graphad.program import Variable

ga: Any = graphad  # mistakes are what a type checker would refuse
L: Any = layers


def _regression() -> Variable:
    x, y = ga.data("x", [None, 13]), ga.data("y", [None, 1])
    cost: Variable = L.mean(L.square_error_cost(L.fc(x, 1), y))
    return cost


def _run(feed: Any, fetch: object = "mean_0.tmp_0") -> object:
    _regression()
    executor = ga.Executor()
    executor.run(ga.default_startup_program())
    return [*executor.run(feed=feed, fetch_list=[fetch])]


def _constant_class(of: Callable[[Any], Any]) -> object:
    out: object = L.fc(ga.data("x", [None, 3]), 2, param_attr=of(ga.initializer.Constant))
    return out


X, Y = np.ones((4, 13), "float32"), np.ones((4, 1), "float32")
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a number where a Variable is expected": (lambda: L.relu(3.0), "takes a Variable, not 3.0; layers.assign([1.0, 2.0]) makes one"),
    "a list of numbers": (lambda: L.reshape([1, 2, 3, 4], [2, 2]), "takes a Variable, not [1, 2, 3, 4]"),
    "names": (lambda: L.concat(["x", "y"]), "takes a Variable, not ['x', 'y']"),
    "two numbers": (lambda: L.matmul(1.0, 2.0), "takes a Variable, not 1.0, 2.0"),
    "two widths of floats": (lambda: ga.data("a", [3]) + ga.data("b", [3], "float64"), "their dtypes differ; x.astype(dtype) casts"),
    "a feed without names": (lambda: _run([X, Y]), "feed is a dict from name to array, not a list"),
    "a misspelt feed": (lambda: _run({"X": X, "y": Y}), "did you mean 'x'?"),
    "a missing feed": (lambda: _run({"x": X}), "reads 'y', which is not fed"),
    "a misspelt fetch": (lambda: _run({"x": X, "y": Y}, "mean_0.tmp_1"), "did you mean 'mean_0.tmp_0'"),
    "a graph that is run": (lambda: ga.Executor().run(ga.lower(ga.Program())), "graphad.schedule(graph) makes a program"),
    "a misspelt synonym": (lambda: L.fc(ga.data("x", [None, 3]), size=4, activtion="relu"), "did you mean 'act'?"),
    "a misspelt keyword": (lambda: L.fc(ga.data("x", [None, 3]), sise=4), "did you mean 'size'?"),
    "an initializer's class": (lambda: _constant_class(lambda cls: cls), "Constant(...) makes one"),
    "an initializer's class in ParamAttr": (lambda: _constant_class(lambda cls: ga.ParamAttr(initializer=cls)), "Constant(...) makes one"),
    "deleting a row": (lambda: ga.data("x", [3]).__delitem__(0), "a subscript, such as x[1:], makes another tensor"),
    "Paddle's static": (lambda: ga.static, "which Paddle has: its names are at the top"),
    "Paddle's nn": (lambda: ga.nn, "nn.functional.relu is graphad.layers.relu"),
    "Paddle's to_tensor": (lambda: ga.to_tensor, "graphad.layers.assign(array)"),
    "Paddle's schedules": (lambda: ga.optimizer.lr, "which Paddle has: learning_rate= takes what layers.piecewise_decay"),
    "a function of io at the top": (lambda: ga.save_inference_model, "graphad.io.save_inference_model"),
    "levels of detail": (lambda: ga.data("x", [None, 1], "int64", lod_level=1), "layers take their lengths, length="),
    "a decay under two names": (
        lambda: ga.optimizer.SGD(0.1, regularization=ga.regularizer.L2Decay(0.1), weight_decay=0.1),
        "regularization and weight_decay are two names of one argument",
    ),
    "a layer at the top": (lambda: ga.concat, "graphad.layers.concat"),
}


@pytest.mark.parametrize(("mistake", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_explained(mistake: Callable[[], Any], hint: str) -> None:
    with (
        ga.scope_guard(ga.Scope()),
        ga.program_guard(ga.Program(), ga.Program()),
        pytest.raises((TypeError, ValueError, AttributeError), match=re.escape(hint)),
    ):
        mistake()


def test_an_array_alone_is_computed_with() -> None:
    np.testing.assert_array_equal(L.relu(np.array([1.0, -1.0])), [1.0, 0.0])
