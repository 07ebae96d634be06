"""First extents of what is fed declared as unknown, in some programs that are drawn."""

from __future__ import annotations

from graphad.errors import GraphadError
from graphad.execution.names import blocks_of
from graphad.ops import lookup
from graphad.program import Program
from graphad.program.operator import check
from graphad.testing.cases import Choices
from graphad.types import TENSOR, Array


def unknown_extent(choices: Choices, program: Program, feeds: dict[str, Array]) -> None:
    """Declare the first extent of what is fed as unknown, in a few programs; not where inference has to know it.

    Where an operator broadcasts a tensor along the first axis, it is done more often, for all that it reads: of two unknown extents one may
    be 1, and nothing that is declared says so.
    """
    arrays = {name: array for name, array in feeds.items() if array.ndim}
    root = program.global_block()
    operands = [[name for name in op.input_names() if name in arrays] for op in root.ops]
    broadcast = [names for names in operands if _is_broadcast([arrays[name] for name in names])]
    if broadcast and choices.boolean():
        open_names = choices.one_of(broadcast)
    elif choices.chance(6):
        open_names = [*arrays] if choices.boolean() else [*arrays][:1]
    else:
        return
    types = {name: var.declared for name, var in root.vars.items()}
    for name in open_names:
        shape, dtype = types[name]
        root.vars[name].declare((-1, *(shape or ())[1:]), dtype)
    # What operators write is what they give of these, as where the program was written so; around blocks it stays as it was.
    if len(program.blocks) == 1 and choices.boolean():
        for name in {name for op in root.ops for name in op.output_names()}.difference(arrays):
            if name in types and root.vars[name].type == TENSOR and not root.vars[name].persistable:
                root.vars[name].declare(None, None)
    # Some operators need to know an extent: the declarations are put back.
    if not type_checks(program) or any(dtype and root.vars[name].declared[1] is None for name, (_, dtype) in types.items()):
        for name, (shape, dtype) in types.items():
            root.vars[name].declare(shape, dtype)


def _is_broadcast(arrays: list[Array]) -> bool:
    """Whether one of some arrays is broadcast along the first axis, the others having as many axes."""
    extents = {array.shape[0] for array in arrays}
    return 1 in extents and len(extents) > 1 and len({array.ndim for array in arrays}) == 1


def type_checks(program: Program) -> bool:
    """Whether what the variables are declared as agrees with what is inferred from those that are fed."""
    try:
        for block in program.blocks:
            for op in block.ops:
                if not blocks_of(op):
                    check(op, lookup(op.type))
    except GraphadError:
        return False
    return True
