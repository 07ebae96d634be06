"""``op_role`` and ``op_role_var`` are written for a backward of graphad's as Paddle writes them; name scopes of files are kept."""

from __future__ import annotations

from typing import Any

import pytest

import graphad as ga
from graphad.drawing.scopes import scope_of
from graphad.interop.paddle.program_desc import dump_program, load_program, message
from tests.conformance.loading import differentiated
from tests.conformance.test_stored import variables
from tests.interop.stored import after, cases, forward


def noted(data: bytes) -> tuple[set[str], set[tuple[str, str]]]:
    """The results of a program that are noted as the loss and the start of its backward, and the pairs of operators that are not
    updates."""
    desc: Any = message("ProgramDesc").FromString(data)
    losses, pairs = set[str](), set[tuple[str, str]]()
    for op in desc.blocks[0].ops:
        attrs = {attr.name: attr for attr in op.attrs}
        role = attrs["op_role"].i if "op_role" in attrs else 0
        if role & 256:
            losses |= {name for slot in op.outputs for name in slot.arguments}
        names = [name.decode() for name in attrs["op_role_var"].strings] if "op_role_var" in attrs else []
        if role == 1:
            pairs |= set(zip(names[::2], names[1::2], strict=True))
    return losses, pairs


# Paddle notes nothing for ``gradients``; here nothing says whether gradients are of ``gradients`` or of ``append_backward``.
WITHOUT = {name for name, case in cases().items() if "gradients(" in case.doc.get("call", {"api": "gradients("})["api"]}
TWICE = "append_backward_twice_two_losses"  # Paddle names the second gradient of w otherwise


@pytest.mark.parametrize("name", sorted(set(cases()) - WITHOUT))
def test_roles_are_those_that_paddle_writes(name: str) -> None:
    case, program = cases()[name], load_program(forward(name))
    differentiated(case, program.global_block().var(case.doc["loss"]), variables(program, case))
    losses, pairs = noted(dump_program(program))
    expected_losses, expected = noted(after(name))
    assert losses == expected_losses
    assert pairs == ({("w", "w@GRAD_0") if g.startswith("grad/") else (p, g) for p, g in expected} if name == TWICE else expected)


def test_updates_and_learning_rates_are_noted() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.data("x", [None, 3])
        cost = ga.layers.mean(ga.layers.fc(x, 1, param_attr="w", bias_attr=False))
        rate = ga.layers.exponential_decay(0.1, decay_steps=10, decay_rate=0.5)
        ga.optimizer.Momentum(rate, 0.9, grad_clip=ga.clip.GradientClipByValue(1.0)).minimize(cost)
    block = program.global_block()
    stored: Any = message("ProgramDesc").FromString(dump_program(program))
    attrs = [{attr.name: attr for attr in op.attrs} for op in stored.blocks[0].ops]
    roles = [each["op_role"].i for each in attrs]
    of_rate = [role for op, role in zip(block.ops, roles, strict=True) if rate.name in op.output_names()]
    assert of_rate == [16]
    assert {role for op, role in zip(block.ops, roles, strict=True) if x.name in op.input_names()} == {0, 1}
    assert roles[-1] == 2
    assert [name.decode() for name in attrs[-1]["op_role_var"].strings] == ["w", "w@GRAD"]
    read = load_program(dump_program(program))
    assert [op.role for op in read.global_block().ops] == [op.role for op in block.ops]
    assert dump_program(read) == dump_program(program)


def test_what_a_file_says_stays_and_what_is_added_is_noted() -> None:
    """The loss of a file is noted when it gets its backward, and nothing else of what was there changes."""
    before: Any = message("ProgramDesc").FromString(forward("fc_mse"))
    program = load_program(forward("fc_mse"))
    loss = program.global_block().var(cases()["fc_mse"].doc["loss"])
    ga.append_backward(loss)
    written: Any = message("ProgramDesc").FromString(dump_program(program))
    changed = [op for op, old in zip(written.blocks[0].ops, before.blocks[0].ops, strict=False) if op != old]
    assert [name for op in changed for slot in op.outputs for name in slot.arguments] == [loss.name]
    assert [attr.i for attr in changed[0].attrs if attr.name == "op_role"] == [256]


# -- name scopes -----------------------------------------------------------------------------------


def test_name_scopes_of_a_program_come_back_from_its_file() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.data("x", [3])
        x.stop_gradient = False
        with ga.name_scope("encoder"), ga.name_scope("layer_0"):
            h = ga.layers.tanh(x)
        loss = ga.layers.mean(h)
    read = load_program(dump_program(program))
    for each in (read, ga.Program.parse(str(read)), load_program(dump_program(ga.schedule(ga.lower(read, [loss.name]))))):
        ga.append_backward(each.global_block().var(loss.name))
        scopes = {op.type: scope_of(op) for op in ga.lower(each).ops}
        assert scopes["tanh"] == scopes["tanh_grad"] == ("encoder", "layer_0")
        assert scopes["mean"] == scopes["mean_grad"] == ()
    assert "encoder" in ga.drawing.to_dot(read)
