"""Fluid's places: where a program runs. Here that is numpy, on the CPU."""

from __future__ import annotations

from dataclasses import dataclass

from graphad.errors import InvalidValue


@dataclass(frozen=True)
class CPUPlace:
    """The CPU, where all programs of an ``Executor`` run: ``Executor(CPUPlace())`` is ``Executor()``."""


class CUDAPlace:
    """A GPU, which numpy does not compute on: making one is an error.

    Raises:
        ValueError: always.
    """

    def __init__(self, id: int = 0) -> None:
        raise InvalidValue(f"CUDAPlace({id}): an Executor computes with numpy, on the CPU: give CPUPlace(), or nothing")
