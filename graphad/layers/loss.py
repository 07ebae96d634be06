"""Costs and metrics."""

from __future__ import annotations

from typing import Literal, overload

from graphad.layers.checks import checked_flag
from graphad.layers.helper import LayerHelper, checked_input, layer
from graphad.program import Variable
from graphad.program.source import at_users_line


@layer
def square_error_cost(input: Variable, label: Variable) -> Variable:
    """``(input - label) ** 2``, elementwise."""
    return LayerHelper("square_error_cost").append(
        "square_error_cost", {"X": checked_input("square_error_cost", input), "Y": checked_input("square_error_cost", label)}
    )


@layer
def mse(input: Variable, label: Variable) -> Variable:
    """The mean of the squared error, a scalar."""
    return mean(square_error_cost(input, label))


@layer
def mse_loss(input: Variable, label: Variable) -> Variable:
    """The mean of the squared error, a scalar; Fluid's name for ``mse``."""
    return mse(input, label)


@layer
def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements, a scalar of shape []."""
    return LayerHelper("mean", name).append("mean", {"X": checked_input("mean", x)})


@layer
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
    numeric_stable_mode: bool = ...,
    return_softmax: Literal[False] = ...,
    axis: int = ...,
) -> Variable: ...
@overload
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = ...,
    ignore_index: int = ...,
    numeric_stable_mode: bool = ...,
    *,
    return_softmax: Literal[True],
    axis: int = ...,
) -> tuple[Variable, Variable]: ...
@layer
def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Variable | tuple[Variable, Variable]:
    """Cross entropy of ``softmax(logits)``, computed without overflow; one value a row, and the softmax if requested."""
    with at_users_line("layers.softmax_with_cross_entropy"):
        for what, flag in (("soft_label", soft_label), ("numeric_stable_mode", numeric_stable_mode), ("return_softmax", return_softmax)):
            checked_flag(what, flag)
    helper = LayerHelper("softmax_with_cross_entropy")
    inputs = {"Logits": checked_input("softmax_with_cross_entropy", logits), "Label": checked_input("softmax_with_cross_entropy", label)}
    attrs = {"soft_label": soft_label, "ignore_index": ignore_index, "axis": axis}
    softmax, loss = helper.append_all("softmax_with_cross_entropy", inputs, ("Softmax", "Loss"), attrs)
    return (loss, softmax) if return_softmax else loss


@layer
def accuracy(input: Variable, label: Variable, k: int = 1, correct: Variable | None = None, total: Variable | None = None) -> Variable:
    """The share of rows whose label is among the ``k`` largest entries, as a float32 of one element.

    ``correct`` and ``total`` are Variables to overwrite with the counts.
    """
    helper = LayerHelper("accuracy")
    slots = ("Out", "Indices")
    values, indices = helper.append_all("top_k", {"X": checked_input("accuracy", input)}, slots, {"k": k}, stopped=slots)
    inputs = {"Out": values, "Indices": indices, "Label": checked_input("accuracy", label)}
    counts = ("Accuracy", "Correct", "Total")
    written = {slot: var for slot, var in (("Correct", correct), ("Total", total)) if var is not None}
    fresh = [slot for slot in counts if slot not in written]
    result, *_ = helper.append_all("accuracy", inputs, fresh, written=written, stopped=fresh)
    return result
