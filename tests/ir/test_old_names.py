"""Names that moved are found for one minor version more, with a warning that says where they are."""

from __future__ import annotations

import importlib

import pytest

from graphad import ir


def test_the_old_package_of_graphs_warns_and_gives_the_same() -> None:
    old = importlib.import_module("graphad.graph")
    for name in ir.__all__:
        with pytest.warns(DeprecationWarning, match=f"graphad.graph.{name} is graphad.ir.{name} now"):
            assert getattr(old, name) is getattr(ir, name)


def test_the_old_package_has_nothing_else() -> None:
    with pytest.raises(AttributeError, match=r"module 'graphad.graph' has no attribute 'nonsense'"):
        _ = importlib.import_module("graphad.graph").nonsense


def test_a_pass_that_moved_to_another_folder_is_found_in_both() -> None:
    optimization, memory = (importlib.import_module(f"graphad.passes.{folder}") for folder in ("optimization", "memory"))
    with pytest.warns(DeprecationWarning, match=r"use graphad.passes.CheckpointWhile"):
        assert optimization.CheckpointWhile is memory.CheckpointWhile
    with pytest.raises(AttributeError, match=r"module 'graphad.passes.optimization' has no attribute 'nonsense'"):
        _ = optimization.nonsense
