"""Paddle's ``recurrent``, which its StaticRNN makes, and ``recurrent_grad``, as loops over arrays.

    y = recurrent(inputs=x, initial_states=h0) { h, x ─▶ h', y }          {ex_states=[h], states=[h']}
                                       ⇒
    xs = tensor_to_tensor_array(x); m = h0; i = 0
    while (i < T) { h = m; x = xs[i]; { h, x ─▶ h', y }; ys[i] = y; m = h'; i += 1 }
    y = tensor_array_to_tensor(ys)

A block of Paddle's runs in a scope for each step: ``x`` is the sequence around it, and one step of it inside. The block of a gradient
runs in the scope of the forward step, where it finds by name what that has left. Here the forward loop writes such values to arrays, and
the loop of the gradient, which goes from the last step to the first, reads them there. With ``reverse`` the sequences are flipped before
it, and what comes out is flipped after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from graphad.errors import InvalidValue
from graphad.ops import GRAD
from graphad.program.block import Block
from graphad.program.operator import EMPTY, Names, Operator
from graphad.program.program import Program
from graphad.program.source import located
from graphad.program.variable import Variable
from graphad.types import TENSOR, TENSOR_ARRAY, Shape

RECURRENT, RECURRENT_GRAD = "recurrent", "recurrent_grad"
_HELPER = "rnn_memory_helper"  # copies what a step passes on or gives; its gradient takes a cotangent that is missing for zeros
_HELPER_GRAD = "rnn_memory_helper_grad"
_INSTEAD = "load the program from before the backward was built, and build it with append_backward or minimize"


def has_recurrent(program: Program) -> bool:
    """Whether a program has such operators."""
    return len(program.blocks) > 1 and any(op.type in (RECURRENT, RECURRENT_GRAD) for block in program.blocks for op in block.ops)


def rewrite_recurrent(program: Program) -> None:
    """Make loops of them, in place.

    Raises:
        ValueError: an operator does not fit its block, or a gradient reads what is not kept; the message says what to do.
    """
    ops = [op for block in program.blocks for op in block.ops if op.type in (RECURRENT, RECURRENT_GRAD)]
    # A gradient belongs to the operator that writes the scopes which it reads.
    forward = {op: _forward_of(op, ops) for op in ops if op.type == RECURRENT_GRAD}
    for op in ops:
        _check(op)
    arrays: dict[Operator, dict[str, str]] = {op: {} for op in ops if op.type == RECURRENT}
    # Gradients first: they find out which values of a forward step are to be kept.
    loops = {op: _Gradient(op, forward[op], arrays[forward[op]]).written() for op in forward}
    loops |= {op: _forward_loop(op, arrays[op]) for op in arrays}
    for block in program.blocks:
        block.ops = [new for op in block.ops for new in loops.get(op, [op])]


def _forward_of(op: Operator, ops: Iterable[Operator]) -> Operator:
    scopes = op.input("step_scopes")
    forward = [candidate for candidate in ops if candidate.type == RECURRENT and candidate.output("step_scopes") == scopes]
    if len(forward) != 1:
        _refuse(op, f"it is the gradient of the recurrent that writes the scopes {', '.join(scopes)}; {len(forward)} do")
    return forward[0]


def _check(op: Operator) -> None:
    counts = [len(op.input("initial_states")), len(_names(op, "ex_states")), len(_names(op, "states"))]
    if len(set(counts)) > 1:
        _refuse(op, f"it has {counts[0]} initial_states, {counts[1]} ex_states and {counts[2]} states")
    if not op.input("inputs"):
        _refuse(op, "it has no inputs, which say how many steps there are")
    if not isinstance(op.attrs.get("sub_block"), Block):
        _refuse(op, "it has no sub_block")


def _block(op: Operator) -> Block:
    block: Block = op.attrs["sub_block"]
    return block


def _refuse(op: Operator, message: str) -> NoReturn:
    raise InvalidValue(located(f"operator {op.type!r}: {message}", op.source))


def _names(op: Operator, attr: str) -> list[str]:
    value = op.attrs.get(attr)
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


# -- operators in the place of one -----------------------------------------------------------------


class _Writer:
    """Operators that take the place of one, around a loop and in its block, with the variables that they write."""

    def __init__(self, op: Operator) -> None:
        self.op, self.around = op, op.block
        self.ops: list[Operator] = []
        self.flips = bool(op.attrs.get("reverse", False))

    def declare(self, key: str, shape: Shape | None, dtype: str | None, kind: str = TENSOR) -> str:
        """A new variable around the loop."""
        name = self.around.program.names.generate(f"{self.op.type}.{key}")
        self.around.vars[name] = Variable.trusted(self.around, name, shape, dtype, type=kind)
        return name

    def like(self, key: str, name: str) -> str:
        """A new variable of the type of another one."""
        return self.declare(key, *_declared(self.around, name))

    def made(self, block: Block, op_type: str, inputs: Names, outputs: Names, **attrs: object) -> Operator:
        return Operator(block, op_type, inputs, outputs, attrs, self.op.role, self.op.source, self.op.made_by)

    def add(self, op_type: str, inputs: Names, out: str, **attrs: object) -> str:
        """Append an operator around the loop; what it writes."""
        self.ops.append(self.made(self.around, op_type, inputs, {"Out": [out]}, **attrs))
        return out

    def counted(self, key: str, value: int) -> str:
        return self.add("fill_constant", {}, self.declare(key, (1,), "int64"), shape=[1], value=float(value), dtype="int64")

    def flipped(self, name: str) -> str:
        return self.add("flip", {"X": [name]}, self.like("flipped", name), axis=[0])

    def steps(self, sequence: str) -> str:
        """The steps of a sequence in an array, in the order in which the forward loop goes."""
        shape, dtype = _declared(self.around, sequence)
        array = self.declare("steps", None if shape is None else shape[1:], dtype, TENSOR_ARRAY)
        return self.add(
            "tensor_to_tensor_array", {"X": [self.flipped(sequence) if self.flips else sequence]}, array, axis=0, use_stack=True
        )

    def array(self, shape: Shape | None, dtype: str | None, name: str = "") -> str:
        """An array without elements, in a new variable or one that is declared."""
        out = name or self.declare("array", shape, dtype, TENSOR_ARRAY)
        # An extent that is a name cannot be an attribute.
        attrs = {} if shape is None or any(not isinstance(extent, int) for extent in shape) else {"shape": list(shape)}
        return self.add("create_array", {}, out, dtype=dtype or "float32", **attrs)

    def stack(self, array: str, out: str, flips: bool) -> None:
        """The elements of an array in one tensor."""
        stacked = self.like("stacked", out) if flips else out
        self.add("tensor_array_to_tensor", {"X": [array]}, stacked, axis=0, use_stack=True)
        if flips:
            self.add("flip", {"X": [stacked]}, out, axis=[0])

    def length(self, sequence: str, steps: Sequence[str]) -> str:
        """How many steps a sequence has, as a tensor; ``steps`` are arrays of so many."""
        shape, _ = _declared(self.around, sequence)
        if shape and isinstance(shape[0], int) and shape[0] >= 0:
            return self.counted("length", shape[0])
        # The number of steps is known in the run alone.
        array = steps[0] if steps else self.steps(sequence)
        return self.add("lod_array_length", {"X": [array]}, self.declare("length", (1,), "int64"))

    def loop(self, block: Block, index: str, length: str, carried: Sequence[str], before: list[Operator], after: list[Operator]) -> None:
        """The loop over a block, between what it does before and after."""
        condition = self.add("less_than", {"X": [index], "Y": [length]}, self.declare("more", (1,), "bool"))
        count = self.made(block, "increment", {"X": [index]}, {"Out": [index]}, step=1.0)
        test = self.made(block, "less_than", {"X": [index], "Y": [length]}, {"Out": [condition]})
        # The counter and the test come last: everything before them is about the step that the counter names.
        block.ops = [*before, *block.ops, *after, count, test]
        block.parent_idx = self.around.idx
        # Names of the step are the block's own; everything else that it reads first is the loop's input.
        own = [*carried, index]
        reads = [name for name in read_first(block) if name not in block.vars and name not in own and name != condition]
        inputs = {"X": [*own, *reads], "Condition": [condition]}
        outputs = {"Out": [*own, condition], "StepScopes": [self.around.program.names.generate("_generated_var")]}
        self.ops.append(self.made(self.around, "while", inputs, outputs, sub_block=block, is_test=False))


def _declared(block: Block, name: str) -> tuple[Shape | None, str | None]:
    return block.var_recursive(name).declared if block.has_var_recursive(name) else (None, None)


def _own(block: Block, names: Iterable[str], like: Block) -> None:
    """Let names mean variables of a block's own, as they do in the scope of a step."""
    for name in names:
        if name not in block.vars:
            shape, dtype = like.vars[name].declared if name in like.vars else (None, None)
            block.vars[name] = Variable.trusted(block, name, shape, dtype)


