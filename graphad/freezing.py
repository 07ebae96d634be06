"""Freezing: a program for inference in which what follows from its weights alone is computed once.

    conv2d(x, f) -> c;  batch_norm(c, scale, bias, mean, variance) -> y       ⇒      conv2d(x, f') -> c;  elementwise_add(c, b') -> y
    transpose(w) -> v;  matmul_v2(x, v) -> z                                  ⇒      matmul_v2(x, w') -> z
    matmul_v2(x, w) -> z  of float16                                          ⇒      cast(matmul_v2(cast(x), w')) -> z,  as it is computed

Passes see names and types of parameters, not their values: ``fold-batch-norm`` leaves operators on the weights. Here the values are
known, so that those operators are run, and their results are weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphad.errors import GraphadError, InvalidType, InvalidValue
from graphad.execution import Scope, global_scope
from graphad.ir import lower, schedule
from graphad.ir.edits import open_sealed
from graphad.ops import CallDef, ControlDef, OpDef, find, lookup
from graphad.program import EMPTY, TENSOR, Block, Operator, Program, Variable, name_in
from graphad.rewriting import Pipeline
from graphad.types import Array

TIDY = "fold-batch-norm, constant-folding, simplify, cse, dead-code"
_ROOM = 1 << 20  # bytes that a result may have beside twice those of what it is made of


def freeze(
    program: Program, fetch_list: Sequence[Variable | str], scope: Scope | None = None, *, for_export: bool = False
) -> tuple[Program, Scope]:
    """A program that computes the same of what it is fed, and a scope of its weights, in which as much as possible is computed already.

    Batch normalizations by running statistics go into the weights before them, and whatever else follows from parameters alone is
    computed here. The program and the scope that are given stay as they are; the new weights do not follow when those are changed.

    Args:
        program: what runs, with ``is_test`` where operators have it: ``program.clone(for_test=True)`` of one that trains.
        fetch_list: the variables to be fetched, or their names; nothing else is kept.
        scope: the values of the parameters; None takes the current scope.
        for_export: whether the program is to be written for another runtime, and not to run here. Operators that were read from there as
            one, such as an LSTM of ONNX, then stay one; products of float16, of which numpy has none, stay as they are.

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
    # What has no value in the scope is computed by the program, or is missing as before.
    persistable = [var.name for var in program.global_block().vars.values() if var.persistable and var.name in values]
    frozen, values_known = with_known_values(program, names, {name: values[name] for name in persistable}, for_export)
    result = Scope()
    for name, array in values_known.items():
        result.set(name, array)
    return frozen, result


def with_known_values(
    program: Program, fetches: Sequence[str], parameters: Mapping[str, Array], for_export: bool = False
) -> tuple[Program, dict[str, Array]]:
    """The same with the parameters as arrays; what cannot be written stays.

    Returns:
        A copy of the program, tidied by passes, and the values that it reads.
    """
    graph = lower(program.clone(), list(fetches))  # a graph holds on to the tables of its program, which may be watched
    if not for_export:
        open_sealed(graph)
    Pipeline.parse(TIDY).run(graph)
    copy = schedule(graph)
    known_values = _Known(copy, fetches, parameters)
    known_values.compute()
    _Scaling(copy, known_values.fetches, known_values.arrays, known_values.writes).run()
    if not for_export:
        known_values.widen()
    known_values.turn()
    return copy, known_values.parameters()


