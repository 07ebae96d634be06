"""Errors of nested blocks that are written wrong, or fail while they run, and the state that has to stay as it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import ExecutionError
from tests.execution.test_control_flow_state import counting
from tests.execution.test_executor import run
from tests.nested_programs import FLAG, Control, Local, N, Row, add, count_to, do, if_else, let, nested, net, when, while_


def line_of(program: ga.Program, block: int, op: int) -> str:
    """The pattern of the line on which an operator was written."""
    return re.escape(f"written at {program.block(block).ops[op].source}")


# -- values that are not there -------------------------------------------------------------------


@pytest.mark.parametrize("branch", [when("c", do("tanh", {"X": "x"}, "y")), if_else("c", [do("tanh", {"X": "x"}, "y")])])
def test_what_a_branch_not_taken_left_unwritten_is_named(branch: Control) -> None:
    program = nested(branch, do("scale", {"X": "y"}, "z"), c=FLAG, x=[1], y=[1])
    (z,) = run(program, {"c": [True], "x": [0]}, ["z"])
    assert z.tolist() == [0]
    message = "operator 'scale' reads 'y' before any operator wrote it: no block that writes it has run\n.*"
    with pytest.raises(ValueError, match=message + line_of(program, 0, 1)):
        run(program, {"c": [False], "x": [0]}, ["z"])
    alone = nested(branch, c=FLAG, x=[1], y=[1])
    with pytest.raises(ValueError, match="the fetch list has 'y' before any operator wrote it: no block that writes it has run"):
        run(alone, {"c": [False], "x": [0]}, ["y"])


def test_what_a_loop_without_iterations_left_unwritten_is_named() -> None:
    program = nested(*count_to("n", let("y", "x")), net(do("scale", {"X": "y"}, "z")), n=N, x=[1], y=[1], z=[1])
    with pytest.raises(ValueError, match="'scale' reads 'y' before .* no block that writes it has run\n.*" + line_of(program, 2, 0)):
        run(program, {"n": [0], "x": [1]}, ["z"])


def test_a_local_variable_read_before_it_is_written_is_named() -> None:
    program = nested(net(Local("t"), do("scale", {"X": "t"}, "y")), t=[1], y=[1])
    with pytest.raises(ValueError, match="operator 'scale' reads 't'.*\n.*" + line_of(program, 1, 0)):
        run(program, {"t": [1]}, ["y"])


def test_a_feed_missing_in_a_body_is_named_with_its_reader() -> None:
    program = nested(*count_to("n", add("s", "x", "s")), n=N, s=[1], x=[1])
    message = "operator 'elementwise_add' reads 'x', which is not fed and no operator writes\n.*"
    with pytest.raises(ValueError, match=message + line_of(program, 1, 0)):
        run(program, {"n": [1], "s": [0]}, ["s"])
    assert run(program, {"n": [0], "s": [0]}, ["s"])[0].tolist() == [0]


def test_a_parameter_without_value_in_a_body_says_how_to_get_one() -> None:
    program = nested(s=[1])
    program.global_block().create_parameter("w", [1])
    block = program.create_block()
    block.append_op("elementwise_add", {"X": "s", "Y": "w"}, {"Out": "s"})
    program.rollback()
    program.global_block().append_op("net", {"X": ["s", "w"]}, {"Out": "s"}, {"sub_block": block})
    with pytest.raises(ValueError, match="'w', which has no value in this scope: run the startup program"):
        run(program, {"s": [1]}, ["s"])


def test_rows_of_a_branch_that_did_not_run_are_missed() -> None:
    merge = do("merge_lod_tensor", {"Mask": "m", "InTrue": "a", "InFalse": "b"}, "y")
    program = nested(when("c", let("b", "a")), merge, c=FLAG, m=([3], "bool"), a=[-1, 1], b=[-1, 1])
    with pytest.raises(ExecutionError, match="'merge_lod_tensor' failed: 2 rows are to come from a branch that did not run"):
        run(program, {"c": [False], "m": [True, False, False], "a": [[1]]}, ["y"])


@pytest.mark.parametrize(("index", "message"), [(1, "nothing at index 1"), (3, "index 3 is out of range"), (-1, "index -1")])
def test_an_index_without_an_element_is_named(index: int, message: str) -> None:
    write = [do("write_to_array", {"X": "x", "I": i}, "a") for i in ("zero", "two")]
    program = nested(*write, net(do("read_from_array", {"X": "a", "I": "i"}, "y")), x=[1], zero=N, two=N, i=N, y=[1])
    feed = {"x": [1], "zero": [0], "two": [2], "i": [index]}
    with pytest.raises(ExecutionError, match=f"'read_from_array' failed: .*{message}(.|\n)*I = i: int64.*\n.*" + line_of(program, 1, 0)):
        run(program, feed, ["y"])


# -- operators that fail inside ------------------------------------------------------------------


def test_an_operator_that_fails_inside_shows_its_inputs_and_its_line() -> None:
    program = nested(*count_to("n", when("i_goes_on", add("a", "b", "y"))), n=N, a=[-1, 3], b=[-1, 3], y=[-1, 3])
    inputs = r"  X = a: float32\[2, 3\]\n  Y = b: float32\[4, 3\]\n.*"
    with pytest.raises(ExecutionError, match=r"operator 'elementwise_add' failed: (.|\n)*" + inputs + line_of(program, 2, 0)) as caught:
        run(program, {"n": [3], "a": np.ones((2, 3), "float32"), "b": np.ones((4, 3), "float32")})
    assert caught.value.__cause__ is not None


def test_the_line_is_the_users_own() -> None:
    program = nested(x=[-1, 2], y=[-1, 2])
    block = program.create_block()
    op = block.append_op("elementwise_add", {"X": "x", "Y": "y"}, {"Out": "z"})
    program.rollback()
    program.global_block().append_op("net", {"X": ["x", "y"]}, {}, {"sub_block": block})
    line = test_the_line_is_the_users_own.__code__.co_firstlineno + 3
    assert (op.source.file, op.source.line) == (__file__, line) if op.source else False
    with pytest.raises(ExecutionError, match=re.escape(f"{__file__}:{line}")):
        run(program, {"x": np.ones((2, 2), "float32"), "y": np.ones((3, 2), "float32")})


def test_a_run_that_fails_in_a_loop_leaves_the_scope_as_it_was() -> None:
    program, scope = counting(do("cast", {"X": "n"}, "t", out_dtype="int64"), do("gather", {"X": "x", "Index": "t"}, "u"))
    with pytest.raises(ExecutionError, match="operator 'gather' failed"):
        run(program, {"n": [2], "x": [1]}, scope=scope)
    assert (scope.get("count").tolist(), scope.names(), scope.runs) == ([0], ["count"], 0)


@pytest.mark.parametrize(("x", "what"), [(-1.0, "nan"), (0.0, "an infinity")])
def test_check_finite_names_the_first_operator_in_a_loop(x: float, what: str) -> None:
    body = [do("log", {"X": "x"}, "y"), do("increment", {"X": "x"}, "x", step=-2.0)]
    program = nested(*count_to("n", *body), n=N, x=[1])
    executor, feed = ga.Executor(check_finite=True), {"x": [x + 4]}
    executor.run(program, {**feed, "n": [2]}, scope=ga.Scope())
    with pytest.raises(ExecutionError, match=rf"operator 'log' made {what} in 'y'\n  X = x: float32\[1\]\n.*" + line_of(program, 1, 0)):
        executor.run(program, {**feed, "n": [3]}, scope=ga.Scope())


def test_an_unregistered_operator_fails_only_where_it_runs() -> None:
    root = "block 0 { var c: bool[1] if_else(Cond=c) -> () {true_block=block(1), false_block=block(2)} }"
    program = ga.Program.parse(f"program {{ {root} block 1 in 0 {{ foo() -> () }} block 2 in 0 {{}} }}")
    run(program, {"c": [False]})
    with pytest.raises(ExecutionError, match="operator 'foo' is not registered, so it cannot run"):
        run(program, {"c": [True]})


# -- conditions ----------------------------------------------------------------------------------


def decided(op_type: str, condition: Any) -> ga.Program:
    """A program whose variable ``c`` decides, and is not written."""
    rows: dict[str, Row] = {
        "while": while_("c", let("y", "x")),
        "if_else": if_else("c", [let("y", "x")], [let("y", "x")]),
        "conditional_block": when("c", let("y", "x")),
    }
    return nested(rows[op_type], c=condition, x=[1], y=[1])


CONTROLS = pytest.mark.parametrize("op_type", ["while", "if_else", "conditional_block"])


@CONTROLS
@pytest.mark.parametrize(("shape", "dtype"), [([1], "float32"), ([1], "int64"), ([2], "bool"), ([-1, 3], "bool"), ([0], "bool")])
def test_a_condition_that_is_not_one_boolean_is_refused_where_it_is_written(op_type: str, shape: list[int], dtype: str) -> None:
    given = re.escape(f"{dtype}[{', '.join(map(str, shape))}]")
    with pytest.raises(ValueError, match=rf"operator '{op_type}': Cond(ition)? is {given}; a condition is one boolean(.|\n)*written at"):
        decided(op_type, (shape, dtype))


@CONTROLS
@pytest.mark.parametrize("size", [0, 2])
def test_a_condition_that_turns_out_not_to_be_one_boolean_is_refused(op_type: str, size: int) -> None:
    program = decided(op_type, ([-1], "bool"))
    message = rf"operator '{op_type}': condition 'c' is one boolean, but it is bool\[{size}\]\n.*"
    with pytest.raises(ExecutionError, match=message + line_of(program, 0, 0)):
        run(program, {"c": np.ones(size, bool), "x": [1]}, ["y"])


@CONTROLS
def test_a_condition_without_value_is_named(op_type: str) -> None:
    program = decided(op_type, FLAG)
    with pytest.raises(ValueError, match=f"'{op_type}' reads 'c', which is not fed and no operator writes\n.*" + line_of(program, 0, 0)):
        run(program, {"x": [1]}, ["y"])


# -- feeding and fetching ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inside"])
def test_names_of_a_body_are_neither_fed_nor_fetched(name: str) -> None:
    program = nested(*count_to("n", do("scale", {"X": "x"}, "inside")), n=N, x=[1])
    with pytest.raises(ValueError, match=f"feed has '{name}', which the program does not declare"):
        run(program, {"n": [1], "x": [1], name: [1]})
    with pytest.raises(ValueError, match=f"cannot fetch '{name}': the program has no such variable"):
        run(program, {"n": [1], "x": [1]}, [name])


# -- attributes that hold blocks -----------------------------------------------------------------


def bodied() -> tuple[ga.Program, ga.Block, ga.Block]:
    """A program, a block in its block 0, and a block in that one."""
    program = nested(c=FLAG, x=[1])
    outer = program.create_block()
    inner = program.create_block()
    program.rollback()
    program.rollback()
    return program, outer, inner


@pytest.mark.parametrize("value", ["1", 1.0, True, None, [1], "block(1)"])
def test_what_is_no_block_is_refused(value: Any) -> None:
    program, _, _ = bodied()
    message = re.escape(f"operator 'net': attribute 'sub_block' is a block or its index, not {value!r}")
    refused(program, TypeError, message, lambda b: b.append_op("net", {}, {}, {"sub_block": value}))


@pytest.mark.parametrize("index", [3, -1, 99])
def test_an_index_of_no_block_is_refused(index: int) -> None:
    program, _, _ = bodied()
    message = f"the program has blocks 0 to 2, no block {index}"
    refused(program, ValueError, message, lambda b: b.append_op("net", {}, {}, {"sub_block": index}))


def test_a_block_of_another_program_is_refused() -> None:
    program, _, _ = bodied()
    other = bodied()[1]
    message = "operator 'net': attribute 'sub_block' is a block of another program"
    refused(program, ValueError, message, lambda b: b.append_op("net", {}, {}, {"sub_block": other}))


@pytest.mark.parametrize("held", [0, 1, 2])
@pytest.mark.parametrize("by_index", [True, False])
def test_a_block_cannot_hold_itself(held: int, by_index: bool) -> None:
    program, _, inner = bodied()
    message = f"operator 'net': block {held} cannot hold an operator that runs it"
    attrs = {"sub_block": held if by_index else program.block(held)}
    refused(program, ValueError, message, lambda b: inner.append_op("net", {}, {}, attrs))


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs", "message"),
    [
        ("while", {"Condition": "c"}, {}, r"'while': attribute 'sub_block' \(Block\) is missing"),
        ("if_else", {"Cond": "c"}, {"true_block": 1}, r"'if_else': attribute 'false_block' \(Block\) is missing"),
        ("while", {}, {"sub_block": 1}, "'while': input slot 'Condition' is missing"),
        ("if_else", {"Cond": []}, {"true_block": 1, "false_block": 1}, "'if_else': input slot 'Cond' is missing"),
        ("while", {"Condition": ["c", "c"]}, {"sub_block": 1}, "input slot 'Condition' takes one name, got 2"),
        ("while", {"Condition": "nope"}, {"sub_block": 1}, "'while' reads 'nope', which no block here declares"),
        ("net", {"X": ["x", "nope"]}, {"sub_block": 1}, "'net' reads 'nope', which no block here declares"),
        ("net", {"Input": "x"}, {"sub_block": 1}, "'net' has no input slot 'Input'; its input slots are X"),
        ("net", {}, {"sub_blok": 1}, "'net' has no attribute 'sub_blok'.*did you mean 'sub_block'"),
    ],
)
def test_an_operator_with_blocks_is_checked_like_any_other(op_type: str, inputs: Any, attrs: Any, message: str) -> None:
    program, _, _ = bodied()
    refused(program, ValueError, message, lambda b: b.append_op(op_type, inputs, {}, attrs))


def refused(program: ga.Program, error: type[Exception], message: str, call: Callable[[ga.Block], Any]) -> None:
    """The call is refused with this message and the user's line, and leaves the program as it was."""
    before = str(program)
    with pytest.raises(error, match=message) as caught:
        call(program.global_block())
    lines = [int(n) for n in re.findall(re.escape(f"written at {__file__}:") + r"(\d+)", str(caught.value))]
    start = call.__code__.co_firstlineno
    assert lines
    assert start <= lines[0] <= start + 2
    assert str(program) == before
