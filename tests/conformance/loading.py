"""Conformance cases: stored programs with their right gradients (README.md beside this file describes the format)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import graphad as ga
from graphad.execution.compiled import FIRST

HERE = Path(__file__).parent
KINDS = ("LOD_TENSOR", "LOD_TENSOR_ARRAY", "STEP_SCOPES")
TWICE = "g = gradients(y, x); gradients(g, x)"
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


def has_blocks(case: Case) -> bool:
    """Whether the case's program has blocks besides block 0."""
    return len(case.doc["forward"]["blocks"]) > 1


def program_of(stored: dict[str, Any]) -> ga.Program:
    """The program a case describes: the variables of its blocks, then their operators."""
    program = ga.Program()
    for block in stored["blocks"][1:]:
        program.create_block(block["parent_idx"])
    while program.current_block() is not program.global_block():
        program.rollback()
    for block in stored["blocks"]:
        for var in block["vars"]:
            _declare(program.block(block["idx"]), var)
    for block in stored["blocks"]:
        for op in block["ops"]:
            if op["type"] not in ("feed", "fetch"):
                program.block(block["idx"]).append_op(op["type"], op["inputs"], op["outputs"], _attrs(op), role=_role(op))
    return program


def _declare(block: ga.Block, var: dict[str, Any]) -> None:
    if var["type"] not in KINDS:
        return
    if var.get("parameter"):
        param = block.create_parameter(var["name"], var["shape"], var["dtype"], trainable=var.get("trainable", True))
        param.stop_gradient = var["stop_gradient"]
        return
    flags = {"persistable": var["persistable"], "stop_gradient": var["stop_gradient"]}
    block.create_var(var["name"], var.get("shape"), var.get("dtype"), type=var["type"], **flags)


def _attrs(op: dict[str, Any]) -> dict[str, Any]:
    block = op.get("sub_block")
    return op["attrs"] if block is None else {**op["attrs"], "sub_block": block}


def _role(op: dict[str, Any]) -> str:
    return str(op.get("role", "forward")) if op.get("role") in ("backward", "optimize") else "forward"


# -- what is done with a case --------------------------------------------------------------------


def run(program: ga.Program, case: Case, fetch: list[Any]) -> list[Array]:
    """Run a program on the case's arrays, compiled and interpreted: both give the same, to the last bit."""
    compiled, interpreted = (_run(program, case, fetch, mode) for mode in ("compiled", "interpreted"))
    for name, one, other in zip(fetch, compiled, interpreted, strict=True):
        np.testing.assert_equal(one, other, err_msg=f"compiled and interpreted: {name}")
    return compiled


def _run(program: ga.Program, case: Case, fetch: list[Any], mode: str) -> list[Array]:
    scope = ga.Scope()
    for name, value in case.group("param").items():
        scope.set(name, value)
    before = FIRST.set(1)
    try:
        return ga.Executor(mode=mode).run(program, feed=case.group("feed"), fetch_list=fetch, scope=scope)
    finally:
        FIRST.reset(before)


def close(got: Array, expected: Array, tolerance: float = 1e-7) -> None:
    """Equal but for a fraction of the largest entry; of one shape."""
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * max(float(np.max(np.abs(expected), initial=0.0)), 1e-30))


def differentiated(case: Case, loss: ga.Variable, var: Mapping[str, ga.Variable]) -> dict[str, ga.Variable | None]:
    """Call what the case calls; the gradient variable of each label. ``var`` are the variables that labels stand for."""
    call = case.doc.get("call") or {"api": TWICE}
    api = call["api"]
    if api == TWICE:
        (g,) = ga.gradients(loss, [var["x"]])
        assert g is not None
        return {"x": ga.gradients(g, [var["x"]])[0]}
    if api.startswith("append_backward(loss1)"):
        ga.append_backward(var["loss1"])
        return {p.name: g for p, g in ga.append_backward(loss)}
    if api.startswith("gradients([y1, y2]"):
        return dict(zip("xw", ga.gradients([var["y1"], loss], [var["x"], var["w"]], [var["g1"], None]), strict=True))
    if api.startswith("gradients("):
        labels = list(case.doc["grads"])
        return dict(zip(labels, ga.gradients(loss, [var[label] for label in labels]), strict=True))
    assert api == "append_backward"
    return _appended(case, loss, var, set(call.get("no_grad_set") or ()))


def _appended(case: Case, loss: ga.Variable, var: Mapping[str, ga.Variable], no_grad: set[str]) -> dict[str, ga.Variable | None]:
    """The gradients of parameters that are returned, and of other variables by their names."""
    found = {p.name: g for p, g in ga.append_backward(loss, no_grad_set=no_grad or None)}
    block = loss.block
    for label, v in var.items():
        if label not in found and block.has_var(v.name + "@GRAD"):
            found[label] = block.var(v.name + "@GRAD")
    return {label: found.get(label) for label in case.doc["grads"]}


def assert_gradients(program: ga.Program, case: Case, found: Mapping[str, ga.Variable | None]) -> None:
    """The gradients are what the case expects; one that is not there has to be zero."""
    for label, expected in case.group("expect").items():
        variable = found.get(label)
        if variable is None:
            assert not np.any(expected), f"no gradient for {label}, which is not zero"
        else:
            close(run(program, case, [variable])[0], expected)
