"""Paddle's gradients of branches and loops in graphad's form: what they do by name becomes an ``if_else_grad``, or a ``while_grad``.

Paddle runs the gradient's block in the scope that the branch kept: it finds forward values, Out@GRAD and what is around by name, and
gives zeros where the branch was not taken or has no gradient. ``if_else_grad`` says all of that: its block is inside the forward block,
what is not of the forward block is passed in, and a second block makes the zeros. The gradient of a loop is brought into the form that
graphad gives it in the same way. A program keeps Paddle's operators, and its bytes,
until it is lowered or run.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphad.errors import InvalidValue
from graphad.ops import GRAD
from graphad.program.block import Block
from graphad.program.operator import EMPTY, Names, Operator
from graphad.program.paddle_recurrent import has_recurrent, read_first, rewrite_recurrent
from graphad.program.program import Program
from graphad.program.source import located
from graphad.program.variable import Variable

_BRANCH_GRAD = "conditional_block_grad"
_LOOP_GRAD = "while_grad"
_FORWARD = {_BRANCH_GRAD: ("conditional_block", "Scope"), _LOOP_GRAD: ("while", "StepScopes")}


def in_own_form(program: Program) -> Program:
    """The program itself, or a copy in graphad's form if it has gradients of branches or loops in Paddle's, or ``recurrent`` operators.

    Raises:
        ValueError: the forward operator of such a gradient is not in the program, or cannot be told.
    """
    if not _has_gradients(program) and not has_recurrent(program):
        return program
    copy = program.clone()
    rewrite_gradients(copy)
    return copy


def rewrite_gradients(program: Program) -> None:
    """Bring ``recurrent`` and gradients of branches and loops into graphad's form, in place; ``in_own_form`` lists the errors."""
    if has_recurrent(program):
        rewrite_recurrent(program)
    if not _has_gradients(program):
        return
    forward = {op: _forward_block(program, op) for op in _gradients(program)}
    for op, block in forward.items():
        # Within the forward block: what the gradient's block reads of the forward by name is then around it.
        op.attrs["sub_block"].parent_idx = block.idx
    for block in program.blocks:
        block.ops = [_chosen_gradient(op) if op.type == "select_output" and not op.input("Like") else op for op in block.ops]
    # The innermost first: what a gradient reads includes what the gradients in it read.
    for op in sorted(forward, key=lambda op: _depth(op, forward), reverse=True):
        block = op.block
        gradient = _branch_gradient(op, forward[op]) if op.type == _BRANCH_GRAD else _loop_gradient(op, forward[op])
        block.ops = [gradient if candidate is op else candidate for candidate in block.ops]


def _has_gradients(program: Program) -> bool:
    return len(program.blocks) > 1 and any(True for _ in _gradients(program))


def _gradients(program: Program) -> Iterator[Operator]:
    ops = (op for block in program.blocks for op in block.ops)
    return (op for op in ops if op.type == _BRANCH_GRAD or (op.type == _LOOP_GRAD and _is_of_paddle(op)))


def _is_of_paddle(op: Operator) -> bool:
    """Whether the gradient of a loop finds values by name: it lists what the loop writes, and not what is passed in."""
    own_attrs = ("original_input", "original_input_grad")
    return bool(op.output(f"X{GRAD}")) and "Out" in op.inputs and not any(name in op.attrs for name in own_attrs)


def _forward_block(program: Program, op: Operator) -> Block:
    """The block of the operator that wrote the scope which a gradient reads."""
    kind, slot = _FORWARD[op.type]
    (scope,) = op.input(slot) if len(op.input(slot)) == 1 else ("",)
    # Paddle's gradient names its forward operator by the scope alone.
    operators = [writer for block in program.blocks for writer in block.ops if writer.type == kind and scope in writer.output(slot)]
    if len(operators) != 1:
        message = f"operator {op.type!r} is the gradient of the {kind} that writes the scope {scope!r}; {len(operators)} do"
        raise InvalidValue(located(message, op.source))
    block: Block = operators[0].attrs["sub_block"]
    return block


