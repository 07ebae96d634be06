"""graphad's backward is Paddle's but for what differs on purpose, and docs/parity.md says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.conformance import parity, parity_page
from tests.conformance.loading import Case, load
from tests.conformance.parity_reasons import FAULTS, OTHER, REASONS, Steps
from tests.conformance.test_stored import STORED


@pytest.mark.parametrize("case", STORED, ids=lambda case: case.name)
def test_every_difference_has_a_reason(case: Case) -> None:
    assert parity.reasons(case) is not None


def test_every_reason_is_needed() -> None:
    used = {reason.word for case in STORED for reason in parity.reasons(case) or ()}
    assert used == {reason.word for reason in (*REASONS, *OTHER.values())}
    assert {*FAULTS, *OTHER} <= {case.name for case in STORED}


def without_the_last(steps: Steps) -> Steps:
    return steps[:-1]


def with_another_type(steps: Steps) -> Steps:
    return (*steps[:-1], replace(steps[-1], type="relu_grad"))


def with_outputs_the_other_way_round(steps: Steps) -> Steps:
    last = steps[-1]
    return (*steps[:-1], replace(last, outputs=dict(zip(last.outputs, reversed(last.outputs.values()), strict=True))))


def with_another_attribute(steps: Steps) -> Steps:
    return (*steps[:-1], replace(steps[-1], attrs={"axis": 3}))


@pytest.mark.parametrize("name", ["mul_add_mean", "while_power_3", "cond_nested_tf", "while_tensor_array"])
@pytest.mark.parametrize("wrong", [without_the_last, with_another_type])
def test_what_has_no_reason_is_missing(name: str, wrong: Callable[[Steps], Steps], monkeypatch: pytest.MonkeyPatch) -> None:
    ours = parity.graphads(load(name))
    visible = tuple(step for step in ours if not step.inserted)
    monkeypatch.setattr(parity, "graphads", lambda case: (*wrong(visible), *(s for s in ours if s.inserted)))
    assert parity.reasons(load(name)) is None


@pytest.mark.parametrize("wrong", [with_outputs_the_other_way_round, with_another_attribute])
def test_a_gradient_under_another_name_and_an_attribute_have_no_reason(
    wrong: Callable[[Steps], Steps], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = parity.graphads(load("mul_add_mean"))
    monkeypatch.setattr(parity, "graphads", lambda case: wrong(ours))
    assert parity.reasons(load("mul_add_mean")) is None


def test_the_page_is_up_to_date() -> None:
    assert parity_page.PAGE.read_text(encoding="utf-8") == parity_page.text(), "run make pictures"
