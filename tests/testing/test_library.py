"""Every pass of the library, on random programs. A new pass adds a row."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from graphad.rewriting import PASSES, Pipeline
from graphad.testing import check_pass


@dataclass(frozen=True)
class Row:
    """A pipeline on trial.

    Args:
        pipeline: its text; ``$loss`` is the name of the program's loss.
        examples: how many programs.
        tolerance: None: as the passes say.
    """

    pipeline: str
    examples: int = 30
    tolerance: float | None = None


ROWS = (
    Row("find-op-path{targets=[$loss]}"),
    Row("create-grad-ops"),
    Row("prune-no-grad"),
    Row("accumulate-grads"),
    Row("clip-errors{bound=inf}"),
    Row("create-grad-vars"),
    Row("expand-grad-ops"),
    Row("checkpoint-while"),
    Row("jvp{targets=[$loss]}"),
    Row("canonical-order"),
    Row("constant-folding"),
    Row("cse"),
    Row("dead-code"),
    Row("simplify"),
    Row("fixpoint(canonical-order, simplify, constant-folding, cse, dead-code)"),
    Row("fold-branches"),
    Row("hoist-invariants"),
    Row("inline-net"),
    Row("outline-repeated"),
    Row("unroll-while"),
    Row("fuse-elementwise"),
    Row("in-place"),
    Row("annotate-cost"),
    Row("probe-numerics", examples=15),
    Row("recompute"),
    Row("reorder"),
    Row("mixed-precision"),
    Row("fold-batch-norm", examples=30),
    Row("gradient-accumulation", examples=20),
    Row("clip-gradients{bound=0.1}", examples=15),
    Row("decay-weights{kind=l1, coefficient=0.1}", examples=15),
    Row("optimize-parameters", examples=15),
    Row("data-parallel{ranks=2}", examples=10),
    Row("data-parallel, bucket-all-reduce", examples=10),
    Row("pipeline-split{stages=1, micro_batches=2}", examples=10),
    Row("data-parallel, shard-optimizer", examples=10),
    Row('shard{mesh="data=2"}', examples=10),
    Row('partition{mesh="data=2"}', examples=10),
)

COMBINING = ("fixpoint", "nested")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.pipeline.partition("{")[0])
def test_the_pass_is_right(row: Row) -> None:
    check_pass(row.pipeline, row.examples, tolerance=row.tolerance)


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.pipeline.partition("{")[0])
def test_the_pass_is_right_on_other_programs(row: Row) -> None:
    check_pass(row.pipeline, 4 * row.examples, seed=1, tolerance=row.tolerance)


def test_every_pass_has_a_row() -> None:
    tried = {each.name for row in ROWS for each in Pipeline.parse(row.pipeline.replace("$loss", "loss")).passes}
    known = {name for name, kind in PASSES.items() if kind.__module__.startswith("graphad.")}
    missing = sorted(known - tried - set(COMBINING))
    assert not missing, f"add rows to ROWS for {', '.join(missing)}"
