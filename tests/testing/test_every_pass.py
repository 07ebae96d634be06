"""The command that tries every pass of the library."""

from __future__ import annotations

import pytest

from graphad.rewriting import PASSES
from tests import every_pass
from tests.scratch import passes
from tests.testing.test_library import COMBINING
from tests.testing.wrong_passes import SaysNothingChanged


def test_every_pass_is_tried_and_those_that_can_after_the_backward() -> None:
    rows = list(every_pass.trials(()))
    names = {pipeline.partition("{")[0].partition("(")[0].partition(",")[0] for pipeline, _ in rows}
    library = {name for name, kind in PASSES.items() if kind.__module__.startswith("graphad.")}
    assert library - names <= {*COMBINING, "bucket-all-reduce", "shard-optimizer"}  # rows of several passes, after data-parallel
    after = {pipeline for pipeline, prepare in rows if prepare}
    assert {"cse", "dead-code", "simplify", "in-place"} <= after
    assert not {"create-grad-ops", "recompute", "optimize-parameters"} & after  # they build it, or stand there anyway


def test_what_is_found_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with passes(SaysNothingChanged):
        assert every_pass.tried("dead-code", every_pass.AFTER_BACKWARD, 5, 0).finding == ""
        assert every_pass.tried("wrong-says-nothing-changed", "", 40, 0).finding.startswith(
            "wrong-says-nothing-changed: the pass says it changed nothing"
        )


def test_rows_are_chosen_by_the_first_pass_and_a_name_of_none_is_an_error() -> None:
    assert {pipeline.partition(",")[0] for pipeline, _ in every_pass.trials(["fixpoint", "dead-code"])} == {
        "fixpoint(canonical-order",
        "dead-code",
    }
    with pytest.raises(SystemExit, match="no row begins with dead-cod; there are accumulate-grads, "):
        list(every_pass.trials(["dead-code", "dead-cod"]))
