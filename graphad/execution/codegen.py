"""A block that runs many times as one Python function over numpy; operators that compute into the memory of an input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import CodeType, TracebackType
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphad.errors import GraphadError
from graphad.execution.steps import Frames, Layout, Place, Reader, Step, depth, home, settled
from graphad.ops import GRAD, REGISTRY, ControlDef, GradOpDef, OpDef, Slot
from graphad.ops.formulas import Constant, Formula, Input, text_of
from graphad.ops.inference import aligned
from graphad.ops.out_kernels import INPLACE, Write, formula_of, takes_required, writer, writes_into
from graphad.ops.symbol import TypedSymbol
from graphad.program import EMPTY, Block, Operator, Variable
from graphad.types import TENSOR, Array, Function, Tensor, TensorType, element_count

# -- direct ----------------------------------------------------------------------------------------
# Operators as plain calls of numpy, prepared where attributes and types are known before they run.
#
# An elementwise operator makes the calls of its arithmetic (``graphad.ops.formulas``), another one a call of its kernel, specialized where
# it can be. A grad operator is traced: its rules run on symbols, which record the operators.

Types = Sequence[TensorType]


class Call(NamedTuple):
    """One call; an argument is the name of an input of the operator, the number of an earlier call, or a constant.

    ``out`` is the number of an earlier call in whose memory the result may be put.
    """

    function: Function
    args: tuple[str | int | Constant, ...]
    out: int | None = None


def calls_of(
    definition: OpDef, names: Mapping[str, Sequence[str]], types: Mapping[str, TensorType], attrs: Mapping[str, object]
) -> list[Call] | str | None:
    """The calls that an operator of one output makes, in sequence; a name if it is that input; None if it is not that simple."""
    if (
        definition.random
        or (definition.partial and not definition.elementwise)
        or len(definition.outputs) > 1
        or any(s.variadic for s in definition.outputs.values())
    ):
        return None
    if [*names] != [*definition.inputs][: len(names)] or any(
        len(given) != 1 or definition.inputs[s].variadic for s, given in names.items()
    ):
        return None
    calls: list[Call] = []
    result = add_calls(calls, definition, [(given[0], types[given[0]]) for given in names.values()], attrs)
    return result if isinstance(result, str) else calls


def add_calls(
    calls: list[Call], definition: OpDef, operands: Sequence[tuple[str | int, TensorType]], attrs: Mapping[str, object]
) -> str | int:
    """Add the calls of an operator; return the number of the one that returns its output, or the operand that it is."""
    args, types = [place for place, _ in operands], [type for _, type in operands]
    formula = formula_of(definition, [type.dtype for type in types], attrs)
    if formula is None:
        calls.append(Call(_kernel(definition, types, attrs), tuple(args)))
        return len(calls) - 1
    axis = definition.attr("axis", attrs) if "axis" in definition.attrs and len(args) == 2 else -1
    if axis != -1:
        calls.append(Call(partial(_aligned, axis), tuple(args)))
        args[1] = len(calls) - 1
    return _add_formula(calls, formula, args, [bool(type.shape) for type in types])


def _aligned(axis: int, x: Array, y: Array) -> Array:
    return y.reshape(aligned(x.shape, y.shape, axis))


def _add_formula(calls: list[Call], formula: Formula, operands: Sequence[str | int], has_axes: Sequence[bool]) -> str | int:
    """Add the calls of a formula over operands; numpy gives scalars for arrays without axes, into which nothing is put."""
    first = len(calls)

    def place(arg: Input | int | Constant) -> str | int | Constant:
        return operands[arg.number] if isinstance(arg, Input) else arg + first if isinstance(arg, int) else arg

    for call, read in zip(formula.calls, formula.reads, strict=True):
        out = None if call.out is None or not any(has_axes[i] for i in read) else call.out + first
        calls.append(Call(call.function, tuple(map(place, call.args)), out))
    return operands[formula.result.number] if isinstance(formula.result, Input) else formula.result + first


def _kernel(definition: OpDef, types: Types, attrs: Mapping[str, object]) -> Function:
    """The kernel of an operator, for these types and attributes."""
    own = {name: value for name, value in attrs.items() if name in definition.attrs}
    special = definition.specialize(*types, **own) if definition.specialize is not None else None
    return special or (partial(definition.kernel, **own) if own else definition.kernel)


# -- gradients -----------------------------------------------------------------------------------


def _simple(slot: Slot, names: Sequence[str] | None) -> bool:
    """Whether a slot holds one name, or may be left out and is."""
    return len(names) == 1 and not slot.variadic if names else slot.optional


def traced(
    definition: GradOpDef, slot: str, names: Mapping[str, Sequence[str]], types: Mapping[str, TensorType], attrs: Mapping[str, object]
) -> list[Call] | str | None:
    """A rule as calls, the last of which returns the cotangent; a name if it is that input; None if it cannot be traced."""
    if definition.forward is None or definition.forward.grads is None:
        return None
    rule = definition.forward.grads[slot.removesuffix(GRAD)]
    if (
        definition.fast is not None
        or definition.outputs[slot].variadic
        or not all(_simple(definition.inputs[s], names.get(s)) for s in rule.reads)
    ):
        return None
    trace = _Trace()
    given = [_Traced(trace, types[names[s][0]], names[s][0]) if names.get(s) else None for s in rule.reads]
    try:
        result = rule.function(*given, **{a: definition.attr(a, attrs) for a in rule.attrs})
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


class _Traced(TypedSymbol):
    """A tensor in a trace: an input by name, or the result of a call, by its number."""

    __slots__ = ("origin", "record")

    def __init__(self, trace: _Trace, type: TensorType, origin: str | int) -> None:
        super().__init__(type)
        self.record = trace
        self.origin = origin

    def emit(self, op: OpDef, inputs: Sequence[object], attrs: Mapping[str, object]) -> Tensor:
        given = [x for x in inputs if isinstance(x, _Traced)]
        simple = len(given) == len(inputs) and not op.random and not (op.partial and not op.elementwise) and len(op.outputs) == 1
        self.record.simple &= simple and not any(s.variadic for s in (*op.inputs.values(), *op.outputs.values()))
        if not self.record.simple:
            raise NotImplementedError
        ((type,),) = op.infer_types({s: [x.type] for s, x in zip(op.inputs, given, strict=False)}, attrs).values()
        return _Traced(self.record, type, add_calls(self.record.calls, op, [(x.origin, x.type) for x in given], attrs))


# -- compiled --------------------------------------------------------------------------------------
# A block that runs many times as one Python function: a line an operator, numpy called directly where that is all it does.
#
#     f[0]['y'] = add(f[0]['x'], f[1]['b'])
#
# Anything unusual - an error, a value that has to be fetched from the scope - is left to the steps of the interpreter, from the
# operator on at which it happened.

Body = Callable[[Frames], None]
_NAME = "<block>"
_SMALL = 1024  # elements
_OF_ARRAYS = {"assign", "assign_grad", "read_from_array", "read_from_array_grad", "write_to_array", "write_to_array_grad"}


def compiled(block: Block, layout: Layout, steps: Sequence[tuple[Step, Sequence[str]]]) -> Body:
    """A function of the frames that does what the steps do, one after the other."""
    source = _Source(block, layout, steps)
    code = compile("\n".join(source.lines), _NAME, "exec")
    exec(code, source.globals)
    quick = source.globals["body"]

    def run(frames: Frames) -> None:
        try:
            quick(frames)
        except Exception as error:
            at = _line(error.__traceback__, quick.__code__) - 3
            if at not in source.inlined:
                raise
        else:
            return
        for step, names in steps[at:]:
            step(frames)
            for name in names:
                frames[0].pop(name, None)

    return run


def _constant(definition: OpDef, op: Operator) -> Array:
    """The result of an operator without inputs, computed once: arrays are never changed."""
    array: Array = definition.kernel(**{name: value for name, value in op.attrs.items() if name in definition.attrs})
    array.flags.writeable = False
    return array


def _line(traceback: TracebackType | None, code: CodeType) -> int:
    """The line of the function in which an error came up."""
    while traceback is not None:
        if traceback.tb_frame.f_code is code:
            return traceback.tb_lineno
        traceback = traceback.tb_next
    return -1


class _Source:
    """The lines of the function, and the objects they use; ``inlined`` says which operators are not calls of steps."""

    def __init__(self, block: Block, layout: Layout, steps: Sequence[tuple[Step, Sequence[str]]]) -> None:
        self.block = block
        self.layout = layout
        self.inlined: set[int] = set()
        self.globals: dict[str, Any] = {"settled": settled}
        self.lines = ["def body(f):", "    " + "; ".join(f"f{i} = f[{i}]" for i in range(len(layout)))]
        for op, (step, names) in zip(block.ops, steps, strict=True):
            text = self._inlined(op)
            free = [f"f0.pop({name!r}, None)" for name in names]
            if text is None:
                text = f"{self._object(step)}(f)"
            else:
                self.inlined.add(len(self.lines) - 2)
                free = ["del " + ", ".join(f"f0[{name!r}]" for name in names)] if names else []
            self.lines.append("    " + "; ".join([text, *free]))

    def _object(self, value: object) -> str:
        name = f"k{len(self.globals)}"
        self.globals[name] = value
        return name

    def _inlined(self, op: Operator) -> str | None:
        definition = REGISTRY.get(op.type)
        types = self._types(op)
        if definition is None or isinstance(definition, ControlDef) or types is None or not op.outputs:
            return None
        if op.attrs.get("run_once") or (op.attrs.get(INPLACE) and not self._is_small(op.output_names()[0])):
            return None
        if op.type == "write_to_array" and "Array" not in op.inputs and not op.attrs.get("fresh"):
            (x,), (index,), (out,) = op.input("X"), op.input("I"), op.output("Out")
            old = f"f{depth(self.layout, out)}.get({out!r})"
            return f"{self._write(out)} = {self._object(definition.kernel)}({self._read(x)}, {self._read(index)}, {old})"
        names = {slot: [n for n in given if n != EMPTY] for slot, given in op.inputs.items()}
        var = self._variable(op.output_names()[0])
        if op.type == "fill_constant" and not op.inputs and var is not None and not var.persistable:
            return f"{self._write(var.name)} = {self._object(_constant(definition, op))}"
        if isinstance(definition, GradOpDef):
            return self._gradient(op, definition, names, types)
        calls = calls_of(definition, names, types, op.attrs)
        return None if calls is None or op.output_names()[0] == EMPTY else self._computed(calls, op.output_names()[0])

    def _gradient(
        self, op: Operator, definition: GradOpDef, names: Mapping[str, Sequence[str]], types: Mapping[str, TensorType]
    ) -> str | None:
        written = [(slot, given[0]) for slot, given in op.outputs.items() if given != [EMPTY]]
        if any(len(given) != 1 for given in op.outputs.values()) or not set(op.input_names()).isdisjoint(n for _, n in written):
            return None
        parts = []
        for slot, name in written:
            found = traced(definition, slot, names, types, op.attrs)
            if found is None:
                return None
            parts.append(self._computed(found, name))
        return "; ".join(parts)

    def _computed(self, calls: Sequence[Call] | str, name: str) -> str:
        """The calls in sequence, or the name that the result has already; a value passed between them is freed after its last use."""
        if isinstance(calls, str):
            return f"{self._write(name)} = {self._read(calls)}"
        names: list[str] = []  # of the results; several may use one array
        texts = []
        for i, call in enumerate(calls):
            out = None if call.out is None else names[call.out]
            names.append(out or f"t{i}")
            texts.append(text_of(self._object(call.function), [self._argument(a, names) for a in call.args], out))
        last = texts.pop() if self._has_axes(name) else f"settled({texts.pop()})"
        parts = [text if call.out is not None else f"{t} = {text}" for t, text, call in zip(names, texts, calls, strict=False)]
        temporary = dict.fromkeys(names[:-1])
        let_go = [f"{' = '.join(temporary)} = None"] if temporary else []
        return "; ".join([*parts, f"{self._write(name)} = {last}", *let_go])

    def _argument(self, arg: str | int | Constant, names: Sequence[str]) -> str:
        if isinstance(arg, str):
            return self._read(arg)
        return names[arg] if isinstance(arg, int) else self._object(arg.value)

    def _has_axes(self, name: str) -> bool:
        """Whether the value written to a name is definitely an array: numpy gives scalars for arrays without axes."""
        var = self._variable(name)
        return var is not None and var.type == TENSOR and bool(var.declared[0])

    def _is_small(self, name: str) -> bool:
        """Whether an array is so small that a new one costs next to nothing."""
        var = self._variable(name)
        return var is not None and 0 <= element_count(var.declared[0] or ()) <= _SMALL

    def _variable(self, name: str) -> Variable | None:
        return self.block.var_recursive(name) if self.block.has_var_recursive(name) else None

    def _read(self, name: str) -> str:
        return f"f{depth(self.layout, name)}[{name!r}]"

    def _write(self, name: str) -> str:
        return f"f{home(self.layout, name)}[{name!r}]"

    def _types(self, op: Operator) -> dict[str, TensorType] | None:
        """The types of an operator's inputs, None if one is unknown or no tensor."""
        found = {}
        for name in op.input_names():
            var = self._variable(name)
            if var is None or var.tensor_type is None or (var.type != TENSOR and op.type not in _OF_ARRAYS):
                return None
            found[name] = var.tensor_type
        return found


