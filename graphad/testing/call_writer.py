"""The writer of programs of calls: it knows the value of every name while it writes.

The kernel of an operator ran when its call was drawn, so operators and variables are written as they are, without being checked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphad.execution.names import blocks_of
from graphad.ops import lookup
from graphad.ops.aggregates import Tape, TensorArray
from graphad.ops.sample import Value
from graphad.program import Block, Operator, Program, Variable
from graphad.testing.calls import Call, Slots
from graphad.testing.cases import Choices
from graphad.testing.samples.valid import computed
from graphad.testing.values import name_of
from graphad.types import Array

Names = dict[str, list[str]]


class CallWriter:
    """A program being drawn: its blocks from the outermost to the current one, and the value that each name has so far."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.program = Program()
        self.blocks: list[Block] = [self.program.global_block()]
        self.values: dict[str, Value] = {}
        self.feeds: dict[str, Array] = {}
        self.params: dict[str, Array] = {}
        self.reserved: set[str] = set()  # what loops count with, which nothing else may read or write
        self.around: list[dict[str, Value]] = []  # for each open block, the values of the names around it
        self.underivable: set[str] = set()  # names whose gradient some operator without a rule may stop with an error
        self.moving: set[str] = set()  # names whose values have a gradient with respect to data or parameters
        self.counters: list[str] = []  # those of the loops that are open
        self.conditions: list[list[str]] = []  # those of the branches that are open, each with what it is made of
        self.count = 0

    @property
    def block(self) -> Block:
        return self.blocks[-1]

    @property
    def root(self) -> Block:
        return self.blocks[0]

    def unique(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count - 1}"

    def tensors(self, floating: bool = False) -> list[str]:
        """The names of tensors, the last written first."""
        names = [name for name, value in self.values.items() if isinstance(value, np.ndarray) and name not in self.reserved]
        return [name for name in names if not floating or self.values[name].dtype.kind == "f"][::-1]

    def like(self, value: Value) -> list[str]:
        """The names of tensors of the shape and dtype of another, the last written first."""
        if not isinstance(value, np.ndarray):
            return []
        return [n for n in self.tensors() if self.values[n].shape == value.shape and self.values[n].dtype == value.dtype]

    # -- blocks ----------------------------------------------------------------------------------

    @contextmanager
    def inside(self, runs: bool = True) -> Iterator[Block]:
        """Write a block inside the current one; afterwards names have the values that it gave them, if it runs."""
        block = self.program.create_block()
        self.around.append(dict(self.values))
        self.blocks.append(block)
        yield block
        self.blocks.pop()
        self.program.rollback()
        outer = self.around.pop()
        self.values = {name: self.values[name] if runs and name not in block.vars else value for name, value in outer.items()}

    @contextmanager
    def deciding(self, condition: str) -> Iterator[None]:
        """Within it, the block that is written runs where a condition holds, or where it does not."""
        writer = next((op for op in reversed(self.block.ops) if condition in op.output_names()), None)
        self.conditions.append([condition, *(writer.input_names() if writer is not None else ())])
        yield
        self.conditions.pop()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Write into the block around the current one."""
        inner = self.blocks.pop()
        yield
        self.blocks.append(inner)

    def known(self, name: str, value: Value) -> str:
        """A name of block 0 has a value from here on, in all blocks that are open."""
        for values in (self.values, *self.around):
            values[name] = value
        return name

    def hide(self, name: str, stop_gradient: bool) -> None:
        """Declare a variable of the current block under the name of one around it, and of its type."""
        value = self.values[name]
        assert isinstance(value, np.ndarray)
        self.block.vars[name] = Variable.trusted(self.block, name, value.shape, name_of(value.dtype), stop_gradient)

    # -- inputs ----------------------------------------------------------------------------------

    def data(self, array: Array, stop_gradient: bool = False) -> str:
        """An array that is fed."""
        name = self.unique("x")
        stops = stop_gradient or array.dtype.kind != "f"
        self.root.vars[name] = Variable.trusted(self.root, name, array.shape, name_of(array.dtype), stops)
        self.feeds[name] = array
        if not stops:
            self.moving.add(name)
        return self.known(name, array)

    def parameter(self, array: Array, trainable: bool) -> str:
        """A parameter; other persistable state if it has no axes or no elements, which parameters have."""
        if not trainable or not array.size or not array.ndim or array.dtype.kind != "f":
            return self.state(array)
        name = self.unique("w")
        self.root.create_parameter(name=name, shape=array.shape, dtype=name_of(array.dtype))
        self.params[name] = array
        self.moving.add(name)
        return self.known(name, array)

    def state(self, array: Array) -> str:
        """A persistable variable that is no parameter."""
        name = self.unique("s")
        var = Variable.trusted(self.root, name, array.shape, name_of(array.dtype), True)
        var.persistable = True
        self.root.vars[name] = var
        self.params[name] = array
        return self.known(name, array)

    def constant(self, array: Array, name: str | None = None) -> str:
        """A constant of the current block, by one number where all are equal."""
        dtype, shape = name_of(array.dtype), list(array.shape)
        first = array.flat[0] if array.size else np.zeros((), dtype)
        attrs: dict[str, object] = {"shape": shape, "dtype": dtype}
        # Zeros of both signs are equal and not the same number.
        if not array.size or ((array == first).all() and _same_signs(array)):
            op_type, attrs = "fill_constant", {**attrs, "value": float(first)}
        elif dtype == "bool":
            op_type, attrs = "assign_value", {**attrs, "bool_values": [int(n) for n in array.flat]}
        elif array.dtype.kind == "f":
            op_type, attrs = "assign_value", {**attrs, "values": [float(n) for n in array.flat]}
        else:
            op_type, attrs = "assign_value", {**attrs, "int64_values": [int(n) for n in array.flat]}
        name = name or self.unique("k")
        self.emit(op_type, {}, {"Out": [name]}, attrs, {"Out": [array]})
        return name

    def tensor_array(self, value: TensorArray) -> str:
        """The operators that make an array of tensors."""
        name = self.unique("a")
        if not len(value):
            self.block.append_op("create_array", {}, {"Out": name})
        for index, item in value.items():
            at = self.constant(np.array([index], "int64"))
            self.block.append_op("write_to_array", {"X": self.data(item), "I": at}, {"Out": name})
        self.values[name] = value
        return name

    def tape(self, value: Tape) -> str:
        """The operators that make a tape."""
        name = self.unique("p")
        self.block.append_op("create_tape", {}, {"Out": name})
        for entry in value.entries():
            old, name = name, self.unique("p")
            items = [self.data(item) for item in entry]
            self.block.append_op("push_tape", {"Scopes": old, "X": items}, {"Out": name}, {"count": len(items)})
        self.values[name] = value
        return name

    # -- operators -------------------------------------------------------------------------------

    def emit(self, op_type: str, inputs: Names, outputs: Names, attrs: Mapping[str, Any], values: Slots) -> None:
        """Append an operator that is known to be right; undeclared variables are declared here."""
        read_names = [name for names in inputs.values() for name in names]
        is_whole = any(not isinstance(v, np.ndarray) for vs in values.values() for v in vs) or any(
            not isinstance(self.values[name], np.ndarray) for name in read_names
        )
        if is_whole:
            self.block.append_op(op_type, inputs, outputs, attrs)
        else:
            self.block.ops.append(Operator(self.block, op_type, inputs, outputs, dict(attrs)))
        rules = lookup(op_type).grads
        # Followed while the program is drawn: a loss is taken only of what can be differentiated, and moves with a source.
        derivable = rules is not None and self.underivable.isdisjoint(read_names)
        moves = any(name in self.moving for slot in rules or () for name in inputs.get(slot, ()))
        for slot, names in outputs.items():
            for name, value in zip(names, values[slot], strict=True):
                if not is_whole and not self.block.has_var_recursive(name):
                    self.block.vars[name] = Variable.trusted(self.block, name, value.shape, name_of(value.dtype))
                self.values.pop(name, None)
                self.values[name] = value
                (self.underivable.discard if derivable else self.underivable.add)(name)
                (self.moving.add if moves and _floating(value) else self.moving.discard)(name)

    def write(self, call: Call, inputs: Names, outputs: Names) -> list[str]:
        """Append a call; return the names of its outputs."""
        self.emit(call.op.type, inputs, outputs, call.attrs, call.outputs)
        return [name for names in outputs.values() for name in names]


def _same_signs(array: Array) -> bool:
    """Whether zeros, if there are any, are all of one sign."""
    return array.dtype.kind != "f" or len(set(np.signbit(array).flat)) == 1


def _floating(value: Value) -> bool:
    return not isinstance(value, np.ndarray) or value.dtype.kind == "f"


def run_block(block: Block, values: dict[str, Value]) -> bool:
    """Run the operators of a block once more on the values that names have; False if one does not take what it gets."""
    return all(_run_operator(op, values) for op in block.ops)


def _run_operator(op: Operator, values: dict[str, Value]) -> bool:
    blocks = blocks_of(op)
    if blocks:
        return _run_control(op, blocks, values)
    outputs = computed(lookup(op.type), {s: [values[n] for n in names] for s, names in op.inputs.items()}, op.attrs)
    if outputs is None:
        return False
    for slot, names in op.outputs.items():
        for name, value in zip(names, outputs[slot], strict=True):
            # A name keeps its shape, as loops and branches require.
            if name in values and isinstance(value, np.ndarray) and np.shape(values[name]) != value.shape:
                return False
            values[name] = value
    return True


def _run_control(op: Operator, blocks: list[Block], values: dict[str, Value]) -> bool:
    if op.type == "net":
        return run_block(blocks[0], values)
    condition = (op.input("Condition") or op.input("Cond"))[0]
    if op.type == "while":
        while bool(np.all(values[condition])):
            if not run_block(blocks[0], values):
                return False
        return True
    if op.type == "conditional_block":
        return not bool(np.all(values[condition])) or run_block(blocks[0], values)
    return run_block(blocks[0 if bool(np.all(values[condition])) else 1], values)
