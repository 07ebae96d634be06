"""Errors of the executor about operators from a file with unknown slots or attributes."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad.errors import ExecutionError

PROGRAM = "program {{ block 0 {{ var x: float64[2] var z: float64[2] var y: float64[2] {} }} }}"


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        ("scale(X=x) -> (Out=y) {factor=3.0}", "operator 'scale' has an attribute factor, which its definition does not have"),
        ("tanh(X=x, Z=z) -> (Out=y)", "operator 'tanh' has an input slot Z, which its definition does not have"),
        ("tanh(Y=x) -> (Out=y)", "operator 'tanh' has an input slot Y, which its definition does not have"),
    ],
)
def test_what_no_row_knows_is_refused_when_it_runs(operator: str, message: str) -> None:
    program = ga.Program.parse(PROGRAM.format(operator))
    with pytest.raises(ExecutionError, match=message):
        ga.Executor().run(program, {"x": np.ones(2), "z": np.ones(2)}, ["y"])


def test_an_operator_that_writes_one_name_twice_is_refused() -> None:
    program = ga.Program.parse(PROGRAM.format("top_k_v2(X=x) -> (Out=y, Indices=z) {k=2}"))
    (op,) = program.global_block().ops
    op.outputs["Indices"] = ["y"]
    with pytest.raises(ExecutionError, match="operator 'top_k_v2' writes 'y' twice"):
        ga.Executor().run(program, {"x": np.ones(2)}, ["y"])


def test_what_means_nothing_here_is_not_in_the_way() -> None:
    program = ga.Program.parse(PROGRAM.format("tanh(X=x) -> (Out=y) {use_mkldnn=true, op_device='cpu'}".replace("'", '"')))
    (y,) = ga.Executor().run(program, {"x": np.ones(2)}, ["y"])
    np.testing.assert_array_equal(y, np.tanh(np.ones(2)))