def read_first(block: Block) -> dict[str, None]:
    """The names that a block reads before it writes them."""
    read_names: dict[str, None] = {}
    written_names: set[str] = {EMPTY}
    for op in block.ops:
        read_names.update(dict.fromkeys(name for name in op.input_names() if name not in written_names))
        written_names.update(op.output_names())
    return read_names


def _copied_on(op: Operator) -> Operator:
    """A copy of a value that a step passes on."""
    if op.type != _HELPER:
        return op
    return Operator(op.block, "assign", {"X": op.input("X")}, {"Out": op.output("Out")}, {}, op.role, op.source, op.made_by)


# -- forward ---------------------------------------------------------------------------------------


def _forward_loop(op: Operator, kept: Mapping[str, str]) -> list[Operator]:
    """A loop over the steps; ``kept`` are arrays for what a gradient reads of each, by its name in the block."""
    write, block = _Writer(op), _block(op)
    block.ops = [_copied_on(inner) for inner in block.ops]
    states, outputs = _names(op, "ex_states"), op.output("outputs")
    # In Paddle a name of a step is that of the sequence around; here it gets a variable in the block, which hides that
    # one.
    _own(block, [*op.input("inputs"), *states, *outputs], block)
    steps = [write.steps(name) for name in op.input("inputs")]
    index, length = write.counted("step", 0), write.length(op.input("inputs")[0], steps)
    memories = [write.add("assign", {"X": [name]}, write.like("memory", name)) for name in op.input("initial_states")]
    arrays = [write.array(*block.vars[name].declared) for name in outputs]
    for array in kept.values():
        write.array(*_declared(write.around, array), array)
    # A step begins with the states that the one before left and its slices of the inputs; it ends with writing results and passing states
    # on.
    before = [write.made(block, "assign", {"X": [memory]}, {"Out": [name]}) for memory, name in zip(memories, states, strict=True)]
    before += [
        write.made(block, "read_from_array", {"X": [array], "I": [index]}, {"Out": [name]})
        for array, name in zip(steps, op.input("inputs"), strict=True)
    ]
    results = [*zip(outputs, arrays, strict=True), *kept.items()]
    after = [write.made(block, "write_to_array", {"X": [name], "I": [index]}, {"Out": [array]}) for name, array in results]
    after += [
        write.made(block, "assign", {"X": [name]}, {"Out": [memory]}) for memory, name in zip(memories, _names(op, "states"), strict=True)
    ]
    write.loop(block, index, length, [*memories, *arrays, *kept.values()], before, after)
    for array, name in zip(arrays, outputs, strict=True):
        write.stack(array, name, write.flips)
    return write.ops


