"""Paddle's gradients of gradients: they are slopes of what the grad operator gives, on arrays and in programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.interop.report import refusals
from graphad.ops import GRAD, REGISTRY, DoubleGradOpDef, lookup
from graphad.ops.double_gradients import TripleGradOpDef
from graphad.ops.sample import uniform
from graphad.testing.samples import samples_of
from graphad.types import Array

STEP = 1e-6
Values = dict[str, Array]
ROWS = [definition for definition in REGISTRY.values() if isinstance(definition, DoubleGradOpDef)]
TRIPLES = [definition for definition in REGISTRY.values() if isinstance(definition, TripleGradOpDef)]
OWN = {
    "DOutNew": "Out",
    **{f"{slot}{GRAD}": slot for slot in ("X", "Y", "Out", "Input", "Filter")},
}


class Given:
    """A grad operator's inputs, drawn, and cotangents for what it gives."""

    def __init__(self, definition: DoubleGradOpDef) -> None:
        assert definition.of is not None
        sample = next(
            s for s in samples_of(definition.of.type) if all(isinstance(v, np.ndarray) and v.dtype.kind == "f" for v in s.inputs.values())
        )
        self.definition, self.of, self.attrs = definition, definition.of, dict(sample.attrs)
        self.result = next(iter(definition.of.outputs))
        left_out = {"Bias"} - {definition.spelled(slot).removeprefix("DD") for slot in definition.inputs}
        slots = definition.of.inputs.keys() - left_out
        forward = {s: np.abs(np.asarray(v)) + 0.3 for s, v in sample.inputs.items() if s in slots}
        outputs = self.of.run({s: [v] for s, v in forward.items()}, self.attrs, list(definition.of.outputs))
        kept = {s: v[0] for s, v in outputs.items() if s in map(definition.spelled, definition.inputs) and s != self.result}
        out = outputs[self.result][0]
        self.values: Values = {**forward, **kept, self.result: out, f"D{self.result}": uniform(*out.shape, seed=1)}
        spelled = {definition.spelled(slot) for slot in definition.inputs}
        self.starts = {s: uniform(*v.shape, seed=2) for s, v in forward.items() if f"DD{s}" in spelled}

    def first(self, values: Values) -> Values:
        """The results of the grad operator; where the forward result is none of the inputs, it is that of X."""
        known = dict(values)
        if self.result not in self.definition.inputs and all(s in known for s in self.starts):
            outputs = self.of.run({s: [known[s]] for s in self.of.inputs if s in known}, self.attrs, list(self.of.outputs))
            known[self.result] = outputs[self.result][0]
        assert self.of.grad is not None
        inputs = {s: [known[s]] for s in self.of.grad.inputs if s in known} | {self.result + GRAD: [values[f"D{self.result}"]]}
        found = self.of.grad.meaning(inputs, self.attrs, [s + GRAD for s in self.starts])
        return {s: np.asarray(found[s + GRAD][0]) for s in self.starts}

    def slots(self, later: bool) -> dict[str, list[Array]]:
        """The operator's inputs, spelled as from Paddle 2.4 on, or as before; empty if it has no such spelling."""
        seconds = {f"DD{s}": v for s, v in self.starts.items()}
        firsts = {f"D{s}": v for s, v in self.first(self.values).items()}
        known = {**firsts, **self.values, **seconds}
        names = [
            s for s in self.definition.inputs if (self.definition.spelled(s) == s) is not later or s in self.of.inputs or s == self.result
        ]
        there = {self.definition.spelled(s) for s in names}
        return {s: [known[self.definition.spelled(s)]] for s in names} if there >= set(self.definition.needed) else {}

    def of_what(self, slot: str) -> str:
        """The value that an output of the operator is the cotangent of."""
        slot = self.definition.spelled(slot)
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


SPELLINGS = [(row, later) for row in ROWS for later in (False, True) if Given(row).slots(later)]


def test_all_have_a_spelling() -> None:
    assert {row.type for row, _ in SPELLINGS} == {row.type for row in ROWS}
    assert {later for row, later in SPELLINGS if row.type in ("tanh_grad_grad", "matmul_v2_grad_grad")} == {False, True}
    with pytest.raises(ga.errors.InvalidValue, match="tanh_grad_grad': input slot 'DOut' is missing"):
        lookup("tanh_grad_grad").infer_types({"Out": [ga.types.TensorType((2,), "float64")]}, {})


@pytest.mark.parametrize(("row", "later"), SPELLINGS, ids=lambda each: each.type if isinstance(each, DoubleGradOpDef) else "")
def test_they_are_slopes_of_the_gradients(row: DoubleGradOpDef, later: bool) -> None:
    given = Given(row)
    slots = given.slots(later)
    found = row.run(slots, given.attrs, list(row.outputs))
    types = row.infer_types({s: [ga.types.TensorType(v[0].shape, v[0].dtype.name)] for s, v in slots.items()}, given.attrs)
    for slot, (cotangent,) in found.items():
        name = given.of_what(slot)
        assert (cotangent.shape, cotangent.dtype.name) == types[slot][0] == (given.values[name].shape, "float64")
        direction = uniform(*given.values[name].shape, seed=3)
        assert float(np.sum(cotangent * direction)) == pytest.approx(given.slope(name, direction), rel=1e-6, abs=1e-7), slot