def _depth(op: Operator, forward: dict[Operator, Block]) -> int:
    """In how many blocks of such gradients an operator is: what an inner one passes in, the outer ones may have to pass in, too."""
    holders = {candidate.attrs["sub_block"]: candidate for candidate in forward}
    depth = 0
    while op.block in holders:
        op, depth = holders[op.block], depth + 1
    return depth


def _chosen_gradient(op: Operator) -> Operator:
    """The gradient of a ``select_input``: Paddle writes a ``select_output``, which leaves what was not chosen without a value."""
    names = [name.partition(GRAD)[0] for name in op.output("Out")]
    if not all(GRAD in name for name in op.output("Out")) or not all(map(op.block.has_var_recursive, names)):
        return _like(op, "select_output", {**op.inputs, "Like": op.input("X") * len(names)}, op.outputs)
    inputs = {"X": names, "Mask": op.input("Mask"), f"Out{GRAD}": op.input("X")}
    return _like(op, "select_input_grad", inputs, {f"X{GRAD}": op.output("Out")})


def _branch_gradient(op: Operator, forward: Block) -> Operator:
    block: Block = op.attrs["sub_block"]
    pairs = [pair for slot in ("Cond", "Input") for pair in zip(op.input(slot), op.output(slot + GRAD), strict=False)]
    gradients = {name: gradient for name, gradient in pairs if EMPTY not in (name, gradient)}
    read_names = read_first(block)
    cotangents = [name for name in dict.fromkeys(op.input(f"Out{GRAD}")) if name in read_names]
    # Paddle's block reads names of three kinds: cotangents, names around it (operands here), and the forward block's own (residuals).
    around = (name for name in read_names if name not in cotangents and name not in forward.vars and name not in block.vars)
    operands = list(dict.fromkeys([*gradients, *around]))
    otherwise = Block(op.block.program, len(op.block.program.blocks), op.block.idx)
    op.block.program.blocks.append(otherwise)
    written_names = {name for candidate in block.ops for name in candidate.output_names()}
    for ancestor in (block, otherwise):
        for name in (*operands, *cotangents):
            ancestor.vars[name] = _argument(op.block, ancestor, name)
    results = [name + GRAD if name + GRAD in written_names else _zeros(block, name, op) for name in gradients]
    zeros = [_zeros(otherwise, name, op) for name in gradients]
    attrs = {"true_block": block, "false_block": otherwise, "is_scalar_condition": op.attrs.get("is_scalar_condition", True)}
    # Names of both blocks in one list, those of the true block first.
    inside = {"original_input": operands * 2, "original_output_grad": cotangents * 2, "original_input_grad": results + zeros}
    inputs = {"Cond": op.input("Cond"), "X": operands, "Scope": op.input("Scope"), f"Out{GRAD}": cotangents}
    return _like(op, "if_else_grad", inputs, {f"X{GRAD}": list(gradients.values())}, **attrs, **inside)


def _loop_gradient(op: Operator, forward: Block) -> Operator:
    """Cotangents of what the loop carries come first, in pairs; then those of what it only reads, which add up over the iterations.

    A block of Paddle's has one name for the cotangent that comes in and for the one that goes out, and reads what a loop carries as it
    was at the start of the iteration; a counter that it counts back comes in and goes out, too.
    """
    block: Block = op.attrs["sub_block"]
    gradients = {x: g for x, g in zip(op.input("X"), op.output(f"X{GRAD}"), strict=False) if EMPTY not in (x, g)}
    outer_names, inner_names = list(op.input(f"Out{GRAD}")), list(op.attrs.get("original_output_grad") or op.input(f"Out{GRAD}"))
    # Paddle's gradient counts the forward counter down again: it is carried like a cotangent.
    counters = [name for name in op.input("Out") if _is_counted_back(forward, block, name)]
    gradients.update(zip(counters, counters, strict=True))
    outer_names, inner_names = [*outer_names, *counters], [*inner_names, *counters]
    carried_names = [name.removesuffix(GRAD) for name in inner_names]
    unknown = [name for name in gradients if name in op.input("Out") and name not in carried_names]
    if unknown or len(inner_names) != len(outer_names):
        raise InvalidValue(
            located(f"operator {op.type!r}: nothing says what the cotangent of {(unknown or inner_names)[0]!r} starts from", op.source)
        )
    for name in [name for name in read_first(block) if name in op.input("Out") and name not in counters]:
        _read_saved(block, forward, name, op)
    around = [n for n in read_first(block) if n not in inner_names and n not in forward.vars and n not in block.vars]
    captures = [name for name in gradients if name not in carried_names]
    operands = list(dict.fromkeys([*captures, *around]))
    written_names = {name for candidate in block.ops for name in candidate.output_names()}
    for name in (*operands, *inner_names):
        block.vars[name] = _argument(op.block, block, name)
    # A cotangent that the block does not write is the same in the iteration before.
    results = [_next(block, name, op) if name in written_names else name for name in inner_names]
    sums = [name + GRAD if name + GRAD in written_names else _zeros(block, name, op) for name in captures]
    slots = {"X": operands, "StepScopes": op.input("StepScopes"), f"Out{GRAD}": outer_names}
    names = {"original_input": operands, "original_output_grad": inner_names, "original_input_grad": [*results, *sums]}
    cotangents = [*(gradients.get(name, EMPTY) for name in carried_names), *(gradients[name] for name in captures)]
    return _like(op, _LOOP_GRAD, slots, {f"X{GRAD}": cotangents}, sub_block=block, **names)


