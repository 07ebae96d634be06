"""Operators as plain calls of numpy, prepared where attributes and types are known before they run.

An elementwise operator makes the calls of its arithmetic (``graphad.ops.formulas``), another one a call of its kernel, specialized where
it can be. A grad operator is traced: its rules run on symbols, which record the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from graphad.errors import GraphadError
from graphad.ops import GRAD, GradOpDef, OpDef, Slot, Symbol
from graphad.ops.formulas import Constant, Formula, Input
from graphad.ops.in_place import formula_of
from graphad.ops.inference import aligned
from graphad.types import Shape, TensorType

Function = Callable[..., Any]
Types = Sequence[TensorType]


class Call(NamedTuple):
    """One call; an argument is the name of an input of the operator, the number of an earlier call, or a constant.

    ``out`` is the number of an earlier call in whose memory the result may be put.
    """

    function: Function
    args: tuple[str | int | Constant, ...]
    out: int | None = None


def calls_of(
    row: OpDef, names: Mapping[str, Sequence[str]], types: Mapping[str, TensorType], attrs: Mapping[str, Any]
) -> list[Call] | str | None:
    """The calls that an operator of one output makes, in sequence; a name if it is that input; None if it is not that simple."""
    if row.random or (row.partial and not row.elementwise) or len(row.outputs) > 1 or any(s.variadic for s in row.outputs.values()):
        return None
    if [*names] != [*row.inputs][: len(names)] or any(len(given) != 1 or row.inputs[s].variadic for s, given in names.items()):
        return None
    calls: list[Call] = []
    result = add_calls(calls, row, [(given[0], types[given[0]]) for given in names.values()], attrs)
    return result if isinstance(result, str) else calls


def add_calls(calls: list[Call], row: OpDef, operands: Sequence[tuple[str | int, TensorType]], attrs: Mapping[str, Any]) -> str | int:
    """Add the calls of an operator; return the number of the one that returns its output, or the operand that it is."""
    args, types = [place for place, _ in operands], [type for _, type in operands]
    found = formula_of(row, [type.dtype for type in types], attrs)
    if found is None:
        calls.append(Call(_kernel(row, types, attrs), tuple(args)))
        return len(calls) - 1
    axis = row.attr("axis", attrs) if "axis" in row.attrs and len(args) == 2 else -1
    if axis != -1:
        calls.append(Call(partial(_aligned, axis), tuple(args)))
        args[1] = len(calls) - 1
    return _add_formula(calls, found, args, [bool(type.shape) for type in types])


def _aligned(axis: int, x: Any, y: Any) -> Any:
    return y.reshape(aligned(x.shape, y.shape, axis))


def _add_formula(calls: list[Call], found: Formula, operands: Sequence[str | int], has_axes: Sequence[bool]) -> str | int:
    """Add the calls of a formula over operands; numpy gives scalars for arrays without axes, into which nothing is put."""
    first = len(calls)

    def place(arg: Input | int | Constant) -> str | int | Constant:
        return operands[arg.number] if isinstance(arg, Input) else arg + first if isinstance(arg, int) else arg

    for call, read in zip(found.calls, found.reads, strict=True):
        out = None if call.out is None or not any(has_axes[i] for i in read) else call.out + first
        calls.append(Call(call.function, tuple(map(place, call.args)), out))
    return operands[found.result.number] if isinstance(found.result, Input) else found.result + first


def _kernel(row: OpDef, types: Types, attrs: Mapping[str, Any]) -> Function:
    """The kernel of an operator, for these types and attributes."""
    own = {name: value for name, value in attrs.items() if name in row.attrs}
    special = row.specialize(*types, **own) if row.specialize is not None else None
    return special or (partial(row.kernel, **own) if own else row.kernel)


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
        simple = len(given) == len(inputs) and not op.random and not (op.partial and not op.elementwise) and len(op.outputs) == 1
        self.trace.simple &= simple and not any(s.variadic for s in (*op.inputs.values(), *op.outputs.values()))
        if not self.trace.simple:
            raise NotImplementedError
        ((found,),) = op.infer_types({s: [x.type] for s, x in zip(op.inputs, given, strict=False)}, attrs).values()
        return _Traced(self.trace, found, add_calls(self.trace.calls, op, [(x.origin, x.type) for x in given], attrs))