class _Known:
    """The variables of a program whose values are known before a run, and the folding of operators over them."""

    def __init__(self, program: Program, fetches: Sequence[str], parameters: Mapping[str, Array]) -> None:
        self.program, self.fetches = program, set(fetches)
        self.writes = Counter(name for block in program.blocks for op in block.ops for name in op.output_names())
        # A parameter that some operator writes, such as a step counter, is not known before a run.
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
        # A constant that is expanded to a large tensor is better computed in each run than stored.
        operands = [array for values in inputs.values() for array in values]
        room, most = _ROOM + 2 * sum(array.nbytes for array in operands), max((array.size for array in operands), default=0)
        if not all(isinstance(array, np.ndarray) and (array.nbytes <= room or array.size <= most) for _, array in arrays):
            return False
        # ascontiguousarray makes a scalar one-dimensional; reshape takes that back.
        self.arrays.update((name, np.ascontiguousarray(array).reshape(array.shape)) for name, array in arrays)
        return True

    def _is_plain(self, op: Operator, definition: OpDef) -> bool:
        """Whether an operator gives the same in each run, and all that it reads is known."""
        if definition.random or definition.side_effect or isinstance(definition, ControlDef) or not all(op.inputs.values()):
            return False
        if not all(name in self.arrays for name in op.input_names()):
            return False
        outputs, block = op.output_names(), self.program.global_block()
        # Of a name that is written twice an array would be one of two values.
        is_written_once = all(self.writes[name] == 1 and name not in self.fetches and name != EMPTY for name in outputs)
        return is_written_once and all(block.var(name).type == TENSOR for name in outputs)

    def widen(self) -> None:
        """Products of float16, which are added up in float32 and rounded once: let weights be float32 from the start."""
        for block in _rewritten(self.program.global_block()):
            # A copy of the list: casts are inserted while it is gone through.
            for op in [*block.ops]:
                definition = find(op.type)
                if isinstance(definition, OpDef) and definition.weights is not None and not op.inputs.get("Bias"):
                    self._widened(block, op, definition.weights.slot)

    def _widened(self, block: Block, op: Operator, slot: str) -> None:
        (name,) = op.inputs[slot]
        array = self.arrays.get(name)
        if array is None or array.dtype != np.float16:
            return
        main, wide_name = self.program.global_block(), f"{name}@FLOAT32"
        if wide_name not in self.arrays:
            self.arrays[wide_name] = array.astype("float32")
            main.create_var(name=wide_name, shape=array.shape, dtype="float32", stop_gradient=True)
        for other, names in op.inputs.items():
            new_names = [wide_name] if other == slot else [self._cast(block, block.ops.index(op), x, "float32") for x in names]
            op.inputs = {**op.inputs, other: new_names}
        ((out_slot, (out,)),) = op.outputs.items()
        # The sum stays in float32 until it is rounded once, as the kernel for float16 does.
        product = self.program.names.generate(f"{out}@FLOAT32")
        block.create_var(name=product, shape=block.var_recursive(out).shape, dtype="float32")
        op.outputs = {out_slot: [product]}
        block.insert_op(block.ops.index(op) + 1, "cast", {"X": product}, {"Out": out}, {"out_dtype": "float16"})

    def _cast(self, block: Block, place: int, name: str, dtype: str) -> str:
        result = self.program.names.generate(f"{name}@CAST")
        block.create_var(name=result, shape=block.var_recursive(name).shape, dtype=dtype)
        block.insert_op(place, "cast", {"X": name}, {"Out": result}, {"out_dtype": dtype})
        return result

    def turn(self) -> None:
        """Lay out matrices as products read them: a few rows times a transposed matrix take several times as long."""
        for block in _rewritten(self.program.global_block()):
            for op in block.ops:
                if op.type == "matmul_v2" and op.attrs.get("trans_y"):
                    self._turned(block, op)

    def _turned(self, block: Block, op: Operator) -> None:
        (name,) = op.inputs["Y"]
        array = self.arrays.get(name)
        if array is None or array.ndim != 2 or block.var_recursive(name).block is not self.program.global_block():
            return
        turned_name = f"{name}@TURNED"
        # A matrix that several products share is turned once.
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
        # Declarations of parameters that nothing reads any more go: the new scope has no values for them.
        block.vars = {name: var for name, var in block.vars.items() if name not in self.given or name in names or self.writes[name]}
        return values


def _rewritten(block: Block) -> Iterator[Block]:
    """A block and those in it whose operators may be rewritten: not those of what is sealed."""
    yield block
    for op in block.ops:
        definition = find(op.type)
        if isinstance(definition, ControlDef) and not (isinstance(definition, CallDef) and definition.sealed):
            for name in definition.blocks:
                yield from _rewritten(op.attrs[name])


