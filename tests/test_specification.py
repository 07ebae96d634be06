"""The page of the specification names tests that are there; and what the specification promises and no other test holds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import graphad as ga
from graphad.interop.paddle.program_desc import load_program
from graphad.ops import lookup
from tests.source_tree import ROOT

layers = ga.layers
ROWS = [line for line in (ROOT / "docs/specification.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_each_row_names_tests_that_are_there() -> None:
    rows = [row for row in ROWS if not re.match(r"\| (---|promise|in Paddle) \|", row)]
    assert len(rows) > 40
    assert [row for row in rows if not NAMED.search(row)] == []
    missing = []
    for path, name in set(NAMED.findall("\n".join(rows))):
        if not re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE):
            missing.append(f"{path}::{name}")
    assert missing == []


@pytest.fixture
def main() -> ga.Program:
    return ga.Program()


def test_the_block_of_a_gradient_is_inside_the_forward_block(main: ga.Program) -> None:
    with ga.program_guard(main):
        x = layers.data("x", [2], "float64", append_batch_size=False, stop_gradient=False)
        _, y = layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, layers.tanh(y * x)], [0, x])
        z = layers.cond(layers.mean(y) < 1.0, lambda: layers.sin(y), lambda: layers.cos(y))
        ga.gradients(layers.mean(z), x)
    ops = {op.type: op for op in main.global_block().ops}
    for forward, blocks in {"while": ["sub_block"], "if_else": ["true_block", "false_block"]}.items():
        of, grad = ops[forward].attrs, ops[f"{forward}_grad"].attrs
        assert [grad[name].parent_idx for name in blocks] == [of[name].idx for name in blocks]


def test_the_empty_variable_is_no_variable(main: ga.Program) -> None:
    block = main.global_block()
    for name in ("x", "dx"):
        block.create_var(name, [2], "float64")
    slots = {"X@GRAD": "dx", "Y@GRAD": "@EMPTY@"}
    block.append_op("elementwise_add_grad", {"X": "x", "Y": "x", "Out@GRAD": "x"}, slots)
    assert not block.has_var("@EMPTY@")
    (dx,) = ga.Executor().run(main, {"x": np.array([1.0, 2.0])}, ["dx"])
    np.testing.assert_array_equal(dx, [1.0, 2.0])


def test_a_definition_registers_its_gradient(main: ga.Program) -> None:
    definition = lookup("leaky_relu_grad")
    assert set(definition.inputs) <= {"X", "Out", "Out@GRAD"}
    assert set(definition.outputs) == {"X@GRAD"}
    with ga.program_guard(main):
        x = layers.data("x", [2], "float64", append_batch_size=False, stop_gradient=False)
        ga.gradients(layers.mean(layers.leaky_relu(x, alpha=0.25)), x)
    (op,) = (op for op in main.global_block().ops if op.type == "leaky_relu_grad")
    assert op.attrs["alpha"] == 0.25


def test_feed_operators_are_in_saved_models_alone(main: ga.Program, tmp_path: Path) -> None:
    with ga.program_guard(main):
        x = layers.data("x", [2])
        y = layers.tanh(x)
    assert [op.type for op in main.global_block().ops] == ["tanh"]
    ga.io.save_inference_model(tmp_path, [x.name], [y], ga.Executor(), main)
    stored = load_program((tmp_path / "__model__").read_bytes())
    assert [op.type for op in stored.global_block().ops] == ["feed", "tanh", "fetch"]
