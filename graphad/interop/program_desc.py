"""Paddle's serialized programs (ProgramDesc) as graphad programs, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graphad.errors import GraphadError, InvalidType, InvalidValue, ParseError
from graphad.interop.operators import read_operator, write_operator
from graphad.interop.schema import message
from graphad.interop.structure import add_block, check_blocks
from graphad.interop.variables import read_variable, write_variable
from graphad.program import Block, Program

# Version 2.5 is the first with tensors of rank 0; before, no extents meant an unknown shape. 0 is a build of its own.
_SCALARS_SINCE = 2005000


def load_program(data: bytes) -> Program:
    """The program that a serialized ProgramDesc holds, Paddle installed or not.

    Operators that graphad does not know stay in it (``unknown_operators`` lists them) and fail when they are run or
    differentiated. What a program here has no place for is kept and written back by ``dump_program``: an unchanged program is
    written back as the same bytes.

    Raises:
        TypeError: ``data`` is not bytes.
        ParseError: it is not a ProgramDesc, or one that makes no sense; the message says where.
        MissingProtobuf: the protobuf runtime is not installed.

    >>> import graphad as ga
    >>> program = ga.Program.parse("program { block 0 { var x: float32[2] tanh(X=x) -> (Out=x) } }")
    >>> str(load_program(dump_program(program))) == str(program)
    True
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidType(f"a serialized program is bytes, not {type(data).__name__}")
    desc = _parsed(bytes(data))
    program = Program()
    scalars = _has_scalars(desc)
    depths: list[int] = []
    for each in desc.blocks:
        if each.idx != len(depths):
            raise ParseError(f"block {each.idx} is where block {len(depths)} should be")
        add_block(program, depths, each.parent_idx)
    for block, each in zip(program.blocks, desc.blocks, strict=True):
        _read_block(block, each, scalars)
    check_blocks(program)
    desc.ClearField("blocks")
    program.allows_unknown = True  # of another version of Paddle, say
    program.random_seed, program.stored = desc.random_seed, desc.SerializeToString()
    program.names.skip(var.name for var in program.list_vars())
    return program


def _parsed(data: bytes) -> Any:
    desc_class = message("ProgramDesc")
    try:
        desc = desc_class.FromString(data)
    except Exception as error:  # the runtime's DecodeError, whose module is not there without the runtime
        raise ParseError(f"{len(data)} bytes are not a serialized ProgramDesc: {error}") from None
    if not desc.IsInitialized():
        raise ParseError(f"{len(data)} bytes are not a serialized ProgramDesc: it lacks {desc.FindInitializationErrors()[0]}")
    if not desc.blocks:
        raise ParseError(f"{len(data)} bytes are not a serialized ProgramDesc: it has no block")
    return desc


def _has_scalars(desc: Any) -> bool:
    version = int(desc.version.version)
    return version == 0 or version >= _SCALARS_SINCE


def _read_block(block: Block, desc: Any, scalars: bool) -> None:
    for i, each in enumerate(desc.vars):
        with _place(block, "variable", i, each, "name"):
            read_variable(block, each, scalars)
    for i, each in enumerate(desc.ops):
        with _place(block, "operator", i, each, "type"):
            block.ops.append(read_operator(block, each))
    desc.ClearField("vars")
    desc.ClearField("ops")
    block.stored = desc.SerializeToString()


@contextmanager
def _place(block: Block, what: str, i: int, desc: Any, key: str) -> Iterator[None]:
    """Within it, an error says where in the file it is."""
    try:
        yield
    except GraphadError as error:
        raise ParseError(f"block {block.idx}, {what} {i} ({getattr(desc, key)!r}): {error}") from None


# -- writing -------------------------------------------------------------------------------------


def dump_program(program: Program) -> bytes:
    """The program as a serialized ProgramDesc: the same bytes for the same program, and those it was read from if it is unchanged.

    A number that is no float32 is written as FLOAT64 (Paddle has these since 2.5), in ``fill_constant`` as a string as Paddle does.

    Raises:
        TypeError: ``program`` is no Program.
        ValueError: an attribute has no form in the format (a list of lists); the message names the operator.
        MissingProtobuf: the protobuf runtime is not installed.
    """
    if not isinstance(program, Program):
        raise InvalidType(f"dump_program takes a Program, not {program!r}")
    desc = message("ProgramDesc")()
    if program.stored is not None:
        desc.MergeFromString(program.stored)
    if desc.random_seed != program.random_seed:
        with _writing("random_seed"):
            desc.random_seed = program.random_seed
    scalars = _has_scalars(desc)
    for block in program.blocks:
        _write_block(desc.blocks.add(), block, scalars)
    return bytes(desc.SerializeToString(deterministic=True))


def _write_block(desc: Any, block: Block, scalars: bool) -> None:
    if block.stored is not None:
        desc.MergeFromString(block.stored)
    if block.stored is None or (desc.idx, desc.parent_idx) != (block.idx, block.parent_idx):
        desc.Clear()
        desc.idx, desc.parent_idx = block.idx, block.parent_idx
    for var in block.vars.values():
        with _writing(f"block {block.idx}, variable {var.name!r}"):
            write_variable(desc.vars.add(), var, scalars)
    for i, op in enumerate(block.ops):
        with _writing(f"block {block.idx}, operator {i} ({op.type!r})"):
            write_operator(desc.ops.add(), op)


@contextmanager
def _writing(place: str) -> Iterator[None]:
    """Within it, what protobuf cannot hold is an error that says where in the program it is."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidValue(f"{place}: the text {error.object!r} has no form in UTF-8 (it has a lone surrogate)") from None
    except (GraphadError, ValueError, TypeError) as error:
        raise InvalidValue(f"{place}: {error}") from None