@pytest.mark.parametrize("op_type", ["instance_norm_grad_grad", "instance_norm_double_grad"])
def test_an_operand_that_is_left_out_is_not_taken_for_another(op_type: str) -> None:
    """Without Scale it counts as ones."""
    row = lookup(op_type)
    assert isinstance(row, DoubleGradOpDef)
    given = Given(row)
    slots = given.slots(later=op_type.endswith("double_grad"))
    ones = {slot: [np.ones_like(slots[slot][0])] for slot in slots if row.spelled(slot) == "Scale"}
    assert ones
    slots = {slot: values for slot, values in slots.items() if row.spelled(slot) not in ("DDScale", "DDBias")}
    wanted = [slot for slot in row.outputs if row.spelled(slot) != "DScale"]
    expected = row.run({**slots, **ones}, given.attrs, wanted)
    found = row.run({slot: values for slot, values in slots.items() if slot not in ones}, given.attrs, wanted)
    for slot in wanted:
        np.testing.assert_allclose(found[slot][0], expected[slot][0], rtol=1e-12)


@pytest.mark.parametrize("row", TRIPLES, ids=lambda row: row.type)
def test_triple_gradients_are_slopes_of_double_gradients(row: TripleGradOpDef) -> None:
    assert row.of is not None
    attrs = {"factor": 3.0} if row.type == "pow_triple_grad" else {}
    values = {name: np.abs(uniform(3, 3, seed=i)) + 0.3 for i, name in enumerate(row.reads.values())}
    starts = {name: uniform(3, 3, seed=7 + i) for i, name in enumerate(row.starts.values())}
    slots = {s: [values[n]] for s, n in row.reads.items()} | {s: [starts[n]] for s, n in row.starts.items()}
    found = row.run(slots, attrs, list(row.outputs))
    absent = {name: np.zeros((3, 3)) for name in row.of.needed if name not in values}
    for slot, (cotangent,) in found.items():
        of, direction = row.writes[slot], uniform(3, 3, seed=11)

        def weighted(sign: int, of: str = of, direction: Array = direction) -> float:
            there = {n: [v + sign * STEP * direction if n == of else v] for n, v in {**absent, **values}.items()}
            second = row.of.meaning(there, attrs, list(starts))  # type: ignore[union-attr]
            return sum(float(np.sum(second[n][0] * start)) for n, start in starts.items())

        slope = (weighted(1) - weighted(-1)) / (2 * STEP)
        assert float(np.sum(cotangent * direction)) == pytest.approx(slope, rel=1e-6, abs=1e-7), slot


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


@pytest.mark.parametrize("op_type", ["layer_norm_grad_grad", "group_norm_double_grad"])
def test_other_gradients_of_paddle_are_refused_with_what_to_do(op_type: str) -> None:
    main = ga.Program.parse(f"program {{ block 0 {{ var x: float64[2] var y: float64[2] {op_type}(X=x) -> (Y=y) }} }}")
    with pytest.raises(ga.errors.ExecutionError, match="read the program without its backward, and call append_backward"):
        ga.Executor().run(main, {"x": np.ones(2)}, ["y"])


def test_what_is_linear_is_done_again() -> None:
    x = uniform(1, 2, 4, 4)
    window = {"ksize": [2, 2], "strides": [2, 2], "paddings": [0, 0], "pooling_type": "avg"}
    found = lookup("pool2d_double_grad").run({f"grad_x{GRAD}": [x]}, window, [f"grad_out{GRAD}"])
    np.testing.assert_array_equal(found[f"grad_out{GRAD}"][0], lookup("pool2d")(x, **window))
    with pytest.raises(ga.errors.InvalidValue, match="pooling_type is 'max'"):
        lookup("pool2d_double_grad").run({f"grad_x{GRAD}": [x]}, {**window, "pooling_type": "max"}, [])
    around = {"paddings": [1, 0, 0, 1, 0, 0], "value": 5.0}
    wide = uniform(1, 2, 3, 3, 3)
    found = lookup("pad3d_double_grad").run({f"grad_x{GRAD}": [wide]}, around, [f"grad_out{GRAD}"])
    np.testing.assert_array_equal(found[f"grad_out{GRAD}"][0], lookup("pad3d")(wide, **{**around, "value": 0.0}))


@pytest.mark.parametrize(("op_type", "left_out"), [("celu", "Out"), ("instance_norm", "Bias")])
def test_paddle_leaves_out_what_can_be_computed(op_type: str, left_out: str) -> None:
    """The slots of ``celu_grad`` and ``instance_norm_grad`` in programs that Paddle 2.6 has made."""
    definition = lookup(op_type)
    shape = (2, 2, 3)
    slots = {"X": [uniform(*shape)]} if op_type == "celu" else {"X": [uniform(*shape)], "Scale": [uniform(2)], "Bias": [uniform(2)]}
    results = definition.run(slots, {}, list(definition.outputs))
    cotangent = {f"{next(iter(definition.outputs))}{GRAD}": [uniform(*shape, seed=1)]}
    grad = definition.grad
    assert grad is not None
    known = {slot: values for slot, values in {**slots, **results, **cotangent}.items() if slot in grad.inputs}
    fewer = {slot: values for slot, values in known.items() if slot != left_out}
    assert known.keys() != fewer.keys()
    expected, found = (grad.run(each, {}, list(grad.outputs)) for each in (known, fewer))
    for slot, values in expected.items():
        np.testing.assert_allclose(found[slot][0], values[0], rtol=1e-12)
