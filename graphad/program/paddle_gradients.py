"""Paddle's gradients of branches in graphad's form: what ``conditional_block_grad`` does by name becomes an ``if_else_grad``.

Paddle runs the gradient's block in the scope that the branch kept: it finds forward values, Out@GRAD and what is around by name, and
gives zeros where the branch was not taken or has no gradient. ``if_else_grad`` says all of that: its block is inside the forward block,
what is not of the forward block is passed in, and a second block makes the zeros. A program keeps Paddle's operators, and its bytes,
until it is lowered or run.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphad.errors import InvalidValue
from graphad.ops import GRAD
from graphad.program.block import Block
from graphad.program.operator import EMPTY, Names, Operator
from graphad.program.program import Program
from graphad.program.source import located
from graphad.program.variable import Variable

_BRANCH_GRAD = "conditional_block_grad"


def in_own_form(program: Program) -> Program:
    """The program itself, or a copy in graphad's form if it has gradients of branches in Paddle's.

    Raises:
        ValueError: the forward operator of such a gradient is not in the program, or cannot be told.
    """
    if not _has_branch_gradients(program):
        return program
    copy = program.clone()
    rewrite_gradients(copy)
    return copy


def rewrite_gradients(program: Program) -> None:
    """Bring the gradients of branches into graphad's form, in place; ``in_own_form`` says which errors there are."""
    if not _has_branch_gradients(program):
        return
    forward = {op: _forward_block(program, op) for op in _branch_gradients(program)}
    for op, block in forward.items():
        op.attrs["sub_block"].parent_idx = block.idx
    for block in program.blocks:
        block.ops = [_chosen_gradient(op) if op.type == "select_output" and not op.input("Like") else op for op in block.ops]
    # The innermost first: what a gradient reads includes what the gradients in it read.
    for op in sorted(forward, key=lambda op: _depth(op, forward), reverse=True):
        block = op.block
        block.ops = [_branch_gradient(op, forward[op]) if candidate is op else candidate for candidate in block.ops]


def _has_branch_gradients(program: Program) -> bool:
    return len(program.blocks) > 1 and any(True for _ in _branch_gradients(program))


def _branch_gradients(program: Program) -> Iterator[Operator]:
    return (op for block in program.blocks for op in block.ops if op.type == _BRANCH_GRAD)


def _forward_block(program: Program, op: Operator) -> Block:
    """The block of the operator that wrote the scope which a gradient reads."""
    (scope,) = op.input("Scope") if len(op.input("Scope")) == 1 else ("",)
    operators = [
        writer for block in program.blocks for writer in block.ops if writer.type == "conditional_block" and scope in writer.output("Scope")
    ]
    if len(operators) != 1:
        message = f"operator {op.type!r} is the gradient of the conditional_block that writes the scope {scope!r}; {len(operators)} do"
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
    read_names = _read_first(block)
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
    inside = {"original_input": operands * 2, "original_output_grad": cotangents * 2, "original_input_grad": results + zeros}
    inputs = {"Cond": op.input("Cond"), "X": operands, "Scope": op.input("Scope"), f"Out{GRAD}": cotangents}
    return _like(op, "if_else_grad", inputs, {f"X{GRAD}": list(gradients.values())}, **attrs, **inside)


def _read_first(block: Block) -> dict[str, None]:
    """The names that a block reads before it writes them."""
    read_names: dict[str, None] = {}
    written_names: set[str] = {EMPTY}
    for op in block.ops:
        read_names.update(dict.fromkeys(name for name in op.input_names() if name not in written_names))
        written_names.update(op.output_names())
    return read_names


def _argument(around: Block, block: Block, name: str) -> Variable:
    if not around.has_var_recursive(name):
        return Variable(block, name)
    var = around.var_recursive(name)
    return Variable.trusted(block, name, var._shape, var._dtype, var.stop_gradient, var.type)


def _zeros(block: Block, name: str, op: Operator) -> str:
    """Zeros like an argument, under a new name, at the end of a block."""
    like = block.vars[name]
    zeros = block.program.names.generate(name + GRAD)
    block.vars[zeros] = Variable.trusted(block, zeros, like._shape, like._dtype, False, like.type)
    block.ops.append(Operator(block, "fill_zeros_like", {"X": [name]}, {"Out": [zeros]}, {}, op.role, op.source, op.made_by))
    return zeros


def _like(op: Operator, op_type: str, inputs: Names, outputs: Names, **attrs: object) -> Operator:
    """Another operator in the place of one."""
    return Operator(op.block, op_type, inputs, outputs, attrs, op.role, op.source, op.made_by)
