"""Conformance cases: stored programs with their right gradients (README.md beside this file describes the format)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import graphad as ga

HERE = Path(__file__).parent
Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One case: its description and its arrays."""

    name: str
    doc: dict[str, Any]
    arrays: dict[str, Array]

    def group(self, prefix: str) -> dict[str, Array]:
        """The arrays below ``prefix/``."""
        return {key.removeprefix(prefix + "/"): value for key, value in self.arrays.items() if key.startswith(prefix + "/")}


def names() -> list[str]:
    """The names of all cases."""
    return sorted(path.stem for path in (HERE / "cases").glob("*.json"))


def load(name: str) -> Case:
    """The case of a name."""
    doc = json.loads((HERE / "cases" / f"{name}.json").read_text())
    with np.load(HERE / "cases" / f"{name}.npz") as arrays:
        return Case(name, doc, dict(arrays))


def is_flat(case: Case) -> bool:
    """Whether the case's program has one block."""
    return len(case.doc["forward"]["blocks"]) == 1


def program_of(blocks: dict[str, Any], feeds: dict[str, Any] | None = None) -> ga.Program:
    """The program a case describes: the variables of its only block, then its operators."""
    program = ga.Program()
    block = program.global_block()
    (stored,) = blocks["blocks"]
    for var in stored["vars"]:
        _declare(block, var)
    for op in stored["ops"]:
        if op["type"] not in ("feed", "fetch"):
            block.append_op(op["type"], op["inputs"], op["outputs"], op["attrs"], role=_role(op))
    return program


def _declare(block: ga.Block, var: dict[str, Any]) -> None:
    if var["type"] != "LOD_TENSOR":
        return
    if var.get("parameter"):
        param = block.create_parameter(var["name"], var["shape"], var["dtype"], trainable=var.get("trainable", True))
        param.stop_gradient = var["stop_gradient"]
        return
    block.create_var(var["name"], var["shape"], var["dtype"], persistable=var["persistable"], stop_gradient=var["stop_gradient"])


def _role(op: dict[str, Any]) -> str:
    return str(op.get("role", "forward")) if op.get("role") in ("backward", "optimize") else "forward"
