"""Freezing: a program for inference in which what follows from its weights alone is computed once.

    conv2d(x, f) -> c;  batch_norm(c, scale, bias, mean, variance) -> y       ⇒      conv2d(x, f') -> c;  elementwise_add(c, b') -> y
    transpose(w) -> v;  matmul_v2(x, v) -> z                                  ⇒      matmul_v2(x, w') -> z

Passes see names and types of parameters, not their values: ``fold-batch-norm`` leaves operators on the weights. Here the values are
known, so that those operators are run, and their results are weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from graphad.errors import GraphadError, InvalidType, InvalidValue
from graphad.execution import Scope, global_scope
from graphad.ir import lower, schedule
from graphad.ops import ControlDef, OpDef, find
from graphad.program import EMPTY, TENSOR, Block, Operator, Program, Variable, name_in
from graphad.rewriting import Pipeline
from graphad.types import Array

TIDY = "fold-batch-norm, constant-folding, simplify, cse, dead-code"
_ROOM = 1 << 20  # bytes that a result may have beside twice those of what it is made of


def freeze(program: Program, fetch_list: Sequence[Variable | str], scope: Scope | None = None) -> tuple[Program, Scope]:
    """A program that computes the same of what it is fed, and a scope of its weights, in which as much as possible is computed already.

    Batch normalizations by running statistics go into the weights before them, and whatever else follows from parameters alone is
    computed here. The program and the scope that are given stay as they are; the new weights do not follow when those are changed.

    Args:
        program: what runs, with ``is_test`` where operators have it: ``program.clone(for_test=True)`` of one that trains.
        fetch_list: the variables to be fetched, or their names; nothing else is kept.
        scope: the values of the parameters; None takes the current scope.

    Returns:
        The program, and a scope with the values that it reads.

    Raises:
        TypeError: it is no program, or the variables are no list.
        ValueError: the program has no variable of a name.

    >>> import graphad as ga
    >>> main, startup = ga.Program(), ga.Program()
    >>> with ga.program_guard(main, startup):
    ...     image = ga.layers.data("image", [3, 8, 8])
    ...     y = ga.layers.relu(ga.layers.batch_norm(ga.layers.conv2d(image, 4, 3), is_test=True))
    >>> scope = ga.Scope()
    >>> _ = ga.Executor().run(startup, scope=scope)
    >>> frozen, weights = ga.freeze(main, [y], scope)
    >>> [op.type for op in frozen.global_block().ops]
    ['conv2d', 'elementwise_add', 'relu']
    """
    if not isinstance(program, Program):
        raise InvalidType(f"freeze takes a Program, not {program!r}")
    if isinstance(fetch_list, str | Variable):
        raise InvalidType(f"fetch_list is a list of variables or their names, not {fetch_list!r}")
    values = (global_scope() if scope is None else scope).arrays
    names = [name_in("fetch_list", program.global_block(), item) if isinstance(item, Variable) else item for item in fetch_list]
    for name in names:
        if not program.global_block().has_var(name):
            raise InvalidValue(f"fetch_list: the program has no variable {name!r}")
    persistable = [var.name for var in program.global_block().vars.values() if var.persistable and var.name in values]
    frozen, known = with_known_values(program, names, {name: values[name] for name in persistable})
    result = Scope()
    for name, array in known.items():
        result.set(name, array)
    return frozen, result


def with_known_values(program: Program, fetches: Sequence[str], parameters: Mapping[str, Array]) -> tuple[Program, dict[str, Array]]:
    """The same with the parameters as arrays; what cannot be written stays.

    Returns:
        A copy of the program, tidied by passes, and the values that it reads.
    """
    graph = lower(program.clone(), list(fetches))  # a graph holds on to the tables of its program, which may be watched
    Pipeline.parse(TIDY).run(graph)
    copy = schedule(graph)
    known_values = _Known(copy, fetches, parameters)
    known_values.compute()
    known_values.turn()
    return copy, known_values.parameters()


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
        block.vars = {name: var for name, var in block.vars.items() if name not in self.given or name in names or self.writes[name]}
        return values
