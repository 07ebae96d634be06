"""Programs of nested blocks, written down as rows: ``nested(constant("y", 1), net(add("y", "x", "y")), x=[1])``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import graphad as ga
from tests.execution.test_executor import run

N, FLAG = ([1], "int64"), ([1], "bool")  # declarations: a whole number, a condition


@dataclass(frozen=True)
class Do:
    """An operator with one output, and attributes."""

    type: str
    inputs: dict[str, Any]
    output: str
    attrs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Local:
    """A float32 variable of one element that a block declares."""

    name: str


@dataclass(frozen=True)
class Control:
    """An operator with blocks: what decides, and what stands in each block."""

    type: str
    condition: dict[str, Any]
    blocks: dict[str, tuple[Row, ...]]
    attrs: tuple[tuple[str, Any], ...] = ()


Row = Do | Local | Control
Rows = Sequence[Row]


def do(op_type: str, inputs: dict[str, Any], output: str, **attrs: Any) -> Do:
    return Do(op_type, inputs, output, tuple(attrs.items()))


def add(x: str, y: str, out: str) -> Do:
    return do("elementwise_add", {"X": x, "Y": y}, out)


def let(out: str, x: str) -> Do:
    return do("assign", {"X": x}, out)


def constant(out: str, value: float, dtype: str = "float32") -> Do:
    return do("fill_constant", {}, out, shape=[1], value=float(value), dtype=dtype)


def while_(condition: str, *body: Row, **attrs: Any) -> Control:
    return Control("while", {"Condition": condition}, {"sub_block": body}, tuple(attrs.items()))


def count_to(limit: str, *body: Row, i: str = "i") -> list[Do | Control]:
    """The body for i = 0, 1, ... below the limit."""
    below = do("less_than", {"X": i, "Y": limit}, f"{i}_goes_on")
    return [constant(i, 0, "int64"), below, while_(f"{i}_goes_on", *body, do("increment", {"X": i}, i), below)]


def if_else(condition: str | list[str], true: Rows, false: Rows = (), **attrs: Any) -> Control:
    return Control("if_else", {"Cond": condition}, {"true_block": tuple(true), "false_block": tuple(false)}, tuple(attrs.items()))


def when(condition: str | list[str], *body: Row, **attrs: Any) -> Control:
    return Control("conditional_block", {"Cond": condition}, {"sub_block": body}, tuple(attrs.items()))


def net(*body: Row) -> Control:
    return Control("net", {}, {"sub_block": body})


def nested(*rows: Row, **variables: list[int] | tuple[list[int], str]) -> ga.Program:
    """Variables (float32 unless a dtype is given), then what stands in block 0."""
    program = ga.Program()
    for name, declared in variables.items():
        shape, dtype = declared if isinstance(declared, tuple) else (declared, "float32")
        program.global_block().create_var(name, shape, dtype)
    append(program.global_block(), *rows)
    return program


def append(block: ga.Block, *rows: Row) -> None:
    """Append to a block what the rows say; what an operator with blocks reads and writes outside is found."""
    for row in rows:
        if isinstance(row, Do):
            block.append_op(row.type, row.inputs, {"Out": row.output}, dict(row.attrs))
        elif isinstance(row, Local):
            block.create_var(row.name, [1], "float32")
        else:
            _append_control(block, row)


def _append_control(block: ga.Block, row: Control) -> None:
    program = block.program
    blocks = {}
    for attr, rows in row.blocks.items():
        blocks[attr] = program.create_block(block.idx)
        append(blocks[attr], *rows)
        program.rollback()
    reads, writes = (sorted({n for b in blocks.values() for n in found(b)}) for found in (_reads, _writes))
    operands = "Input" if row.type == "conditional_block" else "X"
    scopes = {"StepScopes" if row.type == "while" else "Scope": f"scopes{max(b.idx for b in blocks.values())}"}
    inputs = {operands: [n for n in reads if n not in row.condition.values()], **row.condition}
    block.append_op(row.type, inputs, {"Out": writes, **scopes}, {**blocks, **dict(row.attrs)})


def _reads(block: ga.Block) -> Iterator[str]:
    return (name for op in block.ops for name in op.input_names() if name not in block.vars)


def _writes(block: ga.Block) -> Iterator[str]:
    return (name for op in block.ops for name in op.output_names() if name not in block.vars)


def fetched(program: ga.Program, fetch: str, **feed: Any) -> Any:
    """The value of one name as a list."""
    (got,) = run(program, feed, [fetch])
    return got.tolist()


def summing() -> ga.Program:
    """s = s + x, n times."""
    return nested(*count_to("n", add("s", "x", "s")), n=N, s=[1], x=[1])
