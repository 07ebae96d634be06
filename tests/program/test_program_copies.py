"""Copies of programs, whole and pruned, and the line the user wrote."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.program import SourceLine, user_line
from tests.source_tree import ROOT


def vector(program: ga.Program, name: str = "x") -> ga.Variable:
    return program.global_block().create_var(name, [-1, 3], "float32")


def unchecked(block: ga.Block, outputs: list[str], **attrs: Any) -> ga.Operator:
    """An operator of an unregistered type, as a loaded program may hold."""
    op = ga.Operator(block, "foreign", {}, {"Out": outputs}, attrs)
    block.ops.append(op)
    return op


def types(program: ga.Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def regression() -> tuple[ga.Program, ga.Program, ga.Variable]:
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        x, label = ga.layers.data("x", [4]), ga.layers.data("label", [1])
        hidden = ga.layers.dropout(ga.layers.batch_norm(ga.layers.fc(x, 3, act="relu")), 0.5)
        return main, startup, ga.layers.mse(ga.layers.fc(hidden, 1), label)


# -- clone ---------------------------------------------------------------------------------------


def test_a_clone_is_equal_and_apart() -> None:
    main, _, cost = regression()
    ga.optimize(cost)
    main.random_seed = 5
    main.global_block().var("x").stop_gradient = False
    before, clone = str(main), main.clone()
    assert str(clone) == before
    assert [type(v) for v in clone.list_vars()] == [type(v) for v in main.list_vars()]
    clone.global_block().ops[0].inputs["X"][0] = "other"
    clone.global_block().ops[0].attrs["new"] = 1
    clone.global_block().create_var("extra")
    clone.global_block().var("x").stop_gradient = True
    clone.names.generate("fc")
    assert str(main) == before
    assert main.names.generate("fc") == "fc_2"


def test_a_clone_keeps_a_parameters_flags() -> None:
    program = ga.Program()
    decay = ga.optimizer.L2Decay(0.5)
    w = program.global_block().create_parameter("w", [2], "float64", False, 0.5, decay, False)
    w.stop_gradient = False
    (w,) = program.clone().all_parameters()
    assert (w.trainable, w.learning_rate, w.regularizer, w.need_clip, w.stop_gradient) == (False, 0.5, decay, False, False)


def test_a_clone_keeps_the_users_lines() -> None:
    main, _, _ = regression()
    assert [op.source for op in main.clone().global_block().ops] == [op.source for op in main.global_block().ops]


def test_block_attributes_of_a_clone_are_its_own_blocks() -> None:
    program = ga.Program()
    unchecked(program.global_block(), [], sub_block=program.create_block())
    clone = program.clone()
    assert clone.global_block().ops[0].attrs["sub_block"] is clone.blocks[1]


@pytest.mark.parametrize("what", ["blocks", "nested lists"])
def test_lists_in_attributes_of_a_clone_are_its_own(what: str) -> None:
    program = ga.Program()
    block = program.create_block()
    value: Any = [block] if what == "blocks" else [[1, 2]]
    unchecked(program.global_block(), [], a=value)
    clone = program.clone()
    (item,) = clone.global_block().ops[0].attrs["a"]
    assert item is clone.blocks[1] if what == "blocks" else item is not value[0]


def test_a_clone_for_test_after_minimize_is_the_one_before() -> None:
    main, startup, cost = regression()
    before = str(main.clone(for_test=True))
    ga.optimizer.Adam(0.1, grad_clip=ga.optimizer.ClipByGlobalNorm(1.0)).minimize(cost, startup)
    after = main.clone(for_test=True)
    assert str(after) == before
    assert {op.role for op in after.global_block().ops} == {"forward"}
    tested = {op.type: op.attrs["is_test"] for op in after.global_block().ops if "is_test" in op.attrs}
    assert tested == {"batch_norm": True, "dropout": True}
    assert all(not op.attrs.get("is_test") for op in main.global_block().ops)


def test_a_clone_for_test_does_not_train() -> None:
    main, startup, cost = regression()
    ga.optimize(cost)
    scope, run = ga.Scope(), ga.Executor()
    run.run(startup, scope=scope)
    before = {name: scope.get(name).copy() for name in scope.names()}
    feed = {"x": np.ones((2, 4), "float32"), "label": np.ones((2, 1), "float32")}
    first, second = (run.run(main.clone(for_test=True), feed, [cost.name], scope)[0] for _ in range(2))
    assert first == second
    for name, value in before.items():
        np.testing.assert_array_equal(scope.get(name), value)


# -- prune ---------------------------------------------------------------------------------------


def chain() -> ga.Program:
    """y = relu(y) in place at the end; z beside it."""
    program = ga.Program()
    block, x = program.global_block(), vector(program)
    block.append_op("scale", {"X": x}, {"Out": "y"}, {"scale": 2.0})
    block.append_op("tanh", {"X": x}, {"Out": "z"})
    block.append_op("relu", {"X": "y"}, {"Out": "y"})
    return program


def test_prune_keeps_what_the_target_needs() -> None:
    program = chain()
    before, pruned = str(program), program.prune(["z"])
    assert types(pruned) == ["tanh"]
    assert list(pruned.global_block().vars) == ["x", "z"]
    assert str(program) == before


@pytest.mark.parametrize("target", [lambda b: b.var("y"), lambda b: "y", lambda b: b.ops[2], lambda b: [b.ops[2]]])
def test_prune_keeps_a_last_operator_in_place(target: Callable[[ga.Block], Any]) -> None:
    program = chain()
    assert types(program.prune(target(program.global_block()))) == ["scale", "relu"]


def test_prune_drops_a_value_that_is_overwritten_unread() -> None:
    program = chain()
    program.global_block().append_op("tanh", {"X": "x"}, {"Out": "y"})
    assert types(program.prune("y")) == ["tanh"]


def test_prune_to_data_leaves_no_operators() -> None:
    assert types(chain().prune("x")) == []


def test_prune_keeps_what_a_sub_block_reads() -> None:
    program = ga.Program()
    program.global_block().append_op("scale", {"X": vector(program)}, {"Out": "y"})
    inner = program.create_block()
    program.rollback()
    inner.append_op("tanh", {"X": "y"}, {"Out": "inside"})
    program.global_block().create_var("result", [1], "float32")
    unchecked(program.global_block(), ["result"], sub_block=inner)
    pruned = program.prune("result")
    assert types(pruned) == ["scale", "foreign"]
    assert pruned.blocks[1].has_var("inside")


@pytest.mark.parametrize("target", ["nope", 3, None, ["z", 3]])
def test_prune_refuses_what_is_not_of_the_program(target: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot prune to .*: it is no variable or operator of this program"):
        chain().prune(target)


def test_prune_takes_a_variable_of_a_copy_and_none_of_another_program() -> None:
    program = chain()
    assert types(program.prune(program.clone().global_block().var("z"))) == ["tanh"]
    with pytest.raises(ValueError, match=r"cannot prune: Variable z.* is of another program"):
        program.prune(chain().global_block().var("z"))


# -- the user's line -----------------------------------------------------------------------------


def here() -> int:
    """The number of the line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_an_operator_knows_the_line_that_wrote_it() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x, label = ga.layers.data("x", [3]), ga.layers.data("label", [1])
        line = here() + 1
        ga.layers.mse(ga.layers.fc(x, 1) * 2.0, label)
    assert {op.source for op in program.global_block().ops} == {SourceLine(__file__, line)}


def test_a_grad_operator_has_the_line_of_its_operator() -> None:
    main, _, cost = regression()
    lines = {op.type: op.source for op in main.global_block().ops}
    ga.append_backward(cost)
    made = {op.type: op.source for op in main.global_block().ops if op.role == "backward"}
    assert made["mean_grad"] == lines["mean"]
    assert made["dropout_grad"] == lines["dropout"]


@pytest.mark.parametrize("file", [Path("somewhere", "user.py"), ROOT / "graphad_models" / "user.py", ROOT / "passes_of_mine.py"], ids=str)
def test_a_file_is_the_users_unless_it_is_in_the_package(file: Path) -> None:
    found: dict[str, Any] = {"user_line": user_line}
    exec(compile("\nline = user_line()", str(file), "exec"), found)
    assert found["line"] == SourceLine(str(file), 2)
