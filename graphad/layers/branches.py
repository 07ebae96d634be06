"""Two functions as the two blocks of one ``if_else``: what they return is put together leaf by leaf.

y = cond(p, lambda: x * 2, lambda: x)   ⇒   if_else(Cond=p, X=x) -> (Out=y)
                                                true_block  { t = x * 2; y = t }
                                                false_block { y = x }
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from graphad.errors import InvalidValue, ShapeError
from graphad.layers import nest
from graphad.layers.blocks import append_holder, new_block
from graphad.layers.helper import LayerHelper
from graphad.layers.values import checked_values, described, stopped_unless_float, value_dtype, value_type, write_literal
from graphad.program import TENSOR, TENSOR_ARRAY, Block, Program, Variable
from graphad.program.source import at_users_line
from graphad.types import Shape, TensorType


class Branch(NamedTuple):
    """A function (None: nothing to do), and its name in messages."""

    label: str
    function: Callable[[], Any] | None


class _Built(NamedTuple):
    """The block of a branch, and the result of its function."""

    label: str
    block: Block
    result: Any


def branched(layer: str, helper: LayerHelper, pred: Variable, on_true: Branch, on_false: Branch) -> Any:
    """Append an ``if_else`` over two functions; return the values of the one that runs, in the structure of the first."""
    around = helper.main.current_block()
    first, second = _built(helper.main, on_true), _built(helper.main, on_false)
    with at_users_line(layer):
        _check_structures(first, second)
        outs = [_merged(helper, around, (first, a), (second, b), path) for path, a, b in nest.paired(first.result, second.result)]
    blocks, names = {"true_block": first.block, "false_block": second.block}, [out.name for out in outs]
    append_holder(around, "if_else", [pred], blocks, names, fresh=names)
    return nest.pack(first.result, outs)


def _built(program: Program, branch: Branch) -> _Built:
    with new_block(program) as block:
        result = None if branch.function is None else branch.function()
    return _Built(branch.label, block, result)


def _check_structures(first: _Built, second: _Built) -> None:
    found = nest.difference(first.result, second.result)
    if found is not None:
        path, ours, theirs = found
        raise InvalidValue(f"{first.label} returns {ours}, but {second.label} returns {theirs}{_at(path)}")
    for side in (first, second):
        checked_values(f"what {side.label} returns", nest.flatten(side.result))


def _at(path: nest.Path) -> str:
    return f" at {nest.subscripts(path)}" if path else ""


# -- one leaf of the result ----------------------------------------------------------------------


def _merged(helper: LayerHelper, around: Block, first: tuple[_Built, Any], second: tuple[_Built, Any], path: nest.Path) -> Variable:
    """A variable around the branches that each of them gives its value."""
    (_, a), (_, b) = first, second
    a_type, b_type = (value_type(x, value_type(other)) for x, other in ((a, b), (b, a)))
    kind, declared = _joined(a, b, a_type, b_type)
    if declared is None:
        sides = (f"{side.label} returns {_shown(value, t)}" for (side, value), t in ((first, a_type), (second, b_type)))
        raise ShapeError(f"{', but '.join(sides)}{_at(path)}: both must have one shape and dtype")
    out = around.create_var(helper.main.names.generate(f"{helper.name}.tmp"), dtype=declared[1], type=kind)
    for (side, value), t in ((first, a_type), (second, b_type)):
        _put(side.block, out, value, t)
    out.declare(*declared)
    return stopped_unless_float(out)


def _put(block: Block, out: Variable, value: Any, type: TensorType | None) -> None:
    if isinstance(value, Variable):
        block.append_op("assign", {"X": value}, {"Out": out})
    else:
        assert type is not None
        write_literal(block, out.name, value, type)


def _joined(a: Any, b: Any, a_type: TensorType | None, b_type: TensorType | None) -> tuple[str, tuple[Shape | None, str | None] | None]:
    """Kind, and shape and dtype, that two values have in common; None for the latter if they disagree."""
    kinds = [x.type if isinstance(x, Variable) else TENSOR for x in (a, b)]
    dtypes = [value_dtype(a, b_type), value_dtype(b, a_type)]
    if kinds[0] != kinds[1] or (dtypes[0] != dtypes[1] and None not in dtypes):
        return kinds[0], None
    dtype = dtypes[0] or dtypes[1]
    if a_type is None or b_type is None:
        known = (a_type or b_type) if kinds[0] == TENSOR_ARRAY else None
        return kinds[0], (known and known.shape, dtype)
    shape = _either(a_type.shape, b_type.shape, exact=kinds[0] == TENSOR)
    return kinds[0], None if shape is None else (shape, dtype)


def _either(a: Shape, b: Shape, exact: bool) -> Shape | None:
    """The common shape of two; None if the ranks, or (``exact``) known extents, differ."""
    if len(a) != len(b) or (exact and any(x != y and -1 not in (x, y) for x, y in zip(a, b, strict=True))):
        return None
    return tuple(x if x == y else -1 for x, y in zip(a, b, strict=True))


def _shown(value: Any, type: TensorType | None) -> str:
    return f"{value.name!r}, {described(value)}" if isinstance(value, Variable) else f"{value!r}, {type}"
