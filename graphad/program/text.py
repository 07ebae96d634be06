"""Programs as text, and read back from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphad.errors import ParseError
from graphad.program.block import Block
from graphad.program.clipping import bounds, listed
from graphad.program.operator import FORWARD, Operator
from graphad.program.source import with_scope
from graphad.program.variable import Parameter, Variable
from graphad.types import TENSOR, bare_or_quoted

if TYPE_CHECKING:
    from graphad.program.program import Program


def print_program(program: Program) -> str:
    """The text of a program, the same for equal programs."""
    seed = f" seed {program.random_seed}" if program.random_seed else ""
    lines = [line for block in program.blocks for line in _block_lines(block)]
    return "\n".join([f"program{seed} {{", *lines, "}", ""])


def _block_lines(block: Block) -> Iterator[str]:
    around = "" if block.parent_idx < 0 else f" in {block.parent_idx}"
    yield f"  block {block.idx}{around} {{"
    for var in block.vars.values():
        yield "    " + print_variable(var)
    for op in block.ops:
        yield "    " + print_operator(op)
    yield "  }"


def print_name(name: str) -> str:
    """The name, quoted if it is not made of plain characters."""
    return bare_or_quoted(name)


def print_variable(var: Variable) -> str:
    """One line for a variable or parameter."""
    shape, dtype = var.declared
    extents = "?" if shape is None else ", ".join(map(str, shape))
    keyword = "param" if isinstance(var, Parameter) else "var"
    return " ".join([f"{keyword} {print_name(var.name)}: {dtype or '?'}[{extents}]", *_flags(var)])


def _flags(var: Variable) -> Iterator[str]:
    if var.type != TENSOR:
        yield var.type
    if isinstance(var, Parameter):
        yield from _parameter_flags(var)
    elif var.persistable:
        yield "persistable"
    # A parameter that is not trained stops gradients anyway: only what differs from that is said.
    if var.stop_gradient != (isinstance(var, Parameter) and not var.trainable):
        yield f"stop_gradient={str(var.stop_gradient).lower()}" if isinstance(var, Parameter) else "stop_gradient"
    if var.error_clip is not None:
        yield f"error_clip={print_value(bounds(var.error_clip))}"


def _parameter_flags(var: Parameter) -> Iterator[str]:
    # What has its default is not printed: texts stay short, and read back the same.
    if not var.trainable:
        yield "fixed"
    if var.learning_rate != 1.0:
        yield f"learning_rate={print_value(var.learning_rate)}"
    if var.regularizer is not None:
        yield f"{var.regularizer.kind}_decay={print_value(float(var.regularizer.coefficient))}"
    if not var.need_clip:
        yield "no_clip"
    if var.gradient_clip is not None:
        yield f"gradient_clip={print_value(listed(var.gradient_clip))}"


def print_operator(op: Operator) -> str:
    """One line for an operator."""
    items = ", ".join(f"{print_name(name)}={print_value(value)}" for name, value in with_scope(op.attrs, op.source).items())
    attrs = f" {{{items}}}" if items else ""
    role = "" if op.role == FORWARD else f" {op.role}"
    return f"{print_name(op.type)}({_print_slots(op.inputs)}) -> ({_print_slots(op.outputs)}){attrs}{role}"


def _print_slots(slots: dict[str, list[str]]) -> str:
    return ", ".join(f"{print_name(slot)}={_print_names(names)}" for slot, names in slots.items())


def _print_names(names: list[str]) -> str:
    return print_name(names[0]) if len(names) == 1 else f"[{', '.join(map(print_name, names))}]"


def print_value(value: object) -> str:
    """An attribute's value; what it reads back as is equal and of the same type."""
    # bool before int, and int's own repr: an extent with a name would print that.
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Block):
        return f"block({value.idx})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(print_value, value))}]"
    raise ParseError(f"an attribute of type {type(value).__name__} has no text form")
