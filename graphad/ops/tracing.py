"""Cotangents of functions of tensors that are written over operators, such as gradient rules.

The function is run on traced tensors, each of which holds an array or a symbol; the operators that it calls are noted, and gone
through backwards by their rules (reverse accumulation, A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., 2008, ch. 3).
Over arrays that computes, over symbols it records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from graphad.errors import NoGradient
from graphad.ops.definition import GRAD, OpDef
from graphad.ops.elementwise import elementwise_add
from graphad.ops.like import fill_zeros_like
from graphad.ops.symbol import Symbol
from graphad.types import Shape, Tensor


class Traced(Symbol):
    """A tensor whose operators are noted."""

    __slots__ = ("calls", "value")

    def __init__(self, value: Tensor, calls: list[_Call]) -> None:
        self.value, self.calls = value, calls

    @property
    def shape(self) -> Shape:
        return tuple(self.value.shape)

    @property
    def dtype(self) -> str:
        return str(self.value.dtype)

    def emit(self, op: OpDef, inputs: Sequence[object], attrs: Mapping[str, object]) -> Tensor:
        operands = [[*item] if isinstance(item, list | tuple) else item for item in inputs]
        # An operator without operands, such as a constant: it belongs to what it is traced beside.
        beside_symbol = not operands and isinstance(self.value, Symbol)
        values = self.value.emit(op, (), attrs) if beside_symbol else op(*map(_values, operands), **attrs)
        is_tuple = isinstance(values, tuple)
        slots = [slot.name for slot in op.outputs.values() if not slot.optional] if is_tuple else list(op.outputs)[:1]
        results = [self._made(value) for value in (values if is_tuple else (values,))]
        self.calls.append(_Call(op, operands, dict(attrs), dict(zip(slots, results, strict=True))))
        return tuple(results) if is_tuple else results[0]

    def _made(self, value: object) -> Tensor:
        return [Traced(item, self.calls) for item in value] if isinstance(value, list | tuple) else Traced(value, self.calls)


@dataclass
class _Call:
    op: OpDef
    inputs: list[Tensor]
    attrs: dict[str, object]
    outputs: dict[str, Tensor]


def _values(argument: object) -> Tensor:
    if isinstance(argument, list):
        return [_values(item) for item in argument]
    return argument.value if isinstance(argument, Traced) else argument


def cotangents(function: Callable[[list[object]], Sequence[object]], arguments: Sequence[object], starts: Sequence[object]) -> list[object]:
    """The cotangents of the arguments of a function, from those of its results; None for arguments that no result depends on.

    Args:
        function: of a list of tensors, to as many as there are starts; written over operators.
        arguments: its arguments, arrays or symbols.
        starts: the cotangents of its results; None stands for zeros.

    Raises:
        NoGradient: an operator on the way has no gradient rule.

    >>> import numpy as np
    >>> cotangents(lambda t: [t[0] * t[1]], [np.array([3.0]), np.array([5.0])], [np.array([1.0])])
    [array([5.]), array([3.])]
    """
    calls: list[_Call] = []
    tracers = [Traced(value, calls) for value in arguments]
    # By identity: symbols compare element by element, so they are no keys by value. ``tracers`` and ``calls`` keep the objects alive.
    cotangents_: dict[int, object] = {}
    for result, start in zip(function(list(tracers)), starts, strict=True):
        if isinstance(result, Traced) and start is not None:
            _add(cotangents_, result, start)
    # Reverse mode: when a call's turn comes, all that read its results have added their share to the cotangents.
    for call in reversed(calls):
        _backwards(call, cotangents_)
    return [cotangents_.get(id(item)) for item in tracers]


def _add(cotangents_: dict[int, object], to: Traced, cotangent: object) -> None:
    cotangents_[id(to)] = elementwise_add(cotangents_[id(to)], cotangent) if id(to) in cotangents_ else cotangent


def _backwards(call: _Call, cotangents_: dict[int, object]) -> None:
    outputs = {slot: item if isinstance(item, list) else [item] for slot, item in call.outputs.items()}
    # A call whose results have no cotangent is not on the way to the results of the function.
    if not any(id(item) in cotangents_ for output_arrays in outputs.values() for item in output_arrays) or call.op.grads == {}:
        return
    grad = call.op.grad
    if grad is None:
        raise NoGradient(f"operator {call.op.type!r} has no gradient rule")
    inputs = {s.name: item if isinstance(item, list) else [item] for s, item in zip(call.op.inputs.values(), call.inputs, strict=False)}
    tensors = {slot: list(map(_values, item)) for slot, item in {**inputs, **outputs}.items() if any(v is not None for v in item)}
    for slot, values in outputs.items():
        if any(id(item) in cotangents_ for item in values):
            tensors[slot + GRAD] = [cotangents_[id(item)] if id(item) in cotangents_ else fill_zeros_like(item.value) for item in values]
    traced_inputs = {f"{slot}{GRAD}": item for slot, item in inputs.items() if any(isinstance(v, Traced) for v in item)}
    slots = [slot for slot in traced_inputs if slot in grad.outputs]
    for slot, results in grad.meaning(tensors, call.attrs, slots).items():
        for to, cotangent in zip(traced_inputs[slot], results, strict=True):
            if isinstance(to, Traced) and cotangent is not None:
                _add(cotangents_, to, cotangent)
