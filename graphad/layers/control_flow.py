"""Loops and branches over functions: ``while_loop``, ``cond``, ``case``, ``switch_case``.

A loop works on copies of its variables, so that what they start from stays as it is, also where the body reads it:

    i, y = while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * w], [0, x])

    j = 0; y = x; go = j < 3
    while(go) { k = j + 1; z = y * w; more = k < 3      all that is returned is computed
                j = k; y = z; go = more }               before anything is overwritten
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers import nest
from graphad.layers.blocks import append_holder, new_block
from graphad.layers.branches import Branch, branched
from graphad.layers.helper import LayerHelper, layer
from graphad.layers.loops import checked_invariants, checked_loop_vars, first_condition, start, write_body
from graphad.layers.values import constant, described, one_boolean
from graphad.program import TENSOR_ARRAY, Variable
from graphad.program.source import at_users_line
from graphad.types import INTS

Function = Callable[..., Any]


def _check_functions(**functions: Any) -> None:
    for what, function in functions.items():
        if not callable(function):
            raise InvalidType(f"{what} is {function!r}; a function is expected")


# -- loops ---------------------------------------------------------------------------------------


@layer
def while_loop(
    cond: Function,
    body: Function,
    loop_vars: Sequence[Any],
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
        TypeError: ``cond`` or ``body`` is no function, a loop variable no value, the condition no Variable.
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
        carried = [start(around, helper, i, value, shape) for i, (value, shape) in enumerate(zip(values, shapes, strict=True))]
    condition = first_condition(around, helper, cond, nest.pack(loop_vars, carried))
    with new_block(helper.main) as block:
        write_body(block, helper, cond, body, loop_vars, carried, condition)
    append_holder(around, "while", [condition], {"sub_block": block}, [var.name for var in carried], attrs={"is_test": is_test})
    return nest.pack(loop_vars, carried)


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
        TypeError: ``pred`` is no Variable, ``true_fn`` or ``false_fn`` no function, what one returns no value.
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
        TypeError: what is given is no list of pairs, a test no Variable, a function no function.
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


def _checked_pairs(pairs: Any) -> list[tuple[Variable, Function]]:
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
    *tested, (test, last) = branches if default is None else [*branches, (None, Branch("default", default))]
    if not tested:
        return last.function() if last.function else None
    (test, first), *rest = tested
    assert test is not None
    following = rest[0][1].label if rest else last.label
    otherwise = Branch(following, partial(_chosen, layer, [*rest, (None, last)], None, name))
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
        TypeError: ``branch_index`` is no Variable, an index no int, a function no function.
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
    indices = list(functions) if default is not None else list(functions)[:-1]
    tests = [_is_index(helper, branch_index, index) for index in indices]
    return _chosen("layers.switch_case", list(zip_longest(tests, branches)), default, name)


def _check_index(index: Any) -> None:
    if not isinstance(index, Variable):
        raise InvalidType(f"branch_index is {index!r}; an integer Variable of one element is expected")
    shape, dtype = index.declared
    if dtype not in INTS or dtype == "bool" or index.type == TENSOR_ARRAY or any(extent not in (1, -1) for extent in shape or ()):
        raise ShapeError(f"branch_index is {index.name!r}, {described(index)}; an integer Variable of one element is expected")


def _checked_branches(functions: Any) -> dict[int, Function]:
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
    found = {int(index): function for index, function in sorted(items, key=lambda item: int(item[0]))}
    if len(found) < len(items):
        raise InvalidValue(f"branch_fns has an index twice: {', '.join(str(index) for index, _ in items)}")
    return found


def _indexed(i: int, item: Any) -> tuple[Any, Any]:
    return (item[0], item[1]) if isinstance(item, list | tuple) and len(item) == 2 else (i, item)


def _is_index(helper: LayerHelper, branch_index: Variable, index: int) -> Variable:
    number = constant(helper.main.current_block(), f"{helper.name}.index", index, branch_index.tensor_type)
    test = helper.append("equal", {"X": branch_index, "Y": number})
    test.stop_gradient = True
    return test
