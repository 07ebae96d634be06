"""Fluid's layers, one by one: the same signature, or a reason why not."""

from __future__ import annotations

import pytest

from graphad import layers
from tests.conformance import fluid_layers


@pytest.mark.parametrize("row", fluid_layers.rows(), ids=lambda row: row.name)
def test_a_layer_of_fluid(row: fluid_layers.Row) -> None:
    if row.status == "absent":
        assert row.name not in dir(layers)
        return
    assert row.name in dir(layers)
    assert getattr(layers, row.name).__doc__
    assert (row.status in ("wider", "differs")) == (row.name in fluid_layers.DIFFERS), f"{row.name}: {row.fluid}"


def test_the_page_is_up_to_date() -> None:
    assert fluid_layers.PAGE.read_text(encoding="utf-8") == fluid_layers.text(), "run make pictures"


def test_nothing_is_excused_that_does_not_exist() -> None:
    assert not set(fluid_layers.DIFFERS) - set(fluid_layers.SIGNATURES)
