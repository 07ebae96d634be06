"""Loops and branches over functions: ``while_loop``, ``cond``, ``case``, ``switch_case``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers import nest
from graphad.layers.blocks import append_holder, new_block, overwrite
from graphad.layers.helper import LayerHelper, layer
from graphad.layers.values import (
    checked_values,
    constant,
    copied,
    described,
    one_boolean,
    stopped_unless_float,
    value_dtype,
    value_type,
    write_literal,
)
from graphad.program import TENSOR, TENSOR_ARRAY, Block, Program, Variable
from graphad.program.source import at_users_line
from graphad.types import INTS, Function, Shape, TensorType, checked_shape, common_extent

# -- loops -----------------------------------------------------------------------------------------
# The parts of a loop over functions: variables of its own, the condition before it, the body that overwrites them.


def checked_loop_vars(loop_vars: object) -> list[object]:
    """The leaves of the loop variables; TypeError if one is not a value."""
    if not isinstance(loop_vars, list | tuple):
        raise InvalidType(f"loop_vars is {loop_vars!r}; a list of variables is expected")
    values = nest.flatten(loop_vars)
    if not values:
        raise InvalidValue("loop_vars is empty; a loop has at least one variable")
    checked_values("loop_vars", values)
    return values


def checked_invariants(shapes: object, count: int) -> list[Shape | None]:
    """A shape for each loop variable, None where nothing is said."""
    if shapes is None:
        return [None] * count
    if not isinstance(shapes, list | tuple):
        raise InvalidType(f"shape_invariants is {shapes!r}; a list of shapes is expected")
    if len(shapes) != count:
        raise InvalidValue(f"shape_invariants has {len(shapes)} shapes for {count} loop variables")
    return [None if shape is None else checked_shape(shape) for shape in shapes]


def start(block: Block, helper: LayerHelper, i: int, value: object, shape: Shape | None) -> Variable:
    """A loop variable of its own."""
    key = f"{helper.name}.tmp"
    # A copy, not the variable that is passed: the loop writes to it in each iteration.
    var = copied(block, key, value) if isinstance(value, Variable) else constant(block, key, value)
    if shape is not None:
        old, dtype = var.declared
        if old is not None and not _holds(shape, old):
            raise ShapeError(f"shape_invariants[{i}] is {list(shape)}, but the loop variable starts as {described(var)}")
        # Declared as the invariant says: later iterations may have other extents than the first.
        var.declare(shape, dtype)
    return var


def first_condition(block: Block, helper: LayerHelper, cond: Function, args: Any) -> Variable:
    """The condition before the loop, in a variable that the loop may overwrite."""
    before, test = len(block.ops), cond(*args)
    with at_users_line("layers.while_loop"):
        test = one_boolean("cond returns", test)
    writes_condition = any(test.name in op.output_names() for op in block.ops[before:])
    return test if writes_condition else copied(block, f"{helper.name}.tmp", test)


def write_body(
    block: Block, helper: LayerHelper, cond: Function, body: Function, loop_vars: object, carried: list[Variable], condition: Variable
) -> None:
    """The body, the condition on its results, and the loop variables overwritten with them."""
    declarations = [var.declared for var in carried]
    outputs = body(*nest.pack(loop_vars, carried))
    # Layers of the body may have redeclared a loop variable: for the next iteration it is what it was.
    _declare_again(carried, declarations)
    with at_users_line("layers.while_loop"):
        results = _results(block, helper, outputs, loop_vars, carried)
    # The condition of the next iteration, on the new values; the one of the first is computed before the loop.
    test = cond(*nest.pack(loop_vars, results))
    with at_users_line("layers.while_loop"):
        next_condition = one_boolean("cond returns", test)
        if None not in (next_condition.tensor_type, condition.tensor_type) and next_condition.shape != condition.shape:
            raise ShapeError(f"cond returns {described(condition)} before the loop, but {described(next_condition)} after body")
    overwrite(block, f"{helper.name}.tmp", [*zip(carried, results, strict=True), (condition, next_condition)])
    _declare_again(carried, declarations)


def _declare_again(carried: list[Variable], declared: list[tuple[Shape | None, str | None]]) -> None:
    """Forget what operators that write a loop variable say of its shape: that holds in one iteration only."""
    for var, (shape, dtype) in zip(carried, declared, strict=True):
        if var.type != TENSOR_ARRAY:
            var.declare(shape, dtype)


def _results(block: Block, helper: LayerHelper, results: Any, loop_vars: Any, carried: list[Variable]) -> list[Variable]:
    """The results of the body, one Variable for each loop variable."""
    structure = nest.pack(loop_vars, carried)
    # One loop variable may be returned as it is, unless it is a list itself that looks the same.
    if len(loop_vars) == 1 and nest.difference(structure, results) and not nest.difference(structure[0], results):
        results = [results]
    difference = nest.difference(loop_vars, results)
    if difference is not None:
        path, expected, actual = difference
        raise InvalidValue(f"body returns {actual}, but loop_vars has {expected}{' at ' if path else ''}{nest.subscripts(path)}")
    checked_values("what body returns", nest.flatten(results))
    pairs = list(nest.paired(structure, results))
    for path, var, value in pairs:
        _check_kept(path, var, value)
    key = f"{helper.name}.tmp"
    return [value if isinstance(value, Variable) else constant(block, key, value, var.tensor_type) for _, var, value in pairs]


def _check_kept(path: nest.Path, var: Variable, value: object) -> None:
    """A loop variable stays what it is: tensor or array, its dtype, its rank, its known extents."""
    is_array = isinstance(value, Variable) and value.type == TENSOR_ARRAY
    old, new = var.tensor_type, value_type(value, var.tensor_type)
    # A Python number in the body has no dtype of its own: it takes the variable's.
    dtypes = {var.declared[1], value_dtype(value, old)} - {None}
    has_shape = is_array or old is None or new is None or _holds(old.shape, new.shape)
    if has_shape and len(dtypes) < 2 and is_array == (var.type == TENSOR_ARRAY):
        return
    value_text = f"{value.name!r}, {described(value)}" if isinstance(value, Variable) else f"{value!r}, {new}"
    hint = ""
    if old is not None and new is not None and len(dtypes) == 1 and len(old.shape) == len(new.shape):
        hint = "; shape_invariants, or -1 in the shape it starts with, says that an extent may change"
    raise ShapeError(f"loop variable {path[0]}{nest.subscripts(path[1:])} is {described(var)}, but body returns {value_text}{hint}")


def _holds(shape: Shape, other: Shape) -> bool:
    """Whether whatever has the second shape has the first one too."""
    return len(shape) == len(other) and all(a in (-1, b) for a, b in zip(shape, other, strict=True))


# -- branches --------------------------------------------------------------------------------------
# Two functions as the two blocks of one ``if_else``: what they return is put together leaf by leaf.
#
# y = cond(p, lambda: x * 2, lambda: x)   ⇒   if_else(Cond=p, X=x) -> (Out=y)
#                                                 true_block  { t = x * 2; y = t }
#                                                 false_block { y = x }


class Branch(NamedTuple):
    """A function (None: nothing to do), and its name in messages."""

    label: str
    function: Callable[[], object] | None


class _Built(NamedTuple):
    """The block of a branch, and the result of its function."""

    label: str
    block: Block
    result: object


def branched(layer: str, helper: LayerHelper, pred: Variable, on_true: Branch, on_false: Branch, exact: bool = True) -> Any:
    """Append an ``if_else`` over two functions; return the values of the one that runs, in the structure of the first.

    An extent of which both sides know another number is an error, or not ``exact`` an extent that only a run knows.
    """
    around = helper.main.current_block()
    first, second = _built(helper.main, on_true), _built(helper.main, on_false)
    with at_users_line(layer):
        _check_structures(first, second)
        pairs = nest.paired(first.result, second.result)
        outs = [_merged(helper, around, (first, a), (second, b), path, exact) for path, a, b in pairs]
    blocks, names = {"true_block": first.block, "false_block": second.block}, [out.name for out in outs]
    append_holder(around, "if_else", [pred], blocks, names, fresh=names)
    return nest.pack(first.result, outs)


def _built(program: Program, branch: Branch) -> _Built:
    with new_block(program) as block:
        result = None if branch.function is None else branch.function()
    return _Built(branch.label, block, result)


def _check_structures(first: _Built, second: _Built) -> None:
    difference = nest.difference(first.result, second.result)
    if difference is not None:
        path, left, right = difference
        raise InvalidValue(f"{first.label} returns {left}, but {second.label} returns {right}{_at(path)}")
    for side in (first, second):
        checked_values(f"what {side.label} returns", nest.flatten(side.result))


def _at(path: nest.Path) -> str:
    return f" at {nest.subscripts(path)}" if path else ""


# -- one leaf of the result ----------------------------------------------------------------------


def _merged(
    helper: LayerHelper, around: Block, first: tuple[_Built, object], second: tuple[_Built, object], path: nest.Path, exact: bool
) -> Variable:
    """A variable around the branches that each of them gives its value."""
    (_, a), (_, b) = first, second
    # Each side's type is read beside the other's, so that a number becomes what the other branch returns.
    a_type, b_type = (value_type(x, value_type(context)) for x, context in ((a, b), (b, a)))
    kind, declaration = _joined(a, b, a_type, b_type, exact)
    if declaration is None:
        # Written into one variable in both blocks: an operator's results are those of the branch that ran.
        sides = (f"{side.label} returns {_shown(value, t)}" for (side, value), t in ((first, a_type), (second, b_type)))
        raise ShapeError(f"{', but '.join(sides)}{_at(path)}: both must have one shape and dtype")
    out = around.create_var(helper.main.names.generate(f"{helper.name}.tmp"), dtype=declaration[1], type=kind)
    for (side, value), t in ((first, a_type), (second, b_type)):
        _put(side.block, out, value, t)
        out.declare(*declaration)  # what one side says of its shape does not hold of the other
    return stopped_unless_float(out)


def _put(block: Block, out: Variable, value: object, type: TensorType | None) -> None:
    if isinstance(value, Variable):
        block.append_op("assign", {"X": value}, {"Out": out})
    else:
        assert type is not None
        write_literal(block, out.name, value, type)


def _joined(
    a: object, b: object, a_type: TensorType | None, b_type: TensorType | None, exact: bool
) -> tuple[str, tuple[Shape | None, str | None] | None]:
    """Kind, and shape and dtype, that two values have in common; None for the latter if they disagree."""
    kinds = [x.type if isinstance(x, Variable) else TENSOR for x in (a, b)]
    dtypes = [value_dtype(a, b_type), value_dtype(b, a_type)]
    if kinds[0] != kinds[1] or (dtypes[0] != dtypes[1] and None not in dtypes):
        return kinds[0], None
    dtype = dtypes[0] or dtypes[1]
    if a_type is None or b_type is None:
        element_type = (a_type or b_type) if kinds[0] == TENSOR_ARRAY else None
        return kinds[0], (element_type and element_type.shape, dtype)
    # Arrays may hold tensors of several shapes, so theirs need not agree to the last extent.
    shape = _either(a_type.shape, b_type.shape, exact=exact and kinds[0] == TENSOR)
    return kinds[0], None if shape is None else (shape, dtype)


def _either(a: Shape, b: Shape, exact: bool) -> Shape | None:
    """The common shape of two; None if the ranks, or (``exact``) known extents, differ."""
    if len(a) != len(b) or (exact and any(x != y and -1 not in (x, y) for x, y in zip(a, b, strict=True))):
        return None
    return tuple(map(common_extent, a, b))


def _shown(value: object, type: TensorType | None) -> str:
    return f"{value.name!r}, {described(value)}" if isinstance(value, Variable) else f"{value!r}, {type}"


# -- control flow ----------------------------------------------------------------------------------
# Loops and branches over functions: ``while_loop``, ``cond``, ``case``, ``switch_case``.
#
# A loop works on copies of its variables, so that what they start from stays as it is, also where the body reads it:
#
#     i, y = while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * w], [0, x])
#
#     j = 0; y = x; go = j < 3
#     while(go) { k = j + 1; z = y * w; more = k < 3      all that is returned is computed
#                 j = k; y = z; go = more }               before anything is overwritten


def _check_functions(**functions: object) -> None:
    for label, function in functions.items():
        if not callable(function):
            raise InvalidType(f"{label} is {function!r}; a function is expected")


# -- loops ---------------------------------------------------------------------------------------


@layer
def while_loop(
    cond: Function,
    body: Function,
    loop_vars: Sequence[object],
    is_test: bool = False,
    name: str | None = None,
    shape_invariants: Sequence[Sequence[int] | None] | None = None,
) -> Any:
    """Run ``body`` on the loop variables again and again while ``cond`` of them holds.

    Args:
        cond: takes the loop variables and returns a boolean Variable of one element.
        body: takes them and returns their next values in the same structure; a single one need not be in a list.
        loop_vars: what they start from: a list of Variables (also arrays of tensors), numbers and numpy arrays, which may be in
            lists, tuples and dicts of their own. A number becomes an int64, float32 or bool of shape [].
        is_test: say that no gradient will be requested.
        shape_invariants: a shape for each variable, with -1 where an iteration may change the extent, or None.

    Returns:
        The final values in the structure of ``loop_vars``. What they started from is not changed.

    Raises:
        TypeError: ``cond`` or ``body`` is not a function, a loop variable is not a value, or the condition is not a Variable.
        ValueError: what ``body`` returns has another structure than ``loop_vars``.
        ShapeError: it has another shape or dtype; the condition is not one boolean.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[2], append_batch_size=False)
    ...     i, y = ga.layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * x], [0, x])
    >>> ga.Executor().run(program, feed={"x": [2.0, 3.0]}, fetch_list=[i, y, x])
    [array(3), array([16., 81.], dtype=float32), array([2., 3.], dtype=float32)]
    """
    with at_users_line("layers.while_loop"):
        _check_functions(cond=cond, body=body)
        values = checked_loop_vars(loop_vars)
        shapes = checked_invariants(shape_invariants, len(values))
        helper = LayerHelper("while_loop", name)
        around = helper.main.current_block()
        # Copies: the loop overwrites its variables, and what was passed in keeps its value.
        variables = [start(around, helper, i, value, shape) for i, (value, shape) in enumerate(zip(values, shapes, strict=True))]
    condition = first_condition(around, helper, cond, nest.pack(loop_vars, variables))
    with new_block(helper.main) as block:
        write_body(block, helper, cond, body, loop_vars, variables, condition)
    append_holder(around, "while", [condition], {"sub_block": block}, [var.name for var in variables], attrs={"is_test": is_test})
    return nest.pack(loop_vars, variables)


# -- branches ------------------------------------------------------------------------------------


@layer
def cond(pred: Variable, true_fn: Function | None = None, false_fn: Function | None = None, name: str | None = None) -> Any:
    """The result of ``true_fn`` if ``pred`` holds, else that of ``false_fn``; only that one runs.

    Args:
        pred: a boolean Variable of one element.
        true_fn, false_fn: functions without arguments that return values in one structure: a Variable (or array of tensors), a
            number or a numpy array, or lists, tuples and dicts of those; None for nothing.

    Returns:
        Variables in the structure of the result of ``true_fn``; an extent that is unknown on one side is -1.

    Raises:
        TypeError: ``pred`` is not a Variable, ``true_fn`` or ``false_fn`` is not a function, or one returns what is not a value.
        ValueError: they return different structures.
        ShapeError: they return different shapes or dtypes; ``pred`` is not one boolean.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[1], append_batch_size=False)
    ...     y = ga.layers.cond(x < 0.0, lambda: x * -1.0, lambda: x)
    >>> ga.Executor().run(program, feed={"x": [-2.0]}, fetch_list=[y])
    [array([2.], dtype=float32)]
    """
    with at_users_line("layers.cond"):
        one_boolean("pred is", pred)
        _check_functions(**{k: f for k, f in (("true_fn", true_fn), ("false_fn", false_fn)) if f is not None})
    helper = LayerHelper("cond", name)
    return branched("layers.cond", helper, pred, Branch("true_fn", true_fn), Branch("false_fn", false_fn))


@layer
def case(pred_fn_pairs: Sequence[tuple[Variable, Function]], default: Function | None = None, name: str | None = None) -> Any:
    """The result of the function of the first pair whose test holds, else that of ``default``; only that one runs.

    Args:
        pred_fn_pairs: pairs of a boolean Variable of one element and a function without arguments.
        default: a function without arguments; the one of the last pair if None.

    Returns:
        As ``cond``.

    Raises:
        TypeError: ``pred_fn_pairs`` is not a list of pairs, a test is not a Variable, or a branch is not a function.
        ValueError: there is no pair; the functions return different structures.
        ShapeError: they return different shapes or dtypes; a test is not one boolean.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[1], append_batch_size=False)
    ...     y = ga.layers.case([(x < 0.0, lambda: x * -1.0), (x < 1.0, lambda: x * 0.0)], default=lambda: x)
    >>> ga.Executor().run(program, feed={"x": [3.0]}, fetch_list=[y])
    [array([3.], dtype=float32)]
    """
    with at_users_line("layers.case"):
        pairs = _checked_pairs(pred_fn_pairs)
        _check_functions(**({} if default is None else {"default": default}))
    branches = [(test, Branch(f"the function of pred_fn_pairs[{i}]", function)) for i, (test, function) in enumerate(pairs)]
    return _chosen("layers.case", branches, default, name)


def _checked_pairs(pairs: object) -> list[tuple[Variable, Function]]:
    if not isinstance(pairs, list | tuple):
        raise InvalidType(f"pred_fn_pairs is {pairs!r}; a list of pairs is expected")
    if not pairs:
        raise InvalidValue("pred_fn_pairs is empty; at least one pair is expected")
    for i, pair in enumerate(pairs):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InvalidType(f"pred_fn_pairs[{i}] is {pair!r}; a pair of a test and a function is expected")
        one_boolean(f"the test of pred_fn_pairs[{i}] is", pair[0])
        _check_functions(**{f"the function of pred_fn_pairs[{i}]": pair[1]})
    return [(test, function) for test, function in pairs]


def _chosen(layer: str, branches: Sequence[tuple[Variable | None, Branch]], default: Function | None, name: str | None) -> Any:
    """The first branch whose test holds; the last one if none does and there is no default."""
    *tests, (test, last) = branches if default is None else [*branches, (None, Branch("default", default))]
    if not tests:
        return last.function() if last.function else None
    (test, first), *rest = tests
    assert test is not None
    next_label = rest[0][1].label if rest else last.label
    # The rest is a branch within the else branch: n tests are n nested ``cond``.
    otherwise = Branch(next_label, partial(_chosen, layer, [*rest, (None, last)], None, name))
    return branched(layer, LayerHelper("cond", name), test, first, otherwise)


@layer
def switch_case(
    branch_index: Variable,
    branch_fns: Mapping[int, Function] | Sequence[Function] | Sequence[tuple[int, Function]],
    default: Function | None = None,
    name: str | None = None,
) -> Any:
    """The result of the function with an index, of ``default`` if none has it; only that one runs.

    Args:
        branch_index: an integer Variable of one element.
        branch_fns: functions without arguments: by index, in pairs with their index, or in a list, whose indices are 0, 1, ...
        default: a function without arguments; the one with the largest index if None.

    Returns:
        As ``cond``.

    Raises:
        TypeError: ``branch_index`` is not a Variable, an index is not an int, or a branch is not a function.
        ValueError: there is no function, or there are two with one index; they return different structures.
        ShapeError: they return different shapes or dtypes; ``branch_index`` is not one integer.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     k = ga.layers.data("k", shape=[1], dtype="int64", append_batch_size=False)
    ...     y = ga.layers.switch_case(k, {2: lambda: 0.5, 7: lambda: 1.5}, default=lambda: -1)
    >>> [float(ga.Executor().run(program, feed={"k": [k]}, fetch_list=[y])[0]) for k in (2, 7, 3)]
    [0.5, 1.5, -1.0]
    """
    with at_users_line("layers.switch_case"):
        _check_index(branch_index)
        functions = _checked_branches(branch_fns)
        _check_functions(**({} if default is None else {"default": default}))
    helper = LayerHelper("switch_case", name)
    branches = [Branch(f"branch_fns[{index}]", function) for index, function in functions.items()]
    # Without a default the last function runs for every other index, as in Fluid.
    indices = list(functions) if default is not None else list(functions)[:-1]
    tests = [_is_index(helper, branch_index, index) for index in indices]
    return _chosen("layers.switch_case", list(zip_longest(tests, branches)), default, name)


def _check_index(index: object) -> None:
    if not isinstance(index, Variable):
        raise InvalidType(f"branch_index is {index!r}; an integer Variable of one element is expected")
    shape, dtype = index.declared
    if dtype not in INTS or dtype == "bool" or index.type == TENSOR_ARRAY or any(extent not in (1, -1) for extent in shape or ()):
        raise ShapeError(f"branch_index is {index.name!r}, {described(index)}; an integer Variable of one element is expected")


def _checked_branches(functions: object) -> dict[int, Function]:
    """The functions by index, in the order of that."""
    if not isinstance(functions, dict | list | tuple):
        raise InvalidType(f"branch_fns is {functions!r}; a dict or a list of functions is expected")
    items = list(functions.items()) if isinstance(functions, dict) else [_indexed(i, item) for i, item in enumerate(functions)]
    if not items:
        raise InvalidValue("branch_fns is empty; at least one function is expected")
    for index, function in items:
        if not isinstance(index, int | np.integer) or isinstance(index, bool):
            raise InvalidType(f"branch_fns has the index {index!r}; an int is expected")
        _check_functions(**{f"branch_fns[{index}]": function})
    # By index: the order of the tests, and with it the text of the program, does not depend on how the dict was written.
    branches = {int(index): function for index, function in sorted(items, key=lambda item: int(item[0]))}
    if len(branches) < len(items):
        raise InvalidValue(f"branch_fns has an index twice: {', '.join(str(index) for index, _ in items)}")
    return branches


def _indexed(i: int, item: object) -> tuple[object, object]:
    return (item[0], item[1]) if isinstance(item, list | tuple) and len(item) == 2 else (i, item)


def _is_index(helper: LayerHelper, branch_index: Variable, index: int) -> Variable:
    number = constant(helper.main.current_block(), f"{helper.name}.index", index, branch_index.tensor_type)
    test = helper.append("equal", {"X": branch_index, "Y": number})
    test.stop_gradient = True
    return test
