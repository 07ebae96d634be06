"""First extents of what is fed declared as unknown, in some programs that are drawn."""

from __future__ import annotations

from graphad.errors import GraphadError
from graphad.execution.names import blocks_of
from graphad.ops import lookup
from graphad.program import Program
from graphad.program.operator import check
from graphad.testing.cases import Choices
from graphad.types import TENSOR, Array, Shape


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
    # Some operators need to know an extent, or take one that is unknown for 1, as squeeze does: the declarations are put back.
    if not type_checks(program) or not all(_says_less(root.vars[name].declared, declared) for name, declared in types.items()):
        for name, (shape, dtype) in types.items():
            root.vars[name].declare(shape, dtype)


def _says_less(new: tuple[Shape | None, str | None], old: tuple[Shape | None, str | None]) -> bool:
    """Whether a declaration says what another one does, perhaps not all extents."""
    (shape, dtype), (old_shape, old_dtype) = new, old
    if old_shape is None or old_dtype is None:
        return True
    return dtype == old_dtype and shape is not None and len(shape) == len(old_shape) and all(map(_may_be, shape, old_shape))


def _may_be(extent: int, old: int) -> bool:
    return extent in (-1, old)


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
