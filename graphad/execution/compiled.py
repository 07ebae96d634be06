"""A block that runs many times as one Python function: a line an operator, numpy called directly where that is all it does.

    f[0]['y'] = add(f[0]['x'], f[1]['b'])

Anything unusual - an error, a value that has to be fetched from the scope - is left to the steps of the interpreter, from the
operator on at which it happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType, TracebackType
from typing import Any

from graphad.execution.direct import Call, calls_of, traced
from graphad.execution.layout import Layout, depth, home
from graphad.execution.steps import Frames, Step, settled
from graphad.ops import REGISTRY, ControlDef, GradOpDef, OpDef
from graphad.ops.formulas import Constant, text_of
from graphad.ops.in_place import INPLACE
from graphad.program import EMPTY, Block, Operator, Variable
from graphad.types import TENSOR, TensorType, element_count

Body = Any
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


def _constant(row: OpDef, op: Operator) -> Any:
    """The result of an operator without inputs, computed once: arrays are never changed."""
    array = row.kernel(**{name: value for name, value in op.attrs.items() if name in row.attrs})
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
    """The lines of the function, and the objects they use; ``inlined`` says which operators are no calls of steps."""

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

    def _object(self, value: Any) -> str:
        name = f"k{len(self.globals)}"
        self.globals[name] = value
        return name

    def _inlined(self, op: Operator) -> str | None:
        row = REGISTRY.get(op.type)
        types = self._types(op)
        if row is None or isinstance(row, ControlDef) or types is None or not op.outputs:
            return None
        if op.attrs.get("run_once") or (op.attrs.get(INPLACE) and not self._is_small(op.output_names()[0])):
            return None
        if op.type == "write_to_array" and "Array" not in op.inputs and not op.attrs.get("fresh"):
            (x,), (index,), (out,) = op.input("X"), op.input("I"), op.output("Out")
            old = f"f{depth(self.layout, out)}.get({out!r})"
            return f"{self._write(out)} = {self._object(row.kernel)}({self._read(x)}, {self._read(index)}, {old})"
        names = {slot: [n for n in given if n != EMPTY] for slot, given in op.inputs.items()}
        made = self._variable(op.output_names()[0])
        if op.type == "fill_constant" and not op.inputs and made is not None and not made.persistable:
            return f"{self._write(made.name)} = {self._object(_constant(row, op))}"
        if isinstance(row, GradOpDef):
            return self._gradient(op, row, names, types)
        calls = calls_of(row, names, types, op.attrs)
        return None if calls is None or op.output_names()[0] == EMPTY else self._computed(calls, op.output_names()[0])

    def _gradient(self, op: Operator, row: GradOpDef, names: Mapping[str, Sequence[str]], types: Mapping[str, TensorType]) -> str | None:
        written = [(slot, given[0]) for slot, given in op.outputs.items() if given != [EMPTY]]
        if any(len(given) != 1 for given in op.outputs.values()) or not set(op.input_names()).isdisjoint(n for _, n in written):
            return None
        parts = []
        for slot, name in written:
            found = traced(row, slot, names, types, op.attrs)
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
