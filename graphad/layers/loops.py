"""The parts of a loop over functions: variables of its own, the condition before it, the body that overwrites them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers import nest
from graphad.layers.blocks import overwrite
from graphad.layers.helper import LayerHelper
from graphad.layers.values import checked_values, constant, copied, described, one_boolean, value_dtype, value_type
from graphad.program import TENSOR_ARRAY, Block, Variable
from graphad.program.source import at_users_line
from graphad.types import Shape, checked_shape

Function = Callable[..., Any]


def checked_loop_vars(loop_vars: Any) -> list[Any]:
    """The leaves of the loop variables; TypeError if one is no value."""
    if not isinstance(loop_vars, list | tuple):
        raise InvalidType(f"loop_vars is {loop_vars!r}; a list of variables is expected")
    values = nest.flatten(loop_vars)
    if not values:
        raise InvalidValue("loop_vars is empty; a loop has at least one variable")
    checked_values("loop_vars", values)
    return values


def checked_invariants(shapes: Any, count: int) -> list[Shape | None]:
    """A shape for each loop variable, None where nothing is said."""
    if shapes is None:
        return [None] * count
    if not isinstance(shapes, list | tuple):
        raise InvalidType(f"shape_invariants is {shapes!r}; a list of shapes is expected")
    if len(shapes) != count:
        raise InvalidValue(f"shape_invariants has {len(shapes)} shapes for {count} loop variables")
    return [None if shape is None else checked_shape(shape) for shape in shapes]


def start(block: Block, helper: LayerHelper, i: int, value: Any, shape: Shape | None) -> Variable:
    """A loop variable of its own."""
    key = f"{helper.name}.tmp"
    var = copied(block, key, value) if isinstance(value, Variable) else constant(block, key, value)
    if shape is not None:
        old, dtype = var.declared
        if old is not None and not _holds(shape, old):
            raise ShapeError(f"shape_invariants[{i}] is {list(shape)}, but the loop variable starts as {described(var)}")
        var.declare(shape, dtype)
    return var


def first_condition(block: Block, helper: LayerHelper, cond: Function, args: Any) -> Variable:
    """The condition before the loop, in a variable that the loop may overwrite."""
    before, test = len(block.ops), cond(*args)
    with at_users_line("layers.while_loop"):
        test = one_boolean("cond returns", test)
    made = any(test.name in op.output_names() for op in block.ops[before:])
    return test if made else copied(block, f"{helper.name}.tmp", test)


def write_body(
    block: Block, helper: LayerHelper, cond: Function, body: Function, loop_vars: Any, carried: list[Variable], condition: Variable
) -> None:
    """The body, the condition on its results, and the loop variables overwritten with them."""
    declared = [var.declared for var in carried]
    given = body(*nest.pack(loop_vars, carried))
    _declare_again(carried, declared)
    with at_users_line("layers.while_loop"):
        results = _results(block, helper, given, loop_vars, carried)
    test = cond(*nest.pack(loop_vars, results))
    with at_users_line("layers.while_loop"):
        again = one_boolean("cond returns", test)
        if None not in (again.tensor_type, condition.tensor_type) and again.shape != condition.shape:
            raise ShapeError(f"cond returns {described(condition)} before the loop, but {described(again)} after body")
    overwrite(block, f"{helper.name}.tmp", [*zip(carried, results, strict=True), (condition, again)])
    _declare_again(carried, declared)


def _declare_again(carried: list[Variable], declared: list[tuple[Shape | None, str | None]]) -> None:
    """Forget what operators that write a loop variable say of its shape: that holds in one iteration only."""
    for var, (shape, dtype) in zip(carried, declared, strict=True):
        if var.type != TENSOR_ARRAY:
            var.declare(shape, dtype)


def _results(block: Block, helper: LayerHelper, given: Any, loop_vars: Any, carried: list[Variable]) -> list[Variable]:
    """The results of the body, one Variable for each loop variable."""
    structure = nest.pack(loop_vars, carried)
    if len(loop_vars) == 1 and nest.difference(structure, given) and not nest.difference(structure[0], given):
        given = [given]
    found = nest.difference(loop_vars, given)
    if found is not None:
        path, ours, theirs = found
        raise InvalidValue(f"body returns {theirs}, but loop_vars has {ours}{' at ' if path else ''}{nest.subscripts(path)}")
    checked_values("what body returns", nest.flatten(given))
    pairs = list(nest.paired(structure, given))
    for path, var, value in pairs:
        _check_kept(path, var, value)
    key = f"{helper.name}.tmp"
    return [value if isinstance(value, Variable) else constant(block, key, value, var.tensor_type) for _, var, value in pairs]


def _check_kept(path: nest.Path, var: Variable, value: Any) -> None:
    """A loop variable stays what it is: tensor or array, its dtype, its rank, its known extents."""
    is_array = isinstance(value, Variable) and value.type == TENSOR_ARRAY
    old, new = var.tensor_type, value_type(value, var.tensor_type)
    dtypes = {var.declared[1], value_dtype(value, old)} - {None}
    fits = is_array or old is None or new is None or _holds(old.shape, new.shape)
    if fits and len(dtypes) < 2 and is_array == (var.type == TENSOR_ARRAY):
        return
    shown = f"{value.name!r}, {described(value)}" if isinstance(value, Variable) else f"{value!r}, {new}"
    hint = ""
    if old is not None and new is not None and len(dtypes) == 1 and len(old.shape) == len(new.shape):
        hint = "; shape_invariants, or -1 in the shape it starts with, says that an extent may change"
    raise ShapeError(f"loop variable {path[0]}{nest.subscripts(path[1:])} is {described(var)}, but body returns {shown}{hint}")


def _holds(shape: Shape, other: Shape) -> bool:
    """Whether whatever has the second shape has the first one too."""
    return len(shape) == len(other) and all(a in (-1, b) for a, b in zip(shape, other, strict=True))
