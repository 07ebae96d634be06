"""Paddle's gradients of gradients: they are slopes of what the grad operator gives, on arrays and in programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.interop.report import refusals
from graphad.ops import GRAD, REGISTRY, DoubleGradOpDef
from graphad.ops.sample import uniform
from graphad.testing.samples import samples_of
from graphad.types import Array

STEP = 1e-6
Values = dict[str, Array]
ROWS = [definition for definition in REGISTRY.values() if isinstance(definition, DoubleGradOpDef)]
OWN = {"DOutNew": "Out", f"X{GRAD}": "X", f"Y{GRAD}": "Y"}  # of what an output is the cotangent, where the name says it otherwise


class Given:
    """A grad operator's inputs, drawn, and cotangents for what it gives."""

    def __init__(self, definition: DoubleGradOpDef) -> None:
        assert definition.of is not None
        sample = next(
            s for s in samples_of(definition.of.type) if all(isinstance(v, np.ndarray) and v.dtype.kind == "f" for v in s.inputs.values())
        )
        self.definition, self.of, self.attrs = definition, definition.of, dict(sample.attrs)
        self.result = next(iter(definition.of.outputs))
        forward = {s: np.abs(np.asarray(v)) + 0.3 for s, v in sample.inputs.items() if s in definition.of.inputs and s != "Bias"}
        out = self.of.run({s: [v] for s, v in forward.items()}, self.attrs, list(definition.of.outputs))[self.result][0]
        self.values: Values = {**forward, self.result: out, f"D{self.result}": uniform(*out.shape, seed=1)}
        self.starts = {s: uniform(*v.shape, seed=2) for s, v in forward.items() if f"DD{s}" in definition.inputs}

    def first(self, values: Values) -> Values:
        """What the grad operator gives; where the result is none of the inputs, it is that of X."""
        known = dict(values)
        if self.result not in self.definition.inputs and all(s in known for s in self.starts):
            outputs = self.of.run({s: [known[s]] for s in self.of.inputs if s in known}, self.attrs, list(self.of.outputs))
            known[self.result] = outputs[self.result][0]
        assert self.of.grad is not None
        inputs = {s: [known[s]] for s in self.of.grad.inputs if s in known} | {self.result + GRAD: [values[f"D{self.result}"]]}
        found = self.of.grad.meaning(inputs, self.attrs, [s + GRAD for s in self.starts])
        return {s: np.asarray(found[s + GRAD][0]) for s in self.starts}

    def slots(self) -> dict[str, list[Array]]:
        """The operator's inputs."""
        seconds = {f"DD{s}": v for s, v in self.starts.items()}
        firsts = {f"D{s}": v for s, v in self.first(self.values).items()}
        return {s: [{**firsts, **self.values, **seconds}[s]] for s in self.definition.inputs}

    def of_what(self, slot: str) -> str:
        """The value that an output of the operator is the cotangent of."""
        if slot == f"DD{self.result}":
            return f"D{self.result}"
        return OWN.get(slot, slot.removeprefix("D"))

    def slope(self, name: str, direction: Array) -> float:
        """Along a direction, of the sum of what the grad operator gives, weighted with the starts."""
        sums = []
        for sign in (1, -1):
            there = self.first({**self.values, name: self.values[name] + sign * STEP * direction})
            sums.append(sum(float(np.sum(there[s] * start)) for s, start in self.starts.items()))
        return (sums[0] - sums[1]) / (2 * STEP)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.type)
def test_they_are_slopes_of_the_gradients(row: DoubleGradOpDef) -> None:
    given = Given(row)
    slots = given.slots()
    found = row.run(slots, given.attrs, list(row.outputs))
    types = row.infer_types({s: [ga.types.TensorType(v[0].shape, v[0].dtype.name)] for s, v in slots.items()}, given.attrs)
    for slot, (cotangent,) in found.items():
        name = given.of_what(slot)
        assert (cotangent.shape, cotangent.dtype.name) == types[slot][0] == (given.values[name].shape, "float64")
        direction = uniform(*given.values[name].shape, seed=3)
        assert float(np.sum(cotangent * direction)) == pytest.approx(given.slope(name, direction), rel=1e-6, abs=1e-7), slot


def program(rows: str) -> ga.Program:
    names = ["x", "y", "dout", "ddx", "ddy", "dx", "dy", "ddout"]
    return ga.Program.parse("program { block 0 { " + " ".join(f"var {n}: float64[2, 3]" for n in names) + f" {rows} }} }}")


MUL = "elementwise_mul_grad_grad(X=x, Y=y, DOut=dout, DDX=ddx, DDY=ddy) -> (DX=dx, DY=dy, DDOut=ddout)"


def test_a_program_of_paddle_with_them_runs_and_can_be_differentiated() -> None:
    main = program(MUL)
    assert not refusals(main)
    feeds = {n: uniform(2, 3, seed=i) for i, n in enumerate(["x", "y", "dout", "ddx", "ddy"])}
    block = main.global_block()
    third = ga.gradients(block.var("ddout"), block.var("x"))
    dx, dy, ddout, of_x = ga.Executor().run(main, feeds, ["dx", "dy", "ddout", *third])
    np.testing.assert_allclose(dx, feeds["dout"] * feeds["ddy"])
    np.testing.assert_allclose(dy, feeds["dout"] * feeds["ddx"])
    np.testing.assert_allclose(ddout, feeds["ddx"] * feeds["y"] + feeds["x"] * feeds["ddy"])
    np.testing.assert_allclose(of_x, feeds["ddy"])


def test_what_is_left_out_counts_as_zeros() -> None:
    main = program("elementwise_add_grad_grad(Y=y, DOut=dout, DDY=ddy) -> (DDOut=ddout)")
    feeds: dict[str, Any] = {"y": np.ones((2, 3)), "dout": np.ones((2, 3)), "ddy": uniform(2, 3)}
    (ddout,) = ga.Executor().run(main, feeds, ["ddout"])
    np.testing.assert_array_equal(ddout, feeds["ddy"])


@pytest.mark.parametrize("op_type", ["tanh_triple_grad", "batch_norm_grad_grad"])
def test_other_gradients_of_paddle_are_refused_with_what_to_do(op_type: str) -> None:
    main = ga.Program.parse(f"program {{ block 0 {{ var x: float64[2] var y: float64[2] {op_type}(X=x) -> (Y=y) }} }}")
    with pytest.raises(ga.errors.ExecutionError, match="read the program without its backward, and call append_backward"):
        ga.Executor().run(main, {"x": np.ones(2)}, ["y"])