# -- in place --------------------------------------------------------------------------------------
# Operators that compute into the memory of an input, where a pass has marked them: ``{inplace=["Out:X"]}``.
#
# The mark promises that nothing else uses that memory. Whether the input is read later is looked up here, since that changes with
# every operator that is added; and arrays that were fed, or are the scope's, are never written to.


class Owner(Reader, Protocol):
    """The run that a step belongs to."""

    def is_given(self, array: Array) -> bool:
        """Whether an array was fed or is the scope's."""


def in_place(run: Owner, op: Operator, definition: OpDef, layout: Layout, freed: Collection[str], plain: Step) -> Step:
    """The step of an operator that may be marked; ``plain`` is the one that makes a new array, ``freed`` names that are dead after it."""
    marks = op.attrs.get(INPLACE)
    if not marks or run.check_finite:
        return plain
    slot, _, source = marks[0].partition(":")
    outs, names = op.outputs.get(slot, []), op.inputs.get(source, [])
    if not takes_required(definition, op.inputs) or len(outs) != 1 or not names or EMPTY in (*outs, *op.input_names()):
        return plain
    if depth(layout, names[0]) or (names[0] not in freed and names[0] != outs[0]):
        return plain
    reads = [(depth(layout, name), name) for name in op.input_names()]
    return _reusing(run, partial(_writer, definition, op.attrs), reads, reads.index((0, names[0])), (home(layout, outs[0]), outs[0]), plain)