# -- scales of channels --------------------------------------------------------------------------
# Scales and shifts of the channels of a product, moved into its weights:
#
#     conv2d(x, f) ─▶ transpose ─▶ - m ─▶ * k ─▶ + b      ⇒      conv2d(x, f * k) ─▶ + (b - m * k) ─▶ transpose
#
# ``fold-batch-norm`` does it for the operator; here the normalization is written out, as exporters do for channels that come last.


@dataclass
class _Chain:
    """The affine map ``scale * y + shift`` of each channel that operators apply to a product; all of these operators can be removed."""

    scale: Array
    shift: Array
    ops: list[Operator] = field(default_factory=list)
    is_scaled: bool = False

    def follow(self, kind: str, number: Array, is_first: bool) -> bool:
        """Take in one more operator, of which the other operand is known; False if it is no scale and no shift."""
        if kind == "elementwise_add":
            self.shift = self.shift + number
        elif kind == "elementwise_sub":
            sign = 1.0 if is_first else -1.0
            # y - n and n - y: the second one turns the sign of scale and shift.
            self.scale, self.shift = sign * self.scale, sign * (self.shift - number)
        elif kind == "elementwise_mul":
            self.scale, self.shift = self.scale * number, self.shift * number
        elif kind == "elementwise_div" and is_first:
            self.scale, self.shift = self.scale / number, self.shift / number
        else:
            return False
        self.is_scaled |= kind != "elementwise_add"
        return True

    def follow_scale(self, op: Operator) -> None:
        """Take in a scale by one number for all, with a shift after it or before."""
        scale, bias, is_after = (lookup("scale").attr(name, op.attrs) for name in ("scale", "bias", "bias_after_scale"))
        self.scale = self.scale * scale
        self.shift = self.shift * scale + (bias if is_after else bias * scale)
        self.is_scaled |= scale != 1.0
        self.ops.append(op)


