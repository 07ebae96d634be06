"""Costs and metrics."""

from __future__ import annotations

from typing import Literal, overload

from graphad.layers.helper import LayerHelper, checked_input
from graphad.program import Variable


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """``(input - label) ** 2``, elementwise."""
    return LayerHelper("square_error_cost").append(
        "square_error_cost", {"X": checked_input("square_error_cost", input), "Y": checked_input("square_error_cost", label)}
    )


def mse(input: Variable, label: Variable) -> Variable:
    """The mean of the squared error, a scalar."""
    return mean(square_error_cost(input, label))


def mean(x: Variable) -> Variable:
    """The mean of all elements, a scalar of shape []."""
    return LayerHelper("mean").append("mean", {"X": checked_input("mean", x)})


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100) -> Variable:
    """``-log`` of the probability that ``input`` gives to the label; one value a row."""
    attrs = {"soft_label": soft_label, "ignore_index": ignore_index}
    inputs = {"X": checked_input("cross_entropy", input), "Label": checked_input("cross_entropy", label)}
    return LayerHelper("cross_entropy").append("cross_entropy", inputs, attrs, out="Y")


@overload
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = ...,
    ignore_index: int = ...,
    axis: int = ...,
    return_softmax: Literal[False] = ...,
) -> Variable: ...
@overload
def softmax_with_cross_entropy(
    logits: Variable, label: Variable, soft_label: bool = ..., ignore_index: int = ..., axis: int = ..., *, return_softmax: Literal[True]
) -> tuple[Variable, Variable]: ...
def softmax_with_cross_entropy(
    logits: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100, axis: int = -1, return_softmax: bool = False
) -> Variable | tuple[Variable, Variable]:
    """Cross entropy of ``softmax(logits)``, computed without overflow; one value a row, and the softmax if asked for."""
    helper = LayerHelper("softmax_with_cross_entropy")
    softmax, loss = helper.tmp(), helper.tmp()
    helper.main.current_block().append_op(
        "softmax_with_cross_entropy",
        {"Logits": checked_input("softmax_with_cross_entropy", logits), "Label": checked_input("softmax_with_cross_entropy", label)},
        {"Softmax": softmax, "Loss": loss},
        {"soft_label": soft_label, "ignore_index": ignore_index, "axis": axis},
    )
    return (loss, softmax) if return_softmax else loss


def accuracy(input: Variable, label: Variable, k: int = 1) -> Variable:
    """The share of rows whose label is among the ``k`` largest entries, as a float32 of one element."""
    helper = LayerHelper("accuracy")
    block = helper.main.current_block()
    values, indices = helper.tmp(stop_gradient=True), helper.tmp(stop_gradient=True)
    block.append_op("top_k", {"X": checked_input("accuracy", input)}, {"Out": values, "Indices": indices}, {"k": k})
    result, correct, total = (helper.tmp(stop_gradient=True) for _ in range(3))
    inputs = {"Out": values, "Indices": indices, "Label": checked_input("accuracy", label)}
    block.append_op("accuracy", inputs, {"Accuracy": result, "Correct": correct, "Total": total})
    return result
