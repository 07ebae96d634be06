"""The flat conformance cases: forward values and gradients to 1e-7 of the largest entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.conformance.loading import Array, Case, is_flat, load, names, program_of

CASES = [case for case in map(load, names()) if is_flat(case) and case.doc.get("call")]
OPTIMIZERS = [case for case in map(load, names()) if case.name.startswith("opt_")]


def run(program: ga.Program, case: Case, fetch: list[Any]) -> list[Array]:
    scope = ga.Scope()
    for name, value in case.group("param").items():
        scope.set(name, value)
    return ga.Executor().run(program, feed=case.group("feed"), fetch_list=fetch, scope=scope)


def close(got: Array, expected: Array, tolerance: float = 1e-7) -> None:
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * max(float(np.max(np.abs(expected), initial=0.0)), 1e-30))


def variables(program: ga.Program, case: Case) -> dict[str, ga.Variable]:
    """The variables that labels stand for: leaves by name, taps by the reference's name."""
    block = program.global_block()
    taps = {label: block.var(name) for label, name in case.doc["taps"].items() if block.has_var(name)}
    return taps | {name: var for name, var in block.vars.items() if name in case.doc["feeds"] or name in case.doc["params"]}


def differentiated(program: ga.Program, case: Case) -> dict[str, ga.Variable | None]:
    """Call what the case calls; the gradient variable of each label."""
    call, var = case.doc["call"], variables(program, case)
    loss = program.global_block().var(case.doc["loss"])
    api = call["api"]
    if api.startswith("append_backward(loss1)"):
        ga.append_backward(var["loss1"])
        return {p.name: g for p, g in ga.append_backward(loss)}
    if api.startswith("g = gradients"):
        (g,) = ga.gradients(loss, [var["x"]])
        assert g is not None
        return {"x": ga.gradients(g, [var["x"]])[0]}
    if api.startswith("gradients([y1, y2]"):
        return dict(zip("xw", ga.gradients([var["y1"], loss], [var["x"], var["w"]], [var["g1"], None]), strict=True))
    if api.startswith("gradients("):
        labels = list(case.doc["grads"])
        return dict(zip(labels, ga.gradients(loss, [var[label] for label in labels]), strict=True))
    assert api == "append_backward"
    pairs = ga.append_backward(loss, no_grad_set=set(call.get("no_grad_set") or ()) or None)
    block = program.global_block()
    found = {p.name: g for p, g in pairs}
    for label, v in var.items():
        if label not in found and block.has_var(v.name + "@GRAD"):
            found[label] = block.var(v.name + "@GRAD")
    return {label: found.get(label) for label in case.doc["grads"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_forward_values(case: Case) -> None:
    program = program_of(case.doc["forward"])
    written = [n for op in program.global_block().ops for n in op.output_names()]
    once = {n: v for n, v in case.group("forward").items() if written.count(n) == 1}
    for expected, got in zip(once.values(), run(program, case, list(once)), strict=True):
        if expected.dtype.kind == "f":
            close(got, expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gradients(case: Case) -> None:
    program = program_of(case.doc["forward"])
    found = differentiated(program, case)
    for label, expected in case.group("expect").items():
        variable = found.get(label)
        if variable is None:
            assert not np.any(expected), f"no gradient for {label}, which is not zero"
            continue
        (got,) = run(program, case, [variable])
        assert got.shape == expected.shape
        close(got, expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lower_and_schedule_give_the_program_back(case: Case) -> None:
    program = program_of(case.doc["forward"])
    assert str(ga.schedule(ga.lower(program))) == str(program)
    assert str(ga.Program.parse(str(program))) == str(program)