def _is_counted_back(forward: Block, block: Block, name: str) -> bool:
    """Whether a loop counts in place what its gradient's block counts back: Paddle keeps no copy of that for the iterations.

    Its value goes through the iterations of the gradient as a cotangent does, from the one that it has where the gradient runs.
    """
    in_place = [op for op in forward.ops if name in op.input_names() and name in op.output_names()]
    return bool(in_place) and any(name in op.input_names() and name in op.output_names() for op in block.ops)


def _read_saved(block: Block, forward: Block, name: str, op: Operator) -> None:
    """Let a gradient's block read what is carried as it was at the start of the iteration, of which the loop's block keeps a copy."""
    first = next((i for i, reader in enumerate(forward.ops) if name in reader.output_names()), len(forward.ops))
    if any(name in reader.input_names() for reader in forward.ops[first:]):
        raise InvalidValue(
            located(f"operator {op.type!r}: its loop reads {name!r} again after writing it, so that it has no one value", op.source)
        )
    # The name itself is written again in the iteration; gradients need what it was at its start.
    copy_name = f"{name}@SAVED"
    if copy_name not in forward.vars:
        var = _argument(forward, forward, name)
        forward.vars[copy_name] = Variable.trusted(forward, copy_name, var._shape, var._dtype, var.stop_gradient, var.type)
        forward.ops.insert(first, Operator(forward, "assign", {"X": [name]}, {"Out": [copy_name]}, {}, op.role, op.source, op.made_by))
    for reader in block.ops:
        reader.inputs = {slot: [copy_name if n == name else n for n in names] for slot, names in reader.inputs.items()}


def _next(block: Block, name: str, op: Operator) -> str:
    """The cotangent for the iteration before, under a name of its own, at the end of a block."""
    return _appended(block, "assign", name, name, op)


def _argument(around: Block, block: Block, name: str) -> Variable:
    if not around.has_var_recursive(name):
        return Variable(block, name)
    var = around.var_recursive(name)
    return Variable.trusted(block, name, var._shape, var._dtype, var.stop_gradient, var.type)


def _zeros(block: Block, name: str, op: Operator) -> str:
    """Zeros like an argument, under a new name, at the end of a block."""
    return _appended(block, "fill_zeros_like", name, name + GRAD, op)


def _appended(block: Block, op_type: str, name: str, stem: str, op: Operator) -> str:
    """The result of an operator on a variable, at the end of a block; of the variable's type, its name made of a stem."""
    like, result = block.vars[name], block.program.names.generate(stem)
    block.vars[result] = Variable.trusted(block, result, like._shape, like._dtype, False, like.type)
    block.ops.append(Operator(block, op_type, {"X": [name]}, {"Out": [result]}, {}, op.role, op.source, op.made_by))
    return result


def _like(op: Operator, op_type: str, inputs: Names, outputs: Names, **attrs: object) -> Operator:
    """Another operator in the place of one."""
    return Operator(op.block, op_type, inputs, outputs, attrs, op.role, op.source, op.made_by)
