"""The meaning of programs with blocks, stated a second time and as plainly as can be: the oracles of the nested programs' tests.

``Meaning`` runs a program, ``differences`` are of what it gives, and ``unrolled`` is the flat program of the operators that ran.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

import graphad as ga
from graphad.ops import REGISTRY
from graphad.testing import Case
from graphad.types import Array

STEP = 1e-5


class Meaning:
    """A program's meaning: operators one by one, each name in the innermost block that declares it.

    ``values`` are arrays, and lists of arrays, by name. ``write`` may change what a name gets; ``margin`` is how far
    floating-point numbers that were compared lay from each other.
    """

    def __init__(self, p: Case, changed: Mapping[str, Array] | None = None) -> None:
        self.values: dict[str, Any] = {**p.params, **p.feeds, **(changed or {})}
        self.frames: list[tuple[ga.Block, dict[str, Any]]] = [(p.program.global_block(), self.values)]
        self.margin = np.inf

    def run(self) -> Meaning:
        """Run the innermost block."""
        for op in self.frames[-1][0].ops:
            if op.type == "while":
                while self.truth(op.input("Condition")):
                    self.inside(op.attrs["sub_block"])
            elif op.type == "net":
                self.inside(op.attrs["sub_block"])
            elif op.type in ("if_else", "conditional_block"):
                self.branch(op)
            else:
                self.plain(op)
        return self

    def branch(self, op: ga.Operator) -> None:
        scalar, names = op.attrs.get("is_scalar_condition", True), op.input("Cond")
        taken = self.truth(names) if scalar else all(np.size(self.array(name)) for name in names)
        block = op.attrs.get("true_block", op.attrs.get("sub_block")) if taken else op.attrs.get("false_block")
        if block is not None:
            self.inside(block)

    def inside(self, block: ga.Block) -> None:
        self.frames.append((block, {}))
        self.run()
        self.frames.pop()

    def frame(self, name: str) -> dict[str, Any]:
        return next(values for block, values in reversed(self.frames) if name in block.vars)

    def value(self, name: str) -> Any:
        return self.frame(name)[name]

    def array(self, name: str) -> Any:
        return self.value(name)

    def index(self, op: ga.Operator, slot: str) -> int:
        return int(self.array(op.input(slot)[0]).item())

    def truth(self, names: Collection[str]) -> bool:
        return all(bool(self.array(name).item()) for name in names)

    def plain(self, op: ga.Operator) -> None:
        if "array" in op.type:
            value = self.list_operator(op)
        elif op.type == "select_input":
            value = self.value(op.input("X")[self.index(op, "Mask")])
        else:
            value = self.computed(op.type, {slot: [self.value(name) for name in names] for slot, names in op.inputs.items()}, op.attrs)
        (name,) = op.output("Out")
        self.frame(name)[name] = self.write(op.block.var_recursive(name), value)

    def list_operator(self, op: ga.Operator) -> Any:
        """Arrays of tensors as lists that are never changed."""
        if op.type == "create_array":
            return []
        if op.type == "write_to_array":
            (name,) = op.input("Array") or op.output("Out")
            old, at = self.frame(name).get(name, []), self.index(op, "I")
            assert at <= len(old), "an array of a nested program has no gaps"
            return [*old[:at], self.value(op.input("X")[0]), *old[at + 1 :]]
        items = self.value(op.input("X")[0])
        if op.type == "read_from_array":
            return items[self.index(op, "I")]
        if op.type == "lod_array_length":
            return self.computed("fill_constant", {}, {"shape": [1], "value": float(len(items)), "dtype": "int64"})
        return self.computed("stack", {"X": items}, {"axis": 0})

    def computed(self, op_type: str, inputs: dict[str, list[Any]], attrs: Mapping[str, Any]) -> Any:
        if op_type in ("less_than", "greater_than") and inputs["X"][0].dtype.kind == "f":
            self.margin = min(self.margin, float(np.abs(inputs["X"][0] - inputs["Y"][0]).min()))
        slot = "Y" if op_type == "stack" else "Out"
        return np.asarray(REGISTRY[op_type].run(inputs, attrs, [slot])[slot][0])

    def write(self, var: ga.Variable, value: Any) -> Any:
        return value


class Frozen(Meaning):
    """A run in which what stops gradients has the values of another run: ``stopped``, in the order of writing."""

    def __init__(self, p: Case, changed: Mapping[str, Array] | None = None, stopped: list[Any] | None = None) -> None:
        super().__init__(p, changed)
        self.written: list[Any] = []
        self.stopped = stopped

    def write(self, var: ga.Variable, value: Any) -> Any:
        if not var.stop_gradient:
            return value
        self.written.append(value)
        return value if self.stopped is None else self.stopped[len(self.written) - 1]


def differences(p: Case, name: str) -> Array:
    """Central differences of the loss, with what stops gradients held fast."""
    base = Frozen(p)
    base.run()
    start = {**p.feeds, **p.params}[name]
    result = np.zeros_like(start)
    for index in np.ndindex(start.shape):
        moved = np.zeros_like(start)
        moved[index] = STEP
        up, down = (Frozen(p, {name: start + m}, base.written).run().values[p.loss.name].item() for m in (moved, -moved))
        result[index] = (up - down) / (2 * STEP)
    return result


class Traced(NamedTuple):
    """A value of a run: what the unrolled program calls it, and the array."""

    name: str
    array: Array


class Unrolled(Meaning):
    """The program without blocks of the operators that ran, one after the other; every value has a name of its own."""

    def __init__(self, p: Case) -> None:
        super().__init__(p)
        self.program = ga.Program()
        block, old = self.program.global_block(), p.program.global_block()
        for name in self.values:
            shape, dtype = old.var(name).declared
            if name in p.params:
                block.create_parameter(name=name, shape=shape or (), dtype=dtype, trainable=old.var(name).trainable)  # type: ignore[attr-defined]
            else:
                block.create_var(name=name, shape=shape, dtype=dtype)
        self.values.update({name: Traced(name, array) for name, array in self.values.items()})

    def array(self, name: str) -> Any:
        return self.value(name).array

    def computed(self, op_type: str, inputs: dict[str, list[Any]], attrs: Mapping[str, Any], stop: bool = False) -> Any:
        array = super().computed(op_type, {slot: [v.array for v in values] for slot, values in inputs.items()}, attrs)
        block = self.program.global_block()
        out = block.create_var(shape=array.shape, dtype=array.dtype, stop_gradient=stop).name
        names = {slot: [v.name for v in values] for slot, values in inputs.items()}
        block.append_op(type=op_type, inputs=names, outputs={"Y" if op_type == "stack" else "Out": out}, attrs=attrs)
        return Traced(out, array)

    def write(self, var: ga.Variable, value: Any) -> Any:
        return self.computed("assign", {"X": [value]}, {}, stop=True) if var.stop_gradient else value


def unrolled(p: Case) -> Case:
    """A flat program that computes what a run of a program computed, operator for operator."""
    ran = Unrolled(p)
    ran.run()
    return Case(ran.program, ran.values[p.loss.name].name, p.feeds, p.params)