class _Scaling:
    """Moves them, in the outermost block of a program.

    Args:
        program: changed in place.
        fetches: names that have to stay as they are.
        arrays: the known values by name; new weights are added.
        writes: how often each name is written.
    """

    def __init__(self, program: Program, fetches: Collection[str], arrays: MutableMapping[str, Array], writes: Counter[str]) -> None:
        self.block, self.fetches, self.arrays, self.writes = program.global_block(), fetches, arrays, writes
        self.readers: dict[str, list[Operator]] = {}
        for block in program.blocks:
            for op in block.ops:
                for name in op.input_names():
                    self.readers.setdefault(name, []).append(op)

    def run(self) -> None:
        """Move all that can be."""
        for op in [*self.block.ops]:
            definition = find(op.type)
            if isinstance(definition, OpDef) and definition.weights is not None:
                self._scaled(op, definition)

    def _scaled(self, op: Operator, definition: OpDef) -> None:
        assert definition.weights is not None
        slot, channels = definition.weights
        (out,), (name,) = op.output_names(), op.inputs[slot]
        weights, shape = self.arrays.get(name), self.block.var_recursive(out).shape
        if weights is None or shape is None or op.inputs.get("Bias") or not self._may_scale(weights):
            return
        attrs = {name: definition.attr(name, op.attrs) for name in definition.attrs}
        axes = channels(attrs, weights.ndim, len(shape))
        if axes is None:
            return
        along, axis = axes
        chain = self._chain(out, axis, len(shape), weights.shape[along])
        # Shifts alone would exchange one addition for another; weights must not become inf or nan that the program would not compute.
        if chain.is_scaled and np.isfinite(chain.scale).all():
            factor = chain.scale.reshape([-1 if i == along else 1 for i in range(weights.ndim)])
            self._replace(op, slot, (weights * factor).astype(weights.dtype), axis, chain)

    @staticmethod
    def _may_scale(weights: Array) -> bool:
        """Whether scaled weights are as good: sums of whole numbers are exact, and may be rounded to such after the scale."""
        return weights.dtype.kind == "f" and weights.itemsize > 2 and not np.array_equal(weights, np.rint(weights))

    def _chain(self, name: str, axis: int, rank: int, channels: int) -> _Chain:
        chain = _Chain(np.ones(channels), np.zeros(channels))
        while (op := self._only_reader(name)) is not None:
            if op.type == "transpose":
                # Where the axis of the channels is after the transpose.
                axis = [int(i) for i in op.attrs["axis"]].index(axis)
            elif op.type == "scale":
                if op.input_names() != [name] or op.output_names()[0] in self.fetches:
                    return chain
                chain.follow_scale(op)
            else:
                number = self._number(op, name, axis, rank, channels)
                if number is None or op.output_names()[0] in self.fetches or not chain.follow(op.type, number, op.inputs["X"] == [name]):
                    return chain
                chain.ops.append(op)
            name = op.output_names()[0]
        return chain

    def _only_reader(self, name: str) -> Operator | None:
        readers = self.readers.get(name, [])
        if len(readers) != 1 or name in self.fetches or self.writes[name] != 1 or self.block.var(name).persistable:
            return None
        return readers[0] if readers[0].block is self.block else None

    def _number(self, op: Operator, name: str, axis: int, rank: int, channels: int) -> Array | None:
        """The known operand of an operator, if it is a number for each channel."""
        if set(op.inputs) != {"X", "Y"}:
            return None
        (number,) = (self.arrays.get(other) for other in op.input_names() if other != name) if len({*op.input_names()}) == 2 else (None,)
        if number is None or number.ndim > rank or number.dtype.kind != "f":
            return None
        place = int(op.attrs.get("axis", -1))
        # Fluid's alignment: the operand's first axis is axis ``axis``; -1 aligns the last axes, as numpy does.
        before = place if place != -1 else rank - number.ndim
        shape = (*[1] * before, *number.shape, *[1] * (rank - number.ndim - before))
        if any(extent != 1 and (i != axis or extent != channels) for i, extent in enumerate(shape)):
            return None
        return np.broadcast_to(number.reshape(-1).astype("float64"), channels)

    def _replace(self, op: Operator, slot: str, weights: Array, axis: int, chain: _Chain) -> None:
        """The product with the new weights, then the shift; the operators of the chain are left out."""
        block, (out,), (name,) = self.block, op.output_names(), op.inputs[slot]
        variable = block.var(out)
        names = {key: block.program.names.generate(f"{base}@SCALED") for key, base in ((slot, name), ("product", out), ("shift", out))}
        self.arrays[names[slot]] = weights
        # Ones for the axes after the channels, so that aligned from the end it adds along these.
        self.arrays[names["shift"]] = chain.shift.astype(weights.dtype).reshape(-1, *[1] * (len(variable.shape) - axis - 1))
        for key in (slot, "shift"):
            array = self.arrays[names[key]]
            block.create_var(name=names[key], shape=array.shape, dtype=array.dtype.name, stop_gradient=True)
        block.create_var(name=names["product"], shape=variable.shape, dtype=variable.dtype)
        op.inputs = {**op.inputs, slot: [names[slot]]}
        op.outputs = {key: [names["product"]] for key, names_written in op.outputs.items() if names_written}
        for left_out in chain.ops:
            self._leave_out(left_out)
        block.insert_op(block.ops.index(op) + 1, "elementwise_add", {"X": names["product"], "Y": names["shift"]}, {"Out": out})

    def _leave_out(self, op: Operator) -> None:
        """Remove an operator, and redirect the uses of its result to its operand that is not a constant."""
        (result,) = op.output_names()
        (operand,) = (name for name in op.input_names() if name not in self.arrays)
        for reader in self.readers.get(result, []):
            reader.inputs = {slot: [operand if name == result else name for name in names] for slot, names in reader.inputs.items()}
        # The next operator of the chain, and later ones, find the readers where they are now.
        self.readers[operand] = self.readers.get(result, [])
        self.block.ops.remove(op)
