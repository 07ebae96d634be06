"""Elementwise operators that compute into an array that is there: the same numbers, to the bit, as their kernels.

What they do there is read off their arithmetic (``graphad.ops.formulas``): an operator that can be traced can be written so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphad.ops.definition import OpDef
from graphad.ops.formulas import Call, Constant, Formula, Input, converted, filled, formula, text_of
from graphad.ops.inference import aligned
from graphad.types import Array, Function

INPLACE = "inplace"  # the attribute: ["Out:X"], the output in slot Out may be computed into the memory of the input in slot X
Write = Callable[[Sequence[Array], Array], None]
_AXIS = "axis"


def takes_required(definition: OpDef, slots: Collection[str]) -> bool:
    """Whether the input slots of an operator are those that have to be filled, in order: what the functions here are written for."""
    return [*slots] == [name for name, slot in definition.inputs.items() if not slot.optional]


def formula_of(definition: OpDef, dtypes: Sequence[Any], attrs: Mapping[str, object]) -> Formula | None:
    """The arithmetic of an elementwise operator on its required inputs, aligned with each other; None if it is not known.

    Args:
        dtypes: those of the inputs, in the order of the slots.
        attrs: the operator's; what its definition does not have, and ``axis``, are not read.
    """
    required_slots = [slot for slot in definition.inputs.values() if not slot.optional]
    # A variadic slot takes any number of inputs.
    variadic = len(required_slots) == 1 and required_slots[0].variadic
    if not definition.elementwise or not dtypes or (len(required_slots) != len(dtypes) and not variadic):
        return None
    # The axis says how operands are aligned, not what is computed of each element.
    own_attrs = {name: definition.attr(name, attrs) for name in definition.attrs if name in attrs and name != _AXIS}
    return formula(definition.function, [np.dtype(item) for item in dtypes], own_attrs, variadic)


def writes_into(definition: OpDef, dtypes: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
    """Whether an operator can compute into an array of the dtype of its first input, other than by a copy."""
    return _can_write(formula_of(definition, dtypes, attrs), np.dtype(dtypes[0])) if dtypes else False


def makes_array(definition: OpDef, dtypes: Sequence[object], attrs: Mapping[str, object]) -> bool:
    """Whether the result of an elementwise operator is an array of its own, and not its input."""
    expression = formula_of(definition, dtypes, attrs)
    return expression is not None and not isinstance(expression.result, Input)


class Filling(NamedTuple):
    """The constant that an array is filled with."""

    value: float
    dtype: str


def filling(definition: OpDef, dtypes: Sequence[object], attrs: Mapping[str, object]) -> Filling | None:
    """The constant that an elementwise operator fills its output with, whatever the elements of its input are; None if it does not."""
    expression = formula_of(definition, dtypes, attrs)
    # One call that fills: nothing of the input is read but its shape.
    if expression is None or len(expression.calls) != 1 or expression.calls[0].function not in (filled, np.zeros_like):
        return None
    number = expression.calls[0].args[1] if expression.calls[0].function is filled else None
    # zeros_like has no number.
    return Filling(number.value if isinstance(number, Constant) else 0.0, expression.dtypes[0].name)


def writer(definition: OpDef, attrs: Mapping[str, object], dtypes: Sequence[Any], out: Any, aliased: Sequence[int] = ()) -> Write | None:
    """The function that computes an operator into an array; None if the arithmetic of the operator is not known.

    Args:
        definition: of an elementwise operator.
        attrs: its attributes.
        dtypes: those of the arrays it is called with.
        out: the dtype of the array for the result.
        aliased: which of the arrays may be the array for the result.

    The arrays have axes, and one shape or one element; two arrays may be broadcast.
    """
    expression = formula_of(definition, dtypes, attrs)
    if expression is None:
        return None
    function = _written(expression, np.dtype(out), len(dtypes), aliased)
    # Only two inputs are aligned by an axis.
    axis = definition.attr(_AXIS, attrs) if _AXIS in definition.attrs and len(dtypes) == 2 else -1
    return _aligning(function, axis) if axis != -1 else lambda arrays, out: function(*arrays, out)


def _aligning(function: Callable[..., None], axis: int) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        x, y = arrays
        function(x, y.reshape(aligned(x.shape, y.shape, axis)), out)

    return write


# -- writing it down -----------------------------------------------------------------------------

_INTO: Mapping[Function, str] = {converted: "copyto(o, {0}, casting='unsafe')", filled: "copyto(o, {1}, casting='unsafe')"}


def _can_write(expression: Formula | None, dtype: np.dtype[np.generic]) -> bool:
    """Whether a formula's result of a dtype can be put into an array that is there, rather than copied to it."""
    # A result that is an input, or of another dtype, would have to be copied.
    if expression is None or isinstance(expression.result, Input) or expression.dtypes[expression.result] != dtype:
        return False
    function = expression.calls[expression.result].function
    return isinstance(function, np.ufunc) or function in _INTO


