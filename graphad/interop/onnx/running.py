"""How a model is run: a copy of its program in which what follows from its weights alone is computed once.

    transpose(w) -> v;  matmul_v2(x, v);  conv2d(x, f), batch_norm        ⇒        matmul_v2(x, v@KNOWN);  conv2d(x, f * k) + b

The model's own program keeps its weights as they were shipped, so that gradients and passes see them; only ``run`` computes with the copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from graphad.errors import GraphadError
from graphad.execution import Executor, Scope
from graphad.ir import lower, schedule
from graphad.ops import ControlDef, OpDef, find
from graphad.program import EMPTY, TENSOR, Block, Operator, Program
from graphad.program.snapshot import Snapshot
from graphad.rewriting import Pipeline
from graphad.types import Array

TIDY = "fold-batch-norm, constant-folding, simplify, cse, dead-code"
_ROOM = 1 << 20  # bytes that a result may have beside twice those of what it is made of


def prepared(
    program: Program, feeds: Sequence[str], fetches: Sequence[str], parameters: Mapping[str, Array]
) -> tuple[Program, dict[str, Array]]:
    """A program that gives the same outputs, up to rounding, and the values of its parameters.

    The program itself where the passes refuse it.
    """
    try:
        graph = lower(program.clone(), list(fetches))  # a graph holds on to the tables of its program, which is watched
        Pipeline.parse(TIDY).run(graph)
        copy = schedule(graph)
    except GraphadError:
        return program, dict(parameters)
    known_values = _Known(copy, fetches, parameters)
    known_values.compute()
    known_values.turn()
    for name in feeds:  # also those that nothing reads
        if not copy.global_block().has_var(name):
            shape, dtype = program.global_block().var(name).declared
            copy.global_block().create_var(name=name, shape=shape, dtype=dtype)
    return copy, known_values.parameters()


class Running:
    """What runs a model, as long as its program stays as it is."""

    def __init__(self, program: Program, feeds: Sequence[str], fetches: Sequence[str], parameters: Mapping[str, Array]) -> None:
        self.snapshot, self.fetches = Snapshot(program), list(fetches)
        self.program, values = prepared(program, feeds, fetches, parameters)
        self.executor, self.scope = Executor(), scope_of(values)

    def run(self, feeds: Mapping[str, object]) -> list[Array]:
        return self.executor.run(self.program, feed=dict(feeds), fetch_list=self.fetches, scope=self.scope)


def scope_of(parameters: Mapping[str, Array]) -> Scope:
    """A new scope with the values of parameters."""
    scope = Scope()
    for name, array in parameters.items():
        scope.set(name, array)
    return scope


class _Known:
    """What is known of a program's variables before a run."""

    def __init__(self, program: Program, fetches: Sequence[str], parameters: Mapping[str, Array]) -> None:
        self.program, self.fetches = program, set(fetches)
        self.writes = Counter(name for block in program.blocks for op in block.ops for name in op.output_names())
        self.arrays = {name: array for name, array in parameters.items() if not self.writes[name]}
        self.given = dict(parameters)

    def compute(self) -> None:
        """Run the operators of the outermost block that read known values alone, and leave them out."""
        block = self.program.global_block()
        block.ops[:] = [op for op in block.ops if not self._computed(op)]

    def _computed(self, op: Operator) -> bool:
        definition = find(op.type)
        if not isinstance(definition, OpDef) or not self._is_plain(op, definition):
            return False
        inputs = {slot: [self.arrays[name] for name in names] for slot, names in op.inputs.items()}
        try:
            with np.errstate(all="ignore"):
                results = definition.run(inputs, op.attrs, tuple(op.outputs))
        except (GraphadError, ArithmeticError, ValueError):  # it fails as the program runs
            return False
        arrays = [(name, array) for slot, names in op.outputs.items() for name, array in zip(names, results[slot], strict=True)]
        room = _ROOM + 2 * sum(array.nbytes for values in inputs.values() for array in values)
        if not all(isinstance(array, np.ndarray) and array.nbytes <= room for _, array in arrays):
            return False
        self.arrays.update((name, np.ascontiguousarray(array).reshape(array.shape)) for name, array in arrays)
        return True

    def _is_plain(self, op: Operator, definition: OpDef) -> bool:
        """Whether an operator gives the same in each run, and all that it reads is known."""
        if definition.random or definition.side_effect or isinstance(definition, ControlDef) or not all(op.inputs.values()):
            return False
        if not all(name in self.arrays for name in op.input_names()):
            return False
        outputs, block = op.output_names(), self.program.global_block()
        is_written_once = all(self.writes[name] == 1 and name not in self.fetches and name != EMPTY for name in outputs)
        return is_written_once and all(block.var(name).type == TENSOR for name in outputs)

    def turn(self) -> None:
        """Lay out matrices as products read them: a few rows times a transposed matrix take several times as long."""
        for block in self.program.blocks:
            for op in block.ops:
                if op.type == "matmul_v2" and op.attrs.get("trans_y"):
                    self._turned(block, op)

    def _turned(self, block: Block, op: Operator) -> None:
        (name,) = op.inputs["Y"]
        array = self.arrays.get(name)
        if array is None or array.ndim != 2 or block.var_recursive(name).block is not self.program.global_block():
            return
        turned_name = f"{name}@TURNED"
        if turned_name not in self.arrays:
            self.arrays[turned_name] = np.ascontiguousarray(array.T)
            self.program.global_block().create_var(name=turned_name, shape=array.T.shape, dtype=array.dtype.name, stop_gradient=True)
        op.inputs = {**op.inputs, "Y": [turned_name]}
        op.attrs = {key: value for key, value in op.attrs.items() if key != "trans_y"}

    def parameters(self) -> dict[str, Array]:
        """The values that are still read, as parameters of the program."""
        names = {name for block in self.program.blocks for op in block.ops for name in op.input_names()} | self.fetches
        block = self.program.global_block()
        values = {name: array for name, array in {**self.given, **self.arrays}.items() if name in names and block.has_var(name)}
        for name in values:
            block.var(name).persistable = True
        return values
