"""Other values for the attributes of an operator, so that random programs have each of them at two values at least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from graphad.errors import GraphadError
from graphad.ops import GRAD, OpDef
from graphad.ops.aggregates import zeros_like
from graphad.ops.attribute_kinds import checked_attr
from graphad.ops.definition import Attr
from graphad.testing.choices import Choices
from graphad.testing.samples import SAMPLES, samples_of
from graphad.testing.samples.valid import outputs_of

FLOAT_VALUES = (0.3, 1.7, -0.7, 0.0, 1.0, -1.0, 2.5, 0.05)  # mostly no powers of two: 0.5 * x is exact where 0.3 * x is not
DTYPE_VALUES = ("float64", "float32", "int64", "int32", "bool")
WORDS = {  # what samples do not have anyway
    "data_format": ("NHWC", "NCHW", "NDHWC", "NCDHW", "NCL", "AnyLayout"),
    "data_layout": ("NHWC", "NCHW", "NDHWC", "NCDHW", "NWC", "NCW"),
    "padding_algorithm": ("SAME", "VALID", "EXPLICIT"),
    "pooling_type": ("max", "avg"),
    "mode": ("constant", "reflect", "edge", "replicate", "circular", "bilinear", "nearest", "all", "channel", "element"),
    "padding_mode": ("zeros", "border", "reflection"),
    "reduction": ("none", "sum", "mean", "batchmean"),
    "Reduce": ("assign", "add", "mul", "multiply"),
    "interp_method": ("nearest", "bilinear", "linear", "bicubic", "trilinear"),
    "regularization_method": ("", "l2_decay"),
    "rtol": ("0.3", "1e-5"),
    "atol": ("0.3", "1e-8"),
}


def other_value(choices: Choices, op: OpDef, number: int, name: str) -> tuple[Any, ...]:
    """A value for an attribute that an operator takes in the place of that in one of its samples; nothing if two drawn ones fail.

    Args:
        choices: where the decisions come from.
        op: the operator.
        number: which of its samples.
        name: the attribute.
    """
    candidates = candidates_of(op, number, name)
    for _ in range(2 if candidates else 0):
        index = choices.below(len(candidates))
        if _fits(op, number, name, index):
            return (candidates[index],)
    return ()


@cache
def _fits(op: OpDef, number: int, name: str, index: int) -> bool:
    sample = samples_of(op.type)[number]
    attrs = {**canonical(op, sample.attrs), name: candidates_of(op, number, name)[index]}
    outputs = outputs_of(op, sample.slots(), attrs)
    return outputs is not None and not _divides_by_zero(op, sample.slots(), attrs, outputs)


def _divides_by_zero(op: OpDef, inputs: Mapping[str, list[Any]], attrs: dict[str, Any], outputs: Mapping[str, list[Any]]) -> bool:
    """Whether a gradient rule divides by an attribute that is zero, which is an error where the kernel gives infinity."""
    if op.grad is None:
        return False
    cotangents = {slot + GRAD: [v if v is None else zeros_like(v) for v in values] for slot, values in outputs.items()}
    given = {slot: values for slot, values in {**outputs, **inputs, **cotangents}.items() if slot in op.grad.inputs}
    try:
        with np.errstate(all="ignore"):
            op.grad.run(given, attrs, [slot + GRAD for slot in op.grads or () if slot in inputs])
    except ZeroDivisionError:
        return True
    except Exception:  # a rule that does not take these cotangents says nothing about the attribute
        return False
    return False


def canonical(op: OpDef, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes as programs hold them."""
    return {name: checked_attr(op.attrs[name], value) for name, value in attrs.items()}


@cache
def candidates_of(op: OpDef, number: int, name: str) -> list[Any]:
    samples, attr = samples_of(op.type), op.attrs[name]
    current = canonical(op, samples[number].attrs).get(name, attr.default)
    others = [sample.attrs[name] for sample in samples if name in sample.attrs]
    unique: dict[str, Any] = {}
    for value in (*others, *_values(attr, current)):
        try:
            checked = checked_attr(attr, value)
        except GraphadError:
            continue
        if checked is not None and (checked != current or type(checked) is not type(current)):
            unique.setdefault(repr(checked), checked)
    return list(unique.values())


def _values(attr: Attr, current: Any) -> Iterator[Any]:
    if attr.kind == "bool":
        yield not current
    elif attr.kind == "int":
        yield from (current + 1, current - 1, 0, 1, 2, 3, -1, -2)
    elif attr.kind == "float":
        yield from FLOAT_VALUES
    elif attr.kind == "DType":
        yield from DTYPE_VALUES
    elif attr.kind == "str":
        yield from _words(attr.name)
    elif attr.kind.startswith("list[int]"):
        yield from _int_lists(list(current or []))
    elif attr.kind == "list[float]":
        numbers = list(current or [])
        yield from (numbers[::-1], [0.3 + n for n in numbers], [1.7] * len(numbers), [0.3], [0.3, 1.7], [])


def _int_lists(current: list[int]) -> Iterator[list[int]]:
    """The list in other orders, with single elements changed, or of another length."""
    yield current[::-1]
    yield current[1:] + current[:1]
    for i, number in enumerate(current):
        for other in (number + 1, number - 1, -1, 0, 1):
            yield [*current[:i], other, *current[i + 1 :]]
    yield from (current[:-1], [number + 1 for number in current], [0], [1], [-1], [0, 1], [1, 1], [2, 3], [0, 0, 1, 1], [])


@cache
def _words(name: str) -> tuple[str, ...]:
    """The words that samples of any operator have for an attribute of a name, and those that are known besides."""
    seen = (s.attrs[name] for samples in SAMPLES.values() for s in samples if isinstance(s.attrs.get(name), str))
    return tuple(dict.fromkeys((*WORDS.get(name, ()), *seen)))
