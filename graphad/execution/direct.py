"""Operators as plain calls of numpy, prepared where attributes and types are known before they run.

A grad operator is traced: its rules run on symbols, which record the calls. Equal to the kernels by the
tests, which run the same programs both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import GraphadError
from graphad.ops import GRAD, GradOpDef, OpDef, Slot, Symbol
from graphad.ops.definition import REQUIRED
from graphad.ops.inference import aligned
from graphad.ops.summation import summed
from graphad.types import FLOATS, Shape, TensorType

Function = Callable[..., Any]
Types = Sequence[TensorType]


class Call(NamedTuple):
    """One call; an argument is the name of an input of the operator, or the number of an earlier call."""

    function: Function
    args: tuple[str | int, ...]


def calls_of(
    row: OpDef, names: Mapping[str, Sequence[str]], types: Mapping[str, TensorType], attrs: Mapping[str, Any]
) -> list[Call] | None:
    """The call that an operator of one output makes, its arguments the names in its slots; None if it is not that simple."""
    if row.random or row.partial or len(row.outputs) > 1 or any(s.variadic for s in row.outputs.values()):
        return None
    if [*names] != [*row.inputs][: len(names)] or any(len(given) != 1 or row.inputs[s].variadic for s, given in names.items()):
        return None
    args = tuple(given[0] for given in names.values())
    return [Call(direct(row, [types[a] for a in args], attrs), args)]


def direct(row: OpDef, types: Types, attrs: Mapping[str, Any]) -> Function:
    """The quickest function that computes the same as the operator's kernel, for these types and attributes."""
    own = {name: value for name, value in attrs.items() if name in row.attrs}
    special = _SPECIAL.get(row.type)
    found = special(types, {**_defaults(row), **own}) if special is not None else None
    if found is not None:
        return found
    if row.plain is not None and all(value == row.attrs[name].default for name, value in own.items()):
        return row.plain
    return partial(row.kernel, **own) if own else row.kernel


def _defaults(row: OpDef) -> dict[str, Any]:
    return {name: attr.default for name, attr in row.attrs.items() if attr.default is not REQUIRED}


# -- gradients -----------------------------------------------------------------------------------


def _simple(slot: Slot, names: Sequence[str] | None) -> bool:
    """Whether a slot holds one name, or may be left out and is."""
    return len(names) == 1 and not slot.variadic if names else slot.optional


def traced(
    row: GradOpDef, slot: str, names: Mapping[str, Sequence[str]], types: Mapping[str, TensorType], attrs: Mapping[str, Any]
) -> list[Call] | str | None:
    """A rule as calls, the last of which returns the cotangent; a name if it is that input; None if it cannot be traced."""
    if row.forward is None or row.forward.grads is None:
        return None
    rule = row.forward.grads[slot.removesuffix(GRAD)]
    if row.fast is not None or row.outputs[slot].variadic or not all(_simple(row.inputs[s], names.get(s)) for s in rule.reads):
        return None
    trace = _Trace()
    given = [_Traced(trace, types[names[s][0]], names[s][0]) if names.get(s) else None for s in rule.reads]
    try:
        result = rule.function(*given, **{a: row.attr(a, attrs) for a in rule.attrs})
    except (GraphadError, TypeError, NotImplementedError):
        return None
    if not isinstance(result, _Traced) or not trace.simple:
        return None
    if isinstance(result.origin, str):
        return result.origin
    return trace.calls[: result.origin + 1]


class _Trace:
    """The calls so far; ``simple`` until an operator is met that is no single call."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.simple = True


class _Traced(Symbol):
    """A tensor in a trace: an input by name, or the result of a call, by its number."""

    __slots__ = ("origin", "trace", "type")

    def __init__(self, trace: _Trace, type: TensorType, origin: str | int) -> None:
        self.trace = trace
        self.type = type
        self.origin = origin

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def emit(self, op: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        given = [x for x in inputs if isinstance(x, _Traced)]
        if op.type == "assign":
            return given[0]
        simple = len(given) == len(inputs) and not op.random and not (op.partial and op.type != "fill_zeros_like") and len(op.outputs) == 1
        self.trace.simple &= simple and not any(s.variadic for s in (*op.inputs.values(), *op.outputs.values()))
        if not self.trace.simple:
            raise NotImplementedError
        ((found,),) = op.infer_types({s: [x.type] for s, x in zip(op.inputs, given, strict=False)}, attrs).values()
        self.trace.calls.append(Call(direct(op, [x.type for x in given], attrs), tuple(x.origin for x in given)))
        return _Traced(self.trace, found, len(self.trace.calls) - 1)


# -- operators with quick special cases ----------------------------------------------------------


def _scale(types: Types, attrs: Mapping[str, Any]) -> Function | None:
    kind = np.dtype(types[0].dtype).type
    scale, bias = kind(attrs["scale"]), kind(attrs["bias"])
    if not attrs["bias_after_scale"] and bias:
        return None
    if scale == 1:
        return (lambda x: x + bias) if bias else None
    if not bias:
        return lambda x: x * scale
    return (lambda x: bias - x) if scale == -1 else None


def _increment(types: Types, attrs: Mapping[str, Any]) -> Function:
    step = np.dtype(types[0].dtype).type(attrs["step"])
    return lambda x: x + step


def _matmul(types: Types, attrs: Mapping[str, Any]) -> Function | None:
    if any(len(t.shape) != 2 for t in types):
        return None
    turn_x, turn_y = attrs["trans_x"], attrs["trans_y"]
    if turn_x:
        return (lambda x, y: np.matmul(x.T, y.T)) if turn_y else (lambda x, y: np.matmul(x.T, y))
    return (lambda x, y: np.matmul(x, y.T)) if turn_y else np.matmul


def _sum_like(types: Types, attrs: Mapping[str, Any]) -> Function | None:
    x, like = types[0].shape, types[1].shape
    if -1 in x or -1 in like or types[0].dtype not in FLOATS:  # numpy adds narrow integers up in a wider type
        return None
    wide = aligned(x, like, attrs["axis"])
    padded = (1,) * (len(x) - len(wide)) + wide
    axes = tuple(i for i, (a, b) in enumerate(zip(x, padded, strict=True)) if a != b)
    rest = tuple(e for i, e in enumerate(x) if i not in axes)
    return (lambda x, like: summed(x, axes)) if axes and rest == like else None


_SPECIAL: dict[str, Callable[[Types, Mapping[str, Any]], Function | None]] = {
    "scale": _scale,
    "increment": _increment,
    "matmul_v2": _matmul,
    "sum_like": _sum_like,
}
