"""Shared parts of the tests of distribution: small programs, and single runs to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import graphad as ga
from graphad.distribution import LocalGroup
from graphad.types import Array

MODES = ("interpreted", "compiled")


def parsed(text: str) -> ga.Program:
    """A program of one block."""
    return ga.Program.parse("program { block 0 { " + text + " } }")


def run(group: LocalGroup, program: Any, fetch: list[str], **feeds: Sequence[Array]) -> list[list[Array]]:
    """Run a program on ranks; each feed is a list with an array for each rank."""
    return group.run(program, [{name: arrays[rank] for name, arrays in feeds.items()} for rank in range(group.size)], fetch)


def numbers(ranks: int, *shape: int, seed: int = 0) -> list[Array]:
    """An array for each rank."""
    rng = np.random.default_rng([seed, ranks, *shape])
    return [np.asarray(rng.uniform(0.3, 1.3, shape) * rng.choice([-1.0, 1.0], shape)) for _ in range(ranks)]
