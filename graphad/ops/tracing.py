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
        given = [[*each] if isinstance(each, list | tuple) else each for each in inputs]
        beside_symbol = not given and isinstance(self.value, Symbol)
        values = self.value.emit(op, (), attrs) if beside_symbol else op(*map(_values, given), **attrs)
        several = isinstance(values, tuple)
        slots = [slot.name for slot in op.outputs.values() if not slot.optional] if several else list(op.outputs)[:1]
        made = [self._made(value) for value in (values if several else (values,))]
        self.calls.append(_Call(op, given, dict(attrs), dict(zip(slots, made, strict=True))))
        return tuple(made) if several else made[0]

    def _made(self, value: object) -> Tensor:
        return [Traced(each, self.calls) for each in value] if isinstance(value, list | tuple) else Traced(value, self.calls)


@dataclass
class _Call:
    op: OpDef
    inputs: list[Tensor]
    attrs: dict[str, object]
    outputs: dict[str, Tensor]


def _values(given: object) -> Tensor:
    if isinstance(given, list):
        return [_values(each) for each in given]
    return given.value if isinstance(given, Traced) else given


def cotangents(function: Callable[[list[object]], Sequence[object]], given: Sequence[object], starts: Sequence[object]) -> list[object]:
    """The cotangents of the arguments of a function, from those of its results; None for arguments that no result depends on.

    Args:
        function: of a list of tensors, to as many as there are starts; written over operators.
        given: its arguments, arrays or symbols.
        starts: the cotangents of its results; None stands for zeros.

    Raises:
        NoGradient: an operator on the way has no gradient rule.

    >>> import numpy as np
    >>> cotangents(lambda t: [t[0] * t[1]], [np.array([3.0]), np.array([5.0])], [np.array([1.0])])
    [array([5.]), array([3.])]
    """
    calls: list[_Call] = []
    traced = [Traced(value, calls) for value in given]
    # By identity: symbols compare element by element, so they are no keys by value. ``traced`` and ``calls`` keep the objects alive.
    found: dict[int, object] = {}
    for result, start in zip(function(list(traced)), starts, strict=True):
        if isinstance(result, Traced) and start is not None:
            _add(found, result, start)
    # Reverse mode: when a call's turn comes, all that read its results have added their share to the cotangents.
    for call in reversed(calls):
        _backwards(call, found)
    return [found.get(id(each)) for each in traced]


def _add(found: dict[int, object], to: Traced, cotangent: object) -> None:
    found[id(to)] = elementwise_add(found[id(to)], cotangent) if id(to) in found else cotangent


def _backwards(call: _Call, found: dict[int, object]) -> None:
    outputs = {slot: each if isinstance(each, list) else [each] for slot, each in call.outputs.items()}
    if not any(id(each) in found for made in outputs.values() for each in made) or call.op.grads == {}:
        return
    grad = call.op.grad
    if grad is None:
        raise NoGradient(f"operator {call.op.type!r} has no gradient rule")
    inputs = {s.name: each if isinstance(each, list) else [each] for s, each in zip(call.op.inputs.values(), call.inputs, strict=False)}
    known = {slot: list(map(_values, each)) for slot, each in {**inputs, **outputs}.items() if any(v is not None for v in each)}
    for slot, made in outputs.items():
        if any(id(each) in found for each in made):
            known[slot + GRAD] = [found[id(each)] if id(each) in found else fill_zeros_like(each.value) for each in made]
    traced = {f"{slot}{GRAD}": each for slot, each in inputs.items() if any(isinstance(v, Traced) for v in each)}
    wanted = [slot for slot in traced if slot in grad.outputs]
    for slot, results in grad.meaning(known, call.attrs, wanted).items():
        for to, cotangent in zip(traced[slot], results, strict=True):
            if isinstance(to, Traced) and cotangent is not None:
                _add(found, to, cotangent)