def _writer(definition: OpDef, attrs: Mapping[str, object], dtype: np.dtype[np.generic], count: int, reused: int) -> Write | None:
    """The function for arrays of one dtype, None if the operator makes another one of them."""
    dtypes = [dtype] * count
    return writer(definition, attrs, dtypes, dtype, [reused]) if writes_into(definition, dtypes, attrs) else None


def _reusing(
    run: Owner, make: Callable[..., Write | None], reads: list[Place], reused: int, place: Place, plain: Callable[[Frames], None]
) -> Step:
    at, name = place
    writers: dict[np.dtype[np.generic], Write | None] = {}

    def step(frames: Frames) -> None:
        try:
            arrays = [frames[d][n] for d, n in reads]
        except KeyError:
            return plain(frames)
        out = arrays[reused]
        if not _fit(arrays, out) or run.is_given(out):
            return plain(frames)
        if out.dtype not in writers:
            writers[out.dtype] = make(out.dtype, len(arrays), reused)
        write = writers[out.dtype]
        if write is None:
            return plain(frames)
        try:
            write(arrays, out)
        except (TypeError, ValueError):
            return plain(frames)
        frames[at][name] = out

    return step


def _fit(arrays: list[Array], out: object) -> bool:
    """Whether all are arrays of one dtype; more than two, which are computed one after the other, have to be of one shape, too.

    They are laid out in the order of their elements, as a new array would be: what adds them up later adds in that order.
    """
    if type(out) is not np.ndarray or not out.ndim:
        return False
    if any(type(each) is not np.ndarray or each.dtype != out.dtype or not each.flags.c_contiguous for each in arrays):
        return False
    return len(arrays) < 3 or all(each.shape == out.shape for each in arrays)
