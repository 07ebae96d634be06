"""The conformance cases from Paddle's own bytes: read, printed, run, differentiated, and written back byte for byte."""

from __future__ import annotations

import pytest

import graphad as ga
from graphad.interop import from_json, to_json
from graphad.interop.paddle.program_desc import dump_program, load_program
from graphad.interop.report import refusals, unknown_operators
from tests.conformance.loading import TWICE, Case, assert_gradients, close, differentiated, run
from tests.conformance.test_stored import variables
from tests.interop.stored import after, cases, forward
from tests.shares import one_in

NAMES = pytest.mark.parametrize("name", sorted(cases()))
SOME = pytest.mark.parametrize("name", one_in(3, sorted(cases())))
# Reads the forward output here; Paddle does not pass it in.
OTHER_INPUTS = {"elementwise_pow_grad"}
# Zeros in Paddle, because of a branch in a loop; what it is by central differences here (test_paddle_loops.py).
WRONG_IN_PADDLE = ("while_with_cond_inside",)


def complete(program: ga.Program) -> bool:
    """Whether all of a program with Paddle's own backward can run here."""
    types = {op.type for block in program.blocks for op in block.ops}
    lacking = [what for what in refusals(program) if "no input slot" not in what]
    return not unknown_operators(program) and not lacking and types.isdisjoint(OTHER_INPUTS)


def written_by_paddle(case: Case) -> dict[str, str]:
    """The gradient variables that Paddle wrote, by label."""
    grads = case.doc["grads"]
    return {label: grads[label]["grad_var"] for label in grads if grads[label].get("grad_var") and f"paddle/{label}" in case.arrays}


def test_there_are_bytes_of_nearly_every_case() -> None:
    assert len(cases()) == 48
    assert sum(complete(load_program(after(name))) for name in cases()) >= 45


@NAMES
@pytest.mark.parametrize("bytes_of", [forward, after], ids=["forward", "after"])
def test_bytes_come_back(name: str, bytes_of: object) -> None:
    data = bytes_of(name)  # type: ignore[operator]
    program = load_program(data)
    assert dump_program(program) == data
    assert dump_program(program.clone()) == data


@NAMES
@pytest.mark.parametrize("bytes_of", [forward, after], ids=["forward", "after"])
def test_text_json_and_protobuf_of_one_program_agree(name: str, bytes_of: object) -> None:
    text = str(load_program(bytes_of(name)))  # type: ignore[operator]
    parsed = ga.Program.parse(text)
    assert str(parsed) == text
    assert str(from_json(to_json(parsed))) == text
    assert str(load_program(dump_program(parsed))) == text


@NAMES
def test_forward_values(name: str) -> None:
    case = cases()[name]
    program, values = load_program(forward(name)), case.group("forward")
    for expected, got in zip(values.values(), run(program, case, list(values)), strict=True):
        if expected.dtype.kind == "f":
            close(got, expected)
    assert dump_program(program) == forward(name), "running changed the program"


@SOME
def test_gradients(name: str) -> None:
    case, program = cases()[name], load_program(forward(name))
    found = differentiated(case, program.global_block().var(case.doc["loss"]), variables(program, case))
    assert_gradients(program, case, found)
    assert str(load_program(dump_program(program))) == str(program)


@SOME
def test_paddles_own_backward(name: str) -> None:
    """It runs here and gives what it gave there, where it has no operator that is not known or has another form."""
    case, program = cases()[name], load_program(after(name))
    if not complete(program):
        assert name in ("binary_ops", "broadcast_trailing")
        return
    written = written_by_paddle(case)
    assert written or case.doc["status"] != "ok" or case.doc["call"]["api"] == TWICE
    for label, variable in written.items() if name not in WRONG_IN_PADDLE else ():
        close(run(program, case, [variable])[0], case.arrays[f"paddle/{label}"])


def test_roles_and_lines_are_paddles() -> None:
    program = load_program(after("while_power_3"))
    roles = [op.role for op in program.global_block().ops]
    assert roles == sorted(roles, key=("forward", "backward").index)
    assert {"forward", "backward"} == set(roles)
    lines = {str(op.source) for op in program.global_block().ops if op.role == "forward"}
    assert all("/cases_flow.py:" in line for line in lines), lines


def test_what_means_nothing_here_is_not_printed() -> None:
    text = str(load_program(forward("while_power_3")))
    for noise in ("op_callstack", "use_mkldnn", "op_role", "op_namescope", "with_quant_attr", "ScaleTensor", "str_value"):
        assert noise not in text
