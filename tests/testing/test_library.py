"""Every pass of the library that rewrites programs, on random programs. A new pass adds a row."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from graphad.rewriting import PASSES, Pipeline
from graphad.testing import check_pass, nested_programs, straight_line_programs

OP_PATH, GRAD_OPS = "find-op-path{targets=[$loss]}", "create-grad-ops"


@dataclass(frozen=True)
class Row:
    """A pipeline on trial, and what it needs.

    Args:
        pipeline: its text; ``$loss`` is the name of the program's loss.
        prepare: what runs before it.
        examples: how many programs.
        tolerance: None: as the passes say.
        forward: whether it takes programs without backward only.
    """

    pipeline: str
    prepare: str = ""
    examples: int = 50
    tolerance: float | None = None
    forward: bool = False


ROWS = (
    Row(OP_PATH),
    Row(GRAD_OPS, OP_PATH, forward=True),
    Row("prune-no-grad", f"{OP_PATH}, {GRAD_OPS}", forward=True),
    Row("accumulate-grads, create-grad-vars", f"{OP_PATH}, {GRAD_OPS}, prune-no-grad", forward=True),
    Row("create-grad-vars", f"{OP_PATH}, {GRAD_OPS}, prune-no-grad, accumulate-grads", forward=True),
    Row("expand-grad-ops", OP_PATH),
    Row("checkpoint-while", f"{OP_PATH}, {GRAD_OPS}, prune-no-grad, accumulate-grads, create-grad-vars", examples=25, forward=True),
    Row("jvp{targets=[$loss]}", examples=25),
    Row("canonical-order", examples=25),
    Row("constant-folding", examples=25),
    Row("cse", examples=25),
    Row("dead-code", examples=25),
    Row("simplify", examples=25),
    Row("fixpoint(canonical-order, simplify, constant-folding, cse, dead-code)", examples=25),
    Row("fold-branches", examples=25),
    Row("hoist-invariants", examples=25),
    Row("inline-net", examples=25),
    Row("outline-repeated", examples=25),
    Row("unroll-while", examples=25),
    Row("fuse-elementwise", examples=25),
    Row("in-place", examples=25),
    Row("annotate-cost", examples=25),
    Row("probe-numerics", examples=10),
    Row("recompute", examples=25),
)

# Passes that are tried elsewhere, and where.
ELSEWHERE = {
    "fold-batch-norm": "tests/passes/fusion: nets with a batch norm behind something linear",
    "gradient-accumulation": "tests/passes/memory: training programs whose loss is a mean over the batch",
    "mixed-precision": "tests/passes/precision: to the tolerance of half precision",
    "clip-gradients": "tests/test_optimizer.py: it changes what is computed",
    "decay-weights": "tests/test_optimizer.py: it changes what is computed",
    "optimize-parameters": "tests/test_optimizer.py: it changes what is computed",
}
COMBINING = ("fixpoint", "nested")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.pipeline.partition("{")[0])
def test_the_pass_is_right(row: Row) -> None:
    strategy = nested_programs() | straight_line_programs() if row.forward else None
    check_pass(row.pipeline, row.examples, strategy, row.tolerance, prepare=row.prepare)


def test_every_pass_has_a_row() -> None:
    tried = {each.name for row in ROWS for each in Pipeline.parse(row.pipeline.replace("$loss", "loss")).passes}
    known = {name for name, kind in PASSES.items() if kind.__module__.startswith("graphad.")}
    missing = sorted(known - tried - set(ELSEWHERE) - set(COMBINING))
    assert not missing, f"add rows to ROWS for {', '.join(missing)}, or say in ELSEWHERE where they are tried"