# -- gradient --------------------------------------------------------------------------------------


class _Gradient:
    """The loop of a ``recurrent_grad``, from the last step to the first.

    It carries the gradients of the states to the step before, and the sums of those of what all steps read. ``kept`` gets an array for each
    value of a forward step that the block reads.
    """

    def __init__(self, op: Operator, forward: Operator, kept: dict[str, str]) -> None:
        self.op, self.forward, self.kept = op, forward, kept
        self.write, self.keep = _Writer(op), _Writer(forward)
        self.block, self.forward_block = _block(op), _block(forward)
        self.before: list[Operator] = []
        self.after: list[Operator] = []
        self.carried: list[str] = []

    def written(self) -> list[Operator]:
        op, write, block = self.op, self.write, self.block
        if any(isinstance(value, Block) for inner in block.ops for value in inner.attrs.values()):
            _refuse(op, f"its block holds gradients of loops or branches, which need more of a step than its values: {_INSTEAD}")
        cotangents = self._cotangents()
        states = [name + GRAD for name in _names(op, "states")]
        self._help({*cotangents, *states})
        reads, names = read_first(block), {name: None for inner in block.ops for name in inner.output_names() if name != EMPTY}
        self._check_states(reads, names)
        steps = {name: write.steps(outer) for name, outer in cotangents.items() if name in reads}
        index, length = write.counted("step", 0), write.length(op.input("inputs")[0], list(steps.values()))
        # Steps are counted from the end, which is where the backward starts.
        place = write.add("increment", {"X": [length]}, write.declare("place", (1,), "int64"), step=-1.0)
        _own(block, names, self.forward_block)
        memories = self._memories(reads, names)
        for name in reads:
            parts = [self._element(steps[name], place, name)] if name in steps else []
            parts += [memory for state, memory in zip(states, memories, strict=True) if state == name and memory]
            self._give(name, parts, place)
        finish = [*self._of_inputs(names, index), *self._of_parameters(names), *self._of_memories(memories, names)]
        self.after.append(write.made(block, "increment", {"X": [place]}, {"Out": [place]}, step=-1.0))
        write.loop(block, index, length, [*self.carried, place], self.before, self.after)
        for of, result, out in finish:
            # Gradients of sequences were written from the last step on, so they are flipped unless the forward went backwards.
            if result in self.carried and of in op.input("inputs"):
                write.stack(result, out, flips=not write.flips)
            else:
                write.add("assign", {"X": [result]}, out) if result else write.add("fill_zeros_like", {"X": [of]}, out)
        return write.ops

    # -- what the block reads --------------------------------------------------------------------

    def _cotangents(self) -> dict[str, str]:
        """The names in the block that mean one step of a cotangent around it."""
        pairs = [
            (name, outer) for name, outer in zip(self.op.input("outputs"), self.op.input(f"outputs{GRAD}"), strict=False) if outer != EMPTY
        ]
        return {name + GRAD: outer for name, outer in pairs} | {outer: outer for _, outer in pairs}

    def _help(self, given: set[str]) -> None:
        """Gradients of copies are copies; what has no cotangent has zeros."""
        known_names, ops = set(given), []
        for inner in self.block.ops:
            if inner.type == _HELPER_GRAD:
                (cotangent,) = inner.input(f"Out{GRAD}") or [EMPTY]
                copies, source = ("assign", cotangent) if cotangent in known_names else ("fill_zeros_like", inner.input("X")[0])
                inner = self.write.made(self.block, copies, {"X": [source]}, {"Out": inner.output(f"X{GRAD}")})
            ops.append(inner)
            known_names.update(inner.output_names())
        self.block.ops = ops

    def _check_states(self, reads: Mapping[str, None], written: Mapping[str, None]) -> None:
        """Refuse a step whose gradient ignores the cotangent that a state gets from the step after it."""
        for state, name in zip(_names(self.op, "states"), _names(self.op, "ex_states"), strict=True):
            var = self.forward_block.vars.get(state)
            if name + GRAD in written and state + GRAD not in reads and not (var is not None and var.stop_gradient):
                _refuse(
                    self.op,
                    f"its block computes the gradient of the state {name!r} and never reads {state + GRAD!r}, what comes of it in the "
                    f"step before, so that the gradients of earlier steps would be wrong: {_INSTEAD}",
                )

    def _memories(self, reads: Mapping[str, None], written: Mapping[str, None]) -> list[str]:
        """For each state its gradient on the way through the steps, zeros at first; "" where it is neither read nor written."""
        memories = []
        for init, name, state in zip(self.op.input("initial_states"), _names(self.op, "ex_states"), _names(self.op, "states"), strict=True):
            is_written = name + GRAD in written
            is_used = is_written or state + GRAD in reads
            memories.append(self.write.add("fill_zeros_like", {"X": [init]}, self.write.like("memory", init)) if is_used else "")
            if is_written:
                self.carried.append(memories[-1])
                self.after.append(self.write.made(self.block, "assign", {"X": [name + GRAD]}, {"Out": [memories[-1]]}))
        return memories

    def _give(self, name: str, parts: Sequence[str], place: str) -> None:
        """Let the block find a name that it reads."""
        if parts:
            if name not in self.block.vars:  # Paddle does not declare what comes to a state
                like = (self.block if parts[0] in self.block.vars else self.write.around).vars[parts[0]]
                self.block.vars[name] = Variable.trusted(self.block, name, *like.declared)
            op_type = "sum" if len(parts) > 1 else "assign"
            self.before.append(self.write.made(self.block, op_type, {"X": list(parts)}, {"Out": [name]}))
        elif name in self.forward_block.vars:
            self._read_kept(name, place)
        elif name in self.block.vars or not self.write.around.has_var_recursive(name):
            _refuse(
                self.op, f"its block reads {name!r}, which neither it nor its forward block writes, and which is not around it: {_INSTEAD}"
            )

    def _read_kept(self, name: str, place: str) -> None:
        var = self.forward_block.vars[name]
        if var.type != TENSOR:
            _refuse(self.op, f"its block reads {name!r} of a forward step, which is no tensor: {_INSTEAD}")
        if name not in self.kept:
            self.kept[name] = self.keep.declare("kept", *var.declared, TENSOR_ARRAY)
        self.block.vars[name] = Variable.trusted(self.block, name, *var.declared)
        self.before.append(self.write.made(self.block, "read_from_array", {"X": [self.kept[name]], "I": [place]}, {"Out": [name]}))

    def _element(self, array: str, place: str, name: str) -> str:
        """An element of an array, under a name of its own."""
        element = self.op.block.program.names.generate(name)
        var = self.write.around.vars[array]
        self.block.vars[element] = Variable.trusted(self.block, element, *var.declared)
        self.before.append(self.write.made(self.block, "read_from_array", {"X": [array], "I": [place]}, {"Out": [element]}))
        return element

    # -- what comes of it ------------------------------------------------------------------------
    # For each requested gradient: of what, what holds it after the loop ("": it is zero), and its name.

    def _requested(self, slot: str) -> list[tuple[int, str, str]]:
        pairs = enumerate(zip(self.op.input(slot), self.op.output(slot + GRAD), strict=False))
        return [(i, of, out) for i, (of, out) in pairs if out != EMPTY]

    def _of_inputs(self, written: Mapping[str, None], index: str) -> Iterator[tuple[str, str, str]]:
        for _, of, out in self._requested("inputs"):
            array = ""
            if of + GRAD in written:
                shape, dtype = _declared(self.write.around, of)
                # Each step has a slice of an input, and so a gradient of its own; those of parameters, below, are added up.
                array = self.write.array(None if shape is None else shape[1:], dtype)
                self.carried.append(array)
                self.after.append(self.write.made(self.block, "write_to_array", {"X": [of + GRAD], "I": [index]}, {"Out": [array]}))
            yield of, array, out

    def _of_parameters(self, written: Mapping[str, None]) -> Iterator[tuple[str, str, str]]:
        for _, of, out in self._requested("parameters"):
            total = ""
            if of + GRAD in written:
                total = self.write.add("fill_zeros_like", {"X": [of]}, self.write.like("total", of))
                self.carried.append(total)
                self.after.append(self.write.made(self.block, "sum", {"X": [total, of + GRAD]}, {"Out": [total]}))
            yield of, total, out

    def _of_memories(self, memories: Sequence[str], written: Mapping[str, None]) -> Iterator[tuple[str, str, str]]:
        names = _names(self.op, "ex_states")
        for i, of, out in self._requested("initial_states"):
            yield of, memories[i] if names[i] + GRAD in written else "", out
