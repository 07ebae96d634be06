"""``graphad verify``: everything that is wrong with a program: structure, unknown operators, slots, attributes, types."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from graphad.cli.arguments import DIFFERENT, FINE, PROGRAM, program_in, refused
from graphad.errors import GraphadError
from graphad.interop.formats import FORMATS
from graphad.ir import lower
from graphad.ir.verify import verify
from graphad.ops import REGISTRY, ControlDef
from graphad.program import EMPTY, Block, Operator, Program
from graphad.program.operator import check_known
from graphad.types import TensorType

TEXT = """\
Say everything that is wrong with a program: operators, slots and attributes that are not registered, variables that nothing declares
or writes, types that are not what operators infer, and what makes its graph invalid."""
STATUSES = "The exit status is 0 if nothing is wrong, 1 with a line for each complaint, and 2 if the file is no program."


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("verify", help="say what is wrong with a program", description=TEXT, epilog=STATUSES)
    parser.add_argument("program", nargs="+", metavar="PROGRAM", help=PROGRAM)
    parser.add_argument(
        "--from", dest="source_format", choices=sorted(FORMATS), metavar="FORMAT", help=f"read {' | '.join(sorted(FORMATS))}"
    )
    parser.add_argument("--allow-unknown", action="store_true", help="operators, slots and attributes that are not registered are fine")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    status = FINE
    for path in args.program:
        try:
            # Anything may be read: what is wrong is listed below, all of it and not the first mistake alone.
            program = program_in(path, args.source_format, allow_unknown=True)
        except (GraphadError, OSError) as error:
            return refused(error)
        complaints_ = [*complaints(program, args.allow_unknown)]
        for name in complaints_:
            print(f"{path}: {name}")
        if complaints_:
            status = DIFFERENT
        else:
            blocks, operators = len(program.blocks), sum(len(block.ops) for block in program.blocks)
            print(f"{path}: {_counted(blocks, 'block')}, {_counted(operators, 'operator')}, nothing is wrong")
    return status


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def complaints(program: Program, allow_unknown: bool = False) -> Iterator[str]:
    """The problems, a line or a few each, in the order of the operators."""
    all_known = True
    for block in program.blocks:
        for at, op in enumerate(block.ops):
            for name in _wrong(op, allow_unknown):
                all_known = False
                yield f"block {block.idx}, operator {at}, {name}"
    # A graph is lowered only from operators that are well-formed one by one.
    if all_known:
        yield from _graph(program)


def _wrong(op: Operator, allow_unknown: bool) -> Iterator[str]:
    if not allow_unknown:
        try:
            check_known(op)
        except GraphadError as error:
            yield str(error)
            return
    undeclared_names = [name for name in (*op.input_names(), *op.output_names()) if name != EMPTY and not op.block.has_var_recursive(name)]
    for name in dict.fromkeys(undeclared_names):
        yield f"{op.type}: the variable {name!r} is not declared"
    if not undeclared_names:
        yield from _wrong_types(op, op.block)


def _wrong_types(op: Operator, block: Block) -> Iterator[str]:
    """The declared types that differ from what the operator infers."""
    definition = REGISTRY.get(op.type)
    # Operators with blocks infer their types from the blocks, whose operators are looked at by themselves.
    if definition is None or isinstance(definition, ControlDef):
        return
    types: dict[str, list[TensorType]] = {}
    for slot, names in op.inputs.items():
        operand_types = [block.var_recursive(name).tensor_type for name in names if name != EMPTY]
        # No type is inferred from an operand without one, so nothing can disagree.
        if None in operand_types:
            return
        types[slot] = [type_ for type_ in operand_types if type_ is not None]
    try:
        result_types = definition.infer_types(types, definition.own_attrs(op.attrs))
    except GraphadError as error:
        yield f"{op.type}: {error}"
        return
    for slot, inferred_types in result_types.items():
        for name, type in zip(op.outputs.get(slot, ()), inferred_types, strict=False):
            declared_type = None if name == EMPTY else block.var_recursive(name).tensor_type
            if declared_type is not None and not _agree(declared_type, type):
                yield f"{op.type}: {name} is declared {declared_type}, but {slot} is {type}"


def _agree(declared: TensorType, inferred: TensorType) -> bool:
    if declared.dtype != inferred.dtype or len(declared.shape) != len(inferred.shape):
        return False
    return all(a == b or -1 in (a, b) for a, b in zip(declared.shape, inferred.shape, strict=True))


def _graph(program: Program) -> Iterator[str]:
    try:
        verify(lower(program))
    except GraphadError as error:
        yield f"the graph is not valid: {error}"
