"""Move a batch normalization by running statistics into the weights of the product before it.

    x, W ─▶ conv2d ─▶ c ─▶ batch_norm ─▶ y       ⇒       k = Scale / sqrt(Variance + epsilon)
                                                         x, W * k ─▶ conv2d ─▶ elementwise_add ─▶ y
                                                                     Bias - Mean * k ──▲

What it does to the weights are operators on parameters, small beside the product; no values of parameters are needed. A bias between
the two, of its own or the convolution's, goes along.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from graphad import ops
from graphad.ir import Builder, Graph, GraphSymbol, Op, Value
from graphad.ops.normalization import BatchNorm
from graphad.rewriting import OnTrial, Pass, Rule, RuleSet, rewrite_greedily


@dataclass(frozen=True)
class FoldBatchNorm(Pass):
    """Fold batch_norm operators that use running statistics into the weights of convolutions and products of matrices before them.

    It sums in another order, so results differ by rounding: by 1e-6 relatively, and more in float32, as the statistics cancel.
    """

    name = "fold-batch-norm"
    idempotent = True
    tolerance = 1e-6
    on_trial = OnTrial(programs=("trainable", "any"))

    def apply(self, graph: Graph) -> bool:
        return rewrite_greedily(graph, _RULES, self)


class _Fold(Rule):
    """batch_norm(product(x, W) + b) becomes product(x, W') + b'"""

    name = "fold-batch-norm"
    types = frozenset({"batch_norm"})
    depth = 3

    def rewrite(self, op: Op) -> bool:
        match = _matched(op)
        if match is None or not op.graph.allows(self.name, op, match.product, *([match.shift] if match.shift else [])):
            return False
        _fold(op, match)
        return True


_RULES = RuleSet(_Fold())


@dataclass
class _Match:
    """A normalization, the product that it normalizes, and the operator that adds a bias between them, if there is one.

    ``weight`` is the slot of the weights, ``along`` their axis of channels, ``axis`` that of the product's output.
    """

    norm: BatchNorm
    product: Op
    shift: Op | None
    weight: str
    along: int
    axis: int


# -- which ---------------------------------------------------------------------------------------


def _matched(op: Op) -> _Match | None:
    norm, x = _attributes(op), op.input("X")
    # In training the statistics are those of the batch itself, which no weights can hold.
    if not norm.fixed or x.shape is None or not _is_replaceable(op):
        return None
    # Each value on the way has one reader: others would need the product as it was, so it would be computed twice.
    axis, writer = norm.axis(len(x.shape)), _only_for(x, op)
    shift = writer if writer is not None and writer.type == "elementwise_add" else None
    if shift is not None:
        if not _is_bias(shift, axis, len(x.shape)):
            return None
        writer = _only_for(shift.input("X"), shift)
    if writer is None or any(value.type is None for value in (*writer.reads(), *op.reads())):
        return None
    # Weights that are computed would have to be scaled in each run, too.
    slot, along = _weight(writer, axis, len(x.shape))
    if not slot or not _is_parameter(writer.input(slot)):
        return None
    return _Match(norm, writer, shift, slot, along, axis)


def _attributes(op: Op) -> BatchNorm:
    # An operator may carry attributes that every one may have, such as a name scope, which are none of the normalization's.
    names = {option.name for option in fields(BatchNorm)}
    return BatchNorm(**{name: value for name, value in op.attrs.items() if name in names})


def _is_replaceable(op: Op) -> bool:
    """Whether ``ReserveSpace``, which only the operator itself can compute, is unused."""
    return not any(value.readers or op.graph.is_observed(value) for value in op.outputs.get("ReserveSpace", ()))


def _only_for(value: Value, reader: Op) -> Op | None:
    """The operator that writes a value, if nothing but one operator wants it."""
    if list(value.readers) != [reader] or value.graph.is_observed(value) or not value.writers or value.persistable:
        return None
    return value.writers[0]


def _is_parameter(value: Value) -> bool:
    return value.given and value.persistable


def _is_bias(op: Op, axis: int, rank: int) -> bool:
    """Whether an operator adds one number to each channel, by a vector or by what has one element along all other axes."""
    bias, definition = op.input("Y"), op.definition
    if definition is None or not _is_parameter(bias) or not bias.shape or len(bias.shape) > rank or op.input("X") is bias:
        return False
    own_axis = definition.attr("axis", op.attrs)
    first = rank - len(bias.shape) if own_axis == -1 else own_axis
    # Just one dimension of the bias is that of the channels: without it, or with another one above 1, it is no number for each channel.
    others = [extent for i, extent in enumerate(bias.shape, first) if i != axis]
    return len(others) == len(bias.shape) - 1 and all(extent == 1 for extent in others)


def _weight(op: Op, axis: int, rank: int) -> tuple[str, int]:
    """The slot of the weights of a product whose output has its channels along an axis, and their axis of channels."""
    definition = op.definition
    if definition is None or definition.weights is None:
        return "", 0
    slot, channels = definition.weights
    attrs = {name: definition.attr(name, op.attrs) for name in definition.attrs}
    axes = channels(attrs, len(op.input(slot).shape or ()), rank)
    # The axis of the output that the normalization scales has to be the channels of the product: only then is scaling the weights the same.
    return (slot, axes[0]) if axes is not None and axes[1] == axis else ("", 0)


# -- how -----------------------------------------------------------------------------------------


def _fold(op: Op, match: _Match) -> None:
    graph, y = op.graph, op.output("Y")
    builder = Builder(graph, y.name, before=op, role=op.role)
    scale, bias, mean, variance = (builder.symbol(op.input(slot)) for slot in ("Scale", "Bias", "Mean", "Variance"))
    # y = (c - Mean) * k + Bias with k = Scale / sqrt(Variance + epsilon), and c = x * W + b: so W becomes W * k, and b becomes b * k + Bias
    # - Mean * k.
    inverse = ops.rsqrt(variance + match.norm.epsilon)
    factor = scale * inverse
    shift = bias - mean * factor
    if match.shift is not None:
        summand = builder.symbol(match.shift.input("Y"))
        shift = (summand if len(match.shift.input("Y").shape or ()) == 1 else ops.reshape(summand, shape=[-1])) * factor + shift
    result = _product(match, builder, factor)
    total = ops.elementwise_add(result, _with_own_bias(match, builder, factor, shift), axis=match.axis)
    # With fixed statistics these outputs are inputs, or follow from them, so whoever reads them needs no normalization either.
    for slot in ("MeanOut", "SavedMean"):
        _replace_statistic(op, slot, op.input("Mean"))
    _replace_statistic(op, "VarianceOut", op.input("Variance"))
    _replace_statistic(op, "SavedVariance", inverse.value)
    graph.substitute(y, total.value)


def _product(match: _Match, builder: Builder, factor: object) -> GraphSymbol:
    """The product with scaled weights, and without a bias of its own."""
    product, definition = match.product, match.product.definition
    assert definition is not None
    weights = ops.elementwise_mul(builder.symbol(product.input(match.weight)), factor, axis=match.along)
    slots = [slot for slot in definition.inputs if slot in product.inputs and slot != "Bias"]
    inputs = [weights if slot == match.weight else builder.symbol(product.input(slot)) for slot in slots]
    result: GraphSymbol = definition(*inputs, **definition.own_attrs(product.attrs))
    return result


def _with_own_bias(match: _Match, builder: Builder, factor: object, shift: object) -> Any:
    """The shift, combined with the product's own bias."""
    bias = match.product.inputs.get("Bias")
    return shift if not bias else builder.symbol(bias[0]) * factor + shift


def _replace_statistic(op: Op, slot: str, value: Value) -> None:
    """Replace a statistic that the operator writes by a value, if it is used."""
    for out in op.outputs.get(slot, ()):
        if out.readers or op.graph.is_observed(out):
            op.graph.substitute(out, value)