class _Lines:
    """The lines of a function that computes a formula into an array ``o``."""

    def __init__(self, expression: Formula, aliased: frozenset[int], dtype: np.dtype[np.generic], count: int) -> None:
        self.found = expression
        self.globals: dict[str, Any] = {"copyto": np.copyto}
        self.names: list[str] = []
        self.every = frozenset(range(count))
        self.dtype = dtype
        self.aliased = aliased

    def name(self, arg: Input | int | Constant) -> str:
        if isinstance(arg, Input):
            return f"x{arg.number}"
        return self.names[arg] if isinstance(arg, int) else self.object(arg.value)

    def object(self, value: object) -> str:
        name = f"k{len(self.globals)}"
        self.globals[name] = value
        return name

    def all(self) -> list[str]:
        expression, last = self.found, len(self.found.calls) - 1
        if isinstance(expression.result, Input):
            return [f"copyto(o, {self.name(expression.result)})"]
        # Three kinds of memory, in this order: the output array where nothing later reads what is in it, the memory of an earlier result
        # that is dead, a new array.
        lines: list[str] = []
        for i, call in enumerate(expression.calls):
            args = [self.name(arg) for arg in call.args]
            if i == last and not (isinstance(call.function, np.ufunc) and expression.dtypes[i] == self.dtype):
                return [*lines, self.into(call, args)]
            if isinstance(call.function, np.ufunc) and (i == last or self.is_free(i)):
                self.names.append("o")
                lines.append(text_of(self.object(call.function), args, "o"))
                continue
            is_reusable = call.out is not None and expression.reads[i] == self.every
            out = self.names[call.out] if is_reusable and call.out is not None else None
            self.names.append(out or f"t{i}")
            lines.append(("" if out else f"t{i} = ") + text_of(self.object(call.function), args, out))
        return lines

    def into(self, call: Call, args: Sequence[str]) -> str:
        """The last call, of a function that has no ``out``."""
        form = _INTO.get(call.function)
        return form.format(*args) if form else f"copyto(o, {text_of(self.object(call.function), args, None)})"

    def is_free(self, at: int) -> bool:
        """Whether a result can be in the output array: nothing later reads what is in that, and it is as large."""
        expression = self.found
        if expression.dtypes[at] != self.dtype or expression.reads[at] != self.every:
            return False
        # An input that lies in the same memory must not be read after this call; nor a result that is there already.
        later = expression.calls[at + 1 :]
        if any(isinstance(arg, Input) and arg.number in self.aliased for call in later for arg in call.args):
            return False
        out_places = [i for i, name in enumerate(self.names) if name == "o"]
        return not any(arg in out_places for call in later for arg in call.args if isinstance(arg, int))


def _written(expression: Formula, dtype: np.dtype[np.generic], count: int, aliased: Sequence[int] = ()) -> Callable[..., None]:
    """A function ``(x0, x1, ..., o)`` of arrays that computes a formula into the last of them.

    The arrays are of one shape with axes, or of one element. ``aliased`` are the inputs that may be the output.
    """
    lines = _Lines(expression, frozenset(aliased), dtype, count)
    body = lines.all()
    names = ", ".join([*(f"x{i}" for i in range(count)), "o"])
    exec(compile("\n    ".join([f"def write({names}):", *body]), "<formula>", "exec"), lines.globals)
    result: Callable[..., None] = lines.globals["write"]
    return result
